"""Pictures: of a metric's value, of groups, of models side by side, of accuracy within every k.

They need matplotlib, which the extra `plot` installs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.checks import check_bool
from nextloc_metrics.collection import SummedCollection
from nextloc_metrics.intervals import check_confidence
from nextloc_metrics.messages import short
from nextloc_metrics.metrics import AccuracyAtK
from nextloc_metrics.report.bars import MOST_BARS, Groups, draw_groups, draw_histogram
from nextloc_metrics.report.drawing import (
    MOST_LINES,
    NO_STEP,
    draw_bands,
    draw_dot,
    draw_readings,
    draw_readings_of_steps,
    draw_steps,
)
from nextloc_metrics.report.maps import accuracy_within_km, distance_errors, error_map
from nextloc_metrics.report.readings import Reading, keys_of, read_counted, read_values
from nextloc_metrics.report.style import (
    Scale,
    add_grid,
    add_legend,
    add_note,
    import_pyplot,
    make_axes,
    number_by_integers,
    save,
    style,
    styled,
)

__all__ = [
    "accuracy_within_k",
    "accuracy_within_km",
    "by_group",
    "distance_errors",
    "error_map",
    "save",
    "side_by_side",
    "style",
]


def side_by_side(
    models: Mapping[str, SummedCollection], *, confidence: float = 0.95, ax: Any = None
) -> Any:
    """Draw the values of several models with their intervals, one row per metric.

    Overlapping intervals do not show that two models are equal. For models with the same queries,
    use [`analysis.compare`][nextloc_metrics.analysis.compare]. A value that is not a mean over
    queries has no interval, and the note below the picture names it. A value that is not a fraction
    is written in its row.

    Values are summed over processes, as by `compute`: call it on all of them.

    Args:
        models: one collection per model, by the name of the model. Members with the same name,
            without the prefix, share a row.
        confidence: the confidence level of the intervals.
        ax: the matplotlib axes to draw on; None makes a figure.

    Returns:
        The figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: `confidence` is not between 0 and 1, or there is no model.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, RankingCollection, plotting
        >>> metrics = RankingCollection({"mrr": MRR()})
        >>> metrics.update(tensor([[0, 1]]).expand(100, 2), tensor([0] * 30 + [1] * 70))
        >>> figure, axes = plotting.side_by_side({"Markov": metrics})
        >>> axes.get_xlabel()
        'value and 95 % interval'
    """
    import_pyplot()
    if not models:
        raise ValueError("`models` must hold a collection, got none.")
    found = {
        name: read_counted(model, confidence, keep_base=True) for name, model in models.items()
    }
    readings = {name: one for name, (one, _) in found.items()}
    queries = _join_counts({name: number for name, (_, number) in found.items()})
    return draw_readings(readings, confidence, ax, queries)


def _join_counts(queries: Mapping[str, str]) -> str:
    """Write the number of queries, of every model where they differ."""
    if len(set(queries.values())) == 1:
        return next(iter(queries.values()))
    return ", ".join(f"{name}: {number}" for name, number in queries.items() if number)


def by_group(models: Mapping[str, Any] | Any, *, confidence: float = 0.95, ax: Any = None) -> Any:
    """Draw a metric of every group, or of every decile, for several models in one panel.

    One model is drawn as bars, several as dots, with the intervals that the metric has. The number
    of queries is written above every group. More than thirty groups are drawn as a histogram of
    their values.

    Values are summed over processes, as by `compute`: call it on all of them.

    Args:
        models: one metric per model, by the name of the model, such as
            `Grouped(AccuracyAtK(1), 24, by="hour")` or `DecileNDCG(bins, k=5)`; or one metric
            without a name. All must have the same groups.
        confidence: the confidence level of the interval of each group.
        ax: the matplotlib axes to draw on; None makes a figure.

    Returns:
        The figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `models` holds a collection.
        ValueError: `confidence` is not between 0 and 1, there is no model, a metric has one value
            only, or the groups differ.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import AccuracyAtK, Grouped, plotting
        >>> def accuracy(best):
        ...     metric = Grouped(AccuracyAtK(1), labels=["work", "leisure"], by="purpose")
        ...     metric.update(tensor(best)[:, None], [0, 1, 2], groups=["work", "work", "leisure"])
        ...     return metric
        >>> models = {"Markov": accuracy([0, 0, 0]), "GRU": accuracy([0, 1, 0])}
        >>> figure, axes = plotting.by_group(models)
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('purpose', 'Accuracy@1')
    """
    import_pyplot()
    check_confidence(confidence)
    named = models if isinstance(models, Mapping) else {"": models}
    if not named:
        raise ValueError("`models` must hold a metric, got none.")
    labels: list[str] = []
    found: dict[str, Groups] = {}
    for name, metric in named.items():
        own, found[name] = _read_groups(name, metric, confidence)
        labels = labels or own
        if own != labels:
            raise ValueError(
                f"`models` must have the same groups, got {short(labels)} and {short(own)} in "
                f"{name}."
            )
    metric = next(iter(named.values()))
    scale = Scale(metric.plot_label, metric.plot_lower_bound, metric.plot_upper_bound)
    if len(labels) > MOST_BARS:
        values = {name: one.values for name, one in found.items()}
        return draw_histogram(values, scale, _noun(metric), ax)
    return draw_groups(found, labels, scale, _noun(metric), ax, confidence)


def _read_groups(name: str, metric: Any, confidence: float) -> tuple[list[str], Groups]:
    """Return the labels of a metric's groups, with values, intervals and numbers of queries."""
    if isinstance(metric, SummedCollection):
        raise TypeError(f"`models` must hold metrics, got a collection for {name}; pass a member.")
    value = metric.compute()
    keys: dict[str, str] = getattr(metric, "plot_labels", {})
    bounds = _read_bounds(metric, confidence)
    counted = _read_numbers(metric)
    numbers = counted if isinstance(counted, Tensor) else None
    if isinstance(value, Mapping) and keys:
        order = [list(value).index(key) for key in keys]
        own = Groups(
            _numbers([value[key] for key in keys]),
            None if bounds is None else torch.stack([_numbers(bounds[key]) for key in keys], 1),
            None if numbers is None else numbers[order],
        )
        return list(keys.values()), own
    values = _numbers(value)
    names = getattr(metric, "group_names", [str(number) for number in range(values.numel())])
    if values.numel() != len(names) or (values.ndim == 0 and not hasattr(metric, "group_names")):
        raise ValueError(
            f"`models` must have a value for every group, got one value of {short(metric)}"
            f"{f' for {name}' if name else ''}."
        )
    limits = None if bounds is None else _numbers(bounds).reshape(2, -1)
    return list(names), Groups(values.flatten(), limits, numbers)


