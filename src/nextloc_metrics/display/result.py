"""What a call returns, printed as text, Markdown, LaTeX, CSV, a data frame or an HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from nextloc_metrics.display.page import show_card, show_table, write_page
from nextloc_metrics.display.table import Table, markdown, one_line, write_fact


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
        """Return the tables that `print` shows."""
        return [self.table]

    def _others(self) -> Mapping[str, Table]:
        """Return the tables beside `table` that Markdown has, by title."""
        return {}

    @property
    def _card(self) -> dict[str, Any]:
        return {x.replace("_", " "): value for x, value in getattr(self, "card", {}).items()}

    def __repr__(self) -> str:
        card = self._card if self._prints_card else {}
        facts = (f"{name}: {write_fact(value)}" for name, value in card.items())
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
            rows = [[name, write_fact(value)] for name, value in self._card.items()]
            parts.append(Table(["protocol", ""], rows).to_markdown())
        return "\n\n".join(parts)

    def to_latex(self) -> str:
        """Return `table` as a LaTeX `tabular` for the package booktabs."""
        return self.table.to_latex()

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
