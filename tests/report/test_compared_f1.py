"""F1 in comparisons: the exchange of two models by user against scikit-learn, families, tables."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from nextloc_metrics import LocationF1, report

LOCATIONS = 6


def sample(*chances: float, users: int = 8, seed: int = 0) -> tuple[Any, dict[str, Any], Any]:
    """Targets, lists of one id of models that are right so often, and users."""
    rng = np.random.default_rng(seed)
    user = rng.permutation(np.repeat(np.arange(users), rng.integers(3, 15, users)))
    target = rng.integers(0, LOCATIONS, len(user))
    models = {}
    for name, chance in zip("abc", chances, strict=False):
        other = rng.integers(0, LOCATIONS, len(user))
        models[name] = np.where(rng.random(len(user)) < chance, target, other)[:, None]
    return target, models, user


def compare(target: Any, models: Any, users: Any = None, **options: Any) -> report.Comparisons:
    """Compare lists, clustered where there are users."""
    if users is not None:
        options |= {"groups": {"user": users.astype(str)}, "cluster": "user"}
    return report.compare(models, target, k=1, **options)


def f1(target: Any, decided: Any, average: Any = "weighted") -> float:
    """F1 by scikit-learn."""
    return float(sklearn.metrics.f1_score(target, decided, average=average, zero_division=0))


@pytest.mark.parametrize("average", ["weighted", "macro"])
def test_difference_by_user(average: Any) -> None:
    """Interval and test are those of as many computations by scikit-learn."""

    def difference(target: Any, models: Any) -> float:
        return f1(target, models["b"], average) - f1(target, models["a"], average)

    target, models, users = sample(0.5, 0.6, users=6)
    models["a"][models["a"][:, 0] != target] += LOCATIONS  # which are no targets
    own = {"own": LocationF1(2 * LOCATIONS, average)}
    one = compare(target, models, users, metrics=own).comparisons["b"]["own"]
    assert one.difference == pytest.approx(difference(target, models))
    names, sizes = np.unique(users, return_counts=True)
    apart = []
    for kept in [users != user for user in names]:
        others = difference(target[kept], {name: x[kept] for name, x in models.items()})
        apart.append((one.difference - others) * kept.sum())
    total, off = len(target), np.array(apart) - np.sum(apart) * sizes / len(target)
    error = math.sqrt((len(names) - 1) / len(names) * sum((off / (total - sizes)) ** 2))
    assert one.standard_error == pytest.approx(error)
    freedom = 1 / sum((sizes / total) ** 2) - 1
    half = scipy.stats.t.ppf(0.975, freedom) * error
    if average == "weighted":  # the other, of a larger variance at its end, is wider
        assert (one.low, one.high) == pytest.approx((one.difference - half, one.difference + half))
    exchanged = []
    for way in product([False, True], repeat=len(names)):
        is_other = np.array(way)[np.searchsorted(names, users)][:, None]
        a, b = models["a"], models["b"]
        both = {"a": np.where(is_other, b, a), "b": np.where(is_other, a, b)}
        exchanged.append(abs(difference(target, both)))
    assert one.p_value == np.mean(np.array(exchanged) >= abs(one.difference) - 1e-9)
    assert (one.p_from, one.num_queries) == ("exact", total)
    right = {name: x[:, 0] == target for name, x in models.items()}
    assert one.wins == (right["b"] & ~right["a"]).sum()
    assert one.losses == (right["a"] & ~right["b"]).sum()


def test_f1_is_in_families_letters_and_tables() -> None:
    """Holm's family counts it, the best is bold, and papers' tables have its interval."""
    target, models, users = sample(0.3, 0.85, 0.9, users=30)
    found = compare(target, models, users, against="all")
    assert set(found.num_tests.values()) == {3}  # the pairs
    assert [of["f1"] for of in found.letters.values()] == ["b", "a", "a"]
    low, high = found.columns["c"]["f1"].bounds or (0.0, 0.0)
    assert f"({100 * low:.2f}-{100 * high:.2f})" in str(found.by_model(metrics=["f1"]))
    best = max("abc", key=lambda name: found.values[name]["f1"])
    assert found.by_model(metrics=["f1"]).bold == {("abc".index(best), 1)}
    assert f"{100 * low:.2f}--{100 * high:.2f}" in found.to_latex("models", metrics=["f1"])
    first = compare(target, models, users)
    assert first.corrected["b"]["f1"] == pytest.approx(0.0004, abs=4e-4)
    assert set(first.num_tests.values()) == {4}
    assert first.comparisons == compare(target, models, users).comparisons  # an effect size is NaN
    assert first.comparisons != compare(target, models, users[::-1]).comparisons


def test_p_of_exchanges_counts_the_observed_one() -> None:
    """No random exchange of 40 users is as far as always wrong against always right."""
    target, models, users = sample(0, 1, users=40)
    models["a"] = (target[:, None] + 1) % LOCATIONS
    one = compare(target, models, users).comparisons["b"]["f1"]
    assert (one.difference, one.p_from) == (1.0, "draws")
    assert one.p_value < 1 / 10_000


def test_one_user_is_not_tested() -> None:
    """There is nothing to exchange."""
    target, models, users = sample(0.3, 0.8)
    assert math.isnan(compare(target, models, users * 0).comparisons["b"]["f1"].p_value)


def test_equal_answers_do_not_show_equal_models() -> None:
    """The interval of no difference has a width."""
    target, models, users = sample(0.8)
    found = compare(target, {"a": models["a"], "b": models["a"]}, users)
    one = found.comparisons["b"]["f1"]
    assert (one.difference, one.p_value) == (0.0, 1.0)
    assert one.low == -one.high < 0


def test_several_runs_vary_the_interval() -> None:
    """The value is the mean of the runs, whose order does not matter; p is Student's t."""
    target, models, users = sample(0.5, 0.55, 0.6, users=30)
    runs = [models["b"], models["c"]]
    found = compare(target, {"a": models["a"], "b": runs}, users)
    turned = compare(target, {"a": models["a"], "b": runs[::-1]}, users)
    one, alone = (
        found.comparisons["b"]["f1"],
        compare(target, {"a": models["a"], "b": runs[0]}, users).comparisons["b"]["f1"],
    )
    values = [f1(target, x) for x in runs]
    assert found.values["b"]["f1"] == pytest.approx(np.mean(values))
    assert one.difference == pytest.approx(np.mean(values) - f1(target, models["a"]))
    assert one.p_from == "t"
    assert turned.comparisons["b"]["f1"].low == one.low
    assert one.degrees_of_freedom != alone.degrees_of_freedom
    low, high = found.columns["b"]["f1"].bounds or (1.0, 0.0)
    assert low < np.mean(values) < high


def test_too_long_tests_are_students(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where exchanges would take too long, p is that of the jackknife's standard error."""
    target, models, users = sample(0.5, 0.6, users=40)
    exchanged = compare(target, models, users)
    monkeypatch.setattr("nextloc_metrics.analysis.f1_intervals._MOST_WORK", 0)
    found = compare(target, models, users)
    usual, one = (x.comparisons["b"]["f1"] for x in (exchanged, found))
    t = one.difference / one.standard_error
    assert one.p_value == pytest.approx(2 * scipy.stats.t.sf(abs(t), one.degrees_of_freedom))
    assert (usual.p_from, one.p_from) == ("draws", "t")
    assert one.p_value == pytest.approx(usual.p_value, abs=0.03)
    assert exchanged.card["p"].endswith("random exchanges for f1)")
    ending = "permutation test and Student's t test for f1"
    assert ending in found.table.notes[0]
    for text in (found.card["p"], found.to_latex("models")):
        assert "permutation test (all signs) and Student's t test for f1" in text
    several = report.compare({"a": [models["a"]] * 2, "b": [models["b"]] * 2}, target, k=1)
    assert several.card["p"] == "two-sided Student's t test"
