"""How a table may be read, from the names of its columns and, if need be, its first rows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files.answers import cells_of
from nextloc_metrics.report.files.ids import is_written_as_list
from nextloc_metrics.report.files.nested import read_json_object
from nextloc_metrics.report.files.opening import pa
from nextloc_metrics.report.files.sources import columns_of
from nextloc_metrics.report.files.tables import Names, source_of

# What the columns of frameworks are called, the usual ones first.
_ITEM = r"(item|location|poi|venue|product|document|doc|article|place)(_?id)?$"
_SCORE = r"(score|prediction|probability|prob|rating)s?$"
_QUERY = r"(query|q|user|customer|session|uid|qid)(_?id)?$"
_RANK = r"(rank|position)$"
_WIDE = r"(.*\D)\d+$"

# Rows that tell whether a row is a query, and how many queries of several rows are no accident.
_SEEN, _ENOUGH = 100_000, 20


def propose_form(path: str, reading: Mapping[str, Any], error: ValueError) -> str:
    """Return the command for a table that was refused so, or "" if none is known."""
    if isinstance(error, ItemRowsError):
        return shlex.join(["nextloc-metrics", "score", path, *error.options])
    if "must have the columns" in str(error):
        with suppress(OSError, ValueError, StopIteration):
            return _propose(path, reading)
    return ""


def _propose(path: str, reading: Mapping[str, Any]) -> str:
    have = columns_of(path)
    target = reading["target"]
    truth = target if Path(target).is_file() else reading["truth"]
    words = ["nextloc-metrics", "score", path]
    if read_json_object(path) is not path:  # dicts of ranx
        return shlex.join([*words, "--truth", truth or "FILE"])
    there = [] if truth is None else columns_of(truth)

    def first(pattern: str) -> str | None:
        return next((x for x in have if re.match(pattern, x, re.IGNORECASE)), None)

    item, score, rank = first(_ITEM), first(_SCORE), first(_RANK)
    stems = [found[1] for x in have if (found := re.match(_WIDE, x))]
    stem = next((x for x in stems if stems.count(x) > 1), None)
    if item is not None and (score or rank):
        ordered = ["--score", score] if score else ["--rank", rank]
        preds = ["--item", item, *map(str, ordered)]
    elif stem is not None and reading["preds"] not in have:
        preds = ["--preds", f"{stem}*"]
    elif truth is not None and reading["preds"] in have:
        preds = ["--preds", reading["preds"]] if reading["preds"] != "preds" else []
    else:
        return ""
    if stem is None or truth is not None:
        both = [x for x in have if x in there and x not in preds]
        query = next((x for x in both if re.match(_QUERY, x, re.IGNORECASE)), None)
        query = query or (both[0] if both else first(_QUERY)) or "COLUMN"
        is_beside = truth is None and target in have and "--item" in preds
        words += ["--query", query] if is_beside else ["--truth", truth or "FILE", "--query", query]
        preds += ["--target", target] if is_beside and target != "target" else []
        rest = [x for x in there if x != query]
        if truth is not None and "target" not in rest and item not in rest and rest:
            preds += ["--target", rest[0]]
    elif target not in have:
        return ""
    return shlex.join([*words, *preds])


class ItemRowsError(ValueError):
    """A row is an item of a query, and not a query; `named` has the arguments that read it so."""

    def __init__(self, message: str, named: Mapping[str, str]) -> None:
        super().__init__(message)
        self.named = named

    @property
    def options(self) -> list[str]:
        """The options of the command line that read the table."""
        return [word for name, column in self.named.items() for word in (f"--{name}", column)]


def check_rows_are_queries(table: Any, names: Names) -> None:
    """Raise if rows with one id each are the items of fewer queries.

    So it is if there is a column of scores or ranks, and a column such as `user`, alone or with
    another one, whose values repeat, always with one target and never with one id twice. That a
    query has one answer, and the next of its user the same target and another answer, can be; that
    it is so of all users cannot.
    """
    have = [x for x in columns_of(table) if x not in (names.preds, names.target)]
    users = [x for x in have if re.match(_QUERY, x, re.IGNORECASE)]
    order = {name: x for name, like in (("rank", _RANK), ("score", _SCORE)) for x in have
             if x != names.confidence and re.match(like, x, re.IGNORECASE)}  # fmt: skip
    if not users or not order or isinstance(table, pa.RecordBatchReader):
        return
    columns = _first_rows(table, [names.preds, names.target, *have])
    items, targets = columns[names.preds], columns[names.target]
    if any(map(is_written_as_list, items)):
        return
    rest = [x for x in have if x not in order.values()]
    pairs = [(user, x) for user in users for x in rest if x != user]
    ranks = columns[order["rank"]] if "rank" in order else items
    for key in [*((user,) for user in users), *pairs]:
        keys = zip(*(map(str, columns[x]) for x in key), strict=True)
        if _is_key(keys, items, targets, ranks):
            break
    else:
        return
    by = "score" if "score" in order else "rank"
    named = {"query": ",".join(key), "item": names.preds, by: order[by]}
    if names.target != "target":
        named["target"] = names.target
    written = ", ".join(f"`{name}={short(x)}`" for name, x in named.items())
    raise ItemRowsError(
        f"rows must be queries, each with its list in `{clip(names.preds)}`, and these look like "
        f"single items: values of {named['query']!r} repeat, always with one target and never "
        f"with one item twice. Name the columns, {written}; or write the answer of each query as "
        "a list, such as [7].",
        named,
    )


def _first_rows(table: Any, columns: Sequence[str]) -> dict[str, list[Any]]:
    """Return the cells of the first rows, as Python values."""
    names = Names(columns[0], columns[1], others=tuple(columns))
    found: dict[str, list[Any]] = {x: [] for x in columns}
    for part in source_of(table, names, "miss").parts(columns, ids=columns[:2]):
        for name, cells in found.items():
            cells += cells_of(part.columns[name][: _SEEN - len(cells)])
        if len(found[columns[0]]) >= _SEEN:
            break
    return found


def _is_key(
    keys: Iterable[Any], items: Iterable[Any], targets: Iterable[Any], ranks: Iterable[Any]
) -> bool:
    """Return whether keys repeat, always with one target and never with an item or a rank twice."""
    seen: dict[Any, tuple[Any, set[Any], set[Any]]] = {}
    for key, item, target, rank in zip(keys, items, targets, ranks, strict=True):
        first, known, ranked = seen.setdefault(key, (target, set(), set()))
        if target != first or item in known or rank in ranked:
            return False
        known.add(item)
        ranked.add(rank)
    several = sum(len(known) > 1 for _, known, _ in seen.values())
    return several > 1 and (2 * several > len(seen) or several >= _ENOUGH)
