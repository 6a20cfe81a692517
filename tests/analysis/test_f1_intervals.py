"""The jackknife of F1 against scikit-learn without each user, and all exchanges of two models."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import sklearn.metrics
import torch
from torch import Tensor

from nextloc_metrics import LocationF1, LocationPrecision, LocationRecall
from nextloc_metrics.analysis import f1_intervals
from nextloc_metrics.analysis.f1_intervals import Exchange, answers_of, jackknife
from nextloc_metrics.core.means.intervals import of_clusters, of_queries
from nextloc_metrics.metrics.location_f1 import LocationTally

ORACLES = {
    LocationF1: sklearn.metrics.f1_score,
    LocationPrecision: sklearn.metrics.precision_score,
    LocationRecall: sklearn.metrics.recall_score,
}


def sample(seed: int, users: int, locations: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Targets, the decisions of two models, and users of one to nine queries."""
    rng = np.random.default_rng(seed)
    user = np.repeat(rng.permutation(users), rng.integers(1, 10, users))
    target = rng.integers(0, locations, len(user))
    first, second = (
        np.where(rng.random(len(user)) < 0.5, target, rng.integers(0, locations, len(user)))
        for _ in range(2)
    )
    found = torch.from_numpy(np.stack([target, first, second, user])).unbind()
    return found[0], found[1], found[2], found[3]


def value_of(metric: LocationTally, target: Tensor, decided: Tensor) -> float:
    """The value by scikit-learn."""
    oracle, average = ORACLES[type(metric)], metric.average
    return float(oracle(target.numpy(), decided.numpy(), average=average, zero_division=0))


def deleted(metric: LocationTally, target: Tensor, decided: Tensor, users: Tensor) -> list[float]:
    """What each user adds, from the value of the others."""
    value, added = value_of(metric, target, decided), []
    for user in users.unique():
        kept = users != user
        added.append((value - value_of(metric, target[kept], decided[kept])) * int(kept.sum()))
    sizes = np.unique(users.numpy(), return_counts=True)[1]
    return list(np.array(added) - np.sum(added) * sizes / len(target))


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("average", ["weighted", "macro"])
@pytest.mark.parametrize("seed", range(3))
def test_each_user_is_left_out(kind: type[LocationTally], average: str, seed: int) -> None:
    """Values, and the standard error by the formula, equal those of as many computations."""
    metric = kind(7, average)  # type: ignore[arg-type]
    target, decided, _, users = sample(seed, 12, 7)
    found = jackknife(metric, answers_of(target, decided, users), by_cluster=True)
    assert found.value == pytest.approx(value_of(metric, target, decided), rel=1e-12)
    added, number = np.array(deleted(metric, target, decided, users)), len(users.unique())
    assert found.added.numpy() == pytest.approx(added, abs=1e-11)
    assert float(found.shares().sum()) / len(target) == pytest.approx(found.value, abs=1e-12)
    others = len(target) - np.unique(users.numpy(), return_counts=True)[1]
    variance = (number - 1) / number * sum((added / others) ** 2)
    assert float(found.estimate().standard_error) == pytest.approx(math.sqrt(variance), rel=1e-12)


@pytest.mark.parametrize("average", ["weighted", "macro"])
def test_each_query_is_left_out(average: str) -> None:
    """Equal answers are counted together, and each is left out alone."""
    metric = LocationF1(4, average)  # type: ignore[arg-type]
    target, decided, *_ = sample(5, 12, 4)
    found, number = jackknife(metric, answers_of(target, decided), by_cluster=False), len(target)
    assert len(found.times) < number == int(found.times.sum())
    added = deleted(metric, target, decided, torch.arange(number))
    variance = sum(x * x for x in added) / (number * (number - 1))
    assert float(found.estimate().standard_error) == pytest.approx(math.sqrt(variance))
    assert float(found.estimate().degrees_of_freedom) == number - 1


def test_weighted_recall_has_the_interval_of_the_accuracy() -> None:
    """Weighted recall is the mean of hits, for which the jackknife is the clustered variance."""
    target, decided, _, users = sample(1, 15, 6)
    metric = LocationRecall(6, "weighted")
    found = jackknife(metric, answers_of(target, decided, users), by_cluster=True).estimate()
    hits = (target == decided).long()
    state = (
        torch.zeros(15, 3).long().index_add_(0, users, torch.stack([hits, hits, hits * 0 + 1], 1))
    )
    state[:, :2] *= 1 << 32
    for mine, other in zip(found, of_clusters(state), strict=True):
        assert float(mine) == pytest.approx(float(other))
    alone = jackknife(metric, answers_of(target, decided), by_cluster=False).estimate()
    expected = of_queries(state.sum(0))
    assert float(alone.standard_error) == pytest.approx(float(expected.standard_error))


