"""How sure a mean is: standard errors and intervals against SciPy, plain Python and simulation."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from inner import t_quantile
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileKForRecall,
    F1AtK,
    Grouped,
    LocationF1,
    NDCGAtK,
    PopularityBins,
    RankingCollection,
    RankingMetric,
    functional,
    next_location_metrics,
)
from nextloc_metrics.base import Estimate
from strategies import batch, same, updated


def at_ranks(ranks: Tensor, most: int | None = None) -> tuple[Tensor, Tensor]:
    """Lists of ids in which the relevant location has these ranks, from 1."""
    most = most or max(1, int(ranks.max()))
    return torch.arange(most).expand(len(ranks), most), ranks - 1


def of_ranks(metric: Any, ranks: list[int] | Tensor, **kwargs: Any) -> Any:
    """The metric after queries with these ranks."""
    return updated(metric, *at_ranks(torch.as_tensor(ranks)), **kwargs)


def bounds(metric: Any, confidence_level: float = 0.95) -> list[float]:
    """The interval as numbers."""
    low, high = metric.interval(confidence_level)
    assert low.shape == high.shape == ()
    assert low.dtype == high.dtype == torch.float32
    return [float(low), float(high)]


def wilson(mean: float, effective: float, t: float) -> list[float]:
    """Wilson's interval: the p for which |mean - p| is t standard errors of p."""
    middle = (mean + t * t / (2 * effective)) / (1 + t * t / effective)
    root = math.sqrt(mean * (1 - mean) / effective + t * t / (4 * effective**2))
    return [middle + sign * t * root / (1 + t * t / effective) for sign in (-1, 1)]


# One metric --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num_queries", "confidence_level"), [(1, 0.5), (2, 0.9), (17, 0.95), (400, 0.999)]
)
def test_hits_and_misses_have_wilsons_interval(num_queries: int, confidence_level: float) -> None:
    """For 0/1 scores it is SciPy's Wilson interval, from no hits to all of them."""
    for hits in sorted({0, 1, num_queries // 3, num_queries - 1, num_queries}):
        metric = of_ranks(AccuracyAtK(1), [1] * hits + [2] * (num_queries - hits))
        test = scipy.stats.binomtest(hits, num_queries)
        theirs = test.proportion_ci(confidence_level, method="wilson")
        assert bounds(metric, confidence_level) == pytest.approx(
            [theirs.low, theirs.high], abs=1e-6
        )


@pytest.mark.parametrize(
    ("metric", "function"),
    [(MRR(), functional.mrr), (NDCGAtK(10), partial(functional.ndcg_at_k, k=10))],
    ids=["MRR", "NDCG"],
)
def test_standard_error_is_that_of_the_scores(metric: RankingMetric, function: Any) -> None:
    """`standard_error` equals SciPy's `sem` of the scores, and the interval follows from it."""
    preds, target = batch(200, 12)
    each = function(preds, target, reduction="none").double()
    metric.reset()
    metric.update(preds, target)
    error = float(scipy.stats.sem(each))
    assert float(metric.standard_error()) == pytest.approx(error, rel=1e-5)
    mean = float(each.mean())
    effective = mean * (1 - mean) / error**2
    assert effective > len(each)  # less spread than hits and misses
    expected = wilson(mean, effective, scipy.stats.t.ppf(0.975, len(each) - 1))
    assert bounds(metric) == pytest.approx(expected, abs=1e-6)
    normal = [mean - 1.96 * error, mean + 1.96 * error]
    assert bounds(metric) == pytest.approx(normal, abs=0.1 * error)  # the same for many queries


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=30),
    st.sampled_from([MRR(), MRR(3), NDCGAtK(5), AccuracyAtK(4), F1AtK(3)]),
    st.floats(0.01, 0.99),
)
def test_intervals_hold_the_value_and_stay_within_0_and_1(
    ranks: list[int], metric: RankingMetric, confidence_level: float
) -> None:
    """0 <= low <= value <= high <= 1, wider with more confidence."""
    metric.reset()
    of_ranks(metric, ranks)
    low, high = bounds(metric, confidence_level)
    assert 0 <= low <= float(metric.compute()) <= high <= 1
    wider_low, wider_high = bounds(metric, (1 + confidence_level) / 2)
    assert wider_low <= low
    assert high <= wider_high


