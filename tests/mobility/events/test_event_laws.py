"""Laws of the metrics of events: splits, order, processes; and the values of HoTPP's code."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import distributed_workers as work
from mobility.events.events_oracle import cases
from mobility.events.hotpp import load_hotpp
from mobility.events.test_transport import record_of
from nextloc_metrics import Grouped, RankingCollection, protocols
from nextloc_metrics.mobility.events import (
    EventCountDifference,
    EventMAP,
    EventMaxF,
    EventPairs,
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


def hotpp_values(pairs: Any, places: int, horizon: float, steps: int) -> dict[str, float]:
    """What HoTPP's own classes compute of padded sequences of equal length."""
    hotpp = load_hotpp()
    if hotpp is None:
        pytest.skip("needs a clone of HoTPP, whose folder the environment variable HOTPP names")
    times, scores, true, labels, start = pairs
    decided, whole = scores.argmax(2), torch.ones(times.shape, dtype=torch.bool)
    otd = hotpp["otd"].OTDMetric(0.5, 1.5)
    otd.update(true[:, :steps], labels[:, :steps], times[:, :steps], decided[:, :steps])
    tmap = hotpp["tmap"].TMAPMetric(horizon, [0.25, 1.0])
    tmap.update(start, torch.ones(true.shape, dtype=torch.bool), true, labels.clone(),
                whole, times, scores)  # fmt: skip
    item = hotpp["next_item"].NextItemMetric(2.0)
    # the first events of the sequences as one sequence, or its mean time step has none
    first = [x[None, :, 0] for x in (whole, true, labels, times, decided, scores)]
    item.update(*first)
    found = item.compute() | tmap.compute() | otd.compute()
    del found["next-item-mean-time-step"]
    return {name: float(value) for name, value in found.items()}


def compare(pairs: Any, places: int, horizon: float = 6.0, steps: int = 4) -> None:
    """Compare all values of the protocol with those of the code."""
    times, scores, true, labels, start = pairs
    wanted = hotpp_values(pairs, places, horizon, steps)
    metrics = protocols.hotpp(places, horizon, [0.25, 1.0], 0.5, 1.5, steps=steps, limit=2.0)
    metrics.update(EventPairs((times, scores), (true, labels), start))
    found = {name: float(value) for name, value in metrics.compute().items()}
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert value == pytest.approx(wanted[name], abs=2e-5), name


def test_the_protocol_gives_the_values_of_hotpp() -> None:
    """Of random sequences without ties, some places in none of them."""
    for seed in range(20):
        torch.manual_seed(seed)
        number, places = 2 + 3 * seed, 4
        times, true = torch.rand(number, 7) * 8 + 1, torch.rand(number, 7) * 8 + 1
        scores, labels = torch.rand(number, 7, places), torch.randint(3, (number, 7))
        compare((times, scores, true, labels, torch.rand(number)), places)


def test_the_protocol_gives_the_values_of_hotpp_for_real_visits(data: Path) -> None:
    """Predicted are the last seven visits again, a week later; true are the next seven, in days."""
    with np.load(data / "nyc_with_coordinates" / "check_ins.npz") as packed:
        visits = dict(packed)
    places = 12
    rows = np.flatnonzero(visits["location"] < places * 40)
    user, day = visits["user"][rows], visits["minute"][rows] / 1440
    starts = [x for x in range(7, len(rows) - 7, 7) if user[x - 7] == user[x + 6]][:150]
    window = np.array(starts)[:, None] + np.arange(7)
    place = torch.from_numpy(visits["location"][rows] % places).long()
    torch.manual_seed(0)
    scores = torch.rand(len(starts), 7, places) + torch.nn.functional.one_hot(
        place[window - 7], places
    )
    began = day[window[:, 0]] - 0.5
    times = torch.from_numpy(day[window - 7] - day[window[:, :1] - 7])
    true = torch.from_numpy(day[window] - began[:, None])
    assert "HOTPP" not in os.environ or len(starts) == 150
    compare((times, scores, true, place[window], torch.zeros(len(starts))), places, horizon=7.0)
