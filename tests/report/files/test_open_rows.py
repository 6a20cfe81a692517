"""Tables are read as they are: typed, in parts, and with an error where a value would change."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import report
from nextloc_metrics.report.files import csv_rows, sources
from nextloc_metrics.report.files.sources import Files
from nextloc_metrics.report.files.tables import TableRows, open_rows

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
ipc = pytest.importorskip("pyarrow.ipc")
compute = pytest.importorskip("pyarrow.compute")
parquet = pytest.importorskip("pyarrow.parquet")


def pyarrow_can(function: Callable[..., Any], *args: Any) -> bool:
    """Whether the pyarrow that is installed can do so; what it cannot do, no reader can."""
    try:
        function(*args)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True


LARGE = 2**53 + 1


def lines(path: Path, *rows: Any) -> Path:
    """Write JSON lines; text is written as it is."""
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)
                  for row in rows),
        encoding="utf-8",
    )  # fmt: skip
    return path


def table(path: Path, preds: Any, target: Any, **more: Any) -> Path:
    """Write Parquet."""
    parquet.write_table(pa.table({"preds": preds, "target": target, **more}), path)
    return path


def text(path: Path, content: str) -> Path:
    """Write text."""
    path.write_text(content, encoding="utf-8")
    return path


def values(rows: TableRows) -> tuple[list[Any], list[Any]]:
    """Return lists and targets as ids: numbers are translated back, and padding left out."""
    found: tuple[list[Any], list[Any]] = ([], [])
    for batch in rows.chunks():
        words = None if rows.vocabulary is None else [*rows.vocabulary, *rows.others]
        for kept, numbers in zip(found, (batch.preds, batch.target), strict=True):
            for row in numbers.reshape(len(numbers), -1).tolist():
                ids = [number if words is None else words[number] for number in row if number >= 0]
                kept.append(ids if kept is found[0] or rows.has_several else ids[0])
    return found


def labels(rows: TableRows, name: str) -> list[str]:
    """Return the group of each row."""
    kinds = [batch.groups[name] for batch in rows.chunks()]
    return [kind.labels[number] for kind in kinds for number in kind.numbers.tolist()]


# Rows and columns --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "size"), [(".csv", 100), (".tsv", 1 << 22), (".csv.gz", 100)])
def test_a_file_that_ends_inside_a_quoted_cell(
    kind: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is named wherever the quote opens; a quote inside of an open cell is a character."""
    for name in ("_BLOCK", "_LONGEST"):
        monkeypatch.setattr(f"nextloc_metrics.report.files.csv_rows.{name}", size)
    path = tmp_path / f"a{kind}"

    def rows_of(*cells: list[str]) -> Any:
        content = "".join("\t".join(row) + "\n" for row in [["preds", "target", "note"], *cells])
        content = content if kind == ".tsv" else content.replace("\t", ",")
        made = content[:-1].encode()  # the last line has no end
        path.write_bytes(gzip.compress(made) if kind.endswith("gz") else made)
        return open_rows(path)

    right = [["[1]", "1", "fine"]] * 20
    for cut in ('"oops', '"oops ""', '"a, b\n', '"'):
        for before in (right, []):
            with pytest.raises(ValueError, match=rf"row {len(before)} of .* must have a closing q"):
                values(rows_of(*before, ["[2]", "2", cut], *right))
        with pytest.raises(ValueError, match=r"row 20 of .*a\..* must have a closing quote"):
            values(rows_of(*right, ["[2]", cut]))
    with pytest.raises(ValueError, match=r"row 20 of .* line end behind each closing quote"):
        values(rows_of(*right, ["[2]", "2", '"a"b"'], *right))
    for note in ('5" pipe', '""', '"a ""b"""', "'"):
        found = values(rows_of(*right, ["[2]", "2", note], *right))
        assert found == ([[1]] * 20 + [[2]] + [[1]] * 20, [1] * 20 + [2] + [1] * 20)


def test_a_column_occurs_once(tmp_path: Path) -> None:
    """In a table as in a file; another column may occur twice."""
    path = text(tmp_path / "a.csv", "x,preds,target,x\n0,1,1,0\n")
    assert values(open_rows(path)) == ([[1]], [1])
    twice = pa.Table.from_arrays([pa.array([1])] * 3, names=["preds", "target", "target"])
    with pytest.raises(ValueError, match="Table must have every column once, got 'target' 2 times"):
        open_rows(twice)


def test_a_missing_column_has_a_suggestion(tmp_path: Path) -> None:
    """In every kind of file."""
    rows = {"predictions": [[3, 1]], "target": [3]}
    paths = [tmp_path / f"a{kind}" for kind in (".parquet", ".csv", ".jsonl", ".json", ".arrow")]
    parquet.write_table(pa.table(rows), paths[0])
    text(paths[1], 'predictions,target\n"[3, 1]",3\n')
    lines(paths[2], {"predictions": [3, 1], "target": 3})
    text(paths[3], '[{"predictions": [3, 1], "target": 3}]')
    with ipc.new_file(paths[4], pa.table(rows).schema) as writer:
        writer.write(pa.table(rows))
    for source in [*paths, pl.DataFrame(rows)]:
        says = r"must have the columns \['preds'\], got \[.*; did you mean 'predictions'\?"
        with pytest.raises(ValueError, match=says):
            open_rows(source)
        assert values(open_rows(source, preds="predictions")) == ([[3, 1]], [3])


def test_swapped_columns_are_named(tmp_path: Path) -> None:
    """Lists as targets and single ids as predictions are no evaluation."""
    csv = text(tmp_path / "a.csv", 'preds,target\n3,"[3, 1]"\n5,"[7, 2]"\n')
    typed = table(tmp_path / "a.parquet", [3, 5], [[3, 1], [7, 2]])
    for path in (csv, typed):
        with pytest.raises(
            ValueError, match=r"swapped: .*row 0 of .* prediction '?3'? and the targ"
        ):
            values(open_rows(path))
    found = values(open_rows(typed, preds="target", target="preds"))
    assert found == ([[3, 1], [7, 2]], [3, 5])


