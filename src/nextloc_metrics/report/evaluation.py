"""The result of `evaluate`: values, tables and records from counts, and what a page shows."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import torch

from nextloc_metrics import analysis
from nextloc_metrics.analysis import Predictability
from nextloc_metrics.core.display.page import Result, show_meanings
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.table import Table, across, csv_cell, of_readings
from nextloc_metrics.core.means import intervals
from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.readings import read_results
from nextloc_metrics.core.outputs import new_file
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.by_group import rows_of_groups, sentence_of
from nextloc_metrics.report.comparisons import Comparisons
from nextloc_metrics.report.counted import Counted, merge_counted
from nextloc_metrics.report.files.opening import Lazy, pa
from nextloc_metrics.report.pages.sections import (
    show_ceiling,
    show_deciles,
    show_distances,
    show_groups,
    show_headline,
    show_probabilities,
    show_ties,
)
from nextloc_metrics.report.parts import AMONG_ANSWERED, BASELINE, BASELINE_BY_USER, FREQUENCIES
from nextloc_metrics.report.setting import check_metrics

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
        counts: the model beside counts of the person's visits, with paired differences, from
            `evaluate` with `history`; not with weights or grades, and None after `merge`.
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
    counts: Comparisons | None = None
    _counted: Any = None

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the counts to a file; `merge` adds up such files of different queries.

        Args:
            path: the file, `.npz`; it is written whole, or not at all.
            force: overwrite an existing file.

        Raises:
            FileExistsError: the file exists, and `force` is False, or it is a link or a folder.
            ValueError: the name has another suffix.
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
        kinds = self._counted.setting.groups
        if kind is not None and kind not in kinds:
            raise ValueError(f"`kind` must be one of {short(list(kinds))}, got {short(kind)}.")
        kinds = kinds if kind is None else (kind,)
        return [record for kind in kinds for record in records_of(self._counted, kind)]

    def _printed(self) -> list[Table]:
        found = [None if one is None else one.table for one in (self.ceiling, self.counts)]
        return [self.table, *(table for table in found if table is not None)]

    def _others(self) -> dict[str, Table]:
        found = {f"By {name}": table for name, table in self.groups.items()}
        if self.deciles is not None:
            found["By popularity of the target"] = self.deciles
        if self.ceiling is not None:
            found["How far from the ceiling"] = self.ceiling.table
        if self.counts is not None:
            found["Beside counts of visits"] = self.counts.table
        return found

    def sections(self) -> dict[str, str]:
        counted = self._counted
        parts, level = counted.parts, counted.setting.confidence_level
        sections = {
            "Result": f"<p>{escape(self._sentence())}</p>\n"
            + show_headline(self.columns, self.table, self.skill, level)
            + show_meanings(self._members())
        }
        for kind, table in self.groups.items():
            name, member = next(iter(parts[f"by {kind}"].named_members()))
            notes = counted.note_intervals(kind)
            sections[f"By {kind}"] = show_groups(f"{name} by {kind}", notes, member, table, level)
        if self.ceiling is not None:
            section = show_ceiling(self.ceiling.rows, self.ceiling.table, level)
            sections["How far from the ceiling"] = section
        if self.counts is not None:
            sections["Beside counts of visits"] = self.counts.sections()["Result"]
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

    def _sentence(self) -> str:
        """Return the result in a sentence."""
        counted = self._counted
        labels = {x: y for x, y in counted.labels.items() if f"by {x}" in counted.parts}
        by_kind = {x: (counted.parts[f"by {x}"], len(names)) for x, names in labels.items()}
        queries = counted.card["queries"] - counted.card["left_out"]
        return sentence_of(self.values, queries, by_kind)

    def _members(self) -> list[tuple[Any, Any]]:
        """Return name and metric of each row of the headline."""
        return [(name, metric) for name, metric in self._counted.rows() if name in self.values]


@dataclass(frozen=True, repr=False)
class Ceiling:
    """Acc@1 of a model between the floor and the ceiling; see `history` of `evaluate`.

    All rows are means over the same users: those with enough visits in `history`, and a query.

    Attributes:
        limits: the limits of all users of `history`; those not in the means are flagged.
        rows: chance, the most frequent location, the model, the limit of shuffled visits, and the
            limit, with their intervals.
        confidence_level: the confidence level of the intervals.
    """

    limits: Predictability
    rows: dict[str, Reading]
    confidence_level: float

    @property
    def share(self) -> float:
        """The share of the way from the baseline to the limit; chance without a baseline."""
        return self._share("limit")

    @property
    def table(self) -> Table:
        """The rows with notes on the users and on the share."""
        notes = ["no limit: no user has enough visits and a query"]
        if users := int((~self.limits.few_visits).sum()):
            notes = [
                f"mean over {users:,} users; {int(self.limits.few_visits.sum()):,} users left out",
                f"way from the baseline to the limit: {100 * self.share:.0f} %; to the limit of "
                f"shuffled visits: {100 * self._share('limit of shuffled visits'):.0f} %",
                "limits of short histories are too high; shuffled visits have nothing to learn but "
                "their shares",
            ]
        return of_readings({"acc_at_1": self.rows}, self.confidence_level, notes)

    def __repr__(self) -> str:
        return str(self.table)

    def _share(self, limit: str) -> float:
        floor = self.rows.get("most frequent", self.rows.get("chance"))
        floor_value = 0.0 if floor is None else floor.value
        return (self.rows["model"].value - floor_value) / (self.rows[limit].value - floor_value)


def ceiling_of(counted: Counted) -> Ceiling:
    """Return the rows, of counts with a part `ceiling`. Users without a query are flagged."""
    limits, setting = counted.data.limits, counted.setting
    assert limits is not None  # of which that part is
    parts = {BASELINE: counted.parts.get(BASELINE_BY_USER), "model": counted.parts["ceiling"]}
    by_user: dict[str, Any] = {
        name: part["acc_at_1"] for name, part in parts.items() if part is not None
    }
    names = counted.names_of(setting.by_user)
    has_query = {name for name, n in zip(names, by_user["model"]._numbers()[0], strict=False) if n}
    users = list(map(str, limits.users))
    few_visits = limits.few_visits | torch.tensor([user not in has_query for user in users])
    limits = replace(limits, few_visits=few_visits)
    kept = {user for user, few in zip(users, few_visits.tolist(), strict=True) if not few}
    is_kept = torch.tensor([name in kept for name in names])
    rows = {}
    if not setting.chance_varies and setting.candidates is not None:
        rows["chance"] = Reading(1 / setting.candidates, None, True)
    for name, metric in by_user.items():
        mean = intervals.of_groups(metric.state[: len(names)] * is_kept[:, None])
        low, high = mean.interval(setting.confidence_level)
        rows[name] = Reading(float(mean.mean), (float(low), float(high)), True)
    means = limits.means(setting.confidence_level)
    for name, of_users in {"limit of shuffled visits": "shuffled", "limit": "limit"}.items():
        value, *bounds = means[of_users]
        rows[name] = Reading(value, (bounds[0], bounds[1]), True)
    return Ceiling(limits, rows, setting.confidence_level)


def merge(
    shards: Iterable[str | Path | Evaluation], *, metrics: Any = None, allow_equal: bool = False
) -> Evaluation:
    """Merge evaluations of different queries; values equal those of one evaluation bit for bit.

    Args:
        shards: files that `Evaluation.save` wrote, or evaluations.
        metrics: the `metrics` of the evaluations, which files name and do not hold.
        allow_equal: whether shards with equal queries, groups and ranks are allowed.

    Raises:
        FileNotFoundError: a file does not exist.
        TypeError: `shards` is one file or one evaluation.
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
    own = check_metrics(metrics)
    if isinstance(shards, (str, Path, Evaluation)):
        raise TypeError(
            f"`shards` must be a list of files or evaluations, got {short(shards)}; for a pattern, "
            "use `Path().glob(...)`."
        )
    read = [
        (f"evaluation {number}", shard._counted)
        if isinstance(shard, Evaluation)
        else (str(shard), Counted.load(Path(shard), own))
        for number, shard in enumerate(shards)
    ]
    if not read:
        raise ValueError("`shards` must hold at least one evaluation, got none.")
    return evaluation_of(merge_counted(read, allow_equal))


