"""Groups of queries whose intervals take clusters of queries as independent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.base.mean import MeanMetric
from nextloc_metrics.means import exact, intervals
from nextloc_metrics.metrics.grouped import Grouped


@dataclass(eq=False)
class Pairs:
    """The pairs of a group and a cluster that have queries in common.

    Attributes:
        keys: int64 `[P]`, in rising order: the number of the group x `num_clusters` + that of the
            cluster.
        num_groups: the number of groups.
        num_clusters: the number of clusters.
    """

    keys: Tensor
    num_groups: int
    num_clusters: int

    def number(self, groups: Tensor, clusters: Tensor) -> Tensor:
        """Return the number of each query's pair, int64 `[N]`."""
        return torch.searchsorted(self.keys, groups * self.num_clusters + clusters)

    def state_key(self) -> str:
        """Return the content as text, for the names of states."""
        return f"{self.keys.tolist()}, {self.num_groups}, {self.num_clusters}"


class ClusteredGroups(Grouped):
    """`Grouped` with a clustered interval for each group, such as clustered by user.

    The state has three integers for each pair of a group and a cluster, at most as many pairs as
    queries: the sum of scores, the sum of squares, the number of queries. `standard_error` takes
    queries as independent.

    Args:
        metric: as for `Grouped`.
        pairs: the pairs; `groups` of `update` holds their numbers.
        names: the names of the groups.
        kind: what a group is, such as `hour`.
        by: the key of the numbers of pairs in `groups`.
    """

    computed_options = frozenset({"group", "average", "labels", "names", "kind"})

    pairs: Pairs
    names: list[str]
    kind: str

    def __init__(
        self, metric: MeanMetric, pairs: Pairs, names: list[str], kind: str, by: str, **kwargs: Any
    ) -> None:
        size = max(1, len(pairs.keys))
        super().__init__(metric, size, by=by, pairs=pairs, names=names, kind=kind, **kwargs)

    @property
    def noun(self) -> str:
        """What a group is."""
        return self.kind

    @property
    def group_names(self) -> list[str]:
        """The names of the groups."""
        return self.names

    @property
    def sums(self) -> Tensor:
        """The sums of each group, int64 `[G, 3]`."""
        group = self.pairs.keys // self.pairs.num_clusters
        return self.state.new_zeros(self.pairs.num_groups, 3).index_add(
            0, group, self.state[: len(group)]
        )

    @property
    def num_queries(self) -> Tensor:
        """How many queries have been counted per group, int64 `[G]`."""
        return self.sums[:, 2]

    def compute(self) -> Tensor:
        """Return the mean score of every group."""
        return exact.mean(self.sums) * self.scale

    def interval(self, confidence: float = 0.95) -> tuple[Tensor, Tensor]:
        """Return the bounds of each group, float `[G]`; 0 and 1 for a group with one cluster."""
        group = self.pairs.keys // self.pairs.num_clusters
        sizes = group.bincount(minlength=self.pairs.num_groups)
        parts = torch.split(self.state[: len(group)], sizes.tolist())
        found = [intervals.of_clusters(part) for part in parts]
        estimate = intervals.Estimate(*map(torch.stack, zip(*found, strict=True)))
        bounds = torch.stack(estimate.interval(confidence))
        low, high = (bounds * self.scale).float()
        return low, high
