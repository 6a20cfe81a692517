"""One page of HTML has what the evaluation has; only its own script runs, nothing is fetched."""

from __future__ import annotations

import inspect
import re
import shlex
from functools import cache
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from nextloc_metrics import __version__, report
from nextloc_metrics.cli.commands import main
from nextloc_metrics.core.display.lines import draw_differences
from nextloc_metrics.core.display.page import CHOICE, SCRIPT

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
        self.feed(html.replace("<wbr>", ""))  # where a title may break
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


@cache
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


@pytest.mark.slow
def test_the_page_holds_every_table_and_the_card() -> None:
    """Headline, groups, deciles, ties, protocol."""
    e, html = evaluation(), page()
    read = Reader(html)
    text = " ".join(read.text)
    for table in (e.table, *e.groups.values(), e.deciles):
        for cell in (cell for row in table.rows for cell in row):
            assert cell in text
    for name, value in e.card.items():
        if value == 0:  # what did not occur is not on the page
            assert name.replace("_", " ") not in text
            continue
        assert name.replace("_", " ") in text
        assert (f"{value:,}" if isinstance(value, int) else str(value)) in text
    assert TITLE in text
    assert EVIL[1] in text
    assert "2026-11-24" in text


def test_a_page_has_a_choice_of_metrics_by_group() -> None:
    """Each metric of the table of groups has a picture, under its name; one alone has no choice."""
    html = page()
    for kind in ("<b>user", "hour"):
        section = html.partition(f"<h2>By {escape(kind)}</h2>")[2].partition("</section>")[0]
        choice = section.partition('<div class="choice">')[2].partition("<table>")[0]
        shown = evaluation().groups[kind].header
        names = [x for x in shown if x in evaluation().values]
        assert re.findall(r'data-name="([^"]*)"', choice) == names
        assert re.findall(r'aria-label="(\w+) by ', choice) == names
    alone = report.evaluate([[1, 2]], [1], measures=["mrr"], groups={"hour": [3]}).to_html()
    assert "By hour" in alone
    assert 'class="choice"' not in alone


def test_tables_of_groups_say_who_is_behind_and_which_are_worst() -> None:
    """How many clusters a group has, and of more than ten groups the ten with the lowest value."""
    hours = [i % 12 for i in range(120)]
    users = [i // 40 for i in range(120)]  # of hour 11, two of three
    target = [1 if i % 12 > 2 else 0 for i in range(120)]
    of = {"groups": {"hour": hours, "user": users}, "cluster": "user", "num_locations": 2}
    kept = np.array(
        [not (hour == 11 and user == 2) for hour, user in zip(hours, users, strict=True)]
    )
    e = report.evaluate([[1]] * 120, target, k=1, mask=kept, **of)
    table = e.groups["hour"]
    assert table.header[-2:] == ("queries", "users")
    assert [row[-1] for row in table.rows] == ["3"] * 11 + ["2"]
    assert "users" not in e.groups["user"].header
    worst = "the 10 hours with the lowest acc_at_1: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert worst in table.notes
    few = report.evaluate([[1]] * 120, target, k=1, groups={"user": users}, num_locations=2)
    assert not any("lowest" in note for note in few.groups["user"].notes)


def test_printed_cards_have_no_number_that_is_0() -> None:
    """In the terminal, in Markdown and in a notebook; `card` has all."""
    e = report.evaluate([[1, 2], [3, 1]], [2, 3], k=1)
    assert e.card["left_out"] == 0
    for text in (str(e), e.to_markdown(), e._repr_html_()):
        assert "queries" in text
        assert "left out" not in text
    empty = report.evaluate(np.zeros((0, 4), np.float32), np.zeros(0, int))
    assert "queries: 0" in str(empty)


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
        "text", "use", "rect", "clippath", "pattern", "span", "a",
    }  # fmt: skip
    assert not any(name.startswith("on") for name, _ in read.attributes)
    assert read.tags.count("script") == 1
    assert html.count(SCRIPT + CHOICE) == 1
    assert "http" not in SCRIPT + CHOICE
    assert "fetch" not in SCRIPT + CHOICE
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


