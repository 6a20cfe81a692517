"""Metrics of two sequences in plain Python, written from their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

Points = Sequence[Sequence[float]]

RADIUS = 6371.0088


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """The length of the straight line."""
    x, y = other[0] - one[0], other[1] - one[1]
    return math.sqrt(x * x + y * y)


def haversine(first: Sequence[float], other: Sequence[float]) -> float:
    """The great-circle distance between (latitude, longitude) in degrees, km."""
    (a, b), (c, d) = (map(math.radians, point) for point in (first, other))
    inside = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * RADIUS * math.asin(math.sqrt(inside))


@cache
def exponential(x: float) -> float:
    """NumPy's exp(x), whose last bit, which orders near ties, depends on the processor."""
    return float(np.exp(np.array([x]))[0])


def proximities(pred: Points, true: Points, n: int, beta: float, scale: float) -> list[list[float]]:
    """The proximity of each predicted and each true n-gram."""
    rows = []
    for i in range(len(pred) - n + 1):
        row = []
        for j in range(len(true) - n + 1):
            near = 1.0
            for step in range(n):
                near *= exponential(-beta * (distance(pred[i + step], true[j + step]) / scale))
            row.append(near)
        rows.append(row)
    return rows


def greedy(table: list[list[float]]) -> float:
    """The sum of the nearest pairs, each row and column once; equal ones by row, then column."""
    left = [(-near, i, j) for i, row in enumerate(table) for j, near in enumerate(row)]
    total = 0.0
    while left:
        near, row, column = min(left)
        total -= near
        left = [one for one in left if one[1] != row and one[2] != column]
    return total


def geo_bleu(
    pred: Points,
    true: Points,
    n: int = 5,
    beta: float = 0.5,
    scale: float = 1.0,
    divisor: str = "predicted",
) -> float:
    """Brevity penalty times the geometric mean of the shares of matched n-grams."""
    longest = min(n, len(pred), len(true))
    if not longest:
        return 0.0
    logarithm = 0.0
    for k in range(1, longest + 1):
        table = proximities(pred, true, k, beta, scale)
        grams = len(table) if divisor == "predicted" else min(len(table), len(table[0]))
        logarithm += math.log(greedy(table) / grams)
    brevity = 1.0 if len(pred) > len(true) else math.exp(1 - len(true) / len(pred))
    return brevity * math.exp(logarithm / longest)


def path(
    pred: Points,
    true: Points,
    window: int | None = None,
    free_start: bool = False,
) -> float:
    """The best path through the table of distances, from its corner to the opposite one."""
    reach = None if window is None else max(window, abs(len(pred) - len(true)))

    @cache
    def best(i: int, j: int) -> float:
        if i < 0 or j < 0:
            return 0.0 if i < 0 and (j < 0 or free_start) else math.inf
        if reach is not None and abs(i - j) > reach:
            return math.inf
        return distance(pred[i], true[j]) + min(best(i - 1, j), best(i, j - 1), best(i - 1, j - 1))

    return best(len(pred) - 1, len(true) - 1) if len(pred) else math.inf


def point_errors(pred: Points, true: Points) -> list[float]:
    """The distance of each step."""
    return [distance(*step) for step in zip(pred, true, strict=True)]


def mean_of(score: Callable[..., float | None]) -> Callable[..., float]:
    """The mean score of a batch of pairs, which are padded with NaN; None leaves a pair out."""

    def value(preds: Tensor, target: Tensor, **options: Any) -> float:
        pairs = [
            [[point for point in points if not math.isnan(point[0])] for points in pair]
            for pair in zip(preds.tolist(), target.tolist(), strict=True)
        ]
        every = [score(*pair, **options) for pair in pairs if pair[1]]
        scores = [x for x in every if x is not None]
        return math.fsum(scores) / len(scores) if scores else math.nan

    return value


def dtw(
    pred: Points, true: Points, scale: float = 1.0, normalized: bool = False, **options: Any
) -> float:
    """The best path, over the length of the longer sequence if it is normalized."""
    return path(pred, true, **options) / scale / (max(len(pred), len(true)) if normalized else 1)


def mean_point_error(pred: Points, true: Points) -> float:
    """The mean distance of the steps."""
    errors = point_errors(pred, true)
    return sum(errors) / len(errors)


def point_error_at(pred: Points, true: Points, step: int) -> float | None:
    """The distance of one step, from 1 at the start and from -1 at the end."""
    errors = point_errors(pred, true)
    return errors[step - (step > 0)] if len(errors) >= abs(step) else None


def padded(sequences: Sequence[Points], extra: int = 0) -> Tensor:
    """The sequences as a tensor, padded with NaN."""
    width = max(map(len, sequences), default=0) + extra
    rows = torch.full((len(sequences), width, 2), torch.nan, dtype=torch.float64)
    for row, points in zip(rows, sequences, strict=True):
        row[: len(points)] = torch.tensor(points, dtype=torch.float64).reshape(-1, 2)
    return rows


def walks(number: int, longest: int, seed: int, equal: bool = False) -> list[tuple[Points, Points]]:
    """Random pairs: on a small grid, with many ties, or on a plane; some have only one point."""
    random = np.random.default_rng(seed)
    pairs: list[tuple[Points, Points]] = []
    for query in range(number):
        sizes = random.integers(1, longest + 1, 2)
        if equal:
            sizes[1] = sizes[0]
        steps = [
            random.integers(-1, 2, (size, 2)) if query % 3 else random.normal(size=(size, 2))
            for size in sizes
        ]
        first, second = (
            (step if query % 3 == 2 else step.cumsum(0)).astype(float).tolist() for step in steps
        )
        pairs.append((first, second))
    return pairs
