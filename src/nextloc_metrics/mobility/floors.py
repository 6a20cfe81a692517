"""The floor: the divergence of real data from themselves, which sampling alone makes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: the number of random splits of the real users
SPLITS = 200

_SEED = 46


class Floor(NamedTuple):
    """What a perfect generator would score: real users compared with other real users.

    Attributes:
        value: the mean over random splits of the real users.
        low: the lower bound of the range of 95 % of the splits.
        high: the upper bound; a value above it is no effect of sampling.
        reason: why there is no floor; empty if there is one.
    """

    value: float
    low: float
    high: float
    reason: str = ""


def find_floor(
    sizes: NDArray[np.int64],
    num_generated: int,
    halves: Callable[[Any], Any],
    compare: Callable[[Any, Any], Any],
    power: float,
) -> Floor:
    """Compare random sets of buckets with the other buckets.

    A split's value is brought to the sizes that are compared: differences of samples of n and m
    trajectories are in proportion to (1/n + 1/m) to the power of `power`.

    Args:
        sizes: int64 `[B]`, the number of real trajectories of each bucket.
        num_generated: the number of generated trajectories.
        halves: the real counts `[S, K]` of the sets of buckets that bool `[S, B]` marks.
        compare: the comparison of counts `[S, K]` and `[S, K]`, in `[S]`.
        power: 1 for a divergence, 1/2 for a distance, 0 for no correction.
    """
    own = sizes > 0
    if not num_generated or not own.any():
        empty = "generated" if own.any() else "real"
        return _none(f"there is no {empty} trajectory")
    if own.sum() < 2:
        return _none("the floor needs real users in at least two of the 64 buckets")
    first = _choose(sizes, num_generated)
    n, other = (mask @ sizes for mask in (first, ~first))
    total = int(sizes.sum())
    factor = ((1 / num_generated + 1 / total) / (1 / n + 1 / other)) ** power
    values = compare(halves(first), halves(~first)) * factor
    low, high = np.quantile(values, [0.025, 0.975])
    return Floor(float(values.mean()), float(low), float(high))


def _none(reason: str) -> Floor:
    return Floor(np.nan, np.nan, np.nan, reason)


def _choose(sizes: NDArray[np.int64], num_generated: int) -> NDArray[np.bool_]:
    """Return random sets of buckets, about as large as the generated set, at most half."""
    order = _orders(len(sizes))
    wanted = min(num_generated, sizes.sum() / 2)
    ordered = sizes[order]
    after = ordered.cumsum(1)
    # a bucket is taken if that brings the set nearer to its size
    taken = after - ordered / 2 <= wanted
    taken &= after < sizes.sum()
    first = (ordered > 0).argmax(1)
    taken[np.arange(len(order)), first] = True
    chosen = np.zeros(order.shape, dtype=bool)
    np.put_along_axis(chosen, order, taken, 1)
    return chosen


@cache
def _orders(number: int) -> NDArray[np.int64]:
    """Return random orders of buckets, the same in every process: `RandomState` is frozen."""
    return np.random.RandomState(_SEED).random_sample((SPLITS, number)).argsort(1)
