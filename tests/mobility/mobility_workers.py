"""What each process of a distributed test evaluates."""

from __future__ import annotations

from typing import Any

from nextloc_metrics.geography import Locations
from nextloc_metrics.mobility import Trajectories, mobility_metrics


def evaluate(rank: int, shares: list[list[Any]], coordinates: Any) -> dict[str, Any]:
    """The values and floors of this process' rows: for each set, rows and users."""
    metrics = mobility_metrics("ids", times=True, locations=Locations(*coordinates), ranks=4)
    generated, real = (Trajectories(rows, step=7.0, users=users) for rows, users in shares[rank])
    metrics.update(generated, real)
    found = {name: measure.result() for name, measure in metrics.measures().items()}
    return {name: (one.value, *one.floor, one.generated, one.real) for name, one in found.items()}
