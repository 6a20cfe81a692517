"""Quantiles of numbers of at least 0, from a histogram of integers.

Numbers up to 8,192 are rounded to integers, with a bin each; beyond, each power of two has 512
bins, so that a number differs from the middle of its bin by at most 1/1024. The last bin has all
numbers from 2^33 on, infinity and NaN.
"""

import math

import torch
from torch import Tensor

from nextloc_metrics.core.means.exact import part_of

_EXACT = 13  # integers up to 2^13 have bins of their own
_PER_OCTAVE = 512
_OCTAVES = 20
_FIRST_WIDE = (1 << _EXACT) + 1
_LAST = _FIRST_WIDE + _OCTAVES * _PER_OCTAVE


def empty() -> Tensor:
    """Return a histogram of zeros, int64."""
    return torch.zeros(_LAST + 1, dtype=torch.int64)


def tally(values: Tensor, counted: Tensor) -> Tensor:
    """Return the histogram of the values, float64 `[N]`, that are `counted`."""
    beyond = ~(values < 2.0 ** (_EXACT + _OCTAVES))  # a NaN is beyond, too
    values = values.masked_fill(beyond, 0).clamp(min=0).round()
    mantissa, exponent = torch.frexp(values)
    octave = exponent.long() - 1 - _EXACT
    wide = _FIRST_WIDE + octave * _PER_OCTAVE + ((2 * mantissa - 1) * _PER_OCTAVE).long()
    bins = torch.where(values <= 1 << _EXACT, values.long(), wide).masked_fill(beyond, _LAST)
    return count(bins, counted, _LAST + 1)


def count(bins: Tensor, counted: Tensor, size: int) -> Tensor:
    """Count how often each bin is in `bins`, `[N]`, where `counted`; the last has all beyond."""
    zeros = torch.zeros(size, dtype=torch.int64, device=bins.device)
    return zeros.index_add_(0, bins.clamp(max=size - 1), counted.long())


def bin_of(state: Tensor, share: float) -> int | None:
    """Return the first bin such that a share of the values lie in it or below; None if empty."""
    counts = state.cumsum(0)
    total = int(counts[-1])
    wanted = max(1, math.ceil(part_of(total, share)))
    return int(torch.searchsorted(counts, wanted)) if total else None


def quantile(state: Tensor, share: float) -> float:
    """Return the smallest number that at least a share of the values do not exceed.

    It is the middle of its bin; NaN for an empty histogram, infinite for the last bin.
    """
    number = bin_of(state, share)
    if number is None:
        return math.nan
    if number == _LAST:
        return math.inf
    if number < _FIRST_WIDE:
        return float(number)
    octave, within = divmod(number - _FIRST_WIDE, _PER_OCTAVE)
    return (1 + (within + 0.5) / _PER_OCTAVE) * 2.0 ** (_EXACT + octave)
