"""Reads files of release 0.6, in which groups have numbers, as states by key.

In these files, the header lists the names of the groups of a kind, and the number of a group is its
position there. A metric of groups has a row of sums for each number. Answers that refuse are
counted apart from unreadable ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.base.grouped import ClusteredGroups, Grouped
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.means.keyed_sums import KeyedSums
from nextloc_metrics.core.queries.keys import Grouping, read_keys
from nextloc_metrics.metrics.location_f1 import LocationTally
from nextloc_metrics.report.internal_metrics import FULL, LocationAnswers

# The lower bits of a pair are the number of a user, the bits above them that of a group.
_BITS = 32


def read_numbered(
    names: Mapping[str, Sequence[str]],
    members: Mapping[str, RecordMetric],
    arrays: Mapping[str, Tensor],
    num_locations: int | None,
) -> tuple[dict[str, Grouping], dict[str, Tensor]]:
    """Return the keys and the texts of groups by kind, and the states of metrics by key.

    `num_locations` is one more than the largest target of lists.
    """
    groups = {kind: read_keys("groups", list(x)) for kind, x in names.items() if x}
    keys = {kind: grouping.keys for kind, grouping in groups.items()}
    states = {
        name: _by_key(member, arrays[name], keys, num_locations) for name, member in members.items()
    }
    return groups, {**arrays, **states}


def join_refused(card: Counter[str], arrays: Mapping[str, Tensor]) -> None:
    """Add answers that refuse to the unreadable ones; no answer is both.

    The state of a share ends with the sum of scores, 0 or 1, the sum of squares, and a count.
    """
    if "refused" in card:
        card["unreadable"] += card.pop("refused")
    for name, refused in arrays.items():
        part, _, metric = name.rpartition("/")
        if metric == "refused":
            arrays[f"{part}/unreadable"][..., -3:-1] += refused[..., -3:-1]


def _by_key(
    member: Any, state: Tensor, keys: Mapping[str, Tensor], num_locations: int | None
) -> Tensor:
    """Return the state of a metric with keys in place of numbers."""
    none = state.new_zeros(0)
    if isinstance(member, ClusteredGroups):
        groups = keys.get(str(member.by), none)[state[:, 0] >> _BITS]
        clusters = keys.get(member.cluster, none)[state[:, 0] & ((1 << _BITS) - 1)]
        rows, num_keys = torch.cat([torch.stack([groups, clusters], 1), state[:, 1:]], 1), 2
    elif isinstance(member, Grouped) and member.num_groups is None:
        group_keys = keys.get(str(member.by), none)
        has_queries = state[: len(group_keys), 2] > 0
        rows = torch.cat([group_keys[:, None], state[: len(group_keys)]], 1)[has_queries]
        num_keys = 1
    elif isinstance(member, LocationAnswers):
        if bool((state[:1, 0] < 0).any()):
            return torch.full_like(state, FULL)
        if member.metric.num_locations is None:  # all ids that are no target had one number
            decided = state[:, 2].masked_fill(state[:, 2] == (num_locations or -1), -1)
            state = torch.cat([state[:, :2], decided[:, None], state[:, 3:]], 1)
        if member.cluster is None:
            return state
        clusters = keys.get(member.cluster, none)[state[:, :1]]
        rows, num_keys = torch.cat([clusters, state[:, 1:]], 1), 3
    elif isinstance(member, LocationTally) and member.num_locations is None:
        counts = state.clone()
        counts[:, -1] = 0
        return member.of_counts(counts).merge()
    else:
        return state
    return KeyedSums([rows], num_keys).merge()
