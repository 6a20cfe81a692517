"""The forms in which predictions and their truth lie apart; each is a few lines of SQL.

| form | a row of the predictions | a row of the truth |
|---|---|---|
| items | one item of a query, with its score or rank | one relevant item of a query |
| lists | a query with its list, or its scores | one relevant item of a query |
| wide | a query with a column per rank | the same row, or one relevant item of a query |

What leaves is one relation, a row per query: predictions, targets, grades, groups, mask, weights,
and where the query stood. A query of the truth without predictions is a miss.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from nextloc_metrics.arguments.messages import clip, short
from nextloc_metrics.files import rules
from nextloc_metrics.files.ids import OnError
from nextloc_metrics.files.numbers import DENSE
from nextloc_metrics.files.opening import Part, RowSource, pa
from nextloc_metrics.files.relation import (
    Database,
    Relation,
    columns_of,
    matching,
    open_relation,
)
from nextloc_metrics.files.tables import Names, TableRows

# Where a row stood, as one number.
_AT = "(CAST(file AS BIGINT) << 40) + row"
_ROW = (1 << 40) - 1
# Numbers of a part that holds a score for each candidate.
_SCORES = 1 << 22


@dataclass(frozen=True)
class Form:
    """Which columns hold what, in two tables or in one.

    Attributes:
        query: the columns that together name a query, in both tables; empty for one wide table.
        preds: the column of lists or of scores, a pattern such as `pred_*`, or several columns.
        target: the column of relevant ids, of the truth.
        item: the column of one item per row, in place of `preds`.
        score: the column of its score, or
        rank: the column of its rank, from 0 or from 1.
        grade: the column of grades of the truth.
    """

    query: tuple[str, ...] = ()
    preds: str | tuple[str, ...] = "preds"
    target: str = "target"
    item: str | None = None
    score: str | None = None
    rank: str | None = None
    grade: str | None = None

    def __post_init__(self) -> None:
        if self.item is None:
            if named := [x for x in ("score", "rank") if getattr(self, x) is not None]:
                raise ValueError(f"`{named[0]}` needs `item`, the column of items, got None.")
        elif (self.score is None) == (self.rank is None):
            raise ValueError(
                "`item` needs one of `score` and `rank`, the column that orders the items of a "
                f"query, got {short(self.score)} and {short(self.rank)}."
            )

    @property
    def is_wide(self) -> bool:
        """Whether a list has a column per rank."""
        return not isinstance(self.preds, str) or any(x in self.preds for x in "*?")


@dataclass(eq=False)
class Joined(RowSource):
    """The rows of the table `queries`, one per query, of a database.

    `columns` has the SQL column of each name, and `width` the number of candidates if `preds` has
    numbers of candidates and `scores` their scores.
    """

    db: Database
    files: list[str]
    columns: dict[str, str]
    untyped: bool = False
    width: int | None = None
    card: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.num_rows = self.db.value("SELECT count(*) FROM queries")

    def parts(self, columns: Sequence[str], ids: Sequence[str] = ()) -> Iterator[Part]:
        """Yield the rows, in a part no more than one file."""
        cells = [self.columns[name] for name in columns]
        scores = ["scores"] if self.width is not None and "preds" in cells else []
        listed = ", ".join(["stood", *cells, *scores])
        rows = max(1, _SCORES // self.width) if self.width and scores else 100_000
        for batch in self.db.batches(f"SELECT {listed} FROM queries", rows):
            stood = batch.column(0).to_numpy(zero_copy_only=False)
            start = 0
            for file, group in groupby((stood >> 40).tolist()):
                number = len(list(group))
                piece = batch.slice(start, number)
                found = {name: piece.column(i + 1) for i, name in enumerate(columns)}
                if scores:
                    name = columns[cells.index("preds")]
                    found[name] = self._dense(found[name], piece.column(len(cells) + 1))
                where = (stood[start : start + number] & _ROW).tolist()
                yield Part(self.files[max(file, 0)], where, found)
                start += number

    def _dense(self, items: Any, scores: Any) -> Any:
        """Return a score for each candidate; one without is -inf, unretrieved."""
        dense = np.full((len(items), self.width or 0), -np.inf, np.float32)
        rows = np.repeat(np.arange(len(items)), items.value_lengths().to_numpy())
        dense[rows, items.flatten().to_numpy()] = scores.flatten().to_numpy()
        return dense


def open_form(
    rows: Any,
    truth: Any,
    form: Form,
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

    Of `names`, groups, mask, exclude and weights are columns of the truth.
    """
    db = Database(threads, memory_limit)
    if truth is None:
        if form.item is not None or not form.is_wide:
            raise ValueError(
                "`truth` must be the table of the relevant ids of each query, got None; pass it "
                f"with `query`, the columns that name a query, for {_title(rows)}."
            )
        source = _wide(db, rows, form, names)
        kept = names._replace(preds="preds")
        return TableRows(source, kept, padding, vocabulary, separator, on_error), {}
    if not form.query:
        both = [x for x in columns_of(rows) if x in columns_of(truth)]
        raise ValueError(
            "`query` must name the columns that say which query a row is of, in both tables, got "
            f"none; both have {short(both)}."
        )
    source, words = _joined(db, rows, truth, form, names, vocabulary, num_locations)
    kept = names._replace(
        preds="preds", target="target", grade=None if form.grade is None else "grade", key=None
    )
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
    given = names.mask, names.exclude, names.weights
    return list(dict.fromkeys([*names.groups, *(x for x in given if x is not None)]))


