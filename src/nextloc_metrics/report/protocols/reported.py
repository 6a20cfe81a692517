"""The metrics of codebases, and their values computed from ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from nextloc_metrics.core import scoring
from nextloc_metrics.core.ranking.ranking import Ranking, Ties
from nextloc_metrics.core.scoring.weights import Weight
from nextloc_metrics.report.protocols.operations import (
    Order,
    TargetCounts,
    count,
    find_blocks,
    rank_by,
    rank_in,
)
from nextloc_metrics.report.protocols.rows import ProtocolInput

Reported = Literal["hit", "precision", "f1", "reciprocal", "ndcg", "weighted f1", "count"]

#: What the names of metrics mean in LibCity, RecBole and AgentMove.
KINDS: dict[str, Reported] = {
    "f1": "f1",
    "hit": "hit",
    "map": "reciprocal",
    "mrr": "reciprocal",
    "ndcg": "ndcg",
    "precision": "precision",
    "recall": "hit",
}

_WEIGHTS: dict[Reported, Weight] = {"reciprocal": "harmonic", "ndcg": "discount"}


@dataclass(frozen=True)
class Metric:
    """One number that a codebase reports.

    Attributes:
        key: its name in the codebase.
        kind: `"hit"`, 1 if the target is within k; `"precision"`, the hit divided by k; `"f1"`, the
            harmonic mean of the averages of both; `"reciprocal"`, 1 / rank; `"ndcg"`,
            1 / log2(rank + 1); `"weighted f1"` of the first candidate; `"count"`, 1.
        k: the last rank that counts; None for no cut-off.
        order: the operation that orders the candidates.
        depth: the number of candidates that the operation returns; None for k.
        scale: the factor of the value, 100 for percent.
        summed: whether the code reports the sum over the queries.
        over: the divisor: the number of queries that count, or of answered queries.
        missed: the rank of a target beyond `depth`; None for a score of 0.
        repeats: whether a target that a list repeats scores at each of its ranks.
    """

    key: str
    kind: Reported
    k: int | None = None
    order: Order = "topk"
    depth: int | None = None
    scale: float = 1.0
    summed: bool = False
    over: Literal["counted", "answered"] = "counted"
    missed: int | None = None
    repeats: bool = False


def at(
    keys: str, kind: Reported, cuts: Iterable[int], order: Order = "topk", depth: int | None = None
) -> tuple[Metric, ...]:
    """Make one metric per cut-off; `{k}` in the key is the cut-off."""
    return tuple(Metric(keys.format(k=k), kind, k, order, depth) for k in cuts)


@dataclass
class Case:
    """The queries that count, with scores of their candidates or with lists of ids."""

    given: ProtocolInput
    metrics: tuple[Metric, ...]
    scores: Tensor
    target: Tensor  # columns of `scores`, or ids
    can_hit: Tensor  # bool, whether the target can be a hit
    weights: Tensor
    clipped: bool

    @cached_property
    def counts(self) -> TargetCounts:
        """What the ranks of the targets depend on, but for the orders of ties and NaN."""
        return count(self.scores, self.target)

    @cached_property
    def best(self) -> Tensor:
        """The first candidate of each query, by `torch.topk` or from the list."""
        return self.scores[:, 0] if self.given.is_list else self.scores.topk(1, dim=1).indices[:, 0]

    def depth_of(self, metric: Metric) -> int | None:
        """Return the number of candidates for `torch.topk`; None for other operations."""
        depth = metric.depth or metric.k
        if metric.order != "topk" or depth is None:
            return None
        return min(depth, self.scores.shape[1]) if self.clipped else depth


def rank(
    case: Case, order: Order, depth: int | None, ties: Ties | None
) -> tuple[Ranking, Tensor | None]:
    """Rank the targets by the operation or by the lists, and return the last rank that is a hit.

    None for `ties` calls the operation; otherwise the orders that it leaves open are broken so.
    """
    if case.given.is_list:
        return Ranking.from_ranks(rank_in(case.scores, case.target)), None
    if ties is None:
        ranks = rank_by(order, case.scores, case.target, depth, case.counts)
        return Ranking.from_ranks(ranks), None
    above, tied, last = find_blocks(order, case.scores.shape[1], case.counts)
    return Ranking.from_ranks(above + 1, tied=tied).break_ties(ties), last


def score(metric: Metric, ranking: Ranking, last: Tensor | None) -> Tensor:
    """Score each query, float64 `[N]`; ranks beyond `last` are misses, None for no such limit."""
    if metric.kind == "count":
        return torch.ones(len(ranking), dtype=torch.float64)
    if last is not None and bool((last < (metric.k or 0)).any()):
        scores = torch.zeros(len(ranking), dtype=torch.float64)
        for end in set(last.tolist()) - {0}:
            rows = last == end
            scores[rows] = _formula(metric, ranking[rows], min(metric.k or end, end))
        return scores
    return _formula(metric, ranking, metric.k)


def _formula(metric: Metric, ranking: Ranking, k: int | None) -> Tensor:
    if metric.missed is not None:
        k = metric.missed - 1
    weight = _WEIGHTS.get(metric.kind, "count")
    scores = scoring.evaluate(ranking, [scoring.Formula(weight, k, "first", "1")])[0]
    if metric.kind == "precision":
        return scores / (metric.k or 1)
    if metric.kind == "f1":  # harmonic mean of hits / (N k) and hits / N
        return scores * 2 / ((metric.k or 1) + 1)
    if metric.missed is not None:
        return scores + (1 - scoring.accuracy(ranking, metric.missed - 1)) / metric.missed
    return scores


def score_middle(metric: Metric, case: Case) -> Tensor:
    """Score the middle of the ranks that ties leave open, above + (tied + 1) / 2, float64 `[N]`."""
    rank = case.counts.above + (case.counts.tied.clamp(min=1) + 1) / 2
    scores = 1 / rank.double() if metric.kind == "reciprocal" else torch.ones_like(rank).double()
    return scores.masked_fill(rank > (metric.k or torch.inf), 0)


def average(metric: Metric, scores: Tensor, case: Case) -> float:
    """Sum the weighted scores; a target that cannot be a hit scores 0."""
    scores = scores.masked_fill(~case.can_hit, 0) if metric.kind != "count" else scores
    if metric.summed:
        return metric.scale * float(scores.sum())
    if metric.over == "answered" and case.given.answered is not None:
        number = int(case.given.answered.bool().sum())
        return metric.scale * float(scores.sum()) / number if number else 0.0
    return metric.scale * float((scores * case.weights).sum())


def add_repeats(metric: Metric, case: Case) -> float:
    """Average the scores of all ranks of the target in the lists, in float32 as the code does."""
    rank = (case.scores[:, : metric.k] == case.target[:, None]).nonzero()[:, 1] + 1
    each = {"reciprocal": 1 / rank, "ndcg": 1 / torch.log2(rank + 1)}.get(metric.kind)
    return float((torch.ones_like(rank) if each is None else each).sum() / len(case.target))


def weighted_f1(best: Tensor, target: Tensor) -> float:
    """Return the mean F1 of the locations, weighted by the number of queries with each as target.

    Example:
        >>> weighted_f1(torch.tensor([4, 4, 7]), torch.tensor([4, 9, 9]))  # 1/3 * 2 * 1 / (1 + 2)
        0.2222222222222222
    """
    return _weigh_f1(best[best == target], target, torch.bincount(best[best >= 0]))


def _weigh_f1(right: Tensor, target: Tensor, predicted: Tensor) -> float:
    """Return the weighted mean of F1 = 2 right / (predicted + true); `predicted` is a count."""
    size = max(int(target.max()) + 1, len(predicted))
    true = torch.bincount(target, minlength=size).double()
    hits = torch.bincount(right, minlength=size).double()
    both = true + torch.nn.functional.pad(predicted, (0, size - len(predicted)))
    return float((true / len(target) * 2 * hits / both.clamp(min=1)).sum())


def find_f1(case: Case, ties: Ties | None) -> float:
    """Return weighted F1; with `ties`, bound it if candidates are tied: all right, or all wrong."""
    ids = case.given.target
    if ties is None or case.given.is_list:
        return weighted_f1(case.best, ids)
    nan = case.scores.isnan()
    top = torch.where(nan.any(1)[:, None], nan, case.scores == case.scores.amax(1, keepdim=True))
    certain = top.sum(1) == 1
    if ties == "expected" and not bool(certain.all()):
        return torch.nan
    hit = top.gather(1, case.target[:, None])[:, 0]
    if ties == "pessimistic":
        return _weigh_f1(ids[hit & certain], ids, top.sum(0))
    best = torch.where(hit, case.target, top.byte().argmax(1))[hit | certain]
    return _weigh_f1(ids[hit], ids, torch.bincount(best))
