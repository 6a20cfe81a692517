"""Weights of scores and their sums in PyTorch: the definition that `mass.h` repeats in C.

No bit of a result depends on the order of rows and candidates, on threads, layout, device or
version: there are only additions, multiplications and divisions of float64, one operation at a time
and none fused, and sums of integers. A weight is at most 1, and rounded to 2^-51 it is an integer:
the sum of C weights, which is at least 1/2, is off by at most C 2^-52 and by the error of exp. The
sum of probabilities is exact but for what is below 2^-62.
"""

from typing import NamedTuple

import torch
from torch import Tensor

_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10

# Below this, exp is 0.
_DEEPEST = -708.0

# Adding it rounds to an integer: 1.5 * 2^52.
_SHIFT = 6755399441055744.0

# The polynomials, from the highest power down: of exp(x) for |x| <= ln(2) / 2, within 2^-34, and of
# atanh(sqrt(x)) / sqrt(x) - 1 over x.
_EXP = (
    0.00019767672164820914,
    0.0013945898004677703,
    0.0083335688991578501,
    0.041666272548245814,
    0.16666665163785485,
    0.50000000771471587,
    1.000000000208598,
    1.0,
)
_ATANH = tuple(1 / odd for odd in range(21, 1, -2))

# The bits of 1, of the root of 1/2, and of infinity, which are those of an exponent.
_MANTISSA, _ROOT, _EXPONENT = 1 << 52, 0x3FE6A09E667F3BCD, 0x7FF << 52

# The smallest double whose mantissa is normal.
_NORMAL = 2.0**-1022


class Weights(NamedTuple):
    """How scores become weights, which are probabilities up to a factor."""

    are_scores: bool  #: scores are probabilities
    inverse_temperature: float = 1.0  #: else the weight is exp(score * inverse_temperature)

    def of(self, scores: Tensor, highest: Tensor) -> Tensor:
        """Return the weights of scores, float64, at most 1.

        Logits are relative to the highest, of weight 1. Probabilities are divided by a power of
        two, so that the highest weight is at least 1/2.
        """
        if not self.are_scores:
            return exp_of((scores - highest) * self.inverse_temperature)
        exponent = (highest.contiguous().view(torch.int64) & _EXPONENT) + _MANTISSA
        return scores.clamp(min=0) * (1 / exponent.view(torch.float64))


def exp_of(values: Tensor) -> Tensor:
    """Return exp of float64 values of at most 0, within 2^-34 of its value; 0 below -708."""
    inside = values.clamp(min=_DEEPEST)
    shifted = (inside * 1.4426950408889634).add_(_SHIFT)
    whole = shifted - _SHIFT
    rest = inside.sub_(whole * _LN2_HIGH).sub_(whole.mul_(_LN2_LOW))
    result = _polynomial(_EXP, rest)
    result.view(torch.int64).add_(shifted.view(torch.int64) << 52)
    return result.masked_fill_(values < _DEEPEST, 0)


def log_of(values: Tensor) -> Tensor:
    """Return log of float64 values of at least 0, within 2^-51 of its value."""
    is_tiny = values < _NORMAL
    bits = (values * 2.0**54).where(is_tiny, values).contiguous().view(torch.int64)
    exponent = (bits - _ROOT) >> 52
    mantissa = (bits - (exponent << 52)).view(torch.float64)
    power = (exponent - is_tiny.long() * 54).double()
    ratio = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    double = ratio + ratio
    low = power * _LN2_LOW + double * (square * _polynomial(_ATANH, square))
    return (power * _LN2_HIGH + (low + double)).where(values > 0, -torch.inf)


def _polynomial(coefficients: tuple[float, ...], values: Tensor) -> Tensor:
    """Evaluate a polynomial; `mul_` and `add_` are two operations, which nothing fuses."""
    result = torch.full_like(values, coefficients[0])
    for coefficient in coefficients[1:]:
        result.mul_(values).add_(coefficient)
    return result


def units_of(values: Tensor) -> Tensor:
    """Round float64 values from 0 to 2 to units of 2^-51, int64."""
    return ((values + 2) - 2).mul_(2.0**51).long()


def sum_rows(values: Tensor) -> Tensor:
    """Sum each row of float64 values from 0 to 1 `[N, C]`, rounded to 2^-51, in any order."""
    units = units_of(values)
    return _value_of((units >> 20).sum(1), ((units & 0xFFFFF) << 11).sum(1))


def sum_exactly(values: Tensor) -> Tensor:
    """Sum each row of float64 values from 0 to 1 `[N, C]`, without what is below 2^-62."""
    units = (values * 2.0**62).long()
    return _value_of((units >> 31).sum(1), (units & 0x7FFFFFFF).sum(1))


def _value_of(high: Tensor, low: Tensor) -> Tensor:
    """Return the value of a sum, of units of 2^-31 and 2^-62; every split of it gives the same."""
    high, low = high + (low >> 31), low & 0x7FFFFFFF
    return high.double() * 2.0**-31 + low.double() * 2.0**-62
