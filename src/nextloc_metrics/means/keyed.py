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
        entries: int64 `[E, K + V]` each, the K numbers of a key and V summands; a key may come
            again.
        num_keys: K.
    """

    def __init__(self, entries: Sequence[Tensor], num_keys: int) -> None:
        self.entries, self.num_keys = list(entries), num_keys

    def __add__(self, other: KeyedSums) -> KeyedSums:
        """Return the sums of both."""
        return KeyedSums([*self.entries, *other.entries], self.num_keys)

    def __radd__(self, held: list[Tensor]) -> list[Tensor]:
        """Return the state of a metric, a list of entries, with these sums."""
        if self.num_keys == 1 and len(held) == 1:
            return [_insert(held[0], self.merge())]
        return [KeyedSums([*held, *self.entries], self.num_keys).merge()]

    def merge(self) -> Tensor:
        """Return each key once, sorted, with its sums, int64 `[E, K + V]`."""
        every = torch.cat(self.entries)
        rows = every.cpu().numpy()
        order, is_first = sort_rows(rows[:, : self.num_keys])
        found = torch.from_numpy(rows[order[is_first]])
        number = torch.from_numpy((is_first.cumsum() - 1)[~is_first])
        again = torch.from_numpy(rows[order[~is_first], self.num_keys :])
        found[:, self.num_keys :].index_add_(0, number, again)
        return found.to(every.device)


def _insert(held: Tensor, new: Tensor) -> Tensor:
    """Do what `merge` does with two results of it, without sorting the many that are held."""
    rows, more = held.cpu().numpy(), new.cpu().numpy()
    at = np.searchsorted(rows[:, 0], more[:, 0])
    is_new = at == len(rows)
    is_new[~is_new] = rows[at[~is_new], 0] != more[~is_new, 0]
    found = np.insert(rows, at[is_new], more[is_new], axis=0)
    found[(at + is_new.cumsum())[~is_new], 1:] += more[~is_new, 1:]
    return torch.from_numpy(found).to(held.device)


def sort_rows(keys: Any) -> tuple[Any, Any]:
    """Return the order that sorts rows, and where in it a different row begins, bool `[E]`."""
    if keys.shape[1] == 1:
        order = np.argsort(keys[:, 0], kind="stable")
        return order, begins(keys[order, 0])
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