# Text --------------------------------------------------------------------------------------------


def test_text_is_compared_byte_for_byte(tmp_path: Path) -> None:
    """A target keeps its brackets, quotes and spaces in JSON lines, Parquet and CSV."""
    lists, target = [["Cafe (north)", "Bar"], [" 'x'", "{b}"]], ["Cafe (north)", "{b}"]
    json_lines = lines(
        tmp_path / "a.jsonl",
        *({"preds": a, "target": b} for a, b in zip(lists, target, strict=True)),
    )
    typed = table(tmp_path / "a.parquet", lists, target)
    csv = tmp_path / "a.csv"
    pd.DataFrame({"preds": map(json.dumps, lists), "target": target}).to_csv(csv, index=False)
    python = tmp_path / "b.csv"
    pd.DataFrame({"preds": lists, "target": target}).to_csv(python, index=False)
    for path in (json_lines, typed, csv, python):
        assert values(open_rows(path)) == (lists, target)
        found = report.read(path)
        assert report.evaluate(found.preds, found.target, k=1).values["acc_at_1"] == 0.5


def test_real_text_that_begins_with_a_bracket_is_one_id(tmp_path: Path) -> None:
    """Where the predictions are real lists; among cells of text it would be a broken list."""
    path = lines(tmp_path / "a.jsonl", {"preds": ["[gone]"], "target": "[gone]"})
    assert values(open_rows(path)) == ([["[gone]"]], ["[gone]"])


@pytest.mark.parametrize(
    "cell",
    ["[466 ... 1068]", "[466, ..., 1068]", "[np.int64(466), np.int64(1068)]", "['a''b']"],
)
def test_what_numpy_prints_is_no_list(cell: str, tmp_path: Path) -> None:
    """The error says how to write lists; such answers can be counted as misses."""
    is_text = "a" in cell
    path = tmp_path / "a.csv"
    pd.DataFrame({"preds": ["[7]", cell], "target": ["b"] * 2 if is_text else [7] * 2}).to_csv(
        path, index=False
    )
    with pytest.raises(ValueError, match=r"row 1 of .*a\.csv .*"):
        values(open_rows(path))
    if cell != "['a''b']":
        with pytest.raises(ValueError, match=r"NumPy prints.* `\.tolist\(\)`"):
            values(open_rows(path))
    rows = open_rows(path, on_error="miss")
    assert values(rows)[0][1] == []
    assert rows.missed == 1


@pytest.mark.parametrize(
    ("cell", "ids"),
    [
        ("[]", []), ("[ ]", []), ("[007]", None), ("[1,]", [1]), ("[1, None]", None), ("[1", None),
        ("[[1]]", None), ("[1.5]", None), ("[true]", None), ("[-1, 4]", [4]), ("[-2]", None),
        ("[1], [2]", None), ("[999999999999999999]", [10**18 - 1]), ("[9223372036854775807]",
        [2**63 - 1]), ("[9223372036854775808]", None), ("[18446744073709551616]", None),
        ("[1, 9007199254740993]", [1, LARGE]), ("['3', 5]", [3, 5]), ("(3, 5)", [3, 5]), ("", []),
        ("3", [3]), ("3.0", [3]), ("3.5", None), ("1e3", None), ("3 5", None), ("0x1F", None),
        ("[3,5]", [3, 5]), (" [ 3 , 5 ]", [3, 5]), ("[9007199254740993, 7.0]", [LARGE, 7]),
        ("[1, 7.5]", None), ("9007199254740993.0", None), ("9007199254740993", [LARGE]),
        ("[9007199254740992.0]", None), ("[9007199254740991.0]", [2**53 - 1]), ("-0", None),
        ("+3", None),
    ],
)  # fmt: skip
def test_cells_of_text(cell: str, ids: list[int] | None, tmp_path: Path) -> None:
    """A cell is a list in JSON or of Python, one id, or unreadable: nothing between."""
    path = tmp_path / "a.csv"
    pd.DataFrame({"preds": ["9", "[7, 8]", cell], "target": [9, 7, 7]}).to_csv(path, index=False)
    rows = open_rows(path, on_error="miss")
    for _ in range(2):
        assert values(rows) == ([[9], [7, 8], ids or []], [9, 7, 7])
        assert rows.missed == (ids is None)
    if ids is None:
        with pytest.raises(ValueError, match=r"row 2 of .*a\.csv must hold ids"):
            values(open_rows(path))


def test_numbers_beside_names_are_text(tmp_path: Path) -> None:
    """In CSV one name makes all ids text, also those in lists; a fraction is no id."""
    path = text(tmp_path / "a.csv", 'preds,target\n"[12, 7]",7\n"[""A12"", 12]",A12\n01,1\n')
    assert values(open_rows(path)) == ([["12", "7"], ["A12", "12"], ["01"]], ["7", "A12", "1"])
    text(path, "preds,target\n1,1\n1,1.5\n")
    with pytest.raises(
        ValueError, match=r"row 1 of .*a\.csv must hold ids of locations in `target`, got '1.5'"
    ):
        values(open_rows(path))
    text(path, "preds,target\n01,01\n1,1\n")
    assert values(open_rows(path)) == ([["01"], ["1"]], ["01", "1"])


def test_lines_end_only_at_line_ends(tmp_path: Path) -> None:
    """U+2028 and U+0085 are characters of a name."""
    names = ["a\u2028b", "c\x85d"]
    rows = [{"preds": names, "target": name} for name in names]
    path = lines(tmp_path / "a.jsonl", *rows * 200)
    assert values(open_rows(path)) == ([names] * 400, names * 200)
    assert values(open_rows(path, vocabulary=names)) == ([names] * 400, names * 200)


