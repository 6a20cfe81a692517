"""Pictures: of a metric's value, of models side by side, and of accuracy within every k.

They need matplotlib, of the extra `plot`. Values stay the fractions that they are; only the labels
of an axis are percent. Colours fall from dark to light, and markers, dashes or hatches differ with
them, so that nothing is lost in grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.tables import Reading, quantiles

if TYPE_CHECKING:
    from nextloc_metrics.collection import RankingCollection

# More groups than this are drawn as how often each value occurs,
_MOST_BARS = 30
# and more of them over steps than this as the range that they are in.
_MOST_LINES = 12

_NO_STEP = "`val` must hold the value of at least one step, got none."

_MARKERS = "os^Dv*"
_DASHES = ("-", "--", ":", "-.")


class _Scale(NamedTuple):
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
    _pyplot()
    if not models:
        raise ValueError("`models` must hold a collection, got none.")
    readings = {name: model.readings(confidence, True) for name, model in models.items()}
    return plot_readings(readings, confidence, ax)


def accuracy_within_k(
    models: Mapping[str, RankingCollection] | RankingCollection,
    *,
    confidence: float = 0.95,
    ax: Any = None,
) -> Any:
    """Draw the accuracy within the first k places over k, one line a model, in its band.

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
    from nextloc_metrics.collection import RankingCollection  # which knows how to plot itself

    _pyplot()
    named = {"": models} if isinstance(models, RankingCollection) else models
    curves = {name: _accuracies(name, model, confidence) for name, model in named.items()}
    figure, axes = _figure(ax)
    for name, color, marker, dash in _styles(curves):
        ks, readings = list(curves[name]), list(curves[name].values())
        few = len(ks) <= _MOST_LINES
        axes.plot(
            ks,
            [reading.value for reading in readings],
            color=color,
            linestyle=dash,
            marker=marker if few else None,
            label=name or None,
        )
        bounds = [reading.bounds or (torch.nan, torch.nan) for reading in readings]
        axes.fill_between(ks, *zip(*bounds, strict=True), color=color, alpha=0.25, linewidth=0)
    ks = sorted({k for curve in curves.values() for k in curve})
    axes.set_xlabel("k (places in the ranked list)")
    _whole_numbers(axes.xaxis, ks if len(ks) <= _MOST_LINES else [])
    if len(ks) > _MOST_LINES:
        axes.set_xlim(ks[0], ks[-1])
    top = min(1.0, axes.get_ylim()[1])
    axes.set_ylim(0, top)
    _Scale(f"accuracy within k, {100 * confidence:g} % intervals", 0, 1).label(axes.yaxis)
    axes.grid(alpha=0.3)
    _legend(axes)
    return figure, axes


def _accuracies(name: str, model: RankingCollection, confidence: float) -> dict[int, Reading]:
    """Read a model's accuracies by k, in rising order."""
    from nextloc_metrics.metrics import AccuracyAtK  # which knows how to plot itself

    readings = model.readings(confidence, True)
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


# One metric --------------------------------------------------------------------------------------


def plot_metric(metric: Any, val: Any = None, ax: Any = None) -> Any:
    """Draw what a metric computed; see `RankingMetric.plot`."""
    _pyplot()
    bounds = None
    if val is None:
        val = metric.compute()
        bounds = metric.interval() if getattr(metric, "averages_scores", False) else None
    name = getattr(metric, "plot_label", type(metric).__name__)
    scale = _Scale(name, metric.plot_lower_bound, metric.plot_upper_bound)
    group = metric.plot_legend_name or "value"
    labels: dict[str, str] = getattr(metric, "plot_labels", {})
    if isinstance(val, Sequence) and not _is_queries(val):
        return plot_steps(_series(val, labels), scale, ax, group)
    if isinstance(val, Mapping):
        heights = _numbers([val[key] for key in labels])
        return _bars(heights, None, list(labels.values()), scale, group, ax)
    values = _numbers(val)
    if values.ndim > 1:
        raise ValueError(
            f"`val` must be one value, or one a {group}, got the shape {tuple(values.shape)}."
        )
    if _is_queries(val) or values.numel() > _MOST_BARS:
        return _histogram(values, scale, group, ax)
    limits = None if bounds is None else torch.stack([_numbers(bound) for bound in bounds])
    if values.ndim == 1:
        numbers = [str(number) for number in range(len(values))]
        return _bars(values, limits, numbers, scale, group, ax)
    # TorchMetrics makes the value of a single group a scalar
    return _dot(float(values), None if limits is None else limits.flatten().tolist(), scale, ax)


def plot_steps(
    series: Mapping[str, Tensor] | Sequence[Tensor], scale: _Scale, ax: Any, title: str = ""
) -> Any:
    """Draw values over steps: lines, shades where they are many, or the range of many groups."""
    if isinstance(series, Mapping) and len(series) > _MOST_LINES:
        return _shades(series, scale, ax)
    figure, axes = _figure(ax)
    if isinstance(series, Mapping):
        for name, color, marker, dash in _styles(series):
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
    _whole_numbers(axes.xaxis)
    axes.set_ylim(scale.lower, scale.upper)
    scale.label(axes.yaxis)
    axes.grid(alpha=0.3)
    _legend(axes, title)
    return figure, axes


