"""Files of coordinates, counts of visits, days, points and words."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nextloc_metrics.core.queries.arrays import join
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.cells import integers_of, is_text, plain
from nextloc_metrics.report.files.opening import FilePart, RowSource, find_files, pa, pc
from nextloc_metrics.report.files.sources import Files, load_array

#: Reads a column of a part, by its name, to an array.
ColumnReader: TypeAlias = Callable[[FilePart, str], Any]


def read_counts(path: Path) -> Any:
    """Read the visits of each id, int64 `[C]`."""
    if path.suffix == ".npy":
        return load_array(path)
    lines = _read_text(path).split()
    wrong = next((line for line in lines if not _is_count(line)), None)
    if wrong is not None or not lines:
        raise ValueError(
            f"{path} must hold one integer per line, from 0 to 2^63 - 1, got {short(wrong)}."
        )
    return np.array(lines, dtype=np.int64)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 2**63


def read_words(vocabulary: Path | None) -> list[str] | None:
    """Read the text of each id, one per line."""
    if vocabulary is None:
        return None
    lines = re.split("\r?\n", _read_text(vocabulary))
    return lines if lines[-1] else lines[:-1]


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8, and is not: {error}.") from error


def read_coordinates(path: Path) -> list[Any]:
    """Read latitude and longitude of each id; no value is NaN, of an id that is no location."""
    if path.suffix == ".npy":
        table = load_array(path)
        if table.ndim != 2 or table.shape[1] != 2:
            raise ValueError(
                f"{path} must hold latitude and longitude, [C, 2], got {short(table)}."
            )
        return list(table.T)

    reader = partial(read_numbers, may_miss=True)
    found = read_columns(Files(find_files(path)), [("latitude", reader), ("longitude", reader)])
    latitude, longitude = found.values
    if not len(latitude):
        raise ValueError(f"{path} must hold at least one location, got no rows.")
    if len(half := np.flatnonzero(np.isnan(latitude) != np.isnan(longitude))):
        raise ValueError(
            f"{found.place(half[0])} must have both `latitude` and `longitude`, or neither."
        )
    return [latitude, longitude]


def read_days(rows: Any, user: str, day: str, slot: str, x: str, y: str) -> Any:
    """Read a file of rows, a table with these columns.

    Anything but a path is returned unchanged.
    """
    if not isinstance(rows, str | os.PathLike):
        return rows
    source = Files(find_files(rows))
    readers = {user: read_names, **dict.fromkeys((day, slot, x, y), read_numbers)}
    found = _read_columns(source, readers)
    return {**found, user: _integers(found[user])} if source.untyped else found


def _integers(names: Any) -> Any:
    """Return names as integers where all are, so that CSV has those of other files."""
    if names.dtype != object:
        return names
    numbers, wrong = integers_of(pa.array(names, "string"))
    return names if wrong is not None else numbers


@dataclass
class Columns:
    """Columns of all rows of a table, and the parts that had the rows."""

    values: list[Any]
    parts: list[FilePart]

    def place(self, row: int) -> str:
        """Return where a row stood, for messages."""
        for part in self.parts:
            if row < len(part.rows):
                break
            row -= len(part.rows)
        return part.place(row)


def read_columns(source: RowSource, readers: Sequence[tuple[str, ColumnReader]]) -> Columns:
    """Return whole columns, each read by its reader."""
    found, parts = [], []
    for part in source.parts(list(dict.fromkeys(name for name, _ in readers))):
        if len(part.rows):  # without rows, the types of columns mean nothing
            found.append([read(part, name) for name, read in readers])
            parts.append(part._replace(columns={}))
    values = [join(column) for column in zip(*found, strict=True)]
    return Columns(values or [np.zeros(0) for _ in readers], parts)


def _read_columns(source: RowSource, readers: Mapping[str, ColumnReader]) -> dict[str, Any]:
    return dict(zip(readers, read_columns(source, [*readers.items()]).values, strict=True))


def read_names(part: FilePart, name: str) -> Any:
    """Return integers, or text as objects; dates are text."""
    column = _arrow(part, name)
    types = pa.types
    if types.is_integer(column.type) and not types.is_uint64(column.type):
        return column.to_numpy(zero_copy_only=False).astype(np.int64)
    if types.is_floating(column.type):
        try:
            return column.cast(pa.int64()).to_numpy(zero_copy_only=False)  # whole ones are integers
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"column `{name}` must be integers or text, got {column.type} with a fraction in "
                f"{part.file}; cast it."
            ) from error
    text = column.cast(pa.string()).dictionary_encode()  # a name that comes again is one object
    names = text.dictionary.to_numpy(zero_copy_only=False).astype(object)
    codes = text.indices.to_numpy(zero_copy_only=False)
    _refuse_missing(part, name, (names == "")[codes])
    return names[codes]


def read_numbers(part: FilePart, name: str, may_miss: bool = False) -> Any:
    """Return float64 numbers; a missing one is an error, or NaN with `may_miss`."""
    column = _arrow(part, name, may_miss)
    if is_text(column.type):
        column = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(column, ""), "nan", column)
    if pa.types.is_temporal(column.type):
        raise ValueError(f"column `{name}` must be numbers, got dates in {part.file}.")
    try:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        row = next(row for row in range(len(column)) if not _is_number(column[row]))
        raise ValueError(
            f"column `{name}` must be numbers, got {short(column[row].as_py())} in "
            f"{part.place(row)}."
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise ValueError(
            f"column `{name}` must be numbers, got {column.type} in {part.file}."
        ) from error
    if not may_miss:
        _refuse_missing(part, name, np.isnan(numbers))
    return numbers


def _is_number(cell: Any) -> bool:
    try:
        cell.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _arrow(part: FilePart, name: str, may_miss: bool = False) -> Any:
    """Return a column as an Arrow array, without missing values unless `may_miss`."""
    column = plain(part.columns[name])
    if not may_miss:
        _refuse_missing(part, name, column.is_null().to_numpy(zero_copy_only=False))
    return column


def _refuse_missing(part: FilePart, name: str, missing: Any) -> None:
    if missing.any():
        raise ValueError(
            f"column `{name}` must have no missing value, got one in "
            f"{part.place(int(missing.argmax()))}; drop the row."
        )
