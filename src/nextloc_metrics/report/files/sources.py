"""Sources of rows, read in parts: tables in files, Arrow streams, and arrays in memory.

CSV and JSON are opened by DuckDB: every cell is text, and typed by the same rule, in `cells`.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial, reduce
from itertools import chain
from typing import Any
from urllib.parse import unquote

from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.report.files.cells import is_list, is_text
from nextloc_metrics.report.files.database import Database, quoted
from nextloc_metrics.report.files.json_types import is_refused, refusal, text_of
from nextloc_metrics.report.files.opening import (
    Choose,
    FilePart,
    Lazy,
    RowSource,
    check_columns,
    check_lines,
    delimiter_of,
    file_system,
    find_files,
    open_bytes,
    pa,
    pc,
    suffix_of,
)
from nextloc_metrics.report.files.suffixes import READERS, read_by
from nextloc_metrics.report.files.wrong_tables import check_records, first_items, not_ids

# Values of the widest column per part of a Parquet file, and bytes of the largest.
_VALUES = 1 << 21
_BYTES = 1 << 26

# The most values of a row; a few bytes of Parquet can say that one stands there millions of times.
_WIDEST = 1 << 22

# How Hive and Spark name the folder of rows without a value.
_NULL = "__HIVE_DEFAULT_PARTITION__"

_parquet = Lazy("pyarrow.parquet")

# Bytes of the values of a batch that are written once in the file and stand in many rows.
_UNPACKED = 1 << 28


class Files(RowSource):
    """Tables in files of one kind: Parquet, CSV, JSON or Arrow IPC.

    `holds` says of columns what they hold, a key of `_NO_IDS`, by the types of JSON are refused.
    """

    def __init__(self, files: Sequence[str], holds: Mapping[str, str] | None = None) -> None:
        _ = pa.Table  # without pyarrow the error is that of the extra
        self.files, reader = [*files], READERS.get(suffix_of(files[0]), "")
        self.untyped = reader in ("csv", "json")
        tables: dict[str, Any] = {"csv": read_csv, "parquet": _read_parquet, "arrow": _read_ipc}
        tables["json"] = partial(read_json, holds=holds or {})
        if reader not in tables:
            known = ", ".join(read_by(*tables))
            raise ValueError(f"`path` must be a table here, {known}, got {files[0]}.")
        self._read = tables[reader]

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows in parts; a folder such as `user=ann` is a column of its files."""
        self.have: list[str] = []
        for file in self.files:
            pieces = (piece.partition("=") for piece in re.split(r"[/\\]", file)[:-1])
            folders = {x: unquote(y) for x, equals, y in pieces if equals and x in columns}
            choose = partial(self._choose, file, columns, folders)
            with _explained(file):
                for part in self._read(file, choose):
                    for name in folders.keys() - part.columns.keys():
                        value = None if folders[name] == _NULL else folders[name]
                        cell = pa.scalar(value, pa.string())
                        part.columns[name] = pa.repeat(cell, len(part.rows))
                    yield part
        if not self.have:
            _check_bytes(self.files)

    def _choose(
        self, file: str, columns: Sequence[str], folders: Mapping[str, str], have: Sequence[str]
    ) -> list[str]:
        """Return the columns to read of those that a file has; others may be names of folders."""
        self.have = self.have or [*have]
        inside = [x for x in dict.fromkeys(columns) if x in have or x not in folders]
        check_columns(file, have, inside)
        return inside

    def names(self) -> list[str]:
        """Return the names of all columns of the first file; none if it has no rows of a table."""
        have: list[str] = []
        with _explained(self.files[0]):
            next(self._read(self.files[0], have.extend), None)
        return have


