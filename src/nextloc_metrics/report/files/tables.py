"""Rows of predictions from files, frames and streams, read in chunks."""

from __future__ import annotations

import copy
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.queries.arrays import as_tensor, is_repeat, pad_rows, remove_from_lists
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.checks import check_choice
from nextloc_metrics.core.queries.keys import LIMIT
from nextloc_metrics.core.queries.messages import as_column, clip, short, wrong_cell
from nextloc_metrics.report.files.answer_texts import Reader
from nextloc_metrics.report.files.cells import (
    MISSING,
    PADDING,
    CellReading,
    Cells,
    OnError,
    as_numpy,
    has_tuples,
    holds_lists,
    is_list,
    is_text,
    is_written_as_list,
    plain,
    read_cells,
    remedy,
    with_commas,
)
from nextloc_metrics.report.files.columns import (
    MISSING_TARGET,
    Numbers,
    check_no_answers,
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
from nextloc_metrics.report.files.seen_ids import SeenIds
from nextloc_metrics.report.files.sources import open_table

#: what to do about a query without a target
GAP_REMEDY = "leave the row out, or count it as a miss with `on_missing='miss'`"
_NEGATIVE_REMEDY = (
    "an id is 0 or more; a number that pads lists is named by `answers={'padding': -100}`"
)
_LABEL_REMEDY = (
    "a target is one id; a label in words needs a column with its id, or is read by the same rule "
    "as the answers, `report.read_answers(labels, ...)`"
)
# How many first rows tell what columns hold, and how many values of lists a chunk has.
_SEEN = 1000
_VALUES = 1 << 21

#: the column that has the scores of items; the column of predictions has the items, as lists
ITEM_SCORES = "\0scores"

Result = TypeVar("Result")


class ReadAgainError(Exception):
    """A row shows that the rows before were read in a wrong way, so that reading begins again.

    `attribute` of `TableRows` is then true: a row may have several relevant ids, or ids are names.
    """

    def __init__(self, attribute: str) -> None:
        super().__init__(attribute)
        self.attribute = attribute


class TableRows:
    r"""Rows of a table, read in chunks.

    Each id has a key: an integer is its own key, and the key of text that is no integer in its
    usual form is a hash. A cell of text that begins with `[` is a list in JSON or as Python writes
    it; any other cell of text is one id. In CSV and JSON 7.0 is 7, and a target that looks like a
    number in another form, or like a missing value, such as `1e3` or `nan`, is an error unless it
    is in `vocabulary`. So is a target of several numbers, such as `3,4`, beside integers. A
    negative integer is an error if it is no padding; in a column of text with a type, it is a name.
    Where all targets are integers, an answer with a name is an error.

    With `vocabulary`, the number of an id is its position there; an answer that is not in it is a
    miss.

    The first rows tell what columns hold. If a later row is the first with several relevant ids,
    reading begins again. Therefore `read` takes the function that counts all chunks.

    Args:
        source: the rows, or a table or files for `open_table`.
        names: the columns.
        reader: what reads `preds` as answers of a language model; the options are as for
            `report.read`.
        by_id: the name of an option that has a row for each id, so that ids must be integers.
        texts: a dict that gets the text of each key that is a hash; None collects no texts.

    Attributes:
        vocabulary: the id of each number; None for keys.
        num_candidates: the number of scores per row; None for lists of ids.
        are_names: whether a target of the first rows is text.
        are_text: whether targets are text although their column has keys.
        has_several: whether a row may have several relevant locations.
        card: the counts that were made before the first chunk, whose counts include them.
        ids: the facts about the ids of all chunks so far.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
        >>> lines = ["preds,target", "\"['Zoo', 'Bar']\",Bar", "['Bar'],7", "[8.0],8", ""]
        >>> _ = path.write_text("\n".join(lines), "utf-8")
        >>> rows = TableRows(path, Roles(), vocabulary=["Bar", "7", "8"])
        >>> rows.read(lambda pieces: [batch.target.tolist() for batch, _ in pieces])
        [[0, 1, 2]]
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
        by_id: str | None = None,
        texts: dict[int, str] | None = None,
        num_locations: int | None = None,
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
        self._table, self._is_share = source, False
        self.card: Mapping[str, int] = {}
        self.source = open_table(source, names.all, _holds_of(names, reader is not None))
        self.names, self.on_error, self.reader, self.by_id = names, on_error, reader, by_id
        number = num_locations if self._gaps and vocabulary is None else None
        self.numbers = Numbers(vocabulary, pads, texts, number)
        self.vocabulary = None if vocabulary is None else tuple(vocabulary)
        words = frozenset(map(str, vocabulary or ()))
        missing, _ = self.numbers.answers(np.array([MISSING_TARGET]))
        self._missing = int(missing[0]) if self._gaps else -2
        self._texts = {} if texts is None else texts
        self._start()
        # in joined tables, text with a type is a name, even if it is written like padding
        is_name = self.source.is_joined and not self.source.untyped
        read_as_pads = frozenset() if is_name else frozenset(pads)
        reading = CellReading(False, self.source.untyped, separator, pads=read_as_pads)
        # the texts of all ids if they are asked for, and else of those that may lose zeros
        reading = reading._replace(texts=self._texts, only_zeros=texts is None)
        self._answers = reading._replace(are_keys=names.preds in self.source.keyed)
        are_keys = names.target in self.source.keyed
        self._relevant = reading._replace(are_keys=are_keys, accepted=words)
        self.are_text = self.has_several = self.are_names = False
        self.num_candidates: int | None = None
        self._kinds: dict[str, str] = {}
        self._learn(self._look_ahead(), words, is_source=self.source is source)

    def _learn(self, seen: Sequence[FilePart], accepted: Set[str], is_source: bool) -> None:
        """Learn from the first rows what columns hold, or raise if they are no rows of queries."""
        names, separator, are_lists = self.names, self._answers.separator, self.reader is None
        untyped = self.source.untyped
        first = next((part for part in seen if len(part.rows)), seen[-1])
        answers, relevant = first.columns[names.preds], first.columns[names.target]
        tuples = not (is_text(relevant.type) and pc.any(has_tuples(plain(relevant))).as_py())
        self._are_cells = is_text(plain(answers).type)
        self._relevant = self._relevant._replace(may_be_list=untyped or is_text(answers.type))
        # an answer may look like a missing value: it is a miss, as no target looks so
        names_of_gaps = frozenset(accepted | MISSING)
        self._answers = self._answers._replace(accepted=names_of_gaps, reads_tuples=tuples)
        if are_lists and kind_of(answers) == "text":
            answers = with_commas(plain(answers), tuples) if is_text(answers.type) else answers
            self._check_no_answers(first, answers, separator)
        if are_lists:
            self.num_candidates = width_of_most(seen, names.preds, separator)
        if self.num_candidates is not None:
            self._answers = CellReading(True, untyped)
            if self._gaps:
                raise ValueError(
                    "`on_missing` must be 'raise' beside scores, got 'miss': the id of a missing "
                    f"target is no candidate; {gap_remedy(self.num_candidates)}."
                )
        is_plain = self.vocabulary is None and separator is None and are_lists
        self._is_typed = is_plain and not untyped and names.target not in self.source.keyed
        if self._is_typed:
            self._check_kinds(first)
        for part in seen:
            self.note_targets(part)
        is_listed = is_list(answers.type) or is_written_as_list(next(iter(answers), ""))
        if are_lists and separator is None and not is_listed and not is_source:
            check_rows_are_queries(self._table, names, self.source.have)

    def _check_no_answers(self, part: FilePart, answers: Any, separator: str | None) -> None:
        """Raise if answers of text are those of a language model, or several ids in one text."""
        preds, target = self.names.preds, self.names.target
        columns = {**part.columns, preds: answers}
        texts = self._relevant.texts
        if self._relevant.are_keys and texts is not None:
            keys = plain(part.columns[target].flatten()).to_pylist()
            columns[target] = pa.array([texts.get(key, str(key)) for key in keys], pa.string())
        check_no_answers(part._replace(columns=columns), preds, target, separator)

    def _start(self) -> None:
        """Forget what was counted and noted, for a new pass over the rows."""
        self._counts, self._is_first = Counter[str](), True
        self.ids = SeenIds(str(self.names.preds), self.names.target, texts=self._texts)

    def _look_ahead(self) -> list[FilePart]:
        """Return the first rows, or an empty part; the next pass begins with the same parts."""
        parts, first, left = self._parts(), list[FilePart](), _SEEN
        ahead: list[FilePart] = []
        for part in parts:
            ahead.append(part)
            first.append(_rows_of(part, slice(left)))
            left -= len(first[-1].rows)
            if not left:
                break
        self._ahead: Iterator[FilePart] | None = chain(ahead, parts)
        return first or [self._empty()]

    def note_targets(self, part: FilePart) -> None:
        """Note whether a target is text, and whether a row has not exactly one relevant id."""
        kind = part.columns[self.names.target].type
        if not is_list(kind) and not is_text(kind):
            return
        cells = read_cells(part, self.names.target, self._relevant)
        numbers, _ = self.numbers.targets(cells.values)
        self.are_names |= bool((numbers >= LIMIT).any())
        is_pad = numbers < 0  # a list of padding alone has no relevant id
        self.has_several |= bool((cells.lengths[~cells.bad] != 1).any())
        self.has_several |= bool(cells.lists[cells.rows[is_pad]].any())

    def _check_kinds(self, part: FilePart) -> None:
        """Raise if a type differs from the rows before, or ids of one column alone are text."""
        kinds_of_part = _kinds_of(part, self.names, self.num_candidates is not None)
        if (ranks := self.source.first_with_name) is not None:
            kinds_of_part[str(self.names.preds)] = ranks.kind
        kinds_so_far = {x: kinds_of_part.get(x) or kind for x, kind in self._kinds.items()}
        for name, kind in kinds_of_part.items():
            if kind and self._kinds.get(name) and kind != self._kinds[name]:
                raise ValueError(
                    f"{as_column(clip(name))} in {part.file} must hold {self._kinds[name]}, as in "
                    f"the rows before, got {part.columns[name].type}; convert it."
                )
        self._kinds |= {x: kind for x, kind in kinds_of_part.items() if kind}
        kinds = {x: kind for x, kind in kinds_so_far.items() if kind}
        if len({*kinds.values()}) > 1:
            each = " and ".join(f"{kind} in {as_column(clip(x))}" for x, kind in kinds.items())
            raise ValueError(
                f"{part.file} must hold text in both columns or integers in both, got {each}; "
                "write both as text, which keeps zeros in front (`dtype=str`), or both as integers."
            )

    def of_files(self, files: Sequence[str]) -> TableRows:
        """Return the rows of some of the files, read alike."""
        source = copy.copy(self.source)
        source.files = list(files)
        rows = self.of_source(source)
        rows._is_share = True
        return rows

    def of_source(self, source: RowSource) -> TableRows:
        """Return the rows of another source of the same columns, read alike."""
        rows = copy.copy(self)
        rows.source, rows._table, rows._ahead = source, source, None
        rows._start()
        return rows

    def _parts(self) -> Iterator[FilePart]:
        """Yield the parts of the source; a missing target that counts as a miss has its id."""
        target = self.names.target
        for part in self.source.parts(self.names.all):
            if self._gaps:
                part.columns[target] = fill_gaps(part.columns[target], self._gaps)
            yield part

    def _empty(self) -> FilePart:
        return FilePart("", (), {name: pa.nulls(0) for name in self.names.all})

    def read(self, count: Callable[[Iterator[tuple[Batch, FilePart]]], Result]) -> Result:
        """Call `count` with all chunks, each with the columns it was made of; return its result.

        `count` is called again if reading begins again. A row that is not readable raises a
        `ValueError` that names file, row and value. A table without rows has one chunk without
        rows, and a warning.
        """
        try:
            return count(self.pieces())
        except ReadAgainError as error:
            setattr(self, error.attribute, True)
            return self.read(count)

    def pieces(self) -> Iterator[tuple[Batch, FilePart]]:
        """Yield the chunks that `read` passes on, or raise a `ReadAgainError`."""
        self._start()
        number = 0
        lists = {self.names.preds, self.names.target, self.names.exclude} - {None}
        ahead, self._ahead = self._ahead, None
        for part in ahead or self._parts():
            number += len(part.rows)
            if self._is_typed:
                self._check_kinds(part)
            for rows in cut([part.columns[x] for x in lists], _VALUES):
                piece = _rows_of(part, rows)
                yield self._batch(piece), piece
        if not number:
            if not self._is_share:
                self.warn_of_no_rows()
            # the chunk has the same fields as others, so that their counts can be added
            empty = self._empty()
            yield self._batch(empty), empty

    def warn_of_no_rows(self) -> None:
        """Warn that there are no rows."""
        files = ", ".join(self.source.files[:3])
        says = f"{files} should hold rows, got none; all values are NaN."
        warnings.warn(says, stacklevel=4)

    def _batch(self, piece: FilePart) -> Batch:
        """Return a chunk of rows as tensors."""
        names = self.names
        target, are_lists = self._targets(piece)
        if self._gaps:
            missing = int((target == self._missing).sum())
            self._counts |= {"missing_targets": missing} if missing else {}
        preds: Any
        absent = scores = None
        if self.reader is not None:
            preds = self.reader.read(_texts_of(piece, names.preds, self.reader))
            if self.source.is_joined:  # a query without an answer has the row -1
                rows = np.asarray(piece.rows)
                preds = preds.at(np.where(rows < 0, -1, np.arange(len(rows))))
        elif self.num_candidates is None:
            preds, scores = self._lists(piece, target, are_lists)
        else:
            preds, absent = self._scores(piece)
        untyped = self.source.untyped and not self.source.has_gaps
        groups = {x: read_group(piece, x, untyped) for x in names.groups}
        batch = Batch(preds, target, groups=groups, absent=absent, scores=scores)
        if names.mask is not None:
            batch.mask = read_mask(piece, names.mask)
        if names.exclude is not None:
            batch.exclude = self._exclude(piece, names.exclude)
        if names.confidence is not None:
            batch.confidence = read_confidence(piece, names.confidence, batch.mask)
        if names.grade is not None:  # the grades are in the order of the targets
            batch.grades = torch.zeros(target.shape, dtype=torch.float64)
            if len(piece.rows):
                grades = piece.columns[names.grade].flatten().to_numpy(zero_copy_only=False)
                batch.grades[target >= 0] = torch.from_numpy(grades.copy())
            miss_unmet(batch)
        batch.counts = {**self._counts, **(self.card if self._is_first else {})}
        self._counts, self._is_first = Counter(), False
        return batch

    def _lists(self, piece: FilePart, target: Tensor, are_lists: Any) -> tuple[Tensor, Any]:
        """Return lists of ids `[N, K]` and scores of items; `are_lists` is about the targets."""
        names = self.names
        cells = read_cells(piece, names.preds, self._answers)
        cells = cells.numbered(*self.numbers.answers(cells.values))
        self._check_swapped(piece, cells, are_lists)
        if self._may_be_names and self.on_error == "raise":
            self.ids.look_for_answers(piece, names.preds, cells, self._answers)
            self._note_name_of_ranks()
        self._count(piece, cells.bad)
        preds = pad(cells)
        scores = self._scores_of_items(piece, preds)
        if names.item is not None:
            preds, scores = self._without_repeats(preds, scores)
        # integers of a type have no zeros in front; with a vocabulary, they are positions in it
        may_be_text = self.source.untyped or self.ids.has_names or len(self._texts) > 0
        self.ids.note_ids(preds, target, may_be_text and self.numbers.size is None)
        if not self.ids.example and len(piece.rows) and not self.source.is_joined:
            both = (piece.columns[x][0].as_py() for x in (names.preds, names.target))
            self.ids.example = " and ".join(map(short, both))
        return preds, scores

    def _note_name_of_ranks(self) -> None:
        """Note the first name in columns per rank; their lists hold keys, which show no name."""
        ranks = self.source.first_with_name
        if ranks is not None and ranks.name is not None and self.ids.answer is None:
            self.ids.note_answer(ranks.column, ranks.name, ranks.reading)

    @property
    def _may_be_names(self) -> bool:
        """Whether only the last row tells that a name in an answer is an error."""
        return self.numbers.size is None and (self.source.untyped or self._are_cells)

    def _scores_of_items(self, piece: FilePart, preds: Tensor) -> Tensor | None:
        """Return the scores of items, float64 in the shape of `preds`; None for other lists."""
        if (column := piece.columns.get(ITEM_SCORES)) is None:
            return None
        lengths = as_numpy(pc.list_value_length(column)).astype(np.int64)
        values = as_numpy(plain(column.flatten())).astype(np.float64)
        return torch.from_numpy(pad_rows(values, lengths, np.nan, preds.shape[1]))

    def _without_repeats(
        self, preds: Tensor, scores: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Keep each item of a query at its best score; items with ranks may repeat, as in lists."""
        in_order = backends.choose(preds).sort(preds)
        if not ((in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)).any():
            return preds, scores
        repeats = is_repeat(preds)
        self._counts["repeated_items"] += int(repeats.sum())
        return (preds, None) if scores is None else remove_from_lists(preds, repeats, scores)

    def _targets(self, piece: FilePart) -> tuple[Tensor, Any]:
        """Return the numbers of relevant ids, and which cells are lists."""
        cells = read_cells(piece, self.names.target, self._relevant)
        numbered = cells.numbered(*self.numbers.targets(cells.values))
        is_pad = numbered.rows[numbered.values < 0]
        several = ~numbered.bad & (numbered.lengths != 1) & numbered.lists
        several[is_pad] |= numbered.lists[is_pad]
        if several.any() and not self.has_several:
            raise ReadAgainError("has_several")
        gaps = ~numbered.bad & (numbered.lengths == 0)
        gaps[is_pad] = True
        # where targets may be lists, a list may be empty or hold padding alone
        gaps &= ~(numbered.lists & self.has_several)
        bad = numbered.bad | gaps | ((numbered.lengths != 1) & (not self.has_several))
        check_read(piece, self.names.target, bad, self._relevant, gaps, self.num_candidates)
        is_unused = self.by_id == "num_locations" and self.are_names  # names have no numbers
        must_be_numbers = self.num_candidates or (self.by_id and not is_unused)
        if must_be_numbers and (numbered.values >= LIMIT).any():
            self._refuse_text()
        if self.source.untyped and not self._relevant.are_keys:
            self.ids.look_for_names(piece, numbered, self._relevant)
        else:
            is_name = self.are_text or kind_of(piece.columns[self.names.target]) == "text"
            self.ids.has_names |= is_name
            self.ids.has_integers |= not is_name and len(numbered.values) > 0
        target = pad(numbered) if self.has_several else as_tensor("target", numbered.values)
        return target, numbered.lists

    def _refuse_text(self) -> None:
        """Raise for ids of text where ids must be integers, or begin again without their number."""
        if self.by_id == "num_locations" and not self.num_candidates:
            raise ReadAgainError("are_names")  # with names, `num_locations` is not used
        if self.num_candidates:
            rule = "must list the ids of text if predictions are scores"
        else:
            rule = f"must list the ids if they are text, beside `{self.by_id}`"
        raise ValueError(f"`vocabulary` {rule}, got None.")

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
        """Count unreadable answers, or raise for the first one."""
        bad = bad & (np.asarray(piece.rows) >= 0)  # the row of a missing list is -1
        if self.on_error == "raise":
            check_read(piece, self.names.preds, bad, self._answers)
        else:
            self._counts["broken_answers"] += int(bad.sum())

    def _scores(self, piece: FilePart) -> tuple[Tensor, Tensor | None]:
        """Return scores `[N, C]`, NaN in unreadable rows, and which rows are unreadable."""
        cells, width = read_cells(piece, self.names.preds, self._answers), self.num_candidates or 0
        bad = cells.bad | (cells.lengths != width)
        self._count(piece, bad)
        if not bad.any():
            return as_tensor("preds", cells.values.reshape(-1, width)), None
        scores = np.full((len(bad), width), np.nan, cells.values.dtype)
        scores[~bad] = cells.values[~bad[cells.rows]].reshape(-1, width)
        return as_tensor("preds", scores), torch.from_numpy(np.asarray(bad))

    def _exclude(self, piece: FilePart, name: str) -> Tensor:
        column = piece.columns[name]
        reading = self._relevant._replace(may_be_list=True, are_keys=name in self.source.keyed)
        cells = read_cells(piece, name, reading)
        numbered = cells.numbered(*self.numbers.answers(cells.values))
        check_read(piece, name, numbered.bad & as_numpy(plain(column).is_valid()), reading)
        if self._may_be_names:
            self.ids.look_for_answers(piece, name, numbered, reading)
        return pad(numbered)


def _texts_of(part: FilePart, name: str, reader: Reader) -> Iterator[Any]:
    """Return the texts of a column of answers; lists of objects become JSON if a key is read."""
    column = plain(part.columns[name])
    kind = column.type
    if reader.key is not None and is_list(kind) and pa.types.is_struct(kind.value_type):
        return (x and json.dumps(x, default=str) for x in column.to_pylist())
    if not is_text(kind) and not pa.types.is_null(kind):
        raise TypeError(
            f"{part.file} must hold text in {as_column(name)}, got {kind}; `answers` is for "
            "text, and lists are read without it."
        )
    return iter(column.to_pylist())


def _kinds_of(part: FilePart, names: Roles, are_scores: bool) -> dict[str, str]:
    """Return whether typed columns of ids hold text or integers; "" where that is not known."""
    kinds: dict[str, str] = {}
    columns = [names.target, names.exclude] if are_scores else [*names.ids]
    for name in filter(None, columns):
        column = part.columns[name]
        empty = plain(column[:0])  # no cell is needed for the type
        may_be_both = is_text(empty.type) and holds_lists(plain(column))
        kind = plain(empty.flatten()).type if is_list(empty.type) else empty.type
        kinds[name] = ""
        if len(column) and is_text(kind) and not may_be_both:
            kinds[name] = "text"
        elif len(column) and pa.types.is_integer(kind):
            kinds[name] = "integers"
    return kinds


def _holds_of(names: Roles, are_texts: bool) -> dict[str, str]:
    """Return what columns hold; the texts of a language model may have any type."""
    holds = dict.fromkeys(names.groups, "a group")
    holds |= {} if are_texts else {names.preds: "answers"}
    holds |= {x: "ids of locations" for x in (names.target, names.exclude) if x is not None}
    return holds


def _rows_of(part: FilePart, rows: slice) -> FilePart:

    columns = {name: column[rows] for name, column in part.columns.items()}
    return FilePart(part.file, part.rows[rows], columns)


def gap_remedy(number: int | str) -> str:
    """Return what to do about a missing target in a row with this number of scores."""
    return (
        "to count it as a miss beside scores, add a column of -inf to all of them, and write its "
        f"number, {number}, as the target"
    )


def check_read(
    piece: FilePart, name: str, bad: Any, reading: CellReading, gaps: Any = None,
    width: int | None = None,
) -> None:  # fmt: skip
    """Raise for the first bad row; `gaps` are rows without a target, and `width` counts scores."""
    if not bad.any():
        return
    row = int(bad.argmax())
    cell = piece.columns[name][row].as_py()
    what = "scores, as many as the rows before" if reading.are_scores else "ids of locations"
    if gaps is not None and (gaps[row] or cell is None):
        advice = GAP_REMEDY if width is None else gap_remedy(width)
    else:
        advice = remedy(cell, reading, PADDING if gaps is None else _NEGATIVE_REMEDY)
        are_words = gaps is not None and isinstance(cell, str) and any(map(str.isalpha, cell))
        if are_words and ("padding" in advice or "separator" in advice):
            advice = _LABEL_REMEDY
    raise wrong_cell(piece.place(row), what, clip(name), short(cell), advice)
