"""Steps ahead: by step without an index of one's own, and whether all of a sequence is right."""

from __future__ import annotations

import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics import MetricCollection

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    LocationRecall,
    Ranking,
    RankingCollection,
    SequenceAccuracy,
)
from oracles import decisions
from strategies import DIRTY, same

# By step -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 4), (3, 2, 4)])
def test_steps_are_numbered_by_the_last_dimension(shape: tuple[int, ...]) -> None:
    """Groups by step equal groups by a given index, in update, forward and a collection."""
    generator = torch.Generator().manual_seed(0)
    preds = torch.randint(4, (*shape, 6), generator=generator).float()
    target = torch.randint(6, shape, generator=generator)
    mask = torch.rand(shape, generator=generator) < 0.8
    step = torch.arange(4).expand(shape)
    users = torch.randint(3, shape, generator=generator)
    expected = Grouped(MRR(), 4)
    expected.update(preds, target, mask, groups=step)
    for groups in (None, {"step": step}, {"user": users}, step):
        metric = Grouped(MRR(), 4, by="step")
        metric.update(preds, target, mask, groups=groups)
        assert torch.equal(metric.state, expected.state)
    assert same(Grouped(MRR(), 4, by="step")(preds, target, mask), expected.compute())
    members = {"step": Grouped(MRR(), 4, by="step"), "user": Grouped(MRR(), 3, by="user")}
    together = RankingCollection(members)
    together.update(preds, target, mask, groups={"user": users})
    assert torch.equal(together["step"].state, expected.state)
    assert int(together["user"].num_queries.sum()) == int(mask.sum())
    plain = RankingCollection({"step": Grouped(MRR(), 4, by="step"), "all": MRR()})
    plain.update(preds, target)
    assert torch.equal(plain["step"].state.sum(0), plain["all"].state)
    for one in range(4):  # a step alone
        alone = MRR()
        alone.update(preds[..., one, :], target[..., one], mask[..., one])
        assert torch.equal(alone.state, expected.state[one])


def test_steps_need_a_second_dimension() -> None:
    """One-dimensional queries have no steps; the number of steps must fit."""
    metric = Grouped(MRR(), 4, by="step")
    with pytest.raises(ValueError, match=r"\[N, T, C\].*grouped by step, got queries.*\(2,\)"):
        metric.update(torch.rand(2, 3), torch.tensor([0, 1]))
    ranking = Ranking.from_scores(torch.rand(2, 4, 3), torch.zeros(2, 4, dtype=torch.long))
    metric.update(ranking)
    with pytest.raises(ValueError, match=r"got queries of shape \(8,\)"):
        metric.update(ranking[:])
    with pytest.raises(ValueError, match="`groups` must be from 0 to 2, got 3"):
        Grouped(MRR(), 3, by="step").update(ranking)
    assert int(metric.num_queries.sum()) == 8


# Whole sequences ---------------------------------------------------------------------------------


@given(st.data(), st.sampled_from([None, 1, 2, 3, 9]), st.sampled_from([None, 0]))
def test_sequences_are_judged_as_in_loops(
    data: st.DataObject, first: int | None, ignored: int | None
) -> None:
    """With ties, NaN, steps and whole sequences left out; the same state from any batches."""
    n, t, c = 4, 3, 3
    scores = data.draw(st.lists(DIRTY, min_size=n * t * c, max_size=n * t * c))
    ids = data.draw(st.lists(st.integers(0, c - 1), min_size=n * t, max_size=n * t))
    counted = data.draw(st.lists(st.booleans(), min_size=n * t, max_size=n * t))
    preds, target = torch.tensor(scores).view(n, t, c), torch.tensor(ids).view(n, t)
    mask = torch.tensor(counted).view(n, t)
    metric = SequenceAccuracy(first, ignore_index=ignored)
    metric.update(preds, target, mask)
    right = decisions.right_sequences(preds, target, mask, first, ignored)
    assert metric.num_queries == len(right)
    expected = sum(right) / len(right) if right else math.nan
    assert float(metric.compute()) == pytest.approx(expected, nan_ok=True)
    parts = SequenceAccuracy(first, ignore_index=ignored)
    for rows in ([3, 1], [0], [2]):
        parts.update(preds[rows], target[rows], mask[rows])
    assert torch.equal(parts.state, metric.state)
    step = SequenceAccuracy(first=1)
    step.update(preds[:, :1], target[:, :1], mask[:, :1])
    recall = LocationRecall(c, average="micro")  # the accuracy of the decisions
    recall.update(preds[:, 0], target[:, 0], mask[:, 0])
    assert same(step.compute(), recall.compute())


def test_by_hand() -> None:
    """Three right, two and then a wrong one, a short one, and one that is left out."""
    lists = torch.tensor([[0, 1, 2], [0, 1, 9], [5, -1, -1], [3, 3, 3]])[..., None]
    target = torch.tensor([[0, 1, 2], [0, 1, 2], [5, 4, 4], [0, 0, 0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 0, 0], [0, 0, 0]], dtype=torch.bool)
    values = {first: SequenceAccuracy(first)(lists, target, mask) for first in (None, 1, 2, 3, 4)}
    assert {k: round(float(v), 6) for k, v in values.items()} == {
        None: round(2 / 3, 6), 1: 1, 2: 1, 3: round(2 / 3, 6), 4: round(2 / 3, 6)
    }  # fmt: skip
    assert SequenceAccuracy()(lists, target, torch.ones_like(mask)) == 0.25
    several = torch.tensor([[[5, 0], [1, -1], [-1, -1]]])  # any is right; no location, no step
    assert SequenceAccuracy()(lists[:1], several) == 1


def test_a_metric_like_any_other() -> None:
    """It has an interval, can be copied and merged, and is a member of collections."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(3, (200, 2), generator=generator)
    preds = torch.eye(3)[target]
    preds[:60] = 0.0  # decides for 0
    metric = SequenceAccuracy()
    metric.update(preds, target)
    as_hits = AccuracyAtK(1)  # the same share of hits, of 200 queries
    hits = int(metric.state[0] >> 32)
    is_miss = (torch.arange(200) >= hits).long()
    as_hits.update(torch.tensor([[0, 1]]).expand(200, 2), is_miss)
    assert torch.equal(metric.state, as_hits.state)
    assert same(torch.stack(metric.interval()), torch.stack(as_hits.interval()))
    assert 140 <= hits < 160
    for one in (pickle.loads(pickle.dumps(metric)), metric.clone()):
        assert same(one.compute(), metric.compute())
        one.merge_state(metric)
        assert one.num_queries == 400
        one.reset()
        assert math.isnan(one(preds[:0], target[:0]))
    members = {"all": SequenceAccuracy(), "one": SequenceAccuracy(1), "acc": AccuracyAtK(1)}
    for together in (RankingCollection(members), MetricCollection(members)):
        together.reset()
        together.update(preds, target)
        together.update(preds, target)
        found = together.compute()
        assert same(found["all"], metric.compute())
        assert found["one"] > found["all"]
    assert repr(SequenceAccuracy(2)) == "SequenceAccuracy(first=2)"
    assert SequenceAccuracy().label == "Sequence accuracy"
    assert SequenceAccuracy(2).label == "Sequence accuracy, first 2"
