"""Chance, skill, the baseline and comparisons, against brute force, SciPy and plain Python."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from metric_entries import RANKING_CASES
from metric_tester import Case
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileNDCG,
    Grouped,
    LocationF1,
    PerQueryScores,
    PopularityBins,
    Ranking,
    RankingCollection,
    RankingMetric,
    RecallAtK,
    analysis,
    decile_metrics,
    exploration_metrics,
    functional,
    next_location_metrics,
    recommendation_metrics,
)
from nextloc_metrics.analysis.significance import holm
from nextloc_metrics.metrics.visits import GroupShare
from strategies import compare_scores

# Chance ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", RANKING_CASES, ids=str)
@pytest.mark.parametrize(("candidates", "relevant"), [(1, 1), (5, 1), (5, 2), (4, 4)])
def test_chance_is_the_mean_over_all_orders(case: Case, candidates: int, relevant: int) -> None:
    """Every order of the candidates, one query each, whatever `ties` and `k` beyond C are."""
    orders = torch.tensor(list(itertools.permutations(range(candidates))))
    target = torch.arange(relevant).expand(len(orders), relevant)
    if relevant > 1:
        target = torch.nn.functional.pad(target, (0, 1), value=-1)
    metric = case.make()
    metric.update((-orders).double(), target)
    found = analysis.chance(metric, candidates, num_relevant=relevant)
    assert type(found) is float
    assert found == pytest.approx(float(metric.compute()), abs=1e-6)
    assert metric.num_queries == len(orders)  # it was not updated


def test_chance_among_fifty_million_candidates() -> None:
    """Nothing of the candidates' number is held: H(C) / C, and k / C."""
    candidates = 50_000_000
    harmonic = math.log(candidates) + 0.5772156649015329 + 1 / (2 * candidates)
    found = analysis.chance(next_location_metrics(1187), candidates)
    assert found["mrr"] == pytest.approx(harmonic / candidates, rel=1e-12)
    assert found["acc_at_10"] == pytest.approx(10 / candidates, rel=1e-12)
    top_ten = sum(1 / math.log2(rank + 1) for rank in range(1, 11))
    assert found["ndcg_at_10"] == pytest.approx(top_ten / candidates, rel=1e-12)
    several = analysis.chance(RecallAtK(10), candidates, num_relevant=3)
    assert several == pytest.approx(10 / candidates, rel=1e-12)


def test_chance_of_groups_and_without() -> None:
    """Groups have their metric's chance; what depends on visits is left out, or said to be so."""
    metrics = RankingCollection({"mrr": Grouped(MRR(), 3), "f1": LocationF1(9)})
    assert analysis.chance(metrics, 9) == {"mrr": analysis.chance(MRR(), 9)}
    bins = PopularityBins([1, 1, 2])
    assert analysis.chance(decile_metrics(bins), 3) == {}
    for metric in (LocationF1(3), DecileNDCG(bins, 1)):
        with pytest.raises(TypeError, match="has no chance level: it is not a mean of per-query"):
            analysis.chance(metric, 3)

    class Percent(MRR):
        def compute(self) -> Tensor:
            return 100 * super().compute()

    assert analysis.chance({"percent": Percent()}, 3) == {}

    class Share(LocationF1):
        def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
            return num_relevant / num_candidates

    assert analysis.chance({"own": Share(4)}, 4, num_relevant=2) == {"own": 0.5}
    harmonic = math.fsum(1 / x for x in range(1, 10))
    assert Grouped(MRR(), 3).chance(9) == MRR().chance(9) == pytest.approx(harmonic / 9, rel=1e-12)


class Optimist(RankingMetric):
    """A user's score that breaks ties itself, and so is no expectation over them."""

    def score(self, ranking: Ranking) -> Tensor:
        """Square the reciprocal of the best place."""
        return 1 / (ranking.above[:, 0] + 1).double() ** 2


