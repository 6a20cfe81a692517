"""Pairs of sequences of points in NumPy: their distances, matched n-grams, and alignment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

# The number of distances that are computed at once; a processor's cache can hold them.
_AT_ONCE = 1 << 17


@dataclass(eq=False)
class Sequences:
    """Pairs of sequences of points, on the CPU.

    Attributes:
        first: float64 `[N, L, D]`, the points of each pair's first sequence: on a plane (D = 2), or
            on a sphere of radius 1 (D = 3).
        second: float64 `[N, M, D]`, the points of the second sequence.
        first_length: int64 `[N]`, the number of points of `first`; further points are not read.
        second_length: int64 `[N]`, the same for `second`.
        diameter: what a distance on the sphere is multiplied by, such as 12,742 km; 0 on a plane.
    """

    first: Tensor
    second: Tensor
    first_length: Tensor
    second_length: Tensor
    diameter: float = 0.0

    def parts(self, elements: int) -> Iterator[tuple[slice, Any, Any, Any, Any]]:
        """Yield slices of pairs and their arrays, for about `_AT_ONCE` / `elements` pairs each."""
        arrays = self.first, self.second, self.first_length, self.second_length
        at_once = max(1, _AT_ONCE // max(1, elements))
        for begin in range(0, len(self.first), at_once):
            part = slice(begin, begin + at_once)
            first, second, rows, columns = (x[part].numpy() for x in arrays)
            yield part, first, second, rows, columns


def distances(first: Any, second: Any, diameter: float) -> Any:
    """Return the distances between points, float64 `[..., D]`, which are broadcast."""
    with np.errstate(over="ignore"):  # a distance may be infinite
        steps = (second[..., d] - first[..., d] for d in range(first.shape[-1]))
        straight = np.sqrt(sum(x * x for x in steps))
    return diameter * np.arcsin(np.minimum(straight / 2, 1)) if first.shape[-1] == 3 else straight


def match_ngrams(pairs: Sequences, most: int, beta: float, scale: float) -> Tensor:
    """Sum the proximities of n-grams that are matched one to one, float64 `[N, most]`.

    The nearest are matched first, and equally near ones by (first index, second index).

    The proximity of two points is exp(-beta d / scale). The proximity of two n-grams is the product
    over their points, in order. Column n - 1 has the sum for n, or 0 if a sequence is shorter.

    Args:
        pairs: the sequences.
        most: the longest n-gram.
        beta: how fast the proximity falls.
        scale: the distance at which the proximity is exp(-beta).
    """
    sums = np.zeros((len(pairs.first), most))
    length, width = pairs.first.shape[1], pairs.second.shape[1]
    for part, first, second, rows, columns in pairs.parts(length * width):
        between = distances(first[:, :, None], second[:, None], pairs.diameter)
        proximity = np.exp(-beta * (between / scale))
        inside = (np.arange(length) < rows[:, None])[:, :, None]
        inside = inside & (np.arange(width) < columns[:, None])[:, None]
        product = proximity
        for n in range(1, min(most, length, width) + 1):
            if n > 1:
                product = product[:, :-1, :-1] * proximity[:, n - 1 :, n - 1 :]
            candidates = np.where(inside[:, n - 1 :, n - 1 :], product, -1.0)
            sums[part, n - 1] = _match_greedily(candidates)
    return torch.from_numpy(sums)


def _match_greedily(product: Any) -> Any:
    """Return the sum of products that are matched, largest first; `product` is overwritten."""
    pair = np.arange(len(product))
    total = np.zeros(len(product))
    # a product is -1 outside a sequence, and after a match; `argmax` takes the first of equal ones
    column = product.argmax(2)  # the largest of each row
    nearest = np.take_along_axis(product, column[:, :, None], 2)[:, :, 0]
    for _ in range(min(product.shape[1:])):
        row = nearest.argmax(1)
        taken = column[pair, row]
        total += nearest[pair, row].clip(min=0)
        product[pair, :, taken] = -1
        nearest[pair, row] = product[pair, row] = -1
        # rows whose largest product was in the column that is now taken look for another
        pairs, rows = ((column == taken[:, None]) & (nearest >= 0)).nonzero()
        column[pairs, rows] = next_best = product[pairs, rows].argmax(1)
        nearest[pairs, rows] = product[pairs, rows, next_best]
    return total


def align(pairs: Sequences, window: int | None = None, free_start: bool = False) -> Tensor:
    """Return the least sum of distances along a path, float64 `[N]`.

    All cells (i, j) with the same i + j are computed at once, for all pairs, from earlier cells.

    Args:
        pairs: the sequences.
        window: the largest difference of indices, or of the lengths if that is larger; None for
            any.
        free_start: whether a path may begin at any point of `second`; earlier points cost nothing.
    """
    least = np.zeros(len(pairs.first))
    length, width = pairs.first.shape[1], pairs.second.shape[1]
    for part, first, second, rows, columns in pairs.parts(length):
        backward = second[:, ::-1]
        reach = None if window is None else np.maximum(window, np.abs(rows - columns))[:, None]
        before = last = np.full((len(rows), length + 1), np.inf)
        for total in range(length + width + 1):  # i + j, after i points of `first`, j of `second`
            sums = np.full_like(last, np.inf)
            sums[:, 0] = 0 if total == 0 or free_start else np.inf
            low, high = max(1, total - width), min(length, total - 1)
            if low <= high:
                opposite = backward[:, width - total + low : width - total + high + 1]
                costs = distances(first[:, low - 1 : high], opposite, pairs.diameter)
                best = np.minimum(last[:, low - 1 : high], last[:, low : high + 1])
                costs += np.minimum(best, before[:, low - 1 : high])
                if reach is not None:
                    i = np.arange(low, high + 1)
                    costs[np.abs(2 * i - total) > reach] = np.inf
                sums[:, low : high + 1] = costs
            ends = (rows + columns == total).nonzero()[0]
            least[part][ends] = sums[ends, rows[ends]]
            before, last = last, sums
    return torch.from_numpy(least)
