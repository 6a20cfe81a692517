"""Tables of CSV and JSON, read by DuckDB: every cell is text, and gets its type in `cells`.

Only this file sees the types of JSON. It refuses booleans and objects where ids are needed: as
text, they would be names.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial, reduce
from itertools import chain
from pathlib import Path
from typing import Any

from nextloc_metrics.core.queries.messages import clip, short, wrong_cell
from nextloc_metrics.report.files.database import Database, quoted
from nextloc_metrics.report.files.opening import (
    Choose,
    FilePart,
    check_lines,
    delimiter_of,
    file_system,
    open_bytes,
    pc,
    suffix_of,
)
from nextloc_metrics.report.files.wrong_tables import check_records

# How many rows a part has, and how many first records tell which keys there are.
_LINES, _RECORDS = 1 << 16, 1000
# The most bytes of a record, a line of CSV and its header: a small packed file can hold far more.
_LONGEST, _LINE, _HEADER = 1 << 26, 1 << 22, 1 << 20
# How many bytes are read first.
_START = 1 << 16

# Words of an error of DuckDB, and the rule that the line broke.
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

# The types that a column refuses, by what it holds. A group may be a boolean. An answer is never
# refused here, as `on_error` decides; a boolean becomes a list of one, which is unreadable later.
_REFUSED: dict[str, tuple[str, ...]] = {
    "an id": ("BOOLEAN", "OBJECT", "ARRAY"),
    "ids of locations": ("BOOLEAN", "OBJECT"),
    "a group": ("OBJECT", "ARRAY"),
    "answers": (),
}
_OF_IDS = ("an id", "ids of locations")


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
        if len(names) > 1 and len(part.rows):  # joined files repeat the header
            bare = (pc.utf8_ltrim(column, "\ufeff") for column in part.columns.values())
            are_header = map(pc.equal, bare, part.columns)
            row = pc.index(reduce(pc.and_, are_header), True).as_py()
            if row >= 0:
                raise ValueError(f"{part.place(row)} must not be the header again; remove it.")
        yield part


def _header(file: str, opened: Any) -> list[str] | None:
    """Return the names in the first line of a file; None if the file is empty."""
    start = opened.read(_START)
    if not {*b"\r\n"} & {*start.lstrip()}:
        start += opened.read(_HEADER - len(start))
    if len(start) == _HEADER and not re.search(rb"[\r\n]", start):
        raise ValueError(
            f"{file} must have a header of at most {_HEADER:,} bytes, got more; store scores of "
            "many locations as a list in one column."
        )
    start.partition(b"\n")[0].decode()  # raises; DuckDB checks the UTF-8 of later lines
    # "utf-8-sig" would read a file that ends within the mark of UTF-8 as an empty one
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
        if is_list := text[:1] == b"[":
            _check_end(file, start, opened)
    if not text:
        return
    form = "newline_delimited" if suffix_of(file) != ".json" else "unstructured"
    if is_list:
        form = "array"
    elif text.split(b"\n", 1)[0].strip() == b"{":
        form = "unstructured"
    source = f"({_quoted_path(file)}, format = '{form}', maximum_object_size = {_LONGEST}"
    keys = _keys_of_lines(text) if form == "newline_delimited" else []
    if not keys:
        query = f"SELECT json_keys(json) AS keys FROM read_json_objects{source}) LIMIT {_RECORDS}"
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
    scan = f"read_json{source}, auto_detect = false, columns = {{{columns}}})"
    texts = [*map(_text_of, cells, map(holds.get, names)), _is_refused(cells, names, holds)]
    for part in _parts(file, scan, [*names, ""], texts):
        refused = part.columns.pop("")
        if refused.null_count < len(refused):
            row = refused.is_valid().index(True).as_py()
            raise _refusal(part, row, names[refused[row].as_py()], holds)
        yield part


def _check_end(file: str, start: bytes, opened: Any) -> None:
    """Raise if a list in JSON has no end: DuckDB reads one that was cut behind a comma."""
    end = start
    if len(start) == _START and opened.seekable() and suffix_of(file) == Path(file).suffix:
        opened.seek(-_START, os.SEEK_END)
    while more := opened.read(_START):  # all of a compressed file, the end of others
        end = end[-_START:] + more
    text = end.rstrip()[-40:].decode("utf-8", "replace")
    if text[-1:] != "]":
        raise ValueError(
            f"{file} must be a list of JSON that ends with ], got {short(text)}; it was cut, or "
            "other text follows."
        )


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
    of_lists = "answers", "ids of locations"
    columns = [next((x for x, what in holds.items() if what == y), "") for y in of_lists]
    check_records(file, held, query, *columns)


def _quoted_path(file: str) -> str:
    """Return a file as a literal of SQL, which DuckDB does not take for a pattern."""
    return quoted(re.sub(r"([*?[])", r"[\1]", file))


def _batches(file: str, query: str) -> Iterator[Any]:
    """Yield the Arrow batches of a query on a file."""
    if "://" in file:
        _database().add_files(file_system(file)[0])
    try:
        yield from _database().batches(query, _LINES)
    except ValueError as error:
        raise _explained_text(file, error) from error


def _parts(
    file: str, scan: str, names: list[str], cells: list[str], start: int = 0
) -> Iterator[FilePart]:
    """Yield the cells of a file as text; the first row has the number `start`, a header -1."""
    listed = ", ".join(f"{x} AS x{i}" for i, x in enumerate(cells))
    for batch in _batches(file, f"SELECT {listed} FROM {scan}"):
        columns = dict(zip(names, batch.slice(int(start < 0)).columns, strict=True))
        rows = range(max(0, start), start + batch.num_rows)
        yield FilePart(file, rows, columns)
        start = rows.stop


def _explained_text(file: str, error: ValueError) -> ValueError:
    """Return an error of DuckDB as one that names the line, the rule and the text."""
    text = str(error.__cause__)
    line = re.search(r"(?i)\bline:? (\d+)", text)
    number, got = int(line[1]) if line else 0, re.search(r"Original Line: (.*)", text)
    rule = next((rule for words, rule in _RULES.items() if words in text), "be readable")
    is_of_lines = suffix_of(file) in (".jsonl", ".ndjson")
    broken = _broken_line(file, "duplicate key" in text) if is_of_lines else None
    number, shown = broken or (number, got[1] if got else text.partition("\n")[0])
    place = f"line {number:,} of {file}" if number else file
    return ValueError(f"{place} must {rule}, got {short(shown)}.")


def _broken_line(file: str, is_key_twice: bool) -> tuple[int, str] | None:
    """Return the first line that is no JSON, or has a key twice if that is the error.

    DuckDB is not asked for the line, as its versions count lines in several ways.
    """
    read = partial(json.loads, object_pairs_hook=keys_once if is_key_twice else None)
    with open_bytes(file) as opened:
        for number, line in enumerate(opened, 1):
            try:
                read(line.strip() or b"0")
            except (KeyError, ValueError, RecursionError):  # noqa: PERF203 - it ends the loop
                return number, line.strip().decode(errors="replace")
    return None


def _text_of(cell: str, holds: str | None) -> str:
    """Return SQL of a value of JSON as text; strings lose their quotes."""
    text = f"{cell}::VARCHAR"
    other = f"WHEN 'BOOLEAN' THEN '[' || {text} || ']' " if holds == "answers" else ""
    return f"CASE json_type({cell}) WHEN 'VARCHAR' THEN {cell}->>'$' {other}ELSE {text} END"


def _is_refused(cells: Sequence[str], names: Sequence[str], holds: Mapping[str, str]) -> str:
    """Return SQL of the number of the first column that refuses its value in a row, or NULL."""
    cases = ["CASE"]
    for i, (cell, what) in enumerate(zip(cells, map(holds.get, names), strict=True)):
        if what is None:
            continue
        cases += [f"WHEN json_type({cell}) = {quoted(x)} THEN {i}" for x in _REFUSED[what]]
        if what in _OF_IDS:
            is_whole = rf"regexp_full_match({cell}::VARCHAR, '-?[0-9]+(\.0)?')"
            cases.append(f"WHEN json_type({cell}) = 'DOUBLE' AND NOT {is_whole} THEN {i}")
    return " ".join([*cases, "END"]) if len(cases) > 1 else "NULL"


def _refusal(part: FilePart, row: int, name: str, holds: Mapping[str, str]) -> ValueError:
    """Return the error of a value that is refused."""
    what, got = holds[name], clip(part.columns[name][row].as_py())
    lists = " lists," if "ARRAY" in _REFUSED[what] else ""
    why = f"booleans,{lists} objects and fractions are no ids; " if what in _OF_IDS else ""
    return wrong_cell(part.place(row), what, clip(name), got, f"{why}write text or whole numbers")


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, or raise a `KeyError` with a key that it has twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise KeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return value
