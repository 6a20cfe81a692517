"""The shortest way from scores to states: for one relevant location a query, without a `Ranking`.

This is what a collection's `update` does most, and where a `Ranking` takes longer to make than some
thousand scores a query to read. Whatever else is asked for, errors included, is left to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics import scoring
from nextloc_metrics.counting import compiled_loops
from nextloc_metrics.location_f1 import LocationF1
from nextloc_metrics.metric import RankingMetric, RankingTally

# Other kinds of tensors may keep their values elsewhere.
_PLAIN = Tensor, torch.nn.Parameter


class Shortcut:
    """Adds batches to metrics without a `Ranking`, where all of them are of a kind to allow it.

    Args:
        metrics: metrics that agree on `ignore_index`.
    """

    def __init__(self, metrics: Sequence[RankingTally]) -> None:
        self.metrics = metrics
        self._f1 = [metric for metric in metrics if type(metric) is LocationF1]
        known = [(metric, formula) for metric in metrics if (formula := _formula(metric))]
        self._means = [metric for metric, _ in known]
        self._formulas = tuple(formula for _, formula in known)
        are_all = len(known) + len(self._f1) == len(metrics)
        self._serves = are_all and bool(known) and len(self._f1) <= 1

    def add(self, preds: Any, target: Any) -> bool:
        """Add a batch to the states where that can be done, and tell whether it could."""
        if not self._serves or type(preds) not in _PLAIN or type(target) not in _PLAIN:
            return False
        loops = compiled_loops(preds)
        if (
            loops is None
            or preds.ndim != 2
            or not loops.supports(preds)
            or target.dtype != torch.int64
            or target.shape != preds.shape[:1]
            or not target.is_cpu
            or preds.is_neg()
            or target.is_neg()
        ):
            return False
        formulas = loops.read_formulas(self._formulas, preds.shape[1])
        if formulas is None:
            return False
        states = [metric.own_state() for metric in (*self._means, *self._f1)]
        if not all(state.is_cpu and state.dtype == torch.int64 for state in states):
            return False
        decisions = states.pop() if self._f1 else None
        if decisions is not None and preds.shape[1] > self._f1[0].num_locations:
            return False
        ignored = self.metrics[0].ignore_index
        added: bool = loops.add_one_relevant(preds, target, ignored, formulas, states, decisions)
        return added


def _formula(metric: RankingTally) -> scoring.Formula | None:
    """Return how a metric of this library scores, where that is known and ties are averaged."""
    if (
        isinstance(metric, RankingMetric)
        and type(metric).__module__.startswith("nextloc_metrics.")
        and not metric.has_own_score
        and metric.averages_scores
        and metric.ties == "expected"
    ):
        return metric.formula
    return None
