"""Tables in files: Parquet, CSV, Arrow IPC and JSON, read in parts."""

from __future__ import annotations

import csv
import io
import lzma
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any
from urllib.parse import unquote

import numpy as np

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.json_lines import read_json
from nextloc_metrics.files.opening import ARROW, TEXT, need_arrow, open_bytes, suffix_of
from nextloc_metrics.files.parts import ExplainedError, Part, Wanted, parts_of, place

# Arrow takes the end of a file inside a quoted cell for the end of the cell. A row of these cells
# behind the last one comes out as a row, unless such a cell swallows it.
_END = "nextloc_metrics: end of file"

# Bytes of CSV per part, and values of the widest column per part of a Parquet file.
_BLOCK = 1 << 22
_VALUES = 1 << 21


_UNREADABLE = (
    OSError, UnicodeError, ValueError, EOFError, RecursionError, lzma.LZMAError, csv.Error,
)  # fmt: skip


@dataclass(eq=False)
class Files:
    """Tables in files of one kind: Parquet, CSV, JSON or Arrow IPC.

    With `may_lose`, a line of JSON that is no record is counted; else it is an error. `unnamed`
    names the columns of CSV files without a header, whose first row is all numbers.
    """

    files: list[str]
    may_lose: bool = False
    unnamed: Sequence[str] = ()
    num_rows: int | None = field(init=False, default=None)
    _seen: Sequence[Part] = field(init=False, default=())
    once = is_run = False

    def __post_init__(self) -> None:
        need_arrow()
        self._kind = suffix_of(self.files[0])
        self.untyped = self._kind in (".csv", ".tsv")
        self.loose = self._kind in TEXT
        if self._kind == ".parquet":
            self.num_rows = sum(map(_count_parquet, self.files))

    def push_back(self, seen: Sequence[Part]) -> None:
        """Keep parts that are all rows, as those of a small file are; others are read again."""
        self._seen = seen if sum(len(part.rows) for part in seen) == self.num_rows else ()

    def parts(self, columns: Sequence[str], ids: Sequence[str] = ()) -> Iterator[Part]:
        """Yield the rows in parts; a folder such as `user=ann` is a column of its files."""
        if self._seen:
            for part in self._seen:
                yield part._replace(columns={name: part.columns[name] for name in columns})
            return
        readers: dict[str, Any] = {".parquet": _read_parquet, ".csv": _read_csv, ".tsv": _read_csv}
        read = readers.get(self._kind, _read_ipc if self._kind in ARROW else read_json)
        for file in self.files:
            pieces = (piece.partition("=") for piece in re.split(r"[/\\]", file)[:-1])
            folders = {key: unquote(value) for key, equals, value in pieces if equals}
            inside = Wanted(file, columns, folders, self.may_lose, self.unnamed, ids)
            with _explained(file):
                yield from map(inside.complete, read(file, inside))


