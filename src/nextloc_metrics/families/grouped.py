"""A ranking metric for every group of queries, in one pass."""

from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics import exact, intervals
from nextloc_metrics.arrays import Array
from nextloc_metrics.checks import check_choice, check_positive
from nextloc_metrics.messages import short
from nextloc_metrics.metric import LARGEST_STATE, RankingMetric, RankingTally
from nextloc_metrics.ranking import Ranking

Average = Literal["groups", "queries"]


class Grouped(RankingTally):
    r"""A ranking metric of every group of queries: by user, hour, decile of the target, and so on.

    Numerators and denominators of the groups add up to those of the metric itself, exactly.

    Args:
        metric: the metric whose score is averaged; it is not updated itself.
        num_groups: how many groups there are, numbered from 0.
        group: the number of a group, for a scalar; None for all.
        average: `"groups"`, the mean over the groups that have data, as a scalar (over users, as
            much of the literature reports); `"queries"`, the mean over all queries, as the metric
            itself has it, with an interval that knows that queries of a group are not independent;
            None for every group's value.
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
    computed_options = frozenset({"group", "average"})

    def __init__(
        self,
        metric: RankingMetric,
        num_groups: int,
        group: int | None = None,
        average: Average | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(metric, RankingMetric):
            raise TypeError(f"`metric` must be a RankingMetric, got {short(metric)}.")
        if not metric.averages_scores:
            raise TypeError(f"`metric` must be the mean of a score, and {short(metric)} is not.")
        check_positive("num_groups", num_groups, LARGEST_STATE)
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
            ignore_index=metric.ignore_index,
            validate_args=metric.validate_args,
            **kwargs,
        )

    metric: RankingMetric
    num_groups: int
    group: int | None
    average: Average | None

    @property
    def top(self) -> int:
        """What the metric needs."""
        return self.metric.top

    @property
    def best_only(self) -> bool:
        """What the metric needs."""
        return self.metric.best_only

    @property
    def depth(self) -> int | None:
        """What the metric looks at."""
        return self.metric.depth

    def update(
        self,
        preds: Array | Ranking,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> None:
        """Add a batch of queries.

        Args:
            preds: as for `RankingMetric.update`.
            target: as for `RankingMetric.update`.
            mask: as for `RankingMetric.update`.
            groups: integer, one group per query; what `mask` leaves out is not looked at.
            exclude: as for `RankingMetric.update`.
            exempt_target: as for `RankingMetric.update`.
        """
        self.plan.update(preds, target, mask, groups, exclude, exempt_target, count=False)

    def rank(
        self,
        preds: Array | Ranking,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | None = None,
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
        if ranking.groups is None:
            raise ValueError("`groups` must be given, one per query, to update a Grouped metric.")
        if self.validate_args and len(ranking):
            lowest, highest = ranking.groups.masked_fill(~ranking.counted, 0).aminmax()
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
        assert ranking.groups is not None  # checked
        scores, counted = self.metric.score_queries(ranking)
        groups = ranking.groups.masked_fill(~ranking.counted, 0).to(scores.device)
        return exact.tally_by(groups, self.num_groups, scores, counted).to(ranking.device)

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
            return exact.mean(self.state[self.group])
        if self.average == "queries":
            return exact.mean(self.state.sum(0))
        values = exact.mean(self.state)
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
