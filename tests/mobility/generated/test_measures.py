"""The measures and comparisons, against plain loops and SciPy."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import ks_2samp, wasserstein_distance

from mobility.generated import mobility_oracle as oracle
from nextloc_metrics.geography import Locations
from nextloc_metrics.mobility.generated import (
    DailyLocations,
    Flows,
    HourOfDay,
    JumpLength,
    RadiusOfGyration,
    StayDuration,
    Trajectories,
    TravelDistance,
    UserVisitFrequency,
    VisitFrequency,
    log_edges,
)
from nextloc_metrics.mobility.generated.measure import (
    circular_wasserstein,
    jensen_shannon,
    kolmogorov_smirnov,
    shares,
    wasserstein,
)

EDGES = [0.0, 0.5, 1.0, 2.0, 4.0, 7.5]


def rows_of_points(seed: int, number: int = 30, scale: float = 3.0) -> list[list[Any]]:
    """Random walks of 1 to 9 points that often stay."""
    draw = np.random.RandomState(seed)
    rows = []
    for _ in range(number):
        row = [tuple(draw.normal(0, scale, 2))]
        for _ in range(draw.randint(0, 9)):
            row.append(row[-1] if draw.rand() < 0.3 else tuple(draw.normal(0, scale, 2)))
        rows.append(row)
    return rows


def rows_of_ids(seed: int, number: int = 30) -> list[list[int]]:
    """Random rows of 1 to 9 ids below 8, of which low ones are frequent."""
    draw = np.random.RandomState(seed)
    return [
        [int(x) for x in np.minimum(draw.geometric(0.4, draw.randint(1, 10)) - 1, 7)]
        for _ in range(number)
    ]


def padded(rows: list[list[Any]], width: int = 12) -> np.ndarray[Any, Any]:
    """Rows of points as an array with NaN."""
    found = np.full((len(rows), width, 2), np.nan)
    for i, row in enumerate(rows):
        found[i, : len(row)] = row
    return found


def histogram(values: Any, edges: Any) -> np.ndarray[Any, Any]:
    """Counts below, between and above the edges, one value at a time."""
    counts = np.zeros(len(edges) + 1, dtype=int)
    for value in values:
        counts[sum(value >= edge for edge in edges)] += 1
    return counts


def middles(edges: Any) -> list[float]:
    """The middle of each cell; the edge for the outer ones."""
    inner = [(a + b) / 2 for a, b in pairwise(edges)]
    return [edges[0], *inner, edges[-1]]


def by_scipy(comparison: str, first: Any, other: Any, at: Any, base: Any = 2) -> float:
    """SciPy's value for two histograms whose values stand at `at`."""
    if comparison == "jsd":
        value = jensenshannon(first, other, base=math.e if base == "e" else base) ** 2
    elif comparison == "ks":
        value = ks_2samp(np.repeat(at, first), np.repeat(at, other)).statistic
    else:
        value = wasserstein_distance(at, at, first, other)
    return float(value)


COMPARISONS = pytest.mark.parametrize("comparison", ["jsd", "ks", "wasserstein"])


@COMPARISONS
@pytest.mark.parametrize("seed", range(4))
def test_comparisons_are_scipys(comparison: str, seed: int) -> None:
    """Counts of random histograms, some of them 0, have SciPy's values."""
    draw = np.random.RandomState(seed)
    first, other = draw.poisson(1.5, 12) * draw.poisson(1, 12), draw.poisson(2, 12)
    at = np.cumsum(draw.rand(12))
    found = {
        "jsd": lambda: jensen_shannon(first, other),
        "ks": lambda: kolmogorov_smirnov(first, other),
        "wasserstein": lambda: wasserstein(first, other, at),
    }[comparison]()
    assert found == pytest.approx(by_scipy(comparison, first, other, at), rel=1e-12)


