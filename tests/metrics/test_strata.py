"""Groups that explain an accuracy, the baseline of staying put, and the gap between groups."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    MeanRank,
    analysis,
    moved,
    train_overlap,
)

PATHS = st.lists(st.lists(st.integers(0, 3), max_size=7), max_size=5)


def overlap_of(history: list[int], train: list[list[int]]) -> float:
    """The longest run of a history that occurs in a training path, by trying all runs."""
    runs = {
        tuple(path[i:j])
        for path in train
        for i, j in itertools.combinations(range(len(path) + 1), 2)
    }
    size = len(history)
    own = [(j - i, tuple(history[i:j])) for i, j in itertools.combinations(range(size + 1), 2)]
    return max((length for length, run in own if run in runs), default=0) / size if size else -1.0


@given(PATHS, PATHS)
def test_overlap_is_the_longest_common_run(
    history: list[list[int]], train: list[list[int]]
) -> None:
    """Over all runs; padding and lists of different lengths are read alike."""
    expected = [overlap_of(path, train) for path in history]
    got = train_overlap(history, train)
    assert got.nan_to_num(-1).tolist() == pytest.approx(expected)
    bins = [-1 if x < 0 else min(int(x * 5), 4) for x in expected]
    assert train_overlap(history, train, bins=5).tolist() == bins
    width = max(map(len, history), default=0) + 1
    rows = [path + [-1] * (width - len(path)) for path in history]
    padded = torch.tensor(rows, dtype=torch.long).reshape(-1, width)
    assert torch.equal(train_overlap(padded, train).nan_to_num(-1), got.nan_to_num(-1))


@pytest.mark.parametrize("size", [50, 100])
def test_a_share_on_the_edge_of_a_bin(size: int) -> None:
    """Bins are those of integers: a run of 58 of 100 visits is in bin 58 of 100."""
    runs = range(size)
    histories = [[*range(run), *range(1000, 1000 + size - run)] for run in runs]
    assert train_overlap(histories, [[*runs]], bins=size).tolist() == [*runs]


def test_moves_are_groups() -> None:
    """The accuracy of the baseline of staying is 1 where queries stay, and 0 where they move."""
    previous, target = torch.tensor([2, 0, 1, 1]), torch.tensor([2, 1, 1, 0])
    grouped = Grouped(AccuracyAtK(1), 2, by="moved")
    scores = analysis.last_location(previous, 3)
    grouped.update(scores, target, groups={"moved": moved(previous, target)})
    assert grouped.compute().tolist() == [1, 0]
    assert moved(np.array([1, 4]), [[0, 1], [2, -1]]).tolist() == [0, 1]
    assert analysis.last_location([-1], 2).tolist() == [[0, 0]]
    with pytest.raises(ValueError, match="from 0 to 1, got -1; exclude queries without a group"):
        grouped.update(scores, target, groups={"moved": moved([-1, 0, 1, 1], target)})


def test_the_gap_by_hand() -> None:
    """The bounds are those of Wilson's intervals with a third of the error probability."""
    grouped, accuracy = Grouped(AccuracyAtK(1), 4), AccuracyAtK(1)
    bounds = []
    for group, hits in ((0, 30), (1, 50), (3, 45)):
        lists, target = torch.zeros(60, 1, dtype=torch.long), torch.arange(60).ge(hits).long()
        grouped.update(lists, target, groups=torch.full((60,), group))
        accuracy.reset()
        accuracy.update(lists, target)
        bounds.append([float(x) for x in accuracy.interval(1 - 0.05 / 3)])
    gap = grouped.gap()
    (low0, high0), (low1, high1), _ = bounds
    assert (gap.highest, gap.lowest) == (1, 0)
    assert gap[:3] == pytest.approx((20 / 60, low1 - high0, high1 - low0), abs=1e-6)
    ranks = Grouped(MeanRank(), 2)
    ranks.update(torch.tensor([[3, 1], [3, 1]]), torch.tensor([3, 1]), groups=torch.tensor([1, 0]))
    assert ranks.gap()[:2] == (1.0, 0.0)
    assert ranks.gap().high == float("inf")  # a group with one query


WRONG: list[tuple[Any, str]] = [
    (lambda: moved([0.5], [1]), "`previous` and `target` must be integers"),
    (lambda: moved([1, 2], [1]), "one or several targets for each previous location"),
    (
        lambda: train_overlap([[0.5]], [[1]]),
        "`history` must hold rows of integer ids",
    ),
    (lambda: train_overlap([[1]], [[1]], bins=0), "`bins` must be a positive integer, got 0"),
    (
        lambda: analysis.last_location([3], 3),
        "`previous` must be below the 3 locations",
    ),
    (lambda: Grouped(MRR(), 2).gap(), "at least two groups, to have a gap, got 0"),
    (lambda: Grouped(MRR(), 2).gap(95), "`confidence_level` must be between 0 and 1"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_errors_name_the_argument(make: Any, message: str) -> None:
    """And the rule and the value."""
    with pytest.raises(ValueError, match=message):
        make()
