"""The expected distance is that of loops over candidates."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, tensor

from nextloc_metrics.geography import ExpectedDistance, Locations
from oracles.probabilities import softmax

LOGITS = "logits"


def updated(metric: Any, preds: Any, target: Any, **named: Any) -> Any:
    """The metric after one update."""
    metric.update(torch.as_tensor(preds), torch.as_tensor(target), **named)
    return metric


def value(metric: Any, preds: Any, target: Any, **named: Any) -> float:
    """The value after one update."""
    return float(updated(metric, preds, target, **named).compute())


@st.composite
def logits(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Logits with ties and impossible candidates, and a target per query."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    level = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.floats(-8, 8, width=32))
    some = st.lists(
        st.one_of(level, level, level, st.just(-math.inf)), min_size=columns, max_size=columns
    )
    drawn = [draw(some) for _ in range(rows)]
    for row in drawn:
        if max(row) == -math.inf:
            row[0] = 0.0
    target = draw(st.lists(st.integers(0, columns - 1), min_size=rows, max_size=rows))
    return tensor(drawn), tensor(target)


PLACES = Locations([40.7580, 40.7484, 40.6892], [-73.9855, -73.9857, -74.0445])


@given(logits())
def test_expected_distance_in_plain_loops(batch: tuple[Tensor, Tensor]) -> None:
    """The sum over candidates of probability times distance."""
    preds, target = batch
    preds, target = preds[:, :3], target % min(3, preds.shape[1])
    preds[preds.amax(1) == -math.inf] = 0.0
    total = 0.0
    for row, t in zip(preds.double().tolist(), target.tolist(), strict=True):
        for i, p in enumerate(softmax(row)):
            total += p * float(PLACES.distance(tensor(i), tensor(t)))
    found = value(ExpectedDistance(PLACES, given=LOGITS), preds, target)
    assert found == pytest.approx(total / len(preds), rel=1e-6, abs=1e-6)


def test_candidates_without_coordinates_must_be_impossible() -> None:
    """They have no distance; a broken row has the largest one."""
    places = Locations([40.0, 40.1, math.nan], [-73.0, -73.1, math.nan])
    metric = ExpectedDistance(places, given=LOGITS)
    with pytest.raises(
        ValueError, match=r"probability 0 for candidates without coordinates.*got 0\.33"
    ):
        updated(metric, [[1.0, 1.0, 1.0]], [0])
    assert metric.num_queries == 0
    with pytest.raises(ValueError, match="`target` must hold locations with coordinates, got 2"):
        updated(metric, [[1.0, 1.0, -math.inf]], [2])
    updated(metric, [[1.0, 1.0, -math.inf]], [0])
    broken = value(ExpectedDistance(places, given=LOGITS), [[math.nan, 1.0, 1.0]], [0])
    assert broken == pytest.approx(20015.2, rel=1e-5)
