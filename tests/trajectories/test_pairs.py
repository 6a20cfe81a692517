"""What the metrics of trajectories read, what they refuse, and what all means have."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nan, tensor

from nextloc_metrics import Grouped, PerQueryScores, RankingCollection
from nextloc_metrics.geography import Locations
from nextloc_metrics.trajectories import (
    DTW,
    GeoBLEU,
    MeanPointError,
    PointErrorAt,
    trajectory_metrics,
)
from oracles.sequences import padded, walks
from strategies import compare_scores

ALIGNED = walks(30, 9, seed=4, equal=True)
PREDS, TARGET = (padded([pair[side] for pair in ALIGNED]) for side in (0, 1))
USER = torch.arange(30) % 4

METRICS: list[Any] = [
    GeoBLEU(),
    DTW(scale=2.0, window=4),
    MeanPointError(),
    PointErrorAt(-1),
    PointErrorAt(2),
]

by_metric = pytest.mark.parametrize("metric", METRICS, ids=repr)


def updated(metric: Any, *args: Any, **kwargs: Any) -> Any:
    """A copy of the metric after one update."""
    metric = metric.clone()
    metric.update(*args, **kwargs)
    return metric


@by_metric
def test_any_split_gives_the_same_state(metric: Any) -> None:
    """In batches of any size, with their own padding, and as merged states of processes."""
    whole = updated(metric, PREDS, TARGET)
    parts = metric.clone()
    summed = torch.zeros_like(whole.state)
    for rows in (slice(0, 1), slice(1, 12), slice(12, 30)):
        width = 1 + max(len(p) for p, _ in ALIGNED[rows])
        parts.update(PREDS[rows, :width], TARGET[rows])
        summed += updated(metric, PREDS[rows], TARGET[rows]).state
    assert torch.equal(parts.state, whole.state)
    assert torch.equal(summed, whole.state)
    assert whole.state.numel() == (3 if metric.largest_value == 1 else 7)


@by_metric
def test_all_that_means_have(metric: Any) -> None:
    """An interval around the value, groups that add up, scores of queries, a table, a plot."""
    whole = updated(metric, PREDS, TARGET)
    low, high = whole.interval()
    assert low <= whole.compute() <= high
    single = PerQueryScores(metric.clone())
    single.update(PREDS, TARGET, query_ids=torch.arange(30))
    found = single.compute()
    assert float(found.scores.mean()) == pytest.approx(float(whole.compute()), rel=1e-6)
    grouped = updated(Grouped(metric.clone(), 4), PREDS, TARGET, groups=USER)
    wanted = [found.scores[USER[found.ids] == user].mean() for user in range(4)]
    torch.testing.assert_close(grouped.compute(), torch.stack(wanted).float())
    mean = updated(Grouped(metric.clone(), 4, average="groups"), PREDS, TARGET, groups=USER)
    assert float(mean.compute()) == pytest.approx(float(torch.stack(wanted).mean()), rel=1e-6)
    assert torch.equal(grouped.state.sum(0), whole.state)
    compared = compare_scores(found.scores, found.scores.flip(0))
    assert compared.difference == pytest.approx(0, abs=1e-12)
    copy = pickle.loads(pickle.dumps(whole))
    assert torch.equal(copy.compute(), whole.compute())
    figure, _ = whole.plot()
    assert figure is not None
    assert repr(metric) == repr(eval(repr(metric), dict(globals())))


def test_the_option_scale_divides_once() -> None:
    """The gap of groups is in the unit of the value, whatever `scale`."""
    metric = DTW(scale=2.0)
    grouped = updated(Grouped(metric.clone(), 4), PREDS, TARGET, groups=USER)
    values = grouped.compute()
    assert grouped.gap().value == pytest.approx(float(values.max() - values.min()), rel=1e-6)


def test_the_preset_reads_each_batch_once(monkeypatch: Any) -> None:
    """All members share one record; the table has a unit for each distance."""
    from nextloc_metrics.trajectories import Pairs

    metrics = trajectory_metrics(steps=[1, 2], prefix="val/")
    assert isinstance(metrics, RankingCollection)
    read = Pairs.read.__func__  # type: ignore[attr-defined]
    times: list[int] = []
    monkeypatch.setattr(
        Pairs, "read", classmethod(lambda cls, *args: times.append(1) or read(cls, *args))
    )
    metrics.update(PREDS, TARGET)
    assert len(times) == 1
    values = metrics.compute()
    names = "geo_bleu dtw mean_point_error last_point_error point_error_at_1 point_error_at_2"
    assert list(values) == [f"val/{name}" for name in names.split()]
    for metric, name in ((GeoBLEU(), "geo_bleu"), (DTW(), "dtw")):
        assert values[f"val/{name}"] == updated(metric, PREDS, TARGET).compute()
    rows = {row[0]: row[1] for row in metrics.table().rows}
    assert rows.keys() >= {"val/dtw (cells)", "val/geo_bleu (%)"}
    with pytest.raises(ValueError, match="`steps` must be empty unless `aligned` is True"):
        trajectory_metrics(aligned=False, steps=[1])
    assert "last_point_error" not in trajectory_metrics(aligned=False)


def test_what_a_mask_leaves_out_is_not_read() -> None:
    """Neither counted nor checked: gaps, infinities and missing points may stand there."""
    preds, target = PREDS.clone(), TARGET.clone()
    preds[3, 0], target[4], preds[5, 0] = nan, nan, math.inf
    mask = torch.ones(30, dtype=torch.bool)
    mask[3:6] = False
    for metric in METRICS:
        found = updated(metric, preds, target, mask)
        assert torch.equal(found.state, updated(metric, PREDS[mask], TARGET[mask]).state)


def test_queries_of_several_dimensions_and_other_types() -> None:
    """Users by days `[U, D, L, 2]`, float32, NumPy and lists are read alike."""
    metric = DTW()
    preds, target = PREDS.float().double(), TARGET.float().double()
    whole = updated(metric, preds, target)
    for convert in (lambda x: x.float(), lambda x: x.numpy(), lambda x: x.tolist()):
        assert torch.equal(updated(metric, convert(preds), convert(target)).state, whole.state)
    cube = [x.view(5, 6, -1, 2) for x in (preds, target)]
    assert torch.equal(updated(metric, *cube).state, whole.state)
    by_day = updated(Grouped(DTW(), 6, by="step"), *cube)
    assert torch.equal(by_day.state.sum(0), whole.state)
    assert updated(metric, preds[:0], target[:0]).compute().isnan()


def test_a_record_can_be_read_before() -> None:
    """`update` takes the record of `read`, and rows of it."""
    record = DTW().read(PREDS, TARGET, groups=USER)
    metric = updated(DTW(), record[:10])
    metric.update(record[10:])
    assert torch.equal(metric.state, updated(DTW(), PREDS, TARGET).state)
    with pytest.raises(ValueError, match="already holds its `target`"):
        metric.update(record, TARGET)


PLACES = Locations([40.7580, 40.7484, 40.6892, nan], [-73.9855, -73.9857, -74.0445, nan])


def test_ids_have_the_distances_of_their_locations() -> None:
    """Ids with locations, and their degrees, give km; on a plane, those of metres."""
    preds, target = tensor([[0, 1, 2], [2, 2, -1]]), tensor([[0, 0, 1], [1, 0, -1]])
    degrees = torch.stack(
        [tensor([40.7580, 40.7484, 40.6892]), tensor([-73.9855, -73.9857, -74.0445])], 1
    )
    degrees = degrees.double()
    places = Locations(degrees[:, 0], degrees[:, 1])

    def coordinates(ids: Tensor) -> Tensor:
        return degrees[ids.clamp(min=0)].masked_fill((ids < 0)[..., None], nan)

    for kind in (DTW, MeanPointError, GeoBLEU):
        by_id = updated(kind(locations=places), preds, target)
        by_degree = updated(kind(units="degrees"), coordinates(preds), coordinates(target))
        assert torch.equal(by_id.state, by_degree.state)
    error = updated(MeanPointError(locations=places), preds, target)
    wanted = (
        places.distance(preds[0], target[0]).mean()
        + places.distance(preds[1, :2], target[1, :2]).mean()
    )
    assert float(error.compute()) == pytest.approx(float(wanted) / 2, rel=1e-6)
    assert error.unit == "km"
    assert DTW(scale=2.0).unit == "cells / 2"
    assert DTW(locations=places).label == "DTW (km)"
    plane = Locations.from_plane([0, 3000, 0], [0, 4000, 1000])
    assert updated(DTW(locations=plane), tensor([[0, 1]]), tensor([[2, 0]])).compute() == 1 + 5
    metres = [1000 * plane.points[None, x] for x in ([0, 1], [2, 0])]
    for units, per_km in (("m", 1), ("km", 1000)):
        by_plane = updated(DTW(units=units), *(x / per_km for x in metres))
        assert (by_plane.compute(), by_plane.unit) == (1 + 5, "km")
    east = coordinates(target) + tensor([0.0, 360.0])  # longitudes from 181 to 360
    by_degree = updated(DTW(units="degrees"), coordinates(preds), east)
    assert float(by_degree.compute()) == pytest.approx(
        float(updated(DTW(locations=places), preds, target).compute()), rel=1e-6
    )


def test_locations_without_coordinates_are_named() -> None:
    """An id of padding, or beyond the locations, has no distance; unchecked, it is far away."""
    for wrong, message in ((3, "whose coordinates are NaN"), (9, "below the 4 locations, got 9")):
        metric, preds = DTW(locations=PLACES), tensor([[0, 1], [0, wrong]])
        with pytest.raises(ValueError, match=message):
            metric.update(preds, tensor([[0, 1], [0, 1]]))
        metric.update(preds, tensor([[0, 1], [0, 1]]), tensor([True, False]))
        assert metric.compute() == 0
        unchecked = Locations.from_plane([0.0, 1.0, 0.0, nan], [0.0, 0.0, 1.0, nan])
        far = updated(DTW(locations=unchecked, validate_args=False), preds, preds * 0)
        assert far.compute() == math.inf


def test_unchecked_steps_without_a_prediction_are_infinitely_far() -> None:
    """Without checks, lengths may differ: what is missing is infinite, what is too much unread."""
    target = tensor([[[0.0, 0.0], [0.0, 0.0]]])
    for kwargs in ({"validate_args": False},):
        assert updated(MeanPointError(**kwargs), target[:, :1], target).compute() == math.inf
        assert updated(
            MeanPointError(**kwargs), target, target[:, :1] + 1
        ).compute() == pytest.approx(2**0.5)
        assert updated(PointErrorAt(1, **kwargs), target[:, :1], target).compute() == 0
        assert updated(PointErrorAt(-1, **kwargs), target[:, :1], target).compute() == math.inf
        gap = updated(DTW(**kwargs), tensor([[[1.0, 0.0], [nan, nan], [9.0, 9.0]]]), target)
        assert gap.compute() == 2  # what comes after a gap is not read
        empty = updated(DTW(**kwargs), target, target * nan)
        assert empty.num_queries == 0
