"""The result of `evaluate`: values, tables, records and a page, all computed from counts."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from nextloc_metrics import analysis
from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.grouped import ClusteredGroups
from nextloc_metrics.core.display.page import Result, show_meanings, show_table
from nextloc_metrics.core.display.reading import Reading, plural
from nextloc_metrics.core.display.table import Table, across, csv_cell, of_readings
from nextloc_metrics.core.new_file import new_file
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.results.results import MOST_ROWS, Results, read_results, readings_of
from nextloc_metrics.report.counts import Counted
from nextloc_metrics.report.decile_table import DECILES, OF_DECILES, table_of_deciles
from nextloc_metrics.report.files.opening import Lazy, pa
from nextloc_metrics.report.parts import AMONG_ANSWERED, BASELINE, BOUNDS, CHANCE, FREQUENCIES
from nextloc_metrics.report.sections import (
    show_groups,
    show_map,
    show_probabilities,
    show_ties,
    show_values,
)
from nextloc_metrics.report.setting import check_alike, check_metrics

# How many groups a table shows below the medians, if there are more than a hundred.
_WORST = 10


class Evaluation(Result):
    """The result of `evaluate`; `print` shows the headline and the card.

    The headline is a table with one row per metric. Dicts have the names of metrics as keys. Each
    part is computed when it is first read.
    """

    title: ClassVar[str] = "Evaluation"
    _prints_card: ClassVar[bool] = True

    def __init__(self, counted: Counted) -> None:
        counted.name_groups()
        self._counted = counted

    @cached_property
    def values(self) -> dict[str, float]:
        """The value of each metric: a fraction, or km for distances."""
        return {name: one.value for name, one in self._readings.items()}

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The lower and upper bound of the confidence interval of each mean of scores."""
        bounds = self._counted.intervals()
        return {name: bounds[name] for name in self._readings if name in bounds}

    @cached_property
    def chance(self) -> dict[str, float]:
        """The chance level: the expected values of a random ranking; empty for lists."""
        return self._values_of(CHANCE)

    @cached_property
    def baseline(self) -> dict[str, float]:
        """The values if all queries rank locations by `train_counts`; empty without them."""
        return self._values_of(BASELINE)

    @cached_property
    def ties(self) -> dict[str, tuple[float, float]]:
        """Two values: tied relevant locations come last, and they come first."""
        high, low = map(self._values_of, BOUNDS)
        return {name: (low[name], high[name]) for name in low}

    @cached_property
    def groups(self) -> dict[str, Table]:
        """For each kind of groups, a table of values, intervals and numbers of queries.

        Its records have all groups, its text the medians if there are more than a hundred.
        """
        counted = self._counted
        return {kind: _table_of_kind(counted, kind) for kind in counted.kinds}

    @cached_property
    def deciles(self) -> Table | None:
        """Values by decile of the target, as a table; None without bins.

        The accuracy in full lists is first; the decile metrics, at ranks within the decile, follow.
        """
        return table_of_deciles(self._counted)

    @cached_property
    def card(self) -> dict[str, Any]:
        """The protocol card: the options, and the numbers of queries counted and left out."""
        return self._counted.describe()

    @cached_property
    def table(self) -> Table:
        """The headline; a dagger marks values at k beyond the longest list."""
        counted, columns = self._counted, self.columns
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

    @cached_property
    def columns(self) -> dict[str, dict[str, Reading]]:
        """The numbers of the headline, by column and row."""
        beside, bounds = self._beside, self.intervals
        table = {x: one._replace(bounds=bounds.get(x)) for x, one in self._readings.items()}
        return {"value": table} | {
            title: {name: beside[title][name] for name in table if name in beside[title]}
            for title in (AMONG_ANSWERED, CHANCE, BASELINE)
            if title in beside
        }

    @cached_property
    def _readings(self) -> dict[str, Reading]:
        """The values of the first table, without intervals."""
        return readings_of(RankingCollection(dict(self._counted.rows())))

    @cached_property
    def _beside(self) -> dict[str, dict[str, Reading]]:
        """The values beside those of the first table, without intervals, by title."""
        return {
            title: {x: self._readings[x]._replace(value=float(y)) for x, y in values.items()}
            for title, values in _values_beside(self._counted).items()
        }

    @cached_property
    def _by_group(self) -> dict[str, dict[str, Reading]]:
        """The values of deciles and of the user's own parts, with intervals, by title."""
        counted, readings = self._counted, dict[str, dict[str, Reading]]()
        parts = {DECILES: [counted.parts["deciles"]]} if "deciles" in counted.parts else {}
        user_parts = counted.setting.parts
        for name, own_collections in counted.user_parts.items():
            parts[user_parts[name].title] = [*own_collections.values()]
        for title, collections in parts.items():
            readings[title] = {}
            for collection in collections:
                results = collection.results(counted.setting.confidence_level)
                readings[title] |= read_results(collection, results, keep_base=False, by_group=True)
        return readings

    def _values_of(self, title: str) -> dict[str, float]:
        return {name: one.value for name, one in self._beside.get(title, {}).items()}

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the counts to a file; `merge` adds up such files of different queries.

        Args:
            path: the file, `.npz`; it is written whole, or not at all.
            force: overwrite an existing file.

        Raises:
            FileExistsError: the file exists, and `force` is False, or it is a link or a folder.
            ValueError: the name has another suffix.
        """
        self._counted.save(Path(path), force, self._counted.ids)

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

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield all values: those of the first table and beside it, of groups, of other parts.

        Each is a dict with `part` ("value", "chance", "by user", or the title of a part), `metric`,
        `group` ("" for all queries), `value`, `low`, `high`, `queries` (of a group) and `note`.

        Example:
            >>> from nextloc_metrics import report
            >>> e = report.evaluate([[0.2, 0.7, 0.1], [0.5, 0.2, 0.3]], [1, 2], k=1)
            >>> [(x["part"], x["value"]) for x in e.rows() if x["metric"] == "mrr"][:3]
            [('value', 0.75), ('optimistic', 0.75), ('pessimistic', 0.75)]
        """
        of_all = {"value": self.columns["value"], **self._beside}
        rows = [(title, x, "", y) for title, values in of_all.items() for x, y in values.items()]
        for title, readings in self._by_group.items():
            rows += [(title, *name.partition(", ")[::2], x) for name, x in readings.items()]
        for part, metric, group, reading in rows:
            low, high = reading.bounds or (math.nan, math.nan)
            numbers = {"value": reading.value, "low": low, "high": high, "queries": reading.number}
            note = reading.note or reading.footnote * bool(reading.dagger)
            yield {"part": part, "metric": metric, "group": group, **numbers, "note": note}
        for record in self.group_records():
            yield {"part": f"by {record.pop('kind')}", **record, "note": ""}

    def _others(self) -> dict[str, Table]:
        level = self._counted.setting.confidence_level
        tables_of_groups = {f"By {name}": table for name, table in self.groups.items()}
        tables = {x: of_readings({"value": y}, level) for x, y in self._by_group.items()}
        if self.deciles is not None:
            tables = {OF_DECILES: self.deciles, **tables}
            del tables[DECILES]
        return tables_of_groups | tables

    def sections(self) -> dict[str, str]:
        counted, level = self._counted, self._counted.setting.confidence_level
        parts: Any = counted.parts
        name_of_value = "model" if len(self.columns) > 1 else ""
        columns = {name_of_value if x == "value" else x: y for x, y in self.columns.items()}
        shown = show_values(columns, self.table, level) + show_meanings(counted.rows())
        sections = {"Result": shown}
        for kind, table in self.groups.items():
            sections[f"By {kind}"] = show_groups(kind, parts[f"by {kind}"], table, level)
        if (places := counted.setting.locations) is not None:
            sections["Distance"] = show_map(parts["map"]["acc_at_1"], places)
        if "probabilities" in parts:
            sections["Probabilities"] = show_probabilities(parts["probabilities"], level)
        if any(low < high for low, high in self.ties.values()):
            sections["Ties"] = show_ties(self.values, self.ties)
        others = self._others().items()
        tables = {title: show_table(table) for title, table in others if title not in sections}
        return sections | tables


