"""What `evaluate` and `compare` read of their rows before they count."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.arguments.rows import ArrayRows
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.base.mean import MeanMetric
from nextloc_metrics.geography import Locations
from nextloc_metrics.metrics.measures import parse_measures
from nextloc_metrics.metrics.presets import next_location_metrics, recommendation_metrics
from nextloc_metrics.metrics.weighted import Weighted


def check_cluster(cluster: str | None, groups: Sequence[str]) -> None:
    """Raise if `cluster` is not a key of `groups`."""
    if cluster is not None and cluster not in groups:
        raise ValueError(
            f"`cluster` must be one of `groups`, {short(list(groups))}, got {short(cluster)}."
        )


def count_locations(rows: ArrayRows, given: int | None, train_counts: Tensor | None) -> int | None:
    """Return the number of ids for F1; None if several locations may be relevant."""
    if rows.has_several or given is not None:
        return None if rows.has_several else given
    if rows.num_candidates is not None:
        return rows.num_candidates
    known = [] if train_counts is None else [len(train_counts)]
    largest = [int(rows.target.max()) + 1] if len(rows.target) else []
    return max([1, *known, *largest])


def make_headline(
    num_locations: int | None,
    k: int | Sequence[int],
    locations: Locations | None = None,
    km: float = 1.0,
    measures: Sequence[str] = (),
    is_weighted: bool = False,
) -> RankingCollection:
    """Make the preset for one relevant location per query, or for several, or `measures`.

    With weights, each mean of scores is a weighted one, and other metrics are left out.
    """
    if measures:
        headline = RankingCollection(dict(parse_measures(measures)))
    elif num_locations is None:
        headline = recommendation_metrics(k=k)
    else:
        headline = next_location_metrics(num_locations, k, locations=locations, km=km)
    return weigh(headline) if is_weighted else headline


def weigh(metrics: RankingCollection) -> RankingCollection:
    """Return the weighted means of a collection's means of scores, without its other metrics."""
    means = {name: x for name, x in metrics.named_members() if isinstance(x, MeanMetric)}
    return RankingCollection({name: Weighted(x) for name, x in means.items() if x.averages_scores})
