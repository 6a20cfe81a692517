"""How much the exact sums hold, and that an error beyond loses nothing of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from metric_entries import FORMULAS
from metric_tester import Case
from nextloc_metrics import (
    AURC,
    MRR,
    AccuracyAtK,
    CalibrationError,
    Grouped,
    LocationF1,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    RankingCollection,
    RecallAtK,
)

SCORES = torch.tensor([[0.9, 0.8, 0.1, 0.0]])
MOST = 2**31

#: of two relevant locations on the first two ranks, each scores 1
COUNTING_QUERIES = [Case(entry, {"k": 2}) for entry in FORMULAS]


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
    if metric.has_interval:
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
    members: list[tuple[str, Any]] = [
        ("hit", AccuracyAtK(1)),
        ("f1", LocationF1(4)),
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
