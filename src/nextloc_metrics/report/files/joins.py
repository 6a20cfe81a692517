"""The forms in which predictions and their truth lie apart; each is a few lines of SQL.

| form | a row of the predictions | a row of the truth |
|---|---|---|
| items | one item of a query, with its score or rank | one relevant item of a query, or a list |
| lists | a query with its list, or its scores | one relevant item of a query, or a list |
| wide | a query with a column per rank | the same row, or the truth as above |

What leaves is one relation, a row per query: predictions, targets, grades, groups, mask, and
where the query stood. A query of the truth without predictions is a miss.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from nextloc_metrics.core.queries.keys import LIMIT
from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files.cells import CellReading, convert, is_text, keys_of_text, plain
from nextloc_metrics.report.files.database import Database
from nextloc_metrics.report.files.opening import FilePart, RowSource, pa
from nextloc_metrics.report.files.relation import (
    GRADES,
    OF_GAPS_OF_ANY,
    RANKS,
    SCORES,
    align,
    list_cells,
    list_columns,
    matching,
    open_relation,
    to_lists,
    to_numbers,
)
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.sources import columns_of, columns_of_both
from nextloc_metrics.report.files.tables import OF_GAPS, SCORES_OF, TableRows

# Items of a range of queries.
_ITEMS = 1 << 20


def open_form(
    rows: Any,
    truth: Any,
    form: Roles,
    *,
    threads: int = 1,
    **reading: Any,
) -> tuple[TableRows, dict[str, Any]]:
    """Open predictions and truth as rows of queries, and count what did not fit, for the card.

    Groups, mask and exclude are columns of the truth; `reading` is as for `TableRows`.
    """
    db, pads = Database(threads), reading["padding"]
    reading["padding"] = {-1, *((pads,) if isinstance(pads, int) else pads)}
    if truth is None and form.item is not None:  # each item has the target of its query beside it
        truth = rows
    named = filter(None, [*form.groups, form.mask, form.exclude])
    others = {name: f"o{i}" for i, name in enumerate(dict.fromkeys(named))}
    kept, card = replace(form, preds="preds"), dict[str, Any]()
    if truth is None:
        source = _wide(db, rows, form, others)
    elif not form.query:
        both = columns_of_both(rows, truth)
        key = f", such as `query={both[0]!r}`" if len(both) == 1 else ""
        raise ValueError(
            "`query` must name the columns that say which query a row is of, in both tables, got "
            f"none; both have {short(both)}. The tables are joined by this key{key}, and not row "
            "by row; without one, write the number of the query to both."
        )
    else:
        joining = _Joining(db, rows, truth, form, others, reading)
        kind = joining.gather()
        if form.item is not None:
            joining.order(kind, reading["vocabulary"])
        joining.count(rows, truth)
        if reading.get("reader") is not None:
            joining.check_asked()
        if form.item is None:
            joining.check_once()
        source, card = joining.leave(), joining.card
        kept = replace(kept, target="target", grade=form.grade and "grade")
    read = TableRows(source, kept, **reading)
    read.has_several |= form.grade is not None or bool(card.get("several_targets"))
    return read, card


def _wide(db: Database, rows: Any, form: Roles, others: Mapping[str, str]) -> Joined:
    """Return the rows of one table with a column per rank."""
    ranks = {f"p{i}": x for i, x in enumerate(matching(rows, form.preds))}
    of_others = {role: name for name, role in others.items()}
    found = open_relation(db, "found", rows, {**ranks, "target": form.target, **of_others})
    list_columns(found, [*ranks])
    db.run(f"CREATE TABLE queries AS SELECT stood AS number, * FROM ({found.select()})")
    columns = {**others, "preds": "preds", form.target: "target"}
    return Joined(db, found.files, columns, found.untyped)


class _Joining:
    """The tables `asked`, a row per query, `targets`, and `answers`, a row per list.

    `others` has the roles of columns of the truth, of which `seen` has what is excluded.
    """

    def __init__(
        self, db: Database, rows: Any, truth: Any, form: Roles, others: Mapping[str, str],
        reading: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.db, self.form, self.others = db, form, others
        self.seen = seen = others.get(form.exclude or "")
        keys = {f"k{i}": x for i, x in enumerate(form.query)}
        target, of_rows = form.target, {**keys, "preds": str(form.preds)}
        if target == "target" and form.item is not None:
            have = columns_of(truth)
            target = form.item if "target" not in have and form.item in have else target
        self.constant = {role: name for name, role in others.items()}
        of_truth = {**keys, "item": target, **self.constant}
        if form.grade is not None:
            of_truth["grade"] = form.grade
        if form.item is not None:
            of_rows = {**keys, "item": form.item, "value": str(form.score or form.rank)}
        elif form.is_wide:
            of_rows = keys | {f"p{i}": x for i, x in enumerate(matching(rows, form.preds))}
        lists = ["item"] if seen is None else ["item", seen]
        self.relevant = open_relation(db, "relevant", truth, of_truth, lists, reading)
        self.found = open_relation(db, "found", rows, of_rows)
        self.keys, self.listed = [*keys], ", ".join(keys)
        if truth is rows and form.grade is None:
            self.constant["item"] = form.target
        self.first: int | None = None  #: the first rank; None for scores
        self.texts = reading.get("texts")
        self.tied = "item"  #: what orders tied items
        self.card: dict[str, Any] = {}

    def gather(self) -> str:
        """Type both tables and make the three; return whether ids are text or integers."""
        db, found, relevant, listed = self.db, self.found, self.relevant, self.listed
        for key in self.keys:
            align(key, found, relevant)
        if self.form.grade is not None:
            to_numbers(relevant, "grade", GRADES)
        if self.form.item is not None:
            kind = align("item", found, relevant)
            lacks = to_numbers(found, "value", SCORES if self.form.rank is None else RANKS)
            found.sql["is_nan"] = lacks if self.form.rank is None else "false"
        else:
            ranks = [x for x in found.columns if x[0] == "p" and x != "preds"]
            of = list_columns(found, ranks) if ranks else list_cells(found)
            beside = of if of in ("text", "integers") and not found.untyped else None
            gaps = OF_GAPS if of in ("text", "integers") else OF_GAPS_OF_ANY
            kind = align("item", relevant, beside=beside, gaps=gaps)
            if found.untyped:  # the reader types both
                relevant.sql["item"] = f"CAST({relevant.sql['item']} AS VARCHAR)"
        if self.seen is not None:
            is_text = found.untyped and self.form.item is None
            to_lists(relevant, self.seen, kind == "integers" and not is_text)
        db.run(f"CREATE VIEW truth AS {relevant.select()}")
        kept = "".join(f", {x} := {x}" for x in self.constant)
        first = f", arg_min(struct_pack({kept[2:]}), stood) AS first" if kept else ""
        db.run(
            f"CREATE TABLE asked AS SELECT {listed}, min(stood) AS stood{first} FROM truth "
            f"GROUP BY {listed}"
        )
        self._check_constant()
        self._make_targets()
        if self.form.item is None:
            db.run(f"CREATE VIEW answers AS {found.select()}")
        return kind

    def _check_constant(self) -> None:
        """Raise if a column of the truth, or the target beside items, is not one of its query."""
        for role, name in self.constant.items():
            remedy = "a column of the truth is constant within a query"
            if role == "item":
                remedy = (
                    "name further columns of `query`, or of labels that say which items are "
                    f"relevant, `target={short(self.form.item)}` and `grade={short(name)}`"
                )
            self.relevant.refuse(
                f"SELECT t.stood, t.{role} FROM truth t JOIN asked a USING ({self.listed}) WHERE "
                f"t.{role} IS DISTINCT FROM a.first.{role}",
                f"the same value in `{clip(name)}` as the rows before of its query, got {{got}}; "
                f"{remedy}",
            )

    def _make_targets(self) -> None:
        """Make the table of relevant ids, each once per query."""
        db, listed, grade, kept = self.db, self.listed, "", ""
        if self.form.grade is not None:
            self.relevant.refuse(
                f"SELECT max(stood), item FROM truth GROUP BY {listed}, item "
                "HAVING min(grade) < max(grade)",
                f"one grade in `{clip(self.form.grade)}` for each item of a query, got another for "
                "{got}",
            )
            # of a query without a relevant item, one that is judged stays, and is never found
            first = f"row_number() OVER (PARTITION BY {listed} ORDER BY min(grade) DESC, item)"
            grade, kept = ", min(grade) AS grade", f" QUALIFY min(grade) > 0 OR {first} = 1"
        db.run(
            f"CREATE TABLE targets AS SELECT {listed}, item, min(stood) AS stood{grade} FROM truth "
            f"WHERE item IS NOT NULL GROUP BY {listed}, item{kept}"
        )

    def count(self, rows: Any, truth: Any) -> None:
        """Count queries without predictions, predictions without truth, and several targets."""
        db, listed, form = self.db, self.listed, self.form
        queries = db.value("SELECT count(*) FROM asked")
        missing = db.value(f"SELECT count(*) FROM asked ANTI JOIN answers USING ({listed})")
        without = db.value(f"SELECT count(*) FROM answers ANTI JOIN asked USING ({listed})")
        if queries and missing == queries and without:
            examples = [
                ", ".join(map(x.example, self.keys)) + f" in {x.files[0]}"
                for x in (self.found, self.relevant)
            ]
            raise ValueError(
                "`query` must name columns with values in common, got none in "
                f"{short(form.query)}: {' and '.join(examples)}."
            )
        if missing > queries / 2:
            warnings.warn(
                f"{missing:,} of {queries:,} queries of the truth have no predictions and count as "
                "misses.",
                stacklevel=5,
            )
        for key, name in zip(self.keys, form.query, strict=True) if missing and without else ():
            sides = (f"(SELECT DISTINCT {key}::VARCHAR AS x FROM {a} ANTI JOIN {b} USING ({key}))"
                     for a, b in (("asked", "answers"), ("answers", "asked")))  # fmt: skip
            pairs = "SELECT a.x, b.x FROM {} a JOIN {} b ON {{0}}(a.x) = {{0}}(b.x)".format(*sides)
            same = f"{pairs.format('instant_of')} UNION ALL {pairs.format('local_of')} WHERE "
            same += "offset_of(a.x) = '' OR offset_of(b.x) = ''"
            if alike := db.row(f"{same} LIMIT 1"):
                warnings.warn(
                    f"values of {name!r} in truth and predictions differ only in how a time is "
                    f"written, such as {' and '.join(map(short, alike))}; text is compared byte "
                    "for byte. Write times alike, or store them as times.",
                    stacklevel=5,
                )
        several = db.value(f"SELECT count(*) FROM (FROM targets SELECT {listed} GROUP BY {listed} "
                           "HAVING count(*) > 1)")  # fmt: skip
        used = {*form.query, form.item, form.score, form.rank, form.grade, form.target, form.preds}
        if several and (both := [x for x in columns_of_both(rows, truth) if x not in used]):
            warnings.warn(
                f"{several:,} queries have several targets; if a row of the truth is a query of "
                f"its own, name a second column: `query={','.join([*form.query, both[0]])}`.",
                stacklevel=5,
            )
        counts = {"missing": missing, "without_truth": without, "several_targets": several}
        self.card = counts | self.card

    def check_asked(self) -> None:
        """Raise for an answer in text that no query of the truth asks for."""
        number = self.card["without_truth"]
        del self.card["missing"]  # one of the outcomes
        others = f"FROM answers ANTI JOIN asked USING ({self.listed})"
        if first := self.db.row(f"SELECT {self.listed} {others} ORDER BY stood LIMIT 1"):
            raise ValueError(
                f"`truth` must have a row for each answer, got none for {number:,} of them, the "
                f"first with {', '.join(map(short, first))} in `{', '.join(self.form.query)}`; "
                "leave the rows of such answers out, or add the queries."
            )

    def check_once(self) -> None:
        """Raise for a list of a query that has one before."""
        self.found.refuse(
            f"SELECT max(stood), {self.listed} FROM answers GROUP BY {self.listed} "
            "HAVING count(*) > 1",
            f"a query once in `{', '.join(self.form.query)}`, got {{got}} twice; name further "
            "columns that tell its rows apart, or number the queries in both",
        )

    def order(self, kind: str, vocabulary: Sequence[str | int] | None) -> None:
        """Read scores or ranks of items, and what orders tied ones: ids, or a vocabulary."""
        db, form, of_asked = self.db, self.form, f"SEMI JOIN asked USING ({self.listed})"
        db.run(f"CREATE VIEW placed AS {self.found.select()}")
        db.run(f"CREATE TABLE answers AS SELECT DISTINCT {self.listed} FROM placed")
        if form.rank is None:
            lacking = f"SELECT DISTINCT {self.listed} FROM placed {of_asked} WHERE is_nan"
            self.card["rows_with_nan"] = db.value(f"SELECT count(*) FROM ({lacking})")
        else:
            self.first = int(db.value("SELECT coalesce(min(value) <> 0, true) FROM placed"))
            ranked = db.value(f"SELECT count(*) FROM answers {of_asked}")
            self.card[f"ranks_from_{self.first}"] = ranked
        if vocabulary is not None:
            words = pa.array([*vocabulary], pa.int64() if kind == "integers" else pa.string())
            numbers = pa.array(range(len(words)), pa.int64())
            db.insert("words", pa.table({"item": words, "number": numbers}))
            self.tied = f"coalesce(words.number, {LIMIT}), item"

    def check_ranks(self) -> None:
        """Raise for the first row of a query that repeats a rank."""
        self.found.refuse(
            f"SELECT max(stood), value FROM placed SEMI JOIN asked USING ({self.listed}) GROUP BY "
            f"{self.listed}, value HAVING count(*) > 1",
            f"another rank in `{clip(str(self.form.rank))}` than the items before of its query, "
            "got {got} again; use `score` for tied items",
        )

    def leave(self) -> Joined:
        """Join all to the rows that are read, one per query; of missing lists `stood` is -1."""
        listed, form, untyped = self.listed, self.form, False
        grade = ", list(grade::DOUBLE ORDER BY item) AS grade" if form.grade is not None else ""
        graded = ", coalesce(t.grade, []) AS grade" if grade else ""
        others = "".join(f", a.first.{role} AS {role}" for role in self.others.values())
        stood, order, files, join = "a.stood", "1", self.relevant.files, ""
        preds = f", {', '.join(f'a.{key}' for key in self.keys)}"
        if form.item is None:  # the first rows tell what cells are
            stood, order = "coalesce(p.stood, -1)", "p.stood IS NULL, 1"
            preds, files, untyped = ", p.preds", self.found.files, self.found.untyped
            join = f" LEFT JOIN answers p USING ({listed})"
        self.db.run(
            f"CREATE TABLE queries AS SELECT row_number() OVER () - 1 AS number, * FROM (SELECT "
            f"{stood} AS stood{preds}, coalesce(t.target, []) AS target{graded}{others} FROM asked "
            f"a LEFT JOIN (SELECT {listed}, list(item ORDER BY item) AS target{grade} FROM "
            f"targets GROUP BY {listed}) t USING ({listed}){join} ORDER BY {order})"
        )
        names = {**self.others, "preds": "preds", "target": "target", "grade": "grade"}
        if form.item is None:
            return Joined(self.db, files, names, untyped)
        value, tied = ("value DESC", self.tied) if form.rank is None else ("value", "item")
        words = " LEFT JOIN words USING (item)" if "words" in tied else ""
        flat = (
            f"SELECT q.number AS query, item, value FROM placed JOIN queries q USING ({listed})"
            f"{words} WHERE value IS NOT NULL ORDER BY query, {value}, {tied}"
        )
        return Items(self.db, files, names, untyped, flat, self, self.texts)


@dataclass(eq=False)
class Joined(RowSource):
    """The rows of the table `queries`, one per query, of a database.

    `columns` has the SQL column of each name.
    """

    db: Database
    files: list[str]
    columns: dict[str, str]
    untyped: bool = False
    is_joined = True

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows, in a part no more than one file."""
        yield from self._rows(columns, "")

    def _rows(self, columns: Sequence[str], where: str) -> Iterator[FilePart]:
        listed = ", ".join(["stood", *(self.columns[name] for name in columns)])
        for batch in self.db.batches(f"SELECT {listed} FROM queries {where} ORDER BY number"):
            stood, start = batch.column(0).to_numpy(zero_copy_only=False), 0
            for file, group in groupby((stood >> 40).tolist()):
                piece = batch.slice(start, len(list(group)))
                found = {name: piece.column(i + 1) for i, name in enumerate(columns)}
                where_stood = stood[start : start + len(piece)]
                rows = np.where(where_stood < 0, -1, where_stood & ((1 << 40) - 1)).tolist()
                yield FilePart(self.files[max(file, 0)], rows, found)
                start += len(piece)


