"""Hints name no column that may be another one: no advice of the command gives a wrong value."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("click")
from click.testing import CliRunner

from nextloc_metrics.cli.commands import main

TRUTHS = ["rating", "Rating", "ratings", "rating:float", "relevance", "label", "r_ui", "click"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests write into a folder of their own."""
    monkeypatch.chdir(tmp_path)


def hint(predictions: str, truth: str | None = None) -> str:
    """What `score` says of a table of predictions, and of a truth that is given as a column."""
    Path("p.csv").write_text(predictions, encoding="utf-8")
    if truth is not None:
        Path("t.csv").write_text(truth, encoding="utf-8")
    options = [] if truth is None else ["--target", "t.csv"]
    shown = CliRunner().invoke(main, ["score", "p.csv", *options])
    assert shown.exit_code == 1
    return shown.output.partition("Name the columns: nextloc-metrics ")[2].strip()


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("is_first", [True, False])
def test_what_may_be_the_truth_is_no_score(name: str, is_first: bool) -> None:
    """The command of the hint gives ranks 2 and 2; a table with the truth alone has no score."""
    names = [name, "score"] if is_first else ["score", name]
    rows = [(1, 5, 5, 0.2), (1, 6, 1, 0.8), (2, 5, 4, 0.3), (2, 7, 1, 0.4)]
    frame = pd.DataFrame(rows, columns=["user", "item", name, "score"])
    said = hint(frame[["user", "item", *names]].to_csv(index=False), "user,item\n1,5\n2,5\n")
    assert said == "score p.csv --truth t.csv --query COLUMN --item item --score score"
    words = shlex.split(said.replace("COLUMN", "user"))
    shown = CliRunner().invoke(main, [*words, "--k", "1", "--format", "json"])
    assert json.loads(shown.output)["mrr"]["value"] == 0.5
    said = hint(frame[["user", "item", name]].to_csv(index=False))
    assert said == "score p.csv --preds COLUMN --target COLUMN"


def test_only_what_is_certain_is_filled_in() -> None:
    """A column with the name of its role, or the only one with a similar name."""
    said = hint("user,item,score\n1,5,1\n")
    assert said == "score p.csv --truth FILE --query COLUMN --item item --score score"
    said = hint("query,item_id,item_no,rank,target\n1,5,5,1,5\n")
    assert said == "score p.csv --query query --item COLUMN --rank rank"
    said = hint("user,session,place,score\n1,5,5,1\n", "user,session,bought\n1,5,5\n")
    assert said == "score p.csv --truth t.csv --query COLUMN --item COLUMN --score score"
    assert hint("pred,targets\n1,1\n") == "score p.csv --preds pred --target targets"
    assert hint("p_1,p_2,target\n1,2,1\n") == "score p.csv --preds COLUMN"
    said = hint("locale,preds\nDE,5\n", "locale,bought\nDE,5\n")
    assert said == "score p.csv --truth t.csv --query COLUMN"


def test_the_command_keeps_the_other_options() -> None:
    """Those that name a missing column are replaced."""
    Path("p.csv").write_text("users,pred,target,km\n1,[5],5,3\n", encoding="utf-8")
    given = ["--preds", "predz", "--k", "1,5", "--group=usr", "--group", "km"]
    shown = CliRunner().invoke(main, ["score", "p.csv", *given])
    said = shown.output.partition("Name the columns: nextloc-metrics ")[2].strip()
    assert said == "score p.csv --k 1,5 --group km --preds pred --group users"
    assert CliRunner().invoke(main, shlex.split(said)).exit_code == 0


@pytest.mark.parametrize(("names", "score"), [("rating", "COLUMN"), ("score,rating", "score")])
def test_rows_of_items_name_no_truth_as_score(names: str, score: str) -> None:
    """Neither in a table that looks like items of queries, whose error has a command, too."""
    cells = "5" if score == "COLUMN" else "5,5"
    rows = "".join(f"{user},{user + x},{user},{cells}\n" for user in range(3) for x in range(2))
    said = hint(f"user,preds,target,{names}\n{rows}")
    assert said == f"score p.csv --query user --item preds --score {score}"


def test_an_index_is_no_key() -> None:
    """Pandas writes `__index_level_0__` beside the columns of the user."""
    rows = [(u, 10 + i, u + 10 * (i // 2), 0.1) for u in range(3) for i in range(4)]
    frame = pd.DataFrame(rows, columns=["user", "preds", "target", "score"])
    frame.index = pd.Index([x // 2 for x in range(12)])
    frame.to_parquet("p.parquet")
    shown = CliRunner().invoke(main, ["score", "p.parquet", "--k", "1"])
    assert "__index" not in shown.output
    frame.drop(columns="target").to_parquet("p.parquet")
    frame[["user", "target"]].to_parquet("t.parquet")
    shown = CliRunner().invoke(main, ["score", "p.parquet", "--target", "t.parquet"])
    assert "__index" not in shown.output.partition("Name the columns")[2]
    columns = ["--item", "preds", "--score", "score"]
    for options in (["--query", "user", *columns], columns):
        shown = CliRunner().invoke(main, ["score", "p.parquet", "--truth", "t.parquet", *options])
        assert "__index" not in shown.output
