"""The pages in a browser: sort, nothing fetched, complete without a script, no overflow.

A page under test stands in a frame of 400 pixels; a script beside it clicks, measures, and writes
what it found as JSON.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nextloc_metrics import report
from nextloc_metrics.core.display import page
from nextloc_metrics.core.display.table import Table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,  # starts a browser
    pytest.mark.skipif(
        CHROMIUM is None, reason="needs chromium, which .ci/rare installs by `apt-get`"
    ),
]

# A column each of numbers, dates, names with numbers, p-values and texts; "-" and "" are missing.
ROWS = [
    ["user 10", "9.50", "2012-04-03", "0.0400", "-3.20"],
    ["user 9", "1,187", "2012-11-01", "<0.0001", "+0.50"],
    ["user 2", "-", "2011-12-31", "1.0000", "inf"],
    ["Ann", "100.00†", "-", "0.0030", "-10.00"],
    ["user 1", "", "2012-04-01", "-", "0.00"],
    ["bob", "20.00 - 31.00", "", "0.5000", "-"],
    ["user 3", "3", "2012-04-02", "0.2000", "3e-05"],
    ["user 30", "25 %", "2012-05-01", "0.1000", "12.00"],
]
SORTED = [
    ["Ann", "bob", "user 1", "user 2", "user 3", "user 9", "user 10", "user 30"],
    ["3", "9.50", "20.00 - 31.00", "25 %", "100.00†", "1,187"],
    ["2011-12-31", "2012-04-01", "2012-04-02", "2012-04-03", "2012-05-01", "2012-11-01"],
    ["<0.0001", "0.0030", "0.0400", "0.1000", "0.2000", "0.5000", "1.0000"],
    ["-10.00", "-3.20", "0.00", "3e-05", "+0.50", "12.00", "inf"],
]

SCRIPT = """
addEventListener("load", () => {
  const found = {dark: matchMedia("(prefers-color-scheme: dark)").matches};
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, shown = row => row.checkVisibility();
    const rows = table => [...table.tBodies[0].rows];
    for (const folded of page.querySelectorAll("details")) folded.open = true;
    const of = found[frame.title] = {
      width: page.documentElement.scrollWidth,
      room: frame.contentWindow.innerWidth,
      links: [...page.querySelectorAll("[src], [href], [srcset], [data]")].map(x =>
        x.getAttribute("src") ?? x.getAttribute("href") ?? x.outerHTML),
      fetched: frame.contentWindow.performance.getEntriesByType("resource").map(x => x.name),
      pictures: [...page.images].map(x => x.naturalWidth && x.getBoundingClientRect().right),
      color: frame.contentWindow.getComputedStyle(page.body).color,
      tables: [...page.querySelectorAll("table")].map(table =>
        rows(table).filter(shown).map(row => [...row.cells].map(cell => cell.textContent))),
    };
    if (!frame.title.endsWith("sorted")) continue;
    const table = page.querySelector("table"), heads = [...table.tHead.rows[0].cells];
    const column = number => rows(table).map(row => row.cells[number].textContent);
    of.ways = heads.map((head, number) => {
      const ways = [];
      for (let i = 0; i < 2; i++) {
        head.firstChild.click();
        ways.push([head.getAttribute("aria-sort"), column(number)]);
      }
      return ways;
    });
  }
  const told = document.createElement("pre");
  told.textContent = JSON.stringify(found);
  document.body.append(told);
});
"""


@cache
def pages() -> dict[str, str]:
    """A page of each kind, and one with the table that is sorted."""
    draw = np.random.default_rng(0)
    scores, target = draw.normal(size=(60, 9)), draw.integers(0, 9, 60)
    users = np.array([f"a user with a name of many words {n}" for n in range(12)])
    groups = {"user": users[draw.integers(0, 12, 60)], "hour": draw.integers(0, 24, 60)}
    better = scores + (np.arange(9) == target[:, None])
    number = np.repeat(np.arange(40), 3)
    days = pd.DataFrame({"uid": number // 4, "d": number % 4, "t": np.arange(120) % 3})
    days = days.assign(x=draw.integers(1, 30, 120), y=draw.integers(1, 30, 120))
    source = {
        "files": "a/rather/long/path/of/a/folder/" * 4 + "part-0.parquet",
        "command": "nextloc-metrics score " + "a/rather/long/path/" * 6 + " --group user",
    }
    options: dict[str, Any] = {"groups": groups, "cluster": "user"}
    models = {"a_model_with_a_long_name_" * 3: scores, "another": better}
    return {
        "evaluate": report.evaluate(
            scores, target, train_counts=draw.integers(0, 99, 9), **options
        ).to_html("A_title_of_one_long_word_" * 4, source=source),
        "compare": report.compare(models, target, **options).to_html("Two models", source),
        "trajectories": report.evaluate_trajectories(days.assign(x=days["x"] + 1), days).to_html(
            "Days", source
        ),
        "sorted": page.write_page("T", {"S": page.show_table(Table([*"abcde"], ROWS))}),
    }


@cache
def browse(dark: bool) -> dict[str, Any]:
    """What the script found on each page, and on each without scripts; in one start."""
    assert CHROMIUM is not None
    frame = '<iframe title="{}" width=400 height=900 style="border: 0" srcdoc="{}"{}></iframe>'
    frames = [frame.format(name, escape(html), "") for name, html in pages().items()]
    no_script = ' sandbox="allow-same-origin"'
    frames += [
        frame.format(f"plain {name}", escape(html), no_script)
        for name, html in pages().items()
        if name != "sorted"
    ]
    outer = f'<meta charset="utf-8"><script>{SCRIPT}</script><body>{"".join(frames)}'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pages.html"
        path.write_text(outer, encoding="utf-8")
        options = (
            "headless no-sandbox disable-gpu disable-quic no-first-run disable-component-update "
            "disable-background-networking disable-sync dump-dom virtual-time-budget=20000"
        )
        command = [CHROMIUM, *(f"--{option}" for option in options.split())]
        command += [
            f"--user-data-dir={folder}/profile",
            f"--blink-settings=preferredColorScheme={int(not dark)}",
        ]
        done = subprocess.run(
            [*command, path.as_uri()],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=True,
        )
    (told,) = re.findall(r"<pre>(\{.*\})</pre>", done.stdout)
    found: dict[str, Any] = json.loads(unescape(told))
    assert found["dark"] is dark
    return found


KINDS = ["evaluate", "compare", "trajectories"]


def test_numbers_are_sorted_as_numbers_and_missing_values_come_last() -> None:
    """Both ways, by the button of a title; text is sorted with its numbers as numbers."""
    found = browse(dark=False)["sorted"]
    for expected, (up, down) in zip(SORTED, found["ways"], strict=True):
        known = len(expected)
        assert up[0] == "ascending"
        assert down[0] == "descending"
        assert up[1][:known] == expected
        assert down[1][:known] == expected[::-1]
        for _, cells in (up, down):
            assert {*cells[known:]} <= {"-", ""}
            assert len(cells) == len(ROWS)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_pages_fit_400_pixels_and_fetch_nothing(kind: str, dark: bool) -> None:
    """In light and dark; only tables scroll, each in its frame, and no picture is cut."""
    found = browse(dark)[kind]
    assert found["room"] == 400
    assert found["width"] <= 400
    assert bool(found["pictures"]) == (kind != "trajectories")  # which has tables alone
    assert all(0 < right <= 400 for right in found["pictures"])
    assert found["fetched"] == []
    assert all(link.startswith("data:") for link in found["links"])
    assert found["color"] == ("rgb(255, 255, 255)" if dark else "rgb(0, 0, 0)")


@pytest.mark.parametrize("kind", KINDS)
def test_all_rows_are_there_without_the_script(kind: str) -> None:
    """The script adds the sorting of tables, and no content."""
    found = browse(dark=False)
    plain = found[f"plain {kind}"]["tables"]
    assert plain == found[kind]["tables"]
    assert sum(map(len, plain)) == pages()[kind].count("<tr>") - len(plain)
    assert plain
