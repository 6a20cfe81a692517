"""Which columns of predictions and truth hold what, and the rows of queries that a join leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.database import Database
from nextloc_metrics.report.files.opening import FilePart, RowSource, as_arrow, pa
from nextloc_metrics.report.files.tables import has_column

# Numbers of a part that holds a score for each candidate, or a list with gaps.
_SCORES = 1 << 22


@dataclass(frozen=True)
class TableForm:
    """Which columns hold what, in two tables or in one.

    Attributes:
        query: the columns that together name a query, in both tables; empty for one wide table.
        preds: the column of lists or of scores, a pattern such as `pred_*`, or several columns.
        target: the column of relevant ids, of the truth.
        item: the column of one item per row, in place of `preds`.
        score: the column of its score, or
        rank: the column of its rank, from 0 or from 1.
        grade: the column of grades of the truth.
    """

    query: tuple[str, ...] = ()
    preds: str | tuple[str, ...] = "preds"
    target: str = "target"
    item: str | None = None
    score: str | None = None
    rank: str | None = None
    grade: str | None = None

    def __post_init__(self) -> None:
        if self.item is None:
            if named := [x for x in ("score", "rank") if getattr(self, x) is not None]:
                raise ValueError(f"`{named[0]}` needs `item`, the column of items, got None.")
        elif (self.score is None) == (self.rank is None):
            raise ValueError(
                "`item` needs one of `score` and `rank`, the column that orders the items of a "
                f"query, got {short(self.score)} and {short(self.rank)}."
            )

    @property
    def is_of_lists(self) -> bool:
        """Whether a row is a query with its answer in one column, and no target has a grade."""
        return self.item is None and self.grade is None and not self.is_wide

    @property
    def is_wide(self) -> bool:
        """Whether a list has a column per rank."""
        return not isinstance(self.preds, str) or any(x in self.preds for x in "*?")


def form_of(
    rows: Any,
    preds: str | Sequence[str],
    target: str,
    truth: Any,
    query: str | Sequence[str],
    *named: Any,
) -> TableForm | None:
    """Return the form of predictions that are no rows of one table with lists, else None."""
    columns = (query,) if isinstance(query, str) else tuple(query)
    kept = preds if isinstance(preds, str) else tuple(preds)
    form = TableForm(columns, kept, target, *named)
    if truth is None and not (form.item is not None and has_column(rows, target)):
        needs = {"query": columns, "item": form.item, "grade": form.grade}
        if wrong := next((name for name, x in needs.items() if x), None):
            raise ValueError(
                f"`{wrong}` needs `truth`, the table of the relevant ids of each query, got None."
            )
    is_column = isinstance(preds, str) and form.is_wide and has_column(rows, preds)
    is_apart = truth is not None or form.item is not None
    return form if is_apart or (form.is_wide and not is_column) else None


@dataclass(eq=False)
class Joined(RowSource):
    """The rows of the table `queries`, one per query, of a database.

    `columns` has the SQL column of each name. Where `width` is not None, `preds` has numbers of
    candidates and `places` their scores, or their ranks, the first of which is `first`.
    """

    db: Database
    files: list[str]
    columns: dict[str, str]
    untyped: bool = False
    width: int | None = None
    first: int | None = None
    card: dict[str, Any] = field(default_factory=dict)
    is_joined = True

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows, in a part no more than one file."""
        cells = [self.columns[name] for name in columns]
        places = ["places"] if self.width is not None and "preds" in cells else []
        rows = max(1, _SCORES // self.width) if self.width and places else 100_000
        listed = ", ".join(["stood", *cells, *places])
        for batch in self.db.batches(f"SELECT {listed} FROM queries", rows):
            stood, start = batch.column(0).to_numpy(zero_copy_only=False), 0
            for file, group in groupby((stood >> 40).tolist()):
                piece = batch.slice(start, len(list(group)))
                found = {name: piece.column(i + 1) for i, name in enumerate(columns)}
                if places:
                    of = cells.index("preds")
                    found[columns[of]] = self._laid(piece.column(of + 1), piece.columns[-1])
                where = stood[start : start + len(piece)]
                where = np.where(where < 0, -1, where & ((1 << 40) - 1)).tolist()
                yield FilePart(self.files[max(file, 0)], where, found)
                start += len(piece)

    def _laid(self, items: Any, places: Any) -> Any:
        """Return a score for each candidate, -inf if it has none, or lists with -1 in the gaps."""
        lengths = items.value_lengths().to_numpy()
        ids, values = (x.flatten().to_numpy(zero_copy_only=False) for x in (items, places))
        starts, rows = lengths.cumsum() - lengths, np.repeat(np.arange(len(items)), lengths)
        if self.first is None:
            steps = np.append(0, (values[1:] != values[:-1]).cumsum())[: len(values)]
            dense = np.full((len(items), self.width or 0), -np.inf, np.float32)
            dense[rows, ids] = steps[starts[rows]] - steps - 1
            return as_arrow(dense)
        ends, values = np.zeros(len(items) + 1, np.int64), values.astype(np.int64)
        ends[1:][lengths > 0] = values[(starts + lengths - 1)[lengths > 0]] + 1 - self.first
        ends = ends.cumsum()
        laid = np.full(ends[-1], -1, np.int64)
        laid[ends[rows] + values - self.first] = ids
        return pa.LargeListArray.from_arrays(ends, laid)
