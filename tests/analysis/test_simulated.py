"""Type I errors, coverage and power by simulation: two models, users and runs with effects.

`SIMULATED=2000` is the whole simulation, as in `.ci/extra`; the tests take a tenth of it, up to 200
users. Seeds are fixed, and the bounds are those of 2,000 data sets, wider by the error of fewer.
`pytest -rP` prints the figures.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from nextloc_metrics.analysis.comparison import Comparison, Pair, decide
from nextloc_metrics.analysis.contrast import Contrast, UserSums, contrast
from nextloc_metrics.means import exact
from nextloc_metrics.means.intervals import Estimate, cluster_variance

SIMULATED = int(os.environ.get("SIMULATED", "200"))
EFFECT, NOISE, MEAN = 0.05, 0.08, 0.4  # of users, of answers

USERS = [20, 200] if SIMULATED < 2000 else [20, 200, 2000]

pytestmark = pytest.mark.slow


def sizes_of(shape: str, users: int) -> Any:
    """Users with 5 queries each, sizes by Zipf's law from 5 on, or one query each."""
    ranks = np.arange(1, users + 1)
    zipf = np.maximum(5, np.round(5 * users / ranks))
    return {"equal": np.full(users, 5), "zipf": zipf, "one": np.ones(users)}[shape].astype(np.int64)


def check(name: str, share: Any, low: float, high: float) -> None:
    """Print a share of the simulations, which is within bounds, with 2.6 errors of fewer sets."""
    wider = 2.6 * math.sqrt(0.06 / SIMULATED) if SIMULATED < 2000 else 0.0
    print(f"{name}: {100 * float(share):.2f} % ({100 * low:g} to {100 * high:g})")
    assert low - wider <= share <= high + wider


def rng_of(*case: object) -> np.random.Generator:
    """The random numbers of a case."""
    return np.random.default_rng(zlib.crc32(repr(case).encode()))


def hits(rng: Any, sizes: Any, shift: float = 0.0) -> UserSums:
    """One run of 0/1 scores; each user has a probability of its own."""
    chances = MEAN + shift + 0.6 * (rng.random(len(sizes)) - 0.5)
    return UserSums(rng.binomial(sizes, chances)[None].astype(np.int64) << 32)


def runs(rng: Any, sizes: Any, number: int, spread: float) -> UserSums:
    """Several runs of scores, with effects of users and of runs."""
    effects = EFFECT * rng.standard_normal(len(sizes))
    of_run = spread * rng.standard_normal((number, 1))
    noise = NOISE * np.sqrt(sizes) * rng.standard_normal((number, len(sizes)))
    sums = sizes * (MEAN + effects + of_run) + noise
    return UserSums(np.round(sums * exact.ONE).astype(np.int64))


def compared(
    sets: Iterable[list[UserSums]], sizes: Any, level: float = 0.05
) -> tuple[list[Comparison], list[Contrast]]:
    """The comparisons of two models on each data set, and the values of the first models.

    There are as many signs as the level needs.
    """
    pairs, firsts = [], []
    for models in sets:
        found = contrast(models, sizes, 1 / exact.ONE)
        pairs.append(Pair(found, models[0].runs > 1, 0, int(sizes.sum()), 0.0, 0, 0))
        firsts.append(contrast(models[:1], sizes, 1 / exact.ONE))
    most = max(2000, math.ceil(10 / level))
    return decide(pairs, "permutation", 0.95, 2000, most, 0), firsts


def intervals(values: list[Contrast]) -> tuple[Tensor, Tensor]:
    """The intervals of values."""
    found = zip(*(one.estimate()[:-1] for one in values), strict=True)
    return Estimate(*map(torch.stack, found)).interval(0.95)


def share_of_low(found: list[Comparison], level: float = 0.05) -> Any:
    """The share of p-values up to a level."""
    return np.mean([one.p_value <= level for one in found])


def holds(found: list[Comparison]) -> Any:
    """The share of intervals that hold 0."""
    return np.mean([one.low <= 0 <= one.high for one in found])


@pytest.mark.parametrize("users", USERS)
@pytest.mark.parametrize("shape", ["equal", "zipf", "one"])
def test_equal_models_of_one_run(users: int, shape: str) -> None:
    """3 to 7 % at the level 5 %, at most 6.5 % with one query each; intervals hold 0."""
    rng, sizes = rng_of("one", users, shape), sizes_of(shape, users)
    sets = ([hits(rng, sizes), hits(rng, sizes)] for _ in range(SIMULATED))
    found, _ = compared(sets, sizes)
    bounds = (0.0, 0.065) if shape == "one" else (0.03, 0.07)
    check("type I error", share_of_low(found), *bounds)
    check("coverage of the difference", holds(found), 0.915, 0.98)


