"""Distances, neighbours and projections of locations agree with scikit-learn and with loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from towns import haversine, locations_of_a_town

from nextloc_metrics.geography import AccuracyWithin, Locations
from oracles.sequences import RADIUS


def test_distances_are_those_of_scikit_learn() -> None:
    """On the sphere, to a millimetre, at the other end of the world as well."""
    latitude, longitude, locations = locations_of_a_town()
    ids = torch.arange(40)
    found = locations.distance(ids[:, None], ids)
    np.testing.assert_allclose(found, haversine(latitude, longitude), atol=1e-6)
    assert found[0, 1] == 0
    assert float(found.max()) == pytest.approx(math.pi * RADIUS)
    assert float(found.max()) < locations.largest == 20_015.2
    plane = Locations.from_plane([0, 3, 0], [0, 4, 0], "cells", size=500)
    assert plane.distance(torch.tensor([0, 0]), torch.tensor([1, 2])).tolist() == [2.5, 0]
    assert plane.largest == 2.5
    in_km = Locations.from_plane([0, 1.5, 0], [0, 2, 0], "km")
    assert torch.equal(in_km.points, plane.points)
    assert Locations.from_plane([7], [7]).largest == 1
    assert len(plane) == 3
    assert repr(plane) == "Locations(3 on a plane)"


@pytest.mark.parametrize("km", [0, 0.5, 3.0, 20_000.0, 30_000])
def test_neighbours_are_those_of_all_pairs(km: float) -> None:
    """Within d km, the location itself included, in rising order."""
    latitude, longitude, locations = locations_of_a_town()
    distance = locations.distance(torch.arange(40)[:, None], torch.arange(40))
    starts, near = locations.neighbours(km)
    for one in range(40):
        expected = (distance[one] <= km).nonzero()[:, 0].tolist()
        assert near[starts[one] : starts[one + 1]].tolist() == expected
        assert one in expected
    padded = locations.within(km, [[3, 5], [7, -1], [-1, -1]])
    for row, targets in zip(padded.tolist(), [[3, 5], [7], []], strict=True):
        expected = (distance[targets] <= km).any(0).nonzero()[:, 0].tolist()
        assert [x for x in row if x >= 0] == expected
        assert all(x == -1 for x in row[len(expected) :])
    assert locations.within(km, np.array([3])).tolist()[0].count(3) == 1
    np.testing.assert_allclose(distance, haversine(latitude, longitude), atol=1e-6)


PLACES = Locations.from_plane([0, 1000, 2000, 2000, 9000, 9500], [0] * 6)


@pytest.mark.parametrize("east", [-180, -90, -45, 0, 45, 90, 135, 180])
def test_a_projected_town_keeps_its_distances(east: int) -> None:
    """Within 1 % around the middle, also where degrees begin again."""
    generator = np.random.default_rng(0)
    latitude, longitude = generator.normal([[50], [east]], 0.05, (2, 30))
    locations = Locations(latitude, (longitude + 180) % 360 - 180)
    ids, points = torch.arange(30), locations.project()
    found = (points[:, None] - points).norm(dim=2)
    expected = locations.distance(ids[:, None], ids)
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=1e-6)
    assert float(points.mean(0).norm()) < 0.1
    plane = Locations.from_plane([0, 1000], [5000, 0])
    assert plane.project().tolist() == [[0, 5], [1, 0]]


def test_one_meridian_and_two_poles() -> None:
    """Longitudes that differ by 360 degrees are equal, and all longitudes at a pole."""
    latitude = torch.linspace(-90, 90, 61, dtype=torch.float64)
    for west, east in ((-180.0, 180.0), (-90.0, 270.0), (0.0, 360.0), (-0.1, 359.9)):
        both = Locations(latitude.repeat(2), [west] * 61 + [east] * 61)
        ids = torch.arange(61)
        apart = both.distance(ids, ids + 61)
        assert apart.max() < 1e-9 if west == -0.1 else not apart.any()
    for pole in (-90, 90):
        all_round = Locations([pole] * 541, torch.arange(-180, 361))
        assert not all_round.distance(torch.arange(541), torch.tensor(0)).any()
    metric = AccuracyWithin(Locations([10, 10, 90, 90], [-180, 180, 7, 99]), km=0, k=1)
    assert metric(torch.eye(4)[[1, 0, 3, 2]], torch.arange(4)) == 1
    near = Locations([0, 0, 0], [179.999, -179.999, -180])
    expected = haversine([0, 0, 0], [179.999, -179.999, 180])
    ids = torch.arange(3)
    np.testing.assert_allclose(near.distance(ids[:, None], ids), expected, atol=1e-9)


def test_neighbours_are_not_beyond_the_distance() -> None:
    """Not even by half a millimetre."""
    line = Locations.from_plane([0, 1000, 2000.0000005], [0, 0, 0])
    assert line.within(1, [1]).tolist() == [[0, 1]]
    assert line.within(1.000000001, [1]).tolist() == [[0, 1, 2]]
