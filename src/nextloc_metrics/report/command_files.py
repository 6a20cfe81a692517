"""What commands do with files of predictions: read, evaluate, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from nextloc_metrics.files.beside import read_coordinates, read_counts, read_words
from nextloc_metrics.files.opening import suffix_of
from nextloc_metrics.files.predictions import Predictions, read
from nextloc_metrics.geography import Locations
from nextloc_metrics.report.command_options import has_columns, is_page, write_text
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.evaluator import evaluate
from nextloc_metrics.report.groups import write_groups
from nextloc_metrics.report.same import same_queries
from nextloc_metrics.report.table_evaluation import evaluate_table
from nextloc_metrics.report.written import note_left_out, write_evaluation


def read_locations(coordinates: Path | None) -> Locations | None:
    """Read the locations of a file of coordinates."""
    return None if coordinates is None else Locations(*read_coordinates(coordinates))


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
        vocabulary=read_words(vocabulary),
        on_error=on_error,
        separator=separator,
        mask=mask,
        exclude=exclude,
    )


def evaluate_file(path: str, **reading: Any) -> Evaluation:
    """Read a file and evaluate it, with the given options."""
    words = read_words(reading["vocabulary"])
    counts, coordinates = reading["train_counts"], reading["coordinates"]
    options: dict[str, Any] = {
        "k": reading["cuts"] or (1, 5, 10),
        "cluster": reading["cluster"],
        "train_counts": None if counts is None else read_counts(counts),
        "exempt_target": reading["exempt_target"],
        "num_locations": reading["num_locations"],
        "locations": read_locations(coordinates),
        "km": reading["km"],
        "confidence_level": reading["confidence_level"],
        "given": reading["given"],
        "measures": reading["measures"],
    }
    if suffix_of(Path(path)) not in (".run", ".trec"):
        return evaluate_table(
            path,
            **{name: reading[name] for name in ("preds", "target", "groups", "mask", "exclude")},
            **{name: reading[name] for name in ("weights", "confidence", "padding")},
            **{name: reading[name] for name in ("on_error", "separator")},
            vocabulary=words,
            workers=reading["workers"],
            **options,
        )
    for name in ("mask", "exclude", "weights", "confidence"):
        if reading[name] is not None:
            raise ValueError(f"`{name}` must be a column of a table, and a run has none.")
    found = _read(path, **reading)
    missed = found.missed if reading["on_error"] == "miss" else None
    known = None if found.vocabulary is None else tuple(map(str, found.vocabulary))
    options |= {"grades": found.grades, "vocabulary": words or known, "missed": missed}
    return evaluate(found.preds, found.target, **options)


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
