"""The command line: `nextloc-metrics score FILE` prints the result of `report.evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nextloc_metrics.cli.options import (
    ARGUMENTS,
    EVALUATING,
    EXPLAIN,
    FILES,
    FORCE,
    FORMAT,
    GROUP_TABLE,
    ID,
    LISTS,
    METRICS,
    OUT,
    OUTPUT,
    SAMPLE,
    SAVE,
    SECTIONS,
    TEXTS,
    TRUTH,
    Output,
    describe_read,
    explained,
    name_of,
    option,
    option_to_read,
    option_to_write,
    short_names,
    source,
    writing,
)
from nextloc_metrics.core.version import __version__
from nextloc_metrics.report.files.suffixes import SUFFIXES

# Each command imports what it needs: PyTorch takes seconds, and help and wrong options need none.
if TYPE_CHECKING:
    from nextloc_metrics.report.evaluation import Evaluation


class KnowingCommand(click.Command):
    """A command that knows which option is meant by a name that it lacks."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, or name the option that is meant."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            options = {name for param in self.params for name in param.opts}
            meant = [x for x in _MEANT.get(error.option_name, ()) if x.split()[0] in options]
            if not meant:
                raise
            message = f"No such option '{error.option_name}'. Did you mean '{meant[0]}'?"
            raise click.UsageError(message, ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections."""
        sections: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
        for param in (x for x in self.get_params(ctx) if isinstance(x, click.Option)):
            section = getattr(param, "section", SECTIONS[-1])  # `--help` has none
            record = param.get_help_record(ctx)
            sections[section] += [] if record is None else [record]
        for section, records in sections.items():
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)


# Names of options in other tools, with the options that are meant here.
_MEANT = {
    "--by": ("--group", "--cluster"),
    "--qrels": ("--target",),
    "--html": ("--out PAGE.html",),
    "--output": ("--out",),
    "--metric": ("--measure",),
    "--top-k": ("--k",),
    "--num-classes": ("--num-locations",),
    "--targets": ("--truth",),
    "--id": ("--query",),
}
_MEANT |= {f"--{x}": (f"--answers {x}=...",) for x in (*LISTS, *TEXTS, "list-key")}


class Commands(click.Group):
    """The group of all commands; it keeps the arguments, for the card of a page."""

    command_class = KnowingCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments, and parse them."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="Exit status: 0 without an error; 1 after an error in data or files, or an "
    "interruption; 2 after a usage error. The PATH - is standard input, CSV or JSON lines. "
    "Messages count lines of text, and rows of other files, from 1.",
)
@click.version_option(__version__)
def main() -> None:
    """Evaluate files of next-location predictions and recommendations."""


@main.command(
    help=f"""Score the predictions in PATH: {", ".join(SUFFIXES)}.

    PATH may be - for standard input; an .html `--out` is a page.
    """,
    epilog="Example: nextloc-metrics score lists.parquet --group user --cluster user --k 1,5",
)
@source("path")
@EVALUATING
@EXPLAIN
@writing(FORMAT, GROUP_TABLE, OUT, SAVE, FORCE)
def score(path: str, output: Output, save: Path | None, explain: bool, **reading: Any) -> None:
    """Score the predictions in a file."""
    if output.group_table is not None and not (reading["groups"] or reading["cluster"]):
        raise click.UsageError("`--group-table` needs `--group COLUMN`, got none.")
    from nextloc_metrics.cli.files import evaluate_file, source_of, write_all

    with explained():
        if explain:
            click.echo(str(source_of(path, reading).describe()))
            return
        result = evaluate_file(path, **reading)
        if save is not None:
            result.save(save, force=output.force)
            click.echo(f"wrote {save}", err=True)
    with explained():
        write_all(result, output, Path(name_of(path)).name, _source(path, result, reading))


@main.command(epilog="Example: nextloc-metrics report lists.parquet --group user --out report.html")
@source("path")
@EVALUATING
@writing(
    option_to_write("--out", type=OUTPUT, required=True, help="Output file."),
    option_to_write("--title", help="Title of the page; by default the file name."),
    FORCE,
)
def report(path: str, output: Output, title: str | None, **reading: Any) -> None:
    """Write an HTML page with the evaluation of the predictions in PATH."""
    from nextloc_metrics.cli.files import evaluate_file

    with explained():
        result = evaluate_file(path, **reading)
    with explained():
        title = title or Path(name_of(path)).name
        output.write(result.to_html(title, source=_source(path, result, reading)))


@main.command(epilog="Example: nextloc-metrics merge part-0.npz part-1.npz --format json")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@METRICS
@writing(FORMAT, GROUP_TABLE, OUT, FORCE)
def merge(paths: tuple[str, ...], metrics: str | None, output: Output) -> None:
    """Merge files that `score --save` wrote for different queries; an .html `--out` is a page."""
    from nextloc_metrics.cli.files import given_options, write_all
    from nextloc_metrics.report.evaluation import merge as merge_shards
    from nextloc_metrics.report.options import Options

    with explained():
        result = merge_shards(paths, **given_options(Options, {"metrics": metrics}))
    with explained():
        write_all(result, output, "Evaluation", describe_read(paths, result.card["queries"]))


@main.command(epilog="Example: nextloc-metrics compare a.parquet b.parquet --cluster user")
@source("paths", nargs=-1, required=True)
@FILES
@TRUTH
@SAMPLE
@option(
    "--against",
    default="first",
    help="One of PATHS, with which the others are compared; or all, for all pairs.",
)
@ID
@writing(FORMAT, OUT, FORCE)
def compare(
    paths: tuple[str, ...], output: Output, against: str, key: str | None, **reading: Any
) -> None:
    """Compare the predictions in PATHS with those of one file; all have the same queries.

    Files of `score --save` may have different queries. An .html `--out` is a page.
    """
    from nextloc_metrics.cli.files import given_options, sources_of, write_comparisons
    from nextloc_metrics.report.compare_models import compare as compare_models
    from nextloc_metrics.report.options import Options
    from nextloc_metrics.report.saved import is_saved

    if against not in ("first", "all", *map(name_of, paths)):
        raise click.UsageError(f"`--against` must be one of PATHS, first or all, got {against}.")
    paths = tuple(sorted(paths, key=lambda path: name_of(path) != against))
    with explained():
        if all(map(is_saved, paths)):
            options = {x: reading[x] for x in ("metrics", "confidence_level")}
            titles, rows = short_names([name_of(path) for path in paths]), "all"
            files = dict(zip(titles, paths, strict=True))
            result = compare_models(files, **given_options(Options, options))
        else:
            names = {path: name_of(path) for path in paths}
            shorter = dict(zip(names, short_names([*names.values()]), strict=True))
            titles_of = shorter if output.is_page else names
            sources = sources_of(paths, reading).items()
            result = compare_models(
                {titles_of[path]: source for path, source in sources},
                against="all" if against == "all" else "first",
                key=key,
                **given_options(Options, reading),
            )
            rows = f"{result.card['queries']:,} of each file"
            for title, counts in result.counts.items():
                text = ", ".join(f"{x.replace('_', ' ')} {n:,}" for x, n in counts.items())
                click.echo(f"Note: {title}: {text}", err=True)
            titles = [*titles_of.values()]
    with explained():
        text = write_comparisons(result, output.kind)
        if output.is_page:
            text = result.to_html(" and ".join(titles), describe_read(paths, rows))
        output.write(text)


@main.command(epilog="Example: nextloc-metrics audit a.parquet b.parquet --users user --k 1")
@source("paths", nargs=-1, required=True)
@FILES
@TRUTH
@option("--users", help="Column of the users, whose last rows SASRec counts.")
@option("--seed", type=int, default=0, help="For the candidates that SASRec draws.")
@ID
@FORMAT
def audit(
    paths: tuple[str, ...], kind: str, seed: int, users: str | None, key: str | None, **reading: Any
) -> None:
    """Print the values that other codebases would report for the scores in PATHS."""
    from nextloc_metrics.cli.files import sources_of, write_table
    from nextloc_metrics.report.protocols import audit as audit_models

    with explained():
        sources = {name_of(path): x for path, x in sources_of(paths, reading).items()}
        cuts = reading["k"] or (1, 5, 10)
        result = audit_models(sources, users=users, k=cuts, seed=seed, key=key)
    click.echo(write_table(result, kind, result.table.records))


@main.command(epilog="Example: nextloc-metrics trajectories preds.csv.gz true.csv.gz --year 2023")
@source("preds")
@source("target")
@option("--year", type=click.IntRange(2023, 2025), default=2025, help="HuMob challenge.")
@option("--units", type=click.Choice(["degrees", "km", "m", "cells"]), default="cells")
@option_to_read(
    "--on-missing",
    type=click.Choice(["raise", "count"]),
    default="raise",
    help="Treat rows that do not fit as an error, or count them.",
)
@writing(FORMAT, OUT, FORCE)
def trajectories(preds: str, target: str, output: Output, **options: Any) -> None:
    """Score predicted days, rows (uid, d, t, x, y), with true ones; an .html `--out` is a page."""
    from nextloc_metrics.cli.files import rows_of, write_table
    from nextloc_metrics.report.trajectories import evaluate_trajectories

    with explained():
        result = evaluate_trajectories(preds, target, **options)
        text = write_table(result, output.kind, rows_of(result))
        if output.is_page:
            tables = result.rows.target, result.rows.preds
            true, predicted = (int((~points.isnan().any(-1)).sum()) for points in tables)
            rows = f"{predicted:,} predicted, {true:,} true"
            source = describe_read((preds, target), rows)
            text = result.to_html(Path(name_of(preds)).name, source)
        output.write(text)


def _source(path: str, result: Evaluation, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the command has read, for the card of a page."""
    paths = [path, *([str(reading["truth"])] if reading["truth"] else [])]
    return describe_read(paths, result.card["queries"])
