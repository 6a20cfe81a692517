"""The evaluation of predicted days in a table, such as a file of a HuMob challenge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.grouped import Grouped
from nextloc_metrics.core.display.page import Result, show_meanings, show_table
from nextloc_metrics.core.display.table import Table
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.results.results import readings_of
from nextloc_metrics.geography.locations import Units
from nextloc_metrics.report.files.coordinates_and_counts import read_days
from nextloc_metrics.trajectories import (
    DTW,
    GeoBLEU,
    MeanPointError,
    PairMetric,
    TrajectoryPairs,
    from_table,
    trajectory_metrics,
)
from nextloc_metrics.trajectories.metric import Year
from nextloc_metrics.trajectories.point_sequences import Sequences, distances
from nextloc_metrics.trajectories.tables import OnMissing

_COLUMNS = {"user": "uid", "day": "d", "slot": "t", "x": "x", "y": "y"}
_GRID = 200  # cells are numbered from 1 to 200, by `validator.py` of yahoojapan/geobleu


@dataclass(repr=False)
class TrajectoryEvaluation(Result):
    """The result of `evaluate_trajectories`; `print` shows the table and the card.

    Attributes:
        values: the value of each metric, the mean over users of their means over days.
        intervals: the bounds of its confidence interval, with users as the sample.
        table: both, as a table.
        card: the options, and the numbers of users, days, points and rows that do not fit.
        scores: for each metric the score of each day, float64 `[N]`, in the order of `rows`.
        rows: the days.
        errors: the mean point error of each slot; empty if a row is missing.
    """

    title: ClassVar[str] = "Trajectories"
    _prints_card: ClassVar[bool] = True

    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    table: Table
    card: dict[str, Any]
    scores: dict[str, Tensor]
    rows: TrajectoryPairs
    errors: dict[int, float]
    _by_user: Sequence[tuple[str, Any]]  #: the metrics by name

    def user_records(self) -> list[dict[str, Any]]:
        """Return the mean over days of each user and metric, one dict each."""
        values = {x: exact.moments(y.group_sums)[0] * y.score_factor for x, y in self._by_user}
        return [
            {"user": user, "metric": name, "value": float(means[number])}
            for name, means in values.items()
            for number, user in enumerate(self.rows.users)
        ]

    def sections(self) -> dict[str, str]:
        meanings = show_meanings((name, x.metric) for name, x in self._by_user)
        return {"Result": show_table(self.table) + meanings}


def evaluate_trajectories(
    preds: Any,
    target: Any,
    *,
    year: Year = 2025,
    units: Units = "cells",
    metrics: Mapping[str, PairMetric] | None = None,
    on_missing: OnMissing = "raise",
    confidence_level: float = 0.95,
    **columns: str,
) -> TrajectoryEvaluation:
    """Evaluate predicted days: each day by itself, the mean over days, then over users.

    Args:
        preds: predicted rows (uid, d, t, x, y): a path of a table, such as Parquet or CSV, or a
            table as for [`from_table`][nextloc_metrics.trajectories.from_table].
        target: the true rows.
        year: the challenge whose GEO-BLEU and DTW are computed, for coordinates in cells of 500 m,
            from 1 to 200; a cell outside this grid is an error, as is a repeated row.
        units: what the columns x and y are, `"degrees"` for latitude and longitude; other units
            than cells have the metrics of `trajectory_metrics`.
        metrics: other metrics, by name.
        on_missing: `"raise"` or `"count"`, as for `from_table`.
        confidence_level: the confidence level of the intervals.
        columns: the names of the columns `user`, `day`, `slot`, `x` and `y`.

    Raises:
        ValueError: a file cannot be read, or rows do not fit.

    Example:
        >>> from nextloc_metrics import report
        >>> true = {"uid": [1, 1, 2], "d": [60, 60, 60], "t": [12, 15, 20],
        ...         "x": [84, 114, 9], "y": [88, 78, 9]}
        >>> found = report.evaluate_trajectories({**true, "x": [84, 112, 9]}, true)
        >>> round(found.values["geo_bleu"], 4), found.values["dtw"], found.errors
        (0.7508, 0.5, {12: 0.0, 15: 2.0, 20: 0.0})
    """
    columns = {**_COLUMNS, **columns}
    tables = (read_days(rows, **columns) for rows in (preds, target))
    challenge = None if metrics or units != "cells" else f"HuMob {year}"
    grid = _GRID if challenge else None
    rows = from_table(*tables, on_missing=on_missing, grid=grid, **columns)
    chosen = dict(metrics) if metrics else _usual(year, units, not rows.num_missing)
    record = next(iter(chosen.values())).read(rows.preds, rows.target, groups=rows.groups)
    by_user = RankingCollection(
        {name: Grouped(x, rows.num_users, None, "groups", "user") for name, x in chosen.items()}
    )
    by_user.update(record)
    readings = readings_of(by_user, confidence_level)
    scores = {name: metric.scores_of(record)[0] for name, metric in chosen.items()}
    pairs = MeanPointError(units=units).sequences(record)
    note = "mean over users of their means over days"
    return TrajectoryEvaluation(
        values={name: one.value for name, one in readings.items()},
        intervals={name: one.bounds for name, one in readings.items() if one.bounds},
        table=by_user.table(intervals=True, confidence_level=confidence_level, notes=[note]),
        card={
            "challenge": challenge,
            **({"metrics": ", ".join(map(str, chosen.values()))} if metrics else {}),
            "units": units,
            "users": rows.num_users,
            "days": len(rows.preds),
            "points": int(record.true.sum()),
            "missing rows": rows.num_missing,
            "extra rows": rows.num_extra,
            "repeated rows": rows.num_repeated,
        },
        scores=scores,
        rows=rows,
        errors={} if rows.num_missing else _errors_of_slots(rows, pairs),
        _by_user=by_user.named_members(),
    )


def _usual(year: Year, units: Units, aligned: bool) -> dict[str, PairMetric]:
    """Return the metrics of a challenge, or the usual ones for other units than cells."""
    if units != "cells":
        members: Any = trajectory_metrics(units=units, aligned=aligned).named_members()
        return dict(members)
    metrics: dict[str, PairMetric] = {"geo_bleu": GeoBLEU.as_of(year), "dtw": DTW.as_of(year)}
    return metrics | ({"mean_point_error": MeanPointError()} if aligned else {})


def _errors_of_slots(rows: TrajectoryPairs, pairs: Sequences) -> dict[int, float]:
    apart = distances(pairs.first.numpy(), pairs.second.numpy(), pairs.diameter)
    is_point = (rows.slots >= 0).numpy()
    slots, codes = np.unique(rows.slots.numpy()[is_point], return_inverse=True)
    means = np.bincount(codes, apart[is_point]) / np.bincount(codes)
    return dict(zip(slots.tolist(), means.tolist(), strict=True))
