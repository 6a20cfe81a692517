"""Intervals of differences that are rare: published figures, and a search over all m."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch

from nextloc_metrics.analysis import Comparison
from strategies import compare_scores


def comparison_of_counts(wins: int, losses: int, number: int) -> Comparison:
    """Two models, of which only the second is right in some queries, only the first in others."""
    a, b = torch.zeros(2, number)
    b[:wins], a[wins : wins + losses] = 1, 1
    return compare_scores(a, b)


def test_published_intervals_of_hits() -> None:
    """Airway hyper-responsiveness before and after a transplantation, Fagerland et al. (2014)."""
    one = comparison_of_counts(1, 7, 21)
    assert one.difference == pytest.approx(-6 / 21)
    assert (one.low, one.high) == pytest.approx((-0.517, -0.026), abs=5e-4)
    assert one.p_value == pytest.approx(0.0703, abs=5e-5)  # McNemar's exact test, there too


@pytest.mark.parametrize(
    ("wins", "losses", "number"), [(0, 0, 9), (3, 0, 9), (9, 0, 9), (4, 2, 50)]
)
def test_hits_have_the_score_interval(wins: int, losses: int, number: int) -> None:
    """The likelihood at m is maximised by trying shares; the ends are where z is the quantile."""
    one, shares = comparison_of_counts(wins, losses, number), np.linspace(0, 1, 200_001)

    def score(m: float) -> float:
        won = shares + m  # and `shares` lost
        apart = 1 - won - shares
        kept = (won >= 0) & (won <= 1) & (apart >= -1e-12)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [
                np.where(number_of == 0, 0, number_of * np.log(share.clip(0)))
                for number_of, share in (
                    (wins, won),
                    (losses, shares),
                    (number - wins - losses, apart.clip(0)),
                )
            ]
        likely = shares[kept][np.argmax(sum(parts)[kept])]
        variance = (2 * likely + m - m * m) / number
        return ((wins - losses) / number - m) / math.sqrt(variance) if variance > 1e-9 else math.inf

    for end in (one.low, one.high):
        assert abs(end) == 1 or abs(score(end)) == pytest.approx(1.959964, abs=2e-3)


@pytest.mark.parametrize("values", [[0, 0, 0.5], [0, 0.25, -0.5, 0.1], [0.3] * 5, [0, -0.9, -0.9]])
def test_graded_scores_hold_all_differences_that_are_near(values: list[float]) -> None:
    """By trying each m: a mean is near if it is t standard errors away, the own or that at m."""
    d = np.tile(np.array(values), 4)
    start = (1 - d) / 2
    one = compare_scores(torch.from_numpy(start), torch.from_numpy(start + d))
    size = (d * d).sum() / np.abs(d).sum()
    m = np.linspace(-1, 1, 400_001)
    variance = np.maximum(d.var(ddof=1), np.abs(m) * (size - np.abs(m))) / len(d)
    quantile = scipy.stats.t(len(d) - 1).ppf(0.975)
    near = m[np.abs(d.mean() - m) <= quantile * np.sqrt(variance)]
    assert (one.low, one.high) == pytest.approx((near.min(), near.max()), abs=2e-5)


def test_scores_that_are_no_fractions_keep_students() -> None:
    """Km have no bound: two equal models have an interval of no width, which says nothing else."""
    km = torch.tensor([1.0, 2.0, 3.0, 9.0])
    one = compare_scores(km, km + torch.tensor([0.5, 0.0, 0.0, 0.0]))
    assert one.high - one.difference == pytest.approx(3.182446 * one.standard_error)
    assert compare_scores(km, km).high == 0
