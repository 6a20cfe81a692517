"""The first candidates, for metrics that need their ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.arguments.messages import got

# An id above all others: candidates are sorted by (rank, id) in 62 bits.
_NO_ID = (1 << 31) - 1


@dataclass(eq=False)
class TopCandidates:
    """The first candidates of a batch of queries.

    `ids` holds -1 where no candidate is certain: read tables by `look_up`, not by indexing.

    Attributes:
        top: the number of first ranks; 0 if only `best` was kept.
        retrieved: int64 `[N]`, the number of first ranks that have a candidate; of rank 1 if `top`
            is 0.
        best: int64 `[N]`, as [`Ranking.best`][nextloc_metrics.Ranking.best].
        ids: int64 `[N, T]`, T = min(top, C), best first, tied ones by id, -1 for none. A tied
            block that crosses rank `top` is dropped; for `top=1` so is any tie for rank 1. A
            candidate scored NaN comes first.
        above: int64 `[N, T]`, the number of candidates above each candidate.
    """

    top: int
    retrieved: Tensor
    best: Tensor
    ids: Tensor
    above: Tensor

    @property
    def known(self) -> Tensor:
        """Which of `ids` are certain candidates, bool `[N, T]`: not -1, and not scored NaN."""
        is_nan = (self.best < 0)[:, None] & (self.above == 0)
        return (self.ids >= 0) & ~is_nan

    def look_up(self, table: Tensor, fill: float) -> Tensor:
        """Return the candidates' rows of a table, `[N, T, ...]`, such as their coordinates.

        As [`Ranking.look_up`][nextloc_metrics.Ranking.look_up]; `fill` also stands for candidates
        that are not `known`.
        """
        return look_up(table, self.ids, self.known, fill)

    @classmethod
    def cat(cls, parts: Sequence[TopCandidates | None]) -> TopCandidates | None:
        """Concatenate the first candidates of several blocks of queries, if they were kept."""
        found = [part for part in parts if part is not None]
        if not found:
            return None
        columns = zip(*[(x.retrieved, x.best, x.ids, x.above) for x in found], strict=True)
        return cls(found[0].top, *map(torch.cat, columns))

    def cut(self, top: int) -> TopCandidates:
        """Keep the first `top` ranks; drop a tied block that crosses rank `top`."""
        ids, above = self.ids[:, :top], self.above[:, :top]
        if self.above.shape[1] > top:
            ids = ids.masked_fill(above == self.above[:, top : top + 1], -1)
        return TopCandidates(top, self.retrieved.clamp(max=top), self.best, ids, above)


def look_up(table: Tensor, ids: Tensor, known: Tensor, fill: float) -> Tensor:
    """Return rows of a table, and `fill` where an id is not known or not in the table."""
    if not isinstance(table, Tensor) or table.ndim == 0:
        raise TypeError(
            f"`table` must be a tensor with one row per location, {got('table', table)}."
        )
    table = table.to(ids.device)
    known = known & (ids < len(table))
    if not len(table):
        return table.new_full((*ids.shape, *table.shape[1:]), fill)
    rows = table[torch.where(known, ids, 0)]
    return rows.masked_fill(~known.view(*ids.shape, *[1] * (table.ndim - 1)), fill)


class Highest(NamedTuple):
    """The first candidates of N queries: their scores and ids, `[N, 1 + T]`.

    Column 0 is the best candidate, of tied ones the lowest id. For `top` above 1, the first
    T = top + 1 candidates follow in columns of their own, tied ones in any order.
    """

    scores: Tensor
    ids: Tensor


def merge_top(slices: Sequence[Highest], top: int) -> Highest:
    """Merge what was found in slices of the candidates, for the first `top` ranks."""
    maxima = torch.stack([x.scores[:, 0] for x in slices], 1)
    lowest = torch.stack([x.ids[:, 0] for x in slices], 1)
    maximum = maxima.amax(1, keepdim=True)
    best = lowest.masked_fill(maxima != maximum, _NO_ID).amin(1, keepdim=True)
    scores = torch.cat([x.scores[:, 1:] for x in slices], 1)
    ids = torch.cat([x.ids[:, 1:] for x in slices], 1)
    scores, order = scores.topk(min(top + 1, scores.shape[1]), dim=1)
    return Highest(torch.cat([maximum, scores], 1), torch.cat([best, ids.gather(1, order)], 1))


def candidates_of_scores(found: Highest, top: int) -> TopCandidates:
    """Sort the candidates by rank, tied ones by id."""
    maximum, best = found.scores[:, 0], found.ids[:, 0]
    best = best.masked_fill(~(maximum > -torch.inf), -1)  # a NaN compares false
    values, ids = found.scores[:, 1:], found.ids[:, 1:]  # NaN first, because it counts as above
    if not values.shape[1]:
        return TopCandidates(0, (maximum != -torch.inf).long(), best, ids, ids)
    present = values != -torch.inf
    retrieved = present[:, :top].sum(1)
    if values.shape[1] > top:
        present = present & ~_same(values, values[:, top:])  # drop a tied block that crosses `top`
        present[:, top:] = False
    change = torch.ones_like(present)
    change[:, 1:] = ~_same(values[:, 1:], values[:, :-1])
    rank = torch.arange(values.shape[1], device=values.device)
    above = (rank * change).cummax(1).values[:, :top]
    ids = ids.masked_fill(~present, _NO_ID)[:, :top]
    in_order = backends.choose(ids).sort((above << 31) + ids)
    above, ids = in_order >> 31, in_order & _NO_ID
    return TopCandidates(top, retrieved, best, ids.masked_fill(ids == _NO_ID, -1), above)


def _same(left: Tensor, right: Tensor) -> Tensor:
    """Return which scores are tied; NaN are tied with each other."""
    return (left == right) | (left.isnan() & right.isnan())


def candidates_of_lists(lists: Tensor, top: int) -> TopCandidates:
    """Return the first candidates of lists of ids `[N, K]`."""
    ids = lists[:, :top].clone()
    above = torch.arange(ids.shape[1], device=lists.device).expand_as(ids)
    # the list length; padding may also stand between ids
    retrieved = (lists >= 0).sum(1).clamp(max=top)
    return TopCandidates(top, retrieved, ids[:, 0], ids, above)
