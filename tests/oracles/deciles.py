"""Popularity bins and the metrics per bin, as plain Python loops over plain lists.

A query is a list of blocks of equally good candidates, best block first. Ties are settled by
enumeration: every order that the blocks can be laid out in is scored as the definition says, and
the mean, the best or the worst of the scores is taken. There is no closed formula.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import scipy.stats
from torch import Tensor

Blocks = list[list["Entry"]]
Values = dict[str, float]


class Entry(NamedTuple):
    """One entry of a list."""

    id: int  #: -1 for an empty rank
    can_hit: bool  #: False for a score of NaN and for the repeat of an id


class Query(NamedTuple):
    """Blocks of candidates, best first, and the gains of the relevant ids."""

    blocks: Blocks
    relevant: dict[int, float]


#: of the bin's own list and relevant ids
Score = Callable[[list[Entry], dict[int, float]], float]

# Bins --------------------------------------------------------------------------------------------


def bins_of_counts(counts: Sequence[int], num_bins: int, by: str) -> list[int]:
    """The bin of every location: 0 without visits, 1 the rarest, `num_bins` the most popular."""
    bins = []
    for count in counts:
        if count == 0:
            bins.append(0)
            continue
        weigh = (lambda c: c) if by == "mass" else (lambda c: 1 if c > 0 else 0)
        below = sum(weigh(other) for other in counts if other < count)
        above = sum(weigh(other) for other in counts if other > count)
        if below + above == 0:
            bins.append(num_bins)
        else:
            share = Fraction(below, below + above)
            bins.append(min(math.floor(num_bins * share), num_bins - 1) + 1)
    return bins


# Queries -----------------------------------------------------------------------------------------


def blocks_of_scores(scores: Sequence[float]) -> Blocks:
    """NaN first, then falling scores; -inf is left out."""
    unknown = [Entry(i, False) for i, score in enumerate(scores) if math.isnan(score)]
    levels = sorted({score for score in scores if score > -math.inf}, reverse=True)
    known = [[Entry(i, True) for i, s in enumerate(scores) if s == level] for level in levels]
    return [unknown, *known] if unknown else known


def blocks_of_list(ids: Sequence[int]) -> Blocks:
    """Every rank is a block of its own; a repeated id keeps its rank and cannot be a hit."""
    return [[Entry(i, i >= 0 and i not in ids[:rank])] for rank, i in enumerate(ids)]


def queries(
    preds: Tensor, target: Tensor, mask: Tensor | None = None, ignore_index: int | None = None
) -> list[Query]:
    """The queries of a batch that are counted."""
    found = []
    for row in range(len(preds)):
        if mask is not None and not mask[row]:
            continue
        if target.is_floating_point() or target.dtype.is_signed is False:
            written = {i: float(g) for i, g in enumerate(target[row].tolist()) if g > 0}
        elif target.ndim == 1:
            written = {int(target[row]): 1.0}
        else:
            written = {i: 1.0 for i in target[row].tolist() if i != -1 or i == ignore_index}
        relevant = {i: gain for i, gain in written.items() if i != ignore_index}
        if written and not relevant:
            continue
        scores = preds.is_floating_point()
        blocks = (blocks_of_scores if scores else blocks_of_list)(preds[row].tolist())
        found.append(Query(blocks, relevant))
    return found


def first_ranks(blocks: Blocks, number: int) -> Blocks:
    """The blocks that lie completely within the first ranks."""
    kept: Blocks = []
    for block in blocks:
        if sum(map(len, kept)) + len(block) > number:
            break
        kept.append(block)
    return kept


def orders(blocks: Blocks) -> Iterator[list[Entry]]:
    """Every order of the candidates in which only tied ones change ranks."""
    for laid_out in itertools.product(*map(itertools.permutations, blocks)):
        yield list(itertools.chain.from_iterable(laid_out))


def own_list(order: list[Entry], bin_of: Sequence[int], number: int) -> list[Entry]:
    """The part of a list that is in one bin."""
    return [entry for entry in order if entry.id >= 0 and bin_of[entry.id] == number]


def own_relevant(query: Query, bin_of: Sequence[int], number: int) -> dict[int, float]:
    """The relevant ids that are in one bin."""
    return {i: gain for i, gain in query.relevant.items() if bin_of[i] == number}


# Metrics -----------------------------------------------------------------------------------------


def settle(scores: Sequence[float], ties: str) -> float:
    """The one score that stands for the scores of all orders."""
    if ties == "expected":
        return math.fsum(scores) / len(scores)
    return max(scores) if ties == "optimistic" else min(scores)


def mean(values: Sequence[float]) -> float:
    """The mean, NaN without values."""
    return math.fsum(values) / len(values) if values else math.nan


def scored(
    of: Sequence[Query],
    bin_of: Sequence[int],
    number: int,
    candidates: int,
    score: Score,
    scope: str = "within",
) -> Iterator[list[float]]:
    """The scores of all orders of the bin's own list, or of all, if the bin has a relevant id."""
    for query in of:
        if relevant := own_relevant(query, bin_of, number):
            every = orders(first_ranks(query.blocks, candidates))
            lists = every if scope == "all" else (own_list(x, bin_of, number) for x in every)
            yield [score(one, relevant) for one in lists]


