"""Tables of points: their columns, and the trajectories that rows make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from nextloc_metrics.arguments.arrays import begins, join
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.beside import read_indices, read_names, read_numbers
from nextloc_metrics.files.parts import Part
from nextloc_metrics.mobility import hashing
from nextloc_metrics.mobility.trajectories import TimeUnit, Trajectories

#: Arrays of one length by name: `trajectory`, `points`, `time`, `user`.
Rows: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Columns:
    """The columns of a table of points.

    Attributes:
        is_located: whether the column of locations numbers known coordinates; other locations,
            integers or text, become integers by a hash, the same ones in every table and process.
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

    def read(self, part: Part) -> Rows:
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

    def make(self, rows: Rows) -> Trajectories:
        """Return the trajectories of at least one row; all have their times in one unit."""
        return Trajectories.from_columns(
            rows["trajectory"],
            rows["points"],
            rows.get("time"),
            rows.get("user"),
            time_unit=self.time_unit,
        )


class Together:
    """Rows in their order, of which whole trajectories are handed on.

    The first and the last trajectory of some files may go on in other files: their rows are `ends`.

    Args:
        columns: the columns of the rows, for messages.
        use: is called with rows of whole trajectories.

    Attributes:
        seen: the trajectories that were handed on.
    """

    def __init__(self, columns: Columns, use: Callable[[Rows], None]) -> None:
        self.seen = Seen()
        self._columns, self._use = columns, use
        self._head: tuple[str, Rows] | None = None
        self._tail: tuple[str, Rows] | None = None

    @property
    def ends(self) -> list[tuple[str, Rows]]:
        """The rows of the first trajectory and of the last one, or of the only one, with files."""
        return [end for end in (self._head, self._tail) if end is not None]

    def add(self, file: str, rows: Rows) -> None:
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

    def _hand_on(self, file: str, rows: Rows) -> None:
        names = rows["trajectory"]
        names = names[begins(names)]
        if (again := self.seen.add(hashing.hash_names(names))).any():
            raise ValueError(
                f"the rows of a trajectory must stand together in {file}, got trajectory "
                f"{short(names[again.argmax()])} again after others; make "
                f"`{self._columns.trajectory}` differ for each user, and sort the rows by it."
            )
        self._use(rows)

    def _join(self, first: Rows, file: str, other: Rows) -> Rows:
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


def _take(rows: Rows, start: int, end: int) -> Rows:
    return {name: column[start:end] for name, column in rows.items()}
