"""The evaluation of predicted trips between cells: two tables or files, by day and weekday."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from nextloc_metrics.core.display.page import Result, show_meanings, show_table
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.mobility.flows import HUMOB_2026_BOX, FlowCollection, FlowPairs, flow_metrics
from nextloc_metrics.mobility.flows.metric import DailyMetric
from nextloc_metrics.mobility.flows.pairs import IDS, PLACES, STEP, CellBox, MissingDays
from nextloc_metrics.report import engines
from nextloc_metrics.report.engines.partition import concat, table_of_bytes, table_to_bytes
from nextloc_metrics.report.files.coordinates_and_counts import read_flows
from nextloc_metrics.report.files.opening import pa

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(repr=False)
class FlowEvaluation(Result):
    """The result of `evaluate_flows`; `print` shows the table and the card.

    Attributes:
        values: the value of each metric.
        intervals: the bounds of the means over days, which are taken as independent.
        table: both, as a table.
        card: the options, and the numbers of days and rows.
        by_day: the value of each day; a mean over days is the mean of its column.
        by_weekday: the values of the days of each weekday; empty unless all days are YYYYMMDD.
    """

    title: ClassVar[str] = "Flows"
    _prints_card: ClassVar[bool] = True

    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    table: Table
    card: dict[str, Any]
    by_day: Table
    by_weekday: Table
    _metrics: FlowCollection

    def _others(self) -> Mapping[str, Table]:
        return {x: y for x, y in (("day", self.by_day), ("weekday", self.by_weekday)) if y.rows}

    def sections(self) -> dict[str, str]:
        first = show_table(self.table) + show_meanings(self._metrics.named_members())
        others = {f"By {name}": show_table(table) for name, table in self._others().items()}
        return {"Result": first, **others}


def evaluate_flows(
    predicted: Any,
    true: Any,
    *,
    year: Literal[2026] | None = None,
    num_cells: int | None = None,
    box: CellBox | None = None,
    missing_days: MissingDays = "raise",
    confidence_level: float = 0.95,
    zones: Array | None = None,
) -> FlowEvaluation:
    """Evaluate predicted trips between cells, day by day.

    Rows are joined by day and pair, in any order; a pair of cells without a row counts 0. Rows of
    Dask, Ray or Spark are collected first.

    Args:
        predicted: a path of Parquet, CSV, JSON lines or Arrow files, or a frame, with the columns
            `day`, `origin` and `destination`, integers or text, and `count`; with a box `ox`, `oy`,
            `dx` and `dy` in place of the ends; or a file of the HuMob Challenge 2026: lines of
            YYYYMMDD, a tab and `{origin: {destination: count}}`, with cells `y_x`.
        true: the same.
        year: 2026 for the score and the box of the HuMob Challenge of that year.
        num_cells: the number of cells, if origins and destinations are their numbers from 0.
        box: or the cells of a grid that are compared, as for `flows.FlowPairs.from_tables`.
        missing_days: what a day of one side only is, as there.
        confidence_level: of the intervals.
        zones: the names of all zones, text or integers; without any of these, the zones that occur
            on either side are compared.

    Raises:
        ValueError: a file or a value cannot be read, or a count is NaN, negative or above 2^31.

    Example:
        >>> from nextloc_metrics import report
        >>> true = {"day": [20240201, 20240202], "origin": [0, 1], "destination": [0, 0]}
        >>> rows = {**true, "count": [4, 6]}, {**true, "count": [2, 6]}
        >>> found = report.evaluate_flows(*rows, num_cells=2)
        >>> found.values["rmse"], found.values["mae"]  # of 1 and 0; of 2/4 and 0
        (0.5, 0.25)
    """
    metrics = flow_metrics() if year is None else flow_metrics.as_of(year)
    box = box if year is None else HUMOB_2026_BOX
    cells = IDS if box is None else PLACES
    named = box is None and num_cells is None
    sides = {"predicted": predicted, "true": true}
    tables: dict[str, Any] = {x: _read(side, cells, named) for x, side in sides.items()}
    for name, table in tables.items() if year is not None else ():
        _check_grid(name, table)
    limits: Any = {"num_cells": num_cells, "box": box, "zones": zones, "missing_days": missing_days}
    pairs = FlowPairs.from_tables(tables["predicted"], tables["true"], **limits)
    metrics.update(pairs)
    found = metrics.results(confidence_level)
    steps = pairs.rounded * 2.0 ** -(STEP + 1)
    card = {
        "metrics": f"HuMob {year}" if year else "usual",
        "cells": pairs.num_cells,
        **({"they are": "those that occur on either side"} if named and zones is None else {}),
        "days": len(pairs.days),
        "rows": sum(len(table["count"]) for table in tables.values()),
        "missing days": missing_days,
        "rounding of counts moves a daily RMSE by at most": f"{steps:.2g}",
    }
    if year:
        by = {name: getattr(x, "by", None) for name, x in metrics.named_members()}
        card["and its NRMSE"] = ", ".join(f"{x} {steps / y:.2g}" for x, y in by.items() if y)
    note = f"intervals (Student's t) take the {len(pairs.days)} days as independent"
    daily = {x: y for x, y in metrics.named_members() if isinstance(y, DailyMetric)}
    return FlowEvaluation(
        values={name: float(x) for name, x in found.values.items()},
        intervals={name: (float(x), float(y)) for name, (x, y) in found.intervals.items()},
        table=metrics.table(intervals=True, confidence_level=confidence_level, notes=[note]),
        card=card,
        by_day=_by_day(daily),
        by_weekday=_by_weekday(daily),
        _metrics=metrics,
    )


def _by_day(metrics: Mapping[str, DailyMetric]) -> Table:
    values = {name: dict(x.values_by_day()) for name, x in metrics.items() if x.per == "day"}
    days = next(iter(values.values()))
    return _table("day", values, {str(x): [of[x] for of in values.values()] for x in days})


def _by_weekday(metrics: Mapping[str, DailyMetric]) -> Table:
    found: dict[int, list[Any]] = {}
    for day in next(iter(metrics.values())).days():
        text = str(day[0])
        try:
            at = date(int(text[:4]), int(text[4:6]), int(text[6:])).weekday()
        except ValueError:
            return _table("weekday", metrics, {})
        found.setdefault(at, []).append(day)
    rows = {
        f"{_WEEKDAYS[at]} ({len(days)})": [x.value_of(days) for x in metrics.values()]
        for at, days in sorted(found.items())
    }
    return _table("weekday", metrics, rows)


def _table(title: str, names: Iterable[str], rows: Mapping[str, Sequence[float]]) -> Table:
    texts = [
        [name, *("-" if math.isnan(x) else f"{x:.6g}" for x in row)] for name, row in rows.items()
    ]
    heads = [title, *names]
    records = [dict(zip(heads, (name, *row), strict=True)) for name, row in rows.items()]
    return Table(heads, texts, records=records)


def _read(rows: Any, cells: Sequence[str], named: bool) -> dict[str, Any]:
    """Read the columns of a file or a frame, or those that the partitions of an engine hold."""
    if engines.engine_of(rows) is None:
        return read_flows(rows, cells, named)
    columns = ["day", *cells, "count"]
    engines.check_names(rows, columns)
    data = engines.fold(rows, columns, partial(_columns_of, cells=cells, named=named), _join)
    if not data:
        return {name: np.zeros(0) for name in columns}
    return {
        name: x.to_numpy() for name, x in zip(columns, table_of_bytes(data).columns, strict=True)
    }


def _columns_of(table: Any, cells: Sequence[str], named: bool) -> bytes:
    return table_to_bytes(pa.table(read_flows(table, cells, named)))


def _join(parts: Sequence[bytes]) -> bytes:
    return table_to_bytes(concat([table_of_bytes(part) for part in parts]))


def _check_grid(name: str, table: Mapping[str, Any]) -> None:
    """Raise for a cell that is neither in the grid of 2026, nor -1_-1, which is outside."""
    for x, y in (PLACES[:2], PLACES[2:]):
        at_x, at_y = np.asarray(table[x]), np.asarray(table[y])
        right = (at_x >= 1) & (at_x <= 100) & (at_y >= 1) & (at_y <= 70)
        if not (right := right | ((at_x == -1) & (at_y == -1))).all():
            at = int(right.argmin())
            raise ValueError(
                f"`{name}` must have cells y_x from 1_1 to 70_100, or -1_-1, got "
                f"{at_y[at]}_{at_x[at]} on day {table['day'][at]}."
            )
