r"""The interval of F1, and the test of the difference of two models, by the delete-one jackknife.

F1 is not a mean of scores of queries: one more query changes the F1 of two locations, its target
and its decision, for all their queries. So each user is left out once. Let F be the value of N
queries of G users, and F_g the value without the n_g queries of user g. Then the user adds
S_g = (F - F_g) (N - n_g), minus the share n_g / N of the sum of all S_g. The variance is

$$\frac{G - 1}{G} \sum_g \left(\frac{S_g}{N - n_g}\right)^2,$$

which is the variance of a mean of scores by user (`intervals.cluster_variance`), with the same
degrees of freedom. Without a user, only the locations in the user's answers change, so leaving out
all users in turn takes as long as one pass over the answers. If there are no users, each query is
left out.

There is no interval if fewer than three users have a right decision, or a wrong one.

The interval is for the expected F1 of samples of this size. It is not for the F1 of all possible
queries, because F1 changes with the number of queries per location.

The test of two models exchanges the two models' answers of some users, drawn at random, and
computes F1 again: if the models are equal, all such exchanges are equally probable.

Sources: B. Efron and C. Stein, "The jackknife estimate of variance", Annals of Statistics 9, 1981;
A. Yeh, "More accurate tests for the statistical significance of result differences", COLING 2000,
for the exchange; J. Besag and P. Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991,
for random exchanges until 400 of them have as large a difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.analysis.signs import ENOUGH, MOST_EXACT_SIGNS, SignTest, random_bits, signs_of
from nextloc_metrics.core.base.plan import dense_size
from nextloc_metrics.core.means.intervals import (
    FEWEST_GROUPS,
    Estimate,
    cluster_variance,
    observed_freedom,
)
from nextloc_metrics.core.means.keyed_sums import KeyedSums
from nextloc_metrics.core.queries.hashing import mix
from nextloc_metrics.metrics.location_f1 import LocationF1, LocationTally

# The most numbers that a test may compute, in all and at once.
_MOST_WORK = 1 << 25
_AT_ONCE = 1 << 22

# If this many random exchanges have at least the models' difference, p is precise enough.
_MANY = 400

# Whole numbers up to this are exact in float32.
_EXACT = 1 << 24

# Differences of F1 up to this size may be rounding.
_ROUNDING = 1e-12


class Jackknife(NamedTuple):
    """A value, and what each unit (a user or a query) adds to it; see `jackknife`."""

    value: float
    added: Tensor  #: S_g, float64 `[U]`
    sizes: Tensor  #: the number of queries of each unit, float64 `[U]`
    hits: Tensor  #: the number of right decisions of each unit
    times: Tensor  #: how many equal units each one stands for; above 1 only for queries
    by_cluster: bool

    def estimate(self) -> Estimate:
        """Return the value as a mean of scores in [0, 1]; without an interval, this is NaN."""
        sizes, number = self.sizes, self.times.sum().double()
        if self.by_cluster:
            variance, freedom = cluster_variance(self.added, sizes)
            freedom = observed_freedom(self.hits / sizes, sizes, freedom)
        else:
            squares = math.fsum((self.added**2 * self.times).tolist())
            variance, freedom = squares / (number * (number - 1)), number - 1
        mean = number.new_tensor(self.value)
        total = (sizes * self.times).sum()
        has_variance = (variance * total > 2.0**-30) & (mean > 0) & (mean < 1)  # not rounding
        num_effective = total * total / (sizes * sizes * self.times).sum()
        effective = torch.where(has_variance, mean * (1 - mean) / variance, num_effective)
        with_hit, with_miss = (int(x.sum()) for x in (self.hits > 0, self.hits < sizes))
        if self.by_cluster and is_few(len(sizes), with_hit, with_miss):
            effective = effective * math.nan
        return Estimate(mean, variance.sqrt(), effective, freedom)

    def shares(self) -> Tensor:
        """Return sums of scores by unit whose mean is the value, float64 `[U]`."""
        return self.value * self.sizes + self.added.nan_to_num()


def is_few(clusters: int, with_hit: int, with_miss: int) -> bool:
    """Return whether too few clusters have a hit, or a miss, for an interval of F1.

    If no cluster has a hit, or none has a miss, F1 is 0 or 1, and all clusters are equal.
    """
    return clusters > 1 and 0 < min(with_hit, with_miss) < FEWEST_GROUPS


def has_jackknife(metric: LocationTally) -> bool:
    """Return whether a metric's intervals have covered the expected value in simulations."""
    is_macro_f1 = metric.average == "macro" and isinstance(metric, LocationF1)
    return metric.average == "weighted" or is_macro_f1


def _are_locations(metric: LocationTally, decided: Tensor) -> Tensor:
    """Return which decisions are for a location, bool."""
    size = metric.num_locations
    return decided >= 0 if size is None else (decided >= 0) & (decided < size)


