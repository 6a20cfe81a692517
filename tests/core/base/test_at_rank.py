"""A metric of one's own that scores single ranks, beside plain Python over all orders of ties."""

import math
from itertools import pairwise, permutations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nextloc_metrics import AccuracyAtK, Ranking, RankingMetric


class Slow(RankingMetric):
    """A score that does not vanish: the last of a million ranks still has 0.07."""

    base: float = 1.0

    def at_rank(self, rank: Tensor) -> Tensor:
        """Decay with the logarithm of the rank."""
        return 1 / (self.base + rank.log())


class Squared(RankingMetric):
    """A score that vanishes."""

    def at_rank(self, rank: Tensor) -> Tensor:
        """Square the reciprocal rank."""
        return 1 / rank**2


class Power(RankingMetric):
    """A score that PyTorch computes otherwise at the end of a tensor."""

    def at_rank(self, rank: Tensor) -> Tensor:
        """Take a power of the rank."""
        return rank**-1.3


def by_all_orders(scores: list[float], relevant: list[int], base: float) -> float:
    """The mean of `Slow` over all orders of the candidates by falling score."""
    orders = [
        order
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    found = [1 / (base + math.log(order.index(x) + 1)) for order in orders for x in relevant]
    return math.fsum(found) / len(found)


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=5, max_size=5),
            st.sets(st.integers(0, 4), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([1.0, 2.5]),
)
def test_ties_are_averaged_over_all_orders(
    queries: list[tuple[list[float], set[int]]], base: float
) -> None:
    """So are several relevant locations, and a batch has the sums of its queries, bit for bit."""
    metric, alone = Slow(base), Slow(base)
    scores = torch.tensor([scores for scores, _ in queries])
    target = torch.tensor([[*sorted(x), -1, -1][:3] for _, x in queries])
    metric.update(scores, target)
    for row, relevant in zip(scores, target, strict=True):
        alone.update(row[None], relevant[None])
    expected = [by_all_orders(scores, sorted(x), base) for scores, x in queries]
    assert float(metric.compute()) == pytest.approx(math.fsum(expected) / len(expected), rel=1e-6)
    assert torch.equal(alone.compute(), metric.compute())


def test_what_is_not_retrieved_scores_0() -> None:
    """A target that a list lacks, that is NaN or -inf, and one of two that is found."""
    metric = Slow()
    metric.update(torch.tensor([[3, 5, -1]]), torch.tensor([4]))
    metric.update(torch.tensor([[0.1, math.nan], [0.1, -math.inf]]), torch.tensor([1, 1]))
    assert float(metric.compute()) == 0
    metric.reset()
    metric.update(torch.tensor([[3, 5, -1]]), torch.tensor([[3, 4]]))
    assert float(metric.compute()) == 0.5  # the mean of 1 and 0


@pytest.mark.parametrize(("ties", "rank"), [("optimistic", 2), ("pessimistic", 4)])
def test_ties_are_broken(ties: str, rank: int) -> None:
    """The first or the last rank of the block, the second to the fourth."""
    metric = Squared(ties=ties)
    metric.update(torch.tensor([[0.9, 0.3, 0.3, 0.3]]), torch.tensor([2]))
    assert float(metric.compute()) == 1 / rank**2


MILLION = (1 << 20) + 77


@pytest.mark.parametrize("number", [200, 100_000, pytest.param(MILLION, marks=pytest.mark.slow)])
def test_a_constant_model_has_the_mean_over_all_ranks(number: int) -> None:
    """A block may be longer than the ranks that are scored at once."""
    metric = Squared()
    metric.update(Ranking.from_ranks([1], number, [number]))
    expected = math.fsum(1 / rank**2 for rank in range(1, number + 1)) / number
    assert float(metric.state[0]) / 2**32 == pytest.approx(expected, abs=2**-31)
    assert metric.chance(number) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("tied", [1, 3])
