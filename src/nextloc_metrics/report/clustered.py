"""Groups of queries whose intervals take clusters of queries as independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.arguments.labels import GroupLabels
from nextloc_metrics.base.keyed import KeyedMetric
from nextloc_metrics.base.mean import MeanMetric, of_metric
from nextloc_metrics.means import exact, intervals
from nextloc_metrics.metrics.deciles import DecileScore
from nextloc_metrics.metrics.grouped import Grouped
from nextloc_metrics.ranking.ranking import Ranking

# A key has the number of the group in the upper 32 bits and that of the cluster in the lower ones.
_BITS = 32


class ClusteredGroups(Grouped, KeyedMetric):
    """`Grouped` with a clustered interval for each group, such as clustered by user.

    The state has a key, of a group and a cluster, and its three sums, for each pair that has
    queries. `standard_error` takes queries as independent.

    Args:
        metric: as for `Grouped`.
        labels: the names of the groups.
        by: the key of the groups in `groups`.
        cluster: the key of the clusters.
    """

    _: KW_ONLY
    cluster: str

    def __init__(
        self, metric: MeanMetric, labels: GroupLabels, by: str, cluster: str, **kwargs: Any
    ) -> None:
        super().__init__(metric, labels=labels, by=by, cluster=cluster, **kwargs)

    def empty_tally(self) -> Tensor:
        return torch.nn.functional.pad(super().empty_tally()[:0], (1, 0))

    @staticmethod
    def _sum_many(
        metrics: Sequence[Any], scores: Sequence[Tensor], counted: Tensor, record: Any
    ) -> Sequence[Any]:
        pairs = {}
        for metric in metrics:
            if (metric.by, metric.cluster) not in pairs:
                groups, clusters = (record.group_of(x) for x in (metric.by, metric.cluster))
                keys = ((groups << _BITS) + clusters)[counted]
                pairs[metric.by, metric.cluster] = torch.unique(keys, return_inverse=True)
        kept, sums = counted[counted], []
        for metric, own in zip(metrics, scores, strict=True):
            keys, numbers = pairs[metric.by, metric.cluster]
            scored, weights = metric.metric, record.queries.weights
            weights = weights[counted] if scored._is_weighted else None
            found = exact.tally_by(
                numbers, len(keys), own[counted], kept, scored.is_bounded, weights
            )
            sums.append(metric._summand(torch.cat([keys[:, None], found], 1)))
        return sums

    def renumbered(self, groups: Tensor, clusters: Tensor) -> Tensor:
        """Return the state with other numbers of groups and clusters, by those here."""
        keys, sums = self.state[:, 0], self.state[:, 1:]
        keys = (groups[keys >> _BITS] << _BITS) + clusters[keys & ((1 << _BITS) - 1)]
        return torch.cat([keys[:, None], sums], 1)

    def check_keys(self, keys: Tensor, num_clusters: int) -> bool:
        """Return whether keys are in order and of groups and clusters that there are."""
        highest = int((keys & ((1 << _BITS) - 1)).max()) if len(keys) else 0
        return bool(
            (keys.diff() > 0).all()
            and highest < num_clusters
            and (keys >= 0).all()
            and (keys >> _BITS < self.num_groups).all()
        )

    @property
    def sums(self) -> Tensor:
        """The sums of each group, int64 `[G, 3 or 7]`."""
        state = self.state
        sums = state.new_zeros(self.num_groups, state.shape[1] - 1)
        return sums.index_add(0, state[:, 0] >> _BITS, state[:, 1:])

    @property
    def num_queries(self) -> Tensor:
        return self.sums[:, 2]

    def compute(self) -> Tensor:
        return exact.mean(self.sums) * self._factor

    def interval(self, confidence_level: float = 0.95) -> tuple[Tensor, Tensor]:
        state = self.state
        sizes = (state[:, 0] >> _BITS).bincount(minlength=self.num_groups)
        found = [intervals.of_clusters(part) for part in torch.split(state[:, 1:], sizes.tolist())]
        columns = zip(*(one[:-1] for one in found), strict=True)
        estimate = intervals.Estimate._make([*map(torch.stack, columns), self.metric.is_bounded])
        bounds = torch.stack(estimate.interval(confidence_level))
        low, high = bounds * self._factor
        return low, high


class ClusteredDecile(DecileScore):
    """The mean of a score for one decile, with a clustered interval, such as clustered by user.

    The state has the sum of scores, of squares and the number of queries of each cluster.

    Args:
        metric: the metric of the decile; its own state is not updated.
        num_groups: the number of clusters.
        by: the key of the clusters in `groups`.
        decile: that of `metric`.
    """

    _reads_groups = True
    _: KW_ONLY
    metric: DecileScore
    num_groups: int
    by: str

    # by hand, as the state depends on the decile
    def __init__(self, metric: DecileScore, num_groups: int, by: str, decile: Any) -> None:
        names = "bins", "candidates", "ties", "ignore_index", "validate_args"
        options: Any = {name: getattr(metric, name) for name in names}
        options |= {"metric": metric, "num_groups": num_groups, "by": by, "decile": decile}
        super().__init__(**options)

    name: str = of_metric("name")
    cut: int = of_metric("cut")
    _has_means = True

    def score(self, ranking: Ranking, predictions: Tensor) -> Tensor:
        return self.metric.score(ranking, predictions)

    def empty_tally(self) -> Tensor:
        return torch.zeros(self.num_groups, 3, dtype=torch.int64)

    def tally_split(self, within: Ranking, predictions: Tensor) -> Tensor:
        first = self.decile if isinstance(self.decile, int) else 0  # unmapped
        rows = slice(first, None, self.bins.num_bins + 1)
        own = within[rows]
        scores = self.score(own.break_ties(self.ties), predictions[rows])
        return exact.tally_by(own.group_of(self.by), self.num_groups, scores, own.answerable)

    @property
    def num_queries(self) -> Tensor:
        return self.state[:, 2].sum()

    def compute(self) -> Tensor:
        return exact.mean(self.state.sum(0))

    def _estimate(self) -> intervals.Estimate:
        return intervals.of_clusters(self.state)
