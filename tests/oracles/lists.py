"""What a batch recommends, counted in loops: the first k candidates of each query, best first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from oracles import ranks

Firsts = list[list[int]]


def first_of_scores(row: list[float], k: int) -> list[int]:
    """The first k candidates: NaN first, then dropped; of tied ones the lowest ids."""
    nan = sum(x != x for x in row)
    known = [i for i, x in enumerate(row) if x == x and x > -math.inf]
    return sorted(known, key=lambda i: (-row[i], i))[: max(0, k - nan)]


def first_of_list(row: list[int], k: int) -> list[int]:
    """The distinct ids among the first k."""
    return list(dict.fromkeys(x for x in row[:k] if x >= 0))


def firsts_of(
    k: int,
    preds: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    ignore_index: int | None = None,
) -> Firsts:
    """The first k candidates of each query that counts."""
    first = first_of_scores if preds.is_floating_point() else first_of_list
    counted = ranks.queries(preds, target, mask, ignore_index)
    rows = zip(preds.tolist(), counted, strict=True)
    return [first(row, k) for row, query in rows if query is not None]


def counts_of(firsts: Firsts, size: int) -> list[int]:
    """How often each location is recommended."""
    return [sum(first.count(i) for first in firsts) for i in range(size)]


def gini_of_pairs(counts: Sequence[int], definition: str) -> float:
    """The mean difference of all pairs, over twice the mean: the same number, defined otherwise."""
    n, total = len(counts), sum(counts)
    if not total:
        return math.nan
    apart = sum(abs(a - b) for a in counts for b in counts)
    gini = apart / (2 * n * total)
    if definition == "population":
        return gini
    return gini * n / (n - 1) if definition == "sample" else 1 - gini * n / (n - 1)


def coverage_of(firsts: Firsts, size: int) -> float:
    """The share of the locations that are recommended."""
    return sum(x > 0 for x in counts_of(firsts, size)) / size if firsts else math.nan


def popularity_of(firsts: Firsts, visits: Sequence[int]) -> float:
    """The mean visits of what is recommended."""
    return _mean([visits[i] for i in _all_known(firsts, len(visits))])


def entropy_of(firsts: Firsts, size: int) -> float:
    """Minus the sum of p log2 p, p the share of a location in all recommendations."""
    every = _all_known(firsts, size)
    shares = [every.count(i) / len(every) for i in set(every)]
    return -math.fsum(p * math.log2(p) for p in shares) if every else math.nan


def tail_share_of(firsts: Firsts, visits: Sequence[int], most: int) -> float:
    """The share of recommendations with at most so many visits."""
    return _mean([float(visits[i] <= most) for i in _all_known(firsts, len(visits))])


def novelty_of(firsts: Firsts, visits: Sequence[int], total: int) -> float:
    """The mean over queries of the mean of -log2 of the shares of visits."""
    bits = [[-math.log2(max(1, visits[i]) / total) for i in first if i < len(visits)]
            for first in firsts]  # fmt: skip
    return _mean([_mean(row) for row in bits if row])


def highest_of_tail(visits: Sequence[int], share: float, of: str) -> int:
    """The visits of the most popular location of the tail; -1 if the tail is empty."""
    weights = visits if of == "visits" else [1] * len(visits)
    highest = -1
    for level in sorted(set(visits)):
        inside = sum(w for w, v in zip(weights, visits, strict=True) if v <= level)
        if inside <= share * sum(weights):
            highest = level
    return highest


def _all_known(firsts: Firsts, size: int) -> list[int]:
    return [i for first in firsts for i in first if i < size]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


# Of a batch, with the options of the metric class ------------------------------------------------


def coverage(*batch: Any, num_locations: int, k: int, **options: Any) -> float:
    """See `coverage_of`."""
    return coverage_of(firsts_of(k, *batch, **options), num_locations)


def gini(
    *batch: Any, num_locations: int, k: int, definition: str = "population", **options: Any
) -> float:
    """See `gini_of_pairs`."""
    return gini_of_pairs(counts_of(firsts_of(k, *batch, **options), num_locations), definition)


def average_popularity(*batch: Any, train_counts: Sequence[int], k: int, **options: Any) -> float:
    """See `popularity_of`."""
    return popularity_of(firsts_of(k, *batch, **options), train_counts)


def entropy(*batch: Any, num_locations: int, k: int, **options: Any) -> float:
    """See `entropy_of`."""
    return entropy_of(firsts_of(k, *batch, **options), num_locations)


def tail_share(
    *batch: Any,
    train_counts: Sequence[int],
    k: int,
    share: float = 0.2,
    of: str = "visits",
    **options: Any,
) -> float:
    """See `tail_share_of`."""
    most = highest_of_tail(train_counts, share, of)
    return tail_share_of(firsts_of(k, *batch, **options), train_counts, most)


def novelty(
    *batch: Any, train_counts: Sequence[int], k: int, total: int | None = None, **options: Any
) -> float:
    """See `novelty_of`."""
    return novelty_of(firsts_of(k, *batch, **options), train_counts, total or sum(train_counts))
