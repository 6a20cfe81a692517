r"""Confidence intervals of a mean of scores, from integer sums.

The variance of scores in [0, 1] with mean m is at most m (1 - m), which 0/1 scores have. The
effective sample size of a mean with standard error s is n_eff = m (1 - m) / s^2, the number of
independent 0/1 scores with the same standard error. The interval is Wilson's with n_eff. For 0/1
scores it is Wilson's interval. For other scores the normal quantile is replaced by Student's t,
because their variance is estimated. The interval lies in [0, 1]. Scores without an upper bound have
Student's t interval, from 0 upwards. Where fewer than three groups have a hit, or a miss, the exact
interval of their share (Clopper-Pearson) takes the place of Student's t.

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA
22, 1927; the exact interval: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial
limits illustrated in the case of the binomial", Biometrika 26, 1934; W. Hoeffding, "On the
distribution of the number of successes in independent trials", Annals of Mathematical Statistics
27, 1956, for groups that differ; the effective sample size and t: E. L. Korn and B. I. Graubard,
"Confidence intervals for proportions with small expected number of positive counts estimated from
survey data", Survey Methodology 24, 1998; clusters: R. M. Bell and D. F. McCaffrey, "Bias reduction
in standard errors for linear regression with multi-stage samples", Survey Methodology 28, 2002; J.
G. MacKinnon and M. D. Webb, "Wild bootstrap inference for wildly different cluster sizes", Journal
of Applied Econometrics 32, 2017; A. V. Carter, K. T. Schnepel and D. G. Steigerwald, "Asymptotic
behavior of a t-test robust to cluster heterogeneity", Review of Economics and Statistics 99, 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.checks import check_share

# Squares are rounded to multiples of 2^-32: a smaller variance may be rounding.
_SMALLEST_VARIANCE = 2.0**-30

# Above this, the logarithm of a quotient of gamma functions is computed by its series.
_MANY_DEGREES_OF_FREEDOM = 1000

# Where one group has a larger share of the queries, CR2 is nearer to the level than the jackknife.
_DOMINANT = 1 / 3

# Enough for a confidence level of 0.999999.
_NEWTON_STEPS = 40

# The variance is estimated if at least this many groups have a hit, and as many have a miss.
FEWEST_GROUPS = 3

# After this many halvings of [0, 1], a share of a million groups has twelve digits.
_HALVES = 64


class FewGroups(NamedTuple):
    """Groups, too few of which have a hit, or a miss, to estimate a variance from.

    A group is expected to have a hit with a probability of at most u on average, where u is the
    upper end of the exact interval. Its mean is at most that probability. So the mean of all is at
    most the share of queries of the largest u G of G groups, which is u if sizes are equal.
    """

    sizes: Tensor  #: the number of queries of each group, float64 `[G]`
    with_hit: int  #: the number of groups that have a hit, a score above 0
    with_miss: int  #: the number of groups that have a miss, a score below 1

    @classmethod
    def of(cls, sizes: Tensor, with_hit: Tensor, with_miss: Tensor) -> Few:
        """Return the groups of a single mean; none if three have a hit, and three a miss."""
        hits, misses = int(with_hit.sum()), int(with_miss.sum())
        return (((), cls(sizes, hits, misses)),) if min(hits, misses) < FEWEST_GROUPS else ()

    def interval(self, confidence_level: float) -> tuple[float, float]:
        """Return the bounds: 0 if many groups have a miss, and 1 if many have a hit."""
        most_misses = self._most(self.with_miss, confidence_level)
        return 1 - most_misses, self._most(self.with_hit, confidence_level)

    def _most(self, number: int, confidence_level: float) -> float:
        """Return the share of queries in as many of the largest groups as may have a hit."""
        if number >= min(FEWEST_GROUPS, len(self.sizes)):
            return 1.0
        groups = len(self.sizes) * _most_of_all(number, len(self.sizes), confidence_level)
        sizes = self.sizes.sort(descending=True).values
        whole = min(int(groups), len(sizes) - 1)
        queries = sizes[:whole].sum() + (groups - whole) * sizes[whole]
        return float(queries / sizes.sum())


#: Groups that are `FewGroups`, each with its place in the tensors of an estimate.
Few = tuple[tuple[int | tuple[()], FewGroups], ...]


@lru_cache(1024)
def _most_of_all(number: int, groups: int, confidence_level: float) -> float:
    """Return the upper end of the exact interval of a share, if `number` of `groups` have a hit.

    It is the share for which at most `number` hits have the probability (1 - confidence_level) / 2.
    """
    low, high = 0.0, 1.0
    for _ in range(_HALVES):
        share = (low + high) / 2
        rest = math.exp((groups - number) * math.log1p(-share)) if share < 1 else 0.0
        terms = (
            math.comb(groups, x) * share**x * (1 - share) ** (number - x) for x in range(number + 1)
        )
        is_seen = rest * sum(terms) > (1 - confidence_level) / 2
        low, high = (share, high) if is_seen else (low, share)
    return high


class Estimate(NamedTuple):
    """A mean of scores with its standard error; float64 `[...]`."""

    mean: Tensor
    standard_error: Tensor  #: NaN below two queries, or groups
    effective: Tensor  #: the effective sample size
    degrees_of_freedom: Tensor  #: of Student's t; infinite for the normal distribution
    is_bounded: bool = True  #: whether the scores are at most 1
    few: Few = ()  #: the means whose interval is that of `FewGroups`
    #: the rising function that makes the value of the mean; None if the mean is the value
    link: Callable[[Tensor], Tensor] | None = None

    @classmethod
    def stack(cls, estimates: Sequence[Estimate]) -> Estimate:
        """Stack estimates of single means, which are all bounded or all not."""
        columns = zip(*(one[:4] for one in estimates), strict=True)
        mean, error, effective, freedom = map(torch.stack, columns)
        few = tuple((i, x) for i, one in enumerate(estimates) for _, x in one.few)
        return cls(mean, error, effective, freedom, estimates[0].is_bounded, few)

    def interval(self, confidence_level: float) -> tuple[Tensor, Tensor]:
        """Return the lower and the upper bound of the value, float64, NaN without data."""
        low, high = self._bounds(confidence_level)
        return (low, high) if self.link is None else (self.link(low), self.link(high))

    def _bounds(self, confidence_level: float) -> tuple[Tensor, Tensor]:
        t = t_quantile(confidence_level, self.degrees_of_freedom)
        if not self.is_bounded:
            half = (t * self.standard_error).nan_to_num(nan=math.inf, posinf=math.inf)
            low, high = (self.mean - half).clamp(min=0), self.mean + half
            unknown = self.mean.isnan()
            return low.nan_to_num(nan=0.0).masked_fill(unknown, math.nan), high
        mean, share = self.mean, t * t / self.effective
        kept, shrunk = 1 / (1 + share), 1 / (1 + 1 / share)  # they add up to 1
        center = kept * mean + shrunk / 2
        half = (kept * shrunk * mean * (1 - mean) + shrunk * shrunk / 4).sqrt()
        # rounding must not push the mean out of the interval
        low, high = (center - half).clamp(min=0), (center + half).clamp(max=1)
        for place, groups in self.few:
            low[place], high[place] = groups.interval(confidence_level)
        return low.minimum(mean), high.maximum(mean)


def of_queries(state: Tensor) -> Estimate:
    """Estimate the mean over independent queries, from states int64 `[..., width]`."""
    mean, square, count = exact.moments(state)
    if not exact.is_bounded(state):
        return _of_independent(mean, square, count, count - 1, is_bounded=False)
    zero_or_one = (state[..., 0] == state[..., 1]).to(count.device)
    return _of_independent(mean, square, count, (count - 1).masked_fill(zero_or_one, math.inf))


def of_groups(state: Tensor) -> Estimate:
    """Estimate the mean of the groups' means, from a state int64 `[G, width]`."""
    means, _, sizes = exact.moments(state)
    means = means[sizes > 0]
    count = torch.tensor(float(len(means)), dtype=torch.float64, device=means.device)
    mean, square = means.mean(), (means * means).mean()
    return _of_independent(mean, square, count, count - 1, exact.is_bounded(state))


