"""The expected distance is that of loops over candidates."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from torch import Tensor, tensor

from nextloc_metrics.geography import ExpectedDistance, Locations
from oracles.probabilities import softmax
from strategies import logits, updated_by, value

LOGITS = "logits"


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
        updated_by(metric, [[1.0, 1.0, 1.0]], [0])
    assert metric.num_queries == 0
    with pytest.raises(ValueError, match="`target` must hold locations with coordinates, got 2"):
        updated_by(metric, [[1.0, 1.0, -math.inf]], [2])
    updated_by(metric, [[1.0, 1.0, -math.inf]], [0])
    broken = value(ExpectedDistance(places, given=LOGITS), [[math.nan, 1.0, 1.0]], [0])
    assert broken == pytest.approx(20015.2, rel=1e-5)
