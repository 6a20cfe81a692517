"""Further metrics of an evaluation, such as one of the user's own: which may have a row."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from torch import Tensor
from torchmetrics import MetricCollection

from nextloc_metrics.arguments.checks import check_named
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.base.mean import MeanMetric, RecordMetric
from nextloc_metrics.ranking.ranking import Ranking

# Names that stand beside those of metrics in JSON.
_TAKEN = ("card", "groups")


def check_metrics(metrics: Any) -> dict[str, RecordMetric]:
    """Return copies of metrics by name, without counts, or raise if one cannot have a row."""
    if metrics is None:
        return {}
    if isinstance(metrics, MetricCollection):
        metrics = dict(metrics._modules)
    check_named("metrics", metrics, '{"mine": MyMetric()}')
    return {name: _copy_of(name, metric) for name, metric in metrics.items()}


def _copy_of(name: Any, metric: Any) -> RecordMetric:
    is_name = isinstance(name, str) and name and not set(name) & set("./\0")
    if not is_name or name in _TAKEN or hasattr(RankingCollection({}), name):
        raise ValueError(
            "`metrics` must have names without a dot or a slash that are no attribute of a "
            f"collection and not {' or '.join(_TAKEN)}, got {short(name)}."
        )
    if not isinstance(metric, RecordMetric):
        raise TypeError(
            "`metrics` must hold metrics of nextloc_metrics, or subclasses of such as "
            f"`RankingMetric`, got {short(metric)} as {short(name)}."
        )
    if reason := _why_not(metric):
        raise ValueError(f"`metrics` must hold no metric that {reason}, got {short(metric)}.")
    copy = deepcopy(metric)
    copy.reset()
    value = type(copy).compute(copy)  # not that of TorchMetrics, which warns without an update
    if not isinstance(value, int | float) and not (isinstance(value, Tensor) and not value.ndim):
        raise ValueError(
            f"`metrics` must hold metrics with one value each, got {short(metric)}; choose one by "
            "its `average`, `group` or `decile`."
        )
    return copy


def _why_not(metric: RecordMetric) -> str:
    """Return why a metric cannot be counted beside those of an evaluation; "" if it can."""
    reasons = {
        "overrides `update`; define `score` or `tally`": metric._has_own_update,
        "has a state of its own beside that of `tally`": set(metric._defaults)
        != {metric._state_name},
        "has weights; pass `weights`": isinstance(metric, MeanMetric) and metric._is_weighted,
        "reads groups; pass `groups`": metric._is_ours and metric._reads_groups,
        "has an `ignore_index`; use `mask`": metric.ignore_index is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def reads_ranks_only(metric: RecordMetric) -> bool:
    """Whether a ranking by chance, or by visits, has a value beside that of the model."""
    return metric.record is Ranking and not metric.needs.scores


def names_of(metrics: Mapping[str, RecordMetric]) -> tuple[str, ...]:
    """Return the names with options and states, by which equal metrics are known."""
    return tuple(
        f"{name}: {', '.join(dict.fromkeys([repr(metric), metric._state_name]))}"
        for name, metric in sorted(metrics.items())
    )
