"""What the metrics should say, slow and obvious: plain Python loops over plain Python lists.

A query is written down as the order it puts its candidates in: blocks of equally good candidates,
best block first, each candidate standing there as its relevance (0: not relevant). Two ways lead
from there to a `Score`. `enumerated` lays every block out in every possible order and scores each
order as the textbooks do; `walked` goes down the places one by one and adds up what is expected
there, which serves for inputs too large to enumerate. Neither knows a closed formula.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

NOTHING_WRITTEN = -1
EVERYWHERE = 10**9

Order = Sequence[float]


@dataclass(frozen=True)
class Query:
    """One query: its blocks best first, the relevance of what is in no block, and a length."""

    blocks: tuple[tuple[float, ...], ...]
    missing: tuple[float, ...]
    length: int
    is_list: bool = False

    @property
    def relevances(self) -> list[float]:
        """The relevance of every relevant location, retrieved or not."""
        retrieved = [grade for block in self.blocks for grade in block if grade > 0]
        return sorted([*retrieved, *self.missing], reverse=True)

    @property
    def n(self) -> int:
        """The number of relevant locations."""
        return len(self.relevances)


def query_from_scores(scores: Sequence[float], relevant: Mapping[int, float]) -> Query:
    """A query whose candidates all have a score: NaN stands ahead of all, -inf nowhere."""
    unknown = [i for i, score in enumerate(scores) if math.isnan(score)]
    known = [i for i, score in enumerate(scores) if score > -math.inf]
    levels = sorted({scores[i] for i in known}, reverse=True)
    blocks = [(0.0,) for _ in unknown]
    blocks += [tuple(relevant.get(i, 0.0) for i in known if scores[i] == lvl) for lvl in levels]
    missing = tuple(grade for i, grade in relevant.items() if i not in known)
    return Query(tuple(blocks), missing, len(unknown) + len(known))


def query_from_list(ids: Sequence[int], relevant: Mapping[int, float]) -> Query:
    """A query that is a list of ids, best first: a repeat takes up a place and earns nothing."""
    written = [i for i in ids if i != NOTHING_WRITTEN]
    blocks = tuple(
        (relevant.get(i, 0.0) if i not in written[:place] else 0.0,)
        for place, i in enumerate(written)
    )
    missing = tuple(grade for i, grade in relevant.items() if i not in written)
    return Query(blocks, missing, len(written), is_list=True)


def queries(
    preds: Tensor, target: Tensor, mask: Tensor | None = None, ignore_index: int | None = None
) -> list[Query | None]:
    """The queries of a batch in order, `None` where the query is left out."""
    by_scores = preds.is_floating_point()
    rows = preds.double().reshape(-1, preds.shape[-1]).tolist() if by_scores else preds.tolist()
    graded = target.dtype == torch.bool or target.is_floating_point()
    one_id = not graded and target.ndim == preds.ndim - 1
    targets = [[one] for one in target.reshape(-1).tolist()] if one_id else target.tolist()
    counted = [True] * len(rows) if mask is None else mask.reshape(-1).tolist()
    batch: list[Query | None] = []
    for row, wanted, counts in zip(rows, targets, counted, strict=True):
        if graded:
            relevant = {i: float(grade) for i, grade in enumerate(wanted) if grade > 0}
        elif one_id:
            relevant = {wanted[0]: 1.0}
        else:
            relevant = {i: 1.0 for i in wanted if i != NOTHING_WRITTEN}
        kept = {i: grade for i, grade in relevant.items() if i != ignore_index}
        if not counts or (relevant and not kept):
            batch.append(None)
        elif by_scores:
            batch.append(query_from_scores(row, kept))
        else:
            batch.append(query_from_list(row, kept))
    return batch


# One order, scored as the textbooks do -----------------------------------------------------------


@functools.lru_cache
def orders(query: Query) -> Counter[tuple[float, ...]]:
    """Every order in which the candidates of a query may come out, and how often it does."""
    each = itertools.product(*(itertools.permutations(block) for block in query.blocks))
    return Counter(tuple(itertools.chain(*laid_out)) for laid_out in each)


def _gain(grade: float, kind: str) -> float:
    return 2.0**grade - 1.0 if kind == "exponential" else grade


def _ideal(query: Query, k: int, gain: str, ideal: str) -> float:
    best = query.relevances if ideal == "full" else query.relevances[:k]
    return sum(_gain(g, gain) / math.log2(rank + 1) for rank, g in enumerate(best, start=1))


def _precision_divisor(query: Query, k: int, denominator: str) -> int:
    return k if denominator == "k" else max(min(k, query.length), 1)


def _recall_divisor(query: Query, k: int, normalized: bool, weighted: bool) -> float:
    counted = query.relevances[: k if normalized else None]
    return sum(counted) if weighted else len(counted)


def _ranks(order: Order) -> list[int]:
    """The ranks of the relevant locations."""
    return [rank for rank, grade in enumerate(order, start=1) if grade > 0]


def accuracy(order: Order, query: Query, k: int) -> float:
    """Whether one is within k."""
    return float(any(rank <= k for rank in _ranks(order)))


def mrr(order: Order, query: Query, k: int | None = None) -> float:
    """One over the rank of the first, if that is within k."""
    return next((1 / rank for rank in _ranks(order) if rank <= (k or EVERYWHERE)), 0.0)


def ndcg(
    order: Order, query: Query, k: int, gain: str = "linear", ideal: str = "truncated"
) -> float:
    """The discounted gains within k, over those of the best order."""
    discounted = [_gain(grade, gain) / math.log2(rank + 1) for rank, grade in enumerate(order, 1)]
    return sum(discounted[:k]) / _ideal(query, k, gain, ideal)


def average_precision(order: Order, query: Query, k: int, normalizer: str = "min") -> float:
    """The sum of the precisions at the ranks of relevant locations within k."""
    precisions = [
        sum(grade > 0 for grade in order[:rank]) / rank for rank in _ranks(order) if rank <= k
    ]
    return sum(precisions) / (min(query.n, k) if normalizer == "min" else query.n)


def precision(order: Order, query: Query, k: int, denominator: str = "k") -> float:
    """The relevant ones among the first k."""
    return sum(rank <= k for rank in _ranks(order)) / _precision_divisor(query, k, denominator)


def recall(
    order: Order, query: Query, k: int, normalized: bool = False, weighted: bool = False
) -> float:
    """The share of the relevant ones, or of their grades, that is within k."""
    found = sum(order[:k]) if weighted else sum(rank <= k for rank in _ranks(order))
    return found / _recall_divisor(query, k, normalized, weighted)


def f1(order: Order, query: Query, k: int) -> float:
    """The harmonic mean of precision and recall."""
    one, other = precision(order, query, k), recall(order, query, k)
    return 2 * one * other / (one + other) if one else 0.0


def first_rank(order: Order, query: Query) -> float:
    """The rank of the first; behind all candidates if none is retrieved."""
    return float(next(iter(_ranks(order)), query.length + 1))


def auc(order: Order, query: Query, num_candidates: int | None = None) -> float:
    """The share of pairs of a relevant and another candidate that are in order; NaN of no pair."""
    others = sum(grade == 0 for grade in order)
    if query.is_list and num_candidates:
        others = num_candidates - query.n
    if not others:
        return math.nan
    above = [sum(grade == 0 for grade in order[: rank - 1]) for rank in _ranks(order)]
    return sum(max(0, others - x) for x in above) / (query.n * others)


def r_precision(order: Order, query: Query) -> float:
    """The precision within as many ranks as there are relevant locations."""
    return sum(rank <= query.n for rank in _ranks(order)) / query.n


def rank_biased_precision(
    order: Order, query: Query, p: float = 0.8, k: int | None = None
) -> float:
    """What a user sees who goes on to each next rank with probability p."""
    return sum((1 - p) * p ** (rank - 1) for rank in _ranks(order) if rank <= (k or EVERYWHERE))


def expected_reciprocal_rank(order: Order, query: Query, k: int, max_grade: float = 1) -> float:
    """The mean of one over the rank at which a user stops."""
    total, reached = 0.0, 1.0
    for rank, grade in enumerate(order[:k], start=1):
        stops = (2**grade - 1) / 2**max_grade
        total += reached * stops / rank
        reached *= 1 - stops
    return total


# Any size: go down the places and add up what is expected there ----------------------------------


def settle(query: Query, ties: str) -> Query:
    """The query with its ties settled in favour of the relevant ones, or against them."""
    if ties == "expected":
        return query
    singles = [
        (grade,)
        for block in query.blocks
        for grade in sorted(block, reverse=(ties == "optimistic"))
    ]
    return Query(tuple(singles), query.missing, query.length)


@dataclass
class Walk:
    """What is expected within the first ranks of a query."""

    hits: float = 0.0
    found: float = 0.0
    reciprocal: float = 0.0
    dcg: float = 0.0
    gains: float = 0.0
    precisions: float = 0.0


def walk(query: Query, k: int, gain: str = "linear") -> Walk:
    """Go down the first `k` places of a query."""
    total = Walk()
    rank = 0
    relevant_before = 0
    nothing_yet = 1.0
    for block in query.blocks:
        relevant = sum(grade > 0 for grade in block)
        mean_gain = sum(_gain(grade, gain) for grade in block if grade > 0) / len(block)
        for place in range(len(block)):
            rank += 1
            if rank > k:
                return total
            total.hits += relevant / len(block)
            total.dcg += mean_gain / math.log2(rank + 1)
            total.gains += mean_gain
            if relevant:
                here_first = nothing_yet * relevant / (len(block) - place)
                total.found += here_first
                total.reciprocal += here_first / rank
                nothing_yet -= here_first
                others = place * (relevant - 1) / (len(block) - 1) if len(block) > 1 else 0.0
                total.precisions += relevant / len(block) * (relevant_before + 1 + others) / rank
        relevant_before += relevant
    return total


def walked_accuracy(query: Query, k: int) -> float:
    """The probability that one is within k."""
    return walk(query, k).found


def walked_mrr(query: Query, k: int | None = None) -> float:
    """The expectation of one over the rank of the first."""
    return walk(query, k or EVERYWHERE).reciprocal


def walked_ndcg(query: Query, k: int, gain: str = "linear", ideal: str = "truncated") -> float:
    """The expected gains, over those of the best order, which no tie changes."""
    return walk(query, k, gain).dcg / _ideal(query, k, gain, ideal)


def walked_average_precision(query: Query, k: int, normalizer: str = "min") -> float:
    """The expected precisions at the ranks of relevant locations."""
    return walk(query, k).precisions / (min(query.n, k) if normalizer == "min" else query.n)


def walked_precision(query: Query, k: int, denominator: str = "k") -> float:
    """The expected number of relevant ones."""
    return walk(query, k).hits / _precision_divisor(query, k, denominator)


def walked_recall(query: Query, k: int, normalized: bool = False, weighted: bool = False) -> float:
    """The expected number, or sum of grades, of relevant ones."""
    within = walk(query, k)
    found = within.gains if weighted else within.hits
    return found / _recall_divisor(query, k, normalized, weighted)


def walked_f1(query: Query, k: int) -> float:
    """The harmonic mean is 2 hits / (k + n), linear in the hits."""
    return 2 * walk(query, k).hits / (k + query.n)


# A score, and its mean over a batch --------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """The definition of a score of ranks: that of one order, and where there is one, a walk.

    Options are those of the metric class.
    """

    of_order: Callable[..., float]
    by_walk: Callable[..., float] | None = None
    best: Callable[..., float] = max  #: of two scores

    def enumerated(self, query: Query, ties: str = "expected", **options: Any) -> float:
        """The mean (or best, or worst) score over every order the ties leave open."""
        scores = {order: self.of_order(order, query, **options) for order in orders(query)}
        if ties != "expected":
            worst = min if self.best is max else max
            return (self.best if ties == "optimistic" else worst)(scores.values())
        total = math.fsum(scores[order] * times for order, times in orders(query).items())
        return total / orders(query).total()

    def walked(self, query: Query, ties: str = "expected", **options: Any) -> float:
        """The score of a query of any size, ties settled as `ties` says."""
        if self.by_walk is None:
            return self.enumerated(query, ties, **options)
        return self.by_walk(settle(query, ties), **options)

    def of_query(
        self,
        query: Query | None,
        *,
        brute: bool = False,
        empty_target_action: str = "skip",
        **options: Any,
    ) -> float:
        """The score of one query, NaN where it is left out."""
        if query is None:
            return math.nan
        if query.n == 0:
            return {"skip": math.nan, "neg": 0.0, "pos": 1.0}[empty_target_action]
        return (self.enumerated if brute else self.walked)(query, **options)

    def of_queries(self, batch: Sequence[Query | None], **options: Any) -> float:
        """The mean over a batch, NaN where nothing counts."""
        scores = [self.of_query(query, **options) for query in batch]
        counted = [one for one in scores if not math.isnan(one)]
        return math.fsum(counted) / len(counted) if counted else math.nan

    def __call__(
        self,
        preds: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        ignore_index: int | None = None,
        **options: Any,
    ) -> float:
        """The mean over the queries of a batch."""
        return self.of_queries(queries(preds, target, mask, ignore_index), **options)


FIRST_RANK = Score(first_rank, best=min)


def rank_quantile(
    preds: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    ignore_index: int | None = None,
    *,
    q: float,
    **options: Any,
) -> float:
    """The smallest rank of the first that a share q of the queries does not exceed."""
    every = [FIRST_RANK.of_query(x, **options) for x in queries(preds, target, mask, ignore_index)]
    counted = sorted(x for x in every if not math.isnan(x))
    return counted[max(1, math.ceil(q * len(counted))) - 1] if counted else math.nan
