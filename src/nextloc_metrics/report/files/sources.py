"""Tables that are read in parts: files, and objects that export an Arrow stream."""

from __future__ import annotations

import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import unquote

from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.report.files.cells import is_list, is_text
from nextloc_metrics.report.files.opening import (
    Choose,
    FilePart,
    Lazy,
    RowSource,
    check_columns,
    find_files,
    open_bytes,
    pa,
    pc,
    suffix_of,
)
from nextloc_metrics.report.files.suffixes import READERS, read_by
from nextloc_metrics.report.files.text_tables import read_csv, read_json
from nextloc_metrics.report.files.wrong_tables import first_items, not_ids

# How many values the widest column, and how many bytes the largest, has in a part of Parquet.
_VALUES = 1 << 21
_BYTES = 1 << 26

# The most values of a row: a few bytes of Parquet can repeat one value millions of times.
_WIDEST = 1 << 22

# The name that Hive and Spark give to the folder of rows without a value.
_NULL = "__HIVE_DEFAULT_PARTITION__"

_parquet = Lazy("pyarrow.parquet")

# The most bytes that texts of a batch may take once each row has its own; the file has them once.
_UNPACKED = 1 << 28


class Files(RowSource):
    """Tables in files of one kind: Parquet, CSV, JSON or Arrow IPC.

    `holds` tells what columns hold, by which types of JSON are refused: see `text_tables`.
    """

    def __init__(self, files: Sequence[str], holds: Mapping[str, str] | None = None) -> None:
        _ = pa.Table  # raises an error that names the extra if pyarrow is missing
        self.files, reader = [*files], READERS.get(suffix_of(files[0]), "")
        self.untyped = reader in ("csv", "json")
        tables: dict[str, Any] = {"csv": read_csv, "parquet": _read_parquet, "arrow": _read_ipc}
        tables["json"] = partial(read_json, holds=holds or {})
        if reader not in tables:
            formats = ", ".join(read_by(*tables))
            raise ValueError(f"`path` must be a table here, {formats}, got {files[0]}.")
        self._read = tables[reader]

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows in parts; a folder such as `user=ann` is a column `user` of its files."""
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
        """Return the columns to read from a file; the others are folders of its path."""
        self.have = self.have or [*have]
        inside = [x for x in dict.fromkeys(columns) if x in have or x not in folders]
        check_columns(file, have, inside)
        return inside

    def names(self) -> list[str]:
        """Return the names of all columns of the first file; no names if it is empty."""
        have: list[str] = []
        with _explained(self.files[0]):
            next(self._read(self.files[0], have.extend), None)
        return have


@contextmanager
def _explained(file: str) -> Iterator[None]:
    """Turn errors of reading a file into one that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, EOFError, UnicodeError, zlib.error, pa.ArrowInvalid) as error:
        _check_bytes([file])
        raise ValueError(f"`path` must be readable, and {file} is not: {error}") from error


def _check_bytes(files: Sequence[str]) -> None:
    """Raise if all files are empty."""
    for file in files:
        with suppress(OSError, EOFError, zlib.error, pa.ArrowInvalid), open_bytes(file) as opened:
            if opened.read(1):
                return
    raise ValueError(f"{files[0]} must hold a table, got no bytes.")


def _read_parquet(file: str, choose: Choose) -> Iterator[FilePart]:
    """Read row groups in batches, so that wide rows of scores do not fill the memory.

    Texts are read as dictionaries, as long texts may repeat in many rows.
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
        # a batch of two row groups would have two dictionaries, which pyarrow cannot read in lists
        each = range(metadata.num_row_groups)
        read = (table.iter_batches(step, row_groups=[i], columns=names) for i in each)
        yield from parts_of(file, chain.from_iterable(read), names)


def _read_ipc(file: str, choose: Choose) -> Iterator[FilePart]:
    """Read a file of Arrow, or a stream that was written to a file."""
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
    """Return a bound on the bytes of dictionaries of text once each row has its own text."""
    while is_list(column.type) and not pa.types.is_run_end_encoded(column.type):
        column = column.flatten()
    if not pa.types.is_dictionary(column.type) or not is_text(column.dictionary.type):
        return 0
    texts = column.dictionary.cast(pa.large_binary())  # this casts views of text, too
    return int(len(column) * (pc.max(pc.binary_length(texts)).as_py() or 0))


def is_pandas(table: Any) -> bool:
    """Return whether a table is a `pandas.DataFrame`, without importing pandas."""
    return type(table).__module__.split(".")[0] == "pandas" and hasattr(table, "columns")


def table_of(frame: Any) -> Any:
    """Return a frame of pandas as a `pyarrow.Table`; NaN within lists stays NaN."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for number, field in enumerate(table.schema):
        is_list = pa.types.is_list(field.type) and frame.dtypes.iloc[number].kind == "O"
        if is_list and any(x.flatten().null_count for x in table.column(number).chunks):
            cells = [x if hasattr(x, "__len__") else None for x in frame.iloc[:, number]]
            kind = field.type
            if pa.types.is_null(kind.value_type):  # every score of these rows is NaN
                kind = pa.list_(pa.float64())
            table = table.set_column(number, field.name, pa.array(cells, kind))
    return table


class Stream(RowSource):
    """A table that exports an Arrow stream (polars, pandas, DuckDB); `columns` will be read."""

    def __init__(self, table: Any, columns: Sequence[str]) -> None:
        metadata = getattr(getattr(table, "schema", None), "metadata", None) or {}
        self.files = [metadata.get(b"file", type(table).__name__.encode()).decode()]
        if is_pandas(table):  # its export would convert all columns in every pass
            check_columns(self.files[0], _names_of(table), columns)
            table = self._explained(table_of, table[columns])
        self._table = table

    def _explained(self, make: Callable[[Any], Any], table: Any) -> Any:
        """Call `make` with a table; raise an error that says why it has no Arrow types."""
        try:
            return make(table)
        except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
            items = first_items(table) if is_pandas(table) else []
            why = next(filter(None, map(not_ids, items)), error)
            raise ValueError(
                f"`rows` must be columns of one type each, and {self.files[0]} is not: {why}"
            ) from error

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows, after a part without rows, which has the types of columns."""
        is_arrow = isinstance(self._table, pa.Table)  # its views of text crash a stream
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

    `holds` is as for `Files`; other tables have columns with types.
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


def count_stored(table: Any) -> int | None:
    """Return the number of rows of a table if it is known without reading them, or None."""
    if not isinstance(table, str | os.PathLike | list | tuple):
        return len(table) if hasattr(table, "__len__") else None
    files, number = find_files(table), 0
    if READERS[suffix_of(files[0])] != "parquet":
        return None
    for file in files:
        with open_bytes(file) as opened:
            number += _parquet.read_metadata(opened).num_rows
    return number


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


def columns_of_both(first: Any, second: Any) -> list[str]:
    """Return the names of columns that both tables have, but for ones such as `__index__`."""
    others = columns_of(second)
    return [name for name in columns_of(first) if name in others and not name.startswith("__")]