def evaluation_of(counted: Counted) -> Evaluation:
    """Compute values and tables from the counts."""
    setting, parts = counted.setting, counted.parts
    readings = _read_values(counted)
    values = {name: one.value for name, one in readings.items()}
    references = _references(counted)
    columns = {"value": readings}
    for title in (AMONG_ANSWERED, "chance", BASELINE):
        if title in references:
            columns[title] = {
                name: reading._replace(value=references[title][name], bounds=None)
                for name, reading in readings.items()
                if name in references[title]
            }
    bounds = [parts[ties].compute() for ties in ("pessimistic", "optimistic")]
    groups = {
        kind: _table_of_kind(counted, kind) for kind in setting.groups if f"by {kind}" in parts
    }
    baseline = references.get(BASELINE, {})
    higher = {name: metric.higher_is_better for name, metric in counted.rows()}
    return Evaluation(
        values=values,
        intervals={name: one.bounds for name, one in readings.items() if one.bounds},
        card=counted.describe(),
        table=_table_of_headline(counted, columns),
        chance=references.get("chance", {}),
        baseline=baseline,
        skill={
            name: analysis.skill(values[name], x)
            for name, x in baseline.items()
            if readings[name].is_fraction and higher[name]
        },
        ties={name: (float(bounds[0][name]), float(bounds[1][name])) for name in bounds[0]},
        groups=groups,
        deciles=_table_of_groups(counted, "deciles", counted.note_intervals())
        if "deciles" in parts
        else None,
        columns=columns,
        ceiling=ceiling_of(counted) if "ceiling" in parts else None,
        _counted=counted,
    )


