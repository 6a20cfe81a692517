"""Dask: a task per partition of a data frame, and tasks that merge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from nextloc_metrics.report.engines.partition import FAN_IN, Count, Merge


def names(rows: Any) -> list[str]:
    """Return the names of the columns."""
    return [str(name) for name in rows.columns]


def fold(rows: Any, columns: Sequence[str], count: Count, merge: Merge) -> bytes:
    """Count each partition and merge the counts, on the scheduler of Dask's configuration."""
    from dask import delayed

    count_one: Callable[..., Any] = delayed(_count)
    merge_some: Callable[..., Any] = delayed(merge)
    level = [count_one(part, count) for part in rows[list(columns)].to_delayed()]
    while len(level) > 1:
        level = [merge_some(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    found: bytes = level[0].compute()
    return found


def _count(frame: Any, count: Count) -> bytes:
    return count(pa.Table.from_pandas(frame, preserve_index=False))
