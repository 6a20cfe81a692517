"""What pictures are drawn of: lines over steps, dots with intervals, bars, histograms.

Values stay the fractions that they are; only the labels of an axis are percent. Colours fall from
dark to light, and markers, dashes or hatches differ with them, so that nothing is lost in grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.report.readings import Reading, quantiles

# More groups than this are drawn as how often each value occurs,
MOST_BARS = 30
# and more of them over steps than this as the range that they are in.
MOST_LINES = 12

NO_STEP = "`val` must hold the value of at least one step, got none."

# Characters of a group's name beside an axis.
_LONGEST_LABEL = 24

_MARKERS = "os^Dv*"
_DASHES = ("-", "--", ":", "-.")


class Scale(NamedTuple):
    """What an axis of values shows."""

    name: str
    lower: float | None
    upper: float | None

    def label(self, axis: Any) -> None:
        """Name an axis, and write its fractions as percent."""
        axis.set_label_text(self.name)
        if self.upper == 1:
            axis.set_major_formatter(lambda value, _place: f"{100 * value:.6g} %")

    def write(self, value: float) -> str:
        """Write a value as the axis does."""
        return f"{100 * value:.2f} %" if self.upper == 1 else f"{value:.4g}"


def draw_steps(
    series: Mapping[str, Tensor] | Sequence[Tensor], scale: Scale, ax: Any, title: str = ""
) -> Any:
    """Draw values over steps: lines, shades where they are many, or the range of many groups."""
    if isinstance(series, Mapping) and len(series) > MOST_LINES:
        return _draw_shades(series, scale, ax)
    figure, axes = make_axes(ax)
    if isinstance(series, Mapping):
        for name, color, marker, dash in styles(series):
            steps = len(series[name])
            axes.plot(
                range(steps),
                series[name].tolist(),
                color=color,
                linestyle=dash,
                marker=marker,
                markevery=max(1, steps // 20),
                clip_on=False,
                label=name or None,
            )
    else:
        steps = len(series)
        shares = (0.05, 0.25, 0.5, 0.75, 0.95)
        at_steps = [quantiles(values, shares) for values in series]
        ranges = list(zip(*at_steps, strict=True))
        for low, high, color, label in ((0, 4, "0.85", "5 to 95 %"), (1, 3, "0.65", "25 to 75 %")):
            axes.fill_between(range(steps), ranges[low], ranges[high], color=color, label=label)
        axes.plot(range(steps), ranges[2], color="black", marker="o", label="median")
        title = f"of {_plural(title)}"
    axes.set_xlabel("Step")
    number_by_integers(axes.xaxis)
    axes.set_ylim(scale.lower, scale.upper)
    scale.label(axes.yaxis)
    axes.grid(alpha=0.3)
    add_legend(axes, title)
    return figure, axes


def _draw_shades(series: Mapping[str, Tensor], scale: Scale, ax: Any) -> Any:
    """Draw a row of shades for every name, a column for every step."""
    figure, axes = make_axes(ax, 6.4, 1.2 + 0.18 * len(series))
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
    axes.set_yticks(range(len(series)), list(series), fontsize="small")
    axes.set_xlabel("Step (hatched: no data)" if (values != values).any() else "Step")
    number_by_integers(axes.xaxis)
    bar = figure.colorbar(image, ax=axes)
    scale.label(bar.ax.yaxis)
    return figure, axes


def draw_readings(
    models: Mapping[str, Mapping[str, Reading]], confidence: float | None, ax: Any
) -> Any:
    """Draw dots and their intervals, a row for every name."""
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    titles = [
        next(readings[name].title(name) for readings in models.values() if name in readings)
        for name in names
    ]
    figure, axes = make_axes(ax, 6.4, 1.2 + 0.11 * len(names) * (1.5 + len(models)))
    fractions = any(one.is_fraction for readings in models.values() for one in readings.values())
    for row in range(1, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="0.95", zorder=0)
    for place, (model, color, marker, _) in enumerate(styles(models)):
        shift = 0.6 * ((place + 0.5) / len(models) - 0.5)
        rows = {row + shift: models[model].get(name) for row, name in enumerate(names)}
        drawn = {y: one for y, one in rows.items() if one and one.is_fraction == fractions}
        drawn = {y: one for y, one in drawn.items() if one.value == one.value}
        values = [one.value for one in drawn.values()]
        bounds = [one.bounds or (one.value, one.value) for one in drawn.values()]
        axes.errorbar(
            values,
            list(drawn),
            xerr=_errors(values, bounds),
            fmt=marker,
            color=color,
            markersize=5,
            elinewidth=1.5,
            capsize=2.5,
            label=model or None,
        )
        for y, one in rows.items():
            if one and y not in drawn:
                text = "no data" if one.value != one.value else f"{one.value:.4g} (no fraction)"
                text = f"{model}: {text}" if model else text
                axes.annotate(
                    text,
                    (0.01, y),
                    xycoords=("axes fraction", "data"),
                    va="center",
                    fontsize="x-small",
                    color=color,
                )
    axes.set_yticks(range(len(names)), titles)
    axes.set_ylim(len(names) - 0.5, -0.5)
    if fractions:
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, -0.02), min(high, 1.02))
    interval = "value" if confidence is None else f"value and {100 * confidence:g} % interval"
    Scale(interval, 0, 1 if fractions else None).label(axes.xaxis)
    axes.grid(axis="x", alpha=0.3)
    add_legend(axes, beside=True)
    return figure, axes


def draw_audit(
    models: Mapping[str, Mapping[str, tuple[float, float, float]]],
    exact: Mapping[str, float],
    k: int,
    ax: Any,
) -> Any:
    """Draw a dot per protocol, with the range that ties leave open, around the exact value.

    Args:
        models: by model and protocol, the value and the ends of its range.
        exact: by model.
        k: the cut-off of the accuracy.
        ax: the axes to draw on; None makes a figure.
    """
    import_pyplot()
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    figure, axes = make_axes(ax, 6.4, 1.2 + 0.13 * len(names) * (1.2 + len(models)))
    for row in range(1, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="0.95", zorder=0)
    for place, (model, color, marker, dash) in enumerate(styles(models)):
        shift = 0.6 * ((place + 0.5) / len(models) - 0.5)
        found = models[model]
        values = [value for value, *_ in found.values()]
        axes.axvline(
            exact[model], color=color, linestyle=dash, linewidth=1, label=f"{model} exact".strip()
        )
        axes.errorbar(
            values,
            [names.index(name) + shift for name in found],
            xerr=_errors(values, [bounds for _, *bounds in found.values()]),
            fmt=marker,
            color=color,
            markersize=5,
            elinewidth=1,
            label=f"{model} by protocol".strip(),
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    Scale(f"accuracy within {k}", 0, 1).label(axes.xaxis)
    axes.grid(axis="x", alpha=0.3)
    add_legend(axes, beside=True)
    return figure, axes


def draw_bands(curves: Mapping[str, Mapping[Any, Reading]], axes: Any) -> None:
    """Draw a line for every name, over the numbers of its readings, in the band of intervals."""
    for name, color, marker, dash in styles(curves):
        places, readings = list(curves[name]), list(curves[name].values())
        axes.plot(
            places,
            [reading.value for reading in readings],
            color=color,
            linestyle=dash,
            marker=marker if len(places) <= MOST_LINES else None,
            label=name or None,
        )
        bounds = [reading.bounds or (torch.nan, torch.nan) for reading in readings]
        axes.fill_between(places, *zip(*bounds, strict=True), color=color, alpha=0.25, linewidth=0)


def draw_readings_of_steps(steps: Sequence[Mapping[str, Reading]], ax: Any) -> Any:
    """Draw a line for every name over the steps; fractions only, where there are any."""
    import_pyplot()
    if not steps:
        raise ValueError(NO_STEP)
    fractions = any(one.is_fraction for one in steps[0].values())
    lines = {
        one.title(name): torch.tensor([step[name].value for step in steps], dtype=torch.float64)
        for name, one in steps[0].items()
        if one.is_fraction == fractions
    }
    return draw_steps(lines, Scale("value", 0, 1 if fractions else None), ax)


def draw_dot(value: float, bounds: list[float] | None, scale: Scale, ax: Any) -> Any:
    """Draw one value and the bounds of its interval."""
    figure, axes = make_axes(ax, 3.6, 4.0)
    text = "no data" if value != value else scale.write(value)
    if bounds is not None and value == value:
        low, high = map(scale.write, bounds)
        text += f"\n95 % interval:\n{low} to {high}"
    errors = None if bounds is None else _errors([value], [bounds])
    axes.errorbar([0], [value], errors, fmt="o", color="black", capsize=5, clip_on=False)
    at = (0.1, min(max(value, 0.12), 0.88) if scale.upper == 1 else value)
    at = (0.0, 0.5) if value != value else at
    axes.annotate(
        text, at, va="center", ha="center" if value != value else "left", fontsize="small"
    )
    axes.set_xlim(-0.5, 1.5)
    axes.get_xaxis().set_visible(False)
    axes.set_ylim(scale.lower, scale.upper)
    scale.label(axes.yaxis)
    axes.grid(alpha=0.3)
    return figure, axes


def draw_bars(
    heights: Tensor,
    bounds: Tensor | None,
    labels: list[str],
    scale: Scale,
    group: str,
    ax: Any,
) -> Any:
    """Draw a bar for every group in the order of the labels.

    Where these are numbers, a group that has none, such as `unmapped`, stands apart.
    """
    figure, axes = make_axes(ax)
    numbered = any(label.isdecimal() for label in labels)
    places, hatches = [0], []
    for label in labels:
        is_apart = numbered and not label.isdecimal()
        places.append(places[-1] + (2 if is_apart else 1))
        hatches.append("///" if is_apart else "")
    places = places[1:]
    bars = axes.bar(
        places,
        heights.nan_to_num(0).tolist(),
        color=["0.75" if hatch else "0.4" for hatch in hatches],
        edgecolor="black",
        hatch=hatches,
        linewidth=0.6,
    )
    if bounds is not None:
        values, limits = heights.tolist(), bounds.T.tolist()
        axes.errorbar(
            places, values, _errors(values, limits), fmt="none", color="black", capsize=2.5
        )
    missing = ["no data" if absent else "" for absent in heights.isnan().tolist()]
    axes.bar_label(bars, missing, padding=3, rotation=90, fontsize="small", color="0.3")
    every = 1 if len(labels) <= MOST_LINES + 2 else 5
    shown = [i for i, hatch in enumerate(hatches) if i % every == 0 or hatch]
    axes.set_xticks([places[i] for i in shown], [_fit(labels[i]) for i in shown])
    for label in axes.get_xticklabels():
        if not label.get_text().isdecimal():
            label.set_fontsize("small")
            label.set_rotation(0 if numbered else 60)
    axes.set_xlabel(group)
    axes.set_ylim(scale.lower, scale.upper)
    scale.label(axes.yaxis)
    return figure, axes


def draw_histogram(values: Tensor, scale: Scale, group: str, ax: Any) -> Any:
    """Draw how many groups have which value."""
    figure, axes = make_axes(ax)
    known = values[~values.isnan()]
    limits = (scale.lower, scale.upper) if scale.upper is not None else None
    axes.hist(known.numpy(), bins=25, range=limits, color="0.65", edgecolor="black", linewidth=0.6)
    if len(known):
        (median,) = quantiles(known, [0.5])
        axes.axvline(median, color="black", linestyle="--", label=f"median {scale.write(median)}")
        axes.axvline(
            float(known.mean()),
            color="black",
            linestyle=":",
            label=f"mean {scale.write(float(known.mean()))}",
        )
    without = len(values) - len(known)
    absent = f", {without:,} without data" if without else ""
    plural = _plural(group)
    axes.set_ylabel(f"number of {plural}")
    axes.set_xlim(scale.lower, scale.upper)
    scale.label(axes.xaxis)
    add_legend(axes, f"{len(known):,} {plural}{absent}")
    return figure, axes


def import_pyplot() -> Any:
    """Return matplotlib's pyplot, or raise with what to install."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "pictures need matplotlib; install it with `pip install 'nextloc-metrics[plot]'`."
        ) from error
    return pyplot


