"""Metrics of trajectories on several processes and in TorchMetrics' collections."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

import distributed_workers as work
from nextloc_metrics import Grouped, RankingCollection
from nextloc_metrics.trajectories import DTW, GeoBLEU, trajectory_metrics
from trajectories.trajectory_oracle import padded, walks

PAIRS = walks(24, 8, seed=6, equal=True)
PREDS, TARGET = (padded([pair[side] for pair in PAIRS]) for side in (0, 1))
DAYS = torch.arange(24) % 3


def evaluate(rank: int, shares: list[list[tuple[int, int]]]) -> dict[str, Any]:
    """Values and intervals of a process' share of the pairs, summed over all processes."""
    members = dict(trajectory_metrics().items())
    members["by_day"] = Grouped(GeoBLEU(), 3, average="groups")
    metrics = RankingCollection(members)
    for start, stop in shares[rank]:
        rows = slice(start, stop)
        metrics.update(PREDS[rows], TARGET[rows], groups=DAYS[rows])
    return metrics.compute_with_intervals()


@pytest.mark.slow
def test_processes_give_the_bits_of_one() -> None:
    """Two processes with different shares, one of them with an empty batch."""
    expected = evaluate(0, [[(0, 24)]])
    for found in work.run(evaluate, 2, [[(0, 5), (5, 6)], [(6, 24), (24, 24)]]):
        work.same(found, expected)


def test_metrics_stand_in_torchmetrics_collections() -> None:
    """A `MetricCollection` keeps apart what differs in an option."""
    metrics = MetricCollection({"dtw": DTW(), "in_half": DTW(scale=2.0), "geo_bleu": GeoBLEU()})
    for rows in (slice(0, 9), slice(9, 24)):
        metrics.update(PREDS[rows], TARGET[rows])
    values = metrics.compute()
    assert float(values["in_half"]) == pytest.approx(float(values["dtw"]) / 2, rel=1e-6)
    whole = GeoBLEU()
    assert whole(PREDS, TARGET) == values["geo_bleu"]
    assert whole.compute() == values["geo_bleu"]
    restored = DTW()
    for metric in (metrics["dtw"], restored):
        metric.persistent(True)
    restored.load_state_dict(metrics["dtw"].state_dict())
    assert restored.compute() == values["dtw"]
