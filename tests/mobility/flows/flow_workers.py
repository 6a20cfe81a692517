"""What each process of a distributed test of flows evaluates, and the metrics that are tested."""

from __future__ import annotations

import warnings
from typing import Any

from nextloc_metrics.core.metric.base import unrounded
from nextloc_metrics.mobility.flows import (
    CombinedNRMSE,
    CommonPartOfCommuters,
    FlowCollection,
    FlowCorrelation,
    FlowJSD,
    FlowMAE,
    FlowNRMSE,
    FlowRMSE,
)


def members() -> dict[str, Any]:
    """One of each metric with each of its options."""
    found: dict[str, Any] = {}
    for of in ("all", "diagonal", "others"):
        for per in ("day", "all"):
            found[f"rmse {of} {per}"] = FlowRMSE(of, per)
            found[f"mae {of} {per}"] = FlowMAE(of, per)
            for by in ("std", "mean", 176):
                found[f"nrmse {by} {of} {per}"] = FlowNRMSE(by, of, per)
        found[f"correlation {of}"] = FlowCorrelation(of)
    found["combined"] = CombinedNRMSE()
    for per in ("day", "all"):
        found[f"cpc {per}"] = CommonPartOfCommuters(per=per)
    for of in ("pairs", "origins", "destinations"):
        for root in (False, True):
            found[f"jsd {of} {root}"] = FlowJSD(of, root)
    return found


def evaluate(rank: int, shares: list[list[Any]]) -> dict[str, float]:
    """The values of this process' days, each (predicted, true, names); it may have none."""
    metrics = FlowCollection(members())
    for day in shares[rank]:
        metrics.update(*day)
    with unrounded(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The ``compute`` method")
        return {name: float(x) for name, x in metrics.compute().items()}