def merge(shards: Iterable[str | Path | Evaluation], *, metrics: Any = None) -> Evaluation:
    """Merge evaluations of different queries; values equal those of one evaluation bit for bit.

    Args:
        shards: files that `Evaluation.save` wrote, or evaluations.
        metrics: the `metrics` of the evaluations, which files name and do not hold.

    Raises:
        FileNotFoundError: a file does not exist.
        TypeError: `shards` is one file or one evaluation.
        ValueError: there is no shard, one is merged twice, or shards have different settings; or a
            file is cut, was changed, or is not one that `Evaluation.save` wrote.

    Example:
        >>> from nextloc_metrics import report
        >>> first = report.evaluate([[3, 5]], [3], k=1, groups={"user": ["bob"]})
        >>> other = report.evaluate([[4, 2]], [2], k=1, groups={"user": ["ann"]})
        >>> both = report.merge([first, other])
        >>> both.values["acc_at_1"], both.values["mrr"], both.card["queries"]
        (0.5, 0.75, 2)
    """
    further_metrics = check_metrics(metrics)
    if isinstance(shards, (str, Path, Evaluation)):
        raise TypeError(
            f"`shards` must be a list of files or evaluations, got {short(shards)}; for a pattern, "
            "use `Path().glob(...)`."
        )
    read = [
        (f"evaluation {number}", shard._counted)
        if isinstance(shard, Evaluation)
        else (str(shard), Counted.load(Path(shard), further_metrics))
        for number, shard in enumerate(shards)
    ]
    if not read:
        raise ValueError("`shards` must hold at least one evaluation, got none.")
    used = [pair for pair in read if pair[1].card["queries"]] or read[:1]
    empty = [counted for _, counted in read if not any(counted is x for _, x in used)]
    first_name, first = used[0]
    total, seen = Counted(first.setting), dict[str, str]()
    for counted in empty:  # without a query, a shard may count predictions without truth
        total.card.update({name: number for name, number in counted.card.items() if number})
    for name, counted in used:
        check_alike(first_name, first.setting, name, counted.setting)
        if repeated := counted.ids & seen.keys():
            raise ValueError(
                "every shard must be merged once, got the same evaluation in "
                f"{seen[min(repeated)]} and {name}; leave one of them out."
            )
        seen |= dict.fromkeys(counted.ids, name)
        total.merge(counted)
    return Evaluation(total)


