"""The runs of a model: the predictions of several trainings for the same queries."""

from __future__ import annotations

from typing import Any

from nextloc_metrics.core.queries.answers import Answers


def read_runs(given: Any) -> list[Any]:
    """Return the runs of a model: of a list of predictions several, of anything else one."""
    several = isinstance(given, (list, tuple)) and bool(given) and _is_run(given[0])
    return list(given) if several else [given]


def _is_run(one: Any) -> bool:
    """Return whether an element of a list is predictions of all queries, and not of one."""
    if isinstance(one, Answers):
        return True
    if hasattr(one, "shape"):
        return len(one.shape) in (2, 3)
    first = one[0] if isinstance(one, (list, tuple)) and one else None
    return isinstance(first, (list, tuple)) or getattr(first, "shape", ()) != ()
