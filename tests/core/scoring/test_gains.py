"""Gains and scores of any size: NDCG of all grades is exact, and a wrong value spoils no sum."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal, localcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from metric_entries import CLASSES, RANKING_CASES
from metric_tester import Case
from nextloc_metrics import (
    DecileNDCG,
    Grouped,
    NDCGAtK,
    PerQueryScores,
    PopularityBins,
    Ranking,
    RankingCollection,
    RankingMetric,
    scoring,
)

Grades = list[float]

#: at the ranks 2, 1, 3 and 4
SCORES = torch.tensor([[3.0, 4.0, 2.0, 1.0]])
LARGEST = torch.finfo(torch.float64).max

GRADES: list[Grades] = [
    [1e-16, 0, 0, 0],
    [1e-300, 0, 0, 0],
    [5e-324, 0, 0, 0],
    [1e-16, 3e-17, 0, 2e-17],
    [1e-9, 0, 3e-9, 2e-9],
    [0.25, 0.75, 0, 0.5],
    [1, 2, 3, 0],
    [0.5, 1, 2.5, 1e-20],
    [1e-16, 0, 1, 0],
    [2000, 1999, 1, 0],
    [1e5, 99_999, 0, 1e5],
    [1e308, 0, 0, 0],
    [1e308, 0, 1e308, 1e308],
    [1.7e308, 1.6e308, 1.7e308, 1.5e308],
    [LARGEST, LARGEST, LARGEST, LARGEST],
    [1e308, 1, 1e-300, 5e-324],
]


def by_decimal(grades: Grades, gain: str, k: int, ideal: str) -> float:
    """NDCG with fifty digits and exponents of any size."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 50, 10**18 - 1, -(10**18) + 1
        exact = [Decimal(grade) for grade in grades]
        if gain == "exponential":
            highest = max(exact)
            # beyond 10^6 these grades differ by so much that only the highest count
            only_highest = [Decimal(grade == highest) for grade in exact]
            exact = only_highest if highest > 10**6 else [_minus_one(grade) for grade in exact]
        discounts = [Decimal(2).ln() / Decimal(rank + 1).ln() for rank in range(1, 5)]
        ranked = [exact[i] for i in (1, 0, 2, 3)]
        best = sorted(exact, reverse=True)[: k if ideal == "truncated" else None]

        def dcg(gains: list[Decimal]) -> Decimal:
            return sum((g * d for g, d in zip(gains, discounts, strict=False)), Decimal(0))

        return float(dcg(ranked[:k]) / dcg(best))


def _minus_one(grade: Decimal) -> Decimal:
    """2^grade - 1, by its series where the difference has few digits."""
    x = grade * Decimal(2).ln()
    if x > Decimal("0.01"):
        return x.exp() - 1
    term, total = x, x
    for n in range(2, 30):
        term = term * x / n
        total += term
    return total


@pytest.mark.parametrize("grades", GRADES, ids=str)
def test_ndcg_of_any_grades(grades: Grades) -> None:
    """Tiny and huge grades have the NDCG of their exact gains, checked or not."""
    ranking = Ranking.from_scores(SCORES, torch.tensor([grades], dtype=torch.float64))
    for gain in ("linear", "exponential"):
        for k, ideal in ((1, "truncated"), (3, "full"), (3, "truncated"), (10, "full")):
            got = float(scoring.ndcg(ranking, k, gain, ideal))  # type: ignore[arg-type]
            expected = by_decimal(grades, gain, k, ideal)
            assert got == pytest.approx(expected, rel=1e-13, abs=1e-300), (gain, k, ideal)


