"""What a plan tallies without a record, and what not: values are the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from inner import Batch, Plan
from nextloc_metrics import (
    MRR,
    RBP,
    AccuracyAtK,
    Coverage,
    LocationF1,
    Ranking,
    RankingCollection,
    RankingMetric,
    backends,
)

SCORES = torch.tensor([[0.5, 0.25, 0.125], [0.25, 0.5, 0.125]])
LISTS, TARGET = torch.tensor([[1, 0], [2, 1]]), torch.tensor([1, 1])


class Tensors(torch.Tensor):
    """Tensors of one's own."""


CASES: dict[str, tuple[list[Any], tuple[Any, Any], dict[str, Any]]] = {
    "a metric has no formula": ([], (SCORES, TARGET), {}),
    "an option is given": ([MRR()], (SCORES, TARGET), {"mask": torch.tensor([True, False])}),
    "arrays are no plain tensors": ([MRR()], (SCORES.as_subclass(Tensors), TARGET), {}),
    "memory is not strided": ([MRR()], (SCORES.to_sparse(), TARGET), {}),
    "values are lazily negated": ([MRR()], (torch._neg_view(SCORES), TARGET), {}),
    "shapes do not fit": ([MRR()], (SCORES[0], TARGET), {}),
    "ids are not int64": ([MRR()], (LISTS.int(), TARGET), {}),
    "devices differ": ([MRR()], (SCORES, TARGET.to("meta")), {}),
    "scores have one byte": ([MRR()], (SCORES.to(torch.float8_e4m3fn), TARGET), {}),
    "scores have several relevant ids": ([MRR()], (SCORES, LISTS), {}),
    "scores are of more than `num_locations`": ([MRR(), LocationF1(2)], (SCORES, TARGET), {}),
    "lists have an `ignore_index`": ([MRR(ignore_index=0)], (LISTS, TARGET), {}),
    "decisions are counted of lists with several relevant ids": (
        [MRR(), LocationF1(3)],
        (LISTS, LISTS),
        {},
    ),
}


@pytest.mark.parametrize("reason", CASES)
def test_each_reason_has_a_batch(reason: str) -> None:
    """A backend, which trusts its arguments, never sees such a batch."""
    metrics, given, options = CASES[reason]
    assert not Plan(metrics)._can_sum(Batch(*given, **options))


@pytest.mark.parametrize("preds", [SCORES, LISTS], ids=["scores", "lists"])
def test_plain_batches_have_no_reason(preds: torch.Tensor) -> None:
    """Nor does a reason change a value: all rows by a mask give the same."""
    metrics = [MRR(), AccuracyAtK(1)]
    assert Plan(metrics)._can_sum(Batch(preds, TARGET))
    for metric in metrics:
        value = metric(preds, TARGET)
        assert metric(preds, TARGET, mask=torch.ones(2, dtype=torch.bool)) == value


class Best(RankingMetric):
    """The share of targets on the first rank, by a score of one's own."""

    def score(self, ranking: Ranking) -> torch.Tensor:
        """1 on the first rank."""
        return (ranking.break_ties("pessimistic").above == 0).any(1).double()


@pytest.mark.parametrize("each_backend", ["cpu"], indirect=True)
@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("preds", [SCORES, LISTS], ids=["scores", "lists"])
@pytest.mark.parametrize(
    "others",
    [
        [Coverage(3, 1)],
        [RBP(0.5)],
        [Best()],
        [MRR(ties="optimistic")],
        [Coverage(3, 2), RBP(0.5)],
        [],
    ],
    ids=["coverage", "no cut-off", "own score", "broken ties", "two", "none"],
)
def test_a_backend_sums_what_it_can_beside_others(
    preds: torch.Tensor, others: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that needs a record has one of its own needs; the others are summed without.

    Scores are read once: all members read the record where one needs it.
    """
    summed: list[int] = []
    read: list[Any] = []
    kind = type(backends.choose(preds))
    name = "tally_scores" if preds.is_floating_point() else "tally_lists"
    original, of_batch = getattr(kind, name), Ranking.read.__func__

    def sum_and_note(self: Any, *given: Any) -> Any:
        found = original(self, *given)
        summed.append(len(found[0]))
        return found

    def read_and_note(cls: Any, batch: Any, needs: Any) -> Any:
        read.append(needs)
        return of_batch(cls, batch, needs)

    monkeypatch.setattr(kind, name, sum_and_note)
    monkeypatch.setattr(Ranking, "read", classmethod(read_and_note))
    members = {f"m{x}": y.clone() for x, y in enumerate([MRR(), AccuracyAtK(1), *others])}
    metrics = RankingCollection(members)
    metrics.update(preds, TARGET)
    alone = [2] if preds is LISTS or not others else []
    assert summed == alone
    assert len(read) == bool(others)
    values = metrics.compute()
    metrics.reset()
    metrics.update(preds, TARGET, mask=torch.ones(2, dtype=torch.bool))
    assert summed == alone
    assert metrics.compute() == values
    assert 0 < values["m0"] < 1
