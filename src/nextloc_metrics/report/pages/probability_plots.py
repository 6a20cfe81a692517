"""The picture of probabilities: a reliability diagram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from nextloc_metrics.core.display.style import (
    Scale,
    add_legend,
    looks,
    make_axes,
    style,
)
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.metric.collection import Collections
from nextloc_metrics.core.metric.results import members_of, named
from nextloc_metrics.metrics.confidence import CalibrationError, Reliability


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
    figure, axes = make_axes(ax, 4.2, 3.6)
    for (name, (bins, bounds)), look in zip(found.items(), looks(found).values(), strict=True):
        sure = bins.confidence.tolist()
        look.draw_dots(axes, sure, bins.accuracy.tolist(), name, bounds, "y")
        if len(found) == 1:
            for x, (_, top), number in zip(sure, bounds, bins.number.tolist(), strict=True):
                at: Any = {"textcoords": "offset points", "ha": "center"}
                axes.annotate(f"{number:,.0f}", (x, top), (0, 2), **at)
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=":", zorder=0)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.08)
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
