"""Pages of HTML: `pages.txt` has what they say; only their own script runs, nothing is fetched.

After a change of what pages say, write the file again:
`PYTHONPATH=src:tests:. python tests/report/pages/test_page.py`.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from markupsafe import escape

from nextloc_metrics import __version__, report
from nextloc_metrics.cli.commands import main

GOLDEN = Path(__file__).with_name("pages.txt")
EVIL = [
    "<script>alert(1)</script>",
    '--><img src="x" onerror="alert(1)">',
    "$\\frac{x",
    "ann & bob",
]
KIND = '<b>user" onload="x'
TITLE = "A <title>, a <script>"
SOURCE = {"files": EVIL[1], "date": "2026-11-24"}


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


def numbers(n: int, step: int = 7) -> Any:
    """Whole numbers from 0 to 10 in no order, the same with any version of NumPy."""
    return (step * np.arange(n) + np.arange(n) ** 2 // 3) % 11


@cache
def evaluation() -> Any:
    """An evaluation with user names that are HTML or formulas."""
    return report.evaluate(
        numbers(720).reshape(80, 9).astype(np.float32),
        numbers(80) % 9,
        groups={KIND: np.array(EVIL)[numbers(80, 5) % 4], "hour": numbers(80, 3)},
        cluster=KIND,
        train_counts=numbers(9),
    )


@cache
def compared(*names: str) -> tuple[Any, dict[str, Any]]:
    """A comparison of models, clustered by user, and the evaluation of each."""
    target = numbers(60) % 9
    models = {x: numbers(540, 5 + i).reshape(60, 9) * 1.0 for i, x in enumerate(names)}
    models[names[1]] += 9 * (np.arange(9) == target[:, None]) * (np.arange(60) % 3 > 0)[:, None]
    options: dict[str, Any] = {"k": (1, 3), "groups": {"user": numbers(60, 2)}, "cluster": "user"}
    alone = {name: report.evaluate(x, target, **options) for name, x in models.items()}
    return report.compare(models, target, **options), alone


def hours() -> Any:
    """Twelve hours of three users, of whom one is not behind the last hour."""
    hour, user = np.arange(120) % 12, np.arange(120) // 40
    return report.evaluate(
        [[1]] * 120, np.where(hour > 2, 1, 0), k=1, mask=(hour < 11) | (user < 2),
        groups={"hour": hour, "user": user}, cluster="user", num_locations=2,
    )  # fmt: skip


def users() -> Any:
    """120 users: the first answer is right but for 18, and of the last twelve the second, too."""
    row = np.arange(240)
    target = ((row % 2 == 0) & (row >= 36) | (row >= 216)).astype(int)
    return report.evaluate([[1]] * 240, target, k=1, groups={"user": row // 2}, num_locations=2)


def differ(*names: str) -> Any:
    """Of 40 queries one model answers all, the others half."""
    half = [[1], [2]] * 20
    models = {"a": half, "b & c": [[1]] * 40, "d": half[::-1]}
    return report.compare({name: models[name] for name in names}, [1] * 40, k=1)


FEW: Any = {"groups": {"hour": [9, 9, 10, 10]}}
#: what has a page
PAGES: dict[str, Callable[[], Any]] = {
    "an evaluation": evaluation,
    "two models": lambda: compared("old", "<b>new")[0],
    "three models": lambda: compared("old", "<b>new", "& third")[0],
    "no queries": lambda: report.evaluate(np.zeros((0, 4)), np.zeros(0, int), groups={"user": []}),
    "lists without ties": lambda: report.evaluate([[1, 2], [3, 4]], [2, 3], k=1),
    "ties": lambda: report.evaluate(np.zeros((2, 3)), [1, 2]),
    "hours": hours,
    "few": lambda: report.evaluate([[1, 2], [2, 1], [1, 3], [3, 4]], [1] * 4, k=(1, 2), **FEW),
    "users": users,
    "several targets": lambda: report.evaluate([[1, 2]], [[1, 2]], k=1),
    "models that differ": lambda: differ("a", "b & c", "d"),
    "a worse model": lambda: differ("b & c", "a"),
}


def words(html: str) -> str:
    """The text of a page without its pictures, a line for each part."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    text = re.sub(r"<img [^>]*>", "\n[picture]\n", text)
    text = re.sub(r"</t[dh]>(?!</tr>)", " | ", text)
    text = re.sub(r"</(?:title|h\d|p|tr|caption|dd|figcaption|summary)>", "\n", text)
    text = unescape(re.sub("<[^>]*>", " ", text)).replace(__version__, "VERSION")
    return "\n".join(f"    {' '.join(x.split())}" for x in text.splitlines() if x.strip())


def golden() -> dict[str, str]:
    """What each page says, as it is in the file."""
    parts = GOLDEN.read_text(encoding="utf-8").strip().split("\n\n")
    return dict(part.split("\n", 1) for part in parts)


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] * (i % 3 > 0)) for i, x in enumerate(PAGES)]
)
def test_a_page_says_what_is_known(name: str) -> None:
    """All that was read before, and every cell of its tables."""
    found = PAGES[name]()
    text = words(found.to_html(TITLE, source=SOURCE))
    assert text == golden()[name]
    tables = [*found.groups.values(), found.deciles] if hasattr(found, "groups") else []
    for table in (found.table, *filter(None, tables)):
        for cell in (cell for row in table.rows for cell in row):
            assert " ".join(cell.split()).rpartition(", ")[2] in text


