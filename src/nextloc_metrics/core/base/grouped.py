"""Means of a score by group of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import COMPUTED, Computed
from nextloc_metrics.core.base.mean import MeanMetric, check_mean
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.base.plan import sums
from nextloc_metrics.core.base.ranking_metric import LARGEST_STATE
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.queries.batch import GroupKind, GroupLabels
from nextloc_metrics.core.queries.checks import as_number, check_positive
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.record import Record

Average = Literal["groups", "queries"]

# What the groups have from their metric.
_OF_METRIC = (
    "record",
    "largest_value",
    "_factor",
    "unit",
    "higher_is_better",
    "plot_lower_bound",
    "plot_upper_bound",
)


class Gap(NamedTuple):
    """The largest difference between the values of two groups; see `Grouped.gap`.

    `value` is that of the group `highest` minus that of the group `lowest`; the interval is from
    `low`, at least 0, to `high`.
    """

    value: float
    low: float
    high: float
    highest: int
    lowest: int


def _copy_validating(metric: MeanMetric, validate_args: bool) -> MeanMetric:
    """Return a copy of a metric, with its parts, that checks arguments or does not."""
    copied: MeanMetric = metric.clone()  # type: ignore[assignment]
    for part in copied.modules():
        vars(part)["validate_args"] = validate_args
    return copied


def _read_labels(name: str, labels: Any) -> GroupLabels | None:
    return labels if labels is None or isinstance(labels, GroupLabels) else GroupLabels(labels)


class Grouped(RecordMetric):
    r"""A metric for every group of queries, such as users, hours or deciles of the target.

    The sums of scores and the numbers of queries of the groups add up to those of `metric` exactly.

    Args:
        metric: the metric whose score is averaged, with its `ignore_index` and `validate_args`; its
            own state is not updated.
        num_groups: the number of groups, 0 to `num_groups` - 1; None for the number of `labels`.
        group: the group whose value `compute` returns, as a scalar; None for all groups.
        average: None: one value per group, `[num_groups]`. `"groups"`: a scalar, the mean over the
            groups with data. `"queries"`: a scalar, the mean over all queries as in `metric`, but
            with a clustered interval.
        by: the key of these groups in `groups={"user": ..., "hour": ...}` of `update`, such as
            `"user"`; None if there is only one kind. `"step"` needs no `groups` for queries
            `[N, T]`: the group is the index in the last dimension, and `num_groups` is at least T.
        labels: the names of the groups, for tables and pictures; with labels, `groups` may be text.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR
        >>> by_user = Grouped(MRR(), num_groups=3)
        >>> scores, target = tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 0])
        >>> by_user.update(scores, target, groups=tensor([2, 0]))
        >>> by_user.compute()
        tensor([1.0000,    nan, 0.5000])

    With `average="queries"` the standard error is clustered: it comes from the spread of the
    groups' sums, as for a sample of groups, and needs about twenty groups. With `average="groups"`
    it comes from the spread of the groups' means. Both intervals use Student's t with G - 1 degrees
    of freedom for G groups with data; with `average="queries"` and unequal groups they are fewer,
    and where fewer than three groups have a hit, or a miss, the interval is from their exact share.
    For one group with data, the standard error is NaN and the interval is 0 to 1. With
    `average=None` or `group`, the interval of a group treats its queries as independent.

    Source: R. M. Bell and D. F. McCaffrey, "Bias reduction in standard errors for linear regression
    with multi-stage samples", Survey Methodology 28, 2002.
    """

    plot_legend_name = "group"

    metric: Annotated[MeanMetric, check_mean]
    num_groups: int
    group: Computed[int | None]
    average: Computed[Average | None]
    by: str | None
    labels: Annotated[GroupLabels | Sequence[str] | None, COMPUTED, _read_labels]

    def __init__(
        self,
        metric: MeanMetric,
        num_groups: int | None = None,
        group: int | None = None,
        average: Average | None = None,
        by: str | None = None,
        labels: GroupLabels | Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(metric, MeanMetric):
            of_metric = {"ignore_index": metric.ignore_index, "validate_args": metric.validate_args}
            kwargs = {**of_metric, **kwargs}
            if kwargs["validate_args"] is (not metric.validate_args):
                metric = _copy_validating(metric, kwargs["validate_args"])
        labels, group = _read_labels("labels", labels), as_number(group)
        if num_groups is None and labels is None:
            raise ValueError("`num_groups` must be given if there are no `labels`.")
        number = len(labels or ()) if num_groups is None else num_groups
        number = check_positive("num_groups", number, LARGEST_STATE)
        if labels is not None and len(labels) != number:
            raise ValueError(
                f"`labels` must name each of the {number} groups, got {len(labels)} names."
            )
        if by is not None and (not isinstance(by, str) or not by):
            raise ValueError(f"`by` must be None or a name, got {short(by)}.")
        if group is not None and (type(group) is not int or not 0 <= group < number):
            raise ValueError(f"`group` must be None or from 0 to {number - 1}, got {short(group)}.")
        if group is not None and average is not None:
            raise ValueError("`group` and `average` are different scalars; pass only one of them.")
        named: dict[str, Any] = {"metric": metric, "num_groups": number, "group": group}
        super().__init__(**named, average=average, by=by, labels=labels, **kwargs)

    def __post_init__(self) -> None:
        vars(self).update({name: getattr(self.metric, name) for name in _OF_METRIC})
        super().__post_init__()
        of = f", mean over {self.average}" if self.average else ""
        self.label = self.metric.label + (of if self.group is None else f", group {self.group}")

    @property
    def needs(self) -> Any:
        return self.metric.needs

    @property
    def group_kind(self) -> GroupKind:  # type: ignore[override]  # one of each object
        """The groups: their key in `groups`, their number and their names."""
        return GroupKind(self.by, self.num_groups, self._options["labels"])

    @property
    def sampled_by(self) -> str:
        """What intervals take as independent, such as `user`; empty for queries."""
        return (self.by or "group") if self.average else ""

    def check(self, record: Record) -> None:
        self.metric.check(record)
        groups = record.group_of(self.by)
        if self.validate_args and len(record):
            lowest, highest = groups.masked_fill(~record.counted, 0).aminmax()
            if lowest < 0 or highest >= self.num_groups:
                wrong = int(lowest if lowest < 0 else highest)
                raise ValueError(
                    f"`groups` must be from 0 to {self.num_groups - 1}, got {wrong}; exclude "
                    "queries without a group with `mask`."
                )

    def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
        return self.metric.chance(num_candidates, num_relevant)

    @property
    def footnotes(self) -> dict[str, str]:
        return self.metric.footnotes

    def empty_state(self) -> Tensor | exact.KeyedSums:
        width = exact.width(self.metric._is_bounded)
        return torch.zeros(self.num_groups, width, dtype=torch.int64)

    @sums(scores_of=lambda self: self.metric)
    def tally(self, record: Record) -> Any:
        scores, counted = self.metric.scores_of(record)
        groups = record.group_of(self.by).masked_fill(~record.counted, 0).to(scores.device)
        is_bounded = self.metric._is_bounded
        return exact.tally_by(groups, self.num_groups, scores, counted, is_bounded).to(
            record.device
        )

    @property
    def group_sums(self) -> Tensor:
        """The sums of each group, int64 `[num_groups, width]`."""
        return self.state

    @property
    def num_queries(self) -> Tensor:
        """How many queries this process has counted per group, int64 `[num_groups]`."""
        return self.group_sums[:, 2]

    def _means(self) -> Tensor:
        """Return the mean of each group."""
        return exact.mean(self.group_sums) * self._factor

    def compute(self) -> Tensor:
        if self.group is not None:
            return exact.mean(self.group_sums[self.group]) * self._factor
        if self.average == "queries":
            return exact.mean(self.group_sums.sum(0)) * self._factor
        return self._means().nanmean() if self.average == "groups" else self._means()

    def gap(self, confidence_level: float = 0.95) -> Gap:
        """Return the highest value of a group minus the lowest, over all processes.

        The interval holds for all groups together: each of the G groups with data has an interval
        of level 1 - (1 - confidence_level) / G (Bonferroni), and the bounds are the smallest and
        the largest gap of means within them. So it is wide for many groups. Queries count as
        independent. Fewer than two groups with data are a `ValueError`, as is a
        `confidence_level` that is not between 0 and 1.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import AccuracyAtK
            >>> by_user = Grouped(AccuracyAtK(1), num_groups=2)
            >>> lists, target = tensor([[0]]).expand(200, 1), tensor([0] * 90 + [1] * 110)
            >>> by_user.update(lists, target, groups=tensor([0] * 100 + [1] * 100))
            >>> gap = by_user.gap()
            >>> f"{gap.value:.2f}, {gap.low:.2f} to {gap.high:.2f}", gap.highest
            ('0.90, 0.76 to 0.95', 0)

        Source: O. J. Dunn, "Multiple comparisons among means", JASA 56, 1961.
        """
        intervals.check_confidence_level(confidence_level)
        state = self._of_all_processes(lambda: self.group_sums.clone())
        groups = (state[:, 2] > 0).nonzero()[:, 0]
        if len(groups) < 2:
            raise ValueError(
                "`groups` must have data for at least two groups, to have a gap, got "
                f"{len(groups)}."
            )
        estimate = intervals.of_queries(state[groups])
        low, high = estimate.interval(1 - (1 - confidence_level) / len(groups))
        best, worst = int(estimate.mean.argmax()), int(estimate.mean.argmin())
        return Gap(
            float(estimate.mean[best] - estimate.mean[worst]) * self._factor,
            max(0.0, float(low.max() - high.min())) * self._factor,
            float(high.max() - low.min()) * self._factor,
            int(groups[best]),
            int(groups[worst]),
        )

    def estimate(self) -> intervals.Estimate:
        if self.average == "queries":
            return intervals.of_clusters(self.group_sums)
        if self.average == "groups":
            return intervals.of_groups(self.group_sums)
        return intervals.of_queries(
            self.group_sums if self.group is None else self.group_sums[self.group]
        )