def _read_bounds(metric: Any, confidence: float = 0.95) -> Any:
    """Return the intervals of a metric, in the form of its values; None if it has none."""
    if not hasattr(metric, "interval"):
        return None
    try:
        return metric.interval(confidence)
    except TypeError:  # the value is not a mean of scores
        return None


def _read_numbers(metric: Any) -> Any:
    """Return the number of queries on all processes, of every group if they are counted so."""
    if not hasattr(metric, "num_queries") or not hasattr(metric, "of_all_processes"):
        return None
    numbers = metric.of_all_processes(lambda: metric.num_queries)
    return numbers.cpu() if isinstance(numbers, Tensor) else numbers


def _noun(metric: Any) -> str:
    """Return what a group of the metric is, such as `hour`."""
    return getattr(metric, "by", None) or metric.plot_legend_name or "value"


@styled
def accuracy_within_k(
    models: Mapping[str, SummedCollection] | SummedCollection,
    *,
    confidence: float = 0.95,
    ax: Any = None,
) -> Any:
    """Draw the accuracy within the first k ranks over k, one line with a band per model.

    The band joins the confidence intervals of every k. The confidence level holds for each
    interval alone; the probability that all intervals contain the true accuracy is lower.

    Values are summed over processes, as by `compute`: call it on all of them.

    Args:
        models: a collection with an `AccuracyAtK` for every k, such as
            `next_location_metrics(num_locations, k=range(1, 51))`; or one collection per model, by
            the name of the model. A member `Grouped(AccuracyAtK(k), ..., average="queries")` has
            its clustered interval. Other members are not drawn.
        confidence: the confidence level of each interval.
        ax: the matplotlib axes to draw on; None makes a figure.

    Returns:
        The figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: a collection has no `AccuracyAtK`, or several of one k; or `confidence` is not
            between 0 and 1.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import next_location_metrics, plotting
        >>> metrics = next_location_metrics(num_locations=2, k=range(1, 3))
        >>> metrics.update(tensor([[0, 1]]).expand(100, 2), tensor([0] * 30 + [1] * 70))
        >>> figure, axes = plotting.accuracy_within_k({"Markov": metrics})
        >>> axes.get_ylabel()
        'accuracy within k'
    """
    named = {"": models} if isinstance(models, SummedCollection) else models
    found = {name: _accuracies(name, model, confidence) for name, model in named.items()}
    curves = {name: curve for name, (curve, _) in found.items()}
    figure, axes = make_axes(ax)
    order = draw_bands(curves, axes)
    ks = sorted({k for curve in curves.values() for k in curve})
    axes.set_xlabel("k (number of ranks that count)")
    number_by_integers(axes.xaxis, ks if len(ks) <= MOST_LINES else [])
    if len(ks) > MOST_LINES:
        axes.set_xlim(ks[0], ks[-1])
    scale = Scale("accuracy within k", 0, 1)
    scale.label(axes.yaxis)
    note = scale.fit(axes, from_lowest=True)
    queries = _join_counts({name: number for name, (_, number) in found.items()})
    add_note(axes, f"bands: {100 * confidence:g} % intervals", queries, note)
    add_grid(axes, "y")
    add_legend(axes, order=order)
    return figure, axes


