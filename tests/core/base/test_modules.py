"""Metrics as parts of a model: it is scripted, traced, exported, made without memory and moved."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import nextloc_metrics
from metric_entries import CLASSES, ENTRIES, case_of
from metric_tester import BINS, LOCATIONS, PLACES, Case
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileNDCG,
    Grouped,
    PerQueryScores,
    PopularityBins,
    RankingCollection,
    trajectories,
)
from nextloc_metrics.geography import AccuracyWithin, Locations
from strategies import batch, same, updated

# What presets cannot be made without, and the options that add members.
NEEDED: dict[str, Any] = {"bins": BINS, "locations": PLACES, "num_locations": LOCATIONS}


def makers() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every public metric class, and every preset with all its members."""
    for entry in ENTRIES.values():
        yield entry.name, entry.cases[0].make
    for name in nextloc_metrics.__all__:
        if name.endswith("_metrics"):
            preset = getattr(nextloc_metrics, name)
            taken = [
                x.name
                for x in inspect.signature(preset).parameters.values()
                if x.name in NEEDED and (x.default is x.empty or x.name == "locations")
            ]
            yield name, partial(preset, **{option: NEEDED[option] for option in taken})
    yield "trajectory_metrics", trajectories.trajectory_metrics


MAKERS = dict(makers())
BY_MAKER = pytest.mark.parametrize("name", MAKERS)


class Model(torch.nn.Module):
    """A model that holds a metric, as a LightningModule does."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 3)
        self.metric = metric

    def forward(self, x: Tensor) -> Tensor:
        """Return scores; the metric is not read."""
        scores: Tensor = self.layer(x)
        return scores


# PyTorch's and TorchMetrics' own warnings of TorchScript
AS_SCRIPT = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning:torch"
)


@pytest.mark.slow  # compiles
@AS_SCRIPT
@BY_MAKER
def test_a_model_with_a_metric_is_scripted_and_traced(name: str) -> None:
    """`to_torchscript` of a LightningModule, by which models are deployed, has these two ways."""
    model, x = Model(MAKERS[name]()), torch.ones(1, 2)
    for made in (torch.jit.script(model), torch.jit.trace(model, x)):
        assert torch.equal(made(x), model(x))


@pytest.mark.slow  # exports
@BY_MAKER
def test_a_model_with_a_metric_is_exported(name: str) -> None:
    """`torch.export` leaves out what the forward pass does not read."""
    model, x = Model(MAKERS[name]()), torch.ones(1, 2)
    made = torch.export.export(model, (x,), strict=False).module()
    assert torch.equal(made(x), model(x))


@AS_SCRIPT
def test_a_metric_of_ones_own_is_scripted() -> None:
    """Its properties, options and modules have no types in TorchScript."""

    class Own(AccuracyAtK):
        """A metric whose attributes TorchScript cannot read."""

        flavour: str | tuple[int, ...] = "sweet"

        @property
        def described(self) -> dict[str, object]:
            """Return the options."""
            return {"k": self.k, "flavour": self.flavour}

    for metric in (Own(2), Grouped(Own(2), 3), PerQueryScores(Own(2))):
        torch.jit.script(metric)
        torch.jit.script(Model(metric))


# Memory and devices -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [*CLASSES, case_of("DecileNDCG", bins=BINS, k=3)], ids=str)
def test_an_emptied_metric_is_empty(case: Case) -> None:
    """Large models are made on `meta`, and `to_empty` gives them memory that holds anything."""
    torch.manual_seed(0)
    given = batch()
    metric = case.make()
    expected = updated(metric, *given).compute()
    model = Model(updated(case.make(), *given)).to("meta")
    assert model.metric.state.is_meta
    model.to_empty(device="cpu")
    assert not model.metric.state.any()
    assert same(updated(model.metric, *given).compute(), expected)
    model.metric.reset()
    assert not model.metric.state.any()
    assert same(updated(model.metric, *given).compute(), expected)
    # of a device with values nothing is lost
    assert same(metric.to_empty(device="cpu").compute(), expected)


def test_a_model_that_is_made_without_memory_counts_from_zero() -> None:
    """The metrics of a model that is made under `torch.device("meta")` are empty on the device."""
    with torch.device("meta"):
        model = Model(RankingCollection([MRR(), AccuracyAtK(1)]))
    model.to_empty(device="cpu")
    values = updated(model.metric, torch.tensor([[0.1, 0.7, 0.2]]), torch.tensor([2])).compute()
    assert {name: float(x) for name, x in values.items()} == {"MRR": 0.5, "AccuracyAtK": 0.0}


@pytest.mark.parametrize("case", CLASSES, ids=str)
def test_a_value_does_not_depend_on_the_default_device(case: Case) -> None:
    """`torch.set_default_device` says where a model's tensors are made, and not the metric's."""
    torch.manual_seed(0)
    metric = updated(case.make(), *batch())
    expected = case.make()
    expected.merge_state(metric)
    with torch.device("meta"):
        found = metric.compute()
    assert same(found, expected.compute())


def test_an_interval_does_not_read_the_default_device() -> None:
    """Quantiles that are kept for later intervals are made on the CPU."""
    reciprocal = updated(MRR(), torch.tensor([[0.5, 0.4]] * 37), torch.arange(37) % 2)
    level = 0.8125  # no other test asks for it
    with torch.device("meta"):
        found = reciprocal.interval(level)
    assert all(map(same, found, reciprocal.interval(level)))


def test_a_moved_metric_leaves_the_tables_of_others() -> None:
    """Bins and coordinates that several metrics read stay where the others are."""
    bins, places = PopularityBins([1, 2, 0]), Locations([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
    moved, stays = DecileNDCG(bins, k=1), DecileNDCG(bins, k=1)
    far, near = AccuracyWithin(places, 1.0, k=1), AccuracyWithin(places, 1.0, k=1)
    moved.to("meta")
    far.to("meta")
    assert (moved.bins.bin_of.is_meta, far.locations.points.is_meta) == (True, True)
    assert (bins.bin_of.is_cpu, places.points.is_cpu) == (True, True)
    for metric in (stays, near):
        metric.update(torch.tensor([[0.1, 0.7, 0.2]]), torch.tensor([2]))
    # what moves together shares one copy
    collection = RankingCollection({"one": DecileNDCG(bins, k=1), "two": DecileNDCG(bins, k=2)})
    collection.to("meta")
    one, two = collection.members()
    assert one.bins is two.bins
    assert one.bins is not bins


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_moved_metric_is_copied_and_moves_back(copied: Callable[[Any], Any]) -> None:
    """The table that an option named is at hand on every device."""
    metric = copied(DecileNDCG(PopularityBins([1, 2, 0]), k=1).to("meta")).to_empty(device="cpu")
    assert metric.bins.bin_of.tolist() == [1, 2, 0]
    assert copied(metric).bins.bin_of.tolist() == [1, 2, 0]


def test_a_metric_in_half_precision_keeps_its_table() -> None:
    """A change of the dtype alone moves nothing."""
    metric = DecileNDCG(PopularityBins([1, 2, 0]), k=1)
    bins = metric.bins
    assert metric.half().bins is bins
    assert bins.bin_of.dtype == torch.int64
