"""Predictions of several models for the same queries, in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nextloc_metrics.arguments.messages import short
from nextloc_metrics.files.predictions import Predictions


def same_queries(found: Mapping[str, Predictions], key: str | None) -> dict[str, Predictions]:
    """Return predictions in the order of the first file, or raise if their queries differ.

    Args:
        found: the content of each file.
        key: the group that identifies a query; rows are then in any order. None compares row by
            row.

    Raises:
        ValueError: there is no query, keys are missing, extra or repeated, or targets or groups
            differ.
    """
    of, first = next(iter(found.items()))
    if not len(first.target):
        raise ValueError(f"{of} must hold at least one query to compare or audit, got none.")
    keys = None if key is None else _keys(of, key, first)
    same = {}
    for path, one in found.items():
        if key is not None and keys is not None:
            one = _in_order(one, _join(key, path, _keys(path, key, one), of, keys))
        _check_same("targets", path, _ids(one), of, _ids(first), keys)
        for name in (x for x in one.groups if x != key):
            own, others = (_text(*x) for x in ((path, name, one), (of, name, first)))
            _check_same(f"column {name!r}", path, own, of, others, keys)
        if not one.target.equal(first.target):
            raise ValueError(
                f"the ids of {path} must be numbered as those of {of}: they are far larger than "
                "their number, and only one of the files has lists; pass `--vocabulary`."
            )
        same[path] = one
    return same


def _ids(one: Predictions) -> Any:
    """Return the relevant ids as they are in the file; None for padding."""
    numbers = one.target.numpy()
    if one.vocabulary is None:
        return numbers
    return np.array([*one.vocabulary, None], dtype=object)[numbers]


def _text(path: str, name: str, one: Predictions) -> Any:
    """Return the cells of a column as an array of `str`, each as long as its text.

    NumPy's own text has the width of the longest, and no NUL at its end.
    """
    cells = np.asarray(one.groups[name]).tolist()
    for row, cell in enumerate(cells):
        if isinstance(cell, Mapping | list | tuple | np.ndarray):
            raise ValueError(
                f"the column {name!r} of {path} must hold text or numbers, got {short(cell)} in "
                f"row {row}."
            )
    return np.array([*map(str, cells)], object)


def _keys(path: str, key: str, one: Predictions) -> Any:
    """Return the key of each row as text."""
    keys = _text(path, key, one)
    values = np.asarray(one.groups[key])
    missing = np.flatnonzero((values != values) | (values == np.array(None)))
    if len(missing):
        raise ValueError(
            f"the column {key!r} of {path} must hold a key in each row, got none in "
            f"{len(missing):,} rows, the first is row {missing[0]}."
        )
    return keys


def _join(key: str, path: str, keys: Any, of: str, first: Any) -> Any:
    """Return the row of each key of the first file, or raise if the keys are not the same."""
    rows: dict[str, int] = {}
    for row, x in enumerate(keys):
        rows.setdefault(x, row)
    known = set(first)
    wrong = {
        "missing": [x for x in first if x not in rows],
        "extra": [x for x in keys if x not in known],
        "repeated": [x for row, x in enumerate(keys) if rows[x] != row],
    }
    texts = [
        f"{len(x):,} {what} (the first is {short(x[0])})" for what, x in wrong.items() if len(x)
    ]
    if texts:
        raise ValueError(
            f"the column {key!r} of {path} must hold each key of {of} once, got "
            f"{len(keys):,} keys, {', '.join(texts)}."
        )
    return np.array([rows[x] for x in first], np.int64)


def _in_order(one: Predictions, rows: Any) -> Predictions:
    """Return predictions with their rows in another order."""
    if (rows == np.arange(len(rows))).all():
        return one  # and scores may stay on the disk
    groups = {name: np.asarray(values)[rows] for name, values in one.groups.items()}
    return replace(one, preds=one.preds[rows], target=one.target[rows], groups=groups)


def _check_same(what: str, path: str, a: Any, of: str, b: Any, keys: Any) -> None:
    """Raise if two arrays differ in any row."""
    if a.shape != b.shape:
        raise ValueError(
            f"the {what} of {path} must equal the {what} of {of}, got the shapes {a.shape} and "
            f"{b.shape}."
        )
    rows = (a != b).any(tuple(range(1, a.ndim))).nonzero()[0]
    if len(rows):
        row = rows[0]
        where = f"row {row}" if keys is None else f"key {short(keys[row])}"
        remedy = "; join rows in another order by `--id`" if keys is None else ""
        raise ValueError(
            f"the {what} of {path} must equal the {what} of {of}, row by row: {len(rows):,} of "
            f"{len(a):,} rows differ, the first is {where} with {short(_plain(a[row]))} instead "
            f"of {short(_plain(b[row]))}{remedy}."
        )


def _plain(value: Any) -> Any:
    """Return a cell as a Python value."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
