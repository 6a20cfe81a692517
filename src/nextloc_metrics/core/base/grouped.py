"""Means of a score by group of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import COMPUTED, Computed
from nextloc_metrics.core.base.mean import MeanMetric, check_mean
from nextloc_metrics.core.base.metric import HOST_OPTIONS, RecordMetric
from nextloc_metrics.core.base.plan import sums
from nextloc_metrics.core.base.ranking_metric import LARGEST_STATE
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.means.keyed_sums import KeyedSums, number_keys
from nextloc_metrics.core.queries.batch import GroupKind, GroupLabels
from nextloc_metrics.core.queries.checks import as_number, check_positive, or_none
from nextloc_metrics.core.queries.keys import NO_KEY, key_of
from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.core.queries.record import Record

check_size = or_none(partial(check_positive, most=LARGEST_STATE))
Average = Literal["groups", "queries"]

# The attributes that `Grouped` copies from its metric.
_COPIED = (
    "record",
    "largest_value",
    "score_factor",
    "unit",
    "higher_is_better",
    "plot_lower_bound",
    "plot_upper_bound",
)


class Gap(NamedTuple):
    """The largest difference between the values of two groups; see `Grouped.gap`.

    `value` is that of the group `highest` minus that of the group `lowest`; the interval is from
    `low`, at least 0, to `high`. Groups that were text are text.
    """

    value: float
    low: float
    high: float
    highest: int | str
    lowest: int | str


def sum_by_keys(
    record: Record, by: tuple[str | None, ...], scores: Tensor, counted: Tensor, is_bounded: bool
) -> KeyedSums:
    """Return the sums of scores by keys, each of which has a group of every kind in `by`.

    The keys of many rows are numbered once for all metrics that count the same queries.
    """
    groups, names = record.once(by, partial(_read_kinds, record, by))
    rows = exact.rows_of(scores, counted, is_bounded).to(record.device)
    is_counted = counted.to(record.device)

    def read_keys() -> Tensor:
        return groups.masked_fill(~is_counted[:, None], NO_KEY)

    if len(rows) <= KeyedSums.sorted_at_once or not rows.is_cpu:
        return KeyedSums([torch.cat([read_keys(), rows], 1)], len(by), names)
    distinct, numbers = record.once((*by, id(counted)), lambda: number_keys(read_keys()))
    summed = rows.new_zeros(len(distinct), rows.shape[1]).index_add(0, numbers, rows)
    return KeyedSums([torch.cat([distinct, summed], 1)], len(by), names)


def _read_kinds(record: Record, by: Sequence[str | None]) -> tuple[Tensor, dict[int, str]]:
    """Return the group of each query in K kinds, int64 `[N, K]`, and the texts of keys."""
    groups = torch.stack([record.group_of(name) for name in by], 1)
    return groups, {key: text for name in by for key, text in record.names_of(name).items()}


def _copy_validating(metric: MeanMetric, validate_args: bool) -> MeanMetric:
    """Return a copy of a metric, and of the metrics in it, with another `validate_args`."""
    copied: MeanMetric = metric.clone()  # type: ignore[assignment]
    for part in copied.modules():
        vars(part)["validate_args"] = validate_args
    return copied


def _check_group(group: Any, number: int | None) -> None:
    """Raise unless a group is below `number`, or, if that is None, any integer or text."""
    if number is not None:
        if type(group) is not int or not 0 <= group < number:
            raise ValueError(f"`group` must be None or from 0 to {number - 1}, got {short(group)}.")
    elif type(group) is not int and not isinstance(group, str):
        raise ValueError(f"`group` must be None, an integer or text, got {short(group)}.")


def _read_labels(name: str, labels: Any) -> GroupLabels | None:
    return labels if labels is None or isinstance(labels, GroupLabels) else GroupLabels(labels)


class Grouped(RecordMetric):
    r"""A metric for every group of queries, such as users, hours or deciles of the target.

    The sums of scores and the numbers of queries of the groups add up to those of `metric` exactly.

    Args:
        metric: the metric whose score is averaged, with its `ignore_index`, its `validate_args` and
            its options of TorchMetrics, such as `sync_on_compute`; its own state is not updated.
        num_groups: the number of groups, 0 to `num_groups` - 1. None for the number of `labels`;
            without them groups are any integers or text, and the state grows with them.
        group: the group whose value `compute` returns, as a scalar; None for all groups.
        average: None: one value per group, in the order of the property `groups`. `"groups"`: a
            scalar, the mean over the groups with data. `"queries"`: a scalar, the mean over all
            queries as in `metric`, but with a clustered interval.
        by: the key of these groups in `groups={"user": ..., "hour": ...}` of `update`, such as
            `"user"`; None if there is only one kind. `"step"` needs no `groups` for queries
            `[N, T]`: the group is the index in the last dimension, and `num_groups` is at least T.
        labels: the names of the groups, for tables and pictures; with labels, `groups` may be text.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR
        >>> by_user = Grouped(MRR())
        >>> scores, target = tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 0])
        >>> by_user.update(scores, target, groups=tensor([52, 7]))
        >>> by_user.compute(), by_user.groups
        (tensor([1.0000, 0.5000]), tensor([ 7, 52]))
        >>> of_three = Grouped(MRR(), num_groups=3)
        >>> of_three(scores, target, groups=tensor([2, 0]))
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
    num_groups: int | None
    group: Computed[int | str | None]
    average: Computed[Average | None]
    by: str | None
    labels: Annotated[GroupLabels | Sequence[str] | None, COMPUTED, _read_labels]

    def __init__(
        self,
        metric: MeanMetric,
        num_groups: int | None = None,
        group: int | str | None = None,
        average: Average | None = None,
        by: str | None = None,
        labels: GroupLabels | Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(metric, MeanMetric):
            inherited = ("ignore_index", "validate_args", "dist_sync_fn", *HOST_OPTIONS)
            kwargs = {**{name: getattr(metric, name) for name in inherited}, **kwargs}
            if kwargs["validate_args"] is (not metric.validate_args):
                metric = _copy_validating(metric, kwargs["validate_args"])
        labels, group = _read_labels("labels", labels), as_number(group)
        number = len(labels) if num_groups is None and labels is not None else num_groups
        number = check_size("num_groups", number)
        if labels is not None and len(labels) != number:
            raise ValueError(
                f"`labels` must name each of the {number} groups, got {len(labels)} names."
            )
        if by is not None and (not isinstance(by, str) or not by):
            raise ValueError(f"`by` must be None or a name, got {short(by)}.")
        if group is not None:
            _check_group(group, number)
        if group is not None and average is not None:
            raise ValueError("`group` and `average` are different scalars; pass only one of them.")
        named: dict[str, Any] = {"metric": metric, "num_groups": number, "group": group}
        super().__init__(**named, average=average, by=by, labels=labels, **kwargs)

    def __post_init__(self) -> None:
        self._keys: Tensor | None = None  # the groups of the value that was computed last
        vars(self).update({name: getattr(self.metric, name) for name in _COPIED})
        super().__post_init__()
        detail = f", mean over {self.average}" if self.average else ""
        self.label = self.metric.label + (detail if self.group is None else f", group {self.group}")

    @property
    def needs(self) -> Any:
        return self.metric.needs

    @property
    def group_kind(self) -> GroupKind:  # type: ignore[override]  # each object has its own
        """The groups: their key in `groups`, their number and their names."""
        return GroupKind(self.by, self.num_groups, self._options["labels"])

    @property
    def groups(self) -> Tensor:
        """The groups of the values that `compute` returned last, int64 `[G]`, rising.

        Without `num_groups` they are keys: an integer is its own key, and `key_names` has the text
        of others.
        """
        if self.num_groups is not None:
            return torch.arange(self.num_groups, device=self.device)
        if self._keys is None:
            self._of_all_processes(self._read_sums)
        assert self._keys is not None  # just read
        return self._keys.to(self.device)

    @property
    def cluster(self) -> str:
        """The groups that intervals take as independent, such as `user`; empty for queries."""
        return (self.by or "group") if self.average else ""

    def check(self, record: Record) -> None:
        self.metric.check(record)
        groups = record.group_of(self.by, are_keys=self.num_groups is None)
        if self.num_groups is not None and self.validate_args and len(record):
            lowest, highest = groups.masked_fill(~record.counted, 0).aminmax()
            if lowest < 0 or highest >= self.num_groups:
                wrong = int(lowest if lowest < 0 else highest)
                text = clip(record.names_of(self.by).get(wrong, str(wrong)))
                raise ValueError(
                    f"`groups` must be from 0 to {self.num_groups - 1}, got {text}; exclude "
                    "queries without a group with `mask`."
                )

    def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
        return self.metric.chance(num_candidates, num_relevant)

    @property
    def footnotes(self) -> dict[str, str]:
        return self.metric.footnotes

    def empty_state(self) -> Tensor | KeyedSums:
        width = exact.width(self.metric._is_bounded)
        if self.num_groups is None:
            return KeyedSums([torch.zeros(0, 1 + width, dtype=torch.int64)], 1)
        return torch.zeros(self.num_groups, width, dtype=torch.int64)

    @sums(scores_of=lambda self: self.metric)
    def tally(self, record: Record) -> Any:
        scores, counted = self.metric.scores_of(record)
        is_bounded = self.metric._is_bounded
        if self.num_groups is None:
            return sum_by_keys(record, (self.by,), scores, counted, is_bounded)
        groups = record.group_of(self.by).masked_fill(~record.counted, 0).to(scores.device)
        by_group = exact.tally_by(groups, self.num_groups, scores, counted, is_bounded)
        return by_group.to(record.device)

    @property
    def group_keys(self) -> Tensor:
        """The groups that this process has counted without `num_groups`, int64 `[G]`, rising."""
        return self.state[:, 0]

    @property
    def group_sums(self) -> Tensor:
        """The sums of each group, int64 `[G, width]`, in the order of their numbers or keys."""
        return self.state if self.num_groups is not None else self.state[:, 1:]

    def _read_sums(self) -> Tensor:
        """Return the sums from which the value is computed, and keep the keys of their groups."""
        if self.num_groups is None:
            self._keys = self.group_keys.clone()
        if self.group is None:
            return self.group_sums
        if self.num_groups is not None:
            return self.group_sums[int(self.group)]
        is_group = self._keys == key_of(str(self.group))
        return self.group_sums[is_group].sum(0)  # zeros if no query has this group

    @property
    def num_queries(self) -> Tensor:
        """How many queries this process has counted per group, int64 `[G]`."""
        return self.group_sums[:, 2]

    def compute(self) -> Tensor:
        group_sums = self._read_sums()
        if self.average == "queries":
            group_sums = group_sums.sum(0)
        means = exact.moments(group_sums)[0] * self.score_factor
        return means.nanmean() if self.average == "groups" else means

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
        self._share_names()

        def read() -> tuple[Tensor, Tensor]:
            self._read_sums()  # `groups` are then those of all processes
            return self.group_sums.clone(), self.groups

        state, keys = self._of_all_processes(read)
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
            float(estimate.mean[best] - estimate.mean[worst]) * self.score_factor,
            max(0.0, float(low.max() - high.min())) * self.score_factor,
            float(high.max() - low.min()) * self.score_factor,
            *(self.key_names.get(key, key) for key in keys[groups[[best, worst]]].tolist()),
        )

    def estimate(self) -> intervals.Estimate:
        if self.average == "queries":
            return intervals.of_clusters(self.group_sums)
        if self.average == "groups":
            return intervals.of_groups(self.group_sums)
        return intervals.of_queries(self._read_sums())


