"""The arguments of an update, `Batch`; rows in memory that are read in batches; names of groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from operator import lt
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.answers import Answers
from nextloc_metrics.core.queries.arrays import Array, as_tensor, as_tensor_or_text, per_query
from nextloc_metrics.core.queries.checks import (
    INTEGERS,
    check_candidates,
    check_named,
    from_one,
    is_integer,
)
from nextloc_metrics.core.queries.keys import Grouping, read_keys
from nextloc_metrics.core.queries.messages import as_row, describe, short
from nextloc_metrics.core.queries.scored_lists import ScoredLists


@dataclass(eq=False)
class Batch:
    """The arguments of an update.

    `preds` (also `Answers` or `ScoredLists`), `target`, `mask`, `groups`, `exclude`,
    `exempt_target`, `confidence` and `extra` are as for `RankingMetric.update`, `ignore_index` and
    `validate_args` as for `RankingMetric`. `grades` has the grade of each relevant id, in the shape
    of `target`. `absent`, bool `[N]`, is true for a row whose predictions are missing. `scores` has
    the score of each id of the lists, floating; scores fall along a list, and neighbours with equal
    scores are tied, in the order of their ids. `counts` are counts that only the reader of the rows
    can make, by their names on the card of an evaluation, such as `{"broken_answers": 1}`.
    """

    preds: Any
    target: Any
    mask: Any = None
    groups: Array | Mapping[str, Array | Grouping] | None = None
    exclude: Any = None
    exempt_target: bool = False
    confidence: Any = None
    extra: Mapping[str, Array] | None = None
    ignore_index: int | None = None
    validate_args: bool = True
    grades: Array | None = None
    absent: Tensor | None = None
    scores: Tensor | None = None
    counts: Mapping[str, int] | None = None

    @property
    def has_ids(self) -> bool:
        """Whether `target` has ids, and not the relevance of every candidate."""
        return self.target.dtype in INTEGERS

    def check_scores(self) -> None:
        """Raise unless `preds` has floating scores of at least one candidate."""
        if not self.preds.is_floating_point():
            raise TypeError(
                "`preds` must be a floating tensor of scores, got "
                f"{describe(self.preds)}; pass integer scores as `.float()`, and lists of ids to "
                "`Ranking.from_lists`."
            )
        if not self.preds.ndim or not self.preds.shape[-1]:
            check_candidates(self.preds, self.target)  # raises

    def read(self, device: torch.device | None = None) -> Batch:
        """Convert arrays to tensors on the device of `preds`, or on `device` for arrays."""
        if isinstance(self.preds, Answers):
            return self._with_lists(self.preds).read(device)
        if isinstance(self.preds, ScoredLists):
            lists, scores = self.preds.preds, self.preds.scores
            return replace(self, preds=lists, scores=scores).read(device)
        preds = as_tensor("preds", self.preds, device)
        options = {name: getattr(self, name) for name in ("mask", "exclude", "grades", "scores")}
        read: dict[str, Any] = {
            name: as_tensor(name, x, preds.device) for name, x in options.items() if x is not None
        }
        target = as_tensor("target", self.target, preds.device)
        return replace(self, preds=preds, target=target, **read)

    def _with_lists(self, answers: Answers) -> Batch:
        """Return the lists of answers, with their outcomes as `extra`."""
        target = as_tensor("target", self.target)
        beyond = (target >= answers.num_ids) & (target != self.ignore_index)
        if self.mask is not None and len(beyond):
            beyond = beyond.view(len(beyond), -1) & as_tensor("mask", self.mask).view(-1, 1)
        if beyond.any():
            raise ValueError(
                f"`target` must be below the {answers.num_ids} ids of the answers, got "
                f"{int(target.max())}{from_one(target, answers.num_ids)}; read answers with all "
                "ids."
            )
        extra = {**(self.extra or {}), "answer": answers.table()}
        return replace(self, preds=answers.lists(), extra=extra)


# Matches names of groups, one per line, that are all numbers.
_NUMBERS = re.compile(r"(-?\d+\n)*")

# How many numbers a chunk has: few enough for any memory.
_CHUNK = 1 << 20

# The types of predictions that are no array.
_READ = Answers, ScoredLists

# Fields of `ArrayRows` that have a row per query, or are None.
_OPTIONS = ("mask", "exclude", "confidence", "grades", "absent", "scores")


@dataclass(eq=False)
class ArrayRows:
    """The rows of a `Batch`, in memory; scores may be an array on disk."""

    preds: Any
    target: Tensor
    kinds: dict[str, Grouping]
    mask: Tensor | None = None
    exclude: Tensor | None = None
    confidence: Tensor | None = None
    grades: Tensor | None = None
    absent: Tensor | None = None
    scores: Tensor | None = None

    @property
    def num_candidates(self) -> int | None:
        """The number of scores per row; None for lists of ids."""
        if isinstance(self.preds, Answers | ScoredLists):
            return None
        is_scores = as_tensor("preds", self.preds[:1]).is_floating_point()
        return self.preds.shape[1] if is_scores else None

    @property
    def has_several(self) -> bool:
        """Whether a row may have several relevant locations."""
        return self.target.ndim == 2

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the kinds of groups."""
        return tuple(self.kinds)

    def chunks(self) -> Iterator[Batch]:
        """Yield the rows in chunks that fit into any memory; one empty chunk without rows."""
        step = max(1, _CHUNK // max(1, int(self.preds.shape[1])))
        starts = range(0, max(1, len(self.target)), step)
        return track((self.chunk(slice(x, x + step)) for x in starts), len(self.target))

    def chunk(self, rows: slice) -> Batch:
        """Return some of the rows."""
        options: dict[str, Any] = {
            name: values[rows] for name in _OPTIONS if (values := getattr(self, name)) is not None
        }
        preds = self.preds[rows]
        return Batch(
            preds if isinstance(preds, _READ) else as_tensor("preds", preds),
            self.target[rows],
            groups={x: Grouping(kind.keys[rows], kind.names) for x, kind in self.kinds.items()},
            **options,
        )


def track(batches: Iterable[Batch], number: int | None) -> Iterator[Batch]:
    """Yield batches; show rows per second, on a terminal and with tqdm."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield from batches
        return
    with tqdm(total=number, delay=2, disable=None, leave=False, unit="row") as bar:
        for batch in batches:
            yield batch
            bar.update(len(batch.target))


def read_rows(batch: Batch) -> ArrayRows:
    """Read and check the arguments; a NumPy array of scores is not copied, as it may be on disk.

    Sequences of queries, `preds` `[N, T, C]` or `[N, T, K]` with `target` `[N, T]`, become rows;
    the queries of a sequence have its groups.
    """
    preds: Any = batch.preds
    groups: Any = batch.groups
    if groups is not None:
        check_named("groups", groups, '{"user": users}')
        if wrong := [name for name in groups if "\0" in str(name)]:
            raise ValueError(f"names in `groups` must have no NUL, got {short(wrong[0])}.")
    rows = preds
    if not (isinstance(preds, _READ) or (isinstance(preds, np.ndarray) and preds.ndim in (2, 3))):
        rows = as_tensor("preds", preds)
    target = as_tensor("target", batch.target)
    if isinstance(rows, Tensor):
        check_candidates(rows, target)
    shape = tuple(rows.shape[:-1])
    is_fit = target.shape[: len(shape)] == shape and target.ndim - len(shape) in (0, 1)
    if len(shape) not in (1, 2) or not is_fit:
        raise ValueError(
            "`preds` [N, C or K] and `target` [N] or [N, M] must have one row per query, or be "
            f"[N, T, C or K] and [N, T] or [N, T, M], got {describe(preds)} and {describe(target)}."
        )
    if not is_integer(target):
        raise TypeError(f"`target` must be integers, ids of locations, got {describe(target)}.")
    kinds = {name: _read_kind(name, x, shape) for name, x in (groups or {}).items()}
    read: dict[str, Any] = {
        name: as_tensor(name, values)
        for name in _OPTIONS
        if (values := getattr(batch, name)) is not None
    }
    for name, option in read.items():
        if option.shape[: len(shape)] != shape:
            raise ValueError(
                f"`{name}` must have a row for each of the {prod(shape)} queries, got "
                f"{describe(option)}."
            )
    if len(shape) == 2:
        read = {name: option.flatten(0, 1) for name, option in read.items()}
        rows, target = rows.reshape(-1, rows.shape[-1]), target.flatten(0, 1)
    return ArrayRows(rows, target.long(), kinds, **read)


def _read_kind(name: str, values: Array | Grouping, shape: tuple[int, ...]) -> Grouping:
    """Return the key of each query's group; the queries of a sequence have its group."""
    # what has been read is `users`, or a column, which has the number of rows of its table
    argument = "users" if isinstance(values, Grouping) else f"groups[{name!r}]"
    kind = read_grouping(argument, values)
    keys, queries = kind.keys, prod(shape)
    if keys.shape in (shape[:1], shape):
        keys = per_query(name, keys, torch.Size(shape), "integers", is_kind=True)
    if keys.shape != (queries,):
        raise ValueError(
            f"`{argument}` must have a value for each of the {queries} queries, got "
            f"{describe(keys)}."
        )
    return Grouping(keys, kind.names)


def read_grouping(name: str, values: Array | Grouping) -> Grouping:
    """Return the keys of groups, which are integers, booleans or text."""
    dtype = str(getattr(values, "dtype", "")).removeprefix("torch.")
    is_bool = dtype == "bool" or (isinstance(values, list) and {*map(type, values)} == {bool})
    return read_keys(name, as_tensor(name, values).long() if is_bool else values)


class GroupLabels:
    """The names of groups, in the order of their numbers.

    Args:
        labels: distinct strings; the position of a name is the number of its group.

    Example:
        >>> labels = GroupLabels.from_values(["bob", "alice", "bob"])
        >>> labels, labels.number(["alice", "bob"])
        (GroupLabels(['alice', 'bob']), tensor([0, 1]))
    """

    def __init__(self, labels: Sequence[str]) -> None:
        is_row = isinstance(labels, Sequence) and not isinstance(labels, str)
        if not is_row or not all(issubclass(kind, str) for kind in set(map(type, labels))):
            raise ValueError(f"`labels` must be a sequence of text, got {describe(labels)}.")
        self.names = tuple(labels)
        try:
            "".join(self.names).encode()
        except UnicodeEncodeError as error:
            wrong = short(error.object[error.start : error.end])
            raise ValueError(f"`labels` must be text of whole characters, got {wrong}.") from error
        if len(set(self.names)) < len(self.names):
            twice = next(name for i, name in enumerate(self.names) if self._numbers[name] != i)
            raise ValueError(f"`labels` must be distinct, got {short(twice)} twice.")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @classmethod
    def from_values(cls, values: Array) -> GroupLabels:
        """Make labels from the distinct values of a column of text, in alphabetical order."""
        text = as_tensor_or_text("values", values)
        if isinstance(text, Tensor):
            raise TypeError(
                f"`values` must be text, got {describe(values)}; convert numbers to `str`, or pass "
                "numbers from 0 as `groups` without labels."
            )
        return cls(sorted(set(text)))

    @classmethod
    def sorted(cls, names: Iterable[str]) -> GroupLabels:
        """Make labels from distinct names, sorted as numbers if all of them are numbers."""
        distinct = [*dict.fromkeys(names)]  # this keeps their order, which may be right already
        # one match of all names takes a tenth of the time of one match each
        text = "\n".join([*distinct, ""])
        if text.count("\n") == len(distinct) and _NUMBERS.fullmatch(text):
            numbers = [*map(int, distinct)]
            if not all(map(lt, numbers, numbers[1:])):
                distinct.sort(key=lambda name: (int(name), name))
        else:
            distinct.sort()
        return cls(distinct)

    def number(self, values: Array) -> Tensor:
        """Return the number of the group for each of the names, int64 `[N]`."""
        text = as_tensor_or_text("values", values)
        if isinstance(text, Tensor):
            if text.numel():
                raise TypeError(f"`values` must be names of groups, got {describe(values)}.")
            text = []
        wrong = next((i for i, value in enumerate(text) if value not in self._numbers), None)
        if wrong is not None:
            raise ValueError(
                f"`groups` must be among the {len(self)} labels, got {short(text[wrong])} in "
                f"{as_row(wrong)}; make labels of all data with `GroupLabels.from_values(...)`."
            )
        return torch.tensor([self._numbers[value] for value in text], dtype=torch.int64)

    def state_key(self) -> str:
        """Return the content as text, for the names of states."""
        return repr(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> str:
        return self.names[number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupLabels) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"GroupLabels({short(list(self.names))})"


class GroupKind(NamedTuple):
    """The groups that a metric has sums for: their key in `groups`, their number, their names."""

    by: str | None
    number: int | None  #: None for keys
    labels: GroupLabels | None

    @property
    def names(self) -> list[str]:
        """The names in tables and pictures: the labels, or the numbers."""
        return list(self.labels.names if self.labels else map(str, range(self.number or 0)))
