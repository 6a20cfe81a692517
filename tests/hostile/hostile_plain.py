"""What a table of predictions means, in plain Python: `csv`, `json` and the oracle of metrics.

Files of text are read from their bytes; of other files the cells are known, as they were written.
Where a cell can be read in two ways (`+1` among whole ids), both are tried, as a *policy*: "strict"
takes it as unreadable, "loose" as what its writer meant, "text" compares all ids byte for byte.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from metric_entries import score_of
from oracles import ranks

Policy = Literal["strict", "loose", "text"]
CUTS = (1, 3)

_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)(\.0)?", re.ASCII)
_MEANT = re.compile(r"\s*\+?0*([0-9]+)(\.0*)?\s*", re.ASCII)
_NEGATIVE = re.compile(r"-[1-9][0-9]*", re.ASCII)
_PRINTED = re.compile(r"\[\s*[-+.0-9einfa]+(\s+[-+.0-9einfa]+)*\s*\]", re.ASCII)
_MASKS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


class RefusedError(Exception):
    """The rows cannot be read: whoever reads them must say so."""


@dataclass(frozen=True)
class Meaning:
    """How the cells of a table are to be read.

    Attributes:
        source: `"csv"`, all cells are text; `"json"`; or `"typed"`, as in Parquet.
        kind: what ids are, `"integers"` or `"text"`.
        candidates: the number of scores of a row; None for lists of ids.
        columns: the column of each role: preds, target, mask, exclude, and of groups.
        miss: whether an unreadable answer counts as a miss.
    """

    source: Literal["csv", "json", "typed"]
    kind: str = "integers"
    candidates: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    separator: str | None = None
    padding: tuple[int, ...] = (-1,)
    miss: bool = False


@dataclass(frozen=True)
class Query:
    """One query: ids best first or scores (None: unreadable), relevant ids, and what is beside."""

    answer: tuple[Any, ...] | None
    target: tuple[Any, ...]
    counted: bool = True
    exclude: frozenset[Any] = frozenset()
    groups: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Found:
    """The values of an evaluation, of all queries and of each group, and two numbers."""

    values: dict[str, float]
    groups: dict[tuple[str, str], tuple[int, dict[str, float]]]
    queries: int
    broken: int


# Bytes -------------------------------------------------------------------------------------------


def read_csv(data: bytes, delimiter: str, needed: Iterable[str]) -> list[dict[str, Any]]:
    """Return the cells of a CSV file by column, or refuse it."""
    try:
        text = data.decode("utf-8-sig")
        lines = list(csv.reader(io.StringIO(text, ""), delimiter=delimiter, strict=True))
    except (UnicodeError, csv.Error) as error:
        raise RefusedError(str(error)) from error
    lines = [line for line in lines if line]
    if not lines:
        return []  # as engines write a part without rows
    header, *rows = lines
    check_columns(header, needed)
    if any(len(row) != len(header) for row in rows):
        raise RefusedError("a row has another number of cells")
    return [dict(zip(header, row, strict=True)) for row in rows]


def flat(data: bytes) -> bytes:
    """Return JSON without lists in lists in lists, and CSV without spaces before a quote."""
    return re.sub(rb"\[{1000,}\]{1000,}", b"0", re.sub(rb'(?<=[,\t]) +"', b'"', data))


def check_columns(have: Sequence[str], needed: Iterable[str]) -> None:
    """Refuse a header without a needed column, or with two of its name."""
    if any(have.count(name) != 1 for name in needed):
        raise RefusedError("a column is missing or occurs twice")


def read_json(data: bytes, needed: Sequence[str], is_lines: bool) -> list[dict[str, Any]]:
    """Return the records of JSON lines, or of a JSON list, by column, or refuse it."""
    data = data.removeprefix(b"\xef\xbb\xbf").strip()
    texts = data.replace(b"\r", b"\n").split(b"\n") if is_lines else [data or b"[]"]
    try:
        found = [json.loads(x, object_pairs_hook=_pairs) for x in texts if x.strip()]
        records = [_record(x) for x in (found if is_lines else found[0])]
    except (ValueError, RecursionError, TypeError) as error:
        raise RefusedError(str(error)) from error
    have = {name for record in records for name in record}
    if records and not have.issuperset(needed):
        raise RefusedError("a column is missing")
    return [{name: record.get(name) for name in needed} for record in records]


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _record(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


# Cells -------------------------------------------------------------------------------------------


def queries_of(rows: Iterable[Mapping[str, Any]], how: Meaning, policy: Policy) -> list[Query]:
    """Return what rows of cells mean, or refuse them."""
    return [_query(row, how, policy) for row in rows]


def _query(row: Mapping[str, Any], how: Meaning, policy: Policy) -> Query:
    if not row.keys() >= {*how.columns.values(), *how.groups}:
        raise RefusedError("no row can be read")
    cells = {role: row[name] for role, name in how.columns.items()}
    if how.candidates is None:
        answer = ids_of(cells["preds"], how, policy, may_be_names=how.miss and policy == "loose")
    else:
        answer = _scores_of(cells["preds"], how, policy)
    if answer is None and not how.miss:
        raise RefusedError(f"an answer is {cells['preds']!r}")
    target = ids_of(cells["target"], how, policy)
    is_list = isinstance(cells["target"], list) or str(cells["target"]).lstrip()[:1] == "["
    if target is None or (not target and not is_list):
        raise RefusedError(f"a target is {cells['target']!r}")
    exclude = () if cells.get("exclude") is None else ids_of(cells["exclude"], how, policy)
    if exclude is None or set(exclude) & set(target):
        raise RefusedError("an excluded id")
    groups = tuple((name, _group(row[name], how)) for name in how.groups)
    counted = _mask(cells["mask"]) if "mask" in cells else True
    # of a row that the mask leaves out, only the cells must be readable
    if counted and how.candidates is not None and any(x >= how.candidates for x in target):
        raise RefusedError("a target is no candidate")
    return Query(answer, target, counted, frozenset(exclude), groups)


def _group(cell: Any, how: Meaning) -> str:
    if cell is None or (cell == "" and how.source != "typed"):
        raise RefusedError("a group is missing")
    return str(cell)


def _mask(cell: Any) -> bool:
    found = _MASKS.get(str(cell).strip().lower())
    if found is None:
        raise RefusedError(f"a mask is {cell!r}")
    return found


def ids_of(
    cell: Any, how: Meaning, policy: Policy, may_be_names: bool = False
) -> tuple[Any, ...] | None:
    """Return the ids of a cell without padding; None if it cannot be read.

    Beside integers, names in an answer are ids that no target is, where such an answer is no error.
    """
    tokens: list[Any] | None
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        tokens = _literal(cell, policy)
    elif isinstance(cell, str) and how.source == "csv":
        tokens = cell.split(how.separator) if how.separator and cell else [cell] if cell else []
    else:
        tokens = cell if isinstance(cell, list) else None if cell is None else [cell]
    if tokens is None:
        return None
    in_text = isinstance(cell, str)
    found = [_id(token, how, policy, in_text) for token in tokens]
    if may_be_names and how.kind == "integers":
        found = [
            token if x is None and isinstance(token, str) and how.source != "typed" else x
            for x, token in zip(found, tokens, strict=True)
        ]
    if None in found:
        return None
    kind = "text" if policy == "text" else how.kind
    pads = {str(x) for x in how.padding} if kind == "text" else {*how.padding}
    found = [x for x in found if x not in pads]
    if kind == "integers" and any(x < 0 for x in found if isinstance(x, int)):
        return None
    return tuple(found)


def _id(token: Any, how: Meaning, policy: Policy, in_text: bool) -> Any:
    """Return one id; None if it is none."""
    if isinstance(token, bool) and how.source == "json" and policy == "text":
        return str(token).lower()
    if isinstance(token, bool) or not isinstance(token, int | float | str):
        return None
    is_loose = how.source != "typed" or in_text or policy == "loose"
    if how.kind == "text" or policy == "text":
        number = _exact(token) if isinstance(token, float) else token
        is_negative = _NEGATIVE.fullmatch(str(number)) and int(number) not in how.padding
        if is_negative and how.source != "typed":  # no name looks like this in CSV and JSON
            return None
        if isinstance(token, str):
            whole = _WHOLE.fullmatch(token) if policy == "text" else None
            return token if whole is None else str(int(whole[1]))  # 7.0 is 7 in text, too
        if isinstance(token, float) and how.source != "typed":  # 7.0 in a list, too
            token = _exact(token)
        return str(token) if isinstance(token, int) and is_loose else None
    if isinstance(token, float):
        return _exact(token) if is_loose else None
    if isinstance(token, str):
        if not is_loose:
            return None
        whole = _WHOLE.fullmatch(token)
        if whole is None and policy == "loose":
            whole = _MEANT.fullmatch(token)
        if whole is None:
            return None
        token = int(whole[1])
    return token


def _exact(number: float) -> int | None:
    """Return the integer that a float is, if no other one is the same float."""
    return int(number) if number.is_integer() and abs(number) < 2**53 else None


def _literal(text: str, policy: Policy) -> list[Any] | None:
    """Return the list that text holds in JSON or as Python writes it; None if it holds none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            meant = re.sub(r"\binf\b", "Infinity", re.sub(r"\bnan\b", "NaN", text))
            if _PRINTED.fullmatch(text):  # as NumPy prints an array
                meant = ", ".join(meant.split())
            found = _literal(meant, policy) if policy == "loose" and meant != text else None
    return found if isinstance(found, list) else None


