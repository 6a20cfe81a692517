"""Tables of points, as tools write them, and what `mobility` and `trajectories` say of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hostile_plain import RefusedError, read_csv, read_lines
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

PLACES = ["home", "work", "é", "a\0", "a", "nan", "1", "01", "x,y"]
DIRTS = ["quote", "quote", "more", "all more", "fewer", "header twice", "cut", "empty", "encoding"]


@dataclass(frozen=True)
class Points:
    """A table of points: its files, which columns are read, and what is wrong with it."""

    files: tuple[tuple[str, bytes], ...]
    columns: tuple[str, ...]
    dirt: str
    header: bool = True

    def rows(self) -> list[dict[str, Any]]:
        """Return the cells, or refuse them."""
        found: list[dict[str, Any]] = []
        for name, data in self.files:
            if name.endswith(".jsonl"):
                rows, broken = read_lines(data, self.columns)
                if broken:
                    raise RefusedError("a line is no record")
            else:
                if not self.header:
                    data = data.removeprefix(b"\xef\xbb\xbf")
                    data = ",".join(self.columns).encode() + b"\n" + data
                rows = read_csv(data, ",", self.columns)
            found += rows
        return found


def _line(cells: Sequence[str], end: str) -> str:
    """Write a line of CSV."""
    odd = {",", '"', "\n", "\r"}
    quoted = ('"' + x.replace('"', '""') + '"' if odd & {*x} else x for x in cells)
    return ",".join(quoted) + end


@st.composite
def written(draw: Draw, columns: Sequence[str], rows: Sequence[Sequence[str]], dirt: str) -> bytes:
    """Write rows with a header as CSV, and break them."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [_line(columns, end), *(_line(row, end) for row in rows)]
    at = draw(st.integers(1, len(lines) - 1)) if rows else 0
    if dirt == "quote" and rows:
        *cells, last = rows[at - 1]
        lines[at] = ",".join([*(_line([x], "") for x in cells), '"' + last]) + end
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


# Generated mobility ------------------------------------------------------------------------------


@st.composite
def days(draw: Draw, dirt: str) -> Points:
    """Draw a table of a few trajectories, whose rows stand together."""
    columns = draw(st.permutations(["trajectory", "place", "note"]))
    names = draw(
        st.lists(st.sampled_from(["1", "2", "a", "b", "01"]), min_size=1, max_size=4, unique=True)
    )
    is_lines = draw(st.booleans()) and dirt in ("", "empty", "apart")
    places = [x for x in PLACES if is_lines or "\0" not in x]
    rows = [
        {"trajectory": name, "place": place, "note": "n"}
        for name in names
        for place in draw(st.lists(st.sampled_from(places), min_size=1, max_size=4))
    ]
    if dirt == "empty":
        rows[draw(st.integers(0, len(rows) - 1))]["place"] = None if is_lines else ""  # type: ignore[assignment]
    elif dirt == "apart":
        rows.append(dict(rows[0]))
    cut = draw(st.integers(0, len(rows)))
    parts = [rows[:cut], rows[cut:]] if draw(st.booleans()) else [rows]
    if is_lines:
        data = ["\n".join(map(json.dumps, part)).encode() for part in parts]
    else:
        grids = [[[row[x] for x in columns] for row in part] for part in parts]
        last = len(grids) - 1
        data = [draw(written(columns, x, dirt if i == last else "")) for i, x in enumerate(grids)]
    kind = "jsonl" if is_lines else "csv"
    files = tuple((f"part {i}.{kind}", x) for i, x in enumerate(data))
    return Points(files, ("trajectory", "place"), dirt)


@dataclass(frozen=True)
class Mobility:
    """What a comparison of real and generated trajectories says."""

    points: tuple[int, int]
    trajectories: tuple[int, int]
    daily_locations: float
    flows: float


def compare(real: Points, generated: Points) -> Mobility:
    """Compare the numbers of different locations, and the shares of moves; or refuse a table."""
    first, second = (_sequences(table.rows()) for table in (real, generated))
    daily = [Counter(len({*x}) for x in rows) for rows in (first, second)]
    moves = [
        Counter((a, b) for row in rows for a, b in pairwise(row) if a != b)
        for rows in (first, second)
    ]
    sizes = [sum(x.values()) for x in moves]
    flows = math.nan
    if all(sizes):
        flows = sum(min(moves[0][x] / sizes[0], moves[1][x] / sizes[1]) for x in moves[0])
    return Mobility(
        (sum(map(len, first)), sum(map(len, second))),
        (len(first), len(second)),
        _divergence(*daily) if first and second else math.nan,
        flows,
    )


def _sequences(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the places of each trajectory."""
    found: dict[str, list[str]] = {}
    last = None
    for row in rows:
        name, place = row["trajectory"], row["place"]
        if not name or not place:
            raise RefusedError("a value is missing")
        if name in found and name != last:
            raise RefusedError("the rows of a trajectory stand apart")
        last = name
        found.setdefault(name, []).append(place)
    return [*found.values()]


def _divergence(first: Counter[int], second: Counter[int]) -> float:
    """Return the Jensen-Shannon divergence of counts, in bits."""
    total = 0.0
    for counts in (first, second):
        for cell, number in counts.items():
            share = number / sum(counts.values())
            middle = sum(x[cell] / sum(x.values()) for x in (first, second)) / 2
            total += share * math.log2(share / middle) / 2
    return total


# Predicted days ----------------------------------------------------------------------------------


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
    header = is_text or draw(st.booleans()) or dirt == "header twice"
    if header and dirt == "":
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
        if not header:
            mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
            data = data if own in ("encoding", "cut") else mark + data.partition(b"\n")[2]
        plain = header or own in ("encoding", "cut")
        files = (("preds.csv" if is_first else "true.csv", data),)
        found.append(Points(files, tuple(columns), own, plain))
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
