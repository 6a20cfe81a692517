"""The law for tables of points: generated mobility, and predicted days."""

from __future__ import annotations

import contextlib
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_law import attempt, contents, law
from hostile_plain import RefusedError
from hostile_points import (
    DIRTS,
    Days,
    Mobility,
    Points,
    compare,
    compare_days,
    days,
    predicted,
)
from hypothesis import strategies as st

from nextloc_metrics import report

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")


def of_days(dirty: bool) -> st.SearchStrategy[tuple[Points, Points]]:
    """Draw two tables of points, of which the first may be broken."""
    broken = st.sampled_from(["empty", "apart", *DIRTS]).flatmap(days)
    return st.tuples(broken if dirty else days(""), days(""))


def of_predictions(dirty: bool) -> st.SearchStrategy[tuple[Points, Points]]:
    """Draw predicted and true days, of which one table may be broken."""
    broken = st.sampled_from(["repeated", "missing", "empty", *DIRTS]).flatmap(predicted)
    return broken if dirty else predicted("")


def write(folder: Path, name: str, table: Points) -> list[Path]:
    """Write the files of a table to a folder of their own."""
    (folder / name).mkdir()
    paths = [folder / name / file for file, _ in table.files]
    for path, (_, data) in zip(paths, table.files, strict=True):
        path.write_bytes(data)
    return paths


@law(8, lambda dirty: (of_days(dirty), st.booleans()))
def test_mobility(tables: tuple[Points, Points], swapped: bool) -> bool:
    """Tables of real and generated points are compared as they are, or one is refused."""
    real, made = tables[::-1] if swapped else tables
    expected = None
    with contextlib.suppress(RefusedError):
        expected = compare(real, made)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [write(folder, x, y) for x, y in (("real", real), ("made", made))]
        before = contents(folder)
        found = attempt(lambda: report.evaluate_mobility(*paths[::-1], location="place"))
        assert contents(folder) == before
    dirt = real.dirt or made.dirt
    if isinstance(found, Exception):
        assert dirt or expected is None, f"clean tables are refused: {found}"
        assert "part " in str(found) or "`" in str(found), found
        return False
    assert expected is not None, f"{dirt}: was read, and must be refused"
    card, values = found.card, found.values
    read = Mobility(
        (card["real_points"], card["generated_points"]),
        (card["real_trajectories"], card["generated_trajectories"]),
        values["daily_locations"],
        values["flows"],
    )
    assert (read.points, read.trajectories) == (expected.points, expected.trajectories), dirt
    assert equal(read.daily_locations, expected.daily_locations), dirt
    assert equal(read.flows, expected.flows), dirt
    return True


def equal(first: float, other: float) -> bool:
    """Whether two values are the same up to float32, or both NaN."""
    return math.isclose(first, other, abs_tol=1e-5) or (math.isnan(first) and math.isnan(other))


@law(8, lambda dirty: (of_predictions(dirty), st.booleans()))
def test_trajectories(tables: tuple[Points, Points], counts: bool) -> bool:
    """Tables of predicted and true days are joined as they are, or one is refused."""
    expected = None
    with contextlib.suppress(RefusedError):
        expected = compare_days(*tables, counts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [write(folder, str(i), table)[0] for i, table in enumerate(tables)]
        how: Any = "count" if counts else "raise"
        found = attempt(lambda: report.evaluate_trajectories(*paths, on_missing=how))
    dirt = tables[0].dirt or tables[1].dirt
    if isinstance(found, Exception):
        assert dirt, f"clean tables are refused: {found}"
        assert ".csv" in str(found) or "`" in str(found), found
        return False
    assert expected is not None, f"{dirt}: was read, and must be refused"
    numbers = [found.card[x] for x in ("users", "days", "points")]
    numbers += [found.card[f"{x} rows"] for x in ("missing", "extra", "repeated")]
    read = Days(*numbers, found.values.get("mean_point_error", math.nan))
    assert replace(read, mean_point_error=0.0) == replace(expected, mean_point_error=0.0), dirt
    assert equal(read.mean_point_error, expected.mean_point_error), dirt
    return True
