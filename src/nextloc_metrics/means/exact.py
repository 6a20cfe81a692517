"""Exact sums, independent of the order of summands: 64-bit fixed point, multiples of 2^-32."""

import torch
from torch import Tensor

ONE = 1 << 32  #: the integer of a score of 1
HIGHEST_SCORE = 1 + 1e-9  #: the highest score that counts as 1, because of rounding
MOST_QUERIES = 1 << 31  #: the most scores of 1 whose sum fits


def to_fixed_point(values: Tensor) -> Tensor:
    """Round float64 values in [0, 1] to the nearest multiple of 2^-32, as int64.

    A value outside counts as the nearest bound, and NaN as 0: their conversion to an integer is
    undefined and would corrupt the sum.
    """
    return _round(bounded(values))


def split_fixed_point(values: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
    """Split float64 values into an integer part and a fraction in multiples of 2^-32, int64.

    A value outside [0, `most`], int64 and below 2^31, counts as the nearest bound, and NaN as 0.
    """
    fixed = _round(values.nan_to_num(nan=0.0).clamp_(min=0.0).minimum(most.double()))
    return fixed // ONE, fixed % ONE


def bounded(values: Tensor) -> Tensor:
    """Return a copy in which values outside [0, 1] are the nearest bound, and NaN is 0."""
    return values.nan_to_num(nan=0.0).clamp_(min=0.0, max=1.0)


def _round(values: Tensor) -> Tensor:
    return (values * ONE).add_(0.5).long()


def tally(scores: Tensor, counted: Tensor) -> Tensor:
    """Sum the scores of a batch, float64 `[..., N]` and 0 where not `counted`, bool `[N]`.

    Returns:
        int64 `[..., 3]`: the sum of scores, the sum of squares, and the number of scores.
    """
    sums = _columns(scores).sum(-1)
    return torch.cat([sums, counted.sum().expand_as(sums[:1])]).movedim(0, -1)


def tally_by(group: Tensor, num_groups: int, scores: Tensor, counted: Tensor) -> Tensor:
    """Do what `tally` does per group, int64 `[num_groups, 3]`; `group` is int64 `[N]`."""
    columns = torch.stack([*_columns(scores), counted.long()], 1)
    return columns.new_zeros(num_groups, 3).index_add(0, group, columns)


def _columns(scores: Tensor) -> Tensor:
    scores = bounded(scores)
    return _round(torch.stack([scores, scores * scores]))


def mean(state: Tensor) -> Tensor:
    """Return the mean of the tallied scores, floating `[...]`, of states int64 `[..., 3]`."""
    return ratio(state[..., 0], state[..., 2])


def ratio(total: Tensor, count: Tensor) -> Tensor:
    """Divide a fixed-point sum, at most `count`, by `count`; NaN where `count` is 0."""
    check_number(count)
    return _ratio(total, count).float().to(total.device)


def check_number(count: Tensor) -> None:
    """Raise if the number of scores is so large that their sum may have overflowed."""
    most = int(count.max()) if count.numel() else 0
    if most > MOST_QUERIES:
        raise OverflowError(
            f"a metric sums at most 2^31 = {MOST_QUERIES} scores exactly, got {most}; "
            "call `reset()` between evaluations."
        )


def moments(state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, mean square and number of the tallied scores, float64."""
    mean(state)  # raises if the sums may have overflowed
    total, squares, count = state.unbind(-1)
    return _ratio(total, count), _ratio(squares, count), float64(count)


def _ratio(total: Tensor, count: Tensor) -> Tensor:
    return float64(total).abs() / ONE / float64(count)  # 2^31 ones sum to -2^63


def float64(tensor: Tensor) -> Tensor:
    """Convert to float64, on the CPU if the device has no float64."""
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()
