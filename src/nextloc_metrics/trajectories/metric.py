"""The base class of metrics of trajectories: two sequences, and the distances of their points."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import Annotated, Literal, get_args

import torch
from torch import Tensor

from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.queries.checks import as_number, from_one
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.geography.locations import (
    EARTH_RADIUS,
    Locations,
    Units,
    check_locations,
    to_sphere,
)
from nextloc_metrics.trajectories.pairs import Pairs
from nextloc_metrics.trajectories.point_sequences import Sequences

Year = Literal[2023, 2024, 2025]


def check_year(year: object) -> int:
    """Return the year, or raise if no challenge of that year is known."""
    number = as_number(year)
    if isinstance(number, bool) or number not in get_args(Year):
        raise ValueError(f"`year` must be one of {get_args(Year)}, got {short(year)}.")
    return int(number)


_FAR = 1e30
_LIMITS = (("latitude", -90, 90), ("longitude", -180, 360))


class PairMetric(MeanMetric):
    """Base class: the mean of a score over pairs of sequences, by the distances of their points.

    `preds` of `update` are floating `[..., L, 2]`, coordinates of the predicted points, padded with
    NaN at the end; or integer `[..., L]`, predicted ids, padded with -1; or a `Pairs`. `target` is
    the same for the true points. `...` is the shape of the queries, such as `[N]`.

    A subclass defines `score`. A pair whose target has no point does not count; with
    `validate_args` it is an error.

    Args:
        units: what coordinates are. `"cells"`, `"km"` and `"m"` are on a plane, with Euclidean
            distances; `"degrees"` are latitude and longitude, with distances on the sphere.
            Distances are in cells, or for other units in km.
        locations: the coordinates of the locations if the sequences are ids; distances are then in
            km.
        options: those of a subclass, `validate_args`, and TorchMetrics' own keyword arguments.
    """

    record = Pairs
    largest_value = math.inf
    higher_is_better = False
    unit = "cells"

    _: KW_ONLY
    plot_upper_bound: float | None = None
    units: Units = "cells"
    locations: Annotated[Locations, check_locations] | None = None

    def __post_init__(self) -> None:
        if self.units != "cells" or self.locations is not None:
            self.unit = self.unit.replace("cells", "km")
        super().__post_init__()
        if self.ignore_index is not None:
            raise ValueError(
                f"`ignore_index` must be None for trajectories, got {self.ignore_index}; leave "
                "pairs out with `mask`."
            )
        if self.unit and "label" in vars(self):
            self.label += f" ({self.unit})"
        if self.locations is not None and self.units != "cells":
            raise ValueError(
                "`units` must not be given with `locations`, which have theirs, got "
                f"{self.units!r}."
            )

    @abstractmethod
    def score(self, record: Pairs) -> Tensor | tuple[Tensor, Tensor]:
        """Return the score of each pair, float64 `[N]`; pairs that do not count may have any."""

    def check(self, record: Pairs) -> None:
        if record.is_of_ids and self.locations is None:
            raise TypeError(
                f"`locations` of {short(self)} must be `geography.Locations(...)` for sequences of "
                "ids, got None."
            )
        if not record.is_of_ids and self.locations is not None:
            raise TypeError(
                f"`preds` must be ids for the `locations` of {short(self)}, got coordinates."
            )
        if self.validate_args:
            for name, points, lengths in (
                ("preds", record.preds, record.predicted),
                ("target", record.target, record.true),
            ):
                is_point = torch.arange(points.shape[1], device=lengths.device) < lengths[:, None]
                if self.locations is not None:
                    _check_known(self.locations, name, points, is_point)
                elif self.units == "degrees":
                    _check_degrees(name, points)

    def sequences(self, record: Pairs) -> Sequences:
        """Return the points as sequences on the CPU."""
        if self.locations is not None:
            # an id without coordinates that is not checked is far from all others
            points = self.locations.points.cpu().contiguous().nan_to_num(nan=_FAR)
            points = torch.nn.functional.pad(points, (0, 0, 0, 1), value=_FAR)
            ids = (x.cpu().clamp(max=len(points) - 1) for x in (record.preds, record.target))
            first, second = (points[x] for x in ids)
            is_plane = self.locations.is_plane
        else:
            first, second = (x.cpu().double() for x in (record.preds, record.target))
            is_plane = self.units != "degrees"
            if self.units == "m":
                first, second = first / 1000, second / 1000
            elif not is_plane:
                first, second = (
                    to_sphere(x.flatten(0, 1)).view(*x.shape[:2], 3) for x in (first, second)
                )
        lengths = record.predicted.cpu(), record.true.cpu()
        return Sequences(first, second, *lengths, 0.0 if is_plane else 2 * EARTH_RADIUS)


def _check_known(locations: Locations, name: str, ids: Tensor, is_point: Tensor) -> None:
    """Raise if an id has no coordinates."""
    unknown = (ids >= len(locations)) & is_point
    if unknown.any():
        query, step = unknown.nonzero()[0].tolist()
        raise ValueError(
            f"`{name}` must be below the {len(locations)} locations, got {int(ids[query, step])} "
            f"in query {query}{from_one(ids.masked_fill(~is_point, -1), len(locations))}."
        )
    locations.check_known(name, ids.masked_fill(~is_point, -1), "leave it out with `mask`")


def _check_degrees(name: str, points: Tensor) -> None:
    """Raise if a point is not on the Earth; points behind the end of a sequence are 0."""
    for column, (what, low, high) in enumerate(_LIMITS):
        outside = (points[..., column] < low) | (points[..., column] > high)
        if outside.any():
            query, step = outside.nonzero()[0].tolist()
            raise ValueError(
                f"`{name}` must hold a {what} from {low} to {high} degrees in column {column}, got "
                f"{float(points[query, step, column]):g} in query {query}; for other coordinates "
                "use `units='cells'`, 'km' or 'm'."
            )