class ClusteredGroups(Grouped):
    """`Grouped` with a clustered interval for each group, such as clustered by user.

    The state has a row for each pair of a group and a user that has queries: the key of the group,
    the key of the user, and the sums of `means.exact`.

    Args:
        cluster: the key in `groups` of the users, or of other groups that are independent.
    """

    _: KW_ONLY
    cluster: str

    def empty_state(self) -> KeyedSums:
        width = 2 + exact.width(self.metric._is_bounded)
        return KeyedSums([torch.zeros(0, width, dtype=torch.int64)], 2)

    @sums(scores_of=lambda self: self.metric)
    def tally(self, record: Record) -> KeyedSums:
        scores, counted = self.metric.scores_of(record)
        by = self.by, self.cluster
        return sum_by_keys(record, by, scores, counted, self.metric._is_bounded)

    @property
    def group_keys(self) -> Tensor:
        return self._groups_and_sizes()[0]

    @property
    def group_sums(self) -> Tensor:
        state, sizes = self.state, self.clusters_by_group
        zeros = state.new_zeros(len(sizes), state.shape[1] - 2)
        numbers = torch.arange(len(sizes), device=state.device).repeat_interleave(sizes)
        return zeros.index_add(0, numbers, state[:, 2:])

    @property
    def clusters_by_group(self) -> Tensor:
        """The number of clusters that have queries in each group, `[G]`."""
        return self._groups_and_sizes()[1]

    def _groups_and_sizes(self) -> tuple[Tensor, Tensor]:
        groups, sizes = torch.unique_consecutive(self.state[:, 0], return_counts=True)
        return groups, sizes

    def estimate(self) -> intervals.Estimate:
        parts = torch.split(self.state[:, 2:], self.clusters_by_group.tolist())
        return intervals.Estimate.stack([intervals.of_clusters(part) for part in parts])
