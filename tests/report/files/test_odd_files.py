"""Files as people have them: odd ids, gaps, marks of other systems. Nothing is guessed silently."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from nextloc_metrics import previously_visited, report
from nextloc_metrics.geography import Locations
from nextloc_metrics.report.files import csv_rows, json_lines, opening
from nextloc_metrics.report.files.coordinates_and_counts import (
    read_coordinates,
    read_counts,
    read_words,
)
from nextloc_metrics.report.files.tables import open_rows

pa = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
parquet = pytest.importorskip("pyarrow.parquet")


def write_lines(path: Path, *rows: dict[str, Any], mark: bytes = b"") -> Path:
    """Write JSON lines."""
    path.write_bytes(mark + "\n".join(map(json.dumps, rows)).encode())
    return path


def words_of(found: report.Predictions, ids: Any) -> Any:
    """Turn numbers back into text."""
    assert found.vocabulary is not None
    rows = ids.reshape(len(ids), -1).tolist()
    return [[found.vocabulary[x] for x in row if x >= 0] for row in rows]


def test_ids_that_python_would_take_for_numbers_are_text(tmp_path: Path) -> None:
    """Cells of a grid such as 12_3; words such as nan and inf, unless a target may be missing."""
    path, words = tmp_path / "a.csv", ["1_23", "10", "nan"]
    path.write_text('preds,target\n"12_3",1_23\n"1_0",10\n"nan,inf",nan\n', encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"line 4, row 2 .* in `target`, got 'nan'; .*`vocabulary`"
    ):
        report.read(path, separator=",")
    found = report.read(path, separator=",", vocabulary=words)
    assert words_of(found, found.target) == [[word] for word in words]
    assert words_of(found, found.preds) == [["12_3"], ["1_0"], ["nan", "inf"]]


WORDS = ["NaN", "None", "null", "NA", "-inf", "+1", " 3", "3\u00a0", "1e3", "\uff13"]


@pytest.mark.parametrize("word", [*WORDS, "1.5", "-0", "01", "1_0", "1-2", "nano"])
@pytest.mark.parametrize("others", [[], ["Bar"]])
def test_one_target_changes_no_other(word: str, others: list[str], tmp_path: Path) -> None:
    """In any order the other rows are right, as integers and as text; or the target is refused."""
    path, right = tmp_path / "a.csv", ['"[1, 2]",1.0', '"[3.0, 4]",3', "5.0,5", '"[""6.0""]",6']
    rows = [*right, *(f"7,{x}" for x in others), f'9,"{word}"']

    def hits(vocabulary: list[str] | None = None) -> int:
        batches = open_rows(path, vocabulary=vocabulary).chunks()
        return sum(int((x.preds[:, 0] == x.target).sum()) for x in batches)

    for made in (rows, rows[::-1]):
        path.write_text("\n".join(["preds,target", *made]), encoding="utf-8")
        if word in {*WORDS, "1.5", "-0"}:
            with pytest.raises(ValueError, match=rf"row {made.index(rows[-1])} of .* in `target`"):
                hits()
        else:
            assert hits() == 4
        assert hits([*"12345679", word, *others]) == 4


@pytest.mark.parametrize("cell", ["3,4", "3;4", "3|4", "10 11 12"])
def test_several_numbers_are_a_name_beside_names_only(cell: str, tmp_path: Path) -> None:
    """Beside integers such a target is refused, in any order and file; `1-2` is a name."""
    (tmp_path / "rows").mkdir()

    def are_hits(*parts: list[str]) -> bool:
        for i, part in enumerate(parts):
            lines = [f'"[1, ""{x}""]","{x}"' for x in part]
            (tmp_path / "rows" / f"{i}.csv").write_text(
                "\n".join(["preds,target", *lines]), "utf-8"
            )
        batches = open_rows(tmp_path / "rows").chunks()
        return all(bool((x.preds == x.target[:, None]).any(1).all()) for x in batches)

    for right in ([cell, "5,6"], [cell, "1-2", "7"]):
        assert are_hits(right, right[::-1])
        assert are_hits(right[:1], right[::-1])
    for wrong in ([cell, "7"], ["7", cell]):
        for parts in ([wrong, []], [wrong[:1], wrong[1:]]):
            with pytest.raises(ValueError, match=r"row [01] of .* in `target`, .* `separator="):
                are_hits(*parts)


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 22])
def test_quotes_that_a_strict_reader_takes(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text such as `5" pipe`, doubled quotes, line ends in a cell, wherever the bytes are cut."""
    notes = ['5" pipe', '"say ""ho"""', '"two\nlines, ""x"""', '""', '"a"', 'b"']
    path = tmp_path / "a.csv"
    path.write_text("\r\n".join(["note,preds,target", *(f"{x},[1],1" for x in notes)]), "utf-8")
    monkeypatch.setattr(csv_rows, "_BLOCK", block)
    assert report.evaluate_table(path, k=1).card["queries"] == len(notes)
    long = "y" * (200_000 if block > 7 else 300)  # more than a cell of Python's csv holds
    path.write_text(f'note,preds,target\n"x""",[1],1\n"{long}",[1],1\n', "utf-8")
    assert report.evaluate_table(path, k=1).values["acc_at_1"] == 1


