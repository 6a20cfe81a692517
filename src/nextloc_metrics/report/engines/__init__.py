"""Counting on the engine that holds the rows, Dask, Ray or Spark, or in processes that share files.

Rows come in, with a function that counts a partition and one that merges counts; the counts of all
rows go out, as bytes. A file per engine has `names`, `peek` and `fold`; it is imported when rows
are of its type. This room imports `files`. Begin with `fold`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from nextloc_metrics.report.engines import partition
from nextloc_metrics.report.files.answer_texts import reader_of
from nextloc_metrics.report.files.cells import is_list, is_text
from nextloc_metrics.report.files.opened import row_options_of
from nextloc_metrics.report.files.opening import check_columns
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.table_source import TableSource
from nextloc_metrics.report.files.tables import TableRows

#: the engine of a type, by the start of its module and its name
_ENGINES = {
    ("dask", "DataFrame"): "dask",
    ("dask_expr", "DataFrame"): "dask",
    ("ray.data", "Dataset"): "ray",
    ("pyspark.sql", "DataFrame"): "spark",
}


def engine_of(rows: Any) -> ModuleType | None:
    """Return the module of the engine that holds the rows; None for any other type."""
    for kind in type(rows).__mro__:
        for (module, name), engine in _ENGINES.items():
            if kind.__name__ == name and f"{kind.__module__}.".startswith(f"{module}."):
                return import_module(f"{__name__}.{engine}")
    return None


def open_rows_of(source: TableSource, names: Roles, **further: Any) -> TableRows:
    """Open a table without rows, as which all partitions are then read.

    What columns hold is learned from their types, the first rows and, where targets may be lists,
    from all distinct targets, which one pass finds on the workers. `further` is as for
    `open_source`.
    """
    rows = source.rows
    engine: Any = engine_of(rows)
    row_options, texts = row_options_of(source, **further)
    reader = None if texts is None else reader_of(row_options["vocabulary"], texts)
    check_columns(type(rows).__name__, engine.names(rows), names.all)
    table = engine.peek(rows, names.all)
    opened = TableRows(table, names, **row_options, reader=reader)
    kind = table.schema.field(names.target).type
    if is_list(kind) or is_text(kind):
        find = partial(partition.find_targets, name=names.target)
        merge = partial(partition.merge_targets, name=names.target)
        if targets := fold(rows, [names.target], find, merge):
            table = partition.concat([table, partition.table_of_bytes(targets)])
            opened = TableRows(table, names, **row_options, reader=reader)
            for part in opened.source.parts(names.all):
                opened.note_targets(part)
    empty = partition.rows_of(table.schema.empty_table(), type(rows).__name__)
    return opened.of_source(empty)


def count(
    rows: Any, opened: TableRows, each: Callable[[TableRows], bytes], merge: partition.Merge
) -> bytes:
    """Count all rows on the engine that holds them; the bytes are the same for any partitions.

    `opened` is from `open_rows_of`. `each` returns the counts of some rows, or of none; `merge` is
    as for `fold`.
    """
    count_partition = partial(partition.count_rows, rows=opened, count=each)
    return fold(rows, opened.names.all, count_partition, merge) or each(opened)


def fold(
    rows: Any, columns: Sequence[str], count: Callable[[Any], bytes], merge: partition.Merge
) -> bytes:
    """Count the partitions on the engine that holds the rows, and merge the counts.

    The counts are the same for any partitions, and empty if there is no row.

    Args:
        rows: rows whose type `engine_of` knows.
        columns: the columns that are read.
        count: returns the counts of a `pyarrow.Table` that has rows.
        merge: adds up several such counts, in any order.
    """
    engine: Any = engine_of(rows)
    guarded = partial(partition.guard_count, count=count)
    part = engine.fold(rows, columns, guarded, partial(partition.guard_merge, merge=merge))
    return partition.open_part(part)
