"""Acceptance is decided query by query: a batch is refused exactly if one of its parts is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from metric_tester import LOCATIONS
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Coverage,
    Grouped,
    GroupLabels,
    LocationF1,
    NDCGAtK,
    Ranking,
    RankingCollection,
)
from strategies import LEVELS, examples, same, states

GROUPS = 3
LONG = 70  # lists of this width are checked for visit counts
ID = st.integers(0, LOCATIONS - 1)
FEW = st.sampled_from([0, 1])  # as ids, and as relevance or counts


def rows(*values: st.SearchStrategy[Any], width: int) -> st.SearchStrategy[list[Any]]:
    """Rows of one width, each of values of one kind."""
    return st.one_of([st.lists(one, min_size=width, max_size=width) for one in values])


def lists(width: int) -> st.SearchStrategy[list[int]]:
    """Lists of ids, padded behind."""
    written = st.lists(ID, max_size=width)
    return written.map(lambda ids: ids + [-1] * (width - len(ids)))


# The rows of each argument: most of them right, some of them wrong in one value.
WRONG_IDS = st.sampled_from([-2, -1, 0, LOCATIONS])
PREDS: dict[str, st.SearchStrategy[Any]] = {
    "scores": rows(LEVELS, st.sampled_from([0.5, math.nan, -math.inf]), width=LOCATIONS),
    "lists": st.one_of(lists(4), lists(4), lists(4), rows(WRONG_IDS, width=4)),
    "long lists": st.one_of(
        st.permutations(range(LONG)), lists(LONG), rows(st.integers(0, 40), FEW, width=LONG)
    ),
}
TARGETS: dict[str, st.SearchStrategy[Any]] = {
    "one id": st.one_of(ID, ID, ID, ID, st.sampled_from([-1, LOCATIONS])),
    "ids": st.one_of(lists(3), lists(3), rows(FEW, WRONG_IDS, width=3)),
    "as many ids as candidates": st.one_of(lists(LOCATIONS), rows(ID, FEW, width=LOCATIONS)),
    "bools": rows(st.booleans(), width=LOCATIONS),
    "grades": rows(
        st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from([0.0, -1.0, math.nan]), width=LOCATIONS
    ),
}
GROUP = st.one_of(st.integers(0, GROUPS - 1), st.integers(0, GROUPS - 1), st.just(GROUPS))
NAMES = ["a", "b", "c"]
NAME = st.one_of(st.sampled_from(NAMES), st.sampled_from(NAMES), st.just("unknown"))
EXCLUDED: dict[str, st.SearchStrategy[Any]] = {
    "ids": st.one_of(lists(2), rows(st.just(-1), WRONG_IDS, width=2)),
    "bools": rows(st.just(False), st.booleans(), width=LOCATIONS),
}


@cache
def members(one: bool, is_text: bool, number: int) -> RankingCollection:
    """Metrics of ranks, of the first candidates, of decisions, and by group: several of them."""
    labels = GroupLabels(NAMES) if is_text else None
    metrics: dict[str, Any] = {
        "hit": AccuracyAtK(1),
        "ndcg": NDCGAtK(3, empty_target_action="neg"),
        "coverage": Coverage(LOCATIONS, k=2),
        "by group": Grouped(MRR(), num_groups=GROUPS, labels=labels),
    }
    return RankingCollection(metrics | ({"f1": LocationF1(LOCATIONS)} if one else {}))


def two_members(target: str, arguments: dict[str, Any]) -> list[RankingCollection]:
    """Two collections of them without data, for a kind of target and the groups of a batch."""
    is_text = isinstance(arguments["groups"], list)
    both = [members(target == "one id", is_text, number) for number in range(2)]
    for collection in both:
        collection.reset()
    return both


def is_accepted(update: Callable[[], Any]) -> bool:
    """Whether an update does not raise one of the errors of a user's input."""
    try:
        update()
    except (TypeError, ValueError):
        return False
    return True


def part_of(arguments: dict[str, Any], rows: slice) -> dict[str, Any]:
    """The rows of every argument."""
    return {name: value[rows] for name, value in arguments.items()}


def drawn_arguments(
    data: st.DataObject, preds: str, target: str, exclude: str | None
) -> dict[str, Any]:
    """Draw a batch, with a mask and groups that may be text."""
    number = data.draw(st.integers(1, 5))

    def draw(each: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(each, min_size=number, max_size=number))

    arguments: dict[str, Any] = {
        "preds": torch.tensor(draw(PREDS[preds])),
        "target": torch.tensor(draw(TARGETS[target])),
        "groups": draw(NAME) if data.draw(st.booleans()) else torch.tensor(draw(GROUP)),
    }
    if data.draw(st.booleans()):
        arguments["mask"] = torch.tensor(draw(st.booleans()))
    if exclude is not None:
        arguments["exclude"] = torch.tensor(draw(EXCLUDED[exclude]))
    return arguments


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("preds", PREDS)
@examples(5)
@given(data=st.data())
def test_a_batch_is_accepted_exactly_if_all_its_parts_are(
    preds: str, target: str, data: st.DataObject
) -> None:
    """Whole and in parts, the same queries are accepted or refused, and give the same bits."""
    arguments = drawn_arguments(data, preds, target, data.draw(st.sampled_from([None, *EXCLUDED])))
    number = len(arguments["preds"])
    edges = [0, *sorted(data.draw(st.sets(st.integers(1, 5)))), number]
    whole, parts = two_members(target, arguments)
    accepted = [
        is_accepted(lambda here=slice(*ends): parts.update(**part_of(arguments, here)))
        for ends in itertools.pairwise(edges)
        if ends[0] < min(ends[1], number)
    ]
    assert is_accepted(lambda: whole.update(**arguments)) == all(accepted)
    if all(accepted):
        assert same(states(whole), states(parts))


