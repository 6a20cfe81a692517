"""What a call returns, and its page of HTML without links to other files."""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from nextloc_metrics.core.display.style import import_pyplot
from nextloc_metrics.core.display.table import Table, markdown, one_line, write_facts
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.version import __version__

# Tables with more rows are folded.
_LONG = 30

# The page is complete without the script.
STYLE = """
:root { color-scheme: light dark; --line: #8886; --shade: #8887; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: auto; padding: 1rem;
  overflow-wrap: anywhere; }
h1 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
/* a shade at an edge behind which there is more; the covers move with the content */
.wide {
  overflow-x: auto;
  background:
    linear-gradient(to right, Canvas 40%, transparent) left / 3rem 100% no-repeat local,
    linear-gradient(to left, Canvas 40%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / 1rem 100% no-repeat scroll,
    linear-gradient(to left, var(--shade), transparent) right / 1rem 100% no-repeat scroll;
}
table { border-collapse: collapse; margin-bottom: 1rem; font-size: .9rem; }
td { font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; white-space: nowrap; }
tr { border-bottom: 1px solid var(--line); }
caption { text-align: left; font-size: .8rem; padding-top: .4rem; }
caption { position: sticky; left: 0; max-width: calc(100vw - 3rem); }
td:first-child { max-width: 24rem; overflow: hidden; text-overflow: ellipsis; }
td:first-child { white-space: normal; overflow-wrap: normal; }
th[role=button] { cursor: pointer; }
th[aria-sort=ascending]::after { content: " \\2191"; }
th[aria-sort=descending]::after { content: " \\2193"; }
input[type=search], select { font: inherit; margin: .5rem 0; max-width: 100%; }
figure { margin: 1rem 0; }
figcaption { font-size: .9rem; }
svg { display: block; width: 100%; height: auto; min-width: 30rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.5rem; }
dd { margin: 0; }
dd span { white-space: nowrap; }
summary { cursor: pointer; padding: .3rem 0; }
footer { margin-top: 3rem; font-size: .8rem; }
@media (prefers-color-scheme: dark) {
  svg { filter: invert(.93) hue-rotate(180deg) brightness(1.25); }
}
@media (max-width: 30rem) {
  dl { grid-template-columns: 1fr; } dd { margin-left: 1rem; }
  svg { min-width: 0; } table { font-size: .65rem; } th, td { padding-right: .3rem; }
  th { white-space: normal; overflow-wrap: normal; }
}
@media print { body { max-width: none; } h2, figure, tr { break-inside: avoid; } }
"""

