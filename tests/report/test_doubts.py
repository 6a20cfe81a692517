"""What the card says where an interval claims more than the data."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from nextloc_metrics import AccuracyAtK, Grouped, report


def test_the_card_compares_standard_errors_by_query_and_by_group() -> None:
    """20 users who are always right or always wrong; by day, and with 19 users, nothing is said."""
    users, target = [x for x in range(20) for _ in range(10)], [1] * 100 + [0] * 100
    groups = {"user": users, "day": ["mon", "tue"] * 100}
    e = report.evaluate([[1]] * 200, target, k=1, groups=groups, num_locations=3)
    sums, plain = Grouped(AccuracyAtK(1), 20, average="queries"), AccuracyAtK(1)
    sums.update([[1]] * 200, target, groups=users)
    plain.update([[1]] * 200, target)
    ratio = float(sums.standard_error() / plain.standard_error())
    assert f"{ratio:.1f} times too narrow for other users" in e.card["interval_by_user"]
    assert "name user as the cluster" in e.card["interval_by_user"]
    assert "interval_by_day" not in e.card
    by_user = report.evaluate(
        [[1]] * 200, target, k=1, groups=groups, num_locations=3, cluster="user"
    )
    assert "interval_by_user" not in by_user.card
    fewer = {"user": users[10:]}
    e = report.evaluate([[1]] * 190, target[10:], k=1, groups=fewer, num_locations=3)
    assert "interval_by_user" not in e.card


def count_doubts(seeds: int, kinds: Sequence[str], differ: bool) -> Counter[str]:
    """Count evaluations with a note by kind, "24 zipf" for 24 groups of sizes 1, 1/2, 1/3 ..."""
    rng, found = np.random.default_rng(0), Counter[str]()
    for _ in range(seeds):
        groups = {}
        for kind in kinds:
            number, sizes = kind.split()
            shares = 1 / np.arange(1, int(number) + 1) ** (sizes == "zipf")
            groups[kind] = rng.choice(int(number), 1000, p=shares / shares.sum())
        accuracy = rng.beta(2, 3, 40)[groups[kinds[0]]] if differ else 0.4
        target = np.where(rng.random(1000) < accuracy, 0, rng.integers(1, 12, 1000))
        lists = np.tile(np.arange(10), (1000, 1))
        e = report.evaluate(lists, target, k=(1, 5), groups=groups, num_locations=12)
        found.update(kind for kind in kinds if f"interval_by_{kind}" in e.card)
    return found


@pytest.mark.slow
def test_the_card_doubts_no_interval_where_groups_have_no_effect() -> None:
    """At most 2 of 100 evaluations of independent ranks have the note, for each kind of groups."""
    kinds = [f"{number} {sizes}" for number in (2, 3, 24, 40) for sizes in ("equal", "zipf")]
    assert max([0, *count_doubts(100, kinds, differ=False).values()]) <= 2


@pytest.mark.parametrize("kind", ["24 equal", "40 zipf"])
def test_the_card_doubts_intervals_where_users_differ(kind: str) -> None:
    """With accuracies of 40 % and a standard deviation of 20 %, at least 19 of 20 have the note."""
    assert count_doubts(20, [kind], differ=True)[kind] >= 19


def test_the_card_says_why_perplexity_has_no_interval_by_user() -> None:
    """Its row is blank with a cluster, and only there."""
    scores, target, users = torch.eye(40), torch.arange(40), {"user": np.arange(40) % 8}
    plain = report.evaluate(scores, target, given="logits", groups=users)
    assert "perplexity" in plain.intervals
    assert "interval_of_perplexity" not in plain.card
    e = report.evaluate(scores, target, given="logits", groups=users, cluster="user")
    assert "perplexity" not in e.intervals
    assert e.card["interval_of_perplexity"] == "none by user: it is no mean of scores"
    assert [x for x in e.card if x.startswith("interval_of")] == ["interval_of_perplexity"]


def test_the_card_says_that_few_users_have_the_hits() -> None:
    """3, 6 or 9 of 30 users have hits; with hits in 10 the card says nothing."""
    users = [i for i in range(30) for _ in range(10)]
    for number in (3, 6, 9, 10):
        target = [1 if user < number else 0 for user in users]
        e = report.evaluate(
            [[1]] * 300, target, k=1, groups={"user": users}, cluster="user", num_locations=3
        )
        said = e.card.get("interval_of_acc_at_1")
        text = f"hits in {number} of 30 users: too few for this interval"
        assert said == (text if number < 10 else None)


def of_few_users(number: int, is_miss: bool, **options: Any) -> report.Evaluation:
    """200 queries of 20 users in two cities, of whom the first ones have one hit each, or miss."""
    users = np.repeat(np.arange(20), 10)
    has_one = (users < number) & (np.arange(200) % 10 == 0)
    groups = {"user": users, "city": np.where(users < 10, "Bern", "Oslo")}
    options = {"k": 1, "num_locations": 3, "groups": groups, "cluster": "user", **options}
    return report.evaluate([[1]] * 200, np.where(has_one == is_miss, 2, 1), **options)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("is_miss", [False, True])
def test_hits_of_fewer_than_three_users(number: int, is_miss: bool) -> None:
    """Only one end of the interval is known, and none of F1: the card and a dash say so."""
    e, of, end = of_few_users(number, is_miss), "misses", "a lower"
    if not is_miss:
        of, end = "hits", "an upper"
    share = f"{of} in {number} of 20 users"
    text = f"{share}: only {end} end, from the exact interval of their share"
    assert e.card["interval_of_acc_at_1"] == text
    most = scipy.stats.beta.ppf(0.975, number + 1, 20 - number)
    expected = (1 - most, 1) if is_miss else (0, most)
    assert e.intervals["acc_at_1"] == pytest.approx(expected, abs=1e-6)
    assert e.card["interval_of_f1"] == f"none: {share}"
    assert np.isnan(e.intervals["f1"]).all()
    assert ("f1", "-") in {(row[0], row[2]) for row in e.table.rows}
    record = json.loads(e.table.to_json())["f1"]
    assert record["low"] is record["high"] is None


def test_the_groups_of_few_users_with_a_hit_have_exact_ends() -> None:
    """In Bern 2 of 10 users have a hit, in Oslo none, which has the interval of users all alike."""
    rows = {str(x["metric"]): x for x in of_few_users(2, False).groups["city"].records}
    most = scipy.stats.beta.ppf(0.975, 3, 8)
    bern, oslo = (rows[f"acc_at_1, {city}"] for city in ("Bern", "Oslo"))
    assert (bern["low"], bern["high"]) == pytest.approx((0, most), abs=1e-6)
    squared = scipy.stats.t.ppf(0.975, 9) ** 2
    assert (oslo["low"], oslo["high"]) == pytest.approx((0, squared / (10 + squared)), abs=1e-6)


def test_few_users_with_a_hit_in_saved_and_compared_evaluations(tmp_path: Path) -> None:
    """A saved one has the same intervals; a difference of F1 without an interval has no row."""
    first, second = of_few_users(2, False), of_few_users(6, False)
    first.save(tmp_path / "a.npz")
    again = report.merge([tmp_path / "a.npz"])
    assert again.intervals["acc_at_1"] == first.intervals["acc_at_1"]
    assert again.card == first.card
    found = report.compare({"a": first, "b": second}).comparisons["b"]
    assert "f1" not in found
    assert found["acc_at_1"].low < 0 < found["acc_at_1"].high


@pytest.mark.parametrize("runs", [1, 2])
def test_few_users_with_a_hit_in_a_comparison(runs: int) -> None:
    """The accuracy has the exact end, and F1 a dash; a note says why."""
    users, models = np.repeat(np.arange(20), 10), dict[str, Any]()
    for name, number in (("few", 2), ("many", 20)):
        has_one = (users < number) & (np.arange(200) % 10 == 0)
        model = np.where(has_one, 1, 2)[:, None]
        models[name] = model if runs == 1 else [model] * runs
    target = np.where(np.arange(200) % 10 == 1, 0, 1)
    found = report.compare(models, target, k=1, users=users, num_locations=3)
    few, many = (found.columns[name] for name in models)
    most = scipy.stats.beta.ppf(0.975, 3, 18)
    assert few["acc_at_1"].bounds == pytest.approx((0, most), abs=1e-6)
    assert np.isnan(few["f1"].bounds or 0).all()
    assert not np.isnan(many["f1"].bounds or math.nan).any()
    text = str(found.by_model())
    assert "(-)" in text
    assert "- fewer than three groups have a hit, or a miss: no interval of f1" in text
    assert "fewer than three" not in str(found.by_model(spread="none"))
