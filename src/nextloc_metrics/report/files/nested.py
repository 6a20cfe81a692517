"""Dicts of ranx, files of LibCity's traces, and TREC runs, read as tables."""

from __future__ import annotations

import codecs
import io
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.opening import (
    find_files,
    kind_of_files,
    open_bytes,
    pa,
    truth_file,
)
from nextloc_metrics.report.files.roles import Roles, may_be_items
from nextloc_metrics.report.files.sources import on_disk
from nextloc_metrics.report.files.suffixes import RUNS
from nextloc_metrics.report.files.text_tables import keys_once
from nextloc_metrics.report.files.wrong_tables import check_no_columns, check_truth, not_ids

# the most bytes of a file of dicts
_MOST = 1 << 30


def read_json_objects(table: Any, columns: Set[str], may_be_single: bool = False) -> Any:
    """Return the object that `.json` files hold together; the table itself if they hold none.

    The values of the object are lists or objects, or any values if it `may_be_single` ids. Files
    that each hold `columns` are records, which have the same keys.
    """
    if kind_of_files(table) != ".json":
        return table
    objects: dict[str, Any] = {}
    repeated: dict[str, str] = {}
    are_records, are_nested = bool(columns), True
    for file in find_files(table):
        try:
            with open_bytes(file) as opened:
                text = opened.read(_MOST).removeprefix(codecs.BOM_UTF8)
        except (OSError, EOFError, zlib.error):
            return table  # the reader of the table explains the error
        if text.lstrip()[:1] != b"{":
            return table
        try:
            part = json.loads(text, object_pairs_hook=keys_once)
        except KeyError as error:
            raise ValueError(
                f"{file} must hold each key once, got {short(error.args[0])} again."
            ) from None
        except (ValueError, RecursionError):
            return table  # lines of JSON
        are_records &= part.keys() >= columns
        repeated |= dict.fromkeys(objects.keys() & part.keys(), file)
        are_nested &= all(isinstance(x, dict | list) for x in part.values())
        objects |= part
    if not objects or not (are_nested or may_be_single) or (repeated and are_records):
        return table
    for key, file in repeated.items():
        raise ValueError(f"{file} must hold each key once, got {short(key)} again.")
    return objects


def as_tables(rows: Any, truth: Any, roles: Roles) -> tuple[Any, Any, Roles]:
    """Return predictions as a table, with their truth and the roles of the columns of both.

    Dicts, JSON objects and TREC runs become tables. Streams may go to a temporary file.
    """
    if kind_of_files(rows) in RUNS:
        qrels = truth_file(rows, roles.target if truth is None else truth, "judgements (qrels)")
        if len(files := find_files(rows)) > 1:
            raise ValueError(f"`rows` must be one run, got {short(files)}; read them one by one.")
        objects, judged = read_trec(files[0], qrels)
    else:
        objects = read_json_objects(rows, {str(roles.preds)} if truth is None else {*roles.query})
        names = "" if roles.is_wide else str(roles.preds), roles.target
        check_no_columns("rows", rows, objects, roles.query, *names)
        truth = on_disk(truth)
        if not isinstance(objects, Mapping):
            check_no_columns("truth", truth, truth, roles.query, *names)
            check_truth(truth, roles.query, roles.target)
            return rows if _is_read_once(rows, truth, roles) else on_disk(rows), truth, roles
        judged = read_json_objects(truth, {*roles.query}, may_be_single=True)
        check_no_columns("truth", truth, judged, roles.query, *names)
    if judged is None:
        of_queries = (x for x in objects.values() if isinstance(x, Mapping))
        first = next((value for x in of_queries for value in x.values()), None)
        if isinstance(first, Mapping) and {"loc_true", "loc_pred"} <= first.keys():
            return _table_of_traces(objects), None, roles
        if all(isinstance(x, Mapping) for x in objects.values()):
            raise ValueError("`truth` must judge the items of `{query: {item: score}}`, got None.")
        if objects is rows:
            raise TypeError(
                f"`truth` must be given for a dict `{{query: [items]}}`, got None for {short(rows)}"
                "; a dict of columns is passed as `pandas.DataFrame(rows)`."
            )
        return rows, None, roles
    if isinstance(judged, Mapping):
        roles.refuse("dicts `{query: {item: score}}` or `{query: [items]}`, and runs")
        judged = _table_of_dict("truth", judged)
        grade = "score" if "score" in judged.column_names else None
        roles = replace(roles, target="item", grade=grade)
    else:  # the columns of a table of judgements have names
        roles.refuse("a run that is a dict", "score", "rank")
    table = _table_of_dict("rows", objects)
    query, item, order = (
        "".join(roles.query) or "query",
        roles.item or "item",
        table.column_names[2],
    )
    roles = replace(roles, query=[query], item=item, **{order: order})
    return table.rename_columns([query, item, order]), judged, roles


def _is_read_once(rows: Any, truth: Any, roles: Roles) -> bool:
    """Return whether one pass over a stream is enough: integer targets, and nothing to join.

    Text and lists may hold several targets in a later row; then reading begins again.
    """
    if not isinstance(rows, pa.RecordBatchReader) or truth is not None or roles.item is not None:
        return False
    names = rows.schema.names
    if names.count(roles.target) != 1 or roles.is_wide or may_be_items(names, roles):
        return False
    return bool(pa.types.is_integer(rows.schema.field(roles.target).type))