def test_chance_of_a_users_own_score() -> None:
    """It is averaged over the places; of several relevant locations that would be too many."""
    expected = sum(1 / rank**2 for rank in range(1, 8)) / 7
    assert analysis.chance(Optimist(), 7) == pytest.approx(expected, rel=1e-12)
    most = 3_000_000
    assert analysis.chance(Optimist(), most) == pytest.approx(math.pi**2 / 6 / most, rel=1e-6)
    with pytest.raises(ValueError, match="`num_relevant` must be 1 for Optimist"):
        analysis.chance(Optimist(), 7, num_relevant=2)

    class Renamed(MRR):
        pass

    assert analysis.chance(Renamed(), 10**9) == analysis.chance(MRR(), 10**9)


# Skill -------------------------------------------------------------------------------------------


def test_skill_from_chance_to_perfect() -> None:
    """0 at chance, 1 at perfect, negative below, NaN if chance is perfect; collections by name."""
    assert math.isnan(analysis.skill(1.0, 1.0))
    assert analysis.skill(torch.tensor(1.0), 1.0).isnan()
    assert analysis.skill(0.2, 0.2) == 0
    assert analysis.skill(1.0, 0.2) == 1
    assert analysis.skill(0.0, 0.2) == pytest.approx(-0.25)
    assert torch.equal(analysis.skill(torch.tensor([0.5, 1.0]), 0.0), torch.tensor([0.5, 1.0]))
    metrics = recommendation_metrics(k=3)
    metrics.update(torch.zeros(9, 9), torch.arange(9))
    found = analysis.skill(metrics.compute(), analysis.chance(metrics, 9))
    assert list(found) == list(metrics.compute())
    assert all(abs(float(value)) < 1e-6 for value in found.values())


def test_skill_of_other_names() -> None:
    """A prefix on one side only would leave nothing, silently."""
    with pytest.raises(ValueError, match=r"names in common, got \['val/mrr'\] and \['mrr'\]"):
        analysis.skill({"val/mrr": 0.3}, {"mrr": 0.1})


# The baseline ------------------------------------------------------------------------------------


def test_most_frequent_ranks_by_visits() -> None:
    """The places are those in the order of the counts, and ties stay tied."""
    counts = torch.tensor([3, 2**24, 2**24 + 1, 0, 3])
    target = torch.arange(5)
    ranking = Ranking.from_scores(analysis.most_frequent(counts, 5), target)
    assert ranking.above[:, 0].tolist() == [2, 1, 0, 4, 2]
    assert ranking.tied[:, 0].tolist() == [2, 1, 1, 1, 2]
    metrics = next_location_metrics(5)
    metrics.update(analysis.most_frequent(counts.tolist(), 5), target)
    assert float(metrics.compute()["acc_at_1"]) == pytest.approx(1 / 5)


# Two models on the same queries ------------------------------------------------------------------


