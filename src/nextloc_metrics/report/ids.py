"""Ids in the cells of a table: numbers, lists of them, or text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arrays import as_tensor
from nextloc_metrics.messages import short

OnError = Literal["raise", "miss"]

# Between the ids of a list that is written as text.
_BETWEEN = re.compile(r"[\s,;|]+")


class Words:
    """The numbers of ids that are text.

    Args:
        vocabulary: the text of every id, in the order of numbers.
    """

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.numbers = {word: number for number, word in enumerate(vocabulary)}

    @classmethod
    def of(cls, vocabulary: Sequence[str] | None, targets: Any) -> Words | None:
        """Make those of a vocabulary or, where targets are text, of these; None for numbers."""
        if vocabulary is not None:
            return cls(vocabulary)
        if _integers(targets) is not None:
            return None
        found = {str(token) for cell in targets for token in _tokens(cell)}
        return cls(sorted(found)) if any(map(_is_text, found)) else None

    def of_targets(self, tokens: Sequence[Any]) -> list[int] | None:
        """Return the numbers of known ids; None where one is not known."""
        words = [str(token) for token in tokens]
        known = all(word in self.numbers for word in words)
        return [self.numbers[word] for word in words] if known else None

    def of_answers(self, tokens: Sequence[Any]) -> list[int]:
        """Return numbers; an id that is not known gets the next one."""
        return [self.numbers.setdefault(str(token), len(self.numbers)) for token in tokens]


def read_targets(
    file: str, column: Any, padding: Sequence[int], words: Words | None, may_be_empty: bool
) -> Tensor:
    """Read what was relevant."""
    whole = None if words is not None else _integers(column)
    if whole is not None and bool((whole >= 0).any(1).all()):
        return whole[:, 0] if whole.shape[1] == 1 else whole
    lists = []
    for row, cell in enumerate(column):
        tokens = _tokens(cell)
        numbers = words.of_targets(tokens) if words is not None else _number(tokens, padding)
        if numbers is None or not (numbers or may_be_empty):
            raise _broken(file, row, cell)
        lists.append(numbers)
    target = as_tensor("target", lists).long()
    is_single = target.shape[1:] == (1,) and bool((target >= 0).all())
    return target[:, 0] if is_single else target


def read_lists(
    file: str, column: Any, padding: Sequence[int], words: Words | None, on_error: OnError
) -> tuple[Tensor, int]:
    """Read lists of ids, padded with -1, and how many were broken."""
    whole = None if words is not None else _integers(column)
    if whole is not None:
        ids, missed = check_ids(file, whole.numpy(), padding, on_error)
        return as_tensor("preds", ids), missed
    lists, missed = [], 0
    for row, cell in enumerate(column):
        tokens = _tokens(cell)
        numbers = words.of_answers(tokens) if words is not None else _number(tokens, padding)
        if numbers is None or _is_missing(cell):
            if on_error == "raise":
                raise _broken(file, row, cell)
            numbers, missed = [], missed + 1
        lists.append(numbers)
    made = as_tensor("preds", lists) if lists else torch.zeros(0, 1, dtype=torch.int64)
    return (made if made.shape[1] else torch.full((len(made), 1), -1)), missed


def check_ids(file: str, ids: Any, padding: Sequence[int], on_error: OnError) -> tuple[Any, int]:
    """Replace padding in ids `[N, K]` by -1, and count broken rows: other negative ids."""
    if padding:
        ids = np.where(np.isin(ids, list(padding)), -1, ids)
    broken = (ids < -1).any(1)
    if broken.any() and on_error == "raise":
        row = int(np.flatnonzero(broken)[0])
        raise _broken(file, row, ids[row].tolist())
    if broken.any():
        ids = np.where(broken[:, None], -1, ids)
    return ids, int(broken.sum())


def _integers(column: Any) -> Tensor | None:
    """Return a column of integers, or of arrays of them, int64 `[N, M]`; None for any other."""
    if isinstance(column, list) or not len(column):
        return None
    if column.dtype.kind not in "iu":
        for cell in column:
            if not (isinstance(cell, np.ndarray) and cell.dtype.kind in "iu"):
                return None
    found = as_tensor("preds", column).long().reshape(len(column), -1)
    return found if found.shape[1] else None


def _tokens(cell: Any) -> list[Any]:
    """Part a cell into ids, as numbers or as text."""
    if isinstance(cell, str):
        text = cell.strip().strip("[](){}")
        return [token.strip("'\" ") for token in _BETWEEN.split(text) if token.strip("'\" ")]
    if isinstance(cell, np.ndarray | list | tuple):
        return list(cell)
    return [] if _is_missing(cell) else [cell]


def _number(tokens: Sequence[Any], padding: Sequence[int]) -> list[int] | None:
    """Return ids, -1 for padding; None where a token is none."""
    numbers = []
    for token in tokens:
        number = _whole(token)
        if number is None or (number < -1 and number not in padding):
            return None
        numbers.append(-1 if number in padding else number)
    return numbers


def _whole(token: Any) -> int | None:
    """Return a whole number, written as a float maybe; None for anything else."""
    if _is_text(token) or not float(token).is_integer():
        return None
    # digits are read as they are: a float holds 53 bits of them
    is_float = isinstance(token, str) and not token.lstrip("+-").isdecimal()
    return int(float(token)) if is_float else int(token)


def _is_text(token: Any) -> bool:
    """Tell whether a token is no number at all."""
    try:
        float(token)
    except (TypeError, ValueError):
        return True
    return False


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell)


def _broken(file: str, row: int, value: Any) -> ValueError:
    return ValueError(
        f"row {row} of {file} must hold ids of locations, got {short(value)}; `padding=` names "
        "numbers that stand for nothing, and `on_error='miss'` counts broken answers as misses."
    )
