"""Groups of queries that explain an accuracy: staying put, and overlap with the training data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.metric.ranking_metric import LARGEST_STATE
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import check_positive, is_integer
from nextloc_metrics.core.queries.messages import describe, short


def moved(previous: Array, target: Array) -> Tensor:
    """Return which queries move, int64: 1 to another location, 0 for those that stay.

    Use the result as groups, `groups={"moved": moved(previous, target)}`, of
    `Grouped(metric, 2, by="moved")`. Much of an accuracy is that of queries that stay. A query
    without a previous location has -1, which `Grouped` refuses: leave it out with `mask`.

    Args:
        previous: integer `[...]`, the location of the visit before; -1 for none.
        target: integer in the same shape, or `[..., M]`, several padded with -1: a query stays if
            `previous` is one of them.

    Raises:
        ValueError: the arguments are not integers, or their shapes do not fit.

    Example:
        >>> moved([5, 5, -1], [5, 7, 7])
        tensor([ 0,  1, -1])

    Source: A. Cuttone, S. Lehmann and M. C. González, "Understanding predictability and exploration
    in human mobility", EPJ Data Science 7, 2018.
    """
    before = as_tensor("previous", previous)
    relevant = as_tensor("target", target, before.device)
    several = relevant if relevant.ndim > before.ndim else relevant[..., None]
    if not (is_integer(before) and is_integer(relevant)) or several.shape[:-1] != before.shape:
        raise ValueError(
            "`previous` and `target` must be integers, one or several targets for each previous "
            f"location, got {describe(before)} and {describe(relevant)}."
        )
    stays = (several == before[..., None]).any(-1)
    return (~stays).long().masked_fill(before < 0, -1)


def train_overlap(
    history: Array | Sequence[Sequence[int]],
    train: Array | Sequence[Sequence[int]],
    bins: int | None = None,
) -> Tensor:
    """Return how much of each history is part of a training trajectory, from 0 to 1.

    The length of the longest run of consecutive visits that also occurs in a training trajectory,
    divided by the length of the history; NaN for an empty history. With `bins` the share is a group
    for `Grouped(metric, bins)`, from 0 for the least to bins - 1, and -1 for an empty history,
    which `Grouped` refuses: leave it out with `mask`. The cost is one sort of all visits per length
    that is still found.

    Args:
        history: the locations of each query's history in the order of time, integer `[N, T]`,
            padded with -1, or lists of different lengths.
        train: the training trajectories, in the same form.
        bins: the number of equal bins, for int64 `[N]`; None for the shares, float64 `[N]`.

    Example:
        >>> train_overlap([[1, 2, 3, 4], [9, 2]], [[7, 2, 3, 4], [2, 1]])
        tensor([0.7500, 0.5000], dtype=torch.float64)
        >>> train_overlap([[1, 2, 3, 4], [9, 2]], [[7, 2, 3, 4], [2, 1]], bins=5)
        tensor([3, 2])

    Source: M. Luca, L. Pappalardo, B. Lepri and G. Barlacchi, "Trajectory test-train overlap in
    next-location prediction datasets", Machine Learning 112, 2023.
    """
    if bins is not None:
        bins = check_positive("bins", bins, LARGEST_STATE)
    queries, known = _read_paths("history", history), _read_paths("train", train)
    number = len(queries)
    sizes = np.array([len(path) for path in queries], dtype=np.int64)
    longest = np.zeros(number, dtype=np.int64)
    # all visits in one row, a path after the other; each step joins runs with the next visit
    visits = np.concatenate([*queries, *known, np.zeros(0, dtype=np.int64)])
    lengths = np.concatenate([sizes, [len(path) for path in known]]).astype(np.int64)
    path = np.repeat(np.arange(len(lengths)), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(visits))
    start = np.arange(len(visits))
    runs = np.unique(visits, return_inverse=True)[1].reshape(-1)
    single, length = runs, 1
    while len(start):
        is_query = path[start] < number
        common = np.isin(runs, runs[~is_query]) & np.isin(runs, runs[is_query])
        longest[path[start[common & is_query]]] = length
        kept = common & (left[start] > length)
        start = start[kept]
        pairs = runs[kept] * (len(visits) + 1) + single[start + length]
        runs, length = np.unique(pairs, return_inverse=True)[1].reshape(-1), length + 1
    longest_run, visited = torch.from_numpy(longest), torch.from_numpy(sizes)
    if bins is None:
        return longest_run.double() / visited
    groups = (longest_run * bins // visited.clamp(min=1)).clamp(max=bins - 1)
    return groups.masked_fill(visited == 0, -1)


def _read_paths(name: str, paths: Any) -> list[np.ndarray[Any, Any]]:
    """Return each path without padding, int64."""
    is_ragged = isinstance(paths, list | tuple) and not any(isinstance(x, Tensor) for x in paths)
    rows = list(paths) if is_ragged else list(as_tensor(name, paths))
    found = []
    for number, row in enumerate(rows):
        ids = np.asarray(row.cpu() if isinstance(row, Tensor) else row)
        if ids.ndim != 1 or not (ids.dtype.kind in "iu" or not ids.size):
            raise ValueError(
                f"`{name}` must hold rows of integer ids, padded with -1, got "
                f"{short(row)} in row {number}."
            )
        ids = ids.astype(np.int64)
        found.append(ids[ids >= 0])
    return found
