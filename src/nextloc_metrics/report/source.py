"""A table of predictions as an argument of `evaluate`, `compare`, `audit` and `read`."""

from __future__ import annotations

from dataclasses import dataclass

from nextloc_metrics.core.described_fields import with_field_texts
from nextloc_metrics.report.files.describing import TableDescription, describe
from nextloc_metrics.report.files.table_source import TableSource
from nextloc_metrics.report.options import refuses_unknown


@with_field_texts
@dataclass(frozen=True, eq=False)
class Source(TableSource):
    r"""A table of predictions: where its rows are, what its columns hold, and how they are read.

    `evaluate`, `compare`, `audit` and `read` take it; a bare path or frame is `Source(path)`.
    `files.tables.TableRows` says what a cell may hold. Rows are read when the source is used.

    Raises:
        TypeError: in `describe` and where it is used, `rows` is no table.
        ValueError: in `describe` and where it is used, a column is missing or a cell is wrong.

    Example:
        >>> import pathlib, tempfile
        >>> from nextloc_metrics import report
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
        >>> _ = path.write_text('answers,label\n"[7, 3]",3\n"[5, 7]",5\n', "utf-8")
        >>> source = report.Source(path, preds="answers", target="label")
        >>> report.evaluate(source, k=1).values["mrr"]  # (1/2 + 1) / 2
        0.75
    """

    def describe(self) -> TableDescription:
        """Say from the first rows how the table is understood, and count nothing.

        A stream can still be evaluated after it. A cluster's table is not described.

        Example:
            >>> import pandas as pd
            >>> from nextloc_metrics import report
            >>> frame = pd.DataFrame({"preds": [["Zoo", "Bar"]], "target": ["Bar"], "user": [7]})
            >>> print(report.Source(frame).describe())
            form     lists of ids in 'preds', one id in 'target'
            ids      names
            columns  'preds' preds, 'target' target, 'user' not used
            row 0    preds ['Zoo', 'Bar'], target 'Bar'
            rows     1
        """
        return describe(self)


Source.__init__ = refuses_unknown(Source.__init__)  # type: ignore[method-assign]
