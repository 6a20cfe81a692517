"""Sums that do not depend on the order of what is summed: 64-bit fixed point, steps of 2^-32."""

from collections.abc import Callable

import torch
from torch import Tensor

ONE = 1 << 32  #: what a score of 1 is stored as
HIGHEST_SCORE = 1 + 1e-9  #: that is 1 but for rounding
MOST_QUERIES = 1 << 31  #: more scores of 1 than this do not fit


def to_fixed_point(values: Tensor) -> Tensor:
    """Round float64 values in [0, 1] to the nearest multiple of 2^-32, as int64.

    A value outside counts as the nearest bound, and NaN as 0: as integers these are undefined, and
    a single one would spoil the sum for good.
    """
    return _round(bounded(values))


def split_fixed_point(values: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
    """Round float64 values of at least 0, and split them into whole numbers and multiples of 2^-32.

    A value outside of [0, `most`], int64 and below 2^31, counts as the nearest bound, and NaN as 0.
    """
    fixed = _round(values.nan_to_num(nan=0.0).clamp_(min=0.0).minimum(most.double()))
    return fixed // ONE, fixed % ONE


def bounded(values: Tensor) -> Tensor:
    """Return a copy in which values outside [0, 1] are the nearest bound, and NaN is 0."""
    return values.nan_to_num(nan=0.0).clamp_(min=0.0, max=1.0)


def _round(values: Tensor) -> Tensor:
    return (values * ONE).add_(0.5).long()


def tally(scores: Tensor, counted: Tensor) -> Tensor:
    """Sum up a batch of scores.

    Args:
        scores: float64 `[..., N]`, as for `to_fixed_point`, and 0 where not counted.
        counted: bool `[N]`, which of them to count.

    Returns:
        int64 `[..., 3]`: the sum of the scores, of their squares, and their number.
    """
    sums = _columns(scores).sum(-1)
    return torch.cat([sums, counted.sum().expand_as(sums[:1])]).movedim(0, -1)


def tally_by(group: Tensor, num_groups: int, scores: Tensor, counted: Tensor) -> Tensor:
    """Sum up a batch of scores group by group, int64 `[num_groups, 3]`; see `tally`.

    Args:
        group: int64 `[N]`, each score's group.
        num_groups: how many groups there are.
        scores: float64 `[N]`, as for `to_fixed_point`, and 0 where not counted.
        counted: bool `[N]`, which of them to count.
    """
    columns = torch.stack([*_columns(scores), counted.long()], 1)
    return columns.new_zeros(num_groups, 3).index_add(0, group, columns)


def _columns(scores: Tensor) -> Tensor:
    scores = bounded(scores)
    return _round(torch.stack([scores, scores * scores]))


def mean(state: Tensor) -> Tensor:
    """Return the mean of the tallied scores, floating `[...]`, of states int64 `[..., 3]`."""
    return ratio(state[..., 0], state[..., 2])


def ratio(total: Tensor, count: Tensor) -> Tensor:
    """Divide a fixed-point sum of at most `count` ones by `count`; NaN where that is 0.

    Raises:
        OverflowError: `count` is so large that the sum may have overflowed.
    """
    check_number(count)
    return _ratio(total, count).float().to(total.device)


def check_number(count: Tensor) -> None:
    """Raise where so many were counted that their sum may have overflowed."""
    most = int(count.max()) if count.numel() else 0
    if most > MOST_QUERIES:
        raise OverflowError(
            f"a metric counts at most 2^31 = {MOST_QUERIES} exactly, got {most}; "
            "call `reset()` between evaluations."
        )


def moments(state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, mean square and number of the tallied scores, float64, as `mean` does."""
    mean(state)  # raises where the sums may have overflowed
    total, squares, count = state.unbind(-1)
    return _ratio(total, count), _ratio(squares, count), float64(count)


def _ratio(total: Tensor, count: Tensor) -> Tensor:
    return float64(total).abs() / ONE / float64(count)  # 2^31 ones sum to -2^63


def float64(tensor: Tensor) -> Tensor:
    """Convert to float64, on the CPU where the device has none."""
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()


def row_sum(values: Tensor) -> Tensor:
    """Sum over the last dimension, in an order that padding with zeros does not change.

    `Tensor.sum` adds in an order that depends on shapes, threads and device; halving the row, its
    length rounded up to a power of two, always adds the same pairs.
    """
    return _halve(values, torch.add, 0.0)


def row_product(values: Tensor) -> Tensor:
    """Multiply over the last dimension, in an order that padding with ones does not change."""
    return _halve(values, torch.mul, 1.0)


def _halve(values: Tensor, combine: Callable[[Tensor, Tensor], Tensor], neutral: float) -> Tensor:
    length = values.shape[-1]
    size = 1 << (length - 1).bit_length()
    if size > length:
        values = torch.nn.functional.pad(values, (0, size - length), value=neutral)
    while size > 1:
        size //= 2
        values = combine(values[..., :size], values[..., size:])
    return values[..., 0]
