"""How a table may be read, from the names of its columns and, if need be, its first rows."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files.answers import cells_of
from nextloc_metrics.report.files.ids import is_written_as_list
from nextloc_metrics.report.files.nested import read_json_objects
from nextloc_metrics.report.files.opening import pa
from nextloc_metrics.report.files.sources import columns_of
from nextloc_metrics.report.files.tables import Names, source_of

# What the columns of frameworks are called; RecBole writes `user_id:token`. No score is called
# `rating`, which may be the truth.
_ITEM = r"(item|location|poi|venue|product|document|doc|article|place)(_?id)?$"
_SCORE = r"(score|prediction|probability|prob)s?$"
_QUERY = r"(query|q|user|customer|session|uid|qid)(_?id)?$"
_RANK = r"(rank|position)$"
_WIDE = r"(.*\D)\d+$"

# Rows that tell whether a row is a query, and how many queries of several rows are no accident.
_SEEN, _ENOUGH = 100_000, 20


def propose_form(path: str, reading: Mapping[str, Any], error: ValueError) -> str:
    """Return a sentence with the command for a table that was refused so, or "" without one."""
    guesses: list[str] = []
    words: list[str] = []
    if isinstance(error, ItemRowsError):
        words = error.options
    elif "must have the columns" in str(error):
        with suppress(OSError, ValueError, StopIteration):
            words = _propose(path, reading, guesses)
    if not words:
        return ""
    where = f", where {' and '.join(guesses)}" if guesses else ""
    command = shlex.join(["nextloc-metrics", "score", path, *words])
    return f"This may be what you mean{where}: {command}"


def _like(pattern: str, columns: Iterable[str]) -> list[str]:
    """Return the columns that are called so; one such as `__index_level_0__` is nobody's."""
    names = (x for x in columns if not x.startswith("__"))
    return [x for x in names if re.match(pattern, x.partition(":")[0], re.IGNORECASE)]


def _propose(path: str, reading: Mapping[str, Any], guesses: list[str]) -> list[str]:
    """Return the options that may be meant; a column that may be another one is not named."""
    have, preds, target = columns_of(path), reading["preds"], reading["target"]
    truth = target if Path(target).is_file() else reading["truth"]
    if read_json_objects(path) is not path:  # dicts of ranx
        return ["--truth", truth or "FILE"]

    def one(option: str, columns: Sequence[str]) -> list[str]:
        if len(columns) > 1:
            guesses.append(f"`{option}` is {' or '.join(map(short, columns))}")
        return [option, columns[0] if len(columns) == 1 else "COLUMN"]

    items, scores, ranks = (_like(x, have) for x in (_ITEM, _SCORE, _RANK))
    stems = Counter(f"{found[1]}*" for x in have if (found := re.match(_WIDE, x)))
    wide = [x for x, number in stems.items() if number > 1]
    if items and (scores or ranks):
        words = one("--item", items)
        words += one("--score", scores) if scores else one("--rank", ranks)
    elif wide and preds not in have:
        words, items = one("--preds", wide), []
        if truth is None:
            return words if target in have else []
    elif truth is not None and preds in have:
        words, items = ["--preds", preds] if preds != "preds" else [], []
    else:
        return []
    there = have if truth is None else columns_of(truth)
    used = {*items, *scores, *ranks, preds, target}
    both = [x for x in _like("", have) if x in there and x not in used]
    queries = _like(_QUERY, both)
    if truth is not None and not queries:
        if not (queries := both):
            return []
        if len(both) == 1:
            guesses.append(f"`--query {both[0]}` is a guess, the only column of both tables")
    is_beside = truth is None and target in have
    if target in there:
        words += ["--target", target] if target != "target" else []
    elif truth is not None and not {*items} & {*there}:
        rest = [x for x in _like("", there) if x not in queries and not _like(_QUERY, [x])]
        if not rest:
            return []
        words += one("--target", rest)
    return [*([] if is_beside else ["--truth", truth or "FILE"]), *one("--query", queries), *words]


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
    have = [x for x in _like("", columns_of(table)) if x not in (names.preds, names.target)]
    users, scores, ranks = (_like(x, have) for x in (_QUERY, _SCORE, _RANK))
    scores = [x for x in scores if x != names.confidence]
    others = [*scores, *ranks, *_like("ratings?$", have)]
    if not users or not others or isinstance(table, pa.RecordBatchReader):
        return
    columns = _first_rows(table, [names.preds, names.target, *have])
    items, targets = columns[names.preds], columns[names.target]
    if any(map(is_written_as_list, items)):
        return
    rest = [x for x in have if x not in others]
    pairs = [(user, x) for user in users for x in rest if x != user]
    places = columns[ranks[0]] if ranks else items
    for key in [*((user,) for user in users), *pairs]:
        keys = zip(*(map(str, columns[x]) for x in key), strict=True)
        if _is_key(keys, items, targets, places):
            break
    else:
        return
    named = {"query": ",".join(key), "item": names.preds}
    may_be = scores or ranks
    named["score" if scores or not ranks else "rank"] = may_be[0] if len(may_be) == 1 else "COLUMN"
    if names.target != "target":
        named["target"] = names.target
    written = ", ".join(f"`{name}={short(x)}`" for name, x in named.items())
    if len(may_be) > 1:
        written += f", where COLUMN is {' or '.join(map(short, may_be))}"
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
    for part in source_of(table, names).parts(columns):
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