@pytest.mark.usefixtures("blank_pictures")
def test_ties_that_change_nothing_have_no_table() -> None:
    """Lists have no tied candidates."""
    e = report.evaluate([[1, 2], [3, 4]], [2, 3], k=1)
    text = " ".join(Reader(e.to_html()).text)
    assert "The order of candidates with equal scores changes no value." in text
    assert "relevant first" not in text
    assert "relevant first" in " ".join(
        Reader(report.evaluate(np.zeros((2, 3)), [1, 2]).to_html()).text
    )


@pytest.mark.usefixtures("blank_pictures")
def test_the_command_writes_the_page(tmp_path: Path) -> None:
    """It writes the page, and overwrites a file only with `--force`."""
    path, out = tmp_path / "a.csv", tmp_path / "report.html"
    path.write_text('preds,target,user\n"[1, 2]",1,ann\n"[3, 2]",2,bob\n', encoding="utf-8")
    command = ["report", str(path), "--group", "user", "--k", "2", "--out", str(out)]
    assert CliRunner().invoke(main, command).exit_code == 0
    found = report.read(path, groups=["user"])
    e = report.evaluate(found.preds, found.target, k=2, groups=found.groups)
    written = out.read_text(encoding="utf-8")
    (card,) = re.findall(r"<section>\n<h2>What was read</h2>.*?</section>\n", written, re.DOTALL)
    assert written.replace(card, "") == e.to_html("a.csv") + "\n"
    text = Reader(card).text
    told = "".join(text)
    assert shlex.join(["nextloc-metrics", *command]) in told
    assert {"2", "preds, target, user", f"nextloc-metrics {__version__}"} <= {*text}
    assert "k 2" in text
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 1
    assert "--force" in refused.output


def compared(names: tuple[str, ...] = ("old", "<b>new", "& third")) -> Any:
    """A comparison of models, clustered by user."""
    generator = np.random.default_rng(1)
    target = generator.integers(0, 9, 60)
    models = {name: generator.normal(size=(60, 9)) for name in names}
    models[names[1]] += np.arange(9) == target[:, None]
    groups = {"user": generator.integers(0, 12, 60)}
    options: dict[str, Any] = {"k": (1, 3), "groups": groups, "cluster": "user"}
    alone = [report.evaluate(preds, target, **options) for preds in models.values()]
    return report.compare(models, target, **options), dict(zip(names, alone, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3])
def test_the_page_of_a_comparison_has_values_and_differences(number: int) -> None:
    """Values have the intervals of `evaluate`; each difference, interval and p-value is there."""
    names = ("old", "<b>new", "& third")[:number]
    found, alone = compared(names)
    html = found.to_html("A & B", {"files": "a and b"})
    values, differences = (
        [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall("<tr>.*?</tr>", table)]
        for table in re.findall("<table>.*?</table>", html)
    )
    header, *rows = [["".join(Reader(f"<p>{x}</p>").text) for x in row] for row in values]
    assert header[1::2] == [*names]
    for (key, _), row in zip(found.values["old"].items(), rows, strict=True):
        for name, e in alone.items():
            at = header.index(name)
            assert row[0] == key
            assert row[at] == f"{100 * e.values[key]:.2f}"
            low, high = e.intervals.get(key, (0, 0))
            expected = f"{100 * low:.2f} - {100 * high:.2f}" if key in e.intervals else ""
            assert row[at + 1].split() == expected.split()
    cells = [["".join(Reader(f"<p>{x}</p>").text) for x in row] for row in differences[1:]]
    expected_rows = []
    for row in found.table.rows:
        title = row[0] if number > 2 else row[0].partition(",")[0]
        expected_rows.append([title, *row[3:]])
    assert cells == expected_rows
    text = Reader(html).text
    assert "a and b" in text
    assert "95 %, clustered by user (12 groups), not corrected" in text
    pictures = re.findall("<svg.*?</svg>", html, re.DOTALL)
    assert len(pictures) == 2
    drawn = " ".join(Reader(pictures[1]).text)
    assert "percentage points" in drawn
    assert all((name in drawn) == (number > 2) for name in names[1:])
    told = "each model minus old" if number > 2 else "<b>new minus old: right of 0, <b>new is"
    assert any(x.startswith(told) for x in text)


