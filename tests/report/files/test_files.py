"""Files of predictions give what the arrays in them give, or an error with file, row and value."""

from __future__ import annotations

import gzip
import json
import re
import sys
import tracemalloc
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import report
from nextloc_metrics.geography import Locations
from nextloc_metrics.report.files.predictions import Predictions, same_queries
from nextloc_metrics.report.files.tables import open_rows

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
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    elif kind == ".npz":
        padded = [row + [-1] * (3 - len(row)) for row in LISTS]
        np.savez(path, preds=padded, target=TARGETS, user=np.array(USERS))
    else:
        table["preds"] = [json.dumps(row) for row in LISTS]
        table.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")
    return path


LINE = '{"preds": [1], "target": 1}\n'
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


def test_scores_stay_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A .npy of scores is memory-mapped, or read in chunks; its targets are another file."""
    scores = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    np.save(tmp_path / "scores.npy", scores)
    np.save(tmp_path / "targets.npy", np.arange(20) % 5)
    found = report.read(tmp_path / "scores.npy", targets=tmp_path / "targets.npy")
    assert isinstance(found.preds, np.memmap)
    e = report.evaluate(found.preds, found.target)
    assert e.values == report.evaluate(scores, np.arange(20) % 5).values
    monkeypatch.setattr("nextloc_metrics.report.files.tables._VALUES", 64)
    rows = open_rows(tmp_path / "scores.npy", target=str(tmp_path / "targets.npy"))
    batches = list(rows.chunks())
    assert (len(batches), rows.num_candidates, rows.num_rows) == (2, 5, 20)
    assert torch.equal(torch.cat([batch.preds for batch in batches]), torch.from_numpy(scores))
    with pytest.raises(ValueError, match=r"`targets` must name the \.npy file"):
        report.read(tmp_path / "scores.npy")


def test_parts_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    """A folder, or a pattern."""
    for name, rows in (("part-1", slice(0, 2)), ("part-0", slice(2, 4))):
        frame()[rows].to_json(tmp_path / f"{name}.jsonl", orient="records", lines=True)
    for path in (tmp_path, tmp_path / "part-*.jsonl"):
        assert report.read(path).target.tolist() == [*TARGETS[2:], *TARGETS[:2]]
    (tmp_path / "more.csv").write_text("preds,target\n1,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"files of one kind.*csv"):
        report.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('preds,target\n"[1, 2]",1\n1 x 2,2\n', r"row 1 of .*answers.csv must hold ids.*'1 x 2'"),
        ("preds,target\n1 2,1\n", r"row 0 of .*'1 2'; .* `separator=' '`"),
        ("preds,target\n-100,1\n", r"row 0 of .*'-100'; .* `padding=-100`"),
        ("preds,target\n1.5,1\n", "row 0 of .*'1.5'"),
        ("preds,target\n1,\n", "row 0 of .*''"),
        ("preds,target\n1,1\n2,-100\n", r"row 1 of .*'-100'; .* `padding=-100`"),
        ("preds,target\n1,1\n2,-1\n", r"row 1 of .* must hold a target in `target`, got .*-1"),
        ("preds,target\n[1],[]\n[2],-1\n", r"row 1 of .* must hold a target in `target`, got .*-1"),
        ("preds,target\n1,1.5\n", "row 0 of .*'1.5'"),
        ("preds,target\n1,1e3x\n,", "row 1 of .*''"),
        ("lists,target\n1,1\n", r"must have the columns \['preds'\], got \['lists', 'target'\]"),
        ('preds,target\n1,1\n"2,2\n', "line 3, row 1 of .*must have a closing quote"),
        (f'preds,target\n1,1\n"2{" " * 200_000},2\n', "row 1 of .*a closing quote"),
        (
            '[7],7,ok\n[8],9,"oops\n[8],8,fine\n[8],8,"fine"',
            "line 3, row 1 .* behind each closing q",
        ),
        ('[7],7,ok\n[8],9,"a" b\n[8],8,c', "line 3, row 1 .* behind each closing quote"),
        ('[7],7,ok\n"[0, 1]", "0",b', "line 3, row 1 .* in `target`"),
        ("[7],7,ok\npreds,target,note\n[8],8,b", "line 3, row 1 .* must not be the header again"),
        ("preds,target\n[gone],Bar\n", r"row 0 .* '\[gone\]'; text that begins with \[ must be"),
        ("preds,target,preds\n1,1,2\n", "must have every column once, got 'preds' 2 times"),
        (f"{LINE * 9}{LINE[:-2]}, {LINE[1:]}", "row 9 of .*the key '.*' more than once"),
        (f"{LINE * 9}{'[' * 20_000}{']' * 20_000}\n", "line 10, row 9 of .* must be a JSON object"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, says: str, tmp_path: Path) -> None:
    """File, row and value, and the remedy."""
    path = tmp_path / ("answers.jsonl" if text[0] == "{" else "answers.csv")
    path.write_text(f"preds,target,note\n{text}" if text[0] == "[" else text, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        report.read(path)


def test_broken_answers_may_count_as_misses(tmp_path: Path) -> None:
    """The card has their number; padding is no broken answer."""
    path = tmp_path / "answers.csv"
    path.write_text("preds,target\n1 2,1\nI think home,2\n-100,3\n4 -100,4\n", encoding="utf-8")
    found = report.read(path, on_error="miss", padding=[-100], separator=" ")
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
        ({"user": ["a"]}, r"`user` in .* one value for each of the 2 predictions"),
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
    with pytest.raises(ValueError, match="Python objects"):
        report.read(tmp_path / "a.npz")
    with pytest.raises(FileNotFoundError, match="`path` must be an existing file of predictions"):
        report.read(tmp_path / "none.csv")
    (tmp_path / "a.xlsx").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=r"files of one kind.*'.xlsx'"):
        report.read(tmp_path / "a.xlsx")


# The command line --------------------------------------------------------------------------------


def run(*arguments: str) -> Any:
    """Run the command as a shell would."""
    from nextloc_metrics.cli.commands import main

    return CliRunner().invoke(main, list(arguments))


def test_score_prints_what_evaluate_finds(tmp_path: Path) -> None:
    """It prints JSON with bounds, and every other format."""
    path = str(write(".jsonl", tmp_path))
    e = report.evaluate(LISTS, TARGETS, k=(1, 3), groups={"user": USERS})
    options = ["--group", "user", "--k", "1", "--k", "3"]
    shown = run("score", path, *options, "--intervals", "--format", "json")
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.output)
    for name in ("acc_at_1", "f1"):
        low, high = e.intervals[name]
        assert found[name] == {"value": e.values[name], "low": low, "high": high}
    assert found["card"] == e.card
    plain = json.loads(run("score", path, *options, "--format", "json").output)
    assert plain["mrr"] == {"value": e.values["mrr"]}
    assert run("score", path, *options).output == f"{e}\n\nby user\n{e.groups['user']}\n"
    assert run("score", path, *options, "--format", "markdown").output == e.to_markdown() + "\n"
    assert run("score", path, *options, "--format", "latex").stdout == e.table.to_latex() + "\n"
    assert run("score", path, *options, "--format", "csv").stdout == e.table.to_csv()


def test_a_k_beyond_all_lists_is_a_warning(tmp_path: Path) -> None:
    """The command prints the warning of `evaluate`, and then the values."""
    path = str(write(".csv", tmp_path))
    shown = run("score", path, "--k", "1", "--k", "5", "--out", str(tmp_path / "out.txt"))
    assert shown.exit_code == 0
    assert shown.output.startswith("Warning: `--k` should be at most 3, the length of the longest")
    assert "k = 5: no list has more than 3 ids" in (tmp_path / "out.txt").read_text("utf-8")


def many_groups(folder: Path) -> tuple[str, Any]:
    """Write 240 queries of 120 users in 2 cities; return the file and their evaluation."""
    draw = np.random.default_rng(5)
    preds, target = draw.integers(0, 6, (240, 3)), draw.integers(0, 6, 240)
    users = [f"user, {i % 120}" for i in range(240)]
    cities = ["Bern" if i % 3 else "Genf" for i in range(240)]
    rows = {"preds": preds.tolist(), "target": target, "user": users, "city": cities}
    pd.DataFrame(rows).to_json(folder / "many.jsonl", orient="records", lines=True)
    groups = {"user": users, "city": cities}
    return str(folder / "many.jsonl"), report.evaluate(preds, target, k=1, groups=groups)


def test_a_table_of_groups_has_all_groups(tmp_path: Path) -> None:
    """Records, CSV and frame have each of 120 users; the text their medians and the ten worst."""
    path, e = many_groups(tmp_path)
    table = e.groups["user"]
    assert len(table.records) == len(table.to_pandas()) == 3 * 120
    assert table.to_csv().count("\n") == 1 + 3 * 120
    of_users = {x["group"]: x for x in e.group_records("user") if x["metric"] == "acc_at_1"}
    worst = sorted(of_users.values(), key=lambda x: (x["value"], -x["queries"]))[:10]
    assert [row[0] for row in table.rows] == ["median of 120 users", *(x["group"] for x in worst)]
    assert table.header == ("percent", "acc_at_1", "95 % interval", "mrr", "ndcg_at_1", "queries")
    assert table.rows[0][1] == f"{100 * np.median([x['value'] for x in of_users.values()]):.2f}"
    assert "each of the 120 users: --group-table FILE" in str(table)
    cities = {x["group"]: x for x in e.group_records("city") if x["metric"] == "mrr"}
    rows_of = {row[0]: (row[3], row[-1]) for row in e.groups["city"].rows}
    assert rows_of == {
        name: (f"{100 * x['value']:.2f}", f"{x['queries']:,}") for name, x in cities.items()
    }
    assert e.groups["city"].notes == ("mrr: lists are cut at 3",)
    rows = map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())
    lines = [x for x in rows if x["user"] == "user, 7"]
    alone = report.evaluate([x["preds"] for x in lines], [x["target"] for x in lines], k=1)
    found = [x for x in e.group_records("user") if x["group"] == "user, 7"]
    of_means = {x: bounds for x, bounds in alone.intervals.items() if x != "f1"}
    assert {x["metric"]: x["value"] for x in found} == {x: alone.values[x] for x in of_means}
    assert {x["metric"]: (x["low"], x["high"]) for x in found} == of_means
    assert {x["queries"] for x in found} == {2}
    assert dict(table.to_pandas().loc["mrr, user, 7"]) == {
        name: x for name, x in found[1].items() if name not in ("kind", "group", "metric")
    }
    assert len(e.group_records("city")) == 3 * 2
    assert len(e.group_records()) == 3 * (120 + 2)
    with pytest.raises(ValueError, match=r"`kind` must be one of \['user', 'city'\], got 'hour'"):
        e.group_records("hour")


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_groups_are_written_to_a_file(kind: str, tmp_path: Path) -> None:
    """A row per kind, group and metric, from `score` and from `merge`."""
    path, e = many_groups(tmp_path)
    options = ["--group", "user", "--group", "city", "--k", "1", "--format", "csv"]
    out, shard, again = (str(tmp_path / f"groups{x}") for x in (kind, ".npz", f"2{kind}"))
    shown = run("score", path, *options, "--group-table", out, "--save", shard)
    assert shown.exit_code == 0, shown.output
    assert (shown.stdout, shown.stderr) == (e.table.to_csv(), f"wrote {shard}\nwrote {out}\n")
    assert run("merge", shard, "--group-table", again).exit_code == 0
    for file in (out, again):
        read_csv = pytest.importorskip("pyarrow.csv").read_csv  # pandas 2 rounds what it reads
        found = read_csv(file).to_pandas() if kind == ".csv" else pd.read_parquet(file)
        expected = pd.DataFrame(e.group_records())
        assert list(found.columns) == list(expected.columns)
        assert found.to_dict("records") == expected.to_dict("records")
    assert len(found) == 3 * (120 + 2)
    refused = run("score", path, *options, "--group-table", out)
    assert "overwrite it with `--force`" in refused.output


def test_no_format_drops_groups_silently(tmp_path: Path) -> None:
    """JSON has all of them; CSV and LaTeX name the option on standard error."""
    path, e = many_groups(tmp_path)
    options = ["--group", "user", "--group", "city", "--k", "1"]
    found = json.loads(run("score", path, *options, "--intervals", "--format", "json").output)
    records = [
        {"kind": kind, "group": group, "metric": metric, **numbers}
        for kind, groups in found["groups"].items()
        for group, metrics in groups.items()
        for metric, numbers in metrics.items()
    ]
    by_name = itemgetter("kind", "group", "metric")
    assert sorted(records, key=by_name) == sorted(e.group_records(), key=by_name)
    plain = json.loads(run("score", path, *options, "--format", "json").output)
    assert plain["groups"]["city"]["Bern"]["mrr"].keys() == {"value", "queries"}
    for kind in ("csv", "latex"):
        shown = run("score", path, *options, "--format", kind)
        assert "`--group-table FILE` writes those of each group" in shown.stderr
        assert not run("score", path, "--k", "1", "--format", kind).stderr
    assert "groups" not in json.loads(run("score", path, "--k", "1", "--format", "json").output)


def test_usage_errors_exit_with_2(tmp_path: Path) -> None:
    """An unknown option, and a table of groups of another type or without groups."""
    path = str(write(".csv", tmp_path))
    for options, says in [
        (["--no"], "No such option"),
        (["--group-table", str(tmp_path / "a.csv")], "`--group-table` needs `--group COLUMN`"),
        (
            ["--group-table", "a.txt", "--group", "user"],
            "must end with .csv or .parquet, got a.txt",
        ),
    ]:
        shown = run("score", path, *options)
        assert (shown.exit_code, says in shown.stderr) == (2, True), shown.output
    assert run("score", path, "--k", "1", "--save", str(tmp_path / "a.npz")).exit_code == 0
    shown = run("merge", str(tmp_path / "a.npz"), "--group-table", str(tmp_path / "a.csv"))
    assert shown.exit_code == 1
    assert "`--group-table` needs an evaluation with groups" in shown.output


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("kind", [*KINDS, "scores.npz", "void.csv"])
def test_a_file_without_rows_is_a_warning(kind: str, tmp_path: Path) -> None:
    """Values are NaN, null in JSON, and the command succeeds."""
    path = tmp_path / f"empty{kind}"
    empty = frame()[:0]
    if kind.endswith(".npz"):
        preds = np.zeros((0, 3)) if kind == "scores.npz" else np.zeros((0, 3), int)
        np.savez(path, preds=preds, target=np.zeros(0, int), user=np.zeros(0, "U3"))
    elif kind == ".parquet":
        empty.to_parquet(path)
    elif kind in (".jsonl", ".json", "void.csv"):
        path.write_text("[]" if kind == ".json" else "\n", encoding="utf-8")
    else:
        empty.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")
    out = tmp_path / "groups.csv"
    options = ["--group", "user", "--k", "1", "--format", "json", "--group-table", str(out)]
    shown = run("score", str(path), *options)
    assert shown.exit_code == 0, shown.output
    assert "should hold rows, got none; all values are NaN." in shown.stderr
    found = json.loads(shown.stdout)
    assert found["acc_at_1"] == found["f1"] == {"value": None}
    assert found["card"]["queries"] == 0
    assert out.read_text(encoding="utf-8") == "kind,group,metric,value,low,high,queries\n"
    if kind == ".csv":
        page = tmp_path / "report.html"
        assert run("report", str(path), "--group", "user", "--out", str(page)).exit_code == 0


def test_a_file_without_rows_has_nothing_to_compare(tmp_path: Path) -> None:
    """A test of no queries is an error, after the warning."""
    path, other = str(tmp_path / "a.jsonl"), str(write(".csv", tmp_path))
    Path(path).write_text("\n", encoding="utf-8")
    for options in (["compare", path, other], ["audit", path, "--users", "user"]):
        shown = run(*options)
        assert shown.exit_code == 1
        assert shown.stderr.startswith("Warning: ")
        assert "a.jsonl must hold at least one query to compare or audit, got" in shown.stderr


@pytest.mark.usefixtures("blank_pictures")
def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    """On standard error; `-h` prints the help."""
    page = tmp_path / "report.html"
    shown = run("report", str(write(".csv", tmp_path)), "--k", "1", "--out", str(page))
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", f"wrote {page}\n")
    for command in ([], ["score"], ["audit"]):
        assert run(*command, "-h").output == run(*command, "--help").output
        assert run(*command, "-h").exit_code == 0


def write_options(kind: str, folder: Path) -> tuple[Path, list[str]]:
    """Write predictions with a mask and excluded ids, counts and coordinates; return options."""
    path = write(kind, folder)
    excluded = [[8], [], [9, 8], [7]]
    if kind == ".npz":
        padded = [row + [-1] * (2 - len(row)) for row in excluded]
        with np.load(path) as packed:
            arrays = dict(packed)
        arrays |= {"seen": np.array(padded), "use": np.array([1, 1, 0, 1]) > 0}
        np.savez(path, **arrays)
    else:
        cells = [json.dumps(row) for row in excluded] if kind == ".csv" else excluded
        table = frame().assign(seen=cells, use=[True, True, False, True])
        if kind == ".csv":
            table.assign(preds=[json.dumps(row) for row in LISTS]).to_csv(path, index=False)
        elif kind == ".parquet":
            table.to_parquet(path)
        else:
            table.to_json(path, orient="records", lines=True)
    (folder / "counts.txt").write_text("\n".join(map(str, range(12))), encoding="utf-8")
    lines = [f"{x / 100},{x / 50}" for x in range(11)]
    (folder / "places.csv").write_text(
        "\n".join(["latitude,longitude", *lines, ","]), encoding="utf-8"
    )
    return path, [
        "--mask", "use", "--exclude", "seen", "--exempt-target", "--group", "user", "--km", "3",
        "--train-counts", str(folder / "counts.txt"), "--coordinates", str(folder / "places.csv"),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("kind", [".csv", ".npz"])
def test_the_command_takes_the_options_of_evaluate(kind: str, tmp_path: Path) -> None:
    """Mask, excluded ids, training counts and coordinates, from files of every kind."""
    path, options = write_options(kind, tmp_path)
    places = np.array([[x / 100, x / 50] for x in range(11)] + [[np.nan, np.nan]])
    e = report.evaluate(
        LISTS, TARGETS, k=(1, 3), mask=[True, True, False, True],
        exclude=[[8, -1], [-1, -1], [9, 8], [7, -1]],
        exempt_target=True, groups={"user": USERS}, train_counts=np.arange(12), km=3.0,
        locations=Locations(places[:, 0], places[:, 1]),
    )  # fmt: skip
    options = ["--k", "1", "--k", "3", *options]
    assert {"mean_distance", "acc_within_3000m_at_1"} <= e.values.keys()
    assert e.card["left_out"] == 1
    assert e.baseline
    shown = run("score", str(path), *options)
    deciles = f"by popularity of the target\n{e.deciles}"
    assert shown.output == f"{e}\n\nby user\n{e.groups['user']}\n\n{deciles}\n"
    if kind != ".csv":
        return  # what follows does not depend on the file of answers
    np.save(tmp_path / "counts.npy", np.arange(12))
    np.save(tmp_path / "places.npy", places)
    options[-3], options[-1] = str(tmp_path / "counts.npy"), str(tmp_path / "places.npy")
    assert run("score", str(path), *options).output == shown.output


def test_padding_is_no_candidate_of_the_references() -> None:
    """Neither of chance nor of the most frequent locations; it has no coordinates."""
    scores, target = np.eye(4)[:, :3], np.array([0, 1, 2, 0])
    padded = np.column_stack([scores, np.full(4, -np.inf)])
    none = np.full((4, 1), -1)
    e, plain = (
        report.evaluate(
            x, target, k=1, exclude=none, train_counts=[3, 0, 1, 0][: x.shape[1]],
            locations=Locations(np.array([1, 1.1, 1.2, np.nan])[: x.shape[1]], [0] * x.shape[1]),
        )
        for x in (padded, scores)
    )  # fmt: skip
    assert e.values == plain.values
    assert (e.chance, e.baseline) == (plain.chance, plain.baseline)


def test_excluded_candidates_may_be_an_array_of_bools(tmp_path: Path) -> None:
    """One per candidate, in a .npz of scores."""
    scores, target = np.eye(3), np.array([0, 2, 2])
    excluded = np.array([[0, 0, 1], [0, 1, 0], [0, 0, 0]], bool)
    np.savez(tmp_path / "a.npz", preds=scores, target=target, seen=excluded)
    shown = run("score", str(tmp_path / "a.npz"), "--exclude", "seen", "--format", "json")
    e = report.evaluate(scores, target, exclude=excluded)
    assert json.loads(shown.output)["mrr"] == {"value": e.values["mrr"]}
    assert e.values["mrr"] == pytest.approx((1 + 0.75 + 1) / 3)


def test_excluded_ids_may_be_text(tmp_path: Path) -> None:
    """They have the numbers of the vocabulary, which counts and coordinates need."""
    path, counts, words = (tmp_path / name for name in ("a.jsonl", "counts.txt", "words.txt"))
    path.write_text(
        '{"preds": ["gym", "sea", "home"], "target": "home", "seen": ["sea"]}', encoding="utf-8"
    )
    counts.write_text("1\n2\n3\n", encoding="utf-8")
    words.write_text("gym\nhome\nsea\n", encoding="utf-8")
    options = ["score", str(path), "--exclude", "seen", "--format", "json", "--k", "1"]
    assert json.loads(run(*options).output)["mrr"] == {"value": 1 / 2}
    assert json.loads(run(*options, "--vocabulary", str(words)).output)["mrr"] == {"value": 1 / 2}
    refused = run(*options, "--train-counts", str(counts))
    assert refused.exit_code == 1
    assert "`--vocabulary` must list the ids" in refused.output
    options += ["--vocabulary", str(words), "--train-counts", str(counts)]
    assert run(*options).exit_code == 0


def test_options_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """File, row and value."""
    path, _ = write_options(".csv", tmp_path)
    (tmp_path / "a.txt").write_text("3\n-2\n", encoding="utf-8")
    (tmp_path / "a.csv").write_text("lat,longitude\n1,2\n", encoding="utf-8")
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    for options, says in [
        (["--mask", "user"], "line 2 of .* must hold true, false, 1 or 0 in `user`, got 'ann'"),
        (["--exclude", "user"], r"line 2 of .* must hold ids of locations in `user`, got 'ann'"),
        (["--exclude", "none"], r"must have the columns \['none'\]"),
        (["--train-counts", str(tmp_path / "a.txt")], "a.txt must hold one integer .*, got '-2'"),
        (["--coordinates", str(tmp_path / "a.csv")], r"must have the columns \['latitude'\], got"),
        (["--coordinates", str(tmp_path / "a.npy")], r"latitude and longitude, \[C, 2\], got"),
    ]:
        shown = run("score", str(path), *options)
        assert shown.exit_code == 1
        assert re.search(says, shown.output), shown.output


@pytest.mark.slow
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
    corrected = found["comparisons"][str(second)]["mrr"]["corrected_p_value"]
    assert corrected == expected.corrected[str(second)]["mrr"]
    assert "clustered by user (3 groups)" in str(expected)
    for kind in ("latex", "markdown", "csv"):
        written = getattr(expected if kind == "latex" else expected.table, f"to_{kind}")()
        assert run("compare", *options, "--format", kind).output.strip() == written.strip()
    shown = run("compare", *options, "--confidence-level", "0.8").output
    narrower = report.compare(
        models, TARGETS, groups={"user": USERS}, cluster="user", confidence_level=0.8
    )
    assert shown == f"{narrower}\n"
    assert "80 % interval" in shown


def test_compare_writes_valid_json_without_a_p_value(tmp_path: Path) -> None:
    """One user gives no interval and no p-value, and JSON has null for them."""
    path = tmp_path / "one.jsonl"
    frame().assign(user="ann").to_json(path, orient="records", lines=True)
    other = tmp_path / "other.jsonl"
    frame().assign(user="ann", preds=[[1]] * 4).to_json(other, orient="records", lines=True)
    shown = run("compare", str(path), str(other), "--cluster", "user", "--format", "json").output
    assert "NaN" not in shown
    one = json.loads(shown)["comparisons"][str(other)]["mrr"]
    assert (one["low"], one["p_value"], one["corrected_p_value"]) == (None, None, None)
    assert one["num_queries"] == 4


def compared(folder: Path, one: dict[str, Any], other: dict[str, Any], options: str = "") -> Any:
    """Compare two files of four rows, or of as many as the values of a column that is changed."""
    keys, paths = ["q1", "q2", "q3", "q4"], [str(folder / name) for name in ("a.jsonl", "b.jsonl")]
    for path, change in zip(paths, (one, other), strict=True):
        columns = {"preds": [[1]], "target": TARGETS, "user": USERS, "id": keys, **change}
        number = max(map(len, change.values()), default=4)
        rows = [{x: y[i % len(y)] for x, y in columns.items()} for i in range(number)]
        Path(path).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return run("compare", *paths, "--k", "1", *options.split())


def words(*targets: Any) -> dict[str, Any]:
    """Return columns of ids that are text."""
    return {"preds": [["Bar"]], "target": targets}


@pytest.mark.parametrize(
    ("one", "other", "options", "says"),
    [
        ({}, {"target": [3, 1, 1, 1]}, "",
         "2 of 4 rows differ, the first is row 2 (from 1) with 1 instead of 5; join"),
        ({}, {"user": ["ann", "eve", "ann", "bob"]}, "--cluster user",
         "2 of 4 rows differ, the first is row 2 (from 1) with 'eve' instead of 'bob'; join"),
        ({}, {"target": [3, 5, 1]}, "", "got the shapes (3,) and (4,)"),
        ({}, {"target": [3, 5, 1, 9], "user": ["ann"]}, "--id id", "the targets"),
        ({}, {"target": [3, 5, 1, 9]}, "--id id",
         "1 of 4 rows differ, the first is key 'q4' with 9 instead of 8."),
        ({}, {"user": ["ann"] * 4}, "--id id --cluster user",
         "2 of 4 rows differ, the first is key 'q2' with 'ann' instead of 'bob'."),
        (words("Bar", "Gym", "Zoo"), words("Baq", "Gyl", "Zoo"), "",
         "2 of 3 rows differ, the first is row 1 (from 1) with 'Baq' instead of 'Bar'"),
        ({}, words("3", "5", "1", "8"), "",
         "4 of 4 rows differ, the first is row 1 (from 1) with '3' instead of 3"),
        ({"target": [10000000007, 5]}, {"target": [10000000008, 5]}, "", "instead of 10000000007"),
        (words(["Gym", "Bar"], ["Zoo"]), words(["Gym", "Bar"], ["Zop"]), "",
         "['Zop', None] instead of ['Zoo', None]"),
        ({}, {"id": ["q1", "q2", "q3"]}, "--id id", "got 3 keys, 1 missing (the first is 'q4')."),
        ({}, {"id": ["q1", "q2", "q3", "q4", "q9"]}, "--id id",
         "got 5 keys, 1 extra (the first is 'q9')."),
        ({}, {"id": ["q4", "q2", "q2", "q2"]}, "--id id",
         "2 missing (the first is 'q1'), 2 repeated (the first is 'q2')"),
        ({}, {"id": ["q1", None, "q3", "q4"]}, "--id id",
         "must hold a key in each row, got none in 1 rows, the first is"),
        ({}, {"id": ["q1", "q2", "q3", "q4\0"]}, "--id id",
         "1 missing (the first is 'q4'), 1 extra (the first is 'q4"),
        ({}, {"id": ["q1", ["q2"], "q3", "q4"]}, "--id id",
         "must hold text or numbers, got ['q2'] in row 2 (from 1)."),
        ({}, {"id": [["q1"], ["q2"], ["q3"], ["q4"]]}, "--id id",
         "must hold text or numbers, got ['q1'] in row 1 (from 1)."),
    ],
)  # fmt: skip
def test_compare_needs_the_same_queries(
    one: dict[str, Any], other: dict[str, Any], options: str, says: str, tmp_path: Path
) -> None:
    """Row by row or by keys, ids as text byte for byte; the error has the first that differs."""
    shown = compared(tmp_path, one, other, options)
    assert shown.exit_code == 1
    assert says in " ".join(shown.output.split())
    assert compared(tmp_path, other, one, options).exit_code == 1


def test_equal_queries_are_compared(tmp_path: Path) -> None:
    """Whatever their users, with ids of text, but not with ids that have other numbers."""
    assert compared(tmp_path, {}, {"user": ["ann", "eve", "ann", "bob"]}).exit_code == 0
    same = [words("Bar", "Gym", "Zoo")] * 2
    first, second = json.loads(compared(tmp_path, *same, "--format json").output)["values"].values()
    assert first == second
    assert first["acc_at_1"] == pytest.approx(1 / 3)
    far = (1 << 20) + 12  # sparse, and numbered, in the file of lists only
    np.savez(tmp_path / "scores.npz", preds=np.zeros((1, far + 1), np.float32), target=[far])
    (tmp_path / "far.jsonl").write_text(json.dumps({"preds": [1], "target": far}), encoding="utf-8")
    shown = run("compare", str(tmp_path / "scores.npz"), str(tmp_path / "far.jsonl"))
    assert (shown.exit_code, "pass `--vocabulary`" in shown.output) == (1, True), shown.output


@pytest.mark.slow
def test_rows_in_any_order_are_joined_by_their_keys(tmp_path: Path) -> None:
    """`--id` gives what the files in one order give."""
    first = frame().assign(id=["q1", "q2", "q3", "q4"])
    other = first.assign(preds=[[3], [5], [1, 8], [8]])
    paths = {name: str(tmp_path / f"{name}.jsonl") for name in ("first", "other", "shuffled")}
    for name, rows in (("first", first), ("other", other), ("shuffled", other.loc[[2, 0, 3, 1]])):
        rows.to_json(paths[name], orient="records", lines=True)

    def shown(name: str, *options: str) -> str:
        found = run(*options, "--format", "csv", paths["first"], paths[name])
        assert found.exit_code == 0, found.output
        return str(found.output).replace(paths[name], "b")

    options = ["compare", "--cluster", "user"]
    assert shown("shuffled", *options, "--id", "id") == shown("other", *options)
    scores = np.eye(9)[[3, 5, 2, 8]]
    for name, rows in (("first", [0, 1, 2, 3]), ("other", [3, 1, 0, 2])):
        arrays = {"preds": scores[rows], "target": np.array(TARGETS)[rows], "id": np.array(rows)}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    files = [str(tmp_path / f"{name}.npz") for name in ("first", "other")]
    found = json.loads(run("compare", *files, "--id", "id", "--format", "json").output)
    assert found["values"][files[0]] == found["values"][files[1]]
    assert found["values"][files[0]]["acc_at_1"] == 0.75
    shown_of = json.loads(run("audit", *files, "--id", "id", "--k", "1", "--format", "json").output)
    kept = [[x["value"] for x in shown_of if x["model"] == name] for name in files]
    assert kept[0] == kept[1]


@pytest.mark.slow  # traces memory
def test_long_keys_take_the_memory_of_their_text() -> None:
    """One key of 20,000 characters among 10,000, and a column of groups; some end in NUL."""
    keys = [f"q{row}" for row in range(10_000)]
    keys[7], keys[8], keys[9] = "x" * 20_000, "a", "a\0"
    preds, target = np.zeros((len(keys), 1), np.int64), torch.zeros(len(keys), dtype=torch.int64)
    files = {}
    for name, order in (("first", keys), ("other", keys[::-1])):
        groups = {"id": np.array(order, object), "user": np.array(order, object)}
        files[name] = Predictions(preds, target, groups)
    tracemalloc.start()
    same = same_queries(files, "id")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert same["other"].groups["id"].tolist() == keys
    assert most < 20e6  # 800 MB as NumPy's text


def test_errors_have_an_exit_code_and_no_traceback(tmp_path: Path) -> None:
    """The command fails with a message, and overwrites a file only with `--force`."""
    shown = run("score", str(tmp_path / "none.csv"))
    assert shown.exit_code == 1
    assert shown.output.startswith("Error: `PATH` must be an existing file of predictions")
    path, out = str(write(".csv", tmp_path)), tmp_path / "out.json"
    options = ["--format", "json", "--out", str(out)]
    assert run("score", path, *options).exit_code == 0
    before = out.read_text(encoding="utf-8")
    refused = run("score", path, "--k", "2", *options)
    assert refused.exit_code == 1
    assert "overwrite it with `--force`" in refused.output
    assert out.read_text(encoding="utf-8") == before
    assert run("score", path, "--k", "2", *options, "--force").exit_code == 0
    assert out.read_text(encoding="utf-8") != before
    missed = run("score", path, "--k", "3", "--on-error", "miss", "--format", "json")
    assert json.loads(missed.output)["card"]["broken_answers"] == 0
    assert "Example: nextloc-metrics score" in run("score", "--help").output


def test_without_click_the_command_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library itself does not need it."""
    from nextloc_metrics.cli import __main__

    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "nextloc_metrics.cli.commands", raising=False)
    with pytest.raises(SystemExit, match=r"needs click; install the extra `cli` \("):
        __main__.main()


