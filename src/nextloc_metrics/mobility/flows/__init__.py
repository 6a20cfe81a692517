"""Predicted and true trips between cells, day by day: errors, common parts, divergences.

Matrices or rows of whole days come in, exact sums of each day are kept. It imports
`geography` and `core`. Begin with `pairs.FlowPairs`, then `metric.DailyMetric`.
"""

from nextloc_metrics.mobility.flows.metrics import (
    CombinedNRMSE,
    CommonPartOfCommuters,
    FlowCorrelation,
    FlowJSD,
    FlowMAE,
    FlowNRMSE,
    FlowRMSE,
)
from nextloc_metrics.mobility.flows.pairs import FlowPairs
from nextloc_metrics.mobility.flows.presets import (
    HUMOB_2026_BOX,
    FlowCollection,
    FlowPreset,
    flow_metrics,
)

__all__ = [
    "HUMOB_2026_BOX",
    "CombinedNRMSE",
    "CommonPartOfCommuters",
    "FlowCollection",
    "FlowCorrelation",
    "FlowJSD",
    "FlowMAE",
    "FlowNRMSE",
    "FlowPairs",
    "FlowPreset",
    "FlowRMSE",
    "flow_metrics",
]
