"""What `evaluate` and `compare` know before they count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, TypeAlias

import torch
from torch import Tensor

from nextloc_metrics.analysis import Predictability, predictability
from nextloc_metrics.arguments.arrays import Array
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.arguments.rows import ArrayRows
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.base.grouped import Weighted
from nextloc_metrics.base.mean import MeanMetric, RecordMetric
from nextloc_metrics.geography import Locations
from nextloc_metrics.geography.locations import check_locations
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.notation import parse_measures
from nextloc_metrics.metrics.presets import (
    confidence_metrics,
    next_location_metrics,
    probability_metrics,
    recommendation_metrics,
)
from nextloc_metrics.report.own_metrics import names_of
from nextloc_metrics.report.setting import CONFIDENCE, Setting

#: The locations and the users of all visits, or their limits.
History: TypeAlias = tuple[Array, Array] | Predictability

# Before the name of an array of limits.
_LIMITS = "limits/"


@dataclass(frozen=True, eq=False)
class Data:
    """What an evaluation knows of locations and users besides its queries.

    Attributes:
        bins: the popularity bin of each location.
        train_counts: the visits of each location in the training data.
        locations: the coordinates.
        limits: the limits of predictability of users.
        metrics: the further metrics by name.
    """

    bins: PopularityBins | None = None
    train_counts: Tensor | None = None
    locations: Locations | None = None
    limits: Predictability | None = None
    metrics: Mapping[str, RecordMetric] = field(default_factory=dict)

    def digests(self) -> dict[str, Any]:
        """Return the digests by the attribute of `Setting`; "" for what is not there."""
        bins, counts, limits = self.bins, self.train_counts, self.limits
        points = None if self.locations is None else check_locations("locations", self.locations)
        return {
            "bins": "" if bins is None else digest(bins.state_key()),
            "train_counts": "" if counts is None else digest(counts),
            "locations": "" if points is None else digest(points.state_key()),
            "history": "" if limits is None else digest(*vars(limits).values()),
            "metrics": names_of(self.metrics),
        }

    def arrays(self) -> dict[str, Tensor]:
        """Return the arrays of a file of counts."""
        found = {"train_counts": self.train_counts}
        if self.bins is not None:
            found |= {"bin_of": self.bins.bin_of, "num_bins": torch.tensor(self.bins.num_bins)}
        if self.locations is not None:
            found["points"] = self.locations.points
        if self.limits is not None:
            found |= {_LIMITS + name: getattr(self.limits, name) for name in _tensors_of_limits()}
        return {name: array for name, array in found.items() if array is not None}

    @property
    def users(self) -> list[Any]:
        """The users of the limits."""
        return [] if self.limits is None else self.limits.users

    @classmethod
    def pop(
        cls, arrays: dict[str, Tensor], users: list[Any], metrics: Mapping[str, RecordMetric]
    ) -> Data:
        """Take what `arrays` wrote out of the arrays of a file, which has no metrics."""
        bin_of, counts, points = (arrays.pop(x, None) for x in ("bin_of", "train_counts", "points"))
        bins = None if bin_of is None else PopularityBins(bin_of, int(arrays.pop("num_bins")))
        locations = None if points is None else Locations.from_points(points)
        limits = None
        if f"{_LIMITS}limit" in arrays:
            read = {name: arrays.pop(_LIMITS + name) for name in _tensors_of_limits()}
            limits = Predictability(**read, users=users)
            if {tuple(array.shape) for array in read.values()} != {(len(users),)}:
                raise ValueError("its limits are not those of its users")
        return cls(bins, counts, locations, limits, metrics)


def limits_of(history: History | None) -> Predictability | None:
    """Return the limits of users; of visits they are computed, which takes seconds."""
    if history is None or isinstance(history, Predictability):
        return history
    return predictability(*history)


def _tensors_of_limits() -> list[str]:
    return [field.name for field in fields(Predictability) if field.name != "users"]


def digest(*values: Any) -> str:
    """Return a short hash of the values; of a tensor by its numbers."""
    found = blake2b(digest_size=8)
    for value in values:
        found.update(repr(value.tolist() if isinstance(value, Tensor) else value).encode())
    return found.hexdigest()


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
    metrics: Mapping[str, RecordMetric] | None = None,
) -> RankingCollection:
    """Make the preset for one relevant location per query, or for several, or `measures`.

    Copies of `metrics` follow. With weights, each mean of scores is a weighted one, and other
    metrics are left out.
    """
    if measures:
        headline = RankingCollection(dict(parse_measures(measures)))
    elif num_locations is None:
        headline = recommendation_metrics(k=k)
    else:
        headline = next_location_metrics(num_locations, k, locations=locations, km=km)
    check_free(headline, metrics or {})
    headline.add_metrics({name: metric.clone() for name, metric in (metrics or {}).items()})
    return weigh(headline) if is_weighted else headline


def check_free(rows: Iterable[Any], metrics: Mapping[str, RecordMetric]) -> None:
    """Raise if a further metric has the name of a row."""
    if taken := sorted({str(name) for name in rows} & metrics.keys()):
        raise ValueError(
            f"`metrics` must have other names than the rows of the evaluation, got {short(taken)}."
        )


def make_probabilities(setting: Setting, locations: Locations | None) -> RankingCollection:
    """Make the metrics of probabilities that the setting asks for, or none."""
    if not setting.probabilities:
        return RankingCollection({})
    if setting.probabilities == CONFIDENCE:
        metrics = confidence_metrics()
    else:
        metrics = probability_metrics(given=setting.probabilities, locations=locations)
    return weigh(metrics) if setting.is_weighted else metrics


def weigh(metrics: RankingCollection) -> RankingCollection:
    """Return the weighted means of a collection's means of scores, without its other metrics."""
    means = {name: x for name, x in metrics.named_members() if isinstance(x, MeanMetric)}
    return RankingCollection({name: Weighted(x) for name, x in means.items() if x._averages_scores})
