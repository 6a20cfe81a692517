"""A collection of metrics that ranks each batch once."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torchmetrics import Metric, MetricCollection

from nextloc_metrics.core.base.fixes import outside_graphs, unchanged_by_errors, unrounded
from nextloc_metrics.core.base.grouped import Grouped
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.base.member_names import NamedMembers
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.base.plan import Plan
from nextloc_metrics.core.base.processes import share_names, summed_at_once
from nextloc_metrics.core.display.style import import_pyplot
from nextloc_metrics.core.display.table import Table, of_readings
from nextloc_metrics.core.means.intervals import check_confidence_level
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import Batch, GroupLabels
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.record import Record, Records
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.results.plots import values_of_members
from nextloc_metrics.core.results.results import (
    Results,
    count_notes,
    count_queries,
    read_results,
    write_sample,
)

AnyMember: TypeAlias = RecordMetric | MetricCollection
Members: TypeAlias = AnyMember | Sequence[AnyMember] | Mapping[str, AnyMember]


class RankingCollection(NamedMembers):
    """A `MetricCollection` that ranks a batch once for all its members.

    Unlike in `torchmetrics.MetricCollection`, the scores are read once, every member checks the
    batch before any member is updated, so that an error changes no state, and a dict keeps its
    order, such as k = 1, 5, 10.

    Args:
        metrics: metrics of this library: a dict of name to metric, a sequence, or one metric.
        additional_metrics: more metrics, after a sequence or a single metric.
        prefix: text before every key, such as `"val/"`.
        postfix: text after every key.
        compute_groups: as in `torchmetrics.MetricCollection`.

    Raises:
        TypeError: a member is not a metric of this library.
        ValueError: the members' `ignore_index` differ.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, AccuracyAtK
        >>> metrics = RankingCollection({"mrr": MRR(), "hit": AccuracyAtK(1)}, prefix="val/")
        >>> metrics.update(tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([1, 2]))
        >>> metrics.compute()
        {'val/mrr': tensor(0.6667), 'val/hit': tensor(0.5000)}
    """

    _plan: Plan | None = None

    if TYPE_CHECKING:  # a dict is invariant in torchmetrics, a Mapping here is not

        def __init__(
            self,
            metrics: Members,
            *additional_metrics: RecordMetric,
            prefix: str | None = None,
            postfix: str | None = None,
            compute_groups: bool | list[list[str]] = True,
        ) -> None: ...

    def add_metrics(self, metrics: Any, *additional_metrics: Any) -> None:
        """Add all members, or none if one is refused."""
        members = _members(metrics) + _members(additional_metrics)
        for member in members:
            if not isinstance(member, RecordMetric):
                raise TypeError(
                    f"a {type(self).__name__} holds metrics of nextloc_metrics only, got "
                    f"{short(member)}; put it into a torchmetrics.MetricCollection."
                )
            if type(member).update is not RecordMetric.update:
                raise TypeError(
                    f"{short(member)} must not override `update` in a {type(self).__name__}, which "
                    "reads each batch once for all members; define `score` or `tally`."
                )
        ignored = {member.ignore_index for member in (*self._modules.values(), *members)}
        if len(ignored) > 1:
            raise ValueError(
                "`ignore_index` must be equal for all members of a collection, got "
                f"{short(sorted(ignored, key=str))}."
            )
        before, attributes = dict(self._modules), dict(vars(self))
        try:
            super().add_metrics(metrics, *additional_metrics)
            if isinstance(self._enable_compute_groups, list):
                for group in self._enable_compute_groups:
                    _check_group([self._modules[name] for name in group])
        except BaseException:
            vars(self).update(attributes)
            self._modules.clear()
            self._modules.update(before)
            raise
        if isinstance(metrics, Mapping):
            for name in metrics:  # MetricCollection has sorted the names; a dict keeps its order
                if name in self._modules:
                    self._modules[name] = self._modules.pop(name)

    @outside_graphs
    def update(  # type: ignore[override]  # as MetricCollection itself overrides ModuleDict
        self,
        preds: Array | Record | Records,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
        confidence: Array | None = None,
        extra: Mapping[str, Array] | None = None,
    ) -> None:
        """Add a batch of queries to every member.

        The arguments are those of `RankingMetric.update`; `groups` are for `Grouped` members.
        """
        batch = Batch(preds, target, mask, groups, exclude, exempt_target, confidence, extra)
        self._check_groups(batch)
        self._form_groups()
        self.plan.update(batch, count=True)

    @outside_graphs
    def forward(
        self,
        preds: Array | Record | Records,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
        confidence: Array | None = None,
        extra: Mapping[str, Array] | None = None,
    ) -> dict[str, Any]:
        """Add a batch of queries to every member and return the values of this batch alone."""
        batch = Batch(preds, target, mask, groups, exclude, exempt_target, confidence, extra)
        self._check_groups(batch)
        records = self.plan.read(batch)
        with unchanged_by_errors(self.members()):
            return super().forward(records)

    def _check_groups(self, batch: Batch) -> None:
        """Raise if no member reads `groups`; a single metric cannot know if others read them."""
        if batch.groups is not None and not any(
            x.group_kind or getattr(x._needs, "groups", False) for x in self.members()
        ):
            raise ValueError(
                "`groups` must be None without a metric that reads them; pass them to "
                "`Grouped(metric)`, or let `needs` of your own be `Needs(groups=True)`."
            )

    def compute(self) -> dict[str, Any]:
        with self.summed_at_once():
            return super().compute()

    def compute_with_intervals(self, confidence_level: float = 0.95) -> dict[str, Any]:
        """Return every member's value and, for means of scores, its confidence interval.

        The bounds are those of `RankingMetric.interval`, under the member's name with `_low` and
        `_high`; a member that has the name of a bound raises a `ValueError`.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import AccuracyAtK, RankingCollection
            >>> metrics = RankingCollection({"hit": AccuracyAtK(1)}, prefix="val/")
            >>> metrics.update(tensor([[0, 1]]).expand(100, 2), tensor([0] * 30 + [1] * 70))
            >>> metrics.compute_with_intervals()
            {'val/hit': tensor(0.3000), 'val/hit_low': tensor(0.2189),
             'val/hit_high': tensor(0.3958)}
        """
        values, intervals, *_ = self._results(confidence_level, count=False)
        bounds = {
            self._set_name(name): {
                self._set_name(f"{name}_low"): low, self._set_name(f"{name}_high"): high
            }
            for name, (low, high) in intervals.items()
        }  # fmt: skip
        if taken := values.keys() & {name for named in bounds.values() for name in named}:
            raise ValueError(
                f"the names of bounds must be free, but {short(sorted(taken))} are members of the "
                "collection; rename these members."
            )
        values_and_bounds: dict[str, Any] = {}
        for name, value in values.items():
            values_and_bounds |= {name: value, **bounds.get(name, {})}
        return values_and_bounds

    def results(self, confidence_level: float | None, count: bool = True) -> Results:
        """Return float64 values, intervals, and with `count` the numbers of queries.

        Without `confidence_level` there are no intervals. Counting may need further collectives.
        """
        with unrounded():
            return self._results(confidence_level, count)

    def _results(self, confidence_level: float | None, count: bool) -> Results:
        if confidence_level is not None:
            check_confidence_level(confidence_level)
        with self.summed_at_once(cached=False):
            values = super().compute()
            intervals = {
                name: member.interval(confidence_level)
                for name, member in self.named_members()
                if has_bounds(member) and confidence_level is not None
            }
            counting = self.named_members() if count else []
            counts = {name: count_queries(member) for name, member in counting}
        if count:
            share_names(self.members())
        queries = {name: number for name, (number, _) in counts.items() if number is not None}
        undecided = max((number for _, number in counts.values()), default=0)
        counted = intervals.keys() & queries
        sample = write_sample((m, queries[x]) for x, m in self.named_members() if x in counted)
        return Results(values, intervals, queries, undecided, sample)

    def table(
        self,
        percent: bool = True,
        intervals: bool = False,
        confidence_level: float = 0.95,
        notes: Sequence[str] = (),
    ) -> Table:
        """Return the values as a table for the terminal or a notebook.

        A dash stands for a value without data. A member with a value per group has one row per
        group, with its number of queries; for more than a hundred groups the row is the median.
        Values are summed over processes, as in `compute`: call this on all processes.

        Args:
            percent: write fractions as percent.
            intervals: write the confidence interval next to every mean of scores.
            confidence_level: between 0 and 1, else a `ValueError`.
            notes: further lines below the table.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import next_location_metrics
            >>> metrics = next_location_metrics(num_locations=2, k=1, ndcg_k=10)
            >>> metrics.update(tensor([[0, 1]]).expand(100, 2), tensor([0] * 30 + [1] * 70))
            >>> metrics.table(intervals=True)
            percent     value  95 % interval
            acc_at_1    30.00  21.89 - 39.58
            mrr         65.00  60.31 - 69.41
            ndcg_at_10  74.17  70.66 - 77.39
            f1          13.85
            100 queries counted
        """
        level = confidence_level if intervals else None
        results = self.results(level)
        readings = read_results(self, results, keep_base=False, by_group=True)
        below = [*count_notes({"": results}), *notes]
        return of_readings({"value": readings}, level, below, percent=percent)

    def plot(self, val: Any = None, ax: Any = None, together: bool = False) -> Any:
        """Draw every member with its `plot`, or all members in one figure, as torchmetrics does.

        It returns the figure and its axes, or a list of these, one per member.
        `plotting.side_by_side` draws intervals.

        Args:
            val: as for `RankingMetric.plot`.
            ax: the matplotlib axes: a list of one per member, or one with `together`; None makes
                figures.
            together: draw one figure.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
            ValueError: the number of axes is wrong.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import next_location_metrics
            >>> metrics = next_location_metrics(num_locations=3)
            >>> metrics.update(tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([1, 2]))
            >>> figure, axes = metrics.plot(together=True)
        """
        import_pyplot()
        val = self.compute() if val is None else val
        return super().plot(val if together else values_of_members(self, val), ax, together)

    def summed_at_once(self, cached: bool = True) -> AbstractContextManager[None]:
        """Give the members their states summed over processes: one collective per process group.

        Sums by key need one more. With `cached`, no collective runs if all members of the group
        have cached values.
        """
        return summed_at_once(self.members(), cached)

    @property
    def plan(self) -> Plan:
        """The plan of an update for the members; made anew when the members change."""
        members = self.members()
        if self._plan is None or not self._plan.serves(members):
            self._plan = Plan(members)
        return self._plan

    def _form_groups(self) -> None:
        """Let members with equal state names and equal states share one state."""
        if self._groups_checked and not self._state_is_copy:
            return
        if not self._groups_checked and self._enable_compute_groups:
            groups: list[list[str]] = []
            for name, member in self.named_members():
                alike = (group for group in groups if _can_share(self._modules[group[0]], member))
                if (group := next(alike, None)) is None:
                    groups.append(group := [])
                group.append(name)
            self._groups = dict(enumerate(groups))
            self._groups_checked = True
        self._compute_groups_create_state_ref()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a copy, without the plan, which the copy makes anew."""
        return {**self.__dict__, "_plan": None}

    def named_members(self) -> list[tuple[str, RecordMetric]]:
        """Return the members by name, without copying shared states."""
        return list(self._modules.items())  # type: ignore[arg-type]

    def members(self) -> list[RecordMetric]:
        """Return the members, without copying shared states."""
        return list(self._modules.values())  # type: ignore[arg-type]

    def clustered(
        self,
        num_groups: int | None = None,
        by: str | None = "user",
        labels: GroupLabels | Sequence[str] | None = None,
    ) -> "RankingCollection":
        """Return the collection with intervals by user, or by another group of dependent queries.

        The copy has no counts. Each mean of scores is `Grouped(member, average="queries")`, with
        the same value and a clustered interval; members without an interval stay. Tables and
        pictures say by how many groups the intervals are. The arguments are those of
        [`Grouped`][nextloc_metrics.Grouped]; `update` takes `groups={"user": ...}`.

        Raises:
            TypeError: the interval of a member cannot be clustered; leave the member out.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import AccuracyAtK, RankingCollection
            >>> metrics = RankingCollection({"hit": AccuracyAtK(1)}).clustered(num_groups=3)
            >>> lists, target = tensor([[0, 1]]).expand(6, 2), tensor([0, 0, 0, 1, 0, 1])
            >>> metrics.update(lists, target, groups={"user": tensor([0, 0, 0, 1, 2, 2])})
            >>> metrics.table(intervals=True)
            percent  value  95 % interval
            hit      66.67   0.42 - 99.58
            6 queries counted
            intervals by 3 users
        """
        options: Any = {"num_groups": num_groups, "average": "queries", "by": by, "labels": labels}
        copies: Any = {name: member.clone() for name, member in self.named_members()}
        for name, member in copies.items():
            member.reset()
            if isinstance(member, MeanMetric) and member.is_mean:
                copies[name] = Grouped(member, **options)
            elif has_bounds(member):
                raise TypeError(
                    f"{short(member)} has an interval that cannot be clustered: it is not a mean "
                    "of per-query scores; leave it out."
                )
        ends = {"prefix": self.prefix, "postfix": self.postfix}
        return type(self)(copies, compute_groups=self._enable_compute_groups, **ends)

    def rank(
        self,
        preds: Array | Record | Records,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
        confidence: Array | None = None,
        extra: Mapping[str, Array] | None = None,
    ) -> Ranking:
        """Return a ranking for every member, and any other metric that needs no more ranks."""
        batch = Batch(preds, target, mask, groups, exclude, exempt_target, confidence, extra)
        ranking: Ranking = self.plan.read(batch)[Ranking]
        return ranking


def has_bounds(member: RecordMetric) -> bool:
    """Whether the value has one interval; a dict of values has one for each of them."""
    return member.has_interval and not member.key_labels


def _can_share(first: Any, second: RecordMetric) -> bool:
    return first._state_name == second._state_name and torch.equal(first.state, second.state)


def _check_group(members: list[Any]) -> None:
    for member in members[1:]:
        if member._state_name != members[0]._state_name:
            raise ValueError(
                "the members of a compute group must need the same state, got "
                f"{short(members[0])} and {short(member)}; omit `compute_groups`."
            )


def _members(metrics: Any) -> list[Any]:
    """Flatten the arguments of `MetricCollection` into a list of metrics."""
    if isinstance(metrics, MetricCollection):
        return list(metrics.values(copy_state=False))
    if isinstance(metrics, Mapping):
        metrics = list(metrics.values())
    if not isinstance(metrics, Sequence) or isinstance(metrics, str | bytes):
        return [metrics]
    members: list[Any] = []
    for metric in metrics:
        members += [metric] if isinstance(metric, Metric) else _members(metric)
    return members


#: One collection, or several by the names of models.
Collections: TypeAlias = Mapping[str, RankingCollection] | RankingCollection
