"""The record of flows: the predicted and the true count of each pair of cells on each day."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from nextloc_metrics.core.queries.arrays import Array, as_tensor, begins
from nextloc_metrics.core.queries.batch import Batch, GroupLabels, number_values
from nextloc_metrics.core.queries.checks import check_choice, check_positive
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import Queries, Record, Records

MissingDays = Literal["raise", "zero", "skip"]
CellBox: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
FlowColumns: TypeAlias = Mapping[str, Any]

STEP = 16  #: counts are multiples of 2^-16
MOST = 1 << 31  #: the largest count, and the largest number of cells
IDS, PLACES = ("origin", "destination"), ("ox", "oy", "dx", "dy")


@dataclass(eq=False)
class FlowPairs(Record):
    """The predicted and the true count of each pair of cells on each day.

    Only stored pairs are held. A pair that is stored on neither side counts 0 and is compared too.

    Attributes:
        days: int64 `[D]`, the name of each day; -1 without names.
        day: int64 `[E]`, the day of each stored pair, from 0 to D - 1, in rising order.
        origin: int64 `[E]`, its origin, from 0 to `num_cells` - 1.
        destination: int64 `[E]`, its destination.
        counts: int64 `[2, E]`, its predicted and its true count, in steps of 2^-16.
        num_cells: the number O of cells; O^2 pairs are compared.
        rounded: on how many sides, 0 to 2, a count was rounded to 2^-16 (half to even).

    Example:
        >>> from nextloc_metrics.mobility.flows import FlowPairs, FlowRMSE
        >>> true = {"day": [1, 1], "origin": [0, 2], "destination": [2, 2], "count": [3, 4]}
        >>> pairs = FlowPairs.from_tables({**true, "count": [1, 4]}, true, num_cells=3)
        >>> FlowRMSE()(pairs)  # the root of 2^2 / 9
        tensor(0.6667)
    """

    days: Any
    day: Any
    origin: Any
    destination: Any
    counts: Any
    num_cells: int
    rounded: int
    queries = Queries(torch.Size([0]), torch.zeros(0, dtype=torch.bool))

    @staticmethod
    def batch(preds: Any, target: Any, days: Any) -> Batch:
        """Return what a plan reads of the arguments of an update."""
        if not isinstance(preds, Record | Records):
            return Batch(FlowPairs.from_matrices(preds, target, days), None)
        if target is not None or days is not None:
            raise ValueError("`FlowPairs` must be passed alone, without `target` and `days`.")
        return Batch(preds, None)

    @classmethod
    def from_matrices(cls, preds: Array, target: Array | None, days: Any = None) -> FlowPairs:
        """Read counts `[O, O]` of one day or `[D, O, O]`; `days` are integers from 0, `[D]`."""
        given = [as_tensor(name, x) for name, x in (("preds", preds), ("target", target))]
        matrices = [x.detach().cpu() if x.ndim == 3 else x.detach().cpu()[None] for x in given]
        number, *_, cells = matrices[0].shape
        if any(x.shape != (number, cells, cells) for x in matrices) or not cells:
            raise ValueError(
                "`preds` and `target` must be counts [O, O] or [D, O, O], got "
                f"{describe(given[0])} and {describe(given[1])}."
            )
        names = np.arange(number) if days is None else _integers("days", days, 0)
        if len(names) != number or len(np.unique(names)) < number:
            raise ValueError(f"`days` must name each of {number} days once, got {short(days)}.")
        sides = {}
        for name, x in zip(("preds", "target"), matrices, strict=True):
            day, *ends = x.nonzero().numpy().T  # NaN is not 0
            sides[name] = _by_day(names[day], *ends, x[x != 0].double().numpy())
        found = cls._join(np.sort(names), sides, [(0, cells - 1)])
        return found if days is not None else replace(found, days=np.full(number, -1))

    @classmethod
    def from_tables(
        cls,
        predicted: FlowColumns,
        true: FlowColumns,
        *,
        num_cells: int | None = None,
        box: CellBox | None = None,
        missing_days: MissingDays = "raise",
        zones: Array | None = None,
    ) -> FlowPairs:
        """Join predicted and true rows of whole days by day and pair.

        Args:
            predicted: a data frame or a dict with the columns `day`, an integer from 0 such as
                20240201, `origin` and `destination`, integers or text, and `count`; with a box,
                `ox`, `oy`, `dx` and `dy` in place of the ends. Rows of one day and pair are added.
            true: the true rows.
            num_cells: the number of cells, if the ends are their numbers from 0. A warning says
                that most of them do not occur, because each counts in the mean errors.
            box: in place of it the cells of a grid that are compared: the lowest and the highest x
                and y, both counted. A trip with an end outside is left out.
            missing_days: a day of one side only is an error (`"raise"`), has counts of 0 on the
                other side (`"zero"`), or is left out (`"skip"`).
            zones: the names of all zones, text or integers; without it, `num_cells` and `box`, the
                zones that occur on either side.

        Raises:
            ValueError: a column is missing or unreadable, a day or a cell is wrong, or a count is
                NaN, negative or above 2^31.
        """
        check_choice("missing_days", missing_days, MissingDays)
        if sum(x is not None for x in (num_cells, box, zones)) > 1:
            raise ValueError("only one of `num_cells`, `box` and `zones` may be given.")
        sides, names = {}, None
        read = {
            name: {x: _column(name, table, x) for x in ("day", *(PLACES if box else IDS), "count")}
            for name, table in (("predicted", predicted), ("true", true))
        }
        if num_cells is None and box is None:
            names = _number_zones(read, zones)
        limits = _limits(len(names) if names else num_cells, box)
        for name, columns in read.items():
            given = as_tensor(f"{name}['count']", columns.pop("count"))
            day, *ends = (
                _integers(f"{name}[{x!r}]", y, 0 if x == "day" else -MOST)
                for x, y in columns.items()
            )
            if {x.shape for x in (day, *ends)} != {given.shape}:
                raise ValueError(
                    f"`{name}` must have columns of one length, got {describe(given)}."
                )
            sides[name] = _by_day(day, *ends, given.detach().cpu().double().numpy())
        held = {name: np.unique(day) for name, (day, *_) in sides.items()}
        for name, other in (("predicted", "true"), ("true", "predicted")):
            missing = np.setdiff1d(held[other], held[name])
            if missing_days == "raise" and len(missing):
                raise ValueError(
                    f"`{name}` must have rows on each day, got none on day {missing[0]}; use "
                    "`missing_days='zero'` or 'skip'."
                )
        kept = np.intersect1d if missing_days == "skip" else np.union1d
        found = cls._join(kept(*held.values()), sides, limits, names)
        used = len(np.union1d(found.origin, found.destination))
        if num_cells is not None and 0 < 2 * used < num_cells:
            warnings.warn(
                f"`num_cells` is {num_cells}, but only {used} cells occur. Pairs of the others "
                f"count 0 on both sides, so that RMSE is {(share := used / num_cells):.2g} times, "
                f"and MAE {share**2:.2g} times, that of the cells that occur; leave `num_cells` "
                "out, or name all zones by `zones`.",
                stacklevel=2,
            )
        return found

    @classmethod
    def _join(
        cls, days: Any, sides: Mapping[str, Sequence[Any]], limits: Any, names: Any = None
    ) -> FlowPairs:
        """Add the counts of each of these days by pair; the rows of all days are checked."""
        width = math.prod(high - low + 1 for low, high in limits)
        (*first, rounded), (*other, too) = (_read(x, names, *y, limits) for x, y in sides.items())
        found: list[Any] = [(np.zeros((3, 0), np.int64), np.zeros((2, 0), np.int64))]
        for number, name in enumerate(days.tolist()):
            pair, counts = _add(name, width, names, *(_of_day(name, *x) for x in (first, other)))
            found.append((np.stack([np.full(len(pair), number), *np.divmod(pair, width)]), counts))
        (day, *ends), counts = (np.concatenate(x, 1) for x in zip(*found, strict=True))
        return cls(days, day, ends[0], ends[1], counts, width, rounded + too)


def _by_day(day: Any, *columns: Any) -> list[Any]:
    """Sort rows by day."""
    is_sorted = (day[1:] >= day[:-1]).all()
    order = slice(None) if is_sorted else np.argsort(day, kind="stable")
    return [x[order] for x in (day, *columns)]


def _of_day(name: int, day: Any, *columns: Any) -> list[Any]:
    """Return the rows of a day of sorted ones."""
    return [x[slice(*np.searchsorted(day, [name, name + 1]))] for x in columns]


def _read(name: str, names: Any, day: Any, *columns: Any) -> tuple[Any, Any, Any, bool]:
    """Return the days, pairs and counts, in steps, that are within limits, and if some are rounded.

    The columns are the ends, the counts and the limits of a cell's number, or of x and y.
    """
    *ends, counts, limits = columns
    if not (right := (counts >= 0) & (counts <= MOST)).all():
        at = int(right.argmin())
        raise ValueError(
            f"`{name}` must hold counts from 0 to 2^31, got {counts[at]:g} for "
            f"{_pair(ends, at, names)} on day {day[at]}."
        )
    cells, inside, width = np.zeros((2, len(counts)), np.int64), np.ones(len(counts), bool), 1
    for axis, (low, high) in enumerate(limits):
        of_ends = np.stack(ends[axis :: len(limits)])
        inside &= ((of_ends >= low) & (of_ends <= high)).all(0)
        cells += (of_ends - low) * width
        width *= high - low + 1
    if len(limits) == 1 and not inside.all():
        at = int(inside.argmin())
        raise ValueError(
            f"`{name}` must have cells from 0 to {width - 1}, got {_pair(ends, at)} on day "
            f"{day[at]}."
        )
    steps = np.rint(scaled := counts * (1 << STEP))
    pair = cells[0] * width + cells[1]
    rounded = bool((steps != scaled).any())
    return day[inside], pair[inside], steps[inside].astype(np.int64), rounded


def _add(day: int, width: int, names: Any, predicted: Any, true: Any) -> tuple[Any, Any]:
    """Return each pair of a day once, in rising order, with the sums of both sides `[2, E]`."""
    pair = np.concatenate([predicted[0], true[0]])
    counts = np.zeros((2, len(pair)), dtype=np.int64)
    counts[0, : len(predicted[0])], counts[1, len(predicted[0]) :] = predicted[1], true[1]
    if not len(pair):
        return pair, counts
    order = np.argsort(pair)
    pair, counts = pair[order], counts[:, order]
    starts = np.flatnonzero(begins(pair))
    # the sums of whole parts fit int64, whatever those of the counts do
    above: Any = np.add.reduceat(counts >> STEP, starts, axis=1) > MOST
    counts, pair = np.add.reduceat(counts, starts, axis=1), pair[starts]
    if (above := (above | (counts > MOST << STEP)).any(0)).any():
        ends = np.divmod(pair, width)
        raise ValueError(
            "`count` must be at most 2^31 in all rows of a pair, got more for "
            f"{_pair(ends, int(above.argmax()), names)} on day {day}."
        )
    return pair, counts


def _pair(ends: Any, at: int, names: Any = None) -> str:
    """Name a pair of cells, by its ends or their coordinates."""
    of_ends = [x[at] if names is None else names[x[at]] for x in ends]
    return f"the pair ({', '.join(map(str, of_ends))})"


def _number_zones(read: dict[str, dict[str, Any]], zones: Any) -> tuple[str, ...]:
    """Replace the ends of all rows by the numbers of their zones, whose names are returned."""
    keys = [(side, x) for side in read for x in IDS]
    ends = {(side, x): number_values(f"{side}[{x!r}]", read[side][x]) for side, x in keys}
    listed = [*ends.values()] if zones is None else [number_values("zones", zones)]
    known = GroupLabels.sorted(name for kind in listed for name in kind.labels.names)
    if not len(known):
        raise ValueError("`zones` must be given for tables without rows.")
    for (side, x), end in ends.items():
        if unknown := set(end.labels.names) - set(known.names):
            raise ValueError(f"`{side}[{x!r}]` must be among `zones`, got {short(min(unknown))}.")
        read[side][x] = known.number([*end.labels.names])[end.numbers.cpu()]
    return known.names


def _limits(num_cells: Any, box: Any) -> list[tuple[int, int]]:
    """Return the lowest and the highest number of a cell, or those of x and y."""
    if box is None:
        limits = [(0, check_positive("num_cells", num_cells) - 1)]
    else:
        try:
            limits = [(int(low), int(high)) for low, high in box]
        except (TypeError, ValueError):
            limits = []
        if len(limits) != 2 or any(not 0 <= low <= high < MOST for low, high in limits):
            raise ValueError(f"`box` must be ((x, x), (y, y)), integers from 0, got {short(box)}.")
    if (cells := math.prod(high - low + 1 for low, high in limits)) > MOST:
        raise ValueError(f"`num_cells` or `box` must have at most 2^31 cells, got {cells}.")
    return limits


def _column(name: str, table: Any, column: str) -> Any:
    try:
        return table[column]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be a table with a column {column!r}, got {describe(table)}; cells are "
            "`origin` and `destination`, or `ox`, `oy`, `dx` and `dy` with a `box`."
        ) from error


def _integers(name: str, values: Any, least: int) -> Any:
    read = as_tensor(name, values).detach().cpu().numpy()
    with np.errstate(invalid="ignore"):  # NaN becomes an integer, which differs
        found = read.astype(np.int64, copy=False)
    if read.ndim != 1 or (found != read).any() or (found < least).any():
        raise ValueError(f"`{name}` must be integers from {least} in a row, got {short(values)}.")
    return found
