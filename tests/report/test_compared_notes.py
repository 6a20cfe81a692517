"""What comparisons say: which value is subtracted from which, and the notes of each model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from command import main
from nextloc_metrics import report
from table_calls import evaluate_table

RNG = np.random.default_rng(0)
SCORES, TARGET = RNG.random((300, 50)), RNG.integers(0, 50, 300)
LISTS = np.argsort(-SCORES, 1)


def row(found: Any, key: str) -> dict[str, str]:
    """The cells of the first row of a metric, by the heads of the table."""
    (cells, *_) = [x for x in found.table.rows if x[0].split(",")[0] == key]
    return dict(zip(found.table.header, map(str.strip, cells), strict=True))


# Heads -------------------------------------------------------------------------------------------


def both(**options: Any) -> Any:
    """Two models, of which the second is right in all queries and the first in half."""
    models = {"base": [[1], [2]] * 20, "new": [[1]] * 40, **options.pop("more", {})}
    return report.compare(models, [1] * 40, k=1, **options)


def test_heads_name_both_models_and_the_difference() -> None:
    """The second less the first, in each format; the numbers are those of the columns."""
    found = both()
    cells = row(found, "acc_at_1")
    assert (cells["base"], cells["new"], cells["new - base"]) == ("50.00", "100.00", "+50.00")
    written = [
        str(found), found.table.to_markdown(), found.to_latex(), found.to_markdown(),
        found._repr_html_(), found.to_html(), found.to_csv(), found.table.to_json(),
    ]  # fmt: skip
    for text in written:
        assert "new - base" in text
        assert "base - new" not in text
    record = found.table.to_pandas().loc["acc_at_1, new"]
    assert record["difference"] == record["value"] - record["first"] == 0.5
    assert record["difference_of"] == "new - base"


def test_heads_of_several_pairs_fit_all_rows() -> None:
    """Against the first model a row names the other one; of all pairs it names both."""
    third = {"more": {"third": [[2]] * 40}}
    found = both(**third)
    assert found.table.header[1:4] == ("base", "other", "other - base")
    assert [x["difference_of"] for x in found.table.records[:2]] == ["new - base", "third - base"]
    of_all = both(**third, against="all")
    assert of_all.table.header[1:4] == ("first", "second", "second - first")
    titles = ["new - base", "third - base", "third - new"]
    assert [x["difference_of"] for x in of_all.table.records[:3]] == titles
    assert [x[0] for x in of_all.table.rows[:3]] == [f"acc_at_1, {x}" for x in titles]


@pytest.mark.parametrize("is_saved", [False, True])
def test_the_shell_says_which_file_is_subtracted(is_saved: bool, tmp_path: Path) -> None:
    """In text, Markdown, LaTeX, CSV, JSON and on the page; the order of files is kept."""
    for name, preds in (("new", [[1]] * 40), ("base", [[1], [2]] * 20)):
        e = report.evaluate(preds, [1] * 40, k=1, num_locations=3)
        e.save(tmp_path / f"{name}.npz")
        lines = (json.dumps({"preds": x, "target": 1}) for x in preds)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    suffix = "npz" if is_saved else "jsonl"
    paths = [str(tmp_path / f"{x}.{suffix}") for x in ("base", "new")]
    command = ["compare", *paths, *([] if is_saved else ["--k", "1"])]

    def shown(*options: str) -> str:
        done = CliRunner().invoke(main, [*command, *options])
        assert done.exit_code == 0, done.output
        return done.stdout

    of_json = json.loads(shown("--format", "json"))["comparisons"]
    ((name, metrics),) = of_json.items()
    base = metrics["mrr"]["difference_of"].removeprefix(f"{name} - ")
    assert name.endswith(f"new.{suffix}")
    assert base.endswith(f"base.{suffix}")
    assert metrics["mrr"]["difference"] == 0.5
    for kind in ("text", "markdown", "csv", "latex"):
        assert f"new.{suffix} - " in shown("--format", kind).replace("\\", "")
    shown("--out", f"{tmp_path}/page.html")
    assert f"new.{suffix} - base.{suffix}" in (tmp_path / "page.html").read_text("utf-8")


# Notes of a part ---------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["live", "saved", "files"])
def test_values_of_cut_lists_are_not_the_same_measure(door: str, tmp_path: Path) -> None:
    """Of one model, by scores and by lists of three: the MRR differs, and a dagger says why."""
    given: dict[str, Any] = {"all": SCORES, "three": LISTS[:, :3]}
    options: dict[str, Any] = {"k": (1, 3), "num_locations": 50}
    if door == "live":
        found = report.compare(given, TARGET, **options)
    else:
        given = {x: report.evaluate(preds, TARGET, **options) for x, preds in given.items()}
        for name, e in given.items():
            e.save(tmp_path / f"{name}.npz")
        files = {name: tmp_path / f"{name}.npz" for name in given}
        found = report.compare(files if door == "files" else given)
    assert row(found, "mrr")["three"].endswith("†")
    assert not row(found, "mrr")["all"].endswith("†")
    for key in ("acc_at_1", "acc_at_3", "ndcg_at_3", "f1"):  # three ids say all of them
        assert "†" not in "".join(row(found, key).values())
    says = "not the same measure as that of the others: lists are cut at 3"
    for text in (str(found), found.to_latex(), found.to_html(), found.to_markdown()):
        assert says in text
        assert "three: mrr: lists are cut at 3" in text
    assert f"† {says}" in found.by_model().notes
    (record,) = [x for x in found.table.records if x["note"]]
    assert (record["metric"], record["note"]) == ("mrr, three", says)
    assert "three: mrr: lists are cut at 3" in found.card["lists"]


def test_lists_of_one_length_are_one_measure() -> None:
    """All models have the note, once, and none a dagger; beyond their length the cut-off has it."""
    models = {"a": LISTS[:, :3], "b": LISTS[:, 3:6]}
    found = report.compare(models, TARGET, k=(1, 3), num_locations=50)
    assert "mrr: lists are cut at 3" in found.table.notes
    assert "†" not in str(found)
    models["b"] = LISTS[:, :5]
    found = report.compare(models, TARGET, k=5, num_locations=50)
    assert row(found, "acc_at_5")["a"].endswith("†")
    assert not row(found, "acc_at_5")["b"].endswith("†")
    assert {"a: k = 5: no list has more than 3 ids", "b: mrr: lists are cut at 5"} <= {
        *found.table.notes
    }
    cells = row(found, "mrr")
    assert (cells["a"][-1], cells["b"][-1]) == ("†", "†")


def test_the_card_counts_what_is_odd_in_each_model() -> None:
    """NaN, constant rows and ties of each model; what is left out once, as queries are the same."""
    scores, mask = SCORES.copy(), np.arange(300) > 9
    scores[5:15, 2] = np.nan  # five of them are left out
    scores[20:23] = 1
    runs = report.compare({"plain": SCORES, "odd": scores}, TARGET, k=1, mask=mask)
    card = runs.card
    assert (card["rows_with_nan odd"], card["constant_rows odd"], card["left_out"]) == (5, 3, 10)
    assert card["tied odd"] == 3
    assert not any(x.endswith(" plain") for x in card)
    assert "rows with nan odd" in runs.to_html()
    answers = report.read_answers(['["a"]', "none"] * 10, ids=["a", "b"])
    of_answers = report.compare({"x": answers, "y": answers}, [0] * 20, k=1).card
    assert of_answers["unreadable x"] == of_answers["unreadable y"] == 10


def test_few_users_with_hits_are_noted_in_comparisons() -> None:
    """The card of an evaluation doubts the interval, and so does that of both comparisons."""
    users = np.arange(300) // 10
    few, many = (np.where(users < number, 1, 0) for number in (6, 15))
    text = "hits in 6 of 30 users: too few for this interval"
    preds: dict[str, Any] = {"few": few[:, None], "many": many[:, None]}
    live = report.compare(preds, [1] * 300, k=1, users=users)
    assert live.card["interval_of_acc_at_1 few"] == text
    assert "interval_of_acc_at_1 many" not in live.card
    options: Any = {"k": 1, "num_locations": 3}
    each = {x: report.evaluate(y, [1] * 300, users=users, **options) for x, y in preds.items()}
    found = report.compare(each)
    assert found.card["interval_of_acc_at_1 few"] == text
    (note,) = [x for x in found.table.notes if text in x]
    assert note.startswith("few: interval of acc_at_1")
    each["many"] = report.evaluate(preds["many"], [1] * 300, **options)
    assert "cluster: user in few, none in many" in report.compare(each).table.notes


def test_notes_of_saved_evaluations_stay(tmp_path: Path) -> None:
    """What each card counts, and in what the two protocols differ."""
    scores = SCORES.copy()
    scores[:4, 0] = np.nan
    one = report.evaluate(scores, TARGET, k=1, mask=np.arange(300) > 1)
    other = report.evaluate(SCORES[:, :40], TARGET % 40, k=1, exclude=(TARGET[:, None] + 1) % 40)
    found = report.compare({"one": one, "other": other})
    assert (found.card["rows_with_nan one"], found.card["left_out one"]) == (2, 2)
    notes = found.table.notes
    assert "candidates: 50 in one, 40 in other" in notes
    assert "exclude: none in one, given ids in other" in notes
    assert all(x in found.to_html() for x in ("candidates: 50 in one", "rows with nan one"))
    several = report.evaluate(SCORES, np.stack([TARGET, (TARGET + 1) % 50], 1), k=(1, 2))
    notes = report.compare({"one": one, "several": several}).table.notes
    assert "target: one id in one, several ids in several" in notes
    (skipped,) = [x for x in notes if x.startswith("not in both, or without an interval: ")]
    assert {"acc_at_1", "f1"} <= {*skipped.partition(": ")[2].split(", ")}


def test_an_evaluation_is_compared_once(tmp_path: Path) -> None:
    """With itself, with its file, with a copy of the file, with what it was merged into."""
    halves = [report.evaluate(SCORES[x], TARGET[x], k=1) for x in (slice(0, 150), slice(150, 300))]
    halves[0].save(tmp_path / "half.npz")
    copied = tmp_path / "copy.npz"
    copied.write_bytes((tmp_path / "half.npz").read_bytes())
    says = "every evaluation must be compared once, got the same evaluation in a and b; leave one"
    for other in (halves[0], tmp_path / "half.npz", str(copied), report.merge(halves)):
        with pytest.raises(ValueError, match=says):
            report.compare({"a": halves[0], "b": other})
    assert report.compare({"a": halves[0], "b": halves[1]}).card["queries"] == 300
    refused = CliRunner().invoke(main, ["compare", str(tmp_path / "half.npz"), str(copied)])
    assert refused.exit_code == 1
    assert "must be compared once" in refused.stderr


@pytest.mark.filterwarnings("ignore:.*should hold rows, got none")
def test_a_merge_keeps_what_an_empty_shard_counted() -> None:
    """A part without queries may have predictions without truth."""
    items = pd.DataFrame(
        {"user": [1, 1, 2, 2], "item": [3, 5, 5, 3], "score": [0.9, 0.5, 0.8, 0.1]}
    )
    how: Any = {"query": "user", "item": "item", "score": "score", "k": 1, "num_locations": 9}
    truth = pd.DataFrame({"user": [1, 2], "item": [3, 5]})
    shards = [evaluate_table(items, truth=truth[:number], **how) for number in (2, 0)]
    assert shards[1].card["without_truth"] == 2
    for order in (shards, shards[::-1]):
        merged = report.merge(order)
        assert (merged.card["queries"], merged.card["without_truth"]) == (2, 2)
        assert merged.values == shards[0].values
