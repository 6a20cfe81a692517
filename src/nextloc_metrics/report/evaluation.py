"""One call from predictions to the numbers that a paper reports, and to their protocol."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from nextloc_metrics import analysis
from nextloc_metrics.base.readings import MOST_ROWS, read_results
from nextloc_metrics.display.formats import one_line
from nextloc_metrics.display.reading import Reading
from nextloc_metrics.display.table import Table, of_readings
from nextloc_metrics.protocols import Audit
from nextloc_metrics.report import page
from nextloc_metrics.report.counted import FREQUENCIES, Counted, merge_counted
from nextloc_metrics.report.groups import check_kind, records_of, titled_records
from nextloc_metrics.report.page import write_cell

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
    _counted: Any = None

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the counts to a file; `merge` adds up such files of different queries.

        Args:
            path: the file, `.npz`; an interrupted call leaves no partial file.
            force: overwrite an existing file.

        Raises:
            FileExistsError: the file exists, and `force` is False.
        """
        path = Path(path)
        if path.exists() and not force:
            raise FileExistsError(f"{path} exists; overwrite it with `force=True`.")
        self._counted.save(path)

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
            f"By {one_line(name)}:\n\n{table.to_markdown()}" for name, table in self.groups.items()
        ]
        if self.deciles is not None:
            parts.append(f"By popularity of the target:\n\n{self.deciles.to_markdown()}")
        rows = [[name.replace("_", " "), write_cell(value)] for name, value in self.card.items()]
        return "\n\n".join([*parts, Table(["protocol", ""], rows).to_markdown()])

    def to_html(self, title: str = "Evaluation", audit: Audit | None = None) -> str:
        """Return all results as one HTML page with pictures, without links to other files.

        Args:
            title: the title of the page.
            audit: the result of `protocols.audit`, to show on the page.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
        """
        counted = self._counted
        confidence = counted.setting.confidence
        sections = {
            "Result": page.show_headline(self.columns, self.table, self.skill, confidence),
            **{
                f"By {kind}": page.show_groups(kind, table, counted)
                for kind, table in self.groups.items()
            },
        }
        if counted.locations is not None and not counted.setting.is_weighted:
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
        return page.write_page(title, sections)

    def __repr__(self) -> str:
        lines = [f"{name.replace('_', ' ')}: {write_cell(x)}" for name, x in self.card.items()]
        return "\n".join([str(self.table), *lines])


def merge(shards: Iterable[str | Path | Evaluation], *, allow_equal: bool = False) -> Evaluation:
    """Merge evaluations of different queries; values equal those of one evaluation bit for bit.

    Args:
        shards: files that `Evaluation.save` wrote, or evaluations.
        allow_equal: whether shards with equal queries, groups and ranks are allowed.

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: there is no shard, a shard is repeated, or shards have different settings; or a
            file is cut, was changed, or is not one that `Evaluation.save` wrote.

    Example:
        >>> from nextloc_metrics import report
        >>> first = report.evaluate([[3, 5]], [3], k=1, groups={"user": ["bob"]}, num_locations=9)
        >>> other = report.evaluate([[4, 2]], [2], k=1, groups={"user": ["ann"]}, num_locations=9)
        >>> both = report.merge([first, other])
        >>> both.values["acc_at_1"], both.values["mrr"], both.card["queries"]
        (0.5, 0.75, 2)
    """
    read = [
        (f"evaluation {number}", shard._counted)
        if isinstance(shard, Evaluation)
        else (str(shard), Counted.load(Path(shard)))
        for number, shard in enumerate(shards)
    ]
    if not read:
        raise ValueError("`shards` must hold at least one evaluation, got none.")
    return evaluation_of(merge_counted(read, allow_equal))


