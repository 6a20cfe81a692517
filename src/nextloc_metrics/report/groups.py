"""The values of every group of an evaluation, as records and as a file."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.arguments.outputs import new_file
from nextloc_metrics.display.formats import csv_cell
from nextloc_metrics.files.opening import need_arrow
from nextloc_metrics.report.counted import Counted

# The columns of a file of groups.
_COLUMNS = ("kind", "group", "metric", "value", "low", "high", "queries")


def records_of(counted: Counted, kind: str) -> list[dict[str, Any]]:
    """Return a record per metric and group of one kind."""
    return [
        dict(zip(_COLUMNS, cells, strict=True))
        for columns in _columns_of(counted, kind)
        for cells in zip(*columns, strict=True)
    ]


def titled_records(counted: Counted, kind: str) -> list[dict[str, Any]]:
    """Return the records with metric and group in one title, as tables show them."""
    return [
        {"metric": f"{record['metric']}, {record['group']}"}
        | {name: record[name] for name in _COLUMNS[3:]}
        for record in records_of(counted, kind)
    ]


def write_groups(counted: Counted, path: Path, force: bool = False) -> None:
    """Write a row per kind, group and metric to a file, .csv or .parquet.

    In CSV, `'` stands before a name that a spreadsheet would read as a formula.

    Raises:
        ValueError: the evaluation has no groups.
    """
    kinds = counted.setting.groups
    if not kinds:
        raise ValueError(
            "`--group-table` needs an evaluation with groups, got none; use `score --group COLUMN`."
        )
    blocks = (block for kind in kinds for block in _columns_of(counted, kind))
    if path.suffix == ".csv":
        with new_file(path, force, text=True) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_COLUMNS)
            for block in blocks:
                rows = zip(*block, strict=True)
                writer.writerows(map(csv_cell, row) for row in rows)
        return
    pa = need_arrow()
    from pyarrow import parquet

    types = [pa.string()] * 3 + [pa.float64()] * 3 + [pa.int64()]
    schema = pa.schema(list(zip(_COLUMNS, types, strict=True)))
    with new_file(path, force) as file, parquet.ParquetWriter(file, schema) as writer:
        for block in blocks:
            arrays = [pa.array(x, of) for x, of in zip(block, types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def check_kind(counted: Counted, kind: str | None) -> tuple[str, ...]:
    """Return one kind of groups, or all; raise if there is no such kind."""
    kinds = counted.setting.groups
    if kind is not None and kind not in kinds:
        raise ValueError(f"`kind` must be one of {short(list(kinds))}, got {short(kind)}.")
    return kinds if kind is None else (kind,)


def _columns_of(counted: Counted, kind: str) -> Iterator[list[list[Any]]]:
    """Yield the columns of each metric; none if there is no group."""
    collection = counted.parts.get(f"by {kind}")
    if collection is None:
        return
    results = collection.results(counted.setting.confidence_level)
    groups = list(counted.names_of(kind))
    size = len(groups)
    for name in results.numbers:
        bounds = [x.tolist() for x in results.intervals.get(name, ())] or [[math.nan] * size] * 2
        values, numbers = results.values[name].tolist(), results.numbers[name].tolist()
        yield [[kind] * size, groups, [name] * size, values, *bounds, numbers]
