"""What a column of lists is like: ids or scores, how long, and how to cut and pad it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import as_tensor, pad_rows
from nextloc_metrics.files.ids import CellReading, Cells, is_list, is_text, plain, split
from nextloc_metrics.files.opening import need_arrow

#: How many lists are scores, by their number; None counts lists of ids.
Widths: TypeAlias = "Counter[int | None]"

# How many times as many values padding may make.
_PADDED = 4


def pad(cells: Cells) -> Tensor:
    """Return lists of ids, padded with -1 to the longest."""
    width = max(1, int(cells.lengths.max(initial=0)))
    if (cells.lengths == width).all():
        return as_tensor("preds", cells.values.reshape(-1, width))
    return torch.from_numpy(pad_rows(cells.values.astype(np.int64), cells.lengths, -1, width))


def cut(columns: Sequence[Any], values: int) -> list[slice]:
    """Cut rows into pieces of about so many values; padding makes at most four times as many."""
    lengths = np.stack([_lengths(column) for column in columns]).max(0)
    step = max(1, values // max(1, int(lengths.mean()) if len(lengths) else 1))
    pieces = [slice(x, min(x + step, len(lengths))) for x in range(0, len(lengths), step)]
    found = []
    while pieces:
        piece = pieces.pop()
        number = piece.stop - piece.start
        if number > 1 and number * lengths[piece].max() > _PADDED * values:
            middle = piece.start + number // 2
            pieces += [slice(piece.start, middle), slice(middle, piece.stop)]
        else:
            found.append(piece)
    return found[::-1]


def _lengths(column: Any) -> Any:
    """Return how many values each cell has; of text, about."""
    if isinstance(column, np.ndarray):
        return np.full(len(column), column.shape[1] if column.ndim == 2 else 1)
    if isinstance(column, list):
        cells = [len(x) if isinstance(x, list) else len(str(x)) // 4 for x in column]
        return np.array(cells, np.int64)
    import pyarrow.compute as pc

    column = plain(column)
    if not is_list(column.type) and not is_text(column.type):
        return np.ones(len(column), np.int64)
    count = pc.list_value_length if is_list(column.type) else pc.binary_length
    found = count(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found if is_list(column.type) else found // 4


def is_text_column(column: Any) -> bool:
    """Return whether cells are text."""
    if isinstance(column, list):
        return any(isinstance(cell, str) for cell in column[:1000])
    return hasattr(column, "type") and is_text(column.type)


def is_lists(column: Any) -> bool:
    """Return whether cells are lists."""
    if isinstance(column, np.ndarray):
        return column.ndim == 2
    if isinstance(column, list):
        return any(isinstance(cell, list) for cell in column[:1000])
    return is_list(column.type)


def kind_of(column: Any) -> str:
    """Return whether targets of a typed column are text or integers."""
    if isinstance(column, np.ndarray):
        return "integers"
    if isinstance(column, list):
        tokens = (x for cell in column for x in (cell if isinstance(cell, list) else [cell]))
        return "text" if isinstance(next(tokens, None), str) else "integers"
    kind = column.type.value_type if hasattr(column.type, "value_type") else column.type
    kind = kind.value_type if hasattr(kind, "value_type") else kind
    return "text" if is_text(kind) else "integers"


def count_widths(column: Any, separator: str | None) -> Widths:
    """Count the lists of a column by their number of scores."""
    if isinstance(column, np.ndarray):
        return Counter({int(column.shape[1]) if column.dtype.kind == "f" else None: len(column)})
    if not isinstance(column, list):
        if is_list(column.type):
            if not need_arrow().types.is_floating(column.type.value_type):
                return Counter({None: len(column)})
            return Counter(_lengths(column.drop_null()).tolist())
        if not is_text(column.type):
            return Counter()
        column = column.to_pylist()
    how, found = CellReading("scores", separator=separator), Counter[int | None]()
    for cell in column:
        is_listed = isinstance(cell, list) or (isinstance(cell, str) and cell.lstrip()[:1] == "[")
        if tokens := split(cell, how) if is_listed else None:
            found[len(tokens) if any(isinstance(x, float) for x in tokens) else None] += 1
    return found


def width_of_most(widths: Widths, counts_all: bool) -> int | None:
    """Return the number of scores in most lists; None if most are lists of ids.

    Of as many lists of either, those of ids decide, or the first one unless all were counted.
    """
    scores = {width: number for width, number in widths.items() if width is not None}
    balance = widths[None] - sum(scores.values())
    if not scores or balance > 0 or (not balance and (counts_all or None in [*widths][:1])):
        return None
    return max(scores, key=lambda width: (scores[width] * (width > 0), width))
