"""Parts of tables: some rows of some columns.

A column is an Arrow array, a NumPy array, or (from JSON that Arrow cannot read exactly) a list of
Python values.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.opening import need_arrow, open_bytes, suffix_of


class Part(NamedTuple):
    """Some rows of one file.

    `rows` are numbers in the file, from 0, and `columns` the values of those that were asked for;
    `broken` numbers lines that are no record, which have neither target nor groups. `has_header`
    says whether the first row of a CSV file names the columns.
    """

    file: str
    rows: Sequence[int]
    columns: dict[str, Any]
    broken: Sequence[int] = ()
    has_header: bool = True

    def place(self, position: int) -> str:
        """Return where the row at a position is, for messages."""
        return place(self.file, self.rows[position], self.has_header)


def parts_of(file: str, batches: Iterable[Any], names: Sequence[str]) -> Iterator[Part]:
    """Yield a part for each Arrow batch of a file."""
    start = 0
    for batch in batches:
        columns = {name: _decoded(batch.column(name)) for name in names}
        rows = range(start, start + batch.num_rows)
        yield Part(file, rows, columns)
        start += batch.num_rows


def _decoded(column: Any) -> Any:
    """Return an Arrow array with a value for each row, where it has one for each run of rows."""
    if need_arrow().types.is_run_end_encoded(column.type):
        from pyarrow.compute import run_end_decode

        return run_end_decode(column)
    return column


def place(file: str, row: int, has_header: bool = True) -> str:
    """Return where a row is, for messages: its number from 0, and in text the line from 1."""
    try:
        with open_bytes(file) as opened:
            line = _line(opened, suffix_of(file), row, has_header)
    except (OSError, ValueError, EOFError, csv.Error, StopIteration):
        line = 0
    return f"line {line:,}, row {row} of {file}" if line else f"row {row} of {file}"


def _line(opened: Any, kind: str, row: int, has_header: bool) -> int:
    """Return the line where a row begins; 0 if the file has no lines."""
    if kind in (".jsonl", ".ndjson"):
        return next(islice((n for n, x in enumerate(opened, 1) if x.strip()), row, None))
    if kind not in (".csv", ".tsv"):
        return 0
    with io.TextIOWrapper(opened, "utf-8-sig", newline="") as text:
        reader, start = csv.reader(text, delimiter="\t" if kind == ".tsv" else ","), 1
        for cells in reader:
            row -= bool(cells)
            if row == -1 - has_header:  # the header is row -1
                return start
            start = reader.line_num + 1
    return 0


class RowSource(Protocol):
    """Parts of the named columns, from the first row to the last.

    Attributes:
        num_rows: the number of rows, if that is known without reading them.
        untyped: whether all values are text, so that `7` may be a number.
        loose: whether 1 may be the score 1.0, as in text and JSON.
        once: whether the rows can be read only once.
        is_run: whether the rows are a TREC run, where -1 is an id like any other.
    """

    files: list[str]
    num_rows: int | None
    untyped: bool
    loose: bool
    once: bool
    is_run: bool

    def parts(self, columns: Sequence[str], ids: Sequence[str] = ()) -> Iterator[Part]:
        """Yield the rows; in columns of `ids`, an integer beside a float stays an integer.

        A missing or repeated column, or an unreadable file, is a `ValueError`.
        """

    def push_back(self, seen: Sequence[Part]) -> None:
        """Yield parts again that were read already, if the rows can be read only once."""


def check_columns(file: str, have: Sequence[str], need: Sequence[str]) -> None:
    """Raise if a column is missing, with the names that are similar, or occurs twice."""
    missing = [name for name in need if name not in have]
    if missing:
        like = [near for x in missing for near in difflib.get_close_matches(x, have, 1, 0.5)]
        hint = f"; did you mean {', '.join(map(repr, like))}?" if like else "."
        raise ValueError(
            f"{file} must have the columns {short(missing)}, got {short(list(have))}{hint}"
        )
    twice = [name for name, number in Counter(have).items() if number > 1 and name in need]
    if twice:
        raise ValueError(
            f"{file} must have every column once, got {short(twice[0])} "
            f"{have.count(twice[0])} times; rename or drop one of them."
        )


# How Hive and Spark name the folder of rows without a value.
_NULL = "__HIVE_DEFAULT_PARTITION__"


class ExplainedError(ValueError):
    """An error whose message names the file."""


@dataclass
class Wanted:
    """The columns that are read of one file.

    `unnamed` names the columns of a CSV file whose first row is all numbers; empty takes that for
    the header. Columns of `ids` are read exactly.
    """

    file: str
    columns: Sequence[str]
    folders: dict[str, str]
    may_lose: bool
    unnamed: Sequence[str] = ()
    ids: Sequence[str] = ()

    def of(self, have: Sequence[str]) -> list[str]:
        """Return the columns to read from the file, all of them in `have`."""
        inside = [x for x in dict.fromkeys(self.columns) if x in have or x not in self.folders]
        try:
            check_columns(self.file, list(have), inside)
        except ValueError as error:
            raise ExplainedError(str(error)) from None
        return inside

    def complete(self, part: Part) -> Part:
        """Add the columns that are the names of folders."""
        for name in self.columns:
            if name not in part.columns:
                pa, value = need_arrow(), self.folders[name]
                scalar = pa.scalar(None if value == _NULL else value, pa.string())
                part.columns[name] = pa.repeat(scalar, len(part.rows))
        return part
