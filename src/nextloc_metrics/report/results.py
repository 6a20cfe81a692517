"""Values and tables from counts: the last step of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nextloc_metrics import analysis
from nextloc_metrics.base.readings import MOST_ROWS, Results, read_results
from nextloc_metrics.display.reading import Reading
from nextloc_metrics.display.table import Table, of_readings
from nextloc_metrics.report.ceiling import ceiling_of
from nextloc_metrics.report.counted import (
    BASELINE,
    BASELINE_BY_USER,
    FREQUENCIES,
    ROWS,
    Counted,
    merge_counted,
)
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.groups import titled_records
from nextloc_metrics.report.own_metrics import check_metrics


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
    readings, results = _read_values(counted)
    values = {name: float(value) for name, value in results.values.items()}
    references = _references(counted)
    columns = {"value": readings}
    for title in ("chance", BASELINE):
        if title in references:
            columns[title] = _column(readings, references[title])
    bounds = [parts[ties].compute() for ties in ("pessimistic", "optimistic")]
    groups = {
        kind: _table_of_kind(counted, kind) for kind in setting.groups if f"by {kind}" in parts
    }
    baseline = references.get(BASELINE, {})
    higher = {name: metric.higher_is_better for name, metric in counted.rows()}
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


def _read_values(counted: Counted) -> tuple[dict[str, Reading], Results]:
    """Compute the metrics of ranks and of probabilities; intervals are clustered if asked."""
    parts, confidence_level = counted.parts, counted.setting.confidence_level
    first, *others = read = [parts[name] for name in ROWS if len(parts[name])]
    results = first.results(confidence_level)
    for part in others:
        more = part.results(confidence_level)
        results = results._replace(
            values={**results.values, **more.values},
            intervals={**results.intervals, **more.intervals},
        )
    if "cluster" in parts:
        results = results._replace(intervals=parts["cluster"].results(confidence_level).intervals)
    readings = [read_results(part, results, keep_base=False, by_group=False) for part in read]
    return {name: one for part in readings for name, one in part.items()}, results


def _references(counted: Counted) -> dict[str, dict[str, float]]:
    """Compute the values of chance and of the most frequent locations."""
    setting = counted.setting
    references = {
        title: {name: float(value) for name, value in collection.compute().items()}
        for title, collection in counted.references.items()
        if title != BASELINE_BY_USER
    }
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
    notes, number = counted.note_intervals(kind), len(counted.labels[kind])
    if number > MOST_ROWS:  # the rows are medians, which have no interval
        notes = [f"each of the {number:,} groups: `e.group_records()`, or `--group-table FILE`"]
    table = _table_of_groups(counted, f"by {kind}", notes)
    return Table(table.header, table.rows, table.notes, partial(titled_records, counted, kind))


def _table_of_groups(counted: Counted, part: str, notes: Sequence[str]) -> Table:
    """Make the table of a part of the counts, with notes."""
    notes = [*counted.note_lists(), *notes]
    confidence_level = counted.setting.confidence_level
    return counted.parts[part].table(intervals=True, confidence_level=confidence_level, notes=notes)


def _column(readings: Mapping[str, Reading], values: Mapping[str, float]) -> dict[str, Reading]:
    return {
        name: reading._replace(value=values[name], bounds=None)
        for name, reading in readings.items()
        if name in values
    }
