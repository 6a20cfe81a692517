r"""The variance of a mean difference where few queries differ, or none in the sample.

The scores of most queries are equal for two models, so the sample may hold no difference, and its
variance s^2 / n is then 0, although the true difference m is not. As in Wilson's interval of a
share, the variance *at* m is taken instead. If only differences of one size r occur, and all in one
direction, a share m / r of the queries differ, and a difference has the variance |m| (r - |m|);
with differences in both directions it is larger. So the variance of the mean at m is at least
|m| (r - |m|) / n. The r of the sample is the sum of d^2 over the sum of |d|. Hits of independent
queries have Tango's score interval, which takes the most likely variance at m.

Source: T. Tango, "Equivalence test and confidence interval for the difference in proportions for
the paired-sample design", Statistics in Medicine 17, 1998; M. W. Fagerland, S. Lydersen and
P. Laake, "Recommended tests and confidence intervals for paired binomial proportions", Statistics
in Medicine 33, 2014.
"""

import math
from typing import Any

import numpy as np

from nextloc_metrics.core.means.exact import sum_once

# After this many halvings of an interval of length 2, its ends are equal floats.
_HALVES = 60


def size_of(differences: Any, counts: Any = 1) -> float:
    """Return the sum of squares over the sum of absolute values; 1 if all are 0."""
    sizes = np.abs(differences)
    return sum_once(sizes * sizes, counts) / sum_once(sizes, counts) if sizes.any() else 1.0


def interval_of(
    mean: float, half: float, t: float, size: float, number: int
) -> tuple[float, float]:
    """Return the least and the largest m that are at most t standard errors from the mean.

    The standard error is the one at m. If two or three queries all differ, the values of m may
    have a gap around 0; the interval includes the gap.
    `half` is t times the estimated standard error. Where the variance at m is larger, the ends are
    the roots of (mean - m)^2 = t^2 |m| (size - |m|) / number, for m of either sign.
    """
    ends = [mean - half, mean + half]
    if math.isnan(size) or not math.isfinite(half):
        return ends[0], ends[1]
    q = t * t / number
    for sign in (1, -1):
        middle = 2 * sign * mean + q * size
        discriminant = middle * middle - 4 * (1 + q) * mean * mean
        if middle > 0 and discriminant >= 0:
            roots = (middle - math.sqrt(discriminant), middle + math.sqrt(discriminant))
            ends += [sign * root / (2 * (1 + q)) for root in roots]
    return max(-1.0, min(ends)), min(1.0, max(ends))


def _tango(wins: int, losses: int, number: int, m: float) -> float:
    """Return how many standard errors the difference of two shares is above `m`, by Tango.

    In `wins` of the `number` queries only the second model has a hit, in `losses` only the first.
    """
    b = -wins - losses + (2 * number - wins + losses) * m
    root = math.sqrt(max(0.0, b * b + 8 * number * losses * m * (1 - m)))
    variance = number * ((root - b) / (2 * number) + m * (1 - m))
    above = wins - losses - number * m
    return above / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, above or -m)


def tango_interval(wins: int, losses: int, number: int, z: float) -> tuple[float, float]:
    """Return the least and the largest difference within `z` standard errors of the sample's."""
    ends = []
    for sign, (won, lost) in ((-1, (wins, losses)), (1, (losses, wins))):  # the second is mirrored
        near, far = (won - lost) / number, -1.0
        for _ in range(_HALVES):
            middle = (near + far) / 2
            near, far = (near, middle) if _tango(won, lost, number, middle) > z else (middle, far)
        ends.append(-sign * near)
    return ends[0], ends[1]
