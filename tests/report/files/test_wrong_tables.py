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
from table_forms import check_read, check_refused, evaluated, run, table_in_form

from nextloc_metrics import report
from table_calls import evaluate_table

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
    frame = pd.DataFrame(LISTS)
    says = r"`{0}` must be a table.* pass `pandas\.DataFrame\({0}\)`"
    for rows in (LISTS, frame.to_dict(), frame.to_dict("records"), {**LISTS, "user": ["a", "b"]}):
        name = "preds" if isinstance(rows, list) else "rows"
        with pytest.raises(TypeError, match=says.format(name)):
            report.evaluate(rows, k=1)
        with pytest.raises(TypeError, match=says.format("rows")):
            report.evaluate(report.Source(rows), k=1)
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
                evaluate_table(found, truth=truth, **named, k=1)


@pytest.mark.parametrize(
    "truth", [{1: [5], 2: [5]}, {1: 5, 2: 5}, {1: {5}, 2: {5}}, [(1, 5), (2, 5)]]
)
def test_a_truth_beside_a_table_is_one(truth: Any) -> None:
    """The error has the call that makes a frame of it, which is read."""
    rows = pd.DataFrame(SCORED)
    with pytest.raises(TypeError, match=r"`truth` must be a table where `rows` is one") as error:
        evaluate_table(rows, truth=truth, **ITEMS, k=1)
    (call,) = [x for x in str(error.value).split("`") if x.startswith("pandas.DataFrame")]
    frame = eval(call, {"pandas": pd, "truth": truth})
    found = evaluate_table(rows, truth=frame, **ITEMS, k=1)
    assert next(found.values[x] for x in ("acc_at_1", "recall_at_1") if x in found.values) == 0.5


# Lists of what is no id -------------------------------------------------------------------------

WRONG: dict[str, tuple[list[Any], str]] = {
    "objects": ([{"item": 5, "est": 0.5}, {"item": 3, "est": 0.2}], "objects"),
    "pairs": ([(5, 0.5), (3, 0.2)], "pairs"),
    "pairs of text": ([("5", 0.5), ("3", 0.2)], "pairs"),
    "pairs as lists": ([[5, 0.5], [3, 0.2]], "pairs"),
    "lists": ([[5, 3], [4, 2]], "lists"),
}


#: forms that Arrow writes have no column of text and numbers
FORMS_OF = {x: ["pandas", ".csv", ".jsonl", "two", "dict", "polars", ".parquet"] for x in WRONG}
FORMS_OF["pairs of text"] = FORMS_OF["pairs of text"][:5]


@pytest.mark.parametrize(("wrong", "form"), [(x, form) for x in WRONG for form in FORMS_OF[x]])
def test_items_that_are_no_ids_are_named(wrong: str, form: str, tmp_path: Path) -> None:
    """With the remedy, in every form that can hold them."""
    items, what = WRONG[wrong]
    says = rf"the items are {what}, not ids; .*the ids alone and best first"
    if form == "dict":
        with pytest.raises(ValueError, match=says):
            report.evaluate(report.Source({1: items}, truth={1: [5]}), k=1)
        return
    frame = pd.DataFrame({"user": [1, 2], "preds": [items, items], "target": [5, 5]})
    if form == "two":
        truth = frame[["user", "target"]]
        with pytest.raises(ValueError, match=says):
            report.evaluate(report.Source(frame[["user", "preds"]], truth=truth, query="user"), k=1)
        return
    rows: Any = frame
    if form == ".csv":
        rows = tmp_path / "a.csv"
        frame.to_csv(rows, index=False)
    elif form == ".jsonl":
        rows = tmp_path / "a.jsonl"
        frame.to_json(rows, orient="records", lines=True)
    elif form != "pandas":
        rows = table_in_form(frame.to_dict("list"), form, tmp_path)
    check_refused(rows, says)


