"""Tables of several models side by side."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from nextloc_metrics.analysis.comparison import Comparison
from nextloc_metrics.analysis.significance import MARKS, holm, stars
from nextloc_metrics.core.display.table import Table, of_readings
from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.collection_values import count_notes, read_results
from nextloc_metrics.core.queries.messages import short

__all__ = ["Table", "side_by_side"]


def side_by_side(
    models: Mapping[str, RankingCollection],
    *,
    percent: bool = True,
    intervals: bool = False,
    confidence_level: float = 0.95,
    comparisons: Mapping[str, Comparison | Mapping[str, Comparison | float]] | None = None,
) -> Table:
    """Make a table of the collections of several models, one column per model.

    It sums states over processes, as `compute` does: call it on all processes.

    Args:
        models: collections by model name; members with equal names, without prefix, share a row.
        percent: whether to write fractions as percent.
        intervals: whether to add a column with the interval of each mean of scores, at the level
            `confidence_level`.
        comparisons: what marks values with stars, by model and row: results of `analysis.compare`,
            corrected for their number by Holm's method, or p-values that are corrected, such as
            `report.compare(...).corrected`. For two models also results by row, of the second.

    Raises:
        ValueError: a comparison has no row or model, or a model has the name of another column,
            such as `"metric"`.

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
    given: dict[str, Any] = dict(comparisons or {})
    if any(isinstance(one, Comparison) for one in given.values()):
        given = {list(models)[1]: given} if len(models) == 2 else {"": given}
    tests = {(model, row): one for model, of in given.items() for row, one in of.items()}
    rows = set(chain.from_iterable(readings.values()))
    if wrong := [place for place in tests if place[0] not in models or place[1] not in rows]:
        raise ValueError(
            "`comparisons` must name models and rows of the table, or rows of a table of two "
            f"models, got {short(wrong[0])}."
        )
    p_values = [one.p_value if isinstance(one, Comparison) else one for one in tests.values()]
    corrects = any(isinstance(one, Comparison) for one in tests.values())
    marks: dict[str, dict[str, str]] = {model: {} for model in given}
    for (model, row), p in zip(tests, holm(p_values) if corrects else p_values, strict=True):
        marks[model][row] = stars(p)
    notes = count_notes(found)
    if any(any(of.values()) for of in marks.values()):
        levels = [f"{mark} p < {level:g}" for level, mark in reversed(MARKS.items())]
        of = "" if len(tests) == 1 or not corrects else f" (Holm's method for {len(tests)} tests)"
        notes.append(", ".join(levels) + of)
    return of_readings(readings, known, notes, marks, percent)
