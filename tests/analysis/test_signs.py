"""Tests by signs: exact ones against all sums, drawn ones against another generator."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from inner import PairedSums, sign_tests


@pytest.mark.parametrize("sizes", [[1], [3], [1, 2], [2, 6]])
def test_exact_signs_are_those_of_all_sums(sizes: list[int]) -> None:
    """By counting sums in a dict; where all have one size it is McNemar's test."""
    units = np.resize(sizes, 30) * np.where(np.arange(30) % 3, 1, -1)
    ways = Counter({0: 1})
    for one in units.tolist():
        plus = Counter({x + one: number for x, number in ways.items()})
        ways = plus + Counter({x - one: number for x, number in ways.items()})
    as_far = sum(number for x, number in ways.items() if abs(x) >= abs(units.sum()))
    tests = [PairedSums([units, 0 * units], 0)]
    assert sign_tests(tests, 1000, 1000, seed=0) == [(pytest.approx(as_far / 2**30), 0)]


@pytest.mark.parametrize("power", [53, 56, 60])
def test_drawn_signs_are_exact_beside_a_sum_beyond_float64(power: int) -> None:
    """The large sum has no part in it: a drawn sum is as far from 0 if the others' is, signed."""
    draw = np.random.default_rng(0)
    others = draw.integers(1, 1000, 300) * draw.choice([-1, 1], 300)
    expected, large = (
        sign_tests(
            [PairedSums([np.append(others, 1 << x), np.zeros(301, np.int64)], 0)],
            1000,
            1000,
            seed=0,
        )
        for x in (40, power)
    )
    assert large == expected
    assert large[0] is not None
    assert 0.01 < large[0][0] < 0.99
    assert large[0][1] == 1000


def models_that_differ(models: int, users: int) -> list[Any]:
    """Sums of models by user that are neither hits nor few: tests of them are drawn."""
    draw = np.random.default_rng(3)
    scores = draw.integers(0, 1 << 30, users) + draw.integers(0, 1 << 29, (models, users))
    return [*scores]


def all_pairs(sums: list[Any], rows: int = 0) -> list[PairedSums]:
    """All pairs of models."""
    return [PairedSums([b, a], 0, rows) for a, b in combinations(sums, 2)]


def test_drawn_signs_agree_with_signs_of_another_generator() -> None:
    """Beside 10 pairs, of 40 users, and of 18 users, of whom all 2^18 signs can be tried."""
    for users, most in ((40, 20_000), (18, 20_000)):
        tests = all_pairs(models_that_differ(5, users))
        if users == 18:
            signs = (np.arange(1 << users) >> np.arange(users)[:, None] & 1) * 2 - 1
        else:
            signs = np.random.default_rng(8).choice([-1, 1], (users, 10**5))
        for test, found in zip(tests, sign_tests(tests, most, most, seed=5), strict=True):
            assert found is not None
            difference = test.sums[0] - test.sums[1]
            p = float((np.abs(difference @ signs) >= abs(difference.sum())).mean())
            error = math.sqrt(p * (1 - p) * (1 / most + 1 / signs.shape[1]))
            assert found == (pytest.approx(p, abs=4 * error + 1 / most), most)


@given(st.permutations(range(40)), st.permutations(range(4)))
def test_the_order_of_users_and_models_leaves_drawn_signs(
    users: list[int], models: list[int]
) -> None:
    """To the bit, also where a model lacks a user and its pairs have others."""
    sums = models_that_differ(4, 40)
    lacks = np.arange(40) != 7
    tests = all_pairs(sums) + [PairedSums([sums[0][lacks], x[lacks]], 0, 1) for x in sums[2:]]
    lacks = lacks[users]
    moved = [x[users] for x in sums]
    order = {pair: i for i, pair in enumerate(combinations(range(4), 2))}
    found = sign_tests(tests, 2000, 2000, seed=1)
    again = sign_tests(
        all_pairs([moved[i] for i in models])
        + [PairedSums([moved[0][lacks], x[lacks]], 0, 1) for x in moved[2:]],
        2000, 2000, seed=1,
    )  # fmt: skip
    expected = [found[order[min(a, b), max(a, b)]] for a, b in combinations(models, 2)]
    assert again == [*expected, *found[6:]]
    assert len({*found}) > 5


def test_a_pair_alone_has_the_p_value_of_its_differences() -> None:
    """Of two models the sums do not matter, nor their order; equal users are left out."""
    second, first = models_that_differ(2, 40)
    alone = sign_tests([PairedSums([second, first], 0)], 2000, 2000, seed=1)
    same = [np.append(0 * first, [5, 5]), np.append(first - second, [5, 5])]
    assert sign_tests([PairedSums(same, 0)], 2000, 2000, seed=1) == alone


@pytest.mark.parametrize("slack", [0, 2])
def test_drawn_sums_as_far_as_the_observed_one_count(slack: int) -> None:
    """Forty equal users and one of a unit, whose sign decides, unless it may be rounding."""
    second = np.append(np.where(np.arange(40) < 24, 1 << 40, -1 << 40), 1)
    (found,) = sign_tests([PairedSums([second, 0 * second], slack)], 50_000, 50_000, seed=3)
    wins = scipy.stats.binom(40, 0.5)
    equal = 2 * wins.pmf(24)
    expected = 2 * wins.sf(24) + (equal if slack else equal / 2)
    assert found == (pytest.approx(expected, abs=0.01), 50_000)
    assert equal > 0.1
