"""Tables as relations of DuckDB: ids become keys, and the columns that join and rank get a type.

SQL does not see the names of a user's columns: each column has a role, such as key, item or score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nextloc_metrics.core.queries.messages import as_column, clip, short, wrong_cell
from nextloc_metrics.report.files.cells import is_list, is_text, plain
from nextloc_metrics.report.files.columns import fill_gaps
from nextloc_metrics.report.files.database import Database
from nextloc_metrics.report.files.id_columns import IdColumn
from nextloc_metrics.report.files.opening import pa, place
from nextloc_metrics.report.files.sources import open_table


class Rule(NamedTuple):
    """What a cell must hold; `wrong` is SQL of the cell, `{0}`, and of what it becomes, `{1}`."""

    wrong: str
    must: str
    remedy: str


#: a `row_id` is the number of a file, followed by so many bits for the row in this file
ROW_BITS = 40
# An integer in text as it is usually written, of at most 18 digits.
_WHOLE = r"(0|-?[1-9][0-9]{0,17})(\.0)?"
# Above this rank, a list with a gap for each rank that is not used may not fit into memory.
_LARGEST_RANK = 100_000
_FAMILIES = {
    "text": ("VARCHAR",),
    "floats": ("FLOAT", "DOUBLE", "DECIMAL"),
    "large": ("UBIGINT", "HUGEINT", "UHUGEINT"),
    "integers": ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    "times": ("DATE", "TIMESTAMP"),
    "none": ("BOOLEAN", "STRUCT", "MAP", "BLOB"),
    "null": ('"NULL"',),
}
_NUL = Rule("contains({0}, chr(0))", "a value without NUL", "write it again")
_TIME = Rule("{1} IS NULL", "a time, as in the other table", "write it as 2026-01-31 12:30:00")
_OFFSET = Rule(
    "offset_of({0}) = ''",
    "a time with its offset from UTC, as the times of the other table have a zone,",
    "write the offset, such as 2026-01-31 12:30:00+09:00",
)
_NO_OFFSET = Rule(
    "offset_of({0}) <> ''",
    "a time without an offset from UTC, as the times of the other table have no zone,",
    "give those their zone, such as `tz_localize('UTC')`",
)
# The parts of a time in text. A cast would drop some of them; text with other parts is no time.
_CLOCK = r"(\d{1,2}:\d\d)(?::(\d\d)(?:\.(\d{1,9})0*)?)?"
_SHIFT = r"[+-](?:[01]\d|2[0-3])(?::?[0-5]\d(?::?[0-5]\d)?)?"
_PARTS = rf"^\s*(\d{{4,6}}[-/]\d{{1,2}}[-/]\d{{1,2}})(?:(?:[Tt]|\s+){_CLOCK})?"
_PARTS += rf"(?:\s*([Zz]|(?:UTC|GMT)?{_SHIFT}|UTC|GMT))?\s*$"
_DIGITS_OF = "rpad(regexp_replace(p.shift, '[^0-9]', '', 'g'), 6, '0')"
_MACROS = f"""
CREATE OR REPLACE MACRO time_parts(x) AS
    regexp_extract(x, '{_PARTS}', ['day', 'clock', 'second', 'fraction', 'shift']);
CREATE OR REPLACE MACRO offset_of(x) AS (time_parts(x)).shift;
CREATE OR REPLACE MACRO shift_of(p) AS if(contains(p.shift, '-'), -1, 1) * (
    {_DIGITS_OF}[1:2]::INT * 3600 + {_DIGITS_OF}[3:4]::INT * 60 + {_DIGITS_OF}[5:6]::INT);
CREATE OR REPLACE MACRO moment(p, shift) AS CASE WHEN p.clock <> '' OR p.shift = '' THEN CAST(
    TRY_CAST(concat(p.day, ' ', if(p.clock = '', '00:00', p.clock), ':',
    if(p.second = '', '00', p.second)) AS TIMESTAMP) - to_seconds(shift) AS VARCHAR
    ) || rtrim(rtrim('.' || p.fraction, '0'), '.') END;