# Integers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, 10**30])
def test_integers_beyond_64_bits_are_no_scores(number: int, tmp_path: Path) -> None:
    """They are an error or a counted miss, and all other rows stay what they are."""
    rows = [{"preds": [3, 1], "target": 3}] * 300 + [{"preds": [number, 3], "target": 3}]
    path = lines(tmp_path / "a.jsonl", *rows)
    with pytest.raises(ValueError, match=rf"row 300 of .*a\.jsonl must hold ids.*\[{number}, 3\]"):
        values(open_rows(path))
    opened = open_rows(path, on_error="miss")
    assert values(opened) == ([[3, 1]] * 300 + [[]], [3] * 301)
    assert (opened.missed, opened.num_candidates, opened.num_locations) == (1, None, 4)
    with pytest.raises(ValueError, match=r"row 0 of .*b\.jsonl must hold ids"):
        values(open_rows(lines(tmp_path / "b.jsonl", {"preds": [1], "target": number})))


def test_targets_without_ids_do_not_tell_what_ids_are(tmp_path: Path) -> None:
    """Text behind them makes all ids text, also in another part or file; a number makes none."""
    first = lines(tmp_path / "0.jsonl", *[{"preds": [], "target": []}] * 300)
    for other in (["a", "b"], [3, 1]):
        rows = [{"preds": other, "target": x} for x in (other[:1], other[1:])]
        path = lines(tmp_path / "1.jsonl", *[{"preds": [], "target": []}] * 300, *rows)
        for source, number in ((path, 300), ([first, path], 600)):
            assert values(open_rows(source))[1][number:] == [other[:1], other[1:]]
    lines(path, {"preds": [1], "target": [1]}, {"preds": ["a"], "target": ["a"]})
    with pytest.raises(ValueError, match=r"row 1 of .*1\.jsonl must hold ids .* in `target`"):
        values(open_rows([first, path]))


def test_unsigned_integers_are_no_padding(tmp_path: Path) -> None:
    """`list<uint64>` with 2^64 - 1."""
    lists = pa.array([[3, 1], [2**64 - 1, 1]], pa.list_(pa.uint64()))
    path = table(tmp_path / "a.parquet", lists, pa.array([3, 1], pa.uint32()))
    with pytest.raises(ValueError, match=r"row 1 of .*a\.parquet must hold ids.*18446744073709551"):
        values(open_rows(path))
    rows = open_rows(path, on_error="miss")
    assert (values(rows), rows.missed) == (([[3, 1], []], [3, 1]), 1)
    np.savez(tmp_path / "a.npz", preds=np.array([[2**64 - 1], [1]], np.uint64), target=[1, 1])
    with pytest.raises(ValueError, match=r"row 0 of .*a\.npz must hold ids"):
        values(open_rows(tmp_path / "a.npz"))


def test_large_integers_keep_their_digits(tmp_path: Path) -> None:
    """Beside a float in JSON, and beside a part with floats."""
    path = lines(
        tmp_path / "a.jsonl", {"preds": [LARGE, 1], "target": LARGE},
        *[{"preds": [LARGE, 0.5], "target": 5}, {"preds": [LARGE], "target": 5}] * 300,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"row 1 of .*must hold ids.*\[9007199254740993, 0.5\]"):
        values(open_rows(path))
    rows = open_rows(path, on_error="miss")
    found = values(rows)
    assert (found[0][0], found[1][0], rows.missed) == ([LARGE, 1], LARGE, 300)
    (tmp_path / "parts").mkdir()
    table(tmp_path / "parts" / "0.parquet", [[LARGE, 1]], [LARGE])
    table(tmp_path / "parts" / "1.parquet", [[1.0, 2.0]], [2])
    with pytest.raises(ValueError, match=r"`preds` in .*1\.parquet must hold ids.*got double"):
        values(open_rows(tmp_path / "parts"))
    table(tmp_path / "parts" / "1.parquet", [[1, 2]], [2.0])
    with pytest.raises(
        ValueError, match=r"`target` in .*1\.parquet must hold ids.*cast ids to int"
    ):
        open_rows(tmp_path / "parts")


def test_sparse_ids_have_a_vocabulary(tmp_path: Path) -> None:
    """Ids such as 12345678901 take no memory, neither as targets nor as one invented answer."""
    far = [12345678901, 77, 99999999999]
    path = table(tmp_path / "a.parquet", [[far[0], far[1]], [far[2], 5], [far[2]]], [*far[:2], 77])
    rows = open_rows(path)
    assert (rows.vocabulary, rows.num_locations) == ((77, far[0]), 2)
    lists = [batch.preds.tolist() for batch in rows.chunks()]
    assert lists == [[[1, 0], [2, 3], [2, -1]]]
    path = table(tmp_path / "b.parquet", [[3, 1], [far[0], 3], [far[0], far[2]]], [3, 1, 1])
    rows = open_rows(path)
    assert (rows.vocabulary, rows.num_locations) == (None, 4)
    assert values(rows)[0][1] == [far[0], 3]
    found = report.read(path)
    assert found.preds.tolist() == [[3, 1], [4, 3], [4, 5]]
    assert report.evaluate(found.preds, found.target, k=1).values["acc_at_1"] == pytest.approx(
        1 / 3
    )


def test_how_sparse_ids_are_numbered() -> None:
    """From a largest id of 4 times the number of distinct targets and 2^20 on."""
    for largest, words in ((2**20 + 8, None), (2**20 + 9, (0, 2**20 + 9))):
        rows = open_rows(pa.table({"preds": [[0], [1]], "target": [0, largest]}))
        assert rows.vocabulary == words
        assert rows.num_locations == (2 if words else largest + 1)


def test_a_vocabulary_numbers_ids(tmp_path: Path) -> None:
    """Text and integers by their position; a target that is missing is an error."""
    path = table(tmp_path / "a.parquet", [[20, 10], [30, 40], [40, -1]], [10, 20, 20])
    rows = open_rows(path, vocabulary=[20, 10])
    assert [batch.preds.tolist() for batch in rows.chunks()] == [[[0, 1], [2, 3], [3, -1]]]
    assert (values(rows)[1], rows.num_locations) == ([10, 20, 20], 2)
    assert values(open_rows(path, vocabulary=["20", "10"]))[0][0] == ["20", "10"]
    with pytest.raises(
        ValueError, match=r"row 1 of .*a\.parquet must hold ids of locations in `target`, got 20"
    ):
        values(open_rows(path, vocabulary=[10, 30]))
    with pytest.raises(TypeError, match="`vocabulary` must be all text or all integers"):
        open_rows(path, vocabulary=["10", 20])


