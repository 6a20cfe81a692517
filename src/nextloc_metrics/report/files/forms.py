"""The forms in which predictions and their truth lie apart; each is a few lines of SQL.

| form | a row of the predictions | a row of the truth |
|---|---|---|
| items | one item of a query, with its score or rank | one relevant item of a query |
| lists | a query with its list, or its scores | one relevant item of a query |
| wide | a query with a column per rank | the same row, or one relevant item of a query |

What leaves is one relation, a row per query: predictions, targets, grades, groups, mask, and
where the query stood. A query of the truth without predictions is a miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files import rules
from nextloc_metrics.report.files.cells import OnError
from nextloc_metrics.report.files.database import Database
from nextloc_metrics.report.files.joining import (
    AT,
    Joined,
    TableForm,
    count_apart,
    join_items,
    join_lists,
    place_of,
)
from nextloc_metrics.report.files.opening import pa
from nextloc_metrics.report.files.relation import (
    Relation,
    matching,
    open_relation,
)
from nextloc_metrics.report.files.sources import columns_of, columns_of_both
from nextloc_metrics.report.files.tables import Names, TableRows


def open_form(
    rows: Any,
    truth: Any,
    form: TableForm,
    names: Names,
    *,
    padding: int | Sequence[int] = -1,
    vocabulary: Sequence[str | int] | None = None,
    separator: str | None = None,
    on_error: OnError = "raise",
    num_locations: int | None = None,
    threads: int = 1,
    memory_limit: str | None = None,
) -> tuple[TableRows, dict[str, Any]]:
    """Open predictions and truth as rows of queries, and count what did not fit, for the card.

    Of `names`, groups, mask and exclude are columns of the truth.
    """
    db = Database(threads, memory_limit)
    if truth is None and form.item is not None:  # each item has the target of its query beside it
        rows = rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows
        truth = rows
    if truth is None:
        source = _wide(db, rows, form, names)
        kept = names._replace(preds="preds")
        return TableRows(source, kept, padding, vocabulary, separator, on_error), {}
    if not form.query:
        both = columns_of_both(rows, truth)
        raise ValueError(
            "`query` must name the columns that say which query a row is of, in both tables, got "
            f"none; both have {short(both)}."
        )
    source, words = _joined(db, rows, truth, form, names, vocabulary, num_locations)
    grade = None if form.grade is None else "grade"
    kept = names._replace(preds="preds", target="target", grade=grade)
    known = vocabulary if words is None else range(len(words))
    found = TableRows(source, kept, padding, known, separator, on_error)
    if words is not None:
        found.vocabulary = tuple(words)
        if found.num_candidates is None:
            found.num_locations = max(1, len(words))
    if form.grade is not None:
        found.has_several = True
    return found, source.card


def _others(names: Names) -> list[str]:
    given = names.mask, names.exclude
    return list(dict.fromkeys([*names.groups, *(x for x in given if x is not None)]))


def _wide(db: Database, rows: Any, form: TableForm, names: Names) -> Joined:
    """Return the rows of one table with a column per rank."""
    others = _others(names)
    columns = matching(rows, form.preds)
    roles = {f"p{i}": x for i, x in enumerate(columns)} | {"target": form.target}
    roles |= {f"o{i}": x for i, x in enumerate(others)}
    found = open_relation(db, "found", rows, roles)
    preds, kind = _list_of(found, len(columns), "target")
    cells = [f"{found.sql[x]} AS {x}" for x in roles if x[0] != "p"]
    db.run(
        f"CREATE TABLE queries AS SELECT {AT} AS stood, {preds} AS preds, {', '.join(cells)} "
        "FROM found ORDER BY stood"
    )
    return Joined(db, found.files, _columns(others, form.target), kind == "untyped")


def _columns(others: Sequence[str], target: str = "target") -> dict[str, str]:
    of = {x: f"o{i}" for i, x in enumerate(others)}
    return {**of, "preds": "preds", target: "target", "grade": "grade"}


def _are_whole(found: Relation, roles: Sequence[str]) -> bool:
    """Return whether columns hold whole numbers and gaps, as ids of pandas beside a gap are."""
    cells = (f"(NOT isnan({x}) AND ({x} <> floor({x}) OR isinf({x})))" for x in roles)
    return found.db.row(f"SELECT 1 FROM {found.name} WHERE {' OR '.join(cells)} LIMIT 1") is None


def _list_of(found: Relation, number: int, partner: str | None) -> tuple[str, str]:
    """Return the SQL of a list of the columns of a wide table, and what it holds."""
    kinds = {x: found.type_of(x) for x in (f"p{i}" for i in range(number))}
    roles = [*kinds]
    are_floats = {*kinds.values()} <= {"FLOAT", "DOUBLE"}
    if are_floats and not _are_whole(found, roles):
        cells = ", ".join(f"coalesce({x}, 'nan'::DOUBLE)" for x in roles)
        return f"[{cells}]", "scores"
    cells_of = {x: f"nullif({x}, '')" if found.untyped else x for x in roles}
    for before, after in pairwise(roles):
        found.refuse(
            before,
            f"{cells_of[before]} IS NULL AND {cells_of[after]} IS NOT NULL",
            "an id before the next",
            "only the last columns of a row may be empty",
        )
    if not found.untyped:
        for role in roles:  # a float of pandas holds an integer beside a gap
            if kinds[role] in ("FLOAT", "DOUBLE"):
                found.refuse(
                    role,
                    "NOT ({0} IS NULL OR isnan({0}) OR ({0} = floor({0}) AND "
                    "abs({0}) < 9007199254740992))",
                    "whole numbers below 2^53",
                    "write ids as integers or as text",
                )
                cells_of[role] = (
                    f"CAST(CASE WHEN isnan({role}) THEN NULL ELSE {role} END AS BIGINT)"
                )
        are_text = {kinds[x] == "VARCHAR" for x in roles}
        if len(are_text) > 1:
            raise ValueError(
                f"{found.files[0]} must hold ids of one type in `preds`, got {short(kinds)}."
            )
        kind = "text" if are_text.pop() else "integers"
        listed = ", ".join(cells_of[x] for x in roles)
        return f"list_filter([{listed}], lambda x: x IS NOT NULL)", kind
    listed = ", ".join(cells_of[x] for x in roles)
    # a list in JSON: its ids are read as those of a cell of CSV
    return f"CAST(to_json(list_filter([{listed}], lambda x: x IS NOT NULL)) AS VARCHAR)", "untyped"


def _joined(
    db: Database,
    rows: Any,
    truth: Any,
    form: TableForm,
    names: Names,
    vocabulary: Sequence[str | int] | None,
    num_locations: int | None,
) -> tuple[Joined, list[Any] | None]:
    """Join both tables to `queries`; return also the vocabulary if ids were numbered here."""
    keys, others = [f"k{i}" for i in range(len(form.query))], _others(names)
    found, relevant = _open_both(db, rows, truth, form, others)
    for key in keys:
        rules.align(found, key, relevant, key)
    if form.grade is not None:
        rules.to_grades(relevant, "grade")
    if form.item is not None:
        kind = rules.align(found, "item", relevant, "item")
        untyped = False
    elif wide := sum(x[0] == "p" for x in found.columns if x != "preds"):
        preds, kind = _list_of(found, wide, None)
        untyped = kind == "untyped"
        found.sql["preds"] = preds
    else:
        kind = _kind_of_lists(found)
        untyped = found.untyped
    if form.item is None:
        _settle_targets(relevant, kind, untyped)
    listed = ", ".join(keys)
    constant = {f"o{i}": x for i, x in enumerate(others)}
    if truth is rows and form.grade is None:
        constant["item"] = form.target
    _gather(relevant, keys, constant, form)
    selected = ", ".join(f"{found.sql[x]} AS {x}" for x in found.sql if x[0] != "p" or x == "preds")
    db.run(f"CREATE VIEW answers AS SELECT {selected}, {AT} AS stood FROM found")
    db.run(f"CREATE TABLE answered AS SELECT {listed}, count(*) AS n FROM answers GROUP BY ALL")
    card = count_apart(db, listed, found, relevant, keys, rows, truth, form)
    if form.item is None:
        join_lists(db, keys, found, others, untyped, relevant)
        files = found.files
        return Joined(db, files, _columns(others), untyped, None, card), None
    words, width = join_items(
        db, keys, found, relevant, kind, form, vocabulary, num_locations, card
    )
    return Joined(db, relevant.files, _columns(others), False, width, card), words


def _open_both(
    db: Database, rows: Any, truth: Any, form: TableForm, others: Sequence[str]
) -> tuple[Relation, Relation]:
    """Open predictions and truth, with the roles that their columns have."""
    named = {f"k{i}": x for i, x in enumerate(form.query)}
    target = form.target
    if target == "target" and form.item is not None:
        have = columns_of(truth)
        target = form.item if "target" not in have and form.item in have else target
    of_truth = {**named, "item": target, **{f"o{i}": x for i, x in enumerate(others)}}
    if form.grade is not None:
        of_truth["grade"] = form.grade
    wide = matching(rows, form.preds) if form.item is None and form.is_wide else []
    if form.item is not None:
        of_rows = {**named, "item": form.item, "value": str(form.score or form.rank)}
    elif wide:
        of_rows = named | {f"p{i}": x for i, x in enumerate(wide)}
    else:
        of_rows = {**named, "preds": str(form.preds)}
    relevant = open_relation(db, "relevant", truth, of_truth)
    return open_relation(db, "found", rows, of_rows), relevant


def _kind_of_lists(found: Relation) -> str:
    kind = found.type_of("preds")
    if kind == "VARCHAR":
        return "untyped" if found.untyped else "cells"
    if not kind.endswith("]"):  # one id per query
        if kind not in rules._INTEGERS:
            kind = "VARCHAR" if rules._settle(found, "preds") == "text" else "BIGINT"
        found.sql["preds"] = f"[{found.sql['preds']}]"
    inner = kind.partition("[")[0]
    return "text" if inner == "VARCHAR" else "integers"


def _settle_targets(relevant: Relation, kind: str, untyped: bool) -> None:
    """Give the targets the type of the ids in the lists."""
    found = rules._settle(relevant, "item")
    if untyped:
        relevant.sql["item"] = f"CAST({relevant.sql['item']} AS VARCHAR)"
    elif found == "untyped" and kind in ("integers", "scores"):
        rules.to_integers(relevant, "item")
    elif kind in ("integers", "text") and found not in ("untyped", kind):
        raise ValueError(
            f"both tables must hold text or both integers, got lists of {kind} and {found} such as "
            f"{relevant.example('item')} in `{relevant.columns['item']}` of {relevant.files[0]}; "
            "convert one of them."
        )


def _gather(
    relevant: Relation, keys: list[str], constant: Mapping[str, str], form: TableForm
) -> None:
    """Make the tables `asked`, a row per query, and `targets`, a row per relevant id of it."""
    db, listed = relevant.db, ", ".join(keys)
    cells = ", ".join(f"{sql} AS {role}" for role, sql in relevant.sql.items())
    db.run(f"CREATE VIEW truth AS SELECT {cells}, {AT} AS stood FROM relevant")
    rest = "".join(f", any_value({x}) AS {x}" for x in constant if x != "item")
    db.run(
        f"CREATE TABLE asked AS SELECT {listed}, min(stood) AS stood, "
        f"row_number() OVER () - 1 AS id{rest} FROM truth GROUP BY {listed}"
    )
    has_several = db.value("SELECT count(*) FROM asked") < db.value("SELECT count(*) FROM truth")
    for cell, name in constant.items() if has_several else ():
        wrong = db.row(
            f"SELECT stood, o FROM (SELECT stood, {cell} AS o, first_value({cell}) OVER (PARTITION "
            f"BY {listed} ORDER BY stood) AS f FROM truth) WHERE o IS DISTINCT FROM f "
            "ORDER BY stood LIMIT 1"
        )
        if wrong is not None and cell == "item":
            raise ValueError(
                f"{place_of(relevant, wrong[0])} must hold the one target of its query in "
                f"`{clip(name)}`, got another, {short(wrong[1])}; name further columns of `query`, "
                "or of labels that say which items are relevant, "
                f"`target={short(form.item)}` and `grade={short(name)}`."
            )
        if wrong is not None:
            raise ValueError(
                f"{place_of(relevant, wrong[0])} must hold the same value in `{clip(name)}` as the "
                f"rows before of its query, got {short(wrong[1])}; a column of the truth is "
                "constant within a query."
            )
    grade = ", min(grade) AS grade" if form.grade is not None else ""
    if form.grade is not None:
        wrong = db.row(
            f"SELECT max(stood), item FROM truth GROUP BY {listed}, item "
            "HAVING min(grade) < max(grade) ORDER BY 1 LIMIT 1"
        )
        if wrong is not None:
            raise ValueError(
                f"{place_of(relevant, wrong[0])} must hold one grade in `{clip(str(form.grade))}` "
                f"for each item of a query, got another for {short(wrong[1])}."
            )
    first = "row_number() OVER (PARTITION BY id ORDER BY min(grade) DESC, item)"
    db.run(
        f"CREATE TABLE targets AS SELECT id, item, min(truth.stood) AS stood{grade} FROM truth "
        f"JOIN asked USING ({listed}) GROUP BY id, item"
        # of a query without a relevant item, one that is judged stays, and is never found
        + (f" QUALIFY min(grade) > 0 OR {first} = 1" if form.grade is not None else "")
    )
