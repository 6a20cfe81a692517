"""A set of trajectories, read once: where each point is, when, and whose it is."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from nextloc_metrics.core.queries import hashing
from nextloc_metrics.core.queries.arrays import Array, as_tensor, as_tensor_or_text, begins
from nextloc_metrics.core.queries.checks import check_choice, check_number, is_integer
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.geography.locations import EARTH_RADIUS, Locations, Units

TimeUnit = Literal["s", "min", "h"]
Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

_PER_HOUR = {"s": 3600, "min": 60, "h": 1}


class Trajectories:
    """A set of trajectories: points, and if known their times and users.

    One row is one trajectory, such as a user's day. Rows without a point do not count. All values
    are read on the CPU.

    Args:
        points: coordinates `[N, L, 2]`, padded with NaN: latitude and longitude, or x and y; or
            integer `[N, L]`, ids of locations, padded with -1.
        times: numbers or `datetime64` `[N, L]` that do not decrease within a row; those of padding
            are not read. Hours of the day and days are theirs, so pass local times.
        users: integers or text `[N]`, the user of each trajectory; None takes every trajectory as
            another user's.
        time_unit: the unit of `times` that are numbers: `"s"`, `"min"` or `"h"`.
        step: hours from one column to the next, for trajectories with a point at regular times and
            no `times`; the first column is at hour 0.

    Attributes:
        num: the number of trajectories with a point.
        row: int64 `[P]`, the trajectory of each point, from 0 to num - 1.
        ids: int64 `[P]`, the location of each point; None for coordinates.
        coordinates: float64 `[P, 2]`; None for ids.

    Example:
        >>> from nextloc_metrics.mobility.generated import Trajectories
        >>> Trajectories([[4, 4, 7], [5, -1, -1]], users=["ann", "bob"])
        Trajectories(2 with 4 points)
    """

    ids: Integers | None = None
    coordinates: Numbers | None = None

    def __init__(
        self,
        points: Array,
        times: Array | None = None,
        users: Array | None = None,
        *,
        time_unit: TimeUnit | None = None,
        step: float | None = None,
    ) -> None:
        found = as_tensor("points", points).detach().cpu()
        if not found.numel():
            found = torch.zeros(0, 0, dtype=torch.int64)
        is_known = _check_points(found)
        number, width = found.shape[:2]
        rows, columns = (x.numpy() for x in is_known.nonzero(as_tuple=True))
        flat = found[is_known].numpy()
        moments = None
        if times is not None:
            if step is not None:
                raise ValueError(f"`step` must be None with `times`, got {short(step)}.")
            moments, time_unit = _read_times(times, (number, width), time_unit)
            moments = moments[rows, columns]
        elif step is not None:
            if time_unit is not None:
                raise ValueError(
                    f"`time_unit` must be None with `step`, in hours, got {short(time_unit)}."
                )
            step = check_number("step", step)
            moments = columns
        hashes = None if users is None else _hash_names("users", users, number)
        self._set(rows, flat, moments, hashes, time_unit, step)

    def _set(
        self,
        rows: Integers,
        flat: Any,
        moments: Any,
        users: Any,
        time_unit: TimeUnit | None,
        step: float | None,
    ) -> None:
        """Keep the points; `rows` rise, `users` are hashes by row."""
        starts = np.flatnonzero(begins(rows))
        self._original, self.num = rows[starts], len(starts)
        self.starts = np.append(starts, len(rows)).astype(np.int64)
        self.row = np.repeat(np.arange(self.num), np.diff(self.starts))
        if flat.ndim == 1:
            self.ids = flat.astype(np.int64)
        else:
            self.coordinates = flat.astype(np.float64)
        self._users = None if users is None else users[self._original]
        self._times, self._step = moments, step
        self._per_hour = _PER_HOUR[time_unit or "h"]
        self._positions: dict[Any, tuple[Locations | None, Numbers]] = {}
        self._check_times()

    @classmethod
    def from_columns(
        cls,
        trajectory: Array,
        points: Array,
        times: Array | None = None,
        users: Array | None = None,
        *,
        time_unit: TimeUnit | None = None,
    ) -> Trajectories:
        """Make trajectories from columns with a point per row, in any order.

        Without `times` the points of a trajectory keep the order of the rows. Rows with padding,
        NaN or -1, do not count.

        Args:
            trajectory: integers or text `[P]`, which trajectory each point belongs to.
            points: coordinates `[P, 2]`, or integer `[P]`, ids of locations.
            times: numbers or `datetime64` `[P]`.
            users: integers or text `[P]`, the user of each point, one for all of a trajectory.

        Example:
            >>> from nextloc_metrics.mobility.generated import Trajectories
            >>> Trajectories.from_columns(["a", "b", "a"], [4, 5, 7], [60, 0, 0], time_unit="s")
            Trajectories(2 with 3 points)
        """
        found = as_tensor("points", points).detach().cpu()
        is_known = _check_points(found[:, None])[:, 0].numpy()
        flat = found.numpy()
        names = _hash_names("trajectory", trajectory, len(flat))
        order = np.argsort(names, kind="stable")
        moments = None
        if times is not None:
            moments, time_unit = _read_times(times, (len(flat),), time_unit)
            order = np.lexsort([moments, names])
        order = order[is_known[order]]
        moments = None if moments is None else moments[order]
        rows = begins(names[order]).cumsum() - 1
        hashes = None
        if users is not None:
            own = _hash_names("users", users, len(flat))[order]
            hashes = own[begins(rows)]
            if (wrong := own != hashes[rows]).any():
                point = int(order[wrong.nonzero()[0][0]])
                raise ValueError(
                    "`users` must be one user for all points of a trajectory, got another one in "
                    f"row {point}; make `trajectory` differ for each user."
                )
        made = cls.__new__(cls)
        made._set(rows, flat[order], moments, hashes, time_unit, None)
        return made

    @cached_property
    def bucket(self) -> Integers:
        """The bucket of each trajectory's user; without users, by the trajectory's content."""
        if self._users is not None:
            return hashing.buckets_of(self._users)
        columns = [self.ids] if self.coordinates is None else [*self.coordinates.T]
        if self._times is not None:
            columns.append(self._times)
        return hashing.buckets_of(hashing.hash_rows(self.starts, columns))

    @cached_property
    def follows(self) -> NDArray[np.bool_]:
        """Which points, from the second on, have the point before in the same trajectory."""
        found: NDArray[np.bool_] = ~begins(self.row)[1:]
        return found

    @property
    def tied(self) -> NDArray[np.bool_]:
        """Which points, from the second on, are elsewhere at the time of the point before.

        The order of such points is that of the rows; the order of all others is known from times.
        """
        if self._times is None:
            return self.follows
        elsewhere = self.places[1:] != self.places[:-1]
        found: NDArray[np.bool_] = self.follows & elsewhere & (self._times[1:] == self._times[:-1])
        return found

    @cached_property
    def places(self) -> Integers:
        """A number for each point, int64 `[P]`, equal for equal points."""
        if self.coordinates is None:
            assert self.ids is not None
            return self.ids
        paired = np.ascontiguousarray(self.coordinates).view(np.complex128)[:, 0]
        return np.unique(paired, return_inverse=True)[1].astype(np.int64)

    def need_ids(self, owner: object) -> Integers:
        """Return the ids, or raise for coordinates."""
        if self.ids is None:
            raise TypeError(
                f"points must be ids of locations for {short(owner)}, got coordinates; number the "
                "cells of a grid."
            )
        return self.ids

    def need_times(self, owner: object) -> Any:
        """Return the times, or raise if there are none."""
        if self._times is None:
            raise ValueError(
                f"times must be given for {short(owner)}, got None; pass "
                "`Trajectories(points, times)`, or `step` for points at regular times."
            )
        return self._times

    @property
    def has_times(self) -> bool:
        """Whether the points have times."""
        return self._times is not None

    def hours(self, times: Any) -> Numbers:
        """Convert times, or their differences, to hours."""
        if self._step is not None:
            return times * self._step  # type: ignore[no-any-return]
        return times / self._per_hour  # type: ignore[no-any-return]

    def ends(self) -> Any:
        """Return the end of each trajectory: its last time, or the end of its last step."""
        last = self._times[self.starts[1:] - 1]
        return last if self._step is None else last + 1

    def positions(self, units: Units, locations: Locations | None) -> Numbers:
        """Return the points in km on a plane `[P, 2]`, or on a sphere of radius 1 `[P, 3]`."""
        key = units, id(locations)
        if key not in self._positions:
            found = self._locate(units, locations)
            self._positions[key] = locations, found  # keeps `locations`, so that its id is its own
        return self._positions[key][1]

    def _locate(self, units: Units, locations: Locations | None) -> Numbers:
        if not self.num:
            return np.zeros((0, 3))
        if self.coordinates is None:
            return self._look_up(locations)
        if locations is not None:
            raise TypeError(
                "points must be ids with `locations`, got coordinates; leave out `locations`."
            )
        if units != "degrees":
            return self.coordinates / (1000 if units == "m" else 1)
        first, other = self.coordinates.T
        limits = ("latitude", first, -90, 90), ("longitude", other, -180, 360)
        for name, column, low, high in limits:
            outside = (column < low) | (column > high)
            if outside.any():
                at = outside.argmax()
                raise ValueError(
                    f"{name} must be degrees from {low} to {high}, got {column[at]:g} in "
                    f"trajectory {self._original[self.row[at]]}; points are (latitude, longitude), "
                    'or pass `units="km"` or `units="m"`.'
                )
        return Locations(first, other).points.contiguous().numpy()

    def _look_up(self, locations: Locations | None) -> Numbers:
        assert self.ids is not None
        if locations is None:
            raise TypeError(
                "`locations` must be given for distances between ids, got None; pass "
                "`locations=Locations(latitude, longitude)`."
            )
        points = locations.points.cpu().contiguous().numpy()
        if (wrong := self.ids >= len(points)).any():
            at = wrong.argmax()
            raise ValueError(
                f"points must be from 0 to {len(points) - 1}, rows of `locations`, got "
                f"{self.ids[at]} in trajectory {self._original[self.row[at]]}."
            )
        found = points[self.ids]
        if (missing := np.isnan(found[:, 0])).any():
            at = missing.argmax()
            raise ValueError(
                f"points must be locations with coordinates, got {self.ids[at]} in trajectory "
                f"{self._original[self.row[at]]}, whose coordinates are NaN; use -1 for padding."
            )
        return found

    def _check_times(self) -> None:
        if self._times is None:
            return
        missing = ~np.isfinite(self._times)
        if missing.any():
            raise ValueError(
                "`times` must be finite where there is a point, got NaN or infinity in trajectory "
                f"{self._original[self.row[missing.argmax()]]}."
            )
        falls = self.follows & (self._times[1:] < self._times[:-1])
        if falls.any():
            raise ValueError(
                "`times` must not decrease within a trajectory, got a decrease in trajectory "
                f"{self._original[self.row[falls.argmax()]]}; sort its points, or use "
                "`Trajectories.from_columns`."
            )

    def __repr__(self) -> str:
        return f"Trajectories({self.num:,} with {len(self.row):,} points)"


def read_trajectories(name: str, given: Array | Trajectories | None) -> Trajectories | None:
    """Return trajectories, which an array without times and users may be."""
    if given is None or isinstance(given, Trajectories):
        return given
    try:
        return Trajectories(given)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("`points`", f"`{name}`")) from None


def distance(first: Numbers, other: Numbers) -> Numbers:
    """Return the distances between points of `positions`, km."""
    apart = first - other
    squares = apart * apart
    total = squares[:, 0] + squares[:, 1]
    if apart.shape[1] == 2:
        return np.sqrt(total)
    total = np.sqrt(total + squares[:, 2])
    return 2 * EARTH_RADIUS * np.arcsin(np.minimum(total / 2, 1))


def _check_points(found: torch.Tensor) -> torch.Tensor:
    """Return which points are no padding, bool `[N, L]`; raise for what is no point."""
    if found.ndim == 3 and found.shape[2] == 2 and not found.is_complex():
        missing = found.isnan()
        wrong = found.isinf().any(2) | (missing.any(2) != missing.all(2))
        if wrong.any():
            raise ValueError(
                "`points` must be finite, or NaN in both coordinates for padding, got other "
                f"values in trajectory {int(wrong.nonzero()[0, 0])}."
            )
        return ~missing.any(2)
    if found.ndim != 2 or not is_integer(found):
        raise TypeError(
            f"`points` must be coordinates [N, L, 2] or integer ids [N, L], got {describe(found)}."
        )
    if found.numel() and int(found.min()) < -1:
        raise ValueError(
            f"`points` must be ids of at least 0, or -1 for padding, got {int(found.min())}."
        )
    return found >= 0


def _read_times(
    times: Array, shape: tuple[int, ...], time_unit: TimeUnit | None
) -> tuple[Any, TimeUnit]:
    """Return times as numbers, which dates become, with their unit."""
    if time_unit is not None:
        check_choice("time_unit", time_unit, TimeUnit)
    if getattr(getattr(times, "dtype", None), "kind", "") == "M":
        dates = np.asarray(times, "datetime64[us]")
        times = np.where(np.isnat(dates), np.nan, dates.astype(np.int64) / 1e6)
        time_unit = "s"
    if time_unit is None:
        raise ValueError(
            f"`time_unit` must be one of {get_args(TimeUnit)} for times that are numbers, got None."
        )
    found = as_tensor("times", times).detach().cpu()
    if found.shape != shape or found.is_complex() or found.dtype == torch.bool:
        raise ValueError(
            f"`times` must be numbers, one for each point, {list(shape)}, got {describe(found)}."
        )
    return (found.double() if found.is_floating_point() else found.long()).numpy(), time_unit


def _hash_names(name: str, values: Array, number: int) -> hashing.Hashes:
    """Return a hash of each integer or text."""
    found = as_tensor_or_text(name, values)
    is_name = isinstance(found, list) or (found.ndim == 1 and is_integer(found))
    if len(found) != number or not is_name:
        raise ValueError(f"`{name}` must be {number} integers or texts, got {describe(values)}.")
    if isinstance(found, list):
        return hashing.hash_text(found)
    return hashing.mix(found.cpu().long().numpy())
