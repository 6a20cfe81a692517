"""Tables of points: each is read whole, or counted on the cluster that holds its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, TypeAlias, get_args

import numpy as np

from nextloc_metrics.core.queries import hashing
from nextloc_metrics.core.queries.arrays import begins
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.mobility.generated.presets import MobilityCollection
from nextloc_metrics.mobility.generated.trajectories import TimeUnit, Trajectories
from nextloc_metrics.report import engines, saved
from nextloc_metrics.report.engines.partition import rows_of
from nextloc_metrics.report.files.coordinates_and_counts import (
    ColumnReader,
    Columns,
    read_columns,
    read_indices,
    read_names,
    read_numbers,
)
from nextloc_metrics.report.files.opening import FilePart
from nextloc_metrics.report.files.sources import open_table

#: Makes the measures without counts.
Make: TypeAlias = Callable[[], MobilityCollection]


@dataclass(frozen=True)
class PointColumns:
    """The columns of a table of points.

    If `is_located`, the column of locations numbers known coordinates; other locations, integers or
    text, become integers by a hash, the same ones in every table and process.
    """

    trajectory: str
    points: tuple[str, ...]
    time: str | None
    user: str | None
    time_unit: TimeUnit | None
    is_ids: bool
    is_located: bool

    @property
    def names(self) -> list[str]:
        """Every column once."""
        return list(dict.fromkeys(name for name, _ in self.readers))

    @property
    def readers(self) -> list[tuple[str, ColumnReader]]:
        """Each column with what reads it."""
        point = read_numbers if not self.is_ids else read_indices if self.is_located else _hashes
        found: list[tuple[str, ColumnReader]] = [(self.trajectory, read_names)]
        found += [(name, point) for name in self.points]
        found += [] if self.time is None else [(self.time, self._read_times)]
        return found if self.user is None else [*found, (self.user, read_names)]

    def _read_times(self, part: FilePart, name: str) -> Any:
        found = read_numbers(part, name, may_be_dates=True)
        if self.time_unit is None and found.dtype.kind != "M":
            raise ValueError(
                f"`time_unit` must be one of {get_args(TimeUnit)} for a column `{name}` of numbers "
                f"in {part.file}, got None."
            )
        return found

    def make(self, trajectory: Any, points: Sequence[Any]) -> Trajectories:
        """Return the trajectories of the other columns."""
        rest = iter(points[len(self.points) :])
        return Trajectories.from_columns(
            trajectory,
            points[0] if self.is_ids else np.column_stack(points[:2]),
            None if self.time is None else next(rest),
            None if self.user is None else next(rest),
            time_unit=self.time_unit,
        )

    def number(self, found: Columns) -> Any:
        """Return the number of each row's trajectory; raise if its rows do not stand together."""
        names = found.values[0]
        starts = begins(names)
        rows = np.flatnonzero(starts)
        first = np.unique(hashing.hash_names(names[rows]), return_index=True)[1]
        if len(again := np.delete(rows, first)):
            (name,) = names[again[:1]].tolist()
            raise ValueError(
                f"the rows of a trajectory must stand together, got trajectory {short(name)} again "
                f"after others in {found.place(again[0])}; make "
                f"`{self.trajectory}` differ for each user, and sort the rows by it."
            )
        return starts.cumsum()

    def check_ordered(self, names: Any, made: Trajectories) -> None:
        """Raise if times do not order the points of a trajectory."""
        if (tied := made.tied).any():
            at = int(tied.argmax()) + 1
            first = np.unique(hashing.hash_names(names), return_index=True)[1]
            raise ValueError(
                f"column `{self.time}` must order the points of a trajectory, as a cluster "
                "does not keep the order of rows, got two locations at "
                f"{made.need_times(self)[at]:.15g} in trajectory "
                f"{short(names[first[made.row[at]]])}; make these times differ."
            )


def _hashes(part: FilePart, name: str) -> Any:
    """Return a number from 0 on for each location."""
    return (hashing.hash_names(read_names(part, name)) >> np.uint64(1)).astype(np.int64)


class Counts:
    """The counts of trajectories, and of the points of each table, which add up."""

    def __init__(self, make: Make) -> None:
        self.metrics = make()
        self.num_points: Counter[str] = Counter()

    def add(self, name: str, found: Trajectories) -> None:
        """Add trajectories of the table of this name."""
        given: Any = {"target" if name == "real" else "preds": found}
        self.metrics.update(**given)
        self.num_points[name] += len(found.row)

    def merge(self, data: bytes) -> None:
        """Add the counts of which `to_bytes` made the bytes."""
        header, tallies = saved.read(BytesIO(data))
        self.metrics.add(tallies)
        self.num_points.update(header["points"])

    def to_bytes(self) -> bytes:
        """Return the counts as bytes."""
        file = BytesIO()
        saved.write(file, {"points": self.num_points}, self.metrics.tallies())
        return file.getvalue()


def count_tables(make: Make, tables: Mapping[str, tuple[PointColumns, Any]]) -> Counts:
    """Return the counts of the tables "generated" and "real"."""
    counts = Counts(make)
    for name, (columns, table) in tables.items():
        if engines.engine_of(table) is not None:
            if part := _count_cluster(make, name, columns, table):
                counts.merge(part)
            continue
        source = open_table(name, table, columns.names)
        found = read_columns(source, columns.readers)
        if len(found.values[0]):
            counts.add(name, columns.make(columns.number(found), found.values[1:]))
    return counts


def _count_cluster(make: Make, name: str, columns: PointColumns, table: Any) -> bytes:
    engines.check_names(table, columns.names)
    if columns.time is None:
        raise ValueError(
            f"`time` must name a column if `{name}` is a table of a cluster, which does not "
            "keep the order of rows, got None; add a column that orders the points."
        )
    each = partial(_count_partition, make=make, name=name, columns=columns)
    merge = partial(_merge, make=make)
    return engines.fold(table, columns.names, each, merge, by=columns.trajectory)


def _count_partition(table: Any, make: Make, name: str, columns: PointColumns) -> bytes:
    """Count a `pyarrow.Table` with all rows of its trajectories, in any order."""
    names, *points = read_columns(rows_of(table, "a partition"), columns.readers).values
    made = columns.make(names, points)
    columns.check_ordered(names, made)
    counts = Counts(make)
    counts.add(name, made)
    return counts.to_bytes()


def _merge(parts: Sequence[bytes], make: Make) -> bytes:
    counts = Counts(make)
    for part in parts:
        counts.merge(part)
    return counts.to_bytes()
