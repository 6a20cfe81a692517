"""The forms in which predictions and their truth are not in the same row; SQL joins them.

| form | a row of the predictions | a row of the truth |
|---|---|---|
| items | one item of a query, with its score or rank | one relevant item of a query, or a list |
| lists | a query with its list, or its scores | one relevant item of a query, or a list |
| wide | a query with a column per rank | the same row, or the truth as above |

They are joined to one table with a row per query: predictions, targets, grades, groups, mask, and
the row of the file that the query is from. A query of the truth without predictions is a miss.
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
    columns_named,
    list_of_columns,
)
from nextloc_metrics.report.files.opening import FilePart, RowSource, pa
from nextloc_metrics.report.files.relation import (
    GRADES,
    GROUP,
    RANKS,
    ROW_BITS,
    SCORES,
    Relation,
    align,
    family_of,
    open_relation,
    to_numbers,
)
from nextloc_metrics.report.files.roles import Roles
from nextloc_metrics.report.files.sources import columns_of, columns_of_both, open_table
from nextloc_metrics.report.files.tables import GAP_REMEDY, ITEM_SCORES, TableRows, gap_remedy

# What to do about a missing target beside cells that may be lists or scores.
_ANY_GAP_REMEDY = f"{GAP_REMEDY}, or {gap_remedy('the width of the rows')}"

# How many items are read at once.
_ITEMS = 1 << 20


def open_form(
    rows: Any, truth: Any, form: Roles, *, threads: int = 1, **row_options: Any
) -> TableRows:
    """Open predictions and truth as rows of queries; `card` counts queries that lack one of both.

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
    roles = replace(form, preds="preds")
    if form.item is None and form.is_wide:
        rows = Wide(rows, form.preds, roles.preds, row_options["texts"])
    if truth is None:
        return TableRows(rows, roles, **row_options)
    joining = _Joining(Database(threads), rows, truth, form, row_options)
    joining.gather()
    joining.count(rows, truth)
    if row_options.get("reader") is not None:
        joining.check_answers_have_truth()
    if form.item is None:
        joining.check_one_list_each()
    roles = replace(roles, target="target", grade=form.grade and "grade")
    read = TableRows(joining.joined(), roles, **row_options)
    read.card = joining.card
    read.has_several |= form.grade is not None or bool(read.card.get("several_targets"))
    read.are_text |= joining.targets.are_names
    return read