def test_rounding_makes_no_divergence_negative() -> None:
    """Shares that differ by one of 50 million have a divergence of 0 or a little more."""
    sizes = [27_000_081.0, 25_000_075.0], [27_000_082.0, 25_000_075.0]
    assert 0 <= jensen_shannon(*map(np.array, sizes)) < 1e-15


def test_the_circle_has_no_seam() -> None:
    """Wasserstein on a circle is the least over all places where the circle can be cut."""
    draw = np.random.RandomState(5)
    for cells in (5, 6, 24):
        at, first, other = np.arange(cells), draw.poisson(2, cells), draw.poisson(2, cells)
        cuts = [
            wasserstein_distance(at, at, np.roll(first, k), np.roll(other, k))
            for k in range(cells)
        ]  # fmt: skip
        gap = np.cumsum(shares(first) - shares(other))
        best = min(np.abs(gap - x).sum() for x in gap)
        found = circular_wasserstein(first, other)
        assert found == pytest.approx(best)
        assert found <= min(cuts) + 1e-12


def jumps(rows: Any, plane: bool) -> list[float]:
    """Jumps on a plane or the sphere."""
    return oracle.jumps(rows, oracle.euclid if plane else oracle.haversine)


def travelled(rows: Any, plane: bool) -> list[float]:
    """Travel distances on a plane or the sphere."""
    return oracle.travelled(rows, oracle.euclid if plane else oracle.haversine)


def radius(rows: Any, plane: bool) -> list[float]:
    """Radii on a plane or the sphere."""
    return oracle.radius_on_plane(rows) if plane else oracle.radius_on_sphere(rows)


KINDS = {
    "jumps": (JumpLength, jumps),
    "travel": (TravelDistance, travelled),
    "radius": (RadiusOfGyration, radius),
}


@COMPARISONS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", ["km", "m", "degrees"])
def test_distances_are_those_of_plain_loops(kind: str, units: str, comparison: str) -> None:
    """Jumps, travel distance and radius, on a plane and on the sphere."""
    measure, of_loops = KINDS[kind]
    plane, scale = units != "degrees", {"km": 1.0, "m": 1000.0, "degrees": 0.01}[units]
    generated, real = rows_of_points(1), rows_of_points(2, scale=2.0)
    metric = measure(EDGES, comparison, units=units)
    metric.update(padded(generated) * scale, padded(real) * scale)
    counts = []
    for rows in (generated, real):
        scaled = rows if plane else [[(a * scale, b * scale) for a, b in row] for row in rows]
        counts.append(histogram(of_loops(scaled, plane), EDGES))
    state = metric.state.numpy()
    np.testing.assert_array_equal(state[0, :-1], counts[0])
    np.testing.assert_array_equal(state[1:, :-1].sum(0), counts[1])
    expected = by_scipy(comparison, *counts, middles(EDGES))
    assert float(metric.compute()) == pytest.approx(expected, rel=1e-6)


def test_values_far_from_the_equator_and_across_the_date_line() -> None:
    """The distances themselves agree with haversine's, from metres to half the Earth."""
    draw = np.random.RandomState(3)
    rows = [[(draw.uniform(-89, 89), draw.uniform(-180, 180)) for _ in range(6)] for _ in range(40)]
    rows += [[(70.0, 179.9), (70.0, -179.9)], [(89.9, 10.0), (89.9, -170.0)]]
    given = Trajectories(padded(rows))
    for kind, (measure, of_loops) in KINDS.items():
        values, _ = measure().values(given)
        np.testing.assert_allclose(
            values, of_loops(rows, False), rtol=1e-9, atol=1e-6, err_msg=kind
        )


def test_ids_have_the_distances_of_their_locations() -> None:
    """Ids with `locations` give the state of their coordinates."""
    draw = np.random.RandomState(4)
    latitude, longitude = draw.uniform(40, 41, 8), draw.uniform(-74, -73, 8)
    rows = rows_of_ids(1)
    points = [[(latitude[i], longitude[i]) for i in row] for row in rows]
    users = list(range(len(rows)))
    for measure in (JumpLength, TravelDistance, RadiusOfGyration):
        by_id = measure(locations=Locations(latitude, longitude))
        by_id.update(target=Trajectories(rows, users=users))
        by_point = measure()
        by_point.update(target=Trajectories(padded(points), users=users))
        assert torch.equal(by_id.state, by_point.state)


