"""Novelty, diversity, serendipity and the like are those of loops over the first k."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_recommended import first_of_list, first_of_scores
from torch import Tensor

from nextloc_metrics import (
    Entropy,
    Grouped,
    IntraListDiversity,
    Novelty,
    PerQueryScores,
    Personalization,
    Serendipity,
    TailShare,
    analysis,
)
from nextloc_metrics.geography import Locations
from strategies import DIRTY, examples, id_lists, scores, several_relevant

VISITS = [50, 30, 10, 5, 5, 0]
CATEGORIES = [0, 1, 0, 2, 1, 1]
PLACES = Locations.from_plane([0, 300, 3000, 0, 70, 70], [0, 400, 4000, 0, 10, 0])
VECTORS = np.array([[1.0, 0], [0, 2], [1, 1], [-1, 0], [3, 4], [1, 0.5]])


def cosine(i: int, j: int) -> float:
    """1 minus the cosine of two vectors."""
    one, other = VECTORS[i], VECTORS[j]
    return float(1 - one @ other / np.linalg.norm(one) / np.linalg.norm(other))


DISTANCES: list[tuple[Any, Callable[[int, int], float]]] = [
    (CATEGORIES, lambda i, j: float(CATEGORIES[i] != CATEGORIES[j])),
    (VECTORS, cosine),
    (PLACES, lambda i, j: float(PLACES.distance(torch.tensor(i), torch.tensor(j)))),
]


def mean(values: list[float]) -> float:
    """The mean, NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def check(firsts: list[list[int]], k: int, *batch: Tensor) -> None:
    """Compare all metrics with loops over the first k locations of every query."""

    def same(metric: Any, expected: float) -> None:
        got = float(metric(*batch))
        assert got == pytest.approx(expected, rel=1e-6, abs=1e-7, nan_ok=True), metric

    known = [[i for i in first if i < 6] for first in firsts]
    bits = [[-math.log2(max(1, VISITS[i]) / 100) for i in first] for first in known]
    same(Novelty(k, VISITS), mean([mean(row) for row in bits if row]))
    for table, distance in DISTANCES if k > 1 else ():
        rows = [[distance(i, j) for i, j in itertools.combinations(x, 2)] for x in known]
        same(IntraListDiversity(k, table), mean([mean(row) for row in rows if row]))
    pairs = itertools.combinations(known, 2)
    overlap = [len({*one} & {*other}) / k for one, other in pairs]
    same(Personalization(6, k), 1 - mean(overlap))
    every = [i for first in known for i in first]
    shares = [every.count(i) / len(every) for i in set(every)]
    entropy = -math.fsum(p * math.log2(p) for p in shares) if every else math.nan
    same(Entropy(6, k), entropy)
    # 5 + 5 of 100 visits, and 10 more; 3 of 6 locations have at most 5 visits
    for share, of, tail in ((0.1, "visits", 5), (0.2, "visits", 10), (0.6, "locations", 5)):
        inside = [float(VISITS[i] <= tail) for i in every]
        same(TailShare(k, VISITS, share, of), mean(inside))


def test_the_tail_has_exactly_its_share() -> None:
    """A location with 29 of 100 visits, and 29 of 100 locations, are in the tail of .29."""
    for number in range(1, 50):
        share, rest = number / 100, 100 - number
        assert TailShare(1, [number, rest], share).tail().tolist() == [True, False], number
        counts = [1] * number + [2] * rest
        for size in (share, rest / 100):
            tail = TailShare(1, counts, size, of="locations").tail()
            assert tail.tolist() == [True] * number + [False] * rest, number


@examples(8)
@given(scores(columns=6, values=DIRTY), st.integers(1, 7))
def test_scores_are_read_as_in_loops(preds: Tensor, k: int) -> None:
    """With ties across rank k, NaN and -inf."""
    firsts = [first_of_scores(row, k) for row in preds.tolist()]
    check(firsts, k, preds, torch.zeros(len(preds), dtype=torch.long))


@examples(8)
@given(id_lists(8), st.integers(1, 7))
def test_lists_are_read_as_in_loops(batch: tuple[Tensor, Tensor], k: int) -> None:
    """With repeats, padding, and ids that are no location."""
    lists, target = batch
    check([first_of_list(row, k) for row in lists.tolist()], k, lists, target)


def serendipity_of(order: tuple[int, ...], relevant: set[int], k: int) -> float:
    """RecTools' formula for one order of the candidates, divided by k."""
    levels = sorted({x for x in VISITS if x}, reverse=True)
    total = 0.0
    for rank, i in enumerate(order[:k], start=1):
        of_user = (6 + 1 - rank) / 6
        of_anyone = (6 - levels.index(VISITS[i])) / 6 if VISITS[i] else 0.0
        total += max(of_user - of_anyone, 0) * (i in relevant)
    return total / k


