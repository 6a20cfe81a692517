"""A hash of queries in any order, by which equal shards are found, and of the names of groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import torch
from torch import Tensor

from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.arguments.labels import GroupLabels
from nextloc_metrics.arguments.rows import Grouping
from nextloc_metrics.ranking import Ranking

# Columns of a block have numbers below 2 to this power.
_FACTOR_BITS = 40


class GroupNames:
    """Names of groups, numbered as they appear, with a hash of each."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names: list[str] = []
        self.hashes = torch.zeros(0, dtype=torch.int64)
        self._numbers: dict[str, int] = {}
        self._last: tuple[GroupLabels, Tensor] | None = None
        self.add(names)

    def add(self, names: Sequence[str]) -> None:
        """Number further names."""
        hashes = self.hashes_with(names)
        self._numbers.update((name, len(self.names) + i) for i, name in enumerate(names))
        self.names += names
        self.hashes = hashes

    def hashes_with(self, names: Sequence[str]) -> Tensor:
        """Return the hash of each name, and of further names."""
        digests = [blake2b(name.encode(), digest_size=8).digest() for name in names]
        new = [int.from_bytes(x, "little", signed=True) for x in digests]
        return (
            torch.cat([self.hashes, torch.tensor(new, dtype=torch.int64)]) if new else self.hashes
        )

    def number(self, kind: Grouping) -> tuple[Tensor, list[str]]:
        """Return the number of each query's group, and the names that are new."""
        if self._last is not None and self._last[0] is kind.labels:
            return self._last[1][kind.numbers], []
        new = [name for name in kind.labels.names if name not in self._numbers]
        numbers = {name: len(self.names) + i for i, name in enumerate(new)}
        known = self._numbers
        table = torch.tensor([known[x] if x in known else numbers[x] for x in kind.labels.names])
        if not new:
            self._last = kind.labels, table.long()
        return table.long()[kind.numbers], new


def fingerprint_of(
    batch: Batch,
    ranking: Ranking,
    hashes: Sequence[Tensor],
    num_locations: int | None,
) -> int:
    """Return a hash of queries in any order: groups, targets, ranks, answers; not of padding."""
    target = batch.target if batch.target.ndim == 2 else batch.target[:, None]
    missing = ranking.relevant < 0
    columns = [ranking.queries.counted[:, None].long(), *(x[:, None] for x in hashes)]
    if ranking.queries.weights is not None:
        columns.append(ranking.queries.weights[:, None].view(torch.int64))
    if ranking.grades is not None:
        columns.append(ranking.grades.sum(1, keepdim=True).double().view(torch.int64))
    if ranking.num_candidates is None:
        answers = batch.preds.long()
        if num_locations is not None:  # all ids that are no location are alike
            answers = answers.clamp(max=num_locations)
    else:  # the targets' scores, bit by bit
        known = target.clamp(0, ranking.num_candidates - 1)  # what `mask` leaves out may be any
        answers = batch.preds.gather(1, known).double().view(torch.int64)
    blocks = [torch.cat(columns, 1), target.long(), answers]
    blocks += [x.masked_fill(missing, -1) for x in (ranking.above, ranking.tied)]
    rows = torch.zeros(len(target), dtype=torch.int64)
    for number, block in enumerate(blocks):
        rows += ((block + 1) * _factors(number, block.shape[1])).sum(1)
        rows = _mix(rows)
    return int(rows.sum())


@lru_cache
def _factors(block: int, width: int) -> Tensor:
    """Return an odd factor for each column of a block."""
    columns = torch.arange(width, dtype=torch.int64) + (block << _FACTOR_BITS)
    return _mix(columns) | 1


def _mix(values: Tensor) -> Tensor:
    """Spread the bits of integers; distinct ones stay distinct."""
    values = (values ^ ((values >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    values = (values ^ ((values >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return values ^ ((values >> 31) & 0x1FFFFFFFF)