def all_signs(differences: list[Fraction]) -> float:
    """The p-value over all 2^n signs, in plain Python and exact fractions."""
    as_far = [
        abs(sum(sign * x for sign, x in zip(signs, differences, strict=True)))
        >= abs(sum(differences))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(as_far) / len(as_far)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=8),
    st.sampled_from([1e-13, 1e-6, 1.0, 2.6e7]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_all_signs_of_rounded_scores(
    ranks: list[tuple[int, int]], scale: float, dtype: torch.dtype
) -> None:
    """Means that are equal but for rounding are equal, whatever the size of the scores."""
    a, b = (
        torch.tensor(side, dtype=dtype).reciprocal() * scale
        for side in torch.tensor(ranks).T.tolist()
    )
    differences = [Fraction(1, x) - Fraction(1, y) for x, y in ranks]
    assert compare_scores(a, b).p_value == pytest.approx(all_signs(differences))


#: the square of the normal quantile
Z2 = 1.959963985**2


def test_scores_equal_but_for_rounding() -> None:
    """0.1 + 0.2 and 0.3 are the same score, for the p-value and for the interval."""
    a, b = torch.tensor([[0.1 + 0.2] * 8, [0.3] * 8], dtype=torch.float64)
    assert (a != b).all()
    found = compare_scores(a, b)
    assert (found.difference, found.p_value) == (0, 1)
    assert found.high == -found.low == pytest.approx(Z2 / (8 + Z2))


@pytest.mark.parametrize("number", [1, 2, 29])
def test_one_query_or_group_is_not_tested(number: int) -> None:
    """It has a difference, and neither an interval nor a p-value."""
    a, b = torch.rand(2, number, dtype=torch.float64)
    groups = None if number == 1 else torch.zeros(number).long()
    found = compare_scores(a, b, groups=groups)
    assert found.difference == pytest.approx(float((b - a).mean()))
    assert all(map(math.isnan, (found.low, found.high, found.p_value)))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holms_correction(p_values: list[float]) -> None:
    """A corrected p-value is the lowest level at which Holm's steps reject the test."""
    corrected = holm(p_values)
    for level in {*p_values, *corrected, 0.01, 0.05}:
        rejected, left = set(), dict(enumerate(p_values))
        while left and level < 1:
            lowest = min(left, key=left.__getitem__)
            if left.pop(lowest) * (len(left) + 1) > level:
                break
            rejected.add(lowest)
        if level < 1:
            assert {i for i, p in enumerate(corrected) if p <= level} == rejected
    assert max(corrected) <= 1


def test_groups_keep_together() -> None:
    """Each query five times, as a group, is as sure as once; without groups surer, wrongly."""
    a, b = torch.rand(2, 30).double()
    b -= 0.1
    groups = torch.arange(30).repeat(5) - 7
    once = compare_scores(a, b)
    grouped = compare_scores(a.repeat(5), b.repeat(5), groups=groups)
    wrong = compare_scores(a.repeat(5), b.repeat(5))
    assert grouped.difference == pytest.approx(once.difference)
    assert (grouped.low, grouped.high) == pytest.approx((once.low, once.high))
    assert grouped.p_value == pytest.approx(once.p_value)
    assert wrong.high - wrong.low < 0.6 * (once.high - once.low)
    assert wrong.p_value < once.p_value


def test_the_interval_by_groups_is_that_of_grouped() -> None:
    """Against scores of 0 the clustered standard error is that of `Grouped`."""
    users = torch.randint(12, (90,))
    ranks = torch.randint(1, 7, (90,)) + users % 3
    lists = torch.arange(10).expand(90, 10)
    grouped = Grouped(MRR(), 12, average="queries")
    grouped.update(lists, ranks - 1, groups=users)
    found = compare_scores(1 / ranks, torch.zeros(90), groups=users)
    freedom = 90**2 / float((torch.bincount(users) ** 2).sum()) - 1  # of unequal groups
    half = scipy.stats.t.ppf(0.975, freedom) * float(grouped.standard_error())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=1e-5)


def test_models_by_the_ids_of_their_queries() -> None:
    """Scores kept in any order and batches are put side by side by id."""
    scores, target = torch.rand(2, 12, 9), torch.randint(9, (12,))
    a, b = PerQueryScores(MRR()), PerQueryScores(MRR())
    ids = torch.randperm(1000)[:12]
    a.update(scores[0], target, query_ids=ids)
    for rows in torch.randperm(12).split(5):
        b.update(scores[1][rows], target[rows], query_ids=ids[rows])
    found = compare_scores(a, b)
    expected = compare_scores(*(functional.mrr(s, target, reduction="none") for s in scores))
    assert dataclasses.astuple(found)[:6] == pytest.approx(dataclasses.astuple(expected)[:6])
    assert compare_scores(a.compute(), b) == found
    alone = PerQueryScores(MRR())
    alone.update(scores[0][:1], target[:1], query_ids=ids[:1])
    assert compare_scores(alone, alone).num_queries == 1


