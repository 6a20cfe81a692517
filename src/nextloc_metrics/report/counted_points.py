"""The counts of tables of points, in one process, in several, or on the cluster with the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.memory import Stream, is_pandas
from nextloc_metrics.files.opening import find_files
from nextloc_metrics.files.parts import Part, Source
from nextloc_metrics.files.sources import Files
from nextloc_metrics.mobility import hashing
from nextloc_metrics.mobility.presets import MobilityCollection
from nextloc_metrics.mobility.trajectories import Trajectories
from nextloc_metrics.report import engines, saved
from nextloc_metrics.report.points import Columns, Rows, Together, read_names
from nextloc_metrics.report.processes import divide, run


class Share(NamedTuple):
    """What some files of a table add."""

    tallies: bytes  #: the counts of the trajectories that begin and end in the files
    seen: hashing.Hashes  #: these trajectories
    ends: list[tuple[str, Rows]]  #: the rows of the first and the last trajectory


@dataclass(frozen=True)
class Counting:
    """How a table is counted.

    Attributes:
        name: `"real"` or `"generated"`.
        columns: the columns that are read.
        make: returns the measures without counts.
    """

    name: str
    columns: Columns
    make: Callable[[], MobilityCollection]

    def add(self, metrics: MobilityCollection, found: Trajectories) -> None:
        """Add trajectories of the table to the measures."""
        if self.name == "real":
            metrics.update(target=found)
        else:
            metrics.update(preds=found)

    def join(self, metrics: MobilityCollection) -> Together:
        """Return what adds the trajectories of rows to the measures."""
        return Together(self.columns, lambda rows: self.add(metrics, self.columns.make(rows)))

    def count_share(self, source: Source) -> Share:
        """Count some of the files, or all rows."""
        metrics = self.make()
        together = self.join(metrics)
        for part in source.parts(self.columns.names):
            if len(part.rows):  # without rows, the types of columns mean nothing
                together.add(part.file, self.columns.read(part))
        return Share(to_bytes(metrics), together.seen.hashes, together.ends)

    def merge_shares(
        self, metrics: MobilityCollection, shares: Sequence[Share], source: Source
    ) -> None:
        """Add all shares of a table, in the order of its rows, to the measures."""
        together = self.join(metrics)
        for share in shares:
            metrics.add(from_bytes(share.tallies))
            if together.seen.add(share.seen).any():
                self.check_together(source)
        for share in shares:
            for number, end in enumerate(share.ends):
                if number:
                    together.cut()
                together.add(*end)
        together.finish()

    def check_together(self, source: Source) -> None:
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
        metrics = self.make()
        self.add(metrics, found)
        return to_bytes(metrics)

    def merge_partitions(self, parts: Sequence[bytes]) -> bytes:
        """Merge what `count_partition` returned."""
        metrics = self.make()
        for part in parts:
            metrics.add(from_bytes(part))
        return to_bytes(metrics)


def count_tables(tables: Sequence[tuple[Counting, Any]], workers: int) -> MobilityCollection:
    """Return the measures with the counts of all tables.

    Args:
        tables: how each table is counted, and what `report.evaluate_tables` was given.
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
    metrics = tables[0][0].make()
    for counting, source in opened:
        if isinstance(source, Files):
            shares = [share for (of, _), share in counted if of is counting]
            counting.merge_shares(metrics, shares, source)
        elif isinstance(source, Stream):
            counting.merge_shares(metrics, [counting.count_share(source)], source)
        else:
            columns, by = counting.columns.names, counting.columns.trajectory
            each, merge = counting.count_partition, counting.merge_partitions
            if found := engines.fold(source, columns, each, merge, by=by):
                metrics.add(from_bytes(found))
    return metrics


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


def to_bytes(metrics: MobilityCollection) -> bytes:
    """Return the counts of measures."""
    file = BytesIO()
    saved.write(file, {}, metrics.tallies())
    return file.getvalue()


def from_bytes(data: bytes) -> Mapping[str, Tensor]:
    """Return the tallies of which `to_bytes` made the bytes."""
    return saved.read(BytesIO(data))[1]
