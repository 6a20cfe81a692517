"""Pictures of groups, models side by side, accuracy within every k, a map, and confidences.

They need matplotlib, which the extra `plot` installs; without it they raise a ModuleNotFoundError.
Each draws on the axes `ax`, or makes a figure for None, and returns the figure and its axes.
A `confidence_level` that is not between 0 and 1 is a ValueError.
Values are summed over processes, as by `compute`: call a function on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.base.collection import Collections, RankingCollection
from nextloc_metrics.core.base.grouped import Grouped
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.display.lines import draw_bands, draw_readings
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.style import (
    Scale,
    add_legend,
    add_note,
    import_pyplot,
    looks,
    make_axes,
    save,
    style,
)
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.results.plots import plot_groups
from nextloc_metrics.core.results.results import count_queries, members_of, named, read_counted
from nextloc_metrics.geography import Locations
from nextloc_metrics.metrics.at_k import AccuracyAtK
from nextloc_metrics.metrics.confidence import CalibrationError, Reliability

__all__ = [
    "accuracy_within_k",
    "by_group",
    "error_map",
    "reliability",
    "save",
    "side_by_side",
    "style",
]

# More locations than this are drawn as hexagons.
MOST_DOTS = 1000

# Dark to light in grey as well, and the same to the colour-blind.
_COLORS = "viridis"


def side_by_side(
    models: Mapping[str, RankingCollection], *, confidence_level: float = 0.95, ax: Any = None
) -> Any:
    """Draw the values of several models with their intervals, one row per metric.

    Overlapping intervals do not show that two models are equal. For models with the same queries,
    use [`compare`][nextloc_metrics.report.compare]. A value that is not a mean over
    queries has no interval, and the note below the picture names it. A value that is not a fraction
    is written in its row.

    Args:
        models: one collection per model, by the name of the model. Members with the same name,
            without the prefix, share a row.

    Raises:
        ValueError: there is no model.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, RankingCollection, plotting
        >>> metrics = RankingCollection({"mrr": MRR()})
        >>> metrics.update(tensor([[0, 1]]).expand(100, 2), tensor([0] * 30 + [1] * 70))
        >>> figure, axes = plotting.side_by_side({"Markov": metrics})
        >>> axes.get_xlabel()
        'value and 95 % interval'
    """
    import_pyplot()
    if not models:
        raise ValueError("`models` must hold a collection, got none.")
    readings, queries = _read(models, confidence_level)
    return draw_readings(readings, confidence_level, ax, queries)


def _read(models: Collections, confidence_level: float) -> tuple[Any, str]:
    """Read the values of models, and write the number of queries, of each where they differ."""
    readings, numbers = {}, {}
    for name, model in named(models).items():
        readings[name], numbers[name] = read_counted(model, confidence_level, keep_base=True)
    if len(set(numbers.values())) == 1:
        return readings, next(iter(numbers.values()))
    return readings, ", ".join(f"{name}: {text}" for name, text in numbers.items() if text)


def by_group(
    models: Mapping[str, Any] | Any, *, confidence_level: float = 0.95, ax: Any = None
) -> Any:
    """Draw a metric of every group, or of every decile, for several models in one panel.

    One model is drawn as bars, several as dots, with the intervals that the metric has. The number
    of queries is written with the name of every group. More than thirty groups are drawn as a
    histogram of their values.

    Args:
        models: one metric per model, by the name of the model, such as
            `Grouped(AccuracyAtK(1), 24, by="hour")` or `DecileNDCG(bins, k=5)`; or one metric
            without a name. All must have the same groups.

    Raises:
        TypeError: `models` holds a collection.
        ValueError: there is no model, a metric has one value only, or the groups differ.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import AccuracyAtK, Grouped, plotting
        >>> def accuracy(best):
        ...     metric = Grouped(AccuracyAtK(1), labels=["work", "leisure"], by="purpose")
        ...     metric.update(tensor(best)[:, None], [0, 1, 2], groups=["work", "work", "leisure"])
        ...     return metric
        >>> models = {"Markov": accuracy([0, 0, 0]), "GRU": accuracy([0, 1, 0])}
        >>> figure, axes = plotting.by_group(models)
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('purpose', 'Acc@1')
    """
    for name, metric in (models if isinstance(models, Mapping) else {"": models}).items():
        if not isinstance(metric, RecordMetric):
            kind = "a collection" if isinstance(metric, RankingCollection) else short(metric)
            raise TypeError(f"`models` must hold metrics, got {kind} for {name}; pass a member.")
    return plot_groups(models, confidence_level, ax)


@style()
def accuracy_within_k(
    models: Collections, *, confidence_level: float = 0.95, ax: Any = None
) -> Any:
    """Draw the accuracy within the first k ranks over k, one line with a band per model.

    The band joins the confidence intervals of every k. The confidence level holds for each
    interval alone; the probability that all intervals contain the true accuracy is lower.

    Args:
        models: a collection with an `AccuracyAtK` for every k, such as
            `next_location_metrics(num_locations, k=range(1, 51))`; or one collection per model, by
            the name of the model. A member `Grouped(AccuracyAtK(k), ..., average="queries")` has
            its clustered interval. Other members are not drawn.

    Raises:
        ValueError: a collection has no `AccuracyAtK`, or several of one k.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import next_location_metrics, plotting
        >>> metrics = next_location_metrics(num_locations=2, k=range(1, 3))
        >>> metrics.update(tensor([[0, 1]]).expand(100, 2), tensor([0] * 30 + [1] * 70))
        >>> figure, axes = plotting.accuracy_within_k({"Markov": metrics})
        >>> axes.get_ylabel()
        'accuracy within k'
    """
    readings, queries = _read(models, confidence_level)
    curves = {name: _accuracies(name, x, readings[name]) for name, x in named(models).items()}
    scale = Scale("accuracy within k", 0, 1)
    figure, axes = draw_bands(curves, scale, confidence_level, ax, queries)
    axes.set_xlabel("k (number of ranks that count)")
    axes.locator_params(axis="x", integer=True)
    return figure, axes


def _accuracies(
    name: str, model: RankingCollection, readings: Mapping[str, Reading]
) -> dict[int, Reading]:
    """Return a model's accuracies by k, in rising order."""
    make = "make it with `next_location_metrics(num_locations, k=range(1, 51))`"
    found: dict[int, Reading] = {}
    members = [
        (key, getattr(member, "metric", member))
        for key, member in model.named_members()
        if key in readings and not readings[key].note
    ]
    for key, metric in members_of(name, members, AccuracyAtK, make).items():
        if metric.k in found:
            raise ValueError(
                f"`models` must have one accuracy for every k, got several within {metric.k} "
                f"in {name or 'the collection'}; remove all but one of them."
            )
        found[metric.k] = readings[key]
    return dict(sorted(found.items()))


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
    numbers = torch.as_tensor(count_queries(by_location)[0]).double().cpu()
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
        look: Any = {"cmap": _COLORS, "edgecolors": "black", "linewidths": 0.3}
        drawn = axes.scatter(*points.T.numpy(), sizes.numpy(), values[seen].numpy(), **look)
        shown: Any = {"func": lambda size: (size - 4) * most / 200, "color": "0.5"}
        add_legend(axes, drawn.legend_elements("sizes", 3, "{x:,g}", **shown), "queries")
    drawn.set_clim(scale.lower, scale.upper)
    axes.set(adjustable="datalim", aspect="equal", xlabel="km to the east")
    axes.set_ylabel("km to the north", wrap=True)
    scale.label(figure.colorbar(drawn, ax=axes, shrink=0.8).ax.yaxis)
    return figure, axes


