"""The examples run from start to end, and print what they compute."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from matplotlib import pyplot

import ceiling
import llm_mob
import next_location
import pictures
import ties
import uncertainty

EXAMPLES = Path(__file__).parents[2] / "examples"


def tables(printed: str) -> list[dict[str, list[float]]]:
    """Return the numbers of every row of the tables, by the rows' names; a dash has none."""
    found = []
    for block in printed.split("\n\n"):
        header, *rows = block.splitlines()
        if header.startswith("percent "):
            cells = (re.split("  +", row) for row in rows if "  " in row)
            numbers = {
                name: [float(x.replace(",", "")) for x in row if x != "-"] for name, *row in cells
            }
            found.append(numbers)
    return found


TINY = ["--limit", "5", "--length", "16"]


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that a tiny run of the example writes, and what it prints."""
    folder, printed = tmp_path_factory.mktemp("tiny"), io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):  # it adds filters
        next_location.main([*TINY, "--epochs", "1", "--output", str(folder)])
    return folder, printed.getvalue()


@pytest.mark.slow  # runs the script of an example
def test_next_location_runs(tiny_run: tuple[Path, str]) -> None:
    """A tiny run writes tables, figure, report and logs; groups add up to the accuracy of all."""
    folder, once = tiny_run
    headline, by_decile, by_visit = tables(once)
    for acc_at_1, acc_at_5, acc_at_10, mrr, ndcg, _ in zip(*headline.values(), strict=True):
        assert 0 < acc_at_1 < acc_at_5 < acc_at_10 < 100
        assert acc_at_1 < ndcg < acc_at_10
        assert acc_at_1 < mrr
    (counted,) = {int(x) for x in re.findall(r"^(\d+) queries counted$", once, re.MULTILINE)}
    assert sum(row[-1] for row in by_decile.values()) == counted
    share = [x / 100 for x in by_visit["exploration_share"]]
    parts = [by_visit[f"acc_on_{kind}_at_10"] for kind in ("explorations", "returns")]
    for model, value in enumerate(headline["acc_at_10"]):
        of_deciles = sum(row[model] * row[-1] for row in by_decile.values() if len(row) > 1)
        assert of_deciles / counted == pytest.approx(value, abs=0.01)
        new, known = (part[model] for part in parts)
        assert share[model] * new + (1 - share[model]) * known == pytest.approx(value, abs=0.02)
    assert (folder / "accuracy_within_k.png").stat().st_size > 5_000
    page = (folder / "report.html").read_text(encoding="utf-8")
    for title in (
        "By user",
        "By hour",
        "By visit",
        "By popularity of the target: accuracy",
    ):
        assert f"<h2>{title}" in page
    for name, (*_, value) in headline.items():
        assert re.search(rf">{name}</td><td[^>]*>(<b>)?{value:.2f}<", page), name
    assert list((folder / "tensorboard/GRU").rglob("events.out.tfevents.*"))
    with next((folder / "csv/GRU").rglob("metrics.csv")).open(encoding="utf-8") as file:
        (logged,) = [float(row["val/mrr"]) for row in csv.DictReader(file) if row["val/mrr"]]
    assert 0 < logged < 1


@pytest.mark.extra  # starts processes that import PyTorch and Lightning
def test_two_processes_print_the_same(tiny_run: tuple[Path, str], tmp_path: Path) -> None:
    """Two processes test the weights of the tiny run as one does."""
    folder, once = tiny_run
    weights = ["--devices", "2", "--checkpoint", folder / "best.ckpt"]
    done = subprocess.run(
        [sys.executable, EXAMPLES / "next_location.py", *TINY, *weights, "--output", tmp_path],
        env={**os.environ, "PYTHONWARNDEFAULTENCODING": ""},  # other packages name no encoding
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=True,
    )
    assert "Warning" not in done.stderr
    assert tables(done.stdout) == tables(once)
    pages = [(x / "report.html").read_text(encoding="utf-8") for x in (folder, tmp_path)]
    assert pages[0] == pages[1]


def write_llm_mob(folder: Path) -> None:
    """Write a folder in the layout of LLM-Mob: two prompts, two users with two queries each."""
    (folder / "data" / "town").mkdir(parents=True)
    for part, location in (("train", 12), ("valid", 4), ("test", 9)):
        file = folder / "data" / "town" / f"town_{part}.csv"
        file.write_text(f"id,user_id,location_id\n0,1,{location}\n", encoding="utf-8")
    answers = {
        "top10": [
            [(3, "[3, 99, 5, 0, 1, 2, 4, 6, 7, 8]"), (5, "[4, 4, 5, 0, 1, 2, 3, 6, 7, 8]")],
            [(7, "[1, 7.0]"), (9, -100)],
        ],
        "top1": [[(3, 3), (5, 5.0)], [(7, 1), (8, 8)]],  # the last query is another one
    }
    for prompt, users in answers.items():
        results = folder / "results" / "town" / prompt
        results.mkdir(parents=True)
        for user, rows in enumerate(users, start=1):
            lines = [f'{user},{target},"{answer}",because\n' for target, answer in rows]
            head = "user_id,ground_truth,prediction,reason\n"
            (results / f"{user}.csv").write_text(head + "".join(lines), encoding="utf-8")
    source = ["output_dir = 'results/town/top10'\n"]
    printed = ["number of samples:  4\n", "Acc@1:  0.25\n", "Weighted F1:  0.25\n"]
    cell = {"source": source, "outputs": [{"output_type": "stream", "text": printed}]}
    (folder / "metrics.ipynb").write_text(json.dumps({"cells": [cell]}), encoding="utf-8")


def test_llm_mob_evaluates_stored_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks 1, 3, 2 and none; a repeat, a short list, an invented id and a missing answer."""
    with pytest.raises(SystemExit, match=r"must be a clone .*git clone https://github\.com/xlw"):
        llm_mob.main([str(tmp_path)])
    write_llm_mob(tmp_path)
    figures = llm_mob.main([str(tmp_path)])
    assert figures["town/top1"] == pytest.approx({"acc_at_1": 3 / 4, "f1": 3 / 4})
    assert figures["town/top10"] == pytest.approx(
        {
            "acc_at_1": 1 / 4,
            "acc_at_5": 3 / 4,
            "acc_at_10": 3 / 4,
            "mrr": (1 + 1 / 3 + 1 / 2) / 4,
            "ndcg_at_10": (1 + 1 / math.log2(4) + 1 / math.log2(3)) / 4,
            "f1": 1 / 4,
        }
    )
    printed = capsys.readouterr().out
    assert "town/top10: 4 queries of 2 users" in printed
    assert re.search(
        r"^acc_at_1 +0\.250000 +0\.250000 +0\.\d{4} - 0\.\d{4}$", printed, re.MULTILINE
    )
    assert re.search(r"^mrr +- +0\.458333 ", printed, re.MULTILINE)
    assert (
        "1 answers without an id, 1 short ones, 1 with a repeated id, "
        "1 with an id that is no location"
    ) in printed
    assert "town/top10 less town/top1: 3 queries with the same target" in printed
    assert re.search(r"^acc_at_1 +-0\.3333 ", printed, re.MULTILINE)