def test_bounds_at_the_ends_are_exact() -> None:
    """No hit at all has the lower bound 0, nothing but hits the upper bound 1, for every number."""
    numbers = [*range(1, 300), 2759, 5518]  # by rounding alone the last two would be above 0
    groups = torch.cat([torch.full((number,), i) for i, number in enumerate(numbers, 1)])
    for rank, end in ((2, 0), (1, 1)):
        metric = Grouped(AccuracyAtK(1), len(numbers) + 1)
        metric.update(*at_ranks(torch.full_like(groups, rank), 2), groups=groups)
        assert (metric.interval()[end][1:] == end).all()


def test_scores_all_alike_are_not_certain() -> None:
    """As much spread as there may be is assumed, though squares of 1/3 and the like are rounded."""
    for rank in (1, 2, 3, 6, 7, 11, 13, 39):
        t = scipy.stats.norm.ppf(0.975) if rank == 1 else scipy.stats.t.ppf(0.975, 49)
        metric = of_ranks(MRR(), [rank] * 50)
        assert bounds(metric) == pytest.approx(wilson(1 / rank, 50, t), abs=1e-6), rank
        assert float(metric.standard_error()) == pytest.approx(0, abs=2e-6)
        alone = of_ranks(MRR(), [rank])
        assert alone.standard_error().isnan()
        assert rank == 1 or bounds(alone) == [0, 1]


@pytest.mark.parametrize("confidence_level", [0.01, 0.5, 0.9, 0.95, 0.999999])
def test_no_bound_is_beyond_the_mean_or_beyond_0_and_1(confidence_level: float) -> None:
    """Before they are rounded to float32, for means next to 0 and 1 and for any size."""
    effective = torch.logspace(0, 15, 4001, dtype=torch.float64)[:, None]
    ends = torch.tensor([0.0, 5e-324, 1e-18, 1e-9, 0.5], dtype=torch.float64)
    mean = torch.cat([ends, 1 - ends]).expand(len(effective), -1)
    for freedom in (0.0, 1.0, 30.0, math.inf):
        of_t = torch.tensor(freedom, dtype=torch.float64)
        low, high = Estimate(mean, torch.zeros_like(mean), effective, of_t).interval(
            confidence_level
        )
        assert bool((low >= 0).all())
        assert bool((low <= mean).all())
        assert bool((mean <= high).all())
        assert bool((high <= 1).all())


def test_nan_without_data() -> None:
    """No number without a query, as for the value, and no warning of its own."""
    for metric in (MRR(), Grouped(MRR(), 3, average="queries"), Grouped(MRR(), 3, group=1)):
        assert all(map(math.isnan, bounds(metric)))
        assert metric.standard_error().isnan()


def test_the_state_stays_as_it_is() -> None:
    """Asking changes neither state nor value, and updates go on."""
    metric = of_ranks(MRR(), [1, 2, 3])
    before = metric.state.clone()
    metric.interval()
    metric.standard_error()
    assert torch.equal(metric.state, before)
    of_ranks(metric, [4])
    with warnings.catch_warnings():  # none of its own, before and after the value
        warnings.simplefilter("error")
        asked = bounds(metric)
        metric.compute()
        assert asked == bounds(metric) == bounds(of_ranks(MRR(), [1, 2, 3, 4]))


@pytest.mark.parametrize("confidence_level", [0, 1, 0.0, 1.0, 1.5, -0.1, math.nan, True])
def test_a_confidence_level_is_a_fraction(confidence_level: float) -> None:
    """95 is no confidence level, 0.95 is."""
    metric = of_ranks(MRR(), [1, 2])
    collection = RankingCollection({"mrr": MRR()})
    for ask in (metric.interval, collection.compute_with_intervals):
        with pytest.raises(ValueError, match=r"`confidence_level` must be between 0 and 1"):
            ask(confidence_level)


@pytest.mark.parametrize(
    "metric",
    [
        LocationF1(3),
        DecileKForRecall(PopularityBins([1, 1, 2]), 1.0, decile=1),
    ],
    ids=repr,
)
def test_what_is_no_mean_of_scores_has_none(metric: Any) -> None:
    """A metric that is not a mean of scores refuses an interval and a standard error."""
    assert not metric.has_interval
    for ask in (metric.interval, metric.standard_error):
        with pytest.raises(TypeError, match="it is not a mean of per-query scores"):
            ask()


