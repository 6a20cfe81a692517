"""Metrics of the first k ranks: examples that a person can check by hand, and their relations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor
from torchmetrics import Metric

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    LocationF1,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RecallAtK,
    scoring,
)
from strategies import (
    DIRTY,
    examples,
    graded_relevant,
    one_relevant,
    same,
    state,
    updated,
)

inf, nan = math.inf, math.nan


def at_ranks(*ranks: int, locations: int = 20) -> tuple[Tensor, Tensor]:
    """Scores without ties that put location 0 of each query at the given rank, from 1."""
    rows = []
    for rank in ranks:
        others = list(range(1, locations))
        order = [*others[: rank - 1], 0, *others[rank - 1 :]]
        row = [0.0] * locations
        for place, location in enumerate(order):
            row[location] = -float(place)
        rows.append(row)
    return torch.tensor(rows), torch.zeros(len(ranks), dtype=torch.long)


def value_of(metric: Metric, *args: Tensor) -> float:
    """The value of a metric after one update."""
    return updated(metric, *args).compute().item()


def one_list(*ids: int) -> Tensor:
    """A list of ids."""
    return torch.tensor([ids])


FIVE = torch.arange(5)[None]
TWICE = torch.tensor([[0, 9], [0, 9]]), torch.tensor([[0, -1, -1], [0, 1, 2]])
GRADED = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[3.0, 0.0, 2.0]])
FALLING, FIRST_THREE = torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[0, 1, 2]])
HITS_AT_2_AND_4 = one_list(5, 0, 6, 1, 2), FIRST_THREE
RULED_OUT = torch.tensor([[-inf, -inf, 0.5, -inf], [0.5, -inf, -inf, -inf]]), torch.tensor([0, 0])
ALL_EQUAL = torch.full((3, 20), 0.25), torch.tensor([0, 7, 19])
BOTH_INFINITE = torch.tensor([[inf, 0.0, inf]])

BY_HAND: list[tuple[Metric, tuple[Tensor, Tensor], float]] = [
    # the mean of the reciprocal ranks; rank 5 is beyond 3, and within 5
    (MRR(), at_ranks(2, 1, 5), (1 / 2 + 1 + 1 / 5) / 3),
    (MRR(k=3), at_ranks(2, 1, 5), (1 / 2 + 1) / 3),
    (MRR(k=5), at_ranks(2, 1, 5), (1 / 2 + 1 + 1 / 5) / 3),
    # each rank earns 1 / log2(rank + 1), and rank 15 lies beyond the tenth place
    (NDCGAtK(10), at_ranks(1, 3, 7, 15), (1 + 1 / math.log2(4) + 1 / math.log2(8)) / 4),
    (AccuracyAtK(2), at_ranks(2, 3), 1 / 2),
    # every location stands at each of 20 ranks equally often; optimists put it first
    (AccuracyAtK(5), ALL_EQUAL, 5 / 20),
    (MRR(), ALL_EQUAL, sum(1 / rank for rank in range(1, 21)) / 20),
    (NDCGAtK(5), ALL_EQUAL, sum(1 / math.log2(rank + 1) for rank in range(1, 6)) / 20),
    (AccuracyAtK(1, ties="optimistic"), ALL_EQUAL, 1),
    (AccuracyAtK(19, ties="pessimistic"), ALL_EQUAL, 0),
    (MRR(ties="pessimistic"), ALL_EQUAL, 1 / 20),
    # what is scored -inf is no recommendation; +inf ties like any other score
    (AccuracyAtK(10), RULED_OUT, 1 / 2),
    (MRR(), RULED_OUT, 1 / 2),
    (AccuracyAtK(1), (BOTH_INFINITE, torch.tensor([0])), 1 / 2),
    (MRR(), (BOTH_INFINITE, torch.tensor([2])), 3 / 4),
    # lists of which 0 to 4 are relevant
    (PrecisionAtK(1), (one_list(5, 1, 2, 3, 4), FIVE), 0),
    (PrecisionAtK(3), (one_list(0, 5, 2, 6, 1), FIVE), 2 / 3),
    (MAPAtK(2), (one_list(0, 5, 4, 6, 1), FIVE), 1 / 2),
    (MAPAtK(3), (one_list(0, 5, 2, 6, 1), FIVE), (1 / 1 + 2 / 3) / 3),
    (MAPAtK(3), (one_list(3, 2, 1, 0, 4), FIVE), 1),
    (MAPAtK(3, normalizer="relevant"), (one_list(0, 9, 1), FIVE), (1 + 2 / 3) / 5),
    # a repeated id earns once, and the others keep their places
    (MAPAtK(3), (one_list(0, 0, 0), one_list(0)), 1),
    (NDCGAtK(3), (one_list(0, 0, 0), one_list(0)), 1),
    (RecallAtK(3), (one_list(7, 7, 7), one_list(7, 8)), 1 / 2),
    (MRR(), (one_list(0, 0, 1), torch.tensor([1])), 1 / 3),
    (AccuracyAtK(2), (one_list(0, 0, 1), torch.tensor([1])), 0),
    # relevance 3, 0, 2 in that order
    (NDCGAtK(3), GRADED, (3 + 2 / 2) / (3 + 2 / math.log2(3))),
    (NDCGAtK(3, gain="exponential"), GRADED, (7 + 3 / 2) / (7 + 3 / math.log2(3))),
    # three relevant ones and one place: a full ideal DCG counts all three
    (NDCGAtK(1), (FALLING, FIRST_THREE), 1),
    (NDCGAtK(1, ideal="full"), (FALLING, FIRST_THREE), 1 / (1 + 1 / math.log2(3) + 1 / 2)),
    # two hits within four places, three relevant ones
    (PrecisionAtK(4), HITS_AT_2_AND_4, 2 / 4),
    (RecallAtK(4), HITS_AT_2_AND_4, 2 / 3),
    (F1AtK(4), HITS_AT_2_AND_4, 4 / 7),
    (AccuracyAtK(4), HITS_AT_2_AND_4, 1),
    (MRR(), HITS_AT_2_AND_4, 1 / 2),
    # two places can hold at most two of three relevant ones
    (RecallAtK(2), (one_list(0, 5, 1, 2), FIRST_THREE), 1 / 3),
    (RecallAtK(2, normalized=True), (one_list(0, 5, 1, 2), FIRST_THREE), 1 / 2),
    # two written entries, one of them right
    (PrecisionAtK(5), (one_list(4, 0, -1, -1), FIRST_THREE), 1 / 5),
    (PrecisionAtK(5, denominator="retrieved"), (one_list(4, 0, -1, -1), FIRST_THREE), 1 / 2),
    # queries with 1 of 1 and 1 of 3 found in two places
    (F1AtK(2), TWICE, (2 / 3 + 2 / 5) / 2),
]


@pytest.mark.parametrize(("metric", "batch", "expected"), BY_HAND)
def test_values_by_hand(metric: Metric, batch: tuple[Tensor, Tensor], expected: float) -> None:
    """The value of one batch is the fraction that a person writes down."""
    assert value_of(metric, *batch) == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 10, 50])
def test_a_diverged_model_scores_nothing(k: int) -> None:
    """NaN everywhere is a miss for every k, also when k exceeds the number of locations."""
    preds, target = torch.full((3, 20), nan), torch.tensor([0, 7, 19])
    for metric in (AccuracyAtK(k), MRR(), MRR(k), NDCGAtK(k), MAPAtK(k), LocationF1(20)):
        assert value_of(metric, preds, target) == 0.0
        assert metric.num_queries == 3


KS = (1, 2, 3, 5, 8)


@given(graded_relevant(DIRTY))
def test_scores_never_fall_with_k(batch: tuple[Tensor, Tensor]) -> None:
    """A longer look never finds less: scores whose divisor does not grow with k."""
    ranking = Ranking.from_scores(*batch)
    has_some = ranking.num_relevant > 0
    rising: dict[str, Any] = {
        "hits": lambda k: scoring.hits(ranking, k),
        "accuracy": lambda k: scoring.accuracy(ranking, k),
        "reciprocal rank": lambda k: scoring.reciprocal_rank(ranking, k),
        "recall": lambda k: scoring.recall(ranking, k),
        "full ndcg": lambda k: scoring.ndcg(ranking, k, "linear", "full"),
        "ap over n": lambda k: scoring.average_precision(ranking, k, "relevant"),
    }
    for name, score in rising.items():
        values = torch.stack([score(k)[has_some] for k in KS])
        assert (values.diff(dim=0) >= -1e-12).all(), name


@examples(5)
@given(one_relevant(DIRTY))
def test_one_relevant_location_makes_metrics_equal(batch: tuple[Tensor, Tensor]) -> None:
    """MAP@k is MRR@k and recall is accuracy, bit for bit, on any ties."""
    for k in (1, 3, 8):
        for ties in ("expected", "optimistic", "pessimistic"):
            pairs: list[tuple[Metric, Metric]] = [
                (MAPAtK(k, ties=ties), MRR(k, ties=ties)),
                (RecallAtK(k, ties=ties), AccuracyAtK(k, ties=ties)),
                (RecallAtK(k, normalized=True, ties=ties), AccuracyAtK(k, ties=ties)),
            ]
            for one, other in pairs:
                assert same(state(updated(one, *batch)), state(updated(other, *batch)))
                assert same(one.compute(), other.compute())


@given(one_relevant(DIRTY))
def test_the_order_of_metrics_of_one_relevant_location(batch: tuple[Tensor, Tensor]) -> None:
    """Acc@1 <= MRR@k <= NDCG@k <= Acc@k, and at k = 1 all four are one."""
    ranking = Ranking.from_scores(*batch)
    first = scoring.accuracy(ranking, 1)
    for k in KS:
        mrr, ndcg = scoring.reciprocal_rank(ranking, k), scoring.ndcg(ranking, k)
        assert (first <= mrr + 1e-12).all()
        assert (mrr <= ndcg + 1e-12).all()
        assert (ndcg <= scoring.accuracy(ranking, k) + 1e-12).all()
    at_1: list[Metric] = [AccuracyAtK(1), MRR(1), NDCGAtK(1), MAPAtK(1), PrecisionAtK(1)]
    values = [updated(metric, *batch).compute() for metric in at_1]
    assert all(same(values[0], value) for value in values)
