"""The parts of pictures: rows of dots with intervals, lines, bands.

Values stay fractions; only the labels of an axis are in percent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch

from nextloc_metrics.core.display.reading import Models, Reading, footnotes_of
from nextloc_metrics.core.display.style import Scale, add_legend, looks, make_axes, style

# The most markers on a line, and the largest distance between the dots of a row.
_MARKED, _APART = 7, 0.64


@style()
def draw_readings(models: Models, level: float | None, ax: Any, queries: str = "") -> Any:
    """Draw dots and their intervals, a row for every name.

    `level` is that of the intervals, None for none; `queries` is their number, for the note.
    """
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    titles = [next(x[name].title(name) for x in models.values() if name in x) for name in names]
    every = {name: [x[name] for x in models.values() if name in x] for name in names}
    daggers = [max(one.dagger for one in every[name]) for name in names]
    titles = [title + dagger for title, dagger in zip(titles, daggers, strict=True)]
    figure, axes = make_axes(ax, 6.4, 0.8 + 0.1 * len(titles) * (1.3 + len(models)))
    axes.set_yticks(range(len(titles)), titles)
    axes.set_ylim(len(titles) - 0.5, -0.5)
    fractions = any(one.is_fraction for readings in models.values() for one in readings.values())
    for (model, readings), look in zip(models.items(), looks(models).values(), strict=True):
        rows = {names.index(x) + _APART * look.shift: one for x, one in readings.items()}
        valued = [(row, one) for row, one in rows.items() if one.value == one.value]
        drawn = {row: one for row, one in valued if one.is_fraction == fractions}
        if drawn:
            values = [one.value for one in drawn.values()]
            bounds = [one.bounds or (one.value, one.value) for one in drawn.values()]
            look.draw_dots(axes, values, list(drawn), model, bounds, "x")
        for row, reading in rows.items():
            if row not in drawn:
                value = reading.value
                text = "no data" if value != value else f"{value:.4g} (no fraction)"
                at: Any = {"xycoords": ("axes fraction", "data"), "va": "center"}
                axes.annotate(f"{model}: {text}" if model else text, (0.01, row), **at)
    interval = "value" if level is None else f"value and {100 * level:g} % interval"
    absent = "" if level is None else _explain_absent(models, names)
    limits = (0, 1) if fractions else (None, None)
    notes = footnotes_of(chain.from_iterable(every.values()))
    add_legend(axes)
    Scale(interval, *limits).finish(axes, "x", queries, absent, *notes)
    return figure, axes


def _explain_absent(models: Models, names: Sequence[str]) -> str:
    """Write which names have a value but in no model an interval, and why."""
    without = []
    for name in names:
        shown = [x[name] for x in models.values() if name in x and x[name].value == x[name].value]
        if shown and not any(one.bounds or one.note for one in shown):
            without.append(name)
    more = f" and {len(without) - 3} more" if len(without) > 3 else ""
    text = f"no interval for {', '.join(without[:3])}{more}: the value is not a mean over queries"
    return text if without else ""


@style()
def draw_bands(
    curves: Mapping[str, Mapping[Any, Reading]], scale: Scale, level: float, ax: Any, queries: str
) -> Any:
    """Draw lines over the numbers of readings, in the bands of their intervals."""
    figure, axes = make_axes(ax)
    for name, look in looks(curves).items():
        places = list(curves[name])
        bounds = [one.bounds or (torch.nan, torch.nan) for one in curves[name].values()]
        low, high = zip(*bounds, strict=True)
        axes.fill_between(places, low, high, color=look.color, alpha=0.13, linewidth=0)
        options = {"color": look.color, "linestyle": look.dash, "marker": look.marker}
        options |= {"markevery": max(1, len(places) // _MARKED), "label": name or None}
        axes.plot(places, [one.value for one in curves[name].values()], **options, clip_on=False)
    add_legend(axes)
    scale.finish(axes, "y", f"bands: {100 * level:g} % intervals", queries, from_lowest=True)
    return figure, axes
