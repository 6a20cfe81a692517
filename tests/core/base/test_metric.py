"""What every metric promises by its base classes, whatever it measures."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import re
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.retrieval import RetrievalMRR
from torchmetrics.utilities.data import dim_zero_sum

from metric_entries import CLASSES, FAMILIES
from metric_tester import LOCATIONS, Case
from nextloc_metrics import (
    MRR,
    next_location_metrics,
)
from strategies import batch, same, state, updated

BY_CLASS = pytest.mark.parametrize("case", CLASSES, ids=str)
BY_FAMILY = pytest.mark.parametrize("case", FAMILIES, ids=str)  # laws that live in `base/`

# State -------------------------------------------------------------------------------------------


@BY_FAMILY
def test_the_state_is_one_summed_integer_tensor(case: Case) -> None:
    """One int64 tensor a metric that processes simply add up."""
    metric = case.make()
    assert len(metric.metric_state) == 1
    (value,) = metric.metric_state.values()
    assert isinstance(value, Tensor)
    assert value.dtype == torch.int64
    assert list(metric._reductions.values()) == [dim_zero_sum]


@BY_FAMILY
def test_the_state_does_not_grow(case: Case) -> None:
    """Many updates need the memory of one."""
    metric = case.make()
    (before,) = metric.metric_state.values()
    record = metric.read(*batch())
    for _ in range(9):
        metric.update(record)
    (after,) = metric.metric_state.values()
    assert after.shape == before.shape
    assert after.numel() <= case.entry.numbers
    assert len(pickle.dumps(metric)) < 20_000 + 2 * 8 * case.entry.numbers


@BY_FAMILY
def test_no_graph_is_kept(case: Case) -> None:
    """Scores that require a gradient leave no trace and can be freed."""
    preds, target = batch()
    logits = preds.clone().requires_grad_()
    scored = logits * 1.0
    metric = case.make()
    metric.update(scored, target)
    batch_value = metric(scored, target)
    assert not batch_value.requires_grad
    assert not metric.compute().requires_grad
    assert not any(value.requires_grad for value in metric.metric_state.values())
    dead = weakref.ref(scored)
    del scored
    assert dead() is None


CASTS: dict[str, Callable[[Metric], Any]] = {
    "bfloat16": lambda metric: metric.bfloat16(),
    "to": lambda metric: metric.to(torch.half),
    "both": lambda metric: metric.set_dtype(torch.half).half(),
}


@BY_FAMILY
def test_casts_leave_counts_whole(case: Case) -> None:
    """fp16 stops counting at 2,048; states of integers do not, also after a reset."""
    preds = torch.zeros(2500, LOCATIONS)
    preds[:, 2] = 1.0
    hit, miss = torch.full((2500,), 2), torch.full((2500,), 3)
    preds[:, 3] = -math.inf
    expected = updated(updated(case.make(), preds, hit), preds, miss)
    for name, lower in CASTS.items():
        metric = case.make()
        lower(metric)
        metric.update(preds, hit)
        lower(metric)
        metric.update(preds, miss)
        assert same(state(metric), state(expected)), name
        assert same(metric.compute(), expected.compute()), name
        assert metric.num_queries == 5000, name
        metric.reset()
        metric.update(preds, hit)
        assert metric.num_queries == 2500, name
        assert all(value.dtype == torch.int64 for value in metric.metric_state.values()), name


@BY_FAMILY
def test_merging_metrics_equals_one_metric(case: Case) -> None:
    """States of two metrics merge to the state of one that saw both halves."""
    preds, target = batch(n=10)
    whole = updated(case.make(), preds, target)
    one = updated(case.make(), preds[:3], target[:3])
    other = updated(case.make(), preds[3:], target[3:])
    for first, second in ((one, other), (case.make(), whole)):
        if first is one:
            first.compute()  # a value that is outdated by the merge
        first.merge_state(second)
        assert same(state(first), state(whole))
        assert same(first.compute(), whole.compute())
        assert first.num_queries == whole.num_queries


# Values ------------------------------------------------------------------------------------------


@BY_CLASS
def test_values_are_single_floats(case: Case) -> None:
    """`compute` and `forward` return a 0-dim float32 tensor, whatever the dtype of the scores."""
    preds, target = batch()
    for dtype in (torch.float16, torch.float64):
        metric = case.make()
        for value in (metric(preds.to(dtype), target), metric.compute()):
            assert value.shape == ()
            assert value.dtype == torch.float32
            assert value >= 0
            assert value <= metric.largest_value or case.name == "Entropy"


#: the members of the contract, what follows from them, and the options
NAMES_OF_A_MEAN = {
    *("record", "needs", "formula", "at_rank", "score", "tally", "empty_state", "check"),
    *("num_queries", "estimate", "chance", "label", "unit", "largest_value", "shared_state"),
    *("is_mean", "has_interval", "key_labels", "footnotes", "group_kind", "set_by_init"),
    "key_names",
    *("read", "state", "state_key", "standard_error", "interval", "scores_of"),
    *("held", "restore", "is_keyed", "options", "score_factor"),
    *("averages_ties", "chance_of_block"),
    *("k", "ties", "validate_args"),
}


def test_few_public_names_each_documented() -> None:
    """Those beyond TorchMetrics' have a docstring, or a line of a class's docstring."""
    names = {name for name in dir(MRR()) if not name.startswith("_")} - {*dir(RetrievalMRR())}
    written = "".join(inspect.getdoc(kind) or "" for kind in MRR.__mro__)
    for name in names:
        found = inspect.getattr_static(MRR, name, None)
        has_docstring = isinstance(found, property | FunctionType) and inspect.getdoc(found)
        assert has_docstring or re.search(rf"^ *{name}: ", written, re.MULTILINE), name
    assert names == NAMES_OF_A_MEAN


@BY_FAMILY
def test_nan_before_data(case: Case) -> None:
    """Without data there is no number: NaN, with torchmetrics' own warning, and no queries."""
    metric = case.make()
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        value = metric.compute()
    assert value.isnan()
    assert value.shape == ()
    assert metric.num_queries == 0


