"""A ranking metric for every group of queries, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics import exact, intervals
from nextloc_metrics.arrays import Array, as_tensor_or_text
from nextloc_metrics.checks import check_choice, check_positive
from nextloc_metrics.messages import describe, short
from nextloc_metrics.metric import LARGEST_STATE, RankingMetric, RankingTally
from nextloc_metrics.ranking import Ranking

Average = Literal["groups", "queries"]


class GroupLabels:
    """The names of groups, in the order of their numbers.

    Args:
        labels: distinct text.

    Raises:
        ValueError: a name is no text, or stands there twice.

    Example:
        >>> labels = GroupLabels.from_values(["bob", "alice", "bob"])
        >>> labels, labels.number(["alice", "bob"])
        (GroupLabels(['alice', 'bob']), tensor([0, 1]))
    """

    def __init__(self, labels: Sequence[str]) -> None:
        is_row = isinstance(labels, Sequence) and not isinstance(labels, str)
        if not is_row or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"`labels` must be a sequence of text, got {describe(labels)}.")
        self.names = tuple(labels)
        self._numbers = {name: number for number, name in enumerate(self.names)}
        if len(self._numbers) < len(self.names):
            twice = next(name for i, name in enumerate(self.names) if self._numbers[name] != i)
            raise ValueError(f"`labels` must be distinct, got {short(twice)} twice.")

    @classmethod
    def from_values(cls, values: Array) -> GroupLabels:
        """Name the distinct values, in rising order.

        Raises:
            TypeError: they are no text: as groups, numbers are counted from 0.
        """
        text = as_tensor_or_text("values", values)
        if isinstance(text, Tensor):
            raise TypeError(
                f"`values` must be text, got {describe(values)}; numbers are groups already if "
                "counted from 0, and labels as `str`."
            )
        return cls(sorted(set(text)))

    def number(self, values: Array) -> Tensor:
        """Return the numbers of groups, int64, that are given by name.

        Raises:
            TypeError: they are no text.
            ValueError: a value is none of the names.
        """
        text = as_tensor_or_text("values", values)
        if isinstance(text, Tensor):
            if text.numel():
                raise TypeError(f"`values` must be names of groups, got {describe(values)}.")
            text = []
        wrong = next((i for i, value in enumerate(text) if value not in self._numbers), None)
        if wrong is not None:
            raise ValueError(
                f"`groups` must be among the {len(self)} labels, got {short(text[wrong])} in row "
                f"{wrong}; make the labels of all data, `GroupLabels.from_values(...)`."
            )
        return torch.tensor([self._numbers[value] for value in text], dtype=torch.int64)

    def state_key(self) -> str:
        """Return all of its content."""
        return repr(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> str:
        return self.names[number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupLabels) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"GroupLabels({short(list(self.names))})"


class Grouped(RankingTally):
    r"""A ranking metric of every group of queries: by user, hour, decile of the target, and so on.

    Numerators and denominators of the groups add up to those of the metric itself, exactly.

    Args:
        metric: the metric whose score is averaged; it is not updated itself.
        num_groups: how many groups there are, numbered from 0; None for as many as `labels`.
        group: the number of a group, for a scalar; None for all.
        average: `"groups"`, the mean over the groups that have data, as a scalar (over users, as
            much of the literature reports); `"queries"`, the mean over all queries, as the metric
            itself has it, with an interval that knows that queries of a group are not independent;
            None for every group's value.
        by: the name of this kind of groups, such as `"user"`, by which `update` finds them in
            `groups={"user": ..., "hour": ...}`; None where there is one kind only. `"step"`
            needs no `groups` for queries `[N, T]`: it is the index in the last dimension.
        labels: the groups' names, for tables and pictures, and so that `groups` may be text.
        kwargs: TorchMetrics' own keyword arguments.

    Raises:
        TypeError: `metric` is no mean of a score.
        ValueError: an option is out of range; in `update`, a group is.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, Grouped
        >>> by_user = Grouped(MRR(), num_groups=3)
        >>> scores, target = tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 0])
        >>> by_user.update(scores, target, groups=tensor([2, 0]))
        >>> by_user.compute()
        tensor([1.0000,    nan, 0.5000])

    Intervals are those of the value. For `average="queries"` the standard error is clustered: it
    comes from the spread of the groups' sums, as if whole groups had been drawn, and needs some
    twenty groups. For `average="groups"` it comes from the spread of the groups' means. Both take
    Student's t with one degree of freedom less than there are groups with data, and are NaN where
    there is one only. A group's own interval takes its queries as independent.

    Source: K.-Y. Liang and S. L. Zeger, "Longitudinal data analysis using generalized linear
    models", Biometrika 73, 1986.
    """

    plot_legend_name = "group"
    computed_options = frozenset({"group", "average", "labels"})

    def __init__(
        self,
        metric: RankingMetric,
        num_groups: int | None = None,
        group: int | None = None,
        average: Average | None = None,
        by: str | None = None,
        labels: GroupLabels | Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(metric, RankingMetric):
            raise TypeError(f"`metric` must be a RankingMetric, got {short(metric)}.")
        if not metric.averages_scores:
            raise TypeError(f"`metric` must be the mean of a score, and {short(metric)} is not.")
        if labels is not None and not isinstance(labels, GroupLabels):
            labels = GroupLabels(labels)
        if num_groups is None and labels is not None:
            num_groups = len(labels)
        if num_groups is None:
            raise ValueError("`num_groups` must be given, unless `labels` name the groups.")
        num_groups = check_positive("num_groups", num_groups, LARGEST_STATE)
        if labels is not None and len(labels) != num_groups:
            raise ValueError(
                f"`labels` must name each of the {num_groups} groups, got {len(labels)} names."
            )
        if by is not None and (not isinstance(by, str) or not by):
            raise ValueError(f"`by` must be None or a name, got {short(by)}.")
        if average is not None:
            check_choice("average", average, Average)
        if group is not None and (type(group) is not int or not 0 <= group < num_groups):
            raise ValueError(
                f"`group` must be None or from 0 to {num_groups - 1}, got {short(group)}."
            )
        if group is not None and average is not None:
            raise ValueError("`group` and `average` are different scalars; give one of them.")
        super().__init__(
            metric=metric,
            num_groups=num_groups,
            group=group,
            average=average,
            by=by,
            labels=labels,
            ignore_index=metric.ignore_index,
            validate_args=metric.validate_args,
            **kwargs,
        )

    metric: RankingMetric
    num_groups: int
    group: int | None
    average: Average | None
    by: str | None
    labels: GroupLabels | None

    @property
    def top(self) -> int:
        """What the metric needs."""
        return self.metric.top

    @property
    def best_only(self) -> bool:
        """What the metric needs."""
        return self.metric.best_only

    @property
    def keeps_scores(self) -> bool:
        """What the metric needs."""
        return self.metric.keeps_scores

    @property
    def scale(self) -> float:
        """That of the metric."""
        return self.metric.scale

    @property
    def unit(self) -> str:
        """That of the metric."""
        return self.metric.unit

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """As for the metric."""
        return self.metric.higher_is_better

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """That of the metric."""
        return self.metric.plot_upper_bound

    @property
    def depth(self) -> int | None:
        """What the metric looks at."""
        return self.metric.depth

    def update(
        self,
        preds: Array | Ranking,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> None:
        """Add a batch of queries.

        Args:
            preds: as for `RankingMetric.update`.
            target: as for `RankingMetric.update`.
            mask: as for `RankingMetric.update`.
            groups: integer, one group per query, or text where there are labels; or several of
                these by name. What `mask` leaves out is not looked at.
            exclude: as for `RankingMetric.update`.
            exempt_target: as for `RankingMetric.update`.
        """
        self.plan.update(preds, target, mask, groups, exclude, exempt_target, count=False)

    def rank(
        self,
        preds: Array | Ranking,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Find where the relevant locations landed, in queries of these groups."""
        return self.plan.rank(preds, target, mask, groups, exclude, exempt_target)

    def check(self, ranking: Ranking) -> None:
        """Raise where this metric cannot be updated with the ranking."""
        super().check(ranking)
        self.metric.check(ranking)
        groups = ranking.group_of(self.by)
        if self.validate_args and len(ranking):
            lowest, highest = groups.masked_fill(~ranking.counted, 0).aminmax()
            if lowest < 0 or highest >= self.num_groups:
                wrong = int(lowest if lowest < 0 else highest)
                raise ValueError(
                    f"`groups` must be from 0 to {self.num_groups - 1}, got {wrong}; leave queries "
                    "out by `mask`."
                )

    def empty_tally(self) -> Tensor:
        """Return zeros for every group's sum of scores, of their squares, and its queries."""
        return torch.zeros(self.num_groups, 3, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        """Sum up the scores of every group, exactly."""
        scores, counted = self.metric.score_queries(ranking)
        groups = ranking.group_of(self.by).masked_fill(~ranking.counted, 0).to(scores.device)
        return exact.tally_by(groups, self.num_groups, scores, counted).to(ranking.device)

    @property
    def group_names(self) -> list[str]:
        """What tables and pictures call the groups: their labels, or their numbers."""
        return list(self.labels.names if self.labels else map(str, range(self.num_groups)))

    @property
    def num_queries(self) -> Tensor:
        """How many queries this process has counted in every group, int64 `[num_groups]`."""
        return self.state[:, 2]

    @property
    def plot_label(self) -> str:
        """That of the metric, and of which group or mean."""
        of = self.average and f"mean over {self.average}"
        if self.group is not None:
            of = f"group {self.group}"
        return self.metric.plot_label + (f", {of}" if of else "")

    def compute(self) -> Tensor:
        """Return the mean score of every group, of one of them, or the mean over all."""
        if self.group is not None:
            return exact.mean(self.state[self.group]) * self.scale
        if self.average == "queries":
            return exact.mean(self.state.sum(0)) * self.scale
        values = exact.mean(self.state) * self.scale
        return values.double().nanmean().float() if self.average == "groups" else values

    @property
    def averages_scores(self) -> bool:
        """As the metric does."""
        return True

    def estimate(self) -> intervals.Estimate:
        """Return the mean that `compute` does, and how sure it is."""
        if self.average == "queries":
            return intervals.of_clusters(self.state)
        if self.average == "groups":
            return intervals.of_groups(self.state)
        return intervals.of_queries(self.state if self.group is None else self.state[self.group])