def test_a_users_own_value_has_none() -> None:
    """A subclass that computes another value than the mean is not given the mean's interval."""

    class Percent(AccuracyAtK):
        def compute(self) -> Tensor:
            return 100 * super().compute()

    metric = of_ranks(Percent(1), [1, 2])
    with pytest.raises(TypeError, match="it is not a mean of per-query scores"):
        metric.interval()
    collection = RankingCollection({"percent": Percent(1), "mrr": MRR()})
    collection.update(*at_ranks(torch.tensor([1, 2])))
    assert list(collection.compute_with_intervals()) == ["percent", "mrr", "mrr_low", "mrr_high"]


@pytest.mark.parametrize("confidence_level", [0.01, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_quantiles_of_students_t(confidence_level: float) -> None:
    """They equal SciPy's for integers and fractions, on both sides of the change of method."""
    freedom = [*range(1, 60), 99, 200, 999, 1000, 1001, 10**4, 10**6, math.inf]
    freedom += [1.000001, 1.1, 1.5, 1.9, 2.5, 7.7, 999.5, 1000.5]
    found = t_quantile(confidence_level, torch.tensor(freedom, dtype=torch.float64))
    assert found.tolist() == pytest.approx(
        scipy.stats.t.ppf((1 + confidence_level) / 2, freedom).tolist(), rel=1e-9
    )


# Groups ------------------------------------------------------------------------------------------


def clustered_error(scores: list[float], groups: list[int]) -> tuple[float, float]:
    """The standard error of a mean, and the degrees of freedom, without a formula of the library.

    The jackknife leaves out each group; if one has more than a third of the scores, it is CR2 by
    matrices: each group adds the square of (1 - n_g / N)^(-1/2) times the sum of its residuals.
    """
    number, y = len(scores), np.array(scores)
    in_group = np.array(groups)[None] == np.unique(groups)[:, None]
    if 3 * in_group.sum(1).max() <= number:
        without = np.array([y[~one].mean() for one in in_group])
        count = len(in_group)
        variance = (count - 1) / count * ((without - y.mean()) ** 2).sum()
        return math.sqrt(variance), number**2 / (in_group.sum(1) ** 2).sum() - 1
    residual_maker = np.eye(number) - 1 / number
    scale = 1 / np.sqrt(1 - in_group.mean(1)) / number
    weights = scale[:, None] * in_group @ residual_maker
    covariance = weights @ weights.T  # of the sums, for independent queries of variance 1
    freedom = np.trace(covariance) ** 2 / (covariance**2).sum()
    return math.sqrt(((weights @ y) ** 2).sum()), float(freedom)


def most_with_a_hit(sizes: list[int], number: int, confidence_level: float) -> float:
    """The share of queries of the largest groups, as many as the exact interval of a share allows.

    The exact interval is SciPy's; of the last of these groups, a part of the queries counts.
    """
    if number >= len(sizes):
        return 1.0
    exact = scipy.stats.binomtest(number, len(sizes)).proportion_ci(confidence_level, "exact")
    queries = np.r_[0, np.cumsum(sorted(sizes, reverse=True))]
    return float(np.interp(exact.high * len(sizes), np.arange(len(queries)), queries)) / sum(sizes)


def of_users(hits: list[int], sizes: list[int], is_miss: bool = False) -> Any:
    """The accuracy by user; users have as many hits, or as many misses."""
    metric = Grouped(AccuracyAtK(1), len(sizes), average="queries")
    ranks = [
        1 + (is_miss == (i < number))
        for number, size in zip(hits, sizes, strict=True)
        for i in range(size)
    ]
    groups = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return of_ranks(metric, ranks, groups=groups)


@pytest.mark.parametrize("confidence_level", [0.95, 0.5, 1 - 1e-15])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("shape", ["equal", "unequal", "dominant"])
def test_few_users_with_a_hit_have_an_upper_end_alone(
    shape: str, number: int, confidence_level: float
) -> None:
    """It is exact for the number of users with a hit; with few misses it is a lower end alone.

    The largest users have the hits, so the interval of a dominant user would not hold its value
    if all users counted as one.
    """
    sizes = {"equal": [10] * 20, "unequal": [*range(20, 0, -1)], "dominant": [90] + [5] * 19}[shape]
    most = most_with_a_hit(sizes, number, confidence_level)
    for each in (1, 5):
        hits = [each if user < number else 0 for user in range(20)]
        metric, mirrored = of_users(hits, sizes), of_users(hits, sizes, is_miss=True)
        assert bounds(metric, confidence_level) == pytest.approx([0, most], abs=1e-6)
        assert bounds(mirrored, confidence_level) == pytest.approx([1 - most, 1], abs=1e-6)
        for one in (metric, mirrored):
            low, high = bounds(one, confidence_level)
            assert low <= float(one.compute()) <= high


def test_two_hits_of_twenty_users() -> None:
    """The exact interval of 2 of 20 ends at 31.7 %; with three users it is Student's t again."""
    assert bounds(of_users([1, 1] + [0] * 18, [10] * 20)) == pytest.approx([0, 0.31698], abs=1e-5)
    by_three = bounds(of_users([1, 1, 1] + [0] * 17, [10] * 20))
    error, t = math.sqrt(20 / 19 * (3 * 0.85**2 + 17 * 0.15**2)) / 200, scipy.stats.t.ppf(0.975, 2)
    assert by_three == pytest.approx(wilson(0.015, 0.015 * 0.985 / error**2, t), abs=1e-6)


def test_fewer_than_three_users_know_nothing() -> None:
    """Two users who have hits and misses leave all from 0 to 1 open, as one user does."""
    assert bounds(of_users([3, 7], [10, 10])) == [0, 1]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 6)), min_size=2, max_size=60))
