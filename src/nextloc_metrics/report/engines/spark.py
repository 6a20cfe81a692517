"""Spark: `mapInArrow` counts each partition, and merges in two steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from nextloc_metrics.report.engines.partition import Count, Merge

# The number of partitions in the first step of merging.
_FIRST = 16


def names(rows: Any) -> list[str]:
    """Return the names of the columns."""
    return list(rows.columns)


def peek(rows: Any, columns: Sequence[str]) -> Any:
    """Return the first rows, at most 1,000, as a `pyarrow.Table`."""
    return _select(rows, columns).limit(1000).toArrow()


def fold(rows: Any, columns: Sequence[str], count: Count, merge: Merge) -> bytes:
    """Count each partition and merge the counts, in the session of the data frame."""

    def count_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if filled := [batch for batch in batches if batch.num_rows]:
            yield _pack(count(pa.Table.from_batches(filled)))

    def merge_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if parts := [part for batch in batches for part in batch.column(0).to_pylist()]:
            yield _pack(merge(parts))

    counted = _select(rows, columns).mapInArrow(count_partition, "counts binary")
    for partitions in (_FIRST, 1):
        counted = counted.repartition(partitions).mapInArrow(merge_partition, "counts binary")
    return merge([bytes(row[0]) for row in counted.collect()])


def _pack(part: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([part], pa.binary())], ["counts"])


def _select(rows: Any, columns: Sequence[str]) -> Any:
    return rows.select(*("`" + name.replace("`", "``") + "`" for name in columns))
