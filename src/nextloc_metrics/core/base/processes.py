"""The states of several metrics summed over all processes, by two collectives per process group.

One all-reduce sums all states of a fixed shape, and tells how many entries each process has of each
state of sums by key; one gather, padded to the longest, then has the entries of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from nextloc_metrics.core.queries.keys import join_names

# Larger states, in bytes, get a collective of their own instead of a copy in the shared buffer.
_LARGEST_COPIED_STATE = 1 << 21


def all_reduce(state: Tensor, group: Any = None) -> list[Tensor]:
    """Sum a state over the processes with one all-reduce, without gathering all states."""
    total = state.clone()
    torch.distributed.all_reduce(total, group=group)
    return [total]


@contextmanager
def summed_at_once(members: Sequence[Any], cached: bool) -> Iterator[None]:
    """Give metrics their states summed over processes: two collectives per process group.

    If no state is sums by key, it is one collective. With `cached`, no collective runs if all
    members of the group have cached values.
    """
    lent = [
        member
        for group, sharing in _by_process_group(members)
        if not cached or any(member._computed is None for member in sharing)
        for member in _lend_sums(sharing, group)
    ]
    try:
        yield
    finally:
        for member in lent:
            member.dist_sync_fn = None if member.is_keyed else all_reduce


def share_names(members: Sequence[Any]) -> None:
    """Give `Grouped` metrics the texts of keys of all processes; call it on all of them."""
    keyed = [x for x in members if x.group_kind is not None and x.is_keyed]
    for group, sharing in _by_process_group(keyed):
        names: Mapping[int, str] = {}
        for member in sharing:
            names = join_names(names, member.key_names)
        gathered: list[Any] = [None] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(gathered, names, group=group)
        names = {}
        for names_of_process in gathered:
            names = join_names(names, names_of_process)
        for member in sharing:
            member.key_names = names


def _by_process_group(members: Sequence[Any]) -> list[tuple[Any, list[Any]]]:
    """Return the members whose `compute` would sum one state, for each process group."""
    by_group: dict[Any, list[Any]] = {}
    for member in members:
        if (
            len(member._defaults) == 1
            and member._to_sync
            and not member._is_synced
            and member.distributed_available_fn()
            and member.dist_sync_fn is (None if member.is_keyed else all_reduce)
        ):
            by_group.setdefault(member.process_group, []).append(member)
    return [*by_group.items()]


def _lend_sums(members: list[Any], process_group: Any) -> list[Any]:
    """Sum the members' states over the processes, and return the members that got their sums."""
    # Members with one state name are summed once. All processes must agree on whether their states
    # are equal and whether cached values are outdated, so both flags are summed too.
    states = {member._state_name: member.state for member in reversed(members)}
    forms = {member._state_name: member._form for member in members if member.is_keyed}
    differs = [not torch.equal(member.state, states[member._state_name]) for member in members]
    outdated = [member._computed is None for member in members]
    dense = {name: x for name, x in states.items() if name not in forms}
    copied = {name: x for name, x in dense.items() if x.nbytes <= _LARGEST_COPIED_STATE}
    keyed = {name: states[name] for name in forms}
    flags = torch.tensor([differs, outdated], device=members[0].device).long()
    parts = [flags, _sizes_of(keyed, process_group).to(flags.device), *copied.values()]
    (total,) = all_reduce(torch.cat([part.flatten() for part in parts]), process_group)
    flags, sizes, *summed = torch.split(total, [part.numel() for part in parts])
    sums = dict(zip(copied, summed, strict=True))
    for name, state in dense.items():
        if name not in copied:
            (sums[name],) = all_reduce(state, process_group)
    for name, entries in _gather(keyed, sizes.view(parts[1].shape), process_group).items():
        sums[name] = forms[name].read(entries, flags.device)
    lent = []
    for member, differ, is_outdated in zip(members, *flags.view(2, -1).tolist(), strict=True):
        if is_outdated:
            member._computed = None
        if not differ:
            summed_state = sums[member._state_name]
            if not member.is_keyed:
                summed_state = summed_state.view_as(member.state)
            member.dist_sync_fn = partial(_lent_sum, summed_state)
            lent.append(member)
    return lent


def _sizes_of(keyed: Mapping[str, Tensor], process_group: Any) -> Tensor:
    """Return int64 `[processes, states]`: this process's numbers of entries, 0 in other rows."""
    if not keyed:
        return torch.zeros(0, 0, dtype=torch.int64)
    number = torch.distributed.get_world_size(process_group)
    sizes = torch.zeros(number, len(keyed), dtype=torch.int64)
    sizes[torch.distributed.get_rank(process_group)] = torch.tensor([*map(len, keyed.values())])
    return sizes


def _gather(
    keyed: Mapping[str, Tensor], sizes: Tensor, process_group: Any
) -> dict[str, list[Tensor]]:
    """Return the entries of all processes for each state, by one gather of all states."""
    if not keyed:
        return {}
    widths = [state.shape[1] for state in keyed.values()]
    lengths = (sizes.cpu() * torch.tensor(widths)).tolist()
    flat = torch.cat([state.flatten() for state in keyed.values()])
    padded = flat.new_zeros(max(map(sum, lengths)))
    padded[: len(flat)] = flat
    gathered = [torch.empty_like(padded) for _ in lengths]
    torch.distributed.all_gather(gathered, padded, group=process_group)
    parts = [torch.split(x[: sum(row)], row) for x, row in zip(gathered, lengths, strict=True)]
    return {
        name: [part.view(-1, width) for part in entries]
        for name, width, entries in zip(keyed, widths, zip(*parts, strict=True), strict=True)
    }


def _lent_sum(summed: Tensor, _state: Tensor, group: Any = None) -> list[Tensor]:
    return [summed]
