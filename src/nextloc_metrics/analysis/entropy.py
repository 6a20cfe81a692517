"""The entropy rate of a sequence of visits by Lempel-Ziv, and the limit of Fano's inequality."""

import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import check_bool, check_choice, is_integer
from nextloc_metrics.core.queries.messages import describe

End = Literal["k+1", "k", "zero"]
Profile = Literal["scikit-mobility", "dougct"]

# Halvings of an interval shorter than 1, to 2^-50.
_STEPS = 50

# Odd factors of a multiplicative hash: 2^64 divided by the golden ratio, and a random number.
_FACTOR, _NEXT_FACTOR = 0x9E3779B97F4A7C15, 0x5851F42D4C957F2D


def entropy_rate(
    visits: Array, *, end: End = "k+1", overlap: bool = False, profile: Profile | None = None
) -> float:
    r"""Estimate the entropy rate of a sequence of visits by Lempel-Ziv, in bits per visit.

    S = n log2(n) / (L_1 + ... + L_n). L_i is the length of the shortest sequence of visits that
    begins at visit i and does not occur among the visits before it; it is k + 1 if the longest
    one that does occur has k visits. A single visit has S = 0. The estimate converges to the
    entropy rate for long sequences, and is far too low for short ones.

    Two conventions differ between implementations and change the value: what counts if the visits
    from i to the last one occur before (`end`), and whether their earlier occurrence may reach
    beyond visit i (`overlap`).

    `profile` computes what a widely copied codebase computes. `"scikit-mobility"`: the first term
    is 1, the last is 2, and another one is one more than the number of remaining visits if all of
    them but the last occur before. `"dougct"`: ids are joined to one text without a separator, so
    that 1 and 2 are found in 12, and `end="k"`; it takes much longer.

    Args:
        visits: the locations in the order of time, integers `[n]`.
        end: the term L_i if all remaining k visits occur before: `"k+1"`, `"k"`, or `"zero"`.
        overlap: whether an earlier occurrence may reach beyond visit i.
        profile: the convention of a public codebase instead of `end` and `overlap`.

    Example:
        >>> round(entropy_rate([0, 1, 2, 3, 4]), 3)  # all L_i are 1: S = log2(5)
        2.322
        >>> round(entropy_rate([0, 1, 2, 3, 4], profile="scikit-mobility"), 3)  # 1 1 1 1 2
        1.935

    Sources: I. Kontoyiannis, P. H. Algoet, Y. M. Suhov and A. J. Wyner, "Nonparametric entropy
    estimation for stationary processes and random fields, with applications to English text", IEEE
    Transactions on Information Theory 44, 1998. scikit-mobility (skmob/measures/individual.py,
    lines 360 to 383, commit 9433d05) and dougct/predictability (entropy.py, lines 96 to 106, commit
    0a696e7).
    """
    check_conventions(end, overlap, profile)
    ids = as_tensor("visits", visits)
    if not is_integer(ids) or ids.ndim != 1 or not len(ids):
        raise ValueError(
            f"`visits` must be one row of integers, at least one, got {describe(ids)}."
        )
    return float(entropy_rates(ids.cpu().numpy()[None], end, overlap, profile)[0])


def fano_limit(
    entropy: Array | float, num_locations: Array | int, *, profile: Profile | None = None
) -> Tensor:
    r"""Return the highest possible accuracy for an entropy, by Fano's inequality.

    It is the p in [1/N, 1] with S = H(p) + (1 - p) log2(N - 1), where H(p) is the entropy of p and
    1 - p in bits. No method predicts more than this share of the visits of a process with entropy
    rate S and N locations. It is 1/N for S >= log2(N), and 1 for S <= 0 or N = 1. The error is
    below 1e-12 for S up to log2(N) - 1e-8, and below 1e-8 beyond: the limit falls there as the
    square root of the difference, so that the rounding of S shows.

    `profile="dougct"` returns instead the first p of 0.0001, 0.0002, ..., 0.9999 at which the two
    sides differ by at most 0.001, rounded to 3 digits, and 0 if there is none.

    Args:
        entropy: S in bits, a number or floating `[U]`.
        num_locations: N, an integer or integers `[U]`.

    Returns:
        float64 of the shape of `entropy`; NaN where it is NaN.

    Example:
        >>> fano_limit(1.0, 2), fano_limit(0.0, 2)
        (tensor(0.5000, dtype=torch.float64), tensor(1., dtype=torch.float64))

    Sources: C. Song, Z. Qu, N. Blumm and A.-L. Barabási, "Limits of predictability in human
    mobility", Science 327, 2010; dougct/predictability (pred_lims.py, lines 30 to 37, commit
    0a696e7).
    """
    bits = torch.as_tensor(entropy, dtype=torch.float64)
    size = torch.as_tensor(num_locations, dtype=torch.float64)
    if not bool((size >= 1).all()):
        raise ValueError(
            f"`num_locations` must be at least 1, got {float(size.min()):g}; without a location "
            "there is no limit."
        )
    if profile == "dougct":
        return _grid_limit(bits, size)
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


