"""Columns of ids in tables that are joined: their cells become keys before SQL sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from nextloc_metrics.core.queries.keys import LIMIT
from nextloc_metrics.core.queries.messages import as_column, clip, short, wrong_cell
from nextloc_metrics.report.files.cells import (
    CellReading,
    Cells,
    as_numpy,
    is_list,
    is_text,
    plain,
    read_cells,
    remedy,
    without_empty,
)
from nextloc_metrics.report.files.columns import MISSING_TARGET, Numbers
from nextloc_metrics.report.files.opening import FilePart, pa, pc, place
from nextloc_metrics.report.files.seen_ids import AS_MISSES, cells_with_names
from nextloc_metrics.report.files.sources import columns_of
from nextloc_metrics.report.files.tables import check_read


@dataclass(eq=False)
class IdColumn:
    """How the ids of one column are read, and what the column is found to hold.

    Attributes:
        reading: how cells are read.
        numbers: which numbers are padding.
        gaps: the remedy for a missing id, for errors; "" where a missing id is an empty list.
        are_lists: whether a cell may be a list; its padding is removed.
        kind: "text" or "integers" where the column has a type.
        example: the first value.
        has_integers: whether an id is an integer.
        name: the file, row and cell of the first id that is a name in a column without a type.
        file, column: the file that was read first, and the name of the column.
    """

    reading: CellReading
    numbers: Numbers
    gaps: str = "leave the row out"
    are_lists: bool = False
    kind: str = ""
    example: str = ""
    has_integers: bool = False
    name: tuple[str, int, Any] | None = None
    file: str = ""
    column: str = ""

    def read(self, part: FilePart, name: str) -> Any:
        """Return the key of each cell, int64, or with `are_lists` its list of keys."""
        cells, valid = self._read(part, name)
        if not self.are_lists:
            self._check(part, name, cells, valid)
            return pa.array(cells.values)
        cells = cells.numbered(*self.numbers.answers(cells.values))
        check_read(part, name, cells.bad & valid, self.reading)
        rows = cells.rows
        missing = ~valid | (~cells.lists & (cells.lengths == 0))
        missing[rows[(cells.values < 0) & ~cells.lists[rows]]] = True
        kept = (cells.values >= 0) & ~missing[rows]
        if self.gaps and missing.any():
            self._refuse(part, name, missing, "a target", self.gaps)
        ends = np.append(0, np.bincount(rows[kept], minlength=len(valid)).cumsum())
        return pa.LargeListArray.from_arrays(ends, cells.values[kept])

    def read_optional(self, part: FilePart, name: str) -> tuple[Any, Any]:
        """Return the key of each cell, int64, and which cells have one."""
        cells, valid = self._read(part, name)
        check_read(part, name, (cells.bad | (cells.lengths > 1)) & valid, self.reading)
        keys, has_key = np.zeros(len(valid), np.int64), cells.lengths == 1
        keys[has_key] = cells.values
        return keys, has_key & valid

    def _read(self, part: FilePart, name: str) -> tuple[Cells, Any]:
        """Return the cells of a column, and which are not missing; note its type and names."""
        column = plain(part.columns[name])
        self.column, self.file = name, self.file or part.file
        self._note_type(column)
        if is_text(column.type) and (self.reading.untyped or self.are_lists):
            column = without_empty(column)
        cells = self._cells(part, name, column)
        is_integer = (cells.values >= 0) & (cells.values < LIMIT)
        self.has_integers |= bool((is_integer & (cells.values != MISSING_TARGET)).any())
        if self.name is None and self.reading.untyped:
            self.name, _ = next(cells_with_names(part, name, cells, self.reading), (None, []))
        return cells, as_numpy(column.is_valid())

    def _cells(self, part: FilePart, name: str, column: Any) -> Cells:
        """Read cells; whole floats are ids too, as pandas writes integers beside gaps so."""
        is_listed = is_list(column.type)
        values = plain(column.flatten()) if is_listed else column
        # text in a column with a type is a name, even if it is written like padding
        reading = self.reading if self.reading.untyped else self.reading._replace(pads=frozenset())
        if not pa.types.is_floating(values.type):
            return read_cells(part, name, reading, column)
        numbers, none = as_numpy(values.cast(pa.float64())), np.zeros(len(column), bool)
        lengths = np.ones(len(column), np.int64)
        if is_listed:
            lengths = as_numpy(pc.list_value_length(column).fill_null(0)).astype(np.int64)
        is_gap = np.isnan(numbers)
        is_whole = (numbers == np.floor(numbers)) & (abs(numbers) < 2**53)
        keys = np.where(is_whole, numbers, 0).astype(np.int64)
        cells = Cells(keys, lengths, none, none | is_listed)
        if (wrong := cells.without(~is_whole & (~is_gap | is_listed)).bad).any():
            remedy = "write ids and keys as integers or as text"
            self._refuse(part, name, wrong, "whole numbers below 2^53", remedy)
        return cells.without(is_gap)

    def _check(self, part: FilePart, name: str, cells: Cells, valid: Any) -> None:
        """Raise for the first row that has no id, or several."""
        if not valid.all():
            self._refuse(part, name, ~valid, "a value", self.gaps)
        check_read(part, name, cells.bad | (cells.lengths != 1), self.reading)
        if (low := cells.values < 0).any():
            self._refuse(part, name, low, "an id from 0 on", self.gaps)

    def _refuse(self, part: FilePart, name: str, wrong: Any, rule: str, remedy: str) -> None:
        row = int(wrong.argmax())
        cell = part.columns[name][row].as_py()
        raise wrong_cell(part.place(row), rule, clip(name), short(cell), remedy)

    def _note_type(self, column: Any) -> None:
        """Note the type of the column, and its first value, once a part has one."""
        if self.kind:
            return
        kind = plain(column.flatten()).type if is_list(column.type) else column.type
        is_missing = column.type == pa.int64() and pc.all(pc.equal(column, MISSING_TARGET)).as_py()
        if not len(column) or self.reading.untyped or pa.types.is_null(kind) or is_missing:
            return
        is_integer = bool(pa.types.is_integer(kind))
        self.kind = "text" if is_text(kind) else "integers" * is_integer
        if not self.example:
            self.example = short(column[0].as_py())

    @property
    def are_names(self) -> bool:
        """Whether ids are text, by the type of the column or by a cell."""
        return self.kind == "text" or self.name is not None


def check_alike(items: IdColumn, targets: IdColumn, on_error: str) -> None:
    """Raise if the ids of one table are text and those of the other integers: none can be equal."""
    if {items.kind, targets.kind} == {"text", "integers"}:
        each = " and ".join(
            f"{x.kind} such as {x.example} in {as_column(x.column)} of {x.file}"
            for x in (items, targets)
        )
        raise ValueError(
            f"both columns must hold text or both integers, got {each}; write both as text, which "
            "keeps zeros in front (`dtype=str`), or both as integers."
        )
    are_integers = targets.has_integers and not targets.are_names
    checked = [(targets, items.kind == "integers")]
    checked += [(items, are_integers)] if on_error == "raise" else []
    for column, is_wrong in checked:
        if column.name is not None and is_wrong:
            file, row, cell = column.name
            rule = "an integer, as in the other column,"
            advice = remedy(cell, column.reading, AS_MISSES)
            raise wrong_cell(place(file, row), rule, clip(column.column), short(cell), advice)


def columns_named(table: Any, preds: str | Sequence[str]) -> list[str]:
    """Return the columns that a list names, or that match a pattern, `pred_10` after `pred_9`."""
    if not isinstance(preds, str):
        return list(preds)
    have = columns_of(table)
    matched = [name for name in have if fnmatchcase(name, preds)]
    if not matched:
        raise ValueError(f"`preds` must match a column, got {short(preds)} for {short(have)}.")
    return sorted(
        matched,
        key=lambda name: [(int(x) if x.isdigit() else 0, x) for x in re.split(r"(\d+)", name)],
    )


def list_of_columns(part: FilePart, columns: Mapping[str, IdColumn]) -> Any:
    """Return lists of the ids in a column per rank; a row may lack only its last ranks."""
    read = [column.read_optional(part, name) for name, column in columns.items()]
    kinds = {column.kind for column in columns.values()} - {""}
    if len(kinds) > 1:
        raise ValueError(
            f"{part.file} must hold ids of one type in {as_column('preds')}, got {sorted(kinds)}."
        )
    keys, valid = (np.stack(x, 1) for x in zip(*read, strict=True))
    early = ~valid[:, :-1] & valid[:, 1:]
    if early.any():
        row, column = (int(x[0]) for x in early.nonzero())
        name = [*columns][column]
        got, advice = short(part.columns[name][row].as_py()), "only the last columns may be empty"
        raise wrong_cell(part.place(row), "an id before the next", clip(name), got, advice)
    ends = np.append(0, valid.sum(1).cumsum())
    return pa.LargeListArray.from_arrays(ends, keys[valid])
