"""A mean of scores with weights of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.arguments.record import Record
from nextloc_metrics.base.mean import MeanMetric, check_mean, of_metric


class Weighted(MeanMetric):
    r"""The weighted mean of a score over queries: the sum of w s, divided by the sum of w.

    `update` takes `weights`, 0 or numbers from 2^-32 to 2^31, in the shape of the queries; others
    can be multiplied by one number, which changes no value. A query with the weight 0 is left out,
    as one that `mask` leaves out. Other metrics of a collection do not read
    the weights. `Grouped(Weighted(metric), num_groups)` has the weighted mean of each group.

    The sums are exact: each summand is rounded to a multiple of 2^-96. The standard error is that
    of a ratio of two sums over independent queries: its square is the sum of w^2 (s - m)^2, divided
    by the square of the sum of w, times n / (n - 1). The interval is that of the metric with this
    standard error, with Student's t.

    Args:
        metric: a mean of scores, with its `ignore_index` and `validate_args`; its own state is not
            updated.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, Weighted
        >>> mrr = Weighted(MRR())
        >>> lists, target = tensor([[3, 1], [3, 1], [3, 1]]), tensor([3, 1, 9])
        >>> mrr.update(lists, target, weights=tensor([1.0, 2.0, 0.0]))
        >>> mrr.compute(), mrr.num_queries  # (1 * 1 + 2 * 1/2) / 3
        (tensor(0.6667), 2)

    Source: W. G. Cochran, "Sampling techniques", 1977, chapter 6.
    """

    _is_weighted = True

    metric: MeanMetric

    record = of_metric("record")
    needs = of_metric("needs")
    scale: float = of_metric("scale")
    _factor: float = of_metric("_factor")
    unit = of_metric("unit")
    is_bounded = of_metric("is_bounded")
    higher_is_better = of_metric("higher_is_better")
    _reads_groups = of_metric("_reads_groups")
    plot_lower_bound = of_metric("plot_lower_bound")
    plot_upper_bound = of_metric("plot_upper_bound")

    def __init__(self, metric: MeanMetric, **kwargs: Any) -> None:
        check_mean(metric)
        if metric._is_weighted:
            raise TypeError(f"`metric` must be without weights, got {short(metric)}.")
        super().__init__(
            metric=metric,
            ignore_index=metric.ignore_index,
            validate_args=metric.validate_args,
            **kwargs,
        )

    @property
    def label(self) -> str:
        return f"{self.metric.label}, weighted"

    def _check(self, record: Record) -> None:
        super()._check(record)
        self.metric._check(record)
        if record.queries.weights is None:
            raise ValueError(f"`weights` must be given, one per query, to update {short(self)}.")

    def score(self, record: Record) -> tuple[Tensor, Tensor]:
        return self._score_many([self], record)[0]

    @staticmethod
    def _score_many(metrics: Sequence[Any], record: Any) -> list[tuple[Tensor, Tensor]]:
        families: dict[Any, list[Any]] = {}
        for one in metrics:
            families.setdefault(type(one.metric)._score_many, []).append(one)
        found = {}
        has_weight = record.queries.weights > 0
        for score_many, same in families.items():
            scored = score_many([one.metric for one in same], record)
            for one, (scores, counted) in zip(same, scored, strict=True):
                counted = counted & has_weight.to(counted.device)
                found[id(one)] = scores.masked_fill(~counted, 0), counted
        return [found[id(one)] for one in metrics]