def answers_of(
    target: Tensor, decided: Tensor, clusters: Tensor | None = None, merge: bool = True
) -> Tensor:
    """Count equal answers, int64 `[E, 4]`: user (0 without `clusters`), target, decision, count.

    Args:
        target: the location of each query, int64 `[N]`; -1 leaves it out.
        decided: the decision, int64 `[N]`; -1 for none.
        clusters: the number of each query's user, int64 `[N]`.
        merge: whether equal answers become one row; else each query is one.
    """
    first = torch.zeros_like(target) if clusters is None else clusters
    rows = torch.stack([first, target, decided, torch.ones_like(target)], 1)
    rows = rows[target >= 0]
    return KeyedSums([rows], 3).merge() if merge else rows


def jackknife(metric: LocationTally, answers: Tensor, by_cluster: bool) -> Jackknife:
    """Leave out each user of `answers_of`, or each query, and return what it adds to the value.

    `metric` has the average `"weighted"` or `"macro"`; reports ask `has_jackknife` before.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import LocationF1
        >>> target, decided = tensor([0, 1, 1, 1]), tensor([0, 0, 1, 2])
        >>> answers = answers_of(target, decided, clusters=tensor([0, 0, 1, 2]))
        >>> found = jackknife(LocationF1(3), answers, by_cluster=True)
        >>> f"{found.value:.4f}", found.sizes.tolist()  # (1 * 2/3 + 3 * 1/2) / 4
        ('0.5417', [2.0, 1.0, 1.0])
    """
    user, target, decided, times = answers.cpu().unbind(1)
    is_miss = (target != decided).long()
    is_other, size = is_miss * _are_locations(metric, decided), metric.num_locations
    if size is None:
        size = dense_size(target, decided)
    if size is None:  # the locations that occur get numbers
        either = torch.stack([target, decided.where(decided >= 0, target)])
        locations, (target, either) = torch.unique(either, return_inverse=True)
        decided, size = either.where(decided >= 0, -1), len(locations)
    other = decided * is_other
    support, right, wrong = (
        place.bincount((times * counts).double(), size)
        for place, counts in ((target, 1), (target, 1 - is_miss), (other, is_other))
    )
    totals = torch.stack([right, right + wrong, support], 1).long()
    whole = _terms(metric, totals)
    if by_cluster:
        is_sorted = bool((user[1:] >= user[:-1]).all())  # as in a state; it is faster then
        number_users = torch.unique_consecutive if is_sorted else torch.unique
        units, unit = number_users(user, return_inverse=True)
        cells = KeyedSums([_cells(metric, unit, target, decided, times)], 2).merge()
        unit, place, counts = cells[:, 0], cells[:, 1], cells[:, 2:]
        rest, times = _terms(metric, totals[place] - counts), torch.ones_like(units)
        lost = [unit.bincount(x[place] - y, len(units)) for x, y in zip(whole, rest, strict=True)]
        sums = counts.new_zeros(len(units), 3).index_add_(0, unit, counts)
        hits, sizes = sums[:, 0].double(), sums[:, 2].double()
    else:
        # without a query, its target loses a hit (1, 1, 1) or a miss (0, 0, 1) of TP, P and S, and
        # after a miss another location loses a decision (0, 1, 0)
        decrease = totals.new_tensor([[1, 1, 1], [0, 0, 1], [0, 1, 0]])
        rest = _terms(metric, totals[:, None] - decrease)
        changes = (x[:, None] - y for x, y in zip(whole, rest, strict=True))
        lost = [x[target, is_miss] + x[other, 2] * is_other for x in changes]
        hits, sizes = 1.0 - is_miss, torch.ones_like(lost[0])
    above, below = (math.fsum(x.tolist()) for x in whole)
    total = int((sizes * times).sum())
    value = above / below if total else math.nan
    added = (value - (above - lost[0]) / (below - lost[1])) * (total - sizes)
    added -= math.fsum((added * times).tolist()) / max(1, total) * sizes
    return Jackknife(value, added, sizes, hits, times, by_cluster)


def _cells(
    metric: LocationTally, unit: Tensor, target: Tensor, decided: Tensor, number: Tensor
) -> Tensor:
    """Return rows of unit, location, TP, P and S: for targets, and for other decisions."""
    hits, zeros = number * (target == decided), torch.zeros_like(number)
    of_targets = torch.stack([unit, target, hits, hits, number], 1)
    others = torch.stack([unit, decided, zeros, number, zeros], 1)
    is_other = (target != decided) & _are_locations(metric, decided)
    return torch.cat([of_targets, others[is_other]])


