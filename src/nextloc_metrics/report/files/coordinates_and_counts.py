"""Files of coordinates, counts of visits, days, points and words."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nextloc_metrics.core.queries.arrays import join
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.array_files import load_array
from nextloc_metrics.report.files.cells import as_numpy, integers_of, is_text, plain
from nextloc_metrics.report.files.opening import FilePart, find_files, pa, pc
from nextloc_metrics.report.files.sources import Files


def read_counts(path: Path) -> Any:
    """Read the visits of each id, int64 `[C]`."""
    if path.suffix == ".npy":
        return load_array(path)
    lines = _read_text(path).split()
    wrong = next((x for x in lines if not re.fullmatch("[0-9]{1,19}", x) or int(x) >> 63), None)
    if wrong is not None or not lines:
        raise ValueError(
            f"{path} must hold one integer per line, from 0 to 2^63 - 1, got {short(wrong)}."
        )
    return np.array(lines, dtype=np.int64)


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
    """Read latitude and longitude of each id; both are NaN for an id that is no location."""
    if path.suffix == ".npy":
        table = load_array(path)
        if table.ndim != 2 or table.shape[1] != 2:
            raise ValueError(
                f"{path} must hold latitude and longitude, [C, 2], got {short(table)}."
            )
        return list(table.T)

    names = ["latitude", "longitude"]
    parts = [part for part in Files(find_files(path)).parts(names) if len(part.rows)]
    degrees = [[_numbers(part, name, may_miss=True) for name in names] for part in parts]
    for part, (latitude, longitude) in zip(parts, degrees, strict=True):
        if (half := np.isnan(latitude) != np.isnan(longitude)).any():
            place = part.place(int(half.argmax()))
            raise ValueError(f"{place} must have both `latitude` and `longitude`, or neither.")
    if not parts:
        raise ValueError(f"{path} must hold at least one location, got no rows.")
    return [join(column) for column in zip(*degrees, strict=True)]


def read_days(rows: Any, user: str, day: str, slot: str, x: str, y: str) -> Any:
    """Read a file with a table of these columns; anything but a path is returned unchanged."""
    if not isinstance(rows, str | os.PathLike):
        return rows
    source = Files(find_files(rows))
    readers: dict[str, Callable[[FilePart, str], Any]] = {user: _names}
    readers |= dict.fromkeys((day, slot, x, y), _numbers)
    parts = [
        [read(part, name) for name, read in readers.items()]
        for part in source.parts([*readers])
        if len(part.rows)  # without rows, the types of columns mean nothing
    ]
    columns = [join(column) for column in zip(*parts, strict=True)] or [np.zeros(0)] * len(readers)
    days = dict(zip(readers, columns, strict=True))
    if source.untyped and days[user].dtype == object:  # integers if all users are some
        numbers, wrong = integers_of(pa.array(days[user], "string"))
        days |= {} if wrong.any() else {user: numbers}
    return days


def _names(part: FilePart, name: str) -> Any:
    """Return integers, or text as objects; dates are text."""
    column = plain(part.columns[name])
    _refuse_missing(part, name, as_numpy(column.is_null()))
    types = pa.types
    if types.is_integer(column.type) and not types.is_uint64(column.type):
        return as_numpy(column).astype(np.int64)
    if types.is_floating(column.type):
        try:
            return as_numpy(column.cast(pa.int64()))  # whole numbers are integers
        except pa.ArrowInvalid as error:
            rule = f"integers or text, got {column.type} with a fraction in {part.file}; cast it"
            raise ValueError(f"column `{name}` must be {rule}.") from error
    text = column.cast(pa.string()).dictionary_encode()  # equal names are one object
    names = as_numpy(text.dictionary).astype(object)[as_numpy(text.indices)]
    _refuse_missing(part, name, names == "")
    return names


def _numbers(part: FilePart, name: str, may_miss: bool = False) -> Any:
    """Return float64 numbers; a missing one is an error, or NaN with `may_miss`."""
    column = plain(part.columns[name])
    if is_text(column.type):
        column = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(column, ""), "nan", column)
    try:
        numbers = as_numpy(column.cast(pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        got, place = str(column.type), part.file
        for row in range(len(column)) if isinstance(error, pa.ArrowInvalid) else ():
            try:
                column[row].cast(pa.float64())
            except pa.ArrowInvalid:  # noqa: PERF203 - it ends the loop
                got, place = short(column[row].as_py()), part.place(row)
                break
        raise ValueError(f"column `{name}` must be numbers, got {got} in {place}.") from error
    if not may_miss:
        _refuse_missing(part, name, np.isnan(numbers))
    return numbers


def _refuse_missing(part: FilePart, name: str, missing: Any) -> None:
    if missing.any():
        raise ValueError(
            f"column `{name}` must have no missing value, got one in "
            f"{part.place(int(missing.argmax()))}; drop the row."
        )
