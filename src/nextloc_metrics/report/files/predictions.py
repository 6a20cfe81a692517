"""Reads all predictions of files or tables into memory, as the arguments of `evaluate`.

No file is unpickled, and no row is left out silently: a cell that is not readable is counted, or
raises an error that names the file, the row and the value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from nextloc_metrics.core.queries.checks import check_choice
from nextloc_metrics.core.queries.keys import LIMIT
from nextloc_metrics.core.queries.messages import as_row, describe, short
from nextloc_metrics.core.queries.scored_lists import ScoredLists
from nextloc_metrics.report.files.cells import INTEGER, OnError, integers_of, plain
from nextloc_metrics.report.files.columns import kind_of, with_missing
from nextloc_metrics.report.files.opened import check_lists, open_source, roles_of
from nextloc_metrics.report.files.opening import pa
from nextloc_metrics.report.files.table_source import TableSource
from nextloc_metrics.report.files.tables import TableRows


@dataclass
class Predictions:
    """The content of a file of predictions.

    Attributes:
        preds: scores `[N, C]`, memory-mapped if the file allows it, or lists of ids `[N, K]`; if a
            row of the table is an item with a score, `ScoredLists`.
        target: the relevant ids, int64 `[N]` or `[N, M]`.
        groups: the columns named in `groups`, by name.
        missed: the number of unreadable answers, which count as misses.
        vocabulary: the id of each number, if ids are text or are numbered because they are sparse.
        mask: the column named in `mask`, bool `[N]`.
        exclude: the column named in `exclude`, int64 `[N, E]`, or bool `[N, C]` from `.npz`.
        grades: the grades of `target`, for a run or with `grade`, float64 `[N, M]`. A query whose
            grades are all 0 keeps one of its ids as `target`; `preds` lacks this id, so that the
            query scores 0.
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
    source: Any,
    *,
    groups: Sequence[str] = (),
    mask: str | None = None,
    exclude: str | None = None,
    grade: str | None = None,
) -> Predictions:
    r"""Read all predictions and targets of a source; `files.tables.TableRows` says what is an id.

    Args:
        source: a `Source`, or its rows.
        groups: the columns of groups; those of `query` are groups, too.
        mask: the column of true and false.
        exclude: the column of lists of ids that are not ranked.
        grade: the column of grades of the targets in `truth`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the format is unknown, a column is missing, or a row is not readable; or
            `answers` are those of a language model, which `evaluate` and `read_answers` read.

    Example:
        >>> import pathlib, tempfile
        >>> from nextloc_metrics import report
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
        >>> _ = path.write_text('preds,target,user\n"[7, 3]",3,ann\n"[5]",5,bob\n', "utf-8")
        >>> found = report.read(path, groups=["user"])
        >>> found.preds.tolist(), found.target.tolist(), list(found.groups["user"])
        ([[7, 3], [5, -1]], [3, 5], ['ann', 'bob'])
    """
    source = source if isinstance(source, TableSource) else TableSource(source)
    check_choice("on_error", source.on_error, OnError)
    check_lists(source)
    columns = {"mask": mask, "exclude": exclude, "grade": grade}
    texts: dict[int, str] = {}
    roles = roles_of(source, groups, **columns)
    rows = open_source(source, roles, texts=texts, query_as_groups=True)
    if isinstance(rows, dict):
        words = with_missing(source.vocabulary, source.on_missing)
        return Predictions(**rows, vocabulary=tuple(words) if words else None)
    return _collect(rows, texts)


def _collect(rows: TableRows, texts: Mapping[int, str]) -> Predictions:
    """Join all chunks of rows, and number the ids if they are text or sparse."""
    batches, pieces = zip(*rows.read(list), strict=True)
    card = Counter[str]()
    for batch in batches:
        card.update(batch.counts)
    missed = card.pop("broken_answers", 0)
    rows.ids.check()
    rows.ids.warn(stacklevel=3)
    answers, relevant, masked, excluded, grades, scores = (
        None
        if getattr(batches[0], name) is None
        else _join([getattr(x, name) for x in batches], padding)
        for name, padding in _PADDED.items()
    )
    assert answers is not None
    assert relevant is not None
    groups = {
        name: join_column([piece.columns[name] for piece in pieces], rows.source.untyped)
        for name in rows.names.groups
    }
    words: tuple[Any, ...] | None = rows.vocabulary
    if rows.num_candidates is None:
        are_text = kind_of(pieces[0].columns[rows.names.target]) == "text"
        positions = _Positions(rows, relevant, texts, are_text and not rows.source.untyped)
        relevant, answers = positions.of_keys(relevant), positions.of_keys(answers)
        excluded = None if excluded is None else positions.of_keys(excluded)
        words = positions.words
    lists: Any = answers if scores is None else ScoredLists(answers, scores)
    fields = lists, relevant, groups, missed, words, masked, excluded, grades
    return Predictions(*fields, dict(card))


