"""Evaluations on the cluster that holds the rows: Dask, Ray, Spark.

Each partition becomes counts where it lies, the workers merge these, and the driver gets the counts
of all rows. A file per engine has `names` and `fold`; it is imported when rows are of its type. It
imports `files`. Begin with `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from nextloc_metrics.files.ids import is_list, is_text
from nextloc_metrics.files.parts import check_columns
from nextloc_metrics.files.tables import Names, TableRows, open_rows
from nextloc_metrics.report.engines import partition

#: By the start of the module of a type, and its name: the engine.
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


def evaluate(rows: Any, make: Callable[[TableRows], Any], **reading: Any) -> Any:
    """Evaluate rows on the engine that holds them, in one or two passes.

    Args:
        rows: rows of which `engine_of` knows the engine.
        make: returns an `Evaluator` without counts for rows that `open_rows` returned.
        reading: the arguments of `open_rows`, by name.

    Returns:
        the `Evaluation`, which does not depend on the partitions.
    """
    engine: Any = engine_of(rows)
    opened = _open(engine, rows, reading)
    evaluator = make(opened)
    part = _fold(
        engine,
        rows,
        opened.names.all,
        partial(partition.count_partition, rows=opened, evaluator=evaluator),
        partial(partition.merge_counts, evaluator=evaluator),
    )
    missed, counts = partition.unpack(part or partition.count_rows(opened, evaluator), evaluator)
    return counts.result(missed if reading.get("on_error") == "miss" else None)


def _open(engine: Any, rows: Any, reading: dict[str, Any]) -> TableRows:
    """Open a small table that has what all partitions must agree on.

    These are its types, its first rows, and, where they number the ids, the distinct targets.
    """
    names = Names(**{name: reading[name] for name in Names._fields if name in reading})
    check_columns(type(rows).__name__, engine.names(rows), names.all)
    table = engine.peek(rows, names.all)
    opened = open_rows(table, **reading)
    kind = table.schema.field(names.target).type
    must_number = opened.num_candidates is None and reading.get("vocabulary") is None
    if must_number or is_list(kind) or is_text(kind):
        find = partial(partition.find_targets, name=names.target)
        merge = partial(partition.merge_targets, name=names.target)
        if targets := _fold(engine, rows, [names.target], find, merge):
            opened = open_rows(partition.join(table, targets), **reading)
    empty = partition.source_of(table.schema.empty_table(), type(rows).__name__)
    return opened.of_source(empty)


def _fold(engine: Any, rows: Any, columns: list[str], count: Any, merge: Any) -> bytes:
    part = engine.fold(
        rows,
        columns,
        partial(partition.guard_count, count=count),
        partial(partition.guard_merge, merge=merge),
    )
    return partition.open_part(part)
