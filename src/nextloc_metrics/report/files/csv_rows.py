"""CSV: rows of cells of text, which Arrow reads from memory.

Quotes are plain if they only begin and end cells, and are doubled inside. Then a row ends at a line
end behind an even number of them. Of the rest, such as `5" pipe`, Python's `csv` says where rows
end, and which one is wrong.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

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
    suffix_of,
)

# Bytes per part, the most of a cell, and the most characters of a line of the header.
_BLOCK = 1 << 22
_LONGEST = 1 << 22
_WIDEST = 1 << 20

_arrow_csv = Lazy("pyarrow.csv")


@dataclass
class _Table:
    """A file with its header, of which the columns `names` are read."""

    file: str
    delimiter: str
    header: list[str]
    names: list[str]
    has_header: bool

    def part(self, columns: dict[str, Any], start: int, number: int) -> FilePart:
        """Return so many rows, from this one on; the header is row -1."""
        if start < 0:
            columns = {name: column[1:] for name, column in columns.items()}
        rows = range(max(0, start), start + number)
        part = FilePart(self.file, rows, columns, has_header=self.has_header)
        if self.has_header and len(columns) > 1 and len(rows):  # again, where files were joined
            again = [
                pc.or_(pc.equal(column, name), pc.equal(column, f"\ufeff{name}"))
                for name, column in columns.items()
            ]
            row = pc.index(reduce(pc.and_, again), True).as_py()
            if row >= 0:
                raise ExplainedError(f"{part.place(row)} must not be the header again; remove it.")
        return part

    def error(self, row: int, rule: str) -> ExplainedError:
        """Return the error of a row."""
        return ExplainedError(f"{place(self.file, row, self.has_header)} must have {rule}")


def read_csv(file: str, wanted: Wanted) -> Iterator[FilePart]:
    """Read the cells of a CSV file as text; a row with another number of cells is an error.

    Arrow reads bytes in memory: were it to read the file itself, its threads would go on behind an
    error, and abort a process that ends then.
    """
    table = _open(file, wanted)
    if table is None:
        return
    start = -int(table.has_header)
    with open_bytes(file) as opened:
        rest = opened.read(3).removeprefix(codecs.BOM_UTF8)
        while len(rest) <= _LONGEST and (data := opened.read(_BLOCK)):
            rest += data
            try:
                end = _end_of_rows(rest, table.delimiter)
                columns, number = _by_arrow(rest[:end], table)
            except ValueError:
                break
            if number:
                yield table.part(columns, start, number)
            start, rest = start + number, rest[end:]
        yield from _by_csv(_Joined(io.BytesIO(rest), opened), table, start)


def _open(file: str, wanted: Wanted) -> _Table | None:
    """Read the header of a file; None if there is nothing in it."""
    delimiter = "\t" if suffix_of(file) == ".tsv" else ","
    with open_bytes(file) as opened:
        # not "utf-8-sig", which takes a file that ends within its mark for an empty one
        start = io.BytesIO(opened.read(3).removeprefix(codecs.BOM_UTF8))
        whole: Any = _Joined(start, opened)
        lines = io.TextIOWrapper(whole, "utf-8", newline="")
        texts = (_bounded(x, file) for x in iter(lambda: lines.readline(_WIDEST + 1), ""))
        header = next((x for x in csv.reader(texts, delimiter=delimiter) if x), None)
    if header is None:
        return None
    has_header = not (wanted.unnamed and all(map(_is_number, header)))
    if not has_header:
        if len(header) != len(wanted.unnamed):
            raise ExplainedError(
                f"{file} must have a header, or the columns {', '.join(wanted.unnamed)}, got "
                f"{len(header)} columns."
            )
        header = [*wanted.unnamed]
    return _Table(file, delimiter, header, wanted.of(header), has_header)


def _bounded(line: str, file: str) -> str:
    """Return a line of a header; a packed file of a few kilobytes can hold millions of columns."""
    if len(line) > _WIDEST:
        raise ExplainedError(
            f"{file} must have a header of at most {_WIDEST:,} characters, got more; store scores "
            "of many locations as a list in one column."
        )
    return line


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _end_of_rows(text: bytes, delimiter: str) -> int:
    """Return where the last whole row ends; raise a `ValueError` if a quote is not plain."""
    values = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(values == ord('"'))
    opening, closing = quotes[::2], quotes[1::2]
    plain = np.zeros(256, bool)  # what may stand outside of a quote
    plain[[*f'{delimiter}\r\n"'.encode()]] = True
    before, behind = opening[opening > 0] - 1, closing[closing < len(text) - 1] + 1
    if not (plain[values[before]].all() and plain[values[behind]].all()):
        raise ValueError
    for i in range(len(closing), -1, -1):  # what is outside of quotes, from the last piece on
        inside = (closing[i - 1] if i else 0), (opening[i] if i < len(opening) else len(text))
        end = max(text.rfind(b"\n", *inside), text.rfind(b"\r", *inside))
        if end >= 0:
            return end + 1
    return 0


def _by_arrow(text: bytes, table: _Table) -> tuple[dict[str, Any], int]:
    """Return the columns of whole rows, and their number; a wrong one raises a `ValueError`."""
    if not text.strip(b"\r\n"):
        return {}, 0
    if text.startswith(codecs.BOM_UTF8):  # within a file, where Arrow would drop it
        text = codecs.BOM_UTF8 + text
    found = _arrow_csv.read_csv(
        pa.BufferReader(text),
        read_options=_arrow_csv.ReadOptions(
            use_threads=False, block_size=len(text) + 1, column_names=table.header
        ),
        parse_options=_arrow_csv.ParseOptions(delimiter=table.delimiter, newlines_in_values=True),
        convert_options=_arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(table.names, pa.string()), include_columns=table.names
        ),
    )
    return {name: found[name].combine_chunks() for name in table.names}, found.num_rows


class _Joined(io.RawIOBase):
    """Bytes that were read already, and those behind them."""

    def __init__(self, *streams: Any) -> None:
        self._streams = streams

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return next(filter(None, (stream.read(size) for stream in self._streams)), b"")


def _by_csv(opened: Any, table: _Table, start: int) -> Iterator[FilePart]:
    """Read rows by Python's reader."""
    lines = io.TextIOWrapper(opened, "utf-8", newline="")
    reader = csv.reader(lines, delimiter=table.delimiter, strict=True)
    while True:
        cells, number = _next_rows(reader, table, start)
        if not number:
            return
        yield table.part({x: pa.array(y, pa.string()) for x, y in cells.items()}, start, number)
        start += number


