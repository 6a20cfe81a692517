"""Tables of predicted days, as tools write them, and what `trajectories` says of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hostile_plain import RefusedError, read_csv
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

DIRTS = ["quote", "quote", "more", "all more", "fewer", "header twice", "cut", "empty", "encoding"]


@dataclass(frozen=True)
class Points:
    """A table of points: its bytes, which columns are read, and what is wrong with it."""

    data: bytes
    columns: tuple[str, ...]
    dirt: str

    def rows(self) -> list[dict[str, Any]]:
        """Return the cells, or refuse them."""
        return read_csv(self.data, ",", self.columns)


@st.composite
def written(draw: Draw, columns: Sequence[str], rows: Sequence[Sequence[str]], dirt: str) -> bytes:
    """Write rows with a header as CSV, and break them."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [",".join(row) + end for row in (columns, *rows)]
    at = draw(st.integers(1, len(lines) - 1)) if rows else 0
    if dirt == "quote" and rows:
        *cells, last = rows[at - 1]
        lines[at] = ",".join([*cells, '"' + last]) + end
    elif dirt == "more":
        lines[at] = lines[at].removesuffix(end) + ",9" + end
    elif dirt == "all more":
        lines = [lines[0], *(line.removesuffix(end) + ",9" + end for line in lines[1:])]
    elif dirt == "fewer":
        lines[at] = lines[at].rpartition(",")[0] + end
    elif dirt == "header twice":
        name = draw(st.sampled_from(columns))
        lines = [
            lines[0].removesuffix(end) + f",{name}" + end,
            *(line.removesuffix(end) + ",9" + end for line in lines[1:]),
        ]
    text = draw(st.sampled_from(["", "\ufeff"])) + "".join(lines)
    if dirt == "encoding":
        return text.encode("utf-16")
    data = text.encode()
    return data[: draw(st.integers(0, len(data) - 1))] if dirt == "cut" else data


@st.composite
def predicted(draw: Draw, dirt: str) -> tuple[Points, Points]:
    """Draw predicted and true rows (uid, d, t, x, y), of which one table is broken."""
    columns = ["uid", "d", "t", "x", "y"]
    keys = draw(
        st.lists(
            st.tuples(st.sampled_from(["7", "8"]), st.integers(60, 61), st.integers(0, 3)),
            min_size=1,
            max_size=6,
            unique=True,
        )
    )
    is_text = draw(st.booleans())
    at_first = draw(st.booleans())
    if dirt == "":
        columns = draw(st.permutations(columns))
    found = []
    for is_first in (True, False):
        own = dirt if is_first == at_first or dirt == "all more" else ""
        rows = [
            {"uid": ("u" if is_text else "") + user, "d": str(day), "t": str(slot),
             "x": str(draw(st.integers(1, 5))), "y": str(draw(st.sampled_from([1, 1.5, 3])))}
            for user, day, slot in keys
        ]  # fmt: skip
        if own == "repeated":
            rows.append(dict(rows[0]))
        elif own == "missing" and len(rows) > 1:
            rows.pop()
        elif own == "empty":
            rows[0][draw(st.sampled_from(["x", "y", "t"]))] = draw(
                st.sampled_from(["", "nan", "a"])
            )
        rows = draw(st.permutations(rows))
        data = draw(written(columns, [[row[x] for x in columns] for row in rows], own))
        found.append(Points(data, tuple(columns), own))
    return found[0], found[1]


@dataclass(frozen=True)
class Days:
    """What a comparison of predicted and true days says."""

    users: int
    days: int
    points: int
    missing: int
    extra: int
    repeated: int
    mean_point_error: float


def compare_days(preds: Points, target: Points, counts: bool) -> Days:
    """Return the mean over users of their means over days of the mean distance; or refuse.

    With `counts`, rows that do not fit are counted, and there is no mean distance.
    """
    (answers, twice), (true, also_twice) = (_points(x.rows()) for x in (preds, target))
    missing, extra = true.keys() - answers.keys(), answers.keys() - true.keys()
    if not true or (not counts and (missing or extra or twice or also_twice)):
        raise RefusedError("rows do not fit")
    apart: dict[str, dict[int, list[float]]] = {}
    for (user, day, slot), point in true.items():
        far = math.dist(point, answers.get((user, day, slot), point))
        apart.setdefault(user, {}).setdefault(day, []).append(far)
    means = [_mean(map(_mean, of_days.values())) for of_days in apart.values()]
    number = sum(map(len, apart.values()))
    numbers = len(missing), len(extra), twice + also_twice
    return Days(len(apart), number, len(true), *numbers, math.nan if missing else _mean(means))


def _points(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[tuple[str, int, int], tuple[float, float]], int]:
    """Return the point of each user, day and slot, and how many rows repeat one."""
    found: dict[tuple[str, int, int], tuple[float, float]] = {}
    for row in rows:
        try:
            key = row["uid"], _whole(row["d"]), _whole(row["t"])
            point = float(row["x"]), float(row["y"])
        except ValueError as error:
            raise RefusedError(str(error)) from error
        if not all(map(math.isfinite, point)) or not row["uid"]:
            raise RefusedError("a value is missing")
        found.setdefault(key, point)
    return found, len(rows) - len(found)


def _whole(cell: str) -> int:
    number = float(cell)
    if not number.is_integer():
        raise ValueError(f"{cell} is not whole")
    return int(number)


def _mean(values: Sequence[float] | Iterator[float] | map[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known)
