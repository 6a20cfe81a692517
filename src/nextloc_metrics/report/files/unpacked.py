"""How much memory the values of a file take, which is bounded by the file's size.

A file may write a value once and say that it stands in a million rows, or be packed a thousand
times smaller than its values are. What is read at once may take `_LEAST` bytes, or `_TIMES` as many
as it has in the file; the sizes are read before the values are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.opening import (
    ExplainedError,
    FilePart,
    file_system,
    open_bytes,
    pa,
    pc,
)

_LEAST = 1 << 26
_TIMES = 50


def check_size(file: str, what: str, size: int, held: int, remedy: str) -> None:
    """Raise if what is read at once takes more memory than `held` bytes of a file may."""
    most = max(_LEAST, _TIMES * held)
    if size > most:
        raise ExplainedError(
            f"{file} must have {what} of at most {most >> 20:,} MiB when unpacked, or {_TIMES} "
            f"times their size in the file, got more; {remedy}."
        )


def read_whole(file: str) -> bytes:
    """Return the bytes of a file that is read at once."""
    if "://" in file:
        system, path = file_system(file)
        held = int(system.size(path) or 0)
    else:
        held = os.stat(file).st_size
    data = bytearray()
    with open_bytes(file) as opened:
        while some := opened.read(1 << 22):
            data += some
            remedy = "write one record per line, in a .jsonl file"
            check_size(file, "a text", len(data), held, remedy)
    return bytes(data)


def parts_of(file: str, batches: Iterable[Any], names: Sequence[str]) -> Iterator[FilePart]:
    """Yield a part for each Arrow batch of a file."""
    start = 0
    for batch in batches:
        columns = {name: batch.column(name) for name in names}
        for name, column in columns.items():
            _check_column(file, name, column)
            if pa.types.is_run_end_encoded(column.type):  # a value for each run of rows
                columns[name] = pc.run_end_decode(column)
        yield FilePart(file, range(start, start + batch.num_rows), columns)
        start += batch.num_rows


def _check_column(file: str, name: str, column: Any) -> None:
    """Raise if values that are written once and stand in many rows take too much memory."""
    for chunk in getattr(column, "chunks", [column]):
        kinds = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
        while any(is_kind(chunk.type) for is_kind in kinds):
            chunk = chunk.flatten()
        kind = chunk.type
        if pa.types.is_dictionary(kind):
            size = pc.sum(_sizes(chunk.dictionary).take(chunk.indices)).as_py()
        elif pa.types.is_run_end_encoded(kind):
            size = len(chunk) * (pc.max(_sizes(chunk.values)).as_py() or 0)
        elif _is_view(kind):
            size = pc.sum(_sizes(chunk)).as_py()
        else:
            continue
        held = _held(chunk) + 8 * len(chunk)
        remedy = "write short names or numbers for long texts"
        check_size(file, f"values of {short(name)} in a batch", size or 0, held, remedy)


def _held(column: Any) -> int:
    """Return the bytes of a column; PyArrow 18 has no `nbytes` of views."""
    if pa.types.is_dictionary(column.type):
        return int(column.indices.nbytes) + _held(column.dictionary)
    if pa.types.is_run_end_encoded(column.type):
        return int(column.run_ends.nbytes) + _held(column.values)
    is_view = _is_view(column.type)
    return sum(x.size for x in column.buffers() if x) if is_view else int(column.nbytes)


def _is_view(kind: Any) -> bool:
    return str(kind) in ("string_view", "binary_view")


def _sizes(values: Any) -> Any:
    """Return the bytes of each text, and for other values a number above all of them."""
    if _is_view(values.type):  # the length, and where the text stands
        lengths = np.frombuffer(values.buffers()[1], np.int32)[::4]
        return pa.array(lengths[values.offset :][: len(values)].astype(np.int64))
    try:
        return pc.binary_length(values)
    except NotImplementedError:  # of numbers
        return pa.repeat(pa.scalar(16), len(values))
