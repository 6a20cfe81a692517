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
    assert any("km" in text.get_text() for text in axes.texts)


def test_distances_are_drawn_in_km() -> None:
    """A dot with its interval, on an axis of km instead of percent; so are the colours of maps."""
    locations, scores, target = batch(30)
    metric = DistanceError(locations)
    metric.update(scores, target)
    _, axes = metric.plot()
    low, high = map(float, metric.interval())
    text = "".join(one.get_text() for one in axes.texts)
    assert f"{float(metric.compute()):.4g}" in text
    assert f"{low:.4g} to {high:.4g}" in text
    assert axes.get_ylabel() == "distance error, mean (km)"
    (dot,) = (line for line in axes.lines if line.get_marker() == "o")
    assert float(dot.get_xdata()[0]) == pytest.approx(float(metric.compute()))
    assert axes.get_xlim()[0] == 0
    assert high <= axes.get_xlim()[1] < 3 * high
    assert "%" not in text.replace("95 %", "")
    by_location = Grouped(metric, 30)
    by_location.update(scores, target, groups=target)
    figure, _ = plotting.error_map(by_location, locations)
    assert "distance error, mean (km)" in [axes.get_ylabel() for axes in figure.axes]


def test_lines_are_the_values_of_the_metrics() -> None:
    """The share within d km, from the histogram and from `AccuracyWithin`, in order of distance."""
    locations, scores, target = batch(40)
    members = {f"{m} m": AccuracyWithin(locations, m / 1000, 1) for m in (500, 0, 2000)}
    metrics = RankingCollection({**members, "mean": DistanceError(locations)})
    better = metrics.clone()
    metrics.update(scores, target)
    better.update(scores + 3 * torch.eye(40)[target], target)
    models = {"a": metrics, "b": better}
    _, axes = plotting.accuracy_within_km(models, confidence_level=0.9)
    lines = [line for line in axes.lines if line.get_label() != "_edge"]
    edges = [line for line in axes.lines if line.get_label() == "_edge"]
    for number, (model, line) in enumerate(zip(models.values(), lines, strict=True)):
        found = model.compute_with_intervals(0.9)
        ordered = ("0 m", "500 m", "2000 m")
        assert line.get_xdata().tolist() == [0, 0.5, 2]
        assert line.get_ydata() == pytest.approx([float(found[name]) for name in ordered])
        for end, edge in zip(("low", "high"), edges[2 * number :], strict=False):
            bounds = [float(found[f"{name}_{end}"]) for name in ordered]
            assert list(edge.get_ydata()) == pytest.approx(bounds)
    assert "90 % intervals" in axes.texts[-1].get_text()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["b", "a"]  # as they end
    _, axes = plotting.distance_errors(models)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["b", "a"]
    assert axes.get_ylim() == (0, 1)
    found = metrics.compute()
    km, share = axes.lines[0].get_data()
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
    options: dict[str, Any] = {"locations": locations, "km": 0.5, "k": (1, 5)}
    whole = report.evaluate(scores, target, train_counts=torch.arange(40), **options)
    metrics = next_location_metrics(40, (1, 5), locations=locations, km=0.5)
    metrics.update(scores, target)
    assert float32(whole.values) == {name: float(x) for name, x in metrics.compute().items()}
    assert "mean_distance" in whole.intervals
    assert "mean_distance" not in {**whole.chance, **whole.skill, **whole.ties}
    page = whole.to_html()
    assert page.count("<svg") >= 4
    assert "<h2>Distance</h2>" in page
    excluded = report.evaluate(scores, target, exclude=(target[:, None] + 1) % 40, **options)
    assert excluded.chance["acc_at_1"] == pytest.approx(1 / 39)
    assert set(excluded.chance) == {"acc_at_1", "acc_at_5", "mrr", "ndcg_at_5"}
