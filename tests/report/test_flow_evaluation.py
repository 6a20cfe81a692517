"""Evaluations of files and frames of trips, in Python and by the command line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from nextloc_metrics import report
from nextloc_metrics.cli.commands import main
from nextloc_metrics.mobility.flows import FlowPairs, flow_metrics

COLUMNS = ("day", "ox", "oy", "dx", "dy", "count")
DAYS = [20240201, 20240202, 20240203, 20240208]


def rows(seed: int, number: int = 300) -> pd.DataFrame:
    """Trips of four days in and around a corner of the box; some cells are outside of all."""
    draw = np.random.RandomState(seed)
    ends = {x: draw.randint(28, 34, number) for x in ("ox", "dx")}
    ends |= {x: draw.randint(33, 39, number) for x in ("oy", "dy")}
    table = pd.DataFrame({"day": [*DAYS, *draw.choice(DAYS, number - 4)], **ends})
    table["count"] = draw.randint(0, 40, number) / 8
    table.loc[5:9, ["ox", "oy"]] = -1
    return table[list(COLUMNS)]


def challenge(predicted: Any, true: Any) -> dict[str, float]:
    """The score of 2026 with dictionaries and loops."""
    errors: dict[bool, dict[int, float]] = {True: {}, False: {}}
    for day in DAYS:
        counts: list[dict[Any, float]] = []
        for table in (predicted, true):
            found: dict[Any, float] = {}
            for name, ox, oy, dx, dy, count in table.itertuples(index=False):
                inside = all(30 <= x <= 70 for x in (ox, dx)) and all(
                    35 <= y <= 70 for y in (oy, dy)
                )
                if name == day and inside:
                    found[ox, oy, dx, dy] = found.get((ox, oy, dx, dy), 0) + count
            counts.append(found)
        for is_diagonal, pairs in ((True, 1476), (False, 1476 * 1475)):
            squares = [
                (counts[0].get(x, 0) - counts[1].get(x, 0)) ** 2
                for x in {*counts[0], *counts[1]}
                if (x[:2] == x[2:]) == is_diagonal
            ]
            errors[is_diagonal][day] = math.sqrt(sum(squares) / pairs)
    parts = [sum(errors[x].values()) / 4 / by for x, by in ((True, 26.57), (False, 0.0176))]
    return dict(
        zip(
            ("combined_nrmse", "nrmse_diagonal", "nrmse_others"),
            (sum(parts) / 2, *parts),
            strict=True,
        )
    )


def write_humob(table: Any, path: Path) -> Path:
    """Write a line per day, as the organisers do; rows of one pair are added first."""
    lines = []
    for day, of_day in (
        table.groupby(["day", "ox", "oy", "dx", "dy"]).sum().reset_index().groupby("day")
    ):
        nested: dict[str, dict[str, float]] = {}
        for _, ox, oy, dx, dy, count in of_day.itertuples(index=False):
            nested.setdefault(f"{int(oy)}_{int(ox)}", {})[f"{int(dy)}_{int(dx)}"] = count
        lines.append(f"{day}\t{nested}\n")
    path.write_text("".join(lines), "utf-8")
    return path


def test_the_challenge_beside_loops_in_every_form(tmp_path: Path) -> None:
    """Files of the organisers, CSV, Parquet and frames with dates have its score."""
    tables = [rows(1), rows(2)]
    expected = challenge(*tables)
    found = report.evaluate_flows(*tables, year=2026)
    assert found.values == pytest.approx(expected, rel=1e-8)
    humob = [write_humob(x, tmp_path / f"{n}.tsv") for n, x in enumerate(tables)]
    forms: list[list[Any]] = [humob, [x.iloc[::-1] for x in tables]]
    dated = [x.assign(day=pd.to_datetime(x["day"].astype(str))) for x in tables]
    forms.append(dated)
    for suffix in ("csv", "parquet"):
        paths = [tmp_path / f"{n}.{suffix}" for n in (0, 1)]
        for table, path in zip(dated, paths, strict=True):
            table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
        forms.append(paths)
    for form in forms:
        again = report.evaluate_flows(*form, year=2026)
        assert again.values == found.values
        assert str(again.by_day) == str(found.by_day)


def test_days_weekdays_and_the_card() -> None:
    """Values of days average to the value; Thursdays are two days; the card bounds the rounding."""
    tables = [rows(1), rows(2)]
    tables[0]["count"] *= 0.1
    found = report.evaluate_flows(*tables, box=((28, 33), (33, 38)))
    assert [row[0] for row in found.by_day.rows] == [*map(str, DAYS)]
    by_day = [record["rmse"] for record in found.by_day.records]
    assert np.mean(by_day) == pytest.approx(found.values["rmse"], rel=1e-9)
    weekdays = {record["weekday"]: record["rmse"] for record in found.by_weekday.records}
    assert [*weekdays] == ["Thursday (2)", "Friday (1)", "Saturday (1)"]
    assert weekdays["Thursday (2)"] == pytest.approx((by_day[0] + by_day[3]) / 2, rel=1e-9)
    assert "take the 4 days as independent" in str(found)
    assert found.card["rounding of counts moves a daily RMSE by at most"] == "7.6e-06"
    assert found.intervals.keys() == {"rmse", "rmse_diagonal", "rmse_others", "nrmse", "mae"}
    assert "By weekday" in found.to_html("Trips")
    card = report.evaluate_flows(*tables, year=2026).card
    assert card["and its NRMSE"] == "nrmse_diagonal 2.9e-07, nrmse_others 0.00043"
    metrics = flow_metrics.as_of(2026)
    metrics.update(FlowPairs.from_tables(*tables, box=((30, 70), (35, 70))))
    assert len(dict(metrics.named_members())["combined_nrmse"].days()) == 4  # type: ignore[operator]


def test_days_of_one_side_and_ids() -> None:
    """`missing_days` is handed on; days that are no dates have no weekdays."""
    true = {"day": [1, 2], "origin": [0, 1], "destination": [0, 0], "count": [2, 6]}
    one = pd.DataFrame(true)[:1]
    with pytest.raises(ValueError, match="must have rows on each day, got none on day 2"):
        report.evaluate_flows(one, true, num_cells=2)
    found = report.evaluate_flows(one, true, num_cells=2, missing_days="zero")
    assert found.values["rmse"] == 1.5  # (0 + root(36 / 4)) / 2
    assert not found.by_weekday.rows
    assert report.evaluate_flows(one, true, num_cells=2, missing_days="skip").values["rmse"] == 0


WRONG = [
    ("20240201\t{'35_30': {'35_30': nan}}", "got nan for the pair (30, 35, 30, 35)"),
    ("20240201\t{'35_30': {'35_30': -1}}", "got -1 for the pair (30, 35, 30, 35) on day 20240201"),
    ("20240201\t{'35_30': {'35_30': 1}", "line 1 of"),
    ("20240201\t{'35': {'35_30': 1}}", "must be a day, a tab and {origin"),
    ("20240201\t{'35_101': {'35_30': 1}}", "cells y_x from 1_1 to 70_100, or -1_-1, got 35_101"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_file_of_the_challenge_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    """NaN and negative counts name day and pair, and a broken line its file."""
    path, right = tmp_path / "a.tsv", tmp_path / "b.tsv"
    path.write_text(text, "utf-8")
    right.write_text(
        "20240201\t{'35_30': {'35_30': 1, '35_31': 2}, '-1_-1': {'35_30': 4}}", "utf-8"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        report.evaluate_flows(path, right, year=2026)


def test_a_day_that_is_no_date(tmp_path: Path) -> None:
    """Dates are YYYYMMDD, also as text; another day is an error that names the row."""
    for number, day in enumerate(("2024-02-01", "20240202", "Monday")):
        text = f"day,origin,destination,count\n2024-02-03,a,b,1\n{day},a,b,3\n"
        (tmp_path / f"{number}.csv").write_text(text, "utf-8")
    files = [tmp_path / f"{number}.csv" for number in range(3)]
    found = report.evaluate_flows(files[:1], files[:1])
    assert [row[0] for row in found.by_day.rows] == ["20240201", "20240203"]
    with pytest.raises(ValueError, match=r"`day` must be dates .*'Monday' in line 3, row 1 of .*2"):
        report.evaluate_flows(files, files)


def test_the_command_line(tmp_path: Path) -> None:
    """Text, JSON and a page, for a challenge, cells and a box."""
    tables = [rows(1), rows(2)]
    humob = [str(write_humob(x, tmp_path / f"{n}.tsv")) for n, x in enumerate(tables)]
    run = CliRunner()
    found = run.invoke(main, ["flows", *humob, "--year", "2026", "--format", "json"])
    assert found.exit_code == 0, found.output
    read = json.loads(found.output)
    assert read["combined_nrmse"]["value"] == pytest.approx(challenge(*tables)["combined_nrmse"])
    assert read["nrmse_others"]["low"] <= read["nrmse_others"]["value"]
    page = tmp_path / "page.html"
    box = ["--box", "28", "33", "33", "38", "--missing-days", "zero"]
    found = run.invoke(main, ["flows", *humob, *box, "--out", str(page)])
    assert found.exit_code == 0, found.output
    assert "By day" in page.read_text("utf-8")
    found = run.invoke(main, ["flows", *humob])
    assert found.exit_code == 1
    assert "or `ox`, `oy`, `dx` and `dy` with a `--box`" in found.output


def test_zones_on_the_command_line(tmp_path: Path) -> None:
    """Names of zones, also numbers in one file and text in the other, and a file of all zones."""
    true = "day,origin,destination,count\n0,36001,36001,100\n0,36001,36005,10\n"
    predicted = "day,origin,destination,count\n0,36001,36001,110\n0,36001,B 7,20\n"
    paths = [str(tmp_path / x) for x in ("predicted.csv", "true.csv", "zones.txt")]
    for path, text in zip(paths, (predicted, true, "36005\nB 7\n36001\nD\n"), strict=True):
        Path(path).write_text(text, "utf-8")
    squares = 10**2 + 20**2 + 10**2
    for options, cells in (([], 3), (["--zones", paths[2]], 4)):
        found = CliRunner().invoke(main, ["flows", *paths[:2], *options, "--format", "json"])
        assert found.exit_code == 0, found.output
        value = json.loads(found.output)["rmse"]["value"]
        assert value == pytest.approx(math.sqrt(squares / cells**2))
    found = CliRunner().invoke(main, ["flows", *paths[:2]])
    assert "those that occur on either side" in found.output
    parquet = pd.read_csv(paths[1])
    parquet.to_parquet(tmp_path / "true.parquet")
    again = report.evaluate_flows(paths[0], tmp_path / "true.parquet")
    assert again.values["rmse"] == pytest.approx(math.sqrt(squares / 9))


def test_matrices_and_repeated_days_are_named(tmp_path: Path) -> None:
    """An array is for `from_matrices`, and a day of the challenge has one line."""
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    found = CliRunner().invoke(main, ["flows", *[str(tmp_path / "a.npy")] * 2])
    assert found.exit_code == 1
    assert "`FlowPairs.from_matrices(numpy.load(...)" in found.output
    twice = tmp_path / "twice.tsv"
    twice.write_text("20240201\t{'35_30': {'35_30': 1}}\n" * 2, "utf-8")
    with pytest.raises(ValueError, match=r"line 2 of .*: day 20240201 is already in line 1"):
        report.evaluate_flows(twice, twice, year=2026)


@pytest.mark.engines
def test_rows_of_a_cluster_are_collected() -> None:
    """Dask has the values of the frames."""
    frame = pytest.importorskip("dask.dataframe")
    tables = [rows(1), rows(2)]
    parts = [frame.from_pandas(x, npartitions=3) for x in tables]
    found = report.evaluate_flows(*parts, year=2026)
    assert found.values == report.evaluate_flows(*tables, year=2026).values