def test_types_are_not_mixed(tmp_path: Path) -> None:
    """Text and integers differ in files with types, times and bools are no ids."""
    for preds, target, says in [
        ([["3"]], [3], "`preds` in .* must hold ids, integers as the targets, got string"),
        ([[3]], ["3"], "`preds` in .* must hold ids, text as the targets, got int64"),
        (pa.array([[3]], pa.list_(pa.timestamp("s"))), [3], "`preds`.* got timestamp"),
        ([[3]], pa.array([3], pa.date32()), "`target`.* got date32"),
        ([[True]], [3], "`preds`.* got bool"),
        ([[[3]]], [3], "`preds`.* got list"),
        ([3.0], [3], "`preds`.* got double; floats are scores"),
    ]:
        path = table(tmp_path / "a.parquet", preds, target)
        with pytest.raises(ValueError, match=says):
            values(open_rows(path))
    path = lines(tmp_path / "a.jsonl", {"preds": [3], "target": 3}, {"preds": ["3"], "target": 3})
    with pytest.raises(ValueError, match=r"row 1 of .*a\.jsonl must hold ids.* \['3'\]"):
        values(open_rows(path))
    path = lines(tmp_path / "b.jsonl", {"preds": [3], "target": 3}, {"preds": [3], "target": "3"})
    with pytest.raises(ValueError, match=r"row 1 of .*b\.jsonl must hold ids.* '3'"):
        values(open_rows(path))
    with pytest.raises(ValueError, match="`rows` must be columns of one type each"):
        open_rows(pd.DataFrame({"preds": [[3], ["x"]], "target": [3, 3]}))


# Gaps --------------------------------------------------------------------------------------------


def test_nulls_are_broken_answers(tmp_path: Path) -> None:
    """A missing list, a missing id in a list, and a missing key; a null target is an error."""
    lists = [[3, 1], None, [None, 3], [], [2]]
    rows = [{"preds": x, "target": 3} for x in lists]
    typed = table(tmp_path / "a.parquet", lists, [3] * 5)
    words = table(
        tmp_path / "b.parquet", [x and [y and str(y) for y in x] for x in lists], ["3"] * 5
    )
    json_lines = lines(tmp_path / "a.jsonl", *rows, {"target": 3})
    paths = [typed, words, json_lines]
    pairs = pa.array([[3, 1], None, [None, 3], [1, 2], [2, 3]], pa.list_(pa.int64(), 2))
    file = tmp_path / "c.parquet"
    if pyarrow_can(table, file, pairs, [3] * 5) and pyarrow_can(parquet.read_table, file):
        paths.append(file)
    for path in paths:
        with pytest.raises(ValueError, match=rf"row 1 of .*{path.name} must hold ids.*None"):
            values(open_rows(path))
        opened = open_rows(path, on_error="miss")
        found = values(opened)[0]
        assert [len(x) for x in found[:3]] == [2, 0, 0]
        assert opened.missed == 2 + (path == json_lines)
    typed = table(tmp_path / "d.parquet", [[1], [1]], [1, None])
    json_lines = lines(tmp_path / "d.jsonl", {"preds": [1], "target": 1}, {"preds": [1]})
    for path in (typed, json_lines):
        with pytest.raises(ValueError, match=r"row 1 of .*must hold ids.*None"):
            values(open_rows(path, on_error="miss"))


def test_lists_of_targets_may_be_empty(tmp_path: Path) -> None:
    """Such a query has no target; targets of one id each are one column."""
    path = table(tmp_path / "a.parquet", [[3], [3]], [[3, 1], []])
    assert values(open_rows(path)) == ([[3], [3]], [[3, 1], []])
    rows = open_rows(table(tmp_path / "b.parquet", [[3], [3]], [[3], [1]]))
    assert (values(rows), rows.has_several) == (([[3], [3]], [3, 1]), False)
    rows = open_rows(table(tmp_path / "c.parquet", [[3], [3]], [[3], [-1]]))
    assert (values(rows), rows.has_several) == (([[3], [3]], [[3], []]), True)


def test_a_broken_line_of_json_is_named_or_counted(tmp_path: Path) -> None:
    """It has no target, so that it is in no value, which a warning says."""
    right = {"preds": [1], "target": 1}
    two = json.dumps(right) * 2
    path = lines(tmp_path / "a.jsonl", right, '{"preds": [1], "tar', "[3]", *[right] * 300, two)
    with pytest.raises(
        ValueError, match=r"row 1 of .*a\.jsonl must be a JSON object, got '{\"preds"
    ):
        values(open_rows(path))
    rows = open_rows(path, on_error="miss")
    with pytest.warns(UserWarning, match=r"lines of .*a\.jsonl are no JSON objects"):
        found = values(rows)
    assert (found, rows.missed, rows.num_rows) == (([[1]] * 301, [1] * 301), 3, 301)


