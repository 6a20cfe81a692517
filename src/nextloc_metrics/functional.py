"""The metrics as functions of (preds, target).

Each function takes the options of its class and returns the mean over the queries of the batch
(`reduction="mean"`), or one score per query (`reduction="none"`), in the shape of the queries, NaN
where a query is skipped. Metrics over locations have an `average` instead of a `reduction`.

Example:
    >>> from torch import tensor
    >>> from nextloc_metrics.functional import mrr
    >>> scores, target = tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 2])
    >>> mrr(scores, target)
    tensor(0.4167)
    >>> mrr(scores, target, reduction="none")
    tensor([0.5000, 0.3333])
"""

from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import Array
from nextloc_metrics.arguments.checks import check_choice
from nextloc_metrics.base.mean import RecordMetric
from nextloc_metrics.base.ranking_metric import RankingMetric
from nextloc_metrics.metrics import at_k
from nextloc_metrics.metrics.location_f1 import (
    Average,
    LocationF1,
    LocationPrecision,
    LocationRecall,
)
from nextloc_metrics.ranking.ranking import Ranking

Reduction = Literal["mean", "none"]


def accuracy_at_k(
    preds: Array | Ranking, target: Array | None, k: int, mask: Array | None = None,
    *, reduction: Reduction = "mean", **options: Any,
) -> Tensor:  # fmt: skip
    """Accuracy within the first k ranks; see `AccuracyAtK`."""
    return _evaluate(at_k.AccuracyAtK(k, **options), preds, target, mask, reduction)


def mrr(
    preds: Array | Ranking, target: Array | None = None, k: int | None = None,
    mask: Array | None = None, *, reduction: Reduction = "mean", **options: Any,
) -> Tensor:  # fmt: skip
    """Mean reciprocal rank; see `MRR`."""
    return _evaluate(at_k.MRR(k, **options), preds, target, mask, reduction)


def ndcg_at_k(
    preds: Array | Ranking, target: Array | None, k: int, mask: Array | None = None,
    *, reduction: Reduction = "mean", **options: Any,
) -> Tensor:  # fmt: skip
    """Normalized discounted cumulative gain; see `NDCGAtK`."""
    return _evaluate(at_k.NDCGAtK(k, **options), preds, target, mask, reduction)


def map_at_k(
    preds: Array | Ranking, target: Array | None, k: int, mask: Array | None = None,
    *, reduction: Reduction = "mean", **options: Any,
) -> Tensor:  # fmt: skip
    """Mean average precision; see `MAPAtK`."""
    return _evaluate(at_k.MAPAtK(k, **options), preds, target, mask, reduction)


def precision_at_k(
    preds: Array | Ranking, target: Array | None, k: int, mask: Array | None = None,
    *, reduction: Reduction = "mean", **options: Any,
) -> Tensor:  # fmt: skip
    """Precision within the first k ranks; see `PrecisionAtK`."""
    return _evaluate(at_k.PrecisionAtK(k, **options), preds, target, mask, reduction)


def recall_at_k(
    preds: Array | Ranking, target: Array | None, k: int, mask: Array | None = None,
    *, reduction: Reduction = "mean", **options: Any,
) -> Tensor:  # fmt: skip
    """Recall within the first k ranks; see `RecallAtK`."""
    return _evaluate(at_k.RecallAtK(k, **options), preds, target, mask, reduction)


def f1_at_k(
    preds: Array | Ranking, target: Array | None, k: int, mask: Array | None = None,
    *, reduction: Reduction = "mean", **options: Any,
) -> Tensor:  # fmt: skip
    """F1 within the first k ranks; see `F1AtK`."""
    return _evaluate(at_k.F1AtK(k, **options), preds, target, mask, reduction)


def location_f1(
    preds: Array | Ranking, target: Array | None, num_locations: int, mask: Array | None = None,
    *, average: Average | None = "weighted", **options: Any,
) -> Tensor:  # fmt: skip
    """F1 per location, with the best candidate as decision; see `LocationF1`."""
    return _compute(LocationF1(num_locations, average, **options), preds, target, mask)


def location_precision(
    preds: Array | Ranking, target: Array | None, num_locations: int, mask: Array | None = None,
    *, average: Average | None = "weighted", **options: Any,
) -> Tensor:  # fmt: skip
    """Precision per location, with the best candidate as decision; see `LocationPrecision`."""
    return _compute(LocationPrecision(num_locations, average, **options), preds, target, mask)


def location_recall(
    preds: Array | Ranking, target: Array | None, num_locations: int, mask: Array | None = None,
    *, average: Average | None = "weighted", **options: Any,
) -> Tensor:  # fmt: skip
    """Recall per location, with the best candidate as decision; see `LocationRecall`."""
    return _compute(LocationRecall(num_locations, average, **options), preds, target, mask)


def _evaluate(
    metric: RankingMetric,
    preds: Array | Ranking,
    target: Array | None,
    mask: Array | None,
    reduction: Reduction,
) -> Tensor:
    check_choice("reduction", reduction, Reduction)
    if reduction == "mean":
        return _compute(metric, preds, target, mask)
    with torch.no_grad():
        ranking = metric.rank(preds, target, mask)
        metric = metric.to(ranking.device)
        metric._check(ranking)
        scores, counted = metric._score_queries(ranking)
        scores = scores.masked_fill(~counted, torch.nan).float()
        return scores.reshape(ranking.shape).to(ranking.device)


def _compute(
    metric: RecordMetric, preds: Array | Ranking, target: Array | None, mask: Array | None
) -> Tensor:
    """Return the value of one batch, without summing over processes."""
    with torch.no_grad():
        ranking = metric.read(preds, target, mask)
        metric = metric.to(ranking.device)
        metric.update(ranking)
        metric._to_sync = False
        value: Tensor = metric.compute()
        return value