@pytest.mark.parametrize("censored", ["count", "skip"])
@pytest.mark.parametrize("form", ["step", "times"])
def test_stays_are_those_of_plain_loops(censored: Any, form: str) -> None:
    """The last stay counts to the end of the trajectory, or not at all."""
    draw = np.random.RandomState(8)
    edges = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0]
    counts, sets = [], []
    for seed in (1, 2):
        rows = rows_of_ids(seed)
        if form == "step":
            moments = [[0.5 * i for i in range(len(row))] for row in rows]
            ends = [0.5 * len(row) for row in rows]
            given = Trajectories(rows, step=0.5)
        else:
            minutes = [sorted(draw.randint(0, 400, len(row)).tolist()) for row in rows]
            times = np.full((len(rows), max(map(len, rows))), -9)
            for i, row in enumerate(minutes):
                times[i, : len(row)] = row
            moments = [[x / 60 for x in row] for row in minutes]
            ends = [row[-1] for row in moments]
            given = Trajectories(rows, times, time_unit="min")
        rounded = np.round(oracle.stays(rows, moments, ends, censored == "count"), 9)
        counts.append(histogram(rounded, edges))
        sets.append(given)
    metric = StayDuration(edges, censored=censored)
    metric.update(*sets)
    np.testing.assert_array_equal(metric.state[0, :-1], counts[0])
    np.testing.assert_array_equal(metric.state[1:, :-1].sum(0), counts[1])


@pytest.mark.parametrize("days", [False, True])
def test_daily_locations_are_those_of_plain_loops(days: bool) -> None:
    """Different locations of a row, or of each of its days."""
    rows = rows_of_ids(3, 60)
    given, hours = Trajectories(rows), None
    if days:
        given = Trajectories(rows, step=7.0)
        hours = [[7 * i for i in range(len(row))] for row in rows]
    values, _ = DailyLocations().values(given)
    assert sorted(values.tolist()) == sorted(oracle.daily(rows, hours))
    assert (histogram(values, np.arange(51) + 0.5)[1:8] > 0).any()


def test_equal_coordinates_are_one_location() -> None:
    """Points count as ids do, where their coordinates are equal."""
    rows = rows_of_ids(4)
    points = padded([[(i / 3, -i / 7) for i in row] for row in rows])
    users = list(range(len(rows)))
    for metric in (DailyLocations(), UserVisitFrequency(3), StayDuration()):
        other = metric.clone()
        metric.update(target=Trajectories(rows, step=1.0, users=users))
        other.update(target=Trajectories(points, step=1.0, users=users))
        assert torch.equal(metric.state, other.state)


