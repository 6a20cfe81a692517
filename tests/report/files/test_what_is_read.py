"""Files and frames are read as they are, or refused with row, value and remedy: nothing between."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import table_forms
import torch
from table_forms import (
    check_read,
    check_refused,
    evaluated,
    ids_read,
    records,
    run,
    table_in_form,
    written_file,
)

from inner import SUFFIXES
from nextloc_metrics import report
from table_calls import evaluate_table

pytestmark = pytest.mark.slow  # the hostile laws read files, too, and take less

FORMS = [".csv", ".jsonl", ".parquet", "pandas"]
LARGE = 2**53 + 1
LISTS = [[7, 3, 1], [5, 4], [], [2, 9, 8]]
TARGETS = [3, 5, 1, 8]
USERS = ["ann", "bob", "ann", "eve"]
COLUMNS: dict[str, Any] = {"preds": LISTS, "target": TARGETS, "user": USERS}


# Kinds of files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [*table_forms.FILES, *table_forms.FRAMES])
def test_every_form_gives_the_same_values(form: str, tmp_path: Path) -> None:
    """Lists, targets and groups, of files, packed files, frames and streams."""
    rows = table_in_form(COLUMNS, form, tmp_path)
    expected = report.evaluate(LISTS, TARGETS, k=(1, 3), groups={"user": USERS})
    found = [evaluated(rows, k=(1, 3), groups=["user"], num_locations=10)]
    if form in table_forms.FILES:
        assert ids_read(rows) == (LISTS, TARGETS, 0)
        read = report.read(rows, groups=["user"])
        assert [*read.groups["user"]] == USERS
        found += [report.evaluate(read.preds, read.target, k=(1, 3), groups=read.groups)]
    for e in found:
        assert e.values == expected.values
        assert str(e.groups["user"]) == str(expected.groups["user"])


def test_the_page_and_the_shell_name_every_suffix() -> None:
    """In the first table of `What can be read`, and in the help of `score`; no other is read."""
    page = (Path(__file__).parents[3] / "docs" / "files.md").read_text("utf-8")
    table = page.partition("## What can be read")[2].lstrip().partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()]
    assert {x for cell in cells for x in re.findall(r"\.\w+", cell)} == {*SUFFIXES}
    shown = run("score", "--help").stdout.partition("PATH:")[2].partition("PATH may")[0]
    assert re.findall(r"\.\w+", shown) == [*SUFFIXES]


@pytest.mark.parametrize("name", ["t.npy", "t.run"])
def test_a_file_of_another_kind_is_no_table(name: str, tmp_path: Path) -> None:
    """As the truth of a table; it was read as JSON."""
    rows = table_in_form({"user": [1], "preds": [[3]]}, ".csv", tmp_path)
    np.save(tmp_path / "t.npy", [3])
    (tmp_path / "t.run").write_text("1 Q0 3 1 0.5 made\n", "utf-8")
    says = rf"must be a table.*\.csv.*\.parquet.*got .*{name}"
    check_refused(rows, says, truth=tmp_path / name, query="user")


def test_types_of_arrow(tmp_path: Path) -> None:
    """Large lists, views, lists of one size, dictionaries, and runs of equal rows."""
    of_dictionary = pa.list_(pa.dictionary(pa.int8(), pa.int64()))
    for kind in (pa.large_list(pa.int32()), pa.list_view(pa.int64()), pa.list_(pa.uint16(), 2),
                 of_dictionary):  # fmt: skip
        lists = pa.array([[3, 1], [2, 5]], kind)
        check_read(pa.table({"preds": lists, "target": [1, 3]}), lists.to_pylist(), [1, 3])
    for kind in (pa.large_list(pa.large_string()), pa.list_(pa.string_view())):
        lists = pa.array([["a", "b"], ["c"]], kind)
        check_read(pa.table({"preds": lists, "target": ["b", "d"]}), lists.to_pylist(), ["b", "d"])
    plain = pa.table({"preds": [[3], [5], [4]], "target": [3, 3, 4], "user": ["a", "a", "b"]})
    expected = evaluated(plain, groups=["user"])
    views = pc.cast(plain["user"], pa.string_view())
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    part = pa.array(["\u00e9\u00e9", None, "a", "a", "b", "c"])[2:5]
    for user in (views, plain["user"].dictionary_encode(), runs, part):
        for form in ("arrow", ".arrow"):
            one = plain.set_column(2, "user", user)
            found = evaluated(table_in_form(one, form, tmp_path), groups=["user"])
            assert (found.values, str(found)) == (expected.values, str(expected))


@pytest.mark.parametrize("form", [".csv", ".jsonl", ".parquet"])
def test_the_order_of_many_rows(form: str, tmp_path: Path) -> None:
    """Rows are in order, and numbered in errors, behind each block and group of rows."""
    number, wrong, path = 150_000, 140_007, tmp_path / f"a{form}"
    ids = [i % 1009 for i in range(number)]
    lists = [[-5 if i == wrong else x] for i, x in enumerate(ids)]
    if form == ".parquet":
        table_in_form({"preds": lists, "target": ids}, form, tmp_path)
    elif form == ".csv":
        rows = (f"{x},{y},{'y' * 20}\n" for x, y in zip(lists, ids, strict=True))
        path.write_text("preds,target,pad\n" + "".join(rows), "utf-8")
    else:
        rows = (f'{{"preds": {x}, "target": {y}}}\n' for x, y in zip(lists, ids, strict=True))
        path.write_text("".join(rows), "utf-8")
    check_refused(path, r"\[-5\]", at=wrong)
    found = report.read(report.Source(path, on_error="miss"))
    assert (found.missed, found.target.tolist()) == (1, ids)
    assert found.preds.flatten().tolist() == [*ids[:wrong], -1, *ids[wrong + 1 :]]


def test_parts_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    """Of a folder, a pattern, an address or a list; each once, and all of one kind."""
    parts = [tmp_path / "rows" / f"part-{i}.jsonl" for i in (0, 1)]
    parts[0].parent.mkdir()
    for part, rows in zip(parts, ([1, 2], [0, 3]), strict=True):
        part.write_text(records(*({x: y[i] for x, y in COLUMNS.items()} for i in rows)), "utf-8")
    for hidden in ("_part.jsonl", ".part.jsonl"):
        (tmp_path / "rows" / hidden).write_text(records({"preds": [1], "target": 1}), "utf-8")
    lists, targets = ([x[i] for i in (1, 2, 0, 3)] for x in (LISTS, TARGETS))
    system = pytest.importorskip("fsspec").filesystem("memory")
    for part in parts:
        system.pipe(f"/bucket/{part.name}", part.read_bytes())
    pattern = tmp_path / "rows" / "part-*.jsonl"
    for path in (parts[0].parent, pattern, parts, "memory://bucket/*.jsonl"):
        check_read(path, lists, targets)
    other = tmp_path / "rows" / ".." / "rows" / "part-0.jsonl"
    for again in ([parts[0], str(other)], [parts[0]] * 2, [str(parts[0].parent), parts[0]]):
        check_refused(again, r"distinct files, got .*part-0\.jsonl after .*part-0")
    (tmp_path / "rows" / "part-2.jsonl").symlink_to(parts[0])
    check_refused(parts[0].parent, r"distinct files, got .*part-2\.jsonl after .*part-0")
    (tmp_path / "rows" / "part-2.jsonl").unlink()
    (tmp_path / "rows" / "more.csv").write_text("preds,target\n1,1\n", "utf-8")
    check_refused(parts[0].parent, "one kind", "csv")


def test_folders_may_be_a_column(tmp_path: Path) -> None:
    """As Hive and Spark write partitions; the name of the missing value is no group."""
    for name, target in (("user=u b", 1), ("user=u%2Fa", 2)):
        (tmp_path / name).mkdir()
        table_in_form(
            {"preds": [[target], [0]], "target": [target] * 2}, ".parquet", tmp_path / name
        )
    found = report.read(tmp_path, groups=["user"])
    assert [*found.groups["user"]] == ["u b"] * 2 + ["u/a"] * 2
    assert found.target.tolist() == [1, 1, 2, 2]
    records = evaluated(tmp_path, groups=["user"]).group_records()
    assert {x["group"] for x in records} == {"u b", "u/a"}
    os.rename(tmp_path / "user=u b", tmp_path / "user=__HIVE_DEFAULT_PARTITION__")
    with pytest.raises(ValueError, match=r"row 0 of .*__HIVE.* must hold a group in `user`"):
        evaluated(tmp_path, groups=["user"])
    assert evaluated(tmp_path).card["queries"] == 4


def test_a_folder_of_save_to_disk(tmp_path: Path) -> None:
    """Its rows are read, in order; of several splits one is chosen."""
    for split, targets in (("train", [2, 2, 2]), ("test", [1, 2])):
        folder = tmp_path / "saved" / split
        folder.mkdir(parents=True)
        for i, target in enumerate(targets):
            path = table_in_form({"preds": [[1, 2]], "target": [target]}, ".arrows", folder)
            path.rename(folder / f"data-{i:05}-of-{len(targets):05}.arrow")
        for name in ("state", "dataset_info"):
            (folder / f"{name}.json").write_text("{}", "utf-8")
    (tmp_path / "saved" / "dataset_dict.json").write_text("{}", "utf-8")
    check_read(tmp_path / "saved" / "test", [[1, 2]] * 2, [1, 2])
    check_refused(tmp_path / "saved", "one split", "'test', 'train'")


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_json_over_several_lines(suffix: str, tmp_path: Path) -> None:
    """A list of records, one record, and one after the other."""
    path, rows = tmp_path / f"a{suffix}", [{"preds": [1, 2], "target": x} for x in (1, 2)]
    laid_out = [json.dumps(x, indent=2) for x in rows]
    for text in (json.dumps(rows, indent=2), "\n".join(laid_out), " ".join(laid_out)):
        path.write_text(f"\ufeff{text}\n", "utf-8")
        check_read(path, [[1, 2]] * 2, [1, 2])
    path.write_text(laid_out[0], "utf-8")
    check_read(path, [[1, 2]], [1])
    truth = tmp_path / f"truth{suffix}"
    path.write_text(json.dumps({"user": "ann", "preds": [3, 1]}), "utf-8")
    truth.write_text(json.dumps({"user": "ann", "target": 1}), "utf-8")
    assert evaluated(path, truth=truth, query="user").values["mrr"] == 0.5
    for wrong in (laid_out[0][:-2], laid_out[0] + "\n,", laid_out[0] + "\n[]", "{\n}\n3"):
        path.write_text(wrong, "utf-8")
        check_refused(path)


RECORDS = [{"preds": [3, 5], "target": 5}, {"preds": [3, 5], "target": 3}]


@pytest.mark.parametrize("files", [
    [json.dumps(x) for x in RECORDS],
    [json.dumps({**x, "target": [x["target"]]}) for x in RECORDS],  # every value is a list
    [json.dumps({**x, "asked": {"user": "ann"}}, indent=2) for x in RECORDS],
    [json.dumps(RECORDS[0]), json.dumps(RECORDS[1:])], [json.dumps(RECORDS), ""],
    [json.dumps(RECORDS[0]), "\n".join(map(json.dumps, RECORDS[1:]))],
])  # fmt: skip
def test_each_file_may_hold_a_record(files: list[str], tmp_path: Path) -> None:
    """In a folder or a pattern, also beside lists of records and lines; keys repeat."""
    folder = tmp_path / "answers"
    folder.mkdir()
    for i, text in enumerate(files):
        (folder / f"{i}.json").write_text(text, "utf-8")
    for rows in (folder, f"{folder}/*.json"):
        check_read(rows, [[3, 5]] * 2, [5, 3])
        assert run("score", str(rows)).exit_code == 0


def test_files_of_records_may_lie_apart(tmp_path: Path) -> None:
    """Predictions and truth, each a folder of records, are joined by their key."""
    for name, cells in (("preds", ([3, 5], [3, 5])), ("target", (3, 5))):
        (tmp_path / name).mkdir()
        for i, cell in enumerate(cells):
            (tmp_path / name / f"{i}.json").write_text(json.dumps({"u": i, name: cell}), "utf-8")
    found = evaluated(tmp_path / "preds", truth=tmp_path / "target", query="u")
    assert (found.values["mrr"], found.card["queries"]) == (0.75, 2)


@pytest.mark.parametrize("files", [
    ['{"q1": {"a": 1}}', '{"q1": {"b": 1}}'], ['{"q1": ["a"]}', '{"q1": ["b"]}'],
    ['{"q1": {"a": 1}, "q1": {"b": 1}}'],
])  # fmt: skip
def test_a_key_of_one_object_is_not_repeated(files: list[str], tmp_path: Path) -> None:
    """Neither in a file nor in the files that are the parts of an object of ids."""
    for i, text in enumerate(files):
        (tmp_path / f"{i}.json").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=rf"{len(files) - 1}\.json must hold each key once.*'q1'"):
        evaluated(tmp_path, truth={"q1": "a"})


NO_IDS = [True, False, {}, {"id": 5}, 2.5, [True], [{}], [{"id": 5}]]


@pytest.mark.parametrize("wrong", NO_IDS, ids=json.dumps)
@pytest.mark.parametrize(("ids", "suffix"), [((3, 5), ".jsonl"), (("a", "b"), ".json")])
def test_what_can_be_no_id_is_named(ids: Any, suffix: str, wrong: Any, tmp_path: Path) -> None:
    """Booleans, objects and fractions of JSON in every column of ids, alone and beside ids."""
    value = re.escape(json.dumps(wrong, separators=(",", ":")).strip("[]"))
    first, second = ids
    row = {"preds": [first, second], "target": first, "u": 1, "item": first, "s": 0.5, "x": [first]}
    row |= {"g": 1, "p0": first, "p1": second}

    def write(name: str, rows: list[Any]) -> Path:
        path = tmp_path / f"{name}{suffix}"
        path.write_text(json.dumps(rows) if suffix == ".json" else records(*rows), "utf-8")
        return path

    def refused(at: int, file: str, rows: list[Any], truth: Any = None, **options: Any) -> None:
        path = write("rows", rows)
        options |= {} if truth is None else {"truth": write("truth", truth), "query": "u"}
        with pytest.raises(ValueError, match=rf"row {at} of .*{file}\{suffix} must .*{value}"):
            evaluated(path, **options)

    beside = [row, {**row, "u": 2}]
    scored: dict[str, Any] = {"item": "item", "score": "s"}
    for name, options in {
        "target": {}, "preds": {}, "x": {"exclude": "x"}, "p1": {"preds": ["p0", "p1"]},
    }.items():  # fmt: skip
        refused(1, "rows", [row, {**row, name: wrong}], **options)
        if name != "preds" or not isinstance(wrong, dict):  # which are told to be answers
            refused(0, "rows", [{**row, name: wrong}] * 2, **options)
    for name, options in {"target": {}, "u": {}, "x": {"exclude": "x"}}.items():
        refused(1, "truth", beside, [row, {**beside[1], name: wrong}], **options)
    refused(1, "truth", beside, [row, {**beside[1], "target": wrong}], **scored)
    for name, options in {"preds": {}, "u": {}, "item": scored}.items():
        refused(1, "rows", [row, {**beside[1], name: wrong}], beside, **options)
    if not isinstance(wrong, bool | float):
        refused(1, "rows", [row, {**row, "g": wrong}], groups=["g"])
        refused(1, "truth", beside, [row, {**beside[1], "g": wrong}], groups=["g"])


def test_names_that_look_like_booleans_are_names(tmp_path: Path) -> None:
    """The text "true" is an id, a boolean a group and part of a mask, and no answer by itself."""
    rows = [{"preds": ["true", "{}x"], "target": "true", "g": True}] * 2
    found = evaluated(written_file(records(*rows), tmp_path), groups=["g"], mask="g")
    assert (found.values["mrr"], found.card["queries"]) == (1, 2)
    rows = [*rows, {**rows[0], "preds": True}]
    found = evaluated(written_file(records(*rows), tmp_path), on_error="miss")
    assert (found.values["acc_at_1"], found.card["broken_answers"]) == (2 / 3, 1)


@pytest.mark.parametrize("wrong", ["{}", "{'id': 5}", '{"id": 5}', "{ 'id': 5 }"])
@pytest.mark.parametrize("id_", ["5", "a"])
def test_objects_in_text_are_no_targets(wrong: str, id_: str, tmp_path: Path) -> None:
    """As pandas writes them to CSV, in one table and as the truth of another."""
    frame = pd.DataFrame({"u": [1, 2], "preds": [f"['{id_}']"] * 2, "target": [id_, wrong]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    check_refused(tmp_path / "a.csv", "`target`.*objects", at=1)
    with pytest.raises(ValueError, match=r"row 1 of .*a\.csv must hold .*object"):
        evaluated(frame[["u", "preds"]], truth=tmp_path / "a.csv", query="u")


@pytest.mark.parametrize("wrong", [True, np.True_, {}])
def test_dicts_hold_text_or_whole_numbers(wrong: Any) -> None:
    """Anything else is named, with its query, beside ids and alone."""
    for rows, truth in (
        ({1: [5, 3], 2: [3, wrong]}, {1: 5, 2: 5}), ({1: [5], 2: [5]}, {1: [wrong], 2: [wrong]}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=rf"{re.escape(repr(wrong))} in query [12]"):
            evaluated(rows, truth=truth)


def test_booleans_among_numbers_are_refused() -> None:
    """In lists of Python, which NumPy would take for 1 and 0."""
    for rows, target in (([[5, 3]] * 2, [5, True]), ([[5, True], [5]], [5, 3])):
        with pytest.raises(TypeError, match="must be all booleans or all numbers"):
            report.evaluate(rows, target, k=1)
    with pytest.raises(TypeError, match="`exclude` must be all booleans or all numbers"):
        report.evaluate([[5, 3]], [5], exclude=[[3, True]], k=1)


def test_excluded_ids_have_no_fraction() -> None:
    """A list of floats is ids if they are whole, as pandas keeps them, whatever the targets are."""
    rows = pd.DataFrame({"u": [1], "preds": [[5, 3]]})
    truth = pd.DataFrame({"u": [1], "target": [3], "x": [[5.0]]})
    assert evaluated(rows, truth=truth, query="u", exclude="x").values["acc_at_1"] == 1
    names = rows.assign(preds=[["5", "3"]]), truth.assign(target="3")
    assert evaluated(names[0], truth=names[1], query="u", exclude="x").values["acc_at_1"] == 1
    for wrong in ([5.5], [True], 5.5):
        says = r"row 0 of DataFrame must hold .* in `x`|`x` in DataFrame must hold ids.*got bool"
        with pytest.raises(ValueError, match=says):
            evaluated(rows, truth=truth.assign(x=[wrong]), query="u", exclude="x")


@pytest.mark.parametrize(("name", "data"), [
    ("a.parquet", b"{ no Parquet"), ("a.arrow", b"{ no Arrow"), ("a.csv.gz", b"{ no archive"),
    ("a.npz", b"PK\x03\x04" + b"x" * 40), ("a.csv", b"preds,target\n\xff\xfe,1\n"),
    ("a.json.gz", b"\x1f"),
    ("a.csv", b"\xef\xbb"), ("a.csv", b""), ("a.jsonl", b""), ("a.json", b"[" * 100_000),
    ("a.csv", b"x" * 200_000 + b"\n1\n"), ("a.xlsx", b""),
])  # fmt: skip
def test_what_is_no_table_is_named(name: str, data: bytes, tmp_path: Path) -> None:
    """Files of another kind, cut, without bytes or in another encoding."""
    (tmp_path / name).write_bytes(data)
    check_refused(tmp_path / name, re.escape(name[1:]))
    assert run("score", str(tmp_path / name)).exit_code == 1


@pytest.mark.parametrize("number", [2, 5000])  # more than is read at once
@pytest.mark.parametrize("form", [".json", ".jsonl", ".json.gz"])
def test_a_list_that_was_cut_behind_a_comma_is_named(
    form: str, number: int, tmp_path: Path
) -> None:
    """All its rows are whole, and one that has its end is read, whatever blanks follow."""
    path, rows = tmp_path / f"a{form}", '{"preds": [3, 1], "target": 3},\n' * number
    pack = gzip.compress if form == ".json.gz" else bytes
    path.write_bytes(pack(f"[{rows[:-1]}".encode()))
    check_refused(path, re.escape(path.name))
    path.write_bytes(pack(f"[{rows[:-2]}]\n\n".encode()))
    assert evaluated(path).card["queries"] == number


@pytest.mark.parametrize("form", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_no_last_line_is_dropped(form: str, end: str, tmp_path: Path) -> None:
    """One of 64 MiB and more is refused, as a shorter one is."""
    path, mark = tmp_path / f"a{form}", "\t" if form == ".tsv" else ","
    text = f"preds,target\n[1],1\n[2],1\n{'a' * (1 << 26)},1{end}".replace(",", mark).encode()
    path.write_bytes(gzip.compress(text, 1) if form == ".csv.gz" else text)
    check_refused(path, re.escape(path.name), at=2)


def test_what_is_no_source_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file, no table, and no reader of tables."""
    for door in (report.read, evaluated):
        for missing in (tmp_path / "none.csv", "nowhere/*.parquet"):
            with pytest.raises(FileNotFoundError, match="must be an existing file of predictions"):
                door(missing)
    with pytest.raises((TypeError, ValueError), match="must"):
        evaluated({"preds": [[1]], "target": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="install the extra `cli`"):
        report.read(written_file("1,1\n", tmp_path))


# Cells -------------------------------------------------------------------------------------------


NAMES: Any = [table_forms.NAME]


@pytest.mark.parametrize(("cell", "ids"), [
    ("['abc', 8]", [table_forms.NAME, 8]),
    ("[]", []), ("[ ]", []), ("[007]", None), ("[1,]", [1]), ("[1, None]", None), ("[1", None),
    ("[[1]]", None), ("[1.5]", None), ("[true]", None), ("[4, -1]", [4]), ("[-2]", None),
    ("[1], [2]", None), ("[999999999999999999]", [10**18 - 1]),
    ("[9223372036854775807]", [2**63 - 1]), ("[9223372036854775808]", [2**63]),
    ("[18446744073709551616]", [2**64]),
    ("[1, 9007199254740993]", [1, LARGE]), ("['3', 5]", [3, 5]),
    ("(3, 5)", [3, 5]), ("", []), ("3", [3]), ("3.0", [3]), ("3.5", None), ("1e3", None),
    ("3 5", NAMES), ("0x1F", NAMES), ("[3,5]", [3, 5]), (" [ 3 , 5 ]", [3, 5]), ("-0", None),
    ("[9007199254740993, 7.0]", [LARGE, 7]), ("[1, 7.5]", None), ("9007199254740993.0", None),
    ("9007199254740993", [LARGE]), ("[9007199254740992.0]", None), ("+3", None),
    ("[9007199254740991.0]", [2**53 - 1]), ("[466 ... 1068]", None), ("[466, ..., 1068]", None),
    ("[np.int64(466), np.int64(1068)]", None), ("[1 2 ... 9]", None), ("[1 2, 3]", None),
    ("(1, 2", NAMES), ("[1_0, 2]", None), ("[0x10, 2]", None), ("3\0", None),
    ("[1 2 3]", [1, 2, 3]),
])  # fmt: skip
def test_cells_of_text(cell: str, ids: list[int] | None, tmp_path: Path) -> None:
    """A cell is a list in JSON, of Python or as NumPy prints it, one id, or unreadable.

    A name among integers is an error, too, or an id that no target has.
    """
    lists, targets = (
        [[9], [7, 8], ids or []],
        [9, 7, max([x for x in ids or () if x != table_forms.NAME] or [7])],
    )
    path = written_file(f'9,9\n"[7, 8]",7\n"{cell}",{targets[2]}\n', tmp_path)
    check_read(path, lists, targets, missed=ids is None, on_error="miss")
    if ids is None or table_forms.NAME in ids:
        check_refused(path, "`preds`", at=2)
    else:
        check_read(path, lists, targets)


WORDS = ["NaN", "None", "null", "NA", "-inf", "+1", " 3", "3\u00a0", "1e3", "\uff13", "1.5", "-0"]


@pytest.mark.parametrize("word", [*WORDS, "011", "1_0", "1-2", "nano"])
def test_one_odd_target_changes_no_other(word: str, tmp_path: Path) -> None:
    """In any order, alone and beside names, other rows are right; the odd one may be refused."""
    right = ['"[1, 2]",1.0', '"[3.0, 4]",3', "5.0,5", '"[""6.0""]",6']
    for others in ([], ["Bar"]):
        rows = [*right, *(f"7,{x}" for x in others), f'9,"{word}"']
        for order in (rows, rows[::-1]):
            path = written_file("\n".join(order), tmp_path)
            if word in WORDS:
                check_refused(path, "`target`", at=order.index(rows[-1]))
            for words in ([*"12345679", word, *others], None):
                if words or word not in WORDS:
                    hits = evaluated(path, vocabulary=words).values["acc_at_1"] * len(order)
                    assert hits == pytest.approx(4)


MANY = ["3,4", "3;4", "3|4", "10 11 12"]
NAMES = ["a\u2028b", "c\x85d"]
IS_READ: list[tuple[str, dict[str, Any], list[Any], list[Any]]] = [
    # names that Python would take for numbers, and names with commas, brackets, quotes and spaces
    ('"12_3",1_23\n"1_0",10\n"nan,inf",nan',
     {"separator": ",", "vocabulary": ["1_23", "10", "nan"]},
     [["12_3"], ["1_0"], ["nan", "inf"]], ["1_23", "10", "nan"]),
    ("\"['Central Park', 'Zoo']\",Zoo\n\"Central Park, Zoo\",Central Park", {},
     [["Central Park", "Zoo"], ["Central Park, Zoo"]], ["Zoo", "Central Park"]),
    (r"""['a\d'],a\d""", {}, [["a\\d"]], ["a\\d"]),
    (records({"preds": ["Central Park", "O'Hare, Chicago"], "target": "Central Park"},
             {"preds": ["Zoo"], "target": "O'Hare, Chicago"}), {},
     [["Central Park", "O'Hare, Chicago"], ["Zoo"]], ["Central Park", "O'Hare, Chicago"]),
    (records(*({"preds": NAMES, "target": x} for x in NAMES * 50)), {}, [NAMES] * 100, NAMES * 50),
    # one name makes all ids of CSV text, also those in lists
    ('"[12, 7]",7\n"[""A12"", 12]",A12\n02,1', {}, [["12", "7"], ["A12", "12"], ["02"]],
     ["7", "A12", "1"]),
    ("01,01\n1,1", {}, [["01"], ["1"]], ["01", "1"]),
    # so does one target that is several numbers, if no target is one number, or a name such as 1-2
    *((f'"[1, ""{x}""]","{x}"\n"[7, ""5,6""]","5,6"', {}, [["1", x], ["7", "5,6"]], [x, "5,6"])
      for x in MANY),
    *((f'"[1, ""{x}""]","{x}"\n1-2,1-2\n7,7', {}, [["1", x], ["1-2"], ["7"]], [x, "1-2", "7"])
      for x in MANY),
    # padding, also among text; -1 is an id where the vocabulary has it
    ('"home,-1",-1\n"-1,home",-1', {"separator": ",", "vocabulary": ["home", "-1"]},
     [["home", "-1"], ["-1", "home"]], ["-1", "-1"]),
    ('"a,-1,-100",a', {"separator": ",", "padding": [-100]}, [["a"]], ["a"]),
    (records({"preds": ["gym", "-1"], "target": ["gym", "-1"]},
             {"preds": ["gym", "-1"], "target": ["a", "b"]}), {},
     [["gym"], ["gym"]], [["gym"], ["a", "b"]]),
    ("-100,3\n4 -100,4", {"separator": " ", "padding": [-100]}, [[], [4]], [3, 4]),
    # separators, also beside null, where lines of JSON have other types
    ("7|3,3\n5|2,2", {"separator": "|"}, [[7, 3], [5, 2]], [3, 2]),
    (records({"preds": "7|3", "target": 3}, {"preds": "5|2", "target": 2, "note": None}),
     {"separator": "|", "vocabulary": [2, 3, 5, 7]}, [[7, 3], [5, 2]], [3, 2]),
    # what pandas writes of arrays and tuples; tuples as targets are the names of cells of a grid
    ('"[1 2 3]",2\n"[ 4  5\n  6]",4\n[7],7', {}, [[1, 2, 3], [4, 5, 6], [7]], [2, 4, 7]),
    ("\"['a' 'b c']\",b c\n\"['O-1'\n 'd']\",O-1", {},
     [["a", "b c"], ["O-1", "d"]], ["b c", "O-1"]),
    ("\"('a', 'b')\",b\n\"(\"\"O'Hare\"\", 'd, e')\",O'Hare\n\"('f',)\",f\n\"['h' 'g']\",g", {},
     [["a", "b"], ["O'Hare", "d, e"], ["f"], ["h", "g"]], ["b", "O'Hare", "f", "g"]),
    ('"(3, 5)","(3, 5)"\n"(4, 5)","(5, 4)"', {}, [["(3, 5)"], ["(4, 5)"]], ["(3, 5)", "(5, 4)"]),
    # a mark of UTF-8, quotes in the header, columns that occur twice and are not asked for
    ('\ufeff"preds","target"\n"[5, 6]",6\n', {}, [[5, 6]], [6]),
    ("\ufeffpreds,target\n7,a\n\ufeff7,b", {}, [["7"], ["\ufeff7"]], ["a", "b"]),
    ("x,preds,target,x\n0,1,1,0\n", {}, [[1]], [1]),
    # several columns by a pattern, whatever stands around their names
    ('\ufeff\n"pred_1",pred_2,target\n7,5,3\n', {"preds": "pred_*"}, [[7, 5]], [3]),
    ('\n{"pred_1": 7, "pred_2": 5,\t"target": 3}\n', {"preds": "pred_*"}, [[7, 5]], [3]),
    # quotes and line ends in cells
    ('note,preds,target\r\n5" pipe,[1],1\r\n"say ""ho""",[2],2\r\n"two\nlines, ""x""",[3],3\r\n'
     '"",[4],4\r\nb",[5],5', {}, [[1], [2], [3], [4], [5]], [1, 2, 3, 4, 5]),
    (f'note,preds,target\n"x""",[1],1\n"{"y" * 200_000}",[2],2\n', {}, [[1], [2]], [1, 2]),
    # empty lists do not tell what ids are
    (records(*[{"preds": [], "target": []}] * 300, {"preds": ["b", "a"], "target": ["a"]}), {},
     [*[[]] * 300, ["b", "a"]], [*[[]] * 300, ["a"]]),
    (records(*[{"preds": [], "target": []}] * 300, {"preds": [3, 1], "target": [1]}), {},
     [*[[]] * 300, [3, 1]], [*[[]] * 300, [1]]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "options", "lists", "targets"), IS_READ)
def test_text_is_read_as_it_is(
    content: str, options: dict[str, Any], lists: list[Any], targets: list[Any], tmp_path: Path
) -> None:
    """Names byte for byte, numbers as integers, padding as nothing."""
    check_read(written_file(content, tmp_path), lists, targets, **options)


def test_floats_are_scores(tmp_path: Path) -> None:
    """As NumPy prints them, in JSON and in Arrow; a float of 64 bits keeps its digits."""
    path = written_file('"[0.1 0.7 1e-3]",1\n"[.5 .1\n .4]",2\n', tmp_path)
    assert evaluated(path).values["mrr"] == 0.75
    assert report.read(path).preds.tolist() == [[0.1, 0.7, 1e-3], [0.5, 0.1, 0.4]]
    rows = records({"preds": [0.5, 1], "target": 1}, {"preds": [1, 0], "target": 0})
    path = written_file(rows, tmp_path)
    assert report.read(path).preds.tolist() == [[0.5, 1], [1, 0]]
    scores = np.random.default_rng(0).normal(size=(40, 6)).astype("f4")
    expected = report.evaluate(scores, np.arange(40) % 6, k=(1, 3)).values
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel()), 6)
    for column in (fixed, pa.array(scores.astype("f8").tolist())):
        for form in (".parquet", "arrow", "pandas", "polars", "stream"):
            rows = table_in_form({"preds": column, "target": np.arange(40) % 6}, form, tmp_path)
            assert evaluated(rows, k=(1, 3)).values == expected
    rows = table_in_form({"preds": [[0.5, 1.0]], "target": ["b"]}, ".parquet", tmp_path)
    check_refused(rows, "`vocabulary`")
    assert evaluated(rows, vocabulary=["a", "b"]).values["acc_at_1"] == 1


