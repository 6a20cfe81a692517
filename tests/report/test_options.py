"""The options of an evaluation: written once, shown by each function that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from nextloc_metrics import report
from nextloc_metrics.report.evaluation_options import summaries

TAKERS: list[tuple[Callable[..., Any], Any]] = [
    (report.evaluate, report.Options),
    (report.Evaluator, report.Options),
    (report.compare, report.SharedOptions),
]


@pytest.mark.parametrize(("function", "options"), TAKERS, ids=lambda x: x.__name__)
def test_a_signature_names_each_option(function: Callable[..., Any], options: Any) -> None:
    """With its default, as keyword, and none as `**options`; each is documented."""
    found = inspect.signature(function).parameters
    assert found["k"].default == (1, 5, 10)
    assert {x.kind for x in found.values()} <= {
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    }
    assert options.__annotations__.keys() <= found.keys() - {"self"}
    # from Python 3.13 on, the compiler strips the indentation of docstrings
    texts = [inspect.getdoc(kind) or "" for kind in (report.SharedOptions, report.Options)]
    documented = "".join(texts)
    for name in options.__annotations__:
        assert found[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"\n    {name}: " in documented
    assert summaries().keys() == report.Options.__annotations__.keys()


@pytest.mark.parametrize(("function", "options"), TAKERS, ids=lambda x: x.__name__)
def test_an_unknown_option_is_named_with_the_nearest(
    function: Callable[..., Any], options: Any
) -> None:
    """Before anything is read; without a near one all are listed."""
    del options
    name = function.__name__
    given = () if function is report.Evaluator else ([[1]], [1])
    with pytest.raises(TypeError, match=rf"^{name} has no option `clutser`; use `cluster`\.$"):
        function(*given, clutser="user")
    with pytest.raises(TypeError, match=rf"^{name} has no option `zzz`; its options are `"):
        function(*given, zzz=1)
    with pytest.raises(TypeError, match=r"missing|positional"):
        function(*given, 1, 2, 3)


def test_the_command_line_is_made_of_the_options() -> None:
    """Each has its option, but those that no file or word can hold; and the same default."""
    pytest.importorskip("click")
    from nextloc_metrics.cli.commands import main

    for command, options in (("score", report.Options), ("compare", report.SharedOptions)):
        params = {str(x.name): x for x in main.commands[command].params}
        names = set(options.__annotations__) - {"bins"}
        lacks = {"exempt_target"} if command == "compare" else set()
        assert names - params.keys() == lacks
        for name in names & params.keys():
            default = inspect.signature(report.evaluate).parameters[name].default
            if not getattr(params[name], "multiple", False):
                assert params[name].default == default
            assert summaries()[name] in str(getattr(params[name], "help", ""))
