"""Tables with a row per item of a query, which are refused as answers of single queries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files.answer_texts import cells_of
from nextloc_metrics.report.files.cells import is_written_as_list
from nextloc_metrics.report.files.opening import pa
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.sources import columns_of, open_table

# What columns are called; RecBole writes `user_id:token`. A rating may be the truth, and no score.
_QUERY = r"(query|q|user|customer|session|uid|qid)(_?id)?$"
_SCORE, _RANK = r"(score|prediction|probability|prob)s?$", r"(rank|position)$"
# Rows that tell whether a row is a query, and how many queries of several rows are no accident.
_SEEN, _ENOUGH = 100_000, 20


def check_rows_are_queries(table: Any, names: Roles) -> None:
    """Raise if rows with one id each are the items of fewer queries.

    So it is if there is a column of scores or ranks, and a column such as `user`, alone or with
    another one, whose values repeat, always with one target and never with one id twice.
    """
    preds, target = names.preds, names.target
    have = [x for x in columns_of(table) if x not in (preds, target) and not x.startswith("__")]
    users, scores, ranks, ratings = (
        [x for x in have if re.match(kind, x.partition(":")[0], re.IGNORECASE)]
        for kind in (_QUERY, _SCORE, _RANK, "ratings?$")
    )
    scores = [x for x in scores if x != names.confidence]
    others = [*scores, *ranks, *ratings]
    if not users or not others:
        return
    columns: dict[str, list[str]] = {x: [] for x in (preds, target, *have)}
    for part in open_table(table, [*columns]).parts([*columns]):
        for name, cells in columns.items():
            cells += map(str, cells_of(part.columns[name][: _SEEN - len(cells)]))
        if len(columns[preds]) >= _SEEN:
            break
    if any(map(is_written_as_list, columns[preds])):
        return
    rows = pa.table(columns)
    keys = [[x] for x in users]
    keys += [[user, x] for user in users for x in have if x != user and x not in others]
    key = next((x for x in keys if _is_key(rows, x, target, [preds, *ranks[:1]])), None)
    if key is None:
        return
    may_be, order = scores or ranks, "rank" if ranks and not scores else "score"
    named = {"query": ",".join(key), "item": preds}
    named[order] = may_be[0] if len(may_be) == 1 else "COLUMN"
    named |= {"target": target} if target != "target" else {}
    written = ", ".join(f"`{name}={short(x)}`" for name, x in named.items())
    if len(may_be) > 1:
        written += f", where COLUMN is {' or '.join(map(short, may_be))}"
    raise ValueError(
        f"rows must be queries, each with its list in `{clip(preds)}`, and these look like "
        f"single items: values of {named['query']!r} repeat, always with one target and never "
        f"with one item twice. Name the columns, {written}; or write the answer of each query as "
        "a list, such as [7]."
    )


def _is_key(rows: Any, key: Sequence[str], target: str, items: Sequence[str]) -> bool:
    """Return whether keys repeat, always with one target and never with an item or a rank twice."""
    counts = [([], "count_all"), *((x, "count_distinct") for x in (target, *items))]
    found = rows.group_by([*key]).aggregate(counts)
    names = "count_all", *(f"{x}_count_distinct" for x in (target, *items))
    number, targets, *others = (found[x].to_pylist() for x in names)
    several = sum(x > 1 for x in number)
    is_enough = several > 1 and (2 * several > len(number) or several >= _ENOUGH)
    return is_enough and max(targets) == 1 and all(x == number for x in others)
