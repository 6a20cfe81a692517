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
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files.columns import DENSE
from nextloc_metrics.report.files.database import Database
from nextloc_metrics.report.files.opening import FilePart, RowSource, as_arrow, pa
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
from nextloc_metrics.report.files.tables import OF_GAPS, TableRows

# Numbers of a part that holds a score for each candidate, or a list with gaps.
_SCORES = 1 << 22


def open_form(
    rows: Any,
    truth: Any,
    form: Roles,
    *,
    num_locations: int | None = None,
    threads: int = 1,
    **reading: Any,
) -> tuple[TableRows, dict[str, Any]]:
    """Open predictions and truth as rows of queries, and count what did not fit, for the card.

    Groups, mask and exclude are columns of the truth; `reading` is as for `TableRows`.
    """
    db, pads, words = Database(threads), reading["padding"], None
    reading["padding"] = {-1, *((pads,) if isinstance(pads, int) else pads)}
    if truth is None and form.item is not None:  # each item has the target of its query beside it
        truth = rows
    named = filter(None, [*form.groups, form.mask, form.exclude])
    others = {name: f"o{i}" for i, name in enumerate(dict.fromkeys(named))}
    kept = replace(form, preds="preds")
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
            words = joining.order(kind, reading["vocabulary"], num_locations)
        joining.count(rows, truth)
        if reading.get("reader") is not None:
            joining.check_asked()
        if form.item is None:
            joining.check_once()
        source = joining.leave(words is not None)
        kept = replace(kept, target="target", grade=form.grade and "grade")
    if words is not None:
        reading["vocabulary"] = range(len(words))
    read = TableRows(source, kept, **reading)
    if words is not None:
        read.vocabulary = tuple(words)
        if read.num_candidates is None:
            read.num_locations = max(1, len(words))
    read.has_several |= form.grade is not None
    return read, source.card


def _column(db: Database, query: str) -> list[Any]:
    return [x for (x,) in db.run(query).fetchall()]


