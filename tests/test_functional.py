"""Every metric as a function, against its class."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch

import nextloc_metrics
from metric_entries import CLASSES, ENTRIES
from metric_tester import Case, arguments_of
from nextloc_metrics import (
    MeanMetric,
    functional,
    geography,
    trajectories,
)
from nextloc_metrics.base import RecordMetric
from strategies import batch, same, with_case_in_error

SCORES, TARGET = batch(12)

#: one of each class that has a function, and of the options that change how it counts
CALLED = [
    *CLASSES,
    *(x.cases[-1] for x in ENTRIES.values() if not x.is_scalar and x.reads != "query_ids"),
]


def arguments_for(case: Case) -> dict[str, Any]:
    """The arguments of an update, the same in every test."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20)
        return next(iter(arguments_of(case.entry.reads).values()))


def name_of(kind: str) -> str:
    """The name of a class with underscores between its words, by another rule."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+\d?(?![a-z])", kind)
    return "_".join(words).lower()


def function_of(case: Case) -> Any:
    """The function of a class."""
    return getattr(functional, name_of(case.entry.kind.__name__))


@pytest.mark.parametrize("case", CALLED, ids=str)
def test_a_function_is_its_class(case: Case) -> None:
    """One batch has the same value by the function and by the class, bit for bit."""
    function, arguments, metric = function_of(case), arguments_for(case), case.make()
    metric.update(**arguments)
    found = function(**arguments, **case.options)
    assert same(found, metric.compute())
    if "reduction" in inspect.signature(function).parameters:
        each = function(**arguments, **case.options, reduction="none")
        assert len(each) == len(arguments["target"])
        if getattr(metric, "is_mean", False):
            assert float(each.double().nanmean()) == pytest.approx(float(found), rel=1e-5)


def test_every_metric_has_a_function() -> None:
    """Every public class that one can make has one, and the tests above know each of them."""
    rooms = (nextloc_metrics, geography, trajectories)
    public = {name: vars_of(room, name) for room in rooms for name in room.__all__}
    kinds = {
        name_of(name)
        for name, kind in public.items()
        if isinstance(kind, type) and issubclass(kind, RecordMetric)
        if not inspect.isabstract(kind) and kind is not nextloc_metrics.RankingMetric
    }
    assert len(kinds) > 40
    inner = {"group_share", "log_loss", "new_decision"}  # members of presets
    assert {*functional.__all__} == kinds | inner
    assert {name_of(x.entry.kind.__name__) for x in CALLED} == kinds
    assert {*functional.__all__} <= {*dir(functional)}
    with pytest.raises(AttributeError, match="has no attribute 'recall'"):
        functional.recall  # noqa: B018


def vars_of(room: Any, name: str) -> Any:
    """An attribute of a room."""
    return getattr(room, name)


def test_a_signature_names_update_and_options() -> None:
    """It has the arguments of `update`, then all options of the constructor; the text too."""
    for case in {x.name: x for x in CALLED}.values():
        with with_case_in_error(case):
            check_signature(case)


def check_signature(case: Case) -> None:
    """Compare the signature of a function with that of its class."""
    kind, function = case.entry.kind, function_of(case)
    found = list(inspect.signature(function).parameters.values())
    names = [x.name for x in found]
    _self, *read = inspect.signature(getattr(kind, "read", kind.update)).parameters.values()
    kept = [x.name for x in read if x.kind is not x.VAR_KEYWORD]
    assert names[: len(kept)] == kept
    made = [x for x in inspect.signature(kind).parameters.values() if x.kind is not x.VAR_KEYWORD]
    for option in made:
        assert option.name in names[len(kept) :]
        assert f"`{option.name}`" in function.__doc__
        assert inspect.signature(function).parameters[option.name].default == option.default
    assert ("reduction" in names) == issubclass(kind, MeanMetric)
    assert function.__doc__.startswith(inspect.getdoc(kind).partition("\n")[0])  # type: ignore[union-attr]
    assert function.__name__ in functional.__all__


#: the functions of classes that only presets have
INNER = {
    "group_share": {
        "preds": SCORES,
        "target": TARGET,
        "groups": {"hour": TARGET % 3},
        "group": 1,
        "by": "hour",
    },
    "log_loss": {"preds": SCORES.softmax(1)[:, 0], "target": TARGET % 2},
    "new_decision": {
        "preds": SCORES,
        "target": TARGET,
        "groups": {"check_in": torch.arange(12)},
        "visits": nextloc_metrics.Visits(list(range(12)), TARGET),
    },
}
SHOWN = {name_of(x.entry.kind.__name__): {**arguments_for(x), **x.options} for x in CALLED} | INNER


@pytest.mark.parametrize("name", SHOWN)
def test_a_function_can_be_called_as_its_help_shows(name: str) -> None:
    """Each default may be written out, what has none must be given, and the text has no other."""
    function, call = getattr(functional, name), SHOWN[name]
    shown = inspect.signature(function).parameters
    defaults = {x: one.default for x, one in shown.items() if one.default is not one.empty}
    needed = shown.keys() - defaults.keys()
    assert needed <= call.keys() <= shown.keys()
    assert same(function(**{**defaults, **call}), function(**call))
    for option in needed - {"preds", "target"}:
        with pytest.raises(TypeError, match=option):
            function(**{x: value for x, value in call.items() if x != option})
    text, _, last = function.__doc__.rpartition("by name: ")
    described = re.findall(r"^    (\w+): ", text.partition("\nArgs:\n")[2], re.MULTILINE)
    assert {*described, *re.findall(r"`(\w+)`", last)} <= shown.keys()


def test_each_function_is_called_as_its_help_shows() -> None:
    """No function is left out above."""
    assert SHOWN.keys() == {*functional.__all__}
