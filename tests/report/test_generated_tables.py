"""Generated mobility in several files, and on Dask: the bits of one table."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from nextloc_metrics import report
from nextloc_metrics.geography import Locations
from nextloc_metrics.mobility.generated import mobility_metrics
from nextloc_metrics.report.engines.partition import bucket_of
from nextloc_metrics.report.files import csv_rows, sources
from points_of_users import COLUMNS, mixed, points, shown

KINDS: dict[str, Any] = {
    "ids": COLUMNS,
    "coordinates": {**COLUMNS, "location": None},
    "without users": {**COLUMNS, "location": None, "user": None},
    "without times": {**COLUMNS, "time": None},
}


@cache
def expected_of(kind: str = "ids") -> dict[str, Any]:
    """All numbers of two frames."""
    return shown(report.evaluate_mobility(points(2), points(1), **KINDS[kind]))


def cut(frame: pd.DataFrame, folder: Path, suffix: str, seed: int) -> Path:
    """Write rows to files that end within a trajectory, which then goes on behind an empty one."""
    folder.mkdir()
    bounds = np.sort(np.random.RandomState(seed).randint(0, len(frame), 5))
    bounds = [0, 0, *np.repeat(bounds, [1, 2, 1, 1, 1]).tolist(), len(frame)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        rows, path = frame[start:end], folder / f"{number}.{suffix}"
        if suffix == "parquet":
            rows.to_parquet(path)
        elif suffix == "csv":
            rows.to_csv(path, index=False)
        else:
            rows.to_json(path, orient="records", lines=True, double_precision=15)
    if suffix == "parquet":  # no row, and no types of rows
        frame[:0].astype(float).to_parquet(folder / "00.parquet")
    else:
        (folder / f"00.{suffix}").touch()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "suffix"), list(zip(KINDS, ["csv", "parquet", "jsonl", "csv"], strict=True))
)
def test_files_do_not_change_a_bit(
    kind: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, floors and counts of frames are those of files cut anywhere."""
    expected = expected_of(kind)
    monkeypatch.setattr(csv_rows, "_BLOCK", 2000)
    monkeypatch.setattr(sources, "_VALUES", 50)
    real = cut(points(1), tmp_path / "real", suffix, 5)
    made = cut(points(2), tmp_path / "made", suffix, 6)
    assert shown(report.evaluate_mobility(made, real, **KINDS[kind])) == expected


def test_tallies_add_up() -> None:
    """A collection that has computed adds the counts of another one."""
    rows = [[1, 2, 1], [3, 3, 2**63 - 1], [0, 2, 2], [1, 0, 3]]
    whole, first, other = (mobility_metrics("ids") for _ in range(3))
    whole.update(rows[::-1], rows)
    first.update(rows[:1], rows[:3])
    first.compute()
    other.update(rows[1:], rows[3:])
    first.add(other.tallies())
    empty = mobility_metrics("ids")
    empty.add(whole.tallies())
    assert empty.compute() == whole.compute()  # without a warning of no update
    assert first.compute() == whole.compute()
    assert int(whole.tallies()["flows"][-1, 2]) == 2**63 - 1
    with pytest.raises(ValueError, match="`tallies` must be of the measures"):
        first.add({})
    wrong = {**other.tallies(), "flows": torch.zeros(2, 3, dtype=torch.int64)}
    with pytest.raises(ValueError, match=r"`tally` must be a state of Flows"):
        first.add(wrong)
    assert first.compute() == whole.compute()


@pytest.mark.parametrize(
    ("files", "again", "file", "row"),
    [
        ("ab bc cd da", "a", 3, 1),
        ("ab c b d", "b", 2, 0),
        ("abcd efg hbi j", "b", 2, 1),
        ("ab c dca e", "c", 2, 1),
        ("abac d aef", "a", 0, 2),
    ],
)
def test_a_trajectory_that_comes_again(
    files: str, again: str, file: int, row: int, tmp_path: Path
) -> None:
    """Rows with others between them are an error that names trajectory, file and row."""
    for number, names in enumerate(files.split()):
        rows = pd.DataFrame({"trajectory": list(names), "place": 1})
        rows.to_csv(tmp_path / f"{number}.csv", index=False)
    text = rf"'{again}' again after others in line {row + 2}, row {row} of .*{file}\.csv; make"
    with pytest.raises(ValueError, match=rf"must stand together, got trajectory {text}"):
        report.evaluate_mobility(tmp_path, tmp_path, location="place")


