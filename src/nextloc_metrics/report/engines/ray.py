"""Ray: a task per block of a data set, and tasks that merge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import ray

from nextloc_metrics.report.engines.partition import FAN_IN, Count, Merge, concat


def names(rows: Any) -> list[str]:
    """Return the names of the columns."""
    return list(rows.columns() or [])


def peek(rows: Any, columns: Sequence[str]) -> Any:
    """Return the first rows, at most 1,000, as a `pyarrow.Table`."""
    references = rows.select_columns(list(columns)).limit(1000).to_arrow_refs()
    blocks = [_without_tensors(block) for block in ray.get(references) if block.num_columns]
    return concat(blocks) if blocks else pa.table({name: [] for name in columns})


def fold(rows: Any, columns: Sequence[str], count: Count, merge: Merge) -> bytes:
    """Count each block and merge the counts, on the cluster that Ray is connected to."""

    def count_block(block: pa.Table) -> pa.Table:
        return _pack(count(_without_tensors(block)))

    def merge_blocks(*blocks: pa.Table) -> pa.Table:
        return _pack(merge([part for block in blocks for part in _unpack(block)]))

    whole: Any = {"batch_format": "pyarrow", "batch_size": None, "zero_copy_batch": True}
    counted = rows.select_columns(list(columns)).map_batches(count_block, **whole)
    merge_some = ray.remote(merge_blocks)
    level = counted.to_arrow_refs()
    while len(level) > 1:
        level = [merge_some.remote(*level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return merge([part for block in ray.get(level) for part in _unpack(block)])


def _pack(part: bytes) -> pa.Table:
    return pa.table({"counts": pa.array([part], pa.large_binary())})


def _unpack(block: pa.Table) -> list[bytes]:
    return block["counts"].to_pylist() if block.num_columns else []


def _without_tensors(block: pa.Table) -> pa.Table:
    """Return the block with plain lists in place of Ray's columns of tensors."""
    for number, field in enumerate(block.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            chunks = [chunk.storage for chunk in block.column(number).chunks]
            if chunks and pa.types.is_struct(chunks[0].type):  # tensors of different lengths
                chunks = [chunk.field("data") for chunk in chunks]
            block = block.set_column(number, field.name, pa.chunked_array(chunks))
    return block
