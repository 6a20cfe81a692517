"""Files as people have them: odd ids, gaps, marks of other systems. Nothing is guessed silently."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import AccuracyAtK, LocationF1, previously_visited, report
from nextloc_metrics.geography import Locations
from nextloc_metrics.report.text_files import read_coordinates

pa = pytest.importorskip("pyarrow")
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
    """Cells of a grid such as 12_3, and words such as nan and inf."""
    path = tmp_path / "a.csv"
    path.write_text('preds,target\n"12_3",1_23\n"1_0",10\n"nan,inf",nan\n')
    found = report.read(path, separator=",")
    assert words_of(found, found.target) == [["1_23"], ["10"], ["nan"]]
    assert words_of(found, found.preds) == [["12_3"], ["1_0"], ["nan", "inf"]]


def test_names_with_spaces_and_commas(tmp_path: Path) -> None:
    """A target is one name, commas included; lists in text are JSON or Python's, or are refused."""
    park = {"preds": ["Central Park", "O'Hare, Chicago"], "target": "Central Park"}
    zoo = {"preds": ["Zoo"], "target": "O'Hare, Chicago"}
    found = report.read(write_lines(tmp_path / "a.jsonl", park, zoo))
    assert words_of(found, found.target) == [["Central Park"], ["O'Hare, Chicago"]]
    assert report.evaluate(found.preds, found.target, k=1).values["acc_at_1"] == 0.5
    with pytest.raises(ValueError, match="ids in a run must hold no spaces, got 'Central Park'"):
        found.to_trec(tmp_path / "a.run", tmp_path / "a.qrels")
    text = tmp_path / "a.csv"
    text.write_text(
        "preds,target\n\"['Central Park', 'Zoo']\",Zoo\n\"Central Park, Zoo\",Central Park\n"
    )
    found = report.read(text)
    assert words_of(found, found.preds) == [["Central Park", "Zoo"], ["Central Park, Zoo"]]
    assert words_of(found, found.target) == [["Zoo"], ["Central Park"]]
    text.write_text("preds,target\n['Zoo' 'Central Park'],Zoo\n")
    with pytest.raises(ValueError, match=r"row 0 of .* NumPy prints.*`\.tolist\(\)`"):
        report.read(text)


def test_a_vocabulary_holds_a_word_once(tmp_path: Path) -> None:
    """Otherwise an invented answer would get the number of a known one."""
    path = tmp_path / "a.csv"
    path.write_text("preds,target\nz,a\n")
    with pytest.raises(ValueError, match="`vocabulary` must hold distinct ids, got 'a' twice"):
        report.read(path, vocabulary=["a", "b", "a"])


def test_minus_one_may_be_an_id_of_the_vocabulary(tmp_path: Path) -> None:
    """It is one where the vocabulary holds it, and padding of text ids otherwise."""
    path = tmp_path / "a.csv"
    path.write_text('preds,target\n"home,-1",-1\n"-1,home",-1\n')
    found = report.read(path, vocabulary=["home", "-1"], separator=",")
    assert found.target.tolist() == [1, 1]
    assert found.preds.tolist() == [[0, 1], [1, 0]]
    padded = [{"preds": ["gym", "-1"], "target": [*target]} for target in (["gym", "-1"], "ab")]
    found = report.read(write_lines(tmp_path / "a.jsonl", *padded))
    assert (found.vocabulary, found.target.tolist()) == (("a", "b", "gym"), [[2, -1], [0, 1]])
    assert found.preds.tolist() == [[2, -1], [2, -1]]


def test_json_keeps_text_as_it_is(tmp_path: Path) -> None:
    """01 is not 1, and a day is a group like any other."""
    rows: list[dict[str, Any]] = [
        {"preds": ["01"], "target": "01", "user": "01", "date": "2024-01-01"},
        {"preds": ["1"], "target": "1", "user": "1", "date": "2024-01-02"},
    ]
    found = report.read(
        write_lines(tmp_path / "a.jsonl", *rows, mark=b"\xef\xbb\xbf"), groups=["user", "date"],
        vocabulary=["01", "1"],
    )  # fmt: skip
    assert found.target.tolist() == [0, 1]
    e = report.evaluate(found.preds, found.target, k=1, groups=found.groups)
    assert [row[0] for row in e.groups["user"].rows[:2]] == ["acc_at_1, 01", "acc_at_1, 1"]
    assert e.groups["date"].rows[0][0] == "acc_at_1, 2024-01-01"


