"""The arguments of `evaluate` and `compare`, read in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import Array, as_tensor, as_tensor_or_text
from nextloc_metrics.arguments.checks import is_integer
from nextloc_metrics.arguments.labels import GroupLabels
from nextloc_metrics.arguments.messages import describe, short
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.geography import Locations
from nextloc_metrics.metrics.presets import next_location_metrics, recommendation_metrics

# Numbers per chunk, few enough for any memory.
_CHUNK = 1 << 20


class Kind(NamedTuple):
    """One kind of groups: the group number of each query, and the names of the groups."""

    numbers: Tensor
    labels: GroupLabels


class Batch(NamedTuple):
    """A chunk of the rows."""

    preds: Tensor
    target: Tensor
    groups: dict[str, Tensor]
    options: dict[str, Tensor]


class Data(NamedTuple):
    """The arguments, with a row per query."""

    preds: Any
    target: Tensor
    is_scores: bool
    width: int
    kinds: dict[str, Kind]
    options: dict[str, Tensor]

    def chunks(self) -> Iterator[Batch]:
        """Yield the rows in chunks that fit into any memory; one empty chunk without rows."""
        step = max(1, _CHUNK // max(1, self.width))
        for start in _track(range(0, max(1, len(self.target)), step)):
            rows = slice(start, start + step)
            yield Batch(
                as_tensor("preds", self.preds[rows]),
                self.target[rows],
                {name: kind.numbers[rows] for name, kind in self.kinds.items()},
                {name: x[rows] for name, x in self.options.items()},
            )


def _track(starts: range) -> Iterable[int]:
    """Show a progress bar after 2 seconds, on a terminal and with tqdm installed."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return starts
    return cast(Iterable[int], tqdm(starts, delay=2, disable=None, leave=False, unit="chunk"))


def read_data(
    preds: Array,
    target: Array,
    groups: Mapping[str, Array] | None,
    options: Mapping[str, Array | None],
) -> Data:
    """Read and check the arguments; a NumPy array of scores is not copied, as it may be on disk."""
    rows: Any = preds
    if not (isinstance(preds, np.ndarray) and preds.ndim == 2):
        rows = as_tensor("preds", preds)
    target = as_tensor("target", target)
    if rows.ndim != 2 or target.ndim not in (1, 2) or len(rows) != len(target):
        raise ValueError(
            "`preds` and `target` must have one row per query, got "
            f"{describe(preds)} and {describe(target)}."
        )
    if not is_integer(target):
        raise TypeError(f"`target` must be integers, ids of locations, got {describe(target)}.")
    is_scores = as_tensor("preds", rows[:1]).is_floating_point()
    kinds = {name: _read_kind(name, x, len(target)) for name, x in (groups or {}).items()}
    read = {name: as_tensor(name, x) for name, x in options.items() if x is not None}
    for name, option in read.items():
        if not option.ndim or len(option) != len(target):
            raise ValueError(
                f"`{name}` must have a row for each of the {len(target)} queries, got "
                f"{describe(option)}."
            )
    return Data(rows, target, is_scores, rows.shape[1], kinds, read)


def _read_kind(name: str, values: Array, number: int) -> Kind:
    """Number the distinct values of groups, text or integers, in rising order."""
    found = as_tensor_or_text("groups", values)
    if not isinstance(found, Tensor):
        labels = sort_labels(found)
        numbers = labels.number(found)
    elif is_integer(found) or found.dtype == torch.bool:
        distinct, numbers = torch.unique(found, return_inverse=True)
        labels = GroupLabels([str(value) for value in distinct.long().tolist()])
    else:
        raise TypeError(f"`groups[{name!r}]` must be integers or text, got {describe(found)}.")
    if numbers.shape != (number,):
        raise ValueError(
            f"`groups[{name!r}]` must have a value for each of the {number} queries, got "
            f"{describe(numbers)}."
        )
    return Kind(numbers, labels)


def pair_with_clusters(data: Data, cluster: str | None) -> dict[str, Tensor]:
    """Return the pairs of a group and a cluster in the data; see `ClusteredGroups.keys`."""
    if cluster is None:
        return {}
    clusters, labels = data.kinds[cluster]
    return {
        name: torch.unique(kind.numbers * len(labels) + clusters)
        for name, kind in data.kinds.items()
        if name != cluster and len(labels)
    }


def check_cluster(cluster: str | None, data: Data) -> None:
    """Raise if `cluster` is not a key of `groups`."""
    if cluster is not None and cluster not in data.kinds:
        raise ValueError(
            f"`cluster` must be one of `groups`, {short(list(data.kinds))}, got {short(cluster)}."
        )


def count_locations(data: Data, given: int | None, train_counts: Tensor | None) -> int | None:
    """Return the number of ids for F1; None if several locations may be relevant."""
    if data.target.ndim == 2 or given is not None:
        return given if data.target.ndim == 1 else None
    if data.is_scores:
        return data.width
    known = [] if train_counts is None else [len(train_counts)]
    largest = [int(data.target.max()) + 1] if len(data.target) else []
    return max([1, *known, *largest])


def make_headline(
    num_locations: int | None,
    k: int | Sequence[int],
    locations: Locations | None = None,
    km: float = 1.0,
) -> RankingCollection:
    """Make the preset for one relevant location per query, or for several."""
    if num_locations is None:
        return recommendation_metrics(k=k)
    return next_location_metrics(num_locations, k, locations=locations, km=km)


def sort_labels(names: Iterable[str]) -> GroupLabels:
    """Sort the distinct names of groups, as numbers if all of them are numbers."""
    distinct = set(names)
    are_numbers = all(name.removeprefix("-").isdecimal() for name in distinct)
    return GroupLabels(sorted(distinct, key=lambda name: (int(name) if are_numbers else 0, name)))
