"""The counts of tables of points, in one process, in several, or on the cluster with the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.memory import Stream, is_pandas
from nextloc_metrics.files.opening import find_files
from nextloc_metrics.files.parts import Part, RowSource
from nextloc_metrics.files.sources import Files
from nextloc_metrics.mobility import hashing
from nextloc_metrics.mobility.presets import MobilityCollection
from nextloc_metrics.mobility.trajectories import Trajectories
from nextloc_metrics.report import engines, saved
from nextloc_metrics.report.points import Columns, Rows, Together, read_names
from nextloc_metrics.report.processes import divide, run


class Counts:
    """The counts of trajectories, which add up.

    Attributes:
        metrics: the measures.
        num_points: the number of points of each table, by its name.
    """

    def __init__(self, metrics: MobilityCollection) -> None:
        self.metrics = metrics
        self.num_points: Counter[str] = Counter()

    def add(self, name: str, found: Trajectories) -> None:
        """Add trajectories of the table of this name."""
        if name == "real":
            self.metrics.update(target=found)
        else:
            self.metrics.update(preds=found)
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
    ends: list[tuple[str, Rows]]  #: the rows of the first and the last trajectory


@dataclass(frozen=True)
class Counting:
    """How a table is counted.

    Attributes:
        name: `"generated"` or `"real"`.
        columns: the columns that are read.
        make: returns the measures without counts.
    """

    name: str
    columns: Columns
    make: Callable[[], MobilityCollection]

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
        rows = self.columns.read(Part("a partition", range(len(table)), columns))
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
        counts = Counts(self.make())
        for part in parts:
            counts.merge(part)
        return counts.to_bytes()


def count_tables(tables: Sequence[tuple[Counting, Any]], workers: int) -> Counts:
    """Return the counts of all tables.

    Args:
        tables: how each table is counted, and what `report.evaluate_mobility` was given.
        workers: the number of processes, which share the files of all tables.
    """
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
