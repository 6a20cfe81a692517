"""The command that names the columns of a table that was refused."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import click

#: where a context keeps the arguments of the command
ARGUMENTS = "nextloc_metrics.arguments"

#: the parameters that name columns
COLUMNS = {"preds", "target", "mask", "exclude", "confidence", "cluster", "groups"}
COLUMNS |= {"query", "item", "score", "rank", "grade", "key"}


def say_columns(message: str, error: Exception) -> str:
    """Return the command with an option for each column that is missing; COLUMN if in doubt."""
    if named := getattr(error, "named", None):  # rows that are items of queries
        return _say_command(named.items(), {"preds": [named["item"]]})
    found = re.search(r"must have the columns (\[.*?\]), got (\[.*?\])", message)
    missing, have = (found[1], re.findall(r"'([^']+)'", found[2])) if found else ("", [])
    params, lost = click.get_current_context().params, dict[str, list[str]]()
    for name, value in params.items():
        values = value if isinstance(value, tuple) else (value,)
        if name in COLUMNS and (gone := [x for x in values if repr(x) in missing]):
            lost[name] = gone
    roles = [(name, x) for name, values in lost.items() for x in values]
    order = next((x for x in ("score", "rank") if x in have), None)
    truth = [x for x in lost.get("target", ()) if Path(x).is_file()]  # named as a column
    if "preds" in lost and order is not None and "truth" in params:  # a row is an item
        truth = truth or ["FILE"] * ("target" in lost)
        roles = [(x, x) for x in ("query", "item", order)]
    elif truth:
        roles = [*(x for x in roles if x[0] != "target"), ("query", "query")]
    named = [("truth", x) for x in truth]
    for name, column in roles:
        near = [column] if column in have else get_close_matches(column, have, 2, 0.7)
        named.append((name, near[0] if len(near) == 1 else "COLUMN"))
    return _say_command(named, lost) if named else ""


def _say_command(named: Iterable[tuple[str, str]], lost: Mapping[str, Sequence[str]]) -> str:
    """Return the command as it was given, with options in the place of some that it had."""
    context = click.get_current_context()
    option = {x.name: max(x.opts, key=len) for x in context.command.params}
    command = shlex.join(["nextloc-metrics", *context.meta[ARGUMENTS]])
    for name, values in lost.items():
        for value in map(shlex.quote, values):
            command = re.sub(f" {option[name]}[ =]{re.escape(value)}(?= |$)", "", command)
    words = [word for name, value in named for word in (option[name], value)]
    return f" Name the columns: {command} {shlex.join(words)}"
