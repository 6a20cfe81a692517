"""Predictions of locations become those of categories or cells as loops make them."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nextloc_metrics import MRR, Coarser, RecallAtK
from strategies import same

NAN, INF = math.nan, math.inf
PARENTS = [7, 3, 7, 9, 3, 7]  # 3: 1 and 4; 7: 0, 2 and 5; 9: 3
CHILDREN = [[1, 4], [0, 2, 5], [3]]
NUMBER = [1, 0, 1, 2, 0, 1]


def put_together(row: list[float], by: str, dtype: torch.dtype) -> list[float]:
    """The best score, or the sum, of every parent's locations."""
    found = []
    for children in CHILDREN:
        own = [row[i] for i in children if row[i] != -INF]
        if any(x != x for x in own):
            found.append(NAN)
        elif not own:
            found.append(-INF)
        else:
            total = max(own) if by == "max" else float(torch.tensor(math.fsum(own)).to(dtype))
            found.append(total)
    return found


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.5, INF, -INF, NAN]), min_size=6, max_size=6),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["max", "sum"]),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
)
def test_scores_are_those_of_loops(rows: list[list[float]], by: Any, dtype: torch.dtype) -> None:
    """For every dtype; one NaN makes the parent NaN, and only -inf makes it -inf."""
    preds = torch.tensor(rows, dtype=dtype)
    expected = torch.tensor([put_together(row, by, dtype) for row in rows], dtype=dtype)
    coarser = Coarser(PARENTS)
    assert same(coarser.scores(preds, by=by), expected)
    # steps ahead, and memory in another order
    other = preds.t().contiguous().t()[None, :, :]
    assert same(coarser.scores(other, by=by), expected[None])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_sums_are_rounded_once(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent of 5,000 locations beside small ones; the batch's size changes no bit."""
    generator = torch.Generator().manual_seed(0)
    parents = torch.randint(1, 60, (8000,), generator=generator)
    parents[torch.rand(8000, generator=generator) < 0.6] = 0
    preds = torch.rand(7, 8000, generator=generator).to(dtype)
    coarser = Coarser(parents)
    found = coarser.scores(preds, by="sum")
    for parent in range(60):
        exact = [math.fsum(row[parents == parent].tolist()) for row in preds]
        assert found[:, parent].double().numpy() == pytest.approx(
            torch.tensor(exact, dtype=torch.float64).to(dtype).double().numpy(), rel=1e-14
        )
        assert same(coarser.scores(preds)[:, parent], preds[:, parents == parent].amax(1))
    for at_once in (1, 17_000):
        monkeypatch.setattr("nextloc_metrics.metrics.coarser._AT_ONCE", at_once)
        assert same(coarser.scores(preds, by="sum"), found)
    assert same(torch.cat([coarser.scores(row[None], by="sum") for row in preds]), found)


@given(
    st.lists(st.lists(st.integers(-1, 9), min_size=5, max_size=5), min_size=1, max_size=4),
)
def test_lists_are_those_of_loops(rows: list[list[int]]) -> None:
    """A repeated parent keeps its rank or is removed; padding and invented ids stay."""
    coarser = Coarser(PARENTS)
    mapped = [[x if x < 0 else NUMBER[x] if x < 6 else x - 6 + 3 for x in row] for row in rows]
    assert coarser.lists(torch.tensor(rows)).tolist() == mapped
    once = []
    for row in mapped:
        kept = [x for i, x in enumerate(row) if x < 0 or x not in row[:i]]
        once.append(kept + [-1] * (len(row) - len(kept)))
    assert coarser.lists(np.array(rows), repeats="once").tolist() == once
    assert coarser.lists(torch.tensor([rows]), repeats="once").tolist() == [once]


def test_targets() -> None:
    """One per query, or several, of which each parent stays once."""
    coarser = Coarser(PARENTS)
    assert coarser.target([0, 1, 3, -1]).tolist() == [1, 0, 2, -1]
    assert coarser.target([[0, 2], [1, -100]]).tolist() == [[1, 1], [0, -100]]
    several = coarser.target([[0, 2, 5, 1, -1, -1]], several=True)
    assert several.tolist() == [[1, -1, -1, 0, -1, -1]]
    assert coarser.target(torch.tensor(4)) == 0


def test_metrics_of_parents() -> None:
    """Lists, scores and targets of parents go into any metric."""
    coarser = Coarser(["food", "home", "food", "work", "home", "food"])
    lists, target = torch.tensor([[0, 2, 1], [9, 3, 1]]), torch.tensor([4, 4])  # home
    mrr = MRR()
    assert float(mrr(coarser.lists(lists), coarser.target(target))) == pytest.approx(1 / 3)
    value = mrr(coarser.lists(lists, repeats="once"), coarser.target(target))
    assert float(value) == pytest.approx((1 / 2 + 1 / 3) / 2)
    several = coarser.target(torch.tensor([[0, 2, 1]]), several=True)
    assert float(RecallAtK(1)(coarser.lists(lists[:1]), several)) == 0.5
    scores = torch.tensor([[0.3, 0.2, 0.1, 0.1, 0.3, 0.0]])
    assert mrr(coarser.scores(scores, by="sum"), torch.tensor([1])) == 1  # .5 of 1
    assert len(coarser.names) == len(coarser) == 3


def test_labels_of_every_kind() -> None:
    """Cells are integers of 64 bits or text; the numbers follow the labels' order."""
    cells = np.array([617700169958293503, 5, 617700169958293503, -4])
    for labels in (cells, torch.tensor(cells), cells.tolist()):
        coarser = Coarser(labels)
        assert coarser.names == (-4, 5, 617700169958293503)
        assert coarser.parent_of.tolist() == [2, 1, 2, 0]
    text = Coarser(np.array(["u33d", "9q8y", "u33d"]))
    assert text.names == ("9q8y", "u33d")
    assert text.parent_of.tolist() == [1, 0, 1]
    assert repr(text) == "Coarser(3 locations, 2 parents)"


def test_copies_and_content() -> None:
    """It adds nothing to a state_dict, can be copied, and its key has its content."""
    coarser = Coarser(PARENTS)
    assert coarser.state_dict() == {}
    for one in (copy.deepcopy(coarser), pickle.loads(pickle.dumps(coarser))):
        assert one.state_key() == coarser.state_key()
        assert one.lists([[0, 1]]).tolist() == [[1, 0]]
    assert Coarser([7, 3, 7, 9, 3, 3]).state_key() != coarser.state_key()


def test_nothing_in_nothing_out() -> None:
    """Batches without queries, and lists without entries."""
    coarser = Coarser(PARENTS)
    for by in ("max", "sum"):
        assert coarser.scores(torch.zeros(0, 6), by=by).shape == (0, 3)
        assert coarser.scores(torch.zeros(2, 0, 6), by=by).shape == (2, 0, 3)
    empty: Tensor = torch.zeros(2, 0, dtype=torch.long)
    assert coarser.lists(empty, repeats="once").shape == (2, 0)
    assert coarser.target(empty, several=True).shape == (2, 0)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Coarser([0.5]), TypeError, "`parents` must be integers or text"),
        (lambda: Coarser([[1, 2]]), ValueError, "`parents` must be one row"),
        (lambda: Coarser([["a", "b"]]), ValueError, "`parents` must be one row"),
        (lambda: Coarser([]), ValueError, "`parents` must be one row"),
        (lambda: Coarser(PARENTS).lists([[0.5]]), TypeError, "`preds` must be ids"),
        (lambda: Coarser(PARENTS).lists(torch.tensor(1)), ValueError, "must be lists of ids"),
        (lambda: Coarser(PARENTS).lists([[1]], "first"), ValueError, "`repeats` must be one of"),
        (lambda: Coarser(PARENTS).scores([[1] * 6]), TypeError, "lists of ids go into `lists`"),
        (lambda: Coarser(PARENTS).scores([[0.5]]), ValueError, "each of the 6 locations"),
        (lambda: Coarser(PARENTS).scores([[0.5] * 6], "mean"), ValueError, "`by` must be one of"),
        (
            lambda: Coarser(PARENTS).scores([[0.5] * 4 + [-0.25, NAN]], "sum"),
            ValueError,
            "at least 0 to be added up, got -0.25",
        ),
        (lambda: Coarser(PARENTS).target([6]), ValueError, "below the 6 locations, got 6"),
        (lambda: Coarser(PARENTS).target([True]), TypeError, "`target` must be ids"),
        (lambda: Coarser(PARENTS).target([1], 2), ValueError, "`several` must be True or False"),
    ],
)
def test_errors_say_what_is_wrong(make: Any, error: type[Exception], says: str) -> None:
    """Which argument, rule and value."""
    with pytest.raises(error, match=says):
        make()
