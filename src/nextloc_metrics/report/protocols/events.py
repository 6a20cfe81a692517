"""The evaluation of events over a horizon that another codebase makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.mobility import events


def hotpp(
    num_places: int,
    horizon: float,
    thresholds: Sequence[float],
    insert_cost: float,
    delete_cost: float,
    *,
    steps: int,
    limit: float | None = None,
) -> RankingCollection:
    """HoTPP: its values by their names; `update` takes `EventPairs`.

    T-mAP is over all places, with 0 for a place all of whose predictions are matched. Tied scores,
    which HoTPP orders by an unstable sort, have the mean over their orders. The next item is the
    first event. Source: `hotpp/metrics` of ivan-chai/hotpp-benchmark@f386a93.

    Args:
        num_places: the number of places, over which it averages.
        horizon: its `horizon`.
        thresholds: its `map_deltas`.
        insert_cost: its `otd_insert_cost`.
        delete_cost: its `otd_delete_cost`.
        steps: its `otd_steps`, how many events of each side are aligned.
        limit: its `max_time_delta`, the largest error of a time.

    Example:
        >>> from nextloc_metrics import events, protocols
        >>> hotpp = protocols.hotpp(2, 10.0, [1.0], 1.0, 1.0, steps=2)
        >>> predicted = [([1.0, 5.0], [[0.9, 0.1], [0.2, 0.8]])]
        >>> hotpp.update(events.EventPairs(predicted, [([1.5, 9.0], [0, 0])]))
        >>> hotpp.compute()["optimal-transport-distance"]
        tensor(2.5000)
    """
    members: dict[str, events.EventMetric] = {
        "next-item-mae": events.EventTimeError("mae", limit),
        "next-item-rmse": events.EventTimeError("rmse", limit),
        "next-item-accuracy": events.NextEventAccuracy(),
        "optimal-transport-distance": events.EventTransport(insert_cost, delete_cost, first=steps),
        "next-k-label-distribution-delta": events.EventCountDifference(first=steps),
    }
    next_item: dict[str, Any] = {"horizon": None, "thresholds": [math.inf], "first": 1}
    whole = {"horizon": horizon, "thresholds": thresholds, "as_hotpp": True}
    for of_map, of_f, options in (
        ("next-item-map", "next-item-max-f-score", next_item),
        ("T-mAP", "horizon-max-f-score", whole),
    ):
        for end, average in (("", "all"), ("-weighted", "weighted")):
            given = {**options, "average": average, "num_places": num_places}
            members[of_map + end] = events.EventMAP(**given)
            members[of_f + end] = events.EventMaxF(**given)
    return RankingCollection(members)