@pytest.mark.slow
def test_locations_do_not_depend_on_the_order_of_rows() -> None:
    """Trajectories in another order, and so other first locations, give the same bits."""
    options = {"trajectory": "day", "location": "place"}
    expected = shown(report.evaluate_mobility(points(2), points(1), **options))
    frames = []
    for seed in (1, 2):
        days = [rows for _, rows in points(seed).groupby("day")]
        frames.append(pd.concat(days[::-1]))
    assert shown(report.evaluate_mobility(*frames[::-1], **options)) == expected


@pytest.mark.slow
def test_integers_are_the_same_names_as_text(tmp_path: Path) -> None:
    """Users and locations of 19 digits have one floor in CSV, Parquet and as text."""
    frames = [points(1), points(2)]
    for seed, frame in enumerate(frames):
        frame["place"] = 9_100_000_000_000_000_000 + frame["time"] % 7
        frame.to_csv(tmp_path / f"{seed}.csv", index=False)
    expected = shown(report.evaluate_mobility(*frames[::-1], **COLUMNS))
    files = [tmp_path / "0.csv", tmp_path / "1.csv"]
    assert shown(report.evaluate_mobility(*files[::-1], **COLUMNS)) == expected
    for seed, frame in enumerate(frames):  # above 64 bits with a sign
        frame["place"] = frame["place"].astype("uint64") + np.uint64(10**18)
        frame.to_csv(tmp_path / f"{seed}.csv", index=False)
    expected = shown(report.evaluate_mobility(*frames[::-1], **COLUMNS))
    assert shown(report.evaluate_mobility(*files[::-1], **COLUMNS)) == expected


def test_numbers_and_text_in_json_lines(tmp_path: Path) -> None:
    """A column of integers and text is text, and 7 and "7" are one name, in any block."""
    path = tmp_path / "a.jsonl"
    lines = ['{"trajectory": 7, "place": "home"}', '{"trajectory": "7", "place": 3}']
    path.write_text("\n".join(lines), encoding="utf-8")
    found = report.evaluate_mobility(path, path, location="place")
    assert int(found.metrics.measures()["flows"].sizes().sum()) == 2
    path.write_text(
        "\n".join([*lines, '{"trajectory": "b", "place": "x"}', lines[0]]), encoding="utf-8"
    )
    with pytest.raises(ValueError, match=r"must stand together, .*'7' .* line 4, row 3 of"):
        report.evaluate_mobility(path, path, location="place")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("day 1,,5\n", "column `place` must have no missing value, got one in line 2"),
        (",home,5\n", "column `day` must have no missing value"),
        ("day 1,home,\n", "column `time` must have no missing value, got one in line 2"),
        ("day 1,home,noon\n", "column `time` must be numbers or dates, got 'noon' in line 2"),
        ("day 1,home,nan\n", "column `time` must have no missing value"),
        ("day 1,home\n", "must have 3 cells"),
        ('day 1,home,"5\nday 1,home,6\n', "must have a closing quote"),
    ],
)
def test_cells_that_cannot_be_read(rows: str, text: str, tmp_path: Path) -> None:
    """A missing or unreadable cell of the second file is an error that names the file."""
    for name, written in (("a", "day 0,home,4\n"), ("b", rows)):
        (tmp_path / f"{name}.csv").write_text(f"day,place,time\n{written}", encoding="utf-8")
    options = {**COLUMNS, "user": None}
    with pytest.raises(ValueError, match=rf"(?s){text}.*b\.csv|b\.csv {text}"):
        report.evaluate_mobility(points(2), tmp_path, **options)


def test_missing_coordinates_and_ids() -> None:
    """NaN, which is padding of arrays, dates, and ids below 0 are errors in a table."""
    pa = pytest.importorskip("pyarrow")
    rows = {"trajectory": [1, 1], "latitude": [1.0, np.nan], "longitude": [1.0, np.nan]}
    with pytest.raises(ValueError, match=r"column `latitude` must have no missing .* row 1 of"):
        report.evaluate_mobility(pa.table(rows), pa.table(rows))
    rows["latitude"] = pd.to_datetime(["2020-01-01", "2020-01-02"])
    with pytest.raises(ValueError, match=r"column `latitude` must be numbers, got dates in Table"):
        report.evaluate_mobility(pa.table(rows), pa.table(rows))
    halves = pa.table({"trajectory": [0.5, 0.5], "place": [0, 1]})
    with pytest.raises(ValueError, match="`trajectory` must be integers or text, got double"):
        report.evaluate_mobility(halves, halves, location="place")
    below = pa.table({"trajectory": [1, 1], "place": [0, -1]})
    options: Any = {"location": "place", "locations": Locations([1.0], [2.0])}
    with pytest.raises(ValueError, match=r"`place` must be integers from 0 on .*, got -1 in row 1"):
        report.evaluate_mobility(below, below, **options)


