"""Sums of weights over ranks: from tables up to rank 131,072, and by expansions beyond.

H(x) = 1 + 1/2 + ... + 1/x, and L(x) = the sum over p = 1..x of 1/log2(p + 1).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import row_sum

Weight = Literal["count", "harmonic", "discount"]

_WEIGHTS = get_args(Weight)

#: the largest rank in the tables
TABLE_LENGTH = 1 << 17

#: so many first ranks of a tied block are summed one by one if several locations are relevant
SUMMED_RANKS = 1 << 8

# Nodes and weights of Gauss-Legendre on [0, 1]; `torch.compile` does not trace `leggauss`.
_NODES, _WEIGHTS_OF_NODES = np.polynomial.legendre.leggauss(16)
_RULE = np.stack([(1 + _NODES) / 2, _WEIGHTS_OF_NODES / 2], 1).tolist()

# From this value on, Stirling's expansion is exact to float64.
_SMALLEST_IN_SERIES = 16


def between(weight: Weight, start: Tensor, end: Tensor, last: int) -> Tensor:
    """Sum the weights of the ranks `start` + 1 to `end`, which is at most `last`; not `"count"`."""
    if last <= TABLE_LENGTH:
        return _tabled_between(weight, start, end)
    tabled = _tabled_between(weight, start.clamp(max=TABLE_LENGTH), end.clamp(max=TABLE_LENGTH))
    low, high = start.clamp(min=TABLE_LENGTH).double(), end.clamp(min=TABLE_LENGTH).double()
    beyond = _harmonic_beyond_table if weight == "harmonic" else _discount_beyond_table
    return tabled + beyond(low, high)


def discounts(ranks: int, device: torch.device) -> Tensor:
    """Return 1 / log2(rank + 1) of the first ranks."""
    rank = torch.arange(ranks + 1, device=device)
    return between("discount", rank[:-1], rank[1:], ranks)


def _tabled_between(weight: Weight, start: Tensor, end: Tensor) -> Tensor:
    table = table_of_sums(start.device)[row_start(weight) :]
    return table.take(end) - table.take(start)


def _harmonic_beyond_table(x: Tensor, y: Tensor) -> Tensor:
    """Return H(y) - H(x), with an error of at most 2^-48; states round to 2^-32."""
    return torch.where(y - x == 1, 1 / y, torch.digamma(y + 1) - torch.digamma(x + 1))


def _discount_beyond_table(x: Tensor, y: Tensor) -> Tensor:
    """Return L(y) - L(x) by Euler-Maclaurin, its integral by Gauss-Legendre over log(t + 1)."""
    low, width = torch.log(x + 1), torch.log1p((y - x) / (x + 1))
    high = low + width
    integral = torch.zeros_like(x)
    for node, weight in _quadrature(x.device):
        exponent = low + width * node
        integral = integral + weight * width * torch.exp(exponent) / exponent
    ends = 1 / high - 1 / low
    slopes = 1 / ((x + 1) * low**2) - 1 / ((y + 1) * high**2)
    return math.log(2) * (integral + ends / 2 + slopes / 12)


def first_of_several(
    above: Tensor, tied: Tensor, relevant: Tensor, within: Tensor, longest: int, weight: Weight
) -> Tensor:
    """Return the expected weight of the first relevant rank in a block of `tied` candidates.

    The block begins after rank `above`, and `relevant` of its candidates are relevant, in random
    order. The first of them is at rank above + q with the probability
    C(tied - q, relevant - 1) / C(tied, relevant). The value is the sum over q <= `within` of this
    probability times the weight of the rank: rank by rank up to 256, and then by Euler-Maclaurin
    and Gauss-Legendre over intervals of doubling length, with an error below 10^-13.

    The tensors are float64 `[N]`; `longest` is a bound on q, and `weight` is not `"count"`.
    """

    def inverse(rank: Tensor) -> Tensor:
        return rank if weight == "harmonic" else torch.log2(rank + 1)

    chance = relevant / tied  # the probability of q = 1
    summed = min(SUMMED_RANKS, 1 << (longest - 1).bit_length())
    rank = torch.arange(1, summed + 1, device=above.device).double()
    # factors from the probability of a q to the probability of the next q
    missed = (tied - relevant + 1)[:, None] - rank
    missed = missed.clamp_(min=0) / (tied[:, None] - rank).clamp_(min=1)
    chances = torch.cat([torch.ones_like(chance)[:, None], missed[:, :-1]], 1).cumprod(1)
    chances = chances.mul_(chance[:, None]).masked_fill_(rank > within[:, None], 0)
    total = row_sum(chances / inverse(above[:, None] + rank))
    if longest <= SUMMED_RANKS:
        return total

    def summand(rank: Tensor) -> Tensor:
        missed = _chance_of_none(tied[:, None], relevant[:, None] - 1, rank - 1)
        return chance[:, None] * missed / inverse(above[:, None] + rank)

    last = torch.minimum(within, tied - relevant + 1).clamp(min=SUMMED_RANKS)
    return _add_beyond(total, summand, last, longest)


def _add_beyond(
    total: Tensor, summand: Callable[[Tensor], Tensor], last: Tensor, longest: int
) -> Tensor:
    """Add the sum of a smooth function over 257 to `last`: its integral, corrected at the ends."""
    nodes, weights = _quadrature(total.device).T
    end = last[:, None] + 0.5
    start = SUMMED_RANKS + 0.5
    while start < longest + 0.5:
        width = (end.clamp(max=2 * start) - start).clamp(min=0)
        total = total + row_sum(summand(start + width * nodes) * width * weights)
        start = 2 * start
    first = torch.full_like(last, SUMMED_RANKS)
    edges = summand(torch.stack([first, first + 1, last, last + 1], 1))
    slopes = (edges[:, 3] - edges[:, 2]) - (edges[:, 1] - edges[:, 0])
    return total - slopes / 24


def _chance_of_none(size: Tensor, drawn: Tensor, avoided: Tensor) -> Tensor:
    """Return C(x - 1 - t, s) / C(x - 1, s), with x, s, t = `size`, `drawn`, `avoided`.

    It is the probability that `drawn` random elements of `size` - 1 have none of `avoided` ones. It
    is defined for fractions, too, as G(x - s) G(x - t) / (G(x) G(x - s - t)) with the gamma
    function G, by Stirling's expansion in an order without cancellation; it is 0 where x - s - t is
    not positive.
    """
    few, many = torch.minimum(drawn, avoided), torch.maximum(drawn, avoided)
    left = size - few - many
    logarithm = (
        few * torch.log1p(-many / size)
        + (size - few - 0.5) * torch.log1p(-few / size)
        - (left - 0.5) * torch.log1p(-few / (size - many))
        + (_beyond_stirling(size - many) - _beyond_stirling(size))
        - (_beyond_stirling(left) - _beyond_stirling(size - few))
    )
    return torch.where(left > 0, logarithm.exp(), 0.0)


def _beyond_stirling(x: Tensor) -> Tensor:
    """Return log(G(x)) minus Stirling's formula (x - 1/2) log(x) - x + log(2 pi) / 2."""
    inverse = 1 / (x * x)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / x
    main = (x - 0.5) * torch.log(x) - x + math.log(2 * math.pi) / 2
    return torch.where(x < _SMALLEST_IN_SERIES, torch.lgamma(x) - main, series)


