"""Pictures of groups: a bar or a dot for every one, or how often each value occurs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core.display.reading import plural, quantiles
from nextloc_metrics.core.display.style import (
    Scale,
    add_legend,
    add_note,
    add_stripes,
    count,
    errors,
    looks,
    make_axes,
    number_by_integers,
    points_across,
    style,
    text_width,
)

# More groups than this are drawn as how often each value occurs.
MOST_BARS = 30

# Characters of a group's name on an axis, and the points of room for names that are not upright.
_LONGEST_LABEL, _UPRIGHT = 24, 14

# The colours of bars, the share of a group's width for its dots, the size of numbers of queries.
_BAR, _BAR_APART, _APART, _SMALL = "#6699CC", "0.85", 0.76, 7


class Groups(NamedTuple):
    """The values of all groups of one model, in the order of their labels."""

    values: Tensor  #: NaN for a group without data
    bounds: Tensor | None = None  #: `[2, G]`, of the intervals
    numbers: Tensor | None = None  #: of queries


@style()
def draw_groups(
    models: Mapping[str, Groups],
    labels: Sequence[str],
    scale: Scale,
    group: str,
    ax: Any,
    confidence_level: float = 0.95,
) -> Any:
    """Draw every group in the order of the labels: bars for one model, dots for several.

    If labels are numbers, a group whose label is not, such as `unmapped`, stands apart.
    """
    figure, axes = make_axes(ax)
    places, apart = _places(labels)
    several, own = len(models) > 1, looks(models)
    if several:  # the dots of a group are seen together
        add_stripes(axes.axvspan, places)
    for name, found in models.items():
        values = found.values.tolist()
        bounds = None if found.bounds is None else found.bounds.T.tolist()
        if several:
            at = [place + _APART * own[name].shift for place in places]
            sizes = {"markersize": 4, "elinewidth": 1, "capsize": 1.5}
            own[name].draw_dots(axes, at, values, name, bounds, "y", **sizes)
        else:
            _draw_bars(axes, places, values, bounds, apart)
    _mark_absent(axes, places, models)
    axes.set_xlim(places[0] - 0.7, places[-1] + 0.7)
    has_intervals = any(one.bounds is not None for one in models.values())
    whiskers = f"whiskers: {100 * confidence_level:g} % intervals" if has_intervals else ""
    scale.finish(axes, "y", whiskers, from_lowest=not several)
    axes.set_xlabel(group)
    _name_groups(axes, places, labels, apart)
    numbers = {name: one.numbers for name, one in models.items() if one.numbers is not None}
    offset = _number_queries(axes, places, numbers) if numbers else 0
    add_legend(axes, where="above", offset=offset)
    return figure, axes


def _places(labels: Sequence[str]) -> tuple[list[int], list[bool]]:
    """Return where every group stands, and which ones stand apart from the numbered ones."""
    numbered = any(label.isdecimal() for label in labels)
    apart = [numbered and not label.isdecimal() for label in labels]
    places = [0]
    for is_apart in apart:
        places.append(places[-1] + (2 if is_apart else 1))
    return places[1:], apart


def _draw_bars(
    axes: Any, at: Sequence[float], values: Sequence[float], bounds: Any, apart: Sequence[bool]
) -> None:
    """Draw bars with whiskers, hatched where they stand apart."""
    heights = [0 if value != value else value for value in values]
    colors = [_BAR_APART if one else _BAR for one in apart]
    hatches = ["///" if one else "" for one in apart]
    axes.bar(at, heights, color=colors, hatch=hatches, edgecolor="0.2", linewidth=0.6)
    if bounds is not None:
        whiskers = errors(values, bounds)
        axes.errorbar(at, values, whiskers, fmt="none", color="black", elinewidth=0.9)
    tops = values if bounds is None else [high for _, high in bounds]
    for place, value, top in zip(at, values, tops, strict=True):
        if value == 0:  # unlike a group without data
            text = {"textcoords": "offset points", "ha": "center", "fontsize": 7}
            axes.annotate("0", (place, top), (0, 2), **text)


def _mark_absent(axes: Any, places: Sequence[float], models: Mapping[str, Groups]) -> None:
    """Write where a group has no data, in the colour of the model if others have some."""
    text = {"textcoords": "offset points", "rotation": 90, "ha": "center", "va": "bottom"}
    text |= {"xycoords": ("data", "axes fraction"), "fontsize": 7}
    for number, place in enumerate(places):
        marks = [
            (place + _APART * look.shift, look.color)
            for name, look in looks(models).items()
            if models[name].values[number].isnan()
        ]
        if len(marks) == len(models):
            marks = [(place, "0.3")]
        for x, color in marks:
            axes.annotate("no data", (x, 0.01), (0, 2), color=color, **text)


def _name_groups(
    axes: Any, places: Sequence[int], labels: Sequence[str], apart: Sequence[bool]
) -> None:
    """Write the labels below the groups, as many of them as there is room for."""
    room = points_across(axes) / (places[-1] - places[0] + 1.4)
    longest = _LONGEST_LABEL
    names = [x if len(x) <= longest else f"{x[: longest - 1]}…" for x in labels]
    numbers = [name for name in names if name.isdecimal()]
    every = next(n for n in (1, 2, 5, 10) if text_width(numbers) + 2 < n * room or n == 10)
    shown = [i for i, name in enumerate(names) if not name.isdecimal() or i % every == 0]
    axes.set_xticks([places[i] for i in shown], [names[i] for i in shown])
    words = text_width([name for name in names if not name.isdecimal()])
    if words + 4 < room * (1.6 if any(apart) else 1):
        return
    for label in axes.get_xticklabels():
        if not label.get_text().isdecimal():
            turned = 30 if any(apart) else 45 if room > _UPRIGHT else 90
            label.set(rotation=turned, ha="right", va="center", rotation_mode="anchor")


def _number_queries(axes: Any, places: Sequence[int], models: Mapping[str, Tensor]) -> float:
    """Write above every group how many queries it has; return how high that is, in points."""
    found = {name: one.tolist() for name, one in models.items()}
    equal = len({tuple(numbers) for numbers in found.values()}) == 1
    rows = list(found.values())[: 1 if equal else None]
    texts = ["\n".join(f"{int(row[i]):,}" for row in rows) for i in range(len(places))]
    of = "" if equal else f" ({', '.join(found)})"
    top = axes.secondary_xaxis("top")
    top.set_xticks(list(places), texts)
    top.tick_params(length=0, pad=1, labelsize=_SMALL, labelcolor="0.35")
    top.spines["top"].set_visible(False)
    top.set_xlabel(f"number of queries{of}", fontsize=_SMALL, color="0.35")
    width, height = text_width(texts, _SMALL), 1.3 * _SMALL * len(rows)
    room = points_across(axes) / (places[-1] - places[0] + 1.4)
    if width + 3 > room:
        top.tick_params(labelrotation=90)
        height = width
    return height + 2.2 * _SMALL


@style()
def draw_histogram(models: Mapping[str, Tensor], scale: Scale, group: str, ax: Any) -> Any:
    """Draw how many groups have which value: bars for one model, outlines for several."""
    figure, axes = make_axes(ax)
    known = {name: values[~values.isnan()] for name, values in models.items()}
    every = torch.cat(list(known.values()))
    low = scale.lower if scale.lower is not None else float(every.min()) if len(every) else 0.0
    high = float(every.max()) if len(every) else low
    limits = (low, high if high > low else scale.upper or low + 1)
    several = len(models) > 1
    for (name, values), look in zip(known.items(), looks(models).values(), strict=True):
        (median,) = quantiles(values, [0.5])
        if several:
            label = f"{name}, median {scale.write(median)}" if len(values) else name
            shown = {"histtype": "step", "linestyle": look.dash, "linewidth": 1.4, "label": label}
        else:
            shown = {"edgecolor": "0.2", "linewidth": 0.5}
        color = look.color if several else _BAR
        axes.hist(values.numpy(), bins=25, range=limits, color=color, **shown)
        if len(values) and not several:
            mean = float(values.mean())
            ends = ("median", median, "black", "-"), ("mean", mean, "#BB5566", (0, (1, 1)))
            for what, value, color, dash in ends:
                label = f"{what} {scale.write(value)}"
                axes.axvline(value, color=color, linestyle=dash, linewidth=1.6, label=label)
    note = scale.fit(axes, "x", from_lowest=True)
    Scale("", 0, None).fit(axes, from_lowest=True)
    axes.set_ylabel(f"number of {plural(group)}")
    number_by_integers(axes.yaxis)
    scale.label(axes.xaxis)
    add_note(axes, note)
    without = 0 if several else len(models[""]) - len(known[""])
    absent = f", {without:,} without data" if without else ""
    add_legend(axes, "" if several else f"{count(len(known['']), group)}{absent}")
    return figure, axes
