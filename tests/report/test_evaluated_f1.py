"""The interval of F1 in evaluations: against scikit-learn without each user, in parts, bounded."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from nextloc_metrics import LocationF1, LocationPrecision, LocationRecall, RankingCollection, report


def sample(seed: int = 0) -> tuple[Any, Any, Any]:
    """Lists of two ids, targets and users; one user has most queries, some few."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(12), rng.integers(2, 12, 12))
    target = rng.integers(0, 6, len(users))
    best = np.where(rng.random(len(users)) < 0.6, target, rng.integers(0, 6, len(users)))
    order = rng.permutation(len(users))
    return np.stack([best, (best + 1) % 6], 1)[order], target[order], users[order]


def evaluate(rows: Any, target: Any, users: Any = None, **options: Any) -> report.Evaluation:
    """Evaluate lists, clustered where there are users."""
    if users is not None:
        options |= {"groups": {"user": users.astype(str)}, "cluster": "user"}
    return report.evaluate(rows, target, k=1, num_locations=6, **options)


def f1(target: Any, decided: Any, average: str = "weighted") -> float:
    """F1 by scikit-learn."""
    return float(sklearn.metrics.f1_score(target, decided, average=average, zero_division=0))


def interval(target: Any, decided: Any, users: Any, average: str = "weighted") -> Any:
    """The jackknife by as many computations, and Wilson's interval with its standard error."""
    value, sizes = f1(target, decided, average), np.unique(users, return_counts=True)[1]
    total, shares, number = len(target), sizes / len(target), len(sizes)
    kept = [users != user for user in np.unique(users)]
    added = [(value - f1(target[x], decided[x], average)) * x.sum() for x in kept]
    off = np.array(added) - np.sum(added) * shares
    variance = (number - 1) / number * sum((off / (total - sizes)) ** 2)
    t = scipy.stats.t.ppf(0.975, 1 / sum(shares**2) - 1)
    n = value * (1 - value) / variance
    center = (value + t * t / (2 * n)) / (1 + t * t / n)
    half = t / (1 + t * t / n) * math.sqrt(variance + t * t / (4 * n * n))
    return pytest.approx((center - half, center + half))


@pytest.mark.parametrize("by_user", [True, False])
def test_intervals_are_those_of_scikit_learn(by_user: bool) -> None:
    """By user, or by query without a cluster; a further macro F1 has its own."""
    rows, target, users = sample()
    units = users if by_user else np.arange(len(target))
    own = RankingCollection({"macro": LocationF1(6, "macro")})
    found = evaluate(rows, target, users if by_user else None, metrics=own)
    assert found.values["f1"] == pytest.approx(f1(target, rows[:, 0]))
    assert found.intervals["f1"] == interval(target, rows[:, 0], units)
    assert found.intervals["macro"] == interval(target, rows[:, 0], units, "macro")
    assert found.columns["value"]["f1"].bounds == found.intervals["f1"]


def test_which_averages_have_intervals() -> None:
    """Those whose simulated intervals hold; those of other macro means are too wide."""
    kinds = {"precision": LocationPrecision, "recall": LocationRecall, "own_f1": LocationF1}
    own = {
        f"{name}_{average}": kind(6, average)
        for name, kind in kinds.items()
        for average in ("weighted", "macro", "micro")
    }
    found = evaluate(*sample(), metrics=own)
    without = {"precision_macro", "recall_macro", *(x for x in own if x.endswith("micro"))}
    assert own.keys() - found.intervals.keys() == without
    assert found.intervals["recall_weighted"] == pytest.approx(found.intervals["acc_at_1"])