def test_clustered_standard_error(queries: list[tuple[int, int]]) -> None:
    """`average="queries"` has the metric's value, and the standard error of the groups' sums."""
    ranks, groups = map(list, zip(*queries, strict=True))
    metric = of_ranks(Grouped(MRR(), 9, average="queries"), ranks, groups=torch.tensor(groups))
    assert same(metric.compute(), of_ranks(MRR(), ranks).compute())
    if len(set(groups)) == 1:
        assert metric.standard_error().isnan()
        assert bounds(metric) == [0, 1]
        return
    error, freedom = clustered_error([1 / rank for rank in ranks], groups)
    assert float(metric.standard_error()) == pytest.approx(error, rel=1e-5, abs=1e-7)
    if error > 1e-3:
        mean = sum(1 / rank for rank in ranks) / len(ranks)
        sizes = Counter(groups)
        missed = [sizes[x] for x in {group for rank, group in queries if rank > 1}]
        if min(len(missed), len(sizes)) < 3:
            most = most_with_a_hit([*sizes.values()], len(missed), 0.9)
            assert bounds(metric, 0.9) == pytest.approx([1 - most, 1], abs=1e-6)
            return
        decide = sum(missed) ** 2 / sum(x * x for x in missed)  # all have a score above 0
        if len(missed) < len(sizes):
            freedom = min(freedom, max(1, decide - 1))
        t = scipy.stats.t.ppf(0.95, freedom)
        expected = wilson(mean, mean * (1 - mean) / error**2, t)
        assert bounds(metric, 0.9) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 6)), min_size=3, max_size=40))
def test_a_clustered_collection(queries: list[tuple[int, int]]) -> None:
    """The values are those of the collection, and each mean has the interval of its users."""
    ranks, users = map(list, zip(*queries, strict=True))
    plain = RankingCollection({"mrr": MRR(), "f1": LocationF1(9)}, prefix="val/")
    metrics = of_ranks(plain.clustered(9), ranks, groups={"user": torch.tensor(users)})
    of_ranks(plain, ranks)
    assert same(metrics.compute(), plain.compute())
    members: dict[str, Any] = dict(metrics.named_members())
    if (number := len(set(users))) > 1:
        error, _ = clustered_error([1 / rank for rank in ranks], users)
        assert float(members["mrr"].standard_error()) == pytest.approx(error, rel=1e-5, abs=1e-7)
    by = f"intervals by {number} user{'s' * (number > 1)}"
    table = metrics.table(intervals=True)
    assert str(table).splitlines()[-1] == by
    assert by in table.to_latex()
    assert by not in str(metrics.table())
    assert by not in str(plain.table(intervals=True))