@pytest.mark.parametrize("preds", PREDS)
@examples(8)
@given(data=st.data())
def test_a_masked_query_is_not_looked_at(preds: str, data: st.DataObject) -> None:
    """Whatever a masked query holds, the batch is what it is without this query."""
    target = data.draw(st.sampled_from(list(TARGETS)))
    arguments = drawn_arguments(data, preds, target, data.draw(st.sampled_from([None, *EXCLUDED])))
    number = len(arguments["preds"])
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=number, max_size=number)))
    masked, without = two_members(target, arguments)
    kept = {
        name: [one for one, is_kept in zip(value, mask.tolist(), strict=True) if is_kept]
        if isinstance(value, list)
        else value[mask]
        for name, value in arguments.items()
        if name != "mask"
    }
    accepted = is_accepted(lambda: masked.update(**{**arguments, "mask": mask}))
    if mask.any():
        assert is_accepted(lambda: without.update(**kept)) == accepted
    assert accepted or mask.any()
    if accepted:
        assert same(states(masked), states(without))


def test_ids_of_zeros_and_ones_are_ids() -> None:
    """Rows of ids 0 and 1 are read as ids, alone and with others, if they are not as wide as C."""
    preds = torch.tensor([[0.1, 0.3, 0.2, 0.4]] * 2)  # ranks 4, 2, 3, 1
    target = torch.tensor([[0, 1, 1], [3, 2, -1]])
    for form in (preds, preds.argsort(1, descending=True)):
        metric = MRR()
        metric.update(form[:1], target[:1])
        assert metric.compute() == 0.5
        metric.update(form[1:], target[1:])
        assert metric.compute() == 0.75


def test_integer_relevance_is_refused_next_to_ids() -> None:
    """A row with a zero or a one per candidate is refused in any batch, unless it is masked."""
    preds = torch.rand(2, 4)
    target = torch.tensor([[3, 2, -1, -1], [0, 1, 1, 0]])
    for wrong in (target, target[1:]):
        with pytest.raises(ValueError, match=r"`target`.*zeros and ones.*\.bool\(\)"):
            MRR().update(preds[: len(wrong)], wrong)
    assert MRR()(preds, target, mask=torch.tensor([True, False])) > 0
    queries, table = torch.rand(2, 3), torch.rand(5, 3)
    with pytest.raises(ValueError, match="zeros and ones"):
        Ranking.from_embeddings(queries, table[:4], target)
    assert Ranking.from_embeddings(queries, table, target).num_relevant.tolist() == [2, 2]


@given(
    st.lists(
        st.lists(st.sampled_from(range(9)), max_size=90) | st.just([*range(100)]),
        min_size=1,
        max_size=4,
    ),
    st.sets(st.integers(1, 99)),
)
def test_visit_counts_are_what_the_query_itself_says(
    rows: list[list[int]], excluded: set[int]
) -> None:
    """A list is refused in a batch if it is by itself, whatever is excluded, and by its repeats."""
    width = max(1, *map(len, rows))
    lists = torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])
    exclude = torch.tensor([sorted(excluded) or [-1]]).repeat(len(rows), 1)
    target = torch.zeros(len(rows), dtype=torch.long)
    wrong = [len(row) > 64 and 2 * (len(row) - len({*row})) > len(row) for row in rows]
    for left_out in (None, exclude):
        for row, is_wrong in zip(lists, wrong, strict=True):
            one = None if left_out is None else left_out[:1]
            assert is_refused(row[None], target[:1], one) == is_wrong
        assert is_refused(lists, target, left_out) == any(wrong)


def is_refused(
    preds: torch.Tensor, target: torch.Tensor, exclude: torch.Tensor | None = None
) -> bool:
    """Whether an update raises an error about visit counts."""
    try:
        MRR().update(preds, target, exclude=exclude)
    except ValueError as error:
        return "as visit counts do" in str(error)
    return False


def test_empty_lists_are_lists_in_any_batch() -> None:
    """A batch of nested lists that are all empty is a batch of misses."""
    metric = MRR()
    metric.update([[3], []], [3, 3])
    metric.update([[]], [3])
    assert metric.num_queries == 3
    assert metric.compute() == torch.tensor(1 / 3)
    with pytest.raises(ValueError, match="`preds`"):
        metric.update([], [])