_tables: dict[tuple[str, torch.device], Tensor] = {}  # `functools.cache` does not compile


def _quadrature(device: torch.device) -> Tensor:
    """Return the nodes and weights of Gauss-Legendre on [0, 1], float64 `[16, 2]`."""
    make = partial(torch.tensor, _RULE, dtype=torch.float64, device="cpu")
    return _made_once("quadrature", device, make)


def table_of_sums(device: torch.device) -> Tensor:
    """Return the sums of weights over the first 0..131,072 ranks, a flat float64 tensor.

    It is the concatenation of x, H(x) and L(x), in the order of `Weight`.
    """
    return _made_once("weights", device, _sum_up_weights)


def _made_once(name: str, device: torch.device, make: Callable[[], Tensor]) -> Tensor:
    if (name, device) not in _tables:
        with torch.inference_mode(False):
            _tables[name, device] = make().to(device)
    return _tables[name, device]


def _sum_up_weights() -> Tensor:
    rank = torch.arange(TABLE_LENGTH + 1, dtype=torch.float64, device="cpu")
    terms = torch.stack([1 / rank, 1 / torch.log2(rank + 1)])[:, 1:].reshape(2, 512, -1)
    # sums of rows first: adding small terms one by one to a large sum loses digits
    rows = terms.cumsum(2)
    before = torch.nn.functional.pad(rows[:, :-1, -1].cumsum(1), (1, 0))
    sums = torch.nn.functional.pad((rows + before[..., None]).flatten(1), (1, 0))
    return torch.cat([rank, *sums])


def row_start(weight: Weight) -> int:
    """Return the index in the table where the sums of a weight start."""
    return _WEIGHTS.index(weight) * (TABLE_LENGTH + 1)