def of_clusters(state: Tensor) -> Estimate:
    """Estimate the mean over queries that depend on each other within groups, `[G, width]`."""
    means, _, sizes = exact.moments(state)
    means, sizes = means[sizes > 0], sizes[sizes > 0]
    total, scores, squares = _sum(torch.stack([sizes, means * sizes, sizes * sizes]))
    mean = scores / total
    variance, freedom = cluster_variance((means - mean) * sizes, sizes)
    is_known = variance * total > _SMALLEST_VARIANCE
    freedom = torch.where(is_known, observed_freedom(means, sizes, freedom), freedom)
    # without variance between groups, n_eff is the number of groups, or less if sizes differ
    num_effective = total * total / squares
    effective = torch.where(is_known, mean * (1 - mean) / variance, num_effective)
    is_bounded = exact.is_bounded(state)
    few = FewGroups.of(sizes, means > 0, means < 1) if is_bounded and is_known else ()
    return Estimate(mean, variance.sqrt(), effective, freedom, is_bounded, few)


def observed_freedom(means: Tensor, sizes: Tensor, freedom: Tensor) -> Tensor:
    """Return degrees of freedom that count only groups with a hit, or only groups with a miss.

    They are an effective number of groups minus 1: of the groups with a score above 0, or of those
    with a score below 1, whichever is smaller; at least 1, and at most `freedom`. A group without a
    hit says little about the variance. If every group has a hit and a miss, they are `freedom`.
    """
    with_hit, with_miss = means > 0, means < 1
    if (with_hit & with_miss).all():
        return freedom
    parts = torch.stack([sizes * with_hit, sizes * with_miss])
    totals, squares = _sum(torch.stack([parts, parts * parts]))
    return freedom.minimum(((totals**2 / squares.clamp(min=1e-300)).min() - 1).clamp(min=1))