def _table_of_traces(traces_of_users: Mapping[str, Any]) -> Any:
    """Return LibCity's `{uid: {trace: {loc_true, loc_pred}}}` as a table, a row per query."""
    rows: list[dict[str, Any]] = []
    for user, traces in traces_of_users.items():
        for trace, visits in traces.items():
            true, preds = visits.get("loc_true"), visits.get("loc_pred")
            if not isinstance(true, list):
                true, preds = [true], [preds]
            if not isinstance(preds, list) or len(true) != len(preds):
                raise ValueError(
                    f"trace {short(trace)} of user {short(user)} must have a list in `loc_pred` "
                    f"for each of its {len(true)} targets, got {short(preds)}."
                )
            names = {"uid": str(user), "trace": str(trace)}
            rows += ({**names, "target": x, "preds": y} for x, y in zip(true, preds, strict=True))
    try:
        return pa.Table.from_pylist(rows)
    except (ValueError, TypeError) as error:
        raise ValueError(f"`loc_pred` must be lists of numbers of one type: {error}.") from error


def _table_of_dict(name: str, queries: Mapping[Any, Any]) -> Any:
    """Return a dict as a table of `query`, `item`, and `score` (a score or grade) or `rank`.

    The value of a query is a dict with a number for each item; or a list, an array or a column of
    its items, best first; any other value is its one item. The items of a truth may be a set.
    """
    are_dicts = {isinstance(x, Mapping) for x in queries.values()}
    if len(are_dicts) > 1:
        raise ValueError(f"`{name}` must hold dicts for all queries or lists for all, got both.")
    rows: list[tuple[Any, Any, Any]] = []
    for key, of_query in queries.items():
        if name == "rows" and isinstance(of_query, set | frozenset):
            raise ValueError(
                f"`rows` must hold the items of a query best first, got the set {short(of_query)}, "
                f"which has no order, in query {short(key)}; pass a list."
            )
        is_dict = isinstance(of_query, Mapping)
        items = _plain(of_query if is_dict else _items_of(of_query))
        numbers = _plain(of_query.values()) if is_dict else range(1, len(items) + 1)
        (key,) = _plain([key])
        odd = (x for x in (key, *items) if type(x) not in _PLAIN)
        for wrong in (x for x in odd if isinstance(x, bool | np.bool_) or not_ids(x)):
            why = "" if wrong is key else not_ids(wrong)
            raise ValueError(
                f"`{name}` must have text or whole numbers as keys and items, got {short(wrong)} "
                f"in query {short(key)}{why and f'; {why}'}."
            )
        # as an item of a list, text that begins with a bracket is a name, and not read as a list
        listed = ([x] for x in items) if name == "truth" else items
        rows += zip(repeat(key), listed, numbers, strict=False)
    names = ["query", "item", "score" if True in are_dicts else "rank"]
    try:
        return pa.table([pa.array([row[i] for row in rows]) for i in range(3)], names)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"`{name}` must be `{{query: {{item: score}}}}` or `{{query: [items]}}`, with keys, "
            f"items and scores of one type each: {error}."
        ) from error


def _items_of(items: Any) -> Iterable[Any]:
    """Return the items of a query; a value that is no collection is its one item."""
    (items,) = _plain([items])
    return [items] if isinstance(items, str | bytes) or not isinstance(items, Iterable) else items


# The types of most keys and items, which need no further check.
_PLAIN = {int, str, float}


def _plain(values: Iterable[Any]) -> list[Any]:
    """Return values where tensors and arrays become lists, and those of one number a number."""
    listed = list(values)
    if {*map(type, listed)} <= _PLAIN:
        return listed
    return [x.tolist() if isinstance(x, Tensor) or _is_plain(x) else x for x in listed]


def _is_plain(value: Any) -> bool:
    """Return whether a value is an array of numbers, text or objects, and not one of times."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "biufUO"


def read_trec(run: str, qrels: str) -> tuple[Any, Any]:
    """Return the items of each query of a run, as trec_eval ranks them, and their judgements."""
    scores = _read_lines(run, "query Q0 id rank score name", 4)
    grades = _read_lines(qrels, "query 0 id grade", 3)
    if scores and grades and not scores.keys() & grades.keys():
        raise ValueError(f"{run} must have a query of {qrels}, got {short([*scores])}.")
    both = [item for table in (scores, grades) for items in table.values() for item in items]
    kind = int if all(re.fullmatch("0|[1-9][0-9]{0,17}", x) for x in both) else str
    ranked = {
        query: [kind(x) for _, x in sorted(((y, x) for x, y in items.items()), reverse=True)]
        for query, items in scores.items()
    }
    judged = {query: {kind(x): y for x, y in items.items()} for query, items in grades.items()}
    return ranked, judged


def _read_lines(path: str, columns: str, at: int) -> dict[str, dict[str, float]]:
    """Return the score or grade, in cell `at`, of each query's items; `#` begins a comment."""
    values_of_queries: dict[str, dict[str, float]] = defaultdict(dict)
    row, is_run, number = 0, at == 4, len(columns.split())
    with open_bytes(path) as file, io.TextIOWrapper(file, "utf-8-sig") as lines:
        try:
            for row, line in enumerate(lines, 1):  # noqa: B007 - an error has it
                cells = line.split(maxsplit=5 if is_run else -1)
                if not cells or (line[0] == "#" and not is_run):
                    continue
                if len(cells) != number:
                    raise ValueError(f"got {short(line.strip())}")
                text = cells[at] if cells[at].isascii() and "_" not in cells[at] else "nan"
                value = torch.tensor(float(text), dtype=torch.float64).float().item()
                items, item = values_of_queries[cells[0]], cells[2]
                if value != value or (item in items and (is_run or items[item] != value)):
                    raise ValueError(f"got {short(line.strip())}")
                items[item] = value
        except (OSError, ValueError, EOFError) as error:
            rule = f"be `{columns}` in UTF-8, each id once per query"
            raise ValueError(f"line {row} of {path} must {rule}: {error}.") from error
    return values_of_queries
