"""Novelty, entropy and the share of the tail are those of loops over the first k."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nextloc_metrics import (
    Entropy,
    Grouped,
    Novelty,
    PerQueryScores,
    TailShare,
    analysis,
)
from oracles import lists
from strategies import DIRTY, examples, id_lists, scores

VISITS = [50, 30, 10, 5, 5, 0]


def check_all_metrics(firsts: list[list[int]], k: int, *batch: Tensor) -> None:
    """Compare all metrics with loops over the first k locations of every query."""

    def same(metric: Any, expected: float) -> None:
        got = float(metric(*batch))
        assert got == pytest.approx(expected, rel=1e-6, abs=1e-7, nan_ok=True), metric
        if len(batch) == 2:  # targets are not read
            assert float(metric(batch[0])) == pytest.approx(got, rel=0, nan_ok=True)

    same(Novelty(VISITS, k), lists.novelty_of(firsts, VISITS, 100))
    same(Entropy(6, k), lists.entropy_of(firsts, 6))
    # 5 + 5 of 100 visits, and 10 more; 3 of 6 locations have at most 5 visits
    for share, of, tail in ((0.1, "visits", 5), (0.2, "visits", 10), (0.6, "locations", 5)):
        assert lists.highest_of_tail(VISITS, share, of) == tail
        same(TailShare(VISITS, k, share, of), lists.tail_share_of(firsts, VISITS, tail))


def test_the_tail_has_exactly_its_share() -> None:
    """A location with 29 of 100 visits, and 29 of 100 locations, are in the tail of .29."""
    for number in range(1, 50):
        share, rest = number / 100, 100 - number
        assert TailShare([number, rest], 1, share).tail().tolist() == [True, False], number
        counts = [1] * number + [2] * rest
        for size in (share, rest / 100):
            tail = TailShare(counts, 1, size, of="locations").tail()
            assert tail.tolist() == [True] * number + [False] * rest, number


@examples(8)
@given(scores(columns=6, values=DIRTY), st.integers(1, 7))
def test_scores_are_read_as_in_loops(preds: Tensor, k: int) -> None:
    """With ties across rank k, NaN and -inf."""
    firsts = [lists.first_of_scores(row, k) for row in preds.tolist()]
    check_all_metrics(firsts, k, preds, torch.zeros(len(preds), dtype=torch.long))


@examples(8)
@given(id_lists(8), st.integers(1, 7))
def test_lists_are_read_as_in_loops(batch: tuple[Tensor, Tensor], k: int) -> None:
    """With repeats, padding, and ids that are no location."""
    preds, target = batch
    check_all_metrics([lists.first_of_list(row, k) for row in preds.tolist()], k, preds, target)


def test_novelty_has_an_interval_groups_and_scores() -> None:
    """It is a mean of scores, in bits."""
    preds, target = torch.tensor([[0], [1], [4], [7]]), torch.zeros(4, dtype=torch.long)
    novelty = Novelty([4, 2, 0, 1, 1], 1)
    novelty.update(preds, target)
    assert novelty.compute() == 2  # 1, 2 and 3 bits; 7 is no location
    low, high = novelty.interval()
    assert 0 < low < 2 < high < 3
    grouped = Grouped(Novelty([4, 2, 0, 1, 1], 1), 2)
    grouped.update(preds, target, groups=torch.tensor([0, 0, 1, 1]))
    assert grouped.compute().tolist() == [1.5, 3]
    scores = PerQueryScores(Novelty([4, 2, 0, 1, 1], 1))
    scores.update(preds, target, query_ids=torch.arange(4))
    assert scores.compute().ids.tolist() == [0, 1, 2]
    users = Novelty([3, 1], 1, total=3)  # RecTools' inverse user frequency
    assert users(torch.tensor([[1]]), torch.tensor([0])) == pytest.approx(math.log2(3))


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_chance_is_the_mean_over_all_lists(k: int) -> None:
    """Of every order of six locations."""
    orders = torch.tensor(list(itertools.permutations(range(6))))
    target = torch.zeros(len(orders), dtype=torch.long)
    for metric in (TailShare(VISITS, k), Novelty(VISITS, k)):
        value = float(metric(orders, target))
        assert analysis.chance(metric, 6) == pytest.approx(value, rel=1e-6)
    with pytest.raises(ValueError, match="must be the number of locations, 6, got 7"):
        analysis.chance(Novelty(VISITS, k), 7)


def test_queries_without_a_target_are_on_the_device_of_the_predictions() -> None:
    """A metric on another device needs no target there either."""
    metric = Novelty(VISITS, 2, validate_args=False).to("meta")
    metric.update(torch.empty(3, 6, device="meta"))
    assert metric.state.device.type == "meta"