def _title(table: Any) -> str:
    return clip(str(table)) if isinstance(table, str) or hasattr(table, "parts") else "the table"


def _wide(db: Database, rows: Any, form: Form, names: Names) -> Joined:
    """Return the rows of one table with a column per rank."""
    others = _others(names)
    columns = matching(rows, form.preds)
    roles = {f"p{i}": x for i, x in enumerate(columns)} | {"target": form.target}
    roles |= {f"o{i}": x for i, x in enumerate(others)}
    found = open_relation(db, "found", rows, roles)
    preds, kind = _list_of(found, len(columns), "target")
    cells = [f"{found.sql[x]} AS {x}" for x in roles if x[0] != "p"]
    db.run(
        f"CREATE TABLE queries AS SELECT {_AT} AS stood, {preds} AS preds, {', '.join(cells)} "
        "FROM found ORDER BY stood"
    )
    return Joined(db, found.files, _columns(others, form.target), kind == "untyped")


def _columns(others: Sequence[str], target: str = "target") -> dict[str, str]:
    of = {x: f"o{i}" for i, x in enumerate(others)}
    return {**of, "preds": "preds", target: "target", "grade": "grade"}


def _list_of(found: Relation, number: int, partner: str | None) -> tuple[str, str]:
    """Return the SQL of a list of the columns of a wide table, and what it holds."""
    roles = [f"p{i}" for i in range(number)]
    if all(found.type_of(x) in ("FLOAT", "DOUBLE") for x in roles):
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
    kinds = {x: found.type_of(x) for x in roles}
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
    form: Form,
    names: Names,
    vocabulary: Sequence[str | int] | None,
    num_locations: int | None,
) -> tuple[Joined, list[Any] | None]:
    """Join both tables to `queries`; return also the vocabulary if ids were numbered here."""
    keys, others = [f"k{i}" for i in range(len(form.query))], _others(names)
    named = dict(zip(keys, form.query, strict=True))
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
    found = open_relation(db, "found", rows, of_rows)
    for key in keys:
        rules.align(found, key, relevant, key)
    if form.grade is not None:
        rules.to_grades(relevant, "grade")
    if form.item is not None:
        kind = rules.align(found, "item", relevant, "item")
        untyped = False
    elif wide:
        preds, kind = _list_of(found, len(wide), None)
        untyped = kind == "untyped"
        found.sql["preds"] = preds
    else:
        kind = _kind_of_lists(found)
        untyped = found.untyped
    if form.item is None:
        _settle_targets(relevant, kind, untyped)
    listed = ", ".join(keys)
    _gather(relevant, keys, others, form)
    selected = ", ".join(f"{found.sql[x]} AS {x}" for x in of_rows if x[0] != "p" or x == "preds")
    if wide:
        selected += f", {found.sql['preds']} AS preds"
    db.run(f"CREATE VIEW answers AS SELECT {selected}, {_AT} AS stood FROM found")
    db.run(f"CREATE TABLE answered AS SELECT {listed}, count(*) AS n FROM answers GROUP BY ALL")
    card = _count(db, listed, found, relevant, keys, rows, truth, form)
    if form.item is None:
        _join_lists(db, keys, found, others, untyped, relevant)
        files = found.files
        return Joined(db, files, _columns(others), untyped, None, card), None
    words, width = _join_items(
        db, keys, found, relevant, kind, form, vocabulary, num_locations, card
    )
    return Joined(db, relevant.files, _columns(others), False, width, card), words


