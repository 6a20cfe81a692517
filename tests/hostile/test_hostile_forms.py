"""Predictions and truth in two tables, in every container and order of rows: as by plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from nextloc_metrics.report import Source, evaluate
from table_calls import evaluate_table

Rows = dict[str, list[Any]]


def write_csv(rows: Rows, path: Path) -> Any:
    """Write lists as JSON in cells."""
    text = {x: [json.dumps(v) if isinstance(v, list) else v for v in y] for x, y in rows.items()}
    pd.DataFrame(text).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def write_lines(rows: Rows, path: Path) -> Any:
    """Write an object per row."""
    records = [dict(zip(rows, cells, strict=True)) for cells in zip(*rows.values(), strict=True)]
    path.with_suffix(".jsonl").write_text("".join(json.dumps(x) + "\n" for x in records), "utf-8")
    return path.with_suffix(".jsonl")


def write_parquet(rows: Rows, path: Path) -> Any:
    """Write columns."""
    pd.DataFrame(rows).to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


CONTAINERS: dict[str, Callable[[Rows, Path], Any]] = {
    "csv": write_csv,
    "jsonl": write_lines,
    "parquet": write_parquet,
    "pandas": lambda rows, _: pd.DataFrame(rows),
    "polars": lambda rows, _: pl.DataFrame(rows),
    "arrow": lambda rows, _: pa.table(rows),
}
EVERY = pytest.mark.parametrize("container", CONTAINERS)


@EVERY
def test_wide_columns_are_the_lists_they_stand_for(container: str, tmp_path: Path) -> None:
    """A column per rank, the tenth behind the second, in any order; the last may be empty."""
    rows = {"pred_10": ["d", "a", None], "target": ["b", "c", "d"], "pred_1": ["a", "b", "e"]}
    rows |= {"g": ["x", "y", "x"], "pred_2": ["b", "e", "d"]}
    source = CONTAINERS[container](rows, tmp_path / "wide")
    found = evaluate(Source(source, preds="pred_*"), groups=["g"], k=[1, 3])
    assert found.values["mrr"] == pytest.approx((1 / 2 + 0 + 1 / 2) / 3)
    assert found.values["acc_at_3"] == pytest.approx(2 / 3)
    mrr = {x["group"]: x["value"] for x in found.group_records() if x["metric"] == "mrr"}
    assert mrr == {"x": 0.5, "y": 0}
    numbers = {"pred_10": [4, 1], "pred_1": [1, 2], "pred_2": [2, 3], "target": [4, 9]}
    source = CONTAINERS[container](numbers, tmp_path / "numbers")
    assert evaluate(Source(source, preds="pred_*"), k=[1, 3]).values["mrr"] == pytest.approx(1 / 6)


ITEMS = {"user": [1, 1, 2], "item": [7, 3, 5], "score": [0.9, 0.5, 0.1], "rank": [1, 2, 1]}
TRUTH = {"user": [1, 2], "item": [3, 7], "grade": [1, 2]}


def refused(match: str, items: Rows, truth: Rows, tmp_path: Path, by: str = "score") -> None:
    """Check the error of rows that cannot be joined, from files of CSV and of Parquet."""
    for write in (write_csv, write_parquet):
        paths = write(items, tmp_path / "items"), write(truth, tmp_path / "truth")
        names: Any = {"query": "user", "item": "item", "grade": "grade", by: by}
        with pytest.raises(ValueError, match=match):
            evaluate_table(paths[0], truth=paths[1], **names)


@pytest.mark.parametrize(
    ("match", "change", "by"),
    [
        (r"row 2 of .*items.* a value in `user`, got (None|'')", {"user": [1, 1, None]}, "score"),
        (r"row 1 of .*items.* another rank in `rank`.* got 1 again", {"rank": [1, 1, 1]}, "rank"),
        (r"row 0 of .*items.* whole", {"rank": [1.5, 2.5, 1.0]}, "rank"),
        (
            r"row [01] of .*items.* a number in `score`, got '[1x]'",
            {"score": ["1", "x", "2"]},
            "score",
        ),
        (r"got none in \('user',\): '?8'? in .*items.* and '?1'? in", {"user": [8, 9, 9]}, "score"),
        (r"row 2 of .*items.* a value in `item`", {"item": ["a", "b", None]}, "score"),
    ],
)
def test_wrong_items_are_refused(match: str, change: Rows, by: str, tmp_path: Path) -> None:
    """An item that no rule can place is an error with file, row and value."""
    refused(match, ITEMS | change, TRUTH, tmp_path, by)


def test_text_is_not_compared_with_numbers() -> None:
    """Keys that are text in one table and numbers in the other are refused with both."""
    items = pd.DataFrame(ITEMS)
    with pytest.raises(ValueError, match=r"got text such as '1' in `user`.* integers such as 1"):
        evaluate(
            Source(
                items.assign(user=items.user.astype(str)),
                truth=pd.DataFrame(TRUTH),
                query="user",
                item="item",
                score="score",
            )
        )


def test_one_item_has_one_grade(tmp_path: Path) -> None:
    """Two grades of one item of a query are refused."""
    truth = {"user": [1, 1], "item": [3, 3], "grade": [1, 2]}
    refused(r"row 1 of .*truth.* one grade in `grade`.* got another for", ITEMS, truth, tmp_path)


def test_ranks_keep_their_gaps() -> None:
    """Rank 3 without a rank 2 is rank 3, and an item twice does not move the others."""
    items = pd.DataFrame(
        {"user": [1, 1, 2, 2, 2], "item": [5, 3, 1, 1, 7], "rank": [1, 3, 1, 2, 3]}
    )
    found = evaluate(
        Source(items, truth=pd.DataFrame(TRUTH), query="user", item="item", rank="rank"), k=[1, 3]
    )
    assert found.values["mrr"] == pytest.approx(1 / 3)
    assert found.card["repeated_items"] == 1
    assert found.card["ranks_from_1"] == 2


def test_scores_that_are_no_number_are_not_retrieved() -> None:
    """NaN is not the best score, and large integers are not compared as floats."""
    items = pd.DataFrame({"user": [1, 1, 2, 2], "item": [5, 3, 1, 7]})
    for scores, expected in (
        ([float("nan"), 0.5, 0.1, float("nan")], 0.5),
        ([2**53, 2**53 + 1, 2**53 + 1, 2**53], 0.75),
        ([2**53, 2**53 + 1, 2**53, 2**53 + 1], 1),
    ):
        found = evaluate(
            Source(
                items.assign(score=scores),
                truth=pd.DataFrame(TRUTH),
                query="user",
                item="item",
                score="score",
            ),
            k=1,
        )
        assert found.values["mrr"] == pytest.approx(expected)


@EVERY
def test_a_missing_query_of_scores_is_a_miss(container: str, tmp_path: Path) -> None:
    """Scores by key, where a query without a row has no candidate that is retrieved."""
    scores = {"user": [2, 1], "preds": [[0.1, 0.9, 0.5], [0.7, 0.2, 0.3]]}
    truth = {"user": [1, 2, 3], "target": [0, 2, 1]}
    write = CONTAINERS[container]
    files = write(scores, tmp_path / "scores"), write(truth, tmp_path / "truth")
    found = evaluate(Source(files[0], truth=files[1], query="user"), k=1)
    assert found.values["mrr"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert found.card["missing"] == 1
