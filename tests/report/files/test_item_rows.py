"""Rows that are items of a query are not read as queries, and single answers are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from nextloc_metrics.cli.commands import main
from nextloc_metrics.report import evaluate, read
from nextloc_metrics.report.files.item_rows import ItemRowsError

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
        with pytest.raises(ItemRowsError, match="look like single items") as caught:
            (read if table else evaluate)(rows, preds="place")
        named: Any = {**caught.value.named, "query": caught.value.named["query"].split(",")}
        assert named == {"query": key, "item": "place", order: order}
        found = evaluate(rows, **named, k=1)
        assert found.values["mrr"] == pytest.approx(expected)
        assert found.card["queries"] == len(frame[key].drop_duplicates())


def test_the_command_of_the_error_works(tmp_path: Path) -> None:
    """The command line prints a command, and that gives the value."""
    frame, expected = items_of(["user"], "score", 0)
    path = str(tmp_path / "my items.csv")
    # without the name of the column, none of the query is certain
    for preds, query in ((["--preds", "item"], "user"), ([], "COLUMN")):
        frame.rename(columns={"place": "item"}).to_csv(path, index=False)
        shown = CliRunner().invoke(main, ["score", path, *preds])
        words = f"nextloc-metrics score '{path}' --query {query} --item item --score score"
        assert shown.output.rstrip().endswith(words), shown.output
    given = ["score", path, "--query", "user", "--item", "item", "--score", "score"]
    shown = CliRunner().invoke(main, [*given, "--format", "json"])
    assert f'"value": {expected}' in shown.output


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
        assert evaluate(table, preds="place", k=1).card["queries"] == len(frame)


def test_labels_of_items_are_grades() -> None:
    """A column of 0 and 1 is no target; as the grades of the items it is."""
    frame, expected = items_of(["user"], "score", 1)
    frame["label"] = (frame.place == frame.target) * 1
    named: Any = {"query": "user", "item": "place", "score": "score"}
    with pytest.raises(ValueError, match="`target='place'` and `grade='label'`"):
        evaluate(frame, **named, target="label")
    found = evaluate(frame, **named, target="place", grade="label", k=5, measures=["mrr"])
    assert found.values["mrr"] == pytest.approx(expected)  # without a relevant item it is 0
