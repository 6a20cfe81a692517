"""The fields of a `Source`. They need no PyTorch, so that the command line shows them fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nextloc_metrics.core.described_fields import described

if TYPE_CHECKING:
    from nextloc_metrics.report.files.cells import OnError


@dataclass(frozen=True, eq=False)
class TableSource:
    """The fields of a `Source`."""

    rows: Any = described(
        "A path, a pattern, a folder or a list of them. Or what exports an Arrow stream (polars, "
        "pandas, pyarrow, DuckDB); a stream, which is read once if its targets are integers and "
        "nothing is joined, and else is written to a temporary file; or dicts of ranx. A "
        "`dask.dataframe.DataFrame`, a `ray.data.Dataset` or a `pyspark.sql.DataFrame` is counted "
        "on its cluster. Files are CSV, JSON, Parquet, Arrow, `.npy`, `.npz`, tensors of "
        "`torch.save`, TREC runs and traces of LibCity.",
    )
    preds: str | Sequence[str] = described(
        "Column of the predictions, or several, such as 'pred_*'. They are scores of all "
        "locations, or lists of ids, best first; several columns have one id per rank, and are "
        "names or a pattern. In `.npz` it is the array.",
        "preds",
    )
    target: str = described(
        "Column of the targets. In `.npz` it is the array; of `.npy`, tensors and runs it may be "
        "the file of the targets.",
        "target",
    )
    truth: Any = described(
        "Table of the targets. It needs `query`, and also has the columns of grades, groups, masks "
        "and excluded ids, constant within a query. Several rows of a query are its several "
        "targets. A query without predictions is a miss, `missing` on the card; predictions "
        "without truth are left out. Of `.npy` it is another `.npy`, of a run the judgements "
        '("qrels").',
        None,
    )
    query: str | Sequence[str] = described(
        "Columns that name a query, in the predictions and in `truth`.",
        (),
    )
    item: str | None = described(
        "Column of one item per row, in place of lists in `preds`. Items are in any order; the "
        "column of `truth` may have this name in place of `target`. Without `truth`, each row has "
        "the target of its query, or with grades that of its item.",
        None,
    )
    score: str | None = described(
        "Column of the score of an item; equal ones are tied. NaN and empty is not retrieved.",
        None,
    )
    rank: str | None = described(
        "Column of the rank of an item, from 0 or 1. It is from 0 if any is 0; a gap between ranks "
        "stays. Use it in place of `score`.",
        None,
    )
    answers: Mapping[str, Any] | None = described(
        "How the cells of `preds` are written. `separator`, of ids in text without brackets, and "
        "`padding`, negative numbers that pad lists beside -1, are for lists, such as "
        '`{"separator": " "}`; for the text of a language model, which `evaluate` reads, these are '
        'the options of `read_answers`, such as `{"form": "json"}`, with the ids of `vocabulary`. '
        "Without `truth`, texts that are missing cannot be seen; with it, a text without truth is "
        "an error.",
        None,
    )
    vocabulary: Sequence[str | int] | None = described(
        "The text of each id. The number of an id is its position; a target must be in it, an "
        "answer that is not is a miss. Evaluations with different vocabularies cannot be merged. "
        "None takes ids as they are; `read` then numbers ids that are text, or far larger than "
        "their number: first the targets, in rising order.",
        None,
    )
    on_error: OnError = described(
        'Treat an unreadable answer as an error or as a miss. It is `"raise"` or `"miss"`.',
        "raise",
    )
    on_missing: OnError = described(
        "Treat a query without a target as an error or as a miss. A miss is for lists: the target "
        "has an id of its own, 999999999999999999. It is not for `train_counts`, `bins` or "
        "`locations`.",
        "raise",
    )