@BY_FAMILY
def test_nan_when_nothing_counts(case: Case) -> None:
    """A batch that is all masked counts nothing, silently."""
    preds, target = batch()
    mask = torch.zeros(len(target), dtype=torch.bool)
    metric = updated(case.make(), preds, target, mask=mask)
    assert metric.num_queries == 0
    assert metric.compute().isnan()
    assert all((value == 0).all() for value in metric.metric_state.values())
    assert metric(preds, target, mask=mask).isnan()


@BY_FAMILY
def test_forward_updates_once(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """`forward` returns the batch's value, adds the batch to the rest, and reads it once."""
    calls = []
    first, second = batch(), batch()
    all_rows = torch.ones(len(second[1]), dtype=torch.bool)  # with a mask the record is made
    by_update = updated(case.make(), *first)
    alone = updated(case.make(), *second).compute()
    by_update.update(*second)
    metric = updated(case.make(), *first)
    original = metric.record.read.__func__

    def counted(cls: Any, batch: Any, needs: Any) -> Any:
        calls.append(1)
        return original(cls, batch, needs)

    monkeypatch.setattr(metric.record, "read", classmethod(counted))
    value = metric(*second, all_rows)
    assert calls == [1]
    assert same(value, alone)
    assert same(state(metric), state(by_update))
    assert same(metric.compute(), by_update.compute())


@BY_FAMILY
def test_reset_forgets_everything(case: Case) -> None:
    """After `reset` a metric is as new."""
    metric = updated(case.make(), *batch())
    metric.compute()
    metric.reset()
    assert same(state(metric), state(case.make()))
    later = batch()
    assert same(updated(metric, *later).compute(), updated(case.make(), *later).compute())


@BY_FAMILY
def test_inference_mode_and_after(case: Case) -> None:
    """Updates and a reset inside inference mode go on outside of it, and the other way round."""
    one, other = batch(), batch()
    expected = updated(case.make(), *one)
    expected.update(*other)
    metric = updated(case.make(), *other)
    with torch.inference_mode():
        metric.reset()
        metric.update(*one)
        metric.compute()
    metric.update(*other)
    assert same(metric.compute(), expected.compute())
    with torch.inference_mode():
        made_inside = case.make()
        made_inside(*one)
    made_inside(*other)
    assert same(made_inside.compute(), expected.compute())
    with torch.inference_mode():
        made_inside.reset()
        made_inside.update(*one)
    made_inside.update(*other)
    assert same(made_inside.compute(), expected.compute())
    made_inside.reset()
    made_inside.update(*one)
    assert same(state(pickle.loads(pickle.dumps(made_inside))), state(updated(case.make(), *one)))


@BY_FAMILY
def test_a_state_that_was_handed_out_stays(case: Case) -> None:
    """An update changes neither what was read before nor a copy, however shallow."""
    metric = updated(updated(case.make(), *batch()), *batch())
    before, handed_out = state(metric), metric.metric_state
    metric.update(*batch())
    assert same(dict(zip(before, handed_out.values(), strict=True)), before)
    before, shallow = state(metric), copy.copy(metric)
    metric.update(*batch())
    assert same(state(shallow), before)
    before = state(metric)
    shallow.update(*batch())
    assert same(state(metric), before)


@BY_FAMILY
def test_inputs_are_left_alone(case: Case) -> None:
    """Scores, ids and mask are read and never written."""
    preds, target = batch()
    mask = torch.ones(len(target), dtype=torch.bool)
    copies = [t.clone() for t in (preds, target, mask)]
    case.make()(preds, target, mask=mask)
    assert all(torch.equal(a, b) for a, b in zip((preds, target, mask), copies, strict=True))


@BY_FAMILY
def test_without_validation_the_numbers_are_the_same(case: Case) -> None:
    """`validate_args=False` drops checks, not results, and the state's name stays."""
    one, other = batch(), batch()
    checked, unchecked = case.make(), case.make(validate_args=False)
    for data in (one, other):
        checked.update(*data)
        unchecked.update(*data)
    assert same(checked.compute(), unchecked.compute())


# Cost --------------------------------------------------------------------------------------------


def test_deterministic_algorithms() -> None:
    """Nothing needs an operation that torch calls nondeterministic."""
    preds, target = batch()
    metrics = next_location_metrics(LOCATIONS)
    torch.use_deterministic_algorithms(True)
    try:
        metrics.update(preds, target)
        metrics.update(preds, torch.nn.functional.one_hot(target, LOCATIONS).bool())
        values = metrics.compute()
    finally:
        torch.use_deterministic_algorithms(False)
    again = next_location_metrics(LOCATIONS)
    again.update(preds, target)
    again.update(preds, target)
    assert same(values, again.compute())


def test_an_error_in_a_block_of_summed_states_leaves_the_own_state() -> None:
    """TorchMetrics would keep the sum over processes, so that the next batch is added to it."""
    metric = MRR()
    metric.update([[3, 5]], [5])
    own = metric.state
    metric.distributed_available_fn = lambda: True
    twice: Any = {"dist_sync_fn": lambda state, group=None: [state, state]}

    def fail() -> None:
        with metric.sync_context(**twice, should_sync=True):
            assert int(metric.num_queries) == 2
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert metric.state.equal(own)
    assert int(metric.num_queries) == 1
