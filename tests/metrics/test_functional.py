"""Every metric as a function, against its class."""

from __future__ import annotations

import inspect
import operator
import re
from typing import Any, NamedTuple

import pytest
import torch
from torchmetrics import Metric

import nextloc_metrics
from nextloc_metrics import (
    MRR,
    MeanMetric,
    PopularityBins,
    functional,
    geography,
    trajectories,
)
from nextloc_metrics.base import RecordMetric
from strategies import CLASSES, LOCATIONS, PLACES, batch, named, same

BINS = PopularityBins([1, 1, 2, 2, 3, 0], 3)
SCORES, TARGET = batch(12)
PROBABILITIES = SCORES.softmax(1)
RANKED = {"preds": SCORES, "target": TARGET}
DAYS = {"preds": torch.rand(4, 5, 2), "target": torch.rand(4, 5, 2)}


class Call(NamedTuple):
    """A class, its options, and the arguments of an update."""

    path: str
    options: dict[str, Any]
    given: dict[str, Any]

    def __str__(self) -> str:
        """The test id."""
        return f"{self.path}({', '.join(self.options)})"


OTHERS = [
    Call("geography.ExpectedDistance", {"locations": PLACES, "given": "probabilities"},
         {"preds": PROBABILITIES, "target": TARGET}),
    *[Call(name, {"bins": BINS, "k": 2}, RANKED)
      for name in ("DecileNDCG", "DecilePrecision", "DecileCoverage", "DecilePredictionShare")],
    Call("DecileKForRecall", {"bins": BINS, "min_recall": 0.5}, RANKED),
    Call("Grouped", {"metric": MRR(), "num_groups": 3}, {**RANKED, "groups": TARGET % 3}),
    Call("SequenceAccuracy", {"first": 2},
         {"preds": SCORES.view(4, 3, LOCATIONS), "target": TARGET.view(4, 3)}),
    *[Call(f"trajectories.{name}", options, DAYS)
      for name, options in {
          "DTW": {"normalized": True}, "GeoBLEU": {}, "MeanPointError": {},
          "PointErrorAt": {"step": 2},
      }.items()],
]  # fmt: skip
CALLS = [*[Call(x.name, x.options, RANKED) for x in CLASSES], *OTHERS]


def name_of(kind: str) -> str:
    """The name of a class with underscores between its words, by another rule."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+\d?(?![a-z])", kind)
    return "_".join(words).lower()


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_function_is_its_class(call: Call) -> None:
    """One batch has the same value by the function and by the class, bit for bit."""
    kind = operator.attrgetter(call.path)(nextloc_metrics)
    function = getattr(functional, name_of(call.path.rpartition(".")[2]))
    metric = kind(**call.options)
    metric.update(**call.given)
    found = function(**call.given, **call.options)
    assert same(found, metric.compute())
    if "reduction" in inspect.signature(function).parameters:
        each = function(**call.given, **call.options, reduction="none")
        assert len(each) == len(call.given.get("target", TARGET))
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
    assert {name_of(x.path.rpartition(".")[2]) for x in CALLS} == kinds
    assert {*functional.__all__} <= {*dir(functional)}
    with pytest.raises(AttributeError, match="has no attribute 'recall'"):
        functional.recall  # noqa: B018


def vars_of(room: Any, name: str) -> Any:
    """An attribute of a room."""
    return getattr(room, name)


def test_a_signature_names_update_and_options() -> None:
    """It has the arguments of `update`, then all options of the constructor; the text too."""
    for call in {x.path: x for x in CALLS}.values():
        with named(call):
            check_signature(call)


def check_signature(call: Call) -> None:
    """Compare the signature of a function with that of its class."""
    kind: type[Metric] = operator.attrgetter(call.path)(nextloc_metrics)
    function = getattr(functional, name_of(call.path.rpartition(".")[2]))
    found = list(inspect.signature(function).parameters.values())
    names = [x.name for x in found]
    _self, *given = inspect.signature(getattr(kind, "read", kind.update)).parameters.values()
    kept = [x.name for x in given if x.kind is not x.VAR_KEYWORD]
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
    "group_share": {**RANKED, "groups": {"hour": TARGET % 3}, "group": 1, "by": "hour"},
    "log_loss": {"preds": PROBABILITIES[:, 0], "target": TARGET % 2},
    "new_decision": {
        **RANKED,
        "groups": {"check_in": torch.arange(12)},
        "visits": nextloc_metrics.Visits(list(range(12)), TARGET),
    },
}
SHOWN = {name_of(x.path.rpartition(".")[2]): {**x.given, **x.options} for x in CALLS} | INNER


@pytest.mark.parametrize("name", SHOWN)
def test_a_function_can_be_called_as_its_help_shows(name: str) -> None:
    """Each default may be written out, what has none must be given, and the text has no other."""
    function, given = getattr(functional, name), SHOWN[name]
    shown = inspect.signature(function).parameters
    defaults = {x: one.default for x, one in shown.items() if one.default is not one.empty}
    needed = shown.keys() - defaults.keys()
    assert needed <= given.keys() <= shown.keys()
    assert same(function(**{**defaults, **given}), function(**given))
    for option in needed - {"preds", "target"}:
        with pytest.raises(TypeError, match=option):
            function(**{x: value for x, value in given.items() if x != option})
    text, _, last = function.__doc__.rpartition("by name: ")
    described = re.findall(r"^    (\w+): ", text.partition("\nArgs:\n")[2], re.MULTILINE)
    assert {*described, *re.findall(r"`(\w+)`", last)} <= shown.keys()


def test_each_function_is_called_as_its_help_shows() -> None:
    """No function is left out above."""
    assert SHOWN.keys() == {*functional.__all__}