@pytest.mark.parametrize("rows", ["[1],1\n" * 9, "[1],1\n[1],1,1\n" * 9, '[1],"1\n' * 9])
def test_only_the_thread_that_asks_reads_a_file(
    rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of Arrow that does so still, when a process ends by an error, aborts it."""
    path, threads = tmp_path / "a.csv.gz", set[int]()
    path.write_bytes(gzip.compress(f"preds,target\n{rows}".encode()))

    class Opened(gzip.GzipFile):
        def read(self, size: int | None = -1) -> bytes:
            threads.add(threading.get_ident())
            return super().read(size)

    monkeypatch.setitem(opening._OPENERS, ".gz", lambda raw: Opened(fileobj=raw))
    monkeypatch.setattr(csv_rows, "_BLOCK", 16)
    with contextlib.suppress(ValueError):
        report.evaluate_table(path, k=1)
    assert threads == {threading.get_ident()}


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    """Whatever its library raises."""
    path = tmp_path / "a.csv.gz"
    data = gzip.compress(b"preds,target\n" + b"[1],1\n" * 9)
    for at in range(10, len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
        with pytest.raises(ValueError, match=r"a\.csv\.gz"):
            report.evaluate_table(path, k=1)


def test_names_with_spaces_and_commas(tmp_path: Path) -> None:
    """A target is one name, commas included; lists in text are JSON or Python's, or are refused."""
    park = {"preds": ["Central Park", "O'Hare, Chicago"], "target": "Central Park"}
    zoo = {"preds": ["Zoo"], "target": "O'Hare, Chicago"}
    found = report.read(write_lines(tmp_path / "a.jsonl", park, zoo))
    assert words_of(found, found.target) == [["Central Park"], ["O'Hare, Chicago"]]
    assert report.evaluate(found.preds, found.target, k=1).values["acc_at_1"] == 0.5
    text = tmp_path / "a.csv"
    text.write_text(
        "preds,target\n\"['Central Park', 'Zoo']\",Zoo\n\"Central Park, Zoo\",Central Park\n",
        encoding="utf-8",
    )
    found = report.read(text)
    assert words_of(found, found.preds) == [["Central Park", "Zoo"], ["Central Park, Zoo"]]
    assert words_of(found, found.target) == [["Zoo"], ["Central Park"]]


def test_a_vocabulary_holds_a_word_once(tmp_path: Path) -> None:
    """Otherwise an invented answer would get the number of a known one."""
    path = tmp_path / "a.csv"
    path.write_text("preds,target\nz,a\n", encoding="utf-8")
    with pytest.raises(ValueError, match="`vocabulary` must hold distinct ids, got 'a' twice"):
        report.read(path, vocabulary=["a", "b", "a"])


def test_minus_one_may_be_an_id_of_the_vocabulary(tmp_path: Path) -> None:
    """It is one where the vocabulary holds it, and padding of text ids otherwise."""
    path = tmp_path / "a.csv"
    path.write_text('preds,target\n"home,-1",-1\n"-1,home",-1\n', encoding="utf-8")
    found = report.read(path, vocabulary=["home", "-1"], separator=",")
    assert found.target.tolist() == [1, 1]
    assert found.preds.tolist() == [[0, 1], [1, 0]]
    padded = [{"preds": ["gym", "-1"], "target": [*target]} for target in (["gym", "-1"], "ab")]
    found = report.read(write_lines(tmp_path / "a.jsonl", *padded))
    assert (found.vocabulary, found.target.tolist()) == (("a", "b", "gym"), [[2, -1], [0, 1]])
    assert found.preds.tolist() == [[2, -1], [2, -1]]


def test_padding_among_text_is_no_id(tmp_path: Path) -> None:
    """-1 and numbers in `padding` are padding."""
    text = tmp_path / "a.csv"
    text.write_text('preds,target\n"a,-1,-100",a\n', encoding="utf-8")
    found = report.read(text, padding=[-100], separator=",")
    assert (found.preds.tolist(), found.vocabulary) == ([[0, -1, -1]], ("a",))


def test_large_ids_keep_their_digits_beside_null(tmp_path: Path) -> None:
    """A float would hold 53 bits of them."""
    large = 2**53 + 1
    table = {"preds": pa.array([large, None]), "target": pa.array([large, 5])}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    found = report.read(tmp_path / "a.parquet", on_error="miss")
    assert found.vocabulary == (5, large)
    assert (found.preds.tolist(), found.target.tolist()) == ([[1], [-1]], [1, 0])
    lists = {"preds": pa.array([[large, 3], [None, 4]]), "target": pa.array([large, 4])}
    parquet.write_table(pa.table(lists), tmp_path / "b.parquet")
    found = report.read(tmp_path / "b.parquet", on_error="miss")
    assert (found.vocabulary, found.missed) == ((4, large, 3), 1)
    assert found.preds.tolist() == [[1, 2], [-1, -1]]


def test_a_file_that_ends_within_its_mark_is_refused(tmp_path: Path) -> None:
    """It is not an empty file; a whole mark may stand before a quoted header."""
    path, mark = tmp_path / "a.csv", b"\xef\xbb\xbf"
    for part in (mark[:1], mark[:2]):
        path.write_bytes(part)
        with pytest.raises(ValueError, match=r"must be readable, and .*a\.csv is not: .utf-8"):
            report.read(path)
    path.write_bytes(mark + b'"preds","target"\n"[5, 6]",6\n')
    assert report.read(path).preds.tolist() == [[5, 6]]


@pytest.mark.slow
@pytest.mark.filterwarnings("error::ResourceWarning")
def test_no_file_stays_open_that_is_no_archive(tmp_path: Path) -> None:
    """NumPy leaves it open where its list of members cannot be read."""
    path = tmp_path / "a.npz"
    path.write_bytes(b"PK\x03\x04" + b"x" * 40)
    with pytest.raises(ValueError, match=r"a\.npz must hold arrays of numbers"):
        report.read(path)
    gc.collect()  # which closes it with a warning


def test_ids_of_a_run_are_text(tmp_path: Path) -> None:
    """-1, 1 and 1.0 are three documents; ids that are all integers stay numbers."""

    def read(run: str, qrels: str) -> Any:
        lines = (f"{x} 1 {9 - i} me\n" for i, x in enumerate(run.split("; ")))
        (tmp_path / "a.run").write_text("".join(lines), encoding="utf-8")
        (tmp_path / "a.qrels").write_text(
            "".join(f"{x}\n" for x in qrels.split("; ")), encoding="utf-8"
        )
        found = report.read(tmp_path / "a.run", targets=tmp_path / "a.qrels")
        assert found.grades.shape == found.target.shape
        return found, report.evaluate(found.preds, found.target, measures=["mrr"]).values["mrr"]

    found, mrr = read("1 Q0 1.0; 1 Q0 1; 2 Q0 x; 2 Q0 -1", "1 0 1 1; 2 0 -1 2; 2 0 b 1")
    assert (found.vocabulary[:3], mrr) == (("-1", "1", "b"), 0.5)
    found, mrr = read("1 Q0 -1; 1 Q0 5", "1 0 5 1")
    assert mrr == 0.5
    found, mrr = read("1 Q0 7; 1 Q0 5", "1 0 5 1; 1 0 6 0")
    assert (found.vocabulary, found.preds.tolist(), mrr) == (None, [[7, 5]], 0.5)
    for run, qrels, says in [
        (
            "1 Q0 a; 1 Q0 b; 1 Q0 a",
            "1 0 a 1",
            "line 3 of .*a.run must be .* each id once per query",
        ),
        ("1 Q0 a", "1 0 a 1; 1 0 a 0", "line 2 of .*a.qrels must be .* each id once per query"),
    ]:
        with pytest.raises(ValueError, match=says):
            read(run, qrels)
    run, judged = b"1 Q0 a 1 2 me\n", tmp_path / "a.qrels"
    judged.write_text("1 0 a 1\n", encoding="utf-8")
    with pa.CompressedOutputStream(str(tmp_path / "a.run.zst"), "zstd") as out:
        out.write(run)
    assert report.read(tmp_path / "a.run.zst", targets=judged).preds.tolist() == [[0]]
    for name, content in (("a.run", run + b"1 Q0 \xff 1 1 me\n"), ("a.run.gz", run)):
        (tmp_path / name).write_bytes(content)
        says = rf"line \d of .*{name} must be .* in UTF-8"
        with pytest.raises(ValueError, match=says):
            report.read(tmp_path / name, targets=judged)


def test_lines_of_a_vocabulary_end_at_line_ends_only(tmp_path: Path) -> None:
    """Other separators, such as U+0085, are characters of a name."""
    words = ["x\x85y", "b\u20282", "c\x0bd\x0ce\x1cf", "\rg", " h "]
    for end in ("\n", "\r\n"):
        for last in ("", end):
            content = "\ufeff" + end.join(words) + last
            (tmp_path / "v.txt").write_bytes(content.encode())
            assert read_words(tmp_path / "v.txt") == words


@pytest.mark.parametrize("count", ["9223372036854775808", "9" * 5000, "-1", "1.5", "1_0", "\u0663"])
def test_counts_of_visits_are_integers_of_64_bits(count: str, tmp_path: Path) -> None:
    """From 0 on, in ASCII digits; another is named."""
    path = tmp_path / "c.txt"
    path.write_text(f"2\n{count}\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"c\.txt must hold one integer per line, from 0 to"):
        read_counts(path)
    path.write_text("9223372036854775807\n0\n", encoding="utf-8")
    assert read_counts(path).tolist() == [2**63 - 1, 0]


def test_arrays_that_declare_more_than_they_hold(tmp_path: Path) -> None:
    """A header of any size takes no memory."""
    np.save(tmp_path / "p.npy", np.eye(3))
    np.save(tmp_path / "t.npy", np.arange(3))
    content = (tmp_path / "t.npy").read_bytes()
    lie = content.replace(b"(3,), }" + b" " * 12, b"(1000000000000,), }")
    assert len(lie) == len(content)
    (tmp_path / "t.npy").write_bytes(lie)
    with pytest.raises(ValueError, match=r"t\.npy must hold arrays of numbers .* cut"):
        report.read(tmp_path / "p.npy", targets=tmp_path / "t.npy")
    with pytest.raises(ValueError, match=r"t\.npy must hold arrays of numbers .* cut"):
        read_counts(tmp_path / "t.npy")


@pytest.mark.parametrize("kind", ["u1", "i2", "u4", "i8"])
def test_arrays_of_any_integers(kind: str, tmp_path: Path) -> None:
    """Targets of 8 bits, and a mask of 0 and 1, are read beside scores as beside lists."""
    target, mask = np.array([0, 1, 1], kind), np.array([1, 1, 0], kind)
    for preds in (np.eye(3), [[0], [1], [2]]):
        np.savez(tmp_path / "a.npz", preds=preds, target=target, mask=mask)
        found = report.read(tmp_path / "a.npz", mask="mask")
        e = report.evaluate(found.preds, found.target, k=1, mask=found.mask)
        assert e.values["acc_at_1"] == 1
        assert report.evaluate_table(tmp_path / "a.npz", mask="mask", k=1).values == e.values
        assert report.evaluate(preds, target, k=1, mask=mask.astype(bool)).values == e.values
    np.savez(tmp_path / "a.npz", preds=np.zeros((3, 0)), target=target)
    with pytest.raises(ValueError, match=r"a\.npz must be scores .* with C from 1 on"):
        report.read(tmp_path / "a.npz")


def test_files_that_no_reader_should_follow(tmp_path: Path) -> None:
    """JSON too deep for Python, and a name of a column too long for its CSV."""
    (tmp_path / "a.json").write_text("[" * 100_000, encoding="utf-8")
    (tmp_path / "a.csv").write_text("x" * 200_000 + "\n1\n", encoding="utf-8")
    for name in ("a.json", "a.csv"):
        with pytest.raises(ValueError, match=f"`path` must be readable, and .*{name} is not"):
            report.read(tmp_path / name)


def test_tables_of_coordinates_and_days_shift_no_column(tmp_path: Path) -> None:
    """A cell too many, a column named twice and an open quote are errors with file and row."""
    day = {"uid": "1", "d": "2", "t": "3", "x": "4", "y": "5"}

    def coordinates(path: Path) -> Any:
        return Locations(*read_coordinates(path)).points.isnan().any(1).tolist()

    def days(path: Path) -> Any:
        return report.evaluate_trajectories(path, {x: [float(n)] for x, n in day.items()}).values

    for read, header, row in [
        (coordinates, "latitude,longitude", "52.0,4.0"),
        (days, ",".join(day), ",".join(day.values())),
    ]:
        path, last = tmp_path / "a.csv", header.rpartition(",")[2]
        for text, says in [
            (f"{header}\n{row},10\n", "line 2, row 0 of .* cells as the header, got"),
            (f"{header},{last}\n{row},9\n", f"must have every column once, got '{last}' 2 times"),
            (f'{header},n\n{row},\n{row},"o\n{row},\n', "line 3, row 1 of .* a closing quote"),
            (f"{header}\n{row}\n{row[:-1]}b\n", f"`{last}` must be .* got .*b' in line 3, row 1"),
            (f"{header[:-1]}\n{row}\n", rf"must have the columns \['{last}'\]"),
        ]:
            path.write_text(text, encoding="utf-8")
            with pytest.raises(ValueError, match=says) as error:
                read(path)
            assert "a.csv" in str(error.value)
        path.write_text(f"n,{header}\n9,{row}\n", encoding="utf-8")
        assert read(path) == [False] if read is coordinates else read(path)["dtw"] == 0
    path.write_text("latitude,longitude\n52.0, 4.0\n,\nnan,NaN\n", encoding="utf-8")
    assert coordinates(path) == [False, True, True]
    for half in ("52.0,", ",4.0", "nan,1"):  # as where the file is cut
        path.write_text(f"latitude,longitude\n52.0,4.0\n{half}", encoding="utf-8")
        with pytest.raises(ValueError, match=r"line 3, row 1 of .* both `latitude` and"):
            coordinates(path)
    path.write_text("1,2,3,4,5\n1,2,4,4,x\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`y` must be numbers, got 'x' in line 2, row 1"):
        days(path)
    path.write_text("1,2,3,4,5\n1,2,4,4\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 2, row 1 of .* must have 5 cells as the first row"):
        days(path)
    path.write_text("1,9007199254740993,3,4,5\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must be whole numbers"):
        days(path)


def test_an_evaluation_of_masked_queries_has_a_page() -> None:
    """Also of distances, of which there is none."""
    places = Locations([1.0, 2.0], [1.0, 2.0])
    masked = report.evaluate(np.eye(2), [0, 1], k=1, locations=places, mask=[False] * 2)
    assert "<h2>Distance</h2>" in masked.to_html()


@pytest.mark.parametrize("order", [["01", "1"], ["1", "01"]])
def test_labels_that_are_one_number_have_one_order(order: list[str]) -> None:
    """The order does not depend on the order of the input."""
    e = report.evaluate([[3], [4]], [3, 5], k=1, num_locations=9, groups={"u": order})
    assert [row[0] for row in e.groups["u"].rows[:2]] == ["01", "1"]


def test_groups_may_be_bool() -> None:
    """Such as those of visits; they have the names 0 and 1."""
    visited = previously_visited(["a", "a"], [3, 3])
    e = report.evaluate([[3], [4]], [3, 4], k=1, groups={"visited": visited})
    assert [row[0] for row in e.groups["visited"].rows[:2]] == ["0", "1"]


def test_options_have_a_row_for_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rows are read in chunks."""
    monkeypatch.setattr("nextloc_metrics.core.queries.batch._CHUNK", 4)
    with pytest.raises(ValueError, match="`mask` must have a row for each of the 3 queries"):
        report.evaluate(torch.eye(3), [0, 1, 2], mask=[True] * 7)


def test_lines_that_arrow_cannot_read_are_separated_too(tmp_path: Path) -> None:
    """Beside null, cells are Python text; every id of a cell is read, as of any other line."""
    rows = {"preds": "7|3", "target": 3}, {"preds": "5|2", "target": 2, "note": None}
    for lines in (rows[:1], rows):
        path = write_lines(tmp_path / "a.jsonl", *lines)
        found = report.read(path, separator="|", vocabulary=[2, 3, 5, 7])
        assert found.preds.tolist() == [[3, 1], [2, 0]][: len(lines)]


@pytest.mark.parametrize("mark", ["; ", "|", ","])
def test_only_numbers_between_marks_are_taken_for_several_ids(mark: str, tmp_path: Path) -> None:
    """A word of which a part holds the mark is no list of numbers."""
    path = tmp_path / "a.tsv"
    for cell, says in ((f"4{mark}5", r"`separator="), (f"a{mark}b", "on_error='miss'")):
        path.write_text(f"preds\ttarget\n3\t3\n{cell}\t4\n", encoding="utf-8")
        with pytest.raises(ValueError, match=rf"line 3, row 1 of .*{says}"):
            report.read(path)


@pytest.mark.parametrize("mark", ["|", ";", "; ", ", "])
def test_names_joined_in_one_cell_are_no_list_that_never_hits(mark: str, tmp_path: Path) -> None:
    """Cells, single texts and items of lists; where a whole cell is a target, the marks are its."""
    names = [["Home", "Cafe"], ["Cafe", "Zoo"], ["Zoo", "Home"]]
    rows = [{"preds": mark.join(x), "target": x[0]} for x in names]
    path = write_lines(tmp_path / "a.jsonl", *rows)
    table = tmp_path / "a.tsv"
    lines = ["preds\ttarget", *(f"{x['preds']}\t{x['target']}" for x in rows)]
    table.write_text("\n".join(lines), encoding="utf-8")
    for file in (path, table):
        says = re.escape(f"; pass `separator={mark!r}`.")
        with pytest.raises(ValueError, match=f"no target is among those of 'preds' in .*{says}$"):
            report.evaluate_table(file)
        assert report.evaluate_table(file, separator=mark, k=1).values["acc_at_1"] == 1
    write_lines(path, *({**x, "preds": [x["preds"]]} for x in rows))
    with pytest.raises(ValueError, match=r"write each as an item of its own, such as \['Home'"):
        report.evaluate_table(path)
    write_lines(path, *({**x, "target": x["preds"]} for x in rows))
    assert report.evaluate_table(path, k=1).values["acc_at_1"] == 1


PRINTED: dict[str, tuple[list[str], list[str]]] = {
    "NumPy's integers": (["[1 2 3]", "[ 4  5\n  6]", "[7]"], ["2", "4", "7"]),
    "NumPy's names": (["['a' 'b c']", "['O-1'\n 'd']", "['e']"], ["b c", "O-1", "e"]),
    "tuples": (["(1, 2, 3)", "(4,)", "[7]"], ["2", "4", "7"]),
    "tuples of names": (["('a', 'b')", "(\"O'Hare\", 'd, e')", "('f',)"], ["b", "O'Hare", "f"]),
}


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("form", ["file", "frame"])
def test_printed_lists(name: str, form: str, tmp_path: Path) -> None:
    """What pandas writes of arrays and tuples is read as the lists that they are."""
    preds, target = PRINTED[name]
    rows: Any = pd.DataFrame({"preds": preds, "target": target})
    if form == "file":
        rows.to_csv(path := tmp_path / "a.csv", index=False)
        rows = path
    found = report.evaluate_table(rows, k=(1, 2))
    assert found.values["acc_at_1"] == pytest.approx(2 / 3)
    assert found.values["mrr"] == pytest.approx((1 / 2 + 1 + 1) / 3)


def test_printed_scores(tmp_path: Path) -> None:
    """Floats between brackets are scores of all candidates."""
    path = tmp_path / "a.csv"
    path.write_text('preds,target\n"[0.1 0.7 1e-3]",1\n"[.5 .1\n .4]",2\n', encoding="utf-8")
    found = report.evaluate_table(path, k=1)
    assert (found.values["acc_at_1"], found.values["mrr"]) == (0.5, 0.75)


def test_pairs_that_are_names_stay_names(tmp_path: Path) -> None:
    """Where targets look like tuples, so do the ids of cells of a grid."""
    path = tmp_path / "a.csv"
    cells = ['"(3, 5)","(3, 5)"', '"(4, 5)","(5, 4)"']
    path.write_text("preds,target\n" + "\n".join(cells) + "\n", encoding="utf-8")
    found = report.evaluate_table(path, k=1)
    assert (found.values["acc_at_1"], found.values["mrr"]) == (0.5, 0.5)


@pytest.mark.parametrize("cell", ["[1 2 ... 9]", "[1 2, 3]", "['a' 'b', 'c']", "(1, 2"])
def test_lists_that_are_cut_are_refused(cell: str, tmp_path: Path) -> None:
    """NumPy leaves ids out of long lists; commas between some ids are a mistake."""
    path = tmp_path / "a.csv"
    path.write_text(f'preds,target\n"{cell}",1\n"[1, 2]",2\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"row 0 .* must hold ids of locations in `preds`, got"):
        report.evaluate_table(path)


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_json_over_several_lines(suffix: str, tmp_path: Path) -> None:
    """A list of records, one record, and one after the other."""
    path = tmp_path / f"a{suffix}"
    first, other = ({"preds": [1, 2], "target": x} for x in (1, 2))
    laid_out = [json.dumps(x, indent=2) for x in (first, other)]
    for text in (json.dumps([first, other], indent=2), "\n".join(laid_out), " ".join(laid_out)):
        path.write_text(f"\ufeff{text}\n", encoding="utf-8")
        assert report.evaluate_table(path, k=1).values["mrr"] == 0.75
    path.write_text(laid_out[0], encoding="utf-8")
    assert report.evaluate_table(path, k=1).values["mrr"] == 1
    for wrong in (laid_out[0][:-2], laid_out[0] + "\n,", laid_out[0] + "\n[]", "{\n}\n3"):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(ValueError, match=r"must be (readable|an object)"):
            report.evaluate_table(path)


def test_a_folder_of_save_to_disk(tmp_path: Path) -> None:
    """Its rows are read, in order; of several splits one is chosen."""
    for split, targets in (("train", [2, 2, 2]), ("test", [1, 2])):
        folder = tmp_path / "saved" / split
        folder.mkdir(parents=True)
        for number, target in enumerate(targets):
            table = pa.table({"preds": [[1, 2]], "target": [target]})
            data = str(folder / f"data-{number:05}-of-{len(targets):05}.arrow")
            with pa.OSFile(data, "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
        for name in ("state", "dataset_info"):
            (folder / f"{name}.json").write_text("{}", encoding="utf-8")
    (tmp_path / "saved" / "dataset_dict.json").write_text("{}", encoding="utf-8")
    assert report.evaluate_table(tmp_path / "saved" / "test", k=1).values["mrr"] == 0.75
    with pytest.raises(
        ValueError, match=r"must be one split of .*'test', 'train'.*; pass .*train\.$"
    ):
        report.evaluate_table(tmp_path / "saved")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize(
    ("item", "what"), [({"name": "Cafe", "score": 0.9}, "objects"), (["Cafe", "Zoo"], "lists")]
)
def test_items_that_are_no_ids_are_named(item: Any, what: str, suffix: str, tmp_path: Path) -> None:
    """Objects with an id and a score, and lists in lists."""
    path = tmp_path / f"a{suffix}"
    if suffix == ".parquet":
        parquet.write_table(pa.table({"preds": [[item]], "target": ["Cafe"]}), path)
    elif suffix == ".csv":
        cell = json.dumps([item]).replace('"', '""')
        path.write_text(f'preds,target\n"{cell}",Cafe\n', encoding="utf-8")
    else:
        write_lines(path, {"preds": [item], "target": "Cafe"})
    with pytest.raises(ValueError, match=rf"the items are {what}, not ids; write one list"):
        report.evaluate_table(path)


@pytest.mark.slow  # unpacks and packs megabytes
def test_small_files_that_unpack_to_wide_rows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header of commas, a line of padding, and a list of one value many times."""
    monkeypatch.setattr(json_lines, "_LONGEST", 1 << 20)
    header = b"preds,target" + b"," * (1 << 20)
    line = b'{"preds": [1], "target": 1, "pad": "' + b"y" * (9 << 20) + b'"}'
    offsets, values = pa.array([0, 5 << 20], pa.int32()), np.zeros(5 << 20, int)
    many = pa.ListArray.from_arrays(offsets, pa.array(values))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(header + b"\n[1],1\n"))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line))
    (tmp_path / "near.jsonl").write_bytes(line[:100] + b'"}\n')
    parquet.write_table(pa.table({"preds": many, "target": [0]}), tmp_path / "a.parquet")
    for name, rule in (
        ("a.csv.gz", "a header of at most 1,048,576 characters, got more; store scores"),
        ("a.jsonl.gz", r"lines of at most 1 MiB, got a longer one; write one record per line"),
        ("a.parquet", "at most 4,194,304 values per row, got 5,242,880 on average; store only"),
    ):
        assert (tmp_path / name).stat().st_size < 40_000
        with pytest.raises(ValueError, match=f"{name} must have {rule}"):
            report.evaluate_table(tmp_path / name, k=1)
    assert report.evaluate_table(tmp_path / "near.jsonl", k=1).values["mrr"] == 1