def precisions(
    of: Sequence[Query],
    bin_of: Sequence[int],
    number: int,
    *,
    k: int,
    candidates: int = 500,
    scope: str = "within",
    ties: str = "expected",
) -> list[float]:
    """Hits / min(k, predictions of the bin), of every query."""

    def score(own: list[Entry], relevant: dict[int, float]) -> float:
        hits = sum(entry.can_hit and entry.id in relevant for entry in own[:k])
        return hits / min(k, len(own)) if own else 0.0

    first = min(k, candidates) if scope == "all" else candidates
    return [settle(scores, ties) for scores in scored(of, bin_of, number, first, score)]


def ndcgs(
    of: Sequence[Query],
    bin_of: Sequence[int],
    number: int,
    *,
    k: int,
    candidates: int = 500,
    scope: str = "within",
    ties: str = "expected",
) -> list[float]:
    """Discounted gains at the ranks of the list, over the best possible, per query."""

    def discounted(gains: list[float]) -> float:
        return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:k], 1))

    def score(own: list[Entry], relevant: dict[int, float]) -> float:
        gains = [relevant.get(entry.id, 0.0) if entry.can_hit else 0.0 for entry in own]
        return discounted(gains) / discounted(sorted(relevant.values(), reverse=True))

    found = scored(of, bin_of, number, candidates, score, scope)
    return [settle(scores, ties) for scores in found]


def mean_of(function: Callable[..., list[float]]) -> Callable[..., float]:
    """The mean of a score over the queries with a relevant id in the bin."""
    return lambda *args, **options: mean(function(*args, **options))


def k_for_recall(
    of: Sequence[Query],
    bin_of: Sequence[int],
    number: int,
    *,
    min_recall: float,
    candidates: int = 500,
    scope: str = "within",
    statistic: str = "median",
    exhausted: float | None = None,
) -> float:
    """The smallest k at which recall is reached, in the worst order; NaN without an answer."""

    def score(own: list[Entry], relevant: dict[int, float]) -> float:
        for k in range(1, len(own) + 1):
            hits = sum(entry.can_hit and entry.id in relevant for entry in own[:k])
            if hits / len(relevant) >= min_recall:
                return k
        return math.inf if exhausted is None else exhausted

    values = list(map(max, scored(of, bin_of, number, candidates, score, scope)))
    if not values:
        return math.nan
    value = float(statistics.median(values)) if statistic == "median" else mean(values)
    return math.nan if math.isinf(value) else value


def prediction_share(
    of: Sequence[Query], bin_of: Sequence[int], number: int, *, k: int, candidates: int = 500
) -> float:
    """Of all k x N predictions, those in the bin."""
    if not of:
        return math.nan
    found = 0
    for query in of:
        in_order = list(itertools.chain.from_iterable(query.blocks))  # tied ones by id
        found += len(own_list(in_order[: min(k, candidates)], bin_of, number))
    return found / (k * len(of))