def test_null_and_padding_among_text_are_no_ids(tmp_path: Path) -> None:
    """A list with null is a broken answer; -1 and numbers in `padding` are padding."""
    path = write_lines(
        tmp_path / "a.jsonl", {"preds": ["a", None], "target": "b"}, {"preds": ["b"], "target": "b"}
    )
    with pytest.raises(ValueError, match="row 0 of"):
        report.read(path)
    found = report.read(path, on_error="miss")
    assert (found.missed, found.vocabulary) == (1, ("b",))
    text = tmp_path / "a.csv"
    text.write_text('preds,target\n"a,-1,-100",a\n')
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


def test_a_null_list_is_an_unreadable_answer(tmp_path: Path) -> None:
    """Between lists of integers in Parquet it is named, or counted as a miss."""
    table = {"preds": pa.array([[3, 1], None, [2]]), "target": pa.array([3, 4, 2])}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"row 1 of .*a\.parquet must hold ids"):
        report.read(tmp_path / "a.parquet")
    found = report.read(tmp_path / "a.parquet", on_error="miss")
    assert (found.preds.tolist(), found.missed) == ([[3, 1], [-1, -1], [2, -1]], 1)


def test_an_empty_part_is_read(tmp_path: Path) -> None:
    """Engines may write an empty part next to others."""
    empty = {"preds": pa.array([], pa.list_(pa.int64())), "target": pa.array([], pa.int64())}
    full = {"preds": pa.array([[3, 1]]), "target": pa.array([1])}
    parquet.write_table(pa.table(empty), tmp_path / "part-0.parquet")
    parquet.write_table(pa.table(full), tmp_path / "part-1.parquet")
    assert report.read(tmp_path).preds.tolist() == [[3, 1]]
    with pytest.warns(UserWarning, match="part-0.parquet should hold rows, got none"):
        assert len(report.read(tmp_path / "part-0.parquet").target) == 0


def test_runs_of_other_systems(tmp_path: Path) -> None:
    """With a mark of the encoding, line ends of Windows, and compressed."""
    (tmp_path / "a.qrels").write_bytes(b"\xef\xbb\xbf1 0 5 1\r\n2 0 6 1\r\n")
    run = b"\xef\xbb\xbf1 Q0 5 1 0.9 x\r\n2 Q0 6 1 0.9 x\r\n"
    (tmp_path / "a.run").write_bytes(run)
    (tmp_path / "a.run.gz").write_bytes(gzip.compress(run))
    for name in ("a.run", "a.run.gz"):
        found = report.read(tmp_path / name, targets=tmp_path / "a.qrels")
        assert report.evaluate(found.preds, found.target, k=1).values["acc_at_1"] == 1


def test_tables_of_coordinates_and_days_shift_no_column(tmp_path: Path) -> None:
    """A cell too many, a column named twice and an open quote are errors with file and row."""
    day = {"uid": "1", "d": "2", "t": "3", "x": "4", "y": "5"}

    def coordinates(path: Path) -> Any:
        return read_coordinates(path).points.isnan().any(1).tolist()

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
            path.write_text(text)
            with pytest.raises(ValueError, match=says) as error:
                read(path)
            assert "a.csv" in str(error.value)
        path.write_text(f"n,{header}\n9,{row}\n")
        assert read(path) == [False] if read is coordinates else read(path)["dtw"] == 0
    path.write_text("latitude,longitude\n52.0, 4.0\n,\nnan,1\n")
    assert coordinates(path) == [False, True, True]
    path.write_text("1,2,3,4,5\n1,2,4,4,x\n")
    with pytest.raises(ValueError, match=r"`y` must be numbers or dates, got 'x' in line 2, row 1"):
        days(path)
    path.write_text("1,2,3,4,5\n1,2,4,4\n")
    with pytest.raises(ValueError, match=r"line 2, row 1 of .* must have 5 cells as the first row"):
        days(path)
    path.write_text("1,9007199254740993,3,4,5\n")
    with pytest.raises(ValueError, match="must be whole numbers"):
        days(path)


