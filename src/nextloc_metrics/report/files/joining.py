"""The rows of queries that a join leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from nextloc_metrics.report.files.database import Database
from nextloc_metrics.report.files.opening import FilePart, RowSource, as_arrow, pa

# Numbers of a part that holds a score for each candidate, or a list with gaps.
_SCORES = 1 << 22


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
