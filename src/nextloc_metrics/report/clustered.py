"""Groups of queries whose intervals take clusters of queries as independent."""

from __future__ import annotations

import torch
from torch import Tensor

from nextloc_metrics.means import exact, intervals
from nextloc_metrics.metrics.grouped import Grouped
from nextloc_metrics.ranking.ranking import Ranking


class ClusteredGroups(Grouped):
    """`Grouped` with a clustered interval for each group, such as clustered by user.

    Next to the state, `sums` has three integers for each pair of a group and a cluster that have
    queries in common: the sum of scores, the sum of squares, the number of queries. There are at
    most as many pairs as queries. `standard_error` still takes queries as independent.

    Attributes:
        keys: int64 `[P]`, the pairs in rising order: group x `num_clusters` + cluster.
        num_clusters: the number of clusters.
        sums: int64 `[P, 3]`, the sums of each pair.
    """

    keys: Tensor
    num_clusters: int
    sums: Tensor

    def set_pairs(self, keys: Tensor, num_clusters: int) -> None:
        """Set the pairs, without queries."""
        self.keys, self.num_clusters = keys, num_clusters
        self.sums = torch.zeros(len(keys), 3, dtype=torch.int64)

    def add_pairs(self, ranking: Ranking, clusters: Tensor) -> None:
        """Add a batch of queries to the pairs, which hold those of the batch."""
        scores, counted = self.metric.score_queries(ranking)
        keys = ranking.group_of(self.by) * self.num_clusters + clusters
        own, pair = torch.unique(keys, return_inverse=True)
        at = torch.searchsorted(self.keys, own)
        self.sums[at] += exact.tally_by(pair, len(own), scores, counted)

    def interval(self, confidence: float = 0.95) -> tuple[Tensor, Tensor]:
        """Return the bounds of each group, float `[G]`; 0 and 1 for a group with one cluster."""
        sizes = (self.keys // self.num_clusters).bincount(minlength=self.num_groups)
        parts = torch.split(self.sums, sizes.tolist())
        found = [intervals.of_clusters(part) for part in parts]
        estimate = intervals.Estimate(*map(torch.stack, zip(*found, strict=True)))
        bounds = torch.stack(estimate.interval(confidence))
        low, high = (bounds * self.scale).float()
        return low, high
