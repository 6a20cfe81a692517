"""Pictures of the values of a metric or a collection, for their `plot`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from typing import Any

import torch
from torch import Tensor
from torchmetrics.utilities.plot import plot_single_or_multi_val

from nextloc_metrics.core.display.bars import MOST_BARS, Groups, draw_groups, draw_histogram
from nextloc_metrics.core.display.style import Scale, add_note, import_pyplot
from nextloc_metrics.core.means.intervals import check_confidence_level
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.results.results import in_order, keys_of, names_of_groups


def plot_groups(models: Mapping[str, Any] | Any, confidence_level: float, ax: Any) -> Any:
    """Draw a metric of every group; see `plotting.by_group`."""
    import_pyplot()
    check_confidence_level(confidence_level)
    named = models if isinstance(models, Mapping) else {"": models}
    if not named:
        raise ValueError("`models` must hold a metric, got none.")
    labels: list[str] = []
    groups: dict[str, Groups] = {}
    for name, metric in named.items():
        names, groups[name] = _read_groups(name, metric, confidence_level)
        labels = labels or names
        if names != labels:
            raise ValueError(
                f"`models` must have the same groups, got {short(labels)} and {short(names)} in "
                f"{name}."
            )
    metric = next(iter(named.values()))
    scale = Scale(metric.label, metric.plot_lower_bound, metric.plot_upper_bound)
    if len(labels) > MOST_BARS:
        values = {name: one.values for name, one in groups.items()}
        return draw_histogram(values, scale, _noun(metric), ax)
    footnotes: dict[str, str] = {}
    for name, each in named.items():
        has_value = (~groups[name].values.isnan()).tolist()
        footnotes |= _footnotes(each, [*compress(labels, has_value)])
    drawn = _with_daggers(labels, footnotes), scale, _noun(metric), ax, confidence_level
    return draw_groups(groups, *drawn, _notes(footnotes))


def _read_groups(name: str, metric: Any, confidence_level: float) -> tuple[list[str], Groups]:
    """Return the labels of a metric's groups, with values, intervals and numbers of queries."""
    value, keys, groups = metric.compute(), metric.key_labels, metric.group_kind
    bounds: Any = None
    with suppress(TypeError):  # the value is not a mean of scores
        bounds = metric.interval(confidence_level)
    counted = metric._of_all_processes(lambda: metric.num_queries)
    numbers = counted.cpu() if isinstance(counted, Tensor) else None
    if isinstance(value, Mapping) and keys:
        order = [list(value).index(key) for key in keys]
        read = Groups(
            _numbers([value[key] for key in keys]),
            None if bounds is None else torch.stack([_numbers(bounds[key]) for key in keys], 1),
            None if numbers is None else numbers[order],
        )
        return list(keys.values()), read
    values = _numbers(value)
    metric._share_names()
    names = names_of_groups(metric) if groups else [str(number) for number in range(values.numel())]
    if values.numel() != len(names) or (values.ndim == 0 and not groups):
        raise ValueError(
            f"`models` must have a value for every group, got one value of {short(metric)}"
            f"{f' for {name}' if name else ''}."
        )
    order = in_order(metric, range(len(names)))
    limits = None if bounds is None else _numbers(bounds).reshape(2, -1)[:, order]
    numbers = numbers if numbers is None else numbers[order]
    return [names[x] for x in order], Groups(values.flatten()[order], limits, numbers)


def _footnotes(metric: Any, labels: Collection[str]) -> dict[str, str]:
    """Return what daggers after a metric's values say, by those labels that have a value."""
    return {
        metric.key_labels[key]: text
        for key, text in metric.footnotes.items()
        if metric.key_labels.get(key) in labels
    }


def _with_daggers(labels: Sequence[str], footnotes: Mapping[str, str]) -> list[str]:
    return [label + "†" * (label in footnotes) for label in labels]


def _notes(footnotes: Mapping[str, str]) -> list[str]:
    return [f"† {text}" for text in dict.fromkeys(footnotes.values())]


def _noun(metric: Any) -> str:
    return (metric.group_kind and metric.group_kind.by) or metric.plot_legend_name or "value"


def plot_metric(metric: Any, val: Any = None, ax: Any = None) -> Any:
    """Draw values of a metric as torchmetrics does, with our labels; see `RankingMetric.plot`."""
    import_pyplot()
    if val is None:
        val = metric.compute()
        metric._share_names()
    is_one = not isinstance(val, Sequence)
    if not is_one and not val:
        raise ValueError("`val` must hold the value of at least one step, got none.")
    drawn = [_labelled(metric, val)] if is_one else [_labelled(metric, one) for one in val]
    footnotes = _footnotes_of(metric, drawn[-1])
    figure, axes = plot_single_or_multi_val(
        _marked(drawn[0], footnotes) if is_one else [_marked(x, footnotes) for x in drawn],
        ax=ax,
        higher_is_better=metric.higher_is_better,
        lower_bound=metric.plot_lower_bound,
        upper_bound=metric.plot_upper_bound,
        legend_name=metric.plot_legend_name,
        name=metric.label + "†" * ("" in footnotes),
    )
    add_note(axes, *_notes(footnotes))
    return figure, axes


def _footnotes_of(metric: Any, drawn: Any) -> dict[str, str]:
    """Return what daggers after drawn values say, by label, or by "" for one value."""
    if isinstance(drawn, Mapping):
        return _footnotes(metric, [x for x, value in drawn.items() if not value.isnan().any()])
    text = metric.footnotes.get("", "")
    return {"": text} if text and not drawn.isnan().any() else {}


def _marked(drawn: Any, footnotes: Mapping[str, str]) -> Any:
    if not isinstance(drawn, Mapping):
        return drawn
    return dict(zip(_with_daggers([*drawn], footnotes), drawn.values(), strict=True))


def _labelled(metric: Any, val: Any) -> Any:
    """Return a value as a tensor, or values by their labels."""
    if isinstance(val, Mapping):
        return {metric.key_labels.get(key, key): _numbers(one) for key, one in val.items()}
    values = _numbers(val)
    keys = getattr(metric, "_keys", None)  # keys of groups without numbers
    if keys is None or values.shape != keys.shape:
        return values
    names = [f"{_noun(metric)} {name}" for name in names_of_groups(metric)]
    return dict(in_order(metric, zip(names, values, strict=True)))


def values_of_members(collection: Any, val: Any) -> Any:
    """Return the value of every member by its key, or the values of several steps."""
    if not isinstance(val, Mapping):
        return [values_of_members(collection, one) for one in val]
    values = {}
    for name, member in collection.named_members():
        by_key = {key: val[of] for key, of in keys_of(collection, name, member, val).items()}
        values[collection._set_name(name)] = by_key.get("", by_key)
    return values


def _numbers(value: Any) -> Tensor:
    if isinstance(value, Sequence):
        return torch.stack([_numbers(one) for one in value])
    return torch.as_tensor(value).detach().cpu().double()
