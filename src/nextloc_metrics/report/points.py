"""Tables of points, counted in one process, in several, or on the cluster with the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from nextloc_metrics.core.queries import hashing
from nextloc_metrics.core.queries.arrays import begins, join
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.mobility.generated.presets import MobilityCollection
from nextloc_metrics.mobility.generated.trajectories import TimeUnit, Trajectories
from nextloc_metrics.report import engines, saved
from nextloc_metrics.report.engines.processes import divide, run
from nextloc_metrics.report.files.coordinates_and_counts import (
    read_indices,
    read_names,
    read_numbers,
)
from nextloc_metrics.report.files.opening import FilePart, RowSource, find_files
from nextloc_metrics.report.files.sources import Files, Stream, is_pandas

#: Arrays of one length by name: `trajectory`, `points`, `time`, `user`.
PointRows: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Columns:
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
        named = [self.trajectory, *self.points, self.time, self.user]
        return list(dict.fromkeys(name for name in named if name is not None))

    def read(self, part: FilePart) -> PointRows:
        """Return the rows of a part; raise if a value is missing or unreadable."""
        found = {"trajectory": read_names(part, self.trajectory)}
        if not self.is_ids:
            found["points"] = np.column_stack([read_numbers(part, x) for x in self.points])
        elif self.is_located:
            found["points"] = read_indices(part, *self.points)
        else:
            hashes = hashing.hash_names(read_names(part, *self.points))
            found["points"] = (hashes >> np.uint64(1)).astype(np.int64)
        if self.time is not None:
            found["time"] = read_numbers(part, self.time, may_be_dates=True)
            if self.time_unit is None and found["time"].dtype.kind != "M":
                raise ValueError(
                    f"`time_unit` must be one of {get_args(TimeUnit)} for a column `{self.time}` "
                    f"of numbers in {part.file}, got None."
                )
        if self.user is not None:
            found["user"] = read_names(part, self.user)
        return found

    def make(self, rows: PointRows) -> Trajectories:
        """Return the trajectories of at least one row; all have their times in one unit."""
        columns = rows["trajectory"], rows["points"], rows.get("time"), rows.get("user")
        return Trajectories.from_columns(*columns, time_unit=self.time_unit)


class Together:
    """Rows in their order, of which whole trajectories are handed on.

    The first and the last trajectory of some files may go on in other files: their rows are `ends`.
    """

    def __init__(self, columns: Columns, use: Callable[[PointRows], None]) -> None:
        self.seen = Seen()  # the trajectories that were handed on, by calls of `use`
        self._columns, self._use = columns, use
        self._head: tuple[str, PointRows] | None = None
        self._tail: tuple[str, PointRows] | None = None

    @property
    def ends(self) -> list[tuple[str, PointRows]]:
        """The rows of the first trajectory and of the last one, or of the only one, with files."""
        return [end for end in (self._head, self._tail) if end is not None]

    def add(self, file: str, rows: PointRows) -> None:
        """Add the next rows, at least one; raise if a trajectory comes again after others."""
        if self._tail is not None:
            rows = self._join(self._tail[1], file, rows)
        names = rows["trajectory"]
        starts = np.flatnonzero(begins(names))
        first, last = 0, int(starts[-1])
        if last and self._head is None:
            first = int(starts[1])
            self._head = file, _take(rows, 0, first)
        if first < last:
            self._hand_on(file, _take(rows, first, last))
        self._tail = file, _take(rows, last, len(names))

    def cut(self) -> None:
        """End the last trajectory: others, which were handed on elsewhere, stand behind it."""
        if self._tail is not None and self._head is None:
            self._head = self._tail
        elif self._tail is not None:
            self._hand_on(*self._tail)
        self._tail = None

    def finish(self) -> None:
        """Hand on the ends, which are whole if all rows were added."""
        for file, rows in self.ends:
            self._hand_on(file, rows)
        self._head = self._tail = None

    def _hand_on(self, file: str, rows: PointRows) -> None:
        names = rows["trajectory"]
        names = names[begins(names)]
        if (again := self.seen.add(hashing.hash_names(names))).any():
            raise ValueError(
                f"the rows of a trajectory must stand together in {file}, got trajectory "
                f"{short(names[again.argmax()])} again after others; make "
                f"`{self._columns.trajectory}` differ for each user, and sort the rows by it."
            )
        self._use(rows)

    def _join(self, first: PointRows, file: str, other: PointRows) -> PointRows:
        if "time" in first and first["time"].dtype.kind != other["time"].dtype.kind:
            raise ValueError(
                f"column `{self._columns.time}` must be numbers in all rows or dates in all rows, "
                f"got both in {file}."
            )
        return {name: join([first[name], other[name]]) for name in first}


class Seen:
    """Names, as hashes: 8 bytes for each."""

    def __init__(self) -> None:
        self._sorted: list[hashing.Hashes] = []

    @property
    def hashes(self) -> hashing.Hashes:
        """All names."""
        return np.concatenate([np.zeros(0, np.uint64), *self._sorted])

    def add(self, hashes: hashing.Hashes) -> NDArray[np.bool_]:
        """Add names; return which of them were added before."""
        added, first = np.unique(hashes, return_index=True)
        again = np.ones(len(hashes), dtype=bool)
        again[first] = False
        for known in self._sorted:
            at = np.searchsorted(known, hashes)
            again |= known[np.minimum(at, len(known) - 1)] == hashes
        # the lengths fall by half, so there are few arrays, and a name is merged few times
        while self._sorted and len(self._sorted[-1]) <= 2 * len(added):
            added = np.union1d(self._sorted.pop(), added)
        if len(added):
            self._sorted.append(added)
        return again


def _take(rows: PointRows, start: int, end: int) -> PointRows:
    return {name: column[start:end] for name, column in rows.items()}


class Counts:
    """The counts of trajectories, and of the points of each table, which add up."""

    def __init__(self, metrics: MobilityCollection, parts: Iterable[bytes] = ()) -> None:
        self.metrics = metrics
        self.num_points: Counter[str] = Counter()
        for part in parts:
            self.merge(part)

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


class Share(NamedTuple):
    """What some files of a table add."""

    counts: bytes  #: those of the trajectories that begin and end in the files
    seen: hashing.Hashes  #: these trajectories
    ends: list[tuple[str, PointRows]]  #: the rows of the first and the last trajectory


@dataclass(frozen=True)
class Counting:
    """How a table is counted."""

    name: str  #: "generated" or "real"
    columns: Columns
    make: Callable[[], MobilityCollection]  #: the measures without counts

    def join(self, counts: Counts) -> Together:
        """Return what adds the trajectories of rows to the counts."""
        return Together(self.columns, lambda rows: counts.add(self.name, self.columns.make(rows)))

    def count_share(self, source: RowSource) -> Share:
        """Count some of the files, or all rows."""
        counts = Counts(self.make())
        together = self.join(counts)
        for part in source.parts(self.columns.names):
            if len(part.rows):  # without rows, the types of columns mean nothing
                together.add(part.file, self.columns.read(part))
        return Share(counts.to_bytes(), together.seen.hashes, together.ends)

    def merge_shares(self, counts: Counts, shares: Sequence[Share], source: RowSource) -> None:
        """Add all shares of a table, in the order of its rows, to the counts."""
        together = self.join(counts)
        for share in shares:
            counts.merge(share.counts)
            if together.seen.add(share.seen).any():
                self.check_together(source)
        for share in shares:
            for number, end in enumerate(share.ends):
                if number:
                    together.cut()
                together.add(*end)
        together.finish()

    def check_together(self, source: RowSource) -> None:
        """Raise for the first trajectory whose rows do not stand together."""
        together = Together(self.columns, lambda _: None)
        name = self.columns.trajectory
        for part in source.parts([name]):
            if len(part.rows):
                together.add(part.file, {"trajectory": read_names(part, name)})
        together.finish()

    def count_partition(self, table: Any) -> bytes:
        """Count a `pyarrow.Table` with all rows of its trajectories, in any order."""
        columns = {name: table[name] for name in self.columns.names}
        rows = self.columns.read(FilePart("a partition", range(len(table)), columns))
        found = self.columns.make(rows)
        if (tied := found.tied).any():
            at = int(tied.argmax()) + 1
            first = np.unique(hashing.hash_names(rows["trajectory"]), return_index=True)[1]
            raise ValueError(
                f"column `{self.columns.time}` must order the points of a trajectory, as a cluster "
                "does not keep the order of rows, got two locations at "
                f"{found.need_times(self)[at]:.15g} in trajectory "
                f"{short(rows['trajectory'][first[found.row[at]]])}; make these times differ."
            )
        counts = Counts(self.make())
        counts.add(self.name, found)
        return counts.to_bytes()

    def merge_partitions(self, parts: Sequence[bytes]) -> bytes:
        """Merge what `count_partition` returned."""
        return Counts(self.make(), parts).to_bytes()


def count_tables(tables: Sequence[tuple[Counting, Any]], workers: int) -> Counts:
    """Return the counts of all tables, whose files the workers share."""
    opened = [(counting, _open(counting, table)) for counting, table in tables]
    jobs = [
        (counting, files)
        for counting, source in opened
        if isinstance(source, Files)
        for files in divide(source.files, workers)
    ]
    counted = list(zip(jobs, run(_count_files, jobs, workers), strict=True))
    counts = Counts(tables[0][0].make())
    for counting, source in opened:
        if isinstance(source, Files):
            shares = [share for (of, _), share in counted if of is counting]
            counting.merge_shares(counts, shares, source)
        elif isinstance(source, Stream):
            counting.merge_shares(counts, [counting.count_share(source)], source)
        else:
            columns, by = counting.columns.names, counting.columns.trajectory
            each, merge = counting.count_partition, counting.merge_partitions
            if found := engines.fold(source, columns, each, merge, by=by):
                counts.merge(found)
    return counts


def _count_files(job: tuple[Counting, list[str]]) -> Share:
    counting, files = job
    return counting.count_share(Files(files))


def _open(counting: Counting, table: Any) -> Any:
    """Return the source of a table, or the table itself if an engine holds its rows."""
    name, columns = counting.name, counting.columns
    if engines.engine_of(table) is not None:
        engines.check_names(table, columns.names)
        if columns.time is None:
            raise ValueError(
                f"`time` must name a column if `{name}` is a table of a cluster, which does not "
                "keep the order of rows, got None; add a column that orders the points."
            )
        return table
    if hasattr(table, "__arrow_c_stream__") or is_pandas(table):
        return Stream(table, columns.names)
    try:
        return Files(find_files(table))
    except TypeError as error:
        raise TypeError(
            f"`{name}` must be a path, a list of paths or a table that exports an Arrow stream, "
            f"got {short(table)}."
        ) from error
