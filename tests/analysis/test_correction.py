"""Corrected metrics, against SciPy, loops from the papers, and simulated ranks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from torch import Tensor

from nextloc_metrics import MRR, AccuracyAtK, LocationF1, NDCGAtK, SampledRanks, Visits, analysis
from nextloc_metrics.analysis.sampled import Corrected
from nextloc_metrics.core.scoring.sampled import least_error, maximise, rank_probabilities
from nextloc_metrics.metrics.visits import NewDecision


def quietly(*args: Any, **kwargs: Any) -> Corrected:
    """Correct without the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return analysis.correct_sampled(*args, **kwargs)


# Parts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(1, 2), (3, 4), (4, 9), (20, 300), (100, 5000)])
def test_probabilities_of_ranks_are_those_of_scipy(m: int, n: int) -> None:
    """Hypergeometric without replacement, binomial with it."""
    without = rank_probabilities(m, n, "without replacement").numpy()
    replaced = rank_probabilities(m, n, "with replacement").numpy()
    drawn = np.arange(m + 1)
    for rank in {1, 2, n // 2, n - 1, n} - {0}:
        expected = scipy.stats.hypergeom.pmf(drawn, n - 1, rank - 1, m)
        assert without[rank - 1] == pytest.approx(expected, abs=1e-10)
        expected = scipy.stats.binom.pmf(drawn, m, (rank - 1) / (n - 1))
        assert replaced[rank - 1] == pytest.approx(expected, abs=1e-10)


def test_expectation_maximisation_is_that_of_loops() -> None:
    """Each step: the posterior of each true rank, averaged over the observed ones."""
    m, n, h = 3, 7, [0.5, 0.2, 0.3, 0.0]
    given = rank_probabilities(m, n, "without replacement")
    p = [1 / n] * n
    for _ in range(4):
        new = [0.0] * n
        for r in range(m + 1):
            weights = [p[big] * float(given[big, r]) for big in range(n)]
            for big in range(n):
                new[big] += h[r] * weights[big] / sum(weights)
        p = new
    found = maximise(torch.tensor([h, h], dtype=torch.float64), given, 4)
    assert found[0].tolist() == pytest.approx(p, abs=1e-12)
    assert torch.equal(found[0], found[1])


def test_bias_variance_estimator_has_the_least_error() -> None:
    """No other x has a smaller sum of squared bias and 0.01 variance, computed in loops."""
    m, n = 4, 12
    given = rank_probabilities(m, n, "with replacement")
    scores = [1 / math.log2(rank + 1) if rank <= 3 else 0.0 for rank in range(1, n + 1)]

    def error(x: Any) -> float:
        total = 0.0
        for rank in range(n):
            chances = given[rank].tolist()
            mean = sum(c * one for c, one in zip(chances, x, strict=True))
            square = sum(c * one * one for c, one in zip(chances, x, strict=True))
            total += (mean - scores[rank]) ** 2 + 0.01 * (square - mean**2)
        return total

    best = scipy.optimize.minimize(error, np.zeros(m + 1), tol=1e-12).x
    found = least_error(given, torch.tensor(scores, dtype=torch.float64))
    assert found.tolist() == pytest.approx(best.tolist(), abs=1e-5)


# Estimates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [AccuracyAtK(3), NDCGAtK(3), MRR()], ids=repr)
def test_a_sample_of_all_candidates_needs_no_correction(metric: Any) -> None:
    """All methods give the metric of the ranks, which is also the naive value."""
    ranks = torch.tensor([1, 3, 3, 8, 2])
    found = analysis.correct_sampled(ranks, 7, 8, metric)
    scores = {
        "AccuracyAtK(k=3)": lambda r: float(r <= 3),
        "NDCGAtK(k=3)": lambda r: (r <= 3) / math.log2(r + 1),
        "MRR()": lambda r: 1 / r,
    }[repr(metric)]
    exact = sum(scores(rank) for rank in ranks.tolist()) / 5
    assert found.naive == pytest.approx(exact)
    for name, one in found.methods.items():
        assert one.value == pytest.approx(exact, abs=1e-9), name
    assert not metric.num_queries


def test_rescaled_ranks_by_hand() -> None:
    """Of 1 + 3 candidates for 10: rank r becomes 1 + 3 (r - 1)."""
    found = quietly([1, 2, 3, 4], 3, 10, MRR())
    assert found.methods["rescaled"].value == pytest.approx((1 + 1 / 4 + 1 / 7 + 1 / 10) / 4)
    assert found.naive == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


def test_naive_value_of_a_sample_with_repeats() -> None:
    """With replacement a sample may have more candidates than there are."""
    found = quietly([3, 1], 4, 2, AccuracyAtK(3), sampling="with replacement")
    assert found.naive == 1


def test_method_and_steps_choose_the_value() -> None:
    """The value is that of the method; more steps change only that of "em"."""
    ranks = [1, 1, 2, 6, 9]
    by_method = {
        name: quietly(ranks, 10, 50, AccuracyAtK(10), name)
        for name in ("em", "bias-variance", "rescaled")
    }
    for name, found in by_method.items():
        assert found.methods == by_method["em"].methods
        assert (found.value, found.standard_error) == tuple(found.methods[name])
    more = quietly(ranks, 10, 50, AccuracyAtK(10), steps=500).methods
    assert more["em"] != by_method["em"].methods["em"]
    assert more["rescaled"] == by_method["em"].methods["rescaled"]


def test_a_metric_of_ranks_counts_as_its_ranks() -> None:
    """A `SampledRanks` gives the values of the ranks that it has counted."""
    ranks = torch.tensor([1, 4, 2, 2, 11])
    metric = SampledRanks(10)
    above = torch.arange(11) < (ranks - 1)[:, None]  # candidates above the target, which is last
    metric.update(above.float() - (torch.arange(11) < 10).float() / 2, torch.full((5,), 10))
    assert torch.equal(metric.shares * 5, torch.bincount(ranks - 1, minlength=11).float())
    for name in ("em", "bias-variance"):
        a, b = (quietly(one, 10, 60, NDCGAtK(10), name) for one in (metric, ranks))
        assert a.value == pytest.approx(b.value)
        assert a == b


# Standard errors ---------------------------------------------------------------------------------


def test_standard_error_is_that_of_a_mean() -> None:
    """The bias-variance estimate is a mean of x(r), and the rescaled one a share."""
    rng = np.random.default_rng(0)
    ranks = torch.from_numpy(np.minimum(rng.geometric(0.2, 400), 21))
    found = quietly(ranks, 20, 100, AccuracyAtK(10), num_resamples=4000).methods
    x = least_error(
        rank_probabilities(20, 100, "without replacement"), (torch.arange(100) < 10).double()
    )
    scores = x.numpy()[ranks.numpy() - 1]
    assert found["bias-variance"].standard_error == pytest.approx(scores.std() / 20, rel=0.05)
    share = float((ranks <= 2).double().mean())
    by_hand = math.sqrt(share * (1 - share) / 400)
    assert found["rescaled"].standard_error == pytest.approx(by_hand, rel=0.05)


def test_standard_error_by_user() -> None:
    """Users with one rank each: that of the mean over users, wider than by query."""
    of_user = np.random.default_rng(1).integers(1, 7, 60)
    ranks, users = np.repeat(of_user, 10), np.repeat(np.arange(60) * 7, 10)
    by_user = quietly(ranks, 5, 20, AccuracyAtK(4), groups=users, num_resamples=4000)
    by_query = quietly(ranks, 5, 20, AccuracyAtK(4), num_resamples=4000)
    assert by_user.value == pytest.approx(by_query.value)
    for name in ("bias-variance", "em"):
        ratio = by_user.methods[name].standard_error / by_query.methods[name].standard_error
        assert ratio == pytest.approx(math.sqrt(10), rel=0.08), name
    again = quietly(ranks, 5, 20, AccuracyAtK(4), groups=users, num_resamples=4000, seed=1)
    assert again.standard_error != by_user.standard_error


def test_one_query_has_no_standard_error() -> None:
    """Nor has one user."""
    assert math.isnan(quietly([2], 5, 20, AccuracyAtK(4)).standard_error)
    found = quietly([2, 3], 5, 20, AccuracyAtK(4), groups=[1, 1])
    assert math.isnan(found.standard_error)
    assert found.value >= 0


# Simulated models --------------------------------------------------------------------------------

CANDIDATES, SAMPLED, QUERIES = 2000, 100, 4000

Draw = Callable[[np.random.Generator], Any]

SHAPES: dict[str, Draw] = {
    "power law": lambda rng: np.floor(rng.pareto(0.6, QUERIES) + 1),
    "geometric": lambda rng: rng.geometric(0.01, QUERIES),
    "top or anywhere": lambda rng: np.where(
        rng.random(QUERIES) < 0.3, rng.integers(1, 4, QUERIES), rng.integers(1, 2001, QUERIES)
    ),
    "lognormal": lambda rng: np.ceil(np.exp(rng.normal(4, 1.5, QUERIES))),
    "uniform": lambda rng: rng.integers(1, 2001, QUERIES),
}


def simulate(shape: str, seed: int) -> tuple[Tensor, Tensor]:
    """Draw true ranks, and ranks in a sample without replacement."""
    rng = np.random.default_rng(seed)
    true = np.clip(SHAPES[shape](rng), 1, CANDIDATES).astype(int)
    sampled = 1 + rng.hypergeometric(true - 1, CANDIDATES - true, SAMPLED)
    return torch.from_numpy(true), torch.from_numpy(sampled)


@pytest.mark.parametrize("shape", SHAPES)
def test_corrected_values_are_nearer_by_a_factor_of_three(shape: str) -> None:
    """Acc@10 and NDCG@10 of five shapes, by expectation maximisation, 100 of 2,000 candidates."""
    true, sampled = simulate(shape, 0)
    for metric, score in (
        (AccuracyAtK(10), (true <= 10).double()),
        (NDCGAtK(10), (true <= 10) / (true + 1.0).log2()),
    ):
        exact = float(score.mean())
        found = quietly(sampled, SAMPLED, CANDIDATES, metric, num_resamples=2)
        assert abs(found.naive - exact) > 3 * abs(found.value - exact), (metric, exact, found)


def test_correction_restores_the_order_of_models() -> None:
    """One model has more targets on top, the other more in the first hundreds: naively better."""
    (top, of_top), (broad, of_broad) = (
        simulate(shape, 0) for shape in ("top or anywhere", "geometric")
    )
    exact = [float((ranks <= 10).double().mean()) for ranks in (top, broad)]
    found = [
        quietly(one, SAMPLED, CANDIDATES, AccuracyAtK(10), num_resamples=2)
        for one in (of_top, of_broad)
    ]
    assert exact[0] > exact[1]
    assert found[0].naive < found[1].naive
    assert found[0].value > found[1].value


# Warnings and errors -----------------------------------------------------------------------------


def test_warnings_name_the_reason() -> None:
    """Ranks that the sample does not tell apart, and methods that differ; otherwise none."""
    with pytest.warns(
        UserWarning,
        match=r"50 ranks apart .* first 10; two methods differ: (0\.9\d+|1\.0+) .*, 0\.\d+ by",
    ):
        analysis.correct_sampled([1] * 50, 100, 5000, AccuracyAtK(10), num_resamples=2, steps=300)
    with pytest.warns(UserWarning, match="3 ranks apart .* depends on the first"):
        analysis.correct_sampled([1, 2, 3] * 50, 10, 30, MRR(), num_resamples=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        analysis.correct_sampled([1] * 8 + [2] * 4 + [3] * 2 + [4], 10, 30, AccuracyAtK(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling": "popularity"}, "got 'popularity': the rank in a sample by popularity"),
        ({"ranks": [0, 1]}, "`ranks` must be from 1 to `num_sampled` . 1, 6, got 0"),
        ({"ranks": [7, 1]}, "got 7"),
        ({"ranks": []}, "`ranks` must be one row of integers"),
        ({"ranks": [1.5]}, "`ranks` must be one row of integers"),
        ({"ranks": SampledRanks(5)}, "`ranks` must have counted a query"),
        ({"ranks": SampledRanks(4)}, "`num_sampled` must be that of `ranks`, 4, got 5"),
        ({"ranks": SampledRanks(5), "groups": [1]}, "`groups` must be None for a SampledRanks"),
        ({"groups": [1]}, r"`groups` must be integers, one per query, \[2\]"),
        ({"num_candidates": 5}, "`num_candidates` must be above `num_sampled`, 5, .* got 5"),
        ({"num_sampled": 0}, "`num_sampled` must be a positive integer, got 0"),
        ({"method": "ml"}, "`method` must be one of"),
        ({"steps": 0}, "`steps` must be a positive integer"),
        ({"num_resamples": 0}, "`num_resamples` must be a positive integer"),
        ({"seed": -1}, "`seed` must be an integer"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    """Each error names the argument, the rule and the value."""
    arguments = {"ranks": [1, 2], "num_sampled": 5, "num_candidates": 9, "metric": MRR()}
    with pytest.raises(ValueError, match=message):
        quietly(**{**arguments, **options})


def test_metrics_of_more_than_ranks_are_refused() -> None:
    """A metric per location, and one that reads who is recommended."""
    others: list[Any] = [LocationF1(9), NewDecision(Visits([0], [1])), "acc"]
    for metric in others:
        with pytest.raises(TypeError, match="`metric` must be a mean of scores of ranks"):
            quietly([1], 5, 9, metric)
