"""The ranks among sampled candidates are counted as in loops, ties included, in integers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch import Tensor

from nextloc_metrics import Ranking, RankingCollection, SampledRanks
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


@given(one_relevant(rows=4), st.permutations(range(4)))
def test_the_order_of_batches_is_irrelevant(batch: tuple[Tensor, Tensor], order: list[int]) -> None:
    """The state has the same bits for batches of one query in any order."""
    preds, target = batch
    whole, parts = (SampledRanks(max(1, preds.shape[1] - 1)) for _ in range(2))
    if preds.shape[1] == 1:
        return
    whole.update(preds, target)
    for row in order:
        parts.update(preds[[row]], target[[row]])
    assert torch.equal(whole.state, parts.state)


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


def test_area_is_that_of_scikit_learn_and_of_all_candidates() -> None:
    """For one query it is the AUC of its scores; over many samples, that of all candidates."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(9, (50,), generator=generator).float()
    whole = SampledRanks(49)
    whole.update(scores[None], torch.tensor([7]))
    is_target = torch.arange(50) == 7
    assert float(whole.compute()) == pytest.approx(roc_auc_score(is_target, scores))
    others = torch.arange(50)[~is_target]
    drawn = torch.stack([others[torch.randperm(49, generator=generator)[:5]] for _ in range(4000)])
    sampled = SampledRanks(5)
    candidates = torch.cat([torch.full((4000, 1), 7), drawn], 1)
    sampled.update(scores[candidates], torch.zeros(4000, dtype=torch.long))
    assert float(sampled.compute()) == pytest.approx(float(whole.compute()), abs=0.015)


def test_several_sizes_in_a_collection() -> None:
    """Two sizes have two states, and one size one."""
    members = {"a": SampledRanks(2), "b": SampledRanks(2), "c": SampledRanks(4)}
    together = RankingCollection(members)
    together.update(torch.tensor([[3, 4, 5]]), torch.tensor([4]))
    assert together.compute() == {"a": 0.5, "b": 0.5, "c": 0.75}
    assert members["a"].shares.tolist() == members["b"].shares.tolist() == [0, 1, 0]
    assert members["c"].shares.tolist() == [0, 1, 0, 0, 0]


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