def test_evaluations_of_nothing() -> None:
    """An evaluation without queries, and one with all queries masked, have a result."""
    e = report.evaluate(np.zeros((0, 4)), np.zeros(0, int), k=1, train_counts=[3, 2, 1, 1])
    assert np.isnan(e.values["mrr"])
    places = Locations([1.0, 2.0], [1.0, 2.0])
    masked = report.evaluate(np.eye(2), [0, 1], k=1, locations=places, mask=[False] * 2)
    assert "<h2>Distance</h2>" in masked.to_html()


def test_equal_shards_of_other_queries() -> None:
    """Different lists are different queries; equal shards need `allow_equal`."""
    one, other = ([[3, 1]], [3]), ([[3, 7]], [3])
    made = [report.evaluate(*rows, k=1, num_locations=9) for rows in (one, other)]
    assert report.merge(made).card["queries"] == 2
    with pytest.raises(ValueError, match="allow_equal=True"):
        report.merge([made[0], made[0]])
    assert report.merge([made[0], made[0]], allow_equal=True).card["queries"] == 2


@pytest.mark.parametrize("order", [["01", "1"], ["1", "01"]])
def test_labels_that_are_one_number_have_one_order(order: list[str]) -> None:
    """The order does not depend on the order of the input."""
    e = report.evaluate([[3], [4]], [3, 5], k=1, num_locations=9, groups={"u": order})
    assert [row[0] for row in e.groups["u"].rows[:2]] == ["acc_at_1, 01", "acc_at_1, 1"]


def test_groups_may_be_bool_and_no_value_may_be_missing() -> None:
    """A missing name is an error with its row."""
    visited = previously_visited(["a", "a"], [3, 3])
    e = report.evaluate([[3], [4]], [3, 4], k=1, groups={"visited": visited})
    assert [row[0] for row in e.groups["visited"].rows[:2]] == ["acc_at_1, 0", "acc_at_1, 1"]
    for names, error in (
        (["a", None], ValueError),
        (["a", 1], TypeError),
        ([None, "a"], ValueError),
    ):
        with pytest.raises(error, match=r"row [01]"):
            report.evaluate([[1], [2]], [1, 2], groups={"u": np.array(names, object)})


def test_options_have_a_row_for_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rows are read in chunks."""
    monkeypatch.setattr("nextloc_metrics.arguments.rows._CHUNK", 4)
    with pytest.raises(ValueError, match="`mask` must have a row for each of the 3 queries"):
        report.evaluate(torch.eye(3), [0, 1, 2], mask=[True] * 7)


def test_the_command_needs_a_folder_to_write_to(tmp_path: Path) -> None:
    """It raises before it reads or writes."""
    runner = pytest.importorskip("click.testing").CliRunner()
    from nextloc_metrics.report.command import main

    (tmp_path / "a.csv").write_text("preds,target\n1,1\n")
    saved = tmp_path / "a.npz"
    command = ["score", str(tmp_path / "a.csv"), "--save", str(saved)]
    shown = runner.invoke(main, [*command, "--out", str(tmp_path / "none" / "a.txt")])
    assert shown.exit_code == 1
    assert "none must be an existing folder" in shown.output
    assert not saved.exists()


def test_scores_of_scikit_learn_may_be_integers() -> None:
    """Such as votes; a metric with a value per location is refused by name."""
    pytest.importorskip("sklearn")
    from nextloc_metrics.integrations.scikit_learn import score

    votes = np.array([[4, 6], [4, 6]])
    assert score([0, 1], votes, metric=AccuracyAtK(1), labels=[0, 1]) == 0.5
    with pytest.raises(TypeError, match="`metric` must have one value"):
        score([0, 1], votes, metric=LocationF1(3, average=None), labels=[0, 1])
