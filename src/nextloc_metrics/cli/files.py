"""What commands do with files of predictions: read, evaluate, write."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nextloc_metrics.cli.options import TEXTS, Output
from nextloc_metrics.core.display.table import Table, one_line
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.geography import Locations
from nextloc_metrics.report.comparisons import Comparisons
from nextloc_metrics.report.evaluating import evaluate
from nextloc_metrics.report.evaluation import Evaluation, write_groups
from nextloc_metrics.report.evaluation_options import Options
from nextloc_metrics.report.files.answer_texts import cells_of, propose
from nextloc_metrics.report.files.coordinates_and_counts import (
    read_coordinates,
    read_counts,
    read_words,
)
from nextloc_metrics.report.files.predictions import Predictions, read, same_queries
from nextloc_metrics.report.files.sources import open_table
from nextloc_metrics.report.protocols import Audit

if TYPE_CHECKING:  # `score` needs neither
    from nextloc_metrics.report.trajectories import TrajectoryEvaluation


def read_locations(path: Path) -> Locations:
    """Read the locations of a file of coordinates."""
    return Locations(*read_coordinates(path))


def read_same(
    paths: Sequence[str], key: str | None, groups: Sequence[str], **reading: Any
) -> dict[str, Predictions]:
    """Read predictions of the same queries, joined by a column of keys or row by row."""
    columns = [*groups, *([key] if key else [])]
    found = {path: _read(path, groups=columns, **reading) for path in paths}
    if not (query := reading["query"]) or key is not None:
        return same_queries(found, key)
    for one in found.values():  # rows that are joined to a truth are in any order
        cells = zip(*(map(str, one.groups[name]) for name in query), strict=True)
        one.groups |= {", ".join(query): ["\0".join(x) for x in cells]}
    return same_queries(found, ", ".join(query))


def _read(path: str, groups: Sequence[str] = (), **reading: Any) -> Predictions:
    """Read a file with the given options; files without columns have a separate target file."""
    how = reading["answers"] or {}
    if texts := [name for name in how if name in TEXTS]:
        raise ValueError(f"`{texts[0]}` must be left out, as only score and report read text.")
    return read(
        path,
        groups=[*groups, *filter(None, [reading["cluster"]])],
        vocabulary=read_words(reading["vocabulary"]),
        **{name: reading[name] for name in _OF_FILES if name in reading},
        **how,
    )


def evaluate_file(path: str, **reading: Any) -> Evaluation:
    """Read a file and evaluate it, with the given options."""
    options = given_options(Options, reading)
    _propose_answers(path, reading, options.get("vocabulary"))
    return evaluate(path, **{name: reading[name] for name in _OF_TABLES}, **options)


def _propose_answers(path: str, reading: Mapping[str, Any], vocabulary: Any) -> None:
    """With the form "auto", print how many answers each form reads, and exit."""
    given = dict(reading["answers"] or {})
    if given.pop("form", None) == "auto":
        column = reading["preds"]
        first = next(open_table(path, [column]).parts([column]))
        click.echo(propose(cells_of(first.columns[column])[:1000], vocabulary, **given))
        raise click.exceptions.Exit(0)


def _read_metrics(name: str) -> Any:
    """Return what a function `module:function` returns; the module may be in the working folder."""
    module, _, function = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        found = getattr(import_module(module), function)
        signature(found).bind()
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise ValueError(
            "`metrics` must be `module:function`, a module without `.py` and its function without "
            f"arguments, got {short(name)}: {error}."
        ) from error
    if (made := found()) is None:
        raise TypeError(f"`metrics` must be a function that returns metrics, got None of {name}.")
    return made


def given_options(kind: Any, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an evaluation that a command was given, with what their files hold."""
    given = {x: reading[x] for x in kind.__annotations__ if reading.get(x) not in (None, ())}
    return {name: _READERS[name](x) if name in _READERS else x for name, x in given.items()}


# what else files and tables are read by
_OF_TRUTH = ("truth", "query", "item", "score", "rank", "grade")
_OF_FILES = ("preds", "target", "on_error", "on_missing", "mask", "exclude", *_OF_TRUTH)
_OF_TABLES = {*_OF_FILES, "confidence", "groups", "workers", "answers"}

