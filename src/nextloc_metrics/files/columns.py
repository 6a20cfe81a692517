"""Columns beside predictions and targets: groups, masks, weights and confidences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arguments.labels import GroupLabels
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.arguments.rows import Grouping
from nextloc_metrics.files.ids import is_text, plain
from nextloc_metrics.files.parts import place

_TRUE = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def names_of_groups(groups: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct names of columns of groups; raise if they are one text."""
    if isinstance(groups, str):
        raise TypeError(
            f"`groups` must be a list of columns, got {short(groups)}; use [{groups!r}]."
        )
    return tuple(dict.fromkeys(groups))


def read_group(file: str, name: str, rows: Sequence[int], column: Any) -> Grouping:
    """Number the groups of rows, text, integers or dates, with labels; raise for a missing one."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "iubU" or column.ndim != 1:
            raise _wrong(file, name, f"{column.dtype} {column.shape}")
        distinct, numbers = np.unique(column, return_inverse=True)
        values = distinct.astype(int).tolist() if column.dtype.kind == "b" else distinct.tolist()
    elif isinstance(column, list):
        for row, value in enumerate(column):
            if value is None:
                raise _missing(file, name, rows[row])
            if not isinstance(value, str | int):
                raise _wrong(file, name, f"{short(value)} in row {rows[row]}")
        seen: dict[str, int] = {}
        texts = [str(int(x)) if isinstance(x, bool) else str(x) for x in column]
        numbers = np.array([seen.setdefault(x, len(seen)) for x in texts], np.int64)
        values = list(seen)
    else:
        values, numbers = _of_arrow(file, name, rows, column)
    # a part has its own labels: the same name may have another number in the next
    return Grouping(torch.from_numpy(numbers.astype(np.int64)), GroupLabels(list(map(str, values))))


def _of_arrow(file: str, name: str, rows: Sequence[int], column: Any) -> tuple[list[Any], Any]:
    """Return distinct groups, and the number of each row's."""
    import pyarrow as pa

    column = plain(column)
    kind, types = column.type, pa.types
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise _missing(file, name, rows[row])
    if types.is_temporal(kind):
        column = column.cast(pa.string())
    elif types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not types.is_integer(kind) and not is_text(kind):
        raise _wrong(file, name, str(kind))
    found = column.dictionary_encode()
    return found.dictionary.to_pylist(), found.indices.to_numpy(zero_copy_only=False)


def _missing(file: str, name: str, row: int) -> ValueError:
    return ValueError(
        f"{place(file, row)} must hold a group in `{name}`, got none; fill the value."
    )


def _wrong(file: str, name: str, what: str) -> TypeError:
    return TypeError(
        f"`{name}` in {file} must hold groups, integers or text, got {what}; convert them to text."
    )


def read_mask(file: str, name: str, rows: Sequence[int], column: Any) -> Tensor:
    """Read true and false, or 1 and 0, bool `[N]`; raise for a value that is neither."""
    if isinstance(column, np.ndarray) and column.dtype == bool:
        return torch.tensor(column)
    mask = []
    for row, cell in enumerate(column if isinstance(column, list) else column.tolist()):
        value = _TRUE.get(str(cell).strip().lower())
        if value is None:
            raise ValueError(
                f"{place(file, rows[row])} must hold true, false, 1 or 0 in `{name}`, got "
                f"{short(cell)}."
            )
        mask.append(value)
    return torch.tensor(mask, dtype=torch.bool)


def read_weights(file: str, name: str, rows: Sequence[int], column: Any) -> Tensor:
    """Read numbers, float64 `[N]`; raise for a value that is no finite number."""
    cells = column if isinstance(column, list) else column.tolist()
    weights = [_number(cell) for cell in cells]
    for row, weight in enumerate(weights):
        if not math.isfinite(weight):
            raise ValueError(
                f"{place(file, rows[row])} must hold a number in `{name}` that is finite, "
                f"got {short(cells[row])}."
            )
    return torch.tensor(weights, dtype=torch.float64)


def read_confidence(
    file: str, name: str, rows: Sequence[int], column: Any, mask: Tensor | None
) -> Tensor:
    """Read numbers from 0 to 1, float64 `[N]`; raise for another value that is not masked."""
    cells = column if isinstance(column, list) else column.tolist()
    found = torch.tensor([_number(cell) for cell in cells], dtype=torch.float64)
    wrong = ~((found >= 0) & (found <= 1))
    if mask is not None:
        wrong &= mask
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"{place(file, rows[row])} must hold a confidence from 0 to 1 in `{name}`, got "
            f"{short(cells[row])}."
        )
    return found


def _number(cell: Any) -> float:
    """Return a cell as a number, NaN if it is none; Python would take `1_0` and other digits."""
    if isinstance(cell, str) and (not cell.isascii() or "_" in cell):
        return float("nan")
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")
