"""Files of predictions: NumPy, tables and TREC runs, read into arguments of `evaluate`.

No file is unpickled, and no row is left out silently: a cell that is not readable is counted, or
raises an error that names the file, the row and the value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from nextloc_metrics.core.queries.checks import check_choice
from nextloc_metrics.core.queries.keys import LIMIT
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.scored_lists import ScoredLists
from nextloc_metrics.report.files.array_files import open_arrays
from nextloc_metrics.report.files.cells import INTEGER, OnError, integers_of, plain
from nextloc_metrics.report.files.columns import kind_of, names_of_groups, with_missing
from nextloc_metrics.report.files.joins import open_form
from nextloc_metrics.report.files.nested import as_tables
from nextloc_metrics.report.files.opening import kind_of_files, pa
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.suffixes import ARRAYS
from nextloc_metrics.report.files.tables import TableRows


@dataclass
class Predictions:
    """The content of a file of predictions.

    Attributes:
        preds: scores `[N, C]`, memory-mapped if the file allows it, or lists of ids `[N, K]`; of
            items with scores, `ScoredLists`.
        target: the relevant ids, int64 `[N]` or `[N, M]`.
        groups: the columns named in `groups`, by name.
        missed: the number of unreadable answers, which count as misses.
        vocabulary: the id of each number, if ids are text or far larger than their number.
        mask: the column named in `mask`, bool `[N]`.
        exclude: the column named in `exclude`, int64 `[N, E]`, or bool `[N, C]` from `.npz`.
        grades: the grades of `target` of a run, or with `grade`, float64 `[N, M]`. A query whose
            grades are all 0 has one of its ids as `target`, which is taken out of `preds`, so that
            it scores 0.
        card: with `truth`, how many queries are missing, have no truth, and so on.
    """

    preds: Any
    target: Tensor
    groups: dict[str, Any]
    missed: int = 0
    vocabulary: tuple[str | int, ...] | None = None
    mask: Tensor | None = None
    exclude: Tensor | None = None
    grades: Tensor | None = None
    card: dict[str, int] = field(default_factory=dict)


def read(
    path: str | Path | Sequence[str | Path],
    *,
    preds: str = "preds",
    target: str = "target",
    groups: Sequence[str] = (),
    mask: str | None = None,
    exclude: str | None = None,
    padding: int | Sequence[int] = (),
    vocabulary: Sequence[str | int] | None = None,
    separator: str | None = None,
    on_error: OnError = "raise",
    on_missing: OnError = "raise",
    truth: str | Path | None = None,
    query: str | Sequence[str] = (),
    item: str | None = None,
    score: str | None = None,
    rank: str | None = None,
    grade: str | None = None,
) -> Predictions:
    r"""Read all predictions and targets of a file; `files.tables.TableRows` says what is an id.

    Args:
        path: a file, a folder or a pattern as for `evaluate`, or `.run` or `.trec`, a TREC run;
            also tensors of `torch.save`, and dicts of ranx or traces of LibCity in `.json`.
        preds: the column of the predictions, or the array in `.npz`.
        target: the column of the relevant ids, or the array in `.npz`.
        groups: the columns of groups.
        mask: the column of true and false.
        exclude: the column of lists of ids that are not ranked.
        padding: negative numbers that pad lists, in addition to -1.
        vocabulary: the id of each number, for the same numbers in several files. None numbers ids
            that are text, or far larger than their number: first the targets, in rising order. A
            target must be in the vocabulary; an answer that is not gets the next number, and is a
            miss.
        separator: what separates the ids of a cell of text without brackets.
        on_error: `"raise"`, an unreadable answer is an error; `"miss"`, it counts as a miss.
        on_missing: `"raise"`, a target that is empty or padding is an error; `"miss"`, beside lists
            its query counts as a miss, as its target is an id of its own, 999999999999999999.
        truth: the table of the relevant ids, if it is another, as for `evaluate`, like
            `query`, `item`, `score`, `rank` and `grade`; the columns `query` are groups, too, and
            `groups` and `mask` are columns of `truth`. Of a `.npy` it is another `.npy`, and of a
            run the judgements ("qrels").

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the format is unknown, a column is missing, or a row is not readable.

    Example:
        >>> import pathlib, tempfile
        >>> from nextloc_metrics import report
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
        >>> _ = path.write_text('preds,target,user\n"[7, 3]",3,ann\n"[5]",5,bob\n', "utf-8")
        >>> found = report.read(path, groups=["user"])
        >>> found.preds.tolist(), found.target.tolist(), list(found.groups["user"])
        ([[7, 3], [5, -1]], [3, 5], ['ann', 'bob'])
    """
    check_choice("on_error", on_error, OnError)
    groups = names_of_groups(groups)
    vocabulary = with_missing(vocabulary, on_missing)
    how: Any = {"padding": padding, "vocabulary": vocabulary, "separator": separator}
    how |= {"on_error": on_error, "on_missing": on_missing}
    roles = Roles(preds, target, groups, mask, exclude, None, query, item, score, rank, grade)
    if kind_of_files(path) in ARRAYS:
        table, truth = open_arrays(path, truth, roles, vocabulary), None
        if isinstance(table, dict):
            return Predictions(**table, vocabulary=tuple(vocabulary) if vocabulary else None)
    else:
        table, truth, roles = as_tables(path, truth, roles)
    roles = replace(roles, groups=tuple(dict.fromkeys([*groups, *roles.query])))
    texts: dict[int, str] = {}
    if roles.are_apart(table, truth):
        rows, card = open_form(table, truth, roles, **how, texts=texts)
        found = _collect(rows, texts)
        repeated = {"repeated_items": rows.repeated} if rows.repeated else {}
        return replace(found, card=card | repeated)
    return _collect(TableRows(table, roles, **how, texts=texts), texts)


def _collect(rows: TableRows, texts: Mapping[int, str]) -> Predictions:
    """Join all chunks of rows, and number ids if they are text or sparse."""
    batches, pieces = zip(*rows.read(list), strict=True)
    if rows.on_error == "raise":
        rows.ids.check()
    answers, relevant, masked, excluded, grades, scores = (
        None
        if getattr(batches[0], name) is None
        else _join([getattr(x, name) for x in batches], padding)
        for name, padding in _PADDED.items()
    )
    assert answers is not None
    assert relevant is not None
    kept = {
        name: join_column([piece.columns[name] for piece in pieces], rows.source.untyped)
        for name in rows.names.groups
    }
    words: tuple[Any, ...] | None = rows.vocabulary
    if rows.num_candidates is None:
        are_text = kind_of(pieces[0].columns[rows.names.target]) == "text"
        numbers = _Positions(rows, relevant, texts, are_text and not rows.source.untyped)
        relevant, answers = numbers.of(relevant), numbers.of(answers)
        excluded = None if excluded is None else numbers.of(excluded)
        words = numbers.words
    lists: Any = answers if scores is None else ScoredLists(answers, scores)
    return Predictions(lists, relevant, kept, rows.missed, words, masked, excluded, grades)


class _Positions:
    """Positions in `words` of ids that are text, or far larger than their number.

    Targets come first, in rising order, then other ids as they occur. With a vocabulary, the others
    follow it. `words` is None where ids are their own numbers.
    """

    def __init__(
        self, rows: TableRows, target: Tensor, texts: Mapping[int, str], are_text: bool
    ) -> None:
        known = torch.unique(target)
        known = known[known >= 0]
        self._texts, self._numbers = texts, dict[int, int]()
        self._words: list[Any] | None = None if rows.vocabulary is None else [*rows.vocabulary]
        self._size = 0 if self._words is None else len(self._words)
        largest = int(known.max()) if len(known) else 0
        are_text |= not all(
            map(INTEGER.fullmatch, (texts.get(x, "0") for x in known.tolist() if x >= LIMIT))
        )
        if self._words is not None:
            are_text = any(isinstance(x, str) for x in self._words)
        self._are_text = are_text
        self._as_word: Any = self._text_of if are_text else self._integer_of
        if self._words is not None:
            return
        if are_text or largest > 4 * len(known) + DENSE:
            keys = known.tolist()
            keys.sort(key=self._as_word)
            self._words = [*map(self._as_word, keys)]
            self._numbers = {key: number for number, key in enumerate(keys)}

    def _text_of(self, key: int) -> str:
        return self._texts.get(key, str(key))

    def _integer_of(self, key: int) -> int:
        return int(self._text_of(key))

    @property
    def words(self) -> tuple[Any, ...] | None:
        """The id of each number."""
        return None if self._words is None else tuple(self._words)

    def of(self, keys: Tensor) -> Tensor:
        """Return the number of each key; padding stays."""
        if self._words is None:
            return keys
        distinct, places = np.unique(keys.numpy(), return_inverse=True)
        first = np.full(len(distinct), keys.numel())
        np.minimum.at(first, places.ravel(), np.arange(keys.numel()))
        numbers = distinct.copy()
        for at in first.argsort().tolist():
            key = int(distinct[at])
            if key < self._size:  # of a vocabulary, or padding
                continue
            if key not in self._numbers:
                self._numbers[key] = len(self._words)
                text = self._text_of(key)
                is_name = self._are_text or not INTEGER.fullmatch(text)
                self._words.append(text if is_name else int(text))
            numbers[at] = self._numbers[key]
        return torch.from_numpy(numbers[places].reshape(keys.shape))


# Targets up to this id are dense; above it, ids are sparse if the largest is more than four times
# the number of distinct targets.
DENSE = 1 << 20


# What pads the rows of a batch.
_PADDED = {"preds": -1, "target": -1, "mask": 0, "exclude": -1, "grades": 0, "scores": math.nan}


def _join(parts: Sequence[Any], padding: float) -> Tensor:
    """Concatenate the rows of chunks, and pad lists to the longest."""
    if len(parts) == 1 or parts[0].ndim == 1:
        return torch.cat(list(parts))
    width = max(part.shape[1] for part in parts)
    return torch.cat([pad(x, (0, width - x.shape[1]), value=padding) for x in parts])


def join_column(parts: Sequence[Any], untyped: bool) -> Any:
    """Join the parts of a column of groups; text of CSV that is all integers becomes integers."""
    import pandas

    if untyped:
        numbers, wrong = integers_of(plain(pa.chunked_array(parts)).fill_null(""))
        if not wrong.any():
            return pandas.Series(numbers)
    columns = [plain(part).to_pandas(integer_object_nulls=True) for part in parts]
    return pandas.concat(columns, ignore_index=True)


def same_queries(found: Mapping[str, Predictions], key: str | None) -> dict[str, Predictions]:
    """Return predictions in the order of the first file, or raise if their queries differ.

    Rows are in any order if a group, `key`, identifies a query; else they are compared row by row.
    """
    of, first = next(iter(found.items()))
    if not len(first.target):
        raise ValueError(f"{of} must hold at least one query to compare or audit, got none.")
    wanted, same = _queries(first, key), {}
    for path, one in found.items():
        cells = _queries(one, key)
        if key is not None:
            rows = _rows_by_key(key, path, cells.index, of, wanted.index)
            if (rows != np.arange(len(rows))).any():  # else scores may stay on the disk
                groups = {name: np.asarray(values)[rows] for name, values in one.groups.items()}
                one = replace(one, preds=one.preds[rows], target=one.target[rows], groups=groups)
                cells = cells.iloc[rows]
        for what in wanted:
            rule = f"the {what} of {path} must equal the {what} of {of}"
            mine, others = cells[what].to_numpy(), wanted[what].to_numpy()
            if mine.shape != others.shape:
                raise ValueError(
                    f"{rule}, got the shapes {mine.shape} and {others.shape}; files that "
                    "`score --save` wrote are compared also of other queries."
                )
            if len(wrong := np.flatnonzero(mine != others)):
                row = wrong[0]
                where = f"row {row}; join rows in another order by `--id`"
                where = where if key is None else f"key {short(wanted.index[row])}"
                raise ValueError(
                    f"{rule}, row by row: {len(wrong):,} of {len(mine):,} rows differ, the first "
                    f"with {short(mine[row])} instead of {short(others[row])} is {where}."
                )
        if not one.target.equal(first.target):
            raise ValueError(
                f"the ids of {path} must be numbered as those of {of}: they are far larger than "
                "their number, and only one of the files has lists; pass `--vocabulary`."
            )
        same[path] = one
    return same


def _queries(one: Predictions, key: str | None) -> Any:
    """Return the relevant ids as they are in the file, and groups as text, by key or by row."""
    import pandas

    ids = one.target.numpy()
    if one.vocabulary is not None:
        ids = np.array([*one.vocabulary, None], dtype=object)[ids]
    texts = {x: [*map(str, np.asarray(y).tolist())] for x, y in one.groups.items()}
    keys = None if key is None else pandas.Index(texts.pop(key), dtype=object)
    columns = {f"column {x!r}": pandas.Series(y, keys, object) for x, y in texts.items()}
    return pandas.DataFrame({"targets": pandas.Series(ids.tolist(), keys, object), **columns})


def _rows_by_key(key: str, path: str, own: Any, of: str, others: Any) -> Any:
    """Return the row of each key of the first file, or raise if the keys are not the same."""
    wrong = {
        "missing": others[~others.isin(own)],
        "extra": own[~own.isin(others)],
        "repeated": own[own.duplicated()],
    }
    texts = [f"{len(x):,} {y} (the first is {short(x[0])})" for y, x in wrong.items() if len(x)]
    if texts:
        raise ValueError(
            f"the column {key!r} of {path} must hold each key of {of} once, got {len(own):,} keys, "
            f"{', '.join(texts)}."
        )
    return own.get_indexer(others)
