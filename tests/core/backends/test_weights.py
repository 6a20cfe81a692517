"""Sums of weights: the same bits on every backend, in any layout and split."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conftest import threads_allowed
from nextloc_metrics import backends
from nextloc_metrics.core.backends import Weights, choose, cpu, proof
from nextloc_metrics.core.backends.mass import log_of
from nextloc_metrics.core.backends.reference import Reference
from nextloc_metrics.core.distribution.distribution import Distribution, DistributionNeeds
from nextloc_metrics.core.queries.batch import Batch
from strategies import examples

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [1, 7, 8, 511, 512, 513, 3000])
@pytest.mark.parametrize("are_scores", [False, True])
def test_backends_agree(dtype: torch.dtype, columns: int, are_scores: bool) -> None:
    """Sums, counts and shares have the same bits, in rows that are not adjacent."""
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
        assert all(map(are_same, found, expected))
        assert are_same(*(one.spread(scores, expected[0], weights) for one in (backend, reference)))


def are_same(found: Tensor, expected: Tensor) -> bool:
    """Return whether two tensors have the same bits, where every NaN is one."""
    return torch.equal(found.isnan(), expected.isnan()) and torch.equal(
        found.nan_to_num(0.0, 2.0, -2.0), expected.nan_to_num(0.0, 2.0, -2.0)
    )


def numbers_of(record: Distribution) -> dict[str, Tensor]:
    """All numbers of a record by name, and the probabilities of all candidates."""
    found = {field.name: getattr(record, field.name) for field in fields(record)}
    found["probabilities"] = torch.cat(
        [torch.empty(0, record.num_candidates or 0), *record.all_probabilities()]
    )
    return {name: x for name, x in found.items() if isinstance(x, Tensor) and name != "scores"}


def layouts_of(scores: Tensor) -> Iterator[Tensor]:
    """The same scores in rows, columns, and parts of other tensors."""
    yield scores
    yield scores.t().contiguous().t()
    yield torch.nn.functional.pad(scores, (1, 2), value=9.0)[:, 1:-2]
    yield torch.stack([scores, -scores], 2)[:, :, 0]


# Ties and both zeros; what is infinite, no number, or nearly 0; what only float64 can tell apart.
HARD = [0.0, -0.0, 1.0, 0.5, -7.0, 700.0, 5e-324, 1e-310, 1e-300, 1e300, -1e300, 1 + 2**-52]
BROKEN = [math.inf, -math.inf, math.nan]


@pytest.mark.slow
@pytest.mark.skipif(bool(backends.available()["cpu"]), reason="needs the backend in C")
@examples(15)
@given(st.data(), st.sampled_from(DTYPES), st.sampled_from(["logits", "probabilities"]))
def test_records_have_the_same_bits(data: st.DataObject, dtype: torch.dtype, given: str) -> None:
    """Backends, layouts, threads, dtypes and splits of the rows change no number of a record."""
    width = data.draw(st.integers(1, 9))
    level = st.one_of(st.sampled_from(HARD), st.floats(-30, 30), st.sampled_from(HARD + BROKEN))
    drawn = data.draw(st.lists(st.lists(level, min_size=width, max_size=width), min_size=1))
    longest = data.draw(st.sampled_from([1, 1, 67, 70_000 // width]))
    rows = torch.tensor(drawn[: 3 if longest > 67 else None], dtype=torch.float64)
    scores = rows.to(dtype).repeat(1, longest)
    scores = scores.abs() if given == "probabilities" else scores
    target = torch.arange(len(scores)) * 7 % scores.shape[1]
    warmth = 1.0 if given == "probabilities" else data.draw(st.sampled_from([1.0, 0.3, 20.0]))
    needs = DistributionNeeds(given, warmth, scores=True)

    def read(preds: Tensor, part: slice) -> dict[str, Tensor]:
        batch = Batch(preds[part], target[part], validate_args=False)
        return numbers_of(Distribution.read(batch, needs))

    cut = data.draw(st.integers(0, len(scores)))
    backends.use("reference")
    expected = read(scores.double(), slice(None))
    backends.use(data.draw(st.sampled_from(["cpu", "reference"])))
    for threads, preds in zip((1, 2, 4, 4), layouts_of(scores), strict=True):
        with threads_allowed(threads):
            parts = [read(preds, part) for part in (slice(cut), slice(cut, None))]
        for name, wanted in expected.items():
            assert are_same(torch.cat([part[name] for part in parts]), wanted), name


@pytest.mark.skipif(bool(backends.available()["cpu"]), reason="needs the backend in C")
def test_rows_that_are_not_adjacent_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend in C answers for every layout, and never hands it to `reference`."""
    backend, weights = cpu.Cpu(), Weights(are_scores=False)
    for name in ("survey", "first", "weigh", "spread"):
        monkeypatch.setattr(Reference, name, None)
    for dtype in DTYPES:
        answers = []
        for scores in layouts_of(torch.randn(5, 40).to(dtype)):
            own, target = scores[:, 3:5], torch.arange(5)
            sums, tied = backend.weigh(scores, target, weights)
            answers.append(
                [
                    *backend.survey(scores, own, True),
                    backend.first(scores, 3)[1],
                    *(sums, tied),
                    backend.spread(scores, sums, weights),
                ]
            )
        for answer in answers[1:]:
            assert all(map(torch.equal, answer, answers[0]))


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=40))
def test_probabilities_are_divided_by_their_exact_sum(drawn: list[float]) -> None:
    """Their sum is that of `math.fsum`, rounded once."""
    scores = torch.tensor([drawn], dtype=torch.float64)
    needs = DistributionNeeds("probabilities")
    record = Distribution.read(Batch(scores, torch.tensor([0]), validate_args=False), needs)
    assert record.own is not None
    assert float(record.own) == drawn[0] / math.fsum(drawn)
    assert float(record.confidence) == max(drawn) / math.fsum(drawn)


@given(st.floats(5e-324, 1e308))
def test_log_is_within_its_bound(x: float) -> None:
    """Also of the smallest numbers, and of those near 1."""
    found = log_of(torch.tensor([x, 1 + x % 1e-3, 0.0, 1.0], dtype=torch.float64)).tolist()
    assert found[:2] == pytest.approx([math.log(x), math.log(1 + x % 1e-3)], rel=2.0**-51, abs=0)
    assert found[2:] == [-math.inf, 0.0]


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
    sums, *_ = choose(scores, "weighs").weigh(scores, target, Weights(are_scores=False))
    assert bool(((sums[:, 1] - (1 + (-depth).exp())).abs() <= 2.0**-34).all())
    squares = sums[:, 2] - 1
    assert bool(((squares - (-2 * depth).exp()).abs() <= 2.0**-32).all())


def test_weights_are_checked_when_they_are_first_used() -> None:
    """A wrong sum disables the backend for weights, and the check of counts does not look at it."""

    class Wrong(Reference):
        """Adds up the weights, but one too much."""

        name = "wrong"
        is_proven = weighs = False

        def weigh(self, *arguments: Any) -> tuple[Tensor, Tensor]:
            sums, tied = super().weigh(*arguments)
            return sums + 1, tied

    wrong = Wrong()
    assert proof.passes(wrong)
    with pytest.warns(UserWarning, match="differs from `reference` in `weigh` of"):
        assert not proof.passes(wrong, "weighs")
    assert not wrong.weighs
    del proof.disabled["wrong"]
