"""Chance, skill and the baseline, against brute force."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from inner import GroupShare
from metric_entries import RANKING_CASES
from metric_tester import Case
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileNDCG,
    Grouped,
    LocationF1,
    PopularityBins,
    Ranking,
    RankingCollection,
    RankingMetric,
    RecallAtK,
    analysis,
    decile_metrics,
    exploration_metrics,
    next_location_metrics,
    recommendation_metrics,
)


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