def _read_values(counted: Counted) -> dict[str, Reading]:
    """Compute the metrics of all rows; intervals are clustered if asked."""
    rows = RankingCollection(dict(counted.rows()))
    confidence_level = counted.setting.confidence_level
    results = rows.results(confidence_level, count=False)
    if "cluster" in counted.parts:
        clustered = counted.parts["cluster"].results(confidence_level, count=False)
        results = results._replace(intervals=clustered.intervals)
    estimates = {name: x._estimate() for name, x in counted.left_out().items()}
    of_f1 = {name: x.interval(confidence_level) for name, x in estimates.items()}
    results = results._replace(intervals=results.intervals | of_f1)
    return read_results(rows, results, keep_base=False, by_group=False)


def _references(counted: Counted) -> dict[str, dict[str, float]]:
    """Compute the values of chance and of the most frequent locations."""
    setting = counted.setting
    references = {}
    for title in (BASELINE, "chance", AMONG_ANSWERED, FREQUENCIES):
        if part := counted.parts.get(title):
            values = part.results(None).values if title == AMONG_ANSWERED else part.compute()
            references[title] = {name: float(value) for name, value in values.items()}
    if "chance" in references:  # without the metrics of decisions, which have no chance level
        known = analysis.chance(counted.headline, setting.candidates or 1)
        references["chance"] = {name: references["chance"][name] for name in known}
    if setting.candidates is not None and not setting.chance_varies:
        references["chance"] = analysis.chance(counted.headline, setting.candidates)
    if setting.probabilities and setting.candidates is not None:
        number = setting.candidates
        equal = {"nll": math.log(number), "perplexity": float(number), "brier": 1 - 1 / number}
        references["chance"] |= equal
    if FREQUENCIES in references:
        references[BASELINE] |= references.pop(FREQUENCIES)
    return references


