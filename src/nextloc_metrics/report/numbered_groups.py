"""Files of release 0.6, in which groups have numbers: their states by key.

The groups of a kind are a list of names in the header, and a group is its number there. A metric
of groups has a row of sums for each. Answers that refuse are counted apart from unreadable ones.
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

# The number of a group is in the upper bits of a pair, and that of a user in the lower ones.
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
    groups = {kind: read_keys("groups", list(of)) for kind, of in names.items() if of}
    keys = {kind: of for kind, (of, _) in groups.items()}
    states = {
        name: _by_key(member, arrays[name], keys, num_locations) for name, member in members.items()
    }
    return groups, {**arrays, **states}


def join_refused(card: Counter[str], arrays: Mapping[str, Tensor]) -> None:
    """Add answers that refuse to the unreadable ones; no answer is both.

    The state of a share ends with the sum of scores, 0 or 1, that of their squares, and a number.
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
        rows, num_keys = (
            torch.cat([group_keys[:, None], state[: len(group_keys)]], 1)[has_queries],
            1,
        )
    elif isinstance(member, LocationAnswers):
        if bool((state[:1, 0] < 0).any()):
            return torch.full_like(state, FULL)
        if member.metric.num_locations is None:  # other ids had one number, and may be locations
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