def _accuracies(
    name: str, model: SummedCollection, confidence: float
) -> tuple[dict[int, Reading], str]:
    """Read a model's accuracies by k, in rising order, and its number of queries."""
    readings, queries = read_counted(model, confidence, keep_base=True)
    found: dict[int, Reading] = {}
    for key, member in model.items(keep_base=True, copy_state=False):
        metric = getattr(member, "metric", member)
        if isinstance(metric, AccuracyAtK) and not readings[key].note:
            if metric.k in found:
                raise ValueError(
                    f"`models` must have one accuracy for every k, got several within {metric.k} "
                    f"in {name or 'the collection'}; remove all but one of them."
                )
            found[metric.k] = readings[key]
    if not found:
        raise ValueError(
            f"`models` must have members AccuracyAtK, and {name or 'the collection'} has none; "
            "make it with `next_location_metrics(num_locations, k=range(1, 51))`."
        )
    return dict(sorted(found.items())), queries


def plot_metric(metric: Any, val: Any = None, ax: Any = None) -> Any:
    """Draw what a metric computed; see `RankingMetric.plot`."""
    import_pyplot()
    scale = Scale(
        getattr(metric, "plot_label", type(metric).__name__),
        metric.plot_lower_bound,
        metric.plot_upper_bound,
    )
    labels: dict[str, str] = getattr(metric, "plot_labels", {})
    bounds, queries = None, None
    if val is None:
        val = metric.compute()
        if isinstance(val, Mapping) or (not _is_queries(val) and val.ndim):
            return by_group(metric, ax=ax)
        bounds, queries = _read_bounds(metric), _read_numbers(metric)
    group = _noun(metric)
    if isinstance(val, Sequence) and not _is_queries(val):
        return draw_steps(_series(val, labels), scale, ax, group)
    if isinstance(val, Mapping):
        heights = Groups(_numbers([val[key] for key in labels]))
        return draw_groups({"": heights}, list(labels.values()), scale, group, ax)
    values = _numbers(val)
    if values.ndim > 1:
        raise ValueError(
            f"`val` must be one value, or one value per {group}, got the shape "
            f"{tuple(values.shape)}."
        )
    if _is_queries(val) or values.numel() > MOST_BARS:
        return draw_histogram({"": values}, scale, group, ax)
    if values.ndim == 1:
        numbers = [str(number) for number in range(len(values))]
        names = getattr(metric, "group_names", numbers)
        return draw_groups({"": Groups(values)}, names, scale, group, ax)
    ends = None if bounds is None else [float(end) for end in bounds]
    number = int(queries.sum()) if isinstance(queries, Tensor) else queries
    return draw_dot(float(values), ends, scale, ax, number)


def plot_collection(collection: SummedCollection, val: Any, ax: Any, together: bool) -> Any:
    """Draw every member of a collection, or all in one picture; see `RankingCollection.plot`."""
    check_bool("together", together)
    several = isinstance(ax, Sequence) or hasattr(ax, "shape")
    number = len(collection)
    if ax is not None and (several if together else not several or len(ax) != number):
        needed = "one axes" if together else f"{number} axes, one for every member"
        raise ValueError(f"`ax` must be {needed}, got {short(ax)}.")
    if together:
        if val is None:
            readings, queries = read_counted(collection, 0.95)
            return draw_readings({"": readings}, 0.95, ax, queries)
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


def _own_values(collection: SummedCollection, name: str, member: Any, val: Any) -> Any:
    """Return a member's value, or its values by key, from those of the collection."""
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
    """Turn the values of several steps into a line for every name, or keep them if many."""
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
