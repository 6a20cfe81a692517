"""The parts of pictures: lines over steps, rows of dots with intervals, bands.

Values stay fractions; only the labels of an axis are in percent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.display.reading import Reading, quantiles
from nextloc_metrics.display.style import (
    Scale,
    add_grid,
    add_legend,
    add_note,
    add_stripes,
    count,
    errors,
    import_pyplot,
    looks,
    make_axes,
    number_by_integers,
    points_across,
    styled,
    text_width,
)

# More lines than this are drawn as shades, and more groups over steps as the range of their values.
MOST_LINES = 12

NO_STEP = "`val` must hold the value of at least one step, got none."

# Markers on a line.
_MARKED = 7


@styled
def draw_steps(
    series: Mapping[str, Tensor] | Sequence[Tensor], scale: Scale, ax: Any, title: str = ""
) -> Any:
    """Draw values over steps: lines, shades if there are many, or the range of many groups."""
    if isinstance(series, Mapping) and len(series) > MOST_LINES:
        return _draw_shades(series, scale, ax)
    figure, axes = make_axes(ax)
    order = None
    if isinstance(series, Mapping):
        for number, (name, look) in enumerate(zip(series, looks(len(series)), strict=True)):
            axes.plot(
                range(len(series[name])),
                series[name].tolist(),
                color=look.color,
                linestyle=look.dash,
                marker=look.marker,
                markevery=_marks(len(series[name]), number, len(series)),
                clip_on=False,
                label=name or None,
            )
        order = _by_last([values.tolist() for values in series.values()])
    else:
        title = _draw_ranges(axes, series, title)
    axes.set_xlabel("step")
    number_by_integers(axes.xaxis)
    scale.label(axes.yaxis)
    add_note(axes, scale.fit(axes))
    add_grid(axes, "y")
    add_legend(axes, title, order=order)
    return figure, axes


def _draw_ranges(axes: Any, series: Sequence[Tensor], group: str) -> str:
    """Draw the median of groups and the ranges around it; return the title of the legend."""
    steps = range(len(series))
    at_steps = [quantiles(values, (0.05, 0.25, 0.5, 0.75, 0.95)) for values in series]
    ranges = list(zip(*at_steps, strict=True))
    for low, high, color, label in ((0, 4, "0.87", "5 to 95 %"), (1, 3, "0.7", "25 to 75 %")):
        axes.fill_between(
            steps, ranges[low], ranges[high], color=color, label=label, edgecolor="0.5"
        )
    axes.plot(steps, ranges[2], color="black", marker="o", label="median")
    return f"of {count(len(series[0]), group or 'group')}"


def _marks(points: int, number: int, lines: int) -> Any:
    """Return which points of a line have a marker, other ones for every line."""
    every = max(1, points // _MARKED)
    return (number * every // max(1, lines), every)


def _by_last(lines: Sequence[Sequence[float]]) -> list[int]:
    """Return the order of lines from the highest end to the lowest."""
    ends = [next((y for y in reversed(line) if y == y), -math.inf) for line in lines]
    return sorted(range(len(ends)), key=lambda i: -ends[i])


def _draw_shades(series: Mapping[str, Tensor], scale: Scale, ax: Any) -> Any:
    """Draw a row of shades for every name, a column for every step."""
    figure, axes = make_axes(ax, 6.4, 1.2 + 0.16 * len(series))
    values = torch.stack(list(series.values())).numpy()
    image = axes.imshow(
        values,
        cmap="Greys",
        aspect="auto",
        interpolation="none",
        vmin=scale.lower,
        vmax=scale.upper,
    )
    axes.patch.set(hatch="////", facecolor="white")  # seen where there are no data
    axes.set_yticks(range(len(series)), list(series), fontsize=7)
    axes.set_xlabel("step")
    number_by_integers(axes.xaxis)
    add_note(axes, "hatched: no data" if (values != values).any() else "")
    bar = figure.colorbar(image, ax=axes)
    scale.label(bar.ax.yaxis)
    return figure, axes


@styled
def draw_readings(
    models: Mapping[str, Mapping[str, Reading]],
    confidence: float | None,
    ax: Any,
    queries: str = "",
) -> Any:
    """Draw dots and their intervals, a row for every name.

    Args:
        models: the readings by name, for every model.
        confidence: of the intervals; None if there are none.
        ax: the axes to draw on; None makes a figure.
        queries: how many queries were counted, for the note.
    """
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    titles = [
        next(readings[name].title(name) for readings in models.values() if name in readings)
        for name in names
    ]
    figure, axes = make_axes(ax, 6.4, 0.8 + 0.1 * len(names) * (1.3 + len(models)))
    fractions = any(one.is_fraction for readings in models.values() for one in readings.values())
    add_stripes(axes, len(names))
    for number, (model, look) in enumerate(zip(models, looks(len(models)), strict=True)):
        shift = 0.64 * ((number + 0.5) / len(models) - 0.5)
        rows = {row + shift: models[model].get(name) for row, name in enumerate(names)}
        drawn = {y: one for y, one in rows.items() if one and one.is_fraction == fractions}
        drawn = {y: one for y, one in drawn.items() if one.value == one.value}
        values = [one.value for one in drawn.values()]
        bounds = [one.bounds or (one.value, one.value) for one in drawn.values()]
        axes.errorbar(
            values,
            list(drawn),
            xerr=errors(values, bounds),
            fmt=look.marker,
            color=look.color,
            elinewidth=1.2,
            clip_on=False,
            label=model or None,
        )
        for y, one in rows.items():
            if one and y not in drawn:
                text = "no data" if one.value != one.value else f"{one.value:.4g} (no fraction)"
                text = f"{model}: {text}" if model else text
                at = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 7}
                axes.annotate(text, (0.01, y), color=look.color, **at)
    axes.set_yticks(range(len(names)), titles)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)
    interval = "value" if confidence is None else f"value and {100 * confidence:g} % interval"
    scale = Scale(interval, 0, 1 if fractions else None)
    scale.label(axes.xaxis)
    without = [] if confidence is None else _without_interval(models, names)
    add_note(axes, queries, scale.fit(axes, "x"), _explain_absent(without))
    add_grid(axes, "x")
    add_legend(axes, where="beside")
    return figure, axes


def _without_interval(
    models: Mapping[str, Mapping[str, Reading]], names: Sequence[str]
) -> list[str]:
    """List the names that have a value, but an interval in no model."""
    found = {name: [x[name] for x in models.values() if name in x] for name in names}
    return [
        name
        for name, readings in found.items()
        if any(one.value == one.value for one in readings)
        and not any(one.bounds or one.note for one in readings)
    ]


def _explain_absent(names: Sequence[str]) -> str:
    """Write which values have no interval, and why."""
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    why = "the value is not a mean over queries"
    return f"no interval for {shown}: {why}"


@styled
def draw_audit(
    models: Mapping[str, Mapping[str, tuple[float, float, float]]],
    exact: Mapping[str, float],
    k: int,
    ax: Any,
) -> Any:
    """Draw a dot per protocol, the range that ties leave open, and a line for the exact value.

    Args:
        models: by model and protocol, the value and the ends of its range.
        exact: the exact value by model.
        k: the cut-off of the accuracy.
        ax: the axes to draw on; None makes a figure.
    """
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    figure, axes = make_axes(ax, 6.4, 0.8 + 0.1 * len(names) * (1 + len(models)))
    add_stripes(axes, len(names))
    for number, (model, look) in enumerate(zip(models, looks(len(models)), strict=True)):
        shift = 0.64 * ((number + 0.5) / len(models) - 0.5)
        found = models[model]
        values = [value for value, *_ in found.values()]
        label = f"{model} exact".strip()
        axes.axvline(exact[model], color=look.color, linestyle=look.dash, linewidth=1, label=label)
        axes.errorbar(
            values,
            [names.index(name) + shift for name in found],
            xerr=errors(values, [bounds for _, *bounds in found.values()]),
            fmt=look.marker,
            color=look.color,
            elinewidth=1.2,
            label=f"{model} by protocol".strip(),
        )
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)
    scale = Scale(f"Accuracy@{k}", 0, 1)
    scale.label(axes.xaxis)
    add_note(axes, "whiskers: the range that ties leave open", scale.fit(axes, "x"))
    add_grid(axes, "x")
    add_legend(axes, where="beside")
    return figure, axes


def draw_bands(curves: Mapping[str, Mapping[Any, Reading]], axes: Any) -> list[int]:
    """Draw a line for every name over the numbers of its readings, in the band of intervals.

    Returns:
        The order of the lines, from the highest end to the lowest.
    """
    for number, (name, look) in enumerate(zip(curves, looks(len(curves)), strict=True)):
        places, readings = list(curves[name]), list(curves[name].values())
        bounds = [reading.bounds or (torch.nan, torch.nan) for reading in readings]
        low, high = zip(*bounds, strict=True)
        axes.fill_between(places, low, high, color=look.color, alpha=0.13, linewidth=0)
        for edge in (low, high):  # which part bands that overlap
            axes.plot(places, edge, "-", color=look.color, linewidth=0.5, label="_edge")
        axes.plot(
            places,
            [reading.value for reading in readings],
            color=look.color,
            linestyle=look.dash,
            marker=look.marker,
            markevery=_marks(len(places), number, len(curves)),
            clip_on=False,
            label=name or None,
        )
    lines = [[reading.value for reading in curve.values()] for curve in curves.values()]
    return _by_last(lines)


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


@styled
def draw_dot(
    value: float, bounds: Sequence[float] | None, scale: Scale, ax: Any, queries: int | None = None
) -> Any:
    """Draw one value and its interval in a thin row, below the sentence that says the same."""
    figure, axes = make_axes(ax, 5.2, 0.95)
    parts = ["no data" if value != value else scale.write(value)]
    if bounds is not None and value == value:
        parts.append(f"95 % interval {scale.write_interval(*bounds)}")
    if queries is not None:
        parts.append(count(queries, "query"))
    line = ", ".join(parts)
    room = points_across(axes) - text_width([scale.name], 9)
    text = line if text_width([line]) < room else ",\n".join(parts)
    axes.errorbar(
        [value],
        [0],
        xerr=None if bounds is None else errors([value], [bounds]),
        fmt="o",
        color=looks(1)[0].color,
        clip_on=False,
    )
    axes.annotate(text, (0.5, 0.62), xycoords="axes fraction", ha="center", va="center", fontsize=8)
    axes.set_ylabel(scale.name, rotation=0, ha="right", va="center")
    axes.set_yticks([])
    axes.set_ylim(-0.5, 2.5)
    Scale("", scale.lower, scale.upper).label(axes.xaxis)
    scale.fit(axes, "x", from_lowest=True)
    if scale.upper is not None:  # where a value lies says something only among all possible ones
        axes.set_xlim(scale.lower, scale.upper)
    add_grid(axes, "x")
    return figure, axes
