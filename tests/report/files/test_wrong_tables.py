"""What is no table, or no list of ids, is named as what it is, with the way to make it one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from doors import check_read, check_refused, evaluated, run

from nextloc_metrics import report

LISTS: dict[str, Any] = {"preds": [[5, 3], [7, 5]], "target": [5, 5]}
TRUTH: dict[str, Any] = {"user": [1, 2], "target": [5, 5]}
JOINED: dict[str, Any] = {"user": [1, 2], "preds": [[5, 3], [7, 5]]}
SCORED: dict[str, Any] = {"user": [1, 1, 2], "item": [5, 3, 7], "score": [0.9, 0.5, 0.4]}
KEY: dict[str, Any] = {"query": "user"}
ITEMS: dict[str, Any] = {**KEY, "item": "item", "score": "score"}

#: what pandas and Python write of columns that are no records
ORIENTS = ["columns", "index", "split", "table"]
RECORDS = r'must hold records.*JSON of .*`DataFrame\.to_json\(path, orient="records"\)`.*list of'


def write_json(columns: dict[str, Any], form: str, path: Path) -> Path:
    """Write columns as JSON of one form, on one line."""
    frame = pd.DataFrame(columns)
    path.write_text(json.dumps(columns) if form == "lists" else frame.to_json(orient=form), "utf-8")
    return path


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".json.gz"])
@pytest.mark.parametrize("form", ["lists", *ORIENTS])
def test_json_of_columns_is_no_table(form: str, suffix: str, tmp_path: Path) -> None:
    """As `json.dump` and `DataFrame.to_json` write columns; records of pandas are read."""
    path = write_json(LISTS, form, tmp_path / f"a{suffix}")
    if suffix.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    check_refused(path, RECORDS)
    shown = run("score", str(path), "--k", "1")
    assert (shown.exit_code, "JSON of" in shown.stderr) == (1, True)
    pd.DataFrame(LISTS).to_json(tmp_path / "b.json", orient="records")
    check_read(tmp_path / "b.json", LISTS["preds"], LISTS["target"])


@pytest.mark.parametrize("form", ["lists", *ORIENTS])
@pytest.mark.parametrize(("rows", "named"), [(JOINED, KEY), (SCORED, ITEMS)])
def test_json_of_columns_is_no_part_of_two_tables(
    rows: dict[str, Any], named: dict[str, Any], form: str, tmp_path: Path
) -> None:
    """Neither predictions nor truth, alone or both."""
    found, truth = (
        write_json(x, form, tmp_path / f"{name}.json")
        for name, x in (("rows", rows), ("truth", TRUTH))
    )
    check_refused(found, r"rows\.json", RECORDS, truth=truth, **named)
    frames = pd.DataFrame(rows), pd.DataFrame(TRUTH)
    for given, other, name in ((found, frames[1], "rows"), (frames[0], truth, "truth")):
        with pytest.raises(ValueError, match=rf"{name}\.json {RECORDS}"):
            evaluated(given, truth=other, **named)
    assert evaluated(frames[0], truth=frames[1], **named).values["acc_at_1"] == 0.5


@pytest.mark.parametrize("answer", [[5, 3], ["Cafe", "Zoo"]])
def test_a_record_of_lists_is_a_record(answer: list[Any], tmp_path: Path) -> None:
    """A list of ids with as many targets, in one file and in several."""
    for name in ("1.json", "2.json"):
        record = json.dumps({"preds": answer, "target": answer[::-1]})
        (tmp_path / name).write_text(record, "utf-8")
    check_read(tmp_path / "1.json", [answer], [answer[::-1]])
    check_read(tmp_path, [answer] * 2, [answer[::-1]] * 2)


def test_columns_and_records_in_memory() -> None:
    """Each is refused with the call that makes a frame of it; a frame of arrays there is none."""
    frame, says = pd.DataFrame(LISTS), r"`rows` must be a table.* pass `pandas\.DataFrame\(rows\)`"
    for rows in (LISTS, frame.to_dict(), frame.to_dict("records"), {**LISTS, "user": ["a", "b"]}):
        with pytest.raises(TypeError, match=says):
            report.evaluate(rows, k=1)
        assert report.evaluate(pd.DataFrame(rows), k=1).values["acc_at_1"] == 0.5
    for kind in (np.array, torch.tensor):
        arrays = {name: kind(x) for name, x in LISTS.items()}
        with pytest.raises(TypeError, match=r"pass its arrays, `rows\['preds'\]` and"):
            report.evaluate(arrays, k=1)
        assert report.evaluate(arrays["preds"], arrays["target"], k=1).values["acc_at_1"] == 0.5
    with pytest.raises(
        TypeError, match=r"`truth` must be given .*None.*`pandas\.DataFrame\(rows\)`"
    ):
        report.evaluate({"found": [[5]], "target": [5]}, k=1)


@pytest.mark.parametrize(("rows", "named"), [(JOINED, KEY), (SCORED, ITEMS)])
def test_two_tables_in_memory(rows: dict[str, Any], named: dict[str, Any]) -> None:
    """The argument that is no table is named, also where both are none."""
    frames = pd.DataFrame(rows), pd.DataFrame(TRUTH)
    for orient in ("list", "dict", "records"):
        given, other = (x.to_dict(orient) for x in frames)
        for found, truth, name in (
            (given, other, "rows"), (given, frames[1], "rows"), (frames[0], other, "truth"),
        ):  # fmt: skip
            says = rf"`{name}` must be a table.* pass `pandas\.DataFrame\({name}\)`"
            with pytest.raises(TypeError, match=says):
                report.evaluate(found, truth=truth, **named, k=1)


@pytest.mark.parametrize(
    "truth", [{1: [5], 2: [5]}, {1: 5, 2: 5}, {1: {5}, 2: {5}}, [(1, 5), (2, 5)]]
)
def test_a_truth_beside_a_table_is_one(truth: Any) -> None:
    """The error has the call that makes a frame of it, which is read."""
    rows = pd.DataFrame(SCORED)
    with pytest.raises(TypeError, match=r"`truth` must be a table where `rows` is one") as error:
        report.evaluate(rows, truth=truth, **ITEMS, k=1)
    (call,) = [x for x in str(error.value).split("`") if x.startswith("pandas.DataFrame")]
    frame = eval(call, {"pandas": pd, "truth": truth})
    found = report.evaluate(rows, truth=frame, **ITEMS, k=1)
    assert next(found.values[x] for x in ("acc_at_1", "recall_at_1") if x in found.values) == 0.5
