"""Tables in files: Parquet, CSV, Arrow IPC and JSON, read in parts."""

from __future__ import annotations

import csv
import lzma
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from nextloc_metrics.files.csv_rows import read_csv
from nextloc_metrics.files.json_lines import read_json
from nextloc_metrics.files.opening import ARROW, TEXT, need_arrow, open_bytes, suffix_of
from nextloc_metrics.files.parts import ExplainedError, Part, Wanted, parts_of

# Values of the widest column per part of a Parquet file.
_VALUES = 1 << 21

_UNREADABLE = (
    OSError, UnicodeError, ValueError, EOFError, RecursionError, lzma.LZMAError, zlib.error,
    csv.Error,
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
        readers: dict[str, Any] = {".parquet": _read_parquet, ".csv": read_csv, ".tsv": read_csv}
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
