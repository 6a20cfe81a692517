"""Tables of points: their columns, and the trajectories that rows make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.ids import is_text, plain
from nextloc_metrics.files.opening import need_arrow
from nextloc_metrics.files.parts import Part
from nextloc_metrics.mobility import hashing
from nextloc_metrics.mobility.trajectories import TimeUnit, Trajectories

#: Arrays of one length by name: `trajectory`, `points`, `time`, `is_date`, `user`.
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
        if self.is_ids:
            found["points"] = self._read_ids(part, self.points[0])
        else:
            found["points"] = np.column_stack([read_numbers(part, x)[0] for x in self.points])
            found["points"] = found["points"].astype(np.float64)
        if self.time is not None:
            found["time"], is_date = read_numbers(part, self.time)
            found["is_date"] = np.full(len(found["time"]), is_date)
            if self.time_unit is None and not found["is_date"].all():
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
            time_unit="s" if rows.get("is_date", [False])[0] else self.time_unit,
        )

    def _read_ids(self, part: Part, name: str) -> Any:
        """Return ids that have coordinates; or a hash of each location."""
        if not self.is_located:
            hashes = hashing.hash_names(read_names(part, name))
            return (hashes >> np.uint64(1)).astype(np.int64)
        column, pa = _arrow(part, name, (int, float)), need_arrow()
        try:
            found = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"column `{name}` must be integers with `locations`, got others in {part.file}."
            ) from error
        if (negative := found < 0).any():
            row = int(negative.argmax())
            raise ValueError(
                f"column `{name}` must be integers from 0 on with `locations`, got {found[row]} in "
                f"{part.place(row)}; drop the row."
            )
        return found


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
        changes = np.flatnonzero(names[1:] != names[:-1]) + 1
        first, last = 0, int(changes[-1]) if len(changes) else 0
        if last and self._head is None:
            first = int(changes[0])
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
        names = names[np.append(True, names[1:] != names[:-1])]
        if (again := self.seen.add(hashing.hash_names(names))).any():
            raise ValueError(
                f"the rows of a trajectory must stand together in {file}, got trajectory "
                f"{short(names[again.argmax()])} again after others; make "
                f"`{self._columns.trajectory}` differ for each user, and sort the rows by it."
            )
        self._use(rows)

    def _join(self, first: Rows, file: str, other: Rows) -> Rows:
        if "is_date" in first and first["is_date"][0] != other["is_date"][0]:
            raise ValueError(
                f"column `{self._columns.time}` must be numbers in all rows or dates in all rows, "
                f"got both in {file}."
            )
        return {name: _join(first[name], other[name]) for name in first}


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


def _join(first: Any, other: Any) -> Any:
    if first.dtype.kind != other.dtype.kind and "O" in (first.dtype.kind, other.dtype.kind):
        first, other = (x.astype(str).astype(object) for x in (first, other))
    return np.concatenate([first, other])


def read_names(part: Part, name: str) -> Any:
    """Return integers, or text as objects; dates are text."""
    column = _arrow(part, name, int)
    types = need_arrow().types
    if types.is_integer(column.type) and not types.is_uint64(column.type):
        return column.to_numpy(zero_copy_only=False).astype(np.int64)
    if types.is_floating(column.type):
        raise ValueError(
            f"column `{name}` must be integers or text, got {column.type} in {part.file}; cast it."
        )
    text = column.cast(need_arrow().string()).to_numpy(zero_copy_only=False).astype(object)
    _refuse_missing(part, name, text == "")
    return text


def read_numbers(part: Part, name: str, may_miss: bool = False) -> tuple[Any, bool]:
    """Return numbers, or the seconds of dates; and whether they were dates.

    A missing number is an error, or NaN with `may_miss`.
    """
    import pyarrow.compute as pc

    column = _arrow(part, name, (int, float), may_miss)
    pa = need_arrow()
    if is_text(column.type):
        column = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(column, ""), "nan", column)
    if pa.types.is_temporal(column.type):
        microseconds = column.cast(pa.timestamp("us")).cast(pa.int64())
        return microseconds.to_numpy(zero_copy_only=False) / 1e6, True
    try:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        row = next(row for row in range(len(column)) if not _is_number(column[row]))
        raise ValueError(
            f"column `{name}` must be numbers or dates, got {short(column[row].as_py())} in "
            f"{part.place(row)}."
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise ValueError(
            f"column `{name}` must be numbers or dates, got {column.type} in {part.file}."
        ) from error
    if not may_miss:
        _refuse_missing(part, name, np.isnan(numbers))
    return numbers, False


def _is_number(cell: Any) -> bool:
    pa = need_arrow()
    try:
        cell.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _arrow(part: Part, name: str, loose: Any = (), may_miss: bool = False) -> Any:
    """Return a column as an Arrow array, without missing values unless `may_miss`.

    In a list of Python values that has text, those of the types `loose` become text.
    """
    pa, column = need_arrow(), part.columns[name]
    if isinstance(column, list) and any(isinstance(x, str) for x in column):
        column = [str(x) if isinstance(x, loose) and not isinstance(x, bool) else x for x in column]
    try:
        column = plain(pa.array(column) if isinstance(column, list | np.ndarray) else column)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"column `{name}` must hold values of one type, got others in {part.file}."
        ) from error
    if not may_miss:
        _refuse_missing(part, name, column.is_null().to_numpy(zero_copy_only=False))
    return column


def _refuse_missing(part: Part, name: str, missing: Any) -> None:
    if missing.any():
        raise ValueError(
            f"column `{name}` must have no missing value, got one in "
            f"{part.place(int(missing.argmax()))}; drop the row."
        )
