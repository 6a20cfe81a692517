"""Pictures: of a metric's value, of models side by side, and of accuracy within every k.

They need matplotlib, of the extra `plot`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.checks import check_bool
from nextloc_metrics.collection import RankingCollection
from nextloc_metrics.messages import short
from nextloc_metrics.metrics import AccuracyAtK
from nextloc_metrics.report.drawing import (
    MOST_BARS,
    MOST_LINES,
    NO_STEP,
    Scale,
    add_legend,
    draw_bands,
    draw_bars,
    draw_dot,
    draw_histogram,
    draw_readings,
    draw_readings_of_steps,
    draw_steps,
    import_pyplot,
    make_axes,
    number_by_integers,
)
from nextloc_metrics.report.maps import accuracy_within_km, distance_errors, error_map
from nextloc_metrics.report.readings import Reading, keys_of, read, read_values

__all__ = [
    "accuracy_within_k",
    "accuracy_within_km",
    "distance_errors",
    "error_map",
    "side_by_side",
]


def side_by_side(
    models: Mapping[str, RankingCollection], *, confidence: float = 0.95, ax: Any = None
) -> Any:
    """Draw the values of several models with their intervals, a row for every metric.

    Two models that answered the same queries can differ for sure where their intervals overlap:
    [`analysis.compare`][nextloc_metrics.analysis.compare] tells. A value that is no mean of scores
    has no interval, and one that is no fraction is written in its row instead.

    Values are summed over processes, as by `compute`: call it on all of them.

    Args:
        models: collections by the names of the models; members of one name share a row, whatever
            the prefix.
        confidence: how often such intervals hold the true mean.
        ax: the matplotlib axes to draw on; None makes a figure.

    Returns:
        The figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: `confidence` is not between 0 and 1, or there is no model.
    """
    import_pyplot()
    if not models:
        raise ValueError("`models` must hold a collection, got none.")
    readings = {name: read(model, confidence, keep_base=True) for name, model in models.items()}
    return draw_readings(readings, confidence, ax)


def accuracy_within_k(
    models: Mapping[str, RankingCollection] | RankingCollection,
    *,
    confidence: float = 0.95,
    ax: Any = None,
) -> Any:
    """Draw the accuracy within the first k ranks over k, one line per model, in its band.

    The band joins the intervals of every k: each holds its own true accuracy with that
    confidence, all of them together with less.

    Values are summed over processes, as by `compute`: call it on all of them.

    Args:
        models: a collection with an `AccuracyAtK` for every k, or several by the names of the
            models, such as `next_location_metrics(num_locations, k=range(1, 51))`; in
            `Grouped(..., average="queries")`, the band is that of the groups. Other members are
            left out.
        confidence: how often an interval holds the true accuracy.
        ax: the matplotlib axes to draw on; None makes a figure.

    Returns:
        The figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: a collection has no `AccuracyAtK`, or several of one k; or `confidence` is not
            between 0 and 1.
    """
    import_pyplot()
    named = {"": models} if isinstance(models, RankingCollection) else models
    curves = {name: _accuracies(name, model, confidence) for name, model in named.items()}
    figure, axes = make_axes(ax)
    draw_bands(curves, axes)
    ks = sorted({k for curve in curves.values() for k in curve})
    axes.set_xlabel("k (ranks that count)")
    number_by_integers(axes.xaxis, ks if len(ks) <= MOST_LINES else [])
    if len(ks) > MOST_LINES:
        axes.set_xlim(ks[0], ks[-1])
    top = min(1.0, axes.get_ylim()[1])
    axes.set_ylim(0, top)
    Scale(f"accuracy within k, {100 * confidence:g} % intervals", 0, 1).label(axes.yaxis)
    axes.grid(alpha=0.3)
    add_legend(axes)
    return figure, axes


def _accuracies(name: str, model: RankingCollection, confidence: float) -> dict[int, Reading]:
    """Read a model's accuracies by k, in rising order."""
    readings = read(model, confidence, keep_base=True)
    found: dict[int, Reading] = {}
    for key, member in model.items(keep_base=True, copy_state=False):
        metric = getattr(member, "metric", member)
        if isinstance(metric, AccuracyAtK) and not readings[key].note:
            if metric.k in found:
                raise ValueError(
                    f"`models` must have one accuracy for every k, got several within {metric.k} "
                    f"in {name or 'the collection'}; draw collections with one of them."
                )
            found[metric.k] = readings[key]
    if not found:
        raise ValueError(
            f"`models` must have members AccuracyAtK, and {name or 'the collection'} has none; "
            "make it by `next_location_metrics(num_locations, k=range(1, 51))`."
        )
    return dict(sorted(found.items()))


