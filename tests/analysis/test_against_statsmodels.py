"""Agreement with statsmodels, where it has the same estimator or test."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nextloc_metrics.analysis.significance import holm
from strategies import compare_scores

pytest.importorskip("statsmodels", reason="the comparison needs statsmodels")

DRAW = np.random.default_rng(12)
OLD, NEW = ((DRAW.random(240) < p).astype(float) for p in (0.4, 0.5))


def test_mcnemar_and_holm() -> None:
    """Hits of two models, of 240 queries; and p-values with equal ones."""
    from statsmodels.stats.contingency_tables import mcnemar
    from statsmodels.stats.multitest import multipletests

    old, new = OLD > 0, NEW > 0
    table = [[(a & b).sum() for b in (new, ~new)] for a in (old, ~old)]
    found = compare_scores(torch.from_numpy(OLD), torch.from_numpy(NEW))
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
    found = compare_scores(*pair, confidence_level=0.9)
    whole = DescrStatsW(each)
    assert (found.low, found.high) == pytest.approx(whole.tconfint_mean(0.1))
    fit = OLS(each, np.ones(240)).fit(cov_type="cluster", cov_kwds={"groups": users}, use_t=True)
    found = compare_scores(*pair, groups=torch.from_numpy(users))
    assert found.standard_error == pytest.approx(fit.bse[0])
    assert (found.low, found.high) == pytest.approx(fit.conf_int()[0])
