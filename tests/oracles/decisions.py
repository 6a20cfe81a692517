"""What a model decides for, in loops over the queries: F1 of locations, distances, sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from oracles import lists, ranks

Ids = Sequence[int | None]


def decision(row: Sequence[float] | Sequence[int], *, by_scores: bool) -> int | None:
    """The location a query decides for: the lowest id among the best, `None` if there is none."""
    if not by_scores:
        return next((int(i) for i in row if i != ranks.NOTHING_WRITTEN), None)
    if any(math.isnan(score) for score in row) or max(row) == -math.inf:
        return None
    return list(row).index(max(row))


def counts_by_location(decisions: Ids, targets: Ids, locations: int) -> list[list[int]]:
    """True positives, decisions and support of every location, one query after the other."""
    counts = [[0] * locations for _ in range(3)]
    for decided, target in zip(decisions, targets, strict=True):
        if target is None:
            continue
        counts[2][target] += 1
        if decided is not None:
            counts[1][decided] += 1
            counts[0][decided] += decided == target
    return counts


def decisions_of(
    preds: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    ignore_index: int | None = None,
) -> tuple[list[int | None], list[int]]:
    """The decision and the one target of each query that counts."""
    counted = ranks.queries(preds, target, mask, ignore_index)
    rows = zip(preds.tolist(), target.tolist(), counted, strict=True)
    pairs = [(decision(row, by_scores=preds.is_floating_point()), to)
             for row, to, query in rows if query is not None]  # fmt: skip
    return [decided for decided, _ in pairs], [to for _, to in pairs]


# F1, precision and recall of locations -----------------------------------------------------------


def _averaged(
    divisor: Any,
    batch: Any,
    num_locations: int | None = None,
    average: str | None = "weighted",
    **options: Any,
) -> float | list[float]:
    decisions, targets = decisions_of(*batch, **options)
    occurring = {*targets, *(decided for decided in decisions if decided is not None)}
    counts = counts_by_location(decisions, targets, num_locations or 1 + max(occurring))
    if average == "micro":
        counts = [[sum(row)] for row in counts]
    scores = [
        (hits / divisor(*rest) if divisor(*rest) else 0.0) if sum(rest) else math.nan
        for hits, *rest in zip(*counts, strict=True)
    ]
    if average is None:
        return scores if num_locations else [scores[location] for location in sorted(occurring)]
    weights = counts[2] if average == "weighted" else [1] * len(scores)
    weighed = [(x, w) for x, w in zip(scores, weights, strict=True) if not math.isnan(x)]
    total = sum(w for _, w in weighed)
    return sum(x * w for x, w in weighed) / total if total else math.nan


def location_f1(*batch: Any, **options: Any) -> float | list[float]:
    """2 TP / (P + S), averaged over the locations that occur."""
    return _averaged(lambda decided, support: (decided + support) / 2, batch, **options)


def location_precision(*batch: Any, **options: Any) -> float | list[float]:
    """TP / P."""
    return _averaged(lambda decided, support: decided, batch, **options)


def location_recall(*batch: Any, **options: Any) -> float | list[float]:
    """TP / S."""
    return _averaged(lambda decided, support: support, batch, **options)


# Distances on a plane ----------------------------------------------------------------------------


def _distance(locations: Any, one: int, other: int) -> float:
    return math.dist(locations.points[one].tolist(), locations.points[other].tolist())


def accuracy_within(*batch: Any, locations: Any, km: float, k: int, **options: Any) -> float:
    """The share of queries of which one of the first k is near."""
    _, targets = decisions_of(*batch, **options)
    firsts = lists.firsts_of(k, *batch, **options)
    near = [any(_distance(locations, i, to) <= km for i in first)
            for first, to in zip(firsts, targets, strict=True)]  # fmt: skip
    return sum(near) / len(near) if near else math.nan


def distance_error(
    *batch: Any,
    locations: Any,
    statistic: str | float = "mean",
    undecided: str = "largest",
    **options: Any,
) -> float:
    """The mean, or the smallest distance that a share of the queries does not exceed."""
    km = [
        locations.largest if decided is None else _distance(locations, decided, to)
        for decided, to in zip(*decisions_of(*batch, **options), strict=True)
        if decided is not None or undecided == "largest"
    ]
    if not km:
        return math.nan
    if statistic == "mean":
        return math.fsum(km) / len(km)
    share = 0.5 if statistic == "median" else float(statistic)
    return sorted(km)[max(1, math.ceil(share * len(km))) - 1]


# Sequences ---------------------------------------------------------------------------------------


def right_sequences(
    preds: Tensor, target: Tensor, mask: Tensor, first: int | None, ignored: int | None
) -> list[bool]:
    """Return for each sequence with a counted step whether its first decisions are correct."""
    found = []
    for rows, targets, kept in zip(preds.tolist(), target.tolist(), mask.tolist(), strict=True):
        steps = []
        for row, to, counts in zip(rows, targets, kept, strict=True):
            if counts and to != ignored:
                steps.append(decision(row, by_scores=True) == to)
        if steps:
            found.append(all(steps[:first]))
    return found


def sequence_accuracy(
    preds: Tensor,
    target: Tensor,
    mask: Tensor,
    first: int | None = None,
    ignore_index: int | None = None,
) -> float:
    """The share of sequences whose first decisions are all correct."""
    right = right_sequences(preds, target, mask, first, ignore_index)
    return sum(right) / len(right) if right else math.nan
