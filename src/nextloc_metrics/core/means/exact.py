"""Exact sums, independent of the order of summands: 64-bit fixed point, multiples of 2^-32.

The state of a mean of scores in [0, 1] is three integers: the sum of scores, the sum of squares,
and the number of scores. Scores from 0 to infinity have seven: the fractions of the two sums and
the number of scores; the whole part of the sum; the lower 32 bits of the whole part of the squares,
and its upper ones; and the number of infinite scores. No sum of 2^31 scores overflows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

ONE = 1 << 32  #: the integer of a score of 1
HIGHEST_SCORE = 1 + 1e-9  #: the highest score that counts as 1, because of rounding
MOST_QUERIES = 1 << 31  #: the most scores of 1 whose sum fits
HIGHEST_FINITE = float(1 << 31)  #: the highest finite score of a mean without an upper bound

_BOUNDED, _UNBOUNDED = 3, 7  # integers of a state
_INFINITE = (1 << 63) - 1


def to_fixed_point(values: Tensor) -> Tensor:
    """Round float64 values in [0, 1] to the nearest multiple of 2^-32, as int64.

    A value outside counts as the nearest bound, and NaN as 0: their conversion to an integer is
    undefined and would corrupt the sum.
    """
    return _round(bounded(values))


def keep(scores: Tensor, is_bounded: bool) -> Tensor:
    """Round single scores to multiples of 2^-32, int64; infinity becomes the largest integer."""
    if is_bounded:
        return to_fixed_point(scores)
    infinite = ~(scores <= HIGHEST_FINITE)
    fixed = _round(scores.masked_fill(infinite, 0).clamp_(min=0.0))
    return fixed.masked_fill(infinite, _INFINITE)


def kept(fixed: Tensor) -> Tensor:
    """Return as float64 the scores that `keep` has rounded."""
    return (float64(fixed) / ONE).masked_fill(fixed == _INFINITE, torch.inf)


def bounded(values: Tensor) -> Tensor:
    """Return a copy in which values outside [0, 1] are the nearest bound, and NaN is 0."""
    return values.nan_to_num(nan=0.0).clamp_(min=0.0, max=1.0)


def _round(values: Tensor) -> Tensor:
    return (values * ONE).add_(0.5).long()


def width(is_bounded: bool) -> int:
    """Return the number of integers of a state."""
    return _BOUNDED if is_bounded else _UNBOUNDED


def is_bounded(state: Tensor) -> bool:
    """Return whether a state is that of scores in [0, 1]."""
    return state.shape[-1] == _BOUNDED


def tally(scores: Tensor, times: Tensor, is_bounded: bool = True) -> Tensor:
    """Return the state of a batch, int64 `[..., width]`: sum each of its scores several `times`.

    `scores` are float64 `[..., N]`; with `is_bounded` they are in [0, 1]. `times`, `[N]` or
    `[..., N]`, are integers, or bool for 0 and 1; scores that do not count are 0 then.
    """
    columns = _columns_of(scores, is_bounded)
    sums = (columns if times.dtype == torch.bool else columns * times).sum(-1)
    number = times.sum(-1).expand_as(sums[:1])
    return torch.cat([sums[:2], number, sums[2:]]).movedim(0, -1)


def tally_by(
    group: Tensor, num_groups: int, scores: Tensor, counted: Tensor, is_bounded: bool = True
) -> Tensor:
    """Return the state of each group, int64 `[..., num_groups, width]`; `group` is int64 `[N]`."""
    rows = rows_of(scores, counted, is_bounded)
    sums = rows.new_zeros(*rows.shape[:-2], num_groups, rows.shape[-1])
    return sums.index_add(-2, group, rows)


def rows_of(scores: Tensor, counted: Tensor, is_bounded: bool = True) -> Tensor:
    """Return what each score adds to a state, int64 `[..., N, width]`, as `tally` does."""
    total, squares, *rest = _columns_of(scores, is_bounded)
    return torch.stack([total, squares, counted.long(), *rest], -1)


def _columns_of(scores: Tensor, is_bounded: bool) -> Tensor:
    """Return what each score adds to the state, without the count, int64 `[width - 1, ..., N]`."""
    if is_bounded:
        scores = bounded(scores)
        return _round(torch.stack([scores, scores * scores]))
    infinite = ~(scores <= HIGHEST_FINITE)  # a NaN counts as infinite
    scores = scores.masked_fill(infinite, 0).clamp_(min=0.0)
    both = torch.stack([scores, scores * scores])
    whole = both.long()
    total, squares = whole
    upper = squares >> 32
    parts = [total, squares - (upper << 32), upper, infinite.long()]
    return torch.cat([_round(both - whole), torch.stack(parts)])


def check_overflow(count: Tensor) -> None:
    """Raise if the number of scores is so large that their sum may have overflowed."""
    most = int(count.max()) if count.numel() else 0
    if most > MOST_QUERIES:
        raise OverflowError(
            f"a metric sums at most 2^31 = {MOST_QUERIES} scores exactly, got {most}; "
            "call `reset()` between evaluations."
        )


def moments(state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean (infinite if a score is), mean square and number of scores, float64 `[...]`."""
    check_overflow(state[..., 2])
    total, squares, number, *rest = float64(state).unbind(-1)
    # the sum of 2^31 ones overflows to -2^63
    means = [total.abs() / ONE / number, squares.abs() / ONE / number]
    if rest:
        whole, lower, upper, infinite = rest
        means[0] = means[0] + whole / number
        means[1] = means[1] + lower / number + upper * ONE / number
        means = [x.masked_fill(infinite > 0, torch.inf) for x in means]
    return means[0], means[1], number


def part_of(number: int, share: float) -> float:
    """Return share x number; it is an integer if only the rounding of the share says otherwise.

    So .29 of 100 are 29, and 1 - .7 of 10 are 3. A share may be off by 2^-50, a few units in its
    last place.
    """
    part = number * share
    whole = round(part)
    return float(whole) if abs(part - whole) <= number * 2.0**-50 else part


def float64(tensor: Tensor) -> Tensor:
    """Convert to float64, on the CPU if the device has no float64."""
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()


def sum_once(values: Any, counts: Any) -> float:
    """Return the sum of float64 values, each times its count, rounded only at the end."""
    if np.all(counts == 1) or not (np.abs(values) < 2.0**900).all():
        return math.fsum(np.repeat(values, counts).tolist())
    # each value is split into two of 26 bits, whose products with counts below 2^26 are exact
    upper = values * (2.0**27 + 1)
    upper -= upper - values
    return math.fsum(np.concatenate([upper * counts, (values - upper) * counts]).tolist())
