"""Scores of every query, for metrics with equal `ties` and `empty_target_action`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from nextloc_metrics import exact, scoring
from nextloc_metrics.messages import describe, short
from nextloc_metrics.ranking import Ranking

if TYPE_CHECKING:
    from nextloc_metrics.metric import RankingMetric

EmptyTargetAction = Literal["skip", "neg", "pos", "error"]


def score_queries(metrics: Sequence[RankingMetric], ranking: Ranking) -> tuple[Tensor, Tensor]:
    """Score the queries with metrics that have equal `ties` and `empty_target_action`.

    Returns:
        The scores float64 `[len(metrics), N]`, 0 where skipped, and which count, bool `[N]`.
    """
    if ranking.device.type == "mps":  # has no float64
        ranking = ranking.to("cpu")
    ranking = ranking.break_ties(metrics[0].ties)
    formulas = [None if metric.has_own_score else metric.formula for metric in metrics]
    known = [formula for formula in formulas if formula is not None]
    together = iter(scoring.evaluate(ranking, known)) if known else iter(())
    scores = torch.stack(
        [
            _own_score(metric, ranking) if formula is None else next(together)
            for metric, formula in zip(metrics, formulas, strict=True)
        ]
    )
    return finish_scores(metrics, scores, ranking)


def finish_scores(
    metrics: Sequence[RankingMetric], scores: Tensor, ranking: Ranking
) -> tuple[Tensor, Tensor]:
    """Apply `empty_target_action`; return the scores, 0 where skipped, and which count."""
    action = metrics[0].empty_target_action
    if action != "skip":
        scores = scores.masked_fill(ranking.num_relevant == 0, 1.0 if action == "pos" else 0.0)
    counted = counted_queries(ranking, action)
    scores = scores.masked_fill(~counted, 0)
    check_scores(metrics, scores)
    return scores, counted


def check_scores(metrics: Sequence[RankingMetric], scores: Tensor) -> None:
    """Raise if a score, float64 `[len(metrics), N]`, of a validating metric is not in [0, 1]."""
    if scores.numel() and any(metric.validate_args for metric in metrics):
        low, high = (float(bound) for bound in scores.aminmax())
        if not _are_scores(low, high):
            for metric, row in zip(metrics, scores, strict=True):
                low, high = float(row.amin()), float(row.amax())
                if metric.validate_args and not _are_scores(low, high):
                    raise ValueError(
                        f"`score` of {short(metric)} must return values in [0, 1], got {low} to "
                        f"{high}."
                    )


def _own_score(metric: RankingMetric, ranking: Ranking) -> Tensor:
    scores = metric.score(ranking)
    shape = ranking.num_relevant.shape
    if not isinstance(scores, Tensor) or scores.is_complex() or scores.shape != shape:
        raise ValueError(
            f"`score` of {short(metric)} must return real numbers of shape ({len(ranking)},), one "
            f"per query, got {describe(scores)}."
        )
    return scores.detach().double()


def tally_together(metrics: Sequence[RankingMetric], ranking: Ranking) -> Tensor:
    """Sum the scores of metrics with equal options, int64 `[len(metrics), 3]`."""
    return exact.tally(*score_queries(metrics, ranking)).to(ranking.device)


def counted_queries(ranking: Ranking, action: EmptyTargetAction) -> Tensor:
    """Return which queries count, bool `[N]`; "skip" excludes those without a relevant location."""
    return ranking.answerable if action == "skip" else ranking.counted


def _are_scores(low: float, high: float) -> bool:
    return low >= 0 and high <= exact.HIGHEST_SCORE  # a NaN compares false
