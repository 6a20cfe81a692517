"""Metrics of probabilities, in loops over the queries and their candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from torch import Tensor

from oracles import ranks


def softmax(row: list[float]) -> list[float]:
    """Probabilities of logits, in plain Python."""
    weights = [math.exp(x - max(row)) for x in row]
    return [x / sum(weights) for x in weights]


class Numbers(NamedTuple):
    """What metrics of probabilities read of a query."""

    confidence: float
    correct: float
    own: float  #: the probability of the target
    log_target: float
    squares: float


NO_DISTRIBUTION = Numbers(1.0, 0.0, 0.0, -math.inf, 1.0)


def numbers_of(row: list[float], target: int, given: str, temperature: float) -> Numbers:
    """Confidence, correctness, p(target), its log and the sum of squares, in plain Python."""
    best = max(row)
    if not all(x < math.inf for x in row) or best == -math.inf:
        return NO_DISTRIBUTION
    apart = [(x - best) / temperature for x in row]
    weights = [max(x, 0.0) for x in row] if given == "probabilities" else [*map(math.exp, apart)]
    if not (total := math.fsum(weights)):
        return NO_DISTRIBUTION
    shares = [x / total for x in weights]
    log = math.log(shares[target]) if shares[target] else -math.inf
    log = log if given == "probabilities" else apart[target] - math.log(total)
    correct = (row[target] == best) / row.count(best)
    squares = math.fsum(x * x for x in shares)
    return Numbers(max(shares), correct, shares[target], log, squares)


def calibration_error_of(
    confidences: Sequence[float], correct: Sequence[float], bins: int, norm: str
) -> float:
    """The definition in plain loops; what is within a few units in the last place is on an edge."""
    off = 2**-50
    total, gaps = len(confidences), []
    for b in range(bins):
        low, high = b / bins * (1 + off), (b + 1) / bins * (1 + off)
        inside = [i for i, c in enumerate(confidences) if low < c <= high]
        if inside:
            accuracy = sum(correct[i] for i in inside) / len(inside)
            confidence = sum(confidences[i] for i in inside) / len(inside)
            gaps.append((len(inside), abs(accuracy - confidence)))
    if norm == "l1":
        return sum(n * gap for n, gap in gaps) / total
    if norm == "max":
        return max(gap for _, gap in gaps)
    return math.sqrt(sum(n * gap * gap for n, gap in gaps) / total)


def risks(answers: Sequence[tuple[float, float]]) -> list[Fraction]:
    """The expected risk at each coverage, with equal confidences in random order."""
    found, before, wrong_before = [], 0, Fraction(0)
    for level in sorted({c for c, _ in answers}, reverse=True):
        same_level = [Fraction(right) for c, right in answers if c == level]
        rate = sum((1 - right for right in same_level), Fraction(0)) / len(same_level)
        places = range(1, len(same_level) + 1)
        found += [(wrong_before + rate * i) / (before + i) for i in places]
        before, wrong_before = before + len(same_level), wrong_before + rate * len(same_level)
    return found


# Of a batch, with the options of the metric class ------------------------------------------------


def numbers_of_batch(
    preds: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    *,
    given: str,
    temperature: float = 1.0,
    ignore_index: int | None = None,
) -> list[Numbers]:
    """The numbers of each query that counts."""
    counted = ranks.queries(preds, target, mask, ignore_index)
    rows = zip(preds.double().tolist(), target.tolist(), counted, strict=True)
    return [numbers_of(row, to, given, temperature) for row, to, query in rows if query is not None]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def negative_log_likelihood(
    *batch: Any, base: float | None = None, floor: float | None = None, **options: Any
) -> float:
    """The mean of -log p(target), p at least `floor`."""
    logs = [x.log_target for x in numbers_of_batch(*batch, **options)]
    lowest = -math.inf if floor is None else math.log(floor)
    return _mean([-max(x, lowest) for x in logs]) / math.log(base or math.e)


def perplexity(*batch: Any, **options: Any) -> float:
    """The exponential of the mean loss in nats."""
    return math.exp(negative_log_likelihood(*batch, **options))


def brier_score(*batch: Any, normalized: bool = False, **options: Any) -> float:
    """The sum over candidates of the squared distance from 1 for the target, and 0 for others."""
    scores = [x.squares - 2 * x.own + 1 for x in numbers_of_batch(*batch, **options)]
    return _mean(scores) / (2 if normalized else 1)


def calibration_error(*batch: Any, bins: int = 15, norm: str = "l1", **options: Any) -> float:
    """See `calibration_error_of`."""
    numbers = numbers_of_batch(*batch, **options)
    if not numbers:
        return math.nan
    sure, right = [x.confidence for x in numbers], [x.correct for x in numbers]
    return calibration_error_of(sure, right, bins, norm)


def _risks_of_batch(batch: Any, options: Any) -> list[Fraction]:
    numbers = numbers_of_batch(*batch, **options)
    # confidences of one of 50,400 cells count as equal; what rounding puts above an edge is on it
    return risks([(math.ceil(x.confidence * 50_400 - 1e-9), x.correct) for x in numbers])


def aurc(*batch: Any, **options: Any) -> float:
    """The mean of the risks at all coverages."""
    return _mean([float(x) for x in _risks_of_batch(batch, options)])


def accuracy_at_coverage(*batch: Any, coverage: float, **options: Any) -> float:
    """The share of right answers among the most confident."""
    found = _risks_of_batch(batch, options)
    answered = max(1, math.ceil(coverage * len(found) - 1e-9))
    return 1 - float(found[answered - 1]) if found else math.nan


def answered_share(*batch: Any, **options: Any) -> float:
    """The share of queries that have a distribution."""
    return _mean([x is not NO_DISTRIBUTION for x in numbers_of_batch(*batch, **options)])


def answered_accuracy(*batch: Any, **options: Any) -> float:
    """The accuracy of those."""
    numbers = numbers_of_batch(*batch, **options)
    return _mean([x.correct for x in numbers if x is not NO_DISTRIBUTION])


def expected_distance(
    preds: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    *,
    locations: Any,
    temperature: float = 1.0,
    ignore_index: int | None = None,
    **options: Any,
) -> float:
    """The sum over candidates of probability times distance; the largest of no distribution."""
    counted = ranks.queries(preds, target, mask, ignore_index)
    total = []
    for row, to, query in zip(preds.double().tolist(), target.tolist(), counted, strict=True):
        if query is None:
            continue
        if numbers_of(row, to, "logits", temperature) is NO_DISTRIBUTION:
            total.append(locations.largest)
            continue
        shares = softmax([x / temperature for x in row])
        points = locations.points.tolist()
        total.append(sum(p * math.dist(points[i], points[to]) for i, p in enumerate(shares)))
    return _mean(total)