def _draw_hexagons(axes: Any, points: Tensor, values: Tensor, numbers: Tensor) -> Any:
    weighted = torch.stack([numbers * values, numbers], 1).numpy()

    def mean(places: Any) -> Any:
        total, queries = sum(weighted[int(place)] for place in places)
        return total / queries

    options: Any = {"gridsize": 45, "mincnt": 1, "linewidths": 0.2, "cmap": _COLORS}
    places = torch.arange(len(points)).numpy()
    return axes.hexbin(*points.T.numpy(), C=places, reduce_C_function=mean, **options)


@style()
def reliability(
    models: Collections | CalibrationError | Mapping[str, CalibrationError],
    *,
    confidence_level: float = 0.95,
    ax: Any = None,
) -> Any:
    """Draw a reliability diagram: the accuracy of each bin over its mean confidence.

    A dot is the accuracy of the queries of a bin, with Wilson's interval; for one model the number
    of queries is written above it. Dots below the diagonal are overconfident.

    Args:
        models: a `CalibrationError` or a collection with one; or several by the names of the
            models.

    Raises:
        ValueError: a collection has no `CalibrationError`.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import CalibrationError, plotting
        >>> error = CalibrationError(10, given="probabilities")
        >>> error.update(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))
        >>> figure, axes = plotting.reliability(error)
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('confidence', 'accuracy')
    """
    found: dict[str, Any] = {}
    each: Mapping[str, Any] = named(models)
    for name, model in each.items():
        own = [("", model)] if isinstance(model, CalibrationError) else model.named_members()
        make = "make it with `probability_metrics(given=...)`"
        metric = next(iter(members_of(name, own, CalibrationError, make).values()))
        found[name] = _bins_of(metric, confidence_level)
    figure, axes = make_axes(ax, 4.2 if len(found) == 1 else 5.4, 3.6)
    for (name, (bins, bounds)), look in zip(found.items(), looks(found).values(), strict=True):
        sure = bins.confidence.tolist()
        look.draw_dots(axes, sure, bins.accuracy.tolist(), name, bounds, "y")
        if len(found) == 1:
            for x, (_, top), number in zip(sure, bounds, bins.number.tolist(), strict=True):
                at: Any = {"textcoords": "offset points", "ha": "center"}
                axes.annotate(f"{number:,.0f}", (x, top), (0, 2), **at)
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=":", zorder=0)
    axes.set(xlim=(0, 1), ylim=(0, 1.08))
    for axis, label in ((axes.xaxis, "confidence"), (axes.yaxis, "accuracy")):
        Scale(label, 0, 1).label(axis)
    add_legend(axes)
    return figure, axes


def _bins_of(metric: CalibrationError, confidence_level: float) -> tuple[Reliability, list[Any]]:
    """Return the bins with queries, and the interval of the accuracy of each."""
    found = metric.reliability()
    used = Reliability(*(x[found.number > 0] for x in found))
    right = used.accuracy * used.number
    counts = torch.stack([right, right, used.number], 1)
    state = (counts * torch.tensor([exact.ONE, exact.ONE, 1])).round().long()
    bounds = intervals.of_queries(state).interval(confidence_level)
    return used, [[float(a), float(b)] for a, b in zip(*bounds, strict=True)]
