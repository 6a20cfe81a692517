"""Counts that take further batches: their groups are numbered as they appear, and room is made.

The groups of a chunk of rows are numbered, and its queries are counted by `Counted`. In the end the
groups are put in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import count, islice

import torch
from torch import Tensor

from nextloc_metrics.core.queries.batch import Batch, Grouping, GroupLabels
from nextloc_metrics.report.evaluation_counts import Counted
from nextloc_metrics.report.setting import EXEMPT


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
        numbers, new = {}, {}
        for kind, groups in kinds.items():
            numbers[kind], new[kind] = self.names[kind].number(groups)
        counted = self._with_room(new)
        batch = replace(chunk, groups=None, exempt_target=counted.setting.exclude == EXEMPT).read()
        counted.add(counted.tally(batch, numbers))
        for kind, names in new.items():
            self.names[kind].names += names
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
        """Return the counts with the groups in order and without room."""
        old = self.counted
        labels = {kind: GroupLabels.sorted(of.names) for kind, of in self.names.items()}
        if labels == old.labels:
            self.is_shared, found = True, copy(old)
            found.card = old.card.copy()
        else:
            found = Counted(old.setting, labels, old.data)
            found.add_states(old, {x: labels[x].number(of.names) for x, of in self.names.items()})
        return found


class GroupNames:
    """The names of the groups of one kind, numbered as they appear."""

    def __init__(self, labels: GroupLabels) -> None:
        self.names = [*labels.names]
        self._numbers: dict[str, int] = {}  # of the names, made when other labels come
        self._last = labels, torch.arange(len(labels))  # many chunks of a table have the same

    def number(self, groups: Grouping) -> tuple[Tensor, list[str]]:
        """Return each query's number, and the names that are new."""
        labels, known = groups.labels, self._numbers
        if self._last[0] is labels:
            return self._last[1][groups.numbers], []
        known.update(zip(self.names[len(known) :], count(len(known)), strict=False))
        new = [name for name in labels.names if name not in known]
        added = {name: len(known) + i for i, name in enumerate(new)}
        numbers = [known[name] if name in known else added[name] for name in labels.names]
        table = torch.tensor(numbers, dtype=torch.int64)
        if not new:
            self._last = labels, table
        return table[groups.numbers], new
