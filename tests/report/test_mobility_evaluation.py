"""Tables of real and generated trajectories, and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from nextloc_metrics import report
from nextloc_metrics.cli.commands import main
from nextloc_metrics.geography import Locations
from nextloc_metrics.mobility.generated import Trajectories, mobility_metrics
from nextloc_metrics.report.files import csv_rows, sources

LATITUDE, LONGITUDE = np.linspace(40, 41, 20), np.linspace(-74, -73.5, 20) ** 1


def table(seed: int, number: int = 40) -> pd.DataFrame:
    """Points of users' days, sorted by day and time."""
    draw = np.random.RandomState(seed)
    lengths = draw.randint(1, 9, number)
    day = np.repeat(np.arange(number), lengths)
    place = draw.randint(0, 20, len(day)) * draw.randint(0, 2, len(day))
    time = np.concatenate([np.sort(draw.randint(0, 86_400, n)) for n in lengths])
    return pd.DataFrame(
        {
            "trajectory": day,
            "place": place,
            "latitude": LATITUDE[place],
            "longitude": LONGITUDE[place],
            "time": time,
            "user": day % 10,
        }
    )


def sets(by_id: bool) -> tuple[Trajectories, Trajectories]:
    """The same points as records: generated and real."""
    found = []
    for seed in (2, 1):
        frame = table(seed)
        points = frame["place"] if by_id else frame[["latitude", "longitude"]]
        found.append(
            Trajectories.from_columns(
                frame["trajectory"].to_numpy(),
                points.to_numpy(),
                frame["time"].to_numpy(),
                frame["user"].to_numpy() if seed == 1 else None,
                time_unit="s",
            )
        )
    return found[0], found[1]


@pytest.mark.parametrize(
    ("suffix", "by_id"), [("parquet", True), ("csv", False), ("frame", False), ("jsonl", True)]
)
def test_tables_give_the_values_of_records(
    suffix: str, by_id: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files read in small parts, and frames with dates, have the values of whole records."""
    monkeypatch.setattr(csv_rows, "_BLOCK", 512)
    monkeypatch.setattr(sources, "_VALUES", 7)
    given: list[Any] = []
    for seed in (1, 2):
        frame, path = table(seed), tmp_path / f"{seed}.{suffix}"
        if suffix == "parquet":
            frame.to_parquet(path)
        elif suffix == "csv":
            frame.to_csv(path, index=False)
        elif suffix == "jsonl":
            frame.to_json(path, orient="records", lines=True, double_precision=15)
        else:
            frame["time"] = pd.to_datetime(frame["time"], unit="s")
        given.append(frame if suffix == "frame" else path)
    options = {"location": "place", "locations": Locations(LATITUDE, LONGITUDE)} if by_id else {}
    result = report.evaluate_mobility(
        *given[::-1],
        time="time",
        user="user",
        time_unit=None if suffix == "frame" else "s",
        **options,
    )
    expected = mobility_metrics(
        "ids" if by_id else "coordinates", times=True, locations=options.get("locations")
    )
    expected.update(*sets(by_id))
    for name, measure in expected.measures().items():
        found = measure.result()
        assert result.values[name] == pytest.approx(found.value, abs=1e-12), name
        assert result.floors[name] == pytest.approx((*found.floor[:3], ""), abs=1e-12), name
    assert str(result) == str(result.table)
    assert "floor" in result.to_markdown()


@pytest.mark.usefixtures("blank_pictures")
def test_the_command_line(tmp_path: Path) -> None:
    """`nextloc-metrics mobility` prints the table, writes JSON, and a page with every floor."""
    for seed, name in ((1, "real"), (2, "made")):
        table(seed).to_csv(tmp_path / f"{name}.csv", index=False)
    files = [str(tmp_path / "made.csv"), str(tmp_path / "real.csv")]
    options = ["--time", "time", "--user", "user"]
    refused = CliRunner().invoke(main, ["mobility", *files, *options])
    assert refused.exit_code == 1
    assert "`--time-unit` must be one of ('s', 'min', 'h') for a column `time` of numbers in" in (
        refused.output
    )
    printed = CliRunner().invoke(main, ["mobility", *files, *options, "--time-unit", "min"])
    assert printed.exit_code == 0, printed.output
    expected = report.evaluate_mobility(*files, time="time", user="user", time_unit="min")
    assert printed.output.strip() == str(expected)
    written = CliRunner().invoke(main, ["mobility", *files, "--format", "json"])
    found = json.loads(written.output)
    assert all(one["floor"] is not None for one in found.values())
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.html"
    made = CliRunner().invoke(main, ["mobility", *files, "--out", str(page)])
    assert made.exit_code == 0, made.output
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == len(found)
    assert "95 % of random halves" in html