# Refusals ----------------------------------------------------------------------------------------

ONE = {"preds": [3, 1], "target": 3}
IS_REFUSED: list[tuple[str, int | None, str]] = [
    ('"[1, 2]",1\n1 x 2,2', 1, "'1 x 2'"), ("1 2,1", 0, "'1 2'.* `answers=\\{'separator': ' '\\}`"),
    ("3,3\n4|5,4", 1, "`answers=.'separator'"), ("3,3\na|b,4", 1, ""),
    *((f'"{x}","{x}"\n7,7', 0, "`target`.*`answers=.'separator'") for x in MANY),
    *((f'7,7\n[1],"{x}"', 1, "`target`.*`answers=.'separator'") for x in MANY),
    ("-100,1", 0, "'-100'.* `answers=.'padding': -100.`"), ("1.5,1", 0, "'1.5'"),
    ("1,", 0, "`target`.*''"),
    ("1,1\n2,-100", 1, "'-100'.* `answers=.'padding': -100.`"), ("1,1\n2,-1", 1, "`target`.*-1"),
    ("[1],[]\n[2],-1", 1, "`target`.*-1"), ("1,1.5", 0, "`target`.*'1.5'"),
    ("1,1\n1,1.5", 1, "`target`.*'1.5'"), ("1,1e3x\n,", 1, "`target`.*''"), ("3,3\0", 0, "NUL"),
    ("a,a\0\na,a", 0, "NUL"), ("[gone],Bar", 0, r"'\[gone\]'"), ("\"['a''b']\",b", 0, "a''b"),
    ('"[1, 2]",1\n"[{""name"": ""Cafe""}]",1', 1, "`preds`"),
    # lines of CSV that shift cells
    ("1,1\n2,2,2", 1, ""), ("1,1\n2", 1, ""), ('1,1\n"a"b,2', 1, ""),
    ('1,1\n"2,2', 1, "clos"),
    (f'1,1\n"2{" " * 200_000},2', 1, "clos"), ('1,1\n"2,2\n' + "3,3\n" * 99, 1, "clos"),
    ("preds,target\n[7],7\npreds,target\n[8],8", 1, "header"),
    ("\ufeffpreds,target\n7,a\n\ufeffpreds,target\n7,a", 1, "header"),
    ("preds,target,preds\n1,1,2", None, "'preds'"), ("lists,target\n1,1", None, "preds.*lists"),
    ("preds,target,target\n1,1,2", None, "'target'"),
    # lines of JSON that are no rows, and types that are mixed
    (records(ONE, ONE)[:-3], 1, ""), (records(ONE) + "\n[3]\n" + records(ONE), 1, ""),
    (records(ONE) + "\n" + records(ONE) * 2, 1, ""),
    (records(ONE) + '\n{"preds": [1], "target": 1, "target": 1}', 1, "target"),
    (f"{records(*[ONE] * 9)}\n{'[' * 20_000}{']' * 20_000}\n", 9, ""),
    (records(ONE, {"preds": [1]}), 1, "`target`.*None"),
    (records({"preds": [{"name": "Cafe", "score": 0.9}], "target": "Cafe"}), 0, "objects"),
    (records({"preds": [["Cafe", "Zoo"]], "target": "Cafe"}), 0, "lists"),
    (records(ONE, {"preds": [3], "target": {"id": 3}}), 1, "`target`.*objects"),
    (records({"preds": [], "target": {"name": "Zoo"}}), 0, "`target`.*objects"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "at", "says"), IS_REFUSED)
