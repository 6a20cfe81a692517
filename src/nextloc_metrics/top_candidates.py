"""The first candidates, for metrics that need their ids."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.checks import as_int
from nextloc_metrics.messages import short
from nextloc_metrics.record import TopCandidates

# An id above all others: candidates are sorted by (rank, id) in 62 bits.
_NO_ID = (1 << 31) - 1


class Highest(NamedTuple):
    """The best scores of every query and the ids of their candidates."""

    best: tuple[Tensor, Tensor]  #: the maximum `[N]`, and the lowest id with this score
    first: tuple[Tensor, Tensor] | None  #: the first top + 1 scores and ids `[N, T]`, if top > 1

    def numbered_from(self, start: int) -> Highest:
        """Add `start` to all ids."""
        (maximum, best), first = self
        return Highest((maximum, best + start), first and (first[0], first[1] + start))


def merge(best: tuple[Tensor, Tensor], first: tuple[Tensor, Tensor] | None, top: int) -> Highest:
    """Merge the best candidates of S slices.

    Args:
        best: maxima `[N, S]` and ids `[N, S]`.
        first: scores `[N, S * T]` and ids `[N, S * T]`, for `top` above 1.
        top: the number of first ranks to keep.
    """
    maxima, ids = best
    maximum = maxima.amax(1, keepdim=True)
    lowest = ids.masked_fill(maxima != maximum, _NO_ID).amin(1)
    if first is None:
        return Highest((maximum[:, 0], lowest), None)
    values, order = first[0].topk(min(top + 1, first[0].shape[1]), dim=1)
    return Highest((maximum[:, 0], lowest), (values, first[1].gather(1, order)))


def candidates_of_scores(found: Highest, top: int) -> TopCandidates:
    """Sort the candidates by rank, tied ones by id."""
    maximum, best = found.best
    best = best.masked_fill(~(maximum > -torch.inf), -1)  # a NaN compares false
    if found.first is None:
        none = best.new_empty(len(best), 0)
        return TopCandidates(0, (maximum != -torch.inf).long(), best, none, none)
    values, ids = found.first  # NaN first, because it counts as above
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


def concatenate(parts: list[TopCandidates | None]) -> TopCandidates | None:
    """Concatenate the first candidates of several blocks of queries."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    columns = zip(*[(x.retrieved, x.best, x.ids, x.above) for x in found], strict=True)
    return TopCandidates(found[0].top, *map(torch.cat, columns))


def candidates_of_lists(lists: Tensor, top: int) -> TopCandidates:
    """Return the first candidates of lists of ids `[N, K]`."""
    ids = lists[:, :top].clone()
    above = torch.arange(ids.shape[1], device=lists.device).expand_as(ids)
    # the list length; padding may also stand between ids
    retrieved = (lists >= 0).sum(1).clamp(max=top)
    return TopCandidates(top, retrieved, ids[:, 0], ids, above)


def number_to_find(top: int, best_only: bool) -> int:
    """Return the number of first ranks to find: a tie for rank 1 needs the second one."""
    return 2 if top == 1 and not best_only else top


def keep_first(first: TopCandidates | None, top: int) -> TopCandidates | None:
    """Cut the candidates to the first `top` ranks."""
    return first if first is None or first.top <= top else first.cut(top)


def check_top(
    top: int, depth: int | None = None, best_only: bool = False
) -> tuple[int, int | None]:
    """Return `top` and `depth`, or raise if one of them or `best_only` is wrong."""
    top, depth = as_int(top), as_int(depth)
    if type(top) is not int or top < 0:
        raise ValueError(f"`top` must be an integer of at least 0, got {short(top)}.")
    if depth is not None and (type(depth) is not int or depth < 1):
        raise ValueError(f"`depth` must be None or a positive integer, got {short(depth)}.")
    if not isinstance(best_only, bool):
        raise ValueError(f"`best_only` must be True or False, got {short(best_only)}.")
    return top, depth