CREATE OR REPLACE MACRO local_of(x) AS moment(time_parts(x), 0);
CREATE OR REPLACE MACRO instant_of(x) AS moment(time_parts(x), shift_of(time_parts(x)));
"""
_INTEGER = Rule(
    f"NOT regexp_full_match({{0}}, '{_WHOLE}')",
    "an integer, as in the other table",
    "write it without zeros in front, sign, exponent or fraction",
)
_FLOATS = Rule(
    "NOT ({0} = floor({0}) AND abs({0}) < 9007199254740992)",
    "whole numbers below 2^53",
    "write ids and keys as integers or as text",
)
_LARGE = Rule("abs({0}) > 9223372036854775807", "integers of 64 bits", "write them as text")
_NONE = Rule("true", "text or integers", "name another column or convert it")
_IDS = {"floats": [_FLOATS], "large": [_LARGE], "none": [_NONE]}
SCORES = Rule(
    "{0} IS NOT NULL AND {2} IS NULL", "a number", "leave it empty if the item is not retrieved"
)
GRADES = Rule(
    "NOT ({1} > '-inf'::DOUBLE) OR {1} IS NULL",
    "a grade",
    "write a number, 0 for what is not relevant",
)
GROUP = Rule("{1} IS NULL", "a group", "fill the value")
RANKS = Rule(
    f"{{1}} IS NULL OR {{1}} <> floor({{1}}) OR {{1}} NOT BETWEEN 0 AND {_LARGEST_RANK}",
    f"a whole rank from 0 to {_LARGEST_RANK:,}",
    "ranks begin at 0 or at 1; use `score` for scores",
)


@dataclass(eq=False)
class Relation:
    """A table of a `Database`: each column has a role, and `row_id` is the file and row of a row.

    Attributes:
        name: the name in SQL.
        files: the files, by number.
        columns: the user's name of each role.
        untyped: whether all values are text, as in CSV and JSON.
        kinds: DuckDB's type of each role.
        sql: the expression of each role.
        zoned: the roles whose times have a zone; here these times are in UTC.
        texts: the text of each key that is a hash.
    """

    db: Database
    name: str
    files: list[str]
    columns: Mapping[str, str]
    untyped: bool
    kinds: dict[str, str]
    sql: dict[str, str] = field(default_factory=dict)
    zoned: frozenset[str] = frozenset()
    texts: Mapping[int, str] = field(default_factory=dict)

    def family(self, role: str) -> str:
        """Return the family of types that a column has."""
        return family_of(self.kinds[role])

    def is_all(self, role: str, pattern: str) -> bool:
        """Return whether a pattern matches all cells of a column of text."""
        other = f"NOT regexp_full_match({self.sql[role]}, '{pattern}')"
        return self.db.row(f"SELECT 1 FROM {self.name} WHERE {other} LIMIT 1") is None

    def read(self, role: str, cell: str, *rules: Rule) -> None:
        """Replace a column by an expression of SQL; raise for the first row that breaks a rule."""
        cases = [
            f"WHEN {x.wrong.replace('{0}', self.sql[role]).replace('{1}', cell)} THEN {i}"
            for i, x in enumerate(rules)
        ]
        broken = f"CASE {' '.join(cases)} END" if cases else "NULL"
        broken_row = self.db.row(
            f"SELECT * FROM (SELECT row_id, {role} AS cell, {broken} AS rule FROM {self.name}) "
            "WHERE rule IS NOT NULL ORDER BY 1 LIMIT 1"
        )
        if broken_row is not None:
            rule = rules[broken_row[2]]
            place, column = self.place(broken_row[0]), clip(self.columns[role])
            raise wrong_cell(place, rule.must, column, short(broken_row[1]), rule.remedy)
        self.sql[role] = cell

    def refuse(self, query: str, says: str) -> None:
        """Raise for the first row that a query finds; its values replace `{got}` in the message."""
        if row := self.db.row(f"{query} ORDER BY 1 LIMIT 1"):
            got = ", ".join(short(self.texts.get(x, x) if type(x) is int else x) for x in row[1:])
            raise ValueError(f"{self.place(row[0])} must hold {says.replace('{got}', got)}.")

    def place(self, row_id: int) -> str:
        """Return the row and file of a row, for messages."""
        return place(self.files[row_id >> ROW_BITS], row_id & ((1 << ROW_BITS) - 1))

    def example(self, role: str) -> str:
        """Return the first value of a column, for messages."""
        row = self.db.row(f"SELECT {self.sql[role]} FROM {self.name} LIMIT 1")
        return "no row" if row is None else short(row[0])

    def select(self) -> str:
        """Return SQL that selects the typed columns."""
        cells = ", ".join(f"{cell} AS {role}" for role, cell in self.sql.items())
        return f"SELECT {cells}, row_id FROM {self.name}"


def family_of(kind: str) -> str:
    """Return the family that a type of DuckDB belongs to."""
    if kind.endswith("]"):
        return "none"
    families = (x for x, kinds in _FAMILIES.items() if kind.startswith(kinds))
    return next(families, "others")


def open_relation(
    db: Database, name: str, table: Any, roles: Mapping[str, str], ids: Mapping[str, IdColumn],
    texts: Mapping[int, str], gaps: Set[str] = frozenset(),
) -> Relation:  # fmt: skip
    """Read columns of a table into a relation; `roles` has the user's name of each.

    The columns of `ids` become keys. A list in the role `item` becomes a row for each of its ids.
    `gaps` are the texts of a missing target, where such a target counts as a miss.
    """
    names = list(dict.fromkeys(roles.values()))
    source = open_table(table, names, _holds_of(roles, ids))
    for id_column in ids.values():
        id_column.reading = id_column.reading._replace(untyped=source.untyped)
    files = list(source.files)
    tables: dict[Any, str] = {}
    zones: dict[str, set[bool]] = {role: set() for role in roles}
    db.run(_MACROS)
    for part in source.parts(names):
        if gaps:
            part.columns[roles["item"]] = fill_gaps(part.columns[roles["item"]], gaps)
        arrays = {
            role: ids[role].read(part, column) if role in ids else plain(part.columns[column])
            for role, column in roles.items()
        }
        for role, array in arrays.items():
            if pa.types.is_timestamp(array.type) and role[0] != "o":  # groups stay as they are
                zones[role].add(array.type.tz is not None)
                arrays[role] = array.cast(pa.timestamp(array.type.unit))
            elif pa.types.is_float16(array.type):  # DuckDB does not know this type
                arrays[role] = array.cast(pa.float32())
        assert isinstance(part.rows, range)
        row_id = np.arange(part.rows.start, part.rows.stop, dtype=np.int64)
        row_id += (files.index(part.file) if part.file in files else 0) << ROW_BITS
        rows = pa.table(arrays | {"row_id": pa.array(row_id)})
        db.insert(tables.setdefault(rows.schema, f"{name}_{len(tables)}"), rows)
    _check_one_type(roles, tables, zones, files[0])
    if not tables:
        tables[None] = f"{name}_0"
        kinds = {x: "BIGINT[]" if y.are_lists else "BIGINT" for x, y in ids.items()}
        columns = ", ".join(f"{role} {kinds.get(role, 'VARCHAR')}" for role in roles)
        db.run(f"CREATE TABLE {name}_0 ({columns}, row_id BIGINT)")
    db.run(f"CREATE VIEW {name} AS {' UNION ALL '.join(f'FROM {x}' for x in tables.values())}")
    if "item" in ids and ids["item"].are_lists:
        db.run(
            f"CREATE VIEW {name}_each AS SELECT * REPLACE (unnest(CASE WHEN len(item) > 0 THEN "
            f"item ELSE [NULL] END) AS item) FROM {name}"
        )
        name = f"{name}_each"
    kinds = {x: str(kind) for x, kind, *_ in db.run(f"DESCRIBE {name}").fetchall()}
    raw = {x for x in roles if not source.untyped or x in (*ids, "preds") or x[0] == "o"}
    cells = {x: x if x in raw else f"nullif({x}, '')" for x in roles}
    zoned = frozenset(role for role, has_zone in zones.items() if True in has_zone)
    return Relation(db, name, files, dict(roles), source.untyped, kinds, cells, zoned, texts)


def _check_one_type(
    roles: Mapping[str, str], tables: Mapping[Any, str], zones: Mapping[str, set[bool]], file: str
) -> None:
    """Raise if parts of a table have other types; `tables` has a table for each Arrow schema."""
    for role, column in roles.items():
        types = {_kind_of(x.field(role).type): str(x.field(role).type) for x in tables}
        types.pop("null", None)
        if len(zones[role]) > 1:
            types = {zone: f"times {zone} a zone" for zone in ("with", "without")}
        if len(types) > 1:
            raise ValueError(
                f"{file} must hold values of one type in {as_column(clip(column))}, got "
                f"{' and '.join(types.values())}; write all of them as text or all as numbers."
            )


def _holds_of(roles: Mapping[str, str], ids: Mapping[str, IdColumn]) -> dict[str, str]:
    """Return what columns hold, as for `open_table`; a column may be a key and a group."""
    groups = {x: "a group" for role, x in roles.items() if role[0] == "o"}
    keys = {x: "an id" for role, x in roles.items() if role[0] == "k"}
    of_ids = {roles[x]: "ids of locations" if y.are_lists else "an id" for x, y in ids.items()}
    answers = {x: "answers" for role, x in roles.items() if role == "preds"}
    return groups | keys | of_ids | answers


def _kind_of(kind: Any) -> str:
    if is_list(kind):
        return f"lists of {_kind_of(kind.value_type)}"
    types = pa.types
    checks = {"null": types.is_null, "text": is_text, "booleans": types.is_boolean}
    checks |= {"numbers": lambda x: types.is_integer(x) or types.is_floating(x)}
    return next((name for name, is_kind in checks.items() if is_kind(kind)), str(kind))


def align(role: str, *sides: Relation) -> None:
    """Give the same type to a key of queries in all tables.

    Text of CSV and JSON takes the type of the other table. If all tables are such text, they are
    read as integers where all cells are integers in their usual form.
    """
    families = [x.family(role) for x in sides]
    if "times" in families:  # the same time may be written in several ways
        _align_times(role, sides)
        families = ["times" if x == "text" else x for x in families]
    kinds = [
        "untyped" if x == "null" or (x == "text" and side.untyped)
        else "text" if x in ("text", "times", "others") else "integers"
        for side, x in zip(sides, families, strict=True)
    ]  # fmt: skip
    typed = {*kinds} - {"untyped"}
    whole = typed == {"integers"} or (not typed and all(x.is_all(role, _WHOLE) for x in sides))
    for side, kind in zip(sides, kinds, strict=True):
        rules = [Rule("{0} IS NULL", "a value", "leave the row out")]
        rules += [_NUL] if side.untyped else _IDS.get(side.family(role), [])
        rules += [_INTEGER] if kind == "untyped" and whole else []
        cell = side.sql[role]
        if len(typed) < 2:
            cell = f"TRY_CAST({cell} AS {'BIGINT' if whole else 'VARCHAR'})"
        side.read(role, cell, *rules)
    if len(typed) > 1:
        examples = [
            f"{kind} such as {side.example(role)} in {as_column(side.columns[role])} of "
            f"{side.files[0]}"
            for side, kind in zip(sides, kinds, strict=True)
        ]
        raise ValueError(
            f"both tables must hold text or both integers, got {' and '.join(examples)}; convert "
            "one of the columns."
        )


def _align_times(role: str, sides: Sequence[Relation]) -> None:
    """Write times in one way, those with a zone in UTC; raise where only one table has a zone."""
    times = [x for x in sides if x.family(role) == "times"]
    zoned = [x for x in times if role in x.zoned]
    if zoned and len(zoned) < len(times):
        bare = next(x for x in times if role not in x.zoned)
        raise ValueError(
            "both tables must hold times with a zone or both without, got a zone only in "
            f"{as_column(clip(zoned[0].columns[role]))} of {zoned[0].files[0]}, and none in "
            f"{as_column(clip(bare.columns[role]))} of {bare.files[0]}; give those their zone, "
            "such as `tz_localize('UTC')`."
        )
    for side in sides:
        cell = side.sql[role]
        if side.family(role) == "text":
            side.read(role, f"instant_of({cell})", _TIME, _OFFSET if zoned else _NO_OFFSET)
        elif side in times:
            day = side.kinds[role] == "DATE"
            side.sql[role] = f"CAST({f'CAST({cell} AS TIMESTAMP)' if day else cell} AS VARCHAR)"


def to_numbers(relation: Relation, role: str, rule: Rule) -> None:
    """Read a column as numbers, NULL for gaps and NaN; in the rule, `{2}` may still be NaN."""
    family, cell, kind = relation.family(role), relation.sql[role], relation.kinds[role]
    if family == "text" and relation.untyped:
        whole = "-?(0|[1-9][0-9]{0,17}|[1-8][0-9]{18})"
        kind = "BIGINT" if relation.is_all(role, whole) else "DOUBLE"
        is_word = f"{cell} IN ('true', 'false') OR contains({cell}, '_')"
        cell = f"CASE WHEN NOT ({is_word}) THEN TRY_CAST({cell} AS {kind}) END"
    elif family not in ("integers", "large", "floats"):
        kind, cell = "DOUBLE", "CAST(NULL AS DOUBLE)"
        rule = rule._replace(remedy="make the column numbers, such as by `astype(float)`")
    rule = rule._replace(wrong=rule.wrong.replace("{2}", cell))
    if kind in ("FLOAT", "DOUBLE"):
        cell = f"CASE WHEN NOT isnan({cell}) THEN {cell} END"
    relation.read(role, cell, rule)
