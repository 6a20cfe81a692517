"""The law for tables of predicted days."""

from __future__ import annotations

import contextlib
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_law import attempt, law
from hostile_plain import RefusedError
from hostile_points import DIRTS, Days, Points, compare_days, predicted
from hypothesis import strategies as st

from nextloc_metrics import report

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")


def of_predictions(dirty: bool) -> st.SearchStrategy[tuple[Points, Points]]:
    """Draw predicted and true days, of which one table may be broken."""
    broken = st.sampled_from(["repeated", "missing", "empty", *DIRTS]).flatmap(predicted)
    return broken if dirty else predicted("")


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
        paths = [Path(name) / file for file in ("preds.csv", "true.csv")]
        for path, table in zip(paths, tables, strict=True):
            path.write_bytes(table.data)
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