def test_repr_can_be_read() -> None:
    """One line with what a paper reports."""
    found = compare_scores(torch.tensor([0.5, 0.5, 0.25]), torch.tensor([1.0, 0.5, 0.5]))
    assert repr(found) == (
        "Comparison(difference +0.2500, 95 % interval -0.3710 to +0.8710, p = 0.5, "
        "d_z = +1.000, 3 queries)"
    )


# Several runs ------------------------------------------------------------------------------------


def test_every_pair_of_models() -> None:
    """All pairs in the order given, tensors as well as lists; the table names them."""
    values: Any = {"a": torch.rand(4), "bb": torch.rand(5).tolist(), "c": [0.25]}
    found = analysis.summarize(values)
    assert found.models["a"].mean == pytest.approx(float(values["a"].mean()))
    assert found.models["a"].std == pytest.approx(float(values["a"].std()))
    assert [model.num_runs for model in found.models.values()] == [4, 5, 1]
    assert list(found.p_values) == [("a", "bb"), ("a", "c"), ("bb", "c")]
    theirs = scipy.stats.ttest_ind(values["a"].double(), values["bb"], equal_var=False)
    assert found.p_values["a", "bb"] == pytest.approx(theirs.pvalue)
    assert math.isnan(found.p_values["a", "c"])
    assert math.isnan(found.models["c"].std)
    lines = repr(found).splitlines()
    assert lines[3].split() == ["c", "0.25", "nan", "1"]
    assert lines[5].startswith("c - a: -0.22")
    assert lines[5].endswith(", p = nan")


def test_runs_that_are_all_the_same() -> None:
    """Without any spread there is no test, and no warning of SciPy's."""
    assert math.isnan(analysis.summarize({"a": [1, 1], "b": [2, 2, 2]}).p_values["a", "b"])
    assert analysis.summarize({"a": [1, 1], "b": [2, 2, 3]}).p_values["a", "b"] < 0.1


def test_runs_of_models_with_numbers_as_names() -> None:
    """The names are written as text."""
    numbered: Any = {1: [1.0, 2.0], 20: [1.0, 2.0]}
    shown = repr(analysis.summarize(numbered)).splitlines()
    expected = ["model  mean   std  runs", "1       1.5  0.71     2", "20      1.5  0.71     2"]
    assert shown[:3] == expected


def test_chance_leaves_out_scores_that_read_groups_or_ids() -> None:
    """A collection's other members keep their chance level; alone such a metric is refused."""

    class Popular(RankingMetric):
        def score(self, ranking: Ranking) -> Tensor:
            return ranking.look_up(torch.tensor([1.0, 0.0]), fill=0.0)[:, 0]

    metrics = exploration_metrics(1)
    shares = {name: metric for name, metric in metrics.items() if isinstance(metric, GroupShare)}
    assert shares
    found = analysis.chance(metrics, 10)
    assert found == dict.fromkeys(set(metrics.keys()) - set(shares), 0.1)
    for metric in (*shares.values(), Popular()):
        with pytest.raises(TypeError, match="has no chance level: it does not score ranks only"):
            analysis.chance(metric, 10)
    assert analysis.chance({"mine": Popular(), "hit": AccuracyAtK(1)}, 2) == {"hit": 0.5}


@pytest.mark.parametrize("steps", [7, 1 << 30])
def test_the_effect_size_is_that_of_sums_that_are_rounded_once(steps: int) -> None:
    """Of scores that repeat, and of scores that are all different."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(steps, (500,), generator=generator).double() / 2**30 for _ in range(2))
    each = (b - a).tolist()
    mean = math.fsum(each) / 500
    squares = math.fsum((x - mean) ** 2 for x in each)
    assert compare_scores(a, b).effect_size == mean / math.sqrt(squares / 499)
