"""Per-query scores: what they keep, and that they behave as a TorchMetrics metric."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    LocationF1,
    MAPAtK,
    NDCGAtK,
    PerQueryScores,
    Ranking,
    RecallAtK,
    functional,
)
from strategies import batch


def scores_by_id(metric: PerQueryScores) -> dict[int, float]:
    """Scores by id."""
    ids, scores = metric.compute()
    assert ids.dtype == torch.int64
    assert scores.dtype == torch.float64
    assert ids.reshape(-1).tolist() == sorted(set(ids.reshape(-1).tolist()))
    return dict(zip(ids.reshape(-1).tolist(), scores.reshape(-1).tolist(), strict=True))


@pytest.mark.parametrize(
    ("metric", "function", "options"),
    [
        (MRR(), "mrr", {}),
        (AccuracyAtK(2), "accuracy_at_k", {"k": 2}),
        (NDCGAtK(3), "ndcg_at_k", {"k": 3}),
        (MAPAtK(3, ties="pessimistic"), "map_at_k", {"k": 3, "ties": "pessimistic"}),
        (RecallAtK(2, normalized=True), "recall_at_k", {"k": 2, "normalized": True}),
    ],
    ids=repr,
)
def test_scores_are_those_of_the_functions(metric: Any, function: str, options: Any) -> None:
    """In any order and batches, by id, equal to `reduction="none"` up to the fixed point."""
    preds, target = batch(25)
    ids = torch.randperm(10**6)[:25] * 10**12
    by_query = PerQueryScores(metric)
    for rows in torch.randperm(25).split(6):
        by_query.update(preds[rows], target[rows], query_ids=ids[rows])
    each = getattr(functional, function)(preds, target, reduction="none", **options)
    expected = dict(zip(ids.tolist(), each.tolist(), strict=True))
    assert scores_by_id(by_query) == pytest.approx(expected, abs=1e-7)
    assert by_query.num_queries == 25
    assert metric.num_queries == 0


def test_what_is_left_out_has_no_score() -> None:
    """Queries left out by mask or `ignore_index`, or without a target, have no score."""
    preds = torch.rand(6, 5)
    target = torch.tensor([[1, -1], [2, 3], [-1, -1], [0, -1], [4, 0], [0, 3]])
    mask = torch.tensor([True, True, True, True, False, True])
    ids = torch.tensor([10, 11, 12, 13, 10, 15])
    by_query = PerQueryScores(MRR(ignore_index=0))
    by_query.update(preds, target, mask, query_ids=ids)
    assert list(scores_by_id(by_query)) == [10, 11, 15]
    counting = PerQueryScores(MRR(empty_target_action="neg"))
    counting.update(preds, target, mask, query_ids=ids)
    assert scores_by_id(counting)[12] == 0.0


def test_sequences_have_ids_in_their_shape() -> None:
    """`[B, T]` queries have `[B, T]` ids."""
    by_query = PerQueryScores(MRR())
    ids = torch.arange(6).view(2, 3)
    by_query.update(torch.rand(2, 3, 4), torch.zeros(2, 3).long(), query_ids=ids)
    assert len(scores_by_id(by_query)) == 6


def test_an_id_counts_once() -> None:
    """A repeat with the same score is one query, in one batch and in several."""
    lists, target = torch.tensor([[0, 1], [1, 0], [0, 1]]), torch.tensor([0, 0, 0])
    by_query = PerQueryScores(MRR())
    for _ in range(2):
        by_query.update(lists, target, query_ids=torch.tensor([3, 4, 3]))
    assert scores_by_id(by_query) == {3: 1.0, 4: 0.5}


def test_an_id_with_two_scores_is_an_error() -> None:
    """Two scores with one id raise, in `update` before the state changes, or in `compute`."""
    lists = torch.tensor([[0, 1], [1, 0]])
    by_query = PerQueryScores(MRR())
    message = r"`query_ids` must name each query once, got id 3 with the scores 0\.5 and 1\.0"
    for add in (by_query.update, by_query):
        with pytest.raises(ValueError, match=message):
            add(lists, torch.tensor([0, 0]), query_ids=torch.tensor([3, 3]))
    assert by_query.num_queries == 0
    by_query.update(lists[:1], torch.tensor([0]), query_ids=torch.tensor([3]))
    by_query.update(lists[1:], torch.tensor([0]), query_ids=torch.tensor([3]))
    for _ in range(2):  # and again, not an error of another kind
        with pytest.raises(ValueError, match=message):
            by_query.compute()


def test_metrics_that_have_no_scores() -> None:
    """A metric that is not a mean of scores is an error."""
    for metric in (LocationF1(3), AccuracyAtK):
        with pytest.raises(TypeError, match="`metric` must be"):
            PerQueryScores(metric)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric:UserWarning")
@pytest.mark.parametrize("number", [1, 2, 6])
def test_forward_returns_the_batch_and_a_reset_keeps_nothing(number: int) -> None:
    """The scores of the batch, also of one query, which are added to the state."""
    by_query = PerQueryScores(MRR())
    assert scores_by_id(by_query) == {}
    parts = [by_query(*batch(number), query_ids=number * i + torch.arange(number)) for i in (0, 1)]
    found = by_query.compute()
    assert torch.equal(torch.cat([one.ids for one in parts]), found.ids)
    assert torch.equal(torch.cat([one.scores for one in parts]), found.scores)
    assert parts[0].ids.shape == parts[0].scores.shape == (number,)
    by_query.reset()
    assert scores_by_id(by_query) == {}


def test_collections_merge_none_that_differ() -> None:
    """Equal first states in a `MetricCollection` are not shared between different metrics."""
    metrics = MetricCollection(
        {"one": PerQueryScores(AccuracyAtK(1)), "two": PerQueryScores(AccuracyAtK(2))}
    )
    lists = torch.tensor([[0, 1, 2]])
    metrics.update(lists, torch.tensor([0]), query_ids=torch.tensor([0]))
    metrics.update(lists, torch.tensor([1]), query_ids=torch.tensor([1]))
    found = metrics.compute()
    assert found["one"].scores.tolist() == [1, 0]
    assert found["two"].scores.tolist() == [1, 1]


def test_copies_casts_and_checkpoints() -> None:
    """Copies go on by themselves, half precision changes nothing, and a checkpoint brings back."""
    preds, target = batch(9)
    by_query = PerQueryScores(MRR())
    by_query.update(preds[:5], target[:5], query_ids=torch.arange(5))
    assert by_query.state_dict() == {}
    copies = [copy.deepcopy(by_query), pickle.loads(pickle.dumps(by_query)), by_query.clone()]
    by_query.half().set_dtype(torch.half)
    by_query.persistent(True)
    resumed = PerQueryScores(MRR())
    resumed.persistent(True)
    resumed.load_state_dict(by_query.state_dict())
    for metric in (by_query, resumed, *copies):
        metric.update(preds[5:], target[5:], query_ids=torch.arange(5, 9))
    expected = functional.mrr(preds, target, reduction="none").double()
    for metric in (by_query, resumed, *copies):
        torch.testing.assert_close(metric.compute().scores, expected, rtol=0, atol=1e-7)
        assert repr(metric) == "PerQueryScores(MRR())"


def test_a_ranking_of_other_devices_or_ignored_ids() -> None:
    """What the metric itself would refuse is refused."""
    by_query = PerQueryScores(MRR(ignore_index=1))
    preds, target = batch(4)
    with pytest.raises(ValueError, match=r"`ignore_index` must be equal .* got 1"):
        by_query.update(Ranking.from_scores(preds, target), query_ids=torch.arange(4))