def test_llm_mob_reproduces_the_published_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """Six digits equal those of the notebook of xlwang233/LLM-Mob, and the lines our page."""
    if "LLM_MOB_FOLDER" not in os.environ:
        pytest.skip("needs LLM_MOB_FOLDER, a clone of github.com/xlwang233/LLM-Mob at 9ace25f")
    llm_mob.main([os.environ["LLM_MOB_FOLDER"]])
    printed = capsys.readouterr().out
    both = re.findall(r"^\w+ +(0\.\d{6}) +(0\.\d{6}) ", printed, re.MULTILINE)
    assert len(both) >= 7
    assert all(notebook == recomputed for notebook, recomputed in both)
    page = (EXAMPLES.parent / "docs" / "evidence.md").read_text(encoding="utf-8")
    for line in page.split("```text\n")[1].split("```")[0].splitlines():
        assert line.rsplit("  ", 1)[0] in printed  # p, the last column, comes from random draws


@pytest.mark.slow  # runs the scripts of examples
def test_scripts_print_what_they_compute(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of uncertainty, ceiling and ties have the values found, and pictures are drawn."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    evaluations = uncertainty.main(["--limit", "30"])
    printed = capsys.readouterr().out
    for evaluation in evaluations.values():
        for name, value in evaluation.by_query.compute().items():
            assert torch.equal(value, evaluation.by_user.compute()[name])
            assert f"{name:6}  {100 * float(value):6.2f}" in printed
    found = ceiling.main(["--epochs", "1", "--repeats", "1", "--lengths", "100", "300"])
    printed = capsys.readouterr().out
    assert all(row in printed for row in ceiling.rows(found))
    assert found["most frequent of all users"].value < found["limit"].value
    for precisions in ties.main(["--limit", "6", "--output", str(tmp_path / "ties.png")]).values():
        for numbers in precisions.values():
            tied, widest, last, expected, first, topk, *_ = (round(x, 6) for x in numbers)
            assert 0 < tied < 1 < widest
            assert last <= min(expected, topk) <= max(expected, topk) <= first
    for name, figure in pictures.main(["--limit", "6", "--output", str(tmp_path)]).items():
        assert (EXAMPLES.parent / f"docs/pictures/{name}.png").exists()
        pyplot.close(figure)
    assert all(file.stat().st_size > 5_000 for file in tmp_path.iterdir())