def evaluation_of(counted: Counted) -> Evaluation:
    """Compute values and tables from the counts."""
    setting, parts, confidence = counted.setting, counted.parts, counted.setting.confidence
    headline = counted.headline
    results = headline.results(confidence)
    readings = read_results(headline, results, False, False)
    if setting.probabilities:
        of_shares = parts["probabilities"].results(confidence)
        readings |= read_results(parts["probabilities"], of_shares, False, False)
        results = results._replace(
            values={**results.values, **of_shares.values},
            intervals={**results.intervals, **of_shares.intervals},
        )
    if "cluster" in parts:
        intervals = parts["cluster"].results(confidence).intervals
        results = results._replace(intervals={**results.intervals, **intervals})
    values = {name: float(value) for name, value in results.values.items()}
    columns = {
        "value": {
            name: one._replace(bounds=_ends(results.intervals.get(name)))
            for name, one in readings.items()
        }
    }
    references = {
        title: {name: float(value) for name, value in collection.compute().items()}
        for title, collection in counted.references.items()
    }
    if "chance" in references:  # without the metrics of decisions, which have no chance level
        known = analysis.chance(headline, setting.candidates or 1)
        references["chance"] = {name: references["chance"][name] for name in known}
    if setting.candidates is not None and not setting.chance_varies:
        references["chance"] = analysis.chance(headline, setting.candidates)
    if "nll" in values:
        number = setting.candidates or 1
        equal = {"nll": math.log(number), "perplexity": float(number), "brier": 1 - 1 / number}
        references["chance"] = references.get("chance", {}) | equal
        if FREQUENCIES in references:
            references["most frequent"] |= references.pop(FREQUENCIES)
    for title in ("chance", "most frequent"):
        if title in references:
            columns[title] = _column(columns["value"], references[title])
    bounds = [parts[ties].compute() for ties in ("pessimistic", "optimistic")]
    groups = {
        kind: _table_of_kind(counted, kind) for kind in setting.groups if f"by {kind}" in parts
    }
    baseline = references.get("most frequent", {})
    return Evaluation(
        values=values,
        intervals={
            name: (float(low), float(high)) for name, (low, high) in results.intervals.items()
        },
        card=counted.describe(),
        table=_table_of_headline(counted, columns),
        chance=references.get("chance", {}),
        baseline=baseline,
        skill={
            name: analysis.skill(values[name], x)
            for name, x in baseline.items()
            if columns["value"][name].is_fraction
        },
        ties={name: (float(bounds[0][name]), float(bounds[1][name])) for name in bounds[0]},
        groups=groups,
        deciles=_table_of_groups(counted, "deciles") if "deciles" in parts else None,
        columns=columns,
        _counted=counted,
    )


def _table_of_headline(counted: Counted, columns: Mapping[str, Mapping[str, Reading]]) -> Table:
    """Make the table of all queries; a dagger marks values at k beyond the longest list."""
    cuts = counted.cuts_beyond_lists()
    members = counted.headline.named_members()
    marks = {name: "†" for name, member in members if getattr(member, "k", None) in cuts}
    first, *others = counted.note_lists() or [""]
    notes = [f"† {first}" if cuts else first, *others] if first else []
    if "nll" in columns["value"]:
        notes.append(
            "nll, perplexity, brier: chance is equal probabilities, most frequent the training "
            "visits plus one"
        )
    return of_readings(columns, counted.setting.confidence, notes, {"value": marks})


def _table_of_kind(counted: Counted, kind: str) -> Table:
    """Make the table of one kind of groups; it computes its records when they are read."""
    table = _table_of_groups(counted, f"by {kind}", kind)
    notes, number = list(table.notes), len(counted.labels[kind])
    if number > MOST_ROWS:
        notes.append(f"each of the {number:,} groups: `group_records`, or `--group-table FILE`")
    return Table(table.header, table.rows, notes, partial(titled_records, counted, kind))


def _table_of_groups(counted: Counted, part: str, kind: str = "") -> Table:
    """Make the table of a part of the counts, with a note on its intervals."""
    notes = [*counted.note_lists(), *counted.note_intervals(kind)]
    confidence = counted.setting.confidence
    return counted.parts[part].table(intervals=True, confidence=confidence, notes=notes)


def _ends(bounds: tuple[Any, Any] | None) -> Interval | None:
    return None if bounds is None else (float(bounds[0]), float(bounds[1]))


def _column(readings: Mapping[str, Reading], values: Mapping[str, float]) -> dict[str, Reading]:
    return {
        name: reading._replace(value=values[name], bounds=None)
        for name, reading in readings.items()
        if name in values
    }
