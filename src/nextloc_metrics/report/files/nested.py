"""What is no table yet: dicts of ranx, LibCity's file of traces, and runs of TREC."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.report.files.opening import (
    RUNS,
    find_files,
    kind_of_files,
    open_bytes,
    pa,
    refuse_named,
    truth_file,
)
from nextloc_metrics.report.files.sources import on_disk
from nextloc_metrics.report.files.trec import read_trec

# the most bytes of a file of dicts
_MOST = 1 << 30


class _TwiceError(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError(short(Counter(key for key, _ in pairs).most_common(1)[0][0]))
    return found


def read_json_objects(table: Any, may_be_single: bool = False) -> Any:
    """Return the object that `.json` files are, each a part of it; else the table itself.

    An object is one of lists or of objects, or if it may be of single ids, of any values.
    """
    if kind_of_files(table) != ".json":
        return table
    found: dict[str, Any] = {}
    for file in find_files(table):
        with open_bytes(file) as opened:
            text = opened.read(_MOST).removeprefix(codecs.BOM_UTF8)
        if text.lstrip()[:1] != b"{":
            return table
        try:
            part = json.loads(text, object_pairs_hook=_once)
            found = _once([*found.items(), *part.items()])
        except _TwiceError as error:
            raise ValueError(f"{file} must hold each key once, got {error} again.") from None
        except (ValueError, RecursionError):
            return table  # lines of JSON
    are_nested = all(isinstance(x, dict | list) for x in found.values())
    return found if found and (are_nested or may_be_single) else table


def as_tables(rows: Any, truth: Any, target: str, named: Any) -> tuple[Any, Any, str, Any]:
    """Return what is no table yet as one, with its truth and the names of their columns.

    These are dicts, JSON objects of them, and TREC runs.
    """
    if kind_of_files(rows) in RUNS:
        qrels = truth_file(rows, target if truth is None else truth, "judgements (qrels)")
        if len(files := find_files(rows)) > 1:
            raise ValueError(f"`rows` must be one run, got {short(files)}; read them one by one.")
        return *read_trec(files[0], qrels), "target", ("query", "item", None, "rank", "grade")
    rows, truth = on_disk(rows), on_disk(truth)
    found = read_json_objects(rows)
    judged = read_json_objects(truth, isinstance(found, Mapping))
    if truth is None and is_traces(found):
        return table_of_traces(found), None, target, named
    if not isinstance(found, Mapping) or truth is None:
        if truth is None and _are_dicts(found):
            raise ValueError("`truth` must judge the items of `{query: {item: score}}`, got None.")
        return rows, truth, target, named
    if not isinstance(judged, Mapping):  # a run beside a table, whose columns are named
        query, item, score, rank, grade = named
        refuse_named((None, None, score, rank, None), "a run that is a dict")
        names = [query if isinstance(query, str) else "".join(query) or "query", item or "item"]
        rows, order = _run_of(found)
        rows = rows.rename_columns([*names, rows.column_names[2]])
        return rows, truth, target, (*names, *order, grade)
    refuse_named(named, "dicts `{query: {item: score}}` or `{query: [items]}`")
    (rows, order), truth = _run_of(found), table_of_dict("truth", judged)
    grade = "number" if "number" in truth.column_names else None
    return rows, truth, "item", ("query", "item", *order, grade)


def _run_of(found: Mapping[Any, Any]) -> tuple[Any, list[str | None]]:
    """Return the table of a run, and its columns of scores and of ranks, of which it has one."""
    table = table_of_dict("rows", found)
    return table, [x if x in table.column_names else None for x in ("number", "rank")]


def _are_dicts(found: Any) -> bool:
    return isinstance(found, Mapping) and all(isinstance(x, Mapping) for x in found.values())


def is_traces(given: Any) -> bool:
    """Return whether an object is LibCity's: users, their traces, each with `loc_pred`."""
    if not isinstance(given, Mapping):
        return False
    traces = next((x for x in given.values() if isinstance(x, Mapping) and x), {})
    first = next(iter(traces.values()), None)
    return isinstance(first, Mapping) and {"loc_true", "loc_pred"} <= first.keys()


def table_of_traces(given: Mapping[str, Any]) -> Any:
    """Return LibCity's `{uid: {trace: {loc_true, loc_pred}}}` as a table, a row per query."""
    rows: list[dict[str, Any]] = []
    for user, traces in given.items():
        for trace, found in traces.items():
            true, preds = found.get("loc_true"), found.get("loc_pred")
            if not isinstance(true, list):
                true, preds = [true], [preds]
            if not isinstance(preds, list) or len(true) != len(preds):
                raise ValueError(
                    f"trace {short(trace)} of user {short(user)} must have a list in `loc_pred` "
                    f"for each of its {len(true)} targets, got {short(preds)}."
                )
            of = {"uid": str(user), "trace": str(trace)}
            rows += ({**of, "target": x, "preds": y} for x, y in zip(true, preds, strict=True))
    try:
        return pa.Table.from_pylist(rows)
    except (ValueError, TypeError) as error:
        raise ValueError(f"`loc_pred` must be lists of numbers of one type: {error}.") from error


def table_of_dict(name: str, given: Mapping[Any, Any]) -> Any:
    """Return a dict as a table with `query`, `item` and `value`: `score`, `rank` or `grade`.

    A dict of a query holds a number for each item, a list its items, best first, and any other
    value is its one item.
    """
    keys: list[Any] = []
    items: list[Any] = []
    numbers: list[Any] = []
    kinds = {dict if isinstance(x, Mapping) else list for x in given.values()}
    if len(kinds) > 1:
        raise ValueError(f"`{name}` must hold dicts for all queries or lists for all, got both.")
    for key, found in given.items():
        if isinstance(found, Mapping):
            listed, of_items = list(found), list(found.values())
        else:
            listed = list(found) if isinstance(found, list | tuple) else [found]
            of_items = list(range(1, len(listed) + 1))
        keys += [key] * len(listed)
        items += listed
        numbers += of_items
    value = "number" if dict in kinds else "rank"
    try:
        columns = {"query": pa.array(keys), "item": pa.array(items), value: pa.array(numbers)}
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"`{name}` must be `{{query: {{item: score}}}}` or `{{query: [items]}}`, with keys, "
            f"items and scores of one type each: {error}."
        ) from error
    return pa.table(columns)