@contextmanager
def _explained(file: str) -> Iterator[None]:
    """Raise an error that names the file if it cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, EOFError, UnicodeError, zlib.error, pa.ArrowInvalid) as error:
        _check_bytes([file])
        raise ValueError(f"`path` must be readable, and {file} is not: {error}") from error


def _check_bytes(files: Sequence[str]) -> None:
    """Raise if no file has a byte."""
    for file in files:
        with suppress(OSError, EOFError, zlib.error, pa.ArrowInvalid), open_bytes(file) as opened:
            if opened.read(1):
                return
    raise ValueError(f"{files[0]} must hold a table, got no bytes.")


def _read_parquet(file: str, choose: Choose) -> Iterator[FilePart]:
    """Read row groups in batches, so that wide rows of scores do not fill the memory.

    Texts are read as their dictionaries, whose values may be long, and stand in many rows.
    """
    with open_bytes(file) as opened:
        metadata = _parquet.read_metadata(opened)
        names = choose(metadata.schema.to_arrow_schema().names)
        if names is None:
            return
        stored = map(metadata.row_group, range(metadata.num_row_groups))
        cells = [x.column(i) for x in stored for i in range(x.num_columns)]
        cells = [x for x in cells if x.path_in_schema.split(".")[0] in names]
        texts = {x.path_in_schema for x in cells if x.physical_type == "BYTE_ARRAY"}
        rows, groups = max(1, metadata.num_rows), max(1, metadata.num_row_groups)
        width = max(1, max((x.num_values for x in cells), default=0) * groups // rows)
        if width > _WIDEST:
            raise ValueError(
                f"{file} must have at most {_WIDEST:,} values per row, got {width:,} on average; "
                "store only the best ids of each row."
            )
        size = max(1, max((x.total_uncompressed_size for x in cells), default=0) * groups // rows)
        step = max(1, min(1 << 17, _VALUES // width, _BYTES // size))
        table = _parquet.ParquetFile(
            opened, metadata=metadata, read_dictionary=[*texts], pre_buffer=False,
            buffer_size=1 << 20,
        )  # fmt: skip
        # a batch from two row groups would have two dictionaries, which pyarrow refuses in lists
        each = range(metadata.num_row_groups)
        read = (table.iter_batches(step, row_groups=[group], columns=names) for group in each)
        yield from parts_of(file, chain.from_iterable(read), names)


def _read_ipc(file: str, choose: Choose) -> Iterator[FilePart]:
    with open_bytes(file) as opened:
        is_file = opened.read(6) == b"ARROW1"
        opened.seek(0)
        table = pa.ipc.open_file(opened) if is_file else pa.ipc.open_stream(opened)
        if (names := choose(table.schema.names)) is None:
            return
        batches = map(table.get_batch, range(table.num_record_batches)) if is_file else table
        yield from parts_of(file, batches, names)


def parts_of(file: str, batches: Iterable[Any], names: Sequence[str]) -> Iterator[FilePart]:
    """Yield a part for each Arrow batch of a file."""
    start = 0
    for batch in batches:
        columns = {name: batch.column(name) for name in names}
        for name, column in columns.items():
            for chunk in getattr(column, "chunks", [column]):
                if _unpacked(chunk) > _UNPACKED:
                    raise ValueError(
                        f"{file} must have texts of at most {_UNPACKED >> 20} MiB in a batch of "
                        f"{short(name)}, got more; write short names or numbers for long texts."
                    )
            if pa.types.is_run_end_encoded(column.type):  # a value for each run of rows
                columns[name] = pc.run_end_decode(column)
        yield FilePart(file, range(start, start + batch.num_rows), columns)
        start += batch.num_rows


def _unpacked(column: Any) -> int:
    """Return the most bytes that texts take which are written once and stand in many rows."""
    while is_list(column.type) and not pa.types.is_run_end_encoded(column.type):
        column = column.flatten()
    if not pa.types.is_dictionary(column.type) or not is_text(column.dictionary.type):
        return 0
    texts = column.dictionary.cast(pa.large_binary())  # also views
    return int(len(column) * (pc.max(pc.binary_length(texts)).as_py() or 0))


def is_pandas(table: Any) -> bool:
    """Return whether a table is a `pandas.DataFrame`, without importing pandas."""
    return type(table).__module__.split(".")[0] == "pandas" and hasattr(table, "columns")


def table_of(frame: Any) -> Any:
    """Return a frame of pandas as a `pyarrow.Table`; NaN in the lists of a column stays NaN."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for number, one in enumerate(table.schema):
        is_list = pa.types.is_list(one.type) and frame.dtypes.iloc[number].kind == "O"
        if is_list and any(x.flatten().null_count for x in table.column(number).chunks):
            cells = [x if hasattr(x, "__len__") else None for x in frame.iloc[:, number]]
            table = table.set_column(number, one, pa.array(cells, one.type))
    return table


