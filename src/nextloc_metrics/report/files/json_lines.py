"""JSON: a record per line, or a list of records."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.opening import (
    ExplainedError,
    FilePart,
    Lazy,
    Wanted,
    open_bytes,
    pa,
    pc,
    place,
)
from nextloc_metrics.report.files.unpacked import read_whole

# Bytes per block, and the most of a line.
_BLOCK = 1 << 22
_LONGEST = 1 << 26

# Arrow crashes on values nested some thousand deep, which takes as many bytes.
_DEEPEST = 2000

_SPACE = re.compile(r"\s*")

_arrow_json = Lazy("pyarrow.json")


def read_json(file: str, wanted: Wanted) -> Iterator[FilePart]:
    """Read JSON lines in blocks; a list of records, or records over several lines, at once."""
    start, names, as_text = 0, None, {}  # type: ignore[var-annotated]
    for block in _blocks(file):
        lines = [line for line in block.splitlines() if line.strip()]
        first = lines[0].strip() if lines else b""
        if not start and names is None and (first[:1] == b"[" or first == b"{"):
            yield _of_whole(file, wanted)
            return
        part = None
        is_deep = (len(x) > _DEEPEST and x.count(b"[") + x.count(b"{") > _DEEPEST for x in lines)
        if names is not None and not any(is_deep):
            part = _by_arrow(wanted, block, len(lines), names, as_text, start)
        if part is None:
            records, rows, broken = _records(file, lines, start, wanted.may_lose)
            if names is None and records:
                names = wanted.of(list(dict.fromkeys(chain.from_iterable(records))))
            columns = _columns(records, names or wanted.columns)
            part = FilePart(file, rows, columns, broken)
        yield part
        start += len(lines)


def _blocks(file: str) -> Iterator[bytes]:
    """Yield whole lines; the first block is small, as its names and types decide how to go on."""
    with open_bytes(file) as opened:
        rest, size = b"", 1 << 12
        while data := opened.read(size):
            if size < _BLOCK:
                data, size = data.removeprefix(b"\xef\xbb\xbf"), _BLOCK
                if data.lstrip()[:1] == b"[":  # is read at once
                    yield data
                    return
            head, newline, tail = data.rpartition(b"\n")
            if newline:
                yield rest + head
                rest = tail
            else:
                rest += tail
            if len(rest) > _LONGEST:
                raise ExplainedError(
                    f"{file} must have lines of at most {_LONGEST >> 20} MiB, got a longer one; "
                    "write one record per line, with the columns that are read."
                )
        if rest.strip():
            yield rest


def _by_arrow(
    wanted: Wanted, block: bytes, number: int, names: list[str], as_text: dict[str, Any], start: int
) -> FilePart | None:
    """Read lines by Arrow; None where it could change a value: null, times, large numbers.

    One float makes all integers of a column floats, so that a column of ids may not have one.
    """
    # Arrow reads [null, 1] as [1, 0]
    if not number or b"null" in block:
        return None
    try:
        block.decode()
        while True:
            parse = _arrow_json.ParseOptions(pa.schema(list(as_text.items())))
            read = _arrow_json.ReadOptions(block_size=len(block) + 1)
            table = _arrow_json.read_json(pa.BufferReader(block), read, parse)
            kinds = {name: table.schema.field(name).type for name in names}
            text = pa.string()
            times = {
                x: pa.list_(text) if hasattr(kind, "value_type") else text
                for x, kind in kinds.items()
                if pa.types.is_temporal(getattr(kind, "value_type", kind))
            }
            if not times:
                break
            as_text.update(times)
        columns = {name: table[name].combine_chunks() for name in names}
        are_exact = (_is_exact(x, name in wanted.ids) for name, x in columns.items())
        if len(table) != number or not all(are_exact):
            return None
    except (KeyError, ValueError):
        return None
    return FilePart(wanted.file, range(start, start + number), columns)


def _is_exact(column: Any, are_ids: bool) -> bool:
    """Return whether Arrow's values of a column are those of the text, to the last digit."""
    values = column.flatten() if pa.types.is_list(column.type) else column
    kind = values.type
    if pa.types.is_floating(kind):
        return not are_ids and not pc.any(pc.greater_equal(pc.abs(values), 2.0**53)).as_py()
    return bool(column.null_count == 0) and bool(
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind)
    )


def _records(
    file: str, lines: Sequence[bytes], start: int, may_lose: bool
) -> tuple[list[dict[str, Any]], list[int], list[int]]:
    """Return the records of lines, their numbers, and the numbers of lines that are none."""
    records, rows, broken = [], [], []
    for row, line in enumerate(lines, start):
        record, why = None, "it is not an object"
        try:
            record = json.loads(line, object_pairs_hook=record_of)
        except (ValueError, RecursionError) as error:
            why = str(error)
        if isinstance(record, dict):
            records.append(record)
            rows.append(row)
        elif may_lose:
            broken.append(row)
        else:
            text = short(line[:100].decode(errors="replace"))
            raise ExplainedError(
                f"{place(file, row)} must be a JSON object, got {text}: {why}; count such lines as "
                "broken answers with `on_error='miss'`."
            )
    return records, rows, broken


class RepeatedKeyError(ValueError):
    """An object has a key twice, of which Python would keep the last."""


def record_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of pairs that `json` hands on, with each key once."""
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise RepeatedKeyError(f"it has the key {short(twice)} more than once")
    return record


def _of_whole(file: str, wanted: Wanted) -> FilePart:
    text = read_whole(file).decode("utf-8-sig").strip()
    decoder, at = json.JSONDecoder(object_pairs_hook=record_of), 0
    records: list[Any] = decoder.decode(text) if text.startswith("[") else []
    while not text.startswith("[") and at < len(text):  # one record after the other
        record, end = decoder.raw_decode(text, at)
        records.append(record)
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    other = next((i for i, x in enumerate(records) if not isinstance(x, dict)), None)
    if other is not None:
        raise ExplainedError(
            f"row {other} of {file} must be an object, got {short(records[other])}."
        )
    names = wanted.of(list(dict.fromkeys(chain.from_iterable(records)))) if records else []
    return FilePart(file, range(len(records)), _columns(records, names or wanted.columns))


def _columns(records: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    return {name: [record.get(name) for record in records] for name in names}