@COMPARISONS
def test_curves_by_rank_are_those_of_plain_loops(comparison: Any) -> None:
    """Shares of visits by rank, of all rows and within rows, with the rest."""
    generated, real = rows_of_ids(1), rows_of_ids(2)
    at = np.arange(1, 5)
    for measure, curve in (
        (VisitFrequency, oracle.visits),
        (UserVisitFrequency, oracle.user_visits),
    ):
        metric = measure(3, comparison)
        metric.update(generated, real)
        first, other = curve(generated, 3), curve(real, 3)
        np.testing.assert_allclose(metric.distributions(), [first, other], atol=1e-8)
        expected = (
            max(abs(np.cumsum(np.subtract(first, other))))
            if comparison == "ks"
            else by_scipy(comparison, first, other, at)
        )
        assert float(metric.compute()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("itself", [False, True])
def test_flows_are_those_of_plain_loops(itself: bool) -> None:
    """The common part of commuters, and the divergence of the flows."""
    generated, real = rows_of_ids(1), rows_of_ids(2, 50)
    metric = Flows(itself=itself)
    metric.update(generated, real)
    assert float(metric.compute()) == pytest.approx(
        oracle.common_part(generated, real, itself), rel=1e-6
    )
    other = Flows("jsd", itself=itself)
    other.update(generated, real)
    p, q = other.distributions()
    assert float(other.compute()) == pytest.approx(jensenshannon(p, q, base=2) ** 2, rel=1e-6)


def test_hours_are_those_of_plain_loops() -> None:
    """Dates, seconds, minutes and hours of any day, also before the first, fall into their hour."""
    hours = [[-1.5, 0.0, 23.99, 24.0, 49.5]]
    expected = [0] * 24
    for hour in hours[0]:
        expected[math.floor(hour) % 24] += 1
    for unit, size in (("h", 1), ("min", 60), ("s", 3600)):
        metric = HourOfDay()
        times = np.array(hours) * size
        metric.update(target=Trajectories([[1] * 5], times, time_unit=unit))
        assert metric.state[1:, :-1].sum(0).tolist() == expected
    metric = HourOfDay()
    dates = np.array(hours) * 3.6e9
    dates = np.append(dates.astype("M8[us]"), [[np.datetime64("NaT", "us")]], axis=1)
    metric.update(target=Trajectories([[1] * 5 + [-1]], dates))
    assert metric.state[1:, :-1].sum(0).tolist() == expected
    column = pd.Series(dates[0, :-1])
    metric.update(Trajectories.from_columns([1] * 5, [1] * 5, column[::-1]))
    assert metric.state[0, :-1].tolist() == expected
    points = [(hour, place) for hour in (-25, -1, 1) for place in (7, 8)]
    given = Trajectories([[y for _, y in points]], [[x for x, _ in points]], time_unit="h")
    assert DailyLocations().values(given)[0].tolist() == [2, 2, 2]


def test_the_highest_edge_is_not_passed_by_rounding() -> None:
    """`high` is an edge if it is a whole number of cells from `low`, up to rounding."""
    for low, per_decade in ((1.0, 5), (0.1, 2), (2.0, 10)):
        assert len(log_edges(low, low * 10 ** (1 / per_decade), per_decade)) == 2
    assert len(log_edges(1, 10**0.21, 5)) == 3


def test_the_base_of_the_logarithm() -> None:
    """Nats are bits times ln 2."""
    generated, real = rows_of_ids(1), rows_of_ids(2)
    bits, nats = DailyLocations(), DailyLocations(base="e")
    for metric in (bits, nats):
        metric.update(generated, real)
    assert (bits.unit, nats.unit) == ("bits", "nats")
    assert float(nats.compute()) == pytest.approx(float(bits.compute()) * math.log(2), rel=1e-6)
    p, q = nats.distributions()
    assert float(nats.compute()) == pytest.approx(jensenshannon(p, q) ** 2, rel=1e-6)


def test_edges_of_quantiles_have_equal_shares() -> None:
    """Edges from a first pass divide the real values equally, with none outside."""
    real = padded(rows_of_points(6, 200))
    edges = TravelDistance.edges_from(real, 10, units="km")
    metric = TravelDistance(edges, units="km")
    metric.update(target=real)
    counts = metric.state[1:, :-1].sum(0)
    assert counts[0] == counts[-1] == 0
    nonzero = counts[1:-1]
    assert len(nonzero) <= 10
    assert int(nonzero[1:].max() - nonzero[1:].min()) <= 1


def test_logarithmic_edges_hit_the_powers_of_ten() -> None:
    """Powers of ten are exact, and the last edge is not below `high`."""
    edges = log_edges(0.01, 10_000)
    assert len(edges) == 61
    assert edges[20] == 1.0
    assert edges[-1] == 10_000
    assert log_edges(1, 95, 1).tolist() == [1, 10, 100]
