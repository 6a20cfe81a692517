"""The relation of queries that leaves a join of predictions and truth, and how it is made."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files import rules
from nextloc_metrics.report.files.database import Database
from nextloc_metrics.report.files.numbers import DENSE
from nextloc_metrics.report.files.opening import FilePart, RowSource, as_arrow, pa
from nextloc_metrics.report.files.relation import Relation
from nextloc_metrics.report.files.sources import columns_of_both
from nextloc_metrics.report.files.tables import has_column

# Where a row stood, as one number.
AT = "(CAST(file AS BIGINT) << 40) + row"
ROW = (1 << 40) - 1
# Numbers of a part that holds a score for each candidate.
_SCORES = 1 << 22


@dataclass(frozen=True)
class TableForm:
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


def form_of(
    rows: Any,
    preds: str | Sequence[str],
    target: str,
    truth: Any,
    query: str | Sequence[str],
    *named: Any,
) -> TableForm | None:
    """Return the form of predictions that are no rows of one table with lists, else None."""
    columns = (query,) if isinstance(query, str) else tuple(query)
    kept = preds if isinstance(preds, str) else tuple(preds)
    form = TableForm(columns, kept, target, *named)
    if truth is None and not (form.item is not None and has_column(rows, target)):
        needs = {"query": columns, "item": form.item, "grade": form.grade}
        if wrong := next((name for name, x in needs.items() if x), None):
            raise ValueError(
                f"`{wrong}` needs `truth`, the table of the relevant ids of each query, got None."
            )
    is_column = isinstance(preds, str) and form.is_wide and has_column(rows, preds)
    is_apart = truth is not None or form.item is not None
    return form if is_apart or (form.is_wide and not is_column) else None


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
    is_joined = True
    card: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.num_rows = self.db.value("SELECT count(*) FROM queries")

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
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
                where = (stood[start : start + number] & ROW).tolist()
                yield FilePart(self.files[max(file, 0)], where, found)
                start += number

    def _dense(self, items: Any, scores: Any) -> Any:
        """Return a score for each candidate; one without is -inf, unretrieved."""
        dense = np.full((len(items), self.width or 0), -np.inf, np.float32)
        rows = np.repeat(np.arange(len(items)), items.value_lengths().to_numpy())
        dense[rows, items.flatten().to_numpy()] = scores.flatten().to_numpy()
        return as_arrow(dense)


def place_of(relation: Relation, stood: int) -> str:
    """Say in which row of which file something stood."""
    return relation.place(stood >> 40, stood & ROW)


def count_apart(
    db: Database, listed: str, found: Relation, relevant: Relation, keys: list[str], rows: Any,
    truth: Any, form: TableForm,
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
    for key, name in zip(keys, form.query, strict=True) if missing and without else ():
        sides = (f"(SELECT DISTINCT {key}::VARCHAR AS x FROM {a} ANTI JOIN {b} USING ({key}))"
                 for a, b in (("asked", "answered"), ("answered", "asked")))  # fmt: skip
        found_times = "{} a JOIN {} b ON TRY_CAST(a.x AS TIMESTAMP) = TRY_CAST(b.x AS TIMESTAMP)"
        if alike := db.row(f"SELECT a.x, b.x FROM {found_times.format(*sides)} LIMIT 1"):
            warnings.warn(
                f"values of {name!r} in truth and predictions differ only in how a time is "
                f"written, such as {' and '.join(map(short, alike))}; text is compared byte "
                "for byte. Write times alike, or store them as times.",
                stacklevel=5,
            )
    several = db.value(
        "SELECT count(*) FROM (SELECT id FROM targets GROUP BY id HAVING count(*) > 1)"
    )
    card = {"missing": missing, "without_truth": without, "several_targets": several}
    used = {*form.query, form.item, form.score, form.rank, form.grade, form.target, form.preds}
    if several and (both := [x for x in columns_of_both(rows, truth) if x not in used]):
        warnings.warn(
            f"{several:,} queries have several targets; if a row of the truth is a query of its "
            f"own, name a second column: `query={','.join([*form.query, both[0]])}`.",
            stacklevel=5,
        )
    return card


_TARGETS = "SELECT id, list({item} ORDER BY {item}) AS target{grade} FROM targets{join} GROUP BY id"


def targets_of(db: Database, item: str, join: str = "", as_cells: bool = False) -> tuple[str, str]:
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


def join_lists(
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
            f"{place_of(found, stood)} must hold a query once in "
            f"`{', '.join(found.columns[x] for x in keys)}`, got {', '.join(map(short, values))} "
            "twice; name further columns that tell its rows apart, or number the queries in both."
        )
    kind = str(db.row("DESCRIBE SELECT preds FROM answers")[1])
    empty = "'[]'" if kind == "VARCHAR" else "[]"
    if kind.startswith(("FLOAT[", "DOUBLE[")):
        width = db.value("SELECT max(len(preds)) FROM answers") or 0
        empty = (
            f"list_value({', '.join(['CAST(chr(110) || chr(97) || chr(110) AS DOUBLE)'] * width)})"
        )
    targets, target = targets_of(db, "item", as_cells=untyped)
    cells = "".join(f", o{i}" for i in range(len(others)))
    db.run(
        "CREATE TABLE queries AS SELECT coalesce(p.stood, -1) AS stood, "
        f"CASE WHEN p.stood IS NULL THEN {empty} ELSE p.preds END AS preds, {target}{cells} "
        f"FROM asked LEFT JOIN answers p USING ({listed}) LEFT JOIN ({targets}) t USING (id) "
        "ORDER BY p.stood IS NULL, 1"  # the first rows tell what cells are
    )


def join_items(
    db: Database, keys: list[str], found: Relation, relevant: Relation, kind: str, form: TableForm,
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
        f"{value} AS value, {AT} AS stood FROM found) f JOIN asked USING ({listed}) "
        "WHERE f.value IS NOT NULL"
    )
    repeated = db.value(
        "SELECT coalesce(sum(n - 1), 0)::BIGINT FROM (SELECT count(*) AS n FROM placed "
        "GROUP BY id, item HAVING n > 1)"
    )
    card |= {"repeated_items": repeated} if repeated else {}
    is_dense = _are_tied(db, found, form, repeated)
    words = number_items(db, kind, vocabulary, is_dense, relevant)
    item = "item" if words is None else "number"
    join = "" if words is None else " JOIN words USING (item)"
    targets, target = targets_of(db, item, join)
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
        first = None
        if by_rank:
            first = 0 if db.value(f"SELECT min({value}) FROM found") == 0 else 1
            card[f"ranks_from_{first}"] = db.value("SELECT count(DISTINCT id) FROM placed")
        lists = _in_order(first)
    rest = [x for x in db.run("SELECT * FROM asked LIMIT 0").description if x[0][0] == "o"]
    cells = "".join(f", {x[0]}" for x in rest)
    scores = ", coalesce(l.scores, []) AS scores" if is_dense else ""
    db.run(
        f"CREATE TABLE queries AS SELECT asked.stood, coalesce(l.preds, []) AS preds{scores}, "
        f"{target}{cells} FROM asked LEFT JOIN ({lists}) l USING (id) LEFT JOIN ({targets}) t "
        "USING (id) ORDER BY asked.stood"
    )
    return words, width


def _are_tied(db: Database, found: Relation, form: TableForm, repeated: int) -> bool:
    """Return whether items of a query have equal scores; refuse equal ranks."""
    by_rank = form.rank is not None
    equal = db.row(
        "SELECT max(stood), value FROM placed GROUP BY id, value "
        f"HAVING {'count(*) > 1' if by_rank else 'min(item) < max(item)'} ORDER BY 1 LIMIT 1"
    )
    if by_rank and equal is not None:
        raise ValueError(
            f"{place_of(found, equal[0])} must hold another rank in `{clip(str(form.rank))}` than "
            f"the items before of its query, got {equal[1]} again; use `score` for tied items."
        )
    if equal is not None and repeated:
        raise ValueError(
            f"{place_of(found, equal[0])} must hold each item once per query where scores are "
            f"equal, got {repeated:,} repeated items; keep the best row of each."
        )
    return equal is not None


def _in_order(first: int | None) -> str:
    """Return SQL of the lists of each query, by score, or by rank from `first` with gaps."""
    gaps = (
        ""
        if first is None
        else (
            " UNION ALL SELECT g.id, -1, g.value FROM (SELECT id, unnest(range("
            f"{first}, most + 1)) AS value FROM (SELECT id, max(value) AS most, count(*) AS n "
            f"FROM ordered GROUP BY id) WHERE n < most - {first} + 1) g ANTI JOIN ordered "
            "USING (id, value)"
        )
    )
    order = "value DESC, item" if first is None else "value"
    return (
        f"SELECT id, list(item ORDER BY {order}) AS preds FROM (SELECT * FROM ordered{gaps}) "
        "GROUP BY id"
    )


def number_items(
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
            "CREATE TABLE words AS SELECT item, row_number() OVER (ORDER BY item NOT IN (SELECT "
            "item FROM targets), item) - 1 AS number FROM "  # of all models alike, for targets
            f"(SELECT DISTINCT item FROM ({known}))"
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
                f"{place_of(relevant, wrong[0])} must hold an id of `vocabulary`, got "
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