def _next_rows(reader: Any, table: _Table, start: int) -> tuple[dict[str, list[str]], int]:
    """Return the columns of the next rows, of about a block, and their number, or raise."""
    found: dict[str, list[str]] = {name: [] for name in table.names}
    columns = [(found[name], table.header.index(name)) for name in table.names]
    number = size = 0
    limit = csv.field_size_limit(_LONGEST)
    try:
        for cells in filter(None, reader):
            if len(cells) != len(table.header):
                raise table.error(
                    start + number,
                    f"{len(table.header)} cells as the "
                    f"{'header' if table.has_header else 'first row'}, got {len(cells)}: "
                    f"{short(cells)}; quote a cell that holds "
                    f"{'a comma' if table.delimiter == ',' else 'a tab'}.",
                )
            number += 1
            for column, i in columns:
                column.append(cells[i])
                size += 1 + len(cells[i])
            if size > _BLOCK:
                break
    except csv.Error as error:
        rule = (
            "a closing quote for each opening one, but the file ends, or 4 MB follow, inside a "
            "quoted cell; the file may be cut."
        )
        if "expected after" in str(error):
            rule = (
                "a delimiter or a line end behind each closing quote; close the cell, or double a "
                "quote inside of it."
            )
        raise table.error(start + number, rule) from error
    finally:
        csv.field_size_limit(limit)
    return found, number