def test_a_difference_is_drawn_at_its_value() -> None:
    """Dots and whiskers of the picture are the differences and intervals of `compare`."""
    found, _ = compared(("old", "new"))
    axes = draw_differences(found._differences(), 0.95)[1]
    (container,) = axes.containers
    dots, _, (whiskers,) = container.lines
    tested = found.comparisons["new"]
    assert list(dots.get_xdata()) == pytest.approx([x.difference for x in tested.values()])
    ends = [[point[0] for point in segment] for segment in whiskers.get_segments()]
    for (low, high), one in zip(ends, tested.values(), strict=True):
        assert (low, high) == pytest.approx((one.low, one.high))


def written(folder: Path, *arguments: str) -> tuple[str, dict[str, str]]:
    """The page that a command writes, and the card on it."""
    out = folder / "page.html"
    shown = CliRunner().invoke(main, [*arguments, "--out", str(out)])
    assert shown.exit_code == 0, shown.output
    assert shown.stderr.splitlines()[-1] == f"wrote {out}"
    assert CliRunner().invoke(main, [*arguments, "--out", str(out)]).exit_code == 1
    nowhere = CliRunner().invoke(main, [*arguments, "--out", str(folder / "no" / "page.html")])
    assert nowhere.exit_code == 1
    assert nowhere.stderr == f"Error: {folder / 'no'} must be an existing folder.\n"
    html = out.read_text(encoding="utf-8")
    out.unlink()
    (card,) = re.findall(r"<h2>What was read</h2>\n(<dl>.*?</dl>)", html)
    rows = re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", card)
    found = {name: "".join(Reader(f"<p>{value}</p>").text) for name, value in rows}
    names = ["files", "rows", "columns", "options", "version", "date", "command"]
    rare = ("columns", "options")
    assert list(found) == [name for name in names if name not in rare or name in found]
    assert found["command"] == shlex.join(["nextloc-metrics", *arguments, "--out", str(out)])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert found["version"] == f"nextloc-metrics {__version__}"
    return html, found


@pytest.mark.usefixtures("blank_pictures")
def test_the_command_writes_the_page_of_a_comparison(tmp_path: Path) -> None:
    """Models have the names of their files; in other formats `--out` is a file of text."""
    rows = 'preds,target,user\n"[1, 2]",{},ann\n"[3, 2]",2,bob\n"[4, 2]",2,eve\n'
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(
            rows.format(1).replace("3", "2" if name == "a.csv" else "3"), encoding="utf-8"
        )
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    html, card = written(tmp_path, "compare", *files, "--cluster", "user", "--k", "1,2")
    assert "<h1>a.csv and b.csv</h1>" in html
    assert "b.csv minus a.csv" in html
    assert card["files"] == ", ".join(files)
    assert card["rows"] == "3 of each file"
    assert card["columns"] == "preds, target, user"
    assert card["options"] == "k 1,2"  # those that were given, and are no columns
    out = tmp_path / "table.csv"
    command = ["compare", *files, "--format", "csv"]
    assert CliRunner().invoke(main, [*command, "--out", str(out)]).exit_code == 0
    assert out.read_text(encoding="utf-8") == CliRunner().invoke(main, command).output


