"""The candidates on the first places, for the few metrics that need to know which they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics import threads
from nextloc_metrics.devices import waits_to_look
from nextloc_metrics.messages import got
from nextloc_metrics.rows import columns_of_highest_values, highest_values, sort_rows, topk

# Maxima of smaller groups of candidates cost more than they spare.
_SMALLEST_GROUP = 12

# Candidates in the best groups that are looked at together: these are copied.
_INSIDE_AT_ONCE = 1 << 18

# The same where all are parted at the last place, which takes as much again for their order.
_PARTED_AT_ONCE = 1 << 17

# PyTorch's `topk` looks for the first places alone where one candidate of so many is on them.
_SORTED_SHARE = 1 << 6

# Of fewer scores, it takes less to hand them to it.
_MANY_SCORES = 1 << 14

# As many groups as, or a multiple of so many, make their maxima vectorise; so do groups of so many
# adjacent candidates, or a multiple, which are read sooner. Of 16 bits, it takes longer ones, and
# these gain only where rows are long.
_GROUPS = 1 << 6
_RUN = 1 << 6
_RUN_OF_16_BITS = 1 << 8
_LONG_ROW_OF_16_BITS = 5 << 14

# With fewer runs for each place, more candidates would be in the best ones than in smaller groups.
_RUNS_A_PLACE = 1 << 5

# Behind every id where candidates are ordered by (place, id) in 62 bits.
_NO_ID = (1 << 31) - 1


@dataclass(eq=False)
class FirstPlaces:
    """The candidates on the first places of a batch of queries.

    `ids` holds -1 where no candidate is certain, and as an index -1 is the last row of a table:
    [`look_up`][nextloc_metrics.first_places.FirstPlaces.look_up] reads a table safely.

    Attributes:
        top: how many places were asked for; 0 where the best candidate alone was.
        retrieved: int64 `[N]`, how many of them hold a candidate; of the first place where `top`
            is 0.
        best: int64 `[N]`, the best candidate, of tied ones the lowest id; -1 where a row of scores
            has a NaN or nothing above -inf, or a list is empty.
        ids: int64 `[N, T]`, T = min(top, C), best first, -1 where there is none; of tied
            candidates the lowest id first. A block of tied candidates that crosses place `top` is
            left out whole; so for `top=1` any tie for the first place. A candidate scored NaN is
            in front of all others.
        above: int64 `[N, T]`, how many candidates are above each of these.
    """

    top: int
    retrieved: Tensor
    best: Tensor
    ids: Tensor
    above: Tensor

    @property
    def known(self) -> Tensor:
        """Which of the places hold one certain candidate, bool `[N, T]`: no tie, no NaN."""
        is_nan = (self.best < 0)[:, None] & (self.above == 0)
        return (self.ids >= 0) & ~is_nan

    def look_up(self, table: Tensor, fill: float) -> Tensor:
        """Return the rows of a table that belong to the candidates, such as their coordinates.

        Args:
            table: `[C, ...]`, a row for every location.
            fill: what stands where the candidate is not `known`, or its id is not in the table.

        Returns:
            `[N, T, ...]`.

        Raises:
            TypeError: `table` is not a tensor of at least one dimension.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import Ranking
            >>> scores = tensor([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]])  # the second has a tie
            >>> ranking = Ranking.from_scores(scores, tensor([1, 0]), top=1)
            >>> ranking.first_places(1).look_up(tensor([5.0, 6.0, 7.0]), fill=float("nan"))
            tensor([[6.],
                    [nan]])
        """
        return look_up(table, self.ids, self.known, fill)

    def cut(self, top: int) -> FirstPlaces:
        """Keep the first `top` places; a tied block that crosses place `top` goes whole."""
        ids, above = self.ids[:, :top], self.above[:, :top]
        if self.above.shape[1] > top:
            ids = ids.masked_fill(above == self.above[:, top : top + 1], -1)
        return FirstPlaces(top, self.retrieved.clamp(max=top), self.best, ids, above)


def look_up(table: Tensor, ids: Tensor, known: Tensor, fill: float) -> Tensor:
    """Return the rows of a table, and the fill value where an id is not known or not in it."""
    if not isinstance(table, Tensor) or table.ndim == 0:
        raise TypeError(
            f"`table` must be a tensor with a row for every location, {got('table', table)}."
        )
    table = table.to(ids.device)
    known = known & (ids < len(table))
    if not len(table):
        return table.new_full((*ids.shape, *table.shape[1:]), fill)
    rows = table[torch.where(known, ids, 0)]
    return rows.masked_fill(~known.view(*ids.shape, *[1] * (table.ndim - 1)), fill)


class Highest(NamedTuple):
    """The best scores of a query's candidates, and whose they are."""

    best: tuple[Tensor, Tensor]  #: the maximum `[N]`, and the lowest id that has it
    first: tuple[Tensor, Tensor] | None  #: the first top + 1 `[N, T]`, for `top` above 1

    def numbered_from(self, start: int) -> Highest:
        """Number the candidates from `start` on."""
        (maximum, best), first = self
        return Highest((maximum, best + start), first and (first[0], first[1] + start))


