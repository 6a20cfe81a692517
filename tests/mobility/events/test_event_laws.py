"""Laws of the metrics of events: splits, order, processes."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import distributed_workers as work
from mobility.events.events_oracle import cases
from mobility.events.test_transport import record_of
from nextloc_metrics import Grouped, RankingCollection
from nextloc_metrics.mobility.events import (
    EventCountDifference,
    EventMAP,
    EventMaxF,
    EventTimeError,
    EventTransport,
    NextEventAccuracy,
)

SEQUENCES = list(cases(7, 24))


def collection() -> RankingCollection:
    """All metrics, with options that are not the defaults."""
    horizon: Any = {"horizon": 4.5, "thresholds": [0.5, 1.25]}
    return RankingCollection(
        {
            "transport": EventTransport(1.5, 0.5, horizon=4.5),
            "by_group": Grouped(EventTransport(1.5, 0.5), 2, average="groups"),
            "counts": EventCountDifference(first=3),
            "time": EventTimeError("rmse", limit=2.0),
            "next": NextEventAccuracy(),
            "tmap": EventMAP(**horizon),
            "binned": EventMAP(**horizon, average="weighted", bins=[-1.0, 0.0, 1.0]),
            "max_f": EventMaxF(**horizon, average="all", num_places=3),
        }
    )


def evaluate(rank: int, shares: list[list[list[int]]]) -> dict[str, Any]:
    """The values of a process' batches of sequences, summed over all processes."""
    metrics = collection()
    for rows in shares[rank]:
        pairs = record_of(SEQUENCES)[torch.tensor(rows, dtype=torch.int64)]
        metrics.update(pairs, groups=torch.tensor(rows, dtype=torch.int64) % 2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The ``compute`` method")  # of one that never updates
        return {name: value.clone() for name, value in metrics.compute().items()}


ALL = [*range(24)]


@pytest.mark.parametrize(
    "batches",
    [[ALL[:5], [], ALL[5:]], [[x] for x in ALL], [ALL[::-1]], [ALL[::2], ALL[1::2]]],
    ids=["parts", "one by one", "reversed", "odd"],
)
def test_the_split_and_the_order_have_no_effect(batches: list[list[int]]) -> None:
    """Bit for bit, in any batches."""
    work.same(evaluate(0, [batches]), evaluate(0, [[ALL]]))


@pytest.mark.slow
def test_processes_give_the_bits_of_one() -> None:
    """Processes with different shares; one of them has an empty batch, or never updates."""
    expected = evaluate(0, [[ALL]])
    for shares in ([[ALL[:9], ALL[9:11]], [ALL[11:], []]], [[ALL], []], [[], [ALL]]):
        for found in work.run(evaluate, 2, shares):
            work.same(found, expected)


def test_states_are_saved_merged_and_reset() -> None:
    """The state of a half, loaded and merged with that of the other half, is that of the whole."""
    pairs = record_of(SEQUENCES)
    for whole in (EventMAP(4.5, [0.5]), EventTransport(1.0, 1.0)):
        halves = [type(whole)(**whole._options) for _ in range(2)]
        for half, rows in zip(halves, (slice(0, 11), slice(11, 24)), strict=True):
            half.persistent(True)
            half.update(pairs[rows])
        restored = type(whole)(**whole._options)
        restored.persistent(True)
        restored.load_state_dict(halves[0].state_dict())
        restored.merge_state(halves[1])
        whole.update(pairs)
        assert restored.compute() == whole.compute()
        assert restored.num_queries == whole.num_queries == 24
        restored.reset()
        restored.update(pairs[:0])
        assert restored.compute().isnan()


def test_a_state_of_many_updates_is_merged_now_and_then() -> None:
    """Its size is that of one update with all, and so is its value."""
    pairs = record_of(SEQUENCES)
    one, many = EventMAP(4.5, [0.5]), EventMAP(4.5, [0.5])
    one.update(pairs)
    for _ in range(3):
        for row in range(24):
            many.update(pairs[row])
    assert len(many.state) == len(one.state)
    assert torch.equal(many.state, one.state * torch.tensor([1, 1, 1, 3]))