def test_one_float_changes_no_other_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In JSON lines, wherever it stands: the list is one broken answer, or the error names it."""
    monkeypatch.setattr("nextloc_metrics.report.files.json_lines._BLOCK", 1 << 10)
    right = {"preds": [1, 2, 3], "target": 1, "seen": [4], "pad": "y" * 100}
    for name, cell in (("preds", [2.5, 1]), ("preds", [1.0]), ("target", 1.0), ("seen", [4.0])):
        for at in (0, 24):
            rows = [right] * 24
            rows.insert(at, {**right, name: cell})
            path = lines(tmp_path / "a.jsonl", *rows)
            place = f"line {at + 1}, row {at} of {path} must hold ids of locations in `{name}`"
            with pytest.raises(ValueError, match=re.escape(f"{place}, got {cell}")):
                values(open_rows(path, exclude="seen", on_error="raise"))
            if name == "preds":
                found = report.evaluate_table(path, k=1, exclude="seen", on_error="miss")
                assert found.values["acc_at_1"] == pytest.approx(0.96)
                assert found.card["broken_answers"] == 1


@pytest.mark.parametrize("kind", ["table", "jsonl", "csv"])
def test_the_first_rows_do_not_decide_the_width_of_scores(kind: str, tmp_path: Path) -> None:
    """Most rows do: where broken rows are misses, their order changes nothing."""
    whole, broken = [[0.9, 0.1, 0.0]] * 7, [[0.3], [], [0.5, 0.5], [0.1] * 4, [0.2, 0.8], None]
    rows = [{"preds": x, "target": 2 - i % 3} for i, x in enumerate([*broken, *whole])]
    for made in (rows, rows[::-1], rows[6:] + rows[:6]):
        table = pa.Table.from_pylist(made)
        source: Any = table
        if kind == "jsonl":
            source = lines(tmp_path / "a.jsonl", *made)
        elif kind == "csv":
            source = tmp_path / "a.csv"
            cells = [json.dumps(row["preds"]) for row in made]
            pd.DataFrame({"preds": cells, "target": table["target"]}).to_csv(source, index=False)
        found = report.evaluate_table(source, k=1, on_error="miss")
        assert found.values["acc_at_1"] == pytest.approx(2 / 13)
        assert (found.card["broken_answers"], found.card["candidates"]) == (6, 3)
        with pytest.raises(ValueError, match=r"row \d+ of .*must hold scores, as many"):
            report.evaluate_table(source, k=1)
    for made in (rows[1:2], rows[1:2] * 3):
        if kind == "table":
            typed = pa.table({"preds": pa.array([x["preds"] for x in made], pa.list_(pa.float64())),
                              "target": [1] * len(made)})  # fmt: skip
            for on_error in ("raise", "miss"):
                with pytest.raises(ValueError, match="must hold scores in `preds`, got empty"):
                    open_rows(typed, on_error=on_error)
    stream = pa.table({"preds": [[0.5], [0.9, 0.1]], "target": [0, 0]}).to_reader
    with pytest.raises(ValueError, match=r"row [01] of .*must hold scores"):
        values(open_rows(stream(), on_error="miss"))


@pytest.mark.parametrize(
    ("name", "kind"), [("preds", ".parquet"), ("target", ".jsonl"), ("seen", ".csv")]
)
def test_one_long_list_takes_little_memory(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are padded to the longest of few rows, so that padding is bounded by the data."""
    monkeypatch.setattr("nextloc_metrics.report.files.tables._VALUES", 1 << 10)
    number, long = 3000, 2000
    columns: dict[str, Any] = {
        "preds": [[1, 2, 3]] * number, "target": [[1, 2]] * number, "seen": [[4]] * number,
    }  # fmt: skip
    columns[name] = [*columns[name][1:], list(range(long))]
    path = tmp_path / f"a{kind}"
    if kind == ".parquet":
        parquet.write_table(pa.table(columns), path)
    elif kind == ".jsonl":
        lines(path, *pa.table(columns).to_pylist())
    else:
        pd.DataFrame(columns).to_csv(path, index=False)
    batches = list(open_rows(path, exclude="seen").chunks())
    assert sum(len(batch.target) for batch in batches) == number
    assert len(batches) < 200
    sizes = [x.numel() for batch in batches for x in (batch.preds, batch.target, batch.exclude)]
    assert max(sizes) <= max(long, 16 << 10) < number * long / 100
    monkeypatch.setattr("nextloc_metrics.report.files.predictions.memory", lambda: 1 << 20)
    with pytest.raises(ValueError, match=f"of {long} ids, got .*`report.evaluate_table`"):
        report.read(path, exclude="seen")


# Kinds of sources --------------------------------------------------------------------------------


def frame(number: int = 5) -> Any:
    """Return a table with lists, targets and groups."""
    lists = [[i % 7, (i + 1) % 7, 9][: 1 + i % 3] for i in range(number)]
    return pa.table(
        {"preds": lists, "target": [i % 5 for i in range(number)],
         "user": [f"u{i % 3}" for i in range(number)]}
    )  # fmt: skip


def test_every_source_gives_the_same_rows(tmp_path: Path) -> None:
    """Files of each kind, compressed too, frames of several libraries, and an address."""
    whole = frame()
    paths = {kind: tmp_path / f"a{kind}" for kind in (".parquet", ".arrow", ".arrows", ".jsonl")}
    parquet.write_table(whole, paths[".parquet"])
    for kind, new in ((".arrow", ipc.new_file), (".arrows", ipc.new_stream)):
        with new(paths[kind], whole.schema) as writer:
            writer.write(whole)
    lines(paths[".jsonl"], *whole.to_pylist())
    csv = tmp_path / "a.csv"
    whole.to_pandas().assign(preds=whole["preds"].to_pylist()).to_csv(csv, index=False)
    packed = []
    for path in (csv, paths[".jsonl"]):
        for kind in ("gz", "xz", "bz2"):
            packed.append(tmp_path / f"{path.name}.{kind}")
            module = __import__({"xz": "lzma", "gz": "gzip", "bz2": "bz2"}[kind])
            packed[-1].write_bytes(module.compress(path.read_bytes()))
        packed.append(tmp_path / f"{path.name}.zst")
        with pa.CompressedOutputStream(str(packed[-1]), "zstd") as out:
            out.write(path.read_bytes())
    memory = []
    if fsspec := pytest.importorskip("fsspec"):
        system = fsspec.filesystem("memory")
        for path in (csv, paths[".parquet"]):
            system.pipe(f"/bucket/{path.name}", path.read_bytes())
        memory = ["memory://bucket/a.csv", "memory://bucket/*.parquet"]
    polars = pl.from_arrow(whole)
    kept = whole.set_column(2, "user", whole["user"].dictionary_encode())
    views = whole.set_column(2, "user", whole["user"].cast(pa.string_view()))
    expected = whole["preds"].to_pylist(), whole["target"].to_pylist()
    for source in (
        *paths.values(), csv, *packed, *memory, whole, polars, whole.to_pandas(), kept, views,
        polars.with_columns(pl.col("user").cast(pl.Categorical)),
    ):  # fmt: skip
        rows = open_rows(source, groups=["user"])
        assert values(rows) == expected
        assert (rows.num_rows, rows.num_locations) == (5, 5)
        assert labels(rows, "user") == whole["user"].to_pylist()


