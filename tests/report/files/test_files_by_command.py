"""The command line reads files of predictions, and of what is beside them, as Python does."""

from __future__ import annotations

import json
import math
import re
import runpy
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from table_forms import records, run, table_in_form

from nextloc_metrics import report
from nextloc_metrics.geography import Locations

pytestmark = pytest.mark.slow  # the hostile laws and the tests of the command run it, and take less

LISTS = [[7, 3, 1], [5, 4], [], [2, 9, 8]]
TARGETS = [3, 5, 1, 8]
USERS = ["ann", "bob", "ann", "eve"]
COLUMNS: dict[str, Any] = {"preds": LISTS, "target": TARGETS, "user": USERS}


def json_printed_by(*arguments: Any) -> Any:
    """Return the JSON that a command prints."""
    shown = run(*map(str, arguments), "--format", "json")
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


def check_command_refuses(says: str, *arguments: Any, code: int = 1) -> None:
    """Check that a command fails with a message, and without a traceback."""
    shown = run(*map(str, arguments))
    assert shown.exit_code == code
    assert isinstance(shown.exception, SystemExit)
    assert re.search(says, " ".join(shown.output.split())), shown.output


def test_score_prints_what_evaluate_finds(tmp_path: Path) -> None:
    """It prints JSON with bounds, and every other format."""
    path = str(table_in_form(COLUMNS, ".jsonl", tmp_path))
    e = report.evaluate(LISTS, TARGETS, k=(1, 3), groups={"user": USERS}, cluster="user")
    options = [path, "--cluster", "user", "--group", "user", "--k", "1", "--k", "3"]
    json_of = json_printed_by("score", *options)
    for name in ("acc_at_1", "f1"):
        low, high = (None if math.isnan(x) else x for x in e.intervals[name])
        assert (low is None) == (name == "f1")  # one user alone has a hit
        assert json_of[name] == {"value": e.values[name], "low": low, "high": high}
    assert json_of["card"] == e.card
    for kind, text in {
        "text": f"{e}\n\nby user\n{e.groups['user']}\n",
        "markdown": e.to_markdown() + "\n",
        "latex": e.table.to_latex() + "\n",
        "csv": e.table.to_csv(),
    }.items():
        shown = run("score", *options, *([] if kind == "text" else ["--format", kind]))
        assert shown.stdout == text
    shown = run("score", path, "--k", "1", "--k", "5", "--out", str(tmp_path / "out.txt"))
    assert shown.output.startswith("Warning: `--k` should be at most 3")
    assert "k = 5: no list has more than 3 ids" in (tmp_path / "out.txt").read_text("utf-8")


def test_errors_have_an_exit_code_and_write_nothing(tmp_path: Path) -> None:
    """A file is overwritten only with `--force`; usage errors end with 2."""
    path, out = table_in_form(COLUMNS, ".csv", tmp_path), tmp_path / "out.json"
    check_command_refuses("^Error: `PATH` must be an existing file", "score", tmp_path / "none.csv")
    options = ["score", path, "--k", "1", "--format", "json", "--out", out]
    assert run(*map(str, options)).stderr == f"wrote {out}\n"
    before = out.read_bytes()
    check_command_refuses("overwrite it with `--force`", *options, "--k", "2")
    assert out.read_bytes() == before
    assert run(*map(str, options), "--k", "2", "--force").exit_code == 0
    assert out.read_bytes() != before
    assert (
        json_printed_by("score", path, "--k", "3", "--on-error", "miss")["card"]["broken_answers"]
        == 0
    )
    check_command_refuses("No such option", "score", path, "--no", code=2)
    table = ["--group-table", tmp_path / "b.csv"]
    check_command_refuses("`--group-table` needs `--group COLUMN`", "score", path, *table, code=2)
    table[1] = "a.txt"
    check_command_refuses(
        "must end with .*, got a.txt", "score", path, *table, "--group", "user", code=2
    )
    assert run("score", str(path), "--k", "1", "--save", str(tmp_path / "a.npz")).exit_code == 0
    check_command_refuses(
        "`--group-table` needs", "merge", tmp_path / "a.npz", table[0], tmp_path / "b.csv"
    )
    for command in ([], ["score"], ["audit"]):
        assert run(*command, "-h").output == run(*command, "--help").output