def make_axes(ax: Any, width: float = 6.4, height: float = 4.2) -> Any:
    """Return the figure and the axes to draw on."""
    if ax is not None:
        return ax.figure, ax
    return import_pyplot().subplots(figsize=(width, height), layout="constrained")


def styles(names: Any) -> list[tuple[str, Any, str, str]]:
    """Give every name a colour, a marker and a dash."""
    from matplotlib import colormaps

    names = list(names)
    colors = colormaps["viridis"](torch.linspace(0, 0.75, len(names)).numpy())
    return [
        (name, tuple(color), _MARKERS[i % len(_MARKERS)], _DASHES[i % len(_DASHES)])
        for i, (name, color) in enumerate(zip(names, colors, strict=True))
    ]


def add_legend(axes: Any, title: str = "", beside: bool = False) -> None:
    """Name the lines: beside the picture, at least where they are many."""
    _, labels = axes.get_legend_handles_labels()
    title = title.replace(" (", "\n(")
    if not labels:
        return
    if len(labels) <= 5 and not beside:
        axes.legend(title=title, loc="best", framealpha=0.9)
    else:
        axes.legend(
            title=title,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            ncols=-(-len(labels) // 20),
            fontsize="small",
            frameon=False,
        )


def _fit(label: str) -> str:
    """Cut the name of a group, so that the names leave room for the picture."""
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def _plural(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("y") else f"{noun}s"


def number_by_integers(axis: Any, ticks: Sequence[int] = ()) -> None:
    """Put ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    if ticks:
        axis.set_ticks(ticks)
    else:
        axis.set_major_locator(MaxNLocator(integer=True))


def _errors(values: Sequence[float], bounds: Sequence[Sequence[float]]) -> Any:
    """Return how far the bounds are from the values, below and above."""
    ends = torch.tensor(bounds, dtype=torch.float64).reshape(-1, 2).T
    middle = torch.tensor(values, dtype=torch.float64)
    return torch.stack([middle - ends[0], ends[1] - middle]).clamp(min=0).numpy()
