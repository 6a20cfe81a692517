"""What the card says where an interval claims more than the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from nextloc_metrics import report
from nextloc_metrics.core.base.grouped import Grouped
from nextloc_metrics.metrics.at_k import AccuracyAtK


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
    """6 or 9 of 30 users have hits; with hits in 10 the card says nothing."""
    users = [i for i in range(30) for _ in range(10)]
    for number in (6, 9, 10):
        target = [1 if user < number else 0 for user in users]
        e = report.evaluate(
            [[1]] * 300, target, k=1, groups={"user": users}, cluster="user", num_locations=3
        )
        said = e.card.get("interval_of_acc_at_1")
        text = f"hits in {number} of 30 users: too few for this interval"
        assert said == (text if number < 10 else None)