def test_users_alike_have_no_variance_but_an_interval() -> None:
    """Where each user adds the same, the interval is that of hits which do not vary either."""
    users = torch.arange(60) // 3
    target, decided = torch.arange(60), torch.where(torch.arange(60) % 3 == 0, -1, torch.arange(60))
    found = jackknife(LocationRecall(60, "weighted"), answers_of(target, decided, users), True)
    low, high = map(float, found.estimate().interval(0.95))
    state = torch.tensor([[2 << 32, 2 << 32, 3]]).expand(20, 3)
    assert (low, high) == pytest.approx([float(x) for x in of_clusters(state).interval(0.95)])


def test_a_visit_without_a_decision_or_target() -> None:
    """No decision and an invented id count in the support; a query without a target does not."""
    target, decided = torch.tensor([0, 1, 1, -1]), torch.tensor([0, -1, 9, 0])
    found = jackknife(LocationF1(3), answers_of(target, decided), by_cluster=False)
    assert found.value == pytest.approx(1 / 3)
    assert found.times.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("users", "bounds"), [([0, 0, 0], [0.0, 1.0]), ([], [math.nan] * 2)])
def test_without_two_users_nothing_is_known(users: list[int], bounds: list[float]) -> None:
    """The interval of one user is everything, as for a mean; without data there is none."""
    user = torch.tensor(users).long()
    found = jackknife(LocationF1(2), answers_of(user * 0, user * 0, user), by_cluster=True)
    assert [float(x) for x in found.estimate().interval(0.95)] == pytest.approx(bounds, nan_ok=True)


@pytest.mark.parametrize("kind", [LocationF1, LocationPrecision])
@pytest.mark.parametrize("average", ["weighted", "macro"])
@pytest.mark.parametrize("by", ["user", "query"])
def test_all_exchanges(kind: type[LocationTally], average: str, by: str) -> None:
    """The p-value is the share of exchanges whose values, by scikit-learn, are as far apart."""
    metric = kind(5, average)  # type: ignore[arg-type]
    target, first, second, users = sample(11, 5, 5)
    if by == "query":
        target, first, second = target[:6], first[:6], second[:6]
        users = torch.arange(6)
    names = users.unique()
    apart = []
    for way in itertools.product([False, True], repeat=len(names)):
        is_exchanged = torch.tensor(way)[torch.searchsorted(names, users)]
        a, b = (torch.where(is_exchanged, *x) for x in ((second, first), (first, second)))
        apart.append(abs(value_of(metric, target, b) - value_of(metric, target, a)))
    expected = np.mean(np.array(apart) >= apart[0] - 1e-12)
    exchange = Exchange(metric, target, (first, second), None if by == "query" else users)
    assert exchange.test(99, 99, 0) == (pytest.approx(expected), 0)


def test_random_exchanges_are_near_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 users that differ, 20,000 random exchanges have about the p-value of all 65,536."""
    target, first, second, users = sample(3, 17, 5)
    of_user = users.unique()
    differ = [user for user in of_user if (first != second)[users == user].any()]
    kept = torch.isin(users, torch.stack(differ[:16]))
    few = Exchange(LocationF1(5), target[kept], (first[kept], second[kept]), users[kept])
    every, number = few.test(1, 1, 0) or (0.0, -1)
    assert number == 0
    monkeypatch.setattr(f1_intervals, "MOST_EXACT_SIGNS", 0)
    monkeypatch.setattr(f1_intervals, "_MANY", math.inf)
    drawn, number = few.test(20_000, 20_000, 0) or (0.0, -1)
    assert number >= 20_000
    assert drawn == pytest.approx(every, abs=4 * math.sqrt(every * (1 - every) / number))


def test_neither_the_order_of_users_nor_of_models_matters() -> None:
    """Random exchanges are those of what users change, whatever their rows and numbers."""
    target, first, second, users = sample(2, 40, 9)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(users)))
    other = torch.from_numpy(np.random.default_rng(1).permutation(40))[users]
    metric = LocationF1(9)
    expected = Exchange(metric, target, (first, second), users).test(500, 500, 3)
    found = Exchange(metric, target[order], (second[order], first[order]), other[order])
    assert found.test(500, 500, 3) == expected
    assert (expected or (0, 0))[1] >= 400


def test_equal_models_do_not_differ() -> None:
    """Without a difference p is 1; with one user there is no test; too much work has none."""
    target, first, second, users = sample(2, 20, 9)
    metric = LocationF1(9)
    assert Exchange(metric, target, (first, first), users).test(99, 99, 0) == (1.0, 0)
    alone = Exchange(metric, target, (first, second), users * 0).test(99, 99, 0)
    assert math.isnan((alone or (0.0, 0))[0])
    assert Exchange(metric, target, (first, second), users).test(99, 1 << 30, 0) is None
