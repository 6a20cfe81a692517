"""Pictures on the ground: where a model errs, and how far off it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.collection import RankingCollection
from nextloc_metrics.families.grouped import Grouped
from nextloc_metrics.geography import AccuracyWithin, DistanceError, Locations
from nextloc_metrics.messages import short
from nextloc_metrics.report.drawing import (
    Scale,
    add_legend,
    draw_bands,
    import_pyplot,
    make_axes,
    styles,
)
from nextloc_metrics.report.readings import Reading, read

# More locations than this are drawn as hexagons.
MOST_DOTS = 1000

Models = Mapping[str, RankingCollection] | RankingCollection


def error_map(by_location: Grouped, locations: Locations, *, ax: Any = None) -> Any:
    """Draw where a model is right: the value and the number of queries at each target location.

    Many locations are drawn as hexagons, whose value is the mean over the queries there. Areas are
    those on the ground, and a bar shows the scale.

    Args:
        by_location: the metric by the target's location, such as
            `Grouped(AccuracyAtK(1), num_locations)` with the targets as its groups.
        locations: the coordinates.
        ax: the matplotlib axes to draw on; None makes a figure.

    Returns:
        The figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: there are not as many groups as locations, or no query.
    """
    import_pyplot()
    if by_location.num_groups != len(locations):
        raise ValueError(
            f"`by_location` must have a group for each of the {len(locations)} locations, got "
            f"{by_location.num_groups}."
        )
    numbers = torch.as_tensor(by_location.numbers()[0]).double().cpu()
    seen = numbers > 0
    if not seen.any():
        raise ValueError("`by_location` must have counted a query, got none.")
    values = by_location.compute().double().cpu()
    points = locations.project().cpu()[seen]
    figure, axes = make_axes(ax, 6.4, 5.6)
    scale = Scale(by_location.metric.plot_label, *_bounds(by_location))
    if int(seen.sum()) > MOST_DOTS:
        drawn = _draw_hexagons(axes, points, values[seen], numbers[seen], scale)
    else:
        sizes = 4 + 200 * numbers[seen] / numbers.max()
        drawn = axes.scatter(
            *points.T.numpy(),
            s=sizes.numpy(),
            c=values[seen].numpy(),
            cmap="viridis",
            vmin=scale.lower,
            vmax=scale.upper,
            edgecolors="black",
            linewidths=0.3,
        )
        _explain_sizes(axes, numbers)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    _draw_scale_bar(axes)
    bar = figure.colorbar(drawn, ax=axes, shrink=0.8)
    scale.label(bar.ax.yaxis)
    return figure, axes


def _bounds(metric: Grouped) -> tuple[float | None, float | None]:
    return metric.metric.plot_lower_bound, metric.metric.plot_upper_bound


def _draw_hexagons(axes: Any, points: Tensor, values: Tensor, numbers: Tensor, scale: Scale) -> Any:
    """Draw the mean over the queries of each hexagon."""
    low, high = points.amin(0).tolist(), points.amax(0).tolist()
    options = {"gridsize": 45, "extent": (low[0], high[0], low[1], high[1]), "linewidths": 0.2}
    x, y = points.T.numpy()

    def total(weights: Tensor) -> Any:
        return axes.hexbin(x, y, C=weights.numpy(), reduce_C_function=sum, **options)

    queries = total(numbers)
    drawn = total(numbers * values)
    drawn.set_array(drawn.get_array() / queries.get_array())
    queries.remove()
    drawn.set_cmap("viridis")
    drawn.set_clim(scale.lower, scale.upper)
    return drawn


def _explain_sizes(axes: Any, numbers: Tensor) -> None:
    """Name the numbers of queries that three sizes stand for."""
    most = int(numbers.max())
    for number in sorted({1, max(1, most // 4), most}):
        axes.scatter([], [], s=4 + 200 * number / most, c="0.7", edgecolors="black", label=number)
    add_legend(axes, "queries", beside=False)


def _draw_scale_bar(axes: Any) -> None:
    """Draw a bar of a round number of km, a fifth of the width or less."""
    low, high = axes.get_xlim()
    bottom, top = axes.get_ylim()
    most = max(high - low, 1e-6) / 5
    step = 10.0 ** torch.tensor(most).log10().floor().item()
    length = max(x * step for x in (1, 2, 5) if x * step <= most)
    start, height = low + 0.04 * (high - low), bottom + 0.04 * (top - bottom)
    axes.plot([start, start + length], [height, height], color="black", linewidth=2)
    text = f"{length:g} km" if length >= 1 else f"{1000 * length:g} m"
    axes.annotate(
        text, (start + length / 2, height), (0, 4), textcoords="offset points", ha="center"
    )


def distance_errors(models: Models, *, ax: Any = None) -> Any:
    """Draw which share of the decisions is at most how far from the target, a line per model.

    Args:
        models: a collection with a `DistanceError`, or several by the names of the models.
        ax: the matplotlib axes to draw on; None makes a figure.

    Returns:
        The figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: a collection has no `DistanceError`.
    """
    import_pyplot()
    named = {"": models} if isinstance(models, RankingCollection) else models
    curves = {name: _shares(name, model) for name, model in named.items()}
    figure, axes = make_axes(ax)
    for name, color, _, dash in styles(curves):
        km, share = curves[name]
        axes.plot(
            km, share, color=color, linestyle=dash, label=name or None, drawstyle="steps-post"
        )
    # what is below is right to the spot, and needs no room
    rising = [km[share > share[0]] for km, share in curves.values()]
    first = min((float(km[0]) for km in rising if len(km)), default=0.1)
    axes.set_xscale("log")
    axes.set_xlim(left=first / 2)
    axes.xaxis.set_major_formatter(_write_km)
    axes.set_xlabel("distance between decision and target (km)")
    axes.set_ylim(0, 1)
    Scale("share of queries within", 0, 1).label(axes.yaxis)
    axes.grid(alpha=0.3)
    add_legend(axes)
    return figure, axes


def _write_km(value: float, _place: int) -> str:
    return f"{value:g}"


def _shares(name: str, model: RankingCollection) -> tuple[Tensor, Tensor]:
    """Return the upper ends of the bins of distances, and the share of queries up to there."""
    for _, member in model.named_members():
        if isinstance(member, DistanceError):
            return member.cumulative()
    raise ValueError(
        f"`models` must have a member DistanceError, and {name or 'the collection'} has none; make "
        "it by `next_location_metrics(num_locations, locations=locations)`."
    )


def accuracy_within_km(
    models: Models, k: int = 1, *, confidence: float = 0.95, ax: Any = None
) -> Any:
    """Draw the accuracy within the first k ranks over the distance that counts as near.

    Args:
        models: a collection with an `AccuracyWithin` of this k for every distance, or several by
            the names of the models.
        k: how many ranks count.
        confidence: how often an interval holds the true accuracy.
        ax: the matplotlib axes to draw on; None makes a figure.

    Returns:
        The figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: a collection has no such metric, or `confidence` is not between 0 and 1.
    """
    import_pyplot()
    named = {"": models} if isinstance(models, RankingCollection) else models
    curves = {name: _within(name, model, k, confidence) for name, model in named.items()}
    figure, axes = make_axes(ax)
    draw_bands(curves, axes)
    axes.set_xlabel("distance that counts as near (km)")
    axes.set_xscale("symlog", linthresh=min(x for curve in curves.values() for x in curve if x > 0))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(_write_km)
    axes.set_ylim(bottom=0)
    Scale(f"accuracy within {k}, {100 * confidence:g} % intervals", 0, 1).label(axes.yaxis)
    axes.grid(alpha=0.3)
    add_legend(axes)
    return figure, axes


def _within(name: str, model: RankingCollection, k: int, confidence: float) -> dict[float, Reading]:
    """Read the accuracies within k ranks, by distance."""
    readings = read(model, confidence, keep_base=True)
    found = {
        member.km: readings[key]
        for key, member in model.named_members()
        if isinstance(member, AccuracyWithin) and member.k == k
    }
    if not any(km > 0 for km in found):
        raise ValueError(
            f"`models` must have members AccuracyWithin of k={short(k)} and a positive distance, "
            f"and {name or 'the collection'} has none."
        )
    return dict(sorted(found.items()))
