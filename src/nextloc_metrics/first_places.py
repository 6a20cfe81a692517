"""The candidates on the first places, for the few metrics that need to know which they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.messages import got

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


def merge(best: tuple[Tensor, Tensor], first: tuple[Tensor, Tensor] | None, top: int) -> Highest:
    """Put what was found in S slices of the candidates together.

    Args:
        best: maxima `[N, S]` and ids `[N, S]`.
        first: scores `[N, S * T]` and ids `[N, S * T]`, for `top` above 1.
        top: how many of the first places to keep.
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
    in_order = backends.choose(ids).sort((above << 31) + ids)  # by id among equals
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
