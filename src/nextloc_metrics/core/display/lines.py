"""The parts of pictures: lines over steps, rows of dots with intervals, bands.

Values stay fractions; only the labels of an axis are in percent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.display.reading import Models, Reading, quantiles
from nextloc_metrics.core.display.style import (
    Look,
    Scale,
    add_legend,
    add_note,
    count,
    import_pyplot,
    looks,
    make_axes,
    style,
)

# More lines than this are drawn as shades, and more groups over steps as the range of their values.
MOST_LINES = 12

NO_STEP = "`val` must hold the value of at least one step, got none."

# Markers on a line, and how far the dots of a row are apart, at most.
_MARKED, _APART = 7, 0.64


@style()
def draw_steps(
    series: Mapping[str, Tensor] | Sequence[Tensor], scale: Scale, ax: Any, title: str = ""
) -> Any:
    """Draw values over steps: lines, shades if there are many, or the range of many groups."""
    if isinstance(series, Mapping) and len(series) > MOST_LINES:
        return _draw_shades(series, scale, ax)
    figure, axes = make_axes(ax)
    if isinstance(series, Mapping):
        draw_lines({name: (range(len(x)), x.tolist()) for name, x in series.items()}, axes)
    else:
        title = _draw_ranges(axes, series, title)
    axes.set_xlabel("step")
    axes.locator_params(axis="x", integer=True)
    scale.finish(axes, "y")
    add_legend(axes, title)
    return figure, axes


def _draw_ranges(axes: Any, series: Sequence[Tensor], group: str) -> str:
    """Draw the median of groups and the ranges around it; return the title of the legend."""
    steps = range(len(series))
    at_steps = [quantiles(values, (0.05, 0.25, 0.5, 0.75, 0.95)) for values in series]
    ranges = list(zip(*at_steps, strict=True))
    for low, high, color, label in ((0, 4, "0.87", "5 to 95 %"), (1, 3, "0.7", "25 to 75 %")):
        axes.fill_between(steps, ranges[low], ranges[high], color=color, label=label)
    axes.plot(steps, ranges[2], color="black", marker="o", label="median")
    return f"of {count(len(series[0]), group or 'group')}"


def draw_lines(curves: Mapping[str, Any], axes: Any) -> None:
    """Draw a line for every name, through x and y, with a few markers."""
    for (name, (x, y)), look in zip(curves.items(), looks(curves).values(), strict=True):
        own = {"color": look.color, "linestyle": look.dash, "marker": look.marker}
        own |= {"markevery": max(1, len(x) // _MARKED), "label": name or None, "clip_on": False}
        axes.plot(x, y, **own)


def _draw_shades(series: Mapping[str, Tensor], scale: Scale, ax: Any) -> Any:
    """Draw a row of shades for every name, a column for every step."""
    figure, axes = make_axes(ax, 6.4, 1.2 + 0.16 * len(series))
    values = torch.stack(list(series.values())).numpy()
    image = axes.imshow(values, cmap="Greys", aspect="auto", interpolation="none")
    image.set_clim(scale.lower, scale.upper)
    axes.patch.set(hatch="////", facecolor="white")  # seen where there are no data
    axes.set_yticks(range(len(series)), list(series))
    axes.set_xlabel("step")
    axes.locator_params(axis="x", integer=True)
    add_note(axes, "hatched: no data" if (values != values).any() else "")
    bar = figure.colorbar(image, ax=axes)
    scale.label(bar.ax.yaxis)
    return figure, axes


@style()
def draw_readings(models: Models, level: float | None, ax: Any, queries: str = "") -> Any:
    """Draw dots and their intervals, a row for every name.

    `level` is that of the intervals, None for none; `queries` is their number, for the note.
    """
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    titles = [next(x[name].title(name) for x in models.values() if name in x) for name in names]
    figure, axes = _make_rows(titles, ax, len(models))
    fractions = any(one.is_fraction for readings in models.values() for one in readings.values())
    for (model, readings), look in zip(models.items(), looks(models).values(), strict=True):
        found = _rows(names, readings, look)
        drawn = {y: one for y, one in found.items() if one.is_fraction == fractions}
        _draw_intervals(axes, drawn, look, model)
        for y, one in found.items():
            if y not in drawn or one.value != one.value:
                text = "no data" if one.value != one.value else f"{one.value:.4g} (no fraction)"
                at: Any = {"xycoords": ("axes fraction", "data"), "va": "center"}
                axes.annotate(f"{model}: {text}" if model else text, (0.01, y), **at)
    interval = "value" if level is None else f"value and {100 * level:g} % interval"
    absent = "" if level is None else _explain_absent(models, names)
    limits = (0, 1) if fractions else (None, None)
    Scale(interval, *limits).finish(axes, "x", queries, absent)
    add_legend(axes)
    return figure, axes


def _make_rows(titles: Sequence[str], ax: Any, number: int) -> Any:
    """Return the figure and its axes, with a row of so many dots for every title."""
    figure, axes = make_axes(ax, 6.4, 0.8 + 0.1 * len(titles) * (1.3 + number))
    axes.set_yticks(range(len(titles)), titles)
    axes.set_ylim(len(titles) - 0.5, -0.5)
    return figure, axes


def _rows(names: list[str], readings: Mapping[str, Reading], look: Look) -> dict[float, Reading]:
    """Return readings by where they stand, from the top."""
    return {names.index(name) + _APART * look.shift: one for name, one in readings.items()}


def _draw_intervals(axes: Any, rows: Mapping[float, Reading], look: Look, label: str) -> None:
    """Draw a dot with its interval in every row that has a value."""
    rows = {y: one for y, one in rows.items() if one.value == one.value}
    values = [one.value for one in rows.values()]
    bounds = [one.bounds or (one.value, one.value) for one in rows.values()]
    if rows:
        look.draw_dots(axes, values, list(rows), label, bounds, "x")


def _explain_absent(models: Models, names: Sequence[str]) -> str:
    """Write which names have a value, but an interval in no model, and why."""
    without = []
    for name in names:
        found = [x[name] for x in models.values() if name in x and x[name].value == x[name].value]
        if found and not any(one.bounds or one.note for one in found):
            without.append(name)
    more = f" and {len(without) - 3} more" if len(without) > 3 else ""
    text = f"no interval for {', '.join(without[:3])}{more}: the value is not a mean over queries"
    return text if without else ""


@style()
def draw_bands(
    curves: Mapping[str, Mapping[Any, Reading]],
    scale: Scale,
    level: float,
    ax: Any,
    queries: str,
) -> Any:
    """Draw lines over the numbers of readings, in the bands of their intervals."""
    figure, axes = make_axes(ax)
    for name, look in looks(curves).items():
        places = list(curves[name])
        bounds = [one.bounds or (torch.nan, torch.nan) for one in curves[name].values()]
        low, high = zip(*bounds, strict=True)
        axes.fill_between(places, low, high, color=look.color, alpha=0.13, linewidth=0)
    values = {
        name: (list(curve), [one.value for one in curve.values()]) for name, curve in curves.items()
    }
    draw_lines(values, axes)
    scale.finish(axes, "y", f"bands: {100 * level:g} % intervals", queries, from_lowest=True)
    add_legend(axes)
    return figure, axes


def draw_readings_of_steps(steps: Sequence[Mapping[str, Reading]], ax: Any) -> Any:
    """Draw a line for every name over the steps; fractions only, if there are any."""
    import_pyplot()
    if not steps:
        raise ValueError(NO_STEP)
    fractions = any(one.is_fraction for one in steps[0].values())
    lines = {
        one.title(name): torch.tensor([step[name].value for step in steps], dtype=torch.float64)
        for name, one in steps[0].items()
        if one.is_fraction == fractions
    }
    return draw_steps(lines, Scale("value of the metric", 0, 1 if fractions else None), ax)