class Wide(RowSource):
    """The rows of a table with a column per rank, and their lists in one column."""

    keyed: frozenset[str]

    def __init__(self, table: Any, preds: Any, name: str, texts: dict[int, str]) -> None:
        self._ranks = columns_named(table, preds)
        self._name, self._table = name, table
        source = open_table(table, self._ranks)
        self.files, self.untyped = source.files, source.untyped
        self.keyed = frozenset([name])
        reading = CellReading(
            untyped=source.untyped, may_be_list=False, accepted=MISSING, texts=texts
        )
        self.ids = {x: IdColumn(reading, Numbers(None, [-1])) for x in self._ranks}
        self.is_joined = True

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows; the lists hold keys of ids."""
        others = [x for x in columns if x != self._name]
        needed = list(dict.fromkeys([*self._ranks, *others]))
        holds = dict.fromkeys(self._ranks, "an id")
        for part in open_table(self._table, needed, holds).parts(needed):
            part.columns[self._name] = list_of_columns(part, self.ids)
            yield part

    @property
    def first_with_name(self) -> IdColumn:
        columns = [*self.ids.values()]
        return next((x for x in columns if x.name is not None), columns[0])


class _Joining:
    """Predictions and their truth in a database, and the tables that join them.

    `asked` has a row for each query of the truth, `targets` one for each relevant id of a query,
    and `answers` one for each query of the predictions. Each column of the truth has a role: `k0`,
    `k1` and so on name a query, and `o0`, `o1` and so on are groups, the mask and excluded ids.
    """

    def __init__(
        self, db: Database, rows: Any, truth: Any, form: Roles, row_options: Mapping[str, Any]
    ) -> None:
        self.db, self.rows, self.form, self.row_options = db, rows, form, row_options
        self.keys = [f"k{i}" for i in range(len(form.query))]
        self.listed = ", ".join(self.keys)
        named = filter(None, [*form.groups, form.mask, form.exclude])
        self.others = {name: f"o{i}" for i, name in enumerate(dict.fromkeys(named))}
        self.constant = {role: name for name, role in self.others.items()}
        if truth is rows and form.grade is None:
            self.constant["item"] = form.target
        self.excluded: list[IdColumn] = []
        self.truth = self._open_truth(truth)
        self.predicted, items = self._open_predictions(rows)
        self._check_ids(items, rows)
        self.first_rank: int | None = None  #: 0 or 1; None for scores
        self.card: dict[str, Any] = {}

    def _open_truth(self, truth: Any) -> Relation:
        """Open the truth, whose relevant and excluded ids become keys."""
        form, row_options, target = self.form, self.row_options, self.form.target
        texts, separator = row_options["texts"], row_options["separator"]
        accepted = frozenset(map(str, row_options["vocabulary"] or ()))
        if target == "target" and form.item is not None:
            have = columns_of(truth)
            target = form.item if "target" not in have and form.item in have else target
        roles = dict(zip(self.keys, form.query, strict=True))
        roles |= {"item": target, **{role: name for name, role in self.others.items()}}
        if form.grade is not None:
            roles["grade"] = form.grade
        reading = CellReading(separator=separator, accepted=accepted, texts=texts)
        numbers = Numbers(None, row_options["padding"])
        gaps = GAP_REMEDY if form.item is not None else _ANY_GAP_REMEDY
        self.targets = IdColumn(reading, numbers, gaps, are_lists=True)
        columns_of_ids = {"item": self.targets}
        if form.exclude:
            self.excluded = [IdColumn(reading, numbers, "", are_lists=True)]
            columns_of_ids[self.others[form.exclude]] = self.excluded[0]
        missing = gaps_of(row_options["padding"], row_options["on_missing"])
        return open_relation(self.db, "raw_truth", truth, roles, columns_of_ids, texts, missing)

    def _open_predictions(self, rows: Any) -> tuple[Relation, IdColumn | None]:
        """Open the predictions; the column of ids is None where a row has a list."""
        form, items = self.form, None
        roles = dict(zip(self.keys, form.query, strict=True))
        if form.item is not None:
            roles |= {"item": form.item, "value": str(form.score or form.rank)}
            items = IdColumn(self.targets.reading._replace(may_be_list=False), self.targets.numbers)
        else:
            roles["preds"] = "preds" if isinstance(rows, Wide) else str(form.preds)
        columns_of_ids = {} if items is None else {"item": items}
        texts = self.row_options["texts"]
        return open_relation(self.db, "raw_answers", rows, roles, columns_of_ids, texts), items

    def _check_ids(self, items: IdColumn | None, rows: Any) -> None:
        """Raise if no id of the predictions can equal one of the truth."""
        if items is None and isinstance(rows, Wide):
            items = rows.first_with_name
        elif items is None:
            items = IdColumn(self.targets.reading, self.targets.numbers)
            kind = self.predicted.kinds["preds"]
            if not self.predicted.untyped and kind.endswith("[]"):
                family = family_of(kind.removesuffix("[]"))
                items.kind = {"text": "text", "integers": "integers"}.get(family, "")
            items.example, items.column = "its lists", self.predicted.columns["preds"]
            items.file = self.predicted.files[0]
        if self.row_options["vocabulary"] is None:
            check_alike(items, self.targets, self.row_options["on_error"])
            for excluded in self.excluded:
                check_alike(excluded, self.targets, "raise")

    def gather(self) -> None:
        """Read keys and numbers of both tables, and make `asked`, `targets` and `answers`."""
        db, answers, truth, listed = self.db, self.predicted, self.truth, self.listed
        for key in self.keys:
            align(key, answers, truth)
        for role in (self.others[name] for name in self.form.groups):
            truth.read(role, f"nullif({role}, '')" if truth.untyped else role, GROUP)
        if self.form.grade is not None:
            to_numbers(truth, "grade", GRADES)
        if self.form.item is not None:
            to_numbers(answers, "value", SCORES if self.form.rank is None else RANKS)
        db.run(f"CREATE VIEW truth AS {truth.select()}")
        kept = ", ".join(f"{x} := {x}" for x in self.constant)
        first = f", arg_min(struct_pack({kept}), row_id) AS first" if kept else ""
        db.run(
            f"CREATE TABLE asked AS SELECT {listed}, min(row_id) AS row_id{first} FROM truth "
            f"GROUP BY {listed}"
        )
        self._check_constant()
        self._make_targets()
        if self.form.item is None:
            db.run(f"CREATE VIEW answers AS {answers.select()}")
        else:
            self._read_order()

    def _check_constant(self) -> None:
        """Raise if rows of a query differ in a column of the truth, or in the target of items."""
        for role, name in self.constant.items():
            remedy = "a column of the truth is constant within a query"
            if role == "item":
                remedy = (
                    "name further columns of `query`, or of labels that say which items are "
                    f"relevant, `target={short(self.form.item)}` and `grade={short(name)}`"
                )
            self.truth.refuse(
                f"SELECT t.row_id, t.{role} FROM truth t JOIN asked a USING ({self.listed}) WHERE "
                f"t.{role} IS DISTINCT FROM a.first.{role}",
                f"the same value in {as_column(clip(name))} as the rows before of its query, got "
                f"{{got}}; {remedy}",
            )

    def _make_targets(self) -> None:
        """Make the table of relevant ids, each once per query."""
        db, listed, grade, kept = self.db, self.listed, "", ""
        if self.form.grade is not None:
            self.truth.refuse(
                f"SELECT max(row_id), item FROM truth GROUP BY {listed}, item "
                "HAVING min(grade) < max(grade)",
                f"one grade in {as_column(clip(self.form.grade))} for each item of a query, got "
                "another for {got}",
            )
            # A query whose grades are all 0 keeps one of its items as a target, so that it stays
            # in the table. `miss_unmet` takes this item out of the predictions: it scores 0.
            first = f"row_number() OVER (PARTITION BY {listed} ORDER BY min(grade) DESC, item)"
            grade, kept = ", min(grade) AS grade", f" QUALIFY min(grade) > 0 OR {first} = 1"
        db.run(
            f"CREATE TABLE targets AS SELECT {listed}, item, min(row_id) AS row_id{grade} "
            f"FROM truth WHERE item IS NOT NULL GROUP BY {listed}, item{kept}"
        )

    def count(self, rows: Any, truth: Any) -> None:
        """Count queries without predictions, predictions without truth, and several targets."""
        db, listed = self.db, self.listed
        queries = db.value("SELECT count(*) FROM asked")
        missing = db.value(f"SELECT count(*) FROM asked ANTI JOIN answers USING ({listed})")
        without = db.value(f"SELECT count(*) FROM answers ANTI JOIN asked USING ({listed})")
        if queries and missing == queries and without:
            examples = [
                ", ".join(map(x.example, self.keys)) + f" in {x.files[0]}"
                for x in (self.predicted, self.truth)
            ]
            raise ValueError(
                "`query` must name columns with values in common, got none in "
                f"{short(self.form.query)}: {' and '.join(examples)}."
            )
        if missing > queries / 2:
            warnings.warn(
                f"{missing:,} of {queries:,} queries of the truth have no predictions and count as "
                "misses.",
                stacklevel=5,
            )
        if missing and without:
            self._warn_of_times()
        several = db.value(f"SELECT count(*) FROM (FROM targets SELECT {listed} GROUP BY {listed} "
                           "HAVING count(*) > 1)")  # fmt: skip
        if several:
            self._warn_of_several(several, columns_of_both(rows, truth))
        counts = {"missing": missing, "without_truth": without, "several_targets": several}
        self.card = counts | self.card

    def _warn_of_times(self) -> None:
        """Warn if a time of the one table is written in another way in the other table."""
        for key, name in zip(self.keys, self.form.query, strict=True):
            sides = (f"(SELECT DISTINCT {key}::VARCHAR AS x FROM {a} ANTI JOIN {b} USING ({key}))"
                     for a, b in (("asked", "answers"), ("answers", "asked")))  # fmt: skip
            pairs = "SELECT a.x, b.x FROM {} a JOIN {} b ON {{0}}(a.x) = {{0}}(b.x)".format(*sides)
            same = f"{pairs.format('instant_of')} UNION ALL {pairs.format('local_of')} WHERE "
            same += "offset_of(a.x) = '' OR offset_of(b.x) = ''"
            if alike := self.db.row(f"{same} LIMIT 1"):
                warnings.warn(
                    f"values of {name!r} in truth and predictions differ only in how a time is "
                    f"written, such as {' and '.join(map(short, alike))}; text is compared byte "
                    "for byte. Write times alike, or store them as times.",
                    stacklevel=6,
                )

    def _warn_of_several(self, several: int, in_both: Sequence[str]) -> None:
        """Warn of several targets per query if another column could tell rows apart."""
        form = self.form
        used = {*form.query, form.item, form.score, form.rank, form.grade, form.target, form.preds}
        if unused := [x for x in in_both if x not in used]:
            warnings.warn(
                f"{several:,} queries have several targets; if a row of the truth is a query of "
                f"its own, name a second column: `query={','.join([*form.query, unused[0]])}`.",
                stacklevel=6,
            )

    def check_answers_have_truth(self) -> None:
        """Raise if the answer of a language model is for a query that is not in the truth."""
        number = self.card["without_truth"]
        del self.card["missing"]  # the shares of outcomes count these queries, too
        others = f"FROM answers ANTI JOIN asked USING ({self.listed})"
        if first := self.db.row(f"SELECT {self.listed} {others} ORDER BY row_id LIMIT 1"):
            raise ValueError(
                f"`truth` must have a row for each answer, got none for {number:,} of them, the "
                f"first with {', '.join(map(short, first))} in "
                f"{as_column(', '.join(self.form.query))}; leave the rows of such answers out, or "
                "add the queries."
            )

    def check_one_list_each(self) -> None:
        """Raise if a query has more than one list."""
        self.predicted.refuse(
            f"SELECT max(row_id), {self.listed} FROM answers GROUP BY {self.listed} "
            "HAVING count(*) > 1",
            f"a query once in {as_column(', '.join(self.form.query))}, got {{got}} twice; name "
            "further columns that tell its rows apart, or number the queries in both",
        )

    def _read_order(self) -> None:
        """Make the table of queries that have items, and count ranks or missing scores."""
        db, form, of_asked = self.db, self.form, f"SEMI JOIN asked USING ({self.listed})"
        db.run(f"CREATE VIEW items AS {self.predicted.select()}")
        db.run(f"CREATE TABLE answers AS SELECT DISTINCT {self.listed} FROM items")
        if form.rank is not None:
            self.first_rank = int(db.value("SELECT coalesce(min(value) <> 0, true) FROM items"))
            ranked = db.value(f"SELECT count(*) FROM answers {of_asked}")
            self.card[f"ranks_from_{self.first_rank}"] = ranked
            return
        lacking = f"SELECT DISTINCT {self.listed} FROM items {of_asked} WHERE value IS NULL"
        self.card["rows_with_nan"] = db.value(f"SELECT count(*) FROM ({lacking})")

    def _order_of_ties(self) -> Any:
        """Return the position, among tied items, of each id that its key does not order.

        These ids are large integers, text in the order of its bytes, and those of a vocabulary.
        """
        texts, vocabulary = self.row_options["texts"], self.row_options["vocabulary"]
        if vocabulary is not None:
            keys = read_keys("vocabulary", list(vocabulary)).keys.numpy()
            return pa.table({"item": keys, "position": np.arange(len(keys)) - len(keys)})
        integers = sorted(
            (x for x in texts if INTEGER.fullmatch(texts[x])), key=lambda x: int(texts[x])
        )
        names = sorted(texts.keys() - {*integers}, key=lambda x: texts[x].encode())
        keys = np.array([*integers, *names], np.int64)
        return pa.table({"item": keys, "position": np.arange(len(keys)) + LIMIT})

    def check_ranks(self) -> None:
        """Raise if two items of a query have the same rank."""
        self.predicted.refuse(
            f"SELECT max(row_id), value FROM items SEMI JOIN asked USING ({self.listed}) GROUP BY "
            f"{self.listed}, value HAVING count(*) > 1",
            f"another rank in {as_column(clip(str(self.form.rank)))} than the items before of its "
            "query, got {got} again; use `score` for tied items",
        )

    def joined(self) -> Joined:
        """Return the rows of the joined tables, one per query of the truth."""
        is_list = self.form.item is None
        source = self.predicted if is_list else self.truth
        keyed = {"target", *filter(None, [self.form.exclude])}
        if not is_list or isinstance(self.rows, Wide):
            keyed.add("preds")
        self._make_queries()
        names = {**self.others, "preds": "preds", "target": "target", "grade": "grade"}
        options = self.db, source.files, names, is_list and source.untyped, frozenset(keyed)
        return Joined(*options) if is_list else Items(*options, self._items_in_order(), self)

    def _make_queries(self) -> None:
        """Make the table `queries`; the `row_id` of a query without a list is -1."""
        grade, columns = "", ", coalesce(t.target, []) AS target"
        if self.form.grade is not None:
            grade = ", list(grade::DOUBLE ORDER BY item) AS grade"
            columns += ", coalesce(t.grade, []) AS grade"
        columns += "".join(f", a.first.{role} AS {role}" for role in self.others.values())
        if self.form.item is None:  # rows with a list come first: they tell what cells hold
            columns = f"coalesce(p.row_id, -1) AS row_id, p.preds{columns}"
            join = f"LEFT JOIN answers p USING ({self.listed})"
            order = "p.row_id IS NULL, 1, a.row_id"
        else:
            keys = ", ".join(f"a.{key}" for key in self.keys)
            columns, join, order = f"a.row_id AS row_id, {keys}{columns}", "", "1"
        self.db.run(
            "CREATE TABLE queries AS SELECT row_number() OVER () - 1 AS number, * FROM (SELECT "
            f"{columns} FROM asked a LEFT JOIN (SELECT {self.listed}, "
            f"list(item ORDER BY item) AS target{grade} FROM targets GROUP BY {self.listed}) t "
            f"USING ({self.listed}) {join} ORDER BY {order})"
        )

    def _items_in_order(self) -> str:
        """Return SQL of all items by query, the best of each query first."""
        join, order = "", "value"
        if self.form.rank is None:
            order, ties = "value DESC, item", self._order_of_ties()
            if len(ties):
                self.db.insert("ties", ties)
                join, order = " LEFT JOIN ties USING (item)", "value DESC, coalesce(position, item)"
        return (
            "SELECT q.number AS query, item, value FROM items JOIN queries q USING "
            f"({self.listed}){join} WHERE value > '-inf'::DOUBLE ORDER BY query, {order}"
        )


@dataclass(eq=False)
class Joined(RowSource):
    """The rows of the table `queries` of a database; `columns` has the SQL column of each name."""

    db: Database
    files: list[str]
    columns: dict[str, str]
    untyped: bool = False
    keyed: frozenset[str] = frozenset()
    is_joined = has_gaps = True

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows in parts, each of one file."""
        yield from self._rows(columns, "")

    def _rows(self, columns: Sequence[str], where: str) -> Iterator[FilePart]:
        """Yield the rows that fulfil a clause of SQL."""
        listed = ", ".join(["row_id", *(self.columns[name] for name in columns)])
        for batch in self.db.batches(f"SELECT {listed} FROM queries {where} ORDER BY number"):
            row_ids, start = batch.column(0).to_numpy(zero_copy_only=False), 0
            for file, group in groupby((row_ids >> ROW_BITS).tolist()):
                piece = batch.slice(start, len(list(group)))
                columns_of_part = {name: piece.column(i + 1) for i, name in enumerate(columns)}
                ids = row_ids[start : start + len(piece)]
                rows = np.where(ids < 0, -1, ids & ((1 << ROW_BITS) - 1)).tolist()
                yield FilePart(self.files[max(file, 0)], rows, columns_of_part)
                start += len(piece)


