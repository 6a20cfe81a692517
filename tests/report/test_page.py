"""One page of HTML has what the evaluation has; only its own script runs, nothing is fetched."""

from __future__ import annotations

import inspect
import re
import shlex
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextloc_metrics import report
from nextloc_metrics.report.page_style import SCRIPT

EVIL = [
    "<script>alert(1)</script>",
    '--><img src="x" onerror="alert(1)">',
    "$\\frac{x",
    "ann & bob",
]


class Reader(HTMLParser):
    """Collects tags, attributes and text, and checks that tags are closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the last one."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text.append(data)


def evaluation() -> Any:
    """An evaluation with user names that are HTML or formulas."""
    generator = np.random.default_rng(0)
    users = np.array(EVIL)[generator.integers(0, 4, 80)]
    return report.evaluate(
        generator.normal(size=(80, 9)).astype(np.float32),
        generator.integers(0, 9, 80),
        groups={"<b>user": users, "hour": generator.integers(0, 24, 80)},
        cluster="<b>user",
        train_counts=generator.integers(0, 99, 9),
    )


TITLE = "A <title>, a <script>"


@cache
def page() -> str:
    """The page of the evaluation."""
    html: str = evaluation().to_html(TITLE, source={"files": EVIL[1], "date": "2026-11-24"})
    return html


def test_the_page_holds_every_table_and_the_card() -> None:
    """Headline, groups, deciles, ties, protocol; the same data give the same bytes."""
    e, html = evaluation(), page()
    read = Reader(html)
    text = " ".join(read.text)
    for table in (e.table, *e.groups.values(), e.deciles):
        for cell in (cell for row in table.rows for cell in row):
            assert cell in text
    for name, value in e.card.items():
        assert name.replace("_", " ") in text
        assert (f"{value:,}" if isinstance(value, int) else str(value)) in text
    assert TITLE in text
    assert EVIL[1] in text
    assert "2026-11-24" in text
    assert html == e.to_html(TITLE, source={"files": EVIL[1], "date": "2026-11-24"})


def test_the_page_says_what_each_metric_is() -> None:
    """The first words of the docstring of each, by the name of its row."""
    e = evaluation()
    text = Reader(page()).text
    for name, member in e._counted.headline.named_members():
        said = " ".join((inspect.getdoc(type(member)) or "").partition("\n\n")[0].split())
        assert said.replace("`", "") in text, name
        assert name in text


def test_only_the_script_of_the_page_runs_and_nothing_is_fetched() -> None:
    """Names from data are text, on the page and in its pictures."""
    html = page()
    read = Reader(html)
    assert set(read.tags) <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "section", "figure", "p",
        "figcaption", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "b", "dl",
        "dt", "dd", "details", "summary", "footer", "br", "script", "svg", "g", "defs", "path",
        "text", "use", "rect", "clippath", "pattern",
    }  # fmt: skip
    assert not any(name.startswith("on") for name, _ in read.attributes)
    assert read.tags.count("script") == 1
    assert html.count(SCRIPT) == 1
    assert "http" not in SCRIPT
    assert "fetch" not in SCRIPT
    # links are to parts of the same picture, and no part has the name of another
    links = [value or "" for name, value in read.attributes if name.endswith("href")]
    links += re.findall(r"url\(([^)]*)\)", html)
    ids = [value for name, value in read.attributes if name == "id"]
    assert {link[:1] for link in links} == {"#"}
    assert {link[1:] for link in links} == {*ids}
    assert len(ids) == len({*ids})
    assert read.tags.count("svg") >= 5
    assert not any(name == "src" for name, _ in read.attributes)
    assert EVIL[0] in " ".join(read.text)
    assert "@import" not in html


def test_an_evaluation_without_queries_has_a_page() -> None:
    """Its cells are dashes, and its pictures do not fail."""
    e = report.evaluate(np.zeros((0, 4), np.float32), np.zeros(0, int), groups={"user": []})
    (table,) = re.findall(r"<table>.*?</table>", e.to_html())[:1]
    text = Reader(table).text
    assert text[text.index("mrr") + 1] == "-"


def test_ties_that_change_nothing_have_no_table() -> None:
    """Lists have no tied candidates."""
    e = report.evaluate([[1, 2], [3, 4]], [2, 3], k=1)
    text = " ".join(Reader(e.to_html()).text)
    assert "The order of candidates with equal scores changes no value." in text
    assert "relevant first" not in text
    assert "relevant first" in " ".join(
        Reader(report.evaluate(np.zeros((2, 3)), [1, 2]).to_html()).text
    )


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    """It writes the page, and overwrites a file only with `--force`."""
    runner = pytest.importorskip("click.testing").CliRunner()
    from nextloc_metrics.report.command import main

    path, out = tmp_path / "a.csv", tmp_path / "report.html"
    path.write_text('preds,target,user\n"[1, 2]",1,ann\n"[3, 2]",2,bob\n')
    command = ["report", str(path), "--group", "user", "--k", "2", "--out", str(out)]
    assert runner.invoke(main, command).exit_code == 0
    found = report.read(path, groups=["user"])
    e = report.evaluate(found.preds, found.target, k=2, groups=found.groups)
    written = out.read_text()
    (card,) = re.findall(r"<section>\n<h2>What was read</h2>.*?</section>\n", written, re.DOTALL)
    assert written.replace(card, "") == e.to_html("a.csv") + "\n"
    told = Reader(card).text
    assert shlex.join(["nextloc-metrics", *command]) in told
    assert "preds, target, user" in told
    refused = runner.invoke(main, command)
    assert refused.exit_code == 1
    assert "--force" in refused.output