@pytest.mark.usefixtures("blank_pictures")
def test_shards_are_saved_and_merged(tmp_path: Path) -> None:
    """By two commands; ids that are text share a vocabulary."""
    rows = [{"preds": ["home", "work"], "target": "work"}, {"preds": ["sea"], "target": "home"}]
    words = tmp_path / "words.txt"
    words.write_text("gym\nhome\nwork\n", encoding="utf-8")
    for number, row in enumerate(rows):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row), encoding="utf-8")
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
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert run("merge", parts[0], parts[0]).exit_code == 1
    with pytest.raises(ValueError, match=r"row 0 of .*'work'"):
        report.read(tmp_path / "0.jsonl", vocabulary=["home"])


# Runs of TREC ------------------------------------------------------------------------------------

RUN = """q1 Q0 a 1 0.500000001 me
q1 Q0 b 9 0.5 me
q1 Q0 c 2 1e40 me

q2 Q0 a 1 1e-3 me
q4 Q0 a 1 1 me
"""
QRELS = "q1 0 a 1\nq1 0 b 0\nq2 0 b 2\nq3 0 a 1\n"


def test_a_run_is_read_as_trec_eval_reads_it(tmp_path: Path) -> None:
    """By score as float32, then by id from last to first, as Windows writes it, and compressed."""
    marked = [f"\ufeff{text}".replace("\n", "\r\n").encode() for text in (RUN, QRELS)]
    (tmp_path / "a.run").write_bytes(marked[0])
    (tmp_path / "a.run.gz").write_bytes(gzip.compress(marked[0]))
    (tmp_path / "a.qrels").write_bytes(marked[1])
    found, packed = (
        report.read(tmp_path / name, targets=tmp_path / "a.qrels") for name in ("a.run", "a.run.gz")
    )
    assert found.vocabulary is not None
    assert (found.vocabulary, found.preds.tolist()) == (packed.vocabulary, packed.preds.tolist())
    lists = [[found.vocabulary[x] for x in row if x >= 0] for row in found.preds.tolist()]
    assert [len(row) for row in lists] == [3, 1, 0]
    assert (lists[0][2], lists[1]) == ("a", ["a"])
    relevant = [[found.vocabulary[x] for x in row if x >= 0] for row in found.target.tolist()]
    assert relevant == [["a"], ["b"], ["a"]]
    e = report.evaluate(found.preds, found.target, k=3)
    assert e.values["mrr_at_3"] == pytest.approx((1 / 3 + 0 + 0) / 3)
    shown = run(
        "score", str(tmp_path / "a.run"), "--target", str(tmp_path / "a.qrels"), "--k", "3",
        "--format", "json", "--on-error", "miss",
    )  # fmt: skip
    assert json.loads(shown.output)["mrr_at_3"]["value"] == e.values["mrr_at_3"]
    assert json.loads(shown.output)["card"]["broken_answers"] == 0


