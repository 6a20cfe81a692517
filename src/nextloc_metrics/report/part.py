"""A part of an evaluation, from the metrics that it counts to the section of a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from nextloc_metrics.core.display.page import show_table
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.table import Table, of_readings
from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.collection_values import read_results
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.record import Records

#: Collections of metrics by name.
Parts = dict[str, RankingCollection]

#: Returns the queries of a batch with other predictions; the records are those of the model's.
Feed = Callable[[Batch, Records], Batch]


class Row(NamedTuple):
    """One value of an evaluation."""

    part: str  #: "value", "chance", "by user", or the title of a part of your own
    metric: str
    group: str  #: "" for all queries
    reading: Reading

    def record(self) -> dict[str, Any]:
        """Return the row as a dict of text and numbers."""
        one = self.reading
        low, high = one.bounds or (math.nan, math.nan)
        numbers = {"value": one.value, "low": low, "high": high, "queries": one.number}
        named = {"part": self.part, "metric": self.metric, "group": self.group}
        return {**named, **numbers, "note": one.note}


class Part:
    """One part of an evaluation: what it counts, and what it shows of the counts.

    `known` is the `report.setting.Setting`: what is known before the first query is counted.
    `counted` are the counts, `report.evaluation_counts.Counted`, and `evaluation` their result.

    To add a part of your own, subclass this class, define `make`, and pass an object of it among
    `metrics`: its metrics are counted with all others, merged and saved, and their values are in
    [`Evaluation.rows`][nextloc_metrics.report.Evaluation.rows] and in a section of the page.

    Example:
        >>> import torch
        >>> from nextloc_metrics import MRR, Grouped, RankingCollection, report
        >>> class ByParity(report.Part):
        ...     title = "By parity of the target"
        ...
        ...     def groups(self, batch):
        ...         return {"parity": batch.target % 2}
        ...
        ...     def make(self, known, rows):
        ...         return {"parity": RankingCollection({"mrr": Grouped(MRR(), 2, by="parity")})}
        >>> e = report.evaluate([[3, 5], [4, 2]], [3, 2], k=1, metrics={"parity": ByParity()})
        >>> [(x["group"], x["value"]) for x in e.rows() if x["part"] == ByParity.title]
        [('0', 0.5), ('1', 1.0)]
    """

    #: of the section of a page; the part of its rows
    title: str = ""
    #: whether its values are rows of the first table
    _is_in_table: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{x}={y!r}' for x, y in vars(self).items())})"

    def applies(self, known: Any) -> bool:
        """Return whether an evaluation has this part."""
        return True

    def make(self, known: Any, rows: Parts) -> Parts:
        """Return the metrics that are counted, by name; `rows` are those of the first table."""
        raise NotImplementedError(f"`make` of {type(self).__name__} must return collections.")

    def groups(self, batch: Batch) -> dict[str, Tensor]:
        """Return the numbers of groups of its own, by kind, integer `[N]`."""
        return {}

    def feed(self, known: Any) -> Feed | None:
        """Return what its metrics rank in place of the model's predictions; None for these."""
        return None

    def rows(self, counted: Any, table: Mapping[str, Reading]) -> Iterator[Row]:
        """Yield the values of all its metrics; `table` has those of the first table."""
        for collection in counted.made[self].values():
            results = collection.results(counted.setting.confidence_level)
            readings = read_results(collection, results, keep_base=False, by_group=True)
            for name, reading in readings.items():
                metric, _, group = name.partition(", ")
                yield Row(self.title, metric, group, reading)

    def table(self, counted: Any) -> Table:
        """Return its values, a row for each metric and group."""
        readings = {
            ", ".join(filter(None, (row.metric, row.group))): row.reading
            for row in self.rows(counted, {})
        }
        return of_readings({"value": readings}, counted.setting.confidence_level)

    def sections(self, evaluation: Any) -> dict[str, str]:
        """Return what a page shows, as HTML by title."""
        return {self.title: show_table(self.table(evaluation._counted))}