def _kind_of_lists(found: Relation) -> str:
    kind = found.type_of("preds")
    if kind == "VARCHAR":
        return "untyped" if found.untyped else "cells"
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


def _gather(relevant: Relation, keys: list[str], others: list[str], form: Form) -> None:
    """Make the tables `asked`, a row per query, and `targets`, a row per relevant id of it."""
    db, listed = relevant.db, ", ".join(keys)
    cells = ", ".join(f"{sql} AS {role}" for role, sql in relevant.sql.items())
    db.run(f"CREATE VIEW truth AS SELECT {cells}, {_AT} AS stood FROM relevant")
    rest = "".join(f", any_value(o{i}) AS o{i}" for i in range(len(others)))
    db.run(
        f"CREATE TABLE asked AS SELECT {listed}, min(stood) AS stood, "
        f"row_number() OVER () - 1 AS id{rest} FROM truth GROUP BY {listed}"
    )
    has_several = db.value("SELECT count(*) FROM asked") < db.value("SELECT count(*) FROM truth")
    for i, name in enumerate(others if has_several else ()):
        wrong = db.row(
            f"SELECT stood, o FROM (SELECT stood, o{i} AS o, first_value(o{i}) OVER (PARTITION BY "
            f"{listed} ORDER BY stood) AS f FROM truth) WHERE o IS DISTINCT FROM f "
            "ORDER BY stood LIMIT 1"
        )
        if wrong is not None:
            raise ValueError(
                f"{_place(relevant, wrong[0])} must hold the same value in `{clip(name)}` as the "
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
                f"{_place(relevant, wrong[0])} must hold one grade in `{clip(str(form.grade))}` "
                f"for each item of a query, got another for {short(wrong[1])}."
            )
    db.run(
        f"CREATE TABLE targets AS SELECT id, item, min(truth.stood) AS stood{grade} FROM truth "
        f"JOIN asked USING ({listed}) GROUP BY id, item"
        + (" HAVING min(grade) > 0" if form.grade is not None else "")
    )


def _place(relation: Relation, stood: int) -> str:
    return relation.place(stood >> 40, stood & _ROW)


def _count(
    db: Database, listed: str, found: Relation, relevant: Relation, keys: list[str], rows: Any,
    truth: Any, form: Form,
) -> dict[str, Any]:  # fmt: skip
    """Count queries without predictions, predictions without truth, and several targets."""
    queries = db.value("SELECT count(*) FROM asked")
    missing = db.value(f"SELECT count(*) FROM asked ANTI JOIN answered USING ({listed})")
    without = db.value(f"SELECT count(*) FROM answered ANTI JOIN asked USING ({listed})")
    if queries and missing == queries and without:
        examples = [
            ", ".join(x.example(key) for key in keys) + f" in {x.files[0]}"
            for x in (found, relevant)
        ]
        raise ValueError(
            f"`query` must name columns with values in common, got none in {short(form.query)}: "
            f"{' and '.join(examples)}."
        )
    if missing > queries / 2:
        warnings.warn(
            f"{missing:,} of {queries:,} queries of the truth have no predictions and count as "
            "misses.",
            stacklevel=5,
        )
    several = db.value(
        "SELECT count(*) FROM (SELECT id FROM targets GROUP BY id HAVING count(*) > 1)"
    )
    card = {"missing": missing, "without_truth": without, "several_targets": several}
    used = {*form.query, form.item, form.score, form.rank, form.grade, form.target, form.preds}
    both = [x for x in columns_of(rows) if x in columns_of(truth) and x not in used]
    if several and both:
        warnings.warn(
            f"{several:,} queries have several targets; if a row of the truth is a query of its "
            f"own, name a second column: `query={','.join([*form.query, both[0]])}`.",
            stacklevel=5,
        )
    return card


_TARGETS = "SELECT id, list({item} ORDER BY {item}) AS target{grade} FROM targets{join} GROUP BY id"


