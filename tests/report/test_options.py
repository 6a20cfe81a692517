"""The options of an evaluation: written once, shown by each function that takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nextloc_metrics import report

TAKERS: list[tuple[Callable[..., Any], Any]] = [
    (report.evaluate, report.Options),
    (report.Evaluator, report.Options),
    (report.compare, report.SharedOptions),
]


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
