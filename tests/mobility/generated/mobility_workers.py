"""What each process of a distributed test evaluates."""

from __future__ import annotations

import warnings
from typing import Any

from nextloc_metrics.geography import Locations
from nextloc_metrics.mobility.generated import Trajectories, mobility_metrics


def evaluate(rank: int, shares: list[list[Any]], coordinates: Any) -> dict[str, Any]:
    """The values and floors of this process' rows: for each set, rows and users.

    A process without sets never updates.
    """
    metrics = mobility_metrics("ids", times=True, locations=Locations(*coordinates), ranks=4)
    if shares[rank]:
        metrics.update(*(Trajectories(rows, step=7.0, users=users) for rows, users in shares[rank]))
    found = {}
    for name, measure in metrics.measures().items():
        one = measure.result()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The ``compute`` method")  # of one that never updates
            value = float(measure.compute())
        assert one.floor == measure.floor()
        found[name] = (value, one.value, *one.floor, one.generated, one.real)
    return found
