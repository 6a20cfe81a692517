"""Trajectories from tables of rows (user, day, slot, x, y), predicted and true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import as_tensor, as_tensor_or_text, begins, join, pad_rows
from nextloc_metrics.core.queries.checks import check_choice, check_positive, or_none
from nextloc_metrics.core.queries.messages import as_row, describe, short

OnMissing = Literal["raise", "count"]


@dataclass(eq=False)
class TrajectoryPairs:
    """Predicted and true trajectories of one day each, to pass to `update`.

    Attributes:
        preds: float64 `[N, L, 2]`, the predicted points in the order of slots, padded with NaN.
        target: float64 `[N, M, 2]`, the true points.
        slots: int64 `[N, M]`, the slot of each true point, padded with -1.
        groups: int64 `[N]` each: `"user"`, the number of a user, and `"day"`, as in the table.
        users: the users by their numbers.
        num_missing: how many true rows have no predicted one.
        num_extra: how many predicted rows have no true one; they are left out.
        num_repeated: how many rows repeat user, day and slot of another; the first one counts.
    """

    preds: Tensor
    target: Tensor
    slots: Tensor
    groups: dict[str, Tensor]
    users: list[Any]
    num_missing: int = 0
    num_extra: int = 0
    num_repeated: int = 0

    @property
    def num_users(self) -> int:
        """The number of users."""
        return len(self.users)


def from_table(
    preds: Any,
    target: Any,
    *,
    user: str = "uid",
    day: str = "d",
    slot: str = "t",
    x: str = "x",
    y: str = "y",
    on_missing: OnMissing = "raise",
    grid: int | None = None,
) -> TrajectoryPairs:
    """Join predicted and true rows by user, day and slot; each user's day is one query.

    Users and days are sorted, and the points of a day are in the order of slots, whatever the order
    of rows.

    Args:
        preds: a table of predicted rows: pandas, polars, Arrow, a mapping of columns, or an array
            `[R, 5]` with the columns user, day, slot, x and y.
        target: a table of true rows.
        user: the column of users, numbers or text.
        day: the column of days, integers.
        slot: the column of slots within a day, integers.
        x: the column of the first coordinate, or of the latitude.
        y: the column of the second coordinate, or of the longitude.
        on_missing: what happens to a true row without a predicted one, a predicted row without a
            true one, and a row that repeats another's user, day and slot. `"raise"` raises an error
            that names it. `"count"` counts it; a prediction is then shorter than its target, or
            empty, and stays a query.
        grid: the number of cells along each side of a grid, numbered from 1; a point outside is
            then an error, as is a repeated row, also with `"count"`.

    Raises:
        ValueError: a column is missing or unreadable, or rows do not fit and `on_missing` is
            `"raise"`.

    Example:
        >>> from nextloc_metrics.trajectories import GeoBLEU, from_table
        >>> true = {"uid": [7, 7, 9], "d": [60, 60, 60], "t": [1, 4, 2],
        ...         "x": [1, 2, 3], "y": [1, 1, 1]}
        >>> found = from_table({**true, "x": [1, 2, 4]}, true)
        >>> found.target.shape, found.users, found.groups["user"]
        (torch.Size([2, 2, 2]), [7, 9], tensor([0, 1]))
        >>> geo_bleu = GeoBLEU.as_of(2025)
        >>> geo_bleu.update(found.preds, found.target)
        >>> geo_bleu.compute()  # (1 + exp(-0.5)) / 2
        tensor(0.8033)
    """
    check_choice("on_missing", on_missing, OnMissing)
    columns = {"user": user, "day": day, "slot": slot, "x": x, "y": y}
    predicted, true = _read("preds", preds, columns), _read("target", target, columns)
    if not len(true["slot"]):
        raise ValueError("`target` must have at least one row, got none.")
    users, codes = np.unique(join([true["user"], predicted["user"]]), return_inverse=True)
    true["user"], predicted["user"] = np.split(codes, [len(true["slot"])])
    grid = or_none(check_positive)("grid", grid)
    true, repeated_true = _in_order("target", true, users, on_missing, grid)
    predicted, repeated = _in_order("preds", predicted, users, on_missing, grid)
    partner, has_prediction, extra = _join(true, predicted)
    sides = ("preds", "target", true, ~has_prediction), ("target", "preds", predicted, extra)
    for name, other, rows, wrong in sides:
        if on_missing == "raise" and wrong.any():
            raise ValueError(
                f"`{name}` must have a row for each row of `{other}`, got none for "
                f"{_name(rows, wrong.argmax(), users)}; to count such rows use "
                "`on_missing='count'`."
            )
    is_first = begins(true["user"], true["day"])
    query = is_first.cumsum() - 1
    points = np.stack([true["x"], true["y"]], axis=1)
    predicted_points = np.stack([predicted["x"], predicted["y"]], axis=1)
    predicted_points = predicted_points[partner[has_prediction]]
    sizes = np.bincount(query)
    predicted_sizes = np.bincount(query[has_prediction], minlength=len(sizes))
    user_of_query = true["user"][is_first]
    used = np.unique(user_of_query)
    return TrajectoryPairs(
        preds=torch.from_numpy(pad_rows(predicted_points, predicted_sizes, np.nan)),
        target=torch.from_numpy(pad_rows(points, sizes, np.nan)),
        slots=torch.from_numpy(pad_rows(true["slot"], sizes, -1)),
        groups={
            "user": torch.from_numpy(np.searchsorted(used, user_of_query)),
            "day": torch.from_numpy(true["day"][is_first]),
        },
        users=users[used].tolist(),
        num_missing=int((~has_prediction).sum()),
        num_extra=int(extra.sum()),
        num_repeated=repeated_true + repeated,
    )


def _read(name: str, rows: Any, columns: dict[str, str]) -> dict[str, Any]:
    """Return the columns of a table as arrays of one length."""
    is_array = isinstance(rows, np.ndarray | Tensor)
    if is_array and (rows.ndim != 2 or rows.shape[1] != len(columns)):
        raise ValueError(
            f"`{name}` must have the columns {', '.join(columns.values())}, got {describe(rows)}."
        )
    arrays: dict[str, Any] = {}
    for number, (what, column) in enumerate(columns.items()):
        try:
            values = rows[:, number] if is_array else rows[column]
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ValueError(
                f"`{name}` must be a table with a column {column!r}, got {describe(rows)}; name "
                f"yours by `{what}=`."
            ) from error
        read = as_tensor_or_text if what == "user" else as_tensor
        tensor = read(f"{name}[{column!r}]", values)
        arrays[what] = _numbers(f"{name}[{column!r}]", tensor, what in ("x", "y"))
    lengths = {len(values) for values in arrays.values()}
    if len(lengths) > 1:
        raise ValueError(f"`{name}` must have columns of one length, got {short(sorted(lengths))}.")
    return arrays


def _numbers(name: str, values: Any, is_coordinate: bool) -> Any:
    """Return a column as an array: float64 coordinates, int64 numbers, or text."""
    if isinstance(values, list):
        return np.array(values, object)  # NumPy's own text would lose NULs at its end
    array = values.detach().cpu().numpy()
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one row of numbers, got {describe(values)}.")
    if is_coordinate:
        if (wrong := ~np.isfinite(array)).any():
            row = int(wrong.argmax())
            raise ValueError(f"`{name}` must be finite, got {array[row]} in {as_row(row)}.")
        return array.astype(np.float64)
    whole = array.astype(np.int64)
    wrong = whole != array
    if array.dtype.kind == "f":
        wrong |= abs(array) >= 2**53  # a larger float may stand for another number
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"`{name}` must be whole numbers, got {array[row]} in {as_row(row)}.")
    return whole


def _in_order(
    name: str, rows: dict[str, Any], users: Any, on_missing: OnMissing, grid: int | None
) -> tuple[dict[str, Any], int]:
    """Return the rows sorted by user, day and slot, each once, and how many were repeated."""
    order = np.lexsort((rows["slot"], rows["day"], rows["user"]))
    rows = {what: values[order] for what, values in rows.items()}
    repeats = ~begins(rows["user"], rows["day"], rows["slot"])
    if (grid or on_missing == "raise") and repeats.any():
        remedy = "drop one" if grid else "to count such rows use `on_missing='count'`"
        raise ValueError(
            f"`{name}` must have one row for each user, day and slot, got two for "
            f"{_name(rows, repeats.argmax(), users)}; {remedy}."
        )
    points = np.stack([rows["x"], rows["y"]], 1)
    if grid and (outside := ((points < 1) | (points > grid)).any(1)).any():
        row = outside.argmax()
        raise ValueError(
            f"`{name}` must have cells from 1 to {grid}, got {points[row].tolist()} for "
            f"{_name(rows, row, users)}; drop the row, or use `units` or `metrics` for others."
        )
    return {what: values[~repeats] for what, values in rows.items()}, int(repeats.sum())


def _name(rows: dict[str, Any], row: Any, users: Any) -> str:
    (user,) = users[[rows["user"][row]]].tolist()
    return f"user {short(str(user))}, day {rows['day'][row]}, slot {rows['slot'][row]}"


def _join(true: dict[str, Any], predicted: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return each true row's predicted row, whether it has one, and which predictions are extra."""
    keys = ("slot", "day", "user")
    columns = [np.concatenate([true[key], predicted[key]]) for key in keys]
    order = np.lexsort(columns)  # a true row comes before the predicted row of its key
    is_same = ~begins(*(values[order] for values in columns))[1:]
    number = len(true["slot"])
    partner = np.zeros(number, np.int64)
    has_prediction = np.zeros(number, bool)
    first, second = order[:-1][is_same], order[1:][is_same]
    partner[first], has_prediction[first] = second - number, True
    extra = np.ones(len(predicted["slot"]), bool)
    extra[second - number] = False
    return partner, has_prediction, extra
