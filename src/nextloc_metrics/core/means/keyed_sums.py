"""Sums of integers by key: entries that are appended, and sorted when they are read or doubled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import begins
from nextloc_metrics.core.queries.keys import NO_KEY, join_names


class KeyedSums:
    """Sums of integers by key, which add up.

    A metric of your own whose `empty_state` returns one has such a state, and its `tally` returns
    what a batch adds: entries in any order, of which a key may come again.

    Args:
        entries: int64 `[E, K + V]` each, the K numbers of a key and V summands. An entry whose
            first number is `keys.NO_KEY` does not count.
        num_keys: K.
        names: the texts of keys that are hashes, for tables and pictures.

    Example:
        >>> from torch import tensor
        >>> sums = KeyedSums([tensor([[7, 1], [3, 1]])], 1) + KeyedSums([tensor([[7, 2]])], 1)
        >>> sums.merge()
        tensor([[3, 1],
                [7, 3]])
    """

    #: so many entries are appended before they are sorted, however few the keys are
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
        """Return a state with these sums, as a sum of tensors is one."""
        return self.append_to(held)

    def append_to(self, held: Sequence[Tensor]) -> list[Tensor]:
        """Return the state of a metric with these sums.

        A state begins with the merged entries; those behind them are as they came. They are merged
        when they are more than the merged ones, so an entry is sorted about as often as the state
        doubles, and an update sorts nothing and waits for no device.
        """
        merged, *appended = held or [self.entries[0][:0]]
        appended += [x.to(merged.device) for x in self.entries]  # with `compute_on_cpu`
        while len(appended) > 1 and len(appended[-2]) < 2 * len(appended[-1]):
            appended[-2:] = [torch.cat(appended[-2:])]
        if sum(map(len, appended)) <= max(len(merged), self.sorted_at_once):
            return [merged, *appended]
        every = torch.cat(appended)
        if self.num_keys == 1 and (added := _add_to(merged, every)) is not None:
            return [added]
        return [type(self)([merged, every], self.num_keys).merge()]

    def merge(self) -> Tensor:
        """Return each key once, sorted, with its sums, int64 `[E, K + V]`."""
        every = torch.cat(self.entries) if len(self.entries) > 1 else self.entries[0]
        if every.is_meta:
            return every
        rows = every.cpu().numpy()
        if not (counts := rows[:, 0] != NO_KEY).all():  # else a copy of all rows
            rows = rows[counts]
        order, is_first = sort_rows(rows[:, : self.num_keys])
        # `take` is several times faster than an index
        merged = torch.from_numpy(rows.take(order[is_first], axis=0))
        again = torch.from_numpy(rows.take(order[~is_first], axis=0)[:, self.num_keys :])
        number = torch.from_numpy(is_first.cumsum()[~is_first] - 1)
        merged[:, self.num_keys :].index_add_(0, number, again)
        return merged.to(every.device)


def _add_to(merged: Tensor, entries: Tensor) -> Tensor | None:
    """Return merged entries with others, which are not sorted; None if one has a new key."""
    if not len(merged):
        return None
    entries = entries[entries[:, 0] != NO_KEY]
    at = torch.searchsorted(merged[:, 0].contiguous(), entries[:, 0].contiguous())
    at = at.clamp(max=len(merged) - 1)
    if (merged[at, 0] != entries[:, 0]).any():
        return None
    added = merged.clone()
    added[:, 1:].index_add_(0, at, entries[:, 1:])
    return added


def number_keys(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return different keys, int64 `[U, K]` in order, and the number of that of each row, `[E]`."""
    order, is_first = sort_rows(keys.numpy())
    numbers = np.empty(len(order), np.int64)
    numbers[order] = is_first.cumsum() - 1
    return keys[torch.from_numpy(order[is_first])], torch.from_numpy(numbers)


def sort_rows(keys: Any) -> tuple[Any, Any]:
    """Return an order that sorts rows, and where in it a different row begins, bool `[E]`."""
    digits = [_digits(column) for column in keys.T] if len(keys) else []
    bits = len(keys).bit_length()
    if len(digits) > 1:  # keys of text are wide, their ranks are not
        digits = [_ranks(column) if width > bits else (column, width) for column, width in digits]
    if sum(width for _, width in digits) + bits < 64:  # one number for each row, which sorts faster
        packed = np.zeros(len(keys), dtype=np.int64)
        for column, width in [*digits, (np.arange(len(keys)), bits)]:
            packed <<= width
            packed |= column
        packed.sort()
        return packed & ((1 << bits) - 1), begins(packed >> bits)
    order = np.lexsort(keys.T[::-1])
    return order, begins(*keys[order].T)


def _ranks(column: Any) -> tuple[Any, int]:
    """Return the ranks of integers among different ones, from 0, and their bits."""
    order = np.argsort(column.view(np.uint64))  # a range may have 64 bits
    ranks = np.empty(len(order), np.int64)
    ranks[order] = begins(column[order]).cumsum() - 1
    return ranks, int(ranks[order[-1]]).bit_length()


def _digits(column: Any) -> tuple[Any, int]:
    """Return numbers from 0 in the order of integers, and their bits."""
    apart = (column - column.min()).view(np.uint64)  # also of more than 63 bits
    return apart.view(np.int64), int(apart.max()).bit_length()
