"""Coordinates of locations: distances and neighbours."""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import describe_option
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import check_choice, check_kind, check_number, from_one
from nextloc_metrics.core.queries.messages import describe, extra, short

#: What coordinates are: latitude and longitude in degrees, or km, metres or cells on a plane.
Units = Literal["degrees", "km", "m", "cells"]

#: mean radius of the Earth in km
EARTH_RADIUS = 6371.0088

# Half of the Earth's circumference in km, rounded up: the largest distance.
_LARGEST_ON_EARTH = 20_015.2

# SciPy's tree may round differently: it searches a little farther, and `distance` decides.
_MARGIN = 1 + 1e-9

# The number of distances that are computed at once in the search for neighbours.
_AT_ONCE = 1 << 22


class Locations(torch.nn.Module):
    r"""The coordinates of all locations, one entry per id.

    The distance on the Earth is the haversine formula on a sphere with the mean radius
    R = 6371.0088 km: 2 R asin(c / 2), where c is the length of the straight line between two points
    on a sphere of radius 1. It differs by at most 0.6 % from the distance on the ellipsoid.

    The coordinates move with `.to(device)` and are not part of a `state_dict`. Longitudes that
    differ by 360 degrees are equal, as are all longitudes at a pole. An id that is no location has
    NaN; it may be neither a target nor a candidate whose distance is computed.

    Args:
        latitude: degrees `[C]`, -90 to 90, or NaN.
        longitude: degrees `[C]`, -180 to 360, or NaN.

    Attributes:
        points: float64 `[C, D]`, in three dimensions on a sphere of radius 1, or in km on a plane.
        is_complete: whether no coordinate is NaN.
        is_plane: whether distances are Euclidean.
        largest: the largest distance in km, 20,015.2 on the Earth.

    Example:
        >>> from torch import tensor
        >>> locations = Locations([40.7580, 40.7484, 40.6892], [-73.9855, -73.9857, -74.0445])
        >>> locations.distance(tensor([0, 0]), tensor([1, 2]))  # km, in New York
        tensor([1.0676, 9.1240], dtype=torch.float64)
        >>> locations.within(2.0, tensor([0, 2]))
        tensor([[ 0,  1],
                [ 2, -1]])

    Source: R. W. Sinnott, "Virtues of the haversine", Sky and Telescope 68, 1984.
    """

    points: Tensor

    def __init__(self, latitude: Array, longitude: Array) -> None:
        super().__init__()
        degrees = _read_columns(latitude=latitude, longitude=longitude)
        _check_range("latitude", degrees[:, 0], -90, 90)
        _check_range("longitude", degrees[:, 1], -180, 360)
        self._set(to_sphere(degrees), is_plane=False)

    def _set(self, points: Tensor, is_plane: bool) -> None:
        missing = points.isnan().any(1)
        points = points.masked_fill(missing[:, None], torch.nan)  # NaN in all dimensions
        points = points.t().contiguous().t()  # `distance` reads them by dimension
        self.register_buffer("points", points, persistent=False)
        self.is_complete = not missing.any()
        self.is_plane = is_plane
        self.largest = _LARGEST_ON_EARTH
        if is_plane:
            mapped = points[~missing]
            extent = mapped.amax(0) - mapped.amin(0)
            self.largest = float(extent.norm()) or 1.0
        self._near: dict[float, tuple[Tensor, Tensor]] = {}

    @classmethod
    def from_plane(
        cls, x: Array, y: Array, units: Units = "m", *, size: float | None = None
    ) -> Locations:
        """Make locations from coordinates on a plane, such as UTM, or NaN.

        `units` is `"m"`, `"km"`, or `"cells"` for columns and rows of a grid, whose cells are
        `size` metres wide.
        """
        check_choice("units", units, Units)
        if units == "degrees":
            raise ValueError(
                "`units` must not be 'degrees' on a plane; use `Locations(latitude, longitude)`."
            )
        if (size is None) == (units == "cells"):
            raise ValueError(
                f"`size`, metres, must be given with `units='cells'` only, got {short(size)} with "
                f"{units!r}."
            )
        points = _read_columns(x=x, y=y)
        if units != "km":
            points = points * (1 if size is None else check_number("size", size)) / 1000
        return cls.from_points(points)

    @classmethod
    def from_points(cls, points: Tensor) -> Locations:
        """Make locations from the attribute `points` of other locations."""
        locations = cls([0.0], [0.0])
        locations._set(points.double(), is_plane=points.shape[1] == 2)
        return locations

    def missing(self) -> Tensor:
        """Return which ids have NaN as coordinates, bool `[C]`."""
        return self.points.isnan().any(1)

    def project(self) -> Tensor:
        """Return coordinates in km on a plane, `[C, 2]`, which keep areas.

        The projection is Lambert's cylindrical equal-area projection with the mean latitude as its
        standard parallel. Near that latitude it keeps shapes, too.
        """
        if self.is_plane:
            return self.points
        x_axis, y_axis, z_axis = self.points.unbind(1)
        middle = self.points[~self.missing()].mean(0)
        latitude = math.asin(float(middle[2] / middle.norm().clamp(min=1e-9)))
        east = torch.atan2(y_axis, x_axis) - math.atan2(float(middle[1]), float(middle[0]))
        east = torch.remainder(east + math.pi, 2 * math.pi) - math.pi
        scale = max(math.cos(latitude), 0.01)
        north = (z_axis - math.sin(latitude)) / scale
        return EARTH_RADIUS * torch.stack([east * scale, north], dim=1)

    def distance(self, first: Tensor | slice, second: Tensor) -> Tensor:
        """Return the distances between locations, km, float64; ids are broadcast.

        `first` may be a slice of all locations, which is faster.
        """
        columns = self.points.unbind(1)  # to add them one by one is faster than `sum`
        squares = (column[first].sub(column[second]).square_() for column in columns)
        straight = reduce(Tensor.add_, squares).sqrt_()
        if self.is_plane:
            return straight
        return straight.div_(2).clamp_(max=1).asin_().mul_(2 * EARTH_RADIUS)

    def within(self, km: float, target: Array) -> Tensor:
        """Return all locations near each target, as several relevant locations for any metric.

        The target is integer `[N]`, one location per query, or `[N, M]`, padded with -1. The ids
        within `km`, int64 `[N, L]`, rise, have the targets among them, and are padded with -1.
        The search needs SciPy.
        """
        ids = as_tensor("target", target)
        if ids.is_floating_point() or ids.dtype == torch.bool:
            raise TypeError(f"`target` must be ids of locations, got {describe(ids)}.")
        targets = ids.long().reshape(len(ids), -1).to(self.points.device)
        if targets.numel() and not -1 <= int(targets.min()) <= int(targets.max()) < len(self):
            raise ValueError(
                f"`target` must be below the {len(self)} locations, or -1, got "
                f"{int(targets.max() if targets.min() >= -1 else targets.min())}"
                f"{from_one(targets, len(self))}."
            )
        self.check_known("target", targets, "leave these queries out with `mask`")
        starts, near = self.neighbours(km)
        flat = targets.flatten()
        first = starts[flat.clamp(min=0)]
        sizes = (starts[flat.clamp(min=0) + 1] - first).masked_fill(flat < 0, 0)
        width = int(sizes.max()) if len(sizes) else 0
        column = torch.arange(width, device=flat.device)
        inside = column < sizes[:, None]
        rows = near[torch.where(inside, first[:, None] + column, 0)].masked_fill(~inside, -1)
        rows = rows.view(len(ids), -1)
        if targets.shape[1] == 1:
            return rows
        # neighbours of several targets are kept once, and padding goes last
        rows = torch.where(rows < 0, len(self), rows).sort(dim=1).values
        rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = len(self)
        rows = rows.sort(dim=1).values
        rows = rows[:, : max(1, int((rows < len(self)).sum(1).max()) if len(rows) else 1)]
        return rows.masked_fill(rows == len(self), -1)

    def neighbours(self, km: float) -> tuple[Tensor, Tensor]:
        """Return the ids near each location, itself too, as one row, and their starts in it.

        The starts are int64 `[C + 1]`; the ids of each location rise.
        """
        km = check_number("km", km, or_zero=True)
        if km not in self._near:
            self._near[km] = self._find_neighbours(km)
        starts, near = self._near[km]
        if starts.device != self.points.device:
            self._near[km] = starts.to(self.points.device), near.to(self.points.device)
        return self._near[km]

    def _find_neighbours(self, km: float) -> tuple[Tensor, Tensor]:
        try:
            from scipy.spatial import cKDTree
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"neighbours need SciPy; {extra('analysis')}.") from error
        reach = km if self.is_plane else 2 * math.sin(min(km / EARTH_RADIUS, math.pi) / 2)
        ids = (~self.missing()).nonzero()[:, 0]
        tree = cKDTree(self.points[ids].cpu().numpy())
        close = tree.query_pairs(reach * _MARGIN + 1e-15, output_type="ndarray").astype("int64")
        pairs = ids[torch.from_numpy(close).to(ids.device)]
        is_near = [self.distance(*part.unbind(1)) <= km for part in torch.split(pairs, _AT_ONCE)]
        pairs = pairs[torch.cat(is_near)] if is_near else pairs
        first = torch.cat([ids, pairs[:, 0], pairs[:, 1]])
        second = torch.cat([ids, pairs[:, 1], pairs[:, 0]])
        order = (first * len(self) + second).argsort()
        starts = torch.zeros(len(self) + 1, dtype=torch.int64, device=ids.device)
        starts[1:] = first.bincount(minlength=len(self)).cumsum(0)
        return starts, second[order]

    def check_size(self, num_candidates: int | None) -> None:
        """Raise if there are more candidates than locations."""
        if num_candidates is not None and num_candidates > len(self):
            raise ValueError(
                f"`locations` must have an entry for each of the {num_candidates} candidates, got "
                f"{len(self)}."
            )

    def check_known(self, name: str, ids: Tensor, remedy: str, rows: Tensor | None = None) -> None:
        """Raise if a location has no coordinates; the error has the argument and the remedy."""
        if self.is_complete:
            return
        inside = (ids >= 0) & (ids < len(self))
        wrong = (self.missing()[ids.masked_fill(~inside, 0)] & inside).nonzero()
        if len(wrong):
            row, column = wrong[0].tolist()
            query = row if rows is None else int(rows[row])
            raise ValueError(
                f"`{name}` must hold locations with coordinates, got {int(ids[row, column])} in "
                f"query {query}, whose coordinates are NaN; {remedy}."
            )

    def _apply(self, fn: Any, recurse: bool = True) -> Locations:
        """Move to a device; `half()` and the like leave the coordinates float64."""
        device = fn(torch.empty(0, device=self.points.device)).device
        self.points = self.points.to(device)
        return self

    def state_key(self) -> str:
        """Return the content as text, for the names of states."""
        return f"is_plane={self.is_plane}, points={describe_option(self.points)}"

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        return f"Locations({len(self)} {'on a plane' if self.is_plane else 'on the Earth'})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the content without the cached neighbours."""
        return {**self.__dict__, "_near": {}}


