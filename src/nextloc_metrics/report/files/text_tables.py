"""CSV and JSON, opened by DuckDB: every cell is text, and typed by the same rule, in `ids`."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator
from functools import cache, reduce
from itertools import chain
from typing import Any

from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.database import Database, quoted
from nextloc_metrics.report.files.opening import (
    Choose,
    FilePart,
    delimiter_of,
    file_system,
    open_bytes,
    pc,
    suffix_of,
)

# Rows per part, records that tell which keys there are, bytes of a record, characters of a line
# of CSV and of its header: a packed file of a few kilobytes can hold millions of columns.
_ROWS, _RECORDS, _LONGEST, _LINE, _HEADER = 1 << 16, 1000, 1 << 26, 1 << 22, 1 << 20

# What DuckDB says of a line, and the rule of ours.
_RULES = {
    "Expected Number of Columns": "have as many cells as the header; quote a cell that holds a "
    "delimiter",
    "unterminated quote": "have a closing quote for each opening one, and then a delimiter or a "
    "line end; the file may be cut",
    "duplicate key": "have each key once",
    "Expected OBJECT": "be a JSON object",
    "Malformed JSON": "be a JSON object in UTF-8",
    "Maximum line size": f"have lines of at most {_LINE >> 20} MB",
    "Out of Memory": "have records that are read within 1 GB of memory",
    "unicode": "be text in UTF-8",
    "invalid state": "have lines that all end in one way",
}


@cache
def _database() -> Database:
    return Database(memory_limit="1GB")


def read_csv(file: str, choose: Choose) -> Iterator[FilePart]:
    """Read cells as text; a line with another number of cells than the header is an error."""
    header = _header(file)
    if header is None or (names := choose(header)) is None:
        return
    columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(header)))
    scan = (
        f"read_csv({_path(file)}, auto_detect = false, header = false, strict_mode = true, "
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


def _header(file: str) -> list[str] | None:
    """Return the names in the first line of a file; None if there is nothing in it."""
    with open_bytes(file) as opened:
        start = opened.read(_HEADER)
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


def read_json(file: str, choose: Choose) -> Iterator[FilePart]:
    """Read records, one per line, in a list or over several lines; strings lose their quotes."""
    with open_bytes(file) as opened:
        start = opened.read(1 << 12).removeprefix(codecs.BOM_UTF8).lstrip()
    if not start:
        return
    form = "newline_delimited" if suffix_of(file) != ".json" else "unstructured"
    if start[:1] == b"[":
        form = "array"
    elif start.split(b"\n", 1)[0].strip() == b"{":
        form = "unstructured"
    how = f"({_path(file)}, format = '{form}', maximum_object_size = {_LONGEST}"
    query = f"SELECT json_keys(json) AS keys FROM read_json_objects{how}) LIMIT {_RECORDS}"
    records = [x or [] for batch in _batches(file, query) for x in batch.column(0).to_pylist()]
    keys = [*dict.fromkeys(chain.from_iterable(records))]
    if not records or (names := choose(keys)) is None:
        return
    columns = ", ".join(f"{quoted(x)}: 'VARCHAR'" for x in names)
    cells = ['"' + name.replace('"', '""') + '"' for name in names]
    scan = f"read_json{how}, auto_detect = false, columns = {{{columns}}})"
    yield from _parts(file, scan, names, cells)


def _path(file: str) -> str:
    """Return a file as a literal; what would be a pattern is none."""
    return quoted(re.sub(r"([*?[])", r"[\1]", file))


def _batches(file: str, query: str) -> Iterator[Any]:
    """Yield what a query on a file finds."""
    if "://" in file:
        _database().add_files(file_system(file)[0])
    try:
        yield from _database().batches(query, _ROWS)
    except ValueError as error:
        raise _explained(file, error) from error


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


def _explained(file: str, error: ValueError) -> ValueError:
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