def test_a_score_has_the_same_bits_beside_any_others(tied: int) -> None:
    """Powers differ in their last bit where a tensor ends, and sums where they begin."""
    metric, ranks = Power(), torch.arange(1, 5001)
    whole = metric.score(Ranking.from_ranks(ranks, tied=torch.full_like(ranks, tied)))
    for size in (1, 7):
        parts = [
            metric.score(Ranking.from_ranks(part, tied=torch.full_like(part, tied)))
            for part in ranks[::37].split(size)
        ]
        assert torch.equal(torch.cat(parts), whole[::37])


def test_no_rank_beyond_the_candidates_is_scored() -> None:
    """A score may be read from a table with a row for each candidate."""

    class Read(RankingMetric):
        """A table of three scores."""

        def at_rank(self, rank: Tensor) -> Tensor:
            """Read the table."""
            return torch.tensor([1.0, 0.5, 0.0])[rank.long() - 1]

    assert float(Read()(torch.tensor([[0.5, 0.5, 0.5]]), torch.tensor([1]))) == 0.5


def test_one_score_per_rank_is_asked() -> None:
    """A sum over the ranks is refused, and nothing is counted."""

    class Summed(RankingMetric):
        """One score for all ranks."""

        def at_rank(self, rank: Tensor) -> Tensor:
            """Sum what should stay apart."""
            return (1 / rank).sum()

    metric = Summed()
    with pytest.raises(ValueError, match=r"`at_rank` of .*Summed\(\) must return .* one per rank"):
        metric.update(torch.tensor([[0.5, 0.1]]), torch.tensor([1]))
    assert metric.num_queries == 0


class ScoreOfAll:
    """A class to mix in, which is no metric by itself."""

    def score(self, ranking: Ranking) -> Tensor:
        """Give each query a quarter."""
        return torch.full((len(ranking),), 0.25, dtype=torch.float64)


class RankOfAll:
    """Another one, which scores ranks."""

    def at_rank(self, rank: Tensor) -> Tensor:
        """Give each rank a quarter."""
        return torch.full_like(rank, 0.25)


class WithOption(RankingMetric):
    """A base class that adds an option and does not score."""

    note: str = "none"


class FormulaBehind(WithOption, AccuracyAtK):
    """A metric of the library with that option."""


class Unprepared(RankingMetric):
    """A metric whose `__post_init__` does not call that of its base."""

    def __post_init__(self) -> None:
        """Derive an attribute."""
        self.share = 0.25

    def at_rank(self, rank: Tensor) -> Tensor:
        """Give each rank the attribute."""
        return torch.full_like(rank, self.share)


@pytest.mark.parametrize("mixin", [ScoreOfAll, RankOfAll])
@pytest.mark.parametrize("base", [RankingMetric, AccuracyAtK])
def test_a_class_that_is_mixed_in_scores(mixin: type, base: type) -> None:
    """The nearest class that defines a score says it, as Python finds methods."""
    kind: Any = type("Mixed", (mixin, base), {"__module__": __name__})
    metric = kind(k=1) if base is AccuracyAtK else kind()
    metric.update(torch.tensor([[0.1, 0.9]]), torch.tensor([1]))
    assert metric.compute() == 0.25


def test_a_class_without_a_score_leaves_that_of_the_next() -> None:
    """One that only adds an option does not hide a formula behind it."""
    metric = FormulaBehind(k=1, note="x")
    metric.update(torch.tensor([[0.1, 0.9], [0.1, 0.9]]), torch.tensor([1, 0]))
    assert metric.compute() == 0.5


def test_a_post_init_alone_is_enough() -> None:
    """What the base needs does not depend on it."""
    metric = Unprepared()
    metric.update(torch.tensor([[0.1, 0.9]]), torch.tensor([1]))
    assert metric.compute() == 0.25


def test_a_score_out_of_range_is_named_as_it_is_defined() -> None:
    """By `at_rank`, where the class has no `score` of its own."""

    class Twice(RankingMetric):
        def at_rank(self, rank: torch.Tensor) -> torch.Tensor:
            return 2 / rank

    with pytest.raises(ValueError, match=r"`at_rank` of .*Twice.* must return values in"):
        Twice().update([[1, 2]], [1])
