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
    power: float | None,
    most: float = np.inf,
) -> Floor:
    """Compare random sets of buckets with the other buckets.

    A split's value is brought to the sizes that are compared: values of samples of n and m
    trajectories go with (1/n + 1/m) to the power of `power`.

    Args:
        sizes: int64 `[B]`, the number of real trajectories of each bucket.
        num_generated: the number of generated trajectories.
        halves: the real counts `[S, K]` of the sets of buckets that bool `[S, B]` marks.
        compare: the comparison of counts `[S, K]` and `[S, K]`, in `[S]`.
        power: 1 for a divergence, 1/2 for a distance, 0 for no correction; None to find it from
            sets that are half as large.
        most: the largest possible value.
    """
    own = sizes > 0
    reason = ""
    if not num_generated or not own.any():
        reason = f"there is no {'generated' if own.any() else 'real'} trajectory"
    elif own.sum() < 2:
        reason = "the floor needs real users in at least two of the 64 buckets"
    if reason:
        return Floor(np.nan, np.nan, np.nan, reason)
    wanted = min(num_generated, sizes.sum() / 2)
    first = _choose(sizes, wanted)
    values = compare(halves(first), halves(~first))
    noise = _noise(first @ sizes, ~first @ sizes)
    if power is None:
        power = _find_power(sizes, wanted, halves, compare, float(values.mean()), noise)
    goal = _noise(num_generated, sizes.sum())
    values = np.minimum(values * (goal / noise) ** power, most)
    low, high = np.quantile(values, [0.025, 0.975])
    return Floor(min(float(values.mean()), most), float(low), float(high))  # a mean is rounded


def _noise(n: Any, m: Any) -> Any:
    return 1 / n + 1 / m


def _find_power(
    sizes: NDArray[np.int64], wanted: float, halves: Any, compare: Any, value: float, noise: Any
) -> float:
    """Return how values go with the noise, from sets of buckets half as large; 0 if unknown."""
    first = _choose(sizes, wanted / 2)
    other = _choose(sizes, (sizes.sum() - wanted) / 2, from_end=True) & ~first
    known = (other @ sizes > 0) & (first @ sizes > 0)
    if not known.any() or not value > 0:
        return 0.0
    first, other = first[known], other[known]
    smaller = float(compare(halves(first), halves(other)).mean())
    apart = np.log(_noise(first @ sizes, other @ sizes).mean() / noise.mean())
    if not smaller > 0 or apart < 0.1:  # too few buckets to tell
        return 0.0
    return float(np.clip(np.log(smaller / value) / apart, -1, 1))


def _choose(sizes: NDArray[np.int64], wanted: float, from_end: bool = False) -> NDArray[np.bool_]:
    """Return random sets of buckets of about a size, at least one and not all."""
    order = _orders(len(sizes))
    if from_end:
        order = order[:, ::-1]
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
