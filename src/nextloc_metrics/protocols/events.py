"""The evaluation of events over a horizon that another codebase makes, as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nextloc_metrics.arguments.arrays import Array
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.base.fixes import unrounded
from nextloc_metrics.events.alignment import (
    EventCountDifference,
    EventTimeError,
    EventTransport,
    NextEventAccuracy,
)
from nextloc_metrics.events.metric import EventMetric
from nextloc_metrics.events.pairs import AnyEvents, EventPairs
from nextloc_metrics.events.precision import EventMAP, EventMaxF
from nextloc_metrics.protocols.protocol import Source


@dataclass(frozen=True)
class EventProtocol:
    """A codebase's evaluation of events over a horizon.

    Attributes:
        name: a short name.
        source: the source code that it follows.
        num_places: the number of places, over which it averages.
        horizon: the length of the horizon.
        thresholds: the largest differences of the times of matched events.
        insert_cost: the cost of a true event without partner.
        delete_cost: the cost of a predicted event without partner.
        steps: how many events of each side are aligned.
        limit: the largest error of the next event's time; None for any.
    """

    name: str
    source: Source
    num_places: int
    horizon: float
    thresholds: tuple[float, ...]
    insert_cost: float
    delete_cost: float
    steps: int
    limit: float | None = None

    @property
    def metrics(self) -> RankingCollection:
        """The metrics, by their names in the code."""
        members: dict[str, EventMetric] = {
            "next-item-mae": EventTimeError(limit=self.limit),
            "next-item-rmse": EventTimeError("rmse", limit=self.limit),
            "next-item-accuracy": NextEventAccuracy(),
            "optimal-transport-distance": EventTransport(
                self.insert_cost, self.delete_cost, first=self.steps
            ),
            "next-k-label-distribution-delta": EventCountDifference(first=self.steps),
        }
        names = ("next-item-map", "next-item-max-f-score"), ("T-mAP", "horizon-max-f-score")
        next_item: dict[str, Any] = {"horizon": None, "thresholds": [math.inf], "first": 1}
        horizon = {"horizon": self.horizon, "thresholds": self.thresholds, "as_hotpp": True}
        for (of_map, of_f), options in zip(names, (next_item, horizon), strict=True):
            for end, average in (("", "all"), ("-weighted", "weighted")):
                given = {**options, "average": average, "num_places": self.num_places}
                members[of_map + end] = EventMAP(**given)
                members[of_f + end] = EventMaxF(**given)
        return RankingCollection(members)

    def evaluate(
        self, predicted: AnyEvents, true: AnyEvents, start: Array | None = None
    ) -> dict[str, float]:
        """Return the values of the code, by their names there; the mean over orders of ties.

        The arguments are those of [`EventPairs`][nextloc_metrics.events.EventPairs]. The next item
        is the first event of each side.

        Example:
            >>> from nextloc_metrics import protocols
            >>> hotpp = protocols.hotpp(2, 10.0, [1.0], 1.0, 1.0, steps=2)
            >>> predicted = [([1.0, 5.0], [[0.9, 0.1], [0.2, 0.8]])]
            >>> found = hotpp.evaluate(predicted, [([1.5, 9.0], [0, 0])])
            >>> found["next-item-mae"], found["optimal-transport-distance"], found["T-mAP"]
            (0.5, 2.5, 0.25)
        """
        metrics = self.metrics
        metrics.update(EventPairs(predicted, true, start))
        with unrounded():
            return {name: float(value) for name, value in metrics.compute().items()}


def hotpp(
    num_places: int,
    horizon: float,
    thresholds: Sequence[float],
    insert_cost: float,
    delete_cost: float,
    steps: int,
    limit: float | None = None,
) -> EventProtocol:
    """HoTPP: T-mAP over all places, with 0 for a place all of whose predictions are matched.

    Its order of tied scores is that of an unstable sort; here they have the mean over their orders,
    and F none of the cuts between them. The arguments are its `horizon`, `map_deltas`,
    `otd_insert_cost`, `otd_delete_cost`, `otd_steps` and `max_time_delta`.
    """
    source = Source(
        "Karpukhin et al., HoTPP Benchmark: Are We Good at the Long Horizon Events Forecasting?, "
        "2024",
        "ivan-chai/hotpp-benchmark@f386a9343b6c1f9bbb8b82a341a31a0bf0f2db6a",
        "hotpp/metrics/otd.py, tmap.py, next_item.py",
    )
    costs = float(insert_cost), float(delete_cost)
    return EventProtocol(
        "hotpp", source, num_places, float(horizon), tuple(thresholds), *costs, steps, limit
    )