def test_judgements_of_0_count_0_and_no_judgement_counts_nothing(tmp_path: Path) -> None:
    """As in trec_eval; comments and text behind the name of a run are read past."""
    path, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    path.write_text("q1 Q0 x 1 2 m\nq2 Q0 x 1 2.0 m (a b)\nq3 Q0 y 1 1 m\n", encoding="utf-8")
    qrels.write_text("# query 0 id grade\nq1 0 x 1\nq2 0 x 0\nq4 0 z 2\n", encoding="utf-8")
    asked = [
        "--target",
        str(qrels),
        "--measure",
        "map@1",
        "--measure",
        "ndcg@1",
        "--format",
        "json",
    ]
    found = json.loads(run("score", str(path), *asked).output)
    assert (
        found["map_at_1"]["value"] == found["ndcg_at_1"]["value"] == pytest.approx(1 / 3)
    )  # q1, q2, q4
    card = found["card"]
    assert (card["queries"], card["missing"], card["without_truth"]) == (3, 1, 1)
    again = report.read(path, targets=qrels)
    assert again.card.items() <= card.items()


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ("q1 Q0 a 1 0.5\n", QRELS, "line 1 of .*a.run must be `query Q0 id rank score name`"),
        (RUN, "q1 0 a\n", "line 1 of .*a.qrels must be `query 0 id grade`.*: got 'q1 0 a'"),
        (
            "q1 Q0 a 1 good me\n",
            QRELS,
            "line 1 of .* must be .*: could not convert string to float: 'good'",
        ),
        ("q1 Q0 a 1 nan me\n", QRELS, "line 1 of .* must be .*: got 'q1 Q0 a 1 nan me'"),
    ],
)
def test_a_broken_line_of_a_run_is_named(a: str, b: str, says: str, tmp_path: Path) -> None:
    """With its file and number."""
    (tmp_path / "a.run").write_text(a, encoding="utf-8")
    (tmp_path / "a.qrels").write_text(b, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        report.read(tmp_path / "a.run", targets=tmp_path / "a.qrels")
    with pytest.raises(ValueError, match="`targets` must name the judgements"):
        report.read(tmp_path / "a.run")


def test_the_command_splits_cells_at_a_separator(tmp_path: Path) -> None:
    """Ids without brackets are one id unless it is given."""
    path = tmp_path / "a.csv"
    path.write_text("preds,target\n1 2.0,2\n3 1,3\n", encoding="utf-8")
    options = ["--k", "1", "--format", "json"]
    assert run("score", str(path), *options).exit_code == 1
    shown = run("score", str(path), *options, "--separator", " ", "--workers", "2")
    assert json.loads(shown.output)["mrr"] == {"value": (1 / 2 + 1) / 2}
    (other := tmp_path / "b.csv").write_text("preds,target\n2 1,2\n3 1,3\n", encoding="utf-8")
    same = run("compare", str(path), str(other), "--k", "1", "--separator", " ")
    assert same.exit_code == 0, same.output