def _targets_of(db: Database, item: str, join: str = "", as_cells: bool = False) -> tuple[str, str]:
    """Return SQL of the targets of each query, and of one target: a value if all have one."""
    has_grade = bool(db.row("SELECT 1 FROM information_schema.columns WHERE table_name = 'targets' "
                            "AND column_name = 'grade'"))  # fmt: skip
    grade = f", list(grade ORDER BY {item}) AS grade" if has_grade else ""
    of_query = _TARGETS.format(item=item, grade=grade, join=join)
    most = db.value("SELECT count(*) FROM targets")
    are_single = (
        not has_grade
        and most == db.value("SELECT count(*) FROM asked")
        and (db.value("SELECT count(DISTINCT id) FROM targets") == most)
    )
    if are_single:
        return of_query, "t.target[1] AS target"
    cell = "coalesce(t.target, [])"
    if as_cells:
        is_whole = (
            db.row(
                f"SELECT 1 FROM targets WHERE NOT regexp_full_match(item, '{rules._WHOLE}') LIMIT 1"
            )
            is None
        )
        inner = f"CAST({cell} AS DECIMAL(20, 0)[])" if is_whole else cell
        cell = f"CAST(to_json({inner}) AS VARCHAR)"
    end = ", coalesce(t.grade, []) AS grade" if has_grade else ""
    return of_query, f"{cell} AS target{end}"


def _join_lists(
    db: Database, keys: list[str], found: Relation, others: list[str], untyped: bool,
    relevant: Relation,
) -> None:  # fmt: skip
    """Join lists to their queries; a key twice would multiply its query."""
    listed = ", ".join(keys)
    twice = db.row(
        f"SELECT max(stood), {listed} FROM answers GROUP BY {listed} HAVING count(*) > 1 "
        "ORDER BY 1 LIMIT 1"
    )
    if twice is not None:
        stood, *values = twice
        raise ValueError(
            f"{_place(found, stood)} must hold a query once in "
            f"`{', '.join(found.columns[x] for x in keys)}`, got {', '.join(map(short, values))} "
            "twice; name further columns that tell its rows apart."
        )
    kind = str(db.row("DESCRIBE SELECT preds FROM answers")[1])
    empty = "'[]'" if kind == "VARCHAR" else "[]"
    if kind.startswith(("FLOAT[", "DOUBLE[")):
        width = db.value("SELECT max(len(preds)) FROM answers") or 0
        empty = (
            f"list_value({', '.join(['CAST(chr(110) || chr(97) || chr(110) AS DOUBLE)'] * width)})"
        )
    targets, target = _targets_of(db, "item", as_cells=untyped)
    cells = "".join(f", o{i}" for i in range(len(others)))
    db.run(
        "CREATE TABLE queries AS SELECT coalesce(p.stood, -1) AS stood, "
        f"CASE WHEN p.stood IS NULL THEN {empty} ELSE p.preds END AS preds, {target}{cells} "
        f"FROM asked LEFT JOIN answers p USING ({listed}) LEFT JOIN ({targets}) t USING (id) "
        "ORDER BY 1"
    )


