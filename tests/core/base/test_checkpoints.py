"""Checkpoints: persistent states resume exactly, and what does not fit is named."""

from __future__ import annotations

import copy
import pickle
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import distributed_workers as work
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecilePrecision,
    Grouped,
    LocationF1,
    PopularityBins,
    RankingCollection,
    next_location_metrics,
)

EVERYTHING = work.evaluated(several=False)
#: one of the classes that have the same bases, which save and load for them
ONE_EACH = {type(metric).__mro__[1:]: name for name, metric in EVERYTHING.items()}.values()


def _make(name: str) -> Any:
    return copy.deepcopy(EVERYTHING[name])


@pytest.mark.parametrize("name", ONE_EACH)
def test_evaluation_resumes_from_a_file(name: str, tmp_path: Path):
    """Half an evaluation, saved and loaded strictly, goes on to the bits of a whole one."""
    whole, first, second = _make(name), _make(name), _make(name)
    work.add(whole, work.rows(0, 101))
    work.add(first, work.rows(0, 40))
    assert first.state_dict() == {}  # unless it is asked for
    first.persistent(True)
    second.persistent(True)
    torch.save(first.state_dict(), tmp_path / "half.pt")

    second.load_state_dict(torch.load(tmp_path / "half.pt", weights_only=True))
    work.assert_same(second.compute(), first.compute())  # no warning that nothing was counted
    work.add(second, work.rows(40, 101))
    work.assert_same(second.compute(), whole.compute())
    second.reset()
    work.add(second, work.rows(0, 101))
    work.assert_same(second.compute(), whole.compute())


@pytest.mark.parametrize("name", ONE_EACH)
def test_copies_and_batches_of_any_size_go_on(name: str):
    """Copies share nothing; `forward`, inference mode, batches of no or one query change no bit."""
    whole, metric = _make(name), _make(name)
    first, second = work.rows(0, 40), work.rows(40, 101)
    for batch in (first, second):
        work.add(whole, batch)
    work.add(metric, first)
    before = work.states(metric)
    for other in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), metric.clone()):
        assert repr(other) == repr(metric)
        work.add(other, second)
        work.assert_same(other.compute(), whole.compute())
        assert all(map(torch.equal, work.states(metric), before))
    work.add(metric.to("cpu").half(), work.rows(40, 40))
    assert all(map(torch.equal, work.states(metric), before))
    with torch.inference_mode():
        work.add(metric, work.rows(40, 41))
    alone = _make(name)
    work.add(alone, work.rows(41, 101))
    work.assert_same(work.add(metric, work.rows(41, 101), forward=True), alone.compute())
    work.assert_same(metric.compute(), whole.compute())


def test_loading_replaces_what_was_counted():
    """A loaded state takes the place of the old one, of a cached value, and is a copy."""
    saved, metric = MRR(), MRR()
    for each, batch in ((saved, work.rows(0, 40)), (metric, work.rows(40, 101))):
        each.persistent(True)
        work.add(each, batch)
    metric.compute()
    state = saved.state_dict()
    metric.load_state_dict(state)
    work.assert_same(metric.compute(), saved.compute())
    for tensor in state.values():
        tensor.zero_()
    metric._computed = None
    work.assert_same(metric.compute(), saved.compute())


def test_metrics_inside_a_model():
    """Metrics of a module are saved under its names, and load in the same place."""

    class Model(nn.Module):
        def __init__(self, persistent: bool) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.metrics = next_location_metrics(work.LOCATIONS, prefix="val/")
            self.by_user = Grouped(MRR(), work.GROUPS)
            self.by_key = RankingCollection(work.members_by_key())
            self.metrics.persistent(persistent)
            self.by_user.persistent(persistent)
            self.by_key.persistent(persistent)

    model, other, plain = Model(True), Model(True), Model(False)
    work.add(model.metrics, work.rows(0, 40))
    work.add(model.by_user, work.rows(0, 40))
    work.add(model.by_key, work.rows(0, 40))
    work.add(other.by_key, work.rows(40, 101))  # which is replaced
    other.load_state_dict(model.state_dict())
    work.assert_same(other.metrics.compute(), model.metrics.compute())
    work.assert_same(other.by_user.compute(), model.by_user.compute())
    work.assert_same(other.by_key.compute(), model.by_key.compute())

    plain.load_state_dict(nn.ModuleDict({"layer": nn.Linear(2, 2)}).state_dict())  # no metrics
    assert {name.split(".")[0] for name in plain.state_dict()} == {"layer"}
    with pytest.raises(RuntimeError, match=r"(?i)missing") as error:
        other.load_state_dict(plain.state_dict())
    for name in ("metrics.acc_at_1.AccuracyAtK(k=1)", "by_user.Grouped("):
        assert name in str(error.value)