def test_what_cannot_be_read_is_named(
    content: str, at: int | None, says: str, tmp_path: Path
) -> None:
    """With the row, what stands there, and the option that reads it."""
    path = written_file(content, tmp_path)
    check_refused(path, path.name, says, at=at)
    assert run("score", str(path)).exit_code == 1


def test_columns_of_frames_have_one_name() -> None:
    """Two rows of names are no names, in either table; numbers are no columns of ids."""
    names = pd.MultiIndex.from_tuples([("a", "preds"), ("a", "target"), ("b", "u")])
    frame = pd.DataFrame([[3, 3, 1]], columns=names)
    flat = frame.set_axis(["preds", "target", "u"], axis=1)
    for rows, options in (
        (frame, {}), (frame, {"preds": "p*"}), (flat, {"truth": frame, "query": "u"}),
        (frame, {"truth": flat, "query": "u", "item": "preds", "score": "u"}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"must have one name for each column.*MultiIndex"):
            evaluated(rows, **options)
    check_refused(pd.DataFrame([[3, 3]]), "must have the columns.*'preds'.* got .*'0'")


def test_tables_that_lie_apart_are_joined_by_a_key() -> None:
    """The error without `query` says so, with the column that both have."""
    rows = pd.DataFrame({"locale": ["x", "y"], "preds": [[1], [2]]})
    truth = pd.DataFrame({"locale": ["x", "y"], "target": [1, 2]})
    with pytest.raises(ValueError, match=r"joined by this key, such as `query='locale'`"):
        evaluated(rows, truth=truth)
    with pytest.raises(ValueError, match=r"not row by row.* number of the query to both"):
        evaluated(rows[["preds"]], truth=truth[["target"]])


@pytest.mark.parametrize(("answer", "label", "ids"), [
    ('So ["Cafe"]', "The next place is Cafe.", ["Cafe", "Zoo"]), ("[3]", "It is place 3", [3, 5]),
    ('["Cafe"]', "Nächster.Ort", ["Cafe"]),
])  # fmt: skip
def test_a_label_in_words_needs_an_id(answer: str, label: str, ids: Any, tmp_path: Path) -> None:
    """The error says how it gets one, and nothing of padding."""
    path = written_file(records(*[{"predict": answer, "label": label, "target": 0}] * 2), tmp_path)
    named: dict[str, Any] = {"preds": "predict", "target": "label", "vocabulary": ids}
    with pytest.raises(ValueError, match=r"row 0 .*column with its id.*read_answers") as error:
        evaluate_table(path, answers={"form": "json"}, **named, k=1)
    assert "padding" not in str(error.value)


def test_columns_of_frames_have_one_type() -> None:
    """Which columns of objects and nested lists have not; others are in a golden file."""
    with pytest.raises(ValueError, match="must be columns of one type each"):
        evaluated(pd.DataFrame({"preds": [[3], ["x"]], "target": [3, 3]}))
    check_refused(pa.table({"preds": [[[3]]], "target": [3]}), "`preds`")


@pytest.mark.parametrize("form", [".csv", ".jsonl", ".json", ".parquet", ".arrow", "polars"])
def test_columns_are_named(form: str, tmp_path: Path) -> None:
    """An error has the columns that there are, and the option; names may hold dots."""
    rows = table_in_form({"a.b": [[3, 1]], "a": [[4]], "b.c": [3]}, form, tmp_path)
    check_refused(rows, "'a.b'", "'b.c'", "preds", target="b.c")
    check_refused(rows, "'a.b'", "'b.c'", "target", preds="a")
    check_read(rows, [[3, 1]], [3], preds="a.b", target="b.c")
    check_read(rows, [[4]], [3], preds="a", target="b.c")
    check_refused(rows, "preds", r"x\*", preds="x*", target="b.c")


# Gaps, broken answers and scores -----------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [int, "n{}".format])
def test_broken_answers_are_errors_or_counted(form: str, kind: Any, tmp_path: Path) -> None:
    """A missing list, and a missing id in one; an empty list is a miss, and padding is nothing."""
    lists: list[Any] = [[3, 1], None, [None, 3], [], [2, 3]]
    lists = [x and [None if y is None else kind(y) for y in x] for x in lists]
    rows = table_in_form({"preds": lists, "target": [kind(3)] * 5}, form, tmp_path)
    if form == ".csv":  # whose empty cell is an empty list
        lists[1] = []
    check_refused(rows, "None|null", at=2 if form == ".csv" else 1)
    found = [lists[0], [], [], [], lists[4]]
    check_read(rows, found, [kind(3)] * 5, missed=2 - (form == ".csv"), on_error="miss")
    rows = table_in_form({"preds": [[kind(1)]] * 2, "target": [kind(1), None]}, form, tmp_path)
    for on_error in ("raise", "miss"):
        at = None if form == "pandas" else 1  # which makes floats of integers beside a gap
        check_refused(rows, "`target`", at=at, on_error=on_error)


@pytest.mark.parametrize("form", [".csv", ".jsonl", ".parquet", "arrow"])
def test_most_rows_decide_the_width_of_scores(form: str, tmp_path: Path) -> None:
    """Where broken rows are misses, their order changes nothing; else the first is an error."""
    whole, broken = [[0.9, 0.1, 0.0]] * 7, [[0.3], [], [0.5, 0.5], [0.1] * 4, [0.2, 0.8], None]
    every = [*zip([*broken, *whole], [2 - i % 3 for i in range(13)], strict=True)]
    for order in (every, every[::-1], every[6:] + every[:6]):
        preds, target = zip(*order, strict=True)
        rows = table_in_form({"preds": [*preds], "target": [*target]}, form, tmp_path)
        found = evaluated(rows, on_error="miss")
        assert found.values["acc_at_1"] == pytest.approx(2 / 13)
        assert (found.card["broken_answers"], found.card["candidates"]) == (6, 3)
        check_refused(rows, r"row \d+", "scores")
    if form == "arrow":
        typed = pa.table({"preds": pa.array([[]], pa.list_(pa.float64())), "target": [1]})
        for on_error in ("raise", "miss"):
            check_refused(typed, "`preds`", "empty", on_error=on_error)


def test_empty_lists_do_not_say_that_others_are_ids(tmp_path: Path) -> None:
    """One list with a fraction beside empty ones is a row of scores, as no list is one of ids."""
    rows = [([2.5, 1], 1), ([], 1), ([], 0)]
    for order in (rows, rows[::-1]):
        path = written_file(records(*({"preds": x, "target": y} for x, y in order)), tmp_path)
        found = evaluated(path, on_error="miss")
        assert found.values["mrr"] == pytest.approx((1 / 2 + 0 + 0) / 3)
        assert (found.card["candidates"], found.card["broken_answers"]) == (2, 2)
        check_refused(path, r"scores.*'\[\]'", at=[x for x, _ in order].index([]))
    # two lists of ids outvote it, and it is the one that cannot be read
    path = written_file(
        records(*({"preds": x, "target": 1} for x in ([2.5, 1], [1], [2]))), tmp_path
    )
    found = evaluated(path, on_error="miss")
    assert (found.card["candidates"], found.card["broken_answers"]) == (None, 1)
    assert found.values["acc_at_1"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("wrong", [[0.5], [0.5, None], ["a", 0.5], None, [LARGE, 0.5]])
def test_a_row_that_is_no_scores(wrong: Any, tmp_path: Path) -> None:
    """It is an error, or scores of NaN, which are a miss."""
    right = {"preds": [0.5, 1], "target": 1}
    path = written_file(records(right, {"preds": wrong, "target": 0}), tmp_path)
    check_refused(path, "scores", at=1)
    found = report.read(report.Source(path, on_error="miss"))
    assert (found.preds[1].isnan().all(), found.missed) == (True, 1)
    assert evaluated(path, on_error="miss").values["acc_at_1"] == 0.5


# Numbers of ids, and columns beside them ---------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_text_is_numbered_in_rising_order_of_the_targets(form: str, tmp_path: Path) -> None:
    """Byte for byte; `vocabulary` gives another order, and must hold each target, and each once."""
    lists = [["Cafe (north)", "Bar"], [" 'x'", "{b}"], ["Zoo"]]
    target = ["{b}", "Cafe (north)", "Ä"]
    rows = table_in_form({"preds": lists, "target": target}, form, tmp_path)
    check_read(rows, lists, target)
    if form != "pandas":
        found = report.read(rows)
        assert found.vocabulary is not None
        assert found.vocabulary[:3] == ("Cafe (north)", "{b}", "Ä")
        assert found.target.tolist() == [1, 0, 2]
        found = report.read(report.Source(rows, vocabulary=[*target, "Bar"]))
        assert (found.target.tolist(), found.preds[0].tolist()) == ([0, 1, 2], [1, 3])
    check_refused(rows, "`target`", r"Cafe \(north\)", at=1, vocabulary=["{b}", "Ä"])
    check_refused(rows, "`vocabulary`", "'Ä' twice", vocabulary=["Ä", *target])


def test_a_vocabulary_of_integers(tmp_path: Path) -> None:
    """Ids have their positions; in text they are text, and no mixture is one."""
    rows = {"preds": [[20, 10], [30, 40], [40, -1]], "target": [10, 20, 20]}
    path = table_in_form(rows, ".parquet", tmp_path)
    found = report.read(report.Source(path, vocabulary=[20, 10]))
    assert (found.preds.tolist(), found.target.tolist()) == ([[0, 1], [2, 3], [3, -1]], [1, 0, 0])
    assert ids_read(path, vocabulary=["20", "10"])[0] == [["20", "10"], ["30", "40"], ["40"]]
    assert evaluated(path, vocabulary=[20, 10, 7]).card["candidates"] is None
    check_refused(path, "`target`", "20", at=1, vocabulary=[10, 30])
    with pytest.raises(TypeError, match="`vocabulary` must be all text or all integers"):
        report.read(report.Source(path, vocabulary=["10", 20]))


def test_sparse_ids_are_numbered(tmp_path: Path) -> None:
    """From a largest id of 4 times the number of distinct targets and 2^20 on."""
    for largest, words in ((2**20 + 8, None), (2**20 + 9, (0, 2**20 + 9))):
        path = table_in_form({"preds": [[0], [1]], "target": [0, largest]}, ".parquet", tmp_path)
        vocabulary = report.read(path).vocabulary
        assert (vocabulary and vocabulary[:2]) == words
        check_read(path, [[0], [1]], [0, largest])
    far = [12345678901, 77, 99999999999]
    lists, targets = [[far[0], far[1]], [far[2], 5], [far[2]]], [*far[:2], 77]
    path = table_in_form({"preds": lists, "target": targets}, ".parquet", tmp_path)
    check_read(path, lists, targets)
    assert report.read(path).target.tolist() == [1, 0, 0]


@pytest.mark.parametrize("form", FORMS)
def test_groups_masks_and_excluded_ids(form: str, tmp_path: Path) -> None:
    """Groups are named as they are written; a mask is true, false, 1 or 0; excluded ids are ids."""
    use = pa.array([True, False, True, True])
    more = {"hour": [7, 10, 9, 7], "on": [1, 0, 1, 1], "use": use, "seen": [[7], [], [9, 8], []]}
    rows = table_in_form({**COLUMNS, **more}, form, tmp_path)
    options: dict[str, Any] = {"mask": "use", "exclude": "seen", "groups": ["hour", "on", "user"]}
    e = evaluated(rows, **options)
    assert e.values["mrr"] == pytest.approx((1 + 0 + 1 / 3) / 3)
    assert (e.card["queries"], e.card["left_out"]) == (4, 1)
    found = {(x["kind"], x["group"]): x["queries"] for x in e.group_records()}
    assert found == {("hour", "7"): 2, ("hour", "10"): 0, ("hour", "9"): 1, ("on", "1"): 3,
                     ("on", "0"): 0, ("user", "ann"): 2, ("user", "bob"): 0,
                     ("user", "eve"): 1}  # fmt: skip
    assert evaluated(rows, **{**options, "mask": "on"}).values == e.values
    if form != "pandas":
        read: Any = report.read(rows, **options)
        assert (read.mask.tolist(), read.groups["hour"].tolist()) == (use.to_pylist(), more["hour"])
        assert [{*x} - {-1} for x in read.exclude.tolist()] == [{7}, set(), {9, 8}, set()]
    check_refused(rows, "true, false, 1 or 0", "`user`", "'ann'", at=0, mask="user")
    check_refused(rows, "`user`", exclude="user")
    check_refused(rows, "'none'", exclude="none")
    for name, gap in ("hour", [7, None, 7, 7]), ("user", ["a", "b", None, "c"]):
        if form != ".csv":  # whose empty cell is a name
            rows = table_in_form({**COLUMNS, **more, name: gap}, form, tmp_path)
            with pytest.raises(ValueError, match=rf"row {gap.index(None)} of .*group in `{name}`"):
                evaluated(rows, groups=[name])
    rows = table_in_form({**COLUMNS, "on": [1.5, 2.5, 1.5, 1.5]}, form, tmp_path)
    if form in (".parquet", "pandas"):
        with pytest.raises(TypeError, match=r"`on` in .*must hold groups"):
            evaluated(rows, groups=["on"])


def test_days_and_odd_names_are_groups(tmp_path: Path) -> None:
    """Days of Arrow and bools; `01` beside `a` is text."""
    days, on = pa.array([0, 1], pa.date32()), pa.array([True, False])
    columns = {"preds": [[1]] * 2, "target": [1] * 2, "day": days, "on": on}
    rows = table_in_form(columns, ".parquet", tmp_path)
    found = {x["group"] for x in evaluated(rows, groups=["day", "on"]).group_records()}
    assert found == {"1970-01-01", "1970-01-02", "0", "1"}
    path = written_file("preds,target,user\n1,1,a\n1,1,01\n", tmp_path)
    assert [*report.read(path, groups=["user"]).groups["user"]] == ["a", "01"]


# Arrays of NumPy ---------------------------------------------------------------------------------


def test_scores_stay_on_the_disk(tmp_path: Path) -> None:
    """A .npy of scores in any order shares the file's memory; its targets are another file."""
    scores, target = np.random.default_rng(0).normal(size=(20, 5)), np.arange(20) % 5
    expected = report.evaluate(scores, target, k=1).values
    path, other = tmp_path / "p.npy", tmp_path / "t.npy"
    np.save(other, target)
    wide = scores.astype(np.longdouble)
    for kind in (scores, np.asfortranarray(scores), scores.astype(">f8"), wide):
        np.save(path, kind)
        found = report.read(report.Source(path, truth=other))
        assert evaluated(path, target=str(other)).values == expected
        assert report.evaluate(found.preds, found.target, k=1).values == expected
        if kind.dtype == float and kind.dtype.isnative:
            np.load(path, mmap_mode="r+")[:] = 0
            assert not found.preds.any()
    with pytest.raises(ValueError, match=r"`truth` must be the file of the targets"):
        report.read(path)


@pytest.mark.parametrize("kind", ["u1", "i2", "u4", "i8"])
def test_arrays_of_any_integers(kind: str, tmp_path: Path) -> None:
    """Targets of 8 bits, and a mask of 0 and 1, are read beside scores as beside lists."""
    target, mask = np.array([0, 1, 1], kind), np.array([1, 1, 0], kind)
    for preds in (np.eye(3), [[0], [1], [2]]):
        np.savez(tmp_path / "a.npz", preds=preds, target=target, mask=mask)
        found = report.read(tmp_path / "a.npz", mask="mask")
        e = report.evaluate(found.preds, found.target, mask=found.mask, k=1)
        assert (e.values["acc_at_1"], e.card["left_out"]) == (1, 1)
        assert evaluated(tmp_path / "a.npz", mask="mask").values == e.values


def test_arrays_of_one_id_per_query_are_lists(tmp_path: Path) -> None:
    """Integers `[N]` are lists of one id, and of two dimensions lists with padding."""
    np.savez(tmp_path / "a.npz", preds=[3, 2, -1], target=[3, 5, 1])
    check_read(tmp_path / "a.npz", [[3], [2], []], [3, 5, 1])
    np.save(tmp_path / "a.npy", [3, 2, -1])
    np.save(tmp_path / "b.npy", [3, 5, 1])
    found = report.read(report.Source(tmp_path / "a.npy", truth=tmp_path / "b.npy"))
    assert (found.preds.tolist(), found.target.tolist()) == ([[3], [2], [-1]], [3, 5, 1])
    np.savez(tmp_path / "a.npz", preds=[[1, -7], [2, 3]], target=[1, 2])
    check_refused(tmp_path / "a.npz", r"\[1, -7\]", at=0)
    check_read(tmp_path / "a.npz", [[], [2, 3]], [1, 2], missed=1, on_error="miss")
    np.savez(tmp_path / "a.npz", preds=np.array([[2**64 - 1], [1]], np.uint64), target=[1, 1])
    check_refused(tmp_path / "a.npz", "64 bits, got 18446744073709551615")


@pytest.mark.parametrize(("arrays", "says"), [
    ({"preds": [0.5, 0.2]}, r"scores \[N, C\] .*float64 \(2,\)"),
    ({"preds": 3}, r"scores \[N, C\] or lists of ids"),
    ({"preds": [[[1]], [[2]]]}, r"got int64 \(2, 1, 1\)"),
    ({"preds": [["a"], ["b"]]}, r"got ndarray <U1 \(2, 1\)"),
    ({"preds": [1, 2, 3]}, r"one row for each of the 3 predictions, got int64 \(2,\)"),
    ({"preds": np.zeros((2, 0))}, "with C from 1 on"),
    ({"preds": np.array([[1], None], object)}, "Python objects"),
    ({"target": 1}, r"ids \[N\] or \[N, M\].*got int64 \(\)"),
    ({"target": [0.5, 1.0]}, r"ids .*got float64 \(2,\)"),
    ({"user": ["a"]}, "one value for each of the 2 predictions"),
])  # fmt: skip
def test_arrays_of_other_shapes_are_refused(
    arrays: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """With the rule, and the shape in the file; nothing is unpickled."""
    right = {"preds": [[1, 0], [0, 1]], "target": [1, 1], "user": ["a", "b"]}
    np.savez(tmp_path / "a.npz", **{**right, **arrays})
    check_refused(tmp_path / "a.npz", says, groups=["user"])


def test_excluded_candidates_may_be_an_array_of_bools(tmp_path: Path) -> None:
    """One per candidate, beside scores and beside lists."""
    excluded = np.array([[0, 0, 1], [0, 1, 0], [0, 0, 0]], bool)
    np.savez(tmp_path / "a.npz", preds=np.eye(3), target=[0, 2, 2], seen=excluded)
    read: Any = report.read(tmp_path / "a.npz", exclude="seen")
    assert torch.equal(read.exclude, torch.tensor(excluded))
    found = evaluated(tmp_path / "a.npz", exclude="seen").values
    assert found["mrr"] == pytest.approx((1 + 0.75 + 1) / 3)
    np.savez(tmp_path / "a.npz", preds=[[2, 0], [1, 2], [1, 2]], target=[0, 2, 2], seen=excluded)
    found = evaluated(tmp_path / "a.npz", exclude="seen").values
    assert found["mrr"] == pytest.approx((1 + 1 + 0.5) / 3)


# Runs of TREC ------------------------------------------------------------------------------------

RUN = """q1 Q0 a 1 0.500000001 me
q1 Q0 b 9 0.5 me
q1 Q0 c 2 1e40 me

q2 Q0 a 1 1e-3 me (a b)
q4 Q0 a 1 1 me
"""
QRELS = "# query 0 id grade\nq1 0 a 1\nq1 0 b 0\nq2 0 b 2\nq3 0 a 1\n"


def test_a_run_is_read_as_trec_eval_reads_it(tmp_path: Path) -> None:
    """By score as float32, then by id from last to first, as Windows writes it, and compressed."""
    marked = [f"\ufeff{text}".replace("\n", "\r\n").encode() for text in (RUN, QRELS)]
    (tmp_path / "a.run").write_bytes(marked[0])
    (tmp_path / "a.run.gz").write_bytes(gzip.compress(marked[0]))
    (tmp_path / "a.run.zst").write_bytes(pa.compress(marked[0], "zstd", asbytes=True))
    (tmp_path / "a.qrels").write_bytes(marked[1])
    for name in ("a.run", "a.run.gz", "a.run.zst"):
        found = ids_read(tmp_path / name, truth=tmp_path / "a.qrels")
        assert found[0][0][2:] + found[0][1:] == ["a", ["a"], []]
        assert [x if isinstance(x, list) else [x] for x in found[1]] == [["a"], ["b"], ["a"]]
    asked = ["--target", str(tmp_path / "a.qrels"), "--measure", "mrr@3", "--format", "json"]
    shown = json.loads(run("score", str(tmp_path / "a.run"), *asked).output)
    assert shown["mrr_at_3"]["value"] == pytest.approx((1 / 3 + 0 + 0) / 3)
    card = shown["card"]
    assert (card["queries"], card["missing"], card["without_truth"]) == (3, 1, 1)


@pytest.mark.parametrize(("a", "b", "says"), [
    ("q1 Q0 a 1 0.5\n", QRELS, "line 1 of .*a.run must be `query Q0 id rank score name`"),
    (RUN, "q1 0 a\n", "line 1 of .*a.qrels must be `query 0 id grade`.*'q1 0 a'"),
    ("q1 Q0 a 1 good me\n", QRELS, "line 1 of .*'good'"),
    ("q1 Q0 a 1 nan me\n", QRELS, "line 1 of .*'q1 Q0 a 1 nan me'"),
    (f"{RUN}q1 Q0 a 3 3 me\n", QRELS, "line 7 of .*a.run must be .* each id once per query"),
    (RUN, f"{QRELS}q1 0 a 0\n", "line 6 of .*a.qrels must be .* each id once per query"),
    ("q1 Q0 \udcff 1 1 me\n", QRELS, r"line \d of .*a.run must be .* in UTF-8"),
])  # fmt: skip
def test_a_broken_line_of_a_run_is_named(a: str, b: str, says: str, tmp_path: Path) -> None:
    """With its file and number."""
    for name, text in (("a.run", a), ("b.run", a), ("a.qrels", b)):
        (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    (run, both), needs = ("a.run", "*.run"), "`truth` must be the file of the judgements"
    for rows, truth, rule in ((run, "a", says), (run, None, needs), (both, "a", "one run")):
        with pytest.raises(ValueError, match=rule):
            report.read(report.Source(tmp_path / rows, truth=truth and tmp_path / f"{truth}.qrels"))


@pytest.mark.parametrize("form", FORMS)
def test_swapped_columns_are_named(form: str, tmp_path: Path) -> None:
    """Lists as targets and single ids as predictions are no evaluation."""
    rows = table_in_form({"preds": [3, 5], "target": [[3, 1], [7, 2]]}, form, tmp_path)
    check_refused(rows, "swapped", "`preds`", "`target`", at=0)
    check_read(rows, [[3, 1], [7, 2]], [3, 5], preds="target", target="preds")


def test_groups_of_tables_without_rows_are_read(tmp_path: Path) -> None:
    """A header alone, and a file without a byte beside it."""
    (tmp_path / "part 0.csv").write_text("preds,target,user\n", "utf-8")
    (tmp_path / "part 1.csv").write_text("", "utf-8")
    with pytest.warns(UserWarning, match="should hold rows, got none"):
        found = report.read(tmp_path, groups=["user"])
    assert len(found.groups["user"]) == len(found.target) == 0


def test_a_frame_whose_scores_are_all_nan_is_read() -> None:
    """Such a row decides nothing, and its target is a miss."""
    frame = pd.DataFrame({"preds": [[np.nan] * 3], "target": [0]})
    found = report.evaluate(frame, k=1)
    assert (found.values["acc_at_1"], found.card["rows_with_nan"]) == (0, 1)
