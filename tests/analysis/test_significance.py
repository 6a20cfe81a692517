"""Letters, corrected p-values and the tails of tests, against brute force and SciPy."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from inner import (
    holm,
    letters,
    mcnemar,
    t_test,
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, set[tuple[int, int]]]:
    """A number of nodes and the pairs that are separated."""
    size = draw(st.integers(0, 9))
    pairs = list(combinations(range(size), 2))
    return size, {pair for pair in pairs if draw(st.booleans())}


@given(graphs())
def test_two_models_share_a_letter_exactly_where_no_test_separates_them(
    graph: tuple[int, set[tuple[int, int]]],
) -> None:
    """And the first letter of all is the best model's."""
    size, separated = graph
    names = [f"m{i}" for i in range(size)]
    found = letters(names, [(names[b], names[a]) for a, b in separated])
    assert list(found) == names
    for a, b in combinations(range(size), 2):
        shared = set(found[names[a]]) & set(found[names[b]])
        assert bool(shared) == ((a, b) not in separated)
    assert size == 0 or "a" in found["m0"]


def pairs_of(numbers: range) -> list[tuple[str, str]]:
    """All pairs of names."""
    return list(combinations(map(str, numbers), 2))


def test_letters_after_z() -> None:
    """28 models that all differ: a to z, then aa and ab."""
    found = list(letters([str(i) for i in range(28)], pairs_of(range(28))).values())
    assert found[:2] + found[25:] == ["a", "b", "z", "aa", "ab"]
    both = letters([str(i) for i in range(30)], pairs_of(range(1, 29)))
    assert both["29"].split(",") == [*both["0"].split(","), *both["29"].split(",")[28:]]


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (5, 5), (3, 9), (900, 1100), (1001, 1100)])
def test_mcnemar_is_the_binomial_test(wins: int, losses: int) -> None:
    """On both sides of the limit of whole numbers, in either direction."""
    expected = scipy.stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1
    assert mcnemar(wins, losses) == pytest.approx(expected, rel=1e-9)
    assert mcnemar(losses, wins) == mcnemar(wins, losses)
    assert mcnemar(300_000, 302_000) == pytest.approx(
        scipy.stats.binomtest(300_000, 602_000).pvalue, rel=1e-6
    )


def test_tail_of_t_is_that_of_scipy() -> None:
    """Near 0 and far out, for few and many degrees of freedom, whole or not."""
    for freedom in (0.4, 1, 2.5, 7, 30.25, 999, 1e6):
        for t in (0, 1e-9, 0.3, 1.96, -4, 12, 60):
            expected = 2 * scipy.stats.t.sf(abs(t), freedom)
            assert t_test(t, freedom) == pytest.approx(expected, rel=1e-7), (t, freedom)
    assert t_test(1.96, math.inf) == pytest.approx(2 * scipy.stats.norm.sf(1.96))
    assert math.isnan(t_test(1.0, 0))
    assert math.isnan(t_test(math.nan, 3))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holms_correction(p_values: list[float]) -> None:
    """A corrected p-value is the lowest level at which Holm's steps reject the test."""
    corrected = holm(p_values)
    for level in {*p_values, *corrected, 0.01, 0.05}:
        rejected, left = set(), dict(enumerate(p_values))
        while left and level < 1:
            lowest = min(left, key=left.__getitem__)
            if left.pop(lowest) * (len(left) + 1) > level:
                break
            rejected.add(lowest)
        if level < 1:
            assert {i for i, p in enumerate(corrected) if p <= level} == rejected
    assert max(corrected) <= 1
