"""The options that commands share, and what they do with files, warnings and errors."""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.distribution.needs import Given
from nextloc_metrics.report.text_files import read_words
from nextloc_metrics.report.written import FORMATS

Command = TypeVar("Command", bound=Callable[..., Any])


def options_of(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds several options to a command, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_STDIN = "nextloc_metrics.stdin"


def _split(_context: click.Context, _option: click.Parameter, values: Sequence[str]) -> Any:
    """Return the integers of texts such as 1,5,10."""
    try:
        return tuple(int(x) for value in values for x in value.split(","))
    except ValueError:
        raise click.BadParameter(
            f"must be integers, separated by commas, got {short(', '.join(values))}."
        ) from None


def _keep_input(context: click.Context, _argument: click.Parameter, paths: Any) -> Any:
    """Replace `-` by a file of standard input, which lives as long as the command."""
    if isinstance(paths, tuple):
        return tuple(_keep_input(context, _argument, path) for path in paths)
    if paths != "-":
        return paths
    if _STDIN in context.meta:
        raise click.BadParameter("`-` can be given only once.")
    data = sys.stdin.buffer.read()
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    kind = ".jsonl" if start in (b"{", b"[") else ".csv"
    path = Path(context.find_root().with_resource(tempfile.TemporaryDirectory())) / f"stdin{kind}"
    path.write_bytes(data)
    context.meta[_STDIN] = str(path)
    return str(path)


def source(name: str, **options: Any) -> Callable[[Command], Command]:
    """Return an argument that is a path, or `-` for standard input."""
    return click.argument(name, callback=_keep_input, **options)


def name_of(path: str) -> str:
    """Return a path as the user wrote it."""
    return "-" if path == click.get_current_context().meta.get(_STDIN) else path


FILES = options_of(
    click.option("--preds", default="preds", show_default=True, help="Column of the predictions."),
    click.option(
        "--target",
        default="target",
        show_default=True,
        help="Column of the targets; for a PATH of .npy or .run, the file of the targets.",
    ),
    click.option(
        "--k",
        "cuts",
        multiple=True,
        callback=_split,
        metavar="K,...",
        show_default="1,5,10",
        help="Cut-offs, separated by commas; may be repeated.",
    ),
    click.option(
        "--padding",
        multiple=True,
        callback=_split,
        metavar="NUMBER,...",
        show_default="-1",
        help="Negative numbers that pad lists, beside -1; may be repeated.",
    ),
    click.option(
        "--vocabulary",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        callback=lambda _context, _option, path: _words(path),
        help="File with the text of each id, one per line.",
    ),
    click.option("--separator", help="What separates the ids of a cell of text without brackets."),
    click.option(
        "--on-error",
        type=click.Choice(["raise", "miss"]),
        default="raise",
        show_default=True,
        help="Treat an unreadable answer as an error or as a miss.",
    ),
)
GROUPS = click.option("--group", "groups", multiple=True, help="Column of groups; may be repeated.")
SAMPLE = options_of(
    click.option("--cluster", help="Column of groups; queries of one group are not independent."),
    click.option("--num-locations", type=int, help="Number of locations."),
    click.option(
        "--confidence", type=float, default=0.95, show_default=True, help="Level of the intervals."
    ),
)
READING = options_of(FILES, GROUPS, SAMPLE)
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
WORKERS = click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that share the files.",
)
EVALUATING = options_of(
    READING,
    click.option("--mask", help="Column of true or false; false leaves a query out."),
    WORKERS,
    click.option("--exclude", help="Column of lists of ids that are not ranked."),
    click.option(
        "--given",
        type=click.Choice(get_args(Given)),
        help="What scores are; adds the metrics of probabilities.",
    ),
    click.option("--exempt-target", is_flag=True, help="Rank a target that is excluded."),
    click.option("--weights", help="Column of weights of queries."),
    click.option(
        "--measure",
        "measures",
        multiple=True,
        help="A metric by its name in ir-measures, such as nDCG@10; may be repeated.",
    ),
    click.option(
        "--train-counts",
        type=FILE,
        help="Training visits of each id: .npy, or text with a number per line.",
    ),
    click.option(
        "--coordinates",
        type=FILE,
        help="Latitude and longitude of each id: .npy [C, 2], or .csv with these columns.",
    ),
    click.option(
        "--km", type=float, default=1.0, show_default=True, help="Largest distance of a hit."
    ),
)
FORMAT = click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Format of the output.",
)
GROUP_TABLE = click.option(
    "--group-table",
    type=click.Path(path_type=Path),
    callback=lambda _context, _option, path: check_table(path),
    help="File for the values of each group, .csv or .parquet.",
)
ID = click.option(
    "--id", "key", help="Column of keys that join the rows of the files, in any order."
)
INTERVALS = click.option("--intervals", is_flag=True, help="Add the intervals to JSON.")
OUT = click.option("--out", type=click.Path(path_type=Path), help="Output file.")
FORCE = click.option("--force", is_flag=True, help="Overwrite existing files.")


