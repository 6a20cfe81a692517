r"""Confidence intervals of a mean of scores in [0, 1], from integer sums.

The variance of scores in [0, 1] with mean m is at most m (1 - m), which 0/1 scores have. The
effective sample size of a mean with standard error s is n_eff = m (1 - m) / s^2, the number of
independent 0/1 scores with the same standard error. The interval is Wilson's with n_eff. It equals
Wilson's for 0/1 scores, approaches the normal interval for many queries, and lies in [0, 1].

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA
22, 1927; the effective sample size: E. L. Korn and B. I. Graubard, "Confidence intervals for
proportions with small expected number of positive counts estimated from survey data", Survey
Methodology 24, 1998.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from nextloc_metrics import exact
from nextloc_metrics.messages import short

# Squares are rounded to multiples of 2^-32: a smaller variance may be rounding.
_SMALLEST_VARIANCE = 2.0**-30

# Above this, the series expansion of Student's t is as exact as the finite sum.
_MANY_DEGREES_OF_FREEDOM = 200


class Estimate(NamedTuple):
    """A mean of scores with its standard error; float64 `[...]`."""

    mean: Tensor
    standard_error: Tensor  #: NaN below two queries, or groups
    effective: Tensor  #: the effective sample size
    degrees_of_freedom: float  #: of Student's t; infinite for the normal distribution

    def interval(self, confidence: float) -> tuple[Tensor, Tensor]:
        """Return the lower and the upper bound, float64, NaN without data."""
        t = t_quantile(confidence, self.degrees_of_freedom)
        mean, share = self.mean, t * t / self.effective
        center = mean + share / 2
        half = (share * (mean * (1 - mean) + share / 4)).sqrt()
        low, high = (center - half) / (1 + share), (center + half) / (1 + share)
        # rounding must not push the mean out of the interval
        return low.clamp(min=0).minimum(mean), high.clamp(max=1).maximum(mean)


def of_queries(state: Tensor) -> Estimate:
    """Estimate the mean over independent queries, from states int64 `[..., 3]`; see `exact`."""
    return _of_independent(*exact.moments(state), math.inf)


def of_groups(state: Tensor) -> Estimate:
    """Estimate the mean of the groups' means, from a state int64 `[G, 3]`."""
    means, _, sizes = exact.moments(state)
    means = means[sizes > 0]
    count = torch.tensor(float(len(means)), dtype=torch.float64, device=means.device)
    return _of_independent(means.mean(), (means * means).mean(), count, len(means) - 1)


def of_clusters(state: Tensor) -> Estimate:
    r"""Estimate the mean over queries that are dependent within groups (cluster-robust).

    The squared standard error is G / (G - 1) times the sum over groups of (S_g - m n_g)^2,
    divided by N^2: G groups with sums S_g of n_g scores, N queries in total, and their mean m.

    Args:
        state: int64 `[G, 3]`; see `exact`.
    """
    means, _, sizes = exact.moments(state)
    means, sizes = means[sizes > 0], sizes[sizes > 0]
    total, count = sizes.sum(), len(sizes)
    mean = (means * sizes).sum() / total
    off = (means - mean) * sizes
    freedom = count - 1 if count > 1 else math.nan
    variance = (off * off).sum() / (total * total) * count / freedom
    known = variance * total > _SMALLEST_VARIANCE
    # without variance between groups, n_eff is the number of groups
    effective = torch.where(known, mean * (1 - mean) / variance, float(count))
    return Estimate(mean, variance.sqrt(), effective, freedom)


def _of_independent(mean: Tensor, square: Tensor, count: Tensor, freedom: float) -> Estimate:
    most = mean * (1 - mean)
    variance = (square - mean * mean).clamp(min=0) * count / (count - 1)  # NaN for a single query
    # without a usable variance, n_eff is the number of queries, its lower bound
    known = (variance > _SMALLEST_VARIANCE) & (variance < most)
    effective = torch.where(known, count * most / variance, count)
    error = (variance / count).sqrt().masked_fill(count < 2, torch.nan)
    return Estimate(mean, error, effective, freedom)


def t_quantile(confidence: float, degrees_of_freedom: float) -> float:
    """Return the two-sided quantile t of Student's distribution: P(|T| <= t) = confidence.

    It is NaN below one degree of freedom.

    Source: M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 26.7, 1964.
    """
    n = degrees_of_freedom
    if not n >= 1:
        return math.nan
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    if n > _MANY_DEGREES_OF_FREEDOM:
        terms = (
            z,
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        )
        return sum(term / n**power for power, term in enumerate(terms))
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if _t_within(angle, int(n)) < confidence:
            low = angle
        else:
            high = angle
    return math.sqrt(n) * math.tan(low)


def _t_within(angle: float, n: int) -> float:
    """Return P(|T| <= sqrt(n) tan(angle)), a sum of n / 2 terms."""
    cosine = math.cos(angle)
    odd = n % 2
    term = cosine if odd else 1.0
    total = term if n > 1 else 0.0
    for i in range(2 + odd, n, 2):
        term *= (i - 1) / i * cosine * cosine
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def check_confidence(confidence: float) -> None:
    """Raise if a confidence is not between 0 and 1."""
    if type(confidence) is not float or not 0 < confidence < 1:
        raise ValueError(
            f"`confidence` must be between 0 and 1, such as 0.95, got {short(confidence)}."
        )
