"""Dask: a task per partition of a data frame, and tasks that merge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask.delayed import delayed

from nextloc_metrics.report.engines.partition import FAN_IN, Count, Merge, as_table


def names(rows: Any) -> list[str]:
    """Return the names of the columns."""
    return [str(name) for name in rows.columns]


def peek(rows: Any, columns: Sequence[str]) -> Any:
    """Return the first rows, at most 1,000, as a `pyarrow.Table`."""
    for part in rows[list(columns)].to_delayed():
        first = delayed(_head)(part).compute()
        if len(first):
            break
    return as_table(first)


def fold(rows: Any, columns: Sequence[str], count: Count, merge: Merge) -> bytes:
    """Count each partition and merge the counts, on the scheduler of Dask's configuration."""
    selected = rows[list(columns)]
    # a function that is delayed once is not sent again with each task
    call, count_one, merge_some = delayed(_call), delayed(count), delayed(merge)
    level = [call(count_one, part) for part in selected.to_delayed()]
    while len(level) > 1:
        starts = range(0, len(level), FAN_IN)
        level = [call(merge_some, level[i : i + FAN_IN]) for i in starts]
    return level[0].compute()  # type: ignore[no-any-return]


def _call(function: Any, argument: Any) -> Any:
    return function(argument)


def _head(frame: Any) -> Any:
    return frame.head(1000)
