"""What is read of scores as a distribution: declared or seen, of any dtype, spread and broken."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import tensor

from nextloc_metrics import (
    AURC,
    BrierScore,
    CalibrationError,
    NegativeLogLikelihood,
    probability_metrics,
)
from oracles.probabilities import numbers_of
from strategies import examples, updated_by, value

LOGITS = "logits"


WORST = [math.nan, math.inf]


# Ties and both zeros; what is infinite, no number, or nearly 0; what only float64 can tell apart.
HARD = [0.0, -0.0, 1.0, 0.5, -7.0, 700.0, 5e-324, 1e-310, 1e-300, 1e300, -1e300, 1 + 2**-52]


DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


class Everything(BrierScore):
    """A metric that reads all that a distribution may tell."""

    @property
    def needs(self) -> Any:
        """With the scores, of which all probabilities are made."""
        return replace(super().needs, scores=True)


@examples(60)
@given(st.data(), st.sampled_from(DTYPES), st.sampled_from(["logits", "probabilities"]))
def test_the_numbers_of_a_query_in_plain_loops(
    data: st.DataObject, dtype: torch.dtype, given: str
) -> None:
    """Of scores in any dtype and layout, with ties, infinities and NaN, within its rounding."""
    width = data.draw(st.integers(1, 9))
    hard = st.sampled_from([*HARD, *WORST, -math.inf])
    level = st.one_of(st.sampled_from(HARD), st.floats(-30, 30), hard)
    drawn = data.draw(st.lists(st.lists(level, min_size=width, max_size=width), min_size=1))
    scores = torch.tensor(drawn, dtype=torch.float64).to(dtype)
    scores = scores.repeat(1, data.draw(st.sampled_from([1, 1, 67])))
    scores = scores.abs() if given == "probabilities" else scores
    target = torch.arange(len(scores)) * 7 % scores.shape[1]
    warmth = 1.0 if given == "probabilities" else data.draw(st.sampled_from([1.0, 0.3, 20.0]))
    preds = data.draw(st.sampled_from([scores, scores.t().contiguous().t()]))
    record: Any = Everything(given=given, temperature=warmth, validate_args=False).read(
        preds, target
    )
    names = ("confidence", "correct", "own", "log_target", "squares")
    found = torch.stack([getattr(record, name) for name in names], 1).tolist()
    shares = torch.cat([*record.all_probabilities()]).double()
    # What the dtype needs, at least float32: exp, its argument and the division are rounded, and
    # each of at least 4 lanes of a processor adds C / 4 weights. That of float64 is 2^29 times
    # smaller. A logit's distance to the highest is exact in both.
    eps = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    off = eps * (4 + scores.shape[1] / 4)
    for row, at, mine, every in zip(scores.tolist(), target.tolist(), found, shares, strict=True):
        wanted = [*numbers_of(row, at, given, warmth)]
        if wanted[3] > -math.inf and wanted[2] < torch.finfo(torch.float32).tiny:
            wanted[3] = mine[3] if given == "probabilities" else wanted[3]  # p has few digits
        assert mine == pytest.approx(wanted, rel=2**-50, abs=off)
        if wanted[3] > -math.inf:
            assert float(every[at]) == pytest.approx(wanted[2], abs=off)


def test_logits_and_probabilities_agree() -> None:
    """Logits, log-probabilities and probabilities of one model have the same values."""
    torch.manual_seed(0)
    preds, target = torch.randn(50, 9, dtype=torch.float64), torch.randint(9, (50,))
    forms = {
        "logits": preds,
        "log_probabilities": preds.log_softmax(1),
        "probabilities": preds.softmax(1),
    }
    values = {
        name: updated_by(probability_metrics(given=name), scores, target).compute()
        for name, scores in forms.items()
    }
    for name in values["logits"]:
        first, *others = (float(of[name]) for of in values.values())
        assert others == pytest.approx([first, first], rel=1e-5), name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_probabilities_must_be_declared(dtype: torch.dtype) -> None:
    """A query that may be either is an error, in any batch; no other query is."""
    preds = tensor([[3.0, 1.0, 0.0], [0.5, 0.3, 0.2], [0.5, 0.3, 0.9]], dtype=dtype)
    target = tensor([0, 0, 0])
    for metric in (NegativeLogLikelihood(), CalibrationError(), BrierScore(), AURC()):
        with pytest.raises(ValueError, match=r"`given` must say what scores are .* query 1"):
            metric.update(preds, target)
        assert metric.num_queries == 0
        metric.update(preds, target, mask=tensor([True, False, True]))
        for row in (0, 2):
            metric.update(preds[row : row + 1], target[:1])
        assert metric.num_queries == 4
    updated_by(NegativeLogLikelihood(given=LOGITS), preds, target)
    updated_by(NegativeLogLikelihood(validate_args=False), preds, target)


@pytest.mark.parametrize(
    ("given", "off", "is_read"),
    [
        (None, 5e-5, False),
        (None, 5e-4, True),
        ("probabilities", 5e-4, True),
        ("probabilities", 2e-3, False),
        ("log_probabilities", -5e-4, True),
        ("log_probabilities", -2e-3, False),
    ],
)
def test_how_far_a_sum_may_be_from_one(given: Any, off: float, is_read: bool) -> None:
    """1e-4 for scores that are nearly probabilities, 1e-3 for declared ones."""
    preds = tensor([[0.25, 0.75]], dtype=torch.float64) * (1 + off)
    preds = preds.log() if given == "log_probabilities" else preds
    metric = NegativeLogLikelihood(given=given)
    with contextlib.nullcontext() if is_read else pytest.raises(ValueError, match="sum"):
        metric.update(preds, tensor([0]))
    assert metric.num_queries == is_read


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("number", [2, 300, 70_000])
def test_rounding_to_the_dtype_is_no_error(dtype: torch.dtype, number: int) -> None:
    """Equal probabilities and their logs are read and divided by their sum; twice as many not."""
    even = torch.full((1, number), 1 / number)
    for name, preds in (("probabilities", even), ("log_probabilities", even.log())):
        assert value(BrierScore(given=name), preds.to(dtype), [0]) == pytest.approx(1 - 1 / number)
        loss = value(NegativeLogLikelihood(given=name), preds.to(dtype), [0])
        assert loss == pytest.approx(math.log(number), rel=1e-6)
        with pytest.raises(ValueError, match="sum to 1"):
            updated_by(BrierScore(given=name), preds.to(dtype).repeat(1, 2), [0])


@pytest.mark.parametrize("wrong", WORST)
def test_a_broken_row_is_the_worst_of_all(wrong: float) -> None:
    """A query with NaN or infinity has the worst value of each metric, and counts."""
    preds, target = tensor([[wrong, 5.0, 1.0]]), tensor([1])
    found = updated_by(probability_metrics(given=LOGITS), preds, target).compute()
    assert {name: float(x) for name, x in found.items()} == {
        "nll": math.inf,
        "perplexity": math.inf,
        "brier": 2.0,
        "ece": 1.0,
        "aurc": 1.0,
        "accuracy_at_coverage": 0.0,
    }
    assert value(BrierScore(given="probabilities"), tensor([[wrong, 1.0, 0.0]]), target) == 2
    nothing = tensor([[-math.inf, -math.inf]])
    assert value(BrierScore(given=LOGITS), nothing, [1]) == 2


def test_excluded_candidates_have_no_probability() -> None:
    """The others' probabilities are divided by their sum."""
    preds, target = [[1.0, 2.0, 3.0]], [0]
    kept = value(NegativeLogLikelihood(given=LOGITS), [[1.0, 2.0]], target)
    exclude = tensor([[2, -1]])
    left = value(NegativeLogLikelihood(given=LOGITS), preds, target, exclude=exclude)
    assert left == pytest.approx(kept, rel=1e-6)
    shares = value(
        NegativeLogLikelihood(given="probabilities"), [[0.2, 0.2, 0.6]], target, exclude=exclude
    )
    assert shares == pytest.approx(math.log(2), rel=1e-6)