@pytest.mark.parametrize("users", USERS)
@pytest.mark.parametrize("shape", ["equal", "zipf"])
@pytest.mark.parametrize("number", [2, 3, 5])
@pytest.mark.parametrize("spread", ["none", "equal", "dominant"])
def test_equal_models_of_several_runs(users: int, shape: str, number: int, spread: str) -> None:
    """2 to 8.5 % at the level 5 %, and intervals that hold the true difference and the value."""
    rng, sizes = rng_of("runs", users, shape, number, spread), sizes_of(shape, users)
    shares = sizes / sizes.sum()
    of_users = (EFFECT**2 * shares**2 + NOISE**2 * shares / sizes.sum() / number).sum()
    factor = {"none": 0, "equal": 1, "dominant": 10}[spread]
    between = math.sqrt(factor * number * of_users)
    sets = ([runs(rng, sizes, number, between) for _ in range(2)] for _ in range(SIMULATED))
    found, firsts = compared(sets, sizes)
    check("type I error", share_of_low(found), 0.02, 0.085)
    check("coverage of the difference", holds(found), 0.915, 0.98)
    low, high = intervals(firsts)
    held = ((low <= MEAN) & (high >= MEAN)).double().mean()
    check("coverage of the value", held, {2: 0.87, 3: 0.905, 5: 0.925}[number], 1)


@pytest.mark.parametrize("tests", [1, 78])
@pytest.mark.parametrize("number", [1, 5])
def test_power_at_the_detectable_difference(tests: int, number: int) -> None:
    """75 to 85 % find it, at the level of the first of so many tests by Holm's method."""
    rng, sizes = rng_of("power", tests, number), sizes_of("equal", 200)
    # the true standard error of a difference, and the difference that it finds
    found, _ = compared(([hits(rng, sizes), hits(rng, sizes)] for _ in range(200)), sizes)
    error, freedom, between = float(np.mean([one.standard_error for one in found])), 199.0, 0.0
    if number > 1:
        between = math.sqrt(number * (EFFECT**2 + NOISE**2 / 5 / number) / 200)
        sets = ([runs(rng, sizes, number, between) for _ in range(2)] for _ in range(200))
        found, _ = compared(sets, sizes)
        error = math.sqrt(np.mean([one.standard_error**2 for one in found]))
        freedom = float(np.median([one.degrees_of_freedom for one in found]))
    t = scipy.stats.t(freedom)
    shift = (t.ppf(1 - 0.025 / tests) + t.ppf(0.8)) * error

    def drawn() -> list[UserSums]:
        if number == 1:
            return [hits(rng, sizes, shift), hits(rng, sizes)]
        models = [runs(rng, sizes, number, between) for _ in range(2)]
        models[0].sums += np.round(sizes * shift * exact.ONE).astype(np.int64)
        return models

    found, _ = compared((drawn() for _ in range(SIMULATED)), sizes, 0.05 / tests)
    check("power", share_of_low(found, 0.05 / tests), 0.75, 0.85)


def others_half_widths(off: Any, sizes: Any) -> dict[str, Any]:
    """Half of the widths of intervals by other estimators, of sums of users less their expectation.

    `usual` is what most programs have (CR1, U - 1 degrees of freedom), CR2 has Bell and McCaffrey's
    degrees of freedom, and the jackknife (CR3) those of the effective number of users.
    """
    shares, users = sizes / sizes.sum(), len(sizes)
    off, squares = off / sizes.sum(), shares**2
    ratios = squares / (1 - shares)
    freedom = 1 / (squares.sum() + ratios.sum() ** 2 - (ratios**2).sum())
    parts = {
        "usual": (users / (users - 1) * (off**2).sum(1), users - 1),
        "CR2": ((off**2 / (1 - shares)).sum(1), freedom),
        "jackknife": (
            ((off / (1 - shares)) ** 2).sum(1) * (users - 1) / users, 1 / squares.sum() - 1,
        ),
    }  # fmt: skip
    return {name: scipy.stats.t.ppf(0.975, df) * np.sqrt(x) for name, (x, df) in parts.items()}


@pytest.mark.parametrize("users", [20, 200])
@pytest.mark.parametrize("shape", ["1/rank", "dominant"])
def test_the_jackknife_or_cr2_where_it_is_nearer(users: int, shape: str) -> None:
    """With sizes 1/rank the jackknife is; CR2 is where one user has half of the queries.

    The usual interval holds the value of 20 users with sizes 1/rank in 89 % of the data sets.
    """
    sizes = np.round(1000 / np.arange(1, users + 1))
    if shape == "dominant":
        sizes = np.r_[5.0 * (users - 1), np.full(users - 1, 5.0)]
    rng = rng_of("cr2", users, shape)
    chances = MEAN + 0.1 * rng.standard_normal((10 * SIMULATED, users))
    sums = rng.binomial(sizes.astype(int), chances.clip(0, 1))
    values = sums.sum(1) / sizes.sum()
    off = sums - values[:, None] * sizes
    variance, freedom = cluster_variance(torch.from_numpy(off), torch.from_numpy(sizes))
    half = {"ours": scipy.stats.t.ppf(0.975, float(freedom)) * np.sqrt(variance.numpy())}
    half |= others_half_widths(off, sizes)
    assert half["ours"] == pytest.approx(half["jackknife" if shape == "1/rank" else "CR2"])
    held = {name: np.mean(np.abs(values - MEAN) <= of) for name, of in half.items()}
    for name, share in held.items():
        print(f"coverage, {name}: {100 * share:.2f} %")
    assert abs(held["ours"] - 0.95) == min(abs(x - 0.95) for x in held.values())
    assert abs(held["ours"] - 0.95) < 0.02
    if shape == "1/rank":
        assert held["usual"] < held["CR2"] < held["jackknife"]
        assert users > 20 or held["usual"] < 0.9
