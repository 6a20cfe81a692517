"""Which columns of predictions, and of their truth, hold what."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.sources import columns_of


@dataclass(frozen=True)
class Roles:
    """The columns of predictions and of their truth, as `evaluate` names them.

    `query`, `item`, `score`, `rank` and `grade` are for predictions whose truth is another table.
    """

    preds: Any = "preds"
    target: str = "target"
    groups: Sequence[str] = ()
    mask: str | None = None
    exclude: str | None = None
    confidence: str | None = None
    query: Sequence[str] = ()
    item: str | None = None
    score: str | None = None
    rank: str | None = None
    grade: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.query, str):
            object.__setattr__(self, "query", (self.query,))

    @property
    def all(self) -> list[str]:
        """Every column of a table with a row per query, once."""
        options = self.mask, self.exclude, self.confidence, self.grade
        named = [self.preds, self.target, *self.groups, *options]
        return list(dict.fromkeys(name for name in named if name is not None))

    @property
    def is_of_lists(self) -> bool:
        """Whether a row is a query with its answer in one column, and no target has a grade."""
        return self.item is None and self.grade is None and not self.is_wide

    @property
    def is_wide(self) -> bool:
        """Whether a list has a column per rank."""
        return not isinstance(self.preds, str) or any(x in self.preds for x in "*?")

    def refuse(self, what: str, *names: str) -> None:
        """Raise if columns are named of a form that has none."""
        for name in names or ("query", "item", "score", "rank", "grade"):
            if given := getattr(self, name):
                raise ValueError(
                    f"`{name}` must be None for {what}, got {short(given)}; pass columns as a "
                    "table, such as `pandas.DataFrame(rows)`."
                )

    def are_apart(self, rows: Any, truth: Any) -> bool:
        """Return whether predictions are no rows of one table with lists, or raise for a gap."""
        if self.item is None:
            if named := [x for x in ("score", "rank") if getattr(self, x) is not None]:
                raise ValueError(f"`{named[0]}` needs `item`, the column of items, got None.")
        elif (self.score is None) == (self.rank is None):
            raise ValueError(
                "`item` needs one of `score` and `rank`, the column that orders the items of a "
                f"query, got {short(self.score)} and {short(self.rank)}."
            )
        if truth is None and not (self.item is not None and has_column(rows, self.target)):
            named = [x for x in ("query", "item", "grade") if getattr(self, x)]
            if named:
                raise ValueError(
                    f"`{named[0]}` needs `truth`, the table of the relevant ids of each query, got "
                    "None."
                )
        is_wide = self.is_wide and not (
            isinstance(self.preds, str) and has_column(rows, self.preds)
        )
        return truth is not None or self.item is not None or is_wide


def has_column(source: Any, name: str) -> bool:
    """Return whether a table has a column, as far as that is known without an error."""
    with suppress(ValueError, OSError):
        return name in columns_of(source)
    return False
