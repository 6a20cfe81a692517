"""Sums of 1 / rank and 1 / log2(rank + 1) beyond the tables, against fifty digits."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

import pytest
import torch

from nextloc_metrics import Ranking, scoring
from nextloc_metrics.base import Queries

mpmath = pytest.importorskip("mpmath", reason="a sum of millions of terms needs fifty digits")
TABLE = 131_072  #: the last rank that is looked up
LAST = 2**31
STEP = 2**-47  #: of sums of 1 / rank

# Blocks, as how many candidates are above and how many are tied.
BLOCKS = [
    (TABLE - 1, 1),
    (TABLE, 1),
    (TABLE + 1, 1),
    (TABLE - 1, 2),
    (TABLE - 500, 1000),
    (0, TABLE),
    (0, TABLE + 1),
    (0, TABLE + 2),
    (0, 200_000),
    (TABLE, TABLE),
    (TABLE, 400_000_000),
    (200_000, 3),
    (1_000_000, 1),
    (1_000_000, 1_000_000),
    (1_000_000_000, 1_000_000),
    (3, LAST - 3),
    (TABLE, LAST - TABLE),
    (LAST - 10, 9),
]


@lru_cache
def harmonic(x: int) -> Any:
    """H(x), by the digamma function."""
    with mpmath.workdps(50):
        return mpmath.harmonic(x)


@lru_cache
def discount(x: int) -> Any:
    """L(x), added up to 4096 and by Euler and Maclaurin with four corrections from there."""
    with mpmath.workdps(50):
        few = min(x, 4096)
        total = mpmath.fsum(1 / mpmath.log(rank + 1) for rank in range(1, few + 1))
        if x > few:
            a, b = mpmath.mpf(few + 1), mpmath.mpf(x + 1)

            def term(t: Any) -> Any:
                return 1 / mpmath.log(t)

            total += mpmath.li(b) - mpmath.li(a) + (term(b) - term(a)) / 2
            for order in range(1, 4):
                factor = mpmath.bernoulli(2 * order) / mpmath.factorial(2 * order)
                slopes = [mpmath.diff(term, end, 2 * order - 1) for end in (b, a)]
                total += factor * (slopes[0] - slopes[1])
        return total * mpmath.log(2)


def ranking_of_block(above: int, tied: int, num_candidates: int | None) -> Ranking:
    """One query, and one relevant location in a block."""
    column = torch.tensor([[0]])
    return Ranking(
        torch.tensor([[above]]),
        torch.tensor([[tied]]),
        torch.zeros_like(column),
        torch.ones_like(column),
        relevant=column,
        num_relevant=torch.tensor([1]),
        queries=Queries(torch.Size([1]), torch.tensor([True])),
        num_candidates=num_candidates,
    )


@pytest.mark.parametrize("cut", [0, 7])
@pytest.mark.parametrize(("above", "tied"), BLOCKS)
def test_scores_beyond_the_tables(above: int, tied: int, cut: int) -> None:
    """Reciprocal rank, AP and NDCG of one relevant location, cut within its block or behind."""
    end = max(above + 1, above + tied - cut)
    k = end if cut else above + tied
    ranking = ranking_of_block(above, tied, above + tied if above % 2 else None)
    with mpmath.workdps(50):
        reciprocal = (harmonic(end) - harmonic(above)) / tied
        discounted = (discount(end) - discount(above)) / tied
    found = {
        "reciprocal rank": (scoring.reciprocal_rank(ranking, k), reciprocal, STEP),
        "average precision": (scoring.average_precision(ranking, k), reciprocal, STEP),
        "ndcg": (scoring.ndcg(ranking, k), discounted, 4e-12),
    }
    if not cut:
        found["uncut reciprocal rank"] = scoring.reciprocal_rank(ranking), reciprocal, STEP
    for name, (got, expected, step) in found.items():
        # sums of 1 / rank, and a table of discounts, have no smaller steps
        is_exact = above >= TABLE and (name == "ndcg" or tied == 1)
        least = 0 if is_exact else step / tied
        assert float(got) == pytest.approx(float(expected), rel=2e-14, abs=least), name


@pytest.mark.parametrize("relevant", [TABLE, TABLE + 1, 300_000])
def test_an_ideal_beyond_the_tables(relevant: int) -> None:
    """The discounts of the best order, added one by one, for one location at rank 1 of many."""
    ranking = ranking_of_block(0, 1, None)
    ranking = dataclasses.replace(
        ranking, num_relevant=torch.tensor([relevant]), most_relevant=relevant
    )
    with mpmath.workdps(50):
        best = discount(relevant)
    for got in (
        float(scoring.ndcg(ranking, relevant)),
        float(scoring.ndcg(ranking, relevant, ideal="full")),
    ):
        assert 1 / got == pytest.approx(float(best), rel=1e-14, abs=0)
