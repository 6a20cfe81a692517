"""Files of predictions give what the arrays in them give, or an error with file, row and value."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextloc_metrics import report

pd = pytest.importorskip("pandas")
CliRunner = pytest.importorskip("click.testing").CliRunner

LISTS = [[7, 3, 1], [5, 5], [], [2, 9, 4]]
TARGETS = [3, 5, 1, 8]
USERS = ["ann", "bob", "ann", "eve"]


def frame() -> Any:
    """Return the columns as a data frame."""
    return pd.DataFrame({"preds": LISTS, "target": TARGETS, "user": USERS})


def write(kind: str, folder: Path) -> Path:
    """Write the predictions as a file of one format."""
    path = folder / f"answers{kind}"
    table = frame()
    if kind == ".parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    elif kind in (".jsonl", ".json"):
        table.to_json(path, orient="records", lines=kind == ".jsonl")
    elif kind == ".npz":
        padded = [row + [-1] * (3 - len(row)) for row in LISTS]
        np.savez(path, preds=padded, target=TARGETS, user=np.array(USERS))
    else:
        table["preds"] = [" ".join(map(str, row)) for row in LISTS]
        table.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")
    return path


KINDS = [".csv", ".csv.gz", ".tsv", ".jsonl", ".json", ".parquet", ".npz"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_gives_the_same_values(kind: str, tmp_path: Path) -> None:
    """Lists, targets and groups."""
    expected = report.evaluate(LISTS, TARGETS, k=(1, 3), groups={"user": USERS})
    found = report.read(write(kind, tmp_path), groups=["user"])
    e = report.evaluate(found.preds, found.target, k=(1, 3), groups=found.groups)
    assert str(e) == str(expected)
    assert str(e.groups["user"]) == str(expected.groups["user"])
    assert (found.missed, found.vocabulary) == (0, None)


@pytest.mark.parametrize(
    "cell", ["[3, 5]", "3 5", "3,5", "3;5", "(3, 5)", "3.0 5.0", "['3', '5']", "3|5"]
)
def test_lists_written_as_text(cell: str, tmp_path: Path) -> None:
    """As programs write them, whole numbers as floats included."""
    path = tmp_path / "a.csv"
    pd.DataFrame({"preds": [cell, "7"], "target": ["5.0", "7"]}).to_csv(path, index=False)
    found = report.read(path)
    assert found.preds.tolist() == [[3, 5], [7, -1]]
    assert found.target.tolist() == [5, 7]


def test_ids_that_are_text_get_a_vocabulary(tmp_path: Path) -> None:
    """Targets and predictions share the vocabulary; values do not depend on the numbers."""
    path = tmp_path / "a.jsonl"
    rows = [{"preds": ["home", "work"], "target": "work"}, {"preds": ["gym"], "target": "home"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = report.read(path)
    assert found.vocabulary == ("home", "work", "gym")
    assert found.preds.tolist() == [[0, 1], [2, -1]]
    assert found.target.tolist() == [1, 0]


def test_scores_stay_on_the_disk(tmp_path: Path) -> None:
    """A .npy of scores is memory-mapped, and its targets are another file."""
    scores = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    np.save(tmp_path / "scores.npy", scores)
    np.save(tmp_path / "targets.npy", np.arange(20) % 5)
    found = report.read(tmp_path / "scores.npy", targets=tmp_path / "targets.npy")
    assert isinstance(found.preds, np.memmap)
    e = report.evaluate(found.preds, found.target)
    assert e.values == report.evaluate(scores, np.arange(20) % 5).values
    with pytest.raises(ValueError, match=r"`targets` must name the \.npy file"):
        report.read(tmp_path / "scores.npy")


def test_parts_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    """A folder, or a pattern."""
    for name, rows in (("part-1", slice(0, 2)), ("part-0", slice(2, 4))):
        frame()[rows].to_json(tmp_path / f"{name}.jsonl", orient="records", lines=True)
    for path in (tmp_path, tmp_path / "part-*.jsonl"):
        assert report.read(path).target.tolist() == [*TARGETS[2:], *TARGETS[:2]]
    (tmp_path / "more.csv").write_text("preds,target\n1,1\n")
    with pytest.raises(ValueError, match=r"files of one kind.*csv"):
        report.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("preds,target\n1 2,1\n1 x 2,2\n", r"row 1 of .*answers.csv must hold ids.*'1 x 2'"),
        ("preds,target\n1 -100,1\n", r"row 0 of .*'1 -100'; .* `padding=`"),
        ("preds,target\n1.5,1\n", "row 0 of .*'1.5'"),
        ("preds,target\n1,\n", "row 0 of .*''"),
        ("preds,target\n1,1\n2,-100\n", r"row 1 of .*'-100'; .* `padding=`"),
        ("preds,target\n1 2,1\n1 2,-1\n", r"row 1 of .* must hold a target, got .*-1"),
        ("preds,target\n1,1.5\n", "row 0 of .*'1.5'"),
        ("preds,target\n1,1e3x\n,", "row 1 of .*''"),
        ("lists,target\n1,1\n", r"must have the columns \['preds'\], got \['lists', 'target'\]"),
        ("", "must be readable"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, says: str, tmp_path: Path) -> None:
    """File, row and value, and the remedy."""
    path = tmp_path / "answers.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        report.read(path)


def test_broken_answers_may_count_as_misses(tmp_path: Path) -> None:
    """The card has their number; padding is no broken answer."""
    path = tmp_path / "answers.csv"
    path.write_text("preds,target\n1 2,1\nI think home,2\n-100,3\n4 -100,4\n")
    found = report.read(path, on_error="miss", padding=[-100])
    assert found.missed == 1
    assert report.evaluate(found.preds, found.target, k=1).values["acc_at_1"] == 0.5
    np.savez(tmp_path / "a.npz", preds=[[1, -7], [2, 3]], target=[1, 2])
    with pytest.raises(ValueError, match=r"row 0 of .*\[1, -7\]"):
        report.read(tmp_path / "a.npz")
    assert report.read(tmp_path / "a.npz", on_error="miss").preds.tolist() == [[-1, -1], [2, 3]]


def test_arrays_of_one_id_per_query_are_lists(tmp_path: Path) -> None:
    """Integers `[N]` in NumPy files are lists of one id, as in a table."""
    np.savez(tmp_path / "a.npz", preds=[3, 2, -1], target=[3, 5, 1])
    np.save(tmp_path / "a.npy", [3, 2, -1])
    np.save(tmp_path / "b.npy", [3, 5, 1])
    for options in ({"path": "a.npz"}, {"path": "a.npy", "targets": "b.npy"}):
        found = report.read(**{name: tmp_path / file for name, file in options.items()})
        assert found.preds.tolist() == [[3], [2], [-1]]
        values = report.evaluate(found.preds, found.target, k=1).values
        assert values["acc_at_1"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"preds": [0.5, 0.2]}, r"the predictions in .* must be scores \[N, C\] .*float64 \(2,\)"),
        ({"preds": 3}, r"the predictions in .* must be scores \[N, C\] or lists of ids"),
        ({"preds": [[[1]], [[2]]]}, r"the predictions .* ndarray int64 \(2, 1, 1\)"),
        ({"preds": [["a"], ["b"]]}, r"the predictions in .* got ndarray <U1 \(2, 1\)"),
        ({"preds": [1, 2, 3]}, r"one row for each of the 3 predictions, got int64 \(2,\)"),
        ({"target": 1}, r"the targets of .* must be ids \[N\] or \[N, M\].*got int64 \(\)"),
        ({"target": [0.5, 1.0]}, r"the targets of .* must be ids .*got float64 \(2,\)"),
        ({"user": ["a"]}, r"`user` in .* one group for each of the 2 predictions"),
    ],
)
def test_arrays_of_other_shapes_are_refused(
    arrays: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """With the file's name, the rule, and the shape in the file."""
    right = {"preds": [[1, 0], [0, 1]], "target": [1, 1], "user": ["a", "b"]}
    np.savez(tmp_path / "a.npz", **{**right, **arrays})
    with pytest.raises(ValueError, match=says):
        report.read(tmp_path / "a.npz", groups=["user"])


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """A pickle could run anything."""
    np.save(tmp_path / "a.npy", np.array([[1], None], object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        report.read(tmp_path / "a.npy", targets=tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", preds=np.array([[1], None], object), target=[1, 2])
    with pytest.raises(ValueError, match="allow_pickle=False"):
        report.read(tmp_path / "a.npz")
    with pytest.raises(FileNotFoundError, match="`path` must be an existing file of predictions"):
        report.read(tmp_path / "none.csv")
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"files of one kind.*'.xlsx'"):
        report.read(tmp_path / "a.xlsx")


# The command line --------------------------------------------------------------------------------


def run(*arguments: str) -> Any:
    """Run the command as a shell would."""
    from nextloc_metrics.report.command import main

    return CliRunner().invoke(main, list(arguments))


def test_score_prints_what_evaluate_finds(tmp_path: Path) -> None:
    """It prints JSON with bounds, and every other format."""
    path = str(write(".jsonl", tmp_path))
    e = report.evaluate(LISTS, TARGETS, k=(1, 5), groups={"user": USERS})
    options = ["--group", "user", "--k", "1", "--k", "5"]
    shown = run("score", path, *options, "--intervals", "--format", "json")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.output)
    low, high = e.intervals["acc_at_1"]
    assert found["acc_at_1"] == {"value": e.values["acc_at_1"], "low": low, "high": high}
    assert found["f1"] == {"value": e.values["f1"]}
    assert found["card"] == e.card
    plain = json.loads(run("score", path, *options, "--format", "json").output)
    assert plain["mrr"] == {"value": e.values["mrr"]}
    assert run("score", path, *options).output == f"{e}\n\nby user\n{e.groups['user']}\n"
    assert run("score", path, *options, "--format", "markdown").output == e.to_markdown() + "\n"
    assert run("score", path, *options, "--format", "latex").output == e.table.to_latex() + "\n"
    assert run("score", path, *options, "--format", "csv").output == e.table.to_csv()


def test_scores_of_numpy(tmp_path: Path) -> None:
    """One file of scores and one of targets."""
    scores, target = np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0])
    np.save(tmp_path / "scores.npy", scores)
    np.save(tmp_path / "targets.npy", target)
    shown = run(
        "score", str(tmp_path / "scores.npy"), "--target", str(tmp_path / "targets.npy"),
        "--k", "1", "--format", "json",
    )  # fmt: skip
    assert json.loads(shown.output)["acc_at_1"] == {"value": 0.75}