# Headers sort their table, numbers as numbers; a search field filters a table of many rows.
SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const number = text =>
    /^[<+-]?(inf|\\.?\\d[\\d,.]*(e[+-]?\\d+)?)(?![^\\s%†])/.test(text)
      ? parseFloat(text.replace(/[,+<]/g, "").replace("inf", "Infinity")) : NaN;
  // numbers, then text, then what is missing
  const group = text => text === "" || text === "-" ? 2 : isNaN(number(text)) ? 1 : 0;
  const sort = (head, column) => {
    const up = head.getAttribute("aria-sort") !== "ascending", sign = up ? 1 : -1;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].map(row => [row.cells[column].textContent.trim(), row]);
    rows.sort(([a], [b]) => {
      if (group(a) !== group(b)) return group(a) - group(b);
      if (group(a)) return sign * a.localeCompare(b, undefined, {numeric: true});
      const [x, y] = [number(a), number(b)];
      return x === y ? 0 : sign * (x - y);
    });
    body.append(...rows.map(([, row]) => row));
  };
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.setAttribute("role", "button");
    head.title = "Sort by this column";
    head.addEventListener("click", () => sort(head, column));
    head.addEventListener("keydown", event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort(head, column);
    });
  });
  if (body.rows.length < 8) continue;
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "Filter rows";
  search.setAttribute("aria-label", "Filter rows");
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.parentElement.before(search);
}
"""


# A choice of pictures shows the first one, and a list to choose from.
CHOICE = """
for (const choice of document.querySelectorAll(".choice")) {
  const label = document.createElement("label"), select = document.createElement("select");
  const show = () => {
    for (const one of choice.children) one.hidden = one.dataset.name !== select.value;
  };
  for (const one of choice.children) select.add(new Option(one.dataset.name));
  select.addEventListener("change", show);
  show();
  label.append("Metric: ", select);
  choice.before(label);
}
"""


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
        f"<footer>nextloc-metrics {__version__}</footer>\n"
        f"<script>{SCRIPT}{CHOICE}</script>\n</body>\n</html>\n"
    )


def show_card(card: Mapping[str, Any]) -> str:
    """Show facts by name."""
    html = _list(write_facts({name.replace("_", " "): value for name, value in card.items()}))
    # no line is broken within an option such as `--group`
    return re.sub(r"(?<= )--[\w-]+", lambda x: f"<span>{x[0]}</span>", html)


def _list(texts: Mapping[str, str]) -> str:
    items = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in texts.items())
    return f"<dl>{''.join(items)}</dl>"


def show_meanings(members: Iterable[tuple[Any, Any]]) -> str:
    """Show what each metric is, by name."""
    html = _list({str(name): _meaning(member) for name, member in members})
    return f"<details><summary>What each metric is</summary>{html}</details>\n"


def _meaning(metric: Any) -> str:
    text = inspect.getdoc(type(metric)) or ""
    return " ".join(text.partition("\n\n")[0].replace("`", "").split())


def show_sentence(text: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{escape(text)}</p>\n"


def show_table(table: Table) -> str:
    """Return a table that scrolls sideways, folded if it is long."""
    # titles such as acc_at_10 may break on a narrow page
    shown = re.sub(r"[^>]+(?=</th>)", lambda x: x[0].replace("_", "_<wbr>"), table._repr_html_())
    shown = shown.replace(" (", " <wbr>(")  # an interval behind a value goes below it
    html = f'<div class="wide">{shown}</div>\n'
    if len(table.rows) <= _LONG:
        return html
    return f"<details><summary>{len(table.rows)} rows</summary>{html}</details>\n"


def show_choice(pictures: Mapping[str, str]) -> str:
    """Show one of several pictures, by a choice of their names; all of them without the script."""
    if len(pictures) < 2:
        return "".join(pictures.values())
    parts = (f'<div data-name="{escape(x)}">{html}</div>\n' for x, html in pictures.items())
    return f'<div class="choice">\n{"".join(parts)}</div>\n'


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


class Result:
    """What a call returns: a table, a card of facts such as options, and the sections of a page.

    `print` shows the table, and the card of some; a notebook shows the same as HTML.
    """

    title: ClassVar[str]  #: of its page
    _prints_card: ClassVar[bool] = False

    if TYPE_CHECKING:  # a field of some, a property of others

        @property
        def table(self) -> Table: ...

    def sections(self) -> dict[str, str]:
        """Return the sections of a page but for the card: HTML by title."""
        return {"Result": show_table(self.table)}

    def _printed(self) -> Sequence[Table]:
        return [self.table]

    def _others(self) -> Mapping[str, Table]:
        """Return the tables beside `table` that Markdown has, by title."""
        return {}

    @property
    def _card(self) -> dict[str, Any]:
        """The facts that are shown: no number of what did not occur."""
        facts = getattr(self, "card", {}).items()
        return {x.replace("_", " "): y for x, y in facts if x == "queries" or y is True or y != 0}

    def __repr__(self) -> str:
        card = self._card if self._prints_card else {}
        facts = (f"{name}: {text}" for name, text in write_facts(card).items())
        return "\n".join([*map(str, self._printed()), *facts])

    def _repr_html_(self) -> str:
        card = show_card(self._card) if self._prints_card else ""
        return "".join(map(show_table, self._printed())) + card

    def to_markdown(self) -> str:
        """Return all tables and the card as Markdown."""
        parts = [self.table.to_markdown()]
        for title, table in self._others().items():
            parts.append(f"{markdown(one_line(title))}:\n\n{table.to_markdown()}")
        if self._card:
            rows = list(write_facts(self._card).items())
            parts.append(Table(["protocol", ""], rows).to_markdown())
        return "\n\n".join(parts)

    def to_latex(self, *, metrics: Sequence[str] | None = None) -> str:
        """Return `table` as LaTeX for the package booktabs, of these metrics; None for all."""
        return self.table.of_metrics(metrics).to_latex()

    def to_csv(self) -> str:
        """Return the numbers of `table`, unrounded, as comma-separated values."""
        return self.table.to_csv()

    def to_pandas(self) -> Any:
        """Return the numbers of `table`, unrounded, as a `pandas.DataFrame`."""
        return self.table.to_pandas()

    def to_html(
        self,
        title: str | None = None,
        source: Mapping[str, Any] | None = None,
        *,
        audit: Result | None = None,
    ) -> str:
        """Return one HTML page with tables and pictures, without links to other files.

        Args:
            title: the title of the page.
            source: what was read, by name, such as files, date and command; shown as a card.
            audit: the result of `protocols.audit`, to show on the page.

        Raises:
            ModuleNotFoundError: matplotlib is not installed, and the page has a picture.
        """
        sections = self.sections()
        if self._card:
            sections["Protocol"] = show_card(self._card)
        if audit is not None:
            sections[audit.title] = "".join(audit.sections().values())
        return write_page(self.title if title is None else title, sections, source)
