"""How much the exact sums hold, and that an error beyond loses nothing of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from nextloc_metrics import (
    AURC,
    MRR,
    AccuracyAtK,
    CalibrationError,
    F1AtK,
    Grouped,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    RankingMetric,
    RecallAtK,
)
from strategies import Case

SCORES = torch.tensor([[0.9, 0.8, 0.1, 0.0]])
MOST = 2**31

COUNTING_QUERIES = [
    Case("AccuracyAtK", {"k": 2}),
    Case("MRR"),
    Case("NDCGAtK", {"k": 2}),
    Case("MAPAtK", {"k": 2}),
    Case("PrecisionAtK", {"k": 2}),
    Case("RecallAtK", {"k": 2}),
    Case("F1AtK", {"k": 2}),
    Case("F1AtK", {"k": 2, "average": "pooled"}),
]


def doubled(metric: Any, times: int) -> Any:
    """The metric as if it were updated 2^times as often."""
    for _ in range(times):
        metric.merge_state(metric.metric_state)
    return metric


@pytest.mark.parametrize("case", COUNTING_QUERIES, ids=str)
def test_two_to_the_31_queries_are_counted_and_more_are_an_error(case: Case) -> None:
    """The value of the most queries that fit is exact; one more raises and changes nothing."""
    metric: Any = case.make()
    target = torch.tensor([[0, 1]])
    expected = metric(SCORES, target)
    assert float(expected) == pytest.approx(1.0)
    doubled(metric, 31)
    assert metric.num_queries == MOST
    assert float(metric.compute()) == float(expected)
    metric.update(SCORES, target)
    state = metric.state.clone()
    with pytest.raises(OverflowError, match=rf"at most 2\^31.*got {MOST + 1}.*reset"):
        metric.compute()
    if metric._averages_scores:
        for estimate in (metric.interval, metric.standard_error):
            with pytest.raises(OverflowError, match=r"at most 2\^31"):
                estimate()
    assert torch.equal(metric.state, state)
    metric.reset()
    assert float(metric(SCORES, target)) == float(expected)


def test_a_group_counts_as_many() -> None:
    """The bound is that of each group."""
    metric: Any = Grouped(MRR(), num_groups=2)
    metric.update(SCORES, torch.tensor([1]), None, torch.tensor([1]))
    doubled(metric, 31)
    assert float(metric.compute()[1]) == 0.5
    metric.update(SCORES, torch.tensor([1]), None, torch.tensor([0]))
    assert metric.compute().tolist() == [0.5, 0.5]
    metric.update(SCORES, torch.tensor([1]), None, torch.tensor([1]))
    with pytest.raises(OverflowError, match=r"2\^31"):
        metric.compute()


@pytest.mark.parametrize(
    ("metric", "read", "expected"),
    [
        (CalibrationError(given="logits"), lambda x: x.compute(), 0.0),
        (AURC(given="logits"), lambda x: x.compute(), 0.0),
        (CalibrationError(given="logits"), lambda x: x.reliability().accuracy[-1], 1.0),
    ],
)
def test_histograms_count_as_many(metric: Any, read: Any, expected: Any) -> None:
    """All in one cell: the value of 2^31 queries is right, and of more an error, up to 2^33."""
    metric = metric.clone()
    metric.update(torch.tensor([[1e3, 0.0, 0.0, 0.0]]), torch.tensor([0]))
    doubled(metric, 31)
    assert metric.num_queries == MOST
    assert read(metric).tolist() == expected
    for _ in range(2):
        doubled(metric, 1)
        with pytest.raises(OverflowError, match=r"at most 2\^31"):
            read(metric)


@pytest.mark.parametrize("way", ["update", "forward"])
@pytest.mark.parametrize("k", [10**6, 2**31, 2**62, 10**20])
def test_pooled_f1_of_a_large_k(k: int, way: str) -> None:
    """Thousands of queries times a large k are no more than thousands of queries."""
    f1: Any = F1AtK(k, average="pooled")
    scores, target = SCORES.expand(2200, -1), torch.tensor([[0, 2, -1]]).expand(2200, -1)
    value = f1(scores, target) if way == "forward" else f1.update(scores, target)
    expected = 2 * 2 / (k + 2)
    if way == "forward":
        assert float(value) == pytest.approx(expected, rel=1e-6)
    f1.update(scores, target)
    assert float(f1.compute()) == pytest.approx(expected, rel=1e-6)
    assert f1.num_queries == 4400


def test_pooled_f1_of_more_hits_than_queries_fit() -> None:
    """Billions of hits, thirds of one among them, are counted exactly."""
    f1: Any = F1AtK(2, average="pooled")
    scores = torch.tensor([[1.0, 1, 1, 0], [3, 2, 1, 0]])  # 2 of 3 tied ones, and 2 of 4
    f1.update(scores, torch.tensor([[0, 1, -1, -1], [0, 1, 2, 3]]))
    doubled(f1, 30)
    hits = Fraction(4, 3) + 2
    expected = 2 * hits / (2 * 2 + 2 + 4)
    assert f1.num_queries * hits / 2 > MOST
    assert float(f1.compute()) == pytest.approx(float(expected), rel=1e-7)
    whole, _, _, part = f1.state.tolist()
    assert whole * 2**32 + part == 2**30 * sum(round(x * 2**32) for x in (Fraction(4, 3), 2))


def test_pooled_f1_of_fewer_relevant_locations_than_were_hit() -> None:
    """A Ranking of impossible numbers raises; unchecked, there are no more hits than relevant."""
    ranking = Ranking.from_scores(SCORES, torch.tensor([[0, 1]]))
    ranking.num_relevant = torch.tensor([1])
    checked: Any = F1AtK(2, average="pooled")
    with pytest.raises(ValueError, match=r"in \[0, 1\], got 2\.0"):
        checked.update(ranking)
    assert checked.num_queries == 0
    unchecked: Any = F1AtK(2, average="pooled", validate_args=False)
    unchecked.update(ranking)
    assert float(unchecked.compute()) == pytest.approx(2 * 1 / (2 + 1))


class Fails(MRR):
    """A value that cannot be computed of three queries."""

    def compute(self) -> Tensor:
        """Raise for three queries."""
        if self.num_queries == 3:
            raise ArithmeticError("three")
        return super().compute()


def test_an_error_of_compute_in_forward_loses_no_state() -> None:
    """The queries counted before stay, those of the batch are not added, and counting goes on."""
    metric: Any = Fails()
    three = SCORES.expand(3, -1), torch.tensor([0, 1, 2])
    metric(SCORES, torch.tensor([1]))
    with pytest.raises(ArithmeticError, match="three"):
        metric(*three)
    assert metric.num_queries == 1
    assert float(metric.compute()) == 0.5
    assert float(metric(SCORES, torch.tensor([0]))) == 1
    assert float(metric.compute()) == 0.75
    metric.update(*three)
    assert metric.num_queries == 5


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_error_of_a_member_in_forward_changes_no_member(position: int) -> None:
    """Members before and after the one that fails stay as they are."""
    members: list[tuple[str, RankingMetric]] = [
        ("hit", AccuracyAtK(1)),
        ("f1", F1AtK(2, average="pooled")),
        ("ndcg", NDCGAtK(2)),
        ("recall", RecallAtK(1)),  # shares no state, and comes in a group of its own
    ]
    members.insert(position, ("fails", Fails()))
    metrics = RankingCollection(dict(members))
    metrics.update(SCORES, torch.tensor([1]))
    metrics.update(SCORES, torch.tensor([0]))
    before = {name: member.state.clone() for name, member in members}
    with pytest.raises(ArithmeticError, match="three"):
        metrics(SCORES.expand(3, -1), torch.tensor([0, 1, 2]))
    for name, member in members:
        assert torch.equal(member.state, before[name]), name
    metrics.update(SCORES, torch.tensor([1]))
    metrics.update(SCORES, torch.tensor([1]))
    assert {member.num_queries for _, member in members} == {4}


@pytest.mark.parametrize("metric", [Fails, MAPAtK, PrecisionAtK])
def test_an_error_of_compute_leaves_the_state_of_this_process(metric: Any) -> None:
    """Sums over processes that are too large, or fail otherwise, are not kept in their place."""
    options = {"distributed_available_fn": lambda: True, "dist_sync_fn": gathered_from_three}
    one = metric(**options) if metric is Fails else metric(2, **options)
    one.update(SCORES, torch.tensor([1]))
    if metric is not Fails:
        doubled(one, 30)  # three times as many do not fit
    state = one.state.clone()
    for _ in range(2):
        with pytest.raises(ArithmeticError):
            one.compute()
        assert torch.equal(one.state, state)
    one.update(SCORES, torch.tensor([1]))
    assert one.num_queries == int(state[2]) + 1


def gathered_from_three(state: Tensor, group: Any = None) -> list[Tensor]:
    """The states of three processes that counted the same."""
    return [state] * 3
