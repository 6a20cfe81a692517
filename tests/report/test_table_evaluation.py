"""Tables of any size give the values of `evaluate`, however they are cut and shared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from nextloc_metrics import report
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.report.files import tables

NUMBER = 400
GROUPS = ["hour"]
OPTIONS: dict[str, Any] = {"k": (1, 3), "cluster": "user"}


def columns(kind: str) -> dict[str, Any]:
    """Lists with repeats, short ones and wrong ids; targets; users as text, who come in order."""
    generator = np.random.default_rng(3)
    lists = [generator.integers(0, 30, generator.integers(1, 6)).tolist() for _ in range(NUMBER)]
    target: list[Any] = generator.integers(0, 20, NUMBER).tolist()
    if kind == "text":
        lists = [[f"Cafe ({x})" for x in row] for row in lists]
        target = [f"Cafe ({x})" for x in target]
    user = [f"user {number // 9}" for number in range(NUMBER)]
    return {"preds": lists, "target": target, "user": user, "hour": [i % 24 for i in range(NUMBER)]}


def write(folder: Path, kind: str, number: int) -> list[Path]:
    """Write the rows to several Parquet files, in small row groups."""
    table = pa.table(columns(kind))
    paths = [folder / f"part-{i}.parquet" for i in range(number)]
    bounds = np.linspace(0, NUMBER, number + 1).astype(int)
    for path, start, end in zip(paths, bounds, bounds[1:], strict=False):
        parquet.write_table(table.slice(start, end - start), path, row_group_size=37)
    return paths


def shown(result: report.Evaluation) -> str:
    """All numbers of an evaluation."""
    return result.to_markdown()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["integers", "text"])
def test_any_way_to_read_a_table_gives_the_same_bits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory, as one file, as several, in chunks of a few rows, as a frame and as a stream."""
    paths = write(tmp_path, kind, 3)
    found = report.read(paths, groups=["hour", "user"])
    words = None if found.vocabulary is None else [str(x) for x in found.vocabulary]
    number = 20 if words is None else len({*columns(kind)["target"]})
    expected = shown(
        report.evaluate(
            found.preds, found.target, groups=found.groups, num_locations=number, **OPTIONS
        )
    )
    table = pa.table(columns(kind))
    known: dict[str, Any] = {"num_locations": number, "groups": GROUPS, **OPTIONS}
    sources: list[Any] = [paths, table]
    if kind == "integers":
        sources = [tmp_path, table.to_reader(max_chunksize=11)]
    for source in sources:
        assert shown(report.evaluate(source, **known)) == expected
    monkeypatch.setattr(tables, "_VALUES", 40)
    assert shown(report.evaluate(paths[::-1], **known)) == expected


def test_counts_of_text_ids_need_their_order(tmp_path: Path) -> None:
    """Training counts are in the order of a vocabulary that must be given."""
    (path,) = write(tmp_path, "text", 1)
    with pytest.raises(ValueError, match="`vocabulary` must list the ids if they are text"):
        report.evaluate(path, train_counts=np.arange(20))
    words = sorted({*columns("text")["target"]})
    found = report.evaluate(path, train_counts=np.arange(len(words)), vocabulary=words, k=1)
    assert found.baseline.keys() >= {"acc_at_1", "mrr"}


@pytest.mark.parametrize("read", [report.evaluate, report.read])
def test_one_name_for_groups_is_an_error(read: Any, tmp_path: Path) -> None:
    """A text is not taken for the list of its letters."""
    path = tmp_path / "answers.csv"
    path.write_text("preds,target,user\n[3],3,ann\n", encoding="utf-8")
    with pytest.raises(TypeError, match=r"`groups` must be a list of columns.*use \['user'\]"):
        read(path, groups="user")


