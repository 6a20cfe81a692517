"""The exact mean of a score over queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.base.plan import sums
from nextloc_metrics.core.base.scores import Scoring, table_of
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.means.keyed_sums import KeyedSums
from nextloc_metrics.core.queries.messages import short


class MeanMetric(RecordMetric):
    """The exact mean of a score over queries, with its interval.

    A subclass says in `record` what it reads and defines `score`. The value is the mean
    times `largest_value`, in `unit`.

    Attributes:
        is_mean: whether the value is the mean of `score`, so that it can be grouped, compared and
            kept by query. A class whose `estimate` is for another value sets it to False.
    """

    is_mean = True

    if TYPE_CHECKING:  # an `__init__` of a subclass passes its options on

        def __init__(self, **options: Any) -> None: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Decide whether the value is the mean."""
        super().__init_subclass__(**kwargs)
        if "is_mean" not in vars(cls):  # the nearest base with an interval decides
            means = (x for x in cls.__mro__[1:] if issubclass(x, MeanMetric) and x.has_interval)
            cls.is_mean = cls.has_interval and next(means).is_mean

    @cached_property
    def _scoring(self) -> Scoring:
        """How a query is scored, read once: options are fixed."""
        metric: Any = self
        if (scored_by := getattr(self, "_scored_by", None)) is None:
            return Scoring()
        # from here on, it is a `RankingMetric`
        formula = metric.formula if scored_by == "formula" else None
        of_ranks = scored_by == "at_rank" if formula is None else formula.over != "retrieved"
        return Scoring(formula, metric.ties, metric.empty_target_action, of_ranks)

    @abstractmethod
    def score(self, record: Any) -> Tensor | tuple[Tensor, Tensor]:
        """Return the scores of queries, float64 `[N]`, or also which of them count, bool `[N]`."""

    def scores_of(self, record: Any) -> tuple[Tensor, Tensor]:
        """Return scores, float64 `[N]`, 0 where skipped, and which queries count, bool `[N]`."""
        return table_of(self, record).of(self._score_name)

    @sums(scores_of=lambda self: self)
    def tally(self, record: Any) -> Any:
        return table_of(self, record).sum_of(self._score_name)

    def empty_state(self) -> Tensor | KeyedSums:
        """Return zeros: see `means.exact`."""
        return torch.zeros(exact.width(self._is_bounded), dtype=torch.int64)

    def compute(self) -> Any:
        return exact.moments(self.state)[0] * self.score_factor

    def estimate(self) -> intervals.Estimate:
        return intervals.of_queries(self.state)

    @property
    def num_queries(self) -> Any:
        return int(self.state[2])


def check_mean(name: str, metric: Any) -> MeanMetric:
    """Return a metric, or raise unless it is the mean of a score over queries."""
    if not isinstance(metric, MeanMetric):
        several = isinstance(metric, torch.nn.ModuleDict | Mapping)
        remedy = "; wrap its members one by one" if several else ""
        raise TypeError(f"`{name}` must be a MeanMetric, such as MRR, got {short(metric)}{remedy}.")
    if not metric.is_mean:
        raise TypeError(f"`{name}` must be the mean of a score, and {short(metric)} is not.")
    return metric
