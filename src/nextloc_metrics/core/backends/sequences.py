"""Pairs of sequences of points: distances, matched n-grams, warping; the definition, in NumPy.

Only +, -, *, / and sqrt are used, which every machine rounds correctly, and sums have one order. So
`pairs.h`, which has the same operations in C, gives the same bits, and so does every machine: an
n-gram that is matched in one place is never lost to another one elsewhere because of a last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Entries of the tables: powers of 2, and the series of the arc sine.
_POWERS, _SINES = 256, 25

# Adding and subtracting 1.5 * 2^52 rounds to an integer, 1.5 * 2^16 to a multiple of 2^-36.
_ROUND, _CUT = 1.5 * 2.0**52, 1.5 * 2.0**16

# exp(x) counts as 0 below.
_LOWEST_EXPONENT = -708.0


@dataclass(eq=False)
class Sequences:
    """Pairs of sequences of points, on the CPU.

    Attributes:
        first: float64 `[N, L, D]`, points of one sequence per pair: on a plane (D = 2), or on a
            sphere of radius 1 (D = 3).
        second: float64 `[N, M, D]`, points of the other.
        first_length: int64 `[N]`, the number of points of `first`; others are not read.
        second_length: int64 `[N]`, the same for `second`.
        diameter: what a distance on the sphere is multiplied by, such as 12,742 km; 0 on a plane.
    """

    first: Tensor
    second: Tensor
    first_length: Tensor
    second_length: Tensor
    diameter: float = 0.0


@cache
def table() -> Any:
    """Return the constants of `exponential` and of the arc sine, float64.

    2^(i / 256) as a number of 26 bits and the rest, for i from 0 to 255; the coefficients of
    asin(x) / x as a series in x^2; 256 / ln 2, ln 2 / 256 as a number of 35 bits and the rest, and
    pi / 2.
    """
    numbers: list[float] = []
    with localcontext(Context(prec=50)):
        log2 = Decimal(2).ln()
        step, power = (log2 / _POWERS).exp(), Decimal(1)
        for _ in range(_POWERS):
            high = int(power * 2**25) / 2**25
            numbers += [high, float(power - Decimal(high))]
            power *= step
        term = Fraction(1)
        for i in range(_SINES):
            numbers.append(float(term / (2 * i + 1)))
            term *= Fraction(2 * i + 1, 2 * i + 2)
        width = log2 / _POWERS
        high = int(width * 2**43) / 2**43
        numbers += [float(1 / width), high, float(width - Decimal(high))]
    return np.array([*numbers, np.pi / 2])


def exponential(x: Any) -> Any:
    """Return exp(x) for numbers up to 0, correctly rounded but for about one in a million."""
    constants = table()
    scale, high_step, low_step = constants[2 * _POWERS + _SINES : -1]
    kept = np.where(x < _LOWEST_EXPONENT, _LOWEST_EXPONENT, x)
    k = (kept * scale + _ROUND) - _ROUND
    near, step = kept - k * high_step, k * low_step
    r = near - step
    back = r - near
    lost = (near - (r - back)) - (step + back)  # by rounding r
    series = 0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720))))
    head = (r + _CUT) - _CUT
    rest = (r - head) + (r * r * series + lost)
    number = k.astype(np.int64)
    high, low = constants[2 * (number % _POWERS)], constants[2 * (number % _POWERS) + 1]
    product = high * head  # exact
    total = high + product
    error = (product - (total - high)) + (high * rest + low * (1 + (head + rest)))
    found = np.ldexp(total + error, (number // _POWERS).astype(np.int32))
    return np.where(x < _LOWEST_EXPONENT, 0.0, found)


def distances(first: Any, second: Any, diameter: float) -> Any:
    """Return the distances between points, float64 `[..., D]`, which are broadcast."""
    difference = second - first
    x = difference[..., 0]
    total = x * x + difference[..., 1] * difference[..., 1]
    if difference.shape[-1] == 2:
        return np.sqrt(total)
    half = np.sqrt(total + difference[..., 2] * difference[..., 2]) / 2
    sine = np.where(half < 1, half, 1.0)
    is_small = sine <= 0.5
    z = np.where(is_small, sine * sine, (1 - sine) / 2)
    root = np.where(is_small, sine, np.sqrt(z))
    *series, last = table()[2 * _POWERS : 2 * _POWERS + _SINES]
    total = np.full_like(z, last)
    for coefficient in reversed(series):
        total = total * z + coefficient
    angle = root * total
    return diameter * np.where(is_small, angle, table()[-1] - 2 * angle)


def match_ngrams(pairs: Sequences, most: int, beta: float, scale: float, optimal: bool) -> Tensor:
    """Sum the proximities of n-grams that are matched one to one, float64 `[N, most]`.

    The proximity of two points is exp(-beta d / scale); that of two n-grams is the product of
    those of their points, in order. Column n - 1 holds the sum for n; 0 if a sequence is
    shorter than n.

    Args:
        pairs: the sequences.
        most: the longest n-gram.
        beta: how fast the proximity falls.
        scale: the distance of which exp(-beta) is the proximity.
        optimal: match so that the sum is the largest; otherwise the nearest first, and equally
            near ones by (first index, second index).
    """
    sums = np.zeros((len(pairs.first), most))
    match = _match_optimally if optimal else _match_greedily
    first, second = pairs.first.numpy(), pairs.second.numpy()
    lengths = zip(pairs.first_length.tolist(), pairs.second_length.tolist(), strict=True)
    for query, (rows, columns) in enumerate(lengths):
        apart = distances(first[query, :rows, None], second[query, :columns], pairs.diameter)
        proximity = exponential(-beta * (apart / scale))
        product = proximity
        for n in range(1, min(most, *proximity.shape) + 1):
            if n > 1:
                product = product[:-1, :-1] * proximity[n - 1 :, n - 1 :]
            sums[query, n - 1] = match(product)
    return torch.from_numpy(sums)


def _match_greedily(product: Any) -> float:
    """Match the nearest first; equal ones by (row, column)."""
    rows, columns = product.shape
    row_taken, column_taken = [False] * rows, [False] * columns
    total, matched = 0.0, 0
    flat = product.ravel()
    for at in np.argsort(-flat, kind="stable").tolist():
        row, column = divmod(at, columns)
        if row_taken[row] or column_taken[column]:
            continue
        row_taken[row] = column_taken[column] = True
        total += float(flat[at])
        matched += 1
        if matched == min(rows, columns):
            break
    return total


def _match_optimally(product: Any) -> float:
    """Match so that the sum is the largest: by shortest augmenting paths, one for each row."""
    if product.shape[0] > product.shape[1]:
        product = product.T
    rows, columns = product.shape
    row_price, column_price = np.zeros(rows + 1), np.zeros(columns + 1)
    owner, origin = np.zeros(columns + 1, np.int64), np.zeros(columns + 1, np.int64)
    for row in range(1, rows + 1):
        slack = np.full(columns + 1, np.inf)
        taken = np.zeros(columns + 1, bool)
        owner[0], now = row, 0
        while owner[now]:
            taken[now] = True
            cost = -product[owner[now] - 1] - row_price[owner[now]] - column_price[1:]
            nearer = np.append(False, (cost < slack[1:]) & ~taken[1:])
            slack[nearer], origin[nearer] = cost[nearer[1:]], now
            now = int(np.where(taken, np.inf, slack).argmin())
            least = slack[now]
            row_price[owner[taken]] += least
            column_price[taken] -= least
            slack[~taken] -= least
        while now:
            owner[now] = owner[origin[now]]
            now = int(origin[now])
    total = 0.0
    for column in range(1, columns + 1):
        if owner[column]:
            total += float(product[owner[column] - 1, column - 1])
    return total


def align(pairs: Sequences, window: int | None = None, free_start: bool = False) -> Tensor:
    """Return the least sum of distances along a path, float64 `[N]`: all pairs at once.

    Args:
        pairs: the sequences.
        window: the largest difference of indices, or of the lengths if that is larger; None for
            any.
        free_start: whether a path may begin at any point of `second`, without their distance.
    """
    first, second = pairs.first.numpy(), pairs.second.numpy()
    rows, columns = pairs.first_length.numpy(), pairs.second_length.numpy()
    length, width = first.shape[1], second.shape[1]
    previous = np.zeros((width + 1, len(first)))
    if not free_start:
        previous[1:] = np.inf
    query = np.arange(len(first))
    found = previous[columns, query]
    reach = None if window is None else np.maximum(window, np.abs(rows - columns))
    for i in range(length):
        apart = distances(first[:, i, None], second, pairs.diameter).T
        current = np.full_like(previous, np.inf)
        for j in range(width):
            best = apart[j] + np.minimum(np.minimum(previous[j + 1], previous[j]), current[j])
            if reach is not None:
                best = np.where(abs(i - j) > reach, np.inf, best)
            current[j + 1] = best
        ends = rows == i + 1
        found[ends] = current[columns[ends], query[ends]]
        previous = current
    return torch.from_numpy(found)
