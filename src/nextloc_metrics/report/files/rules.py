"""What is refused in tables that are joined: the types of keys, ids, scores and ranks.

Each rule is one query; its message names the file, the row, the value and the remedy.
"""

from __future__ import annotations

from nextloc_metrics.report.files.relation import Relation

# A number of CSV as it is usually written, of at most 18 digits.
_WHOLE = r"(0|[1-9][0-9]{0,17})(\.0)?"
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_FLOATS = ("FLOAT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP")
# Beyond it not every list of gaps fits into memory.
_LARGEST_RANK = 100_000


def align(one: Relation, role: str, other: Relation, other_role: str) -> str:
    """Make two columns comparable; return whether they are integers or text.

    Values of CSV take the type of the other side. Two columns of CSV are integers if all cells are
    integers in their usual form.
    """
    sides = [(one, role), (other, other_role)]
    if any(relation.type_of(x).startswith(_TIMES) for relation, x in sides):
        for relation, x in sides:
            _to_times(relation, x)
    kinds = [_settle(relation, x) for relation, x in sides]
    if kinds == ["untyped", "untyped"]:
        are_whole = all(_all_whole(relation, x) for relation, x in sides)
        kind = "integers" if are_whole else "text"
    elif "untyped" in kinds:
        kind = next(x for x in kinds if x != "untyped")
    elif kinds[0] == kinds[1]:
        kind = kinds[0]
    else:
        examples = [
            f"{found} such as {relation.example(x)} in `{relation.columns[x]}` of "
            f"{relation.files[0]}"
            for (relation, x), found in zip(sides, kinds, strict=True)
        ]
        raise ValueError(
            f"both tables must hold text or both integers, got {' and '.join(examples)}; convert "
            "one of the columns."
        )
    for (relation, x), found in zip(sides, kinds, strict=True):
        if found == "untyped" and kind == "integers":
            to_integers(relation, x)
    return kind


def _to_times(relation: Relation, role: str) -> None:
    """Read text as times, as the same time may be written in several ways."""
    kind = relation.type_of(role)
    if kind == "VARCHAR":
        relation.refuse(
            role,
            "TRY_CAST({0} AS TIMESTAMP) IS NULL",
            "a time, as in the other table",
            "write it as 2026-01-31 12:30:00",
        )
    if kind == "VARCHAR" or kind.startswith(_TIMES):
        relation.sql[role] = f"CAST(TRY_CAST({relation.sql[role]} AS TIMESTAMP) AS VARCHAR)"


def to_integers(relation: Relation, role: str) -> None:
    """Read cells of CSV as integers; one that is not written so is an error."""
    relation.refuse(
        role,
        f"NOT regexp_full_match({{0}}, '-?{_WHOLE}')",
        "an integer, as in the other table",
        "write it without zeros in front, sign, exponent or fraction",
    )
    relation.sql[role] = f"CAST(regexp_replace({relation.sql[role]}, '\\.0$', '') AS BIGINT)"


def settle_ids(relation: Relation, role: str) -> str:
    """Settle a column that has no partner; return whether it is integers or text."""
    kind = _settle(relation, role)
    if kind == "untyped":
        if not _all_whole(relation, role):
            return "text"
        to_integers(relation, role)
        return "integers"
    return kind


def _all_whole(relation: Relation, role: str) -> bool:
    return (
        relation.db.row(
            f"SELECT 1 FROM {relation.name} "
            f"WHERE NOT regexp_full_match({relation.sql[role]}, '{_WHOLE}') LIMIT 1"
        )
        is None
    )


def _settle(relation: Relation, role: str) -> str:
    """Refuse gaps and numbers that are not whole; return integers, text or untyped."""
    kind = relation.type_of(role)
    gap = "{0} IS NULL OR {0} = ''" if relation.untyped else "{0} IS NULL"
    relation.refuse(role, gap, "a value", "leave the row out or fill it")
    if relation.untyped:
        relation.refuse(role, "contains({0}, chr(0))", "a value without NUL", "write it again")
    if kind == "VARCHAR":
        return "untyped" if relation.untyped else "text"
    if kind in _FLOATS or kind.startswith("DECIMAL"):
        relation.refuse(
            role,
            "NOT ({0} = floor({0}) AND abs({0}) < 9007199254740992)",
            "whole numbers below 2^53",
            "write ids and keys as integers or as text",
        )
    elif kind in ("UBIGINT", "HUGEINT", "UHUGEINT"):
        relation.refuse(
            role, "abs({0}) > 9223372036854775807", "integers of 64 bits", "write them as text"
        )
    elif kind == "BOOLEAN" or kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "BLOB")):
        relation.refuse(
            role, "true", "text or integers", f"the column is {kind}; name another or convert it"
        )
    elif kind not in _INTEGERS:
        relation.sql[role] = f"CAST({relation.sql[role]} AS VARCHAR)"  # dates
        return "text"
    relation.sql[role] = f"CAST({relation.sql[role]} AS BIGINT)"
    return "integers"


def to_scores(relation: Relation, role: str) -> None:
    """Read scores; a gap, NaN and minus infinity become NULL, and integers stay integers."""
    cell, kind = relation.sql[role], relation.type_of(role)
    if kind == "VARCHAR" and relation.untyped:
        relation.refuse(
            role,
            "{0} <> '' AND (TRY_CAST({0} AS DOUBLE) IS NULL OR {0} IN ('true', 'false') "
            "OR contains({0}, '_'))",
            "a number",
            "leave it empty if the item is not retrieved",
        )
        whole = relation.db.row(
            f"SELECT 1 FROM {relation.name} WHERE {cell} <> '' "
            f"AND NOT regexp_full_match({cell}, '-?(0|[1-9][0-9]{{0,17}})') LIMIT 1"
        )
        kind = "DOUBLE" if whole is not None else "BIGINT"
        cell = f"TRY_CAST(nullif({cell}, '') AS {kind})"
    elif kind not in (*_INTEGERS, *_FLOATS, "UBIGINT", "HUGEINT") and not kind.startswith("DECIM"):
        relation.refuse(
            role, "{0} IS NOT NULL", "a number", f"the column is {kind}; convert it to numbers"
        )
        kind, cell = "DOUBLE", "CAST(NULL AS DOUBLE)"
    if kind in _FLOATS:
        cell = f"CASE WHEN isnan({cell}) OR {cell} = '-inf'::DOUBLE THEN NULL ELSE {cell} END"
    relation.sql[role] = cell


def to_ranks(relation: Relation, role: str) -> None:
    """Read ranks, whole numbers from 0 or 1."""
    if settle_ids(relation, role) != "integers":
        relation.refuse(role, "true", "whole ranks", "use `score` for scores")
    relation.refuse(
        role,
        f"{{0}} NOT BETWEEN 0 AND {_LARGEST_RANK}",
        f"a rank from 0 to {_LARGEST_RANK:,}",
        "ranks begin at 0 or at 1; use `score` for scores",
    )


def to_grades(relation: Relation, role: str) -> None:
    """Read grades; a gap is an error."""
    to_scores(relation, role)
    relation.refuse(role, "{0} IS NULL", "a grade", "write 0 for what is not relevant")
    relation.sql[role] = f"CAST({relation.sql[role]} AS DOUBLE)"


def refuse_negative(relation: Relation, role: str) -> None:
    """Refuse a negative id, which would pad a list."""
    relation.refuse(role, "{0} < 0", "an id from 0 on", "leave the row out")
