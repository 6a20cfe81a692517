"""Items with tied scores have the values, notes and warnings of items without: there is one way."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from table_forms import run

from nextloc_metrics import report
from table_calls import evaluate_table, read_table

NAMES: dict[str, Any] = {"query": "user", "item": "item", "score": "score"}


def items_of(decimals: int, name: Any = int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ten items of each of 40 queries, whose rounded scores tie, and the truth."""
    draw = random.Random(7)
    rows = [
        (user, name(item), round(draw.random(), decimals))
        for user in range(40)
        for item in draw.sample(range(20), 10)
    ]
    truth = [(user, name(draw.randrange(20))) for user in range(40)]
    frame = pd.DataFrame(rows, columns=["user", "item", "score"])
    return frame, pd.DataFrame(truth, columns=["user", "item"])


def dense(items: pd.DataFrame, truth: pd.DataFrame, words: list[Any]) -> Any:
    """Evaluate a score for each of `words`, -inf where a query has no such item."""
    scores = np.full((len(truth), len(words)), -np.inf)
    for user, item, score in items.itertuples(index=False):
        at = user, words.index(item)
        scores[at] = max(scores[at], score)
    return report.evaluate(scores, [words.index(x) for x in truth["item"]], k=(1, 3))


@pytest.mark.parametrize("name", [int, "loc {}".format, "0{}".format])
@pytest.mark.parametrize("form", ["pandas", "csv", "parquet"])
def test_the_values_are_those_of_scores_of_all_locations(
    name: Any, form: str, tmp_path: Path
) -> None:
    """Ties are averaged over; F1 takes the first of tied ids, text in the order of its bytes."""
    items, truth = items_of(1, name)
    items = pd.concat([items, items[:60].assign(score=-1.0)])  # again, with a lower score
    expected = dense(items, truth, sorted(items["item"].unique()))
    rows: Any = items
    if form != "pandas":
        rows = tmp_path / f"items.{form}"
        items.to_csv(rows, index=False) if form == "csv" else items.to_parquet(rows)
    found = evaluate_table(rows, truth=truth, **NAMES, k=(1, 3))
    assert found.card["tied"] == expected.card["tied"] > 0
    assert found.card["repeated_items"] == 60
    assert found.values.keys() == expected.values.keys()
    for measure, value in expected.values.items():
        assert found.values[measure] == value, measure


def test_the_order_of_tied_names_does_not_depend_on_the_truth() -> None:
    """Of `a` and `b` the decision is `a`, also where only `b` is ever a target."""
    items = pd.DataFrame({"user": [1, 1, 2, 2], "item": ["b", "a", "b", "c"], "score": 0.5})
    truth = pd.DataFrame({"user": [1, 2], "item": ["b", "c"]})
    # decisions a and b; b has one target and one decision, which is wrong; c one target
    assert evaluate_table(items, truth=truth, **NAMES, k=1).values["f1"] == 0
    # with a vocabulary ids are its positions, and its first one decides
    found = evaluate_table(items, truth=truth, vocabulary=["c", "b", "a"], **NAMES, k=1)
    assert found.values["f1"] == 1


def said_of(items: pd.DataFrame, truth: pd.DataFrame) -> tuple[Any, ...]:
    """The warnings, the notes, the chance level and the names of the card."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = evaluate_table(items, truth=truth, **NAMES, k=1)
    names = {x for x in found.card if not x.startswith(("tied", "interval"))}
    notes = [x for x in str(found).splitlines() if "lists are cut" in x]
    return [str(x.message) for x in caught], notes, found.chance, names


def test_one_tied_score_changes_nothing_that_is_said() -> None:
    """Neither of ids that meet no target, nor of lists that are cut, nor of repeated items."""
    items, truth = items_of(9)
    tied = items.copy()
    tied.loc[1, "score"] = tied.loc[0, "score"]
    assert said_of(items, truth) == said_of(tied, truth)
    assert said_of(items, truth)[1]  # lists are cut at 10
    far = truth.assign(item=truth["item"] + 1000)
    assert said_of(items, far) == said_of(tied, far)
    assert "No id of 40 lists is the target of any query" in said_of(tied, far)[0][0]


@pytest.mark.parametrize("scores", [[0.5, 0.4, 0.4], [0.5, 0.5, 0.4], [0.5, 0.5, 0.5]])
def test_a_repeated_item_counts_once_at_its_best_score(scores: list[float]) -> None:
    """It takes no other rank, with ties and without."""
    items = pd.DataFrame({"user": 1, "item": [8, 8, 5], "score": scores})
    truth = pd.DataFrame({"user": [1], "item": [5]})
    found = evaluate_table(items, truth=truth, **NAMES, k=1)
    assert found.values["mrr"] == (0.75 if len({*scores}) == 1 else 0.5)
    assert found.card["repeated_items"] == 1


def test_what_is_read_keeps_the_ties(tmp_path: Path) -> None:
    """`read` returns lists with their scores, which `evaluate` and `compare` take."""
    items, truth = items_of(1)
    items.to_csv(tmp_path / "a.csv", index=False)
    truth.to_csv(tmp_path / "truth.csv", index=False)
    found = read_table(tmp_path / "a.csv", truth=tmp_path / "truth.csv", **NAMES)
    expected = evaluate_table(tmp_path / "a.csv", truth=tmp_path / "truth.csv", **NAMES, k=1)
    again = report.evaluate(found.preds, found.target, k=1)
    assert (again.values, again.card["tied"]) == (expected.values, expected.card["tied"])
    items.assign(score=-items.score).to_csv(tmp_path / "b.csv", index=False)
    other = read_table(tmp_path / "b.csv", truth=tmp_path / "truth.csv", **NAMES)
    both = report.compare({"a": found.preds, "b": other.preds}, found.target, k=1)
    shown = run(
        "compare", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--truth",
        str(tmp_path / "truth.csv"), "--query", "user", "--item", "item", "--score", "score",
        "--k", "1",
    )  # fmt: skip
    assert both.values["a"]["mrr"] == expected.values["mrr"]
    assert f"{100 * both.comparisons['b']['mrr'].difference:.2f}".lstrip("-") in shown.output