def find_first_uncompiled(scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Do what `counting.find_first` does, where nothing is compiled.

    On the CPU first the groups with the highest maxima are found, then the candidates in these; or,
    if they would be small, all are parted at the last place.
    """
    number = min(number, scores.shape[1])
    groups = _choose_groups(scores, number)
    if groups is not None:
        parts = [_find_first(part, number, groups) for part in _parts(scores, number, groups)]
    elif _topk_sorts_all(scores, number):
        rows = max(1, _PARTED_AT_ONCE // scores.shape[1])
        parts = threads.map_parts(lambda part: topk(part, number), torch.split(scores, rows))
    else:
        first = scores.topk(number, dim=1)
        return first.values, first.indices
    if len(parts) == 1:
        return parts[0]
    values, ids = (torch.cat(found) for found in zip(*parts, strict=True))
    return values, ids


def highest_scores_by_sort(scores: Tensor, number: int) -> Tensor:
    """Return the first of what `find_first_uncompiled` does, sooner."""
    number = min(number, scores.shape[1])
    groups = _choose_groups(scores, number)
    if groups is None:
        return find_first_uncompiled(scores, number)[0]
    parts = _parts(scores, number, groups)
    return torch.cat([highest_values(_in_best_groups(x, number, groups)[0], number) for x in parts])


class _Groups(NamedTuple):
    """How the candidates, but for some of the last, are parted into groups."""

    number: int
    size: int
    adjacent: bool  #: whether neighbours are in one group, or else in different ones


def _choose_groups(scores: Tensor, number: int) -> _Groups | None:
    """Return the groups in which the first candidates are found soonest; None for no groups."""
    if waits_to_look(scores):
        return None
    num_candidates = scores.shape[1]
    groups = math.isqrt(num_candidates * number)  # about as many as candidates in the best ones
    wide = scores.element_size() > 2
    run, long = (_RUN, 0) if wide else (_RUN_OF_16_BITS, _LONG_ROW_OF_16_BITS)
    if num_candidates >= max(long, number * run * _RUNS_A_PLACE):
        size = max(1, round(num_candidates / groups / run)) * run
        return _Groups(num_candidates // size, size, adjacent=True)
    groups = -(-groups // _GROUPS) * _GROUPS
    size = num_candidates // groups
    return _Groups(groups, size, adjacent=False) if size >= _SMALLEST_GROUP else None


def _topk_sorts_all(scores: Tensor, number: int) -> bool:
    """Tell where PyTorch's `topk` sorts the places of all candidates, and there are many."""
    if waits_to_look(scores):
        return False
    return scores.numel() >= _MANY_SCORES and number * _SORTED_SHARE > scores.shape[1]


def _parts(scores: Tensor, number: int, groups: _Groups) -> tuple[Tensor, ...]:
    """Part the queries, so that few candidates are copied at once."""
    return torch.split(scores, max(1, _INSIDE_AT_ONCE // (number * groups.size)))


def _in_best_groups(scores: Tensor, number: int, chosen: _Groups) -> tuple[Tensor, Tensor]:
    """Copy the scores of the best groups, and of what is in no group; and tell which they are."""
    groups, size, adjacent = chosen
    whole, others = scores[:, : groups * size], scores[:, groups * size :]
    across, along = (1, 2) if adjacent else (2, 1)
    grouped = torch.unflatten(whole, 1, (groups, size) if adjacent else (size, groups))
    best = columns_of_highest_values(grouped.amax(along), number)
    members = best.unsqueeze(along).expand(-1, *((number, size) if adjacent else (size, number)))
    return torch.cat([grouped.gather(across, members).flatten(1), others], 1), best


def _find_first(scores: Tensor, number: int, chosen: _Groups) -> tuple[Tensor, Tensor]:
    groups, size, adjacent = chosen
    inside, best = _in_best_groups(scores, number, chosen)
    values, column = topk(inside, number)
    place = column.numpy()
    slot = np.minimum(place, number * size - 1)
    group, member = (slot // size, slot % size) if adjacent else (slot % number, slot // number)
    group += np.arange(0, best.numel(), number, dtype=np.int64)[:, None]
    first, step = (size, 1) if adjacent else (1, groups)
    ids = first * best.numpy().take(group) + step * member
    np.add(place, (groups - number) * size, out=ids, where=place != slot)  # what is in no group
    return values, torch.from_numpy(ids)


def merge(best: tuple[Tensor, Tensor], first: tuple[Tensor, Tensor] | None, top: int) -> Highest:
    """Put what was found in S slices of the candidates together.

    Args:
        best: maxima `[N, S]` and ids `[N, S]`.
        first: scores `[N, S * T]` and ids `[N, S * T]`, for `top` above 1.
        top: as in `counting.highest`.
    """
    maxima, ids = best
    maximum = maxima.amax(1, keepdim=True)
    lowest = ids.masked_fill(maxima != maximum, _NO_ID).amin(1)
    if first is None:
        return Highest((maximum[:, 0], lowest), None)
    values, order = first[0].topk(min(top + 1, first[0].shape[1]), dim=1)
    return Highest((maximum[:, 0], lowest), (values, first[1].gather(1, order)))


def first_places_of_scores(found: Highest, top: int) -> FirstPlaces:
    """Put the candidates in the order of their places, tied ones by id."""
    maximum, best = found.best
    best = best.masked_fill(~(maximum > -torch.inf), -1)  # a NaN compares false
    if found.first is None:
        none = best.new_empty(len(best), 0)
        return FirstPlaces(0, (maximum != -torch.inf).long(), best, none, none)
    values, ids = found.first  # NaN first, as it is counted
    present = values != -torch.inf
    retrieved = present[:, :top].sum(1)
    if values.shape[1] > top:
        present = present & ~_same(values, values[:, top:])  # a block that crosses goes whole
        present[:, top:] = False
    change = torch.ones_like(present)
    change[:, 1:] = ~_same(values[:, 1:], values[:, :-1])
    place = torch.arange(values.shape[1], device=values.device)
    above = (place * change).cummax(1).values[:, :top]
    ids = ids.masked_fill(~present, _NO_ID)[:, :top]
    in_order = sort_rows((above << 31) + ids)  # by id among equals
    above, ids = in_order >> 31, in_order & _NO_ID
    return FirstPlaces(top, retrieved, best, ids.masked_fill(ids == _NO_ID, -1), above)


def _same(left: Tensor, right: Tensor) -> Tensor:
    """Tell which scores are tied; those that are NaN stand together, above all others."""
    return (left == right) | (left.isnan() & right.isnan())


def first_places_of_lists(lists: Tensor, top: int) -> FirstPlaces:
    """Take the candidates from lists of ids `[N, K]`."""
    ids = lists[:, :top].clone()
    above = torch.arange(ids.shape[1], device=lists.device).expand_as(ids)
    # the length of a list, in which padding may also be written between ids
    retrieved = (lists >= 0).sum(1).clamp(max=top)
    return FirstPlaces(top, retrieved, ids[:, 0], ids, above)