def test_a_row_per_item_is_named_by_its_columns(tmp_path: Path) -> None:
    """As Surprise, LensKit, RecBole and RecTools call them; another name is proposed as before."""
    for columns, item, order in (
        ("userID,itemID,rating,prediction", "itemID", "score='prediction'"),
        ("uid,iid,r_ui,est", "iid", "score='est'"),
        ("user_id:token,item_id:token,score:float", "item_id:token", "score='score:float'"),
        ("user,item,probability", "item", "score='probability'"),
        ("user,item_id,rating", "item_id", "score='rating'"),
        ("user,Item,position", "Item", "rank='position'"),
    ):
        path = tmp_path / "a.csv"
        path.write_text(f"{columns}\n" + ",".join("5" for _ in columns.split(",")) + "\n", "utf-8")
        says = rf"if a row is one item, name `truth`, `query`, `item='{item}'` and `{order}`"
        check_refused(path, "'preds'", says)
    frame = pd.DataFrame({"user": [1], "item": [5], "score": [1], "pred": [[5]]})
    check_refused(frame, "did you mean 'pred'")
    check_refused(pd.DataFrame({"user": [1], "found": [[5]]}), r"got \['user', 'found'\]\.$")


def test_a_sparse_matrix_is_made_dense() -> None:
    """With targets and without."""
    matrix = pytest.importorskip("scipy.sparse").csr_matrix(np.eye(3))
    for target in ([0, 1, 2], None):
        with pytest.raises(TypeError, match=r"use `preds\.toarray\(\)`"):
            report.evaluate(matrix, target, k=1)
    with pytest.raises(TypeError, match=r"`rows` must be a path, .* a table .* got csr_matrix"):
        report.evaluate(report.Source(matrix), k=1)


# Zeros in front of ids ---------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [" ", ","])
@pytest.mark.parametrize("form", ["frame", ".csv", "two frames", "two files"])
def test_ids_that_lost_their_zeros_are_read_again_as_text(
    form: str, separator: str, tmp_path: Path
) -> None:
    """Beside integers, no separator is proposed that was given; as text, the ids are read."""
    cells, ids = [separator.join(["0568", "0111"])] * 2, ["0568", "0111"]

    def found(target: list[Any]) -> Any:
        tables: Any = [pd.DataFrame({"user": [1, 2], "preds": cells, "target": target})]
        options: dict[str, Any] = {"answers": {"separator": separator}, "k": 1}
        if form.startswith("two"):
            tables = [tables[0][["user", "preds"]], tables[0][["user", "target"]]]
            options["query"] = "user"
        if form in (".csv", "two files"):
            for i, table in enumerate(tables):
                table.to_csv(tmp_path / f"{i}.csv", index=False)
                tables[i] = tmp_path / f"{i}.csv"
        return evaluate_table(tables[0], truth=tables[1] if tables[1:] else None, **options)

    says = r"zeros in front.*`pandas.read_csv\(path, dtype=str\)`"
    with pytest.raises(ValueError, match=says) as error:
        found([568, 111])
    assert "separator" not in str(error.value)
    assert found(ids).values["acc_at_1"] == 0.5


@pytest.mark.parametrize(("cell", "target"), [("['0568']", 568), ('["0568", "0111"]', 568)])
def test_lists_of_text_beside_integers(cell: str, target: int, tmp_path: Path) -> None:
    """The same is said of lists in text."""
    frame = pd.DataFrame({"preds": [cell], "target": [target]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    check_refused(tmp_path / "a.csv", "zeros in front", at=0)


@pytest.mark.parametrize(("cell", "target"), [(["0568"], 568), ([568], "0568"), ("0568", 568)])
def test_text_beside_integers_in_typed_columns(cell: Any, target: Any) -> None:
    """Both are to be text, or both integers; nothing is said of floats."""
    with pytest.raises(ValueError, match=r"both as text.*`dtype=str`.*both as integers") as error:
        report.evaluate(pd.DataFrame({"preds": [cell], "target": [target]}), k=1)
    assert "float" not in str(error.value)
