"""The usual metrics of flows in one call, and those of the HuMob Challenge 2026."""

from __future__ import annotations

from typing import Any, Literal

from nextloc_metrics.core.metric.collection import SummedCollection
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.mobility.flows.metric import FlowMetric
from nextloc_metrics.mobility.flows.metrics import (
    CombinedNRMSE,
    CommonPartOfCommuters,
    FlowCorrelation,
    FlowJSD,
    FlowMAE,
    FlowNRMSE,
    FlowRMSE,
)
from nextloc_metrics.mobility.flows.pairs import CellBox, FlowPairs

#: The cells that the HuMob Challenge 2026 compares: the lowest and the highest x, and y.
HUMOB_2026_BOX: CellBox = ((30, 70), (35, 70))


class FlowCollection(SummedCollection):
    """A `MetricCollection` of metrics of flows: it reads days once; an error changes no member."""

    _holds = FlowMetric

    def update(self, preds: Any, target: Any = None, days: Any = None) -> None:
        """Add whole days to every member; the arguments are those of `FlowRMSE.update`."""
        self.update_with(FlowPairs.batch(preds, target, days))

    def forward(self, preds: Any, target: Any = None, days: Any = None) -> dict[str, Any]:
        """Add whole days, and return the values of these alone."""
        return self.forward_with(FlowPairs.batch(preds, target, days))


class FlowPreset:
    """What `flow_metrics` is: called, it returns the usual metrics; `as_of`, a challenge's."""

    def __call__(self, *, prefix: str | None = None) -> FlowCollection:
        """Return the usual metrics of flows; `prefix` is text before every key.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics.mobility.flows import flow_metrics
            >>> metrics = flow_metrics()
            >>> metrics.update(tensor([[5, 0], [0, 3]]), tensor([[1, 4], [0, 3]]))
            >>> metrics.table()
            metric                     value
            rmse (trips)             2.82843
            rmse_diagonal (trips)    2.82843
            rmse_others (trips)      2.82843
            nrmse                    1.78885
            mae (trips)                    2
            cpc (%)                    50.00
            jsd (bits)              0.381242
            correlation            -0.149071
        """
        members: dict[str, FlowMetric] = {
            "rmse": FlowRMSE(),
            "rmse_diagonal": FlowRMSE("diagonal"),
            "rmse_others": FlowRMSE("others"),
            "nrmse": FlowNRMSE(),
            "mae": FlowMAE(),
            "cpc": CommonPartOfCommuters(),
            "jsd": FlowJSD(),
            "correlation": FlowCorrelation(),
        }
        return FlowCollection(members, prefix=prefix)

    def as_of(self, year: Literal[2026], *, prefix: str | None = None) -> FlowCollection:
        """Return the score of the HuMob Challenge 2026, `combined_nrmse`, and its two parts.

        Each day has the 1,476 cells of `HUMOB_2026_BOX`. The daily RMSE over the 1,476 pairs of a
        cell with itself is averaged over days and divided by 26.57, that over the 2,177,100 others
        by .0176; these are root mean squares of the organisers' counts.

        Example:
            >>> from nextloc_metrics.mobility.flows import HUMOB_2026_BOX, FlowPairs, flow_metrics
            >>> true = {"day": [20240201], "ox": [30], "oy": [36], "dx": [30], "dy": [36]}
            >>> rows = {**true, "count": [1]}, {**true, "count": [2]}
            >>> pairs = FlowPairs.from_tables(*rows, box=HUMOB_2026_BOX)
            >>> flow_metrics.as_of(2026)(pairs)["nrmse_diagonal"]  # root(1 / 1476) / 26.57
            tensor(0.0010)

        Source: `competition_metric.py` of YShunT/Humob_2026.
        """
        if isinstance(year, bool) or year != 2026:
            raise ValueError(f"`year` must be 2026, got {short(year)}.")
        cells: Any = {"num_cells": 41 * 36}
        members: dict[str, FlowMetric] = {
            "combined_nrmse": CombinedNRMSE(**cells),
            "nrmse_diagonal": FlowNRMSE(26.57, "diagonal", **cells),
            "nrmse_others": FlowNRMSE(0.0176, "others", **cells),
        }
        return FlowCollection(members, prefix=prefix)


flow_metrics = FlowPreset()
