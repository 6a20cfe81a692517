"""Scores of tied blocks that are no formula: laws, and by hand."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nextloc_metrics import (
    AUC,
    RBP,
    ERRAtK,
    MeanRank,
    Ranking,
    RankQuantile,
    analysis,
    scoring,
)
from strategies import (
    DIRTY,
    several_relevant,
    updated,
)


def test_expected_reciprocal_rank_of_long_blocks() -> None:
    """Among a thousand tied candidates, and from rank to rank by hand."""
    grades = torch.zeros(1, 1000)
    grades[0, :5] = torch.tensor([1.0, 2, 3, 3, 1])
    got = float(scoring.expected_reciprocal_rank(Ranking.from_scores(0 * grades, grades), 20, 3))
    stops = [(2**g - 1) / 8 for g in (1, 2, 3, 3, 1)]
    # the probability of going on after q ranks: the sum over which of the five are among them
    goes_on = [
        math.fsum(
            math.comb(995, q - size) / math.comb(1000, q) * math.prod(1 - s for s in chosen)
            for size in range(min(5, q) + 1)
            for chosen in itertools.combinations(stops, size)
        )
        for q in range(21)
    ]
    assert got == pytest.approx(sum((goes_on[q - 1] - goes_on[q]) / q for q in range(1, 21)), 1e-12)


@given(several_relevant(DIRTY))
def test_laws_of_auc_and_ranks(batch: tuple[Tensor, Tensor]) -> None:
    """Reversed scores mirror AUC, and of one relevant location it is linear in the rank."""
    preds, relevant = batch
    clean = preds.nan_to_num(0, 5, -5)
    auc, reverse = (float(AUC()(x, relevant)) for x in (clean, -clean))
    assert math.isnan(auc) or auc + reverse == pytest.approx(1, abs=1e-6)
    target = torch.zeros(len(preds), dtype=torch.long)
    auc, rank = (float(m(clean, target)) for m in (AUC(), MeanRank()))
    others = clean.shape[1] - 1
    assert math.isnan(auc) or auc + (rank - 1) / others == pytest.approx(1, abs=1e-6)


@given(several_relevant(DIRTY), st.integers(0, 5), st.floats(0.01, 0.99))
def test_the_quantile_of_ranks(batch: tuple[Tensor, Tensor], seed: int, q: float) -> None:
    """The smallest rank that a share q does not exceed, from a histogram."""
    scores, counted = MeanRank().scores_of(MeanRank().read(*batch))
    ranks = sorted((2 * scores[counted]).round().div(2).tolist())
    got = float(RankQuantile(q)(*batch))
    if not ranks:
        assert math.isnan(got)
        return
    assert got == ranks[max(1, math.ceil(q * len(ranks))) - 1]


@pytest.mark.parametrize("rank", [1, 4095, 4096, 4097, 5000, 123_456, 2**31])
def test_quantiles_of_large_ranks(rank: int) -> None:
    """Exact up to 4,096, and then within 1/1024."""
    ranking = Ranking.from_ranks([rank], num_candidates=2**31)
    got = float(updated(RankQuantile(0.5), ranking).compute())
    assert got == rank if rank <= 4096 else abs(got - rank) <= rank / 1024


def test_unretrieved_ranks() -> None:
    """One more than the list, or the scores above -inf, hold."""
    lists, target = torch.tensor([[3, 1, -1], [3, 1, 2]]), torch.tensor([9, 9])
    assert MeanRank()(lists, target) == (3 + 4) / 2
    scores = torch.tensor([[1.0, -math.inf, 2, math.nan, -math.inf]])
    assert MeanRank()(scores, torch.tensor([1])) == 4
    assert MeanRank()(scores[:, :1], torch.tensor([0])) == 1
    exclude = torch.tensor([[0, 4, -1]])
    assert MeanRank()(scores, torch.tensor([1]), exclude=exclude) == 3
    of_lists = Ranking.from_lists(lists, torch.tensor([1, 1]), length=True)
    assert (of_lists.num_candidates, of_lists.lengths.tolist()) == (None, [2, 3])
    of_scores = Ranking.from_scores(scores, torch.tensor([1]), length=True)
    assert (of_scores.num_candidates, of_scores.lengths.tolist()) == (5, [3])


def test_excluded_candidates_are_no_pairs() -> None:
    """They leave AUC."""
    scores, target = torch.tensor([[3.0, 2, 1, 0]]), torch.tensor([1])
    exclude = torch.tensor([[0]])
    assert AUC()(scores, target) == pytest.approx(2 / 3)
    assert AUC()(scores, target, exclude=exclude) == 1


@pytest.mark.parametrize("candidates", [2, 5])
@pytest.mark.parametrize("relevant", [1, 2])
def test_chance(candidates: int, relevant: int) -> None:
    """Chance is the mean over all orders: that of equal scores."""
    preds = torch.zeros(1, candidates)
    target = torch.arange(candidates)[None] < relevant
    for metric in (AUC(), RBP(), ERRAtK(3), MeanRank()):
        if relevant == candidates and isinstance(metric, AUC):
            continue
        got = analysis.chance(metric, candidates, num_relevant=relevant)
        assert got == pytest.approx(float(metric(preds, target)), abs=1e-6), metric
    assert analysis.chance(AUC(), 1000) == 0.5
    assert analysis.chance(MeanRank(), 1000) == 500.5
