"""The command line: `nextloc-metrics score FILE` prints the result of `report.evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nextloc_metrics.cli.options import (
    ANSWERS,
    EVALUATING,
    FILE,
    FILES,
    FORCE,
    FORMAT,
    GROUP_TABLE,
    ID,
    INTERVALS,
    METRICS,
    OUT,
    OUTPUT,
    RECEIPT,
    SALT,
    SAMPLE,
    SAVE,
    SUMS_BY,
    WORKERS,
    KeepingGroup,
    check_outputs,
    describe_read,
    explained,
    has_columns,
    is_page,
    name_of,
    short_names,
    source,
    write_text,
)

# Each command imports what it needs: PyTorch takes seconds, and help and wrong options need none.
if TYPE_CHECKING:
    from nextloc_metrics.report.evaluation import Evaluation


@click.group(
    cls=KeepingGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="Exit status: 0 without an error; 1 after an error in data or files, or an "
    "interruption; 2 after a usage error. The PATH - is standard input, CSV or JSON lines. "
    "Messages count lines of text, and rows of other files, from 1.",
)
@click.version_option(package_name="nextloc-metrics")
def main() -> None:
    """Evaluate files of next-location predictions and recommendations."""


@main.command(
    epilog="Example: nextloc-metrics score lists.parquet --group user --cluster user --k 1,5"
)
@source("path")
@EVALUATING
@ANSWERS
@FORMAT
@INTERVALS
@GROUP_TABLE
@OUT
@SAVE
@RECEIPT
@SALT
@SUMS_BY
@FORCE
def score(
    path: str,
    kind: str,
    intervals: bool,
    group_table: Path | None,
    out: Path | None,
    save: Path | None,
    receipt: Path | None,
    salt: Path | None,
    sums_by: str | None,
    force: bool,
    **reading: Any,
) -> None:
    """Score the predictions in PATH: .npy, .npz, .csv, .jsonl, .parquet or .run.

    PATH may be - for standard input; an .html `--out` is a page.
    """
    check_outputs(force)
    if group_table is not None and not (reading["groups"] or reading["cluster"]):
        raise click.UsageError("`--group-table` needs `--group COLUMN`, got none.")
    if sums_by is not None:
        if receipt is None:
            raise click.UsageError("`--sums-by` needs `--receipt FILE`, got none.")
        reading["groups"] = tuple(dict.fromkeys([*reading["groups"], sums_by]))
    from nextloc_metrics.cli.files import evaluate_file, write_all

    with explained():
        result = evaluate_file(path, **reading)
        if save is not None:
            result.save(save, force=force)
            click.echo(f"wrote {save}", err=True)
        if receipt is not None:
            secret = None if salt is None else salt.read_text("utf-8")
            text = str(result.receipt(secret, sums_by=sums_by))
            write_text(text.rstrip("\n"), receipt, force)
    with explained():
        page = {}
        if is_page(out):
            page = {"title": Path(name_of(path)).name, "source": _source(path, result, reading)}
        write_all(result, kind, intervals, group_table, out, force, page)


@main.command(epilog="Example: nextloc-metrics verify receipt.json lists.parquet")
@click.argument("receipt", type=FILE)
@source("path")
@EVALUATING
@ANSWERS
@SALT
def verify(receipt: Path, path: str, salt: Path | None, **reading: Any) -> None:
    """Say whether PATH has the queries, the answers and the values of RECEIPT.

    Options that are not given are those of the receipt. The exit status is 0 if all are equal.
    """
    from nextloc_metrics.cli.files import verify_file

    context = click.get_current_context()
    default = ParameterSource.DEFAULT
    free = {x for x in reading if context.get_parameter_source(x) == default}
    with explained():
        found = verify_file(receipt, path, free, salt, **reading)
    click.echo(str(found))
    context.exit(0 if found.equal else 1)


@main.command(epilog="Example: nextloc-metrics report lists.parquet --group user --out report.html")
@source("path")
@EVALUATING
@ANSWERS
@click.option("--out", type=OUTPUT, required=True, help="Output file.")
@click.option("--title", help="Title of the page; by default the file name.")
@FORCE
def report(path: str, out: Path, title: str | None, force: bool, **reading: Any) -> None:
    """Write an HTML page with the evaluation of the predictions in PATH."""
    check_outputs(force)
    from nextloc_metrics.cli.files import evaluate_file

    with explained():
        result = evaluate_file(path, **reading)
    with explained():
        page = result.to_html(
            title or Path(name_of(path)).name, source=_source(path, result, reading)
        )
        write_text(page, out, force)


@main.command(epilog="Example: nextloc-metrics merge part-0.npz part-1.npz --format json")
@click.argument("paths", nargs=-1, required=True)
@METRICS
@FORMAT
@INTERVALS
@GROUP_TABLE
@OUT
@FORCE
def merge(
    paths: tuple[str, ...],
    metrics: str | None,
    kind: str,
    intervals: bool,
    group_table: Path | None,
    out: Path | None,
    force: bool,
) -> None:
    """Merge files that `score --save` wrote for different queries; an .html `--out` is a page."""
    check_outputs(force)
    from nextloc_metrics.cli.files import given_options, write_all
    from nextloc_metrics.report.evaluation import merge as merge_shards
    from nextloc_metrics.report.options import SharedOptions

    with explained():
        result = merge_shards(paths, **given_options(SharedOptions, {"metrics": metrics}))
    with explained():
        page = {
            "title": "Evaluation",
            "source": describe_read(paths, result.card["queries"], []),
        }
        write_all(result, kind, intervals, group_table, out, force, page)


@main.command(epilog="Example: nextloc-metrics compare a.parquet b.parquet --cluster user")
@source("paths", nargs=-1, required=True)
@FILES
@SAMPLE
@click.option(
    "--against",
    default="first",
    show_default=True,
    help="One of PATHS, with which the others are compared; or all, for all pairs.",
)
@ID
@FORMAT
@OUT
@FORCE
def compare(
    paths: tuple[str, ...],
    kind: str,
    against: str,
    key: str | None,
    out: Path | None,
    force: bool,
    **reading: Any,
) -> None:
    """Compare the predictions in PATHS with those of one file; all have the same queries.

    An .html `--out` is a page.
    """
    check_outputs(force)
    from nextloc_metrics.cli.files import given_options, read_same, write_comparisons
    from nextloc_metrics.report.comparing import compare as compare_models
    from nextloc_metrics.report.options import SharedOptions

    cluster, known = reading["cluster"], [name_of(path) for path in paths]
    if against not in ("first", "all", *known):
        raise click.UsageError(f"`--against` must be one of PATHS, first or all, got {against}.")
    paths = tuple(sorted(paths, key=lambda path: name_of(path) != against))
    with explained():
        found = read_same(paths, key, groups=(), **reading)
        first = found[paths[0]]
        names = [name_of(path) for path in found]
        titles = short_names(names) if is_page(out) else names
        result = compare_models(
            {title: one.preds for title, one in zip(titles, found.values(), strict=True)},
            first.target,
            groups=None if cluster is None else {cluster: first.groups[cluster]},
            against="all" if against == "all" else "first",
            **given_options(SharedOptions, reading),
        )
    with explained():
        if is_page(out):
            files, columns = _split_target(
                list(found), [reading["preds"], reading["target"], cluster, key]
            )
            source = describe_read(files, f"{len(first.target):,} of each file", columns)
            text = result.to_html(" and ".join(titles), source)
        else:
            text = write_comparisons(result, kind)
        write_text(text, out, force)


@main.command(epilog="Example: nextloc-metrics audit a.parquet b.parquet --users user --k 1")
@source("paths", nargs=-1, required=True)
@FILES
@click.option("--users", help="Column of the users.")
@click.option("--times", help="Column of numbers that order the queries.")
@click.option("--sequences", help="Column of the numbers of trajectories.")
@click.option("--seed", type=int, help="For protocols that draw candidates or shuffle.")
@ID
@FORMAT
def audit(
    paths: tuple[str, ...],
    kind: str,
    users: str | None,
    times: str | None,
    sequences: str | None,
    seed: int | None,
    key: str | None,
    **reading: Any,
) -> None:
    """Print the values that other codebases would report for the predictions in PATHS."""
    from nextloc_metrics.cli.files import read_same, write_audit
    from nextloc_metrics.protocols import audit as audit_models

    columns = {"users": users, "times": times, "sequences": sequences}
    named = {name: column for name, column in columns.items() if column is not None}
    with explained():
        found = read_same(paths, key, groups=list(named.values()), cluster=None, **reading)
        first = found[paths[0]]
        result = audit_models(
            {name_of(path): one.preds for path, one in found.items()}
            if len(found) > 1
            else first.preds,
            first.target,
            k=reading["k"] or (1, 5, 10),
            seed=seed,
            **{name: first.groups[column] for name, column in named.items()},
        )
    click.echo(write_audit(result, kind))


@main.command(
    epilog="Example: nextloc-metrics mobility made.parquet real.parquet --trajectory day "
    "--location place"
)
@source("generated")
@source("real")
@click.option("--trajectory", default="trajectory", show_default=True, help="Column.")
@click.option("--latitude", default="latitude", show_default=True, help="Column, or of x.")
@click.option("--longitude", default="longitude", show_default=True, help="Column, or of y.")
@click.option("--location", help="Column of locations, in place of coordinates.")
@click.option("--time", help="Column of numbers or dates.")
@click.option("--time-unit", type=click.Choice(["s", "min", "h"]), help="For times as numbers.")
@click.option("--user", help="Column of users in REAL, for the floor.")
@click.option("--units", type=click.Choice(["degrees", "km", "m"]), default="degrees")
@click.option(
    "--coordinates", "locations", type=FILE, help="As for `score`: of the locations 0, 1, ..."
)
@click.option(
    "--comparison",
    type=click.Choice(["jsd", "ks", "wasserstein"]),
    default="jsd",
    show_default=True,
)
@WORKERS
@FORMAT
@OUT
@FORCE
def mobility(
    generated: str,
    real: str,
    locations: Path | None,
    kind: str,
    out: Path | None,
    force: bool,
    **columns: Any,
) -> None:
    """Compare GENERATED with REAL trajectories, a point per row; an .html `--out` is a page."""
    check_outputs(force)
    from nextloc_metrics.cli.files import read_locations, write_table
    from nextloc_metrics.report.generated import evaluate_mobility

    with explained():
        points = None if locations is None else read_locations(locations)
        result = evaluate_mobility(generated, real, locations=points, **columns)
        text = write_table(result.table, kind)
        if is_page(out):
            names = ("trajectory", "location", "latitude", "longitude", "time", "user")
            unread = ("location",) if columns["location"] is None else ("latitude", "longitude")
            card = result.card
            rows = f"{card['generated_points']:,} generated, {card['real_points']:,} real"
            source = describe_read(
                map(name_of, (generated, real)),
                rows,
                [columns[x] for x in names if x not in unread],
            )
            text = result.to_html(source=source)
        write_text(text, out, force)


@main.command(epilog="Example: nextloc-metrics trajectories preds.csv.gz true.csv.gz --year 2023")
@source("preds")
@source("target")
@click.option("--year", type=click.IntRange(2023, 2025), default=2025, help="HuMob challenge.")
@click.option("--units", type=click.Choice(["degrees", "km", "m", "cells"]), default="cells")
@click.option(
    "--on-missing",
    type=click.Choice(["raise", "count"]),
    default="raise",
    show_default=True,
    help="Treat rows that do not fit as an error, or count them.",
)
@FORMAT
@OUT
@FORCE
def trajectories(
    preds: str, target: str, kind: str, out: Path | None, force: bool, **options: Any
) -> None:
    """Score predicted days, rows (uid, d, t, x, y), with true ones; an .html `--out` is a page."""
    check_outputs(force)
    from nextloc_metrics.cli.files import write_days
    from nextloc_metrics.report.trajectories import evaluate_trajectories

    with explained():
        result = evaluate_trajectories(preds, target, **options)
        text = write_days(result, kind)
        if is_page(out):
            true, found = (
                int((~x.isnan().any(-1)).sum()) for x in (result.rows.target, result.rows.preds)
            )
            rows = f"{found:,} predicted, {true:,} true"
            source = describe_read(map(name_of, (preds, target)), rows, ["uid", "d", "t", "x", "y"])
            text = result.to_html(Path(name_of(preds)).name, source)
        write_text(text, out, force)


@main.command(epilog="Example: nextloc-metrics check train.csv test.csv --user uid --time ''")
@source("train")
@source("test")
@click.option("--user", default="user", show_default=True, help="Column.")
@click.option("--location", default="location", show_default=True, help="Column.")
@click.option("--time", default="time", show_default=True, help="Column; '' for no times.")
@click.option("--queries", help="Column in TEST: the locations that a model reads, lists of ids.")
@FORMAT
@OUT
@FORCE
def check(
    train: str,
    test: str,
    queries: str | None,
    kind: str,
    out: Path | None,
    force: bool,
    **columns: str,
) -> None:
    """Check what visits in TRAIN and TEST have in common; an .html `--out` is a page."""
    check_outputs(force)
    from nextloc_metrics.analysis import check_split
    from nextloc_metrics.cli.files import write_table
    from nextloc_metrics.files.beside import read_visits
    from nextloc_metrics.files.predictions import read

    with explained():
        has_ids = queries is not None
        parts = [read_visits(path, **columns, ids=has_ids) for path in (train, test)]
        names: Any = {**columns, "time": columns["time"] or None}
        if queries is not None:
            names["queries"] = read(test, preds=queries, target=columns["location"]).preds
        result = check_split(*parts, **names)
        text = str(result) if kind == "text" else write_table(result.table, kind)
        if is_page(out):
            rows = " and ".join(f"{result.card[x]:,}" for x in ("train_rows", "test_rows"))
            source = describe_read(map(name_of, (train, test)), rows, columns.values())
            text = result.to_html(source=source)
        write_text(text, out, force)


@main.command(epilog="Example: nextloc-metrics flows preds.tsv true.tsv --year 2026")
@source("predicted", metavar="PRED")
@source("true", metavar="TRUE")
@click.option("--year", type=click.IntRange(2026, 2026), help="HuMob challenge.")
@click.option("--num-cells", type=click.IntRange(min=1), help="Number of cells, from 0.")
@click.option("--box", type=int, nargs=4, metavar="X X Y Y", help="Cells that are compared.")
@click.option("--missing-days", type=click.Choice(["raise", "zero", "skip"]), default="raise")
@FORMAT
@OUT
@FORCE
def flows(
    predicted: str, true: str, box: Any, kind: str, out: Path | None, force: bool, **options: Any
) -> None:
    """Score predicted trips, rows (day, origin, destination, count); an .html `--out` is a page."""
    check_outputs(force)
    from nextloc_metrics.cli.files import write_days
    from nextloc_metrics.report.flows import evaluate_flows

    with explained():
        limits = box and (box[:2], box[2:])
        result = evaluate_flows(predicted, true, box=limits, **options)
        text = write_days(result, kind)
        if is_page(out):
            source = describe_read(map(name_of, (predicted, true)), f"{result.card['rows']:,}", [])
            text = result.to_html(Path(name_of(predicted)).name, source)
        write_text(text, out, force)


def _source(path: str, result: Evaluation, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was read, for the card of a page."""
    reading = {**reading, "preds": reading["answers"] or reading["preds"]}
    names = ("preds", "key", "target", "mask", "exclude", "weights", "confidence", "cluster")
    files, columns = _split_target([path], [reading[name] for name in names])
    files += [str(reading["queries"])] if reading["queries"] else []
    return describe_read(files, result.card["queries"], [*columns, *reading["groups"]])


def _split_target(
    paths: Sequence[str], columns: Sequence[str | None]
) -> tuple[list[str], Sequence[str | None]]:
    """Return the files and the columns; files without columns have their targets in another one."""
    files, (_, target, *others) = [name_of(path) for path in paths], columns
    if all(map(has_columns, paths)):
        return files, columns
    return [*files, target or ""], others
