"""The temperature of logits."""

from __future__ import annotations

import math

import pytest
import scipy.optimize
import scipy.stats
import torch
from torch import tensor

from nextloc_metrics import NegativeLogLikelihood, analysis


def test_the_temperature_minimises_the_likelihood() -> None:
    """The same as SciPy's minimum of the metric over temperatures, for impossible logits, too."""
    torch.manual_seed(2)
    logits = 3 * torch.randn(300, 12)
    target = torch.distributions.Categorical(logits=logits / 2.5).sample()
    others = torch.arange(12) != target[:, None]
    logits = logits.masked_fill(others & (torch.rand(300, 12) < 0.1), -math.inf)

    def loss(temperature: float) -> float:
        metric = NegativeLogLikelihood(given="logits", temperature=temperature)
        metric.update(logits.double(), target)
        return float(metric.estimate().mean)

    best = scipy.optimize.minimize_scalar(
        loss, bounds=(0.5, 10), method="bounded", options={"xatol": 1e-9}
    )
    found = analysis.fit_temperature(logits, target)
    assert found == pytest.approx(best.x, rel=1e-4)
    assert loss(found) <= loss(found * 1.001)
    assert loss(found) <= loss(found / 1.001)


@pytest.mark.parametrize("case", ["all rows", "a mask of -1e9"])
def test_the_temperature_of_many_logits(case: str) -> None:
    """The slope of PyTorch's likelihood is 0 there."""
    torch.manual_seed(3)
    logits = 3 * torch.randn(600, 400, dtype=torch.float64)
    target = torch.distributions.Categorical(logits=logits / 2.5).sample()
    if case == "a mask of -1e9":
        others = torch.arange(400) != target[:, None]
        logits[others & (torch.rand(600, 400) < 0.1)] = -1e9
    given = logits.clone()
    found = analysis.fit_temperature(given, target)
    temperature = torch.tensor(found, dtype=torch.float64, requires_grad=True)
    assert given.equal(logits)
    torch.nn.functional.cross_entropy(logits / temperature, target).backward()
    assert temperature.grad is not None
    assert abs(float(temperature.grad)) < 1e-10


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1.0, 1e7, 1e38, 1e300])
def test_the_temperature_has_the_scale_of_the_logits(scale: float) -> None:
    """Three of four targets have a logit that is higher by 4: T = 4 / log(3), times the scale."""
    logits = torch.tensor([[4.0, 0.0]] * 4, dtype=torch.float64) * scale
    found = analysis.fit_temperature(logits + scale, tensor([0, 0, 0, 1]))
    assert found == pytest.approx(4 / math.log(3) * scale, rel=1e-9)


def test_masked_queries_have_no_part_in_the_temperature() -> None:
    """An unseen target, or NaN, that is left out is not read; otherwise the error says `mask`."""
    logits = torch.tensor([[4.0, 0.0]] * 4 + [[math.nan, 0.0]])
    target = tensor([0, 0, 0, 1, 7])
    found = analysis.fit_temperature(logits, target, mask=[True] * 4 + [False])
    assert found == pytest.approx(4 / math.log(3))
    for wrong in (target, tensor([0, 0, 0, 1, -1])):
        with pytest.raises(ValueError, match=r"`target` must be from 0 to 1, got .* with `mask`"):
            analysis.fit_temperature(logits, wrong)
    with pytest.raises(ValueError, match="`target` must have at least one query that counts"):
        analysis.fit_temperature(logits, target, mask=[False] * 5)
