"""Every public metric class against its entry in the table: definition, options, promises."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from torchmetrics import Metric

import nextloc_metrics
from metric_entries import CASES, ENTRIES
from metric_tester import Case, Entry, arguments_of
from nextloc_metrics import Grouped, MeanMetric, geography, trajectories
from strategies import same

#: options of all metrics of one kind, which `tests/core/base` tries
OF_EVERY = {"ignore_index", "validate_args", "empty_target_action", "ties", "given", "temperature"}
#: and those that say how points or groups are written
OF_POINTS_AND_GROUPS = {"units", "locations", "by", "labels", "decile"}

EVERY_CLASS = pytest.mark.parametrize("entry", ENTRIES.values(), ids=str)
EVERY_CASE = pytest.mark.parametrize(
    "case", [case for entry in ENTRIES.values() for case in entry.all_cases], ids=str
)
DEFINED = pytest.mark.parametrize(
    "case",
    [case for entry in ENTRIES.values() if entry.definition for case in entry.all_cases],
    ids=str,
)


def public_metrics() -> Iterator[tuple[str, type[Metric]]]:
    """The names and classes of the metrics that users make."""
    rooms: list[tuple[str, ModuleType]] = [
        ("", nextloc_metrics), ("geography.", geography), ("trajectories.", trajectories)
    ]  # fmt: skip
    for prefix, room in rooms:
        for name in room.__all__:
            kind = getattr(room, name)
            is_metric = isinstance(kind, type) and issubclass(kind, Metric)
            if is_metric and not inspect.isabstract(kind) and name != "RankingMetric":
                yield f"{prefix}{name}", kind


def test_every_public_metric_is_in_the_table() -> None:
    """A metric class that is exported is tested; to be tested it needs an entry."""
    assert dict(public_metrics()) == {name: entry.kind for name, entry in ENTRIES.items()}


def has_one_value(kind: type[Metric], option: str) -> bool:
    """Whether an option can only be what it is."""
    hint = str(inspect.get_annotations(kind).get(option))
    return "Literal[" in hint and "," not in hint


@EVERY_CLASS
def test_every_option_is_tried(entry: Entry) -> None:
    """Each has a value in the table that is not its default."""
    options = {
        x.name: x.default
        for x in inspect.signature(entry.kind).parameters.values()
        if x.kind is not x.VAR_KEYWORD
        if not has_one_value(entry.kind, x.name)
    }
    tried = {
        name
        for case in entry.all_cases
        for name, value in case.options.items()
        if options.get(name, inspect.Parameter.empty) is not value
    }
    assert options.keys() - tried <= OF_EVERY | OF_POINTS_AND_GROUPS


@EVERY_CLASS
def test_every_class_has_a_worked_example(entry: Entry) -> None:
    """The doctests run it, with the arithmetic beside the value where there is any."""
    text = inspect.getdoc(entry.kind) or ""
    assert ">>> " in text.partition("Example:")[2]


@EVERY_CASE
def test_direction_and_bounds(case: Case) -> None:
    """What torchmetrics and trackers ask a metric class."""
    metric, entry = case.make(), case.entry
    if entry.reads == "groups":  # those of the metric inside
        entry = ENTRIES[type(case.options["metric"]).__name__]
    assert metric.higher_is_better is entry.higher_is_better
    assert metric.plot_lower_bound == (None if entry.reads == "query_ids" else 0.0)
    assert metric.plot_upper_bound == entry.bound
    assert metric.is_differentiable is False
    assert metric.full_state_update is False


@DEFINED
def test_the_value_is_that_of_the_definition(case: Case) -> None:
    """In each form of a batch: ties, NaN, lists, masked queries, and such without an answer."""
    for form, arguments in arguments_of(case.entry.reads).items():
        metric = case.make()
        metric.update(**arguments)
        found, expected = metric.compute(), case.defined(*arguments.values())
        if isinstance(expected, dict):
            assert list(found) == list(expected), form
            for name, value in expected.items():
                assert found[name].item() == case.near(value), (form, name)
        elif isinstance(expected, list):
            assert found.tolist() == [case.near(value) for value in expected], form
        else:
            assert found.shape == ()
            assert found.dtype == torch.float32
            assert found.item() == case.near(expected), form


@EVERY_CASE
def test_two_halves_are_the_whole(case: Case) -> None:
    """In two updates, in two merged metrics, and before and behind a checkpoint or a copy."""
    arguments = next(iter(arguments_of(case.entry.reads).values()))
    halves = [{name: x[part] for name, x in arguments.items()} for part in (slice(7), slice(7, 16))]
    whole, one, other, loaded = (case.make() for _ in range(4))
    whole.update(**arguments)
    one.update(**halves[0])
    other.update(**halves[1])
    one.persistent(True)
    loaded.persistent(True)
    loaded.load_state_dict(one.state_dict())
    assert repr(loaded) == repr(one)
    merged = copy.deepcopy(one)
    merged.merge_state(other)
    for metric in (one, loaded, pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        metric.update(**halves[1])
        assert same(metric.compute(), whole.compute())
    assert same(merged.compute(), whole.compute())


MEANS = [
    case
    for entry in ENTRIES.values()
    for case in entry.cases
    if issubclass(entry.kind, MeanMetric)
    if entry.reads != "groups" and case.make().is_mean
]


@pytest.mark.parametrize("case", MEANS, ids=str)
def test_a_group_has_the_value_of_its_queries(case: Case) -> None:
    """Of each group, to the bit, that of a metric of these queries alone."""
    arguments = next(iter(arguments_of(case.entry.reads).values()))
    groups = torch.arange(16) % 3
    grouped = Grouped(case.make(), 3)
    grouped.update(**arguments, groups=groups)
    found = grouped.compute()
    for group in range(3):
        alone = case.make()
        alone.update(**{name: x[groups == group] for name, x in arguments.items()})
        value = alone.compute()
        if isinstance(found, dict):
            assert all(same(found[name][group], value[name]) for name in value)
        else:
            assert same(found[group], value)


@EVERY_CASE
def test_a_wrong_batch_is_refused_and_changes_nothing(case: Case) -> None:
    """A mask or a target of another number of queries, or of complex numbers."""
    arguments = next(iter(arguments_of(case.entry.reads).values()))
    metric = case.make()
    metric.update(**arguments)
    before = metric.compute()
    wrong = [
        {**arguments, "preds": arguments["preds"][:3]},
        {**arguments, "target": arguments["target"][:3]},
        {**arguments, "preds": arguments["preds"].to(torch.complex64)},
        {**arguments, "mask": torch.ones(3, dtype=torch.bool)},
    ]
    for batch in wrong:
        for way in (metric.update, metric):
            with pytest.raises((TypeError, ValueError), match="`"):
                way(**batch)
    assert same(metric.compute(), before)


def test_repr_shows_what_was_chosen() -> None:
    """Every option that differs from its default can be read."""
    names = {name: getattr(nextloc_metrics, name) for name in nextloc_metrics.__all__}
    for case in CASES:
        text = repr(case.make())
        assert text.startswith(case.name.rpartition(".")[2] + "(")
        tables = case.options.keys() & {"train_counts", "locations"}  # are written as a digest
        for name, value in case.options.items():
            assert f"{name}=" in text
            assert name in tables or f"{name}={value!r}" in text
        if tables:
            assert re.search(r"=<(int64 \(6,\)|float64 \(6, 2\)) \w+>", text)
        else:
            assert repr(eval(text, names)) == text