def cluster_variance(off: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the cluster-robust variance of a mean and its degrees of freedom.

    With G groups and the shares of queries w_g = n_g / N, it is the jackknife's (CR3): (G - 1) / G
    times the sum over groups of ((S_g - m n_g) / (1 - w_g))^2, divided by N^2, with 1 over the sum
    of all w_g^2, the effective number of groups, less 1 as degrees of freedom. If one group has
    more than a third of the queries, the jackknife is too wide, and it is CR2: the sum over groups
    of (S_g - m n_g)^2 / (1 - w_g), divided by N^2, with Satterthwaite's degrees of freedom for
    independent queries: 1 over the sum of all w_g^2 and of r_g r_h over all pairs g != h, with
    r_g = w_g^2 / (1 - w_g). Both are s^2 / G with G - 1 degrees of freedom for groups of equal
    sizes. One group has 0, and its variance is NaN. Here `off` is S_g - m n_g, float64 `[..., G]`,
    and `sizes` is n_g, float64 `[G]`. Sums are rounded once: the order of groups does not matter.
    """
    total, number = _sum(sizes), len(sizes)
    off, weights = off / total, sizes / total
    others, squares = 1 - weights, weights * weights
    if number < 2:
        return _sum(off) * math.nan, total * 0
    if weights.max() > _DOMINANT:
        ratios = squares / others
        of_squares, of_ratios, both = _sum(torch.stack([squares, ratios, ratios * ratios]))
        return _sum(off * off / others), 1 / (of_squares + (of_ratios**2 - both))
    return (number - 1) / number * _sum((off / others) ** 2), 1 / _sum(squares) - 1


def _sum(values: Tensor) -> Tensor:
    """Sum the last dimension, and round only at the end."""
    rows = values[None].flatten(0, -2)
    are_whole = (rows == rows.round()).all(-1) & (rows.abs().sum(-1) < 2.0**53)
    sums = rows.sum(-1)  # exact where all are integers
    for i in (~are_whole).nonzero()[:, 0].tolist():
        sums[i] = exact.sum_once(*np.unique(rows[i].cpu().numpy(), return_counts=True))
    return sums.reshape(values.shape[:-1])


def _of_independent(
    mean: Tensor, square: Tensor, count: Tensor, freedom: Tensor, is_bounded: bool = True
) -> Estimate:
    most = mean * (1 - mean)
    variance = (square - mean * mean).clamp(min=0) * count / (count - 1)  # NaN for a single query
    # without a usable variance, n_eff is the number of queries, its lower bound
    is_usable = (variance > _SMALLEST_VARIANCE) & (variance < most)
    effective = torch.where(is_usable, count * most / variance, count)
    error = (variance / count).sqrt().masked_fill(count < 2, torch.nan)
    return Estimate(mean, error, effective, freedom, is_bounded)


def t_quantile(confidence_level: float, degrees_of_freedom: Tensor) -> Tensor:
    """Return the two-sided quantile of Student's t: P(|T| <= t) = `confidence_level`.

    The degrees of freedom are 0, for which it is infinite, or at least 1, integers or not.
    """
    distinct, places = torch.unique(degrees_of_freedom.cpu(), return_inverse=True)
    quantiles = _t_quantiles(confidence_level, tuple(distinct.tolist()))
    return quantiles[places].to(degrees_of_freedom.device)


@lru_cache(64)  # most metrics of an evaluation count the same queries
def _t_quantiles(confidence_level: float, degrees_of_freedom: tuple[float, ...]) -> Tensor:
    distinct = torch.tensor(degrees_of_freedom, dtype=torch.float64, device="cpu")
    normal = NormalDist().inv_cdf((1 + confidence_level) / 2)
    t = torch.full_like(distinct, normal).masked_fill(distinct <= 0, math.inf)
    is_known = (distinct > 0) & distinct.isfinite()
    n = distinct[is_known]
    angle = (normal / n.sqrt()).atan()  # Newton's method rises from below the quantile
    for _ in range(_NEWTON_STEPS):
        before, (tail, slope) = angle, _tail_of_angle(angle, n)
        angle = (angle + (tail - (1 - confidence_level)) / slope).clamp(max=math.pi / 2)
        if not ((angle - before).abs() > 1e-9 * angle).any():  # the error is now about 1e-18
            break
    t[is_known] = n.sqrt() * angle.tan()
    return t


def t_tail(t: Tensor, degrees_of_freedom: Tensor) -> Tensor:
    """Return P(|T| >= `t`) of Student's t, float64 `[...]`; the degrees of freedom are finite."""
    return _tail_of_angle((t / degrees_of_freedom.sqrt()).atan(), degrees_of_freedom)[0]


def _tail_of_angle(low: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """Return c times the integral of cos^(n - 1) from `low` to pi / 2, and its slope at `low`.

    Beyond 40 / sqrt(n) nothing is left of it. The angle is atan(T / sqrt(n)) (M. Abramowitz and
    I. A. Stegun, "Handbook of Mathematical Functions", 26.7, 1964).
    """
    from_low, from_high, weights = _double_exponential()
    log_c = torch.where(
        n > _MANY_DEGREES_OF_FREEDOM,  # the series of the difference
        (n / 2).log() / 2 - 1 / (4 * n) + 1 / (24 * n**3),
        ((n + 1) / 2).lgamma() - (n / 2).lgamma(),
    ) + math.log(2 / math.sqrt(math.pi))
    width = (math.pi / 2 - low).minimum(40 / n.sqrt())
    near = low[..., None] + width[..., None] * from_low
    far = (math.pi / 2 - low - width)[..., None] + width[..., None] * from_high
    logs = torch.where(from_low < 0.5, torch.log1p(-(near.sin() ** 2)) / 2, far.sin().log())
    area = ((n - 1)[..., None] * logs + log_c[..., None]).exp() @ weights * width
    return area, (log_c + (n - 1) * torch.log1p(-(low.sin() ** 2)) / 2).exp()


@cache
def _double_exponential() -> tuple[Tensor, Tensor, Tensor]:
    """Return nodes from 0 to 1, their distance from 1, and their weights, dense at both ends.

    Source: H. Takahasi and M. Mori, "Double exponential formulas for numerical integration", 1974.
    """
    steps = torch.linspace(-3.3, 3.3, 128, dtype=torch.float64, device="cpu")
    odds = (math.pi * steps.sinh()).exp()
    nodes, rest = odds / (1 + odds), 1 / (1 + odds)
    return nodes, rest, (steps[1] - steps[0]) * math.pi * steps.cosh() * nodes * rest


def check_confidence_level(confidence_level: float) -> None:
    """Raise if a confidence level is not between 0 and 1."""
    check_share("confidence_level", confidence_level, 0.95)
