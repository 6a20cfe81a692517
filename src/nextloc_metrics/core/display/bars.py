"""Pictures of groups: a bar or a dot for every one, or how often each value occurs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core.display.reading import plural, quantiles
from nextloc_metrics.core.display.style import (
    Scale,
    add_legend,
    add_note,
    count,
    looks,
    make_axes,
    palette,
    style,
)

# More groups than this are drawn as how often each value occurs.
MOST_BARS = 30

# The most characters on a line of a group's name.
_WIDE = 11

# The share of a group's width for the dots of several models.
_APART = 0.7


class Groups(NamedTuple):
    """The values of all groups of one model, in the order of their labels."""

    values: Tensor  #: NaN for a group without data
    bounds: Tensor | None = None  #: `[2, G]`, the ends of the intervals
    numbers: Tensor | None = None  #: the number of queries of each group


@style()
def draw_groups(
    models: Mapping[str, Groups],
    labels: Sequence[str],
    scale: Scale,
    group: str,
    ax: Any,
    confidence_level: float = 0.95,
    notes: Sequence[str] = (),
) -> Any:
    """Draw a dot for every group in the order of the labels, on a bar if there is one model."""
    figure, axes = make_axes(ax, 6.4 if len(models) == 1 else 7.6)
    for (name, groups), look in zip(models.items(), looks(models).values(), strict=True):
        places = [place + _APART * look.shift for place in range(len(labels))]
        if len(models) == 1:
            axes.bar(places, groups.values.nan_to_num().tolist(), color=palette()[4])
        bounds = None if groups.bounds is None else groups.bounds.T.tolist()
        look.draw_dots(axes, places, groups.values.tolist(), name, bounds, "y")
    numbers = [one.numbers.tolist() for one in models.values() if one.numbers is not None]
    axes.set(xlim=(-0.6, len(labels) - 0.4), xlabel=group)
    add_legend(axes)
    scale.finish(axes, "y", from_lowest=len(models) == 1)
    _name_groups(axes, labels, numbers)
    counted = "in brackets: number of queries" if numbers else ""
    has_intervals = any(one.bounds is not None for one in models.values())
    whiskers = f"whiskers: {100 * confidence_level:g} % intervals" if has_intervals else ""
    add_note(axes, counted, whiskers, *notes)
    return figure, axes


def _name_groups(axes: Any, labels: Sequence[str], numbers: Sequence[Sequence[float]]) -> None:
    """Write the labels below the groups, with the numbers of queries; upright if they are wide."""
    names = [textwrap.fill(x, _WIDE, max_lines=2, placeholder="…") for x in labels]
    if numbers:
        counted = [dict.fromkeys(f"{int(x):,}" for x in of) for of in zip(*numbers, strict=True)]
        names = [f"{name}\n({' / '.join(of)})" for name, of in zip(names, counted, strict=True)]
    axes.set_xticks(range(len(names)), names)
    if _room(axes) < 0.8:
        # Two lines at most, as those of neighbours stand side by side.
        axes.set_xticklabels([textwrap.fill(x, max(_WIDE, 2 * len(x) // 3)) for x in names])
        axes.tick_params(axis="x", rotation=90)
    axes.tick_params(axis="x", labelsize=8 * min(1, _room(axes)))


def _room(axes: Any) -> float:
    """Return how much wider all labels below the axes may be, with a gap between neighbours."""
    widths = [1.15 * label.get_window_extent().width for label in axes.get_xticklabels()]
    across = 2 * axes.bbox.width / (len(widths) + 0.2)
    return float(across / max(map(sum, pairwise(widths)), default=across))


@style()
def draw_histogram(models: Mapping[str, Tensor], scale: Scale, group: str, ax: Any) -> Any:
    """Draw how many groups of each model have which value, with their median and mean."""
    figure, axes = make_axes(ax)
    present = {name: values[~values.isnan()] for name, values in models.items()}
    every = torch.cat([*present.values(), torch.tensor([scale.lower or 0.0])])
    limits = float(every.min()), float(every.max())
    notes = []
    for (name, values), look in zip(present.items(), looks(models).values(), strict=True):
        (median,) = quantiles(values, [0.5])
        said = f"median {scale.write(median)}, mean {scale.write(float(values.mean()))}"
        parts = [count(len(values), group), said if len(values) else ""]
        if without := len(models[name]) - len(values):
            parts.append(f"{without:,} without data")
        notes.append(f"{name}: " * bool(name) + ", ".join(filter(None, parts)))
        shown = {"label": name or None, "color": look.color, "linestyle": look.dash}
        kind = "step" if len(models) > 1 else "stepfilled"
        axes.hist(values.numpy(), bins=25, range=limits, histtype=kind, **shown)
    axes.set_ylabel(f"number of {plural(group)}")
    axes.locator_params(axis="y", integer=True)
    scale.label(axes.xaxis)
    add_legend(axes)
    add_note(axes, *notes)
    return figure, axes