def _scores_of(cell: Any, how: Meaning, policy: Policy) -> tuple[float, ...] | None:
    """Return the scores of a cell; None if it has not one for each candidate."""
    found = _literal(cell, policy) if isinstance(cell, str) else cell
    if not isinstance(found, list) or len(found) != how.candidates:
        return None
    numbers = [x for x in found if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) < len(found):
        return None
    if policy == "strict" and all(isinstance(x, int) for x in found):
        return None  # a row of whole numbers among scores may be ids by mistake
    return tuple(map(float, numbers))


# Values ------------------------------------------------------------------------------------------


NAMES = {
    "acc": "AccuracyAtK",
    "hit_rate": "AccuracyAtK",
    "precision": "PrecisionAtK",
    "recall": "RecallAtK",
    "mrr": "MRR",
    "map": "MAPAtK",
    "ndcg": "NDCGAtK",
}
#: the oracle's name and the cut-off of each value
MEASURES: dict[str, tuple[str, int | None]] = {"mrr": ("MRR", None)} | {
    f"{name}_at_{k}": (metric, k) for k in CUTS for name, metric in NAMES.items()
}


def blocks_of(query: Query, is_scores: bool) -> ranks.Query:
    """Return the query as the oracle takes it; excluded candidates are not retrieved."""
    relevant = dict.fromkeys(query.target, 1.0)
    answer = query.answer or ()
    if is_scores:
        scores = [-math.inf if i in query.exclude else x for i, x in enumerate(answer)]
        return ranks.query_from_scores(scores, relevant)
    return ranks.query_from_list([x for x in answer if x not in query.exclude], relevant)


