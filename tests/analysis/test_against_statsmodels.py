"""Agreement with statsmodels, where it has the same estimator or test."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nextloc_metrics.analysis import compare, rank_models
from nextloc_metrics.analysis.significance import holm

pytest.importorskip("statsmodels", reason="the comparison needs statsmodels")

DRAW = np.random.default_rng(12)
OLD, NEW = ((DRAW.random(240) < p).astype(float) for p in (0.4, 0.5))


def test_mcnemar_and_holm() -> None:
    """Hits of two models, of 240 queries; and p-values with equal ones."""
    from statsmodels.stats.contingency_tables import mcnemar
    from statsmodels.stats.multitest import multipletests

    old, new = OLD > 0, NEW > 0
    table = [[(a & b).sum() for b in (new, ~new)] for a in (old, ~old)]
    found = compare(torch.from_numpy(OLD), torch.from_numpy(NEW))
    assert found.p_value == pytest.approx(mcnemar(table, exact=True).pvalue)
    p_values = [*(DRAW.random(20) ** 4).round(4).tolist(), 0.01, 0.01]
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1])


def test_intervals_of_paired_differences_and_of_equal_clusters() -> None:
    """A regression on a constant, with clustered errors; CR1 and CR3 are one for equal sizes."""
    from statsmodels.regression.linear_model import OLS
    from statsmodels.stats.weightstats import DescrStatsW

    # ten times as large, they are no fractions, whose intervals are others
    each, users = 10 * (NEW - OLD), np.arange(240) % 24
    pair = torch.from_numpy(10 * OLD), torch.from_numpy(10 * NEW)
    found = compare(*pair, confidence_level=0.9)
    whole = DescrStatsW(each)
    assert (found.low, found.high) == pytest.approx(whole.tconfint_mean(0.1))
    equivalent, *sides = whole.ttost_mean(-1, 1)
    assert found.within(1) == pytest.approx((sides[0][1], equivalent))
    fit = OLS(each, np.ones(240)).fit(cov_type="cluster", cov_kwds={"groups": users}, use_t=True)
    found = compare(*pair, groups=torch.from_numpy(users))
    assert found.standard_error == pytest.approx(fit.bse[0])
    assert (found.low, found.high) == pytest.approx(fit.conf_int()[0])


@pytest.mark.parametrize("num_tests", [1, 78])
def test_power_at_the_detectable_difference(num_tests: int) -> None:
    """By the noncentral t distribution, which the formula with quantiles of t approximates."""
    from statsmodels.stats.power import TTestPower

    found = compare(torch.from_numpy(OLD), torch.from_numpy(NEW))
    size = found.detectable(num_tests) / (NEW - OLD).std(ddof=1)
    assert TTestPower().power(size, 240, 0.05 / num_tests) == pytest.approx(0.8, abs=0.005)


def test_cochrans_q_of_several_data_sets() -> None:
    """Of the differences, with their standard errors."""
    from statsmodels.stats.meta_analysis import combine_effects

    values = dict(enumerate(zip(*DRAW.random((2, 7)).tolist(), strict=True)))
    errors = {str(name): float(x) for name, x in enumerate(DRAW.uniform(0.1, 0.3, 7))}
    ranked = rank_models({str(name): {"a": a, "b": b} for name, (a, b) in values.items()})
    found = ranked.difference("a", "b", errors)
    effects = np.array([b - a for a, b in values.values()])
    theirs = combine_effects(effects, np.array(list(errors.values())) ** 2)
    assert found.q == pytest.approx(theirs.q)
    assert found.i_squared == pytest.approx(max(0.0, theirs.i2))
    assert found.weighted == pytest.approx(theirs.mean_effect_fe)
    assert found.weighted_error == pytest.approx(theirs.sd_eff_w_fe)
