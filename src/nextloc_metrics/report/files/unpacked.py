"""How much memory the values of a file take, which is bounded by the file's size.

A file may write a value once and say that it stands in a million rows, or be packed a thousand
times smaller than its values are. What is read at once may take `_LEAST` bytes, or `_TIMES` as many
as it has in the file; the sizes are read before the values are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from struct import error, unpack_from
from typing import Any, NamedTuple

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
        while pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type):
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
        held = chunk.nbytes + 8 * len(chunk)
        remedy = "write short names or numbers for long texts"
        check_size(file, f"values of {short(name)} in a batch", size or 0, held, remedy)


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


def batches_of(file: str, reader: Any, messages: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of an Arrow stream, after a look at the messages that they come in."""
    for message in messages:
        try:
            size = _size_of(message)
        except error as wrong:
            raise ValueError(f"a message is damaged: {wrong}") from wrong
        remedy = "write smaller batches, or none that are compressed"
        check_size(file, "batches", size, len(message.body or b""), remedy)
        if message.type == "record batch":
            yield reader.read_next_batch()


def _size_of(message: Any) -> int:
    """Return the bytes that a message of Arrow takes when unpacked, at least 8 for each row."""
    head = _Table.root(message.metadata.to_pybytes()).table(2)
    if message.type == "dictionary":
        head = None if head is None else head.table(1)
    elif message.type != "record batch":
        return 0
    if head is None:
        return 0
    size = 0
    if head.table(3) is not None:  # compressed; a buffer begins with its size, or -1 if it is plain
        for at, length in head.structs(2, "<qq", 16):
            size += max(length, unpack_from("<q", message.body, at)[0]) if length else 0
    return max(size, 8 * head.field(0, "q"))


class _Table(NamedTuple):
    """A table of FlatBuffers, in which the head of an Arrow message is written."""

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes) -> _Table:
        """Return the outermost table."""
        return cls(data, *unpack_from("<i", data))

    def field(self, number: int, form: str, default: int = 0) -> int:
        """Return a number of the table."""
        at = self._place(number)
        return unpack_from("<" + form, self.data, at)[0] if at else default

    def table(self, number: int) -> _Table | None:
        """Return a table that the table refers to."""
        at = self._place(number)
        return _Table(self.data, at + unpack_from("<I", self.data, at)[0]) if at else None

    def structs(self, number: int, form: str, size: int) -> list[Any]:
        """Return a vector of structs, each of `size` bytes."""
        if (at := self._place(number)) == 0:
            return []
        at += unpack_from("<I", self.data, at)[0]
        length = min(unpack_from("<I", self.data, at)[0], len(self.data) // size)
        return [unpack_from(form, self.data, at + 4 + size * i) for i in range(length)]

    def _place(self, number: int) -> int:
        fields = self.at - unpack_from("<i", self.data, self.at)[0]
        at = 4 + 2 * number
        if at >= unpack_from("<H", self.data, fields)[0]:
            return 0
        offset = unpack_from("<H", self.data, fields + at)[0]
        return self.at + offset if offset else 0
