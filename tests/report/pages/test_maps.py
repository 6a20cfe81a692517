"""Maps and pictures of distances show the computed values; none of them fetches a background."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import (
    AccuracyAtK,
    Grouped,
    RankingCollection,
    next_location_metrics,
    plotting,
    report,
)
from nextloc_metrics.geography import AccuracyWithin, DistanceError, Locations
from strategies import float32

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close figures."""
    yield
    pyplot.close("all")


def batch(number: int) -> tuple[Locations, Any, Any]:
    """Locations in a town, scores, and targets at all of them."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(2, number, generator=generator) / 50
    locations = Locations(40.7 + spread[0], -74 + spread[1])
    target = torch.arange(number).repeat(2)
    return locations, torch.randn(len(target), number, generator=generator), target


@pytest.mark.parametrize("number", [30, 1500])
def test_a_map_shows_every_query(number: int) -> None:
    """As a dot per location, or in hexagons whose values lie in [0, 1]."""
    locations, scores, target = batch(number)
    by_location = Grouped(AccuracyAtK(5), number)
    by_location.update(scores, target, groups=target)
    _, axes = plotting.error_map(by_location, locations)
    drawn = axes.collections[0]
    values = np.asarray(drawn.get_array())
    if number == 30:
        assert values.tolist() == pytest.approx(by_location.compute().tolist())
        offsets = torch.from_numpy(drawn.get_offsets().data)
        apart = (offsets[0] - offsets[1]).norm()
        expected = locations.distance(torch.tensor(0), torch.tensor(1))
        assert float(apart) == pytest.approx(float(expected), rel=0.01)  # km, nearly to scale
    assert 0 <= values.min() <= values.max() <= 1
    assert drawn.get_clim() == (0, 1)
    assert axes.get_aspect() == 1
    assert axes.get_xlabel() == "km to the east"


def test_distances_are_in_km() -> None:
    """The colours of a map."""
    locations, scores, target = batch(40)
    by_location = Grouped(DistanceError(locations), 40)
    by_location.update(scores, target, groups=target)
    figure, _ = plotting.error_map(by_location, locations)
    assert "distance error, mean (km)" in [axes.get_ylabel() for axes in figure.axes]


def test_shares_within_distances_rise_to_all() -> None:
    """From those at the target's location, through those within a distance."""
    locations, scores, target = batch(40)
    metrics = RankingCollection({"2000 m": AccuracyWithin(locations, 2, 1), "0 m": AccuracyAtK(1)})
    metrics.add_metrics({"mean": DistanceError(locations)})
    metrics.update(scores, target)
    km, share = metrics["mean"].cumulative()
    found = metrics.compute()
    assert share[-1] == 1
    assert np.interp(2, km, share) == pytest.approx(float(found["2000 m"]), abs=0.03)
    assert float(share[0]) == pytest.approx(float(found["0 m"]))


def test_errors_say_what_is_missing() -> None:
    """Queries, groups, or the coordinates of a location with a query."""
    locations, *_ = batch(5)
    by_location = Grouped(AccuracyAtK(1), 5)
    with pytest.raises(ValueError, match="must have counted a query"):
        plotting.error_map(by_location, locations)
    with pytest.raises(ValueError, match="a group for each of the 5 locations, got 4"):
        plotting.error_map(Grouped(AccuracyAtK(1), 4), locations)
    padded = Locations.from_plane([0, 1, math.nan], [0, 1, 0])
    by_target = Grouped(AccuracyAtK(1), 3)
    by_target.update(torch.eye(3), torch.arange(3), groups=[0, 1, 1])
    plotting.error_map(by_target, padded)
    by_target.update(torch.eye(3), torch.arange(3), groups=[0, 1, 2])
    with pytest.raises(ValueError, match="each location with a query, got NaN for location 2"):
        plotting.error_map(by_target, padded)


@pytest.mark.slow
def test_an_evaluation_with_coordinates() -> None:
    """The preset's metrics, and a map on the page."""
    locations, scores, target = batch(40)
    options: dict[str, Any] = {"locations": locations, "k": (1, 5)}
    whole = report.evaluate(scores, target, train_counts=torch.arange(40), **options)
    metrics = next_location_metrics(40, (1, 5), locations=locations)
    metrics.update(scores, target)
    assert float32(whole.values) == {name: float(x) for name, x in metrics.compute().items()}
    assert "mean_distance" in whole.intervals
    assert "mean_distance" not in {**whole.chance, **whole.ties}
    page = whole.to_html()
    assert page.count("<img ") == 2  # values with their intervals, and the map
    assert "<h2>Distance</h2>" in page
    excluded = report.evaluate(scores, target, exclude=(target[:, None] + 1) % 40, **options)
    assert excluded.chance["acc_at_1"] == pytest.approx(1 / 39)
    assert set(excluded.chance) == {"acc_at_1", "acc_at_5", "mrr", "ndcg_at_5"}