def _grid_limit(bits: Tensor, size: Tensor) -> Tensor:
    points = np.arange(0.0001, 1.0, 0.0001)
    grid, rounded = torch.from_numpy(points), torch.from_numpy(points.round(3))
    found = (_most_entropy(grid, size[..., None]) - bits[..., None]).abs() <= 0.001
    limit = torch.where(found.any(-1), rounded[found.int().argmax(-1)], 0.0)
    limit = torch.where((bits == 0) | (size <= 1), 1.0, limit)
    return limit.masked_fill(bits.isnan(), math.nan)


def check_conventions(end: End, overlap: bool, profile: Profile | None) -> None:
    """Raise unless the options of the entropy rate are known and go together."""
    check_choice("end", end, End)
    check_bool("overlap", overlap)
    if profile is not None:
        check_choice("profile", profile, Profile)
        if end != "k+1" or overlap:
            raise ValueError(
                f"`profile` must be None with `end={end!r}` and `overlap={overlap}`, got "
                f"{profile!r}: a profile has its own conventions; leave them out."
            )


def entropy_rates(rows: Any, end: End, overlap: bool, profile: Profile | None) -> Any:
    """Return the entropy rates, float64 `[B]`, of sequences of equal length, integers `[B, n]`."""
    num_visits = rows.shape[1]
    whole = num_visits * math.log2(num_visits)
    if profile == "dougct":
        return whole / np.array([_joined_lengths(row) for row in rows.tolist()])
    matches = longest_matches(rows, overlap)
    left = np.arange(num_visits, 0, -1)  # visits from i to the last
    if profile == "scikit-mobility":
        lengths = np.where(matches >= left - 1, left + 1, matches + 1)
        # a single visit has both terms, but log2(1) = 0 makes its entropy 0
        lengths[:, -1], lengths[:, 0] = 2, 1
    else:
        at_end = {"k+1": left + 1, "k": left, "zero": np.zeros_like(left)}[end]
        lengths = np.where(matches == left, at_end, matches + 1)
    return whole / lengths.sum(1)


def _joined_lengths(ids: list[int]) -> int:
    """Return the sum of the terms L_i by comparison of joined text."""
    words, total = [str(one) for one in ids], 0
    for i in range(len(words)):
        before, wanted = "".join(words[:i]), ""
        for word in words[i:]:
            total += 1
            wanted += word
            if wanted not in before:
                break
    return total


def longest_matches(rows: Any, overlap: bool) -> Any:
    """Return for each visit how many visits from it on occur before it, int64 `[B, n]`.

    All positions of all rows together, for the lengths 1, 2, ...: the class of a string is the
    first position where it occurs, so that strings with equal classes are equal, and a string
    one visit longer is a pair of a class and an id. Positions whose string has no later match
    leave; the work is the sum over positions of the lengths of their matches.
    """
    num_rows, size = rows.shape
    least, most = int(rows.min()), int(rows.max())
    if least < 0 or most >= rows.size:
        names, rows = np.unique(rows, return_inverse=True)
        rows, most = rows.reshape(num_rows, size), len(names) - 1
    width = size + 1
    ids = np.full((num_rows, width), most + 1)  # an id that ends each row, in no match
    ids[:, :size] = rows
    ids = ids.reshape(-1)
    matches = np.zeros(ids.size, dtype=np.int64)
    position = np.arange(ids.size)
    kind, length = position - position % width, 0
    is_needed = np.zeros(ids.size, dtype=bool)
    while len(position):
        length += 1
        pairs = kind * (most + 2) + ids.take(position + (length - 1))
        kind = position.take(_first_equal(pairs))
        occurs = kind < position if overlap else kind + length <= position
        found = np.flatnonzero(occurs)
        matches[position.take(found)] = length
        is_needed[kind] = False
        is_needed[kind.take(found)] = True
        stays = np.flatnonzero(is_needed.take(kind))
        position, kind = position.take(stays), kind.take(stays)
    return matches.reshape(num_rows, width)[:, :size]


def _first_equal(values: Any) -> Any:
    """Return for each value the index of the first equal one, int64, by a hash table.

    In each slot the first value decides: those equal to it are done, the others get a new hash.
    """
    found = np.empty(len(values), dtype=np.int64)
    index, factor = np.arange(len(values)), _FACTOR
    while len(index):
        bits = len(index).bit_length() + 1
        slot = (values.view(np.uint64) * np.uint64(factor)) >> np.uint64(64 - bits)
        slot = slot.view(np.int64)
        first = np.empty(1 << bits, dtype=np.int64)
        first[slot[::-1]] = np.arange(len(index))[::-1]  # the first is assigned last
        owner = first.take(slot)
        is_equal = values.take(owner) == values
        if is_equal.all() and len(index) == len(found):
            return owner
        found[index[is_equal]] = index[owner[is_equal]]
        values, index = values[~is_equal], index[~is_equal]
        factor = (factor * _NEXT_FACTOR) % 2**64 | 1
    return found
