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

from nextloc_metrics.core.queries.keys import LIMIT, read_keys
from nextloc_metrics.core.queries.messages import as_column, clip, short
from nextloc_metrics.report.files.cells import INTEGER, MISSING, CellReading
from nextloc_metrics.report.files.columns import Numbers, gaps_of
from nextloc_metrics.report.files.database import Database
from nextloc_metrics.report.files.id_columns import (
    IdColumn,
    check_alike,
    list_of_columns,
    matching,
)
from nextloc_metrics.report.files.opening import FilePart, RowSource, pa
from nextloc_metrics.report.files.relation import (
    GRADES,
    RANKS,
    SCORES,
    align,
    family_of,
    open_relation,
    to_numbers,
)
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.sources import columns_of, columns_of_both, open_table
from nextloc_metrics.report.files.tables import OF_GAPS, SCORES_OF, TableRows, of_scores

# What to do about a missing target beside cells that may be lists or scores.
OF_GAPS_OF_ANY = f"{OF_GAPS}, or {of_scores('the width of the rows')}"

# Items of a range of queries.
_ITEMS = 1 << 20


def open_form(
    rows: Any,
    truth: Any,
    form: Roles,
    *,
    threads: int = 1,
    **row_options: Any,
) -> TableRows:
    """Open predictions and truth as rows of queries, whose `card` counts what did not fit.

    Groups, mask and exclude are columns of the truth; `row_options` is as for `TableRows`.
    """
    pads = row_options["padding"]
    row_options["padding"] = {-1, *((pads,) if isinstance(pads, int) else pads)}
    if row_options.get("texts") is None:
        row_options["texts"] = {}
    if truth is None and form.item is not None:  # each item has the target of its query beside it
        truth = rows
    if truth is not None and not form.query:
        both = columns_of_both(rows, truth)
        key = f", such as `query={both[0]!r}`" if len(both) == 1 else ""
        raise ValueError(
            "`query` must name the columns that say which query a row is of, in both tables, got "
            f"none; both have {short(both)}. The tables are joined by this key{key}, and not row "
            "by row; without one, write the number of the query to both."
        )
    kept = replace(form, preds="preds")
    if form.item is None and form.is_wide:
        rows = Wide(rows, form.preds, kept.preds, row_options["texts"])
    if truth is None:
        return TableRows(rows, kept, **row_options)
    joining = _Joining(Database(threads), rows, truth, form, row_options)
    joining.gather()
    joining.count(rows, truth)
    if row_options.get("reader") is not None:
        joining.check_asked()
    if form.item is None:
        joining.check_once()
    read = TableRows(
        joining.leave(), replace(kept, target="target", grade=form.grade and "grade"), **row_options
    )
    read.card = joining.card
    read.has_several |= form.grade is not None or bool(read.card.get("several_targets"))
    read.are_text |= joining.targets.are_names
    return read


