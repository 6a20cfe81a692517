"""Sign tests of paired differences, in integers: the same p-values in any order of users.

If two models are equal, the sign of the difference of each user's (or query's) sums is random. A
sum over users with random signs is linear in the scores: it is computed once per model, and the
sum of a pair is the difference of two. All are integers, and the signs are bits of a counter.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nextloc_metrics.analysis.significance import mcnemar
from nextloc_metrics.core.queries.hashing import mix

# Up to this many differences all 2^n sign assignments are tried.
MOST_EXACT_SIGNS = 16

# The most steps to find the distribution of a sum over all signs, and the most signs of a family.
_MOST_EXACT_STEPS = 1 << 24
_MOST_DRAWN = 1 << 36

# How many signs are drawn at once, so that a cache holds them.
_DRAWN, _FEWEST_DRAWN = 1 << 16, 256
ENOUGH = 100  #: a test needs no more draws if this many are as far from 0 as its sum

# Sums of float64 integers up to this are exact.
_EXACT = 1 << 53

# The eight signs of each byte, the lowest bit first.
_BYTES = np.arange(256, dtype=np.uint8)[:, None]
_SIGNS_OF_BYTES = 2.0 * np.unpackbits(_BYTES, axis=1, bitorder="little") - 1

# A p-value, and the number of random assignments behind it; 0 if all assignments were counted.
SignTest: TypeAlias = tuple[float, int]


class PairedSums(NamedTuple):
    """What two models score for the same users, or queries."""

    sums: Sequence[Any]  #: the scores of each user by the second model and the first, int64 `[U]`
    slack: int  #: how far the sum of the differences may be off because of rounding
    rows: int = 0  #: a number; tests with the same one have the same users and metric


def sign_tests(
    tests: Sequence[PairedSums], least: int, most: int, seed: int
) -> list[SignTest | None]:
    """Test a family of differences; None for a test that would need too many draws.

    A p-value by drawn signs depends on the order of users, who are sorted by their scores of all
    models. So it differs with other models, within the error of random draws.

    Args:
        tests: the sums of each user for two models.
        least: the number of random sign assignments of each test that is not exact.
        most: their number if fewer than 100 of the `least` are as far from 0 as the sum.
        seed: the seed of the signs.
    """
    differences = [test.sums[0] - test.sums[1] for test in tests]
    results = [_exact(x, test.slack) for x, test in zip(differences, tests, strict=True)]
    left = [i for i, result in enumerate(results) if result is None]
    width = max((np.count_nonzero(differences[i]) for i in left), default=0)
    if left and width * most * len(left) <= _MOST_DRAWN:
        observed = np.array([abs(int(differences[i].sum())) - tests[i].slack for i in left])
        drawn = _draw(*_arrange([tests[i] for i in left]), observed, least, most, seed)
        for i, result in zip(left, drawn, strict=True):
            results[i] = result
    return results


def _exact(sums: Any, slack: int) -> SignTest | None:
    """Return the share of all sign assignments as far from 0; None if it takes too long."""
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
    chances = np.zeros(total + 1)  # chances[s]: the sizes with a plus add up to s
    chances[0] = 1.0
    for size in sizes.tolist():  # small sizes first, so that most steps have few sums
        end += size
        chances[size:end] = (chances[size:end] + chances[: end - size]) / 2
        chances[:size] /= 2
    as_far = np.abs(2 * np.arange(total + 1) - total) * step >= observed
    return min(1.0, float(chances[as_far].sum())), 0


def _draw(
    units: Any, ends: Any, observed: Any, least: int, most: int, seed: int
) -> list[SignTest]:  # fmt: skip
    """Draw up to `most` signs; a test stops at `least` if enough draws are as far from 0."""
    width, results = units.shape[1], [(math.nan, 0)] * len(observed)
    at_once = max(_FEWEST_DRAWN, _DRAWN // width // 64 * 64)
    as_far, drawn = np.zeros(len(observed), dtype=np.int64), 0
    active = np.arange(len(observed))
    for end in (least, most):
        used, places = np.unique(ends[:, active], return_inverse=True)
        parts, (second, first) = _divide(units[used]), places.reshape(2, -1)
        while drawn < end:
            number = min(at_once, end - drawn)
            bits = random_bits(seed, drawn, number, width)
            totals = np.zeros((len(used), number), dtype=np.int64)
            for start in range(0, width, _DRAWN // at_once):
                rows = slice(start, start + _DRAWN // at_once)
                signs = signs_of(bits[rows])[:, drawn % 64 :][:, :number]
                for part, shift in parts:
                    totals += (part[:, rows] @ signs).astype(np.int64) << shift
            totals = np.abs(totals[second] - totals[first])
            as_far[active] += (totals >= observed[active, None]).sum(1)
            drawn += number
        for i in active.tolist():  # the observed signs are one assignment
            results[i] = (1 + int(as_far[i])) / (1 + drawn), drawn
        active = active[as_far[active] < ENOUGH]
        if not len(active):
            break
    return results


def _arrange(tests: Sequence[PairedSums]) -> tuple[Any, Any]:
    """Return the sums of each model once, `[M, U]`, and the two models of each test, `[2, T]`."""
    blocks: dict[int, dict[bytes, Any]] = {}
    for test in tests:
        blocks.setdefault(test.rows, {}).update({x.tobytes(): x for x in test.sums})
    columns, numbers = list[Any](), dict[tuple[int, bytes], int]()
    for rows, models in blocks.items():
        names = sorted(models, key=lambda x: np.sort(models[x]).astype("<i8").tobytes())
        numbers |= {(rows, name): i for i, name in enumerate(names, len(numbers))}
        columns += [*_in_order(np.stack([models[name] for name in names]))]
    units = np.zeros((len(columns), max(map(len, columns))), dtype=np.int64)
    for row, column in zip(units, columns, strict=True):
        row[: len(column)] = column
    ends = [[numbers[test.rows, x.tobytes()] for x in test.sums] for test in tests]
    return units, np.array(ends).T


def _in_order(sums: Any) -> Any:
    """Return sums of models minus the first model's, int64 `[M, U]`, with users sorted by them.

    A user whose sums are equal for all models is left out. The sign of a user is random anyway, so
    it is turned if that makes the user's first sum that is not 0 positive.
    """
    sums = sums - sums[0]
    sums = sums[:, sums.any(0)]
    leading = (sums != 0).argmax(0)
    sums *= np.sign(sums[leading, np.arange(sums.shape[1])])
    return sums[:, np.lexsort(-sums[::-1])]


def _divide(units: Any) -> list[tuple[Any, int]]:
    """Return parts of integers whose float64 sums are exact, each with its shift in bits."""
    if np.abs(units).sum(1).max() < _EXACT:
        return [(units.astype(np.float64), 0)]
    return [((units >> 26).astype(np.float64), 26), ((units % 2**26).astype(np.float64), 0)]


def random_bits(seed: int, start: int, number: int, width: int) -> Any:
    """Return the random bits of `width` rows, in words that hold the draws from `start` on.

    The sign of row j in draw d is a bit of SplitMix64 at the counter of d // 64 and j (Steele,
    Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    """
    blocks = np.arange(start // 64, (start + number - 1) // 64 + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        key = mix(np.array([seed], dtype=np.uint64)) + (blocks << np.uint64(32))
        return mix(mix(key) + np.arange(width, dtype=np.uint64)[:, None])


def signs_of(bits: Any) -> Any:
    """Return the signs that words of bits stand for, float64 `[J, D]`."""
    octets = bits.astype("<u8").view(np.uint8)
    return _SIGNS_OF_BYTES.take(octets, axis=0, mode="clip").reshape(len(bits), -1)
