"""Groups that explain an accuracy, the baseline of staying put, and the gap between groups."""

from __future__ import annotations

import math

import pytest
import torch

from nextloc_metrics import (
    AccuracyAtK,
    Grouped,
    MeanRank,
    NegativeLogLikelihood,
    analysis,
)


def test_moves_are_groups() -> None:
    """The accuracy of the baseline of staying is 1 where queries stay, and 0 where they move."""
    previous, target = torch.tensor([2, 0, 1, 1]), torch.tensor([2, 1, 1, 0])
    grouped = Grouped(AccuracyAtK(1), 2, by="moved")
    moved = (target != previous).long()
    grouped.update(analysis.last_location(previous, 3), target, groups={"moved": moved})
    assert grouped.compute().tolist() == [1, 0]
    assert analysis.last_location([-1], 2).tolist() == [[0, 0]]


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
    gaps = []
    for base in (None, 2):
        loss = Grouped(NegativeLogLikelihood(given="probabilities", base=base), 2)
        sure = torch.tensor([[0.9, 0.1]] * 4 + [[0.2, 0.8], [0.3, 0.7]] * 2)
        loss.update(sure, [0] * 8, groups=torch.arange(8) // 4)
        gaps.append(loss.gap()[:3])
    assert gaps[0][1] > 0
    assert gaps[1] == pytest.approx([x / math.log(2) for x in gaps[0]])  # bits
    ranks = Grouped(MeanRank(), 2)
    ranks.update(torch.tensor([[3, 1], [3, 1]]), torch.tensor([3, 1]), groups=torch.tensor([1, 0]))
    assert ranks.gap()[:2] == (1.0, 0.0)
    assert ranks.gap().high == float("inf")  # a group with one query
