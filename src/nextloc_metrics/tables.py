"""Tables of several models side by side."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from nextloc_metrics.analysis.comparison import Comparison
from nextloc_metrics.analysis.significance import holm
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.base.collection import SummedCollection
from nextloc_metrics.base.readings import count_notes, read_results
from nextloc_metrics.display.table import Table, of_readings

__all__ = ["Table", "side_by_side"]

# Marks of significance, by p-value.
_MARKS = {0.001: "***", 0.01: "**", 0.05: "*"}


def side_by_side(
    models: Mapping[str, SummedCollection],
    *,
    percent: bool = True,
    intervals: bool = False,
    confidence_level: float = 0.95,
    comparisons: Mapping[str, Comparison] | None = None,
) -> Table:
    """Make a table of the collections of several models, one column per model.

    It sums states over processes, as `compute` does: call it on all processes.

    Args:
        models: collections by model name; members with equal names, without prefix, share a row.
        percent: whether to write fractions as percent.
        intervals: whether to add a column with the interval of each mean of scores, at the level
            `confidence_level`.
        comparisons: for two models, results of `analysis.compare` in this order, by the names of
            rows; they mark the values of the second model by p-value, corrected for their number by
            Holm's method.

    Raises:
        ValueError: there are comparisons and not two models, a comparison has no row, or a model
            has the name of another column, such as `"metric"`.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR, AccuracyAtK, RankingCollection, tables
        >>> first = RankingCollection({"acc_at_1": AccuracyAtK(1), "mrr": MRR()})
        >>> second = first.clone()
        >>> first.update(tensor([[0, 1], [1, 0]]), tensor([0, 0]))  # ranks 1 and 2
        >>> second.update(tensor([[1, 0], [1, 0]]), tensor([0, 0]))  # rank 2, twice
        >>> tables.side_by_side({"first": first, "second": second})
        percent   first  second
        acc_at_1  50.00    0.00
        mrr       75.00   50.00
        2 queries counted
    """
    known = confidence_level if intervals else None
    found = {name: model.results(known) for name, model in models.items()}
    readings = {
        name: read_results(model, found[name], keep_base=True, by_group=True)
        for name, model in models.items()
    }
    tests = {name: one.p_value for name, one in (comparisons or {}).items()}
    marks = dict(zip(tests, map(mark, holm(list(tests.values()))), strict=True))
    rows = set(chain.from_iterable(readings.values()))
    if comparisons and (len(models) != 2 or not set(marks) <= rows):
        raise ValueError(
            "`comparisons` must name rows of a table of two models, got "
            f"{short(sorted(set(marks) - rows) or list(models))}."
        )
    last = list(models)[-1] if marks else ""
    notes = count_notes(found)
    if any(marks.values()):
        levels = [f"{mark} p < {level:g}" for level, mark in reversed(_MARKS.items())]
        of = "" if len(tests) == 1 else f" (Holm's method for {len(tests)} tests)"
        notes.append(", ".join(levels) + of)
    return of_readings(readings, known, notes, {last: marks}, percent)


def mark(p_value: float) -> str:
    """Return the stars of a p-value."""
    return next((mark for level, mark in _MARKS.items() if p_value < level), "")
