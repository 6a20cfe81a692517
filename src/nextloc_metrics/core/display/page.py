"""What a call returns, and its page of HTML, which the template `page.jinja` writes."""

from __future__ import annotations

import inspect
import io
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from nextloc_metrics.core.display.style import FILES, import_pyplot, style
from nextloc_metrics.core.display.table import Table, markdown, one_line, write_facts
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.version import __version__

# Tables with more rows are folded.
_LONG = 30


@cache
def _template() -> Any:
    from jinja2 import Environment

    text = files(__package__).joinpath("page.jinja").read_text("utf-8")  # reads a zip, too
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)


def _show(part: str, *values: Any) -> str:
    """Return a part of a page by the macro of the template; text is escaped."""
    return str(getattr(_template().module, part)(*values))


def write_page(
    title: str, sections: Mapping[str, str], source: Mapping[str, Any] | None = None
) -> str:
    """Return a page of sections, HTML by title; the card of what was read is the second one."""
    if title.lower().endswith((".html", ".htm")):
        raise ValueError(
            f"`title` must be a title, not a file, got {short(title)}; write the page that is "
            f'returned: `Path({title!r}).write_text(e.to_html(), "utf-8")`.'
        )
    shown = list(sections.items())
    if source is not None:
        shown.insert(1, ("What was read", show_card(source)))
    return str(_template().render(title=title, sections=shown, version=__version__))


def show_card(card: Mapping[str, Any]) -> str:
    """Show facts by name."""
    return _show("facts", write_facts({x.replace("_", " "): y for x, y in card.items()}))


def show_meanings(members: Iterable[tuple[Any, Any]]) -> str:
    """Show what each metric is, by name: the first paragraph of its docstring."""
    docs = {str(name): inspect.getdoc(type(metric)) or "" for name, metric in members}
    first = {name: text.partition("\n\n")[0].replace("`", "") for name, text in docs.items()}
    said = {name: " ".join(text.split()) for name, text in first.items()}
    return _show("folded", "What each metric is", _show("facts", said))


def show_table(table: Table) -> str:
    """Return a table that scrolls sideways, folded if it is long."""
    html, number = _show("table", table._repr_html_()), len(table.rows)
    return html if number <= _LONG else _show("folded", f"{number} rows", html)


def show_choice(pictures: Mapping[str, str]) -> str:
    """Show the first of several pictures; the others are folded under their names."""
    if len(pictures) < 2:
        return "".join(pictures.values())
    first = next(iter(pictures))
    return "".join(_show("folded", name, html, name == first) for name, html in pictures.items())


def show_picture(caption: str, draw: Callable[..., Any], *arguments: Any) -> str:
    """Return a picture as matplotlib writes it, with the caption as its text alternative."""
    pyplot = import_pyplot()
    drawn = io.BytesIO()
    with style(), pyplot.rc_context(FILES):
        figure, _ = draw(*arguments)
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return _show("picture", caption, b64encode(drawn.getvalue()).decode())


class Result:
    """What a call returns: a table, a card of facts such as options, and the sections of a page.

    `print` shows the table, and for some classes the card; a notebook shows the same as HTML.
    """

    title: ClassVar[str]  #: the title of its page
    _prints_card: ClassVar[bool] = False

    if TYPE_CHECKING:  # some subclasses have a field, others a property

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
        """The facts that are shown; facts that are 0 are left out, except the queries."""
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
