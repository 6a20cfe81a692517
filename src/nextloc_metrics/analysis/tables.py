"""Tables of several models side by side."""

from __future__ import annotations

from collections.abc import Mapping

from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.display.table import Table, of_readings
from nextloc_metrics.core.results.results import count_notes, read_results

__all__ = ["Table", "side_by_side"]


def side_by_side(
    models: Mapping[str, RankingCollection],
    *,
    percent: bool = True,
    intervals: bool = False,
    confidence_level: float = 0.95,
) -> Table:
    """Make a table of the collections of several models, one column per model.

    It sums states over processes, as `compute` does: call it on all processes.

    Args:
        models: collections by model name; members with equal names, without prefix, share a row.
        percent: whether to write fractions as percent.
        intervals: whether to add a column with the interval of each mean of scores, at the level
            `confidence_level`.

    Raises:
        ValueError: a model has the name of another column, such as `"metric"`.

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
    level = confidence_level if intervals else None
    results = {name: model.results(level) for name, model in models.items()}
    readings = {
        name: read_results(model, results[name], keep_base=True, by_group=True)
        for name, model in models.items()
    }
    return of_readings(readings, level, count_notes(results), percent=percent)