@examples(8)
@given(several_relevant(), st.integers(1, 7))
def test_serendipity_over_every_order(batch: tuple[Tensor, Tensor], k: int) -> None:
    """The mean over every order of tied candidates."""
    preds, relevant = batch
    preds = torch.nn.functional.pad(preds, (0, 6 - preds.shape[1]), value=-5.0)
    relevant = torch.nn.functional.pad(relevant, (0, 6 - relevant.shape[1]))
    values = []
    for row, wanted in zip(preds.tolist(), relevant, strict=True):
        if wanted.any():
            found = {*wanted.nonzero()[:, 0].tolist()}
            blocks = [
                [i for i in range(6) if row[i] == level] for level in sorted({*row}, reverse=True)
            ]
            orders = itertools.product(*map(itertools.permutations, blocks))
            values.append(
                mean([serendipity_of(tuple(itertools.chain(*x)), found, k) for x in orders])
            )
    got = float(Serendipity(k, VISITS)(preds, relevant))
    assert got == pytest.approx(mean(values), abs=1e-6, nan_ok=True)


def test_novelty_has_an_interval_groups_and_scores() -> None:
    """It is a mean of scores, in bits."""
    lists, target = torch.tensor([[0], [1], [4], [7]]), torch.zeros(4, dtype=torch.long)
    novelty = Novelty(1, [4, 2, 0, 1, 1])
    novelty.update(lists, target)
    assert novelty.compute() == 2  # 1, 2 and 3 bits; 7 is no location
    low, high = novelty.interval()
    assert 0 < low < 2 < high < 3
    grouped = Grouped(Novelty(1, [4, 2, 0, 1, 1]), 2)
    grouped.update(lists, target, groups=torch.tensor([0, 0, 1, 1]))
    assert grouped.compute().tolist() == [1.5, 3]
    scores = PerQueryScores(Novelty(1, [4, 2, 0, 1, 1]))
    scores.update(lists, target, query_ids=torch.arange(4))
    assert scores.compute().ids.tolist() == [0, 1, 2]
    users = Novelty(1, [3, 1], total=3)  # RecTools' inverse user frequency
    assert users(torch.tensor([[1]]), torch.tensor([0])) == pytest.approx(math.log2(3))


def test_serendipity_depends_on_ids_and_has_no_chance() -> None:
    """Nor do distances in lists."""
    for metric in (Serendipity(2, VISITS), IntraListDiversity(2, CATEGORIES)):
        with pytest.raises(TypeError, match="has no chance level"):
            analysis.chance(metric, 6)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_chance_is_the_mean_over_all_lists(k: int) -> None:
    """Of every order of six locations, for one list and for pairs of them."""
    orders = torch.tensor(list(itertools.permutations(range(6))))
    target = torch.zeros(len(orders), dtype=torch.long)
    for metric in (TailShare(k, VISITS), Novelty(k, VISITS)):
        value = float(metric(orders, target))
        assert analysis.chance(metric, 6) == pytest.approx(value, rel=1e-6)
    first = orders[:, :k]
    overlap = [len({*one.tolist()} & {*range(min(k, 6))}) / k for one in first]
    assert analysis.chance(Personalization(6, k), 6) == pytest.approx(1 - mean(overlap))
    with pytest.raises(ValueError, match="must be the number of locations, 6, got 7"):
        analysis.chance(Novelty(k, VISITS), 7)


WRONG: list[tuple[Any, str]] = [
    (lambda: IntraListDiversity(1, CATEGORIES), "`k` must be at least 2, to have pairs, got 1"),
    (lambda: IntraListDiversity(2, [[0.0, 0.0]]), "finite length above 0, got length 0.0 for loc"),
    (lambda: IntraListDiversity(2, [0.5, 1.5]), "`distance` must be `geography.Locations`, int"),
    (lambda: TailShare(2, VISITS, 1.0), "`share` must be between 0 and 1, such as 0.2, got 1.0"),
    (lambda: Novelty(2, VISITS, total=49), "`total` must be at least the largest of `train_counts"),
    (
        lambda: IntraListDiversity(2, Locations([0.0, math.nan], [0.0, 0.0]))(
            torch.tensor([[0, 1]]), torch.tensor([0])
        ),
        "`preds` must hold locations with coordinates, got 1 in query 0",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_errors_name_the_argument(make: Any, message: str) -> None:
    """And the rule, the value and the remedy."""
    with pytest.raises(ValueError, match=message):
        make()
