"""The options that commands share, and what they do with files, warnings, errors and cards."""

from __future__ import annotations

import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce, wraps
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from nextloc_metrics.core.described_fields import help_of
from nextloc_metrics.core.distribution.given import Given
from nextloc_metrics.core.new_file import check_free, new_file
from nextloc_metrics.core.version import __version__
from nextloc_metrics.report.files.suffixes import APART
from nextloc_metrics.report.files.table_source import TableSource
from nextloc_metrics.report.options import Options

Command = TypeVar("Command", bound=Callable[..., Any])


#: the sections of a help page
SECTIONS = ("Options", "Columns and files", "Metrics", "Groups and intervals", "Output")


class SectionOption(click.Option):
    """An option with its section of the help page."""

    def __init__(self, *args: Any, section: str = SECTIONS[0], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


option = partial(click.option, cls=SectionOption)
option_to_read = partial(option, section="Columns and files")
option_to_write = partial(option, section="Output")


def option_of(
    name: str,
    more: str = "",
    written: str = "",
    kind: type = Options,
    section: str = "Metrics",
    **kwargs: Any,
) -> Callable[[Command], Command]:
    """Return an option for a field of a class; `more` is added to the help of the field.

    `written` is the option on the command line, if it is not the name of the field.
    """
    if not kwargs.get("multiple"):
        kwargs["default"] = kind.__dataclass_fields__[name].default  # type: ignore[attr-defined]
    written = written or "--" + name.replace("_", "-")
    text = f"{help_of(kind)[name]}{more}."
    return option(written, name, help=text, section=section, **kwargs)


# An option for a field of the table that is read.
read_of = partial(option_of, kind=TableSource, section="Columns and files")


def options_of(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds several options to a command, in this order."""
    return lambda command: reduce(lambda new, add: add(new), reversed(options), command)


#: where a context keeps the arguments of the command, and the file of standard input
ARGUMENTS, _STDIN = "nextloc_metrics.arguments", "nextloc_metrics.stdin"


def _split(_context: click.Context, _option: click.Parameter, values: Sequence[str]) -> Any:
    """Return the integers of texts such as 1,5,10."""
    try:
        return tuple(int(x) for value in values for x in value.split(","))
    except ValueError:
        from nextloc_metrics.core.queries.messages import short

        raise click.BadParameter(
            f"must be integers, separated by commas, got {short(', '.join(values))}."
        ) from None


# The names in `--answers`: of how lists are written, and of the options of `read_answers`.
LISTS, TEXTS = ("separator", "padding"), ("form", "key", "take", "after", "fold")


def _answers(context: click.Context, option: click.Parameter, values: Sequence[str]) -> Any:
    """Return the values of texts such as form=json, by name; None without any text."""
    options: dict[str, Any] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if name not in (*LISTS, *TEXTS) or bool(equals) != (name != "fold"):
            raise click.BadParameter(
                f"must be fold or NAME=VALUE, of {', '.join((*LISTS, *TEXTS[:-1]))}, got {value}; "
                "the column is that of `--preds`."
            )
        is_padding = name == "padding"
        numbers = _split(context, option, [text]) if is_padding else ()
        options[name] = (*options.get(name, ()), *numbers) if is_padding else text
    return (options | {"fold": True} if "fold" in options else options) or None


def _keep_input(context: click.Context, argument: click.Parameter, paths: Any) -> Any:
    """Replace `-` by a file of standard input, which lives as long as the command."""
    if isinstance(paths, tuple):
        return tuple(_keep_input(context, argument, path) for path in paths)
    if paths != "-":
        is_pattern = "://" in paths or any(c in paths for c in "*?[")
        if not (is_pattern or Path(paths).exists()):  # so it is said before PyTorch is imported
            name = (argument.name or "").upper()
            raise click.ClickException(
                f"`{name}` must be an existing file of predictions, got {paths}."
            )
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


def _check_table(_context: click.Context, _option: click.Parameter, path: Path | None) -> Any:
    if path is not None and path.suffix not in (".csv", ".parquet"):
        raise click.BadParameter(f"must end with .csv or .parquet, got {path}.")
    return path


def _split_names(_context: Any, _option: Any, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for value in values for name in value.split(","))


FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
OUTPUT = click.Path(path_type=Path)
FILES = options_of(
    read_of("preds"),
    read_of("target", f"; for a PATH of {', '.join(APART)}, the file of the targets"),
    option_of(
        "k",
        ", separated by commas; may be repeated",
        multiple=True,
        callback=_split,
        metavar="K,...",
        show_default="1,5,10",
    ),
    read_of(
        "answers",
        "; may be repeated. Lists: separator, of ids in text without brackets; padding, negative "
        "numbers beside -1. Text of a language model (in score and report): form=json, lines, "
        "separated or pattern=...; key, of the list in json; take=last, of several lists; after, "
        "text before the answer, such as </think>; fold, to compare names without case, accents "
        "and spaces",
        multiple=True,
        callback=_answers,
        metavar="NAME=VALUE",
    ),
    read_of("vocabulary", ": a file, one per line", type=FILE),
    read_of("on_error", type=click.Choice(["raise", "miss"])),
    read_of("on_missing", type=click.Choice(["raise", "miss"])),
)
GROUPS = option(
    "--group",
    "groups",
    multiple=True,
    help="Column of groups; may be repeated.",
    section="Groups and intervals",
)
METRICS = option_of(
    "metrics",
    ": what a function without arguments returns, of a module in the working folder",
    metavar="MODULE:FUNCTION",
)
SAMPLE = options_of(
    option_of("cluster", "; a column", section="Groups and intervals"),
    option_of("num_locations", type=int),
    option_of("confidence_level", type=float, section="Groups and intervals"),
    option_of("measures", "; may be repeated", "--measure", multiple=True),
    METRICS,
)
WORKERS = option_to_read(
    "--workers", type=click.IntRange(min=1), default=1, help="Processes that share the files."
)
TRUTH = options_of(
    read_of("truth", type=click.Path()),
    read_of("query", multiple=True, callback=_split_names, metavar="COLUMN,..."),
    read_of("item"),
    read_of("score"),
    read_of("rank"),
)
EVALUATING = options_of(
    FILES,
    TRUTH,
    option_to_read("--grade", help="Column of grades in `--truth`."),
    GROUPS,
    SAMPLE,
    option_to_read("--mask", help="Column of true or false; false leaves a query out."),
    WORKERS,
    option_to_read("--exclude", help="Column of lists of ids that are not ranked."),
    option_of("given", type=click.Choice(get_args(Given))),
    option_of("exempt_target", is_flag=True),
    option_to_read("--confidence", help="Column of confidences of answers, from 0 to 1."),
    option_of("train_counts", ": .npy, or text with a number per line", type=FILE),
    option_of(
        "locations",
        ": .npy [C, 2], or .csv with the columns latitude and longitude",
        "--coordinates",
        type=FILE,
    ),
)
FORMAT = option_to_write(
    "--format",
    "kind",
    type=click.Choice(["text", "markdown", "latex", "csv", "json"]),
    default="text",
    help="Format of the output.",
)
GROUP_TABLE = option_to_write(
    "--group-table",
    type=OUTPUT,
    callback=_check_table,
    help="File for the values of each group, .csv or .parquet.",
)
ID = option("--id", "key", help="Column of keys that join the rows of the files, in any order.")
OUT = option_to_write("--out", type=OUTPUT, help="Output file.")
EXPLAIN = option_to_read(
    "--explain", is_flag=True, help="Say from the first rows how PATH is understood, and stop."
)
SAVE = option_to_write("--save", type=OUTPUT, help="File of counts; `merge` reads it.")
FORCE = option_to_write("--force", is_flag=True, help="Overwrite existing files.")


@dataclass(frozen=True)
class Output:
    """Where a command writes, and how."""

    out: Path | None
    force: bool
    kind: str = ""
    group_table: Path | None = None

    @property
    def is_page(self) -> bool:
        """Whether a page is written."""
        return self.out is not None and self.out.suffix == ".html"

    def write(self, text: str) -> None:
        """Print a text, or write it to a file and name the file on standard error."""
        if self.out is None:
            click.echo(text)
            return
        with new_file(self.out, self.force, text=True) as file:
            file.write(text + "\n")
        click.echo(f"wrote {self.out}", err=True)


def writing(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds options, and makes a checked `Output` of their values."""

    def decorate(command: Any) -> Any:
        @wraps(command)
        def call(**values: Any) -> None:
            _check_outputs(values["force"])
            names = Output.__annotations__.keys() & values.keys()
            command(output=Output(**{name: values.pop(name) for name in names}), **values)

        return options_of(*options)(call)

    return decorate


def _check_outputs(force: bool) -> None:
    """Raise if an output is also another output or an input, or cannot be written."""
    context = click.get_current_context()
    params = {param: context.params.get(param.name or "") for param in context.command.params}
    outputs = {
        max(param.opts, key=len): value
        for param, value in params.items()
        if param.type is OUTPUT and value is not None
    }
    names: dict[Path, str] = {}
    for name, path in outputs.items():
        other = names.setdefault(path.resolve(), name)
        if other != name:
            raise click.UsageError(f"`{other}` and `{name}` must be two files, got {path} twice.")
        if not path.parent.is_dir():
            raise click.ClickException(f"{path.parent} must be an existing folder.")
        if path.exists() and any(path.samefile(x) for x in _inputs(params)):
            raise click.UsageError(f"`{name}` must be no file that is read, got {path}.")
        try:
            check_free(path, force)
        except FileExistsError as error:
            raise click.ClickException(for_command(str(error))) from error


def _inputs(params: Mapping[click.Parameter, Any]) -> Iterator[str | Path]:
    """Yield the existing files that the command reads."""
    from nextloc_metrics.report.files.opening import find_files

    for param, value in params.items():
        if param.type is FILE and value is not None:
            yield value
        elif isinstance(param, click.Argument) or (param.name == "truth" and value):
            paths = value if isinstance(value, tuple) else (value,)
            for path in paths:
                with suppress(OSError, ValueError):
                    yield from [] if "://" in path else find_files(path)
            target = click.get_current_context().params.get("target")
            if target and not all(map(has_columns, paths)) and Path(target).exists():
                yield target


@contextmanager
def explained() -> Iterator[None]:
    """Print warnings; print an error in data or options without a traceback, and exit.

    The block uses one thread.
    """
    from nextloc_metrics.core.queries.messages import SHELL_MARK
    from nextloc_metrics.report.engines.processes import one_thread

    before = SHELL_MARK.set("\0")
    try:
        with one_thread(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                yield
            finally:
                for warning in caught:
                    click.echo(f"Warning: {for_command(str(warning.message))}", err=True)
    except BrokenPipeError:  # nobody reads the output: click ends without a message
        raise
    except (ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        raise click.ClickException(for_command(str(error))) from error
    finally:
        SHELL_MARK.reset(before)


def for_command(message: str) -> str:
    """Replace Python's arguments, which a message has between backticks, by options."""
    context = click.get_current_context()
    if _STDIN in context.meta:
        message = message.replace(context.meta[_STDIN], "standard input")
    names = {x: f"--answers {x}=" for x in LISTS + TEXTS if "answers" in context.params}
    for param in context.command.params:
        option = max(param.opts, key=len)
        for name in (param.name or "", option.lstrip("-").replace("-", "_")):
            names[name] = option if option.startswith("-") else option.upper()
    if "paths" in names:  # Python's functions have these names for it
        names |= {"models": "PATHS", "path": "PATHS"}
    names["Evaluation.save"] = "score --save"
    parts = message.split("`")
    for i, part in enumerate(parts[1:-1], 1):
        name, _, value = part.partition("=")
        if name in names:
            value = "" if value == "True" else value.replace("'miss'", "miss")
            if value.startswith("{'"):  # of `answers`, such as {'separator': ' '}
                value = value[2:-1].replace("': ", "=", 1)
            parts[i] = f"{names[name]} {value}".rstrip().replace("= ", "=")
    return "`".join(parts).replace("\0", "`")


def has_columns(path: str) -> bool:
    """Return whether a file has its targets in a column, and not in another file."""
    from nextloc_metrics.report.files.opening import suffix_of

    return suffix_of(Path(path)) not in APART


def describe_read(paths: Iterable[str], rows: Any) -> dict[str, Any]:
    """Return what the command has read and when, and the command line that repeats it."""
    context, files = click.get_current_context(), [name_of(path) for path in paths]
    if not all(map(has_columns, files)) and not context.params.get("truth"):
        files.append(context.params["target"])
    return {
        "files": ", ".join(files),
        "rows": rows,
        "version": f"nextloc-metrics {__version__}",
        "date": datetime.now().astimezone().date().isoformat(),
        "command": shlex.join(["nextloc-metrics", *context.meta[ARGUMENTS]]),
    }


def short_names(paths: Sequence[str]) -> list[str]:
    """Return paths without the folders that they all begin with."""
    parts = [path.split("/") for path in paths]
    common = 0
    while all(len(x) > common + 1 and x[common] == parts[0][common] for x in parts):
        common += 1
    return ["/".join(x[common:]) for x in parts]