READ_ALL = """
import sys
from resource import RUSAGE_SELF, getrusage
from nextloc_metrics import report

report.evaluate_table(sys.argv[1], k=1)  # imports what it needs
before = getrusage(RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    try:
        report.evaluate_table(path, k=1)
    except ValueError as error:
        print(error)
print((getrusage(RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.slow  # starts a process, whose memory it looks at
def test_small_files_take_little_memory(tmp_path: Path) -> None:
    """Files of kilobytes, whose values or those of a batch would take 160 MB to 2 GB."""
    pytest.importorskip("resource")
    rows, long = 1 << 17, pa.array(["x" * 13_000])
    zeros, target = np.zeros(rows, np.int32), np.zeros(rows, int)
    same = pa.DictionaryArray.from_arrays(zeros, long)
    lists = pa.ListArray.from_arrays(np.arange(0, rows + 1, 8, np.int32), same)
    view = np.tile(np.array([13_000, 0x78787878, 0, 0], np.int32), rows)
    views = pa.Array.from_buffers(
        pa.string_view(), rows, [None, pa.py_buffer(view), long.buffers()[2]]
    )
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), long)
    tables: dict[str, dict[str, Any]] = {
        "text.parquet": {"preds": same.cast("string"), "target": target},
        "lists.parquet": {"preds": lists, "target": target[: len(lists)]},
        "text.arrow": {"preds": same, "target": target},
        "view.arrow": {"preds": views, "target": target},
        "runs.arrow": {"preds": runs, "target": target},
    }
    for name, columns in tables.items():
        table, path = pa.table(columns), tmp_path / name
        if name.endswith(".parquet"):
            parquet.write_table(table, path)
            continue
        how = ipc.IpcWriteOptions(compression="zstd")
        with ipc.new_file(str(path), table.schema, options=how) as writer:
            writer.write_table(table)
    records = b'{"preds": 1, "target": 1},' * (160 << 15)
    (tmp_path / "list.json.gz").write_bytes(gzip.compress(b"[" + records[:-1] + b"]"))
    files = [str(tmp_path / name) for name in [*tables, "list.json.gz"]]
    assert all(Path(x).stat().st_size < 400_000 for x in files)
    small = str(write_lines(tmp_path / "a.jsonl", {"preds": [1], "target": 1}))
    command = [sys.executable, "-c", READ_ALL, small, *files]
    *errors, taken = subprocess.run(
        command, check=True, capture_output=True, encoding="utf-8"
    ).stdout.splitlines()
    for file, error in zip(files, errors, strict=True):
        assert re.match(rf"{re.escape(file)} must have .* MiB when unpacked, or 50 times", error)
    assert int(taken) < 150