def check_table(path: Path | None) -> Path | None:
    """Raise if a file of groups has another ending than .csv and .parquet."""
    if path is not None and path.suffix not in (".csv", ".parquet"):
        raise click.BadParameter(f"must end with .csv or .parquet, got {path}.")
    return path


def check_new(force: bool, *paths: Path | None) -> None:
    """Raise if a file would be overwritten, or its folder does not exist."""
    for path in paths:
        if path is not None and path.exists() and not force:
            raise click.ClickException(f"{path} exists; overwrite it with --force.")
        if path is not None and not path.parent.is_dir():
            raise click.ClickException(f"{path.parent} must be an existing folder.")


def _words(path: Path | None) -> list[str] | None:
    with explained():
        return read_words(path)


@contextmanager
def explained() -> Iterator[None]:
    """Print warnings, and an error of the data or the options without a traceback; then exit."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                yield
            finally:
                for warning in caught:
                    click.echo(f"Warning: {_for_command(str(warning.message))}", err=True)
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise click.ClickException(_for_command(str(error))) from error


def _for_command(message: str) -> str:
    """Name options instead of Python arguments, and count rows from 1, as editors count lines."""
    context = click.get_current_context()
    if _STDIN in context.meta:
        message = message.replace(context.meta[_STDIN], "standard input")
    names = {name: written for name, written in _PYTHON.items() if written in _written(context)}
    for param in context.command.params:
        option = max(param.opts, key=len)
        for name in (param.name or "", option.lstrip("-").replace("-", "_")):
            names[name] = option if option.startswith("-") else option.upper()

    def option_of(match: re.Match[str]) -> str:
        name, equals, value = match.groups()
        if name not in names:
            return match.group()
        value = "" if value == "True" else value.replace("'miss'", "miss")
        return f"`{names[name]}{' ' if equals and value else ''}{value}`"

    missing = re.search(r"must have the columns (\[.*?\])", message)
    # `x` in a file is a column, and so is what stands after "in" and "column"
    message = re.sub(r"(?<!in )(?<!column )`(\w+)(=?)([^`]*)`(?! in )", option_of, message)
    message = message.replace("`Evaluation.save`", "`score --save`")
    message = re.sub(r"\b(line [\d,]+), row \d+\b", r"\1", message)
    message = re.sub(r"(?<!['\"])\brow (\d+)\b", lambda x: f"row {int(x[1]) + 1} (from 1)", message)
    message = message.replace(", or merge equal shards with `allow_equal=True`", "")
    return message + (_say_columns(context, missing[1]) if missing else "")


# arguments of functions whose options have other names
_PYTHON = {"locations": "--coordinates", "targets": "--target", "models": "PATHS"}


def _written(context: click.Context) -> set[str]:
    """Return options and arguments of a command, as help writes them."""
    names = (max(param.opts, key=len) for param in context.command.params)
    return {name if name.startswith("-") else name.upper() for name in names}


def _say_columns(context: click.Context, missing: str) -> str:
    """Return which options name the columns that are missing."""
    options = [
        f"`{max(param.opts, key=len)}`"
        for param in context.command.params
        for value in [context.params.get(param.name or "")]
        if any(repr(x) in missing for x in (value if isinstance(value, tuple) else (value,)))
    ]
    return f" The columns are those of {', '.join(options)}." if options else ""


def write_text(text: str, out: Path | None) -> None:
    """Print a text, or write it to a file and name the file on standard error."""
    if out is None:
        click.echo(text)
    else:
        out.write_text(text + "\n", encoding="utf-8")
        click.echo(f"wrote {out}", err=True)
