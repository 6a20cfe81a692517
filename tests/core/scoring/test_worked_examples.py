"""Examples that a person can check by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    LocationF1,
    LocationPrecision,
    LocationRecall,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RecallAtK,
    scoring,
)
from nextloc_metrics.core.scoring import formulas
from strategies import updated

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


def of(metric: Metric, *args: Tensor) -> float:
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
    assert of(metric, *batch) == pytest.approx(expected)


def test_weighted_f1_of_a_confusion_matrix() -> None:
    """Three locations: each location's F1 weighted by how often it was visited."""
    matrix = [[50, 10, 5], [5, 80, 15], [10, 20, 35]]
    target = [i for i, row in enumerate(matrix) for n in row for _ in range(n)]
    decided = [j for row in matrix for j, n in enumerate(row) for _ in range(n)]
    preds = torch.nn.functional.one_hot(torch.tensor(decided), 3).float()
    f1 = [2 * 50 / (65 + 65), 2 * 80 / (100 + 110), 2 * 35 / (65 + 55)]
    expected = (65 * f1[0] + 100 * f1[1] + 65 * f1[2]) / 230
    assert expected == pytest.approx(0.7135, abs=5e-5)
    assert of(LocationF1(3), preds, torch.tensor(target)) == pytest.approx(expected)
    macro = LocationF1(3, average="macro")
    assert of(macro, preds, torch.tensor(target)) == pytest.approx(sum(f1) / 3)
    micro = LocationF1(3, average="micro")
    assert of(micro, preds, torch.tensor(target)) == pytest.approx((50 + 80 + 35) / 230)
    each = updated(LocationF1(3, average=None), preds, torch.tensor(target)).compute()
    assert each.tolist() == pytest.approx(f1)


@pytest.mark.parametrize("k", [1, 10, 50])
def test_a_diverged_model_scores_nothing(k: int) -> None:
    """NaN everywhere is a miss for every k, also when k exceeds the number of locations."""
    preds, target = torch.full((3, 20), nan), torch.tensor([0, 7, 19])
    for metric in (AccuracyAtK(k), MRR(), MRR(k), NDCGAtK(k), MAPAtK(k), LocationF1(20)):
        assert of(metric, preds, target) == 0.0
        assert metric.num_queries == 3


def test_location_f1_of_rows_that_decide_nothing() -> None:
    """A row with a NaN, or with nothing above -inf, counts as a visit and as no decision."""
    preds = torch.tensor([[9.0, 0.0, 0.0], [9.0, 0.0, nan], [-inf, -inf, -inf]])
    target = torch.tensor([0, 0, 0])
    metric = updated(LocationF1(3), preds, target)
    assert metric.compute().item() == pytest.approx(2 * 1 / (3 + 1))
    assert metric.num_queries == 3
    assert of(LocationPrecision(3, average="micro"), preds, target) == 1 / 1
    assert of(LocationRecall(3, average="micro"), preds, target) == pytest.approx(1 / 3)


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize(
    ("above", "tied", "relevant", "k"),
    [
        (0, 256, 2, None),
        (0, 257, 2, None),
        (3, 301, 5, None),
        (7, 3000, 2, 2000),
        (300, 2999, 3, 900),
        (0, 257, 257, None),
        (0, 259, 3, 256),
        (4, 300, 2, 260),
        (4, 300, 2, 261),
        (2, 300, 43, None),
        (2, 300, 44, None),
        (0, 400, 390, 200),
        (1, 5000, 60, 4999),
        (0, 100_000, 2, 99_990),
    ],
)
def test_the_first_of_several_in_a_long_block_of_ties(
    above: int,
    tied: int,
    relevant: int,
    k: int | None,
    looks: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The expectation of 1 / rank in exact integers, also where nothing may read a value."""
    monkeypatch.setattr(formulas, "must_not_sync", lambda _: not looks)
    scores = torch.zeros(2, above + tied)
    scores[:, :above] = 1.0
    target = torch.arange(above, above + relevant).repeat(2, 1)
    target[1, 1:] = -1  # another query, of one relevant location
    ranking = Ranking.from_scores(scores, target)
    ways, expected = math.comb(tied - 1, relevant - 1), 0
    for q in range(1, tied - relevant + 2):
        if k is None or above + q <= k:
            expected += (ways << 200) // (above + q)
        ways = ways * (tied - q - relevant + 1) // max(1, tied - q)
    expected //= math.comb(tied, relevant)
    first, single = scoring.reciprocal_rank(ranking, k).tolist()
    assert abs(first - expected / (1 << 200)) < 2e-13
    places = range(above + 1, min(above + tied, k or above + tied) + 1)
    assert abs(single - math.fsum(1 / place for place in places) / tied) < 2e-13
