"""Sums of integers by key: entries are appended, and merged when they are read or many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import begins
from nextloc_metrics.core.queries.keys import NO_KEY, join_names


class KeyedSums:
    """Sums of integers by key, the state of a metric or what a batch adds to it.

    A metric of your own has such a state if its `empty_state` returns one. Its `tally` then returns
    what a batch adds: entries in any order, in which a key may come several times.

    Args:
        entries: int64 `[E, K + V]` each, the K numbers of a key and V summands. An entry whose
            first number is `keys.NO_KEY` does not count.
        num_keys: the number K.
        names: the texts of keys that are hashes, for tables and pictures.

    Example:
        >>> from torch import tensor
        >>> sums = KeyedSums([tensor([[7, 1], [3, 1]])], 1) + KeyedSums([tensor([[7, 2]])], 1)
        >>> sums.merge()
        tensor([[3, 1],
                [7, 3]])
    """

    #: this many entries may be appended before they are merged, even if there are few keys
    sorted_at_once: ClassVar[int] = 1 << 15

    def __init__(
        self, entries: Sequence[Tensor], num_keys: int, names: Mapping[int, str] | None = None
    ) -> None:
        self.entries, self.num_keys, self.names = list(entries), num_keys, names or {}

    def __add__(self, other: KeyedSums) -> KeyedSums:
        """Return the sums of both."""
        names = join_names(self.names, other.names)
        return type(self)([*self.entries, *other.entries], self.num_keys, names)

    def __radd__(self, held: Sequence[Tensor]) -> list[Tensor]:
        """Return a state with these sums, so that `state + sums` works as for tensors."""
        return self.append_to(held)

    def append_to(self, held: Sequence[Tensor]) -> list[Tensor]:
        """Return the state of a metric, the list `held`, with these sums.

        The first tensor of a state has the merged entries, and the others have entries as they
        came. When these are more than the merged ones, all are merged. So an entry is sorted about
        as often as the state doubles, and most updates sort nothing and wait for no device.
        """
        merged, *appended = held or [self.entries[0][:0]]
        appended += [x.to(merged.device) for x in self.entries]  # it differs with `compute_on_cpu`
        # each tensor stays at least twice as long as the next, so that a state has few of them
        while len(appended) > 1 and len(appended[-2]) < 2 * len(appended[-1]):
            appended[-2:] = [torch.cat(appended[-2:])]
        if sum(map(len, appended)) <= max(len(merged), self.sorted_at_once):
            return [merged, *appended]
        entries = torch.cat(appended)
        if self.num_keys == 1 and (summed := _add_to(merged, entries)) is not None:
            return [summed]
        return [type(self)([merged, entries], self.num_keys).merge()]

    def merge(self) -> Tensor:
        """Return each key once, sorted, with its sums, int64 `[E, K + V]`."""
        entries = torch.cat(self.entries) if len(self.entries) > 1 else self.entries[0]
        if entries.is_meta:
            return entries
        rows = entries.cpu().numpy()
        if not (counts := rows[:, 0] != NO_KEY).all():  # else all rows would be copied
            rows = rows[counts]
        order, is_first = sort_rows(rows[:, : self.num_keys])
        # the other rows of a key are added to its first; `take` is far faster than an index
        merged = torch.from_numpy(rows.take(order[is_first], axis=0))
        others = torch.from_numpy(rows.take(order[~is_first], axis=0)[:, self.num_keys :])
        places = torch.from_numpy(is_first.cumsum()[~is_first] - 1)
        merged[:, self.num_keys :].index_add_(0, places, others)
        return merged.to(entries.device)


def _add_to(merged: Tensor, entries: Tensor) -> Tensor | None:
    """Add entries in any order to merged ones; return None if one of them has a new key."""
    if not len(merged):
        return None
    entries = entries[entries[:, 0] != NO_KEY]
    places = torch.searchsorted(merged[:, 0].contiguous(), entries[:, 0].contiguous())
    places = places.clamp(max=len(merged) - 1)
    if (merged[places, 0] != entries[:, 0]).any():
        return None
    summed = merged.clone()
    summed[:, 1:].index_add_(0, places, entries[:, 1:])
    return summed


def number_keys(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return different keys in order, int64 `[U, K]`, and the place of each row's key, `[E]`."""
    order, is_first = sort_rows(keys.numpy())
    numbers = np.empty(len(order), np.int64)
    numbers[order] = is_first.cumsum() - 1
    return keys[torch.from_numpy(order[is_first])], torch.from_numpy(numbers)


def sort_rows(keys: Any) -> tuple[Any, Any]:
    """Return the order that sorts rows, and whether each sorted row differs from the last."""
    columns = [_from_zero(column) for column in keys.T] if len(keys) else []
    row_bits = len(keys).bit_length()
    if len(columns) > 1:
        # wide columns, such as hashes of texts, become ranks
        columns = [_ranks(x) if bits > row_bits else (x, bits) for x, bits in columns]
    if sum(bits for _, bits in columns) + row_bits < 64:
        # integers of a row and its number sort faster than rows
        packed = np.zeros(len(keys), dtype=np.int64)
        for column, bits in [*columns, (np.arange(len(keys)), row_bits)]:
            packed <<= bits
            packed |= column
        packed.sort()
        return packed & ((1 << row_bits) - 1), begins(packed >> row_bits)
    order = np.lexsort(keys.T[::-1])
    return order, begins(*keys[order].T)


def _ranks(column: Any) -> tuple[Any, int]:
    """Return the rank of each integer among the different ones, from 0, and a rank's bits."""
    order = np.argsort(column.view(np.uint64))  # a range may have 64 bits
    ranks = np.empty(len(order), np.int64)
    ranks[order] = begins(column[order]).cumsum() - 1
    return ranks, int(ranks[order[-1]]).bit_length()


def _from_zero(column: Any) -> tuple[Any, int]:
    """Return integers minus the smallest of them, and how many bits the largest then has."""
    shifted = (column - column.min()).view(np.uint64)  # a range may have 64 bits
    return shifted.view(np.int64), int(shifted.max()).bit_length()
