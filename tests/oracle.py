"""What the metrics should say, slow and obvious: plain Python loops over plain Python lists.

A query is written down as the order it puts its candidates in: blocks of equally good candidates,
best block first, each candidate standing there as its relevance (0: not relevant). Two ways lead
from there to a score. `enumerated` lays every block out in every possible order and scores each
order as the textbooks do; `walked` goes down the places one by one and adds up what is expected
there, which serves for inputs too large to enumerate. Neither knows a closed formula.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

NOTHING_WRITTEN = -1
EVERYWHERE = 10**9

DEFAULTS: dict[str, dict[str, Any]] = {
    "AccuracyAtK": {},
    "MRR": {"k": None},
    "NDCGAtK": {"gain": "linear", "ideal": "truncated"},
    "MAPAtK": {"normalizer": "min"},
    "PrecisionAtK": {"denominator": "k"},
    "RecallAtK": {"normalized": False, "weighted": False},
    "F1AtK": {"average": "queries"},
    "MeanRank": {"k": None},
    "AUC": {"k": None, "num_candidates": None},
    "RPrecision": {"k": None},
    "RBP": {"k": None, "p": 0.8},
    "ERRAtK": {"max_grade": 1},
}
# Scores that are not expected place by place: every order is tried.
BY_ORDERS = {"MeanRank", "AUC", "RPrecision", "RBP", "ERRAtK"}
LOWER_IS_BETTER = {"MeanRank"}


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


def _recall_divisor(query: Query, k: int, options: Mapping[str, Any]) -> float:
    counted = query.relevances[: k if options["normalized"] else None]
    return sum(counted) if options["weighted"] else len(counted)


def one_order(metric: str, order: Sequence[float], query: Query, **options: Any) -> float:
    """The score of one order; `options` are those of the metric class."""
    options = {**DEFAULTS[metric], **options}
    k = options["k"] or EVERYWHERE
    first = order[:k]
    hits = sum(grade > 0 for grade in first)
    precision = hits / k
    recall = hits / query.n
    if metric == "AccuracyAtK":
        return float(hits > 0)
    if metric == "MRR":
        return next((1 / rank for rank, grade in enumerate(first, start=1) if grade > 0), 0.0)
    if metric == "NDCGAtK":
        dcg = sum(
            _gain(grade, options["gain"]) / math.log2(rank + 1)
            for rank, grade in enumerate(first, start=1)
        )
        return dcg / _ideal(query, k, options["gain"], options["ideal"])
    if metric == "MAPAtK":
        precisions = [
            sum(grade > 0 for grade in order[:rank]) / rank
            for rank, grade in enumerate(first, start=1)
            if grade > 0
        ]
        return sum(precisions) / (min(query.n, k) if options["normalizer"] == "min" else query.n)
    if metric == "PrecisionAtK":
        return hits / _precision_divisor(query, k, options["denominator"])
    if metric == "RecallAtK":
        return (sum(first) if options["weighted"] else hits) / _recall_divisor(query, k, options)
    if metric == "F1AtK":
        return 2 * precision * recall / (precision + recall) if hits else 0.0
    return one_order_of_peers(metric, order, query, options)


def one_order_of_peers(
    metric: str, order: Sequence[float], query: Query, options: Mapping[str, Any]
) -> float:
    """The score of one order by a metric that other libraries brought; NaN where it is skipped."""
    k = options["k"] or EVERYWHERE
    places = [rank for rank, grade in enumerate(order, start=1) if grade > 0]
    first = places[0] if places else query.length + 1
    others = sum(grade == 0 for grade in order)
    if query.is_list and options.get("num_candidates"):
        others = options["num_candidates"] - query.n
    if metric == "MeanRank":
        return float(first)
    if metric == "AUC":
        if not others:
            return math.nan
        above = [sum(grade == 0 for grade in order[: rank - 1]) for rank in places]
        return sum(max(0, others - x) for x in above) / (query.n * others)
    if metric == "RPrecision":
        return sum(rank <= query.n for rank in places) / query.n
    if metric == "RBP":
        p = options["p"]
        return sum((1 - p) * p ** (rank - 1) for rank in places if rank <= k)
    if metric == "ERRAtK":
        total, reached = 0.0, 1.0
        for rank, grade in enumerate(order[:k], start=1):
            stops = (2**grade - 1) / 2 ** options["max_grade"]
            total += reached * stops / rank
            reached *= 1 - stops
        return total
    raise AssertionError(metric)


def enumerated(metric: str, query: Query, ties: str = "expected", **options: Any) -> float:
    """The mean (or best, or worst) score over every order the ties leave open."""
    scores = {order: one_order(metric, order, query, **options) for order in orders(query)}
    if ties != "expected":
        wants_more = (ties == "optimistic") == (metric not in LOWER_IS_BETTER)
        return max(scores.values()) if wants_more else min(scores.values())
    total = math.fsum(scores[order] * times for order, times in orders(query).items())
    return total / orders(query).total()


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


def walked(metric: str, query: Query, ties: str = "expected", **options: Any) -> float:
    """The score of a query of any size, ties settled as `ties` says."""
    if metric in BY_ORDERS:
        return enumerated(metric, query, ties, **options)
    options = {**DEFAULTS[metric], **options}
    k = options["k"] or EVERYWHERE
    n = query.n
    seen = walk(settle(query, ties), k, options.get("gain", "linear"))
    if metric == "AccuracyAtK":
        return seen.found
    if metric == "MRR":
        return seen.reciprocal
    if metric == "NDCGAtK":
        return seen.dcg / _ideal(query, k, options["gain"], options["ideal"])
    if metric == "MAPAtK":
        return seen.precisions / (min(n, k) if options["normalizer"] == "min" else n)
    if metric == "PrecisionAtK":
        return seen.hits / _precision_divisor(query, k, options["denominator"])
    if metric == "RecallAtK":
        return (seen.gains if options["weighted"] else seen.hits) / _recall_divisor(
            query, k, options
        )
    if metric == "F1AtK":
        return 2 * seen.hits / (k + n)
    raise AssertionError(metric)


# A whole batch -----------------------------------------------------------------------------------


def score(metric: str, query: Query | None, *, brute: bool = False, **options: Any) -> float:
    """The score of one query, NaN where it is left out; options as the metric class has them."""
    empty = options.pop("empty_target_action", "skip")
    options.pop("ignore_index", None)
    if query is None:
        return math.nan
    if query.n == 0:
        return {"skip": math.nan, "neg": 0.0, "pos": 1.0}[empty]
    return enumerated(metric, query, **options) if brute else walked(metric, query, **options)


def value(metric: str, batch: Sequence[Query | None], **options: Any) -> float:
    """The value of a metric over a batch, NaN where nothing counts."""
    scores = [score(metric, query, **options) for query in batch]
    counted = [one for one in scores if not math.isnan(one)]
    return math.fsum(counted) / len(counted) if counted else math.nan


def decision(row: Sequence[float] | Sequence[int], *, by_scores: bool) -> int | None:
    """The location a query decides for: the lowest id among the best, `None` if there is none."""
    if not by_scores:
        return next((int(i) for i in row if i != NOTHING_WRITTEN), None)
    if any(math.isnan(score) for score in row) or max(row) == -math.inf:
        return None
    return list(row).index(max(row))
