"""The work on one partition, whose result is bytes: distinct targets, counts, or an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from nextloc_metrics.report.engines.processes import one_thread
from nextloc_metrics.report.files.cells import is_list, plain
from nextloc_metrics.report.files.opening import pa, pc
from nextloc_metrics.report.files.sources import Stream, table_of
from nextloc_metrics.report.files.tables import TableRows

#: the number of parts that one task merges
FAN_IN = 8

#: a function from a partition, a `pyarrow.Table` or a frame of pandas, to a part; b"" without rows
Count: TypeAlias = Callable[[Any], bytes]
#: a function that makes one part of several, in any order
Merge: TypeAlias = Callable[[Sequence[bytes]], bytes]

# An error is returned as a part: if it were raised, engines would try again, and then hide it.
_COUNTS, _ERROR = b"+", b"-"
_ERRORS = {error.__name__: error for error in (TypeError, ValueError)}


def guard_count(partition: Any, count: Callable[[Any], bytes]) -> bytes:
    """Return the part that `count` makes of a `pyarrow.Table`."""
    return _guard(lambda: count(as_table(partition))) if len(partition) else b""


def guard_merge(parts: Sequence[bytes], merge: Merge) -> bytes:
    """Merge parts; of several errors, the first in alphabetical order stays, in any order."""
    full = [part for part in parts if part] or [b""]
    if errors := [part for part in full if part.startswith(_ERROR)]:
        return min(errors)
    return full[0] if len(full) == 1 else _guard(lambda: merge([part[1:] for part in full]))


def open_part(part: bytes) -> bytes:
    """Return the counts of a part, or raise its error."""
    if part.startswith(_ERROR):
        name, message = json.loads(part[1:])
        raise _ERRORS[name](message)
    return part[1:]


@one_thread()
def _guard(make: Callable[[], bytes]) -> bytes:
    try:
        return _COUNTS + make()
    except tuple(_ERRORS.values()) as error:
        name = next(name for name, kind in _ERRORS.items() if isinstance(error, kind))
        return _ERROR + json.dumps([name, str(error)]).encode()


def as_table(partition: Any) -> Any:
    """Return a partition as a `pyarrow.Table`."""
    return partition if isinstance(partition, pa.Table) else table_of(partition)


def find_targets(table: Any, name: str) -> bytes:
    """Return rows with all distinct targets, and one that has several or none, if there is any."""
    column = plain(table[name])
    if not is_list(column.type):
        return table_to_bytes(pa.table({name: column.unique()}))
    ids = plain(column.flatten()).unique()
    ones = pa.LargeListArray.from_arrays(range(len(ids) + 1), ids)
    others = column.filter(pc.not_equal(pc.list_value_length(column), 1))[:1].cast(ones.type)
    return table_to_bytes(pa.table({name: pa.chunked_array([ones, others])}))


def merge_targets(parts: Sequence[bytes], name: str) -> bytes:
    """Merge results of `find_targets`."""
    return find_targets(concat([table_of_bytes(part) for part in parts]), name)


def rows_of(table: Any, name: str) -> Stream:
    """Return a table as rows with this name in messages."""
    return Stream(table.replace_schema_metadata({"file": name}), table.column_names)


def count_rows(table: Any, rows: TableRows, count: Callable[[TableRows], bytes]) -> bytes:
    """Return the counts of a `pyarrow.Table`, which is read in the same way as `rows`."""
    return count(rows.of_source(rows_of(table, "a partition")))


def table_to_bytes(table: Any) -> bytes:
    """Return a table as Arrow IPC."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def table_of_bytes(data: bytes) -> Any:
    """Return the table that `table_to_bytes` wrote."""
    return pa.ipc.open_stream(data).read_all()


def concat(tables: Sequence[Any]) -> Any:
    """Return the rows of all tables; a column may be missing or have a narrower type in some."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"the parts of `rows` must have columns of one type each, and have not: {error}"
        ) from error