@pytest.mark.usefixtures("blank_pictures")
def test_a_comparison_names_files_by_where_they_differ(tmp_path: Path) -> None:
    """Files of one name have their folders; targets in a file of their own are no column."""
    np.save(tmp_path / "target.npy", np.array([1, 2, 0]))
    for name in ("gru", "lstm"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "preds.npy", np.eye(3))
    files = [str(tmp_path / name / "preds.npy") for name in ("gru", "lstm")]
    target = str(tmp_path / "target.npy")
    html, card = written(tmp_path, "compare", *files, "--target", target)
    assert "<h1>gru/preds.npy and lstm/preds.npy</h1>" in html
    assert card["files"] == ", ".join([*files, target])
    assert "columns" not in card


@pytest.mark.usefixtures("blank_pictures")
def test_the_page_of_trajectories_has_the_card_and_says_what_metrics_are(tmp_path: Path) -> None:
    """Of predicted days."""
    rows = "uid,d,t,x,y\n" + "".join(
        f"1,{60 + i // 4},{i % 4},{i + 1},{i + 1}\n" for i in range(12)
    )
    for name in ("preds.csv", "true.csv"):
        (tmp_path / name).write_text(rows, encoding="utf-8")
    files = [str(tmp_path / name) for name in ("preds.csv", "true.csv")]
    html, card = written(tmp_path, "trajectories", *files, "--year", "2023")
    assert card["rows"] == "12 predicted, 12 true"
    assert card["columns"] == "uid, d, t, x, y"
    assert card["options"] == "year 2023"
    assert any(x.startswith("GEO-BLEU") for x in Reader(html).text)


def test_a_title_that_is_a_file_is_an_error() -> None:
    """`to_html` returns the page and writes no file."""
    e = report.evaluate([[3, 5], [4, 2]], [3, 2], k=1)
    with pytest.raises(ValueError, match=r"`title` must be a title.*write_text\(e\.to_html\(\), "):
        e.to_html("page.html")


@pytest.mark.usefixtures("blank_pictures")
def test_a_page_begins_with_its_result_in_a_sentence() -> None:
    """The hits at the smallest and the largest k, and how far groups differ."""
    lists = [[1, 2], [2, 1], [1, 3], [3, 4]]
    e = report.evaluate(lists, [1] * 4, k=(1, 2), groups={"hour": [9, 9, 10, 10]})
    first = next(x for x in Reader(e.to_html()).text if x.startswith("Of "))
    assert first == (
        "Of 4 queries, the true location was first in 50.0 % and among the first 2 in 75.0 %. "
        "By hour, acc_at_1 is between 50.0 and 50.0 %."
    )
    users = [i // 2 for i in range(240)]  # the first of each is right, the second of the last 12
    target = [1 if i % 2 == 0 or i >= 216 else 0 for i in range(240)]
    e = report.evaluate([[1]] * 240, target, k=1, groups={"user": users}, num_locations=2)
    share = f"{(120 + 12) / 2.4:.1f}"
    low, high = np.quantile([x["value"] for x in e.group_records("user")][:120], [0.1, 0.9])
    middle = f"between {100 * low:.1f} and {100 * high:.1f} % for the middle 80 % of 120 users."
    assert f"was first in {share} %. By user, acc_at_1 is {middle}" in e.to_html()
    assert "e.group_records" not in e.to_html()
    several = report.evaluate([[1, 2]], [[1, 2]], k=1)
    assert "Of 1 queries" not in several.to_html()


@pytest.mark.usefixtures("blank_pictures")
def test_a_page_of_models_begins_with_how_many_metrics_differ() -> None:
    """Of 40 queries the second model answers all, the third as many as the first."""
    half = [[1], [2]] * 20
    models = {"a": half, "b & c": [[1]] * 40, "d": [[2], [1]] * 20}
    page = report.compare(models, [1] * 40, k=1).to_html()
    text = " ".join(Reader(page).text)
    assert "Of 4 tested metrics, b & c is better than a in 4. Of 4 tested metrics, d is" in text
    assert "d is not separated from a in 4." in text
    swapped = report.compare({"b": models["b & c"], "a": half}, [1] * 40, k=1).to_html()
    assert "Of 4 tested metrics, a is worse than b in 4." in swapped