def _terms(metric: LocationTally, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return what locations with these TP, P, S add to the numerator and the denominator."""
    hits, decisions, support = counts.double().unbind(-1)
    score = (hits / metric.divisor(decisions, support)).nan_to_num()
    if metric.average == "weighted":
        return score * support, support
    return score, (decisions + support > 0).double()


@dataclass(eq=False)
class Exchange:
    """The paired test of two models by F1, which exchanges the answers of users.

    Args:
        metric: as for `jackknife`.
        target: the location of each query, int64 `[N]`, none below 0.
        decided: the decisions of the two models.
        units: the number of each query's user; None exchanges each query alone.
    """

    metric: LocationTally
    target: Tensor
    decided: tuple[Tensor, Tensor]
    units: Tensor | None = None

    def _prepare(self) -> None:
        """Find the changes of TP and P, and the terms of locations where nothing changes."""
        metric, target = self.metric, self.target
        units = torch.arange(len(target)) if self.units is None else self.units
        self._number = len(torch.unique(units))
        ones = torch.ones_like(target)
        first, second = (_cells(metric, units, target, x, ones) for x in self.decided)
        both = torch.cat([first, second])
        difference = torch.cat([second, first * first.new_tensor([1, 1, -1, -1, -1])])
        cells = KeyedSums([difference], 2).merge()
        cells = cells[(cells[:, 2:] != 0).any(1)]
        locations, place = torch.unique(both[:, 1], return_inverse=True)
        totals = both.new_zeros(len(locations), 3).index_add_(0, place, both[:, 2:])
        differs = torch.isin(locations, cells[:, 1])
        # where no unit differs, each model has half of the sum of both
        self._fixed = [x.sum() for x in _terms(metric, totals[~differs] / 2)]
        self._totals = totals[differs]
        place = torch.searchsorted(locations[differs], cells[:, 1].contiguous())
        unit, change, self._signs = _in_order(cells)
        # small whole numbers are exact in float32, which is faster
        kind = torch.float32 if len(target) < _EXACT else torch.float64
        self._changes = [(place[x != 0], unit[x != 0], x[x != 0, None].to(kind)) for x in change.T]

    def _differences(self, signs: Tensor) -> Tensor:
        """Return the second model's value minus the first's, `[R]`, for signs `[U, R]` of units."""
        totals, changes, values = self._totals[:, None].double(), [], []
        for place, unit, change in self._changes:
            sums = change.new_zeros(len(totals), signs.shape[1])
            sums.index_add_(0, place, signs.to(change.dtype)[unit].mul_(change))
            changes.append(sums.double())
        changes.append(torch.zeros_like(changes[0]))  # the support is the same
        difference = torch.stack(changes, -1)
        for counts in (totals + difference, totals - difference):
            terms = _terms(self.metric, counts / 2)
            above, below = (x.sum(0) + y for x, y in zip(terms, self._fixed, strict=True))
            values.append(above / below)
        return values[0] - values[1]

    def test(self, least: int, most: int, seed: int) -> SignTest | None:
        """Return the share of exchanges with a difference as large, as `sign_tests` does."""
        first, second = (_are_locations(self.metric, x) for x in self.decided)
        moved = int(((self.decided[0] != self.decided[1]) & (first | second)).sum())
        if self.units is None and moved > MOST_EXACT_SIGNS and moved * most > _MOST_WORK:
            return None  # each of these queries is a unit, and the units are too many
        self._prepare()
        width = len(self._signs)
        if self._number < 2:
            return math.nan, 0
        observed = float(self._differences(self._signs[:, None].double()).abs()) - _ROUNDING
        if width <= MOST_EXACT_SIGNS:
            bits = torch.arange(1 << width) >> torch.arange(width)[:, None] & 1
            as_far = self._differences(bits.double() * 2 - 1).abs() >= observed
            return float(as_far.double().mean()), 0
        size = sum(len(unit) for _, unit, _ in self._changes) + 6 * len(self._totals)
        if size * most > _MOST_WORK:
            return None
        rows, number_far, drawn = max(64, _AT_ONCE // size // 64 * 64), 0, 0
        while drawn < (least if number_far >= ENOUGH else most) and number_far < _MANY:
            signs = torch.from_numpy(signs_of(random_bits(seed, drawn, rows, width)))
            number_far += int((self._differences(signs).abs() >= observed).sum())
            drawn += rows
        return (1 + number_far) / (1 + drawn), drawn


def _in_order(cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Number units by their changes, so that the order of users or models never matters.

    Return for each cell the number of its unit, `[E]`, and the changes of TP and P, `[E, 2]`; and
    for each unit a sign, `[U]`: units with opposite changes get equal changes and opposite signs.
    """
    _, unit = np.unique(cells[:, 0].numpy(), return_inverse=True)
    location, change = cells[:, 1].numpy(), cells[:, 2:4].numpy()
    # two hashes of each unit: one of its changes, one of the opposite changes
    hashes = np.zeros((2, int(unit.max(initial=-1)) + 1), dtype=np.uint64)
    for unit_hashes, sign in zip(hashes, (1, -1), strict=True):
        cell_hashes = mix(location)
        for column in change.T:
            cell_hashes = mix(cell_hashes + (sign * column).view(np.uint64))
        np.add.at(unit_hashes, unit, cell_hashes)
    # the smaller hash is equal for opposite changes: it orders units, and says which change is kept
    signs = np.where(hashes[0] <= hashes[1], 1, -1)
    order = hashes.min(0).argsort(kind="stable")
    number, change = order.argsort()[unit], signs[unit, None] * change
    return torch.from_numpy(number), torch.from_numpy(change), torch.from_numpy(signs[order])
