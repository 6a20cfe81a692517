"""One call from predictions to the numbers that a paper reports, and to their protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from nextloc_metrics.display.page import show_meanings
from nextloc_metrics.display.reading import Reading
from nextloc_metrics.display.result import Result
from nextloc_metrics.display.table import Table
from nextloc_metrics.pages.sections import (
    show_ceiling,
    show_deciles,
    show_distances,
    show_groups,
    show_headline,
    show_probabilities,
    show_ties,
)
from nextloc_metrics.report.ceiling import Ceiling
from nextloc_metrics.report.groups import check_kind, records_of

Interval = tuple[float, float]


@dataclass(repr=False)
class Evaluation(Result):
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

    title: ClassVar[str] = "Evaluation"
    _prints_card: ClassVar[bool] = True

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

    def _printed(self) -> list[Table]:
        return [self.table, *([] if self.ceiling is None else [self.ceiling.table])]

    def _others(self) -> dict[str, Table]:
        found = {f"By {name}": table for name, table in self.groups.items()}
        if self.deciles is not None:
            found["By popularity of the target"] = self.deciles
        if self.ceiling is not None:
            found["How far from the ceiling"] = self.ceiling.table
        return found

    def sections(self) -> dict[str, str]:
        counted = self._counted
        parts, level = counted.parts, counted.setting.confidence_level
        sections = {
            "Result": show_headline(self.columns, self.table, self.skill, level)
            + show_meanings(self._members())
        }
        for kind, table in self.groups.items():
            name, member = next(iter(parts[f"by {kind}"].named_members()))
            caption = "; ".join([f"{name} by {kind}", *counted.note_intervals(kind)])
            sections[f"By {kind}"] = show_groups(caption, member, table, level)
        if self.ceiling is not None:
            section = show_ceiling(self.ceiling.rows, self.ceiling.table, level)
            sections["How far from the ceiling"] = section
        if "map" in parts:
            by_location, locations = parts["map"]["acc_at_1"], counted.data.locations
            sections["Distance"] = show_distances(by_location, locations, counted.headline)
        if self.deciles is not None:
            notes = counted.note_intervals()
            section = show_deciles(parts["deciles"], self.deciles, notes, level)
            sections["By popularity of the target"] = section
        if counted.setting.probabilities:
            sections["Probabilities"] = show_probabilities(parts["probabilities"], level)
        sections["Ties"] = show_ties(self.values, self.ties)
        return sections

    def _members(self) -> list[tuple[Any, Any]]:
        """Return name and metric of each row of the headline."""
        return [(name, metric) for name, metric in self._counted.rows() if name in self.values]
