"""Ranks that somebody else has found give the values of the scores that they were found in."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecilePrecision,
    Grouped,
    LocationF1,
    NDCGAtK,
    PopularityBins,
    PrecisionAtK,
    Ranking,
    next_location_metrics,
    recommendation_metrics,
)
from strategies import examples


@pytest.mark.slow
@examples(5)
@given(st.integers(1, 3), st.integers(0, 10**6))
def test_ranks_of_scores_give_the_values_of_the_scores(relevant: int, seed: int) -> None:
    """Ties included, where `tied` says how many."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(6, (5, 12), generator=generator).float()
    target = torch.stack([torch.randperm(12, generator=generator) for _ in range(5)])[:, :relevant]
    own = scores.gather(1, target)
    ranks = (scores[:, None] > own[..., None]).sum(2) + 1
    tied = (scores[:, None] == own[..., None]).sum(2)
    ranking = Ranking.from_ranks(ranks, num_candidates=12, tied=tied)
    expected = Ranking.from_scores(scores, target)
    for name in ("above", "tied", "relevant_above", "relevant_tied", "num_relevant"):
        assert torch.equal(getattr(ranking, name), getattr(expected, name)), name
    for ties in ("expected", "optimistic", "pessimistic"):
        metrics = recommendation_metrics(k=(1, 5), ties=ties)
        metrics.update(ranking)
        others = recommendation_metrics(k=(1, 5), ties=ties)
        others.update(expected)
        assert metrics.compute() == others.compute()


def test_ranks_in_every_form() -> None:
    """Lists and arrays; what is missing is a miss, for every k."""
    for ranks in ([1, 4, 12, 0], torch.tensor([1, 4, 12, 0]), torch.tensor([[1], [4], [12], [0]])):
        ranking = Ranking.from_ranks(ranks, num_candidates=100)
        assert [float(AccuracyAtK(k)(ranking)) for k in (1, 4, 11, 12, 100)] == [
            0.25, 0.5, 0.5, 0.75, 0.75,
        ]  # fmt: skip
    assert float(MRR()(Ranking.from_ranks([-7, 2], missing=-7))) == 0.25
    assert MRR()(Ranking.from_ranks([])).isnan()
    assert float(NDCGAtK(5)(Ranking.from_ranks([[1, 2], [2, 1]]))) == 1
    grouped = Grouped(MRR(), 2)
    grouped.update(Ranking.from_ranks([1, 2]), groups=[0, 1])
    assert grouped.compute().tolist() == [1, 0.5]


def test_metrics_that_need_ids_say_so() -> None:
    """And a collection with one is not updated at all."""
    ranking = Ranking.from_ranks([1, 2], num_candidates=4)
    metrics = next_location_metrics(4)
    bins = PopularityBins([1, 1, 2, 2])
    for metric in (
        metrics,
        LocationF1(4),
        DecilePrecision(bins, k=1),
        PrecisionAtK(1, denominator="retrieved"),
    ):
        with pytest.raises(ValueError, match="ids of candidates are needed"):
            metric.update(ranking)
    assert all(member.state.sum() == 0 for member in metrics.values(copy_state=False))
    with pytest.raises(ValueError, match="ids of candidates are needed"):
        ranking.look_up(torch.zeros(4), 0.0)
    assert not ranking[:1].has_ids
