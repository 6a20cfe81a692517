"""The law: the result equals the oracle, or our own error names file and rule, and nothing is left.

`HOSTILE_EXAMPLES=20000 pytest tests/hostile` tries as many examples of each law, with new seeds.
"""

from __future__ import annotations

import os
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hostile_plain import Found
from hypothesis import given, settings
from hypothesis import strategies as st

import nextloc_metrics
from nextloc_metrics import report
from strategies import examples

Result = TypeVar("Result")

#: our own errors are raised in this folder
_OURS = str(Path(nextloc_metrics.__file__).parent)
_BY_HAND = int(os.environ.get("HOSTILE_EXAMPLES", "0"))


def examples_or_by_hand(number: int) -> settings:
    """Return the settings of a law that tries so many examples, or as many as asked by hand."""
    if _BY_HAND:
        return settings(max_examples=_BY_HAND, derandomize=False)
    return examples(number)


def compares_with_oracle(
    number: int, drawn: Callable[[bool], tuple[st.SearchStrategy[Any], ...]]
) -> Callable[[Callable[..., bool]], Callable[[], None]]:
    """Try a check with examples without dirt, and with as many that have dirt.

    The check returns whether it has compared anything; a refusal is no comparison. Of all attempts
    a third must be one: a law that refuses nearly all it is given says nothing about values.
    """

    def decorate(check: Callable[..., bool]) -> Callable[[], None]:
        def run() -> None:
            has_compared = Counter[bool]()

            def one(example: tuple[Any, ...]) -> None:
                has_compared[check(*example)] += 1

            one.__name__ = check.__name__  # whose examples are drawn by it
            for dirty in (False, True):
                examples_or_by_hand(number // 2)(given(st.tuples(*drawn(dirty)))(one))()
            compared, total = has_compared[True], has_compared.total()
            assert 3 * compared >= total, f"only {compared} of {total} attempts compare anything"

        run.__name__, run.__doc__, run.__module__ = check.__name__, check.__doc__, check.__module__
        return run

    return decorate


@contextmanager
def quiet() -> Iterator[None]:
    """Let warnings pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def attempt(call: Callable[[], Result]) -> Result | Exception:
    """Return the result of a call, or our own error; an error of others is raised."""
    try:
        with quiet():
            return call()
    except (ValueError, TypeError, OSError) as error:
        check_own(error)
        return error


def check_own(error: BaseException) -> None:
    """Raise what is no error of this library: raised by others, or with another's message."""
    where = traceback.extract_tb(error.__traceback__)[-1].filename
    if not where.startswith(_OURS) or type(error).__module__.split(".")[0] not in _KNOWN:
        raise AssertionError(f"{type(error).__name__} of others: {error}") from error
    message = str(error)
    if not any(word in message for word in (" must ", " should ", " cannot ", " need ")):
        raise AssertionError(f"the error states no rule: {message}") from error


_KNOWN = ("builtins", "nextloc_metrics")


def contents(folder: Path) -> dict[str, Any]:
    """Return all files of a folder, with their bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def found_of(e: report.Evaluation) -> Found:
    """Return the values and counts of an evaluation."""
    groups: dict[tuple[str, str], tuple[int, dict[str, float]]] = {}
    for x in e.group_records() if e.groups else []:
        _, values = groups.setdefault((x["kind"], x["group"]), (x["queries"], {}))
        values[x["metric"]] = x["value"]
    return Found(dict(e.values), groups, e.card["queries"], e.card.get("broken_answers", 0))