def _join_items(
    db: Database, keys: list[str], found: Relation, relevant: Relation, kind: str, form: Form,
    vocabulary: Sequence[str | int] | None, num_locations: int | None, card: dict[str, Any],
) -> tuple[list[Any] | None, int | None]:  # fmt: skip
    """Order the items of each query; return the vocabulary, and the candidates if any are tied."""
    listed = ", ".join(keys)
    by_rank = form.rank is not None
    (rules.to_ranks if by_rank else rules.to_scores)(found, "value")
    if kind == "integers":
        rules.refuse_negative(found, "item")
        rules.refuse_negative(relevant, "item")
    value = found.sql["value"]
    cells = ", ".join(f"{found.sql[x]} AS {x}" for x in (*keys, "item"))
    db.run(
        f"CREATE TABLE placed AS SELECT id, f.item, f.value, f.stood FROM (SELECT {cells}, "
        f"{value} AS value, {_AT} AS stood FROM found) f JOIN asked USING ({listed}) "
        "WHERE f.value IS NOT NULL"
    )
    card["repeated_items"] = db.value(
        "SELECT coalesce(sum(n - 1), 0)::BIGINT FROM (SELECT count(*) AS n FROM placed "
        "GROUP BY id, item HAVING n > 1)"
    )
    equal = db.row(
        "SELECT max(stood), value FROM placed GROUP BY id, value "
        f"HAVING {'count(*) > 1' if by_rank else 'min(item) < max(item)'} ORDER BY 1 LIMIT 1"
    )
    if by_rank and equal is not None:
        raise ValueError(
            f"{_place(found, equal[0])} must hold another rank in `{clip(str(form.rank))}` than "
            f"the items before of its query, got {equal[1]} again; use `score` for tied items."
        )
    is_dense = equal is not None
    if is_dense and card["repeated_items"]:
        raise ValueError(
            f"{_place(found, equal[0])} must hold each item once per query where scores are equal, "
            f"got {card['repeated_items']:,} repeated items; keep the best row of each."
        )
    words = _number_items(db, kind, vocabulary, is_dense, relevant)
    item = "item" if words is None else "number"
    join = "" if words is None else " JOIN words USING (item)"
    targets, target = _targets_of(db, item, join)
    width = None
    if is_dense:
        both = f"(SELECT item FROM placed UNION ALL SELECT item FROM targets){join}"
        largest = db.value(f"SELECT max({item}) FROM {both}")
        width = max(largest + 1, num_locations or 0, len(words or ()))
        lists = (
            f"SELECT id, list({item} ORDER BY {item}) AS preds, list(score ORDER BY {item}) AS "
            "scores FROM (SELECT *, CAST(-dense_rank() OVER (PARTITION BY id ORDER BY value DESC) "
            f"AS FLOAT) AS score FROM placed{join}) GROUP BY id"
        )
    else:
        db.run(f"CREATE VIEW ordered AS SELECT id, {item} AS item, value FROM placed{join}")
        gaps = ""
        if by_rank:
            card["ranks_from"] = first = (
                0 if db.value(f"SELECT min({value}) FROM found") == 0 else 1
            )
            gaps = (
                " UNION ALL SELECT g.id, -1, g.value FROM (SELECT id, unnest(range("
                f"{first}, most + 1)) AS value FROM (SELECT id, max(value) AS most, count(*) AS n "
                f"FROM ordered GROUP BY id) WHERE n < most - {first} + 1) g ANTI JOIN ordered "
                "USING (id, value)"
            )
        order = "value" if by_rank else "value DESC, item"
        lists = (
            f"SELECT id, list(item ORDER BY {order}) AS preds FROM (SELECT * FROM ordered{gaps}) "
            "GROUP BY id"
        )
    rest = [x for x in db.run("SELECT * FROM asked LIMIT 0").description if x[0][0] == "o"]
    cells = "".join(f", {x[0]}" for x in rest)
    scores = ", coalesce(l.scores, []) AS scores" if is_dense else ""
    db.run(
        f"CREATE TABLE queries AS SELECT asked.stood, coalesce(l.preds, []) AS preds{scores}, "
        f"{target}{cells} FROM asked LEFT JOIN ({lists}) l USING (id) LEFT JOIN ({targets}) t "
        "USING (id) ORDER BY asked.stood"
    )
    return words, width


def _number_items(
    db: Database, kind: str, vocabulary: Sequence[str | int] | None, is_dense: bool,
    relevant: Relation,
) -> list[Any] | None:  # fmt: skip
    """Number ids of text, and sparse ones of scores, in the table `words`; None leaves them."""
    known = "SELECT item FROM targets"
    if is_dense:
        known += " UNION SELECT item FROM placed"
    if kind == "integers":
        if not is_dense:
            return None
        number, largest = db.row(f"SELECT count(DISTINCT item), max(item) FROM ({known})")
        if vocabulary is None and largest <= 4 * number + DENSE:
            return None
    if vocabulary is None:
        db.run(
            "CREATE TABLE words AS SELECT item, row_number() OVER (ORDER BY item) - 1 AS "
            f"number FROM (SELECT DISTINCT item FROM ({known}))"
        )
    else:
        words = pa.array([*vocabulary], pa.int64() if kind == "integers" else pa.string())
        batch = pa.RecordBatch.from_pydict(
            {"item": words, "number": pa.array(range(len(words)), pa.int64())}
        )
        db.insert("words", batch.schema, iter([batch]))
        wrong = db.row(
            "SELECT stood, item FROM targets ANTI JOIN words USING (item) ORDER BY stood LIMIT 1"
        )
        if wrong is not None:
            raise ValueError(
                f"{_place(relevant, wrong[0])} must hold an id of `vocabulary`, got "
                f"{short(wrong[1])}."
            )
    size = db.value("SELECT count(*) FROM words")
    found = [x for (x,) in db.run("SELECT item FROM words ORDER BY number").fetchall()]
    unknown = "SELECT DISTINCT item FROM placed ANTI JOIN words USING (item)"
    wrong = db.row(f"{unknown} LIMIT 1") if is_dense else None
    if wrong is not None:
        raise ValueError(
            "`vocabulary` must list all items where scores are equal, and lacks "
            f"{short(wrong[0])}; add it, or pass no vocabulary."
        )
    db.run(
        f"INSERT INTO words SELECT item, {size} + row_number() OVER (ORDER BY item) - 1 "
        f"FROM ({unknown})"
    )
    return found
