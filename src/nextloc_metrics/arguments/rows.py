"""Sources of rows: one protocol for arrays in memory, files and streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import Array, as_tensor, as_tensor_or_text
from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.arguments.checks import check_candidates, check_named, is_integer
from nextloc_metrics.arguments.labels import GroupLabels
from nextloc_metrics.arguments.messages import describe, short

Item = TypeVar("Item")

# Numbers per chunk, few enough for any memory.
_CHUNK = 1 << 20


class Grouping(NamedTuple):
    """One kind of groups: the group number of each query, and the names of the groups."""

    numbers: Tensor
    labels: GroupLabels


class Rows(Protocol):
    """A source of queries, read in chunks."""

    @property
    def num_candidates(self) -> int | None:
        """The number of scores per row; None for lists of ids."""

    @property
    def has_several(self) -> bool:
        """Whether a row may have several relevant locations."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the kinds of groups."""

    def chunks(self) -> Iterator[Batch]:
        """Yield the rows in chunks that fit into any memory; `groups` of each holds `Grouping`s."""


@dataclass(eq=False)
class ArrayRows:
    """Rows of arrays in memory, or of an array of scores on disk.

    Attributes:
        preds: scores or lists of ids, a row per query.
        target: integer `[N]` or `[N, M]`.
        kinds: the groups of each query.
        mask: bool `[N]`, or None.
        exclude: the candidates that are not ranked, a row per query, or None.
        confidence: the confidence of each answer, or None.
        weights: the weight of each query, or None.
        grades: the grades of several relevant ids, in the shape of `target`, or None.
    """

    preds: Any
    target: Tensor
    kinds: dict[str, Grouping]
    mask: Tensor | None
    exclude: Tensor | None
    confidence: Tensor | None = None
    weights: Tensor | None = None
    grades: Tensor | None = None

    @property
    def num_candidates(self) -> int | None:
        """The number of scores per row; None for lists of ids."""
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
        starts = range(0, max(1, len(self.target)), self.step)
        return track((self.chunk(slice(x, x + self.step)) for x in starts), len(self.target))

    @property
    def step(self) -> int:
        """The number of rows of a chunk."""
        return max(1, _CHUNK // max(1, int(self.preds.shape[1])))

    def chunk(self, rows: slice) -> Batch:
        """Return some of the rows."""
        options = ("mask", "exclude", "confidence", "weights", "grades")
        given = {x: found for x in options if (found := getattr(self, x)) is not None}
        return Batch(
            as_tensor("preds", self.preds[rows]),
            self.target[rows],
            groups={x: Grouping(kind.numbers[rows], kind.labels) for x, kind in self.kinds.items()},
            **{name: values[rows] for name, values in given.items()},
        )


def track(items: Iterable[Item], number: int | None, unit: str = "row") -> Iterator[Item]:
    """Yield batches, or other units; show units per second, on a terminal and with tqdm."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield from items
        return
    with tqdm(total=number, delay=2, disable=None, leave=False, unit=unit) as bar:
        for item in items:
            yield item
            bar.update(len(item.target) if isinstance(item, Batch) else 1)


def read_rows(
    preds: Array,
    target: Array,
    groups: Mapping[str, Array | Grouping] | None,
    mask: Array | None = None,
    exclude: Array | None = None,
    confidence: Array | None = None,
    weights: Array | None = None,
    grades: Array | None = None,
) -> ArrayRows:
    """Read and check the arguments; a NumPy array of scores is not copied, as it may be on disk."""
    if groups is not None:
        check_named("groups", groups, '{"user": users}')
        if wrong := [name for name in groups if "\0" in str(name)]:
            raise ValueError(f"names in `groups` must have no NUL, got {short(wrong[0])}.")
    rows: Any = preds
    if not (isinstance(preds, np.ndarray) and preds.ndim == 2):
        rows = as_tensor("preds", preds)
    target = as_tensor("target", target)
    if isinstance(rows, Tensor):
        check_candidates(rows, target)
    if rows.ndim != 2 or target.ndim not in (1, 2) or len(rows) != len(target):
        raise ValueError(
            "`preds` [N, C or K] and `target` [N] or [N, M] must have one row per query, got "
            f"{describe(preds)} and {describe(target)}."
        )
    if not is_integer(target):
        raise TypeError(f"`target` must be integers, ids of locations, got {describe(target)}.")
    target = target.long()
    kinds = {name: _read_kind(name, x, len(target)) for name, x in (groups or {}).items()}
    options = {
        "mask": mask,
        "exclude": exclude,
        "confidence": confidence,
        "weights": weights,
        "grades": grades,
    }
    read = {name: None if x is None else as_tensor(name, x) for name, x in options.items()}
    for name, option in read.items():
        if option is not None and (not option.ndim or len(option) != len(target)):
            raise ValueError(
                f"`{name}` must have a row for each of the {len(target)} queries, got "
                f"{describe(option)}."
            )
    return ArrayRows(rows, target, kinds, **read)


def _read_kind(name: str, values: Array | Grouping, number: int) -> Grouping:
    """Return values that have numbers, or number them."""
    kind = values if isinstance(values, Grouping) else _number(name, values)
    if kind.numbers.shape != (number,):
        raise ValueError(
            f"`groups[{name!r}]` must have a value for each of the {number} queries, got "
            f"{describe(kind.numbers)}."
        )
    return kind


def _number(name: str, values: Array) -> Grouping:
    """Number the distinct values of groups, text or integers, in rising order."""
    found = as_tensor_or_text("groups", values)
    if not isinstance(found, Tensor):
        labels = GroupLabels.sorted(found)
        return Grouping(labels.number(found), labels)
    if is_integer(found) or found.dtype == torch.bool:
        distinct, numbers = torch.unique(found, return_inverse=True)
        return Grouping(numbers, GroupLabels([str(value) for value in distinct.long().tolist()]))
    raise TypeError(f"`groups[{name!r}]` must be integers or text, got {describe(found)}.")
