"""Pictures of the values of a metric or a collection, for their `plot`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.base.results import (
    keys_of,
    read_counted,
    read_values,
    write_sample,
)
from nextloc_metrics.core.display.bars import MOST_BARS, Groups, draw_groups, draw_histogram
from nextloc_metrics.core.display.lines import (
    MOST_LINES,
    NO_STEP,
    draw_readings,
    draw_readings_of_steps,
    draw_steps,
)
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.style import Scale, count, import_pyplot
from nextloc_metrics.core.means.intervals import check_confidence_level
from nextloc_metrics.core.queries.checks import check_bool
from nextloc_metrics.core.queries.messages import short


def plot_groups(models: Mapping[str, Any] | Any, confidence_level: float, ax: Any) -> Any:
    """Draw a metric of every group; see `plotting.by_group`."""
    import_pyplot()
    check_confidence_level(confidence_level)
    named = models if isinstance(models, Mapping) else {"": models}
    if not named:
        raise ValueError("`models` must hold a metric, got none.")
    labels: list[str] = []
    found: dict[str, Groups] = {}
    for name, metric in named.items():
        own, found[name] = _read_groups(name, metric, confidence_level)
        labels = labels or own
        if own != labels:
            raise ValueError(
                f"`models` must have the same groups, got {short(labels)} and {short(own)} in "
                f"{name}."
            )
    metric = next(iter(named.values()))
    scale = Scale(metric.label, metric.plot_lower_bound, metric.plot_upper_bound)
    if len(labels) > MOST_BARS:
        values = {name: one.values for name, one in found.items()}
        return draw_histogram(values, scale, _noun(metric), ax)
    return draw_groups(found, labels, scale, _noun(metric), ax, confidence_level)


def _read_groups(name: str, metric: Any, confidence_level: float) -> tuple[list[str], Groups]:
    """Return the labels of a metric's groups, with values, intervals and numbers of queries."""
    value, keys, groups = metric.compute(), metric._labels, metric._groups
    bounds = _read_bounds(metric, confidence_level)
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
    names = groups.names if groups else [str(number) for number in range(values.numel())]
    if values.numel() != len(names) or (values.ndim == 0 and not groups):
        raise ValueError(
            f"`models` must have a value for every group, got one value of {short(metric)}"
            f"{f' for {name}' if name else ''}."
        )
    limits = None if bounds is None else _numbers(bounds).reshape(2, -1)
    return list(names), Groups(values.flatten(), limits, numbers)


def _read_bounds(metric: Any, confidence_level: float = 0.95) -> Any:
    """Return the intervals of a metric, in the form of its values; None if it has none."""
    try:
        return metric.interval(confidence_level)
    except TypeError:  # the value is not a mean of scores
        return None


def _read_numbers(metric: Any) -> Any:
    """Return the number of queries on all processes, of every group if they are counted so."""
    numbers = metric._of_all_processes(lambda: metric.num_queries)
    return numbers.cpu() if isinstance(numbers, Tensor) else numbers


def _noun(metric: Any) -> str:
    return (metric._groups and metric._groups.by) or metric.plot_legend_name or "value"


def plot_metric(metric: Any, val: Any = None, ax: Any = None) -> Any:
    """Draw what a metric computed; see `RankingMetric.plot`."""
    import_pyplot()
    scale = Scale(metric.label, metric.plot_lower_bound, metric.plot_upper_bound)
    labels, bounds, queries = metric._labels, None, None
    if val is None:
        val = metric.compute()
        if isinstance(val, Mapping) or (not _is_queries(val) and val.ndim):
            return plot_groups(metric, 0.95, ax)
        if not _is_queries(val):
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
        groups = metric._groups
        names = groups.names if groups else [str(number) for number in range(len(values))]
        return draw_groups({"": Groups(values)}, names, scale, group, ax)
    ends = None if bounds is None else (float(bounds[0]), float(bounds[1]))
    number = "" if queries is None else count(int(torch.as_tensor(queries).sum()), "query")
    sample = write_sample([(metric, queries)]) if bounds else ""
    rows = {"": {scale.name: Reading(float(values), ends, scale.upper == 1)}}
    level = None if bounds is None else 0.95
    return draw_readings(rows, level, ax, ", ".join(filter(None, [number, sample])))


def plot_collection(collection: Any, val: Any, ax: Any, together: bool) -> Any:
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


def _own_values(collection: Any, name: str, member: Any, val: Any) -> Any:
    """Return a member's value, or its values by key, from those of the collection."""
    if not isinstance(val, Mapping):
        return [_own_values(collection, name, member, one) for one in val]
    own = {key: val[found] for key, found in keys_of(collection, name, member, val).items()}
    return own.get("", own)


def _is_queries(value: Any) -> bool:
    return hasattr(value, "scores")  # `QueryScores`, a tuple


def _numbers(value: Any) -> Tensor:
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