def _wide(db: Database, rows: Any, form: Roles, others: Mapping[str, str]) -> Joined:
    """Return the rows of one table with a column per rank."""
    ranks = {f"p{i}": x for i, x in enumerate(matching(rows, form.preds))}
    of_others = {role: name for name, role in others.items()}
    found = open_relation(db, "found", rows, {**ranks, "target": form.target, **of_others})
    list_columns(found, [*ranks])
    db.run(f"CREATE TABLE queries AS {found.select()} ORDER BY stood")
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
        self.width: int | None = None
        self.first: int | None = None
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
            db.run(f"CREATE VIEW answers AS SELECT *, NULL AS places FROM ({found.select()})")
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

    def order(
        self, kind: str, vocabulary: Sequence[str | int] | None, num_locations: int | None
    ) -> list[Any] | None:
        """Make lists of the items of each query; return the vocabulary if they are numbered.

        Where scores are equal, all items are candidates, and none is left out of it.
        """
        db, form, of_asked = self.db, self.form, f"SEMI JOIN asked USING ({self.listed})"
        db.run(f"CREATE VIEW placed AS {self.found.select()}")
        words = self._number(kind, vocabulary) if kind == "text" else None
        self._make_lists(words is not None)
        known, found = self._known, f"FROM answers {of_asked}"
        repeated, same = db.row(
            "SELECT coalesce(sum(len(preds) - list_unique(preds)), 0)::BIGINT, "
            f"count_if(list_unique(places) < len(places)) {found}"
        )
        self.card |= {"repeated_items": repeated} if repeated else {}
        if form.rank is None:
            lacking = f"SELECT DISTINCT {self.listed} FROM placed {of_asked} WHERE is_nan"
            self.card["rows_with_nan"] = db.value(f"SELECT count(*) FROM ({lacking})")
        several = "count(*) > 1" if form.rank is not None else "min(item) < max(item)"
        ties = (
            f"SELECT max(stood), value FROM placed {of_asked} WHERE value IS NOT NULL GROUP BY "
            f"{self.listed}, value HAVING {several}"
        )
        equal = same and form.rank is None and db.row(f"{ties} LIMIT 1")
        if form.rank is not None:
            if same:
                self.found.refuse(
                    ties,
                    f"another rank in `{clip(form.rank)}` than the items before of its query, got "
                    "{got} again; use `score` for tied items",
                )
            self.first = int(db.value("SELECT min(value) FROM placed") != 0)
            most, gaps, self.card[f"ranks_from_{self.first}"] = db.row(
                f"SELECT max(list_max(places)), count_if(list_max(places) - {self.first} >= "
                f"len(places)), coalesce(count_if(len(places) > 0), 0) {found}"
            )
            self.width = int(most) + 1 - self.first if gaps else None
        elif equal:
            if repeated:
                self.found.refuse(
                    ties,
                    "each item once per query where scores are equal, got "
                    f"{repeated:,} repeated items; keep the best row of each",
                )
            number, largest = db.row(f"SELECT count(DISTINCT item), max(item) FROM ({known})")
            if words is None and (vocabulary is not None or largest > 4 * number + DENSE):
                words = self._number(kind, vocabulary)
                db.run("DROP TABLE answers")
                self._make_lists(True)
            if words is not None and vocabulary is not None and len(words) > len(vocabulary):
                raise ValueError(
                    "`vocabulary` must list all items where scores are equal, and lacks "
                    f"{short(words[len(vocabulary)])}; add it, or pass no vocabulary."
                )
            largest = largest + 1 if words is None else len(words)
            self.width = max(largest, num_locations or 0)
        return words if words is None or equal else words[: self.size]

    @property
    def _known(self) -> str:
        return (
            f"SELECT item FROM targets UNION SELECT item FROM placed SEMI JOIN asked "
            f"USING ({self.listed}) WHERE value IS NOT NULL"
        )

    def _make_lists(self, are_numbered: bool) -> None:
        item, join = ("number", "LEFT JOIN words USING (item)") if are_numbered else ("item", "")
        order = "ASC" if self.form.rank is not None else "DESC"
        lists = (f"coalesce(list({x}) FILTER (value IS NOT NULL), [])" for x in (item, "value"))
        self.db.run(  # some times as fast as lists that are made in order
            "CREATE TABLE answers AS SELECT * REPLACE (list_select(preds, list_grade_up(places, "
            f"'{order}')) AS preds) FROM (SELECT {self.listed}, {' AS preds, '.join(lists)} AS "
            f"places FROM placed {join} GROUP BY {self.listed})"
        )

    def _number(self, kind: str, vocabulary: Sequence[str | int] | None) -> list[Any]:
        """Number items in the table `words`: by the vocabulary or the targets, then the others."""
        db = self.db
        if vocabulary is None:  # of all models alike, for targets
            vocabulary = _column(db, "SELECT DISTINCT item FROM targets ORDER BY 1")
        words = pa.array([*vocabulary], pa.int64() if kind == "integers" else pa.string())
        numbers = pa.array(range(len(words)), pa.int64())
        db.insert("words", pa.table({"item": words, "number": numbers}))
        self.relevant.refuse(
            "SELECT stood, item FROM targets ANTI JOIN words USING (item)",
            "an id of `vocabulary`, got {got}",
        )
        self.size = len(vocabulary)
        db.run(
            f"INSERT INTO words SELECT item, {self.size} + row_number() OVER (ORDER BY item) - 1 "
            f"FROM ({self._known}) ANTI JOIN words USING (item)"
        )
        return _column(db, "SELECT item FROM words ORDER BY number")

    def leave(self, are_numbered: bool) -> Joined:
        """Join all to the rows that are read, one per query; of missing lists `stood` is -1."""
        listed, form, untyped = self.listed, self.form, False
        item, join = ("number", " JOIN words USING (item)") if are_numbered else ("item", "")
        cells = {role: f"a.first.{role}" for role in self.others.values()}
        joined = ""
        if are_numbered and self.seen is not None:  # what no list has excludes nothing
            cells[self.seen] = "coalesce(s.seen, [])"
            joined = (
                f" LEFT JOIN (SELECT {listed}, list(number) AS seen FROM (SELECT {listed}, "
                f"unnest(first.{self.seen}) AS item FROM asked) JOIN words USING (item) GROUP BY "
                f"{listed}) s USING ({listed})"
            )
        grade = f", list(grade::DOUBLE ORDER BY {item}) AS grade" if form.grade is not None else ""
        graded = ", coalesce(t.grade, []) AS grade" if grade else ""
        others = "".join(f", {cell} AS {role}" for role, cell in cells.items())
        stood, order, preds, files = "a.stood", "1", "coalesce(p.preds, [])", self.relevant.files
        if form.item is None:  # the first rows tell what cells are
            stood, order = "coalesce(p.stood, -1)", "p.stood IS NULL, 1"
            preds, files, untyped = "p.preds", self.found.files, self.found.untyped
        sort = "list_sort" if form.rank is not None else "list_reverse_sort"
        places = "NULL" if self.width is None else f"{sort}(coalesce(p.places, []))"
        self.db.run(
            f"CREATE TABLE queries AS SELECT {stood} AS stood, {preds} AS preds, {places} AS "
            f"places, coalesce(t.target, []) AS target{graded}{others} FROM asked a LEFT JOIN "
            f"answers p USING ({listed}) LEFT JOIN (SELECT {listed}, list({item} ORDER BY {item}) "
            f"AS target{grade} FROM targets{join} GROUP BY {listed}) t USING ({listed}){joined} "
            f"ORDER BY {order}"
        )
        names = {**self.others, "preds": "preds", "target": "target", "grade": "grade"}
        return Joined(self.db, files, names, untyped, self.width, self.first, self.card)


