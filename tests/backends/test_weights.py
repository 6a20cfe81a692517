"""Sums of weights and sizes of sets: every backend against `reference`, and any split of rows."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nextloc_metrics.backends import Weights, choose, proof
from nextloc_metrics.backends.reference import Reference

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
MASSES = (0.05, 0.5, 0.9, 0.999)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [1, 7, 8, 511, 512, 513, 3000])
@pytest.mark.parametrize("are_scores", [False, True])
def test_backends_agree(dtype: torch.dtype, columns: int, are_scores: bool) -> None:
    """Sums within 2^-30, counts and sizes exactly, in rows that are not adjacent."""
    torch.manual_seed(columns)
    wide = (3 * torch.randn(9, columns + 3)).to(dtype)
    scores = wide[:, 1 : columns + 1]
    if are_scores:
        scores = scores.double().softmax(1).to(dtype)
    else:
        scores[1, ::2], scores[2], scores[3, 0], scores[4, -1] = 1.0, 0.5, -math.inf, math.nan
        scores[5], scores[6, columns // 2] = -math.inf, math.inf
    target = torch.randint(columns, (9,))
    for temperature in (1.0, 0.25, 7.0):
        weights = Weights(are_scores, 1 / temperature)
        backend, reference = choose(scores, "weighs"), Reference()
        found, expected = (one.weigh(scores, target, weights) for one in (backend, reference))
        sound = ~expected[0][:, 0].isnan()
        assert torch.equal(found[0][:, 0].isnan(), ~sound)
        assert torch.allclose(found[0][sound], expected[0][sound], rtol=2.0**-30, atol=0)
        assert torch.equal(found[1][sound], expected[1][sound])
        sizes = [one.gather(scores, expected[0], MASSES, weights) for one in (backend, reference)]
        assert torch.equal(*sizes)
        assert bool((sizes[0][~sound] == columns).all())


@given(
    st.lists(st.lists(st.floats(-700, 700), min_size=5, max_size=5), min_size=1, max_size=5),
    st.integers(0, 5),
)
def test_a_row_has_the_same_bits_in_any_batch(rows: list[list[float]], cut: int) -> None:
    """Each row is summed in an order of its own."""
    scores = torch.tensor(rows, dtype=torch.float64).repeat(1, 211)
    target, weights = torch.zeros(len(rows), dtype=torch.int64), Weights(are_scores=False)

    def sums(part: Tensor) -> Tensor:
        return choose(scores, "weighs").weigh(scores[part], target[part], weights)[0]

    order = torch.arange(len(rows))
    assert torch.equal(torch.cat([sums(order[:cut]), sums(order[cut:])]), sums(order))


def test_exp_is_within_its_bound_everywhere() -> None:
    """Weights from 1 to the smallest, each alone in its row beside the highest."""
    depth = torch.cat([torch.linspace(0, 40, 4001), torch.linspace(40, 745, 706)]).double()
    scores = torch.stack([torch.zeros_like(depth), -depth], 1)
    target = torch.zeros(len(depth), dtype=torch.int64)
    sums, _ = choose(scores, "weighs").weigh(scores, target, Weights(are_scores=False))
    assert bool(((sums[:, 1] - (1 + (-depth).exp())).abs() <= 2.0**-34).all())
    squares = sums[:, 2] - 1
    assert bool(((squares - (-2 * depth).exp()).abs() <= 2.0**-32).all())


def test_weights_are_checked_when_they_are_first_used() -> None:
    """A wrong sum disables the backend for weights, and the check of counts does not look at it."""

    class Wrong(Reference):
        """Adds up the weights above the target, but one too much."""

        name = "wrong"
        is_proven = weighs = False

        def weigh(self, scores: Tensor, target: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
            sums, tied = super().weigh(scores, target, weights)
            return sums + 1, tied

    wrong = Wrong()
    assert proof.passes(wrong)
    with pytest.warns(UserWarning, match="differs from `reference` in `weigh` or `gather`"):
        assert not proof.passes(wrong, "weighs")
    assert not wrong.weighs
    del proof.disabled["wrong"]