def test_a_missing_state_is_no_error_where_that_is_asked_for():
    """`strict=False` loads what there is, and returns what is missing, as PyTorch has it."""
    metric = AccuracyAtK(10)
    metric.persistent(True)
    work.add(metric, work.rows(0, 40))
    before = metric.state.clone()
    result = metric.load_state_dict({}, strict=False)
    assert result.missing_keys == ["AccuracyAtK(k=10)"]
    assert torch.equal(metric.state, before)


@pytest.mark.parametrize(
    ("name", "wrong", "expected", "found"),
    [
        ("MRR()", torch.zeros(2, dtype=torch.int64), "int64 (3,)", "int64 (2,)"),
        ("MRR()", torch.zeros(3), "int64 (3,)", "float32 (3,)"),
        (
            "LocationF1(num_locations=6)",
            torch.zeros(3, 8, dtype=torch.int64),
            "int64 (3, 7)",
            "int64 (3, 8)",
        ),
    ],
)
def test_a_state_of_another_shape_names_both(name: str, wrong: Tensor, expected: str, found: str):
    """A state of another shape or dtype is an error that names both, and changes nothing."""
    metric = _make(name)
    work.add(metric, work.rows(0, 40))
    metric.persistent(True)
    (key,) = metric.state_dict()
    before = metric.state.clone()
    message = f"the state `{key}` must be {expected}, got {found}"
    for strict in (True, False):
        with pytest.raises(RuntimeError, match=re.escape(message)):
            metric.load_state_dict({key: wrong}, strict=strict)
    assert torch.equal(metric.state, before)


def test_states_of_other_options_are_not_taken_for_this():
    """Options that change what is counted are in the state's name, and the error has both."""
    pairs = [
        (AccuracyAtK(5), AccuracyAtK(10)),
        (LocationF1(8), LocationF1(9)),
        (MRR(), MRR(ties="pessimistic")),
        (DecilePrecision(PopularityBins([1, 2]), 1), DecilePrecision(PopularityBins([2, 1]), 1)),
        (Grouped(MRR(), 3), Grouped(MRR(5), 3)),
    ]
    for one, other in pairs:
        one.persistent(True)
        other.persistent(True)
        with pytest.raises(RuntimeError, match=r"(?i)missing") as error:
            other.load_state_dict(one.state_dict())
        for name in (*one.metric_state, *other.metric_state):
            assert name in str(error.value)


def test_collections_load_before_and_after_their_first_update():
    """Members that share a state share it again after loading, whenever that is."""
    table = work.bins()

    def make() -> RankingCollection:
        members = {str(i): DecilePrecision(table, 2, decile=i) for i in (1, 2, 3)}
        metrics = RankingCollection({**members, "mrr": MRR()})
        metrics.persistent(True)
        return metrics

    saved, fresh, used, whole = make(), make(), make(), make()
    work.add(saved, work.rows(0, 40))
    work.add(used, work.rows(7, 90))
    work.add(whole, work.rows(0, 101))
    for metrics in (fresh, used):
        metrics.load_state_dict(saved.state_dict())
        work.assert_same(metrics.compute(), saved.compute())
        work.add(metrics, work.rows(40, 101))
        work.assert_same(metrics.compute(), whole.compute())


# Several processes --------------------------------------------------------------------------------


def save_and_resume(rank: int) -> dict[str, Any]:
    """Save half an evaluation of two processes on one of them, and resume it on both."""
    metrics, resumed = (RankingCollection(work.members_by_key()) for _ in range(2))
    metrics.persistent(True)
    work.add(metrics, work.rows(20 * rank, 20 * rank + 20))
    with ExitStack() as summed:
        for metric in metrics.values(copy_state=False):
            summed.enter_context(metric.sync_context())
        checkpoint = metrics.state_dict()

    resumed.persistent(True)
    resumed.load_state_dict(checkpoint)
    if rank > 0:
        resumed.reset()  # the first process holds the counts of all
    for each in (metrics, resumed):
        work.add(each, work.rows(40 + 30 * rank, 70 + 30 * rank))
    return {"resumed": resumed.compute(), "without a break": metrics.compute()}


@pytest.mark.slow
def test_two_processes_resume_from_one_checkpoint():
    """States summed over the processes are loaded on one of them, and go on exactly."""
    metrics = RankingCollection(work.members_by_key())
    work.add(metrics, work.rows(0, 100))
    for values in work.run(save_and_resume, 2):
        work.assert_same(values["resumed"], metrics.compute())
        work.assert_same(values["without a break"], metrics.compute())
