"""Pictures on the ground show what was computed; nothing of them is fetched."""

from __future__ import annotations

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
    assert axes.get_aspect() == 1
    assert any("km" in text.get_text() for text in axes.texts)


def test_distances_are_drawn_in_km() -> None:
    """A dot with its interval, whose axis is no percentage."""
    locations, scores, target = batch(30)
    metric = DistanceError(locations)
    metric.update(scores, target)
    _, axes = metric.plot()
    low, high = map(float, metric.interval())
    text = "".join(one.get_text() for one in axes.texts)
    assert f"{float(metric.compute()):.4g}" in text
    assert f"{low:.4g} to {high:.4g}" in text
    assert axes.get_ylabel() == "distance error, mean (km)"
    assert "%" not in text.replace("95 %", "")


def test_a_map_of_distances_has_no_percent() -> None:
    """Its colours are km."""
    locations, scores, target = batch(30)
    by_location = Grouped(DistanceError(locations), 30)
    by_location.update(scores, target, groups=target)
    figure, _ = plotting.error_map(by_location, locations)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert "distance error, mean (km)" in labels


def test_lines_are_what_the_metrics_say() -> None:
    """The share within d km, from the histogram and from `AccuracyWithin`."""
    locations, scores, target = batch(40)
    members = {f"{m} m": AccuracyWithin(locations, m / 1000, 1) for m in (0, 500, 2000)}
    metrics = RankingCollection({**members, "mean": DistanceError(locations)})
    metrics.update(scores, target)
    found = metrics.compute()
    _, axes = plotting.accuracy_within_km({"a": metrics, "b": metrics})
    line = axes.lines[0]
    assert line.get_xdata().tolist() == [0, 0.5, 2]
    assert line.get_ydata() == pytest.approx([float(found[name]) for name in members])
    _, axes = plotting.distance_errors(metrics)
    km, share = axes.lines[0].get_data()
    assert share[-1] == 1
    assert np.interp(2, km, share) == pytest.approx(float(found["2000 m"]), abs=0.03)
    assert float(share[0]) == pytest.approx(float(found["0 m"]))


def test_errors_say_what_is_missing() -> None:
    """Which member, of which model."""
    locations, scores, target = batch(5)
    by_location = Grouped(AccuracyAtK(1), 5)
    with pytest.raises(ValueError, match="must have counted a query"):
        plotting.error_map(by_location, locations)
    with pytest.raises(ValueError, match="a group for each of the 5 locations, got 4"):
        plotting.error_map(Grouped(AccuracyAtK(1), 4), locations)
    plain = next_location_metrics(5)
    plain.update(scores, target)
    with pytest.raises(ValueError, match="a member DistanceError, and GRU has none"):
        plotting.distance_errors({"GRU": plain})
    with pytest.raises(ValueError, match="AccuracyWithin of k=1 and a positive distance"):
        plotting.accuracy_within_km(plain)


def test_an_evaluation_with_coordinates() -> None:
    """The metrics of the preset, a map on the page, and shards that add up."""
    locations, scores, target = batch(40)
    options: dict[str, Any] = {"locations": locations, "km": 0.5, "k": (1, 5)}
    whole = report.evaluate(scores, target, train_counts=torch.arange(40), **options)
    metrics = next_location_metrics(40, (1, 5), locations=locations, km=0.5)
    metrics.update(scores, target)
    assert whole.values == {name: float(x) for name, x in metrics.compute().items()}
    assert "mean_distance" in whole.intervals
    assert "mean_distance" not in {**whole.chance, **whole.skill, **whole.ties}
    assert whole.to_html().count("<img") >= 4
    assert "<h2>Distance</h2>" in whole.to_html()
    parts = [
        report.evaluate(scores[part], target[part], train_counts=torch.arange(40), **options)
        for part in (slice(0, 30), slice(30, 80))
    ]
    assert report.merge(parts).to_html() == whole.to_html().replace(
        "<dt>averaged", "<dt>shards</dt><dd>2</dd><dt>averaged"
    )
    excluded = report.evaluate(scores, target, exclude=(target[:, None] + 1) % 40, **options)
    assert excluded.chance["acc_at_1"] == pytest.approx(1 / 39)
    assert set(excluded.chance) == {"acc_at_1", "acc_at_5", "mrr", "ndcg_at_5"}
    with pytest.raises(ValueError, match="agree on `km`"):
        report.merge([parts[0], report.evaluate(scores[:1], target[:1],
                      train_counts=torch.arange(40), locations=locations, k=(1, 5))])  # fmt: skip
