"""Long blocks of tied candidates with several relevant ones: little memory, and the same bits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from math import comb
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from nextloc_metrics import Ranking, scoring
from nextloc_metrics.base import Queries

Score = Callable[[Ranking], Tensor]

SCORES: dict[str, Score] = {
    "reciprocal rank": scoring.reciprocal_rank,
    "reciprocal rank at 5000": lambda ranking: scoring.reciprocal_rank(ranking, 5000),
    "accuracy at 1000": lambda ranking: scoring.accuracy(ranking, 1000),
}
BY_SCORE = pytest.mark.parametrize("name", SCORES)


def ranking_of_blocks(
    above: Tensor, tied: Tensor, relevant: Tensor, width: int | None = None
) -> Ranking:
    """Queries whose relevant locations are all in one block, in as many columns or more."""
    width = width or int(relevant.max())
    column = torch.arange(width)
    inside = column < relevant[:, None]
    return Ranking(
        torch.where(inside, above[:, None], 2**62),
        torch.where(inside, tied[:, None], 1),
        torch.zeros(len(above), width, dtype=torch.int64),
        torch.where(inside, relevant[:, None], 1),
        relevant=torch.where(inside, column, -1),
        num_relevant=relevant,
        queries=Queries(above.shape, torch.ones(len(above), dtype=torch.bool)),
        num_candidates=int((above + tied).max()),
    )


def some_blocks(number: int, width: int | None = None) -> Ranking:
    """Random ones, short and long, of one relevant location up to all."""
    generator = torch.Generator().manual_seed(number)
    length, share = torch.rand(2, number, dtype=torch.float64, generator=generator)
    tied = (10 ** (1 + 4 * length)).long()
    relevant = (tied * share**4).long().clamp(1, 500)
    above = torch.randint(0, 2000, (number,), generator=generator)
    return ranking_of_blocks(above, tied, relevant, width)


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that an operation holds at once beside what there was."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    found = profiler.profiler
    assert found is not None
    assert found.kineto_results is not None
    events = [e for e in found.kineto_results.events() if e.name() == "[memory]"]
    held, peak = 0, 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    assert peak > 0
    return peak


@pytest.mark.slow  # traces memory
@pytest.mark.parametrize(
    ("queries", "relevant"), [(256, 2), (4000, 20), (256, 300), (256, 2100)]
)  # 256 x 2100 float64 are 4.3 MB
@BY_SCORE
def test_a_long_block_takes_little_memory(name: str, queries: int, relevant: int) -> None:
    """At most four megabytes, however many queries there are, tied candidates, and relevant."""
    full = torch.full((queries,), relevant)
    SCORES[name](ranking_of_blocks(full[:2], full[:2] + 1000, full[:2]))  # makes the tables
    ranking = ranking_of_blocks(torch.zeros_like(full), torch.full_like(full, 100_000), full)
    assert peak_bytes(lambda: SCORES[name](ranking)) < 4_000_000


@BY_SCORE
@pytest.mark.usefixtures("each_backend")
def test_any_split_of_the_queries_gives_the_same_bits(name: str) -> None:
    """One batch, in which some blocks are long, or each query alone, in fewer or more columns."""
    score = SCORES[name]
    ranking = some_blocks(120, 512)
    together = score(ranking)
    for sizes in ([1] * 20 + [100], [100, 20]):
        edges = torch.tensor([0, *sizes]).cumsum(0).tolist()
        parts = [score(ranking[a:b]) for a, b in itertools.pairwise(edges)]
        assert torch.equal(torch.cat(parts), together)
    order = torch.randperm(120)
    assert torch.equal(score(ranking[order]), together[order])
    assert torch.equal(score(some_blocks(120, 1100)), together)


@pytest.mark.parametrize(("ties", "best"), [("optimistic", 0), ("pessimistic", 1)])
def test_without_ties_the_record_is_that_of_other_scores(ties: Any, best: int) -> None:
    """Of one candidate of the block with a higher score; what is not retrieved stays so."""
    scores, target = torch.tensor([[2.0, 2.0, -math.inf, 1.0]]), torch.tensor([[0, 2, 3]])
    found = Ranking.from_scores(scores, target).break_ties(ties)
    scores[0, best] = 3
    expected = Ranking.from_scores(scores, target)
    for name in ("above", "tied", "relevant_above", "relevant_tied", "relevant"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.usefixtures("each_backend")
def test_accuracy_of_a_block_is_the_chance_of_a_hit() -> None:
    """1 - C(e - r, m) / C(e, m), to fifteen digits."""
    ranking = some_blocks(60)
    for k in (1, 10, 1000, 50_000):
        for i, got in enumerate(scoring.accuracy(ranking, k).tolist()):
            above, tied, relevant = (
                int(x[i, 0]) for x in (ranking.above, ranking.tied, ranking.relevant_tied)
            )
            within = min(max(k - above, 0), tied)
            # C(e - r, m) / C(e, m) = C(e - m, r) / C(e, r), of smaller numbers
            missed = Fraction(comb(tied - within, relevant), comb(tied, relevant))
            assert got == pytest.approx(float(1 - missed), rel=1e-12, abs=1e-15)