@pytest.mark.parametrize("gain", ["linear", "exponential"])
def test_a_power_of_two_changes_no_bit_of_linear_gains(gain: Any) -> None:
    """Scaled grades have the same linear NDCG; a query's grades do not affect other queries."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.rand(50, 60, generator=generator)
    grades = torch.rand(50, 60, generator=generator, dtype=torch.float64)
    grades *= torch.arange(60) < torch.arange(1, 51)[:, None]  # of 1 to 50 relevant locations
    scaled = grades * 2.0 ** torch.arange(-500, 500, 20)[:, None].double()
    one, other = (
        scoring.ndcg(Ranking.from_scores(scores, values), 40, gain) for values in (grades, scaled)
    )
    assert torch.equal(one, other) == (gain == "linear")
    alone = [
        scoring.ndcg(Ranking.from_scores(scores[i : i + 1], scaled[i : i + 1]), 40, gain)
        for i in range(50)
    ]
    assert torch.equal(torch.cat(alone), other)


@pytest.mark.parametrize(
    ("grades", "like"),
    [
        ([math.inf, 0, 0, 0], [1, 0, 0, 0]),
        ([math.inf, 1, 0, 0], [LARGEST, 1, 0, 0]),
        ([math.inf, math.inf, 0, math.inf], [1, 1, 0, 1]),
        ([math.nan, 0, 1, 0], [0, 0, 1, 0]),
        ([math.nan, 1, math.inf, -math.inf], [0, 1, LARGEST, 0]),
        ([-1, 2, 0, 0], [0, 2, 0, 0]),
    ],
)
def test_unchecked_grades_leave_the_state_whole(grades: Grades, like: Grades) -> None:
    """Infinite relevance counts as the largest number, NaN and negative relevance as none."""
    for options in ({}, {"gain": "exponential"}, {"gain": "exponential", "ties": "pessimistic"}):
        metrics = [NDCGAtK(3, validate_args=False, **options) for _ in range(2)]  # type: ignore[arg-type]
        for metric, row in zip(metrics, (grades, like), strict=True):
            metric.update(SCORES, torch.tensor([row], dtype=torch.float64))
        assert torch.equal(metrics[0].state, metrics[1].state), options


def test_unchecked_grades_of_a_bin_leave_the_state_whole() -> None:
    """The NDCG of every popularity bin is a fraction, too."""
    ndcg = DecileNDCG(PopularityBins([1, 1, 2, 2]), k=2, validate_args=False)
    ndcg.update(SCORES, torch.tensor([[math.inf, 1, math.nan, 1]]))
    values = ndcg.compute()
    assert values["ndcg_at_2_decile_1"] == pytest.approx(1 / math.log2(3))
    assert values["ndcg_at_2_decile_2"] == pytest.approx(1 / math.log2(3))


class Written(RankingMetric):
    """A score that is whatever is written."""

    def __init__(self, values: tuple[float, ...], **kwargs: Any) -> None:
        super().__init__(values=values, **kwargs)

    values: tuple[float, ...]

    def score(self, ranking: Ranking) -> Tensor:
        """Return the values."""
        return torch.tensor(self.values, dtype=torch.float64)


WRONG = (math.nan, math.inf, -math.inf, -0.5, 1.5, 1e300)
MEANT = (0.0, 1.0, 0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize("wrap", ["alone", "grouped", "per query", "together"])
def test_an_unchecked_score_counts_as_the_nearest_bound(wrap: str) -> None:
    """Without checks NaN scores 0 and others are clipped; integers of garbage reach no sum."""
    batch = SCORES.expand(6, -1), torch.zeros(6, dtype=torch.int64)
    numbers = torch.arange(6)
    results = []
    for values in (WRONG, MEANT):
        metric: Any = Written(values, validate_args=False)
        more: tuple[Any, ...] = ()
        if wrap == "grouped":
            metric, more = Grouped(metric, num_groups=6), (None, numbers)
        if wrap == "per query":
            metric, more = PerQueryScores(metric), (None, numbers)
        if wrap == "together":
            metric = RankingCollection({"own": metric})
        metric.update(*batch, *more)
        value = metric.compute()
        results.append(value["own"] if wrap == "together" else value)
    if wrap == "per query":
        results = [result.scores for result in results]
        assert results[0].tolist() == list(MEANT)
    assert torch.equal(*results)


def test_only_rounding_takes_a_score_beyond_1() -> None:
    """What is above 1 by less than 10^-9 counts as 1, and more is an error."""
    batch = SCORES.expand(2, -1), torch.zeros(2, dtype=torch.int64)
    rounded = Written((1 + 1e-10, 1 - 1e-10))
    rounded.update(*batch)
    assert rounded.state.tolist() == [2 * 2**32, 2 * 2**32 - 1, 2]
    for values in ((1 + 1e-8, 0.0), (1.0, -1e-10), (math.nan, 1.0)):
        wrong = Written(values)
        with pytest.raises(ValueError, match=r"must return values in \[0, 1\]"):
            wrong.update(*batch)
        assert wrong.num_queries == 0


@pytest.mark.parametrize("case", [x for x in CLASSES if x in RANKING_CASES], ids=str)
@pytest.mark.usefixtures("each_backend")
def test_impossible_ranks_spoil_no_sum(case: Case) -> None:
    """A Ranking in which nothing is tied with itself raises if checked; else scores are bounded."""
    rows = torch.tensor([[1, 2, 0]] * 3)
    ranking = Ranking.from_lists(rows, torch.tensor([[2, 0], [1, -1], [2, 1]]), top=3)
    good = case.make(validate_args=False)
    good.update(ranking)
    ranking = dataclasses.replace(ranking, tied=torch.zeros_like(ranking.tied))
    unchecked, checked = case.make(validate_args=False), case.make()
    unchecked.update(ranking)
    assert 0 <= float(unchecked.compute()) <= 1
    assert unchecked.num_queries == good.num_queries
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        checked.update(ranking)
    assert checked.num_queries == 0