@pytest.mark.parametrize("cluster", ["user", None])
def test_parts_and_files_have_the_same_interval(cluster: str | None, tmp_path: Path) -> None:
    """Bit for bit, in any order of batches, merged, saved and read again."""
    rows, target, users = sample(1)
    whole = evaluate(rows, target, users if cluster else None)
    parts = []
    for start, end in pairwise([60, 40, 7, 0]):
        part = report.Evaluator(k=1, num_locations=6, cluster=cluster)
        for batch in (slice(end, end + 3), slice(end + 3, start if start < 60 else None)):
            groups = {"user": users[batch].astype(str)} if cluster else None
            part.update(rows[batch], target[batch], groups=groups)
        parts.append(report.Evaluator.from_bytes(part.to_bytes()))
    first, *others = parts
    for other in others:
        first.merge(other)
    assert first.result().intervals == whole.intervals
    first.result().save(tmp_path / "all.npz")
    assert report.merge([tmp_path / "all.npz"]).intervals["f1"] == whole.intervals["f1"]


#: the rows of the state above which no interval is kept
MOST = "nextloc_metrics.report.internal_metrics.FewSums.most"


@pytest.mark.parametrize("cluster", ["user", None])
def test_too_many_answers_have_no_interval(
    cluster: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the limit the state is one row, for any order of parts, and the card says it."""
    rows, target, users = sample()
    named = users if cluster else np.zeros_like(users)
    number = len(np.unique(np.stack([named, target, rows[:, 0]]), axis=1).T)
    monkeypatch.setattr(MOST, number)
    users = users if cluster else None
    full = evaluate(rows, target, users)
    assert "f1" in full.intervals
    assert "interval_of_f1" not in full.card
    monkeypatch.setattr(MOST, number - 1)
    found = evaluate(rows, target, users)
    assert found.card["interval_of_f1"] == (
        f"none: more than {number - 1} different answers by {cluster or 'query'}"
    )
    assert found.values == full.values
    assert found.intervals == {x: y for x, y in full.intervals.items() if x != "f1"}
    halves = [slice(None, 30), slice(30, None)]
    parts = [evaluate(rows[x], target[x], users if users is None else users[x]) for x in halves]
    assert "f1" in parts[0].intervals
    merged = report.merge([report.merge(parts), evaluate(rows, target, users)])
    assert "interval_of_f1" in report.merge(parts).card
    assert "interval_of_f1" in merged.card


def test_one_user_and_no_query() -> None:
    """The interval is everything, or nothing."""
    rows, target, users = sample()
    assert evaluate(rows, target, users * 0).intervals["f1"] == (0.0, 1.0)
    empty = evaluate(rows[:0], target[:0], users[:0])
    assert math.isnan(empty.values["f1"])
    assert not math.isfinite(sum(empty.intervals.get("f1", (math.nan,))))


@pytest.mark.parametrize("cluster", [None, "user"])
def test_targets_of_one_id_have_no_f1(cluster: str | None, tmp_path: Path) -> None:
    """As of sampled candidates with the target in column 0: a blank, and the reason on the card."""
    scores, target = np.random.default_rng(0).random((30, 9)), [0] * 30
    given: Any = {"k": 1, "groups": {"user": np.arange(30) % 6}, "cluster": cluster}
    e = report.evaluate(scores, target, metrics={"macro": LocationF1(9, "macro")}, **given)
    assert [x for x, y in e.values.items() if math.isnan(y)] == ["f1", "macro"]
    assert not {"f1", "macro"} & e.intervals.keys()
    assert "acc_at_1" in e.intervals
    for name in ("f1", "macro"):
        assert e.card[f"value_of_{name}"].startswith("none: all targets are one id")
    report.evaluate(scores, target, **given).save(tmp_path / "half.npz")
    assert math.isnan(report.merge([tmp_path / "half.npz"]).values["f1"])
    both = report.merge([tmp_path / "half.npz", report.evaluate(scores, [1] * 30, **given)])
    assert "value_of_f1" not in both.card
    expected = f1(np.repeat([0, 1], 30), np.tile(scores.argmax(1), 2))
    assert both.values["f1"] == pytest.approx(expected)
    assert "f1" in both.intervals
