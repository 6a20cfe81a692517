"""Many equal queries have the state of one of them times their number, bit for bit."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from inner import FEWEST_SCORES, exact
from metric_entries import RANKING_CASES
from metric_tester import Case
from nextloc_metrics import (
    F1AtK,
    Grouped,
    NDCGAtK,
    PerQueryScores,
    Ranking,
    RankingCollection,
    RankingMetric,
    RecallAtK,
    recommendation_metrics,
)
from strategies import DIRTY, examples, graded_relevant, id_lists, one_relevant, several_relevant

ACTIONS = "skip", "neg", "pos"
K = 10


class Slow(RankingMetric):
    """A score of single ranks whose sums are exact in float64; those of its squares are not."""

    def at_rank(self, rank: Tensor) -> Tensor:
        """Fall with the rank."""
        return 1 - rank * 2.0**-20


class Minutes(RankingMetric):
    """A score of single ranks without an upper bound, with exact sums."""

    largest_value = math.inf
    plot_upper_bound = None

    def at_rank(self, rank: Tensor) -> Tensor:
        """Take large numbers with fractions."""
        return 2.0**30 - rank * (1 + 2.0**-10)


class Even(RankingMetric):
    """A score that reads more than a rank."""

    def score(self, ranking: Ranking) -> Tensor:
        """Score the ids of relevant locations."""
        return (ranking.relevant[:, 0] % 2 == 0).double()


@functools.cache
def collected(actions: tuple[str, ...]) -> RankingCollection:
    """All metrics of ranks, with each way to score an empty target."""
    cases = [
        Case(case.entry, {**case.options, "empty_target_action": action})
        for case in RANKING_CASES
        for action in actions
    ]
    own = {
        f"{kind.__name__}, {action}, {ties}": kind(ties=ties, empty_target_action=action)
        for kind in (Slow, Minutes, Even)
        for action in actions
        for ties in ("expected", "pessimistic")
    }
    metrics = {str(case).replace(".", ","): case.make() for case in cases} | own
    return RankingCollection({**metrics, "grouped": Grouped(Slow(), num_groups=2)})


def states(actions: tuple[str, ...], batches: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The states of all metrics after some updates."""
    metrics = collected(actions)
    metrics.reset()
    for batch in batches:
        metrics.update(**batch)
    return {name: metric.state.clone() for name, metric in metrics.items()}


#: queries that are more than a rank
FORMS = {
    "ties": one_relevant(DIRTY),
    "several": several_relevant(DIRTY),
    "graded": graded_relevant(DIRTY),
    "several of lists": id_lists(),
}


@st.composite
def batches(draw: st.DrawFn, form: str) -> dict[str, Tensor]:
    """Queries of a form, some of them skipped, and some without a relevant location."""
    if form in FORMS:
        preds, target = draw(FORMS[form])
    else:
        number = draw(st.integers(1, 6))
        # the last two are retrieved by nobody: a score of -inf, or an id beyond the list
        ids = st.integers(0, K + 1)
        target = torch.tensor(draw(st.lists(ids, min_size=number, max_size=number)))
        if form == "lists":
            integers = st.sampled_from([torch.int16, torch.int32, torch.int64])
            preds = torch.arange(K, dtype=draw(integers)).expand(number, K)
        else:
            floats = st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64])
            row = torch.cat([-torch.arange(K), torch.tensor([-math.inf] * 2)])
            preds = row.to(draw(floats)).expand(number, K + 2)
    flags = st.lists(st.booleans(), min_size=len(preds), max_size=len(preds))
    mask, groups = torch.tensor(draw(flags)), torch.arange(len(preds)) % 2
    if target.ndim == 1:
        target = target.masked_fill(torch.tensor(draw(flags)), -1)[:, None]
    return {"preds": preds, "target": target, "mask": mask, "groups": groups}


def copied(batch: dict[str, Tensor]) -> tuple[dict[str, Tensor], int]:
    """A batch again and again, with the number of its copies, at least as many as are counted."""
    copies = FEWEST_SCORES // len(batch["preds"]) + 1
    return {name: torch.cat([x] * copies) for name, x in batch.items()}, copies


@pytest.mark.parametrize("form", ["scores", "lists", *FORMS])
@examples(8)
@given(st.data())
def test_equal_queries_add_up(form: str, data: st.DataObject) -> None:
    """Whatever their rank, an empty target, or a query that is skipped, for all metrics of ranks.

    Few queries are summed one by one, and so are the queries of a batch alone.
    """
    batch = data.draw(batches(form))
    rows = range(len(batch["preds"]))
    target = batch["target"]
    is_id = target.dtype == torch.int64
    not_empty = {**batch, "mask": batch["mask"] & (target >= 0 if is_id else target > 0).any(1)}
    for actions, given_batch in ((ACTIONS, batch), (("error",), not_empty)):
        single = [{name: x[row : row + 1] for name, x in given_batch.items()} for row in rows]
        for part, x in zip(single, given_batch["groups"], strict=True):
            part["groups"] = x[None]
        of_single = states(actions, single)
        many, copies = copied(given_batch)
        for name, state in states(actions, [many]).items():
            assert torch.equal(state, of_single[name] * copies), name


