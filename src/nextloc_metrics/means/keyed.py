"""Sums of integers by key: of few keys among many possible ones, such as flows between places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import begins


class KeyedSums:
    """Sums of integers by key, which add up; added to a list of entries they make a new list.

    Args:
        entries: int64 `[E, K + 1]` each, the K numbers of a key and a summand; a key may come
            again.
    """

    def __init__(self, entries: Sequence[Tensor]) -> None:
        self.entries = list(entries)

    def __add__(self, other: KeyedSums) -> KeyedSums:
        """Return the sums of both."""
        return KeyedSums([*self.entries, *other.entries])

    def __radd__(self, held: list[Tensor]) -> list[Tensor]:
        """Return the state of a metric, a list of entries, with these sums."""
        return [KeyedSums([*held, *self.entries]).merge()]

    def merge(self) -> Tensor:
        """Return each key once, sorted, with its sum, int64 `[E, K + 1]`."""
        every = torch.cat(self.entries)
        rows = every.cpu().numpy()
        order, is_first = sort_rows(rows[:, :-1])
        starts = np.flatnonzero(is_first)
        sums = np.add.reduceat(rows[order, -1], starts)
        found = np.column_stack([rows[order[starts], :-1], sums])
        return torch.from_numpy(found).to(every.device)


def sort_rows(keys: Any) -> tuple[Any, Any]:
    """Return the order that sorts rows, and where in it a different row begins, bool `[E]`."""
    low, high = keys.min(0, initial=0), keys.max(0, initial=0)
    sizes = [int(most) - int(least) + 1 for least, most in zip(low, high, strict=True)]
    if math.prod(sizes) < 1 << 62:  # one number for each row, which sorts faster
        key = np.zeros(len(keys), dtype=np.int64)
        for column, least, size in zip(keys.T, low, sizes, strict=True):
            key = key * size + (column - least)
        order = np.argsort(key, kind="stable")
        return order, begins(key[order])
    order = np.lexsort(keys.T[::-1])
    return order, begins(*keys[order].T)
