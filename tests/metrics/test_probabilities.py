"""Metrics of probabilities, against plain loops, scikit-learn and each other."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from torch import Tensor, tensor

from nextloc_metrics import (
    BrierScore,
    CalibrationError,
    Grouped,
    NegativeLogLikelihood,
    Perplexity,
    RankingCollection,
)
from oracles.probabilities import softmax
from strategies import float32, logits, updated_by, value

LOGITS = "logits"


# Log-likelihood and Brier score ------------------------------------------------------------------


@given(logits())
def test_likelihood_and_brier_score_in_plain_loops(batch: tuple[Tensor, Tensor]) -> None:
    """Nats, bits, perplexity and the two Brier scores are those of the formulas."""
    preds, target = batch
    rows = [softmax(row) for row in preds.double().tolist()]
    own = [row[t] for row, t in zip(rows, target.tolist(), strict=True)]
    nats = sum(math.inf if p == 0 else -math.log(p) for p in own) / len(own)
    nll = updated_by(NegativeLogLikelihood(given=LOGITS), preds, target)
    assert float(nll.compute()) == pytest.approx(nats, rel=1e-6, abs=1e-7)
    assert nll.num_impossible == sum(p == 0 for p in own)
    bits = value(NegativeLogLikelihood(base=2, given=LOGITS), preds, target)
    assert bits == pytest.approx(nats / math.log(2), rel=1e-6, abs=1e-7)
    assert value(Perplexity(given=LOGITS), preds, target) == pytest.approx(math.exp(nats), rel=1e-5)
    floored = sum(-math.log(max(p, 0.01)) for p in own) / len(own)
    found = value(NegativeLogLikelihood(floor=0.01, given=LOGITS), preds, target)
    assert found == pytest.approx(floored, rel=1e-6, abs=1e-7)
    brier = sum(
        sum((p - (i == t)) ** 2 for i, p in enumerate(row))
        for row, t in zip(rows, target.tolist(), strict=True)
    ) / len(own)
    assert value(BrierScore(given=LOGITS), preds, target) == pytest.approx(brier, abs=1e-6)
    half = value(BrierScore(normalized=True, given=LOGITS), preds, target)
    assert half == pytest.approx(brier / 2, abs=1e-6)


def test_the_interval_of_the_perplexity_is_that_of_the_likelihood() -> None:
    """Exponentiated; the perplexity itself is no mean."""
    preds, target = torch.randn(30, 4), torch.randint(4, (30,))
    nll = updated_by(NegativeLogLikelihood(given=LOGITS), preds, target)
    perplexity = updated_by(Perplexity(given=LOGITS), preds, target)
    low, high = nll.interval(0.9)
    assert [float(x) for x in perplexity.interval(0.9)] == pytest.approx(
        [math.exp(low), math.exp(high)], rel=1e-6
    )
    with pytest.raises(TypeError, match="must be the mean of a score"):
        Grouped(perplexity, 3)
    record = RankingCollection({"perplexity": perplexity}).table(intervals=True).records[0]
    ends = float32((record["low"], record["high"]))
    assert ends == tuple(float(x) for x in perplexity.interval())


# What scores are ---------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", [-1e10, torch.finfo(torch.float32).min])
def test_a_masked_target_is_impossible(masked: float) -> None:
    """A logit that a model masks is as unlikely as -infinity, unless there is a floor."""
    preds, target = tensor([[0.0, masked], [0.0, 0.0]]), tensor([1, 1])
    loss = NegativeLogLikelihood(given=LOGITS)
    assert updated_by(loss, preds, target).compute() == math.inf
    assert loss.num_impossible == 1
    assert value(NegativeLogLikelihood(given=LOGITS), [[0.0, -(2.0**31)]], [1]) == 2.0**31
    floored = value(NegativeLogLikelihood(floor=0.5, given=LOGITS), preds, target)
    assert floored == pytest.approx(math.log(2))


def test_temperature_divides_logits() -> None:
    """The same as logits divided before; probabilities have none."""
    preds, target = torch.randn(20, 5, dtype=torch.float64), torch.randint(5, (20,))
    for make in (NegativeLogLikelihood, BrierScore, CalibrationError):
        warm = value(make(given=LOGITS, temperature=2.0), preds, target)
        assert warm == pytest.approx(value(make(given=LOGITS), preds / 2, target), rel=1e-6)
    with pytest.raises(ValueError, match="`temperature` must be 1"):
        BrierScore(given="probabilities", temperature=2.0)
    both = [BrierScore(given=LOGITS), NegativeLogLikelihood(given=LOGITS, temperature=2.0)]
    with pytest.raises(ValueError, match="`temperature` must be equal for all metrics"):
        updated_by(RankingCollection(both), preds, target)
