"""The evaluation of predicted days: files, values, users, pictures, the command."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from command import main
from nextloc_metrics import report
from nextloc_metrics.trajectories import DTW, GeoBLEU
from oracles.sequences import distance, geo_bleu, haversine, path
from trajectories.test_trajectory_tables import by_loops, make_tables


def mean_over_users(preds: Any, target: Any, score: Any) -> dict[Any, float]:
    """The mean over days of each user, in plain loops."""
    users: dict[Any, list[float]] = {}
    for (user, _), (_, predicted, true) in by_loops(preds, target).items():
        users.setdefault(user, []).append(score(predicted, true))
    return {user: float(np.mean(days)) for user, days in users.items()}


@pytest.mark.parametrize("year", [2023, 2025])
def test_the_values_are_those_of_plain_loops(year: Any) -> None:
    """The mean over days, then over users; and the errors of slots."""
    preds, target = make_tables(3)
    found = report.evaluate_trajectories(preds, target, year=year)
    old = year == 2023
    n, divisor = (3, "matched") if old else (5, "predicted")
    wanted = {
        "geo_bleu": lambda p, t: geo_bleu(p, t, n, divisor=divisor),
        "dtw": lambda p, t: path(p, t, free_start=old) / 2,
        "mean_point_error": lambda p, t: np.mean([*map(distance, p, t)]),
    }
    for name, score in wanted.items():
        means = mean_over_users(preds, target, score)
        assert found.values[name] == pytest.approx(np.mean([*means.values()]), rel=1e-6)
        low, high = found.intervals[name]
        assert low <= found.values[name] <= high
        records = [record for record in found.user_records() if record["metric"] == name]
        assert {r["user"]: pytest.approx(r["value"], rel=1e-6) for r in records} == means
    errors: dict[int, list[float]] = {}
    for slots, predicted, true in by_loops(preds, target).values():
        for slot, p, t in zip(slots, predicted, true, strict=True):
            errors.setdefault(slot, []).append(distance(p, t))
    assert found.errors == {slot: pytest.approx(np.mean(errors[slot])) for slot in sorted(errors)}
    assert (found.card["users"], found.card["days"]) == (4, 12)
    assert f"HuMob {year}" in str(found)


def test_rows_that_do_not_fit_are_on_the_card() -> None:
    """They are counted; a day without a prediction scores 0, and errors of slots are left out."""
    preds, target = make_tables(3)
    fewer = preds[preds["d"] != 60]
    with pytest.raises(ValueError, match="`preds` must have a row for each row of `target`"):
        report.evaluate_trajectories(fewer, target)
    found = report.evaluate_trajectories(fewer, target, on_missing="count")
    assert found.card["missing rows"] == (target["d"] == 60).sum()
    assert found.errors == {}
    assert (found.scores["geo_bleu"] == 0).sum() == 4
    assert "mean_point_error" not in found.values
    assert torch.isinf(found.scores["dtw"]).sum() == 4
    infinite = report.evaluate_trajectories(
        fewer, target, metrics={"dtw": DTW()}, on_missing="count"
    )
    assert infinite.values == {"dtw": math.inf}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("cell", [(0, 5), (5, 201), (999, 999), (-1, 7)])
def test_a_cell_outside_the_grid_of_a_challenge_is_no_place(
    side: int, cell: tuple[int, int]
) -> None:
    """It is refused with user, day and slot; other units and metrics have other grids."""
    tables = list(make_tables(3))
    row = tables[side].iloc[7]
    tables[side].loc[7, ["x", "y"]] = cell
    key = f"user '{row['uid']}', day {row['d']}, slot {row['t']}"
    name, at = ("preds", "target")[side], [float(x) for x in cell]
    message = re.escape(f"`{name}` must have cells from 1 to 200, got {at} for {key}; ")
    for year in (2023, 2024, 2025):
        for how in ("raise", "count"):
            with pytest.raises(ValueError, match=message):
                report.evaluate_trajectories(*tables, year=year, on_missing=how)
    report.evaluate_trajectories(*tables, metrics={"dtw": DTW()})
    assert report.evaluate_trajectories(*tables, units="km").card["challenge"] is None


@pytest.mark.parametrize("side", [0, 1])
def test_a_row_that_comes_twice_is_refused_in_a_challenge(side: int) -> None:
    """Also where missing rows are counted, as nobody knows which of the two is meant."""
    tables = list(make_tables(3))
    row = tables[side].iloc[7]
    tables[side] = pd.concat([tables[side], tables[side][7:8].assign(x=200, y=200)])
    message = f"got two for user '{row['uid']}', day {row['d']}, slot {row['t']}; drop one"
    with pytest.raises(ValueError, match=message):
        report.evaluate_trajectories(*tables, on_missing="count")
    found = report.evaluate_trajectories(*tables, on_missing="count", metrics={"dtw": DTW()})
    assert found.card["repeated rows"] == 1


def test_files_are_read_by_their_header(tmp_path: Path) -> None:
    """CSV, compressed or not, and Parquet; a file without the names of columns is refused."""
    preds, target = make_tables(3)
    wanted = report.evaluate_trajectories(preds, target).values
    target.to_csv(tmp_path / "true.csv", index=False)
    preds.to_csv(tmp_path / "preds.csv.gz", index=False)
    preds.to_parquet(tmp_path / "preds.parquet")
    for name in ("preds.csv.gz", "preds.parquet"):
        found = report.evaluate_trajectories(tmp_path / name, str(tmp_path / "true.csv"))
        assert found.values == wanted
    preds[["uid", "d", "t"]].to_csv(tmp_path / "short.csv", index=False, header=False)
    with pytest.raises(ValueError, match=r"must have the columns \['uid', 'd', 't', 'x', 'y'\]"):
        report.evaluate_trajectories(tmp_path / "short.csv", target)


def test_files_of_users_as_numbers_and_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers in one file and text in the next are text; CSV of numbers is numbers.

    No file needs pandas.
    """
    day = {"d": [1], "t": [2], "x": [3.0], "y": [4.0]}
    (tmp_path / "days").mkdir()
    for name, user in (("a", 7), ("b", "ann"), ("c", "07")):
        pd.DataFrame({"uid": [user], **day}).to_parquet(tmp_path / "days" / f"{name}.parquet")
    (tmp_path / "text.csv").write_text("uid,d,t,x,y\n7,1,2,3,4\nann,1,2,3,4\n07,1,2,3,4\n", "utf-8")
    (tmp_path / "numbers.csv").write_text("uid,d,t,x,y\n8,1,2,3,4\n7,1,2,3,4\n", "utf-8")
    for name in ("Series", "DataFrame", "concat"):
        monkeypatch.delattr(pd, name)
    for name in ("days", "text.csv"):
        found = report.evaluate_trajectories(tmp_path / name, tmp_path / "text.csv")
        assert found.rows.users == ["07", "7", "ann"]
    numbers = report.evaluate_trajectories(tmp_path / "numbers.csv", tmp_path / "numbers.csv")
    assert numbers.rows.users == [7, 8]