check_locations = partial(
    check_kind, kind=Locations, call="`geography.Locations(latitude, longitude)`"
)


def _read_columns(**columns: Array) -> Tensor:
    """Read coordinates, float64 `[C, 2]`, on the CPU."""
    coordinates = {}
    for name, values in columns.items():
        column = as_tensor(name, values).detach().cpu()
        if column.ndim != 1 or not column.numel() or column.is_complex():
            raise ValueError(f"`{name}` must be one row of numbers, [C], got {describe(column)}.")
        coordinates[name] = column.double()
        if (wrong := coordinates[name].isinf()).any():
            row = int(wrong.nonzero()[0])
            raise ValueError(
                f"`{name}` must be finite, or NaN for an id that is no location, got "
                f"{float(coordinates[name][row])} for location {row}."
            )
    names, (first, second) = " and ".join(f"`{name}`" for name in columns), coordinates.values()
    if len(first) != len(second):
        raise ValueError(
            f"{names} must have one entry per location, got {len(first)} and {len(second)}."
        )
    if (first + second).isnan().all():
        raise ValueError(f"{names} must not all be NaN, got no coordinates.")
    return torch.stack([first, second], dim=1)


def to_sphere(degrees: Tensor) -> Tensor:
    """Return points on a sphere of radius 1, `[C, 3]`, from latitude and longitude, `[C, 2]`."""
    latitude, longitude = degrees.unbind(1)
    # each point gets one longitude, above -180; the subtraction is exact
    longitude = torch.where(longitude > 180, longitude - 360, longitude)
    longitude = torch.where(longitude == -180, 180, longitude)
    longitude = torch.where(latitude.abs() == 90, 0 * longitude, longitude)
    north, east = latitude.deg2rad(), longitude.deg2rad()
    return torch.stack([north.cos() * east.cos(), north.cos() * east.sin(), north.sin()], dim=1)


def _check_range(name: str, degrees: Tensor, lowest: float, highest: float) -> None:
    low, high = (float(bound) for bound in degrees[~degrees.isnan()].aminmax())
    if low < lowest or high > highest:
        raise ValueError(
            f"`{name}` must be degrees from {lowest} to {highest}, got "
            f"{short(low if low < lowest else high)}; for coordinates in metres use "
            "`Locations.from_plane`."
        )
