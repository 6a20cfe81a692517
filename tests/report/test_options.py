"""The options of an evaluation: each is a field, which each function that takes it has alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from typing import Any

import pytest

from nextloc_metrics import report

OPTIONS = {x.name: x for x in fields(report.Options)}
# How many of the fields, from the first on, a function has.
TAKERS: list[tuple[Callable[..., Any], int]] = [
    (report.evaluate, len(OPTIONS)),
    (report.Evaluator, len(OPTIONS)),
    (report.compare, 7),
]


@pytest.mark.parametrize(("function", "number"), TAKERS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_function_has_the_fields_as_its_parameters(
    function: Callable[..., Any], number: int
) -> None:
    """With their names, order, defaults and types; and no parameter is a field of a table."""
    parameters = signature(function).parameters
    shared = [name for name in parameters if name in OPTIONS]
    assert shared == [*OPTIONS][:number]
    for name in shared:
        assert parameters[name].default == OPTIONS[name].default, name
        assert parameters[name].annotation == OPTIONS[name].type, name
    assert len(parameters) <= 20
    others = {x.name for x in fields(report.Source)} - {"preds", "target"}
    assert not others & parameters.keys()


def test_the_docs_of_a_class_have_its_fields() -> None:
    """As `help` shows them."""
    for kind in (report.Options, report.Source):
        for name in (x.name for x in fields(kind)):
            assert f"        {name}: " in (kind.__doc__ or "")
    assert "        k: the cut-offs. Those of `measures` replace them.\n" in report.Options.__doc__


@pytest.mark.parametrize("function", [x for x, _ in TAKERS], ids=lambda x: x.__name__)
def test_an_unknown_option_is_named_with_the_nearest(function: Callable[..., Any]) -> None:
    """Before anything is read; without a near one all are listed."""
    name = function.__name__
    given = () if function is report.Evaluator else ([[1]], [1])
    with pytest.raises(TypeError, match=rf"^{name} has no option `clutser`; use `cluster`\.$"):
        function(*given, clutser="user")
    with pytest.raises(TypeError, match=rf"^{name} has no option `zzz`; its options are `"):
        function(*given, zzz=1)
    with pytest.raises(TypeError, match=r"missing|positional"):
        function(*given, 1, 2, 3)
    with pytest.raises(TypeError, match=r"of a table: pass `report.Source\(rows, truth=...\)`"):
        function(*given, truth="truth.csv")
