"""Ids of two tables meet as keys, or an error says why they cannot."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_forms import evaluated

from nextloc_metrics import report
from table_calls import read_table

ITEMS: dict[str, Any] = {"query": "u", "item": "item", "score": "s"}
LISTS: dict[str, Any] = {"query": "u"}
SIDES = ("predictions", "targets")


def frames(items: list[Any], target: list[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two items of each of two queries, the first one best, and the truth."""
    rows = {"u": [1, 1, 2, 2], "item": items, "s": [0.9, 0.1, 0.9, 0.1]}
    return pd.DataFrame(rows), pd.DataFrame({"u": [1, 2], "target": target})


def as_files(folder: Path, *tables: pd.DataFrame) -> list[Path]:
    """Write tables to CSV."""
    paths = [folder / f"{i}.csv" for i in range(len(tables))]
    for table, path in zip(tables, paths, strict=True):
        table.to_csv(path, index=False)
    return paths


def test_zeros_in_front_are_no_misses_in_silence(tmp_path: Path) -> None:
    """The item 0030 does not meet the target 30: in CSV, and as text beside integers."""
    rows, truth = frames(["0030", "5", "7", "0030"], [30, 7])
    files = as_files(tmp_path, rows, truth)
    with pytest.raises(ValueError, match=r"line 2, row 0 of .*0\.csv must hold an integer.*'0030'"):
        evaluated(files[0], truth=files[1], **ITEMS)
    with pytest.warns(UserWarning, match="the id '0030', and the targets have 30"):
        found = evaluated(files[0], truth=files[1], **ITEMS, on_error="miss")
    assert (found.values["acc_at_1"], found.values["mrr"]) == (0.5, 0.5)
    with pytest.raises(
        ValueError,
        match=r"both columns must .* got text such as '0030' in `item`.* integers such as 30",
    ):
        evaluated(rows, truth=truth, **ITEMS)
    lists = pd.DataFrame({"u": [1, 2], "preds": [["0030"], ["7"]]})
    with pytest.raises(ValueError, match=r"got text such as its lists in `preds`.* such as 30"):
        evaluated(lists, truth=truth, **LISTS)


@pytest.mark.parametrize("form", ["csv", "frame", "items", "two tables", "several targets"])
@pytest.mark.parametrize("loser", ["predictions", "targets"])
def test_zeros_that_only_some_ids_have_lost_are_warned_of(
    form: str, loser: str, tmp_path: Path
) -> None:
    """Beside names, 1234 is an id as `01234` is: the one may be the other that has lost zeros."""
    kept, lost = ["home", "01234", "0077", "09"], ["home", "1234", "77", "09"]
    for has_lost in (True, False):  # what is on both sides has lost nothing
        other_side = lost if has_lost else ["home", "77", "0077", "09"]
        preds, targets = (other_side if loser == x else kept for x in SIDES)
        rows: Any = pd.DataFrame({"u": range(4), "preds": [[x, "5"] for x in preds]})
        truth: Any = pd.DataFrame({"u": range(4), "target": targets})
        options: dict[str, Any] = {"truth": truth, "query": "u"}
        if form == "items":
            rows = pd.DataFrame({"u": range(4), "item": preds, "rank": 1})
            options |= {"item": "item", "rank": "rank"}
        elif form != "two tables":
            rows["target"], options = truth["target"], {}
        if form == "several targets":
            rows["target"] = [[x, "9"] for x in targets]
        if form == "csv":
            rows.preds = ["[" + ", ".join(repr(y) for y in x) + "]" for x in rows.preds]
            rows = as_files(tmp_path, rows)[0]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values = evaluated(rows, **options).values
        assert values["hit_rate_at_1" if form == "several targets" else "acc_at_1"] == (
            0.5 if has_lost else 0.75
        )
        said = [str(x.message) for x in caught]
        other = next(x for x in SIDES if x != loser)
        rule = f"The {other} have the id '01234', and the {loser} have 1234, another id. If the "
        rule += f"{loser} have lost"
        assert [bool(re.match(rule, x)) for x in said] == [True] * has_lost, said