@pytest.mark.slow  # draws
@pytest.mark.parametrize("name", ["an evaluation", "three models"])
def test_only_the_script_of_the_page_runs_and_nothing_is_fetched(name: str) -> None:
    """Names from data are text, on the page and in its pictures."""
    html = PAGES[name]().to_html(TITLE, source=SOURCE)
    read = Reader(html)
    assert set(read.tags) <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "section", "figure", "p",
        "figcaption", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "b", "dl",
        "dt", "dd", "details", "summary", "footer", "br", "script", "img",
    }  # fmt: skip
    assert not any(name.startswith("on") or name == "href" for name, _ in read.attributes)
    scripts = re.findall("<script>.*?</script>", html, re.DOTALL)
    assert scripts == re.findall("<script>.*</script>", hours().to_html(), re.DOTALL)
    assert "http" not in html
    assert "url(" not in html
    assert EVIL[1] in " ".join(read.text)
    start = "data:image/svg+xml;base64,"
    pictures = [value or "" for name, value in read.attributes if name == "src"]
    assert pictures
    assert len(pictures) == len([value for name, value in read.attributes if name == "alt"])
    for picture in pictures:
        svg = ElementTree.fromstring(base64.b64decode(picture.removeprefix(start)))
        assert "script" not in {element.tag.rpartition("}")[2] for element in svg.iter()}


@pytest.mark.usefixtures("blank_pictures")
def test_a_page_has_a_choice_of_metrics_by_group() -> None:
    """Each metric of the table of groups has a picture, under its name; one alone has no choice."""
    html = evaluation().to_html()
    for kind in (KIND, "hour"):
        section = html.partition(f"<h2>By {escape(kind)}</h2>")[2].partition("<table>")[0]
        names = [x for x in evaluation().groups[kind].header if x in evaluation().values]
        assert re.findall(r"<summary>(.*?)</summary>", section) == names
        assert re.findall(r'alt="(\w+) by ', section) == names
        assert section.count("<details open>") == 1
    for measures, number in ((["mrr"], 0), (["mrr", "ndcg@2"], 1)):
        few = report.evaluate([[1, 2]], [1], measures=measures, groups={"hour": [3]}).to_html()
        assert few.count("<details open>") == number


def test_a_title_that_is_a_file_is_an_error() -> None:
    """`to_html` returns the page and writes no file."""
    with pytest.raises(ValueError, match=r"`title` must be a title.*write_text\(e\.to_html\(\), "):
        evaluation().to_html("page.html")


def written(folder: Path, *arguments: str) -> tuple[str, dict[str, str]]:
    """The page that a command writes, and the card on it."""
    out = folder / "page.html"
    shown = CliRunner().invoke(main, [*arguments, "--out", str(out)])
    assert shown.exit_code == 0, shown.output
    assert shown.stderr.splitlines()[-1] == f"wrote {out}"
    refused = CliRunner().invoke(main, [*arguments, "--out", str(out)])
    assert refused.exit_code == 1
    assert "--force" in refused.output
    nowhere = CliRunner().invoke(main, [*arguments, "--out", str(folder / "no" / "page.html")])
    assert nowhere.exit_code == 1
    assert nowhere.stderr == f"Error: {folder / 'no'} must be an existing folder.\n"
    html = out.read_text(encoding="utf-8")
    out.unlink()
    (card,) = re.findall(r"<h2>What was read</h2>\n(<dl>.*?</dl>)", html)
    rows = re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", card)
    found = {name: unescape(value) for name, value in rows}
    assert list(found) == ["files", "rows", "version", "date", "command"]
    assert found["command"] == shlex.join(["nextloc-metrics", *arguments, "--out", str(out)])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert found["version"] == f"nextloc-metrics {__version__}"
    return html, found


@pytest.mark.usefixtures("blank_pictures")
def test_the_command_writes_the_page(tmp_path: Path) -> None:
    """It is that of the evaluation, with a card of what was read."""
    path = tmp_path / "a.csv"
    path.write_text('preds,target,user\n"[1, 2]",1,ann\n"[3, 2]",2,bob\n', encoding="utf-8")
    html, card = written(tmp_path, "report", str(path), "--group", "user", "--k", "2")
    found = report.read(path, groups=["user"])
    e = report.evaluate(found.preds, found.target, k=2, groups=found.groups)
    without = re.sub(r"<section>\n<h2>What was read</h2>.*?</section>\n", "", html, flags=re.DOTALL)
    assert without == e.to_html("a.csv") + "\n"
    assert card["rows"] == "2"


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
    assert card["files"] == ", ".join(files)
    assert card["rows"] == "3 of each file"
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
    assert any(x.startswith("GEO-BLEU") for x in Reader(html).text)


if __name__ == "__main__":
    said = {name: words(make().to_html(TITLE, source=SOURCE)) for name, make in PAGES.items()}
    GOLDEN.write_text("\n".join(f"{name}\n{text}\n" for name, text in said.items()), "utf-8")