# what reads the file of an option
_READERS: dict[str, Callable[[Any], Any]] = {
    "vocabulary": read_words,
    "train_counts": read_counts,
    "locations": read_locations,
    "metrics": _read_metrics,
}


def write_all(result: Evaluation, output: Output, title: str, source: Mapping[str, Any]) -> None:
    """Write an evaluation and the values of its groups, or a note on what is left out."""
    if output.group_table is not None:
        write_groups(result._counted, output.group_table, output.force)
        click.echo(f"wrote {output.group_table}", err=True)
    elif result.groups and output.kind in ("csv", "latex") and not output.is_page:
        click.echo(
            f"Note: `--format {output.kind}` holds the values of all queries only; "
            "`--group-table FILE` writes those of each group, and `--format json` has the "
            "protocol card.",
            err=True,
        )
    is_page = output.is_page
    output.write(result.to_html(title, source=source) if is_page else _written(result, output))


def _written(result: Evaluation, output: Output) -> str:
    kind = output.kind
    if kind == "json":
        return _evaluation_to_json(result)
    if kind == "markdown":
        return result.to_markdown()
    if kind in ("latex", "csv"):
        return write_table(result.table, kind)
    by = [f"by {one_line(name)}\n{table}" for name, table in result.groups.items()]
    if result.deciles is not None:
        by.append(f"by popularity of the target\n{result.deciles}")
    return "\n\n".join([str(result), *by])


def _evaluation_to_json(result: Evaluation) -> str:
    """Write values, card and groups; NaN is null."""
    rows, groups = _rows(result), dict[str, Any]()
    for record in result.group_records():
        of_group = groups.setdefault(record["kind"], {}).setdefault(record["group"], {})
        of_group[record["metric"]] = {x: record[x] for x in ("value", "low", "high", "queries")}
    rows["card"] = result.card
    return json.dumps(_without_nan(rows | ({"groups": groups} if groups else {})), indent=2)


def write_comparisons(result: Comparisons, kind: str) -> str:
    """Write comparisons in one of the formats; JSON has values and corrected p-values too.

    Those of all pairs are a table of models, and JSON has each pair under both names.
    """
    if kind == "latex":
        return result.to_latex("models" if result.letters else "differences")
    if kind != "json":
        return write_table(result.by_model() if result.letters else result.table, kind)
    comparisons: dict[str, Any] = {}
    for (first, name), of_metrics in result.pairs.items():
        within = comparisons.setdefault(first, {}) if result.letters else comparisons
        within[name] = {
            key: {**asdict(found), "corrected_p_value": result.corrected_pairs[first, name][key]}
            for key, found in of_metrics.items()
        }
    letters = {"letters": result.letters} if result.letters else {}
    rows = {"values": result.values, **letters, "comparisons": comparisons}
    return json.dumps(_without_nan(rows), indent=2)


def write_audit(result: Audit, kind: str) -> str:
    """Write the values under each protocol in one of the formats."""
    if kind == "json":
        return json.dumps(result.table.records, indent=2)
    return write_table(result.table, kind)


def write_days(result: TrajectoryEvaluation, kind: str) -> str:
    """Write an evaluation of days in one of the formats; JSON has the card and intervals too."""
    if kind == "text":
        return str(result)
    if kind != "json":
        return write_table(result.table, kind)
    return json.dumps(_without_nan(_rows(result) | {"card": result.card}), indent=2)


def _rows(result: Any) -> dict[str, Any]:
    """Return each value, with the ends of its interval."""
    intervals = result.intervals
    return {
        name: {"value": value} | dict(zip(("low", "high"), intervals.get(name, ()), strict=False))
        for name, value in result.values.items()
    }


def write_table(table: Table, kind: str) -> str:
    """Write a table in one of the formats."""
    text: str = str(table) if kind == "text" else getattr(table, f"to_{kind}")()
    return text.rstrip("\n")


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by None."""
    if isinstance(value, dict):
        return {key: _without_nan(x) for key, x in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
