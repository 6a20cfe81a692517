"""Scores of tied blocks that are no formula: brute force over every tie order, laws, by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_against_oracle import FORMS
from torch import Tensor

import oracle
import strategies
from nextloc_metrics import (
    AUC,
    RBP,
    ERRAtK,
    MeanRank,
    Ranking,
    RankingCollection,
    RankQuantile,
    analysis,
    scoring,
)
from strategies import (
    BLOCK_CASES,
    DIRTY,
    RANK_CASES,
    Case,
    examples,
    several_relevant,
    updated,
)

OPTIONS = [
    Case("AUC", {"num_candidates": 6}),
    Case("AUC", {"num_candidates": 6, "ties": "pessimistic"}),
    Case("RPrecision"),
    Case("RBP"),
    Case("RBP", {"p": 0.3, "k": 3}),
    *(Case("ERRAtK", {"k": k, "max_grade": 3}) for k in (2, 3, 8)),
    Case("MeanRank"),
    Case("MeanRank", {"ties": "pessimistic"}),
]


def check_queries(preds: Tensor, target: Tensor) -> None:
    """Every score of every query equals the mean over all orders, and the same queries count."""
    for case in OPTIONS:
        metric: Any = case.make()
        scores, counted = metric._score_queries(metric.read(preds, target))
        for query, score, counts in zip(
            oracle.queries(preds, target), scores.tolist(), counted.tolist(), strict=True
        ):
            expected = oracle.score(case.name, query, brute=True, **case.options)
            assert counts != math.isnan(expected), (str(case), query)
            assert not counts or score == pytest.approx(expected, abs=1e-9), (str(case), query)


@pytest.mark.parametrize("form", FORMS)
@examples(8)
@given(data=st.data())
def test_scores_by_brute_force(form: str, data: st.DataObject) -> None:
    """Every form of a batch, over every tie order."""
    check_queries(*data.draw(FORMS[form]))


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
    scores, counted = MeanRank()._score_queries(MeanRank().read(*batch))
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
    """One more than the list, or the scores above -inf, hold; or an error."""
    lists, target = torch.tensor([[3, 1, -1], [3, 1, 2]]), torch.tensor([9, 9])
    assert MeanRank()(lists, target) == (3 + 4) / 2
    scores = torch.tensor([[1.0, -math.inf, 2, math.nan, -math.inf]])
    assert MeanRank()(scores, torch.tensor([1])) == 4
    assert MeanRank()(scores[:, :1], torch.tensor([0])) == 1
    exclude = torch.tensor([[0, 4, -1]])
    assert MeanRank()(scores, torch.tensor([1]), exclude=exclude) == 3
    with pytest.raises(
        ValueError, match="`unretrieved='error'`, but query 0 has none; pass scores"
    ):
        MeanRank(unretrieved="error")(lists, target)
    for form, number in ((lists, None), (scores, 5)):
        found = Ranking.from_predictions(form, target[: len(form)].clamp(max=1), length=True)
        assert found.num_candidates == number
        assert found.lengths.tolist() == ([2, 3] if number is None else [3])


def test_excluded_candidates_are_no_pairs() -> None:
    """They leave AUC."""
    scores, target = torch.tensor([[3.0, 2, 1, 0]]), torch.tensor([1])
    exclude = torch.tensor([[0]])
    assert AUC()(scores, target) == pytest.approx(2 / 3)
    assert AUC()(scores, target, exclude=exclude) == 1


def test_a_collection_of_all() -> None:
    """One update of a collection equals separate metrics, whatever a batch has."""
    own = [*BLOCK_CASES, *RANK_CASES, *strategies.QUANTILE_CASES, *strategies.BEYOND_CASES]
    cases = {str(i): case for i, case in enumerate([*strategies.RANKING_CASES, *own])}
    together = RankingCollection({name: case.make() for name, case in cases.items()})
    preds, target = strategies.batch()
    together.update(preds, target)
    for name, value in together.compute().items():
        assert torch.equal(value, updated(cases[name].make(), preds, target).compute()), name


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
