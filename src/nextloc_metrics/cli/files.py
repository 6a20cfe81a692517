"""What commands do with files of predictions: read, evaluate, write."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import click

from nextloc_metrics.cli.options import TEXTS, Output
from nextloc_metrics.core.display.page import Result
from nextloc_metrics.core.display.table import Table, one_line
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.geography import Locations
from nextloc_metrics.report.comparisons import Comparisons
from nextloc_metrics.report.decile_table import OF_DECILES
from nextloc_metrics.report.evaluate_rows import evaluate
from nextloc_metrics.report.evaluation import Evaluation, write_groups
from nextloc_metrics.report.files.coordinates_and_counts import (
    read_coordinates,
    read_counts,
    read_words,
)
from nextloc_metrics.report.options import Options
from nextloc_metrics.report.source import Source


def sources_of(paths: Sequence[str], reading: Mapping[str, Any]) -> dict[str, Source]:
    """Return the sources of several files; raise if they are read as text of a model."""
    if texts := [name for name in reading["answers"] or {} if name in TEXTS]:
        raise ValueError(f"`{texts[0]}` must be left out, as only score and report read text.")
    return {path: source_of(path, reading) for path in paths}


def source_of(path: str, reading: Mapping[str, Any]) -> Source:
    """Return the source that a command was given."""
    return Source(path, **given_options(Source, reading))


def evaluate_file(path: str, **reading: Any) -> Evaluation:
    """Read a file and evaluate it."""
    names = ("groups", "mask", "exclude", "confidence", "grade", "workers")
    arguments = {name: reading[name] for name in names}
    return evaluate(source_of(path, reading), **arguments, **given_options(Options, reading))


def _read_metrics(name: str) -> Any:
    """Return what a function `module:function` returns; the module may be in the working folder."""
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        function = getattr(import_module(module), attribute)
        signature(function).bind()
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise ValueError(
            "`metrics` must be `module:function`, a module without `.py` and its function without "
            f"arguments, got {short(name)}: {error}."
        ) from error
    if (metrics := function()) is None:
        raise TypeError(f"`metrics` must be a function that returns metrics, got None of {name}.")
    return metrics


def given_options(kind: Any, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command that are fields of a class; files are read."""
    names = [x.name for x in fields(kind) if x.name != "rows"]
    values = {x: reading[x] for x in names if reading.get(x) not in (None, ())}
    return {name: _READERS[name](x) if name in _READERS else x for name, x in values.items()}


# The functions that read the files, or the functions, that options name.
_READERS: dict[str, Callable[[Any], Any]] = {
    "vocabulary": read_words,
    "train_counts": read_counts,
    "locations": lambda path: Locations(*read_coordinates(path)),
    "metrics": _read_metrics,
}


def write_all(result: Evaluation, output: Output, title: str, source: Mapping[str, Any]) -> None:
    """Write an evaluation and the values of its groups."""
    if output.group_table is not None:
        write_groups(result._counted, output.group_table, output.force)
        click.echo(f"wrote {output.group_table}", err=True)
    elif result.groups and output.kind in ("csv", "latex") and not output.is_page:
        note = "holds the values of all queries only; `--group-table FILE` writes those of groups."
        click.echo(f"Note: `--format {output.kind}` {note}", err=True)
    elif result.deciles is not None and output.kind in ("csv", "latex") and not output.is_page:
        note = "leaves out the values by decile, which text, Markdown, JSON and pages have."
        click.echo(f"Note: `--format {output.kind}` {note}", err=True)
    is_page = output.is_page
    output.write(result.to_html(title, source=source) if is_page else _written(result, output.kind))


def _written(result: Evaluation, kind: str) -> str:
    """Write the values; text and JSON have those of groups, too, and JSON has the card."""
    if kind == "json":
        rows, groups = rows_of(result), dict[str, Any]()
        for record in result.group_records():
            metrics = groups.setdefault(record["kind"], {}).setdefault(record["group"], {})
            metrics[record["metric"]] = {x: record[x] for x in ("value", "low", "high", "queries")}
        rows |= {"groups": groups} if groups else {}
        if result.deciles is not None:
            rows["deciles"] = json.loads(result.deciles.to_json())
        return write_table(result, kind, rows)
    if kind != "text":
        return write_table(result, kind)
    tables = [f"by {one_line(name)}\n{table}" for name, table in result.groups.items()]
    if result.deciles is not None:
        tables.append(f"{OF_DECILES[0].lower()}{OF_DECILES[1:]}\n{result.deciles}")
    return "\n\n".join([str(result), *tables])


def write_comparisons(result: Comparisons, kind: str) -> str:
    """Write comparisons in one of the formats; JSON has values and corrected p-values, too.

    If all pairs are compared, the table has a row per model, and JSON has pairs by both names.
    """
    if kind == "latex":
        return result.to_latex("models" if result.letters else "differences")
    if kind != "json":
        return write_table(result.by_model() if result.letters else result.table, kind)
    comparisons: dict[str, Any] = {}
    for (first, name), by_metric in result.pairs.items():
        by_second = comparisons.setdefault(first, {}) if result.letters else comparisons
        by_second[name] = {
            key: {
                "difference_of": f"{name} - {first}",
                **asdict(comparison),
                "corrected_p_value": result.corrected_pairs[first, name][key],
            }
            for key, comparison in by_metric.items()
        }
    letters = {"letters": result.letters} if result.letters else {}
    rows = {"values": result.values, **letters, "comparisons": comparisons, "card": result.card}
    return write_table(result, kind, rows)


def rows_of(result: Any) -> dict[str, Any]:
    """Return each value, with the ends of its interval, and the card."""
    intervals = result.intervals
    return {
        name: {"value": value} | dict(zip(("low", "high"), intervals.get(name, ()), strict=False))
        for name, value in result.values.items()
    } | {"card": result.card}


def write_table(shown: Table | Result, kind: str, rows: Any = None) -> str:
    """Write a table or a result in one of the formats; JSON has `rows`, and null for NaN."""
    if kind == "json":
        return json.dumps(_without_nan(rows), indent=2)
    text: str = str(shown) if kind == "text" else getattr(shown, f"to_{kind}")()
    return text.rstrip("\n")


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by None."""
    if isinstance(value, dict):
        return {key: _without_nan(x) for key, x in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
