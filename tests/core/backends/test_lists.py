"""The fused update with lists of ids adds what the update through a `Ranking` adds."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import threads_allowed
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    LocationF1,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    RankingCollection,
    RecallAtK,
    backends,
)
from nextloc_metrics.core.backends import cpu

NEEDS_C = pytest.mark.skipif(bool(backends.available()["cpu"]), reason="needs the backend in C")
MEMBERS = [
    *(kind(k) for kind in (AccuracyAtK, MRR, NDCGAtK, PrecisionAtK, F1AtK) for k in (1, 3, 10**20)),
    *(MAPAtK(4, normalizer=how) for how in ("min", "relevant")),
    *(RecallAtK(5, normalized=how) for how in (False, True)),
    NDCGAtK(3, ideal="full"),
    MRR(),
    MAPAtK(100, empty_target_action="pos"),
]


def states(backend: str, preds: Tensor, target: Tensor) -> list[Tensor]:
    """The states of many metrics after an update with some backend."""
    usual = list(backends._chosen)
    try:
        backends.use(backend)
        members = {str(n): kind.clone() for n, kind in enumerate(MEMBERS)}
        metrics = RankingCollection(members)
        metrics.update(preds, target)
        return [metric.state for metric in metrics.values()]
    finally:
        backends._chosen[:] = usual


def make_lists(number: int, length: int, width: int, last: int) -> tuple[Tensor, Tensor]:
    """Lists with repeats and padding, and at least one relevant id of each query."""
    lists = torch.randint(-1, last, (number, length))
    ids = torch.rand(number, last + width).topk(width).indices
    hidden = torch.rand(number, width) < 0.3
    hidden[:, -1] = False
    return lists, ids.masked_fill(hidden, -1)


def fused(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note for each call of the kernel whether it had an answer."""
    states("cpu", *make_lists(2, 2, 2, 2))  # the check at the first use calls it too
    found: list[bool] = []
    right = cpu.Cpu.tally_lists

    def noted(self: Any, *arguments: Any) -> Tensor | None:
        answer = right(self, *arguments)
        found.append(answer is not None)
        return answer

    monkeypatch.setattr(cpu.Cpu, "tally_lists", noted)
    return found


@NEEDS_C
@pytest.mark.parametrize(
    ("number", "length", "width", "last"),
    [
        (300, 10, 3, 20),
        (1, 1, 1, 2),
        (50, 64, 64, 90),
        (40, 10, 7, 8),
        (3000, 10, 5, 12),
        (30, 300, 2, 900),
        (4, 4096, 1, 9000),
    ],
)
def test_the_states_are_those_of_reference(
    number: int, length: int, width: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on several threads, for strided lists, and for one relevant id `[N]`."""
    lists, ids = make_lists(number, length, width, last)
    if number == 50:  # the largest ids
        lists, ids = (torch.where(x < 0, x, 2**63 - 1 - x) for x in (lists, ids))
    found = fused(monkeypatch)
    wide = torch.cat([lists, lists], 1)[:, :length]
    for target in (ids, ids[:, -1]):
        expected = states("reference", lists, target)
        assert not found
        with threads_allowed(2):
            assert all(map(torch.equal, states("cpu", wide, target), expected))
        assert found == [True]
        found.clear()


@NEEDS_C
@pytest.mark.parametrize(
    ("lists", "ids"),
    [
        ([[1, 2], [3, 4]], [[2, 2], [5, 3]]),  # repeats
        ([[1, 2], [3, 4]], [[2, 1], [-1, -1]]),  # no relevant id
        ([list(range(4097))], [[1, 2]]),
        ([[1, 2, 3]], [list(range(65))]),
    ],
)
def test_other_queries_go_through_a_ranking(
    lists: Any, ids: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated ids, queries without a relevant one, and what is too long."""
    found = fused(monkeypatch)
    preds, target = torch.tensor(lists), torch.tensor(ids)
    expected = states("reference", preds, target)
    assert all(map(torch.equal, states("cpu", preds, target), expected))
    assert found == [False]


@NEEDS_C
@pytest.mark.parametrize(("number", "length"), [(400, 10), (1, 1), (60, 200), (5000, 3)])
def test_decisions_are_counted_in_the_same_pass(
    number: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each first id, also -1 and ids of no location, beside the sums of a mean."""
    lists = torch.randint(-1, max(40, 3 * length), (number, length))
    target = torch.randint(0, 30, (number,))
    decided = lists[:, 0].tolist()
    pairs = [*zip(decided, target.tolist(), strict=True)]
    expected = torch.zeros(3, 31, dtype=torch.int64)
    for first, right in pairs:
        expected[0, right] += first == right
        expected[2, right] += 1
        if first >= 0:
            expected[1, min(first, 30)] += 1
    found = fused(monkeypatch)
    monkeypatch.setattr(sys.modules[__name__], "MEMBERS", [MRR(), LocationF1(30)])
    for ids in (target, target[:, None]):
        with threads_allowed(2):
            assert torch.equal(states("cpu", lists, ids)[1], expected)
    assert found == [True, True]
    assert torch.equal(states("reference", lists, target)[1], expected)


@NEEDS_C
def test_long_lists_that_mostly_repeat_are_refused() -> None:
    """They are visit counts, as of one id a query as of several; nothing is added."""
    counts = torch.arange(80).remainder(3).expand(5, 80)
    for target in (torch.zeros(5, dtype=torch.int64), torch.tensor([[0, 1]]).expand(5, 2)):
        metrics = RankingCollection([MRR(), AccuracyAtK(2)])
        with pytest.raises(ValueError, match="77 of the 80 entries of query 0 repeat"):
            metrics.update(counts, target)
        assert all(not metric.state.any() for metric in metrics.values())
        metrics = RankingCollection([MRR(validate_args=False)])
        metrics.update(counts, target)
        assert metrics["MRR"].num_queries == 5


@NEEDS_C
def test_wrong_numbers_raise_as_ever() -> None:
    """An error names the argument, and adds nothing."""
    metrics = RankingCollection([MRR(), AccuracyAtK(2)])
    right, one = torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, -1])
    for preds, target, name in [(right - 4, one.abs(), "preds"), (right, one, "target")]:
        with pytest.raises(ValueError, match=f"`{name}` must hold ids of at least 0"):
            metrics.update(preds, target)
    assert all(not metric.state.any() for metric in metrics.values())
    metrics = RankingCollection([MRR(), LocationF1(4)])
    with pytest.raises(ValueError, match="`target` must be below `num_locations`, 4, got 4"):
        metrics.update(right, one.abs() + 3)
    metrics = RankingCollection([MRR(ignore_index=3), AccuracyAtK(2, ignore_index=3)])
    metrics.update(right, torch.tensor([2, 3]))
    assert metrics["MRR"].num_queries == 1


@pytest.mark.parametrize("length", [65, 70, 5000])
@pytest.mark.usefixtures("each_backend")
def test_no_list_of_mostly_repeats_is_taken_for_one_of_different_ids(length: int) -> None:
    """Ids that differ in their upper bits alone may be looked at again; padding is no id."""
    generator = torch.Generator().manual_seed(length)
    for different in (1, length // 2 - 1, length // 2, length // 2 + 1, length):
        ids = torch.randperm(length, generator=generator) % different
        for lists in (ids[None], ids[None] << 40, torch.cat([ids, -torch.ones_like(ids)])[None]):
            may = backends.choose(lists).may_repeat(lists)
            assert may or 2 * (length - different) <= length
    far = torch.arange(70).expand(3, 70).clone()
    if backends.choose(far).name == "cpu":
        assert not backends.choose(far).may_repeat(far)