def plot_metric(metric: Any, val: Any = None, ax: Any = None) -> Any:
    """Draw what a metric computed; see `RankingMetric.plot`."""
    import_pyplot()
    bounds = None
    if val is None:
        val = metric.compute()
        bounds = metric.interval() if getattr(metric, "averages_scores", False) else None
    name = getattr(metric, "plot_label", type(metric).__name__)
    scale = Scale(name, metric.plot_lower_bound, metric.plot_upper_bound)
    group = getattr(metric, "by", None) or metric.plot_legend_name or "value"
    labels: dict[str, str] = getattr(metric, "plot_labels", {})
    if isinstance(val, Sequence) and not _is_queries(val):
        return draw_steps(_series(val, labels), scale, ax, group)
    if isinstance(val, Mapping):
        heights = _numbers([val[key] for key in labels])
        return draw_bars(heights, None, list(labels.values()), scale, group, ax)
    values = _numbers(val)
    if values.ndim > 1:
        raise ValueError(
            f"`val` must be one value, or one a {group}, got the shape {tuple(values.shape)}."
        )
    if _is_queries(val) or values.numel() > MOST_BARS:
        return draw_histogram(values, scale, group, ax)
    limits = None if bounds is None else torch.stack([_numbers(bound) for bound in bounds])
    if values.ndim == 1:
        numbers = [str(number) for number in range(len(values))]
        names = getattr(metric, "group_names", numbers)
        return draw_bars(values, limits, names, scale, group, ax)
    # TorchMetrics makes the value of a single group a scalar
    return draw_dot(float(values), None if limits is None else limits.flatten().tolist(), scale, ax)


def plot_collection(collection: RankingCollection, val: Any, ax: Any, together: bool) -> Any:
    """Draw every member of a collection, or all together; see `RankingCollection.plot`."""
    check_bool("together", together)
    several = isinstance(ax, Sequence) or hasattr(ax, "shape")
    number = len(collection)
    if ax is not None and (several if together else not several or len(ax) != number):
        needed = "one axes" if together else f"{number} axes, one for every member"
        raise ValueError(f"`ax` must be {needed}, got {short(ax)}.")
    if together:
        if val is None:
            return draw_readings({"": read(collection, 0.95)}, 0.95, ax)
        if isinstance(val, Mapping):
            return draw_readings({"": read_values(collection, val)}, None, ax)
        return draw_readings_of_steps([read_values(collection, one) for one in val], ax)
    pictures = []
    with collection.summed_at_once(cached=False) if val is None else nullcontext():
        for at, (name, member) in enumerate(collection.named_members()):
            own = val if val is None else _own_values(collection, name, member, val)
            figure, axes = member.plot(own, ax=None if ax is None else ax[at])
            axes.set_title(collection._set_name(name))
            pictures.append((figure, axes))
    return pictures


def _own_values(collection: RankingCollection, name: str, member: Any, val: Any) -> Any:
    """Find a member's value, or several, among those of the collection."""
    if not isinstance(val, Mapping):
        return [_own_values(collection, name, member, one) for one in val]
    own = {key: val[found] for key, found in keys_of(collection, name, member, val).items()}
    return own.get("", own)


def _is_queries(value: Any) -> bool:
    return hasattr(value, "scores")  # `QueryScores`, a tuple


def _numbers(value: Any) -> Tensor:
    """Return float64 on the CPU."""
    if _is_queries(value):
        value = value.scores
    if isinstance(value, Sequence):
        return torch.stack([_numbers(one) for one in value])
    return torch.as_tensor(value).detach().cpu().double()


def _series(steps: Sequence[Any], names: Mapping[str, str]) -> Any:
    """Turn the values of several steps into a line for every name, or keep them where many."""
    if not steps:
        raise ValueError(NO_STEP)
    if isinstance(steps[0], Mapping):
        return {name: _numbers([step[key] for step in steps]) for key, name in names.items()}
    values = [_numbers(step) for step in steps]
    if values[0].ndim == 0:
        return {"": torch.stack(values)}
    if _is_queries(steps[0]) or values[0].numel() > MOST_LINES:
        return values
    return {str(number): line for number, line in enumerate(torch.stack(values, 1))}
