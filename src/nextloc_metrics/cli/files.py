"""What commands do with files of predictions: read, evaluate, write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.cli.options import has_columns, is_page, write_text
from nextloc_metrics.cli.written import note_left_out, write_evaluation
from nextloc_metrics.files.beside import read_coordinates, read_counts, read_words
from nextloc_metrics.files.opening import suffix_of
from nextloc_metrics.files.predictions import Predictions, read
from nextloc_metrics.geography import Locations
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluator import evaluate
from nextloc_metrics.report.groups import write_groups
from nextloc_metrics.report.options import Options
from nextloc_metrics.report.same import same_queries
from nextloc_metrics.report.table_evaluation import evaluate_table


def read_locations(path: Path) -> Locations:
    """Read the locations of a file of coordinates."""
    return Locations(*read_coordinates(path))


def read_same(
    paths: Sequence[str], key: str | None, groups: Sequence[str], **reading: Any
) -> dict[str, Predictions]:
    """Read predictions of the same queries, joined by a column of keys or row by row."""
    columns = [*groups, *([key] if key else [])]
    return same_queries({path: _read(path, groups=columns, **reading) for path in paths}, key)


def _read(
    path: str,
    preds: str,
    target: str,
    groups: Sequence[str],
    cluster: str | None,
    padding: Sequence[int],
    vocabulary: Path | None,
    on_error: Any,
    separator: str | None,
    mask: str | None = None,
    exclude: str | None = None,
    **_: Any,
) -> Predictions:
    """Read a file with the given options; files without columns have a separate target file."""
    return read(
        path,
        preds=preds,
        target=target,
        groups=list(dict.fromkeys([*groups, *([cluster] if cluster else [])])),
        targets=None if has_columns(path) else target,
        padding=padding,
        vocabulary=None if vocabulary is None else read_words(vocabulary),
        on_error=on_error,
        separator=separator,
        mask=mask,
        exclude=exclude,
    )


def evaluate_file(path: str, **reading: Any) -> Evaluation:
    """Read a file and evaluate it, with the given options."""
    options = given_options(Options, reading)
    if suffix_of(Path(path)) not in (".run", ".trec"):
        return evaluate_table(
            path,
            **{name: reading[name] for name in (*_COLUMNS, *_OF_TABLES)},
            **options,
        )
    for name in _COLUMNS:
        if reading[name] is not None:
            raise ValueError(f"`{name}` must be a column of a table, and a run has none.")
    found = _read(path, **reading)
    missed = found.missed if reading["on_error"] == "miss" else None
    known = None if found.vocabulary is None else tuple(map(str, found.vocabulary))
    options = {"vocabulary": known, **options}
    return evaluate(found.preds, found.target, grades=found.grades, missed=missed, **options)


def _read_metrics(name: str) -> Any:
    """Return what a function `module:function` returns; the module may be in the working folder."""
    module, _, function = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    found = getattr(import_module(module), function, None) if module and function else None
    if not callable(found):
        raise ValueError(
            f"`metrics` must be `module:function`, a function without arguments, got {short(name)}."
        )
    return found()


def given_options(kind: Any, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an evaluation that a command was given, with what their files hold."""
    given = {x: reading[x] for x in kind.__annotations__ if reading.get(x) not in (None, ())}
    return {name: _READERS[name](x) if name in _READERS else x for name, x in given.items()}


# what else a table is read by: names of columns that a run lacks, and others
_COLUMNS = ("mask", "exclude", "weights", "confidence")
_OF_TABLES = ("preds", "target", "groups", "padding", "on_error", "separator", "workers")

# what reads the file of an option
_READERS: dict[str, Callable[[Any], Any]] = {
    "vocabulary": read_words,
    "train_counts": read_counts,
    "locations": read_locations,
    "metrics": _read_metrics,
}


def write_all(
    result: Evaluation,
    kind: str,
    intervals: bool,
    group_table: Path | None,
    out: Path | None,
    force: bool,
    page: Mapping[str, Any],
) -> None:
    """Write an evaluation and the values of its groups, or a note on what is left out."""
    if group_table is not None:
        write_groups(result._counted, group_table, force)
        click.echo(f"wrote {group_table}", err=True)
    elif not is_page(out) and (note := note_left_out(result, kind)):
        click.echo(note, err=True)
    text = result.to_html(**page) if is_page(out) else write_evaluation(result, kind, intervals)
    write_text(text, out, force)
