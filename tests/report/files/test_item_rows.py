"""Rows that are items of a query are not read as queries, and single answers are."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from command import main
from nextloc_metrics.report import Source, evaluate, read
from table_calls import evaluate_table

pytestmark = pytest.mark.slow  # the hostile laws read files, too, and take less


def items_of(key: list[str], order: str, seed: int) -> tuple[pd.DataFrame, float]:
    """Rows of items in any order, with the target beside each, and their MRR by plain Python."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    reciprocal = []
    for user in range(6):
        for day in range(3 if "day" in key else 1):
            items = draw.sample(range(10, 20), draw.randint(2, 5))
            target = draw.randint(10, 19)
            reciprocal.append(1 / (items.index(target) + 1) if target in items else 0.0)
            for rank, item in enumerate(items):
                of = {"user": user, "day": day, "place": item, "target": target}
                rows.append(of | {order: rank + 1 if order == "rank" else 1 / (rank + 1)})
    draw.shuffle(rows)
    return pd.DataFrame(rows), sum(reciprocal) / len(reciprocal)


@pytest.mark.parametrize("key", [["user"], ["user", "day"]])
@pytest.mark.parametrize("order", ["score", "rank"])
def test_items_are_refused_with_the_arguments_that_read_them(
    order: str, key: list[str], tmp_path: Path
) -> None:
    """The arguments of the error give the value by plain Python, in a frame and in a file."""
    for seed, table in enumerate([tmp_path / "items.csv", None]):
        frame, expected = items_of(key, order, seed)
        frame.to_csv(tmp_path / "items.csv", index=False)
        rows: Any = table or frame
        with pytest.raises(ValueError, match="look like single items") as caught:
            (read if table else evaluate)(Source(rows, preds="place"))
        named: Any = dict(re.findall("`([a-z]+)='([^']+)'`", str(caught.value)))
        named["query"] = named["query"].split(",")
        assert named == {"query": key, "item": "place", order: order}
        found = evaluate_table(rows, **named, k=1)
        assert found.values["mrr"] == pytest.approx(expected)
        assert found.card["queries"] == len(frame[key].drop_duplicates())


@pytest.mark.parametrize(("names", "score"), [("rating", "COLUMN"), ("score,rating", "score")])
def test_what_may_be_the_truth_is_no_score(names: str, score: str, tmp_path: Path) -> None:
    """The command says the options by which it reads the items, and no rating is a score."""
    cells = "5" if score == "COLUMN" else "5,5"
    rows = "".join(f"{user},{user + x},{user},{cells}\n" for user in range(3) for x in range(2))
    (tmp_path / "p.csv").write_text(f"user,preds,target,{names}\n{rows}", "utf-8")
    shown = CliRunner().invoke(main, ["score", str(tmp_path / "p.csv")])
    assert f"`--query 'user'`, `--item 'preds'`, `--score '{score}'`" in shown.output


