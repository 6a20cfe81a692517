"""Errors for arguments that look like a table, or like lists of ids, and are not."""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from os import PathLike
from typing import Any

import numpy as np
from torch import Tensor

from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.report.files.opening import find_files, kind_of_files, open_bytes

# The most bytes of one object.
_MOST = 1 << 26


def check_no_records(name: str, value: Any) -> None:
    """Raise for a list of records in memory."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        raise TypeError(
            f"`{name}` must be a table, got a list of records, {short(value)}; pass "
            f"`pandas.DataFrame({name})`."
        )


def check_truth(truth: Any, query: Sequence[str], target: str) -> None:
    """Raise if the predictions are a table and the truth is not."""
    check_no_records("truth", truth)
    are_paths = isinstance(truth, list | tuple) and all(
        isinstance(x, str | PathLike) for x in truth
    )
    if are_paths or not isinstance(truth, Mapping | Set | list | tuple | np.ndarray | Tensor):
        return
    pairs = "truth.items()" if isinstance(truth, Mapping) else "truth"
    names = [*(query or ["query"]), target]
    raise TypeError(
        f"`truth` must be a table where `rows` is one, got {describe(truth)}; pass "
        f"`pandas.DataFrame({pairs}, columns={names})`."
    )


def check_no_columns(
    name: str, table: Any, content: Any, query: Sequence[str], preds: str, target: str
) -> None:
    """Raise for a dict of columns, and for a file of JSON that holds columns, or rows by index.

    `content` is what a file holds, if that is known. Each column of `query` has one value per row.
    Without such columns, a row has a list in `preds`.
    """
    if kind_of_files(table) == ".json":
        file = find_files(table)[0]
        check_records(file, _object_of(file), query, preds, target)
        return
    what = _form_of(content, query, preds, target) if isinstance(content, Mapping) else ""
    if what == "columns":
        has_arrays = any(getattr(content.get(x), "ndim", 0) > 1 for x in (preds, target))
        arrays = f"its arrays, `{name}[{preds!r}]` and `{name}[{target!r}]`"
        raise TypeError(
            f"`{name}` must be a table, got a dict of columns, {short(content)}; pass "
            f"{arrays if has_arrays else f'`pandas.DataFrame({name})`'}."
        )


def check_records(file: str, content: Any, query: Sequence[str], preds: str, target: str) -> None:
    """Raise if the content of a file of JSON is an object of columns, or of rows by index."""
    what = _form_of(content, query, preds, target) if isinstance(content, Mapping) else ""
    if what:
        raise ValueError(
            f"{file} must hold records, one for each row, and is JSON of {what}, got "
            f'{short(content)}; write `DataFrame.to_json(path, orient="records")`, or a list of '
            "records."
        )


def _form_of(content: Mapping[str, Any], query: Sequence[str], preds: str, target: str) -> str:
    """Return which form other than records `DataFrame.to_json` wrote; "" if it wrote none."""
    if content.keys() in ({"columns", "index", "data"}, {"schema", "data"}):
        return "columns beside data"
    named, values = {*(query or (preds, target))}, [*content.values()]
    if values and all(isinstance(x, Mapping) and named <= x.keys() for x in values):
        return "rows by index"
    if not named <= content.keys():
        return ""
    columns = [content[x] for x in named]
    if all(isinstance(x, Mapping) for x in columns):
        return "columns" if all(x.keys() == columns[0].keys() for x in columns) else ""
    are_lists = (isinstance(x, list | tuple) or getattr(x, "ndim", 0) > 0 for x in columns)
    if not all(are_lists) or len({len(x) for x in columns}) > 1:
        return ""
    first = next(iter(content.get(preds, ())), None)
    is_list = isinstance(first, list | tuple) or getattr(first, "ndim", 0) > 0
    is_written = isinstance(first, str) and first.lstrip()[:1] == "["
    return "columns" if query or is_list or is_written else ""


def _object_of(file: str) -> Any:
    """Return the object that a file of JSON holds; None if it holds a list, or is broken."""
    errors = OSError, EOFError, ValueError, RecursionError, zlib.error
    with suppress(*errors), open_bytes(file) as opened:
        text = opened.read(_MOST).removeprefix(codecs.BOM_UTF8)
        return json.loads(text) if text.lstrip()[:1] == b"{" else None
    return None


def not_ids(item: Any) -> str:
    """Return a message if the item of a list shows that its items are no ids; "" if it does not."""
    if isinstance(item, Mapping | np.void):
        what = "objects"
    elif isinstance(item, list | tuple) or getattr(item, "ndim", 0) > 0:
        is_pair = len(item) == 2 and (isinstance(item, tuple) or isinstance(item[1], float))
        what = "pairs" if is_pair else "lists"
    else:
        return ""
    return (
        f"the items are {what}, not ids; write one list for each query, the ids alone and best "
        "first, such as ['Cafe', 'Zoo']"
    )


def first_items(frame: Any) -> list[Any]:
    """Return the first item of the first list in each column of pandas that holds lists."""
    columns = ([*frame.iloc[:, i]] for i in range(frame.shape[1]))
    kinds = (list, tuple, np.ndarray)
    lists = ([x for x in column if isinstance(x, kinds) and len(x)] for column in columns)
    return [lists_of_column[0][0] for lists_of_column in lists if lists_of_column]
