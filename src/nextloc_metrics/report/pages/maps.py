"""Pictures of distances, maps and days: where a model is right, and how far off its errors are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.display.lines import draw_bands, draw_lines
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.style import (
    Scale,
    add_legend,
    add_note,
    import_pyplot,
    looks,
    make_axes,
    style,
)
from nextloc_metrics.core.metric.collection import Collections, RankingCollection
from nextloc_metrics.core.metric.grouped import Grouped
from nextloc_metrics.core.metric.results import members_of, named, readings_of
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.geography import AccuracyWithin, DistanceError, Locations

# More locations than this are drawn as hexagons.
MOST_DOTS = 1000

# Dark to light in grey as well, and the same to the colour-blind.
_COLORS = "viridis"


@style()
def error_map(by_location: Grouped, locations: Locations, *, ax: Any = None) -> Any:
    """Draw where a model is right: the value and the number of queries at each target location.

    Up to a thousand locations are drawn as dots, whose area is the number of queries. More are
    drawn as hexagons, whose value is the mean over the queries there. The map is to scale.

    Args:
        by_location: the metric grouped by the target's location, such as
            `Grouped(AccuracyAtK(1), num_locations)` with the targets as `groups`.
        locations: the coordinates.

    Raises:
        ValueError: the numbers of groups and of locations differ, there is no query, or a
            location with a query has NaN as coordinates.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import AccuracyAtK, Grouped, plotting
        >>> from nextloc_metrics.geography import Locations
        >>> by_location = Grouped(AccuracyAtK(1), 2)
        >>> by_location.update(tensor([[0, 1], [0, 1]]), [0, 1], groups=[0, 1])
        >>> figure, axes = plotting.error_map(by_location, Locations([40.7, 40.8], [-74.0, -73.9]))
        >>> len(axes.collections[0].get_offsets())  # a dot for each location
        2
    """
    if by_location.num_groups != len(locations):
        raise ValueError(
            f"`by_location` must have a group for each of the {len(locations)} locations, got "
            f"{by_location.num_groups}."
        )
    numbers = torch.as_tensor(by_location._numbers()[0]).double().cpu()
    seen = numbers > 0
    if not seen.any():
        raise ValueError("`by_location` must have counted a query, got none.")
    if (wrong := seen & locations.missing().cpu()).any():
        raise ValueError(
            "`locations` must have coordinates for each location with a query, got NaN for "
            f"location {int(wrong.nonzero()[0])}."
        )
    values = by_location.compute().double().cpu()
    points = locations.project().cpu()[seen]
    figure, axes = make_axes(ax, 5.2, 4.4)
    metric = by_location.metric
    scale = Scale(metric.label, metric.plot_lower_bound, metric.plot_upper_bound)
    if int(seen.sum()) > MOST_DOTS:
        drawn = _draw_hexagons(axes, points, values[seen], numbers[seen])
        add_note(axes, "a hexagon is the mean over its queries")
    else:
        most = int(numbers.max())
        sizes = 4 + 200 * numbers[seen] / most
        drawn = axes.scatter(
            *points.T.numpy(),
            s=sizes.numpy(),
            c=values[seen].numpy(),
            cmap=_COLORS,
            edgecolors="black",
            linewidths=0.3,
        )
        counts = drawn.legend_elements("sizes", 3, "{x:,g}", lambda size: (size - 4) * most / 200)
        axes.legend(*counts, title="queries", loc="upper left", bbox_to_anchor=(1, 1))
    drawn.set_clim(scale.lower, scale.upper)
    axes.set(aspect="equal", xlabel="km to the east", ylabel="km to the north")
    scale.label(figure.colorbar(drawn, ax=axes, shrink=0.8).ax.yaxis)
    return figure, axes


def _draw_hexagons(axes: Any, points: Tensor, values: Tensor, numbers: Tensor) -> Any:
    low, high = points.amin(0).tolist(), points.amax(0).tolist()
    options = {"gridsize": 45, "extent": (low[0], high[0], low[1], high[1]), "linewidths": 0.2}
    x, y = points.T.numpy()

    def total(weights: Tensor) -> Any:
        return axes.hexbin(x, y, C=weights.numpy(), reduce_C_function=sum, **options)

    queries = total(numbers)
    drawn = total(numbers * values)
    drawn.set_array(drawn.get_array() / queries.get_array())
    queries.remove()
    drawn.set_cmap(_COLORS)
    return drawn


@style()
def distance_errors(models: Collections, *, ax: Any = None) -> Any:
    """Draw the share of queries whose decision is within a distance of the target, over distance.

    Args:
        models: a collection with a `DistanceError`, or several by the names of the models.

    Raises:
        ValueError: a collection has no `DistanceError`.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import RankingCollection, plotting
        >>> from nextloc_metrics.geography import DistanceError, Locations
        >>> metrics = RankingCollection([DistanceError(Locations([40.7, 40.8], [-74.0, -73.9]))])
        >>> metrics.update(tensor([[0, 1], [0, 1]]), [0, 1])
        >>> figure, axes = plotting.distance_errors(metrics)
        >>> axes.get_xlabel()
        'distance between decision and target (km)'
    """
    make = "make it with `next_location_metrics(num_locations, locations=locations)`"
    curves = {}
    for name, model in named(models).items():
        found = members_of(name, model.named_members(), DistanceError, make)
        curves[name] = next(iter(found.values())).cumulative()
    figure, axes = make_axes(ax)
    draw_lines(curves, axes, clip_on=True, drawstyle="steps-post")
    # shorter distances are zero, and have no room on the axis
    rising = [km[share > share[0]] for km, share in curves.values()]
    first = min((float(km[0]) for km in rising if len(km)), default=0.1)
    axes.set(xscale="log", xlabel="distance between decision and target (km)", ylim=(0, 1))
    axes.set_xlim(left=first / 2)
    _write_distances(axes)
    Scale("share of queries within", 0, 1).label(axes.yaxis)
    axes.grid()
    add_legend(axes)
    return figure, axes


def _write_distances(axes: Any) -> None:
    """Write distances as they are, not as powers of ten."""
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


@style()
def accuracy_within_km(
    models: Collections, k: int = 1, *, confidence_level: float = 0.95, ax: Any = None
) -> Any:
    """Draw the accuracy within k ranks over the distance that counts as near, in its band.

    Args:
        models: a collection with an `AccuracyWithin` of this k for every distance, or several by
            the names of the models.
        k: how many ranks count.

    Raises:
        ValueError: a collection has no such metric.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import RankingCollection, plotting
        >>> from nextloc_metrics.geography import AccuracyWithin, Locations
        >>> locations = Locations([40.7, 40.8], [-74.0, -73.9])
        >>> members = {f"within_{km:g}": AccuracyWithin(locations, km, k=1) for km in (1.0, 20.0)}
        >>> metrics = RankingCollection(members)
        >>> metrics.update(tensor([[0, 1], [0, 1]]), [0, 1])
        >>> figure, axes = plotting.accuracy_within_km(metrics)
        >>> axes.lines[-1].get_ydata()
        array([0.5, 1. ])
    """
    curves = {name: _within(name, x, k, confidence_level) for name, x in named(models).items()}
    scale = Scale(f"accuracy within the distance, k = {k}", 0, 1)
    figure, axes = draw_bands(curves, scale, confidence_level, ax, grid="both")
    axes.set_xlabel("distance that counts as near (km)")
    axes.set_xscale("symlog", linthresh=min(x for curve in curves.values() for x in curve if x > 0))
    axes.set_xlim(left=0)
    _write_distances(axes)
    return figure, axes


def _within(
    name: str, model: RankingCollection, k: int, confidence_level: float
) -> dict[float, Reading]:
    """Read the accuracies within k ranks, in the order of the distances."""
    readings = readings_of(model, confidence_level, keep_base=True)
    members = [(key, x) for key, x in model.named_members() if getattr(x, "k", None) == k]
    if not any(getattr(x, "km", 0) > 0 for _, x in members):
        members = []
    make = f"add `AccuracyWithin(locations, 1.0, k={k})`"
    which = f" of k={short(k)} and a positive distance"
    found = members_of(name, members, AccuracyWithin, make, which)
    return dict(sorted((member.km, readings[key]) for key, member in found.items()))


@style()
def draw_errors(errors: Mapping[int, float], unit: str, ax: Any = None) -> Any:
    """Draw the mean distance of the predicted points of each slot of a day."""
    figure, axes = make_axes(ax)
    draw_lines({"": (list(errors), list(errors.values()))}, axes)
    axes.set_xlabel("slot of the day")
    axes.locator_params(axis="x", integer=True)
    Scale(f"mean point error ({unit})", 0, None).finish(axes, "y", from_lowest=True)
    return figure, axes


@style()
def draw_days(days: Sequence[tuple[str, Tensor, Tensor]], by_degrees: bool) -> Any:
    """Draw predicted and true points of some days side by side, each to its own scale.

    Args:
        days: a title, the predicted points `[L, 2]` and the true points `[M, 2]`.
        by_degrees: whether points are latitude and longitude.
    """
    figure, row = import_pyplot().subplots(
        1, len(days), figsize=(2.9 * len(days), 3.2), layout="constrained", squeeze=False
    )
    for axes, (title, *sequences) in zip(row[0], days, strict=True):
        found = looks(["true", "predicted"])
        for points, (name, look) in zip(reversed(sequences), found.items(), strict=True):
            y, x = points.T.tolist() if by_degrees else points.flip(1).T.tolist()
            axes.plot(x, y, color=look.color, linestyle=look.dash, marker=look.marker, label=name)
        aspect = 1.0
        if by_degrees:  # a degree of longitude is shorter than one of latitude
            aspect /= max(float(sequences[1][:, 0].deg2rad().mean().cos()), 0.01)
        axes.set_aspect(aspect, adjustable="datalim")
        axes.set(title=title, xticks=[], yticks=[])
    row[0][0].legend()
    return figure, row[0]
