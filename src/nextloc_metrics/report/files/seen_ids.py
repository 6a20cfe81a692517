"""Facts that only all rows tell: whether targets are names, and whether answers hit them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from nextloc_metrics.core.queries.keys import LIMIT
from nextloc_metrics.core.queries.messages import as_column, clip, short, wrong_cell
from nextloc_metrics.report.files.cells import (
    SEVERAL,
    ZEROS,
    CellReading,
    Cells,
    keys_of_arrow,
    names_in,
    remedy,
)
from nextloc_metrics.report.files.opening import FilePart, pa, pc, place

#: what to do about an answer with a name among integers
AS_MISSES = "count names as misses with `on_error='miss'`"
# If no target is in this many lists, that is no accident.
_MANY = 10


def cells_with_names(
    part: FilePart, column: str, cells: Cells, reading: CellReading
) -> Iterator[tuple[tuple[str, int, Any], list[str]]]:
    """Yield file, row and value of each cell with names, ids that are no integers; and these."""
    for row in np.unique(cells.rows[cells.values >= LIMIT]):
        cell = part.columns[column][int(row)].as_py()
        if names := names_in(cell, reading):
            yield (part.file, part.rows[row], cell), names


@dataclass(eq=False)
class SeenIds:
    """The facts about ids that are noted until all rows are read.

    Attributes:
        preds, target: the names of the columns.
        has_integers: whether a target is an integer, and `has_names` whether one is a name.
        several: the file, row and cell of the first target of several numbers, such as `3,4`.
        answer: the column, file, row and cell of the first answer, or excluded ids, with a name,
            and the remedy.
        is_met: whether an id of a list is a target.
        lists: the number of lists with an id, counted until `is_met`.
        example: the first answer and target, for messages.
        texts: the text of each id with zeros in front, by its key, and maybe of others.
    """

    preds: str
    target: str
    has_integers: bool = False
    has_names: bool = False
    several: tuple[str, int, Any] | None = None
    answer: tuple[str, str, int, Any, str] | None = None
    is_met: bool = False
    lists: int = 0
    example: str = ""
    texts: dict[int, str] = field(default_factory=dict)
    _preds: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    _targets: Any = field(default_factory=lambda: np.zeros(0, np.int64))

    def look_for_names(self, piece: FilePart, cells: Cells, reading: CellReading) -> None:
        """Note names among the targets of some rows."""
        keys = cells.values[cells.values >= 0]
        self.has_integers |= bool((keys < LIMIT).any())
        if self.has_names:
            return
        for where, names in cells_with_names(piece, self.target, cells, reading):
            if not all(map(SEVERAL.fullmatch, names)):
                self.has_names = True
                break
            self.several = self.several or where

    def look_for_answers(
        self, piece: FilePart, name: str, cells: Cells, reading: CellReading
    ) -> None:
        """Note the first answer, or excluded ids, with a name."""
        if self.answer is not None or self.has_names:
            return
        for where, _ in cells_with_names(piece, name, cells, reading):
            self.note_answer(name, where, reading)
            return

    def note_answer(self, name: str, where: tuple[str, int, Any], reading: CellReading) -> None:
        """Note file, row and cell of the first answer, or excluded ids, with a name."""
        otherwise = AS_MISSES if name == self.preds else "leave names out"
        self.answer = name, *where, remedy(where[2], reading, otherwise)

    def note_ids(self, preds: Tensor, target: Tensor, may_have_zeros: bool) -> None:
        """Note the ids of both sides; without zeros in front, only until one is on both sides."""
        if not len(preds):
            return
        relevant = target.view(len(target), -1)
        if not self.is_met:
            hits = (preds[:, :, None] == relevant[:, None]) & (preds >= 0)[:, :, None]
            self.is_met = bool(hits.any())
            self.lists += int((preds >= 0).any(1).sum()) if not self.is_met else 0
        if may_have_zeros or not self.is_met:
            self._add(preds.flatten().numpy(), relevant.flatten().numpy())

    def _add(self, preds: Any, targets: Any) -> None:
        """Add ids of both sides, and note whether one is on both."""
        self._preds = pc.unique(pa.array(np.concatenate([self._preds, preds]))).to_numpy()
        self._targets = pc.unique(pa.array(np.concatenate([self._targets, targets]))).to_numpy()
        if not self.is_met:
            targets = self._targets[self._targets >= 0]
            self.is_met = bool(np.isin(targets, self._preds).any())

    def merge(self, other: SeenIds) -> None:
        """Add the facts of later rows."""
        self.has_integers |= other.has_integers
        self.has_names |= other.has_names
        self.several, self.answer = self.several or other.several, self.answer or other.answer
        self.is_met |= other.is_met
        self.lists, self.example = self.lists + other.lists, self.example or other.example
        self._add(other._preds, other._targets)
        self.texts |= other.texts

    def check(self) -> None:
        """Raise for names among integers; where a target is a name, names are no error."""
        if self.has_names:
            return
        if self.several is not None and self.has_integers:
            file, row, cell = self.several
            advice, column = remedy(cell, CellReading(untyped=True)), clip(self.target)
            raise wrong_cell(place(file, row), "ids of locations", column, short(cell), advice)
        if self.answer is not None and self.has_integers and self.several is None:
            name, file, row, cell, advice = self.answer
            raise ValueError(
                f"{place(file, row)} must hold ids of locations in {as_column(clip(name))}, "
                f"integers as all targets are, got {short(cell)}; {advice}."
            )

    def warn(self, stacklevel: int) -> None:
        """Warn if ids may be written in two ways: none is met, or one column has lost zeros."""
        zeros = {key: text for key, text in self.texts.items() if ZEROS.fullmatch(text)}
        keys = np.array([*zeros], np.int64)
        integers = keys_of_arrow(
            pa.array([x.lstrip("0") or "0" for x in zeros.values()], pa.string())
        )
        predicted, relevant = (
            [np.isin(x, ids) for x in (keys, integers)] for ids in (self._preds, self._targets)
        )
        for side, other, here, there in (
            ("predictions", "targets", predicted, relevant),
            ("targets", "predictions", relevant, predicted),
        ):
            has_lost = there[0] & ~here[0] & here[1] & ~there[1]
            if has_lost.any():
                id_ = zeros[int(keys[has_lost.argmax()])]
                warnings.warn(
                    f"The {other} have the id {id_!r}, and the {side} have {id_.lstrip('0') or 0}, "
                    f"another id. If the {side} have lost zeros in front, read their table as "
                    "text, such as `pandas.read_csv(path, dtype=str)`.",
                    stacklevel=stacklevel + 1,
                )
                return
        if not self.is_met and self.lists >= _MANY:
            warnings.warn(
                f"No id of {self.lists:,} lists is the target of any query, so that all are "
                "misses. Compare how ids are written in predictions and targets"
                + (f", such as {self.example}." if self.example else "."),
                stacklevel=stacklevel + 1,
            )
