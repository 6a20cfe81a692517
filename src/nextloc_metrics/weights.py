"""What ranks are worth: sums of weights over ranks, from tables and, far beyond, from expansions.

H(x) = 1 + 1/2 + ... + 1/x, and L(x) = the sum over p = 1..x of 1/log2(p + 1).
"""

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from nextloc_metrics.exact import row_sum

Weight = Literal["count", "harmonic", "discount"]

_WEIGHTS = get_args(Weight)

#: up to here sums over ranks come from tables; beyond, from expansions.
TABLE_LENGTH = 1 << 17

#: ranks of a tied block that are weighted one by one when several of its locations are relevant.
SUMMED_RANKS = 1 << 8

# From here on Stirling's expansion has all digits.
_SMALLEST_IN_SERIES = 16


def between(weight: Weight, start: Tensor, end: Tensor, last: int) -> Tensor:
    """Sum up the weights of ranks from `start` + 1 to `end`, none of them beyond `last`."""
    if weight == "count":
        return end - start
    return (_harmonic_between if weight == "harmonic" else _discount_between)(start, end, last)


def _harmonic_between(start: Tensor, end: Tensor, last: int) -> Tensor:
    """H(end) - H(start), where no end is beyond `last`."""
    if last <= TABLE_LENGTH:
        return _tabled_between("harmonic", start, end)
    tabled, x, y = _split_at_table("harmonic", start, end)
    # by Euler and Maclaurin; the logarithm of a quotient keeps its digits however far x is
    return tabled + torch.log1p((y - x) / x) + (1 / y - 1 / x) / 2 - (1 / y**2 - 1 / x**2) / 12


def _discount_between(start: Tensor, end: Tensor, last: int) -> Tensor:
    """L(end) - L(start), where no end is beyond `last`."""
    if last <= TABLE_LENGTH:
        return _tabled_between("discount", start, end)
    tabled, x, y = _split_at_table("discount", start, end)
    return tabled + _discount_beyond_table(x, y)


def discounts(ranks: int, device: torch.device) -> Tensor:
    """1 / log2(rank + 1) of the first ranks."""
    if ranks <= TABLE_LENGTH:
        table = _row("discount", device)
        return table[1 : ranks + 1] - table[:ranks]
    rank = torch.arange(ranks + 1, device=device)
    return _discount_between(rank[:-1], rank[1:], ranks)


def _tabled_between(weight: Weight, start: Tensor, end: Tensor) -> Tensor:
    table = _row(weight, start.device)
    return table.take(end) - table.take(start)


def _split_at_table(weight: Weight, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Look the part within the table up, and return the ends of the part beyond it."""
    tabled = _tabled_between(weight, start.clamp(max=TABLE_LENGTH), end.clamp(max=TABLE_LENGTH))
    return tabled, start.clamp(min=TABLE_LENGTH).double(), end.clamp(min=TABLE_LENGTH).double()


def _discount_beyond_table(x: Tensor, y: Tensor) -> Tensor:
    """L(y) - L(x) by Euler and Maclaurin; the integral by Gauss and Legendre over log(t + 1)."""
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
    """Expect the weight of rank above + q, q the first of `relevant` random ones of `tied`.

    The sum over q <= `within` of f(q) = C(tied - q, relevant - 1) / C(tied, relevant) w(above + q)
    is taken rank by rank up to 256. Beyond, f is smooth, and its sum the integral by Gauss and
    Legendre over lengths that double, corrected by f' at both ends (Euler and Maclaurin); the error
    is below 10^-13. The memory needed for a row does not depend on the number of ranks.

    Args:
        above: float64 `[N]`.
        tied: float64 `[N]`.
        relevant: float64 `[N]`, of the tied ones.
        within: float64 `[N]`, how many ranks of the block count.
        longest: a bound on the ranks at which the first relevant one can be.
        weight: w, `"harmonic"` or `"discount"`.
    """

    def inverse(rank: Tensor) -> Tensor:
        return rank if weight == "harmonic" else torch.log2(rank + 1)

    chance = relevant / tied  # that q = 1
    summed = min(SUMMED_RANKS, 1 << (longest - 1).bit_length())
    rank = torch.arange(1, summed + 1, device=above.device).double()
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
    nodes, weights = _quadrature(above.device).T
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


def _chance_of_none(size: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """The chance that of `size` - 1 things none of `one` random ones is among `other` of them.

    C(x - 1 - t, s) / C(x - 1, s) for whole numbers; for others its gamma functions,
    G(x - s) G(x - t) / (G(x) G(x - s - t)), by Stirling's expansion in an order in which nothing
    large cancels; 0 where x - s - t is not positive.
    """
    few, many = torch.minimum(one, other), torch.maximum(one, other)
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
    """The logarithm of the gamma function less (x - 1/2) log(x) - x + log(2 pi) / 2."""
    inverse = 1 / (x * x)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / x
    main = (x - 0.5) * torch.log(x) - x + math.log(2 * math.pi) / 2
    return torch.where(x < _SMALLEST_IN_SERIES, torch.lgamma(x) - main, series)


def _gauss_legendre() -> Tensor:
    """Nodes and weights of the rule of 16 points on [0, 1], from the roots of the polynomial."""
    points = 16
    rule = []
    for i in range(points):
        x = math.cos(math.pi * (i + 0.75) / (points + 0.5))
        for _ in range(50):
            previous, current = 1.0, x
            for degree in range(2, points + 1):
                previous, current = (
                    current,
                    ((2 * degree - 1) * x * current - (degree - 1) * previous) / degree,
                )
            slope = points * (x * current - previous) / (x * x - 1)
            x -= current / slope
        rule.append(((1 - x) / 2, 1 / ((1 - x * x) * slope * slope)))
    return torch.tensor(rule, dtype=torch.float64, device="cpu")


_tables: dict[tuple[str, torch.device], Tensor] = {}  # and no `cache`, which does not compile


def _quadrature(device: torch.device) -> Tensor:
    """Nodes and weights on [0, 1], float64 `[16, 2]`."""
    return _made_once("quadrature", device, _gauss_legendre)


def table_of_sums(device: torch.device) -> Tensor:
    """The sums of weights over the first 0..131,072 ranks, float64 and flat.

    x, H(x) and L(x) follow one another, in the order of `Weight`.
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
    # rows first: adding small terms to a large sum one by one would lose their digits
    rows = terms.cumsum(2)
    before = torch.nn.functional.pad(rows[:, :-1, -1].cumsum(1), (1, 0))
    sums = torch.nn.functional.pad((rows + before[..., None]).flatten(1), (1, 0))
    return torch.cat([rank, *sums])


def _row(weight: Weight, device: torch.device) -> Tensor:
    start = row_start(weight)
    return table_of_sums(device)[start : start + TABLE_LENGTH + 1]


def row_start(weight: Weight) -> int:
    """Return where the sums of a weight begin in the table."""
    return _WEIGHTS.index(weight) * (TABLE_LENGTH + 1)
