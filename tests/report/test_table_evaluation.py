"""Tables as the first argument of `evaluate`, and what is answered where they are mistaken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nextloc_metrics import report
from table_calls import evaluate_table


def test_counts_of_text_ids_need_their_order() -> None:
    """Training counts are in the order of a vocabulary that must be given."""
    rows = pa.table({"preds": [["a", "b"], ["b"], ["c", "a"]], "target": ["b", "c", "a"]})
    with pytest.raises(ValueError, match="`vocabulary` must list the ids if they are text"):
        report.evaluate(rows, train_counts=np.arange(3))
    found = report.evaluate(
        report.Source(rows, vocabulary=["c", "b", "a"]), train_counts=[5, 1, 2], k=1
    )
    assert found.baseline["acc_at_1"] == pytest.approx(1 / 3)  # c is the most frequent
    assert found.baseline["mrr"] == pytest.approx((1 / 3 + 1 + 1 / 2) / 3)


@pytest.mark.parametrize("read", [report.evaluate, report.read])
def test_one_name_for_groups_is_an_error(read: Any, tmp_path: Path) -> None:
    """A text is not taken for the list of its letters."""
    path = tmp_path / "answers.csv"
    path.write_text("preds,target,user\n[3],3,ann\n", encoding="utf-8")
    with pytest.raises(TypeError, match=r"`groups` must be a list of columns.*use \['user'\]"):
        read(path, groups="user")


@pytest.mark.parametrize("of", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), "string")])
def test_users_of_a_table_are_those_of_a_list(of: Any) -> None:
    """A merged evaluation has as many users; the table is a part of another one."""
    users = ["ann", "", "\u00e9", "7", "-3", "07", str(2**63), "\0", "\0\0", "x" * 300]
    lists, target = [[3]] * len(users), [3] * len(users)
    column = pa.array([None, "\u00e9\u00e9", *users], pa.string()).cast(of)[2:]
    rows = pa.table({"preds": lists, "target": target, "user": column})
    found = report.evaluate(rows, k=1, groups=["user"], num_locations=9)
    other = report.evaluate(lists, target, k=1, groups={"user": users}, num_locations=9)
    merged = report.merge([found, other])
    assert len(found.groups["user"].rows) == len(merged.groups["user"].rows) == len(users)


def test_names_that_no_file_can_hold_are_refused() -> None:
    """Half of a character of UTF-16, which JSON can write, and a column with a NUL."""
    evaluator = report.Evaluator(k=1, num_locations=2)
    with pytest.raises(
        ValueError, match=r"`groups\[.u.\]` must be text of whole characters, got '.ud800"
    ):
        evaluator.update([[1]], [1], groups={"u": ["\ud800"]})
    with pytest.raises(ValueError, match=r"names in `groups` must have no NUL, got '.x00target'"):
        evaluator.update([[1]], [1], groups={"\0target": [1]})


def test_a_key_is_that_of_queries(tmp_path: Path) -> None:
    """Without a table of queries a key joins nothing, and a column of its name is not read."""
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"preds": [1, 2], "target": 2, "id": 7}] * 2), "utf-8")
    assert report.evaluate(path, k=2).card["queries"] == 2
    with pytest.raises(ValueError, match="`query` needs `truth`"):
        report.evaluate(report.Source(path, query="id"), k=2)


def test_mistaken_tables_are_answered_with_what_is_meant() -> None:
    """One column for both, a row per item, and answers in another form."""
    items = pd.DataFrame({"user": [1, 1], "item": [7, 3], "score": [0.9, 0.5]})
    with pytest.raises(ValueError, match="another column than `preds`, got 'item' for both"):
        report.evaluate(report.Source(items, preds="item", target="item"))
    with pytest.raises(ValueError, match="item, name `truth`, `query`, `item='item'` and `score"):
        report.evaluate(items)
    said = "2 of 3 answers are unreadable; look at some, and pass the `form` that reads them"
    with pytest.warns(UserWarning, match=said):
        report.evaluate(report.read_answers(["7", "3", "[7]"], ids=["3", "7"]), [0, 1, 1], k=1)
    answers = report.read_answers(["7", "[3]", "[7]"], ids=["3", "7"])
    assert report.evaluate(answers, [0, 0, 1], k=1).card["unreadable"] == 1


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
        report.evaluate(report.Source(lists, target="target"), k=1),
        report.evaluate([str(tmp_path / "a.parquet")], k=1),
    ):
        assert found.values["mrr"] == (1 + 1 / 2) / 2


def test_answers_say_how_lists_are_written() -> None:
    """Their separator and padding, or how a language model's text is, and not both."""
    table = pd.DataFrame({"preds": ["2 1 -100", "0 -100 -100"], "target": [1, 0]})
    found = report.evaluate(report.Source(table, answers={"separator": " ", "padding": -100}), k=1)
    assert found.values["mrr"] == (1 / 2 + 1) / 2
    with pytest.raises(TypeError, match=r"or of `separator` .* alone, got 'separator'"):
        report.evaluate(
            report.Source(table, answers={"separator": " ", "form": "lines"}, vocabulary=["0", "1"])
        )


@pytest.mark.parametrize("tied", [False, True])
def test_the_card_counts_nan_scores_and_no_missing_query_as_a_row(tied: bool) -> None:
    """Of items: a NaN or empty score; constant rows are rows, and not queries without any."""
    items = [(user, item, item / 10) for user in range(4) for item in range(5)]
    table = pd.DataFrame(items, columns=["user", "item", "score"])
    table.loc[[6, 7, 11], "score"] = np.nan  # of the users 1 and 2
    if tied:
        table.loc[table.user == 0, "score"] = 0.5
    truth = pd.DataFrame({"user": range(6), "item": [1, 2, 3, 4, 0, 1]})
    how: dict[str, Any] = {"query": "user", "item": "item", "score": "score", "k": 1}
    card = evaluate_table(table, truth=truth, **how).card
    assert (card["missing"], card["rows_with_nan"]) == (2, 2)
    assert card.get("constant_rows", 0) == tied
    asked = evaluate_table(table, truth=truth[:2], **how).card
    assert asked["rows_with_nan"] == 1  # of those that are asked


@pytest.mark.parametrize("given", [None, "logits"])
def test_a_missing_row_of_scores_is_no_row_with_nan(given: Any) -> None:
    """It is missing, or unreadable; a NaN in a row that is there is counted."""
    rows = [[0.1, 0.2, np.nan], [0.3, 0.3, 0.3], [0.5, 0.2, 0.1], [0.5, 0.2]]
    table = pd.DataFrame({"user": range(4), "preds": rows})
    truth = pd.DataFrame({"user": range(6), "target": [1, 2, 0, 1, 1, 0]})
    how: dict[str, Any] = {"query": "user", "k": 1, "on_error": "miss", "given": given}
    card = evaluate_table(table, truth=truth, **how).card
    assert (card["missing"], card["broken_answers"]) == (2, 1)
    assert (card["rows_with_nan"], card["constant_rows"]) == (1, 1)
