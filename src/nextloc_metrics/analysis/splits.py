"""Is a split fair? What the rows of a training part and of a test part have in common."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nextloc_metrics.core.display.page import Result
from nextloc_metrics.core.display.table import Table, in_percent
from nextloc_metrics.core.means.exact import sort_rows
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe, short

# Rows that a finding names, and the share of people that are called the busiest.
_FIRST, _BUSIEST = 5, 0.01

# Text that is a number: a whole one, as it is usually written or with `.0`, below 2^53; any one.
_WHOLE, _EXACT = re.compile(r"(0|-?[1-9]\d*)(\.0*)?"), 1 << 53
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# A day and a time, its fraction, and an offset.
_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:\.(\d{1,6}))?(Z|([+-])(\d\d):?(\d\d))?"
)


class SplitFinding(NamedTuple):
    """How many test rows something holds for; see `check_split`.

    Attributes:
        number: the number of test rows.
        share: their share of all test rows.
        rows: the first of them, from 0.
        sentence: what it means.
    """

    number: int
    share: float
    rows: tuple[int, ...]
    sentence: str


@dataclass(frozen=True, repr=False)
class SplitCheck(Result):
    """What `check_split` finds: `findings` by name, and `card`, the numbers of rows."""

    title: ClassVar[str] = "Split into training and test"
    _prints_card: ClassVar[bool] = True

    findings: dict[str, SplitFinding]
    card: dict[str, Any]

    @property
    def table(self) -> Table:
        """A row per finding; the notes say what each means."""
        rows, records = [], []
        for name, (number, share, first, _) in self.findings.items():
            shown = ", ".join(map(str, first)) + (", ..." if number > len(first) else "")
            rows.append([name, f"{number:,}", in_percent(share), shown or "-"])
            records.append({"finding": name, "rows": number, "share": share, "first": first})
        notes = [f"{name}: {one.sentence}" for name, one in self.findings.items() if one.number]
        return Table(["test rows", "number", "percent", "first rows"], rows, notes, records)


def check_split(
    train: Any,
    test: Any,
    *,
    user: str = "user",
    location: str = "location",
    time: str | None = "time",
    queries: Array | str | None = None,
) -> SplitCheck:
    """Check what training and test rows have in common, and what the test rows ask for.

    A row is a visit: a user, a location and a time; each test row is the target of a query. A
    finding is not always a fault: most splits by user have test rows before other people's last
    training row, and people go to new places. It is what a reader has to know.

    Args:
        train: the visits before, a data frame or a dict of columns.
        test: the visits to predict.
        user: the column of users, integers or text. Text that is a whole number, `7` or `7.0`, is
            this number if all the text of both tables is.
        location: the column of locations, likewise.
        time: the column of times: numbers, dates, or text of either, dates as in ISO 8601, such as
            `2024-01-31 09:00`; None for no times, without the findings that need them.
        queries: the locations that a model reads for each test row, `[N, L]`, padded with -1; or
            the column of `test` that holds these lists. Locations are then integers.

    Raises:
        TypeError: a column has values of several types.
        ValueError: a table has no such column, a column has a missing value or another length, or
            a part has no row.

    Example:
        >>> train = {"user": ["ann", "ann", "bob"], "location": [3, 5, 3], "time": [1, 2, 9]}
        >>> test = {"user": ["ann", "ann", "cid"], "location": [5, 7, 3], "time": [2, 4, 10]}
        >>> check_split(train, test).findings["in train"].rows
        (0,)

    Source: Y. Ji, A. Sun, J. Zhang and C. Li, "A critical study on data leakage in recommender
    system offline evaluation", ACM TOIS 41, 2023.
    """
    names = {"user": user, "location": location} | ({} if time is None else {"time": time})
    read = {x: (_read("train", train, of), _read("test", test, of)) for x, of in names.items()}
    sizes = [{len(of[part]) for of in read.values()} for part in (0, 1)]
    if any(len(of) > 1 or 0 in of for of in sizes):
        raise ValueError(
            "`train` and `test` must have one or more rows, with a value in each column, got "
            f"columns of {' and '.join(short(sorted(of)) for of in sizes)} rows."
        )
    before, after = {}, {}
    for name, (a, b) in read.items():
        codes = _codes(np.concatenate(_alike(names[name], a, b, name == "time")))
        before[name], after[name] = codes[: len(a)], codes[len(a) :]
    for name, of in {"pair": ("user", "location"), "visit": ("pair", "time")}.items():
        if before.keys() >= {*of}:
            codes = _number(*(np.concatenate([before[x], after[x]]) for x in of))
            before[name], after[name] = codes[: len(a)], codes[len(a) :]
    inputs = None if queries is None else _read_inputs(test, queries, len(after["user"]))
    found = {**_overlaps(before, after), **_unseen(before, after)}
    if inputs is not None:
        place = as_tensor("location", read["location"][1]).numpy()
        found["in its own input"] = (
            (inputs == place[:, None]).any(1),
            "the target is among the locations that the model reads: a return, or a leak if the "
            "input holds the visit itself",
        )
    if time is not None or inputs is not None:
        query = (
            after["visit"]
            if inputs is None
            else reduce(_number, inputs.T.astype(np.int64), after["pair"])
        )
        first = np.empty(query.max() + 1, dtype=np.int64)
        first[query[::-1]] = np.arange(len(query))[::-1]  # of equal indices, the last one stays
        found["repeated"] = (
            first[query] != np.arange(len(query)),
            "an earlier test row is the same query with the same target, so it counts twice",
        )
    people = np.bincount(after["user"])
    found |= _busiest(people, after["user"])
    card = {
        "train_rows": len(before["user"]),
        "test_rows": len(after["user"]),
        "test_users": int((people > 0).sum()),
        "effective_users": round(float(people.sum() ** 2 / (people**2).sum()), 1),
    }
    return SplitCheck({name: _finding(*one) for name, one in found.items()}, card)


def _alike(name: str, first: Any, second: Any, is_time: bool) -> tuple[Any, Any]:
    """Return columns of two tables as values that can be compared: numbers, dates or text."""
    found = tuple(_read_text(name, x, is_time) for x in (first, second))
    if _kind(found[0]) != _kind(found[1]) and _kind(first) == _kind(second):
        found = first, second  # text of one table that is no number makes text of the other's
    if _kind(found[0]) != _kind(found[1]):
        raise _of_several_types(name, " and ".join(f"{_kind(x)} {short(str(x[0]))}" for x in found))
    return found


def _kind(column: Any) -> str:
    return {"M": "date", "O": "text", "U": "text"}.get(column.dtype.kind, "number")


def _of_several_types(name: str, shown: str) -> TypeError:
    return TypeError(
        f"`{name}` must hold values of one type in both tables, got {shown}; convert them with "
        "`str`."
    )


def _read_text(name: str, column: Any, is_time: bool) -> Any:
    """Return text as numbers or dates if all of it is; text of times must be."""
    if _kind(column) != "text":
        return column
    distinct, place = np.unique(column.astype(str), return_inverse=True)
    words = distinct.tolist()
    if all(map((_NUMBER if is_time else _WHOLE).fullmatch, words)):
        numbers = distinct.astype(np.float64)
        if is_time or np.abs(numbers).max() < _EXACT:
            return (numbers if is_time else numbers.astype(np.int64))[place]
    if not is_time:
        if other := [x for x in column.tolist() if not isinstance(x, str)]:
            raise _of_several_types(name, f"text and {short(other[0])}")
        return column
    dates = [_DATE.fullmatch(x) for x in words]
    if None in dates or len({date[3] is None for date in dates if date}) > 1:
        wrong = next((x for x, date in zip(words, dates, strict=True) if date is None), words[0])
        raise ValueError(
            f"`{name}` must be numbers, dates, or text of numbers or of dates in ISO 8601, such as "
            f"2024-01-31 09:00, with an offset in all rows or in none, got {short(wrong)}."
        )
    return np.array([_instant(date) for date in dates if date], "datetime64[us]")[place]


def _instant(date: re.Match[str]) -> datetime:
    """Return a date, in UTC if it has an offset."""
    when, fraction, offset, sign, hours, minutes = date.groups()
    found = datetime.fromisoformat(when) + timedelta(
        microseconds=int((fraction or "0").ljust(6, "0"))
    )
    if offset in (None, "Z"):
        return found
    away = timedelta(hours=int(hours), minutes=int(minutes))
    return found - away if sign == "+" else found + away


def _finding(holds: Any, sentence: str) -> SplitFinding:
    rows = np.flatnonzero(holds)
    return SplitFinding(len(rows), len(rows) / len(holds), tuple(rows[:_FIRST].tolist()), sentence)


def _overlaps(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    """Find test rows that are in training, or before its end: of the person, or of anybody."""
    if "time" not in before:
        return {}
    last = np.full(max(before["user"].max(), after["user"].max()) + 1, -1)
    np.maximum.at(last, before["user"], before["time"])
    return {
        "in train": (
            np.isin(after["visit"], before["visit"]),
            "the same user, location and time is a training row, so the answer was seen",
        ),
        "before the user's last training row": (
            after["time"] < last[after["user"]],
            "the model knows later visits of the same person",
        ),
        "before anybody's last training row": (
            after["time"] < before["time"].max(),
            "the model knows what other people did later (Ji et al., 2023)",
        ),
    }


def _unseen(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    """Find test rows of people and places without a training row, by cause."""
    new_user, new_place, new_pair = (
        ~np.isin(after[x], before[x]) for x in ("user", "location", "pair")
    )
    return {
        "unseen user": (new_user, "the person has no training row"),
        "unseen location": (
            new_place,
            "nobody has a training row there: no model that ranks training locations can be right",
        ),
        "new to the user": (
            new_pair & ~new_user & ~new_place,
            "others have training rows there, and this person, who has some, has none",
        ),
    }


def _busiest(people: Any, users: Any) -> dict[str, tuple[Any, str]]:
    number = math.ceil(_BUSIEST * np.count_nonzero(people))
    busiest = np.argsort(-people, kind="stable")[:number]
    sentence = f"means over rows are theirs to this share; they have up to {people.max():,} rows"
    who = "busiest user" if number == 1 else f"{number} busiest users"
    return {f"of the {who}": (np.isin(users, busiest), sentence)}


def _codes(column: Any) -> Any:
    """Number the different values of a column in their order."""
    if column.dtype.kind in "iM":  # dates are integers, too
        values = column.view(f"i{column.itemsize}").astype(np.int64, copy=False)
        span = int(values.max()) - int(values.min()) + 1
        if span > 8 * len(values):
            return _number(values)
        values = values - values.min()
        seen = np.zeros(span, dtype=np.bool_)
        seen[values] = True
        return seen.cumsum()[values] - 1  # without a sort
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def _number(*columns: Any) -> Any:
    """Number the different rows of columns of integers in their order."""
    order, begins = sort_rows(np.column_stack(columns))
    numbers = np.empty_like(order)
    numbers[order] = begins.cumsum() - 1
    return numbers


def _read(part: str, table: Any, name: str) -> Any:
    """Return a column as an array without missing values."""
    try:
        column = table[name]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(
            f"`{part}` must be a data frame or a dict with the column {name!r}, got "
            f"{short(list(table)) if hasattr(table, 'keys') else describe(table)}; `user=`, "
            "`location=` and `time=` name columns."
        ) from error
    array = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if array.ndim != 1:
        raise ValueError(f"`{name}` of `{part}` must be one column, got {describe(array)}.")
    missing = [x is None or x != x for x in array] if array.dtype.kind == "O" else array != array
    if np.any(missing):
        raise ValueError(
            f"`{name}` of `{part}` must have no missing value, got one in row "
            f"{int(np.argmax(missing))}; drop the row."
        )
    return array


def _read_inputs(test: Any, queries: Array | str, number: int) -> Any:
    values: Any = test[queries] if isinstance(queries, str) else queries
    found = as_tensor("queries", values)
    if found.ndim != 2 or len(found) != number or not is_integer(found):
        raise ValueError(
            f"`queries` must have a list of ids for each of the {number} test rows, got "
            f"{describe(found)}."
        )
    return found.cpu().numpy()