@dataclass(eq=False)
class Items(Joined):
    """Queries with their items: each has the list of its items, best first, and their scores.

    `flat` is SQL of the items of all queries, in the order of `queries` and best first.
    """

    flat: str = ""
    joining: Any = None
    texts: dict[int, str] | None = None
    has_keys = True

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows; where columns have the predictions, also the scores of their items."""
        if "preds" not in columns:
            yield from self._rows(columns, "")
            return
        others = [name for name in columns if name != "preds"]
        for first, last, flat in self._ranges():
            lists, scores = self._lists(first, last, flat)
            start = 0
            for part in self._rows(others, f"WHERE number BETWEEN {first} AND {last - 1}"):
                of = slice(start, start + len(part.rows))
                part.columns.update(
                    preds=lists[of], **({} if scores is None else {SCORES_OF: scores[of]})
                )
                start = of.stop
                yield part

    def _ranges(self) -> Iterator[tuple[int, int, Any]]:
        """Yield ranges of queries with the query, item and value of each of their items."""
        number, first, held = self.db.value("SELECT count(*) FROM queries"), 0, None
        for batch in self.db.batches(self.flat, _ITEMS):
            new = pa.Table.from_batches([batch])
            held = new if held is None else pa.concat_tables([held, new])
            queries = held.column(0).to_numpy()
            last = int(queries[-1])  # of which more items may follow
            if last > first:
                end = int(np.searchsorted(queries, last))
                yield first, last, held.slice(0, end)
                first, held = last, held.slice(end)
        if number > first:
            yield first, number, held

    def _lists(self, first: int, last: int, flat: Any) -> Any:
        """Return the lists of a range of queries, with gaps between ranks, and their scores."""
        if flat is None:  # no query has an item
            ends = np.zeros(last - first + 1, np.int64)
            kinds = (np.zeros(0, np.int64), np.zeros(0))
            return tuple(pa.LargeListArray.from_arrays(ends, x) for x in kinds)
        queries, values = flat.column(0).to_numpy(), flat.column(2).to_numpy()
        items = plain(flat.column(1))
        if is_text(items.type):
            items, _ = keys_of_text(items, CellReading(pads=frozenset(), texts=self.texts))
        else:
            items, _ = convert(items, CellReading(texts=self.texts))
        lengths = np.bincount(queries - first, minlength=last - first)
        ends = np.append(0, lengths.cumsum())
        if self.joining.first is None:
            return tuple(pa.LargeListArray.from_arrays(ends, x) for x in (items, values))
        if ((queries[1:] == queries[:-1]) & (values[1:] == values[:-1])).any():
            self.joining.check_ranks()  # which raises
        places, has_items = values.astype(np.int64) - self.joining.first, lengths > 0
        sizes = np.zeros(last - first, np.int64)
        sizes[has_items] = places[ends[1:][has_items] - 1] + 1
        ends = np.append(0, sizes.cumsum())
        laid = np.full(ends[-1], -1, np.int64)
        laid[ends[queries - first] + places] = items
        return pa.LargeListArray.from_arrays(ends, laid), None
