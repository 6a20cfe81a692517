"""What the card says where an interval claims more than the data."""

from __future__ import annotations

from nextloc_metrics import report
from nextloc_metrics.core.metric.grouped import Grouped
from nextloc_metrics.metrics.at_k import AccuracyAtK


def test_the_card_compares_standard_errors_by_query_and_by_group() -> None:
    """Users who are always right or always wrong; by day nothing is missing."""
    users, target = [x for x in "abcdefgh" for _ in range(10)], [1] * 40 + [0] * 40
    groups = {"user": users, "day": ["mon", "tue"] * 40}
    e = report.evaluate([[1]] * 80, target, k=1, groups=groups, num_locations=3)
    sums, plain = Grouped(AccuracyAtK(1), 8, average="queries"), AccuracyAtK(1)
    sums.update([[1]] * 80, target, groups=["abcdefgh".index(x) for x in users])
    plain.update([[1]] * 80, target)
    ratio = float(sums.standard_error() / plain.standard_error())
    assert f"{ratio:.1f} times too narrow for other users" in e.card["interval_by_user"]
    assert "name user as the cluster" in e.card["interval_by_user"]
    assert "interval_by_day" not in e.card
    by_user = report.evaluate(
        [[1]] * 80, target, k=1, groups=groups, num_locations=3, cluster="user"
    )
    assert "interval_by_user" not in by_user.card


def test_the_card_says_that_few_users_have_the_hits() -> None:
    """6 of 30 users have hits; with hits in 15 the card says nothing."""
    users = [i for i in range(30) for _ in range(10)]
    for number in (6, 15):
        target = [1 if user < number else 0 for user in users]
        e = report.evaluate(
            [[1]] * 300, target, k=1, groups={"user": users}, cluster="user", num_locations=3
        )
        said = e.card.get("interval_of_acc_at_1")
        assert said == ("hits in 6 of 30 users: too few for this interval" if number == 6 else None)
