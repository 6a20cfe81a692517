"""The entropy rate and its limit, against loops written from the papers and from other code."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import analysis
from nextloc_metrics.analysis import Predictability
from strategies import examples

SEQUENCES = st.integers(1, 5).flatmap(
    lambda size: st.lists(st.integers(0, size - 1), min_size=1, max_size=40)
)


def entropy_by_loops(visits: list[int]) -> float:
    """Divide n log2(n) by the lengths of the shortest strings that are new at their start."""
    n, total = len(visits), 0
    for i in range(n):
        k = 0  # the longest string from i that occurs before
        while i + k < n and any(
            visits[j : j + k + 1] == visits[i : i + k + 1] for j in range(max(0, i - k))
        ):
            k += 1
        total += k + 1
    return n * math.log2(n) / total


def fano(p: float, size: int) -> float:
    """The entropy of a location of probability p and size - 1 equally likely others."""
    own = -sum(q * math.log2(q) for q in (p, 1 - p) if q > 0)
    return own + ((1 - p) * math.log2(size - 1) if p < 1 else 0)


# Entropy rate ------------------------------------------------------------------------------------


@examples(60)
@given(SEQUENCES)
def test_entropy_rate_is_that_of_the_paper(visits: list[int]) -> None:
    """Kontoyiannis et al. 1998, in quadratic loops."""
    assert analysis.entropy_rate(visits) == pytest.approx(entropy_by_loops(visits), rel=1e-12)


# Limit -------------------------------------------------------------------------------------------


@examples(60)
@given(st.floats(0.001, 0.999), st.integers(2, 5000))
def test_limit_solves_the_equation_of_fano(share: float, size: int) -> None:
    """The root by another method, to 1e-12."""
    bits = share * math.log2(size)
    root = scipy.optimize.brentq(lambda p: fano(p, size) - bits, 1 / size, 1, xtol=1e-14)
    found = float(analysis.fano_limit(bits, size))
    # the equation is flat at 1 / N, where a change of S below its rounding moves the root
    assert found == pytest.approx(root, abs=1e-12) or abs(fano(found, size) - bits) < 1e-14


def test_bounds_of_the_limit() -> None:
    """1/N for at least log2(N) bits, 1 for none or for one location, NaN for NaN."""
    assert analysis.fano_limit([math.log2(50), 9.0], 50).tolist() == [1 / 50, 1 / 50]
    assert analysis.fano_limit([0.0, -1.0, 3.0], [7, 7, 1]).tolist() == [1, 1, 1]
    assert analysis.fano_limit([math.nan, 0.0], 7).isnan().tolist() == [True, False]


# Users -------------------------------------------------------------------------------------------

ANN = [int(one) for one in np.random.default_rng(1).integers(0, 9, 150) ** 2 // 9]
BOB = [5, 5, 6, 5, 5, 5, 7]


def interleaved() -> Predictability:
    """Ann's visits with Bob's among them."""
    visits, users = list(ANN), ["ann"] * len(ANN)
    for number, visit in enumerate(BOB):
        visits.insert(20 * number, visit)
        users.insert(20 * number, "bob")
    return analysis.predictability(visits, users)


def test_values_of_a_user_are_those_of_the_parts() -> None:
    """Each column by the functions of one sequence, and Shannon's entropy by hand."""
    found = interleaved()
    for number, own in enumerate([ANN, BOB]):
        bits, size = analysis.entropy_rate(own), len(set(own))
        shares = [own.count(one) / len(own) for one in set(own)]
        by_share = -sum(share * math.log2(share) for share in shares)
        assert float(found.entropy[number]) == bits
        assert found.limit[number] == analysis.fano_limit(bits, size)
        assert float(found.random[number]) == pytest.approx(1 / size)
        assert float(found.uncorrelated[number]) == pytest.approx(
            float(analysis.fano_limit(by_share, size)), abs=1e-12
        )
        assert (int(found.num_visits[number]), int(found.num_locations[number])) == (len(own), size)
    assert found.few_visits.tolist() == [False, True]


def test_shuffled_limit_is_that_of_random_orders() -> None:
    """Near the mean over many orders drawn otherwise, and not that of the order of the visits."""
    visits = [0, 1, 2, 3] * 50
    found = analysis.predictability(visits, [0] * 200, num_shuffles=50)
    draw = random.Random(0)
    limits = []
    for _ in range(60):
        draw.shuffle(visits)
        limits.append(float(analysis.fano_limit(analysis.entropy_rate(visits), 4)))
    spread = np.std(limits)
    assert float(found.shuffled) == pytest.approx(np.mean(limits), abs=4 * spread / 50**0.5)
    assert float(found.limit) > float(found.shuffled) + 10 * spread


def test_the_seed_decides_the_random_orders() -> None:
    """The same seed has the same limit of shuffled visits."""
    again = [analysis.predictability(ANN, [0] * len(ANN), seed=x).shuffled for x in (0, 0, 1)]
    assert again[0] == again[1] != again[2]


def test_stays_are_counted_once_on_request() -> None:
    """The values are those of the visits without repeats, before they are shuffled."""
    once = [one for i, one in enumerate(ANN) if i == 0 or one != ANN[i - 1]]
    users = [0] * len(ANN)
    found = analysis.predictability(ANN, users, stays=False)
    expected = analysis.predictability(once, users[: len(once)])
    assert repr(found) == repr(expected)
    assert int(found.num_visits) == len(once) < len(ANN)
    flagged = analysis.predictability(ANN, users, stays=False, min_visits=len(once) + 1)
    assert flagged.few_visits.tolist() == [True]


def test_means_leave_out_flagged_users() -> None:
    """The mean over the others, with an interval by users; NaN without any."""
    draw = np.random.default_rng(2)
    visits, users = draw.integers(0, 6, 900), np.repeat(np.arange(5), [250, 200, 200, 150, 100])
    found = analysis.predictability(visits, users, min_visits=150)
    mean = found.means()["limit"]
    assert found.few_visits.tolist() == [False] * 4 + [True]
    assert mean.value == pytest.approx(float(found.limit[:4].mean()), abs=1e-9)
    error = float(found.limit[:4].std()) / 2
    t = scipy.stats.t.ppf(0.975, 3)
    assert mean.high - mean.low == pytest.approx(2 * t * error, rel=0.01)
    assert "4 users, 1 left out" in repr(found)
    empty = analysis.predictability(visits, users, min_visits=1000).means(0.9)
    assert all(math.isnan(value) for mean in empty.values() for value in mean)


def test_one_visit_and_one_location() -> None:
    """They have no entropy, and the limit 1."""
    found = analysis.predictability([4, 5, 5, 5], [0, 1, 1, 1])
    assert found.limit.tolist() == found.shuffled.tolist() == [1, 1]
    assert float(found.entropy[0]) == 0