def test_odd_names_of_groups(tmp_path: Path) -> None:
    """NULs, digits and an empty name stay what they are, in batches, bytes and files."""
    names = ["a", "a\0", "b", "", "\0", "\x000", "\x001", "1", "01", "a" * 99]
    options: dict[str, Any] = {"k": 1, "num_locations": 2, "cluster": "u"}
    evaluator = report.Evaluator(**options)
    for row, name in enumerate(names):
        evaluator.add(Batch([[row % 2]], [1], groups={"u": [name]}))
    rows = [{"preds": [row % 2], "target": 1, "u": name} for row, name in enumerate(names)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for found in (
        report.Evaluator.from_bytes(evaluator.to_bytes()).result(),
        report.evaluate(tmp_path / "rows.jsonl", groups=["u"], **options),
    ):
        values = {x["group"]: x["value"] for x in found.group_records("u") if x["metric"] == "mrr"}
        assert values == {name: row % 2 for row, name in enumerate(names)}


def test_names_that_no_file_can_hold_are_refused() -> None:
    """Half of a character of UTF-16, which JSON can write, and a column with a NUL."""
    evaluator = report.Evaluator(k=1, num_locations=2)
    with pytest.raises(ValueError, match=r"`labels` must be text of whole characters, got '.ud800"):
        evaluator.add(Batch([[1]], [1], groups={"u": ["\ud800"]}))
    with pytest.raises(ValueError, match=r"names in `groups` must have no NUL, got '.x00target'"):
        evaluator.add(Batch([[1]], [1], groups={"\0target": [1]}))


def test_a_key_is_that_of_queries(tmp_path: Path) -> None:
    """Without a table of queries a key joins nothing, and a column of its name is not read."""
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"preds": [1, 2], "target": 2, "id": 7}] * 2), "utf-8")
    assert report.evaluate(path, k=2).card["queries"] == 2
    with pytest.raises(ValueError, match="`query` needs `truth`"):
        report.evaluate(path, k=2, query="id")
    with pytest.raises(TypeError, match="no option `key`; use `query`"):
        report.evaluate(path, k=2, key="id")


def test_mistaken_tables_are_answered_with_what_is_meant() -> None:
    """One column for both, a row per item, and answers in another form."""
    items = pd.DataFrame({"user": [1, 1], "item": [7, 3], "score": [0.9, 0.5]})
    with pytest.raises(ValueError, match="another column than `preds`, got 'item' for both"):
        report.evaluate(items, preds="item", target="item")
    with pytest.raises(ValueError, match="one item, name `truth`, `query`, `item` and `score`"):
        report.evaluate(items)
    said = "2 of 3 answers are unreadable; with `form` set to 'auto'"
    with pytest.warns(UserWarning, match=said):
        report.evaluate(report.read_answers(["7", "3", "[7]"], ids=["3", "7"]), [0, 1, 1], k=1)
    answers = report.read_answers(["7", "[3]", "[7]"], ids=["3", "7"])
    assert report.evaluate(answers, [0, 0, 1], k=1).card["unreadable"] == 1


def test_arrays_without_rows_keep_their_columns(tmp_path: Path) -> None:
    """Scores stay scores, with as many candidates, also beside what is excluded."""
    none = {"preds": np.zeros((0, 4), np.float32), "target": np.zeros(0, int)}
    np.savez(tmp_path / "a.npz", **none, seen=np.zeros((0, 4), bool))
    for options in ({}, {"exclude": "seen"}):
        with pytest.warns(UserWarning, match="should hold rows"):
            found = report.evaluate(tmp_path / "a.npz", **options)
        assert found.card["candidates"] == 4
        assert np.isnan(found.values["mrr"])


def test_the_type_of_the_first_argument_says_what_the_others_are(tmp_path: Path) -> None:
    """A frame of scores is an array beside targets, and a table beside their name."""
    scores, target = pd.DataFrame([[0.1, 0.7], [0.4, 0.6]]), pd.Series([1, 0])
    lists = pd.DataFrame({"preds": [[1, 0], [1, 0]], "target": target})
    lists.to_parquet(tmp_path / "a.parquet")
    for found in (
        report.evaluate(scores, target, k=1),
        report.evaluate(preds=scores.to_numpy(), target=target, k=1),
        report.evaluate(lists["preds"], target, k=1),
        report.evaluate(lists, k=1),
        report.evaluate(lists, "target", k=1),
        report.evaluate([str(tmp_path / "a.parquet")], k=1),
    ):
        assert found.values["mrr"] == (1 + 1 / 2) / 2


def test_answers_say_how_lists_are_written() -> None:
    """Their separator and padding, or how a language model's text is, and not both."""
    table = pd.DataFrame({"preds": ["2 1 -100", "0 -100 -100"], "target": [1, 0]})
    found = report.evaluate(table, answers={"separator": " ", "padding": -100}, k=1)
    assert found.values["mrr"] == (1 / 2 + 1) / 2
    with pytest.raises(TypeError, match=r"or of `separator` .* alone, got 'separator'"):
        report.evaluate(table, answers={"separator": " ", "form": "lines"}, vocabulary=["0", "1"])
