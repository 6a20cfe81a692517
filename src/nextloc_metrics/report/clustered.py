"""Groups of queries whose intervals take clusters of queries as independent."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.base.mean import MeanMetric, of_metric
from nextloc_metrics.means import exact, intervals
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.deciles import DecileMetric, DecileScore
from nextloc_metrics.metrics.grouped import Grouped
from nextloc_metrics.ranking.ranking import Ranking, Ties

# A key has the number of the group in the upper 32 bits and that of the cluster in the lower ones.
_BITS = 32
_FREE = -1


class ClusterPairs:
    """The pairs of a group and a cluster that have queries in common, numbered as they appear.

    Args:
        keys: int64 `[P]`, the key of each pair; see `key_of`.
        size: the number of pairs that there is room for; None for P.
    """

    def __init__(self, keys: Tensor, size: int | None = None) -> None:
        free = max(0, (size or 0) - len(keys))
        self.number_of_pairs = len(keys)
        self._keys = torch.nn.functional.pad(keys, (0, free), value=_FREE)
        self._in_order: tuple[Tensor, Tensor] | None = None

    def __len__(self) -> int:
        """Return the number of pairs that there is room for."""
        return len(self._keys)

    @staticmethod
    def key_of(groups: Tensor, clusters: Tensor) -> Tensor:
        """Return the keys of pairs."""
        keys: Tensor = (groups << _BITS) + clusters
        return keys

    @property
    def keys(self) -> Tensor:
        """The key of each pair, int64 `[P]`."""
        return self._keys[: self.number_of_pairs]

    @property
    def groups(self) -> Tensor:
        """The number of each pair's group."""
        return self.keys >> _BITS

    @property
    def clusters(self) -> Tensor:
        """The number of each pair's cluster."""
        return self.keys & ((1 << _BITS) - 1)

    def missing(self, distinct: Tensor) -> Tensor:
        """Return which of distinct keys are no pairs yet."""
        in_order, _ = self._sorted()
        at = torch.searchsorted(in_order, distinct).clamp(max=max(0, len(in_order) - 1))
        return distinct[in_order[at] != distinct] if len(in_order) else distinct

    def add(self, keys: Tensor) -> None:
        """Add pairs, for which there must be room."""
        end = self.number_of_pairs + len(keys)
        self._keys[self.number_of_pairs : end] = keys
        self.number_of_pairs, self._in_order = end, None

    def remove(self, number: int) -> None:
        """Remove the last pairs."""
        self.number_of_pairs, self._in_order = self.number_of_pairs - number, None

    def number(self, keys: Tensor) -> Tensor:
        """Return the number of the pair of each key, int64 `[N]`."""
        in_order, order = self._sorted()
        return order[torch.searchsorted(in_order, keys)]

    def _sorted(self) -> tuple[Tensor, Tensor]:
        if self._in_order is None:
            in_order, order = self.keys.sort()
            self._in_order = in_order, order
        return self._in_order

    def state_key(self) -> str:
        """Return text for the names of states, which are never compared between evaluations."""
        return str(id(self))


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

    pairs: ClusterPairs
    names: list[str]
    kind: str

    def __init__(
        self,
        metric: MeanMetric,
        pairs: ClusterPairs,
        names: list[str],
        kind: str,
        by: str,
        **kwargs: Any,
    ) -> None:
        size = max(1, len(pairs))
        super().__init__(metric, size, by=by, pairs=pairs, names=names, kind=kind, **kwargs)

    @property
    def noun(self) -> str:
        return self.kind

    @property
    def group_names(self) -> list[str]:
        return self.names

    @property
    def sums(self) -> Tensor:
        """The sums of each group, int64 `[G, 3 or 7]`."""
        groups = self.pairs.groups
        sums = self.state.new_zeros(len(self.names), self.state.shape[1])
        return sums.index_add(0, groups, self.state[: len(groups)])

    @property
    def num_queries(self) -> Tensor:
        return self.sums[:, 2]

    def compute(self) -> Tensor:
        return exact.mean(self.sums) * self._factor

    def interval(self, confidence_level: float = 0.95) -> tuple[Tensor, Tensor]:
        groups, order = self.pairs.groups.sort()
        sizes = groups.bincount(minlength=len(self.names))
        parts = torch.split(self.state[order], sizes.tolist())
        found = [intervals.of_clusters(part) for part in parts]
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
    """

    computed_options = frozenset()
    _reads_groups = True
    metric: DecileScore
    num_groups: int
    by: str

    def __init__(self, metric: DecileScore, num_groups: int, by: str) -> None:
        options: dict[str, Any] = {
            name: getattr(metric, name) for name in ("decile", "ignore_index", "validate_args")
        }
        super(DecileMetric, self).__init__(metric=metric, num_groups=num_groups, by=by, **options)

    bins: PopularityBins = of_metric("bins")
    candidates: int = of_metric("candidates")
    ties: Ties = of_metric("ties")
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
