"""A part that a user adds to an evaluation: metrics by groups, or of other predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.record import Records

#: Collections of metrics by name.
Parts = dict[str, RankingCollection]

#: Returns a batch with other predictions; the records are those of the model's predictions.
Feed = Callable[[Batch, Records], Batch]


class Part:
    """A part of your own of an evaluation: metrics by groups, or of other predictions.

    Subclass this class, define `make`, and pass an object of it among `metrics`: its metrics are
    counted with all others, merged and saved, and their values are in
    [`Evaluation.rows`][nextloc_metrics.report.Evaluation.rows] and in a section of the page.
    `setting` is the `report.setting.Setting`: the options, and the form of batches.

    Example:
        >>> import torch
        >>> from nextloc_metrics import MRR, Grouped, RankingCollection, report
        >>> class ByParity(report.Part):
        ...     title = "By parity of the target"
        ...
        ...     def groups(self, batch):
        ...         return {"parity": batch.target % 2}
        ...
        ...     def make(self, setting, rows):
        ...         return {"parity": RankingCollection({"mrr": Grouped(MRR(), 2, by="parity")})}
        >>> e = report.evaluate([[3, 5], [4, 2]], [3, 2], k=1, metrics={"parity": ByParity()})
        >>> [(x["group"], x["value"]) for x in e.rows() if x["part"] == ByParity.title]
        [('0', 0.5), ('1', 1.0)]
    """

    #: the title of its section on a page, and its `part` in the rows of an evaluation
    title: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{x}={y!r}' for x, y in vars(self).items())})"

    def make(self, setting: Any, rows: Parts) -> Parts:
        """Return collections of metrics by name; `rows` are the collections of the first table.

        If there are none, the evaluation does not have this part.
        """
        raise NotImplementedError(f"`make` of {type(self).__name__} must return collections.")

    def groups(self, batch: Batch) -> dict[str, Tensor]:
        """Return groups of your own by kind, each the group numbers of queries, integer `[N]`."""
        return {}

    def feed(self, setting: Any) -> Feed | None:
        """Return the feed that makes other predictions for the metrics; None for the model's."""
        return None
