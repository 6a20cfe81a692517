"""One call from predictions to the numbers that a paper reports, and to their protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nextloc_metrics.display.formats import markdown, one_line, write_cell
from nextloc_metrics.display.reading import Reading
from nextloc_metrics.display.table import Table
from nextloc_metrics.protocols import Audit
from nextloc_metrics.report import page
from nextloc_metrics.report.ceiling import Ceiling
from nextloc_metrics.report.groups import check_kind, records_of

Interval = tuple[float, float]


@dataclass(repr=False)
class Evaluation:
    """The result of `evaluate`; `print` shows the headline and the card.

    The headline is a table with one row per metric. Dicts have the names of metrics as keys.

    Attributes:
        values: the value of each metric: a fraction, or km for distances.
        intervals: the lower and upper bound of the confidence interval of each mean of scores.
        chance: the chance level: the expected values of a random ranking; empty for lists.
        baseline: the values if all queries rank locations by `train_counts`; empty without them.
        skill: the value on a scale where the baseline is 0 and a perfect ranking is 1.
        ties: two values: tied relevant locations come last, and they come first.
        groups: for each kind of groups, a table of values, intervals and numbers of queries; its
            records have all groups, its text the medians if there are more than a hundred.
        deciles: the decile metrics, as a table; None without bins.
        card: the protocol card: the options, and the numbers of queries counted and left out.
        table: the headline.
        columns: the numbers of the headline, by column and row.
        ceiling: Acc@1 between chance and the limit of predictability; None without `history`.
    """

    values: dict[str, float]
    intervals: dict[str, Interval]
    card: dict[str, Any]
    table: Table
    chance: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)
    skill: dict[str, float] = field(default_factory=dict)
    ties: dict[str, Interval] = field(default_factory=dict)
    groups: dict[str, Table] = field(default_factory=dict)
    deciles: Table | None = None
    columns: dict[str, dict[str, Reading]] = field(default_factory=dict)
    ceiling: Ceiling | None = None
    _counted: Any = None

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the counts to a file; `merge` adds up such files of different queries.

        Args:
            path: the file, `.npz`; it is written whole, or not at all.
            force: overwrite an existing file.

        Raises:
            FileExistsError: the file exists, and `force` is False, or it is a link or a folder.
        """
        self._counted.save(Path(path), force)

    def to_pandas(self) -> Any:
        """Return the headline as a `pandas.DataFrame`, one row per metric."""
        return self.table.to_pandas()

    def group_records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the values of all groups, one dict per kind, metric and group.

        Args:
            kind: the name of the groups; None for all kinds.

        Returns:
            Dicts with `kind`, `group`, `metric`, `value`, `low`, `high` and `queries`.

        Raises:
            ValueError: there are no groups of that name.

        Example:
            >>> from nextloc_metrics import report
            >>> e = report.evaluate([[3, 5], [4, 2]], [3, 2], k=1, groups={"user": ["bob", "ann"]})
            >>> [(x["group"], x["value"]) for x in e.group_records("user") if x["metric"] == "mrr"]
            [('ann', 0.5), ('bob', 1.0)]
        """
        kinds = check_kind(self._counted, kind)
        return [record for kind in kinds for record in records_of(self._counted, kind)]

    def to_markdown(self) -> str:
        """Return the headline, all tables and the card as Markdown."""
        parts = [self.table.to_markdown()]
        parts += [
            f"By {markdown(one_line(name))}:\n\n{table.to_markdown()}"
            for name, table in self.groups.items()
        ]
        if self.deciles is not None:
            parts.append(f"By popularity of the target:\n\n{self.deciles.to_markdown()}")
        if self.ceiling is not None:
            parts.append(f"How far from the ceiling:\n\n{self.ceiling.table.to_markdown()}")
        rows = [[name.replace("_", " "), write_cell(value)] for name, value in self.card.items()]
        return "\n\n".join([*parts, Table(["protocol", ""], rows).to_markdown()])

    def to_html(
        self,
        title: str = "Evaluation",
        audit: Audit | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> str:
        """Return all results as one HTML page with pictures, without links to other files.

        Args:
            title: the title of the page.
            audit: the result of `protocols.audit`, to show on the page.
            source: what was read, by name, such as files, date and command; shown as a card.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
        """
        counted = self._counted
        confidence = counted.setting.confidence
        sections = {
            "Result": page.show_headline(self.columns, self.table, self.skill, confidence)
            + page.show_meanings(self._members()),
            **{
                f"By {kind}": page.show_groups(kind, table, counted)
                for kind, table in self.groups.items()
            },
        }
        if self.ceiling is not None:
            sections["How far from the ceiling"] = page.show_ceiling(self.ceiling)
        if counted.data.locations is not None and not counted.setting.is_weighted:
            sections["Distance"] = page.show_distances(counted)
        if self.deciles is not None:
            content = page.show_deciles(counted) + page.show_table(self.deciles)
            sections["By popularity of the target"] = content
        if counted.setting.probabilities:
            sections["Probabilities"] = page.show_probabilities(counted)
        sections["Ties"] = page.show_ties(self.values, self.ties)
        sections["Protocol"] = page.show_card(self.card)
        if audit is not None:
            sections["Under the protocols of other codebases"] = page.show_audit(audit)
        return page.write_page(title, sections, source)

    def _members(self) -> list[tuple[Any, Any]]:
        """Return name and metric of each row of the headline."""
        parts = self._counted.parts
        collections = [self._counted.headline]
        collections += [parts["probabilities"]] if "probabilities" in parts else []
        return [
            (name, x)
            for one in collections
            for name, x in one.named_members()
            if name in self.values
        ]

    def __repr__(self) -> str:
        lines = [f"{name.replace('_', ' ')}: {write_cell(x)}" for name, x in self.card.items()]
        ceiling = [] if self.ceiling is None else [str(self.ceiling.table)]
        return "\n".join([str(self.table), *ceiling, *lines])