def _shades(series: Mapping[str, Tensor], scale: _Scale, ax: Any) -> Any:
    """Draw a row of shades for every name, a column for every step."""
    figure, axes = _figure(ax, 6.4, 1.2 + 0.18 * len(series))
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
    _whole_numbers(axes.xaxis)
    bar = figure.colorbar(image, ax=axes)
    scale.label(bar.ax.yaxis)
    return figure, axes


def plot_readings(
    models: Mapping[str, Mapping[str, Reading]], confidence: float | None, ax: Any
) -> Any:
    """Draw dots and their intervals, a row for every name."""
    names = list(dict.fromkeys(chain.from_iterable(models.values())))
    titles = [
        next(readings[name].title(name) for readings in models.values() if name in readings)
        for name in names
    ]
    figure, axes = _figure(ax, 6.4, 1.2 + 0.11 * len(names) * (1.5 + len(models)))
    fractions = any(one.is_fraction for readings in models.values() for one in readings.values())
    for row in range(1, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="0.95", zorder=0)
    for place, (model, color, marker, _) in enumerate(_styles(models)):
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
    _Scale(interval, 0, 1 if fractions else None).label(axes.xaxis)
    axes.grid(axis="x", alpha=0.3)
    _legend(axes, beside=True)
    return figure, axes


def plot_readings_of_steps(steps: Sequence[Mapping[str, Reading]], ax: Any) -> Any:
    """Draw a line for every name over the steps; fractions only, where there are any."""
    _pyplot()
    if not steps:
        raise ValueError(_NO_STEP)
    fractions = any(one.is_fraction for one in steps[0].values())
    lines = {
        one.title(name): torch.tensor([step[name].value for step in steps], dtype=torch.float64)
        for name, one in steps[0].items()
        if one.is_fraction == fractions
    }
    return plot_steps(lines, _Scale("value", 0, 1 if fractions else None), ax)


def _dot(value: float, bounds: list[float] | None, scale: _Scale, ax: Any) -> Any:
    figure, axes = _figure(ax, 3.6, 4.0)
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


def _bars(
    heights: Tensor,
    bounds: Tensor | None,
    labels: list[str],
    scale: _Scale,
    group: str,
    ax: Any,
) -> Any:
    """Draw a bar for every group in the order of the labels, those that are no numbers apart."""
    figure, axes = _figure(ax)
    places, hatches = [0], []
    for label in labels:
        places.append(places[-1] + (1 if label.isdecimal() else 2))
        hatches.append("" if label.isdecimal() else "///")
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
    every = 1 if len(labels) <= _MOST_LINES + 2 else 5
    shown = [i for i, label in enumerate(labels) if i % every == 0 or not label.isdecimal()]
    axes.set_xticks([places[i] for i in shown], [labels[i] for i in shown])
    for label in axes.get_xticklabels():
        if not label.get_text().isdecimal():
            label.set_fontsize("small")
    axes.set_xlabel(group)
    axes.set_ylim(scale.lower, scale.upper)
    scale.label(axes.yaxis)
    return figure, axes


def _histogram(values: Tensor, scale: _Scale, group: str, ax: Any) -> Any:
    """Draw how many groups have which value."""
    figure, axes = _figure(ax)
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
    _legend(axes, f"{len(known):,} {plural}{absent}")
    return figure, axes


# What the pictures share -------------------------------------------------------------------------


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "pictures need matplotlib; install it with `pip install 'nextloc-metrics[plot]'`."
        ) from error
    return pyplot


def _figure(ax: Any, width: float = 6.4, height: float = 4.2) -> Any:
    if ax is not None:
        return ax.figure, ax
    return _pyplot().subplots(figsize=(width, height), layout="constrained")


def _styles(names: Any) -> list[tuple[str, Any, str, str]]:
    """Give every name a colour, a marker and a dash."""
    from matplotlib import colormaps

    names = list(names)
    colors = colormaps["viridis"](torch.linspace(0, 0.75, len(names)).numpy())
    return [
        (name, tuple(color), _MARKERS[i % len(_MARKERS)], _DASHES[i % len(_DASHES)])
        for i, (name, color) in enumerate(zip(names, colors, strict=True))
    ]


def _legend(axes: Any, title: str = "", beside: bool = False) -> None:
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


def _plural(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("y") else f"{noun}s"


def _whole_numbers(axis: Any, ticks: Sequence[int] = ()) -> None:
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
        raise ValueError(_NO_STEP)
    if isinstance(steps[0], Mapping):
        return {name: _numbers([step[key] for step in steps]) for key, name in names.items()}
    values = [_numbers(step) for step in steps]
    if values[0].ndim == 0:
        return {"": torch.stack(values)}
    if _is_queries(steps[0]) or values[0].numel() > _MOST_LINES:
        return values
    return {str(number): line for number, line in enumerate(torch.stack(values, 1))}
