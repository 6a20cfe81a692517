"""The command line as people expect it: short options, standard input, and errors in its words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("click")
from click.testing import CliRunner

from command import main
from nextloc_metrics.report import evaluate

CSV = 'preds,target,user\n"[1, 2]",2,ann\n"[3, 4]",3,bob\n'
LINES = '{"preds": [1, 2], "target": 2, "user": "ann"}\n{"preds": [3, 4], "target": 3}\n'


def run(*arguments: str, text: str | None = None) -> Any:
    """Run the command, with a text as standard input."""
    return CliRunner().invoke(main, list(arguments), input=text)


def error_of(*arguments: str, text: str | None = None) -> str:
    """The message of a command that ends with status 1."""
    shown = run(*arguments, text=text)
    assert shown.exit_code == 1, shown.output
    assert isinstance(shown.exception, SystemExit)
    message = shown.output.splitlines()[-1]
    assert message.startswith("Error: ")
    return message.removeprefix("Error: ")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file of two queries."""
    file = tmp_path / "answers.csv"
    file.write_text(CSV, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_columns_named_as_options_are_no_options(workers: str, tmp_path: Path) -> None:
    """Rows count from 1, also in other processes; Python's messages are then as before."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"preds": [[1], [2]], "target": [1, 2], "item": ["a", None]})
    paths = [str(tmp_path / f"{part}.parquet") for part in "ab"]
    parquet.write_table(table.slice(0, 1), paths[0])
    parquet.write_table(table, paths[1])
    files = str(tmp_path / "*.parquet")
    of_shell = error_of("score", files, "--group", "item", "--k", "1", "--workers", workers)
    with pytest.raises(ValueError, match="must hold a group") as error:
        evaluate(files, groups=["item"], k=1)
    says = f"of {paths[1]} must hold a group in `item`, got none; fill the value."
    assert of_shell == f"row 2 (from 1) {says}"
    assert str(error.value) == f"row 1 {says}"


def test_cut_offs_are_separated_by_commas_or_repeated(path: str) -> None:
    """Both ways give the same output, and so do paddings."""
    options = ["score", path, "--format", "json"]
    one = run(*options, "--k", "1,2", "--answers", "padding=-7,-8")
    paddings = ["--answers", "padding=-7", "--answers", "padding=-8"]
    two = run(*options, "--k", "1", "--k", "2", *paddings)
    assert one.stdout == two.stdout
    assert {"acc_at_1", "acc_at_2"} <= {*json.loads(one.stdout)}
    for wrong in ("1,a", "", "1,,2", "1.5"):
        shown = run(*options, "--k", wrong)
        assert shown.exit_code == 2
        assert "'--k': must be integers, separated by commas, got" in shown.output


@pytest.mark.parametrize("text", [CSV, LINES, "\ufeff" + CSV, f"[{LINES.replace('}', '},', 1)}]"])
def test_a_dash_is_standard_input(path: str, text: str) -> None:
    """CSV and JSON give what the file gives, and messages do not name a hidden file."""
    options = ["--k", "1", "--format", "json"]
    assert run("score", "-", *options, text=text).stdout == run("score", path, *options).stdout
    compared = run("compare", "-", path, "--k", "1", text=text)
    assert compared.exit_code == 0
    assert compared.stdout.split()[:2] == ["percent", "-"]
    twice = run("compare", "-", "-", text=text)
    assert (twice.exit_code, "`-` can be given only once" in twice.output) == (2, True)
    says = "standard input must have the columns ['none'], got"
    assert error_of("score", "-", "--preds", "none", text=text).startswith(says)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('preds,target\n"[1,\n2]",1\n\n"[x]",1\n', 5),
        ('preds,target\n"[x]",1\n', 2),
        ('{"preds": [1], "target": 1}\n\n{"preds": [-9], "target": 1}\n', 3),
    ],
)
def test_lines_are_counted_as_an_editor_does(text: str, line: int) -> None:
    """Blank lines, and cells of several lines, are counted too."""
    message = error_of("score", "-", text=text)
    assert message.startswith(
        f"line {line} of standard input must hold ids of locations in `preds`"
    )


def test_a_part_is_merged_once(path: str, tmp_path: Path) -> None:
    """The message names both files."""
    part = str(tmp_path / "part.npz")
    CliRunner().invoke(main, ["score", path, "--save", part], catch_exceptions=False)
    message = error_of("merge", part, part)
    assert message.endswith(f"in {part} and {part}; leave one of them out.")


def test_errors_name_options_and_similar_columns(path: str) -> None:
    """No message has the arguments of Python."""
    message = error_of("score", path, "--preds", "pred", "--group", "usr")
    assert "did you mean 'preds', 'user'?" in message
    broken = error_of("score", "-", text="preds,target\n-9,1\n")
    assert "`--answers padding=-100`" in broken
    assert "`--on-error miss`" in broken
    for options, says in [
        (["--confidence-level", "2"], "`--confidence-level` must"),
        (["--cluster", "user", "--k", "0"], "`--k` must"),
        (["--num-locations", "-1"], "`--num-locations` must"),
    ]:
        assert error_of("score", path, *options).startswith(says)
    assert error_of("compare", path).startswith("`PATHS` must hold at least two models")
    assert "`--answers separator=' '`" in error_of("score", "-", text="preds,target\n1 2,1\n")


def test_no_other_library_gives_advice(tmp_path: Path, path: str) -> None:
    """Files that are none, and Python objects, have messages of their own."""
    objects = np.array([1, None], object)
    np.savez(tmp_path / "objects.npz", preds=objects, target=np.array([1, 2]))
    np.save(tmp_path / "objects.npy", objects)
    for name in ("text.npz", "text.npy", "text.csv"):
        (tmp_path / name).write_bytes(b'"a\xff')
    (tmp_path / "empty.csv").write_text("", encoding="utf-8")
    of = {x.name: str(x) for x in tmp_path.iterdir()}
    for command in [
        ["score", of["objects.npz"]],
        ["score", of["text.npz"]],
        ["score", of["text.npy"], "--target", of["text.npy"]],
        ["score", of["objects.npy"], "--target", of["objects.npy"]],
        ["merge", of["text.npy"]],
        ["merge", of["objects.npz"]],
        ["score", path, "--train-counts", of["text.npy"]],
        ["score", path, "--coordinates", of["text.npy"]],
        ["score", path, "--coordinates", of["text.csv"]],
        ["score", path, "--coordinates", of["empty.csv"]],
        ["score", path, "--vocabulary", of["text.csv"]],
    ]:
        message = error_of(*command)
        assert not re.search(r"pickle|unsafe|Evaluation\.save", message), message
        assert Path(command[-1]).name in message, message


def test_a_page_is_written_where_the_name_ends_with_html(path: str, tmp_path: Path) -> None:
    """`score --out a.html` is the page of `report`; both name it on standard error."""
    one, two = tmp_path / "a.html", tmp_path / "b.html"
    scored = run("score", path, "--k", "1", "--out", str(one))
    reported = run("report", path, "--k", "1", "--out", str(two))
    assert (scored.stdout, scored.stderr) == ("", f"wrote {one}\n")
    assert (reported.stdout, reported.stderr) == ("", f"wrote {two}\n")
    assert one.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    pages = [
        re.sub("<dt>command</dt><dd>.*?</dd>", "", x.read_text(encoding="utf-8"))
        for x in (one, two)
    ]
    assert pages[0] == pages[1]


OUTPUTS = [
    (["score", "FILE", "--save", "o.npz", "--out", "o.npz"], "`--out` and `--save` must be two"),
    (["score", "FILE", "--out", "./o.csv", "--group", "user", "--group-table", "o.csv"], "two"),
    (["score", "FILE", "--out", "d/../o.csv", "--save", "o.csv", "--force"], "must be two files"),
    (["score", "FILE", "--out", "./FILE", "--force"], "`--out` must be no file that is read"),
    (["report", "*.csv", "--out", "FILE", "--force"], "`--out` must be no file that is read"),
    (["score", "d", "--save", "d/FILE", "--force"], "`--save` must be no file that is read"),
    (["compare", "FILE", "FILE", "--out", "FILE"], "`--out` must be no file that is read"),
    (["merge", "FILE", "--out", "FILE", "--force"], "`--out` must be no file that is read"),
    (["score", "FILE", "--vocabulary", "words", "--out", "words", "--force"], "that is read"),
    (["score", "a.npy", "--target", "t.npy", "--out", "t.npy", "--force"], "that is read"),
]


@pytest.mark.parametrize(("words", "says"), OUTPUTS, ids=lambda x: " ".join(x))
def test_outputs_are_different_files_and_no_inputs(
    words: list[str], says: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However their paths are written; it is a usage error, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / Path(path).name).write_text(CSV, "utf-8")
    for name in ("words", "a.npy", "t.npy"):
        (tmp_path / name).write_text(name, "utf-8")
    before = {x: x.read_bytes() for x in tmp_path.iterdir() if x.is_file()}
    shown = run(*(word.replace("FILE", Path(path).name) for word in words))
    assert (shown.exit_code, says in " ".join(shown.output.split())) == (2, True), shown.output
    assert {x: x.read_bytes() for x in tmp_path.iterdir() if x.is_file()} == before


def test_answers_of_a_language_model_are_scored(tmp_path: Path) -> None:
    """A column of text, all queries in another file; without it, an error."""
    (tmp_path / "places.txt").write_text("Cafe\nHome\n", encoding="utf-8")
    texts = {"q1": 'It is ["Home"].', "q2": '{"next": ["Mars", "Cafe"], "old": [1]}', "q3": "{...}"}
    rows = [{"id": x, "target": "Home", "said": y} for x, y in texts.items()]
    lines, asked = tmp_path / "a.jsonl", tmp_path / "q.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    queries = [{"id": f"q{i}", "target": "Home"} for i in range(4)]
    asked.write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")
    words = ["form=json", "key=next", "take=last", "after=:", "fold"]
    written = [x for word in words for x in ("--answers", word)]
    preds = ["--preds", "said", "--vocabulary", str(tmp_path / "places.txt")]
    common = ["score", str(lines), "--k", "1", "--format", "json", *preds, *written[:2]]
    options = ["--truth", str(asked), "--query", "id", *written]
    shown = json.loads(run(*common, *options).stdout)
    assert shown["card"]["num_asked"] == 4
    assert shown["missing"]["value"] == 0.25
    for part in ("'next'", "fold=True", "last", "after=':'"):
        assert part in shown["card"]["answers"]
    shown = json.loads(run(*common).stdout)
    assert [shown[x]["value"] for x in ("acc_at_1", "answered", "unreadable")] == [
        pytest.approx(x) for x in (1 / 3, 1 / 3, 2 / 3)
    ]
    assert "cannot be seen" in shown["card"]["answers"]
    assert "`--answers`" in error_of("score", str(lines), "--preds", "said")
    assert "`--answers` needs `--vocabulary`" in error_of("score", str(lines), *written)
    assert "`--answers form=` must be left out" in error_of("compare", *common[1:4], *written[:2])
    for wrong in ("said", "form", "fold=1", "from=json"):
        shown = run("score", str(lines), "--answers", wrong)
        assert f"of separator, padding, form, key, take, after, got {wrong};" in re.sub(
            r"\s+", " ", shown.output
        )
    assert "`--query` must name the columns" in error_of(*common, "--truth", str(asked))
    assert "got 'Home' twice" in error_of(*common, "--truth", str(lines), "--query", "target")
    for old, new in (("targets", "truth"), ("id", "query"), ("take", "answers take=...")):
        assert f"Did you mean '--{new}'?" in run(*common, f"--{old}", "id").output


def test_a_column_of_answers_is_pointed_to_its_option(tmp_path: Path) -> None:
    """By its name, and where the list of an answer is cut."""
    path = tmp_path / "answers.csv"
    path.write_text('answer,target\n"[""Home"", ""Ca",Home\n"[""Home""]",Cafe\n', "utf-8")
    for options in ((), ("--preds", "answer")):
        shown = CliRunner().invoke(main, ["score", str(path), *options])
        assert shown.exit_code == 1
        assert "`--answers`" in shown.output


def test_compare_with_one_of_the_files_or_all_pairs(tmp_path: Path) -> None:
    """`--against` names the file that others are compared with; all pairs have letters."""
    paths = [str(tmp_path / f"{name}.csv") for name in "abc"]
    for path, right in zip(paths, (0, 50, 45), strict=True):
        rows = "".join(f"{int(i < right)},1\n" for i in range(50))
        Path(path).write_text(f"preds,target\n{rows}", "utf-8")
    options = ["compare", *paths, "--k", "1", "--format", "json"]
    found = json.loads(run(*options, "--against", paths[2]).stdout)
    assert list(found["values"]) == [paths[2], *paths[:2]]
    assert found["comparisons"][paths[0]]["acc_at_1"]["difference"] == -0.9
    assert json.loads(run(*options).stdout)["comparisons"].keys() == set(paths[1:])
    every = json.loads(run(*options, "--against", "all").stdout)
    letters = [every["letters"][path]["acc_at_1"] for path in paths]
    assert letters == ["b", "a", "a"]  # p = 2/2^5 of b and c
    pairs = [(a, b) for a, of in every["comparisons"].items() for b in of]
    assert pairs == [(paths[0], paths[1]), (paths[0], paths[2]), (paths[1], paths[2])]
    one = every["comparisons"][paths[1]][paths[2]]["acc_at_1"]
    assert (one["difference"], one["losses"]) == (pytest.approx(-0.1), 5)
    assert one["corrected_p_value"] == one["p_value"] == 0.0625
    assert "not separated from the best" in run("compare", *paths, "--against", "all").stdout
    wrong = run("compare", *paths, "--against", "d")
    assert (wrong.exit_code, "must be one of PATHS, first or all, got d" in wrong.output) == (2, 1)


def test_help_of_score_has_sections() -> None:
    """Each option stands in one section, and short commands have one list."""
    shown = CliRunner().invoke(main, ["score", "--help"]).output
    titles = [x for x in shown.splitlines() if x.endswith(":") and not x.startswith(" ")]
    wanted = ["Columns and files", "Metrics", "Groups and intervals", "Output"]
    assert titles == [f"{x}:" for x in wanted]
    for param in main.commands["score"].params:
        name = max(param.opts, key=len)
        if name.startswith("-"):
            assert sum(x.split()[:1] == [name] for x in shown.splitlines()) == 1, name


def test_dicts_of_ranx_are_answered_with_the_option(tmp_path: Path) -> None:
    """Without judgements, or with those given as a column."""
    path, truth = tmp_path / "run.json", tmp_path / "qrels.json"
    path.write_text(json.dumps({"q1": {"d1": 0.9, "d2": 0.5}}), encoding="utf-8")
    truth.write_text(json.dumps({"q1": {"d1": 1}}), encoding="utf-8")
    for options in ([], ["--target", str(truth)]):
        assert "`--truth` must judge the items of" in run("score", str(path), *options).output
    assert run("score", str(path), "--truth", str(truth)).exit_code == 0


def test_a_query_in_its_own_corpus_is_excluded_by_its_id(tmp_path: Path) -> None:
    """A column of one id a row is as good as one of lists: the query itself takes no rank."""
    path = tmp_path / "found.csv"
    path.write_text('id,preds,target\n0,"[0, 5]",5\n1,"[1, 2]",2\n', encoding="utf-8")
    given = ("score", str(path), "--num-locations", "6", "--k", "1", "--format", "json")
    for options, value in (((), 0.0), (("--exclude", "id"), 1.0)):
        shown = run(*given, *options)
        assert json.loads(shown.stdout)["acc_at_1"]["value"] == value, options