def test_a_comparison_warns_of_lost_zeros() -> None:
    """It reads the tables of all models first."""
    rows = pd.DataFrame({"preds": [["1234"], ["home"]] * 9, "target": ["01234", "home"] * 9})
    same = rows.assign(preds=[["01234"], ["work"]] * 9)
    with pytest.warns(UserWarning, match="the predictions have 1234, another id") as said:
        report.compare({"lost": report.Source(rows), "kept": report.Source(same)}, k=1)
    assert len(said) == 1


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_zeros_are_paired_over_all_files(workers: int, tmp_path: Path) -> None:
    """In any order, also behind the first rows, and counted in several processes."""
    many = {"preds": [["home"]] * 1000, "target": ["home"] * 1000}
    lost, right = {"preds": [["1234"]], "target": ["home"]}, {"preds": [["7"]], "target": ["01234"]}
    also = {"preds": [["01234"]], "target": ["home"]}
    for parts in ((lost, many, right), (right, many, lost), (lost, right, many, also)):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for number, part in enumerate(parts):
            path = folder / f"{number}.jsonl"
            pd.DataFrame(part).to_json(path, orient="records", lines=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            evaluated(folder, workers=workers)
        expected = ["The targets have the id '01234', and the predictions have 1234"]
        expected *= also not in parts
        assert [str(x.message).split(", another id")[0] for x in caught] == expected


@pytest.mark.parametrize("apart", [False, True])
def test_an_empty_cell_of_csv_is_no_group(apart: bool, tmp_path: Path) -> None:
    """It is missing, as NaN of a frame is: people without an id are not one person."""
    rows = pd.DataFrame({"u": [1, 2, 3], "preds": [["x"], ["y"], ["y"]]})
    truth = pd.DataFrame({"u": [1, 2, 3], "target": ["x"] * 3, "g": ["a", "", ""]})
    joined = rows.merge(truth)
    joined.preds = texts = ["['x']", "['y']", "['y']"]
    files = as_files(tmp_path, joined, truth, rows.assign(preds=texts))
    file, options = (2, {"truth": files[1], "query": "u"}) if apart else (0, {})
    wide = pd.DataFrame({"p_1": ["x", "y"], "p_2": ["z", "z"], "target": "x", "g": ["a", ""]})
    wide.to_csv(tmp_path / "wide.csv", index=False)
    with pytest.raises(ValueError, match=r"row 1 of .*wide\.csv must hold a group in `g`"):
        evaluated(tmp_path / "wide.csv", preds="p_*", groups=["g"])
    with pytest.raises(ValueError, match=rf"row 1 of .*{int(apart)}\.csv must hold a group in `g`"):
        evaluated(files[file], **options, groups=["g"])
    # in a frame, "" is a text as any other, also beside predictions from CSV
    options = {"truth": truth, "query": "u"} if apart else {}
    found = evaluated(files[2] if apart else rows.merge(truth), **options, groups=["g"])
    assert [(x["group"], x["queries"]) for x in found.group_records()[:2]] == [("", 2), ("a", 1)]


def test_positions_in_a_vocabulary_have_lost_no_zeros() -> None:
    """The answer `01` is in no vocabulary, and is not the id at the position 1."""
    rows = pd.DataFrame({"preds": [["b"], ["01"]], "target": ["b", "a"]})
    assert evaluated(rows, vocabulary=["a", "b"]).values["acc_at_1"] == 0.5


def test_a_name_beside_integers_is_a_name_where_a_target_is_one(tmp_path: Path) -> None:
    """Each id is read by itself; a name among the targets makes no integer a name."""
    rows, truth = frames(["home", "7", "7", "home"], ["home", 7])
    files = as_files(tmp_path, rows, truth)
    assert evaluated(files[0], truth=files[1], **ITEMS).values["acc_at_1"] == 1


@pytest.mark.parametrize("target", [2**63, 2**64 + 5, -(2**62)])
def test_far_integers_are_ids(target: int, tmp_path: Path) -> None:
    """Those that are beyond 64 bits, too; one below 0 is none."""
    rows, truth = frames([target, 5, 7, 5], [target, 7])
    files = as_files(tmp_path, rows, truth)
    if target < 0:
        with pytest.raises(ValueError, match=rf"line 2, row 0 of .* must hold .*'{target}'"):
            evaluated(files[0], truth=files[1], **ITEMS)
        return
    assert evaluated(files[0], truth=files[1], **ITEMS).values["acc_at_1"] == 1


def test_a_missing_target_beside_integers_of_a_vocabulary() -> None:
    """The items are positions in the vocabulary, and another item is a miss that keeps its rank."""
    rows, truth = frames([40, 7, 9, 5], [7, 5])
    found = evaluated(rows, truth=truth, **ITEMS, vocabulary=[5, 7, 9])
    assert found.values["mrr"] == 0.5
    assert found.card["lists_with_other_ids"] == 1
    truth.loc[0, "target"] = None
    found = evaluated(rows, truth=truth, **ITEMS, vocabulary=[5, 7, 9], on_missing="miss")
    assert found.values["mrr"] == 0.25
    assert found.card["missing_targets"] == 1


def test_names_in_a_column_per_rank_are_no_misses_in_silence(tmp_path: Path) -> None:
    """Beside integers as targets: in one table and in two, in CSV and in columns with types."""
    for name in ("007", "Zoo"):
        rows = pd.DataFrame({"q": [1, 2], "p_1": [3, 8], "p_2": [name, "4"], "target": [7, 8]})
        rows.to_csv(tmp_path / "rows.csv", index=False)
        says = rf"line 2, row 0 of .*rows\.csv must hold (?=.*integer)(?=.*`p_2`).*'{name}'"
        with pytest.raises(ValueError, match=says):
            evaluated(tmp_path / "rows.csv", preds="p_*")
        rows.to_csv(tmp_path / "truth.csv", index=False)
        with pytest.raises(ValueError, match=says):
            evaluated(tmp_path / "rows.csv", truth=tmp_path / "truth.csv", query="q", preds="p_*")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = evaluated(tmp_path / "rows.csv", preds="p_*", on_error="miss")
        assert (found.values["acc_at_1"], len(caught)) == (0.5, name == "007")
        typed = rows.assign(p_1=["3", "8"])
        for options in ({}, {"truth": rows, "query": "q"}):
            with pytest.raises(ValueError, match=r"must hold text.* or (both )?integers"):
                evaluated(typed, preds="p_*", **options)


def test_names_that_are_excluded_beside_integers_are_named(tmp_path: Path) -> None:
    """They exclude nothing."""
    rows = pd.DataFrame({"q": [1, 2], "preds": [[1, 2], [3]]})
    truth = pd.DataFrame({"q": [1, 2], "target": [2, 3], "x": [["a"], ["b"]]})
    with pytest.raises(ValueError, match=r"got text such as \['a'\] in `x`.* integers such as 2"):
        evaluated(rows, truth=truth, query="q", exclude="x")
    files = as_files(tmp_path, rows, truth.assign(x=["['01']", "[]"]))
    with pytest.raises(ValueError, match=r"line 2, row 0 of .*1\.csv must hold an integer.*01"):
        evaluated(files[0], truth=files[1], query="q", exclude="x")


def test_an_integer_far_below_zero_breaks_its_own_row_alone() -> None:
    """The padding of other rows stays padding."""
    lists = pa.array([[3, -1], [4, -1], [-(2**63)]], pa.list_(pa.int64()))
    table = pa.table({"preds": lists, "target": [3, 4, 5]})
    found = evaluated(table, on_error="miss")
    assert (found.values["mrr"], found.card["broken_answers"]) == (pytest.approx(2 / 3), 1)
    with pytest.raises(ValueError, match="row 2 of Table"):
        evaluated(table)


def test_empty_text_is_a_name_of_a_column_with_a_type(tmp_path: Path) -> None:
    """And is what `read` says it is."""
    pq.write_table(
        pa.table({"preds": [["", "a"], ["b"]], "target": ["", "a"]}), tmp_path / "e.parquet"
    )
    assert report.read(tmp_path / "e.parquet").vocabulary == ("", "a", "b")


def test_tied_integers_of_any_size_are_in_rising_order(tmp_path: Path) -> None:
    """2^63 is before 2^64, though the text of the second one is first."""
    first, second = 2**63, 2**64
    items = pd.DataFrame({"u": [1, 1, 2], "item": [str(second), str(first), str(second)], "s": 1})
    files = as_files(
        tmp_path, items, pd.DataFrame({"u": [1, 2], "item": [str(first), str(second)]})
    )
    assert evaluated(files[0], truth=files[1], **ITEMS).values["f1"] == 1


def test_text_of_two_tables_is_a_name_also_if_it_is_minus_one() -> None:
    """In lists, in items and in targets alike."""
    truth = pd.DataFrame({"u": [1, 2], "target": ["-1", "a"]})
    lists = pd.DataFrame({"u": [1, 2], "preds": [["-1", "a"], ["a"]]})
    items = pd.DataFrame({"u": [1, 2], "item": ["-1", "a"], "s": 1.0})
    assert evaluated(lists, truth=truth, **LISTS).values["mrr"] == 1
    assert evaluated(items, truth=truth, **ITEMS).values["mrr"] == 1


@pytest.mark.parametrize("form", ["pandas", "csv"])
def test_scores_that_are_times_in_nanoseconds_are_not_tied(form: str, tmp_path: Path) -> None:
    """Integers of 19 digits are compared as integers."""
    scores = [1_700_000_000_000_000_001, 1_700_000_000_000_000_000]
    tables: Any = (
        pd.DataFrame({"u": [1, 1], "item": [5, 3], "s": scores}),
        pd.DataFrame({"u": [1], "item": [5]}),
    )
    rows, truth = tables if form == "pandas" else as_files(tmp_path, *tables)
    assert evaluated(rows, truth=truth, **ITEMS).values["mrr"] == 1


def test_scores_in_half_precision_are_read() -> None:
    """As many models write them."""
    items = pa.table({"u": [1, 1], "item": [5, 3], "s": pa.array(np.array([1, 2], np.float16))})
    truth = pa.table({"u": [1], "item": [5]})
    assert evaluated(items, truth=truth, **ITEMS).values["mrr"] == 0.5


def test_targets_that_are_all_missing_say_nothing_of_types() -> None:
    """They are misses beside text as beside integers."""
    truth = pa.table({"u": [1, 2], "item": pa.array([None, None], pa.null())})
    for items in (["a", "b"], [3, 5]):
        rows = pd.DataFrame({"u": [1, 2], "item": items, "s": 1.0})
        found = evaluated(rows, truth=truth, **ITEMS, on_missing="miss")
        assert (found.values["mrr"], found.card["missing_targets"]) == (0, 2)


@pytest.mark.slow
def test_a_share_of_files_without_rows_is_no_warning(tmp_path: Path) -> None:
    """All files without rows are one, also with several processes."""
    for i, text in enumerate(["", "3,3\n", "5,4\n"]):
        (tmp_path / f"{i}.csv").write_text(f"preds,target\n{text}", encoding="utf-8")
    assert evaluated(tmp_path, workers=2).values["acc_at_1"] == 0.5


def test_tied_text_that_looks_like_a_number_is_in_the_order_of_its_bytes() -> None:
    """In a column with a type, 7.0 is a name, and stands behind all integers."""
    items = pd.DataFrame({"u": [1, 1, 1], "item": ["a", "7.0", "7"], "s": 1.0})
    truth = pd.DataFrame({"u": [1, 2], "item": ["7", "a"]})
    # the decision is 7, which is right, and a has one target and no decision
    assert evaluated(items, truth=truth, **ITEMS).values["f1"] == 0.5


def test_grades_of_several_parts_are_padded_with_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries of the first part have one relevant item, and one of the last part has three."""
    monkeypatch.setattr("nextloc_metrics.report.files.joins._ITEMS", 4)
    items = pd.DataFrame({"u": [*range(9)], "item": [3] * 9, "s": 0.5})
    rows = [(u, 3, 1) for u in range(9)] + [(8, 4, 2), (8, 5, 3)]
    files = as_files(tmp_path, items, pd.DataFrame(rows, columns=["u", "item", "grade"]))
    found = read_table(files[0], truth=files[1], **ITEMS, grade="grade")
    assert found.grades is not None
    assert found.grades.sum(1).tolist() == [1.0] * 8 + [6.0]
    assert found.target.shape == found.grades.shape