def test_times_of_two_kinds(tmp_path: Path) -> None:
    """Dates in one file and numbers in the next are an error."""
    for name, time in (("a", [7]), ("b", pd.to_datetime(["2020-01-01"]))):
        frame = pd.DataFrame({"trajectory": name, "place": 1, "time": time})
        frame.to_parquet(tmp_path / f"{name}.parquet")
    options: Any = {"location": "place", "time": "time", "time_unit": "s"}
    with pytest.raises(ValueError, match=r"`time` must be numbers .* or dates .*, got both in .*b"):
        report.evaluate_mobility(tmp_path, tmp_path, **options)


def on_dask(frame: pd.DataFrame, partitions: int) -> Any:
    """Return a data frame of Dask with columns of objects as they are."""
    dask = pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_pandas(frame, npartitions=partitions, sort=False)


@pytest.fixture
def synchronous() -> Any:
    """Dask's scheduler without threads."""
    with pytest.importorskip("dask").config.set(scheduler="synchronous"):
        yield


@pytest.mark.slow  # runs Dask
@pytest.mark.usefixtures("synchronous")
def test_dask() -> None:
    """Rows in any order, in any partitions, some twice, give the bits of one sorted table."""
    options, expected = KINDS["without users"], expected_of("without users")
    for real, made in (
        (on_dask(mixed(1), 4), on_dask(mixed(2), 1)),
        (points(1), on_dask(mixed(2), 3)),
    ):
        assert shown(report.evaluate_mobility(made, real, **options)) == expected
    frames = [pd.concat([points(seed), points(seed)[::5]]) for seed in (1, 2)]
    frames = [x.sort_values(["day", "time"], ignore_index=True) for x in frames]
    expected = shown(report.evaluate_mobility(*frames[::-1], **COLUMNS))
    frame = on_dask(frames[0].sample(frac=1, random_state=1, ignore_index=True), 4)
    assert shown(report.evaluate_mobility(frames[1], frame, **COLUMNS)) == expected


@pytest.mark.slow  # runs Dask
@pytest.mark.usefixtures("synchronous")
def test_dask_without_rows() -> None:
    """Empty partitions change nothing, and no row in any is a value of NaN."""
    dd = pytest.importorskip("dask.dataframe")
    frame = on_dask(mixed(1), 4)
    with_empty = dd.concat([frame, frame[frame["time"] < 0]], interleave_partitions=True)
    expected = expected_of()
    assert shown(report.evaluate_mobility(points(2), with_empty, **COLUMNS)) == expected
    found = report.evaluate_mobility(points(2), frame[frame["time"] < 0], **COLUMNS)
    assert np.isnan(list(found.values.values())).all()
    assert "there is no real value" in str(found)


def test_buckets_of_names() -> None:
    """Integers have the buckets of their text, which are all in use; missing names have one."""
    pa = pytest.importorskip("pyarrow")
    names = range(-20, 100)
    found = bucket_of(pa.array(names), 7)
    assert found.tolist() == bucket_of(pa.array(map(str, names)), 7).tolist()
    assert set(found.tolist()) == set(range(7))
    assert len(bucket_of(pa.array([1, None]), 7)) == 2


@pytest.mark.slow  # runs Dask
@pytest.mark.usefixtures("synchronous")
@pytest.mark.parametrize(
    ("change", "options", "text"),
    [
        (lambda x: x.drop(columns="place"), {}, r"must have the columns \['place'\]"),
        (lambda x: x.assign(time=x["time"] // 40_000), {}, "`time` must order .* trajectory 'day "),
        (
            lambda x: x.assign(day=x["day"].where(x["time"] > 9000)),
            {},
            "`day` must have no missing",
        ),
        (lambda x: x.assign(day=0.5), {}, "`day` must be integers or text"),
        (lambda x: x, {"time": None}, "`time` must name a column if `real` is a table of"),
        (lambda x: x.assign(day=[0] * 9 + ["0"] * (len(x) - 9)), {}, "Expected bytes, got a 'int'"),
    ],
)
def test_errors_of_dask(change: Any, options: Any, text: str) -> None:
    """A cell that cannot be read, an order that no time tells, and names of two kinds."""
    with pytest.raises((ValueError, TypeError), match=text):
        report.evaluate_mobility(points(2), on_dask(change(mixed(1)), 4), **{**COLUMNS, **options})


def test_a_column_may_have_two_roles() -> None:
    """A trajectory per user, in the column of users."""
    frame = points(1).sort_values(COLUMNS["user"], kind="stable")
    found, expected = (
        report.evaluate_mobility(x, x, **{**COLUMNS, "trajectory": trajectory})
        for x, trajectory in ((frame, COLUMNS["user"]), (frame.assign(each=frame.user), "each"))
    )
    assert shown(found) == shown(expected)
