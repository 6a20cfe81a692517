"""What a ranking holds, and that it stands for the batch that it was made of."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from metric_entries import BLOCK_CASES, FAMILIES, RANK_CASES, RANKING_CASES, case_of
from metric_tester import Case
from nextloc_metrics import (
    Ranking,
)
from strategies import batch, same, state, updated

#: the number above of a location that is not retrieved
UNRETRIEVED = 2**62
BY_FAMILY = pytest.mark.parametrize("case", FAMILIES, ids=str)


def test_a_ranking_has_integer_places() -> None:
    """Four int64 `[N, M]` tensors, best place first, what was not retrieved last."""
    preds = torch.tensor([[0.0, 5.0, -math.inf, 2.0], [math.nan, 1.0, 1.0, 0.0]])
    ranking = Ranking.from_scores(preds, torch.tensor([[0, 2, 1], [0, 1, -1]]))
    for name in ("above", "tied", "relevant_above", "relevant_tied"):
        field = getattr(ranking, name)
        assert field.dtype == torch.int64
        assert field.shape == (2, 3)
    assert ranking.above.tolist() == [[0, 2, UNRETRIEVED], [1, UNRETRIEVED, UNRETRIEVED]]
    assert ranking.tied.tolist() == [[1, 1, 1], [2, 1, 1]]
    assert ranking.relevant_above[0, :2].tolist() == [0, 1]
    assert ranking.relevant_above[1, 0] == 0
    assert (ranking.relevant_tied == 1).all()
    assert ranking.num_relevant.tolist() == [3, 2]
    assert ranking.relevant[0].tolist() == [1, 0, 2]
    assert ranking.gains.shape == (2, 3)
    assert ranking.gains.double().tolist() == [[1, 1, 1], [1, 1, 0]]
    assert ranking.counted.tolist() == [True, True]
    every = torch.ones(2, 4, dtype=torch.bool)
    relevant = Ranking.from_scores(preds, every, ignore_index=3).relevant
    assert relevant.shape == (2, 3 if preds.is_cpu else 4)
    assert relevant[:, :3].sort().values.tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("relevance", ["id", "ids", "bool", "graded"])
@pytest.mark.parametrize("form", ["scores", "lists", "embeddings"])
def test_a_ranking_outlives_what_it_was_made_of(form: str, relevance: str) -> None:
    """Buffers of a data loader are written over."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6, 9, generator=generator)
    target = {
        "id": torch.arange(6),
        "ids": torch.arange(12).view(6, 2) % 9,
        "bool": scores > 0.5,
        "graded": scores.clamp(min=0),
    }[relevance]
    mask, groups = torch.arange(6) != 2, torch.arange(6)
    preds = scores.argsort(1)[:, :4].contiguous() if form == "lists" else scores
    table = torch.randn(9, 9, generator=generator)
    inputs = [preds, target, mask, groups, table]

    def rank(preds: Tensor, target: Tensor, mask: Tensor, groups: Tensor, table: Tensor) -> Ranking:
        if form == "embeddings":
            ranking = Ranking.from_embeddings(preds, table, target, mask, top=2)
        elif form == "lists":
            ranking = Ranking.from_lists(preds, target, mask, top=2)
        else:
            ranking = Ranking.from_scores(preds, target, mask, top=2)
        return ranking.with_groups(groups)

    kept = rank(*[one.clone() for one in inputs])
    ranking = rank(*inputs)
    for one in inputs:
        one.zero_()
    for name in (*vars(kept), "gains"):
        value, expected = getattr(ranking, name), getattr(kept, name)
        if isinstance(expected, Tensor):
            assert torch.equal(value, expected), name
    assert ranking.first is not None
    assert kept.first is not None
    assert torch.equal(ranking.first.ids, kept.first.ids)
    assert torch.equal(ranking.first.best, kept.first.best)
    assert torch.equal(ranking.first.retrieved, kept.first.retrieved)


@BY_FAMILY
def test_metrics_take_rankings(case: Case) -> None:
    """A ranking in place of `preds, target` gives the same bits."""
    preds, target = batch()
    metric = case.make()
    ranking: Any = metric.read(preds, target)
    if isinstance(ranking, Ranking):
        ignored = metric.ignore_index
        ranking = Ranking.from_scores(preds, target, ignore_index=ignored, top=8, length=True)
    expected = updated(case.make(), preds, target)
    assert same(state(updated(metric, ranking)), state(expected))
    for one in (pickle.loads(pickle.dumps(ranking)), copy.deepcopy(ranking), ranking.to("cpu")):
        assert same(state(updated(case.make(), one)), state(expected))
    assert same(case.make()(ranking), expected.compute())


@pytest.mark.parametrize("case", [*RANKING_CASES, *BLOCK_CASES, *RANK_CASES], ids=str)
def test_places_alone_are_enough(case: Case) -> None:
    """A ranking that kept as many first ranks as a metric asks for is all that it needs."""
    preds, target = batch()
    needs = case.make().needs
    ranking = Ranking.from_scores(preds, target, top=needs.top, length=needs.length)
    expected = updated(case.make(), preds, target)
    assert same(state(updated(case.make(), ranking)), state(expected))


@pytest.mark.parametrize("used", [False, True])
def test_a_ranking_survives_the_handling_of_batches(used: bool) -> None:
    """Lightning and torch copy a batch and replace its tensors, also after a metric saw it."""
    utilities = pytest.importorskip(
        "lightning_utilities.core.apply_func", reason="the check needs lightning-utilities"
    )
    preds, target = batch()
    ranking = Ranking.from_scores(preds, target, top=1)
    metrics = [case_of("MRR"), case_of("AccuracyAtK", k=2), case_of("LocationF1", num_locations=6)]
    if used:
        for case in metrics:
            updated(case.make(), ranking)
    data = {"ranking": ranking, "n": 3}
    whole = utilities.apply_to_collection(data, Tensor, lambda t: t.clone())["ranking"]
    part = utilities.apply_to_collection(data, Tensor, lambda t: t[:3])["ranking"]
    for case in metrics:
        assert same(state(updated(case.make(), whole)), state(updated(case.make(), preds, target)))
        expected = updated(case.make(), preds[:3], target[:3])
        assert same(state(updated(case.make(), part)), state(expected))