def test_a_stream_is_read_once(tmp_path: Path) -> None:
    """Its integers are the numbers; text needs a vocabulary, as the targets are not read first."""
    whole = frame(3000)
    rows = open_rows(whole.to_reader(max_chunksize=100))
    assert (values(rows), rows.num_locations) == (values(open_rows(whole)), None)
    words = pa.table({"preds": [["b", "x"]], "target": ["a"]})
    with pytest.raises(ValueError, match=r"`vocabulary` must list the ids of text .* a table inst"):
        open_rows(words.to_reader())
    assert values(open_rows(words.to_reader(), vocabulary=["a", "b"])) == ([["b", "x"]], ["a"])
    scores = pa.table({"preds": [[0.5, 0.2], [], None], "target": [1, 0, 0]})
    rows = open_rows(scores.to_reader(), on_error="miss")
    assert [batch.preds.isnan().all(1).tolist() for batch in rows.chunks()] == [[False, True, True]]
    assert rows.missed == 2


def test_folders_and_partitions(tmp_path: Path) -> None:
    """Files in the order of their names, without those of engines; folders may be a column."""
    whole = frame(6)
    for number, user in enumerate(["u b", "u%2Fa"]):
        folder = tmp_path / f"user={user}"
        folder.mkdir()
        part = whole.slice(3 * number, 3).drop_columns("user")
        parquet.write_table(part, folder / "part-0.parquet")
        parquet.write_table(part, folder / "_part.parquet")
        parquet.write_table(part, folder / ".part.parquet")
    rows = open_rows(tmp_path, groups=["user"])
    assert [Path(file).parent.name for file in rows.files] == ["user=u b", "user=u%2Fa"]
    batches = list(rows.chunks())
    names = [
        batch.groups["user"].labels[int(i)]
        for batch in batches
        for i in batch.groups["user"].numbers
    ]
    assert names == ["u b"] * 3 + ["u/a"] * 3
    assert torch.cat([batch.target for batch in batches]).tolist() == whole["target"].to_pylist()
    assert values(rows.of_files(rows.files[1:]))[1] == whole["target"].to_pylist()[3:]
    assert values(open_rows(rows.files))[1] == whole["target"].to_pylist()


def test_rows_come_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any size, from every reader, with the same rows and the right row in an error."""
    for module in ("tables", "sources"):
        monkeypatch.setattr(f"nextloc_metrics.report.files.{module}._VALUES", 64)
    for module in ("csv_rows", "json_lines"):
        monkeypatch.setattr(f"nextloc_metrics.report.files.{module}._BLOCK", 1 << 10)
    whole = frame(400)
    broken = pa.concat_tables(
        [whole, pa.table({"preds": [[-5]], "target": [1], "user": ["u"]}), whole]
    )
    with pytest.raises(ValueError, match=r"row 400 of Table must hold ids.*-5"):
        values(open_rows(broken.combine_chunks()))
    paths = [tmp_path / f"a{kind}" for kind in (".parquet", ".csv", ".jsonl")]
    for rows, number in ((whole, None), (broken, 400)):
        parquet.write_table(rows, paths[0], row_group_size=150)
        pd.DataFrame(rows.to_pydict()).to_csv(paths[1], index=False)
        lines(paths[2], *rows.to_pylist())
        for path in paths:
            opened = open_rows(path)
            if number is None:
                assert len(list(opened.chunks())) > 5
                assert values(opened) == (rows["preds"].to_pylist(), rows["target"].to_pylist())
            else:
                with pytest.raises(ValueError, match=rf"row 400 of .*{path.name} must .*-5"):
                    values(opened)


def test_groups_masks_and_excluded_ids(tmp_path: Path) -> None:
    """Labels are the names of a chunk; a missing group and a fraction are errors."""
    rows = {"preds": [[3], [1]], "target": [3, 1], "seen": [[1, 2], []], "use": [True, False],
            "day": pa.array([0, 1], pa.date32()), "on": [False, True], "hour": [7, 7]}  # fmt: skip
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table(rows), path)
    opened = open_rows(path, groups=["day", "on", "hour"], mask="use", exclude="seen")
    (batch,) = opened.chunks()
    found = {name: labels(opened, name) for name in opened.groups}
    assert found == {"day": ["1970-01-01", "1970-01-02"], "on": ["0", "1"], "hour": ["7", "7"]}
    assert (batch.mask.tolist(), batch.exclude.tolist()) == ([True, False], [[1, 2], [-1, -1]])
    parquet.write_table(pa.table({**rows, "on": [1.5, 2.5], "hour": [7, None]}), path)
    with pytest.raises(TypeError, match=r"`on` in .*a\.parquet must hold groups.*got double"):
        list(open_rows(path, groups=["on"]).chunks())
    with pytest.raises(ValueError, match=r"row 1 of .*a\.parquet must hold a group in `hour`"):
        list(open_rows(path, groups=["hour"]).chunks())
    with pytest.raises(ValueError, match=r"row 0 of .*must hold true, false, 1 or 0 in `day`"):
        list(open_rows(path, mask="day").chunks())


def test_scores_are_read_as_they_are(tmp_path: Path) -> None:
    """Lists of floats of one length; another length, a null and text are errors or misses."""
    scores = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    target = np.arange(40) % 6
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel()), 6)
    for column in (fixed, pa.array(scores.tolist(), pa.list_(pa.float64()))):
        rows = open_rows(table(tmp_path / "a.parquet", column, target))
        (batch,) = rows.chunks()
        assert torch.equal(batch.preds.float(), torch.from_numpy(scores))
        assert (rows.num_candidates, rows.num_locations) == (6, None)
    path = lines(
        tmp_path / "a.jsonl", {"preds": [0.5, 1], "target": 1}, {"preds": [1, 0], "target": 0}
    )
    assert [x for batch in open_rows(path).chunks() for x in batch.preds.tolist()] == [
        [0.5, 1],
        [1, 0],
    ]
    for wrong in ([0.5], [0.5, None], ["a", 0.5], None, [LARGE, 0.5]):
        path = lines(
            tmp_path / "b.jsonl", {"preds": [0.5, 1], "target": 1}, {"preds": wrong, "target": 0}
        )
        with pytest.raises(ValueError, match=r"row 1 of .*b\.jsonl must hold scores, as many as"):
            values(open_rows(path))
        rows = open_rows(path, on_error="miss")
        preds = torch.cat([batch.preds for batch in rows.chunks()])
        assert (preds[1].isnan().all(), rows.missed) == (True, 1)
        assert report.evaluate(preds, [1, 0], k=1).values["acc_at_1"] == 0.5
    path = table(tmp_path / "c.parquet", [[0.5, 1.0]], ["b"])
    with pytest.raises(ValueError, match="`vocabulary` must list the ids of text if predictions"):
        open_rows(path)
    assert next(iter(open_rows(path, vocabulary=["a", "b"]).chunks())).target.tolist() == [1]


def test_an_array_larger_than_memory_is_refused(tmp_path: Path) -> None:
    """With the size that a header declares, before any is taken."""
    made = io.BytesIO()
    np.save(made, np.zeros((2, 2)))
    header = made.getvalue()[10:128].replace(b"(2, 2), }", b"(2000000, 2000000), }")
    lie = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(32)
    target = io.BytesIO()
    np.save(target, np.zeros(2, np.int64))
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("preds.npy", lie)
        packed.writestr("target.npy", target.getvalue())
    says = r"the arrays of .*a\.npz must fit into the memory .* got 'preds' with 29,802.3 GiB"
    for read in (open_rows, report.read):
        with pytest.raises(ValueError, match=says):
            read(path)


def test_what_is_no_source_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is missing to read it."""
    with pytest.raises(TypeError, match="`rows` must be a path, a list of paths or a table"):
        open_rows({"preds": [[1]], "target": [1]})
    with pytest.raises(FileNotFoundError, match="existing file of predictions, got nowhere"):
        open_rows("nowhere/*.parquet")
    for kind in (".parquet", ".arrow", ".csv.gz"):
        path = tmp_path / f"a{kind}"
        path.write_bytes(b"{ not what the name says")
        with pytest.raises(ValueError, match=rf"`path` must be readable, and .*a{kind} is not"):
            open_rows(path)
    path = tmp_path / "a.csv"
    path.write_bytes(b"preds,target\n\xff\xfe,1\n")
    with pytest.raises(ValueError, match=r"`path` must be readable, and .*a\.csv is not"):
        values(open_rows(path))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match="need pyarrow; install the extra `cli`"):
        open_rows(path)