@dataclass(eq=False)
class Joined(RowSource):
    """The rows of the table `queries`, one per query, of a database.

    `columns` has the SQL column of each name. Where `width` is not None, `preds` has numbers of
    candidates and `places` their scores, or their ranks, the first of which is `first`.
    """

    db: Database
    files: list[str]
    columns: dict[str, str]
    untyped: bool = False
    width: int | None = None
    first: int | None = None
    card: dict[str, Any] = field(default_factory=dict)
    is_joined = True

    def parts(self, columns: Sequence[str]) -> Iterator[FilePart]:
        """Yield the rows, in a part no more than one file."""
        cells = [self.columns[name] for name in columns]
        places = ["places"] if self.width is not None and "preds" in cells else []
        rows = max(1, _SCORES // self.width) if self.width and places else 100_000
        listed = ", ".join(["stood", *cells, *places])
        for batch in self.db.batches(f"SELECT {listed} FROM queries", rows):
            stood, start = batch.column(0).to_numpy(zero_copy_only=False), 0
            for file, group in groupby((stood >> 40).tolist()):
                piece = batch.slice(start, len(list(group)))
                found = {name: piece.column(i + 1) for i, name in enumerate(columns)}
                if places:
                    of = cells.index("preds")
                    found[columns[of]] = self._laid(piece.column(of + 1), piece.columns[-1])
                where = stood[start : start + len(piece)]
                where = np.where(where < 0, -1, where & ((1 << 40) - 1)).tolist()
                yield FilePart(self.files[max(file, 0)], where, found)
                start += len(piece)

    def _laid(self, items: Any, places: Any) -> Any:
        """Return a score for each candidate, -inf if it has none, or lists with -1 in the gaps."""
        lengths = items.value_lengths().to_numpy()
        ids, values = (x.flatten().to_numpy(zero_copy_only=False) for x in (items, places))
        starts, rows = lengths.cumsum() - lengths, np.repeat(np.arange(len(items)), lengths)
        if self.first is None:
            steps = np.append(0, (values[1:] != values[:-1]).cumsum())[: len(values)]
            dense = np.full((len(items), self.width or 0), -np.inf, np.float32)
            dense[rows, ids] = steps[starts[rows]] - steps - 1
            return as_arrow(dense)
        ends, values = np.zeros(len(items) + 1, np.int64), values.astype(np.int64)
        ends[1:][lengths > 0] = values[(starts + lengths - 1)[lengths > 0]] + 1 - self.first
        ends = ends.cumsum()
        laid = np.full(ends[-1], -1, np.int64)
        laid[ends[rows] + values - self.first] = ids
        return pa.LargeListArray.from_arrays(ends, laid)