def test_a_single_query_or_group_is_unknown() -> None:
    """The interval of one score between 0 and 1, or of one group, is all of 0 to 1."""
    assert bounds(of_ranks(MRR(), [3])) == [0, 1]
    one = torch.zeros(4).long()
    for average in ("queries", "groups"):
        grouped = Grouped(MRR(), 2, average=average)
        assert bounds(of_ranks(grouped, [3, 1, 1, 3], groups=one)) == [0, 1]
        assert grouped.standard_error().isnan()


def test_groups_all_alike() -> None:
    """Where all groups have the same mean, each of them is as sure as one query."""
    metric = of_ranks(
        Grouped(AccuracyAtK(1), 4, average="queries"), [1] * 40, groups=torch.arange(40) % 4
    )
    t = scipy.stats.t.ppf(0.975, 3)
    assert bounds(metric) == pytest.approx(wilson(1.0, 4, t), abs=1e-6)
    unequal = torch.tensor([0] * 6 + [1] * 2)  # as sure as 8^2 / (6^2 + 2^2) groups
    metric = of_ranks(Grouped(AccuracyAtK(1), 4, average="queries"), [1] * 8, groups=unequal)
    t = scipy.stats.t.ppf(0.975, 1)
    assert bounds(metric) == pytest.approx(wilson(1.0, 64 / 40, t), abs=1e-6)


def test_mean_over_groups() -> None:
    """`average="groups"` has the standard error of the means of the groups that have data."""
    ranks = [1, 2, 4, 5, 1, 1, 3]
    groups = torch.tensor([0, 0, 1, 1, 1, 3, 4])
    metric = of_ranks(Grouped(MRR(), 6, average="groups"), ranks, groups=groups)
    means = [3 / 4, (1 / 4 + 1 / 5 + 1) / 3, 1, 1 / 3]
    error, mean = float(scipy.stats.sem(means)), sum(means) / 4
    assert float(metric.standard_error()) == pytest.approx(error, rel=1e-5)
    expected = wilson(mean, mean * (1 - mean) / error**2, scipy.stats.t.ppf(0.975, 3))
    assert bounds(metric) == pytest.approx(expected, abs=1e-6)


def test_intervals_of_single_groups() -> None:
    """Every group's interval is that of a metric of its queries; a group without data has NaN."""
    ranks, groups = [1, 2, 2, 1, 5, 3], torch.tensor([0, 0, 2, 2, 2, 0])
    low, high = of_ranks(Grouped(MRR(), 3), ranks, groups=groups).interval()
    assert low[1].isnan()
    assert high[1].isnan()
    for group in (0, 2):
        chosen = [rank for rank, g in zip(ranks, groups.tolist(), strict=True) if g == group]
        alone = bounds(of_ranks(MRR(), chosen))
        assert [float(low[group]), float(high[group])] == alone
        one = of_ranks(Grouped(MRR(), 3, group=group), ranks, groups=groups)
        assert bounds(one) == alone


# Collections -------------------------------------------------------------------------------------


def test_flat_names_in_order() -> None:
    """Bounds follow their value; a member without bounds has its value only."""
    metrics = next_location_metrics(6, k=(1, 5), prefix="val/", postfix="/x")
    metrics.update(*batch(50))
    found = metrics.compute_with_intervals(0.9)
    with_bounds = ("acc_at_1", "acc_at_5", "mrr", "ndcg_at_5")
    assert list(found) == [
        *(f"val/{name}{end}/x" for name in with_bounds for end in ("", "_low", "_high")),
        "val/f1/x",
    ]
    assert same({name: found[name] for name in metrics.compute()}, metrics.compute())
    assert [float(found[f"val/mrr_{end}/x"]) for end in ("low", "high")] == bounds(
        metrics["mrr"], 0.9
    )
    assert all(value.shape == () for value in found.values())  # as `log_dict` takes them


def test_a_name_is_not_taken_twice() -> None:
    """A member that has the name of a bound is an error, and nothing is overwritten."""
    metrics = RankingCollection({"mrr": MRR(), "mrr_low": MRR(ties="pessimistic")})
    metrics.update(*batch())
    with pytest.raises(ValueError, match=r"\['mrr_low'\] are members"):
        metrics.compute_with_intervals()
