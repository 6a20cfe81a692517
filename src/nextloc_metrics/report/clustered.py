"""Groups of queries whose intervals take clusters of queries as independent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.metric.declared import Computed
from nextloc_metrics.core.metric.grouped import Grouped
from nextloc_metrics.core.metric.keyed import KeyedMetric

# A key has the number of the group in the upper 32 bits and that of the cluster in the lower ones.
_BITS = 32
_LOWER = (1 << _BITS) - 1


class ClusteredGroups(Grouped, KeyedMetric):
    """`Grouped` with a clustered interval for each group, such as clustered by user.

    The state has a key, of a group and a cluster, and its three sums, for each pair that has
    queries.

    Args:
        cluster: the key of the clusters in `groups`.
        num_clusters: the number of clusters.
    """

    _: KW_ONLY
    cluster: str
    num_clusters: Computed[int]

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
                numbers, len(keys), own[counted], kept, scored._is_bounded, weights
            )
            sums.append(metric._summand(torch.cat([keys[:, None], found], 1)))
        return sums

    def _renumbered(self, state: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        groups, clusters = numbers[str(self.by)][state[:, 0] >> _BITS], numbers[self.cluster]
        keys = (groups << _BITS) + clusters[state[:, 0] & _LOWER]
        return torch.cat([keys[:, None], state[:, 1:]], 1)

    @property
    def _sums(self) -> Tensor:
        state = self.state
        sums = state.new_zeros(self.num_groups, state.shape[1] - 1)
        return sums.index_add(0, state[:, 0] >> _BITS, state[:, 1:])

    def _estimate(self) -> intervals.Estimate:
        state = self.state
        sizes = (state[:, 0] >> _BITS).bincount(minlength=self.num_groups)
        found = [intervals.of_clusters(part) for part in torch.split(state[:, 1:], sizes.tolist())]
        columns = zip(*(one[:-1] for one in found), strict=True)
        return intervals.Estimate._make([*map(torch.stack, columns), self.metric._is_bounded])