class _Positions:
    """The positions in `words` of ids that are text or sparse.

    Targets come first in `words`, in rising order, then other ids as they occur. With a vocabulary,
    its ids come first, then others as they occur. `words` is None where ids keep their numbers.
    """

    def __init__(
        self, rows: TableRows, target: Tensor, texts: Mapping[int, str], are_text: bool
    ) -> None:
        target_keys = torch.unique(target)
        target_keys = target_keys[target_keys >= 0]
        self._texts, self._numbers = texts, dict[int, int]()
        self._words: list[Any] | None = None if rows.vocabulary is None else [*rows.vocabulary]
        self._size = 0 if self._words is None else len(self._words)
        largest = int(target_keys.max()) if len(target_keys) else 0
        are_text |= not all(
            map(INTEGER.fullmatch, (texts.get(x, "0") for x in target_keys.tolist() if x >= LIMIT))
        )
        if self._words is not None:
            are_text = any(isinstance(x, str) for x in self._words)
        self._are_text = are_text
        self._as_word: Any = self._text_of if are_text else self._integer_of
        if self._words is not None:
            return
        if are_text or largest > 4 * len(target_keys) + DENSE:
            keys = target_keys.tolist()
            keys.sort(key=self._as_word)
            self._words = [*map(self._as_word, keys)]
            self._numbers = {key: number for number, key in enumerate(keys)}

    def _text_of(self, key: int) -> str:
        return self._texts.get(key, str(key))

    def _integer_of(self, key: int) -> int:
        return int(self._text_of(key))

    @property
    def words(self) -> tuple[Any, ...] | None:
        """The id of each position."""
        return None if self._words is None else tuple(self._words)

    def of_keys(self, keys: Tensor) -> Tensor:
        """Return the position of each key; padding stays."""
        if self._words is None:
            return keys
        distinct, inverse = np.unique(keys.numpy(), return_inverse=True)
        first = np.full(len(distinct), keys.numel())
        np.minimum.at(first, inverse.ravel(), np.arange(keys.numel()))
        numbers = distinct.copy()
        for i in first.argsort().tolist():  # in the order in which keys occur first
            key = int(distinct[i])
            if key < self._size:  # a position in the vocabulary already, or padding
                continue
            if key not in self._numbers:
                self._numbers[key] = len(self._words)
                text = self._text_of(key)
                is_name = self._are_text or not INTEGER.fullmatch(text)
                self._words.append(text if is_name else int(text))
            numbers[i] = self._numbers[key]
        return torch.from_numpy(numbers[inverse].reshape(keys.shape))


# Ids are sparse if the largest target exceeds this number plus four times the number of distinct
# targets.
DENSE = 1 << 20


# The value that pads the rows of each field of a batch.
_PADDED = {"preds": -1, "target": -1, "mask": 0, "exclude": -1, "grades": 0, "scores": math.nan}


def _join(parts: Sequence[Any], padding: float) -> Tensor:
    """Concatenate the rows of chunks, and pad lists to the longest."""
    if len(parts) == 1 or parts[0].ndim == 1:
        return torch.cat(list(parts))
    width = max(part.shape[1] for part in parts)
    return torch.cat([pad(x, (0, width - x.shape[1]), value=padding) for x in parts])


def join_column(parts: Sequence[Any], untyped: bool) -> Any:
    """Join the parts of a column of groups; text of CSV becomes integers if all cells are some."""
    import pandas

    if untyped:
        texts = plain(pa.chunked_array(parts)).cast(pa.string())  # the type is null without a row
        numbers, wrong = integers_of(texts.fill_null(""))
        if not wrong.any():
            return pandas.Series(numbers)
    columns = [plain(part).to_pandas(integer_object_nulls=True) for part in parts]
    return pandas.concat(columns, ignore_index=True)


