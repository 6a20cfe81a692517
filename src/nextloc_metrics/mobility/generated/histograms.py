"""Measures with cells of values: jumps, travelled km, radius, stays, locations a day, hours."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from nextloc_metrics.core.metric.annotated_options import Computed
from nextloc_metrics.core.queries.arrays import Array, as_tensor, begins
from nextloc_metrics.core.queries.checks import check_number, check_positive
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.geography.locations import Locations, Units, check_locations
from nextloc_metrics.mobility.generated.measure import (
    Base,
    DenseMeasure,
    Distance,
    circular_wasserstein,
    count_cells,
)
from nextloc_metrics.mobility.generated.pictures import Axis
from nextloc_metrics.mobility.generated.trajectories import (
    Integers,
    Numbers,
    Trajectories,
    distance,
    read_trajectories,
)

Censored = Literal["count", "skip"]


def log_edges(low: float, high: float, per_decade: int = 10) -> Numbers:
    """Return edges from `low` to at least `high`, `per_decade` to each power of ten.

    Example:
        >>> from nextloc_metrics import mobility
        >>> mobility.generated.log_edges(0.1, 100, per_decade=1)
        array([  0.1,   1. ,  10. , 100. ])
    """
    low, high = check_number("low", low), check_number("high", high)
    per_decade = check_positive("per_decade", per_decade)
    if high <= low:
        raise ValueError(f"`high` must be above `low`, got {short(high)} and {short(low)}.")
    number = int(np.ceil(np.round(np.log10(high / low) * per_decade, 9)))
    # exact at whole powers of ten of `low`
    powers: Numbers = np.power(10.0, np.arange(number + 1) / per_decade)
    return low * powers


def read_edges(name: str, edges: Array | Sequence[float]) -> Numbers:
    """Return edges as a read-only array; raise unless they are finite and rise."""
    found = as_tensor(name, edges).detach().cpu()
    if found.ndim != 1 or len(found) < 2 or found.is_complex():
        raise ValueError(f"`{name}` must be at least two numbers, got {describe(found)}.")
    array: Numbers = found.double().numpy().copy()
    if not np.isfinite(array).all() or (np.diff(array) <= 0).any():
        raise ValueError(f"`{name}` must be finite and rise, got {short(array.tolist())}.")
    array.flags.writeable = False
    return array


class Histogram(DenseMeasure):
    """A measure whose values fall into cells between edges, with a cell below and a cell above."""

    default_edges: ClassVar[Numbers]

    edges: Annotated[Array, read_edges] | None = None
    comparison: Computed[Distance] = "jsd"
    base: Computed[Base] = 2

    @abstractmethod
    def values(self, trajectories: Trajectories) -> tuple[Numbers, Integers]:
        """Return all values, float64 `[V]`, and the trajectory of each, int64 `[V]`."""

    @property
    def bounds(self) -> Numbers:
        """The edges: those that were given, or the default ones."""
        return self.default_edges if self.edges is None else np.asarray(self.edges)

    @property
    def num_cells(self) -> int:
        return len(self.bounds) + 1

    def axis(self) -> Axis:
        edges = [f"{float(f'{edge:.4g}'):g}" for edge in self.bounds]  # 10000, not 1e+04
        return Axis(f"{self.title}, {self.quantity_unit}", edges)

    def places(self) -> Numbers:
        edges = self.bounds  # the values of an outer cell stand at its edge
        return np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])

    def count(self, trajectories: Trajectories, part: Integers) -> Integers:
        values, row = self.values(trajectories)
        cell = np.searchsorted(self.bounds, values, side="right")
        return count_cells(part[row], cell, self.num_cells)

    @classmethod
    def edges_from(cls, real: Array | Trajectories, cells: int = 50, **options: Any) -> Numbers:
        """Return edges for cells with equal shares of the real values, from a first pass.

        Args:
            real: real trajectories, all or a sample.
            cells: the number of cells; there are fewer if values repeat.
            options: the options of the measure, such as `locations`.

        Example:
            >>> from nextloc_metrics.mobility.generated import JumpLength
            >>> real = [[[0.0, 0.0], [0.0, 1.0], [0.0, 3.0], [0.0, 6.0], [0.0, 10.0]]]
            >>> JumpLength.edges_from(real, cells=2, units="km").round(6)
            array([1., 2., 4.])
        """
        trajectories = read_trajectories("real", real)
        if trajectories is None:
            raise ValueError("`real` must be trajectories, got None.")
        values, cells = cls(**options).values(trajectories)[0], check_positive("cells", cells)
        if not len(values):
            raise ValueError("`real` must hold at least one value of the measure, got none.")
        shares = np.arange(cells + 1) / cells
        found = np.unique(np.quantile(values, shares, method="inverted_cdf"))
        # the highest value would else be the first one above all cells
        return np.append(found[:-1] if len(found) > 1 else found, np.nextafter(found[-1], np.inf))


class Distances(Histogram):
    """A measure of distances in km.

    Args:
        edges: the cells are [edge, next edge), with a cell below and a cell above; by default ten
            to each power of ten from 0.01 to 10,000 km.
        units: of coordinates: `"degrees"` (latitude, longitude), `"km"` or `"m"` on a plane.
        locations: the coordinates of the locations, for ids.
    """

    quantity_unit = "km"
    default_edges = log_edges(0.01, 10_000)

    _: KW_ONLY
    units: Units = "degrees"
    locations: Annotated[Locations, check_locations] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.units == "cells":
            raise ValueError(
                "`units` must not be 'cells' for distances in km; pass ids of cells, with "
                "`locations=Locations.from_plane(column, row, 'cells', size=500)`."
            )

    def jumps(self, trajectories: Trajectories) -> tuple[Numbers, Integers]:
        """Return the distances between successive points, km, and their trajectories."""
        at = trajectories.positions(self.units, self.locations)
        follows = trajectories.follows
        return distance(at[1:], at[:-1])[follows], trajectories.row[1:][follows]


class JumpLength(Distances):
    r"""Jump length: the distance between successive points of a trajectory, km.

    A trajectory of L points has L - 1 jumps; two points at one location are a jump of 0 km, in the
    cell below. On the sphere the distance is haversine's with R = 6371.0088 km.

    Example:
        >>> from nextloc_metrics.mobility.generated import JumpLength
        >>> metric = JumpLength(edges=[1, 2, 5], units="km")
        >>> generated = [[[0.0, 0.0], [0.0, 1.0], [0.0, 4.0]]]  # jumps of 1 and 3 km
        >>> real = [[[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]]]  # of 1 and 1 km
        >>> metric.update(generated, real)
        >>> metric.compute()  # bits, of the shares (1/2, 1/2) and (1, 0)
        tensor(0.3113)

    Source: Brockmann, Hufnagel and Geisel, "The scaling laws of human travel", Nature 2006.
    """

    title = "jump length"

    def values(self, trajectories: Trajectories) -> tuple[Numbers, Integers]:
        return self.jumps(trajectories)


class TravelDistance(Distances):
    """Travel distance: the sum of a trajectory's jumps, km; 0 for a single point.

    Example:
        >>> from nextloc_metrics.mobility.generated import TravelDistance
        >>> metric = TravelDistance(edges=[1, 3, 5], comparison="wasserstein", units="km")
        >>> metric.update([[[0.0, 0.0], [0.0, 4.0]]], [[[0.0, 0.0], [2.0, 0.0]]])  # 4 and 2 km
        >>> metric.compute()  # km, between the middles of the cells [3, 5) and [1, 3)
        tensor(2.)
    """

    title = "travel distance"

    def values(self, trajectories: Trajectories) -> tuple[Numbers, Integers]:
        jumps, row = self.jumps(trajectories)
        # `bincount` adds in the order of the points, so a row's sum depends on the row alone
        total = np.bincount(row, weights=jumps, minlength=trajectories.num)
        return total.astype(np.float64), np.arange(trajectories.num)


class RadiusOfGyration(Distances):
    r"""Radius of gyration: the root mean square distance of points from their centre, km.

    sqrt(1/L sum over i of d(p_i, c)^2). On a plane c is the mean of the points. On the sphere c
    is the mean of the points in three dimensions, projected to the surface, and d the great-circle
    distance. Every point counts, also several at one location.

    Example:
        >>> from nextloc_metrics.mobility.generated import RadiusOfGyration
        >>> metric = RadiusOfGyration(edges=[1, 3, 5], comparison="wasserstein", units="km")
        >>> metric.update([[[0.0, 0.0], [0.0, 8.0]]], [[[0.0, 0.0], [0.0, 4.0]]])  # 4 and 2 km
        >>> metric.compute()
        tensor(2.)

    Source: González, Hidalgo and Barabási, "Understanding individual human mobility patterns",
    Nature 2008.
    """

    title = "radius of gyration"

    def values(self, trajectories: Trajectories) -> tuple[Numbers, Integers]:
        at = trajectories.positions(self.units, self.locations)
        row, num = trajectories.row, trajectories.num
        lengths = np.maximum(np.diff(trajectories.starts), 1)
        sums = [np.bincount(row, weights=column, minlength=num) for column in at.T]
        centre = np.column_stack(sums) / lengths[:, None]
        if at.shape[1] == 3:
            norm = np.sqrt((centre * centre).sum(1))[:, None]
            centre = centre / np.maximum(norm, np.finfo(np.float64).tiny)
        apart = distance(at, centre[row])
        radius = np.sqrt(np.bincount(row, weights=apart * apart, minlength=num) / lengths)
        return radius, np.arange(num)


class StayDuration(Histogram):
    """Stay duration: how long a trajectory stays at one location before the next one, hours.

    A stay is a run of successive points at one location, from its first point to the first point of
    the next stay. The last stay ends with the trajectory: at its last point, or one `step` later
    where points are at regular times. Points are one location if their coordinates are equal.
    Trajectories need times, or `step`.

    Args:
        edges: in hours, as for `JumpLength`; by default ten to each power of ten from 0.1 to 1,000.
        censored: whether the last stay of a trajectory, whose end was not seen, is counted
            (`"count"`) or left out (`"skip"`).

    Example:
        >>> from nextloc_metrics.mobility.generated import StayDuration, Trajectories
        >>> metric = StayDuration(edges=[0, 1, 2, 3, 4], comparison="ks")
        >>> generated = Trajectories([[7, 7, 8]], step=1.0)  # stays of 2 and 1 hours
        >>> metric.update(generated, Trajectories([[7, 7, 7]], step=1.0))  # a stay of 3 hours
        >>> metric.compute()
        tensor(1.)
    """

    title = "stay duration"
    quantity_unit = "h"
    default_edges = log_edges(0.1, 1000)

    _: KW_ONLY
    censored: Censored = "count"

    def values(self, trajectories: Trajectories) -> tuple[Numbers, Integers]:
        times = trajectories.need_times(self)
        place = trajectories.places
        is_first = begins(trajectories.row, place)
        row = trajectories.row[is_first]
        is_last = np.ones(len(row), dtype=bool)
        is_last[:-1] = row[1:] != row[:-1]
        start = times[is_first]
        end = np.append(start[1:], start[:1])
        end[is_last] = trajectories.ends()
        kept = slice(None) if self.censored == "count" else ~is_last
        return trajectories.hours(end - start)[kept], row[kept]


class DailyLocations(Histogram):
    """Daily locations: the number of different locations of a trajectory on one day.

    With times, a trajectory counts once for each day on which it has a point; without times, a
    trajectory is a day. Days begin at 0:00 of the times that were passed.

    Args:
        edges: as for `JumpLength`; by default a cell for each number from 1 to 50.

    Example:
        >>> from nextloc_metrics.mobility.generated import DailyLocations
        >>> metric = DailyLocations(comparison="ks")
        >>> metric.update([[1, 1, 2]], [[1, 2, 3], [4, 5, 4]])  # 2, against 3 and 2
        >>> metric.compute()
        tensor(0.5000)
    """

    title = "daily locations"
    quantity_unit = "locations"
    default_edges = np.arange(0.5, 51.0)

    def values(self, trajectories: Trajectories) -> tuple[Numbers, Integers]:
        row = trajectories.row
        day = np.zeros(len(row), dtype=np.int64)
        if trajectories.has_times:
            hours = trajectories.hours(trajectories.need_times(self))
            day = np.floor(hours / 24).astype(np.int64)
        order = np.lexsort([trajectories.places, day, row])
        row, day, place = row[order], day[order], trajectories.places[order]
        new_day = begins(row, day)
        is_new = new_day | begins(place)
        number: Integers = np.bincount(np.cumsum(new_day)[is_new] - 1, minlength=int(new_day.sum()))
        return number.astype(np.float64), row[new_day]


class HourOfDay(DenseMeasure):
    """Hour of the day: the share of points in each of 24 hours.

    Trajectories need times, or `step`, that begin at 0:00. `"wasserstein"` is the distance on the
    circle of 24 hours, so that 23:00 and 0:00 are one hour apart; a circle has no
    Kolmogorov-Smirnov distance.

    Example:
        >>> from nextloc_metrics.mobility.generated import HourOfDay, Trajectories
        >>> metric = HourOfDay(comparison="wasserstein")
        >>> generated = Trajectories([[5, 5]], times=[[22, 23]], time_unit="h")
        >>> metric.update(generated, Trajectories([[5, 5]], times=[[23, 24]], time_unit="h"))
        >>> metric.compute()  # hours
        tensor(1.)
    """

    title = "hour of the day"
    quantity_unit = "h"
    num_cells = 24

    comparison: Computed[Literal["jsd", "wasserstein"]] = "jsd"
    base: Computed[Base] = 2

    def axis(self) -> Axis:
        return Axis(self.title, [str(hour) for hour in range(25)])

    def compare(self, first: Any, other: Any) -> Numbers:
        if self.comparison == "wasserstein":
            return circular_wasserstein(first, other)
        return super().compare(first, other)

    def largest(self, real: Any) -> float:
        hours = np.eye(24)[real > 0]
        return float(self.compare(hours[:, None], hours).max(initial=0))

    def count(self, trajectories: Trajectories, part: Integers) -> Integers:
        hours = trajectories.hours(trajectories.need_times(self))
        hour = np.floor(hours).astype(np.int64) % 24
        return count_cells(part[trajectories.row], hour, 24)
