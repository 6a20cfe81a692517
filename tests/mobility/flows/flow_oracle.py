"""The metrics of flows in plain Python: dictionaries, loops, fractions and decimals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, TypeAlias

#: counts of one day by (origin, destination)
Counts: TypeAlias = Mapping[tuple[int, int], float]
#: the predicted and the true counts of one day, and its number of cells
Day: TypeAlias = tuple[Counts, Counts, int]


def step(count: float) -> Fraction:
    """A count to the nearest multiple of 2^-16; `round` takes half to even."""
    return Fraction(round(Fraction(count) * 2**16), 2**16)


def pairs(day: Day, of: str = "all") -> list[tuple[Fraction, Fraction]]:
    """Both counts of every pair of cells."""
    predicted, true, cells = day
    return [
        (step(predicted.get((o, d), 0)), step(true.get((o, d), 0)))
        for o in range(cells)
        for d in range(cells)
        if of == "all" or (o == d) == (of == "diagonal")
    ]


def decimal(value: Fraction) -> Decimal:
    """A fraction with 80 digits."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def mean(values: Sequence[Any]) -> Any:
    """The mean; NaN without values."""
    return sum(values) / len(values) if values else math.nan


def rmse(days: Sequence[Day], of: str, per: str) -> Any:
    """The mean of daily roots, which are rounded to 2^-32, or the root over all days."""
    squares = [[(p - t) ** 2 for p, t in pairs(day, of)] for day in days]
    if per == "all":
        squares = [[x for of_day in squares for x in of_day]]
        return decimal(mean(squares[0])).sqrt() if squares[0] else math.nan
    roots = [decimal(mean(x)).sqrt() for x in squares if x]
    return mean([(x * 2**32).to_integral_value() / 2**32 for x in roots])


def divisor(days: Sequence[Day], by: Any, of: str) -> Decimal:
    """The population standard deviation or the mean of all true counts, or a number."""
    if not isinstance(by, str):
        return Decimal(str(by))
    true = [t for day in days for _, t in pairs(day, of)]
    if not true:
        return Decimal("NaN")
    middle = mean(true)
    if by == "mean":
        return decimal(middle)
    return decimal(mean([(t - middle) ** 2 for t in true])).sqrt()


def ratio(up: Any, down: Any) -> float:
    """A quotient; NaN without a divisor."""
    return float(up / down) if down == down and down and up == up else math.nan


def combined(days: Sequence[Day]) -> float:
    """The score of 2026; a day of one cell has none."""
    days = [day for day in days if day[2] > 1]
    parts = [rmse(days, of, "day") for of in ("diagonal", "others")]
    if any(part != part for part in parts):
        return math.nan
    return float((parts[0] / Decimal("26.57") + parts[1] / Decimal("0.0176")) / 2)


def mae(days: Sequence[Day], of: str, per: str) -> float:
    """The mean absolute error; each day's is rounded to 2^-32 for the mean over days."""
    off = [[abs(p - t) for p, t in pairs(day, of)] for day in days]
    if per == "all":
        return float(mean([x for of_day in off for x in of_day]))
    found = [math.floor(mean(x) * 2**32 + Fraction(1, 2)) for x in off if x]
    return float(mean([Fraction(x, 2**32) for x in found]))


def cpc(days: Sequence[Day], per: str) -> float:
    """Twice the common trips over the trips of both sides."""
    of_days = [pairs(day) for day in days]
    if per == "all":
        of_days = [[x for one in of_days for x in one]]
    found = [
        2 * sum((min(x) for x in one), Fraction(0)) / trips
        for one in of_days
        if (trips := sum(p + t for p, t in one))
    ]
    if per == "day":
        found = [Fraction(math.floor(x * 2**32 + Fraction(1, 2)), 2**32) for x in found]
    return float(mean(found))


def correlation(days: Sequence[Day], of: str) -> float:
    """Pearson's correlation over the pairs of all days."""
    both = [x for day in days for x in pairs(day, of)]
    if not both:
        return math.nan
    middle = [mean([x[side] for x in both]) for side in (0, 1)]
    off = [(p - middle[0], t - middle[1]) for p, t in both]
    spread = sum(p * p for p, _ in off) * sum(t * t for _, t in off)
    if not spread:
        return math.nan
    return float(decimal(sum((p * t for p, t in off), Fraction(0))) / decimal(spread).sqrt())


def jsd(days: Sequence[Day], of: str, root: bool) -> float:
    """The divergence of the shares of pairs, origins or destinations, in bits."""
    sums: list[dict[Any, Fraction]] = [{}, {}]
    for predicted, true, _ in days:
        for side, counts in enumerate((predicted, true)):
            for (origin, destination), count in counts.items():
                ends = {"origins": origin, "destinations": destination}
                key = ends.get(of, (origin, destination))
                sums[side][key] = sums[side].get(key, Fraction(0)) + step(count)
    totals = [sum(x.values()) for x in sums]
    if not all(totals):
        return math.nan
    value = 0.0
    for key in {*sums[0], *sums[1]}:
        p, t = (x.get(key, Fraction(0)) / y for x, y in zip(sums, totals, strict=True))
        value += sum(float(x) * math.log2(x * 2 / (p + t)) for x in (p, t) if x) / 2
    return math.sqrt(max(0.0, value)) if root else value


def all_values(days: Sequence[Day]) -> dict[str, float]:
    """The values of `flow_workers.members`, by its names."""
    found: dict[str, float] = {}
    with localcontext() as context:
        context.prec = 120
        for of in ("all", "diagonal", "others"):
            for per in ("day", "all"):
                found[f"rmse {of} {per}"] = float(rmse(days, of, per))
                found[f"mae {of} {per}"] = mae(days, of, per)
                for by in ("std", "mean", 176):
                    error = rmse(days, of, per)
                    found[f"nrmse {by} {of} {per}"] = ratio(error, divisor(days, by, of))
            found[f"correlation {of}"] = correlation(days, of)
        found["combined"] = combined(days)
        for per in ("day", "all"):
            found[f"cpc {per}"] = cpc(days, per)
        for of in ("pairs", "origins", "destinations"):
            for root in (False, True):
                found[f"jsd {of} {root}"] = jsd(days, of, root)
    return found