def read_same(
    sources: Mapping[str, TableSource], groups: Sequence[str] = (), key: str | None = None
) -> dict[str, Predictions]:
    """Read predictions of the same queries, in the order of the first source.

    `key` is a column that names a query. Without it, rows are joined by the columns `query` of the
    first source, or compared row by row.
    """
    columns = [*groups, *([] if key is None else [key])]
    predictions = {name: read(source, groups=columns) for name, source in sources.items()}
    query = next(iter(sources.values())).query
    names = (query,) if isinstance(query, str) else query
    if not names or key is not None:
        return same_queries(predictions, key)
    for predicted in predictions.values():  # rows that were joined to a truth are in any order
        cells = zip(*(map(str, predicted.groups[name]) for name in names), strict=True)
        predicted.groups |= {", ".join(names): ["\0".join(x) for x in cells]}
    return same_queries(predictions, ", ".join(names))


def check_sources(models: Mapping[str, Any], **others: Any) -> None:
    """Raise if only some models are sources, or if arrays are passed beside sources."""
    for name, model in models.items():
        if not isinstance(model, TableSource):
            raise TypeError(
                f"every model must be a `Source` if one is, got {describe(model)} for "
                f"{short(name)}."
            )
    if wrong := next((x for x, value in others.items() if value is not None), None):
        raise TypeError(
            f"`{wrong}` must be None beside sources, got {describe(others[wrong])}; their columns "
            "are named in `Source`."
        )


def same_queries(predictions: Mapping[str, Predictions], key: str | None) -> dict[str, Predictions]:
    """Return predictions in the order of the first file, or raise if their queries differ.

    If the group `key` names a query, rows may be in any order; else they are compared row by row.
    """
    first_file, first = next(iter(predictions.items()))
    if not len(first.target):
        raise ValueError(
            f"{first_file} must hold at least one query to compare or audit, got none."
        )
    wanted, same = _queries(first, key), {}
    for path, predicted in predictions.items():
        cells = _queries(predicted, key)
        if key is not None:
            rows = _rows_by_key(key, path, cells.index, first_file, wanted.index)
            if (rows != np.arange(len(rows))).any():  # in the same order, scores stay on disk
                groups = {name: np.asarray(x)[rows] for name, x in predicted.groups.items()}
                preds, target = predicted.preds[rows], predicted.target[rows]
                predicted = replace(predicted, preds=preds, target=target, groups=groups)
                cells = cells.iloc[rows]
        for what in wanted:
            rule = f"the {what} of {path} must equal the {what} of {first_file}"
            values, expected = cells[what].to_numpy(), wanted[what].to_numpy()
            if values.shape != expected.shape:
                raise ValueError(
                    f"{rule}, got the shapes {values.shape} and {expected.shape}; files that "
                    "`score --save` wrote are compared also of other queries."
                )
            if len(wrong := np.flatnonzero(values != expected)):
                row = wrong[0]
                where = f"{as_row(row)}; join rows in another order by `--id`"
                where = where if key is None else f"key {short(wanted.index[row])}"
                raise ValueError(
                    f"{rule}, row by row: {len(wrong):,} of {len(values):,} rows differ, the first "
                    f"with {short(values[row])} instead of {short(expected[row])} is {where}."
                )
        if not predicted.target.equal(first.target):
            raise ValueError(
                f"the ids of {path} must be numbered as those of {first_file}: they are far larger "
                "than their number, and only one of the files has lists; pass `--vocabulary`."
            )
        same[path] = predicted
    return same


def _queries(predicted: Predictions, key: str | None) -> Any:
    """Return the relevant ids as they are in the file, and groups as text, by key or by row."""
    import pandas

    ids = predicted.target.numpy()
    if predicted.vocabulary is not None:
        ids = np.array([*predicted.vocabulary, None], dtype=object)[ids]
    texts = {x: [*map(str, np.asarray(y).tolist())] for x, y in predicted.groups.items()}
    keys = None if key is None else pandas.Index(texts.pop(key), dtype=object)
    columns = {f"column {x!r}": pandas.Series(y, keys, object) for x, y in texts.items()}
    return pandas.DataFrame({"targets": pandas.Series(ids.tolist(), keys, object), **columns})


def _rows_by_key(key: str, path: str, keys: Any, first_path: str, wanted: Any) -> Any:
    """Return the row of each key of the first file, or raise if the keys are not the same."""
    wrong = {
        "missing": wanted[~wanted.isin(keys)],
        "extra": keys[~keys.isin(wanted)],
        "repeated": keys[keys.duplicated()],
    }
    texts = [f"{len(x):,} {y} (the first is {short(x[0])})" for y, x in wrong.items() if len(x)]
    if texts:
        raise ValueError(
            f"the column {key!r} of {path} must hold each key of {first_path} once, got "
            f"{len(keys):,} keys, {', '.join(texts)}."
        )
    return keys.get_indexer(wanted)
