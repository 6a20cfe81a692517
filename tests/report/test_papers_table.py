"""The table of a paper: it fits the page, and says only what its cells need."""

import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inner import Table
from nextloc_metrics import MRR, report
from nextloc_metrics.report import Comparisons

USERS = np.arange(900) % 60
TARGET = np.random.default_rng(0).integers(0, 50, 900)


def three_models(against: Any) -> Comparisons:
    """Two models that are about as good, and one that is better."""
    draws = np.random.default_rng(1)
    models = {
        name: draws.normal(0, 1, (900, 50)) + lift * np.eye(50)[TARGET]
        for name, lift in {"DeepMove": 2.2, "GRU4Rec": 1.6, "Markov_1": 1.58}.items()
    }
    return report.compare(models, TARGET, groups={"user": USERS}, cluster="user", against=against)


@pytest.mark.extra
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("style", ["article", "[twocolumn]article", "[11pt]article"])
def test_tables_of_a_paper_fit_its_page(style: str, tmp_path: Path) -> None:
    """LaTeX finds no box that is too wide, with booktabs alone."""
    written = [report.evaluate(three_models_scores(), TARGET).to_latex()]
    for against in ("all", "first"):
        found = three_models(against)  # type: ignore[arg-type]
        written += [found.to_latex("models", spread) for spread in ("interval", "std", "none")]
        written += [found.to_latex(), found.to_latex("models", metrics=["mrr"])]
    *options, name = re.split(r"(?<=\])", style)
    pages = (f"\\begin{{table*}}\\centering\n{x}\n\\end{{table*}}" for x in written)
    text = "\n\\clearpage\n".join(["A page.", *pages])
    source = tmp_path / "paper.tex"
    source.write_text(
        f"\\documentclass{''.join(options)}{{{name}}}\\usepackage{{booktabs}}\n"
        f"\\begin{{document}}\n{text}\n\\end{{document}}\n",
        encoding="utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    log = run.stdout.decode("utf-8", "replace")
    assert run.returncode == 0, log
    assert not re.findall(r"(?:Over|Under)full.*", log)
    assert f"({len(written) + 1} pages" in log


def three_models_scores() -> np.ndarray:
    """The scores of one model."""
    return np.random.default_rng(2).normal(0, 1, (900, 50)) + 2 * np.eye(50)[TARGET]


@pytest.mark.slow
def test_intervals_stand_below_values_with_en_dashes() -> None:
    """A model has a row of values and a row of intervals, also of F1."""
    found = three_models("all")
    lines = found.to_latex("models", metrics=["mrr", "f1"]).splitlines()
    assert lines[3] == r"percent & MRR & F1, weighted \\"
    one = found.columns["DeepMove"]
    low, high = one["mrr"].bounds or (0, 0)
    assert lines[5] == (
        rf"DeepMove & \textbf{{{100 * one['mrr'].value:.2f} a}} & "
        rf"\textbf{{{100 * one['f1'].value:.2f} a}} \\"
    )
    of_f1 = one["f1"].bounds or (0, 0)
    assert lines[6] == (
        rf" & \scriptsize {100 * low:.2f}--{100 * high:.2f} & "
        rf"\scriptsize {100 * of_f1[0]:.2f}--{100 * of_f1[1]:.2f} \\"
    )
    assert lines[7].startswith(r"\addlinespace GRU4Rec & ")
    assert found.to_latex("models", "none").count(r"\scriptsize") == 0
    assert "intervals: " not in found.to_latex("models", "none")


@pytest.mark.slow
def test_metrics_choose_the_rows_and_their_order() -> None:
    """`metrics` are rows of differences, of one model, and columns of models; others are errors."""
    found = three_models("first")
    rows = [x.split(" & ")[0] for x in found.to_latex(metrics=["mrr", "acc_at_1"]).splitlines()]
    names = [x.replace(r"\addlinespace ", "") for x in rows if "," in x and x[0] in "am\\"]
    titles = [f"{x}, {y}" for x in ("mrr", r"acc\_at\_1") for y in ("GRU4Rec", r"Markov\_1")]
    assert names == titles
    assert found.by_model(metrics=["ndcg_at_10", "mrr"]).header == ("percent", "NDCG@10", "MRR")
    e = report.evaluate(three_models_scores(), TARGET)
    assert e.to_latex(metrics=["mrr"]).splitlines()[5].startswith("mrr & ")
    for wrong in (["mr"], [], "mrr"):
        for write in (e.to_latex, found.to_latex, found.by_model):
            with pytest.raises(ValueError, match=r"`metrics` must be a list of \['acc_at_1', "):
                write(metrics=wrong)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("name", ["[ours]", "*ours*"])
def test_a_name_is_no_argument_of_the_command_before_it(name: str, place: int) -> None:
    """A model and a metric whose names begin with [ or * stand in braces, in each row."""
    names = [*"ab"]
    names.insert(place, name)
    found = report.compare({x: [[1, 0]] * 9 for x in names}, [1] * 9, k=1, against="all")
    e = report.evaluate([[1, 0]] * 9, [1] * 9, k=1, num_locations=2, metrics={name: MRR()})
    shown = f"{{{name[0]}}}{name[1:]} & "
    for written in (found.to_latex("models"), found.to_latex("models", "none"), e.to_latex()):
        rows = [x.removeprefix(r"\addlinespace ") for x in written.splitlines()]
        assert sum(x.startswith(shown) for x in rows) == 1
        assert not any(x.startswith(("[", "*")) for x in rows)


def test_an_unknown_spread_lists_the_known_ones() -> None:
    """It is an error of every table, also of those that have no spread."""
    found = report.compare({"a": [[1, 0]] * 9, "b": [[0, 1]] * 9}, [1] * 9, k=1)
    calls: list[Any] = [partial(found.to_latex, x) for x in ("differences", "models")]
    known = r"`spread` must be one of .*'interval', 'std', 'none'.*, got '\+-'"
    for call in [*calls, found.by_model]:
        with pytest.raises(ValueError, match=known):
            call(spread="+-")


def test_dashes_of_numbers() -> None:
    """Ranges and missing values have en dashes, negative numbers a minus sign, names a hyphen."""
    rows = [["GPT-4-2", "1.71 -  7.05", "-17.30", "-19.89 to -14.70", "-"]]
    written = Table(["a", "b", "c", "d", "e"], rows).to_latex().splitlines()[5]
    assert written == r"GPT-4-2 & 1.71--7.05 & $-$17.30 & $-$19.89 to $-$14.70 & -- \\"


def test_a_mark_that_no_cell_has_is_not_explained() -> None:
    """A note that begins with a mark stands only below a table with that mark."""
    notes = ["† too short", "~ not separated", "* p < 0.05", "all queries"]
    assert Table(["a", "b"], [["x", "1.00~"]], notes).notes == ("~ not separated", "all queries")
    assert Table(["a", "b"], [["x", "1.00**"]], notes).notes == ("* p < 0.05", "all queries")
