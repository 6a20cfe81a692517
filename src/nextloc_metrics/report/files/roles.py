"""The roles of columns of predictions and of their truth, and whether a row is a query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nextloc_metrics.core.queries.messages import as_column, clip, short
from nextloc_metrics.report.files.cells import is_written_as_list
from nextloc_metrics.report.files.opening import pa
from nextloc_metrics.report.files.sources import columns_of, open_table

# Usual names of columns; RecBole writes `user_id:token`. A rating is no score: it may be the truth.
_QUERY = r"(query|q|user|customer|session|uid|qid)(_?id)?$"
_SCORE, _RANK = r"(score|prediction|probability|prob)s?$", r"(rank|position)$"
# How many rows tell whether a row is a query; so many queries of several rows are no accident.
_SEEN, _ENOUGH = 100_000, 20


@dataclass(frozen=True)
class Roles:
    """The columns of predictions and of their truth, as `evaluate` names them.

    `query`, `item`, `score`, `rank` and `grade` are for predictions whose truth is another table.
    """

    preds: Any = "preds"
    target: str = "target"
    groups: Sequence[str] = ()
    mask: str | None = None
    exclude: str | None = None
    confidence: str | None = None
    query: Sequence[str] = ()
    item: str | None = None
    score: str | None = None
    rank: str | None = None
    grade: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.query, str):
            object.__setattr__(self, "query", (self.query,))

    @property
    def all(self) -> list[str]:
        """Every column of a table with a row per query, once."""
        options = self.mask, self.exclude, self.confidence, self.grade
        named = [self.preds, self.target, *self.groups, *options]
        return list(dict.fromkeys(name for name in named if name is not None))

    @property
    def ids(self) -> tuple[str | None, ...]:
        """The columns of ids of locations."""
        return self.preds, self.target, self.exclude

    @property
    def is_of_lists(self) -> bool:
        """Whether a row is a query with its answer in one column, and no target has a grade."""
        return self.item is None and self.grade is None and not self.is_wide

    @property
    def is_wide(self) -> bool:
        """Whether a list has a column per rank."""
        return not isinstance(self.preds, str) or any(x in self.preds for x in "*?")

    def refuse(self, what: str, *names: str) -> None:
        """Raise if columns are named although `what` has no columns."""
        for name in names or ("query", "item", "score", "rank", "grade"):
            if named := getattr(self, name):
                raise ValueError(
                    f"`{name}` must be None for {what}, got {short(named)}; pass columns as a "
                    "table, such as `pandas.DataFrame(rows)`."
                )

    def are_apart(self, rows: Any, truth: Any) -> bool:
        """Return whether predictions and targets must be joined; raise if a role is missing."""
        if self.item is None:
            if named := [x for x in ("score", "rank") if getattr(self, x) is not None]:
                raise ValueError(f"`{named[0]}` needs `item`, the column of items, got None.")
        elif (self.score is None) == (self.rank is None):
            raise ValueError(
                "`item` needs one of `score` and `rank`, the column that orders the items of a "
                f"query, got {short(self.score)} and {short(self.rank)}."
            )
        if truth is None and not (self.item is not None and has_column(rows, self.target)):
            named = [x for x in ("query", "item", "grade") if getattr(self, x)]
            if named:
                raise ValueError(
                    f"`{named[0]}` needs `truth`, the table of the relevant ids of each query, got "
                    "None."
                )
        is_wide = self.is_wide and not (
            isinstance(self.preds, str) and has_column(rows, self.preds)
        )
        return truth is not None or self.item is not None or is_wide


def has_column(source: Any, name: str) -> bool:
    """Return whether a table has a column; false if that cannot be found out."""
    with suppress(ValueError, OSError):
        return name in columns_of(source)
    return False


def check_rows_are_queries(table: Any, names: Roles, columns: Sequence[str]) -> None:
    """Raise if rows with one id each seem to be items, several of which belong to one query.

    They are such items if there is a column of scores or ranks, and a column such as `user`, alone
    or with another one, whose values repeat, always with one target and never with one id twice.
    """
    have = _beside(columns or columns_of(table), names)
    users, scores, ranks, ratings = _look_like_items(have, names)
    others = [*scores, *ranks, *ratings]
    if not users or not others:
        return
    preds, target = names.preds, names.target
    first: dict[str, list[str]] = {x: [] for x in (preds, target, *have)}
    for part in open_table(table, [*first]).parts([*first]):
        for name, cells in first.items():
            cells += map(str, part.columns[name][: _SEEN - len(cells)].to_pylist())
        if len(first[preds]) >= _SEEN:
            break
    if any(map(is_written_as_list, first[preds])):
        return
    rows = pa.table(first)
    keys = [[x] for x in users]
    keys += [[user, x] for user in users for x in have if x != user and x not in others]
    key = next((x for x in keys if _is_key(rows, x, target, [preds, *ranks[:1]])), None)
    if key is None:
        return
    candidates, order = scores or ranks, "rank" if ranks and not scores else "score"
    named = {"query": ",".join(key), "item": preds}
    named[order] = candidates[0] if len(candidates) == 1 else "COLUMN"
    named |= {"target": target} if target != "target" else {}
    written = ", ".join(f"`{name}={short(x)}`" for name, x in named.items())
    if len(candidates) > 1:
        written += f", where COLUMN is {' or '.join(map(short, candidates))}"
    raise ValueError(
        f"rows must be queries, each with its list in {as_column(clip(preds))}, and these look "
        f"like single items: values of {named['query']!r} repeat, always with one target and never "
        f"with one item twice. Name the columns, {written}; or write the answer of each query as a "
        "list, such as [7]."
    )


def may_be_items(columns: Sequence[str], names: Roles) -> bool:
    """Return whether `check_rows_are_queries` looks at the rows of a table with these columns."""
    users, *others = _look_like_items(_beside(columns, names), names)
    return bool(users) and any(others)


def _beside(columns: Sequence[str], names: Roles) -> list[str]:
    return [x for x in columns if x not in (names.preds, names.target) and not x.startswith("__")]


def _look_like_items(columns: Sequence[str], names: Roles) -> list[list[str]]:
    """Return the columns with usual names of queries, of scores, of ranks and of ratings."""
    kinds = [_QUERY, _SCORE, _RANK, "ratings?$"]
    by_kind = [
        [x for x in columns if re.match(y, x.partition(":")[0], re.IGNORECASE)] for y in kinds
    ]
    by_kind[1] = [x for x in by_kind[1] if x != names.confidence]
    return by_kind


def _is_key(rows: Any, key: Sequence[str], target: str, items: Sequence[str]) -> bool:
    """Return whether keys repeat, always with one target and never with an item or a rank twice."""
    counts = [([], "count_all"), *((x, "count_distinct") for x in (target, *items))]
    counted = rows.group_by([*key]).aggregate(counts)
    names = "count_all", *(f"{x}_count_distinct" for x in (target, *items))
    rows_of_keys, targets, *others = (counted[x].to_pylist() for x in names)
    several = sum(x > 1 for x in rows_of_keys)
    is_enough = several > 1 and (2 * several > len(rows_of_keys) or several >= _ENOUGH)
    return is_enough and max(targets) == 1 and all(x == rows_of_keys for x in others)
