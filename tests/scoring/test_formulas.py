"""The evaluator of formulas: any number of candidates, any k, and scores of users' own."""

import dataclasses
import gc
import weakref

import pytest
import torch
from torch import Tensor

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    RankingMetric,
    RecallAtK,
    next_location_metrics,
    scoring,
)
from nextloc_metrics.base.ranking_metric import score_together
from nextloc_metrics.scoring import formulas
from strategies import RANKING_CASES, Case

WITH_FORMULA = [
    case
    for case in RANKING_CASES
    if isinstance(metric := case.make(), RankingMetric) and metric.formula is not None
]
BY_CASE = pytest.mark.parametrize("case", WITH_FORMULA, ids=str)


def make(case: Case) -> RankingMetric:
    """The metric of a case, whose state is that of its scores alone."""
    metric = case.make()
    assert isinstance(metric, RankingMetric)
    return metric


def test_every_metric_has_a_formula() -> None:
    """To be listed is to be scored by it."""
    assert {str(case) for case in RANKING_CASES} == {str(case) for case in WITH_FORMULA}


def test_a_metric_without_a_formula_and_a_score_is_refused() -> None:
    """When it is made, and not in its first update."""

    class Nothing(RankingMetric):
        """A metric that says nothing of its score."""

    with pytest.raises(TypeError, match=r"Nothing\(\) must define `score`, or a `formula`"):
        Nothing()


@pytest.mark.parametrize("num_candidates", [131_072, 131_073, 200_000])
def test_places_beyond_the_tables_are_scored_all_the_same(num_candidates: int) -> None:
    """An uncut MRR beside cut metrics, at the last places of many."""
    scores = torch.arange(num_candidates, 0, -1).double()[None]
    metrics = next_location_metrics(num_candidates)
    metrics.update(scores, torch.tensor([num_candidates - 1]))
    members = [m for m in metrics.values() if isinstance(m, RankingMetric)]
    ranking = Ranking.from_scores(scores, torch.tensor([num_candidates - 1]))
    together = score_together(members, ranking)[0][:, 0].tolist()
    assert together == pytest.approx([0, 0, 0, 1 / num_candidates, 0], rel=1e-12)
    assert float(metrics.compute()["mrr"]) == pytest.approx(1 / num_candidates, abs=2**-32)


@pytest.mark.usefixtures("each_backend")
def test_impossible_places_are_no_scores() -> None:
    """A Ranking made by hand, in which nothing is tied even with itself, changes no state."""
    ranking = Ranking.from_lists(torch.tensor([[1, 2]]), torch.tensor([2]))
    ranking = dataclasses.replace(ranking, tied=torch.zeros_like(ranking.tied))
    made = [metric for case in WITH_FORMULA if (metric := make(case)).needs.top == 0]
    metrics = RankingCollection({str(i): metric for i, metric in enumerate(made)})
    with pytest.raises(ValueError, match=r"must return values in \[0, 1\]"):
        metrics.update(ranking)
    assert all(int(m.state.sum()) == 0 for m in metrics.values() if isinstance(m, RankingMetric))


class Halved(MRR):
    """A user's score, in a subclass of a metric that has a formula."""

    def score(self, ranking: Ranking) -> Tensor:
        """Half of it."""
        return scoring.reciprocal_rank(ranking) / 2


def test_a_score_of_ones_own_beats_the_formula_of_its_parent() -> None:
    """The formula is the parent's, and the score is not."""
    metric = Halved()
    metric.update(torch.tensor([[0.2, 0.8]]), torch.tensor([0]))
    assert metric.compute() == 0.25


@pytest.mark.usefixtures("each_backend")
def test_the_default_dtype_divides_nothing() -> None:
    """Under Lightning's `precision="bf16-true"` the sums are those of float32."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(200, 400, generator=generator, dtype=torch.float64)
    target = torch.randint(400, (200, 3), generator=generator)
    states = []
    for dtype in (torch.bfloat16, torch.float32):
        torch.set_default_dtype(dtype)
        try:
            metrics = RankingCollection({str(k): F1AtK(k) for k in (3, 299, 301)})
            metrics.update(scores, target)
        finally:
            torch.set_default_dtype(torch.float32)
        states.append([m.state.tolist() for m in metrics.values() if isinstance(m, RankingMetric)])
        formulas.for_one_relevant.cache_clear()
    assert states[0] == states[1]


@pytest.mark.usefixtures("each_backend")
def test_any_k_is_fine() -> None:
    """Also one that fits no integer of a tensor."""
    scores, target = torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([0])
    found = {
        kind.__name__: float(kind(10**20)(scores, target))
        for kind in (AccuracyAtK, MRR, NDCGAtK, MAPAtK, RecallAtK, PrecisionAtK, F1AtK)
    }
    assert found == {
        "AccuracyAtK": 1,
        "MRR": pytest.approx(1 / 3),
        "NDCGAtK": 0.5,
        "MAPAtK": pytest.approx(1 / 3),
        "RecallAtK": 1,
        "PrecisionAtK": 0,
        "F1AtK": 0,
    }


@pytest.mark.usefixtures("each_backend")
def test_no_batch_outlives_its_update() -> None:
    """Without the help of the collector of cycles."""
    made = [metric for case in WITH_FORMULA if (metric := make(case)).needs.top == 0]
    metrics = RankingCollection({str(i): metric for i, metric in enumerate(made)})
    generator = torch.Generator().manual_seed(0)
    ranking = Ranking.from_scores(
        torch.rand(50, 30, generator=generator), torch.randint(30, (50, 4), generator=generator)
    )
    gc.disable()
    try:
        metrics.update(ranking)
        alive = weakref.ref(ranking)
        del ranking
        assert alive() is None
    finally:
        gc.enable()


def test_a_score_set_on_an_instance_beats_the_formula() -> None:
    """As a patch in a test does."""
    metric = MRR()
    metric.score = lambda ranking: torch.full((len(ranking),), 0.25)  # type: ignore[method-assign]
    metric.update(torch.tensor([[0.2, 0.8]]), torch.tensor([0]))
    assert metric.compute() == 0.25


def test_a_score_set_after_an_update_is_refused_ranks_that_were_not_read() -> None:
    """Lists are read to rank `k` for the formula, and another score could read beyond it."""
    metric = AccuracyAtK(1)
    lists, target = torch.tensor([[3, 1, 2]]), torch.tensor([2])
    metric.update(lists, target)
    metric.score = lambda ranking: 1 / (1 + ranking.above[:, 0].double())  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="reads all ranks"):
        metric.update(lists, target)