def _table_of_headline(counted: Counted, columns: Mapping[str, Mapping[str, Reading]]) -> Table:
    """Make the table of all queries; a dagger marks values at k beyond the longest list."""
    cuts = counted.cuts_beyond_lists()
    marks = {name: "†" for name, member in counted.rows() if getattr(member, "k", None) in cuts}
    first, *others = counted.note_lists() or [""]
    notes = [f"† {first}" if cuts else first, *others] if first else []
    if "nll" in columns["value"]:
        notes.append(
            "nll, perplexity, brier: chance is equal probabilities, most frequent the training "
            "visits plus one"
        )
    return of_readings(columns, counted.setting.confidence_level, notes, {"value": marks})


def _table_of_kind(counted: Counted, kind: str) -> Table:
    """Make the table of one kind of groups; it computes its records when they are read."""
    level, records = counted.setting.confidence_level, partial(titled_records, counted, kind)
    rows, notes = rows_of_groups(counted.parts[f"by {kind}"], counted.names_of(kind), level)
    return across(
        rows, level, [*counted.note_lists(), *notes, *counted.note_intervals(kind)], records
    )


def _table_of_groups(counted: Counted, part: str, notes: Sequence[str]) -> Table:
    notes = [*counted.note_lists(), *notes]
    confidence_level = counted.setting.confidence_level
    return counted.parts[part].table(intervals=True, confidence_level=confidence_level, notes=notes)


# The columns of a file of groups.
_COLUMNS = ("kind", "group", "metric", "value", "low", "high", "queries")


def records_of(counted: Counted, kind: str) -> list[dict[str, Any]]:
    """Return a record per metric and group of one kind."""
    return [
        dict(zip(_COLUMNS, cells, strict=True))
        for columns in _columns_of(counted, kind)
        for cells in zip(*columns, strict=True)
    ]


def titled_records(counted: Counted, kind: str) -> list[dict[str, Any]]:
    """Return the records with metric and group in one title, as tables show them."""
    return [
        {"metric": f"{record['metric']}, {record['group']}"}
        | {name: record[name] for name in _COLUMNS[3:]}
        for record in records_of(counted, kind)
    ]


def write_groups(counted: Counted, path: Path, force: bool = False) -> None:
    """Write a row per kind, group and metric to a file, .csv or .parquet.

    In CSV, `'` stands before a name that a spreadsheet would read as a formula.

    Raises:
        ValueError: the evaluation has no groups.
    """
    kinds = counted.setting.groups
    if not kinds:
        raise ValueError(
            "`--group-table` needs an evaluation with groups, got none; use `score --group COLUMN`."
        )
    blocks = (block for kind in kinds for block in _columns_of(counted, kind))
    if path.suffix == ".csv":
        with new_file(path, force, text=True) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_COLUMNS)
            for block in blocks:
                rows = zip(*block, strict=True)
                writer.writerows(map(csv_cell, row) for row in rows)
        return
    parquet = Lazy("pyarrow.parquet")
    types = [pa.string()] * 3 + [pa.float64()] * 3 + [pa.int64()]
    schema = pa.schema(list(zip(_COLUMNS, types, strict=True)))
    with new_file(path, force) as file, parquet.ParquetWriter(file, schema) as writer:
        for block in blocks:
            arrays = [pa.array(x, of) for x, of in zip(block, types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _columns_of(counted: Counted, kind: str) -> Iterator[list[list[Any]]]:
    """Yield the columns of each metric; none if there is no group."""
    collection = counted.parts.get(f"by {kind}")
    if collection is None:
        return
    results = collection.results(counted.setting.confidence_level)
    groups = list(counted.names_of(kind))
    size = len(groups)
    for name in results.numbers:
        bounds = [x.tolist() for x in results.intervals.get(name, ())] or [[math.nan] * size] * 2
        values, numbers = results.values[name].tolist(), results.numbers[name].tolist()
        yield [[kind] * size, groups, [name] * size, values, *bounds, numbers]