@dataclass(eq=False)
class Items(Joined):
    """Queries, each with the list of its items, best first, and their scores.

    `sql` selects the items of all queries in the order of `queries`, the best of each query first.
    """

    sql: str = ""
    joining: Any = None

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows; where columns have the predictions, also the scores of their items."""
        if "preds" not in columns:
            yield from self._rows(columns, "")
            return
        others = [name for name in columns if name != "preds"]
        for first, last, items in self._ranges():
            lists, scores = self._lists(first, last, items)
            start = 0
            for part in self._rows(others, f"WHERE number BETWEEN {first} AND {last - 1}"):
                stop = start + len(part.rows)
                part.columns["preds"] = lists[start:stop]
                if scores is not None:
                    part.columns[ITEM_SCORES] = scores[start:stop]
                start = stop
                yield part

    def _ranges(self) -> Iterator[tuple[int, int, Any]]:
        """Yield ranges of queries with the query, item and value of each of their items."""
        number, first, waiting = self.db.value("SELECT count(*) FROM queries"), 0, None
        for batch in self.db.batches(self.sql, _ITEMS):
            new = pa.Table.from_batches([batch])
            waiting = new if waiting is None else pa.concat_tables([waiting, new])
            queries = waiting.column(0).to_numpy()
            last = int(queries[-1])  # the next batch may have more items of this query
            if last > first:
                end = int(np.searchsorted(queries, last))
                yield first, last, waiting.slice(0, end)
                first, waiting = last, waiting.slice(end)
        if number > first:
            yield first, number, waiting

    def _lists(self, first: int, last: int, flat: Any) -> tuple[Any, Any]:
        """Return the lists of the queries of a range, and their scores; None for ranks."""
        by_score = self.joining.first_rank is None
        if flat is None:  # no query has an item
            ends = np.zeros(last - first + 1, np.int64)
            lists = pa.LargeListArray.from_arrays(ends, np.zeros(0, np.int64))
            return lists, pa.LargeListArray.from_arrays(ends, np.zeros(0)) if by_score else None
        queries, items, values = (column.to_numpy() for column in flat.columns)
        queries = queries - first
        ends = np.append(0, np.bincount(queries, minlength=last - first).cumsum())
        if not by_score:
            return self._lists_by_rank(queries, items, values, ends), None
        scores = values.astype(np.float64)
        differ = values[1:] != values[:-1]
        if (differ & (scores[1:] == scores[:-1])).any():
            # Integers beyond 2^53 may differ and yet be one float. Only the order and the ties of
            # scores matter, so any numbers do that fall wherever the integers differ.
            scores = -np.append(0.0, differ).cumsum()
        return tuple(pa.LargeListArray.from_arrays(ends, x) for x in (items, scores))

    def _lists_by_rank(self, queries: Any, items: Any, ranks: Any, ends: Any) -> Any:
        """Return lists with each item at its rank, and -1 where no item has the rank."""
        if ((queries[1:] == queries[:-1]) & (ranks[1:] == ranks[:-1])).any():
            self.joining.check_ranks()  # this raises
        positions, has_items = ranks.astype(np.int64) - self.joining.first_rank, np.diff(ends) > 0
        lengths = np.zeros(len(ends) - 1, np.int64)
        lengths[has_items] = positions[ends[1:][has_items] - 1] + 1
        ends = np.append(0, lengths.cumsum())
        lists = np.full(ends[-1], -1, np.int64)
        lists[ends[queries] + positions] = items
        return pa.LargeListArray.from_arrays(ends, lists)
