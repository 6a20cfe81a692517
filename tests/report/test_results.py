"""Every result is printed in every way that one of them is."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from functools import cache
from html import escape
from typing import Any

import pytest
import torch

from nextloc_metrics import analysis, protocols, report

TARGET = [3, 5, 2, 1]
GOOD, BAD = [[x, 0] for x in TARGET], [[0, x] for x in TARGET]
DAY = {"uid": [1, 1], "d": [60, 60], "t": [12, 15], "x": [84, 114], "y": [88, 78]}


@cache
def audit() -> Any:
    """Five protocols of three queries."""
    scores = torch.eye(20)[[3, 3, 3]]
    return protocols.audit(scores, torch.tensor([3, 4, 3]), [1, 1, 2], k=1)


def summary() -> Any:
    """Three runs of two models."""
    pytest.importorskip("scipy")
    return analysis.summarize({"GRU": [29.4, 30.2, 31.0], "Markov": [30.9, 31.5, 32.1]})


def predictable() -> Any:
    """Two users with enough visits."""
    visits = [0, 1, 2] * 40 + [0, 1, 0, 2] * 30
    return analysis.predictability(visits, ["ann"] * 120 + ["bob"] * 120, num_shuffles=2)


RESULTS: dict[str, Callable[[], Any]] = {
    "Evaluation": lambda: report.evaluate(GOOD, TARGET, k=1, groups={"user": [1, 1, 2, 2]}),
    "Comparisons": lambda: report.compare({"good": GOOD, "bad": BAD}, TARGET, k=1),
    "Audit": audit,
    "TrajectoryEvaluation": lambda: report.evaluate_trajectories({**DAY, "x": [84, 112]}, DAY),
    "Predictability": predictable,
    "Summary": summary,
}


def same(cell: Any, written: str) -> bool:
    """Whether a cell of a CSV file is a value: its text, or the number; empty is NaN."""
    if not isinstance(cell, float):
        return str(cell) == written.removeprefix("'")
    return math.isnan(cell) if written == "" else float(written) == cell


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_prints_in_every_way(name: str) -> None:
    """Text, HTML, Markdown, LaTeX, CSV, a data frame and a page hold the same table."""
    result = RESULTS[name]()
    table = result.table
    assert type(result).__name__ == name
    assert isinstance(result, report.Result)
    assert repr(result).startswith(str(table))
    if name != "Comparisons":  # whose LaTeX has intervals below differences
        assert result.to_latex() == table.to_latex()
    assert result.to_markdown().startswith(table.to_markdown())
    cells = [cell.strip() for line in (table.header, *table.rows) for cell in line]
    shown = result._repr_html_()
    assert all(escape(cell) in shown for cell in cells)
    card = getattr(result, "card", {})
    assert ("| protocol |  |" in result.to_markdown()) == bool(card)
    header, *rows = csv.reader(io.StringIO(result.to_csv()))
    assert len(rows) == len(table.rows)
    for row, record in zip(rows, table.records, strict=True):
        assert all(map(same, record.values(), row))
    frame = result.to_pandas()
    assert {*frame.columns, frame.index.name} - {None} == set(header)
    pytest.importorskip("matplotlib")
    page = result.to_html("A < B", {"files": "x.csv"}, audit=audit())
    assert all(escape(cell) in page for row in table.rows for cell in map(str.strip, row[1:]))
    assert (">Protocol<" in page) == bool(card)
    titles = re.findall("<h[12]>(.*?)</h[12]>", page)
    assert titles[0] == "A &lt; B"
    assert titles[2] == "What was read"
    assert titles[-1] == "Under the protocols of other codebases"
    assert "middle_rank" in page


def test_a_page_has_the_title_of_the_result() -> None:
    """Where none is given."""
    pytest.importorskip("matplotlib")
    assert f"<h1>{summary().title}</h1>" in summary().to_html()
