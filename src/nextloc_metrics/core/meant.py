"""What an unknown argument was meant to be; it needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

# Names of other libraries, by what they are here.
_OTHERS = {"top_k": "k", "topk": "k", "num_classes": "num_locations", "num_items": "num_locations"}
_OTHERS |= {"y_true": "target", "y_pred": "preds", "sample_weight": "weights"}


def use(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the remedy for an unknown argument: its name here, the nearest, or `otherwise`."""
    names = [*known]
    if name == "indexes":
        return "a row of `preds` is a query: pass `preds` `[N, C]` without `indexes`"
    near = [x for x in [_OTHERS.get(name)] if x in names] or get_close_matches(name, names, 1)
    return f"use `{near[0]}`" if near else otherwise


def names_others(function: Function) -> Function:
    """Refuse an argument under another library's name, which Python would call missing."""
    known = signature(function).parameters

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        for name in given:
            if name not in known and _OTHERS.get(name) in known:
                raise TypeError(
                    f"{function.__name__} has no option `{name}`; {use(name, known, '')}."
                )
        return function(*args, **given)

    return cast(Function, call)
