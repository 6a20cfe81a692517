"""Ids in the cells of a table: numbers, text, or lists of either."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import as_tensor
from nextloc_metrics.arguments.messages import short

OnError = Literal["raise", "miss"]

# Separators of the ids in a list that is text.
_BETWEEN = re.compile(r"[,;|]+")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Words:
    """The numbers of ids that are text.

    Args:
        vocabulary: the text of each id, in the order of numbers.
        padding: numbers that pad lists, in addition to -1.
    """

    def __init__(self, vocabulary: Sequence[str], padding: Sequence[int]) -> None:
        self.numbers = {word: number for number, word in enumerate(vocabulary)}
        if len(self.numbers) < len(vocabulary):
            twice = next(word for i, word in enumerate(vocabulary) if self.numbers[word] != i)
            raise ValueError(f"`vocabulary` must hold distinct text, got {short(twice)} twice.")
        self._padding = {"-1", *map(str, padding)} - self.numbers.keys()

    @classmethod
    def of(
        cls, vocabulary: Sequence[str] | None, targets: Any, is_one: bool, padding: Sequence[int]
    ) -> Words | None:
        """Make numbers from a vocabulary, or else from targets that are text; None for numbers."""
        if vocabulary is not None:
            return cls(vocabulary, padding)
        if _integers(targets) is not None:
            return None
        cells = (split(cell, is_one) for cell in targets)
        found = {str(token) for tokens in cells for token in tokens if not _is_missing(token)}
        found -= {"-1", *map(str, padding)}
        return cls(sorted(found), padding) if any(map(_is_text, found)) else None

    def of_targets(self, tokens: Sequence[Any]) -> list[int] | None:
        """Return the numbers of ids; None if an id is not in the vocabulary."""
        words = [str(token) for token in tokens if str(token) not in self._padding]
        known = all(word in self.numbers for word in words)
        return [self.numbers[word] for word in words] if known else None

    def of_answers(self, tokens: Sequence[Any]) -> list[int] | None:
        """Return the numbers of ids; an unknown id gets the next number. None if one is missing."""
        if any(map(_is_missing, tokens)):
            return None
        return [
            -1 if str(token) in self._padding
            else self.numbers.setdefault(str(token), len(self.numbers))
            for token in tokens
        ]  # fmt: skip


def read_targets(
    file: str,
    column: Any,
    padding: Sequence[int],
    words: Words | None,
    is_one: bool,
    may_be_empty: bool,
) -> Tensor:
    """Read the relevant ids, int64 `[N]` or `[N, M]`."""
    integers = None if words is not None else _integers(column)
    if integers is not None and bool((integers >= 0).any(1).all()):
        return integers[:, 0] if integers.shape[1] == 1 else integers
    lists = []
    for row, cell in enumerate(column):
        tokens = split(cell, is_one)
        numbers = words.of_targets(tokens) if words is not None else _number(tokens, padding)
        if numbers is None or not (numbers or may_be_empty):
            raise _broken(file, row, cell)
        lists.append(numbers)
    target = as_tensor("target", lists).long()
    if target.shape[1:] != (1,):
        return target
    missing = (target[:, 0] < 0).nonzero()
    if not len(missing):
        return target[:, 0]
    if may_be_empty or any(map(_is_list, column)):
        return target
    # one target per query: padding would turn them into lists, which have other metrics
    row = int(missing[0])
    raise ValueError(
        f"row {row} of {file} must hold a target, got {short(column[row])}; leave the row out, "
        "or write all targets as lists, such as [3], if a query can have several or none."
    )


def read_lists(
    file: str, column: Any, padding: Sequence[int], words: Words | None, on_error: OnError
) -> tuple[Tensor, int]:
    """Return lists of ids, padded with -1, and the number of unreadable lists."""
    integers = None if words is not None else _integers(column)
    if integers is not None:
        ids, missed = check_ids(file, integers.numpy(), padding, on_error)
        return as_tensor("preds", ids), missed
    lists, missed = [], 0
    for row, cell in enumerate(column):
        tokens = split(cell)
        numbers = words.of_answers(tokens) if words is not None else _number(tokens, padding)
        if numbers is None or _is_missing(cell):
            if on_error == "raise":
                raise _broken(file, row, cell)
            numbers, missed = [], missed + 1
        lists.append(numbers)
    made = as_tensor("preds", lists) if lists else torch.zeros(0, 1, dtype=torch.int64)
    return (made if made.shape[1] else torch.full((len(made), 1), -1)), missed


def check_ids(file: str, ids: Any, padding: Sequence[int], on_error: OnError) -> tuple[Any, int]:
    """Replace padding in ids `[N, K]` by -1, and count rows with other negative ids as broken."""
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
    """Return a column of integers or of integer arrays, int64 `[N, M]`; None for any other."""
    if isinstance(column, list) or not len(column):
        return None
    if column.dtype.kind not in "iu":
        for cell in column:
            if not (isinstance(cell, np.ndarray) and cell.dtype.kind in "iu"):
                return None
    found = as_tensor("preds", column).long().reshape(len(column), -1)
    return found if found.shape[1] else None


def split(cell: Any, is_one: bool = False) -> list[Any]:
    """Split a cell into ids, which are numbers or text.

    Spaces separate numbers. Text may hold spaces; quotes or commas separate it.

    Args:
        cell: a list, one id, or text with a list or one id.
        is_one: whether text without brackets is one id, commas included.
    """
    if isinstance(cell, np.ndarray | list | tuple):
        return list(cell)
    if not isinstance(cell, str):
        return [] if _is_missing(cell) else [cell]
    text = cell.strip()
    inside = text.strip("[](){}").strip()
    quoted = [first or second for first, second in _QUOTED.findall(inside)]
    if quoted and not _QUOTED.sub("", inside).strip(",;| \t\n"):
        return quoted
    pieces = [inside] if is_one and inside == text else _BETWEEN.split(inside)
    tokens: list[Any] = []
    for piece in pieces:
        words = piece.split()
        tokens += [piece.strip("'\" ")] if any(map(_is_text, words)) else words
    return tokens


def _number(tokens: Sequence[Any], padding: Sequence[int]) -> list[int] | None:
    """Return ids, -1 for padding; None if a token is not an id."""
    numbers = []
    for token in tokens:
        number = _whole(token)
        if number is None or (number < -1 and number not in padding):
            return None
        numbers.append(-1 if number in padding else number)
    return numbers


def _whole(token: Any) -> int | None:
    """Return an integer, which may be written as a float; None for anything else."""
    if _is_text(token) or not float(token).is_integer():
        return None
    # a float holds only 53 bits, so digits are read as an integer
    is_float = isinstance(token, str) and not token.lstrip("+-").isdecimal()
    return int(float(token)) if is_float else int(token)


def _is_text(token: Any) -> bool:
    """Return whether a token is not a number."""
    if isinstance(token, str):
        return not _NUMBER.fullmatch(token)
    return not isinstance(token, int | float | np.number)


def _is_list(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip()[:1] in tuple("[({")
    return isinstance(cell, np.ndarray | list | tuple)


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell)


def _broken(file: str, row: int, value: Any) -> ValueError:
    return ValueError(
        f"row {row} of {file} must hold ids of locations, got {short(value)}; pass numbers that "
        "pad lists as `padding=`, or count unreadable answers as misses with `on_error='miss'`."
    )
