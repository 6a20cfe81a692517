"""Rows of predictions from files, frames and streams, in chunks, so that memory stays small."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.queries.arrays import as_tensor, is_repeat, pad_rows
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.checks import check_choice
from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files.answer_texts import Reader, check_no_answers
from nextloc_metrics.report.files.cells import (
    MISSING,
    PADDING,
    CellReading,
    Cells,
    OnError,
    WrongTypeError,
    are_words,
    as_numpy,
    filtered,
    has_tuples,
    is_list,
    is_text,
    is_written_as_list,
    plain,
    printed,
    read_cells,
    remedy,
)
from nextloc_metrics.report.files.columns import (
    DENSE,
    MISSING_TARGET,
    Numbering,
    arrow_ids,
    cut,
    fill_gaps,
    gaps_of,
    kind_of,
    miss_unmet,
    pad,
    read_confidence,
    read_group,
    read_mask,
    width_of_most,
)
from nextloc_metrics.report.files.opening import FilePart, RowSource, pa, pc
from nextloc_metrics.report.files.roles import Roles, check_rows_are_queries
from nextloc_metrics.report.files.sources import open_table

#: what to do about a query without a target
OF_GAPS = "leave the row out, or count it as a miss with `on_missing='miss'`"
_OF_LABELS = (
    "a target is one id; a label in words needs a column with its id, or is read by the same rule "
    "as the answers, `report.read_answers(labels, ...)`"
)
# Rows that tell what columns hold, and values of lists per chunk.
_SEEN = 1000
_VALUES = 1 << 21

#: the column of the scores of items, beside their lists
SCORES_OF = "\0scores"


class TableRows:
    r"""Rows of a table, read in chunks.

    Integers are read as integers of 64 bits and text as text, byte for byte. A cell of text that
    begins with `[` is a list in JSON or as Python writes it; any other is one id. In CSV a name
    among the targets makes all ids text; 7.0 is 7 in either case. A target of CSV that looks like a
    number written otherwise, or like a missing value, such as `1e3` or `nan`, is refused unless it
    is in `vocabulary`; and so are several numbers, such as `3,4`, beside integers alone.

    Text ids, and integers that are far larger than their number, are numbered: by `vocabulary`, or
    by the targets in rising order, which takes one pass over the targets. An answer that is not
    among them gets a number from `num_locations` on, and is a miss.

    Args:
        source: the rows, or a table or files for `open_table`.
        names: the columns.
        reader: what reads `preds` as answers of a language model; the options are as for
            `report.read`.

    Attributes:
        num_candidates: the number of scores per row; None for lists of ids.
        num_locations: for lists, the number of ids: one more than the largest target, or the size
            of the vocabulary; None for scores.
        has_several: whether a row may have several relevant locations.
        vocabulary: the id of each number, if ids are text or sparse.
        missed: the number of unreadable answers of the chunks so far.
        without_target: the number of missing targets of the chunks so far, if they are misses.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
        >>> lines = ["preds,target", "\"['Zoo', 'Bar']\",Bar", "['Bar'],Cafe (north)", ""]
        >>> _ = path.write_text("\n".join(lines), "utf-8")
        >>> rows = TableRows(path, Roles())
        >>> rows.vocabulary, rows.num_locations
        (('Bar', 'Cafe (north)'), 2)
        >>> [(batch.preds.tolist(), batch.target.tolist()) for batch in rows.chunks()]
        [([[2, 0], [0, -1]], [0, 1])]
    """

    def __init__(
        self,
        source: Any,
        names: Roles,
        padding: int | Sequence[int] = -1,
        vocabulary: Sequence[str | int] | None = None,
        separator: str | None = None,
        on_error: OnError = "raise",
        reader: Reader | None = None,
        on_missing: OnError = "raise",
    ) -> None:
        pads = {-1, *((padding,) if isinstance(padding, int) else padding)}
        self._gaps = gaps_of(pads, on_missing)
        if names.preds == names.target:
            raise ValueError(
                f"`target` must be another column than `preds`, got {names.target!r} for both: all "
                "queries would be hits."
            )
        check_choice("on_error", on_error, OnError)
        check_choice("on_missing", on_missing, OnError)
        self.source = open_table(source, names.all, _holds_of(names, reader is not None))
        self.names, self.on_error = names, on_error
        self.num_rows: int | None = None
        self.missed, self.without_target, self.repeated, self.reader = 0, 0, 0, reader
        seen = self._peek()
        first = next((part for part in seen if len(part.rows)), seen[-1])
        answers, relevant = first.columns[names.preds], first.columns[names.target]
        tuples = not (is_text(relevant.type) and pc.any(has_tuples(plain(relevant))).as_py())
        if reader is None and kind_of(answers) == "text":
            if is_text(answers.type):
                answers = first.columns[names.preds] = printed(plain(answers), tuples)
            check_no_answers(first, names.preds, names.target, separator)
        is_listed = is_list(answers.type) or is_written_as_list(next(iter(answers), ""))
        is_loose = self.source.untyped or vocabulary is not None
        self.num_candidates = None
        if reader is None:
            self.num_candidates = width_of_most(seen, names.preds, separator)
        kind: Any = "integers" if self.source.untyped else kind_of(relevant)
        if vocabulary is not None:
            kind = "text" if any(isinstance(x, str) for x in vocabulary) else "integers"
        may_be_list = self.source.untyped or is_text(answers.type)
        if self._gaps and self.num_candidates:
            raise ValueError(
                "`on_missing` must be 'raise' beside scores, got 'miss': the id of a missing "
                f"target is no candidate; {of_scores(self.num_candidates)}."
            )
        known = frozenset(map(str, vocabulary or ())) if self.source.untyped else None
        self._relevant = CellReading(kind, is_loose, separator, may_be_list, known)
        ids = self._survey(pads, vocabulary is None, relevant)
        self._number(pads, vocabulary, ids)
        kind = self._relevant.kind
        # an answer that looks like a gap is wrong: no target does
        known = None if known is None else known | MISSING
        self._answers = CellReading(kind, is_loose, separator, known=known, tuples=tuples)
        if self.num_candidates is not None:
            self._answers = CellReading("scores", is_loose=self.source.untyped)
        if reader is None and separator is None and not is_listed and self.source is not source:
            check_rows_are_queries(source, names)

    def _number(self, pads: Set[int], vocabulary: Sequence[str | int] | None, ids: Any) -> None:
        """Number ids by the vocabulary, or by the distinct targets if they are text or sparse."""
        kind, size = self._relevant.kind, None
        if vocabulary is not None:
            size = max(1, len(vocabulary))
        elif self.num_candidates is None:
            are_numbered = kind == "text" or ids.max(initial=0) > 4 * len(ids) + DENSE
            vocabulary = ids.tolist() if are_numbered else None
            size = max(1, len(ids)) if are_numbered else int(ids.max(initial=0)) + 1
        elif kind == "text":
            raise ValueError(
                "`vocabulary` must list the ids of text if predictions are scores, got None."
            )
        self.numbers = Numbering(kind, vocabulary, pads)
        self.vocabulary = None if vocabulary is None else tuple(vocabulary)
        self.num_locations = size if self.num_candidates is None else None

    def of_files(self, files: Sequence[str]) -> TableRows:
        """Return the rows of some of the files, with the same numbers of ids."""
        source = copy.copy(self.source)
        source.files = list(files)
        return self.of_source(source)

    def of_source(self, source: RowSource) -> TableRows:
        """Return the rows of another source of the same columns, with the same numbers of ids."""
        rows = self.hashed()
        rows.source, rows.num_rows, rows.missed = source, None, 0
        return rows

    def hashed(self) -> TableRows:
        """Return these rows with numbers of unknown ids that do not depend on the order of rows."""
        rows = copy.copy(self)
        rows.numbers = self.numbers.hashed()
        return rows

    def _peek(self) -> list[FilePart]:
        """Return the first rows, of several files if the first one has few; or a part without."""
        first: list[FilePart] = []
        left = _SEEN
        for part in self._parts(self.names.all):
            first.append(_rows_of(part, slice(left)))
            left -= len(first[-1].rows)
            if not left or (left < _SEEN and len(self.source.files) == 1):
                break
        return first or [self._empty()]

    def _parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the parts of the source; a missing target that counts as a miss has its id."""
        target = self.names.target
        for part in self.source.parts(columns):
            if self._gaps:
                part.columns[target] = fill_gaps(part.columns[target], self._gaps)
            yield part

    @cached_property
    def _missing(self) -> int:
        """The number of the missing target; -2 if there is none."""
        known = self.vocabulary or ()
        return next((i for i, x in enumerate(known) if str(x) == str(MISSING_TARGET)), -2)

    def _empty(self) -> FilePart:
        return FilePart("", (), {name: pa.nulls(0) for name in self.names.all})

    def _survey(self, padding: Set[int], must_number: bool, relevant: Any) -> Any:
        """Read the targets once: their kind, and whether a row has not exactly one.

        Return the distinct ones in rising order, of integers those from 0 on; None if they are not
        read, and none if they are not numbered.
        """
        self.has_several = is_list(relevant.type)
        if self.num_candidates and not is_text(relevant.type) and not self.has_several:
            return None
        kind = self._relevant.kind
        pads, distinct = arrow_ids(kind, padding), arrow_ids(kind, ())
        number, has_several, has_ids, may_be_text = 0, False, False, False
        for part in self._parts([self.names.target]):
            column = part.columns[self.names.target]
            cells = self._read(part, self.names.target, self._relevant)
            are_text: bool | None = False
            if must_number and kind == "integers":
                if self.source.untyped:
                    are_text = are_words(column, cells.bad, self._relevant)
                else:  # lists without an id do not tell what ids are
                    are_text = not has_ids and kind_of(column) == "text"
            if are_text:
                break
            may_be_text |= are_text is None
            number, has_ids = number + len(part.rows), has_ids or len(cells.values) > 0
            ids = arrow_ids(kind, cells.values)
            is_pad = as_numpy(pc.is_in(ids, pads))
            has_several |= bool((cells.lengths[~cells.bad] != 1).any())
            # a list of nothing but padding has no relevant id
            has_several |= bool(is_pad.any() and cells.lists[cells.rows[is_pad]].any())
            if must_number:
                new = filtered(ids, ~is_pad).unique()
                distinct = pa.concat_arrays([distinct, new]).unique()
        else:
            are_text = may_be_text and not has_ids
        if are_text:
            self._relevant = self._relevant._replace(kind="text")
            return self._survey(padding, must_number, relevant)
        self.num_rows, self.has_several = number, has_several
        found = np.sort(as_numpy(distinct))
        return found if kind == "text" else found[found >= 0]

    def chunks(self) -> Iterator[Batch]:
        """Yield the rows in chunks; one without rows, and a warning, if there are none.

        A row that is not readable raises a `ValueError` that names file, row and value.
        """
        return (batch for batch, _ in self.pieces())

    def pieces(self) -> Iterator[tuple[Batch, FilePart]]:
        """Yield chunks, each with the columns it was made of."""
        self.missed, self.without_target, self.repeated, number = 0, 0, 0, 0
        lists = {self.names.preds, self.names.target, self.names.exclude} - {None}
        for part in self._parts(self.names.all):
            number += len(part.rows)
            for of in cut([part.columns[x] for x in lists], _VALUES):
                piece = _rows_of(part, of)
                yield self._batch(piece), piece
        if not number:
            files = ", ".join(self.source.files[:3])
            says = f"{files} should hold rows, got none; all values are NaN."
            warnings.warn(says, stacklevel=3)
            # it has what other chunks have, as their counts are added
            empty = self._empty()
            yield self._batch(empty), empty

    def _batch(self, piece: FilePart) -> Batch:
        names = self.names
        target, are_lists = self._targets(piece)
        if self._gaps:
            self.without_target += int((target == self._missing).sum())
        preds: Any
        absent = scores = None
        if self.reader is not None:
            preds = self.reader.answers(piece, names.preds)
            if self.source.is_joined:  # of a query without an answer, the row is -1
                rows = np.asarray(piece.rows)
                preds = preds.at(np.where(rows < 0, -1, np.arange(len(rows))))
        else:
            cells = self._read(piece, names.preds, self._answers)
            if self.num_candidates is None:
                cells = cells.numbered(*self.numbers.answers(cells.values))
                self._check_swapped(piece, cells, are_lists)
                self._count(piece, cells.bad)
                preds = pad(cells)
                scores = self._scores_of_items(piece, preds)
                if self.names.item is not None:
                    preds, scores = self._once(preds, scores)
            else:
                preds, absent = self._scores(piece, cells)
        groups = {x: read_group(piece, x) for x in self.names.groups}
        batch = Batch(preds, target, groups=groups, absent=absent, scores=scores)
        if names.mask is not None:
            batch.mask = read_mask(piece, names.mask)
        if names.exclude is not None:
            batch.exclude = self._exclude(piece, names.exclude)
        if names.confidence is not None:
            batch.confidence = read_confidence(piece, names.confidence, batch.mask)
        if names.grade is not None:  # in the order of the targets, and padded like them
            batch.grades = torch.zeros(target.shape, dtype=torch.float64)
            if len(piece.rows):
                grades = piece.columns[names.grade].flatten().to_numpy(zero_copy_only=False)
                batch.grades[target >= 0] = torch.from_numpy(grades.copy())
            miss_unmet(batch)
        return batch

    def _scores_of_items(self, piece: FilePart, preds: Tensor) -> Tensor | None:
        """Return the scores of items, float64 in the shape of `preds`; None for other lists."""
        if (column := piece.columns.get(SCORES_OF)) is None:
            return None
        lengths = as_numpy(pc.list_value_length(column)).astype(np.int64)
        values = as_numpy(plain(column.flatten())).astype(np.float64)
        return torch.from_numpy(pad_rows(values, lengths, np.nan, preds.shape[1]))

    def _once(self, preds: Tensor, scores: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Keep each item of a query at its best score; repeated ranks stay, as in lists."""
        in_order = backends.choose(preds).sort(preds)
        if not ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)).any():
            return preds, scores
        repeats = is_repeat(preds)
        self.repeated += int(repeats.sum())
        if scores is None:
            return preds, None
        order = repeats.to(torch.uint8).argsort(dim=1, stable=True)
        return preds.masked_fill(repeats, -1).gather(1, order), scores.gather(1, order)

    def _read(self, part: FilePart, name: str, how: CellReading) -> Cells:
        column = part.columns[name]
        try:
            return read_cells(column, how)
        except WrongTypeError as error:
            raise ValueError(f"`{name}` in {part.file} must hold {error}.") from None

    def _targets(self, piece: FilePart) -> tuple[Tensor, Any]:
        """Return the numbers of relevant ids, and which cells are lists."""
        cells = self._read(piece, self.names.target, self._relevant)
        found = cells.numbered(*self.numbers.targets(cells.values))
        gaps = ~found.bad & (found.lengths == 0)
        gaps[found.rows[found.values < 0]] = True
        gaps &= ~(found.lists & self.has_several)  # padding is right in a list, if rows may be one
        bad = found.bad | gaps | ((found.lengths != 1) & (not self.has_several))
        check_read(piece, self.names.target, bad, self._relevant, gaps, self.num_candidates)
        return pad(found) if self.has_several else as_tensor("target", found.values), found.lists

    def _check_swapped(self, piece: FilePart, answers: Cells, are_lists: Any) -> None:
        """Raise if the targets are lists and the predictions single ids."""
        read = ~answers.bad
        if self.source.is_joined:  # all targets are lists if one query has several
            return
        if read.any() and are_lists.any() and not answers.lists[read].any():
            row = int(np.flatnonzero(are_lists)[0])
            preds, target = self.names.preds, self.names.target
            shown = (short(piece.columns[name][row].as_py()) for name in (preds, target))
            raise ValueError(
                f"`{preds}` must be the column of lists and `{target}` that of relevant ids, which "
                f"look swapped: {piece.place(row)} has the prediction "
                f"{next(shown)} and the target {next(shown)}; name the columns, or write single "
                "answers as lists, such as [3]."
            )

    def _count(self, piece: FilePart, bad: Any) -> None:
        """Count unreadable answers, or raise for the first; a list that is missing has row -1."""
        bad = bad & (np.asarray(piece.rows) >= 0)
        if self.on_error == "raise":
            check_read(piece, self.names.preds, bad, self._answers)
        self.missed += int(bad.sum())

    def _scores(self, piece: FilePart, cells: Cells) -> tuple[Tensor, Tensor | None]:
        """Return scores `[N, C]`, and which rows have none.

        An unreadable row is NaN, the lowest of all scores; where items are joined, a query without
        any is -inf.
        """
        width = self.num_candidates or 0
        bad = cells.bad | (cells.lengths != width)
        self._count(piece, bad)
        if not bad.any():
            read = as_tensor("preds", cells.values.reshape(-1, width))
            return read, (read == -torch.inf).all(1) if self.source.is_joined else None
        scores = np.full((len(bad), width), np.nan, cells.values.dtype)
        scores[~bad] = cells.values[~bad[cells.rows]].reshape(-1, width)
        return as_tensor("preds", scores), torch.from_numpy(np.asarray(bad))

    def _exclude(self, piece: FilePart, name: str) -> Tensor:
        column = piece.columns[name]
        how = self._relevant._replace(may_be_list=True)
        cells = self._read(piece, name, how)
        found = cells.numbered(*self.numbers.answers(cells.values))
        check_read(piece, name, found.bad & as_numpy(plain(column).is_valid()), how)
        return pad(found)


def _holds_of(names: Roles, are_texts: bool) -> dict[str, str]:
    """Return what columns hold; answers that are texts may be of any type."""
    holds = dict.fromkeys(names.groups, "a group")
    holds |= {} if are_texts else {names.preds: "answers"}
    holds |= {x: "ids of locations" for x in (names.target, names.exclude) if x is not None}
    return holds


def _rows_of(part: FilePart, rows: slice) -> FilePart:
    columns = {name: column[rows] for name, column in part.columns.items()}
    return FilePart(part.file, part.rows[rows], columns)


def of_scores(number: int | str) -> str:
    """Return what to do about a missing target beside so many scores."""
    return (
        "to count it as a miss beside scores, add a column of -inf to all of them, and write its "
        f"number, {number}, as the target"
    )


def check_read(
    piece: FilePart, name: str, bad: Any, how: CellReading, gaps: Any = None,
    width: int | None = None,
) -> None:  # fmt: skip
    """Raise for the first row that is bad; `gaps` are the rows without a target beside scores."""
    if bad.any():
        row = int(bad.argmax())
        cell = piece.columns[name][row].as_py()
        what = "scores, as many as the rows before" if how.kind == "scores" else "ids of locations"
        is_gap = gaps is not None and (gaps[row] or cell is None)
        advice = OF_GAPS if width is None else of_scores(width)
        if not is_gap:
            advice = remedy(cell, how)
            are_words = gaps is not None and isinstance(cell, str) and any(map(str.isalpha, cell))
            if are_words and (advice == PADDING or "separator" in advice):
                advice = _OF_LABELS
        raise ValueError(
            f"{piece.place(row)} must hold {what} in `{clip(name)}`, got {short(cell)}; {advice}."
        )