def evaluate(queries: Sequence[Query], how: Meaning) -> Found:
    """Return the values of all queries and of each group."""
    groups: dict[tuple[str, str], list[Query]] = {}
    for query in queries:
        for group in query.groups:
            groups.setdefault(group, []).append(query)
    is_scores = how.candidates is not None
    return Found(
        _means(queries, is_scores),
        {group: (_number(x), _means(x, is_scores)) for group, x in groups.items()},
        len(queries),
        sum(query.answer is None for query in queries),
    )


def _number(queries: Sequence[Query]) -> int:
    return sum(bool(x.target) and x.counted for x in queries)


def _means(queries: Sequence[Query], is_scores: bool) -> dict[str, float]:
    known = [blocks_of(x, is_scores) for x in queries if x.target and x.counted]
    return {name: score_of(metric).of_queries(known, k=k) for name, (metric, k) in MEASURES.items()}


def same(found: Found, expected: Found) -> bool:
    """Whether all values found are those expected, of the metrics that the oracle knows."""
    return (
        found.queries == expected.queries
        and found.broken == expected.broken
        and _close(found.values, expected.values)
        and found.groups.keys() == expected.groups.keys()
        and all(
            number == expected.groups[group][0] and _close(values, expected.groups[group][1])
            for group, (number, values) in found.groups.items()
        )
    )


def _close(found: Mapping[str, float], expected: Mapping[str, float]) -> bool:
    known = {name: x for name, x in found.items() if name in expected}
    return bool(known) and all(
        math.isclose(x, expected[name], abs_tol=2e-6)
        or (math.isnan(x) and math.isnan(expected[name]))
        for name, x in known.items()
    )