@contextmanager
def _explained(file: str) -> Iterator[None]:
    """Raise an error that names the file if it cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except ExplainedError as error:
        raise ValueError(str(error)) from error.__cause__
    except _UNREADABLE as error:
        raise ValueError(f"`path` must be readable, and {file} is not: {error}") from error


def _count_parquet(file: str) -> int:
    from pyarrow.parquet import read_metadata

    with _explained(file), open_bytes(file) as opened:
        return int(read_metadata(opened).num_rows)


def _read_parquet(file: str, wanted: Wanted) -> Iterator[Part]:
    """Read row groups in batches, so that wide rows of scores do not fill the memory."""
    from pyarrow.parquet import ParquetFile

    with open_bytes(file) as opened:
        table = ParquetFile(opened, pre_buffer=False, buffer_size=1 << 20)
        names = wanted.of(table.schema_arrow.names)
        number = max(1, table.metadata.num_rows)
        values = [1]
        for group in range(table.metadata.num_row_groups):
            of_group = table.metadata.row_group(group)
            cells = (of_group.column(i) for i in range(of_group.num_columns))
            values += [x.num_values for x in cells if x.path_in_schema.split(".")[0] in names]
        width = max(1, max(values) * max(1, table.metadata.num_row_groups) // number)
        step = max(1, min(1 << 17, _VALUES // width))
        yield from parts_of(file, table.iter_batches(batch_size=step, columns=names), names)


def _read_ipc(file: str, wanted: Wanted) -> Iterator[Part]:
    pa = need_arrow()
    with open_bytes(file) as opened:
        is_file = opened.read(6) == b"ARROW1"
        opened.seek(0)
        table = pa.ipc.open_file(opened) if is_file else pa.ipc.open_stream(opened)
        names = wanted.of(table.schema.names)
        batches = map(table.get_batch, range(table.num_record_batches)) if is_file else table
        yield from parts_of(file, batches, names)


def _read_csv(file: str, wanted: Wanted) -> Iterator[Part]:
    """Read the cells of a CSV file as text; a row with another number of cells is an error."""
    from pyarrow import csv as arrow_csv

    delimiter = "\t" if suffix_of(file) == ".tsv" else ","
    with open_bytes(file) as opened:
        lines = io.TextIOWrapper(opened, "utf-8-sig", newline="")
        header = next((x for x in csv.reader(lines, delimiter=delimiter) if x), None)
    if header is None:
        return
    has_header = not (wanted.unnamed and all(map(_is_number, header)))
    if not has_header:
        if len(header) != len(wanted.unnamed):
            raise ExplainedError(
                f"{file} must have a header, or the columns {', '.join(wanted.unnamed)}, got "
                f"{len(header)} columns."
            )
        header = [*wanted.unnamed]
    names = wanted.of(header)
    wrong: list[Any] = []

    def refuse(row: Any) -> str:
        wrong.append(row)
        return "error"

    text = need_arrow().string()
    with open_bytes(file) as opened:
        ended = _Ended(opened, delimiter, len(header))
        try:
            batches = arrow_csv.open_csv(
                ended,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=_BLOCK,
                    column_names=None if has_header else header,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=refuse
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, text), include_columns=names
                ),
            )
            for part in parts_of(file, _without_end(batches), names, has_header):
                _check_no_header(part)
                yield part
        except ValueError as error:
            explained = _explain(error, file, wrong, delimiter, has_header)
            if explained is None:
                raise
            raise explained from error
    if not ended.quotes_are_plain:
        _check_quotes(file, delimiter, has_header)


def _check_no_header(part: Part) -> None:
    """Raise for a row that is the header again, as where files were joined."""
    import pyarrow.compute as pc

    if not part.has_header or len(part.columns) < 2 or not len(part.rows):
        return
    again = [pc.equal(column, name) for name, column in part.columns.items()]
    row = pc.index(reduce(pc.and_, again), True).as_py()
    if row >= 0:
        raise ExplainedError(f"{part.place(row)} must not be the header again; remove it.")


def _explain(
    error: ValueError, file: str, wrong: Sequence[Any], delimiter: str, has_header: bool
) -> ExplainedError | None:
    """Return an error that says which row of a CSV file is wrong, if one is."""
    is_open = isinstance(error, _OpenError) or "straddling" in str(error)
    if is_open or (wrong and _END in wrong[0].text):
        number, _ = _last_row(file, delimiter, has_header)
        return ExplainedError(
            f"{place(file, number, has_header)} must have a closing "
            "quote for each opening one, but the file ends, or 4 MB follow, inside a quoted cell; "
            "the file may be cut."
        )
    if not wrong:
        return None
    row = wrong[0]
    return ExplainedError(
        f"{place(file, row.number - 1 - has_header, has_header)} must have {row.expected_columns} "
        f"cells as the {'header' if has_header else 'first row'}, got {row.actual_columns}: "
        f"{short(row.text)}; quote a cell that holds {'a tab' if delimiter != ',' else 'a comma'}."
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


class _OpenError(ValueError):
    """The file ends inside a quoted cell."""


class _Ended(io.RawIOBase):
    """The bytes of a CSV file, and a row of `_END` behind them.

    `quotes_are_plain` tells whether quotes only begin and end cells, and are doubled inside. Others
    may be text (`5" pipe`), or close a cell that was never closed.
    """

    def __init__(self, opened: Any, delimiter: str, num_columns: int) -> None:
        row = delimiter.join([_END] * num_columns)
        self._opened, self._end, self._held = opened, f"\n{row}\n".encode(), b""
        self._beside = np.zeros(256, bool)  # what may stand outside of a quote
        self._beside[[*f'{delimiter}\r\n"'.encode()]] = True
        self._last, self._num_quotes, self.quotes_are_plain = b"\n", 0, True

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while self._end and len(self._held) < size:
            more = self._opened.read(size - len(self._held))
            self._look_at(more or self._end)
            self._held += more or self._end
            if not more:
                self._end = b""
        found, self._held = self._held[:size], self._held[size:]
        return found

    def _look_at(self, more: bytes) -> None:
        """Check what stands before each quote that opens a cell, and behind each that closes it."""
        values = np.frombuffer(self._last + more, np.uint8)
        at = np.flatnonzero(values == ord('"'))
        first = int(self._num_quotes - (self._last == b'"')) % 2  # 1 if the first one closes
        before, behind = at[first::2] - 1, at[1 - first :: 2] + 1
        for beside in (before[before >= 0], behind[behind < len(values)]):
            self.quotes_are_plain &= bool(self._beside[values[beside]].all())
        self._num_quotes, self._last = self._num_quotes + int((at > 0).sum()), more[-1:]


def _without_end(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield batches without the row that `_Ended` adds; raise if a quoted cell swallowed it."""
    last = None
    for batch in batches:
        if batch.num_rows:
            if last is not None:
                yield last
            last = batch
    if last is None or {*last.slice(last.num_rows - 1).to_pylist()[0].values()} != {_END}:
        raise _OpenError
    yield last.slice(0, last.num_rows - 1)


def _check_quotes(file: str, delimiter: str, has_header: bool) -> None:
    """Raise if text follows the closing quote of a cell, which Arrow takes for part of the cell."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        number, is_wrong = _last_row(file, delimiter, has_header, strict=True)
    finally:
        csv.field_size_limit(limit)
    if is_wrong:
        raise ExplainedError(
            f"{place(file, number, has_header)} must have a delimiter or a line end behind "
            "each closing quote; close the cell, or double a quote inside of it."
        )


def _last_row(
    file: str, delimiter: str, has_header: bool, strict: bool = False
) -> tuple[int, bool]:
    """Return the number of the last row, or of the first that is refused, and whether one is."""
    row = -1 - has_header  # the header is row -1
    with open_bytes(file) as opened:
        lines = io.TextIOWrapper(opened, "utf-8-sig", newline="")
        try:
            for cells in csv.reader(lines, delimiter=delimiter, strict=strict):
                row += bool(cells)
        except csv.Error:
            return row + 1, True
    return row, False