def coverage(
    of: Sequence[Query],
    bin_of: Sequence[int],
    numbers: Sequence[int],
    *,
    k: int,
    candidates: int = 500,
    scope: str = "within",
    denominator: str = "actual",
) -> float:
    """Of the distinct relevant (or mapped) locations, those that are hit in every order."""
    if not any(query.relevant for query in of):
        return math.nan
    if denominator == "mapped":
        counted = {i for i, number in enumerate(bin_of) if number in numbers and number > 0}
    else:
        counted = {i for query in of for i in query.relevant if bin_of[i] in numbers}
    hit = set()
    for query in of:
        in_every_order = set(query.relevant)
        for order in orders(first_ranks(query.blocks, candidates)):
            heads = [own_list(order, bin_of, number)[:k] for number in numbers]
            heads = [order[:k]] if scope == "all" else heads
            in_every_order &= {e.id for head in heads for e in head if e.can_hit}
        hit |= in_every_order
    return len(hit & counted) / len(counted) if counted else math.nan


def sure(values: Sequence[float], confidence_level: float) -> tuple[float, float, float]:
    """The standard error of the mean, and Wilson's interval for scores in [0, 1].

    The effective number of queries is m (1 - m) / SE^2, or n if all scores are equal. Scores
    between 0 and 1 have the quantile of Student's t.
    """
    n, m = len(values), mean(values)
    if n == 0:
        return math.nan, math.nan, math.nan
    variance = statistics.variance(values) if n > 1 else math.nan
    effective = n * m * (1 - m) / variance if 1e-9 < variance < m * (1 - m) else n
    if set(values) <= {0, 1}:
        z = statistics.NormalDist().inv_cdf((1 + confidence_level) / 2)
    elif n == 1:
        return math.nan, 0.0, 1.0
    else:
        z = float(scipy.stats.t.ppf((1 + confidence_level) / 2, n - 1))
    center = (m + z * z / (2 * effective)) / (1 + z * z / effective)
    half = math.sqrt(m * (1 - m) / effective + z * z / (4 * effective**2))
    half *= z / (1 + z * z / effective)
    error = math.sqrt(variance / n) if n > 1 else math.nan
    return error, max(0.0, center - half), min(1.0, center + half)


SCORES = {"DecilePrecision": precisions, "DecileNDCG": ndcgs}
NAMES = {
    "DecilePrecision": ("precision_at_{k}", mean_of(precisions)),
    "DecileNDCG": ("ndcg_at_{k}", mean_of(ndcgs)),
    "DecileKForRecall": ("k_for_recall_{percent}", k_for_recall),
    "DecilePredictionShare": ("prediction_share_at_{k}", prediction_share),
    "DecileCoverage": ("coverage_at_{k}", coverage),
}


def values_of(
    metric: str, of: Sequence[Query], bin_of: Sequence[int], num_bins: int, **options: Any
) -> Values:
    """What `compute` of a metric should return: the value of every bin, by name and in order."""
    pattern, function = NAMES[metric]
    percent = f"{100 * options.get('min_recall', 0):g}".replace(".", "_")
    name = pattern.format(k=options.get("k"), percent=percent)
    width = len(str(num_bins))
    numbered = {f"{number:0{width}}": number for number in range(1, num_bins + 1)}
    numbered["unmapped"] = 0
    if function is not coverage:
        return {
            f"{name}_decile_{label}": function(of, bin_of, number, **options)
            for label, number in numbered.items()
        }
    values = {name: coverage(of, bin_of, list(range(num_bins + 1)), **options)}
    for label, number in numbered.items():
        values[f"{name}_decile_{label}"] = coverage(of, bin_of, [number], **options)
    return values


def of_batch(metric: str) -> Callable[..., Values]:
    """The values of a batch by this metric, with the options of its class."""

    def values(
        preds: Tensor,
        target: Tensor,
        mask: Tensor | None = None,
        *,
        bins: Any,
        ignore_index: int | None = None,
        **options: Any,
    ) -> Values:
        of = queries(preds, target, mask, ignore_index)
        return values_of(metric, of, bins.bin_of.tolist(), bins.num_bins, **options)

    return values