class Wide(RowSource):
    """The rows of a table with a column per rank, and their lists in one column."""

    keyed: frozenset[str]

    def __init__(self, table: Any, preds: Any, name: str, texts: dict[int, str]) -> None:
        self._ranks, self._name, self._table = matching(table, preds), name, table
        source = open_table(table, self._ranks)
        self.files, self.untyped, self.keyed = source.files, source.untyped, frozenset([name])
        reading = CellReading(untyped=source.untyped, may_be_list=False, known=MISSING, texts=texts)
        self.ids = {x: IdColumn(reading, Numbers(None, [-1])) for x in self._ranks}
        self.is_joined = True

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows; lists are keys."""
        others = [x for x in columns if x != self._name]
        every = list(dict.fromkeys([*self._ranks, *others]))
        holds = dict.fromkeys(self._ranks, "an id")
        for part in open_table(self._table, every, holds).parts(every):
            part.columns[self._name] = list_of_columns(part, self.ids)
            yield part

    @property
    def first_with_name(self) -> IdColumn:
        columns = [*self.ids.values()]
        return next((x for x in columns if x.name is not None), columns[0])


class _Joining:
    """The tables `asked`, a row per query, `targets`, and `answers`, a row per list.

    Columns of the truth have roles, of which `seen` has what is excluded.
    """

    def __init__(
        self, db: Database, rows: Any, truth: Any, form: Roles, row_options: Mapping[str, Any]
    ) -> None:
        self.db, self.rows, self.form, self.row_options = db, rows, form, row_options
        named = filter(None, [*form.groups, form.mask, form.exclude])
        self.others = others = {name: f"o{i}" for i, name in enumerate(dict.fromkeys(named))}
        seen = others.get(form.exclude or "")
        keys = {f"k{i}": x for i, x in enumerate(form.query)}
        target, of_rows = form.target, {**keys, "preds": str(form.preds)}
        if target == "target" and form.item is not None:
            have = columns_of(truth)
            target = form.item if "target" not in have and form.item in have else target
        self.constant = {role: name for name, role in others.items()}
        of_truth = {**keys, "item": target, **self.constant}
        if form.grade is not None:
            of_truth["grade"] = form.grade
        words, texts = row_options["vocabulary"], row_options["texts"]
        known_ids = frozenset(map(str, words or ()))
        reading = CellReading(separator=row_options["separator"], known=known_ids, texts=texts)
        numbers = Numbers(None, row_options["padding"])
        gaps = OF_GAPS if form.item is not None else OF_GAPS_OF_ANY
        self.targets = IdColumn(reading, numbers, gaps, are_lists=True)
        of_ids = {"item": self.targets}
        self.excluded = [] if seen is None else [IdColumn(reading, numbers, "", are_lists=True)]
        of_ids |= dict(zip([str(seen)], self.excluded, strict=False))
        missing = gaps_of(row_options["padding"], row_options["on_missing"])
        self.relevant = open_relation(db, "relevant", truth, of_truth, of_ids, texts, missing)
        of_items: dict[str, IdColumn] = {}
        if form.item is not None:
            of_rows = {**keys, "item": form.item, "value": str(form.score or form.rank)}
            of_items["item"] = IdColumn(reading._replace(may_be_list=False), numbers)
        elif isinstance(rows, Wide):
            of_rows["preds"] = "preds"
        self.found = open_relation(db, "found", rows, of_rows, of_items, texts)
        self._check_ids(of_items.get("item"), rows)
        self.keys, self.listed = [*keys], ", ".join(keys)
        if truth is rows and form.grade is None:
            self.constant["item"] = form.target
        self.first: int | None = None  #: the first rank; None for scores
        self.card: dict[str, Any] = {}

    def _check_ids(self, items: IdColumn | None, rows: Any) -> None:
        """Raise if the ids of both tables cannot meet."""
        if items is None and isinstance(rows, Wide):
            items = rows.first_with_name
        elif items is None:
            items = IdColumn(self.targets.reading, self.targets.numbers)
            kind = self.found.kinds["preds"]
            if not self.found.untyped and kind.endswith("[]"):
                family = family_of(kind.removesuffix("[]"))
                items.kind = {"text": "text", "integers": "integers"}.get(family, "")
            items.example, items.column = "its lists", self.found.columns["preds"]
            items.file = self.found.files[0]
        if self.row_options["vocabulary"] is None:
            check_alike(items, self.targets, self.row_options["on_error"])
            for seen in self.excluded:
                check_alike(seen, self.targets, "raise")

    def gather(self) -> None:
        """Read keys and numbers of both tables, and make the three."""
        db, answers, relevant, listed = self.db, self.found, self.relevant, self.listed
        for key in self.keys:
            align(key, answers, relevant)
        if self.form.grade is not None:
            to_numbers(relevant, "grade", GRADES)
        if self.form.item is not None:
            to_numbers(answers, "value", SCORES if self.form.rank is None else RANKS)
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
            db.run(f"CREATE VIEW answers AS {answers.select()}")
        else:
            self._order()

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
                f"the same value in {as_column(clip(name))} as the rows before of its query, got "
                f"{{got}}; {remedy}",
            )

    def _make_targets(self) -> None:
        """Make the table of relevant ids, each once per query."""
        db, listed, grade, kept = self.db, self.listed, "", ""
        if self.form.grade is not None:
            self.relevant.refuse(
                f"SELECT max(stood), item FROM truth GROUP BY {listed}, item "
                "HAVING min(grade) < max(grade)",
                f"one grade in {as_column(clip(self.form.grade))} for each item of a query, got "
                "another for {got}",
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
                f"first with {', '.join(map(short, first))} in "
                f"{as_column(', '.join(self.form.query))}; leave the rows of such answers out, or "
                "add the queries."
            )

    def check_once(self) -> None:
        """Raise for a list of a query that has one before."""
        self.found.refuse(
            f"SELECT max(stood), {self.listed} FROM answers GROUP BY {self.listed} "
            "HAVING count(*) > 1",
            f"a query once in {as_column(', '.join(self.form.query))}, got {{got}} twice; name "
            "further columns that tell its rows apart, or number the queries in both",
        )

    def _order(self) -> None:
        """Read scores or ranks of items, and what orders tied ones: ids, or a vocabulary."""
        db, form, of_asked = self.db, self.form, f"SEMI JOIN asked USING ({self.listed})"
        db.run(f"CREATE VIEW placed AS {self.found.select()}")
        db.run(f"CREATE TABLE answers AS SELECT DISTINCT {self.listed} FROM placed")
        if form.rank is not None:
            self.first = int(db.value("SELECT coalesce(min(value) <> 0, true) FROM placed"))
            ranked = db.value(f"SELECT count(*) FROM answers {of_asked}")
            self.card[f"ranks_from_{self.first}"] = ranked
            return
        lacking = f"SELECT DISTINCT {self.listed} FROM placed {of_asked} WHERE value IS NULL"
        self.card["rows_with_nan"] = db.value(f"SELECT count(*) FROM ({lacking})")

    def _places(self) -> Any:
        """Return the keys of ids that are ordered otherwise than as numbers, and their places.

        These are large integers, text in the order of its bytes, and the ids of a vocabulary.
        """
        texts, words = self.row_options["texts"], self.row_options["vocabulary"]
        if words is not None:
            keys = read_keys("vocabulary", list(words)).keys.numpy()
            return pa.table({"item": keys, "place": np.arange(len(keys)) - len(keys)})
        numbers = sorted(
            (x for x in texts if INTEGER.fullmatch(texts[x])), key=lambda x: int(texts[x])
        )
        words = sorted(texts.keys() - {*numbers}, key=lambda x: texts[x].encode())
        names = [*numbers, *words]
        places = np.arange(len(names)) + LIMIT
        return pa.table({"item": np.array(names, np.int64), "place": places})

    def check_ranks(self) -> None:
        """Raise for the first row of a query that repeats a rank."""
        self.found.refuse(
            f"SELECT max(stood), value FROM placed SEMI JOIN asked USING ({self.listed}) GROUP BY "
            f"{self.listed}, value HAVING count(*) > 1",
            f"another rank in {as_column(clip(str(self.form.rank)))} than the items before of its "
            "query, got {got} again; use `score` for tied items",
        )

    def leave(self) -> Joined:
        """Join all to the rows that are read, one per query; of missing lists `stood` is -1."""
        listed, form, untyped = self.listed, self.form, False
        keyed = frozenset(["target", *([form.exclude] if form.exclude else [])])
        grade = ", list(grade::DOUBLE ORDER BY item) AS grade" if form.grade is not None else ""
        graded = ", coalesce(t.grade, []) AS grade" if grade else ""
        others = "".join(f", a.first.{role} AS {role}" for role in self.others.values())
        stood, order, files, join = "a.stood", "1", self.relevant.files, ""
        preds = f", {', '.join(f'a.{key}' for key in self.keys)}"
        if form.item is None:  # the first rows tell what cells are
            stood, order = "coalesce(p.stood, -1)", "p.stood IS NULL, 1, a.stood"
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
            keyed |= {"preds"} if isinstance(self.rows, Wide) else frozenset()
            return Joined(self.db, files, names, untyped, keyed)
        order, join = "value", ""
        if form.rank is None:
            places = self._places()
            order = "value DESC, item"
            if len(places):
                self.db.insert("places", places)
                join, order = " LEFT JOIN places USING (item)", "value DESC, coalesce(place, item)"
        flat = (
            f"SELECT q.number AS query, item, value FROM placed JOIN queries q USING ({listed})"
            f"{join} WHERE value > '-inf'::DOUBLE ORDER BY query, {order}"
        )
        return Items(self.db, files, names, untyped, keyed | {"preds"}, flat, self)


@dataclass(eq=False)
class Joined(RowSource):
    """The rows of the table `queries`, one per query, of a database.

    `columns` has the SQL column of each name.
    """

    db: Database
    files: list[str]
    columns: dict[str, str]
    untyped: bool = False
    keyed: frozenset[str] = frozenset()
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
                columns_of_part = {name: piece.column(i + 1) for i, name in enumerate(columns)}
                where_stood = stood[start : start + len(piece)]
                rows = np.where(where_stood < 0, -1, where_stood & ((1 << 40) - 1)).tolist()
                yield FilePart(self.files[max(file, 0)], rows, columns_of_part)
                start += len(piece)


@dataclass(eq=False)
class Items(Joined):
    """Queries with their items: each has the list of its items, best first, and their scores.

    `flat` is SQL of the items of all queries, in the order of `queries` and best first.
    """

    flat: str = ""
    joining: Any = None

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
                stop = start + len(part.rows)
                part.columns["preds"] = lists[start:stop]
                if scores is not None:
                    part.columns[SCORES_OF] = scores[start:stop]
                start = stop
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
            lists, scores = (pa.LargeListArray.from_arrays(ends, x) for x in kinds)
            return lists, scores if self.joining.first is None else None
        queries, items, values = (column.to_numpy() for column in flat.columns)
        lengths = np.bincount(queries - first, minlength=last - first)
        ends = np.append(0, lengths.cumsum())
        if self.joining.first is None:
            scores = values.astype(np.float64)
            if ((values[1:] != values[:-1]) & (scores[1:] == scores[:-1])).any():
                # integers beyond 2^53 differ, and floats do not: any numbers that fall tell ties
                scores = -np.append(0.0, values[1:] != values[:-1]).cumsum()
            return tuple(pa.LargeListArray.from_arrays(ends, x) for x in (items, scores))
        if ((queries[1:] == queries[:-1]) & (values[1:] == values[:-1])).any():
            self.joining.check_ranks()  # which raises
        places, has_items = values.astype(np.int64) - self.joining.first, lengths > 0
        sizes = np.zeros(last - first, np.int64)
        sizes[has_items] = places[ends[1:][has_items] - 1] + 1
        ends = np.append(0, sizes.cumsum())
        laid = np.full(ends[-1], -1, np.int64)
        laid[ends[queries - first] + places] = items
        return pa.LargeListArray.from_arrays(ends, laid), None