class Stream(RowSource):
    """Whatever exports an Arrow stream: polars, pandas, DuckDB, `pyarrow.Table`.

    `columns` are those that will be read.
    """

    def __init__(self, table: Any, columns: Sequence[str]) -> None:
        metadata = getattr(getattr(table, "schema", None), "metadata", None) or {}
        self.files = [metadata.get(b"file", type(table).__name__.encode()).decode()]
        if is_pandas(table):  # its export would convert all columns in every pass
            check_columns(self.files[0], _names_of(table), columns)
            table = self._explained(table_of, table[columns])
        self._table = table

    def _explained(self, make: Callable[[Any], Any], table: Any) -> Any:
        try:
            return make(table)
        except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
            items = first_items(table) if is_pandas(table) else []
            why = next(filter(None, map(not_ids, items)), error)
            raise ValueError(
                f"`rows` must be columns of one type each, and {self.files[0]} is not: {why}"
            ) from error

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows, after a part without any that has the types."""
        is_arrow = isinstance(self._table, pa.Table)  # as a stream its views of text crash pyarrow
        make = pa.Table.to_reader if is_arrow else pa.RecordBatchReader.from_stream
        reader = self._explained(make, self._table)
        check_columns(self.files[0], reader.schema.names, columns)
        yield from parts_of(self.files[0], chain([reader.schema.empty_table()], reader), columns)


def on_disk(rows: Any) -> Any:
    """Return a stream, which can be read only once, as a table in a temporary file."""
    if not isinstance(rows, pa.RecordBatchReader):
        return rows
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with pa.ipc.new_stream(f"{folder}/rows", rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        return pa.ipc.open_stream(pa.memory_map(f"{folder}/rows")).read_all()


def open_table(
    table: Any, columns: Sequence[str], holds: Mapping[str, str] | None = None
) -> RowSource:
    """Return the source of the rows of files or of a table; `columns` are those that are read.

    `holds` is as for `Files`; in other tables, the types of columns say it.
    """
    if isinstance(table, RowSource):
        return table
    if isinstance(table, str | os.PathLike | list | tuple):
        return Files(find_files(table), holds)
    if hasattr(table, "__arrow_c_stream__") or is_pandas(table):
        return Stream(table, columns)
    raise TypeError(
        "`rows` must be a path, a list of paths or a table that exports an Arrow stream (polars, "
        f"pandas, pyarrow, DuckDB), got {describe(table)}."
    )


def columns_of(table: Any) -> list[str]:
    """Return the names of all columns of a table."""
    if isinstance(table, str | os.PathLike | list | tuple):
        return Files(find_files(table)[:1]).names()
    names = getattr(getattr(table, "schema", None), "names", None)  # a method in polars
    if is_pandas(table):
        return _names_of(table)
    return [*map(str, names if isinstance(names, list) else getattr(table, "columns", ()))]


def _names_of(frame: Any) -> list[str]:
    """Return the names of columns of pandas, or raise if a column has several."""
    if frame.columns.nlevels > 1:
        raise ValueError(
            f"DataFrame must have one name for each column, got {short(frame.columns[0])} of a "
            "MultiIndex; join them, `df.columns = ['_'.join(map(str, x)) for x in df.columns]`."
        )
    return [*map(str, frame.columns)]


def columns_of_both(one: Any, other: Any) -> list[str]:
    """Return the names of the columns of a table that another one has, too, but for `__index__`."""
    there = columns_of(other)
    return [name for name in columns_of(one) if name in there and not name.startswith("__")]


# Rows per part, records that tell which keys there are, bytes of a record, characters of a line
# of CSV and of its header: a packed file of a few kilobytes can hold millions of columns.
_LINES, _RECORDS, _LONGEST, _LINE, _HEADER = 1 << 16, 1000, 1 << 26, 1 << 22, 1 << 20
# Bytes that are read first.
_START = 1 << 16
# What columns of lists hold.
_OF_LISTS = "answers", "ids of locations"

# What DuckDB says of a line, and the rule of ours.
_RULES = {
    "Expected Number of Columns": "have as many cells as the header; quote a cell that holds a "
    "delimiter",
    "unterminated quote": "have a closing quote for each opening one, and then a delimiter or a "
    "line end; the file may be cut",
    "duplicate key": "have each key once",
    "Expected OBJECT": "be a JSON object",
    "Malformed JSON": "be a JSON object in UTF-8",
    "unicode": "be text in UTF-8",
    "invalid state": "have lines that all end in one way",
}


@cache
def _database() -> Database:
    return Database(memory_limit="1GB")


def read_csv(file: str, choose: Choose) -> Iterator[FilePart]:
    """Read cells as text; a line with another number of cells than the header is an error."""
    with open_bytes(file) as opened:
        header = _header(file, opened)
        if header is None or (names := choose(header)) is None:
            return
        check_lines(file, opened, _LINE)
    columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(header)))
    scan = (
        f"read_csv({_quoted_path(file)}, auto_detect = false, header = false, strict_mode = true, "
        f"delim = {quoted(delimiter_of(file))}, quote = '\"', escape = '\"', "
        f"max_line_size = {_LINE}, columns = {{{columns}}})"
    )
    cells = [f"coalesce(c{header.index(x)}, '')" for x in names]
    for part in _parts(file, scan, names, cells, -1):
        if len(names) > 1 and len(part.rows):  # again, where files were joined
            bare = (pc.utf8_ltrim(column, "\ufeff") for column in part.columns.values())
            again = map(pc.equal, bare, part.columns)
            row = pc.index(reduce(pc.and_, again), True).as_py()
            if row >= 0:
                raise ValueError(f"{part.place(row)} must not be the header again; remove it.")
        yield part


def _header(file: str, opened: Any) -> list[str] | None:
    """Return the names in the first line of a file; None if there is nothing in it."""
    start = opened.read(_START)
    if not {*b"\r\n"} & {*start.lstrip()}:
        start += opened.read(_HEADER - len(start))
    if len(start) == _HEADER and not re.search(rb"[\r\n]", start):
        raise ValueError(
            f"{file} must have a header of at most {_HEADER:,} bytes, got more; store scores of "
            "many locations as a list in one column."
        )
    start.partition(b"\n")[0].decode()  # DuckDB names the line of other text that is no UTF-8
    # not "utf-8-sig", which takes a file that ends within its mark for an empty one
    text = start.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    lines = csv.reader(io.StringIO(text, ""), delimiter=delimiter_of(file))
    try:
        return next(filter(None, lines), None)
    except csv.Error as error:
        raise ValueError(
            f"{file} must have a header with the names of columns: {error}."
        ) from error


def read_json(file: str, choose: Choose, holds: Mapping[str, str]) -> Iterator[FilePart]:
    """Read records, one per line, in a list or over several lines; strings lose their quotes."""
    with open_bytes(file) as opened:
        start = opened.read(_START)
    text = start.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text:
        return
    form = "newline_delimited" if suffix_of(file) != ".json" else "unstructured"
    if text[:1] == b"[":
        form = "array"
    elif text.split(b"\n", 1)[0].strip() == b"{":
        form = "unstructured"
    how = f"({_quoted_path(file)}, format = '{form}', maximum_object_size = {_LONGEST}"
    keys = _keys_of_lines(text) if form == "newline_delimited" else []
    if not keys:
        query = f"SELECT json_keys(json) AS keys FROM read_json_objects{how}) LIMIT {_RECORDS}"
        records = [x or [] for batch in _batches(file, query) for x in batch.column(0).to_pylist()]
        if not records:
            return
        keys = [*dict.fromkeys(chain.from_iterable(records))]
    if len(start) < _START and form == "newline_delimited":
        _check_one_record(file, text, holds)
    if (names := choose(keys)) is None:
        return
    columns = ", ".join(f"{quoted(x)}: 'JSON'" for x in names)
    cells = ['"' + name.replace('"', '""') + '"' for name in names]
    scan = f"read_json{how}, auto_detect = false, columns = {{{columns}}})"
    texts = [*map(text_of, cells, map(holds.get, names)), is_refused(cells, names, holds)]
    for part in _parts(file, scan, [*names, ""], texts):
        found = part.columns.pop("")
        if found.null_count < len(found):
            row = found.is_valid().index(True).as_py()
            raise refusal(part, row, names[found[row].as_py()], holds)
        yield part


def _keys_of_lines(text: bytes) -> list[str]:
    """Return the keys of the first records, one per line; none if a line is no record."""
    lines = re.split(rb"[\r\n]+", text)
    whole = lines[:_RECORDS] if len(text) < _START - 8 else lines[:-1][:_RECORDS]
    try:
        records = [json.loads(line) for line in whole if line.strip()]
    except (ValueError, RecursionError):
        return []
    are_records = all(isinstance(x, dict) for x in records)
    return [*dict.fromkeys(chain.from_iterable(records))] if are_records else []


def _check_one_record(file: str, text: bytes, holds: Mapping[str, str]) -> None:
    """Raise if the one line of a file holds columns, as `DataFrame.to_json` writes them."""
    if b"\n" in text.strip():
        return
    held: Any = None
    with suppress(ValueError, RecursionError):
        held = json.loads(text)
    query = [x for x, what in holds.items() if what == "an id"]
    of = [next((x for x, what in holds.items() if what == y), "") for y in _OF_LISTS]
    check_records(file, held, query, *of)


def _quoted_path(file: str) -> str:
    """Return a file as a literal; what would be a pattern is none."""
    return quoted(re.sub(r"([*?[])", r"[\1]", file))


def _batches(file: str, query: str) -> Iterator[Any]:
    """Yield what a query on a file finds."""
    if "://" in file:
        _database().add_files(file_system(file)[0])
    try:
        yield from _database().batches(query, _LINES)
    except ValueError as error:
        raise _explained_text(file, error) from error


def _parts(
    file: str, scan: str, names: list[str], cells: list[str], start: int = 0
) -> Iterator[FilePart]:
    """Yield the cells of a file as text; the first row has this number, and -1 is the header."""
    listed = ", ".join(f"{x} AS x{i}" for i, x in enumerate(cells))
    for batch in _batches(file, f"SELECT {listed} FROM {scan}"):
        columns = dict(zip(names, batch.slice(int(start < 0)).columns, strict=True))
        rows = range(max(0, start), start + batch.num_rows)
        yield FilePart(file, rows, columns)
        start = rows.stop


def _explained_text(file: str, error: ValueError) -> ValueError:
    """Return an error of DuckDB with the line, the rule and the text."""
    text = str(error.__cause__)
    line, said = re.search(r"(?i)\bline:? (\d+)", text), text.partition("\n")[0]
    got, number = re.search(r"Original Line: (.*)", text), int(line[1]) if line else 0
    rule = next((rule for words, rule in _RULES.items() if words in text), "be readable")
    broken = _broken_line(file) if suffix_of(file) in (".jsonl", ".ndjson") else None
    number, shown = broken or (number, got[1] if got else said)
    place = f"line {number:,} of {file}" if number else file
    return ValueError(f"{place} must {rule}, got {short(shown)}.")


def _broken_line(file: str) -> tuple[int, str] | None:
    """Return the first line that is no JSON, as versions of DuckDB count lines in several ways."""
    with open_bytes(file) as opened:
        for number, line in enumerate(opened, 1):
            try:
                json.loads(line.strip() or b"0")
            except (ValueError, RecursionError):  # noqa: PERF203 - it ends the loop
                return number, line.strip().decode(errors="replace")
    return None
