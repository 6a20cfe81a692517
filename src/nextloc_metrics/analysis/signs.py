"""Sign tests of paired differences, in integers: the same p-values in any order of users.

If two models are equal, the sign of each user's (or query's) sum of differences is random. Sums are
integers, sorted by size, and the signs are bits of a counter: neither the order of users nor the
machine matters.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from nextloc_metrics.analysis.significance import mcnemar
from nextloc_metrics.core.queries.hashing import mix

# Up to this many differences all 2^n sign assignments are tried.
MOST_EXACT_SIGNS = 16

# Steps of the distribution of a sum over all signs; and signs drawn for all tests of a family.
_MOST_EXACT_STEPS = 1 << 24
_MOST_DRAWN = 1 << 36

# Signs drawn at once; a test with so many draws as far from 0 needs no more of them.
_DRAWN = 1 << 21
ENOUGH = 100

# Sums of float64 integers up to this are exact.
_EXACT = 1 << 53


# A p-value, and the number of random assignments that it is from, 0 for all of them.
SignTest: TypeAlias = tuple[float, int]


def sign_tests(
    tests: Sequence[tuple[Any, int]], least: int, most: int, seed: int
) -> list[SignTest | None]:
    """Test a family of sums; None for a test that would need too many draws.

    Args:
        tests: for each test the sums of the differences of each user, int64 `[U]`, and how far
            their sum may be off because of rounding.
        least: the number of random sign assignments of each test that is not exact.
        most: the number that is drawn while less than 100 of a test's are as far from 0.
        seed: the seed of the signs.
    """
    found: list[SignTest | None] = [_exact(*test) for test in tests]
    left = [i for i, one in enumerate(found) if one is None]
    columns = [np.sort(np.abs(sums[sums != 0]))[::-1] for sums, _ in (tests[i] for i in left)]
    width = max(map(len, columns), default=0)
    if not left or width * most * len(left) > _MOST_DRAWN:
        return found
    units = np.zeros((width, len(left)), dtype=np.int64)
    for i, column in enumerate(columns):
        units[: len(column), i] = column
    observed = np.array([abs(int(sums.sum())) - slack for sums, slack in (tests[i] for i in left)])
    for i, test in zip(left, _draw(units, observed, least, most, seed), strict=True):
        found[i] = test
    return found


def _exact(sums: Any, slack: int) -> SignTest | None:
    """Return the share of all sign assignments, if it can be counted."""
    if len(sums) < 2:
        return math.nan, 0
    units = sums[sums != 0]
    observed = abs(int(units.sum())) - slack
    if len(units) <= MOST_EXACT_SIGNS:
        totals = np.zeros(1, dtype=np.int64)
        for unit in units:
            totals = np.concatenate([totals + unit, totals - unit])
        return float((np.abs(totals) >= observed).mean()), 0
    step = int(np.gcd.reduce(units))
    sizes = np.sort(np.abs(units) // step)
    if sizes[-1] == 1:
        wins = int((units > 0).sum())
        return mcnemar(wins, len(units) - wins), 0
    if sizes.cumsum().sum(dtype=np.float64) > _MOST_EXACT_STEPS:
        return None
    total, end = int(sizes.sum()), 1
    chances = np.zeros(total + 1)  # of the sum of the sizes with a plus
    chances[0] = 1.0
    for size in sizes.tolist():  # the large ones, of many sums, last
        end += size
        chances[size:end] = (chances[size:end] + chances[: end - size]) / 2
        chances[:size] /= 2
    as_far = np.abs(2 * np.arange(total + 1) - total) * step >= observed
    return min(1.0, float(chances[as_far].sum())), 0


def _draw(units: Any, observed: Any, least: int, most: int, seed: int) -> list[SignTest]:
    """Draw signs until `most`; tests with enough draws as far from 0 stop at `least`."""
    rows = max(64, _DRAWN // len(units) // 64 * 64)
    found = [(math.nan, 0)] * len(observed)
    as_far, drawn = np.zeros(len(observed), dtype=np.int64), 0
    active = np.arange(len(observed))
    for end in (least, most):
        while drawn < end:
            number = min(rows, end - drawn)
            signs = random_signs(seed, drawn, number, len(units))
            totals = _multiply(units[:, active].T, signs)
            as_far[active] += (np.abs(totals) >= observed[active, None]).sum(1)
            drawn += number
        for i in active.tolist():  # the observed signs are one assignment
            found[i] = (1 + int(as_far[i])) / (1 + drawn), drawn
        active = active[as_far[active] < ENOUGH]
        if not len(active):
            break
    return found


def _multiply(units: Any, signs: Any) -> Any:
    """Return the sums of units with signs, exactly, although matrices multiply in float64."""
    if units.sum(1).max() < _EXACT:
        return (units.astype(np.float64) @ signs).astype(np.int64)
    upper = units >> 26
    parts = [(part.astype(np.float64) @ signs).astype(np.int64) for part in (upper, units % 2**26)]
    return (parts[0] << 26) + parts[1]


def random_signs(seed: int, start: int, number: int, width: int) -> Any:
    """Return the signs of draws from `start` on, float64 `[width, number]`.

    The sign of row j in draw d is a bit of SplitMix64 at the counter of d // 64 and j (Steele,
    Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    """
    first = start // 64
    blocks = np.arange(first, (start + number - 1) // 64 + 1, dtype=np.uint64)[:, None]
    with np.errstate(over="ignore"):
        key = mix(np.array([seed], dtype=np.uint64)) + (blocks << np.uint64(32))
        words = mix(mix(key) + np.arange(width, dtype=np.uint64))
    octets = words.astype("<u8").view(np.uint8).reshape(*words.shape, 8)
    bits = np.unpackbits(octets, axis=-1, bitorder="little").view(np.int8) * 2 - 1
    signs = bits.transpose(1, 0, 2).reshape(width, -1)
    return signs[:, start - 64 * first :][:, :number].astype(np.float64)
