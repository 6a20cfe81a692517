"""The card of a page that a command writes: what was read, and the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any

import click

from nextloc_metrics.cli.options import ARGUMENTS

# Parameters that are no options of the evaluation: they name columns, or say what is written.
_COLUMNS = {
    "preds",
    "target",
    "mask",
    "exclude",
    "weights",
    "confidence",
    "cluster",
    "groups",
    "key",
}
_COLUMNS |= {"trajectory", "latitude", "longitude", "location", "time", "user"}
_WRITING = {"kind", "out", "force", "save", "group_table", "intervals", "title", "workers"}


def describe_read(files: Iterable[str], rows: Any, columns: Iterable[str | None]) -> dict[str, Any]:
    """Return what the command read and when, and the command that does it again."""
    context = click.get_current_context()
    given = {
        param: context.params.get(param.name or "")
        for param in context.command.params
        if isinstance(param, click.Option) and param.name not in _COLUMNS | _WRITING
    }
    options = [text for param, value in given.items() if (text := _write(param, value))]
    return {
        "files": ", ".join(files),
        "rows": rows,
        "columns": ", ".join(dict.fromkeys(x for x in columns if x)) or None,
        "options": "; ".join(options) or None,
        "version": f"nextloc-metrics {version('nextloc-metrics')}",
        "date": datetime.now().astimezone().date().isoformat(),
        "command": shlex.join(["nextloc-metrics", *context.meta[ARGUMENTS]]),
    }


def short_names(paths: Sequence[str]) -> list[str]:
    """Return paths without the folders that all have in common."""
    parts = [path.split("/") for path in paths]
    common = 0
    while all(len(x) > common + 1 and x[common] == parts[0][common] for x in parts):
        common += 1
    return ["/".join(x[common:]) for x in parts]


def _write(param: click.Option, value: Any) -> str:
    """Write an option with the value in use; nothing if it is not used."""
    if not value and isinstance(param.show_default, str):
        value = param.show_default
    if value is None or value is False or value == ():
        return ""
    name = max(param.opts, key=len).lstrip("-")
    if value is True:
        return name
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"{name} {text}"
