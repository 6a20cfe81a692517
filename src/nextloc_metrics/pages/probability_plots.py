"""Pictures of probabilities: reliability, risk over coverage, and the size of prediction sets."""

from __future__ import annotations

from typing import Any

import torch

from nextloc_metrics.base.collection import Collections
from nextloc_metrics.base.readings import members_of, named, readings_of
from nextloc_metrics.display.lines import draw_lines
from nextloc_metrics.display.style import (
    COLORS,
    Scale,
    add_grid,
    add_legend,
    errors,
    make_axes,
    style,
)
from nextloc_metrics.means import exact, intervals
from nextloc_metrics.metrics.confidence import AURC, CalibrationError
from nextloc_metrics.metrics.probabilities import SetSize


@style()
def reliability(metric: CalibrationError, *, confidence_level: float = 0.95, ax: Any = None) -> Any:
    """Draw a reliability diagram: the accuracy of each bin beside its mean confidence.

    A bar is the accuracy of the queries of a bin, with Wilson's interval and the number of queries;
    the line over it is their mean confidence. Bars below their line are overconfident.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import CalibrationError, plotting
        >>> error = CalibrationError(10, given="probabilities")
        >>> error.update(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))
        >>> figure, axes = plotting.reliability(error)
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('confidence', 'accuracy')
    """
    found = metric.reliability()
    used = found.number > 0
    number, sure, right, low, high = (x[used] for x in found)
    counts = torch.stack([right * number, right * number, number], 1)
    state = (counts * torch.tensor([exact.ONE, exact.ONE, 1])).round().long()
    bounds = intervals.of_queries(state).interval(confidence_level)
    figure, axes = make_axes(ax, 4.2, 3.6)
    middle, heights, widths = (x.tolist() for x in ((low + high) / 2, right, high - low))
    edge: Any = {"edgecolor": "white", "linewidth": 0.7}
    axes.bar(middle, heights, widths, color=COLORS[4], label="accuracy", **edge)
    ends = [[float(a), float(b)] for a, b in zip(*bounds, strict=True)]
    axes.errorbar(middle, heights, yerr=errors(heights, ends), fmt="none", ecolor=COLORS[0])
    axes.hlines(sure, low, high, color=COLORS[2], linewidth=2, label="mean confidence")
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=(0, (1, 1.2)), linewidth=1, zorder=0)
    above: Any = {"textcoords": "offset points", "ha": "center", "fontsize": 6}
    for x, (_, top), n in zip(middle, ends, number.tolist(), strict=True):
        axes.annotate(f"{n:,.0f}", (x, top), (0, 2), **above)
    axes.set(xlim=(0, 1), ylim=(0, 1.08))
    for axis, label in ((axes.xaxis, "confidence"), (axes.yaxis, "accuracy")):
        Scale(label, 0, 1).label(axis)
    add_legend(axes)
    return figure, axes


@style()
def risk_coverage(models: Collections, *, ax: Any = None) -> Any:
    """Draw the share of wrong answers over the share of queries answered, most confident first.

    Args:
        models: a collection with an `AURC`, or several by the names of the models.

    Raises:
        ValueError: a collection has no `AURC`.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import plotting, probability_metrics
        >>> metrics = probability_metrics(given="probabilities")
        >>> metrics.update(tensor([[0.9, 0.1], [0.6, 0.4]]), tensor([0, 1]))
        >>> figure, axes = plotting.risk_coverage(metrics)
        >>> axes.lines[0].get_ydata().tolist()
        [0.0, 0.5]
    """
    curves = {}
    for name, model in named(models).items():
        make = "make it with `probability_metrics(given=...)`"
        found = members_of(name, model.named_members(), AURC, make)
        curves[name] = next(iter(found.values())).curve()
    figure, axes = make_axes(ax, 4.2, 3.6)
    draw_lines(curves, axes)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    Scale("share of queries answered", 0, 1).label(axes.xaxis)
    Scale("share of wrong answers", 0, 1).label(axes.yaxis)
    add_grid(axes, "both")
    add_legend(axes)
    return figure, axes


@style()
def set_sizes(models: Collections, *, ax: Any = None) -> Any:
    """Draw the mean size of prediction sets over their mass.

    Args:
        models: a collection with a `SetSize` for several masses, or several by the names of the
            models.

    Raises:
        ValueError: a collection has no `SetSize` of a mass.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import RankingCollection, SetSize, plotting
        >>> sizes = [SetSize(mass, given="probabilities") for mass in (0.5, 0.9)]
        >>> metrics = RankingCollection({"size_50": sizes[0], "size_90": sizes[1]})
        >>> metrics.update(tensor([[0.6, 0.3, 0.1]]), tensor([0]))
        >>> figure, axes = plotting.set_sizes(metrics)
        >>> axes.lines[0].get_ydata()
        array([1., 2.])
    """
    curves = {}
    for name, model in named(models).items():
        members = [x for x in model.named_members() if getattr(x[1], "mass", None) is not None]
        make = "add `SetSize(0.9, given=...)`"
        found = members_of(name, members, SetSize, make, " of several masses")
        readings = readings_of(model, keep_base=True)
        sizes = {member.mass: readings[key].value for key, member in found.items()}
        curves[name] = list(zip(*sorted(sizes.items()), strict=True))
    figure, axes = make_axes(ax, 4.2, 3.6)
    draw_lines(curves, axes)
    Scale("mass of the set", 0, 1).label(axes.xaxis)
    axes.set_ylabel("mean number of candidates")
    axes.set_ylim(bottom=0)
    add_grid(axes, "both")
    add_legend(axes)
    return figure, axes