def test_compare_prints_what_compare_finds(tmp_path: Path) -> None:
    """It compares two files with equal targets; different targets are an error."""
    better = frame().assign(preds=[[3], [5], [1], [8]])
    first, second = write(".jsonl", tmp_path), tmp_path / "better.jsonl"
    better.to_json(second, orient="records", lines=True)
    models = {str(first): LISTS, str(second): better["preds"]}
    expected = report.compare(models, TARGETS, groups={"user": USERS}, cluster="user")
    options = [str(first), str(second), "--cluster", "user"]
    assert run("compare", *options).output == f"{expected}\n"
    found = json.loads(run("compare", *options, "--format", "json").output)
    assert found["values"] == expected.values
    difference = found["comparisons"][str(second)]["mrr"]["difference"]
    assert difference == expected.comparisons[str(second)]["mrr"].difference
    latex = run("compare", *options, "--format", "latex").output
    assert latex == expected.table.to_latex() + "\n"
    better.assign(target=[1, 1, 1, 1]).to_json(second, orient="records", lines=True)
    refused = run("compare", *options)
    assert refused.exit_code == 1
    assert "must equal those in" in refused.output


def test_errors_have_an_exit_code_and_no_traceback(tmp_path: Path) -> None:
    """The command fails with a message, and overwrites a file only with `--force`."""
    shown = run("score", str(tmp_path / "none.csv"))
    assert shown.exit_code == 1
    assert shown.output.startswith("Error: `path` must be an existing file of predictions")
    path, out = str(write(".csv", tmp_path)), tmp_path / "out.json"
    options = ["--format", "json", "--out", str(out)]
    assert run("score", path, *options).exit_code == 0
    before = out.read_text()
    refused = run("score", path, "--k", "2", *options)
    assert refused.exit_code == 1
    assert "overwrite it with --force" in refused.output
    assert out.read_text() == before
    assert run("score", path, "--k", "2", *options, "--force").exit_code == 0
    assert out.read_text() != before
    missed = run("score", path, "--on-error", "miss", "--format", "json")
    assert json.loads(missed.output)["card"]["broken_answers"] == 0
    assert "Example: nextloc-metrics score" in run("score", "--help").output