def test_times_in_csv_are_numbers(tmp_path: Path) -> None:
    """10 comes after 9."""
    path = text(tmp_path / "a.csv", "preds,target,time,user\n1,1,10,a\n1,1,9,01\n")
    found = report.read(path, groups=["time", "user"])
    assert found.groups["time"].tolist() == [10, 9]
    assert found.groups["user"].tolist() == ["a", "01"]


def test_warnings_do_not_hide() -> None:
    """A literal with an odd escape is read without a warning of Python's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = open_rows(pa.table({"preds": [r"['a\d']"], "target": [r"a\d"]}))
        assert values(rows) == ([[r"a\d"]], [r"a\d"])


def test_other_kinds_of_lists() -> None:
    """Large lists, views, fixed sizes, and columns whose names hold dots."""
    lists = [[3, 1], [2, 5]]
    for kind in (
        pa.large_list(pa.int32()), pa.list_view(pa.int64()), pa.list_(pa.uint16(), 2),
        pa.list_(pa.dictionary(pa.int8(), pa.int64())),
    ):  # fmt: skip
        assert values(open_rows(pa.table({"preds": pa.array(lists, kind), "target": [3, 5]}))) == (
            lists, [3, 5],
        )  # fmt: skip
    words = [["a", "b"], ["c"]]
    for kind in (pa.large_list(pa.large_string()), pa.list_(pa.string_view())):
        rows = pa.table({"preds": pa.array(words, kind), "target": ["a", "d"]})
        assert values(open_rows(rows)) == (words, ["a", "d"])


def test_a_column_may_be_runs_of_equal_rows(tmp_path: Path) -> None:
    """Targets, groups and predictions, in memory and in Arrow IPC."""

    def runs(values: Any) -> Any:
        return pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(values))

    whole = pa.table({"preds": [[3], [5], [4]], "target": runs([3, 4]), "user": runs(["a", "b"])})
    with ipc.new_file(tmp_path / "a.arrow", whole.schema) as writer:
        writer.write(whole)
    for source in (whole, tmp_path / "a.arrow"):
        rows = open_rows(source, groups=["user"])
        assert values(rows) == ([[3], [5], [4]], [3, 3, 4])
        assert labels(rows, "user") == ["a", "a", "b"]
    if pyarrow_can(compute.run_end_decode, runs([[3, 1], [4]])):
        lists = whole.set_column(0, "preds", runs([[3, 1], [4]]))
        assert values(open_rows(lists))[0] == [[3, 1], [3, 1], [4]]


def test_nan_in_a_cell_of_pandas_is_no_missing_value() -> None:
    """The value is that of the same rows in Arrow; None, and a cell without a list, are missing."""
    nan = float("nan")
    scores = [[nan, 0.9], [0.9, 0.1]]
    expected = report.evaluate_table(pa.table({"preds": scores, "target": [1, 0]}), k=1).values
    assert expected["mrr"] == 0.75
    for cells in (scores, [np.array(x) for x in scores], [np.array(x, "f4") for x in scores]):
        frame = pd.DataFrame({"preds": cells, "target": [1, 0]})
        assert report.evaluate_table(frame, k=1, on_error="miss").values == expected
    for missing in (nan, None, [0.1, None]):
        frame = pd.DataFrame({"preds": [np.array([nan, 0.9]), missing], "target": [1, 1]})
        with pytest.raises(ValueError, match=r"row 1 of DataFrame must hold scores"):
            values(open_rows(frame))


def test_a_file_counts_once(tmp_path: Path) -> None:
    """Repeated in a list, or a link in a folder, it is an error."""
    path = text(tmp_path / "a.csv", "preds,target\n1,1\n")
    again = [path, str(tmp_path / "x" / ".." / "a.csv")]
    (tmp_path / "x").mkdir()
    for source in (again, [path, path], [str(tmp_path), path]):
        with pytest.raises(
            ValueError, match=r"must be distinct files, got .*a\.csv after .*a\.csv"
        ):
            open_rows(source)
    (tmp_path / "b.csv").symlink_to(path)
    with pytest.raises(ValueError, match=r"must be distinct files, got .*b\.csv after .*a\.csv"):
        report.evaluate_table(tmp_path, k=1)


def test_the_folder_of_rows_without_a_value(tmp_path: Path) -> None:
    """Its name is Hive's and Spark's for null, which is no group."""
    for user in ("ann", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"user={user}").mkdir()
        table(tmp_path / f"user={user}" / "a.parquet", [[1]], [1])
    with pytest.raises(
        ValueError, match=r"row 0 of .*__HIVE.* must hold a group in `user`, got no"
    ):
        report.evaluate_table(tmp_path, groups=["user"], k=1)
    assert report.evaluate_table(tmp_path, k=1).card["queries"] == 2


def test_names_of_columns_may_hold_dots(tmp_path: Path) -> None:
    """A path in Parquet has dots too."""
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a.b": [[3]], "a": [[4]], "b.c": [3]}), path)
    assert values(open_rows(path, preds="a.b", target="b.c")) == ([[3]], [3])
    assert values(open_rows(path, preds="a", target="b.c")) == ([[4]], [3])


def test_rows_of_files_are_sent_to_other_processes(tmp_path: Path) -> None:
    """With their vocabulary."""
    path = table(tmp_path / "a.parquet", [["a", "x"], ["b"]], ["b", "a"])
    rows = pickle.loads(pickle.dumps(open_rows(path)))
    assert values(rows) == ([["a", "x"], ["b"]], ["b", "a"])


def test_many_invented_answers_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit their numbers are hashes, equal for equal ids and never those of locations."""
    monkeypatch.setattr("nextloc_metrics.report.files.numbers._KNOWN", 3)
    names = [f"x{i}" for i in range(50)]
    rows = open_rows(pa.table({"preds": [[*names, "a"], names], "target": ["a", "a"]}))
    (batch,) = rows.chunks()
    first, second = batch.preds.tolist()
    assert (first[-1], first[:-1]) == (0, second[:-1])
    assert (len({*first}), len(rows.others)) == (51, 3)
    assert min(first[:-1]) >= rows.num_locations


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", '\ufeff\n"pred_1",pred_2,target\n7,5,3\n'),
        ("a.tsv", "pred_1\tpred_2\ttarget\n7\t5\t3\n"),
        ("a.jsonl", '\n{"pred_1": 7, "pred_2": 5,\t"target": 3}\n'),
        ("a.json", '[{"pred_1": 7, "pred_2": 5, "target": 3}]'),
        ("b.json", '{\n"pred_1": 7, "pred_2": 5,\n"target": 3\n}'),
    ],
)
def test_columns_are_found_in_each_kind_of_text(name: str, text: str, tmp_path: Path) -> None:
    """A pattern names columns, whatever stands around their names."""
    (tmp_path / name).write_text(text, "utf-8")
    found = report.read(tmp_path / name, preds="pred_*")
    assert (found.preds.tolist(), found.target.tolist()) == ([[7, 5]], [3])
    with pytest.raises(ValueError, match=r"`preds` must match a column, got 'x\*' for \['pred_1'"):
        report.read(tmp_path / name, preds="x*")


