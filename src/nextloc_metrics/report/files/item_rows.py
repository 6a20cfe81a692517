"""Tables with a row per item of a query, which are refused as answers of single queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files.answers import cells_of
from nextloc_metrics.report.files.ids import is_written_as_list
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.sources import columns_of, open_table

# What columns are called; RecBole writes `user_id:token`. A rating may be the truth, and no score.
_QUERY = r"(query|q|user|customer|session|uid|qid)(_?id)?$"
_SCORE, _RANK = r"(score|prediction|probability|prob)s?$", r"(rank|position)$"
# Rows that tell whether a row is a query, and how many queries of several rows are no accident.
_SEEN, _ENOUGH = 100_000, 20


class ItemRowsError(ValueError):
    """A row is an item of a query, and not a query; `named` has the arguments that read it so."""

    def __init__(self, message: str, named: Mapping[str, str]) -> None:
        super().__init__(message)
        self.named = named


def check_rows_are_queries(table: Any, names: Roles) -> None:
    """Raise if rows with one id each are the items of fewer queries.

    So it is if there is a column of scores or ranks, and a column such as `user`, alone or with
    another one, whose values repeat, always with one target and never with one id twice.
    """
    of_queries = {names.preds, names.target}
    have = [x for x in columns_of(table) if x not in of_queries and not x.startswith("__")]
    users, scores, ranks, ratings = (
        [x for x in have if re.match(kind, x.partition(":")[0], re.IGNORECASE)]
        for kind in (_QUERY, _SCORE, _RANK, "ratings?$")
    )
    scores = [x for x in scores if x != names.confidence]
    others = [*scores, *ranks, *ratings]
    if not users or not others:
        return
    columns: dict[str, list[Any]] = {x: [] for x in (*of_queries, *have)}
    source = open_table(table, [*columns])
    for part in source.parts([*columns]):
        for name, cells in columns.items():
            cells += cells_of(part.columns[name][: _SEEN - len(cells)])
        if len(columns[names.preds]) >= _SEEN:
            break
    items, targets = columns[names.preds], columns[names.target]
    if any(map(is_written_as_list, items)):
        return
    pairs = [(user, x) for user in users for x in have if x != user and x not in others]
    for key in [*((user,) for user in users), *pairs]:
        keys = zip(*(map(str, columns[x]) for x in key), strict=True)
        if _is_key(zip(keys, targets, items, columns[ranks[0]] if ranks else items, strict=True)):
            break
    else:
        return
    may_be, order = scores or ranks, "rank" if ranks and not scores else "score"
    named = {"query": ",".join(key), "item": names.preds}
    named[order] = may_be[0] if len(may_be) == 1 else "COLUMN"
    named |= {"target": names.target} if names.target != "target" else {}
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


def _is_key(rows: Iterable[tuple[Any, ...]]) -> bool:
    """Return whether keys repeat, always with one target and never with an item or a rank twice."""
    seen: dict[Any, tuple[Any, set[Any], set[Any]]] = {}
    for key, target, item, rank in rows:
        first, items, ranks = seen.setdefault(key, (target, set(), set()))
        if target != first or item in items or rank in ranks:
            return False
        items.add(item)
        ranks.add(rank)
    several = sum(len(x[1]) > 1 for x in seen.values())
    return several > 1 and (2 * several > len(seen) or several >= _ENOUGH)