def test_without_click_the_command_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library itself does not need it."""
    from nextloc_metrics import __main__

    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "nextloc_metrics.report.command", raising=False)
    with pytest.raises(SystemExit, match=r"needs click: pip install 'nextloc-metrics\[cli\]'"):
        __main__.main()


def test_shards_are_saved_and_merged(tmp_path: Path) -> None:
    """By two commands; ids that are text share a vocabulary."""
    rows = [{"preds": ["home", "work"], "target": "work"}, {"preds": ["sea"], "target": "home"}]
    words = tmp_path / "words.txt"
    words.write_text("gym\nhome\nwork\n")
    for number, row in enumerate(rows):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row))
        options = ["--vocabulary", str(words), "--save", str(tmp_path / f"{number}.npz")]
        assert run("score", str(tmp_path / f"{number}.jsonl"), *options).exit_code == 0
        assert run("score", str(tmp_path / f"{number}.jsonl"), *options).exit_code == 1
    parts = [str(tmp_path / f"{number}.npz") for number in (0, 1)]
    merged = json.loads(run("merge", *parts, "--format", "json").output)
    assert merged["acc_at_5"] == {"value": 0.5}
    assert merged["mrr"] == {"value": 0.25}
    assert merged["card"]["lists_with_other_ids"] == 1
    page = tmp_path / "report.html"
    assert run("merge", *parts, "--out", str(page)).exit_code == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert run("merge", parts[0], parts[0]).exit_code == 1
    with pytest.raises(ValueError, match=r"row 0 of .*'work'"):
        report.read(tmp_path / "0.jsonl", vocabulary=["home"])


# Runs of TREC ------------------------------------------------------------------------------------

RUN = """q1 Q0 b 9 0.5 me
q1 Q0 a 1 0.5 me
q1 Q0 c 2 0.9 me

