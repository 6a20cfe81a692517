"""The ranks among sampled candidates are counted as in loops, ties included, in integers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nextloc_metrics import Ranking, SampledRanks
from strategies import DIRTY, one_relevant


def shares_of(row: list[float], target: int, size: int) -> list[Fraction]:
    """The probability of each rank in a random order of ties; the last one if not retrieved."""
    shares, own = [Fraction(0)] * size, row[target]
    if not own > -math.inf:
        shares[-1] = Fraction(1)
        return shares
    above = sum(not x <= own for x in row)  # NaN counts as above
    tied = sum(x == own for x in row)
    for rank in range(above, above + tied):
        shares[rank] = Fraction(1, tied)
    return shares


@given(one_relevant(values=DIRTY), st.data())
def test_ranks_are_those_of_loops(batch: tuple[Tensor, Tensor], data: st.DataObject) -> None:
    """With ties, NaN and masked queries; each query adds exactly one."""
    preds, target = batch
    size = preds.shape[1]
    if size == 1:
        return
    counted = data.draw(st.lists(st.booleans(), min_size=len(preds), max_size=len(preds)))
    metric = SampledRanks(size - 1)
    metric.update(preds, target, mask=torch.tensor(counted))
    rows = zip(preds.tolist(), target.tolist(), counted, strict=True)
    expected = [shares_of(row, at, size) for row, at, is_counted in rows if is_counted]
    assert metric.num_queries == len(expected)
    assert int(metric.state[:-1].sum()) == len(expected) << 32
    for rank, total in enumerate(metric.state[:-1].tolist()):
        exact = sum((one[rank] for one in expected), Fraction(0))
        assert abs(Fraction(total, 1 << 32) - exact) <= Fraction(len(expected), 1 << 32)
    if expected:
        below = [sum(one[rank] * (size - 1 - rank) for rank in range(size)) for one in expected]
        area = float(sum(below) / (size - 1) / len(expected))
        assert float(metric.compute()) == pytest.approx(area, abs=1e-6)
        assert float(metric.shares.sum()) == pytest.approx(1, abs=1e-6)
    else:
        assert math.isnan(metric.compute())
        assert bool(metric.shares.isnan().all())


def test_forms_of_a_sample() -> None:
    """Scores, lists with the target anywhere, and given ranks of one query each."""
    scores, target = torch.tensor([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1]]), torch.tensor([2, 2])
    lists, ids = torch.tensor([[11, 12, 10], [5, 6, 7]]), torch.tensor([12, 7])
    for preds, wanted in ((scores, target), (lists, ids)):
        metric = SampledRanks(2)
        metric.update(preds, wanted)
        assert metric.shares.tolist() == [0, 0.5, 0.5]
    metric = SampledRanks(2)
    metric.update(Ranking.from_ranks([2, 3]))
    assert metric.shares.tolist() == [0, 0.5, 0.5]
    metric.reset()
    metric.update(torch.zeros(1, 3), torch.tensor([1]))  # thirds are no multiples of 2^-32
    assert int(metric.state[:-1].sum()) == 1 << 32


def test_a_target_that_is_missing_has_the_last_rank() -> None:
    """Not in the list, NaN, or -inf: it is below all, also if others are."""
    metric = SampledRanks(2)
    metric.update(torch.tensor([[4, 5, -1]]), torch.tensor([9]))
    metric.update(torch.tensor([[math.nan, 0.5, -math.inf]]).expand(2, 3), torch.tensor([0, 2]))
    assert metric.shares.tolist() == [0, 0, 1]


def test_queries_without_a_target_are_skipped() -> None:
    """Padding, and an ignored id."""
    metric = SampledRanks(2, ignore_index=1)
    metric.update(torch.tensor([[0.1, 0.9, 0.5]] * 3), torch.tensor([[-1], [1], [0]]))
    assert metric.shares.tolist() == [0, 0, 1]
    assert metric.num_queries == 1


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ((torch.rand(1, 4), torch.tensor([0])), "`preds` must have 3 candidates .* got 4"),
        ((torch.rand(1, 3), torch.tensor([[0, 1]])), "`target` must hold one .* got up to 2"),
        ((torch.tensor([[1, 2, 3, 4]]), torch.tensor([4])), "a rank must be at most 3, .* got 4"),
    ],
)
def test_another_sample_is_an_error(update: tuple[Tensor, Tensor], message: str) -> None:
    """More candidates, several targets, or a rank beyond the sample; the state stays."""
    metric = SampledRanks(2)
    with pytest.raises(ValueError, match=message):
        metric.update(*update)
    assert not metric.state.any()
