"""The states of several metrics summed over all processes, by one collective per process group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed
from torch import Tensor

# Larger states, in bytes, get a collective of their own instead of a copy in the shared buffer.
_LARGEST_COPIED_STATE = 1 << 21


def all_reduce(state: Tensor, group: Any = None) -> list[Tensor]:
    """Sum a state over the processes with one all-reduce, without gathering all states."""
    total = state.clone()
    torch.distributed.all_reduce(total, group=group)
    return [total]


@contextmanager
def summed_at_once(members: Sequence[Any], cached: bool) -> Iterator[None]:
    """Give metrics their states summed over processes: one collective per process group.

    With `cached`, no collective runs if all members of the group have cached values.
    """
    by_group: dict[Any, list[Any]] = {}
    for member in members:
        if _will_all_reduce(member):
            by_group.setdefault(member.process_group, []).append(member)
    lent = [
        member
        for group, sharing in by_group.items()
        if not cached or any(member._computed is None for member in sharing)
        for member in _lend_sums(sharing, group)
    ]
    try:
        yield
    finally:
        for member in lent:
            member.dist_sync_fn = all_reduce


def _will_all_reduce(metric: Any) -> bool:
    """Whether `compute` without a cached value all-reduces one state."""
    return bool(
        len(metric._defaults) == 1
        and metric._to_sync
        and not metric._is_synced
        and metric.dist_sync_fn is all_reduce
        and metric.distributed_available_fn()
    )


def _lend_sums(members: list[Any], process_group: Any) -> list[Any]:
    """Sum the members' states over the processes, and return the members that got their sums."""
    # Members with one state name are summed once. All processes must agree on whether their states
    # are equal and whether cached values are outdated, so both flags are summed too.
    states = {member._state_name: member.state for member in reversed(members)}
    differs = [not torch.equal(member.state, states[member._state_name]) for member in members]
    outdated = [member._computed is None for member in members]
    copied = {name: x for name, x in states.items() if x.nbytes <= _LARGEST_COPIED_STATE}
    flags = torch.tensor([differs, outdated], device=members[0].state.device).long()
    parts = [flags, *copied.values()]
    (total,) = all_reduce(torch.cat([part.flatten() for part in parts]), process_group)
    flags, *summed = torch.split(total, [part.numel() for part in parts])
    sums = dict(zip(copied, summed, strict=True))
    for name, state in states.items():
        if name not in copied:
            (sums[name],) = all_reduce(state, process_group)
    lent = []
    for member, differ, is_outdated in zip(members, *flags.view(2, -1).tolist(), strict=True):
        if is_outdated:
            member._computed = None
        if not differ:
            summed_state = sums[member._state_name].view_as(member.state)
            member.dist_sync_fn = partial(_lent_sum, summed_state)
            lent.append(member)
    return lent


def _lent_sum(summed: Tensor, _state: Tensor, group: Any = None) -> list[Tensor]:
    return [summed]
