"""Predicted times: their errors, and visits predicted at the right place and time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from typing_extensions import Unpack

from nextloc_metrics.core.means import exact
from nextloc_metrics.core.metric.annotated_options import NumberFromZero, Positive
from nextloc_metrics.core.metric.mean import MeanMetric
from nextloc_metrics.core.metric.quantile import QuantileMetric, Statistic
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.batch import Batch, BatchOptions
from nextloc_metrics.core.queries.draws import Draws
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import Queries, Record, Records
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.ranking.target import counted_labels
from nextloc_metrics.geography import AccuracyWithin, Locations
from nextloc_metrics.metrics.at_k import AccuracyAtK

TimeKind = Literal["elapsed", "clock"]

_DAY = 1440.0  # minutes


@dataclass(eq=False)
class Times(Record):
    """Differences of predicted and true times: the record of `TimeError` and `TimeWithin`."""

    queries: Queries
    difference: Tensor  #: float64 `[N]`, predicted minus true minutes; NaN without a prediction

    @classmethod
    def read(
        cls, batch: Batch, needs: Needs, names: tuple[str, str] = ("preds", "target")
    ) -> Times:
        """Read predicted and true times, minutes of one shape; `names` are those of messages."""
        preds, target = batch.preds, batch.target
        if preds.shape != target.shape or any(
            x.is_complex() or x.dtype == torch.bool for x in (preds, target)
        ):
            raise ValueError(
                f"`{names[0]}` and `{names[1]}` must be numbers of minutes of one shape, got "
                f"{describe(preds)} and {describe(target)}."
            )
        counted = counted_labels(batch)
        true = exact.float64(target.detach().flatten())
        if batch.validate_args:
            wrong = (counted.to(true.device) & ~true.isfinite()).nonzero()
            if len(wrong):
                raise ValueError(
                    f"`{names[1]}` must hold finite times, got {float(true[wrong[0]])} for query "
                    f"{int(wrong[0])}; leave it out with `mask`."
                )
        return cls(Queries(preds.shape, counted), exact.float64(preds.detach().flatten()) - true)

    def error(self, kind: TimeKind) -> Tensor:
        """Return the absolute difference in minutes, float64 `[N]`, the largest for NaN."""
        away = self.difference.abs()
        if kind == "elapsed":
            return away.nan_to_num(nan=torch.inf, posinf=torch.inf)
        away = away.remainder(_DAY)
        return away.minimum(_DAY - away).nan_to_num(nan=_DAY / 2)


class TimeError(QuantileMetric):
    r"""Error of predicted times in minutes: mean, median or another quantile; lower is better.

    `preds` and `target` are numbers of minutes `[...]`, one of each per query, such as minutes
    until the next visit, or since midnight. With a difference of d minutes the error is |d|
    (`"elapsed"`), or on a clock min(d, 1440 - d) with d modulo a day (`"clock"`): 23:50 and 00:10
    are 20 minutes apart. A NaN as predicted time is no prediction: an infinite error, on a clock 12
    hours. A mean has a confidence interval; a quantile is read from a histogram, in seconds up to
    two hours and then with an error of at most 1/1024.

    Args:
        kind: `"elapsed"` or `"clock"`.
        statistic: `"mean"`, `"median"`, or a quantile between 0 and 1, such as 0.9.

    Example:
        >>> from torch import tensor
        >>> minutes = tensor([1430.0, 600.0]), tensor([10.0, 570.0])
        >>> TimeError("clock")(*minutes), TimeError("elapsed")(*minutes)
        (tensor(25.), tensor(725.))
    """

    record = Times
    largest_value = math.inf
    higher_is_better = False
    plot_upper_bound = None
    unit = "min"
    _steps = 60  # seconds

    kind: TimeKind = "elapsed"
    statistic: Statistic = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.label = f"time error, {self._statistic_name} (min)"

    def score(self, record: Times) -> Tensor:
        return record.error(self.kind)


class TimeWithin(MeanMetric):
    r"""The share of predicted times that are at most some minutes off (`<=`).

    The arguments of `update` are those of [`TimeError`][nextloc_metrics.TimeError]. A NaN as
    predicted time is a miss.

    Args:
        minutes: the largest error of a hit.
        kind: as for `TimeError`.

    Example:
        >>> from torch import tensor
        >>> TimeWithin(30, "clock")(tensor([1430.0, 600.0]), tensor([10.0, 569.0]))
        tensor(0.5000)
    """

    record = Times
    label = "time within {minutes:g} min"

    minutes: NumberFromZero
    kind: TimeKind = "elapsed"

    def score(self, record: Times) -> tuple[Tensor, Tensor]:
        within = (record.error(self.kind) <= self.minutes) & ~record.difference.isnan()
        counted = record.counted.to(within.device)
        return (within & counted).double(), counted


@dataclass(eq=False)
class TimedRanking(Record):
    """Where and when: the record of `JointAccuracy`, a ranking beside the times."""

    queries: Queries
    ranking: Ranking
    times: Times

    @classmethod
    def read(cls, batch: Batch, needs: Needs) -> TimedRanking:
        raise ValueError(
            "`times` must be given for JointAccuracy: pass the record that `JointAccuracy.read` "
            "returns to `update`."
        )

    def require(self, needs: Needs, reader: object) -> None:
        self.ranking.require(needs, reader)


class JointAccuracy(MeanMetric):
    r"""Joint accuracy: the share of visits that are predicted at the right place and time.

    A query scores the probability that a relevant location is among the first `k` candidates, as in
    [`AccuracyAtK`][nextloc_metrics.AccuracyAtK] (or one within `km`, as in `AccuracyWithin`), if
    its predicted time is at most `minutes` off, and else 0. `update` takes the times as `times` and
    `target_times`, minutes in the shape of the queries. `Grouped`, `PerQueryScores` and collections
    take the record that `read` returns.

    Args:
        k: how many ranks count.
        minutes: the largest error of the time.
        kind: `"elapsed"` or `"clock"`, as for [`TimeError`][nextloc_metrics.TimeError].
        km: the largest distance; None for the location itself.
        locations: the coordinates, with `km`.

    Example:
        >>> from torch import tensor
        >>> joint = JointAccuracy(k=1, minutes=30)
        >>> lists, target = tensor([[4], [5], [6]]), tensor([4, 5, 7])
        >>> joint.update(lists, target, times=[10, 90, 0], target_times=[0, 0, 0])
        >>> joint.compute()  # the second is too late, the third elsewhere
        tensor(0.3333)
    """

    record = TimedRanking

    k: Positive
    minutes: NumberFromZero
    kind: TimeKind = "elapsed"
    km: float | None = None
    locations: Locations | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.km is None) != (self.locations is None):
            raise ValueError(
                f"`km` and `locations` must be given together, got {short(self.km)} and "
                f"{short(self.locations)}."
            )
        own: Any = {"ignore_index": self.ignore_index, "validate_args": self.validate_args}
        self.where: AccuracyAtK | AccuracyWithin = AccuracyAtK(self.k, **own)
        if self.km is not None and self.locations is not None:
            self.where = AccuracyWithin(self.locations, self.km, self.k, **own)
        self.label = f"{self.where.label}, time within {self.minutes:g} min"

    @property
    def needs(self) -> Needs:
        return self.where.needs

    def read(
        self,
        preds: Array | Draws | Record | Records,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        times: Array | None = None,
        target_times: Array | None = None,
        **given: Unpack[BatchOptions],
    ) -> TimedRanking:
        """Return the record of a batch.

        Args:
            preds: scores or lists, as for `update` of every metric; or a record that was read.
            times: the predicted times in minutes, in the shape of the queries.
            target_times: the true times.
        """
        if isinstance(preds, Record | Records):
            return super().read(preds, target, mask, groups, **given)  # type: ignore[no-any-return]
        if times is None or target_times is None:
            raise ValueError("`times` and `target_times` must be given, in minutes, got None.")
        ranking = self.where.read(preds, target, mask, **given)
        minutes = Batch(
            as_tensor("times", times, ranking.device),
            as_tensor("target_times", target_times, ranking.device),
            ranking.counted.reshape(ranking.shape),
            validate_args=self.validate_args,
        )
        if minutes.preds.shape != ranking.shape:
            raise ValueError(
                f"`times` must have the shape of the queries, {short(ranking.shape)}, got "
                f"{describe(minutes.preds)}."
            )
        read_times = Times.read(minutes, Needs(), ("times", "target_times"))
        record = TimedRanking(ranking.queries, ranking, read_times)
        return record.with_groups(groups)

    def update(
        self,
        preds: Array | Draws | Record | Records,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        **others: Any,
    ) -> None:
        super().update(self.read(preds, target, mask, groups, **others))

    def _check(self, record: TimedRanking) -> None:
        super()._check(record)
        self.where._check(record.ranking)

    def score(self, record: TimedRanking) -> tuple[Tensor, Tensor]:
        scores, counted = self.where._score_queries(record.ranking)
        error = record.times.error(self.kind).to(scores.device)
        missing = record.times.difference.isnan().to(scores.device)
        return scores.masked_fill((error > self.minutes) | missing, 0), counted