def test_without_click_the_command_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library itself does not need it."""
    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "nextloc_metrics.cli.commands", raising=False)
    with pytest.raises(SystemExit, match=r"needs click; install the extra `cli` \("):
        runpy.run_module("nextloc_metrics", run_name="__main__")


# Groups ------------------------------------------------------------------------------------------


@pytest.fixture
def many(tmp_path: Path) -> tuple[str, report.Evaluation]:
    """A file of 240 queries of 120 users in 2 cities, and their evaluation."""
    draw = np.random.default_rng(5)
    preds, target = draw.integers(0, 6, (240, 3)), draw.integers(0, 6, 240)
    groups = {"user": [f"user, {i % 120}" for i in range(240)]}
    groups["city"] = ["Bern" if i % 3 else "Genf" for i in range(240)]
    columns = {"preds": preds.tolist(), "target": target, **groups}
    path = str(table_in_form(columns, ".jsonl", tmp_path))
    return path, report.evaluate(preds, target, k=1, groups=groups)


def test_a_table_of_groups_has_all_groups(many: tuple[str, report.Evaluation]) -> None:
    """Records, CSV and frame have each of 120 users; the text their medians and the ten worst."""
    path, e = many
    table = e.groups["user"]
    assert len(table.records) == len(table.to_pandas()) == table.to_csv().count("\n") - 1 == 3 * 120
    of_users = {x["group"]: x for x in e.group_records("user") if x["metric"] == "acc_at_1"}
    worst = sorted(of_users.values(), key=lambda x: (x["value"], -x["queries"]))[:10]
    assert [row[0] for row in table.rows] == ["median of 120 users", *(x["group"] for x in worst)]
    assert table.rows[0][1] == f"{100 * np.median([x['value'] for x in of_users.values()]):.2f}"
    assert "each of the 120 users: --group-table FILE" in str(table)
    rows = [json.loads(x) for x in Path(path).read_text("utf-8").splitlines()]
    own = [x for x in rows if x["user"] == "user, 7"]
    alone = report.evaluate([x["preds"] for x in own], [x["target"] for x in own], k=1)
    mine = {x["metric"]: x for x in e.group_records("user") if x["group"] == "user, 7"}
    for name, x in mine.items():
        assert (x["value"], (x["low"], x["high"]), x["queries"]) == (
            alone.values[name], alone.intervals[name], 2
        )  # fmt: skip
    assert len(e.group_records("city")) == 3 * 2
    assert len(e.group_records()) == 3 * (120 + 2)
    with pytest.raises(ValueError, match=r"`kind` must be one of \['user', 'city'\], got 'hour'"):
        e.group_records("hour")


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_no_format_drops_groups(
    kind: str, many: tuple[str, report.Evaluation], tmp_path: Path
) -> None:
    """JSON has all; CSV and LaTeX name the file that has, from `score` and from `merge`."""
    path, e = many
    options = ["score", path, "--group", "user", "--group", "city", "--k", "1"]
    out, shard, again = (str(tmp_path / f"groups{x}") for x in (kind, ".npz", f"2{kind}"))
    shown = run(*options, "--format", "csv", "--group-table", out, "--save", shard)
    assert (shown.stdout, shown.stderr) == (e.table.to_csv(), f"wrote {shard}\nwrote {out}\n")
    assert run("merge", shard, "--group-table", again).exit_code == 0
    for file in (out, again):
        read_csv = pytest.importorskip("pyarrow.csv").read_csv  # pandas 2 rounds what it reads
        table = read_csv(file).to_pandas() if kind == ".csv" else pd.read_parquet(file)
        assert table.to_dict("records") == pd.DataFrame(e.group_records()).to_dict("records")
    check_command_refuses("overwrite it with `--force`", *options, "--group-table", out)
    of_json = [
        {"kind": kind, "group": group, "metric": metric, **numbers}
        for kind, groups in json_printed_by(*options)["groups"].items()
        for group, metrics in groups.items()
        for metric, numbers in metrics.items()
    ]
    by_name = itemgetter("kind", "group", "metric")
    assert sorted(of_json, key=by_name) == sorted(e.group_records(), key=by_name)
    for name in ("csv", "latex"):
        shown = run(*options, "--format", name)
        assert "`--group-table FILE` writes those of groups" in shown.stderr
        assert not run("score", path, "--k", "1", "--format", name).stderr


@pytest.mark.parametrize(
    "form",
    [".csv", "cut.csv", "void.csv", ".tsv", ".csv.gz", ".jsonl", ".json", ".parquet", ".npz",
     "scores"],
)  # fmt: skip
def test_a_file_without_rows_is_a_warning(form: str, tmp_path: Path) -> None:
    """Values are NaN, null in JSON, and the command succeeds; there is nothing to compare."""
    path, out = tmp_path / f"a{form}", tmp_path / "groups.csv"
    if form in (".npz", "scores"):
        preds = np.zeros((0, 3), float if form == "scores" else int)
        path = tmp_path / "a.npz"
        np.savez(path, preds=preds, target=np.zeros(0, int), user=np.zeros(0, "U3"))
    elif "json" in form or form == "void.csv":
        path.write_text("[]" if form == ".json" else "\n", "utf-8")
    elif form == "cut.csv":  # without the end of its line
        path.write_text("preds,target,user", "utf-8")
    else:
        empty = pd.DataFrame(COLUMNS)[:0]
        tab = {"sep": "\t"} if form == ".tsv" else {}
        empty.to_parquet(path) if form == ".parquet" else empty.to_csv(path, index=False, **tab)
    options = ["--group", "user", "--k", "1", "--group-table", str(out)]
    shown = run("score", str(path), *options, "--format", "json")
    assert "should hold rows, got none; all values are NaN." in shown.stderr
    values = json.loads(shown.stdout)
    assert (values["acc_at_1"], values["card"]["queries"]) == (
        {"value": None, "low": None, "high": None},
        0,
    )
    assert out.read_text("utf-8") == "kind,group,metric,value,low,high,queries\n"
    other = table_in_form(COLUMNS, ".csv", tmp_path / "..")
    for command in (["compare", path, other], ["audit", path]):
        check_command_refuses(
            "^Warning: .*must hold at least one query to compare or audit", *command
        )


# What is beside predictions ----------------------------------------------------------------------


@pytest.mark.parametrize("form", [".csv", ".npz"])
def test_the_command_takes_the_options_of_evaluate(form: str, tmp_path: Path) -> None:
    """Mask, excluded ids, training counts and coordinates, from files of every kind."""
    seen, use = [[8], [], [9, 8], [7]], [True, True, False, True]
    path = table_in_form({**COLUMNS, "seen": seen, "use": use}, form, tmp_path)
    places = np.array([[x / 100, x / 50] for x in range(11)] + [[np.nan, np.nan]])
    e = report.evaluate(
        LISTS, TARGETS, k=(1, 3), mask=use, exclude=[[*x, -1, -1][:2] for x in seen],
        exempt_target=True, groups={"user": USERS}, train_counts=np.arange(12),
        locations=Locations(places[:, 0], places[:, 1]),
    )  # fmt: skip
    assert {"mean_distance", "acc_within_1000m_at_1"} <= e.values.keys()
    (tmp_path / "counts.txt").write_text("\n".join(map(str, range(12))), "utf-8")
    lines = ["latitude,longitude", *(f"{x / 100},{x / 50}" for x in range(11)), ","]
    (tmp_path / "places.csv").write_text("\n".join(lines), "utf-8")
    np.save(tmp_path / "counts.npy", np.arange(12))
    np.save(tmp_path / "places.npy", places)
    for counts, of in (("counts.txt", "places.csv"), ("counts.npy", "places.npy")):
        shown = run(
            "score", str(path), "--k", "1", "--k", "3", "--mask", "use", "--exclude", "seen",
            "--exempt-target", "--group", "user",
            "--train-counts", str(tmp_path / counts), "--coordinates", str(tmp_path / of),
        )  # fmt: skip
        title = "accuracy in full lists, others at ranks within the decile"
        deciles = f"by popularity of the target: {title}\n{e.deciles}"
        assert shown.output == f"{e}\n\nby user\n{e.groups['user']}\n\n{deciles}\n"


PLACES = "latitude,longitude\n52,4\n"


@pytest.mark.parametrize(("option", "name", "content", "says"), [
    *(("--train-counts", "c.txt", f"2\n{x}\n1\n", "c.txt must hold one integer per line, from 0")
      for x in ("9223372036854775808", "9" * 5000, "-1", "1.5", "1_0", "\u0663")),
    ("--train-counts", "c.txt", f"{2**63 - 1}", "must add up"),
    ("--coordinates", "c.npy", np.zeros((2, 3)), r"latitude and longitude, \[C, 2\], got"),
    ("--coordinates", "c.csv", "lat,longitude\n1,2\n", "latitude.*lat"),
    ("--coordinates", "c.csv", PLACES + "52,4,10\n", "line 3"),
    ("--coordinates", "c.csv", "latitude,longitude,longitude\n52,4,9\n", "longitude"),
    ("--coordinates", "c.csv", 'latitude,longitude,n\n52,4,\n52,4,"o\n', "line 3.* clos"),
    ("--coordinates", "c.csv", PLACES + "52,b\n", "longitude.* 'b' .*line 3"),
    ("--coordinates", "c.csv", PLACES + "52,", "line 3.* both `latitude` and"),
    ("--coordinates", "c.csv", PLACES + ",4", "line 3.* both `latitude` and"),
    ("--coordinates", "c.csv", PLACES + "nan,1", "line 3.* both `latitude` and"),
    ("--mask", "user", "", "line 2 .* true, false, 1 or 0 in `user`, got 'ann'"),
    ("--exclude", "user", "", "line 2 .* ids of locations in `user`, integers as all .* got 'ann'"),
    ("--exclude", "none", "", "'none'"),
])  # fmt: skip
def test_options_that_cannot_be_read_are_named(
    option: str, name: str, content: Any, says: str, tmp_path: Path
) -> None:
    """File, line, column and value."""
    path = table_in_form(COLUMNS, ".csv", tmp_path)
    if isinstance(content, str) and content:
        name = str(tmp_path / name)
        Path(name).write_text(content, "utf-8")
    elif not isinstance(content, str):
        np.save(name := str(tmp_path / name), content)
    check_command_refuses(says, "score", path, option, name)


def test_tables_of_days_shift_no_column(tmp_path: Path) -> None:
    """Of predicted days."""
    path, day = tmp_path / "a.csv", {"uid": [1.0], "d": [2.0], "t": [3.0], "x": [4.0], "y": [5.0]}
    for text, says in [
        ("uid,d,t,x,y\n1,2,3,4,5,10\n", "line 2"),
        ("uid,d,t,x,y,y\n1,2,3,4,5,9\n", "'y'"),
        ('uid,d,t,x,y,n\n1,2,3,4,5,\n1,2,4,4,5,"o\n1,2,3,4,5,\n', "line 3"),
        ("uid,d,t,x,y\n1,2,3,4,5\n1,2,4,4,b\n", "`y`.*'b'.*line 3"),
        ("uid,d,t,x\n1,2,3,4\n", "'y'"),
        ("uid,d,t,x,y\n1,9007199254740993,3,4,5\n", "must be whole numbers"),
    ]:
        path.write_text(text, "utf-8")
        with pytest.raises(ValueError, match=rf"(?s)({says}.*a\.csv|a\.csv.*{says}|whole)"):
            report.evaluate_trajectories(path, day)
    path.write_text("n,uid,d,t,x,y\n9,1,2,3,4,5\n", "utf-8")
    assert report.evaluate_trajectories(path, day).values["dtw"] == 0


@pytest.mark.usefixtures("blank_pictures")
def test_shards_are_saved_and_merged(tmp_path: Path) -> None:
    """By two commands; ids that are text share a vocabulary."""
    words = tmp_path / "words.txt"
    words.write_text("gym\nhome\nwork\n", "utf-8")
    parts = [str(tmp_path / f"{i}.npz") for i in (0, 1)]
    for part, row in zip(parts, [(["home", "work"], "work"), (["sea"], "home")], strict=True):
        path = table_in_form({"preds": [row[0]], "target": [row[1]]}, ".jsonl", tmp_path)
        options = ["score", str(path), "--vocabulary", str(words), "--save", part]
        assert run(*options).exit_code == 0
        check_command_refuses("overwrite", *options)
    merged = json_printed_by("merge", *parts)
    assert (merged["acc_at_5"]["value"], merged["mrr"]["value"]) == (0.5, 0.25)
    assert merged["card"]["lists_with_other_ids"] == 1
    page = tmp_path / "report.html"
    assert run("merge", *parts, "--out", str(page)).stderr == f"wrote {page}\n"
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    check_command_refuses("", "merge", parts[0], parts[0])


# Comparisons -------------------------------------------------------------------------------------


def test_compare_prints_what_compare_finds(tmp_path: Path) -> None:
    """Values, differences, p-values and intervals, in each format."""
    (tmp_path / "b").mkdir()
    better = {**COLUMNS, "preds": [[3], [5], [1], [8]]}
    paths = [
        str(table_in_form(COLUMNS, ".jsonl", tmp_path)),
        str(table_in_form(better, ".jsonl", tmp_path / "b")),
    ]
    models = dict(zip(paths, (LISTS, better["preds"]), strict=True))
    how: dict[str, Any] = {"groups": {"user": USERS}, "cluster": "user"}
    expected = report.compare(models, TARGETS, **how)
    options = ["compare", *paths, "--cluster", "user"]
    assert run(*options).output == f"{expected}\n"
    assert "clustered by user (3 groups)" in str(expected)
    shown = json_printed_by(*options)
    assert shown["values"] == expected.values
    of_mrr = shown["comparisons"][paths[1]]["mrr"]
    assert of_mrr["difference"] == expected.comparisons[paths[1]]["mrr"].difference
    assert of_mrr["corrected_p_value"] == expected.corrected[paths[1]]["mrr"]
    for kind in ("latex", "markdown", "csv"):
        text = getattr(expected if kind == "latex" else expected.table, f"to_{kind}")()
        assert run(*options, "--format", kind).output.strip() == text.strip()
    narrower = report.compare(models, TARGETS, **how, confidence_level=0.8)
    assert run(*options, "--confidence-level", "0.8").output == f"{narrower}\n"


def comparison_printed(
    folder: Path, one: dict[str, Any], other: dict[str, Any], options: str = ""
) -> Any:
    """Compare two files of four rows, or of as many as the values of a column that is changed."""
    paths = [str(folder / name) for name in ("a.jsonl", "b.jsonl")]
    for path, change in zip(paths, (one, other), strict=True):
        columns = {**COLUMNS, "preds": [[1]], "id": ["q1", "q2", "q3", "q4"], **change}
        rows = range(max(map(len, change.values()), default=4))
        text = records(*({x: y[i % len(y)] for x, y in columns.items()} for i in rows))
        Path(path).write_text(text, "utf-8")
    return run("compare", *paths, "--k", "1", *options.split())


def words_of(*targets: Any) -> dict[str, Any]:
    """Return columns of ids that are text."""
    return {"preds": [["Bar"]], "target": targets}


@pytest.mark.parametrize(("one", "other", "options", "says"), [
    ({}, {"target": [3, 1, 1, 1]}, "", "2 of 4 rows .* 1 instead of 5 is row 2"),
    ({}, {"user": ["ann", "eve", "ann", "bob"]}, "--cluster user",
     "2 of 4 rows .* 'eve' instead of 'bob' is row 2"),
    ({}, {"target": [3, 5, 1]}, "", r"\(3,\) and \(4,\)"),
    ({}, {"target": [3, 5, 1, 9]}, "--id id", "1 of 4 rows .* with 9 instead of 8 is key 'q4'"),
    ({}, {"user": ["ann"] * 4}, "--id id --cluster user",
     "2 of 4 rows .* with 'ann' instead of 'bob' is key 'q2'"),
    (words_of("Bar", "Gym", "Zoo"), words_of("Baq", "Gyl", "Zoo"), "",
     "2 of 3 rows .* 'Baq' instead of 'Bar' is row"),
    ({"target": [10000000007, 5]}, {"target": [10000000008, 5]}, "", "instead of 10000000007"),
    (words_of(["Gym", "Bar"], ["Zoo"]), words_of(["Gym", "Bar"], ["Zop"]), "", "'Zop'.*'Zoo'"),
    ({}, {"id": ["q1", "q2", "q3"]}, "--id id", r"3 keys, 1 missing \(the first is 'q4'\)"),
    ({}, {"id": ["q1", "q2", "q3", "q4", "q9"]}, "--id id", r"1 extra \(the first is 'q9'\)"),
    ({}, {"id": ["q4", "q2", "q2", "q2"]}, "--id id", "2 missing .*'q1'.*, 2 repeated .*'q2'"),
    ({}, {"id": ["q1", None, "q3", "q4"]}, "--id id", "must hold a group in `id`, got none"),
    ({}, {"id": ["q1", "q2", "q3", "q4\0"]}, "--id id", "1 missing .*'q4'.*1 extra .*'q4"),
])  # fmt: skip
def test_compare_needs_the_same_queries(
    one: dict[str, Any], other: dict[str, Any], options: str, says: str, tmp_path: Path
) -> None:
    """Row by row or by keys, ids as text byte for byte; the error has the first that differs."""
    shown = comparison_printed(tmp_path, one, other, options)
    assert shown.exit_code == comparison_printed(tmp_path, other, one, options).exit_code - 0 == 1
    assert re.search(says, " ".join(shown.output.split())), shown.output


def test_equal_queries_are_compared(tmp_path: Path) -> None:
    """Whatever their users, with ids of text; one user has no interval, and no p-value."""
    assert comparison_printed(tmp_path, {}, {"user": ["ann", "eve", "ann", "bob"]}).exit_code == 0
    words = words_of("Bar", "Gym", "Zoo")
    text = comparison_printed(tmp_path, words, words, "--format json").output
    first, second = json.loads(text)["values"].values()
    assert first == second
    assert first["acc_at_1"] == pytest.approx(1 / 3)
    one = {"user": ["ann"] * 4}
    text = comparison_printed(
        tmp_path, one, {**one, "preds": [[3]]}, "--cluster user --format json"
    ).output
    assert "NaN" not in text
    of_mrr = json.loads(text)["comparisons"][str(tmp_path / "b.jsonl")]["mrr"]
    assert (of_mrr["low"], of_mrr["p_value"], of_mrr["corrected_p_value"]) == (None, None, None)
    far = (1 << 20) + 12  # sparse, and numbered, in the file of lists only
    np.savez(tmp_path / "s.npz", preds=np.zeros((1, far + 1), np.float32), target=[far])
    path = table_in_form({"preds": [[1]], "target": [far]}, ".jsonl", tmp_path)
    check_command_refuses("pass `--vocabulary`", "compare", tmp_path / "s.npz", path)
    np.savez(tmp_path / "s.npz", preds=np.eye(9)[[3, 5, 2, 8]], target=TARGETS)
    path, words = table_in_form(COLUMNS, ".jsonl", tmp_path), tmp_path / "words.txt"
    words.write_text("\n".join(map(str, range(9))), "utf-8")
    options = ["compare", tmp_path / "s.npz", path, "--k", "1", "--vocabulary", words]
    values = json_printed_by(*options)["values"]
    assert [x["acc_at_1"] for x in values.values()] == [3 / 4, 1 / 4]
    words.write_text("0\n1", "utf-8")
    check_command_refuses("must list the 9 ids of the scores", *options)


def test_parts_of_dicts_and_of_tensors_are_joined(tmp_path: Path) -> None:
    """By a pattern and by a folder; a key that two files have, and other tensors, are refused."""
    for name, ids in (("1", [5, 3]), ("2", [3, 5])):
        (tmp_path / f"{name}.json").write_text(json.dumps({name: ids}), "utf-8")
        torch.save({"preds": torch.tensor([ids]), "target": [3]}, tmp_path / f"{name}.pt")
    (tmp_path / "3.json").write_text('{"1": [7]}', "utf-8")
    torch.save(torch.rand(1, 9), tmp_path / "3.pt")
    for end, truth, says in (
        (".json", {"1": 3, "2": 3}, "once, got '1'"),
        (".pt", None, "tensors"),
    ):
        rows = str(tmp_path / "[12]") + end
        assert report.evaluate(report.Source(rows, truth=truth), k=1).values["mrr"] == 0.75
        with pytest.raises(ValueError, match=rf"3\{end} must hold .*{says}"):
            report.evaluate(report.Source(str(tmp_path / f"*{end}"), truth=truth), k=1)
    assert "must be an existing file" in run("score", str(tmp_path / "missing.json")).output
