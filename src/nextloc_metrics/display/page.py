"""Pages of HTML without links to other files: their tables, cards and pictures."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Iterable, Mapping
from html import escape
from importlib.metadata import version
from typing import Any

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.display.formats import one_line
from nextloc_metrics.display.page_style import SCRIPT, STYLE
from nextloc_metrics.display.style import import_pyplot
from nextloc_metrics.display.table import Table

# Tables with more rows are folded.
_LONG = 30


def write_page(
    title: str, sections: Mapping[str, str], source: Mapping[str, Any] | None = None
) -> str:
    """Return a page of sections, HTML by title; the card of what was read is the second one."""
    if title.lower().endswith((".html", ".htm")):
        raise ValueError(
            f"`title` must be a title, not a file, got {short(title)}; write the page that is "
            f'returned: `Path({title!r}).write_text(e.to_html(), "utf-8")`.'
        )
    if source is not None:
        first, *others = sections.items()
        sections = dict([first, ("What was read", show_card(source)), *others])
    body = "".join(
        f"<section>\n<h2>{escape(name)}</h2>\n{content}</section>\n"
        for name, content in sections.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}"
        f"<footer>nextloc-metrics {version('nextloc-metrics')}</footer>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def write_fact(value: Any) -> str:
    """Return a value of a card as text."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))


def show_card(card: Mapping[str, Any]) -> str:
    """Show facts by name."""
    rows = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{_write_value(value)}</dd>"
        for name, value in card.items()
    )
    return f"<dl>{rows}</dl>"


def _write_value(value: Any) -> str:
    """Write a value of a card; no line is broken within an option such as `--group`."""
    text = escape(write_fact(value))
    return re.sub(r"(?<= )--[\w-]+", lambda x: f"<span>{x[0]}</span>", text)


def show_meanings(members: Iterable[tuple[Any, Any]]) -> str:
    """Show what each metric is, by name."""
    rows = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(_meaning(member))}</dd>"
        for name, member in members
    )
    return f"<details><summary>What each metric is</summary><dl>{rows}</dl></details>\n"


def _meaning(metric: Any) -> str:
    """Return the first paragraph of the docstring of a metric."""
    text = inspect.getdoc(type(metric)) or ""
    return " ".join(text.partition("\n\n")[0].replace("`", "").split())


def show_table(table: Table) -> str:
    """Return a table that scrolls sideways, folded if it is long."""
    html = f'<div class="wide">{table._repr_html_()}</div>\n'
    if len(table.rows) <= _LONG:
        return html
    return f"<details><summary>{len(table.rows)} rows</summary>{html}</details>\n"


def show_picture(caption: str, draw: Callable[..., Any], *arguments: Any) -> str:
    """Return a picture as SVG inside the page."""
    pyplot = import_pyplot()
    # do not parse text of the data as formulas; text stays text; the same data give the same bytes,
    # and the salt keeps the ids of two pictures apart
    style = {"text.parse_math": False, "svg.hashsalt": caption, "svg.fonttype": "none"}
    with pyplot.rc_context(style):
        figure, _ = draw(*arguments)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None}, transparent=True)
        pyplot.close(figure)
    return (
        f'<figure><div class="wide">{_inline(drawn.getvalue(), caption)}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def _inline(svg: str, caption: str) -> str:
    """Return an SVG file as an element that is as wide as its place, without ids unused in it."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"[\"(]#([^\")]+)[\")]", svg))
    svg = re.sub(r' id="([^"]*)"', lambda x: x[0] if x[1] in used else "", svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    start = f'<svg role="img" aria-label="{escape(caption)}" {box[0] if box else ""} '
    start += 'xmlns:xlink="http://www.w3.org/1999/xlink">'
    return start + svg[svg.index(">") + 1 :]
