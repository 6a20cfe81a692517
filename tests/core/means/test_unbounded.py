"""The mean of a score without an upper bound: exact sums, intervals, and what is out of range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, tensor

from nextloc_metrics import MeanMetric, trajectories
from nextloc_metrics.base import Needs, Queries, Record


@dataclass(eq=False)
class Seconds(Record):
    """What a trip took."""

    queries: Queries
    seconds: Tensor  #: floating `[N]`

    @classmethod
    def read(cls, batch: Any, needs: Needs) -> Seconds:
        """Read one number per query."""
        counted = torch.ones(len(batch.preds), dtype=torch.bool)
        return cls(Queries(batch.preds.shape, counted), batch.preds.double())


class Duration(MeanMetric):
    """The mean number of seconds."""

    record = Seconds
    largest_value = math.inf
    plot_upper_bound = None
    higher_is_better = False
    unit = "s"

    def score(self, record: Seconds) -> tuple[Tensor, Tensor]:
        """Return the seconds."""
        return record.seconds, record.counted


def updated(metric: Any, seconds: Sequence[float], **named: Any) -> Any:
    """Update with some seconds; the targets are not read."""
    metric.update(tensor(seconds, dtype=torch.float64), torch.zeros(len(seconds)), **named)
    return metric


FINITE = st.one_of(st.floats(0, 2.0**31), st.floats(0, 100), st.sampled_from([0.0, 1.0, 2.0**31]))


@given(st.lists(FINITE, min_size=1, max_size=20), st.integers(0, 20), st.randoms())
def test_sums_are_exact_in_any_order(seconds: list[float], cut: int, random: Any) -> None:
    """The mean is that of the scores in steps of 2^-32, and any split gives the same integers."""
    whole = updated(Duration(), seconds)
    steps = [Fraction(round(Fraction(x) * 2**32), 2**32) for x in seconds]
    exact = float(sum(steps) / len(steps))
    assert float(whole.estimate().mean) == pytest.approx(exact, rel=1e-14, abs=2.0**-32)
    random.shuffle(seconds)
    parts = Duration()
    for part in (seconds[:cut], seconds[cut:]):
        updated(parts, part)
    assert torch.equal(parts.state, whole.state)


def test_the_interval_is_students() -> None:
    """The standard error is SciPy's, and the interval Student's t, not below 0."""
    seconds = [1.5, 700.25, 30.0, 1e6, 12.0]
    metric = updated(Duration(), seconds)
    assert float(metric.compute()) == pytest.approx(sum(seconds) / 5)
    error = scipy.stats.sem(seconds)
    assert float(metric.standard_error()) == pytest.approx(error, rel=1e-6)
    low, high = metric.interval(0.9)
    half = scipy.stats.t.ppf(0.95, 4) * error
    assert float(high) == pytest.approx(sum(seconds) / 5 + half, rel=1e-6)
    assert float(low) == 0 > sum(seconds) / 5 - half
    close = updated(Duration(), [9.0, 10.0, 11.0])
    assert float(close.interval()[0]) == pytest.approx(10 - scipy.stats.t.ppf(0.975, 2) / 3**0.5)


def test_nothing_is_known_of_one_query() -> None:
    """One score has no standard error, so the interval is the whole range; none has NaN."""
    one = updated(Duration(), [3.0])
    assert one.standard_error().isnan()
    assert [float(x) for x in one.interval()] == [0, math.inf]
    none = updated(Duration(), [])
    assert none.compute().isnan()
    assert all(x.isnan() for x in none.interval())


def test_an_infinite_score_makes_the_mean_infinite() -> None:
    """It is counted apart, so that the sums of the others stay exact."""
    metric = updated(Duration(), [3.0, math.inf])
    assert metric.compute() == math.inf
    assert [float(x) for x in metric.interval()] == [0, math.inf]
    assert metric.num_queries == 2
    assert metric.state.tolist() == [0, 0, 2, 3, 9, 0, 1]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (-1.0, r"`score` of Duration\(\) must return values from 0 to"),
        (math.nan, r"`score` of Duration\(\) must return values from 0 to"),
        (2.0**32, r"`preds` and `target`.*Duration\(\).*at most 2\^31.*4.29497e\+09 for query 1;"),
    ],
)
def test_a_score_out_of_range_is_an_error(wrong: float, says: str) -> None:
    """It changes nothing; without checks it counts as the nearest that can be summed."""
    metric = Duration()
    with pytest.raises(ValueError, match=says):
        updated(metric, [1.0, wrong])
    assert metric.num_queries == 0
    unchecked = updated(Duration(validate_args=False), [1.0, wrong])
    assert float(unchecked.compute()) == (0.5 if wrong < 0 else math.inf)


def test_data_beyond_the_sums_are_named() -> None:
    """The arguments and the query, not a `score` that the user did not write."""
    metric = trajectories.DTW()
    far = 1e10 * torch.arange(3.0).view(3, 1, 1).expand(-1, 4, 2)
    with pytest.raises(ValueError, match=r"`preds` and `target`.*for query [12];.*`mask`"):
        metric.update(far, torch.zeros(3, 4, 2))
    assert metric.num_queries == 0
