"""The metrics as functions of (preds, target).

Each takes what its class takes, and returns the mean over the batch's queries
(`reduction="mean"`), or with `reduction="none"` one score a query, in the shape of the queries, NaN
where a query is left out.

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

from nextloc_metrics.metric import RankingMetric, check_choice
from nextloc_metrics.metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
)
from nextloc_metrics.ranking import Ranking

Reduction = Literal["mean", "none"]


def accuracy_at_k(
    preds: Tensor | Ranking,
    target: Tensor | None,
    k: int,
    mask: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
    **options: Any,
) -> Tensor:
    """Accuracy within the first k places; see `AccuracyAtK`."""
    return _evaluate(AccuracyAtK(k, **options), preds, target, mask, reduction)


def mrr(
    preds: Tensor | Ranking,
    target: Tensor | None = None,
    k: int | None = None,
    mask: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
    **options: Any,
) -> Tensor:
    """Mean reciprocal rank; see `MRR`."""
    return _evaluate(MRR(k, **options), preds, target, mask, reduction)


def ndcg_at_k(
    preds: Tensor | Ranking,
    target: Tensor | None,
    k: int,
    mask: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
    **options: Any,
) -> Tensor:
    """Discounted cumulative gain, normalized; see `NDCGAtK`."""
    return _evaluate(NDCGAtK(k, **options), preds, target, mask, reduction)


def map_at_k(
    preds: Tensor | Ranking,
    target: Tensor | None,
    k: int,
    mask: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
    **options: Any,
) -> Tensor:
    """Mean average precision; see `MAPAtK`."""
    return _evaluate(MAPAtK(k, **options), preds, target, mask, reduction)


def precision_at_k(
    preds: Tensor | Ranking,
    target: Tensor | None,
    k: int,
    mask: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
    **options: Any,
) -> Tensor:
    """Precision within the first k places; see `PrecisionAtK`."""
    return _evaluate(PrecisionAtK(k, **options), preds, target, mask, reduction)


def recall_at_k(
    preds: Tensor | Ranking,
    target: Tensor | None,
    k: int,
    mask: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
    **options: Any,
) -> Tensor:
    """Recall within the first k places; see `RecallAtK`."""
    return _evaluate(RecallAtK(k, **options), preds, target, mask, reduction)


def f1_at_k(
    preds: Tensor | Ranking,
    target: Tensor | None,
    k: int,
    mask: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
    **options: Any,
) -> Tensor:
    """F1 within the first k places; see `F1AtK`."""
    return _evaluate(F1AtK(k, **options), preds, target, mask, reduction)


def _evaluate(
    metric: RankingMetric,
    preds: Tensor | Ranking,
    target: Tensor | None,
    mask: Tensor | None,
    reduction: Reduction,
) -> Tensor:
    check_choice("reduction", reduction, Reduction)
    with torch.no_grad():
        ranking = metric.rank(preds, target, mask)
        metric = metric.to(ranking.device)
        metric.check(ranking)
        if reduction == "mean":
            metric.update(ranking)
            metric._to_sync = False
            return metric.compute()
        scores, counted = metric.score_queries(ranking)
        scores = scores.masked_fill(~counted, torch.nan).float()
        return scores.reshape(ranking.shape).to(ranking.device)
