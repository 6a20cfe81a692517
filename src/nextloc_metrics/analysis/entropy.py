"""The entropy rate of a sequence of visits by Lempel-Ziv, and the limit of Fano's inequality."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe

# Halvings of an interval shorter than 1, to 2^-50.
_STEPS = 50


def entropy_rate(visits: Array) -> float:
    r"""Estimate the entropy rate of a sequence of visits by Lempel-Ziv, in bits per visit.

    S = n log2(n) / (L_1 + ... + L_n). L_i is the length of the shortest sequence of visits that
    begins at visit i and does not occur among the visits before it; it is k + 1 if the longest
    one that does occur has k visits, also if these are all visits from i on. The earlier
    occurrence ends before visit i. A single visit has S = 0. The estimate converges to the entropy
    rate for long sequences, and is far too low for short ones.

    Args:
        visits: the locations in the order of time, integers `[n]`.

    Example:
        >>> round(entropy_rate([0, 1, 2, 3, 4]), 3)  # all L_i are 1: S = log2(5)
        2.322

    Source: I. Kontoyiannis, P. H. Algoet, Y. M. Suhov and A. J. Wyner, "Nonparametric entropy
    estimation for stationary processes and random fields, with applications to English text", IEEE
    Transactions on Information Theory 44, 1998.
    """
    ids = as_tensor("visits", visits)
    if not is_integer(ids) or ids.ndim != 1 or not len(ids):
        raise ValueError(
            f"`visits` must be one row of integers, at least one, got {describe(ids)}."
        )
    return float(entropy_rates(ids.cpu().numpy()[None])[0])


def fano_limit(entropy: Array | float, num_locations: Array | int) -> Tensor:
    r"""Return the highest possible accuracy for an entropy, by Fano's inequality.

    It is the p in [1/N, 1] with S = H(p) + (1 - p) log2(N - 1), where H(p) is the entropy of p and
    1 - p in bits. No method predicts more than this share of the visits of a process with entropy
    rate S and N locations. It is 1/N for S >= log2(N), and 1 for S <= 0 or N = 1. The error is
    below 1e-12 for S up to log2(N) - 1e-8, and below 1e-8 beyond: the limit falls there as the
    square root of the difference, so that the rounding of S shows.

    Args:
        entropy: S in bits, a number or floating `[U]`.
        num_locations: N, an integer or integers `[U]`.

    Returns:
        float64 of the shape of `entropy`; NaN where it is NaN.

    Example:
        >>> fano_limit(1.0, 2), fano_limit(0.0, 2)
        (tensor(0.5000, dtype=torch.float64), tensor(1., dtype=torch.float64))

    Source: C. Song, Z. Qu, N. Blumm and A.-L. Barabási, "Limits of predictability in human
    mobility", Science 327, 2010.
    """
    bits = torch.as_tensor(entropy, dtype=torch.float64)
    size = torch.as_tensor(num_locations, dtype=torch.float64)
    if not bool((size >= 1).all()):
        raise ValueError(
            f"`num_locations` must be at least 1, got {float(size.min()):g}; without a location "
            "there is no limit."
        )
    low, high = 1 / size + 0 * bits, torch.ones_like(bits)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        is_left = _most_entropy(middle, size) > bits  # it falls with p
        low, high = torch.where(is_left, middle, low), torch.where(is_left, high, middle)
    limit = torch.where(bits >= size.log2(), 1 / size, (low + high) / 2)
    limit = torch.where((bits <= 0) | (size == 1), 1.0, limit)
    return limit.masked_fill(bits.isnan(), math.nan)


def _most_entropy(p: Tensor, size: Tensor) -> Tensor:
    """Return H(p) + (1 - p) log2(N - 1), the highest entropy with one location of probability p."""
    own: Tensor = (torch.special.entr(p) + torch.special.entr(1 - p)) / math.log(2)
    others: Tensor = torch.special.xlogy(1 - p, size - 1) / math.log(2)
    return own + others


def entropy_rates(rows: Any) -> Any:
    """Return the entropy rates, float64 `[B]`, of sequences of equal length, integers `[B, n]`."""
    num_visits = rows.shape[1]
    return num_visits * math.log2(num_visits) / (longest_matches(rows) + 1).sum(1)


def longest_matches(rows: Any) -> Any:
    """Return for each visit how many visits from it on occur before it, int64 `[B, n]`.

    All positions of all rows together, for the lengths 1, 2, ...: the class of a string is the
    first position where it occurs, so that strings with equal classes are equal, and a string
    one visit longer is a pair of a class and an id. Positions whose string has no later match
    leave; the work is the sum over positions of the lengths of their matches.
    """
    num_rows, size = rows.shape
    names, numbers = np.unique(rows, return_inverse=True)
    width = size + 1
    ids = np.full((num_rows, width), len(names))  # an id that ends each row, in no match
    ids[:, :size] = numbers.reshape(num_rows, size)
    ids = ids.reshape(-1)
    matches = np.zeros(ids.size, dtype=np.int64)
    position = np.arange(ids.size)
    kind, length = position - position % width, 0
    is_needed = np.zeros(ids.size, dtype=bool)
    while len(position):
        length += 1
        pairs = kind * (len(names) + 1) + ids.take(position + (length - 1))
        _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        kind = position.take(first[inverse])
        found = np.flatnonzero(kind + length <= position)
        matches[position.take(found)] = length
        is_needed[kind] = False
        is_needed[kind.take(found)] = True
        stays = np.flatnonzero(is_needed.take(kind))
        position, kind = position.take(stays), kind.take(stays)
    return matches.reshape(num_rows, width)[:, :size]