def _values_beside(counted: Counted) -> dict[str, dict[str, Any]]:
    """Compute the values of the other columns of the first table, by title and metric."""
    parts, number = counted.parts, counted.setting.candidates
    titles = [title for title in (*BOUNDS, CHANCE, BASELINE) if title in parts]
    values = {title: parts[title].compute() for title in titles}
    if AMONG_ANSWERED in parts:
        values[AMONG_ANSWERED] = parts[AMONG_ANSWERED].results(None).values
    if FREQUENCIES in parts:
        values[BASELINE] |= parts[FREQUENCIES].compute()
    if number is not None:  # metrics of decisions have no chance level
        expected = analysis.chance(counted.headline, number)
        values[CHANCE] = {name: values.get(CHANCE, expected)[name] for name in expected}
        if counted.setting.probabilities:
            equal = {"nll": math.log(number), "perplexity": float(number), "brier": 1 - 1 / number}
            values[CHANCE] |= equal
    return values


def _table_of_kind(counted: Counted, kind: str) -> Table:
    """Make the table of one kind of groups; it computes its records when they are read.

    With more than a hundred groups, it has the medians and the ten worst by the first metric.
    """
    level, records = counted.setting.confidence_level, partial(titled_records, counted, kind)
    collection, (groups, results) = counted.parts[f"by {kind}"], counted.results_of(kind)
    notes, users = counted.note_lists(), dict[str, dict[str, int]]()
    members: dict[str, Any] = dict(collection.named_members())
    (name, first), *_ = members.items()
    shown, rows = list(range(len(groups))), dict[str, dict[str, Reading]]()
    if len(groups) > MOST_ROWS:
        title, shown = _worst(name, first, results)
        medians = read_results(collection, results, keep_base=False, by_group=False)
        rows[medians[name].note] = medians
        notes += [
            f"below the medians: {title}; of equal ones, those with more queries",
            f"each of the {len(groups):,} {plural(kind)}: --group-table FILE",
        ]
    rows |= {groups[i]: _row(members, results, i) for i in shown}
    if isinstance(first, ClusteredGroups):  # a column has the number of clusters, such as users
        users = {plural(first.cluster): counted.clusters_of(kind, first)}
    return across(rows, level, [*notes, *counted.note_intervals(kind)], records, users)


def _row(members: dict[str, Any], results: Results, i: int) -> dict[str, Reading]:
    """Return the values of one group."""
    readings = {}
    for name, metric in members.items():
        ends = results.intervals.get(name)
        readings[name] = Reading(
            float(results.values[name][i]),
            None if ends is None else (float(ends[0][i]), float(ends[1][i])),
            metric.plot_upper_bound == 1,
            number=int(results.numbers[name][i]),
            unit=metric.unit,
        )
    return readings


def _worst(name: str, metric: Any, results: Results) -> tuple[str, list[int]]:
    """Return a title for the groups with the worst values of a metric, and their numbers.

    Among groups with equal values, those with more queries are first.
    """
    values, rises = results.values[name], metric.higher_is_better is not False
    by_number = results.numbers[name].argsort(descending=True, stable=True)
    by_number = by_number[~values[by_number].isnan()]
    order = values[by_number].argsort(descending=not rises, stable=True)[:_WORST]
    ends = "lowest" if rises else "highest"
    title = f"the {len(order)} {plural(metric.group_kind.by)} with the {ends} {name}"
    return title, [int(i) for i in by_number[order]]


# The columns of a file of groups.
_COLUMNS = ("kind", "group", "metric", "value", "low", "high", "queries")


def records_of(counted: Counted, kind: str) -> list[dict[str, Any]]:
    """Return a record per metric and group of one kind."""
    return [
        dict(zip(_COLUMNS, cells, strict=True))
        for columns in counted.columns_of(kind)
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
    blocks = (block for kind in kinds for block in counted.columns_of(kind))
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
            arrays = [pa.array(x, kind) for x, kind in zip(block, types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
