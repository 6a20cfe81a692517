"""The first candidates, for the few metrics that need to know which they are."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.messages import short
from nextloc_metrics.record import TopCandidates

# Behind every id where candidates are ordered by (rank, id) in 62 bits.
_NO_ID = (1 << 31) - 1


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
        top: how many of the first ranks to keep.
    """
    maxima, ids = best
    maximum = maxima.amax(1, keepdim=True)
    lowest = ids.masked_fill(maxima != maximum, _NO_ID).amin(1)
    if first is None:
        return Highest((maximum[:, 0], lowest), None)
    values, order = first[0].topk(min(top + 1, first[0].shape[1]), dim=1)
    return Highest((maximum[:, 0], lowest), (values, first[1].gather(1, order)))


def candidates_of_scores(found: Highest, top: int) -> TopCandidates:
    """Put the candidates in the order of their ranks, tied ones by id."""
    maximum, best = found.best
    best = best.masked_fill(~(maximum > -torch.inf), -1)  # a NaN compares false
    if found.first is None:
        none = best.new_empty(len(best), 0)
        return TopCandidates(0, (maximum != -torch.inf).long(), best, none, none)
    values, ids = found.first  # NaN first, as it is counted
    present = values != -torch.inf
    retrieved = present[:, :top].sum(1)
    if values.shape[1] > top:
        present = present & ~_same(values, values[:, top:])  # a block that crosses goes whole
        present[:, top:] = False
    change = torch.ones_like(present)
    change[:, 1:] = ~_same(values[:, 1:], values[:, :-1])
    rank = torch.arange(values.shape[1], device=values.device)
    above = (rank * change).cummax(1).values[:, :top]
    ids = ids.masked_fill(~present, _NO_ID)[:, :top]
    in_order = backends.choose(ids).sort((above << 31) + ids)  # by id among equals
    above, ids = in_order >> 31, in_order & _NO_ID
    return TopCandidates(top, retrieved, best, ids.masked_fill(ids == _NO_ID, -1), above)


def _same(left: Tensor, right: Tensor) -> Tensor:
    """Tell which scores are tied; those that are NaN stand together, above all others."""
    return (left == right) | (left.isnan() & right.isnan())


def concatenate(parts: list[TopCandidates | None]) -> TopCandidates | None:
    """Put what was found for several blocks of queries together."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    columns = zip(*[(x.retrieved, x.best, x.ids, x.above) for x in found], strict=True)
    return TopCandidates(found[0].top, *map(torch.cat, columns))


def candidates_of_lists(lists: Tensor, top: int) -> TopCandidates:
    """Take the candidates from lists of ids `[N, K]`."""
    ids = lists[:, :top].clone()
    above = torch.arange(ids.shape[1], device=lists.device).expand_as(ids)
    # the length of a list, in which padding may also be written between ids
    retrieved = (lists >= 0).sum(1).clamp(max=top)
    return TopCandidates(top, retrieved, ids[:, 0], ids, above)


def number_to_find(top: int, best_only: bool) -> int:
    """Return how many first ranks to look for: a tie for the first is seen by the second."""
    return 2 if top == 1 and not best_only else top


def keep_first(first: TopCandidates | None, top: int) -> TopCandidates | None:
    """Keep no more than were asked for."""
    return first if first is None or first.top <= top else first.cut(top)


def check_top(top: int, depth: int | None = None, best_only: bool = False) -> None:
    """Raise where one of what is to be kept is wrong."""
    if type(top) is not int or top < 0:
        raise ValueError(f"`top` must be an integer of at least 0, got {short(top)}.")
    if depth is not None and (type(depth) is not int or depth < 1):
        raise ValueError(f"`depth` must be None or a positive integer, got {short(depth)}.")
    if not isinstance(best_only, bool):
        raise ValueError(f"`best_only` must be True or False, got {short(best_only)}.")