def test_arrays_that_are_not_contiguous(tmp_path: Path) -> None:
    """Scores in the order of columns, of the other byte order, or large, are read in parts."""
    scores = np.random.RandomState(0).rand(9, 4)
    expected = report.evaluate(scores, np.arange(9) % 4).values
    np.save(tmp_path / "t.npy", np.arange(9) % 4)
    for kind in (np.asfortranarray(scores), scores.astype(">f8"), scores.astype(np.longdouble)):
        np.save(tmp_path / "p.npy", kind)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "_VALUES", 8)
            path, target = tmp_path / "p.npy", str(tmp_path / "t.npy")
            assert report.evaluate_table(path, target=target).values == expected


@pytest.mark.parametrize("cell", ["7", '5" pipe'])  # which Arrow splits, and Python
@pytest.mark.parametrize("block", [8, 1 << 22])
def test_a_mark_of_utf_8_within_a_file(
    cell: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a part of its cell, wherever a block begins; before the header again, it is refused."""
    monkeypatch.setattr(csv_rows, "_BLOCK", block)
    rows = f"\ufeffpreds,target\n{cell},a\n\ufeff{cell},b\n"
    (tmp_path / "a.csv").write_text(rows, "utf-8")
    found = [x for part in Files([str(tmp_path / "a.csv")]).parts(["preds"])
             for x in part.columns["preds"].to_pylist()]  # fmt: skip
    assert found == [cell, f"\ufeff{cell}"]
    (tmp_path / "b.csv").write_text(rows * 2, "utf-8")
    with pytest.raises(ValueError, match=r"line 4, row 2 of .* must not be the header again"):
        report.read(tmp_path / "b.csv")