def test_queries_that_are_more_than_a_rank_are_scored_one_by_one() -> None:
    """One tied block, or locations beyond the first rank, which a ranking leaves out, say more."""
    tied = Ranking.from_ranks([2, 1, 3], tied=[1, 3, 1])
    scores = -torch.arange(100.0).expand(3, 100)
    target = torch.tensor([[0, 5, 7], [3, 6, -1], [5, -1, -1]])
    several = Ranking.from_scores(scores, target, depth=1)
    assert several.above.shape[1] == 1
    for ranking in (tied, several):
        many = ranking[torch.arange(3 * FEWEST_SCORES) % 3]
        for kind in (RecallAtK, NDCGAtK, F1AtK):
            few, metric = kind(1), kind(1)
            few.update(ranking)
            metric.update(many)
            assert torch.equal(metric.state, few.state * FEWEST_SCORES)


@pytest.mark.parametrize("kind", [Slow, Minutes])
def test_a_score_of_ranks_has_the_sums_of_plain_python(kind: type[RankingMetric]) -> None:
    """Of ranks 1 to 9, a location that is not retrieved, and skipped queries; in both widths."""
    random = torch.Generator().manual_seed(0)
    ranks = torch.randint(0, 10, (FEWEST_SCORES + 3,), generator=random)
    mask = torch.rand(len(ranks), generator=random) < 0.7
    lists = torch.arange(9).expand(len(ranks), 9)
    metric = kind()
    metric.update(lists, torch.where(ranks > 0, ranks - 1, 77), mask=mask)
    expected = [0] * 7
    for rank in ranks[mask].tolist():
        score = 1 - rank * 2.0**-20 if kind is Slow else 2.0**30 - rank * (1 + 2.0**-10)
        score = score if rank else 0.0
        square = score * score
        whole, whole_square = (math.floor(x) if kind is Minutes else 0 for x in (score, square))
        fractions = [Fraction(score) - whole, Fraction(square) - whole_square]
        added = [math.floor(x * 2**32 + Fraction(1, 2)) for x in fractions]
        added += [1, whole, whole_square % 2**32, whole_square >> 32, 0]
        expected = [a + b for a, b in zip(expected, added, strict=True)]
    assert metric.state.tolist() == expected[: len(metric.state)]


@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("times", [(2**31 - 1, 0, 0), (2**30, 2**30 - 1, 1), (2**31, 0, 0)])
def test_as_many_queries_as_a_state_holds(times: tuple[int, ...], is_bounded: bool) -> None:
    """A score times its number is exact; 2^31 ones are -2^63, as their sum one by one is."""
    largest = 1.0 if is_bounded else 2.0**31
    scores = torch.tensor([[largest, largest / 3, math.nan if is_bounded else math.inf]])
    scores = scores.double()
    state = exact.tally(scores, torch.tensor(times), is_bounded)[0]
    ones = torch.ones(1, dtype=torch.bool)
    alone = [exact.tally(scores[:, [i]], ones, is_bounded)[0].tolist() for i in range(3)]
    sums = [sum(n * row[i] for n, row in zip(times, alone, strict=True)) for i in range(len(state))]
    assert state.tolist() == [(x + 2**63) % 2**64 - 2**63 for x in sums]


def test_scores_of_queries_are_those_of_their_ranks() -> None:
    """What keeps scores by query has them in the order of the queries."""
    ranks = torch.arange(FEWEST_SCORES + 1) % 12  # 0 is not retrieved
    ranking = Ranking.from_ranks(ranks)
    kept = PerQueryScores(NDCGAtK(5))
    kept.update(ranking, query_ids=torch.arange(len(ranks)))
    by_rank = NDCGAtK(5).score(Ranking.from_ranks(torch.arange(12)))
    expected = (by_rank * 2**32 + 0.5).floor() / 2**32
    assert torch.equal(kept.compute().scores, expected[ranks])


class Wrong(RankingMetric):
    """Scores of ranks that are too large, at rank 3."""

    def at_rank(self, rank: Tensor) -> Tensor:
        """Return 2 for rank 3."""
        return torch.where(rank == 3, 2.0, 0.5)


class Endless(Wrong):
    """The same without an upper bound: a finite number that is too large."""

    largest_value = math.inf
    plot_upper_bound = None

    def at_rank(self, rank: Tensor) -> Tensor:
        """Return 2^40 for rank 3."""
        return torch.where(rank == 3, 2.0**40, 0.5)


@pytest.mark.parametrize("kind", [Wrong, Endless])
def test_an_error_speaks_of_the_queries(kind: type[RankingMetric]) -> None:
    """The smallest and the largest score are those of queries, as is the number of one."""
    few, many = torch.tensor([1, 4, 4, 3, 1]), torch.tensor([1, 4, 4, 3, 1] * FEWEST_SCORES)
    says = []
    for ranks in (few, many):
        metric = kind()
        with pytest.raises(ValueError, match=kind.__name__) as error:
            metric.update(Ranking.from_ranks(ranks))
        says.append(str(error.value))
        assert metric.num_queries == 0
    assert says[0] == says[1]
    without = torch.tensor([1, 2, 4] * FEWEST_SCORES)  # rank 3 is nobody's
    metric.update(Ranking.from_ranks(without))
    assert metric.num_queries == len(without)


class Largest(TorchDispatchMode):
    """The largest number of float64 elements that an operation made."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and look at what it made."""
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and made.dtype == torch.float64:
            self.elements = max(self.elements, made.numel())
        return made


def test_equal_records_are_scored_once() -> None:
    """18 metrics of 100,000 lists of ten make eleven scores each, not one for each query."""
    target = torch.arange(100_000) % 13
    ranking = Ranking.from_lists(torch.arange(K).expand(len(target), K), target)
    metrics = recommendation_metrics(k=(1, 5, 10))
    metrics.update(ranking)  # makes tables of weights
    with Largest() as largest:
        metrics.update(ranking)
    assert largest.elements < 1000
