"""Modules that update a metric and are compiled by `torch.compile`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch import Tensor, nn

from metric_tester import LOCATIONS
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    LocationF1,
    PerQueryScores,
    next_location_metrics,
)
from strategies import batch

pytestmark = pytest.mark.skipif(
    Version(torch.__version__) < Version("2.13"), reason="was shown with torch 2.13"
)


class Records(logging.Handler):
    """Keeps what PyTorch's compiler logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.texts.append(record.getMessage())


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """The warnings that `torch.compile` logs."""
    torch.compiler.reset()
    handler, logger = Records(), logging.getLogger("torch._dynamo")
    logger.addHandler(handler)
    yield handler.texts
    logger.removeHandler(handler)
    torch.compiler.reset()


class Evaluated(nn.Module):
    """A model that evaluates its scores in `forward`."""

    def __init__(self, metric: Any, way: str, more: dict[str, Tensor]) -> None:
        super().__init__()
        self.metric, self.way, self.more = metric, way, more

    def forward(self, hidden: Tensor, target: Tensor) -> Tensor:
        """Update the metric between two operations of the model."""
        scores = hidden * 2
        if self.way == "update":
            self.metric.update(scores, target, **self.more)
        else:
            self.metric(scores, target, **self.more)
        if self.way == "compute":
            self.metric.compute()
        return scores + 1


METRICS: dict[str, Callable[[], Any]] = {
    "accuracy": lambda: AccuracyAtK(1),
    "f1": lambda: LocationF1(LOCATIONS),
    "grouped": lambda: Grouped(MRR(), LOCATIONS),
    "per query": lambda: PerQueryScores(MRR()),
    "preset": lambda: next_location_metrics(LOCATIONS),
}


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((name, "update") for name in METRICS),
        *((name, way) for name in ("grouped", "preset") for way in ("forward", "compute")),
    ],
)
def test_a_compiled_module_may_update_a_metric(name: str, way: str, logged: list[str]) -> None:
    """Without a warning and without tracing the update, and with the bits of eager execution."""
    more = {"grouped": {"groups": torch.arange(6)}, "per query": {"query_ids": torch.arange(6)}}
    modules = [Evaluated(METRICS[name](), way, more.get(name, {})) for _ in range(2)]
    eager, traced = modules[0], torch.compile(modules[1], backend="eager")
    preds, target = batch(6)
    for _ in range(2):
        assert torch.equal(traced(preds, target), eager(preds, target))
    assert str(modules[1].metric.compute()) == str(eager.metric.compute())
    assert logged == []