def test_degrees_and_metrics_of_ones_own() -> None:
    """Latitude and longitude give km, as do metres; other metrics replace the usual ones."""
    preds, target = (frame.assign(x=frame["x"] / 100 + 40) for frame in make_tables(3))
    found = report.evaluate_trajectories(preds, target, units="degrees")
    assert "dtw (km)" in str(found.table)
    errors: dict[int, list[float]] = {}
    for slots, predicted, true in by_loops(preds, target).values():
        for slot, p, t in zip(slots, predicted, true, strict=True):
            errors.setdefault(slot, []).append(haversine(p, t))
    assert found.errors == {
        slot: pytest.approx(np.mean(km), rel=1e-9) for slot, km in errors.items()
    }
    assert found.card["challenge"] is None
    in_metres = report.evaluate_trajectories(preds, target, units="m")
    in_cells = report.evaluate_trajectories(preds, target)
    assert in_metres.values["dtw"] == pytest.approx(2 * in_cells.values["dtw"] / 1000)
    assert "dtw (km)" in str(in_metres.table)
    own = {"warped": DTW(), "geo_bleu": GeoBLEU()}
    found = report.evaluate_trajectories(preds, target, metrics=own)
    assert list(found.values) == ["warped", "geo_bleu"]


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    """It prints the table, JSON or a page, and an error without a traceback."""
    preds, target = make_tables(3)
    files = [str(tmp_path / name) for name in ("preds.csv", "true.csv")]
    preds.to_csv(files[0], index=False)
    target.to_csv(files[1], index=False)
    run = CliRunner()
    text = run.invoke(main, ["trajectories", *files])
    assert text.exit_code == 0, text.output
    assert text.output == f"{report.evaluate_trajectories(*files)}\n"
    found = run.invoke(main, ["trajectories", *files, "--year", "2023", "--format", "json"])
    values = report.evaluate_trajectories(*files, year=2023).values
    assert json.loads(found.output)["geo_bleu"]["value"] == values["geo_bleu"]
    page = tmp_path / "page.html"
    assert run.invoke(main, ["trajectories", *files, "--out", str(page)]).exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert run.invoke(main, ["trajectories", *files, "--out", str(page)]).exit_code == 1
    pd.concat([preds, preds[:1]]).to_csv(files[0], index=False)
    failed = run.invoke(main, ["trajectories", *files])
    assert failed.exit_code == 1
    assert "must have one row for each user, day and slot" in failed.output
    failed = run.invoke(main, ["trajectories", *files, "--on-missing", "count"])
    assert "got two for user '" in failed.output
    other = ["--on-missing", "count", "--units", "km"]
    counted = run.invoke(main, ["trajectories", *files, *other])
    assert "repeated rows: 1" in counted.output