q2 Q0 a 1 1e-3 me
q4 Q0 a 1 1 me
"""
QRELS = "q1 0 a 1\nq1 0 b 0\nq2 0 b 2\nq3 0 a 1\n"


def test_a_run_is_read_as_trec_eval_reads_it(tmp_path: Path) -> None:
    """By score, then by id from last to first; a query without an answer is a miss."""
    (tmp_path / "a.run").write_text(RUN)
    (tmp_path / "a.qrels").write_text(QRELS)
    found = report.read(tmp_path / "a.run", targets=tmp_path / "a.qrels")
    assert found.vocabulary is not None
    lists = [[found.vocabulary[x] for x in row if x >= 0] for row in found.preds.tolist()]
    assert lists == [["c", "b", "a"], ["a"], [], ["a"]]
    assert [[found.vocabulary[x] for x in row if x >= 0] for row in found.target.tolist()] == [
        ["a"], ["b"], ["a"], [],
    ]  # fmt: skip
    e = report.evaluate(found.preds, found.target, k=3)
    assert e.values["mrr_at_3"] == pytest.approx((1 / 3 + 0 + 0) / 3)
    assert e.card["without_target"] == 1
    shown = run(
        "score", str(tmp_path / "a.run"), "--target", str(tmp_path / "a.qrels"), "--k", "3",
        "--format", "json",
    )  # fmt: skip
    assert json.loads(shown.output)["mrr_at_3"]["value"] == e.values["mrr_at_3"]


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ("q1 Q0 a 1 0.5\n", QRELS, "line 1 of .*a.run must be `query Q0 id rank score name`"),
        (RUN, "q1 0 a\n", "line 1 of .*a.qrels must be `query 0 id grade`, got 'q1 0 a'"),
        ("q1 Q0 a 1 good me\n", QRELS, "line 1 of .* must hold a number, got 'good'"),
        ("q1 Q0 a 1 nan me\n", QRELS, "must hold a number, got 'nan'"),
    ],
)
def test_a_broken_line_of_a_run_is_named(a: str, b: str, says: str, tmp_path: Path) -> None:
    """With its file and number."""
    (tmp_path / "a.run").write_text(a)
    (tmp_path / "a.qrels").write_text(b)
    with pytest.raises(ValueError, match=says):
        report.read(tmp_path / "a.run", targets=tmp_path / "a.qrels")
    with pytest.raises(ValueError, match="`targets` must name the judgements"):
        report.read(tmp_path / "a.run")


def test_predictions_are_written_as_a_run_and_read_back(tmp_path: Path) -> None:
    """Lists and scores have the same values after writing and reading."""
    scores = np.random.default_rng(0).permuted(np.tile(np.arange(7.0), (20, 1)), axis=1)
    target = np.arange(20) % 7
    np.savez(tmp_path / "scores.npz", preds=scores, target=target)
    for path in (tmp_path / "scores.npz", write(".parquet", tmp_path)):
        found = report.read(path)
        names = tmp_path / f"{path.stem}.run", tmp_path / f"{path.stem}.qrels"
        found.to_trec(*names)
        again = report.read(names[0], targets=names[1])
        expected = report.evaluate(found.preds, found.target, k=(1, 3)).values
        assert report.evaluate(again.preds, again.target, k=(1, 3)).values == expected
        with pytest.raises(FileExistsError, match="`force=True`"):
            found.to_trec(*names)
        found.to_trec(*names, force=True)
