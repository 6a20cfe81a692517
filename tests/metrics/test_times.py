"""Errors of predicted times, and visits predicted at the right place and time."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import (
    MRR,
    AccuracyAtCoverage,
    AccuracyAtK,
    Grouped,
    JointAccuracy,
    PerQueryScores,
    Ranking,
    RankingCollection,
    RankQuantile,
    TimeError,
    TimeWithin,
    analysis,
)
from nextloc_metrics.core.means import histogram
from nextloc_metrics.core.queries.record import Records
from nextloc_metrics.geography import AccuracyWithin, DistanceError, Locations
from strategies import examples

MINUTES = st.integers(0, 4000).map(float)
PAIRS = st.lists(st.tuples(st.one_of(MINUTES, st.just(math.nan)), MINUTES), min_size=1, max_size=9)


def error(predicted: float, true: float, kind: str) -> float:
    """The error of one time, by walking around the clock."""
    if math.isnan(predicted):
        return math.inf if kind == "elapsed" else 720.0
    if kind == "elapsed":
        return abs(predicted - true)
    return min(abs((predicted - true) % 1440 - turn) for turn in (0, 1440))


@pytest.mark.parametrize("kind", ["elapsed", "clock"])
@examples(8)
@given(PAIRS)
def test_times_are_scored_as_in_loops(kind: Any, pairs: list[tuple[float, float]]) -> None:
    """Mean, quantiles and shares, with NaN as no prediction, in any split into batches."""
    preds, target = (torch.tensor(x, dtype=torch.float64) for x in zip(*pairs, strict=True))
    errors = sorted(error(*pair, kind) for pair in pairs)
    metrics: list[Any] = [TimeError(kind), TimeError(kind, "median"), TimeWithin(30, kind)]
    for metric in metrics:
        metric.update(preds[:1], target[:1])
        metric.update(preds[1:], target[1:])
        assert metric.num_queries == len(pairs)
    mean, median, within = (float(metric.compute()) for metric in metrics)
    assert mean == pytest.approx(sum(errors) / len(errors), rel=1e-6)
    expected = errors[(len(errors) - 1) // 2]
    assert median == pytest.approx(expected, rel=1 / 1024, abs=1 / 120)
    hits = [error(*pair, kind) <= 30 and not math.isnan(pair[0]) for pair in pairs]
    assert within == pytest.approx(sum(hits) / len(hits))


@given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(0.01, 0.99))
def test_quantiles_of_a_histogram(values: list[float], share: float) -> None:
    """Integers up to 8,192 exactly, larger numbers within 1/1024, infinity in the last bin."""
    numbers = torch.tensor(values, dtype=torch.float64)
    got = histogram.quantile(histogram.tally(numbers, numbers >= 0), share)
    wanted = Fraction(share) * len(values)
    if abs(wanted - round(wanted)) <= Fraction(len(values), 1 << 50):  # of a rounded share
        wanted = Fraction(round(wanted))
    expected = sorted(round(x) for x in values)[max(1, math.ceil(wanted)) - 1]
    assert got == expected if expected <= 8192 else abs(got - expected) <= expected / 1024
    infinite = torch.tensor([math.inf, math.nan, 2.0**40])
    assert histogram.quantile(histogram.tally(infinite, infinite != 0), share) == math.inf


@pytest.mark.parametrize("number", [10, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_one_rule_for_all_shares(number: int) -> None:
    """A share of j / n of n numbers is j of them, in quantiles, thresholds and coverages."""
    values = torch.arange(1, number + 1)
    counts = histogram.tally(values.double(), values > 0)
    for j in range(1, number):
        assert histogram.quantile(counts, j / number) == j
        assert analysis.conformal_threshold(values[:-1].double(), 1 - j / number) == j
        assert analysis.conformal_threshold(values[:-1].double(), (number - j) / number) == j
    scores = torch.stack([values, 0 * values], 1).double() / number
    for j in (1, 7, 14, 28, 55, 57) if number == 100 else (1, 7):
        wrong = (values == number - j).long()  # only the answer after the j most confident ones
        accuracy = AccuracyAtCoverage(j / number, given="logits")
        assert accuracy(scores, wrong) == 1
    ranks = RankQuantile(0.55)
    ranks.update(Ranking.from_ranks(values, num_candidates=number))
    assert ranks.compute() == -(-55 * number // 100)


def test_distances_have_the_same_rule() -> None:
    """Of 100 distances, 1 to 100 km, the quantile of j / 100 is j km, within half of a bin."""
    km = torch.arange(101.0)
    locations = Locations.from_plane(km, 0 * km, "km")
    decided, target = torch.arange(1, 101)[:, None], torch.zeros(100, dtype=torch.long)
    for j in range(3, 100, 4):
        found = DistanceError(locations, j / 100)(decided, target)
        assert float(found) == pytest.approx(j, rel=0.006)


def test_means_of_times_have_intervals_groups_and_scores() -> None:
    """They are means of scores; masked and ignored queries are left out."""
    preds, target = np.array([10.0, 20, 30, 99]), np.array([0, 0, 0, -1])
    metric = TimeError(ignore_index=-1)
    metric.update(preds, target, mask=[True, True, False, True])
    assert metric.compute() == 15
    low, high = metric.interval()
    assert low == 0
    assert high > 15
    grouped = Grouped(TimeError(), 2)
    grouped.update(preds, target, groups=[0, 0, 1, 1])
    assert grouped.compute().tolist() == [15, 65]
    scores = PerQueryScores(TimeWithin(20))
    scores.update(preds, target, query_ids=torch.arange(4))
    assert scores.compute().scores.tolist() == [1, 1, 0, 0]
    with pytest.raises(TypeError, match="is not"):
        Grouped(TimeError(statistic="median"), 2)
    both = RankingCollection({"mean": TimeError(), "median": TimeError(statistic="median")})
    both.update(preds, target)
    assert both.compute()["median"] == 20


def test_joint_accuracy_is_accuracy_where_the_time_is_right() -> None:
    """With ties, by place or within km, alone, grouped and beside other metrics."""
    scores = torch.tensor([[2.0, 2, 1], [3, 2, 1], [1, 2, 3], [1, 1, 1]])
    target, times = torch.tensor([0, 0, 0, 2]), torch.tensor([5.0, 50, 0, math.nan])
    when = {"times": times, "target_times": torch.zeros(4)}
    joint = JointAccuracy(k=1, minutes=10)
    joint.update(scores, target, **when)
    assert joint.compute() == 0.5 / 4
    places = Locations.from_plane([0, 100, 9000], [0, 0, 0])
    near = JointAccuracy(k=1, minutes=1440, km=1.0, locations=places)
    near.update(scores[:3], target[:3], times=times[:3], target_times=[0, 0, 0])
    assert near.compute() == AccuracyWithin(places, 1.0, 1)(scores[:3], target[:3])
    record = joint.read(scores, target, **when)
    grouped = Grouped(JointAccuracy(k=1, minutes=10), 2)
    grouped.update(record, groups=torch.tensor([0, 1, 1, 1]))
    assert grouped.compute().tolist() == [0.5, 0]
    together = RankingCollection({"mrr": MRR(), "joint": JointAccuracy(1, 10)})
    together.update(Records({type(record.ranking): record.ranking, type(record): record}))
    assert together.compute()["joint"] == 0.5 / 4
    masked = JointAccuracy(1, 10)
    masked.update(scores, target, mask=torch.tensor([True, True, False, False]), **when)
    assert (masked.num_queries, float(masked.compute())) == (2, 0.25)
    unlimited = JointAccuracy(2, 1e9)
    unlimited.update(scores[:3], target[:3], times=times[:3], target_times=[0, 0, 0])
    assert unlimited.compute() == AccuracyAtK(2)(scores[:3], target[:3])


@pytest.mark.parametrize("how", ["mask", "ignore_index"])
def test_times_of_queries_that_are_left_out_are_not_read(how: str) -> None:
    """Neither where a mask nor where an ignored target leaves the query out."""
    joint = JointAccuracy(1, 30, ignore_index=5 if how == "ignore_index" else None)
    mask = [True, False] if how == "mask" else None
    when = {"times": [10.0, 0.0], "target_times": [0.0, math.nan]}
    joint.update([[4], [5]], [4, 5], mask, **when)
    assert (joint.num_queries, float(joint.compute())) == (1, 1.0)


def test_an_error_of_exactly_the_minutes_counts() -> None:
    """And a NaN never does, however many minutes are allowed."""
    lists, target = [[4], [4], [4]], [4, 4, 4]
    joint = JointAccuracy(1, 30)
    joint.update(lists, target, times=[30.0, 31.0, -30.0], target_times=[0.0, 0.0, 0.0])
    assert float(joint.compute()) == pytest.approx(2 / 3)
    for metric in (TimeWithin(720, "clock"), TimeWithin(1440, "clock"), TimeWithin(1e9)):
        assert metric([math.nan, 720.0], [0.0, 0.0]) == 0.5
    for kind in ("clock", "elapsed"):
        joint = JointAccuracy(1, 1e9, kind)
        joint.update([[4]], [4], times=[math.nan], target_times=[0.0])
        assert joint.compute() == 0


def test_times_are_drawn_with_their_unit() -> None:
    """The mean with its interval, and a median."""
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    labels = ["time error, mean (min)", "time within 30 min", "time error, median (min)"]
    for metric, label in zip(
        (TimeError(), TimeWithin(30), TimeError(statistic="median")), labels, strict=True
    ):
        metric.update([10.0, 20], [0.0, 0])
        figure, axes = metric.plot()
        assert axes.get_ylabel() == label
        figure.clear()
    joint = JointAccuracy(1, 30)
    joint.update([[1]], [1], times=[0], target_times=[0])
    assert joint.plot()[1].get_ylabel() == "Accuracy@1, time within 30 min"


WRONG: list[tuple[Any, str]] = [
    (lambda: TimeError("hours"), "`kind` must be one of"),
    (lambda: TimeError(statistic=2), "`statistic` must be 'mean', 'median' or a quantile"),
    (
        lambda: TimeError()([1.0, 2], [1.0]),
        "`preds` and `target` must be numbers of minutes",
    ),
    (
        lambda: TimeError()([1.0], [math.nan]),
        "`target` must hold finite times, got nan for",
    ),
    (lambda: JointAccuracy(1, 5, km=1.0), "`km` and `locations` must be given together"),
    (
        lambda: JointAccuracy(1, 5).update([[1]], [1], times=[1], target_times=[math.nan]),
        "`target_times` must hold finite times, got nan for query 0",
    ),
    (lambda: JointAccuracy(1, 5).update([[1]], [1]), "`times` and `target_times` must be given"),
    (
        lambda: RankingCollection({"joint": JointAccuracy(1, 5)}).update([[1]], [1]),
        "`times` must be given for JointAccuracy: pass the record",
    ),
    (
        lambda: JointAccuracy(1, 5).update([[1]], [1], times=[1, 2], target_times=[1, 2]),
        "`times` must have the shape of the queries",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_errors_name_the_argument(make: Any, message: str) -> None:
    """And the rule and the value."""
    with pytest.raises(ValueError, match=message):
        make()
