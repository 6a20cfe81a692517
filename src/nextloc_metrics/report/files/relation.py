"""Tables as relations of DuckDB. Names of a user's columns do not get there: it has roles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from nextloc_metrics.core.queries.messages import clip, short
from nextloc_metrics.report.files.cells import is_list, is_text, plain
from nextloc_metrics.report.files.database import Database
from nextloc_metrics.report.files.opening import FilePart, pa, place
from nextloc_metrics.report.files.sources import columns_of
from nextloc_metrics.report.files.tables import Names, source_of


@dataclass(eq=False)
class Relation:
    """A table of a `Database`; each column has a role, and where a row stood is `file`, `row`.

    Attributes:
        name: its name in SQL.
        files: the files, by number.
        columns: the user's name of each role.
        untyped: whether all values are text, as in CSV.
        sql: the expression of each role.
    """

    db: Database
    name: str
    files: list[str]
    columns: Mapping[str, str]
    untyped: bool
    sql: dict[str, str] = field(default_factory=dict)

    def type_of(self, role: str) -> str:
        """Return the type of the expression of a role, as DuckDB names it."""
        found = self.db.row(f"DESCRIBE SELECT {self.sql[role]} AS x FROM {self.name}")
        return str(found[1])

    def place(self, file: int, row: int) -> str:
        """Return where a row stood, for messages."""
        return place(self.files[file], row)

    def refuse(self, role: str, wrong: str, rule: str, remedy: str) -> None:
        """Raise for the first row that is wrong; `{0}` in the condition is the expression."""
        cell = self.sql[role]
        wrong = wrong.replace("{0}", cell)
        found = self.db.row(
            f"SELECT file, row, {cell} FROM {self.name} WHERE {wrong} ORDER BY file, row LIMIT 1"
        )
        if found is not None:
            file, row, value = found
            raise ValueError(
                f"{self.place(file, row)} must hold {rule} in `{clip(self.columns[role])}`, got "
                f"{short(value)}; {remedy}."
            )

    def example(self, role: str) -> str:
        """Return the first value of a role, for messages."""
        found = self.db.row(f"SELECT {self.sql[role]} FROM {self.name} LIMIT 1")
        return "no row" if found is None else short(found[0])


def open_relation(db: Database, name: str, table: Any, roles: Mapping[str, str]) -> Relation:
    """Read columns of a table into a relation; `roles` has the user's name of each.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: it is no table.
        ValueError: a column is missing or of several types, or a row is not readable.
    """
    names = list(dict.fromkeys(roles.values()))
    source = source_of(table, Names(names[0], names[-1], others=tuple(names)))
    files = list(source.files)
    numbers = {file: number for number, file in enumerate(files)}

    def batch_of(part: FilePart) -> Any:
        number = len(part.rows)
        arrays = {x: plain(part.columns[column]) for x, column in roles.items()}
        place_of = {
            "file": pa.array([numbers.get(part.file, 0)] * number, pa.int32()),
            "row": pa.array(part.rows, pa.int64()),
        }
        return pa.RecordBatch.from_pydict(arrays | place_of)

    batches = map(batch_of, source.parts(names))
    tables: list[str] = []
    kinds: dict[str, dict[str, str]] = {role: {} for role in roles}
    for schema, group in groupby(batches, key=lambda batch: batch.schema):
        tables.append(f"{name}_{len(tables)}")
        db.insert(tables[-1], schema, group)
        for role, of_type in kinds.items():
            of_type.setdefault(_kind_of(schema.field(role).type), str(schema.field(role).type))
    for role, of_type in kinds.items():
        of_type.pop("null", None)
        if len(of_type) > 1:
            raise ValueError(
                f"{files[0]} must hold values of one type in `{clip(roles[role])}`, got "
                f"{' and '.join(of_type.values())}; write all of them as text or all as numbers."
            )
    cells = ", ".join([*roles, "file", "row"])
    if not tables:
        empty = [(x, pa.string()) for x in roles] + [("file", pa.int32()), ("row", pa.int64())]
        tables.append(f"{name}_0")
        db.insert(tables[0], pa.schema(empty), iter(()))
    union = " UNION ALL ".join(f"SELECT {cells} FROM {x}" for x in tables)
    db.run(f"CREATE VIEW {name} AS {union}")
    return Relation(db, name, files, dict(roles), source.untyped, {x: x for x in roles})


def _kind_of(kind: Any) -> str:
    types = pa.types
    if types.is_null(kind):
        return "null"
    if is_list(kind):
        return f"lists of {_kind_of(kind.value_type)}"
    if is_text(kind):
        return "text"
    if types.is_boolean(kind):
        return "booleans"
    return "numbers" if types.is_integer(kind) or types.is_floating(kind) else str(kind)


def matching(table: Any, preds: str | Sequence[str]) -> list[str]:
    """Return the columns that a pattern such as `pred_*` or a list names, in rising order."""
    if not isinstance(preds, str):
        return list(preds)
    have = columns_of(table)
    found = [name for name in have if fnmatchcase(name, preds)]
    if not found:
        raise ValueError(f"`preds` must match a column, got {short(preds)} for {short(have)}.")
    return sorted(
        found,
        key=lambda name: [(int(x) if x.isdigit() else 0, x) for x in re.split(r"(\d+)", name)],
    )
