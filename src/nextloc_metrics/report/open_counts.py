"""Counts that take further batches: their groups are numbered as they appear, and room is made.

A chunk of rows is counted in three steps: its groups are numbered, its queries are counted by
`Counted`, and their hash is added to the fingerprint. In the end the groups are put in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import count, islice

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries import hashing
from nextloc_metrics.core.queries.batch import Batch, Grouping, GroupLabels
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.report.evaluation_counts import Counted
from nextloc_metrics.report.setting import EXEMPT

# Any odd number of 62 bits.
_SALT = 0x2545F4914F6CDD1D


class OpenCounts:
    """Counts to which chunks of rows are added.

    Attributes:
        counted: the counts. Behind the names of the groups, its labels have names that no group
            has, as room for more groups.
        names: the names of the groups, by kind.
        is_shared: whether a result has `counted` too, so that it must stay as it is.
    """

    def __init__(self, counted: Counted) -> None:
        self.counted, self.is_shared = counted, False
        self.names = {kind: GroupNames(labels) for kind, labels in counted.labels.items()}

    def count(self, chunk: Batch) -> None:
        """Count the queries of a chunk of rows, or raise and change nothing."""
        kinds: Mapping[str, Grouping] = chunk.groups  # type: ignore[assignment]  # a chunk has them
        numbers, new, hashes = {}, {}, {}
        for kind, groups in kinds.items():
            numbers[kind], new[kind], hashes[kind] = self.names[kind].number(groups)
        counted = self._with_room(new)
        batch = replace(chunk, groups=None, exempt_target=counted.setting.exclude == EXEMPT).read()
        tallied = counted.tally(batch, numbers)
        columns = [hashes[kind][of.numpy()] for kind, of in sorted(numbers.items())]
        counted.add(tallied, fingerprint_of(batch, tallied.ranking, columns))
        for kind, names in new.items():
            self.names[kind].add(names, hashes[kind])
        self.counted, self.is_shared = counted, False

    def _with_room(self, new: Mapping[str, Sequence[str]]) -> Counted:
        """Return the counts, or a copy with twice the room if they lack it or are shared."""
        old, labels = self.counted, {}
        sizes = {kind: len(self.names[kind].names) + len(names) for kind, names in new.items()}
        if not self.is_shared and all(size <= len(old.labels[x]) for x, size in sizes.items()):
            return old
        for kind, names in new.items():
            known = [*self.names[kind].names, *names]
            taken = set(known)
            unused = (name for i in count() if (name := f"\0{i}") not in taken)
            free = max(0, 2 * len(old.labels[kind]) - len(known))
            labels[kind] = GroupLabels([*known, *islice(unused, free)])
        grown = Counted(old.setting, labels, old.data)
        grown.add_states(old, {x: torch.arange(len(of)) for x, of in old.labels.items()})
        return grown

    def in_order(self) -> Counted:
        """Return the counts with the groups in order and without room, named as one shard."""
        old = self.counted
        labels = {kind: GroupLabels.sorted(of.names) for kind, of in self.names.items()}
        if labels == old.labels:
            self.is_shared, found = True, copy(old)
            found.card = old.card.copy()
        else:
            found = Counted(old.setting, labels, old.data)
            found.add_states(old, {x: labels[x].number(of.names) for x, of in self.names.items()})
        has_rows = found.card["queries"] > found.card["left_out"]
        found.shards = (f"{found.fingerprint:016x}",) if has_rows else ()
        return found


class GroupNames:
    """The names of the groups of one kind, numbered as they appear, with a hash of each."""

    def __init__(self, labels: GroupLabels) -> None:
        self.names = [*labels.names]
        self.hashes = hashing.hash_text(self.names)
        self._numbers: dict[str, int] = {}  # of the names, made when other labels come
        self._last = labels, torch.arange(len(labels))  # many chunks of a table have the same

    def number(self, groups: Grouping) -> tuple[Tensor, list[str], hashing.Hashes]:
        """Return each query's number, the names that are new, and the hashes with theirs."""
        labels, known = groups.labels, self._numbers
        if self._last[0] is labels:
            return self._last[1][groups.numbers], [], self.hashes
        known.update(zip(self.names[len(known) :], count(len(known)), strict=False))
        new = [name for name in labels.names if name not in known]
        added = {name: len(known) + i for i, name in enumerate(new)}
        numbers = [known[name] if name in known else added[name] for name in labels.names]
        table = torch.tensor(numbers, dtype=torch.int64)
        if new:
            return table[groups.numbers], new, np.append(self.hashes, hashing.hash_text(new))
        self._last = labels, table
        return table[groups.numbers], new, self.hashes

    def add(self, new: Sequence[str], hashes: hashing.Hashes) -> None:
        """Number the names that are new, and keep what `number` returned."""
        self.names += new
        self.hashes = hashes


def fingerprint_of(batch: Batch, ranking: Ranking, groups: Sequence[hashing.Hashes]) -> int:
    """Return the sum of hashes of the queries: groups, targets, their ranks, and the answers.

    It is the same for any order of queries, and tells one set of queries from another.
    """
    # padding is 0, so neither its number nor where it stands matters
    kept = ranking.relevant >= 0
    each = (ranking.relevant + 1) * (3 * ranking.above + 5 * ranking.tied + _SALT)
    if ranking.num_candidates is None:
        ids = batch.preds + 1
        parts = [batch.preds[:, :1], (ids * (ids ^ _SALT)).sum(1, keepdim=True)]
    else:
        own = batch.preds.gather(1, ranking.relevant.clamp(min=0))
        own = own.float() if own.dtype == torch.bfloat16 else own  # NumPy has none
        each, parts = each + 7 * torch.from_numpy(hashing.bits(own.numpy())), []
    parts.append(each.masked_fill(~kept, 0).sum(1, keepdim=True))
    columns = [*groups, *(x for part in parts for x in part.numpy().T)]
    factors = hashing.mix(np.arange(len(columns))) | np.uint64(1)
    found = np.zeros(len(kept), np.uint64)
    for factor, column in zip(factors, columns, strict=True):
        found += hashing.bits(column).view(np.uint64) * factor
    return int(hashing.mix(found)[ranking.queries.counted.numpy()].sum())