def test_an_index_is_no_key(tmp_path: Path) -> None:
    """Pandas writes `__index_level_0__` beside the columns of the user."""
    rows = [(u, 10 + i, u + 10 * (i // 2), 0.1) for u in range(3) for i in range(4)]
    frame = pd.DataFrame(rows, columns=["user", "preds", "target", "score"])
    frame.index = pd.Index([x // 2 for x in range(12)])
    path, truth = str(tmp_path / "p.parquet"), str(tmp_path / "t.parquet")
    frame.to_parquet(path)
    commands = [[path, "--k", "1"]]
    frame[["user", "target"]].to_parquet(truth)
    columns = [path, "--truth", truth, "--item", "preds", "--score", "score"]
    for words in [*commands, columns, [*columns, "--query", "user"]]:
        assert "__index" not in CliRunner().invoke(main, ["score", *words]).output


@pytest.mark.parametrize("users", [3, 40, 400])
def test_single_answers_are_queries(users: int, tmp_path: Path) -> None:
    """One answer per query, with a user and its score, is read, by accuracy of plain Python."""
    for accuracy in (0.0, 0.2, 0.9):
        draw = random.Random(users)
        rows = []
        for number in range(100):
            user = number if users == 400 else draw.randrange(users)
            target = (user % 7 if draw.random() < 0.7 else draw.randrange(20)) + 10
            answer = target if draw.random() < accuracy else draw.randrange(10, 30)
            rows.append((user, answer, target, draw.random(), number % 24, draw.randrange(3)))
        names = ["user", "preds", "target", "score", "hour", "rank"]
        pd.DataFrame(rows, columns=names).to_csv(tmp_path / "answers.csv", index=False)
        hits = sum(answer == target for _, answer, target, *_ in rows) / len(rows)
        found = evaluate(tmp_path / "answers.csv", k=1)
        assert found.values["acc_at_1"] == pytest.approx(hits)


def test_an_answer_in_a_list_is_a_query(tmp_path: Path) -> None:
    """Who has a table of single answers that looks like items writes lists."""
    frame, _ = items_of(["user"], "score", 0)
    frame["place"] = [[x] for x in frame["place"]]
    frame.to_csv(tmp_path / "answers.csv", index=False)
    for table in (frame, tmp_path / "answers.csv"):
        assert evaluate(Source(table, preds="place"), k=1).card["queries"] == len(frame)


def test_labels_of_items_are_grades() -> None:
    """A column of 0 and 1 is no target; as the grades of the items it is."""
    frame, expected = items_of(["user"], "score", 1)
    frame["label"] = (frame.place == frame.target) * 1
    named: Any = {"query": "user", "item": "place", "score": "score"}
    with pytest.raises(ValueError, match="`target='place'` and `grade='label'`"):
        evaluate_table(frame, target="label", **named)
    found = evaluate_table(frame, target="place", **named, grade="label", k=5, measures=["mrr"])
    assert found.values["mrr"] == pytest.approx(expected)  # without a relevant item it is 0


def test_a_score_of_an_item_is_a_number(tmp_path: Path) -> None:
    """Text is not, where the table has types; of several files an error names the one."""
    items = pd.DataFrame({"user": [1, 1, 2], "item": [3, 4, 3], "score": [0.5, 0.9, 0.1]})
    truth = pd.DataFrame({"user": [1, 2], "item": [3, 3]})
    named: Any = {"truth": truth, "query": "user", "item": "item", "score": "score", "k": 1}
    assert evaluate_table(items, **named).values["acc_at_1"] == 0.5
    with pytest.raises(ValueError, match=r"row 0 of .* must hold a number in `score`, got '0.5'"):
        evaluate_table(items.astype({"score": str}).astype({"score": object}), **named)
    for number, score in enumerate(["1", "bad"]):
        (tmp_path / f"{number}.csv").write_text(f"user,item,score\n{number},3,{score}\n", "utf-8")
    with pytest.raises(ValueError, match=r"line 2.* of .*1\.csv must hold a number in `score`"):
        evaluate_table(tmp_path, **named)


@pytest.mark.parametrize("values", [["0.9", "0.1"], [True, False], pd.to_datetime([0, 1])])
def test_a_column_that_is_no_numbers_is_to_be_converted(values: Any) -> None:
    """Text is one, as pandas reads with `dtype=str`; the remedy is for the column, not a cell."""
    rows = pd.DataFrame({"u": ["1", "1"], "item": ["07", "03"], "s": values})
    source = Source(rows, truth=rows[:1], query="u", item="item", score="s", target="item")
    with pytest.raises(ValueError, match=r"row 0 .*number in `s`.*`astype\(float\)`"):
        evaluate(source)
    numbers = {**vars(source), "rows": rows.assign(s=[0.9, 0.1])}
    assert evaluate(Source(**numbers), k=1).values["acc_at_1"] == 1
