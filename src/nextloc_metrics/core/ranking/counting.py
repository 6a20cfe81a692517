"""The ranks of relevant locations, in scores or in lists, and the first candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.backends.reference import UNLISTED, UNRETRIEVED, count_above
from nextloc_metrics.core.queries.arrays import must_not_sync
from nextloc_metrics.core.queries.messages import got
from nextloc_metrics.core.ranking.target import Relevant, fill_slots, slots_of_sizes


@dataclass(eq=False)
class TopCandidates:
    """The first candidates of a batch of queries: by score, tied ones by id.

    Of a tied block that crosses rank `top`, the lowest ids are taken. `ids` holds -1 where there is
    no candidate: read tables by `look_up`, not by indexing.

    Attributes:
        top: the number of first ranks.
        retrieved: int64 `[N]`, the number of first ranks that have a candidate.
        best: int64 `[N]`, as [`Ranking.best`][nextloc_metrics.Ranking.best].
        ids: int64 `[N, T]`, T = min(top, C), -1 for none. A candidate scored NaN comes first.
        above: int64 `[N, T]`, the number of candidates above each candidate.
    """

    top: int
    retrieved: Tensor
    best: Tensor
    ids: Tensor
    above: Tensor

    @property
    def known(self) -> Tensor:
        """Which of `ids` are candidates that are not scored NaN, bool `[N, T]`."""
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
        kept = [part for part in parts if part is not None]
        if not kept:
            return None
        columns = zip(*[(x.retrieved, x.best, x.ids, x.above) for x in kept], strict=True)
        return cls(kept[0].top, *map(torch.cat, columns))

    @classmethod
    def of_scores(cls, first: First, top: int) -> TopCandidates:
        """Return the first `top` candidates, of their scores and ids."""
        scores, ids = first
        is_ranked = scores != -torch.inf
        best = ids[:, 0].masked_fill(~(scores[:, 0] > -torch.inf), -1)  # a NaN compares false
        ids = ids.masked_fill(~is_ranked, -1)
        return cls(top, is_ranked.sum(1), best, ids, count_above(scores))

    @classmethod
    def of_lists(cls, lists: Tensor, top: int, blocks: Blocks | None = None) -> TopCandidates:
        """Return the first `top` candidates, of lists of ids `[N, K]` and their tied blocks."""
        ids = lists[:, :top].clone()
        above = torch.arange(ids.shape[1], device=lists.device).expand_as(ids)
        if blocks is not None:
            above = blocks.above[:, :top]
        # padding may also stand between ids
        retrieved = (lists >= 0).sum(1).clamp(max=top)
        return cls(top, retrieved, ids[:, 0], ids, above)


class Blocks(NamedTuple):
    """The tied blocks of lists: for each position, how many ids are above its block, and in it."""

    above: Tensor  #: int64 `[N, K]`
    tied: Tensor  #: int64 `[N, K]`, at least 1

    @classmethod
    def of(cls, lists: Tensor, scores: Tensor) -> Blocks | None:
        """Return the blocks of neighbours with equal scores; None if no list has one."""
        same = (scores[:, 1:] == scores[:, :-1]) & (lists[:, 1:] >= 0) & (lists[:, :-1] >= 0)
        if not must_not_sync(same) and not same.any():
            return None
        position = torch.arange(lists.shape[1], device=lists.device).expand_as(lists)
        begins, ends = (torch.ones_like(lists, dtype=torch.bool) for _ in range(2))
        begins[:, 1:], ends[:, :-1] = ~same, ~same
        above = position.where(begins, 0).cummax(1).values
        last = position.where(ends, lists.shape[1]).flip(1).cummin(1).values.flip(1)
        return cls(above, last - above + 1)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return how many ids are above, and tied with, the ids at these positions `[N, M]`."""
        missing = positions >= UNRETRIEVED
        above, tied = (x.gather(1, positions.masked_fill(missing, 0)) for x in self)
        return above.masked_fill(missing, UNRETRIEVED), tied.masked_fill(missing, 1)


def look_up(table: Tensor, ids: Tensor, is_candidate: Tensor, fill: float) -> Tensor:
    """Return rows of a table, and `fill` where an id is no candidate, or not in the table."""
    if not isinstance(table, Tensor) or table.ndim == 0:
        raise TypeError(
            f"`table` must be a tensor with one row per location, {got('table', table)}."
        )
    table = table.to(ids.device)
    in_table = is_candidate & (ids < len(table))
    if not len(table):
        return table.new_full((*ids.shape, *table.shape[1:]), fill)
    rows = table[torch.where(in_table, ids, 0)]
    return rows.masked_fill(~in_table.view(*ids.shape, *[1] * (table.ndim - 1)), fill)


#: the first candidates of N queries, by score and then by id: their scores and ids `[N, T]`
First = tuple[Tensor, Tensor]


def merge_top(slices: Sequence[First], top: int) -> First:
    """Merge the first candidates of slices of all candidates; the slices are in order of ids."""
    scores, ids = (torch.cat(columns, 1) for columns in zip(*slices, strict=True))
    scores, order = backends.choose(scores).first(scores, top)
    return scores, ids.gather(1, order)


# A sort key above all ranks.
_BEYOND = 1 << 39

_Sorted = tuple[Tensor, Tensor]  # values and their positions before sorting

# In longer lists, many repeats are an error: visit counts `[N, C]` repeat a few small numbers.
LONGEST_UNCHECKED_LIST = 64

# In lists up to this length, an id is found by a linear search, and else by a binary search.
_SHORT_LIST = 32

# At most 1 / _COPIED_SHARE of the scores, or _COPIED_ELEMENTS, are copied at once.
_COPIED_SHARE = 1 << 5
_COPIED_ELEMENTS = 1 << 16

# Cost model: finding k first candidates costs about as much as counting around k / 6 relevant
# locations, if C >= 16 k.
_RANKS_PER_COUNT = 6
_MANY_CANDIDATES = 1 << 4


class FoundRanks(NamedTuple):
    """The ranks of relevant locations, and the first candidates if a metric reads any."""

    ids: Tensor  #: int64 `[N, M]`, -1 for padding
    above: Tensor  #: int64 `[N, M]`, UNRETRIEVED for padding, and where the score is NaN or -inf
    tied: Tensor  #: int64 `[N, M]`, 1 where `above` is UNRETRIEVED
    first: TopCandidates | None

    @classmethod
    def of_counts(
        cls, ids: Tensor, scores: Tensor, above: Tensor, tied: Tensor, first: TopCandidates | None
    ) -> FoundRanks:
        """Return the ranks of ids by counts around their scores `[N, M]`, NaN for padding."""
        unretrieved = ~(scores > -torch.inf)  # a NaN compares false
        above = above.masked_fill(unretrieved, UNRETRIEVED)
        return cls(ids, above, tied.masked_fill(unretrieved, 1), first)

    @classmethod
    def cat(cls, parts: Sequence[FoundRanks]) -> FoundRanks:
        """Concatenate the ranks of several blocks of queries."""
        ids, above, tied, first = zip(*parts, strict=True)
        return cls(torch.cat(ids), torch.cat(above), torch.cat(tied), TopCandidates.cat(first))


def find_ranks(scores: Tensor, relevant: Relevant, depth: int | None, top: int) -> FoundRanks:
    """Find the ranks of the relevant candidates in scores, floating `[N, C]`.

    Only the first `depth` ranks matter; None for all. Without grades, relevant candidates beyond
    them may be left out. The candidates on the first `top` ranks are kept.
    """
    near = None if depth is None else _find_within(scores, relevant, depth)
    if near is not None:
        return FoundRanks(*near, find_first(scores, top) if top else None)
    ids = relevant.ids
    relevant_scores = scores.gather(1, ids.clamp(min=0)).masked_fill(ids < 0, torch.nan)
    above, tied, first = count_around(scores, relevant_scores, top)
    candidates = None if first is None else TopCandidates.of_scores(first, top)
    return FoundRanks.of_counts(ids, relevant_scores, above, tied, candidates)


def find_first(scores: Tensor, top: int) -> TopCandidates:
    """Return the first `top` candidates."""
    return TopCandidates.of_scores(backends.choose(scores).first(scores, top), top)


def count_around(
    scores: Tensor, relevant_scores: Tensor, top: int
) -> tuple[Tensor, Tensor, First | None]:
    """Count the candidates above and tied with `[N, M]` scores, and find the first `top` ones."""
    backend = backends.choose(scores)
    above, tied, best = backend.survey(scores, relevant_scores, top == 1)
    if best is not None:
        ids = best[:, None]
        return above, tied, (scores.gather(1, ids), ids)
    return above, tied, backend.first(scores, top) if top else None


def _find_within(
    scores: Tensor, relevant: Relevant, depth: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Find the relevant candidates on the first `depth` ranks, and their `above` and `tied`.

    The candidates above them are on these ranks, and so are those tied with them, unless they are
    tied with the last rank. None if counting around all relevant candidates is faster.
    """
    is_shallow = depth * _MANY_CANDIDATES <= scores.shape[1]
    if not is_shallow or relevant.max_number * _RANKS_PER_COUNT <= max(_RANKS_PER_COUNT, depth):
        return None
    backend = backends.choose(scores)
    first, _ = backend.first(scores, depth + 1)
    ids = relevant.ids
    last, beyond = first[:, depth - 1 : depth], first[:, depth:]
    relevant_scores = scores.gather(1, ids.clamp(min=0))
    retrieved = (relevant_scores >= last) & (relevant_scores > -torch.inf) & (ids >= 0)
    if relevant.grades is None:
        kept = backend.find_true(retrieved)
        retrieved = slots_of_sizes(retrieved.sum(1))
        ids = fill_slots(retrieved, ids.take(kept), -1)
        relevant_scores = fill_slots(retrieved, relevant_scores.take(kept), -1)
    # count above and tied with each relevant score, among the sorted scores of the first ranks
    is_nan = first[:, :depth].isnan()
    ascending = -first[:, :depth].masked_fill(is_nan, torch.inf)
    num_nan = is_nan.sum(1, keepdim=True)  # NaN are above all scores, even above inf
    above = torch.searchsorted(ascending, -relevant_scores).clamp_(min=num_nan)
    tied = torch.searchsorted(ascending, -relevant_scores, right=True).sub_(above)
    crosses = retrieved & (relevant_scores == beyond)  # the tied block ends beyond the last rank
    if crosses.any():
        in_all = torch.zeros_like(ids[:, :1])
        rows = crosses.any(1).nonzero()[:, 0]
        size = max(1, len(scores) // _COPIED_SHARE, _COPIED_ELEMENTS // scores.shape[1])
        for part in torch.split(rows, size):
            in_all[part] = backend.survey(scores[part], last[part], find_best=False)[1]
        tied = torch.where(crosses, in_all, tied)
    return ids, above.masked_fill_(~retrieved, UNRETRIEVED), tied.masked_fill_(~retrieved, 1)


def comparable(scores: Tensor) -> Tensor:
    """Return scores in plain memory, without gradients."""
    return scores.detach().resolve_neg()


def flat_lists(preds: Tensor) -> Tensor:
    """Return lists `[..., K]` as int64 `[N, max(K, 1)]`; -1 where all lists are empty."""
    if not preds.shape[-1]:
        return preds.new_full((preds.shape[:-1].numel(), 1), -1, dtype=torch.int64)
    return preds.reshape(-1, preds.shape[-1]).long().contiguous()


def find_in_lists(lists: Tensor, ids: Tensor, depth: int | None, counted: Tensor | None) -> Tensor:
    """Return the first rank minus 1 of ids `[N, M]` in lists `[N, K]`, UNRETRIEVED if absent.

    Only the first `depth` ranks are searched; None for all. The lists of `counted` rows, bool
    `[N]`, are checked; None checks none.
    """
    near = lists[:, :depth]
    by_id = near.sort(dim=1, stable=True) if near.shape[1] > _SHORT_LIST else None
    if counted is not None:
        check_lists(lists, counted, by_id if near.shape == lists.shape else None)
    if by_id is None:
        return backends.choose(near).find(near, ids)
    wanted = ids.masked_fill(ids < 0, UNLISTED)
    in_order, position = by_id  # a stable sort puts the first of repeated ids first
    slot = torch.searchsorted(in_order, wanted).clamp(max=near.shape[1] - 1)
    is_listed = in_order.gather(1, slot) == wanted
    return position.gather(1, slot).masked_fill(~is_listed, UNRETRIEVED)


def check_lists(lists: Tensor, counted: Tensor, by_id: _Sorted | None = None) -> None:
    """Raise if a row that counts is no list of ids; other rows may hold anything."""
    if not lists.numel():
        return
    lowest = int(lists.amin())
    if lowest < -1:
        lowest = int(lists.masked_fill(~counted[:, None], 0).amin())
    if lowest < -1:
        raise ValueError(f"`preds` must hold ids of at least 0 (-1 pads), got {lowest}.")
    if lists.shape[1] > LONGEST_UNCHECKED_LIST and backends.choose(lists).may_repeat(lists):
        in_order = by_id[0] if by_id else backends.choose(lists).sort(lists)
        same = in_order[:, 1:] == in_order[:, :-1]
        if not same.any():
            return
        written = in_order >= 0
        repeats = (same & written[:, 1:]).sum(1)
        entries = written.sum(1)
        is_long = entries > LONGEST_UNCHECKED_LIST  # shorter lists are padded to the width
        wrong_rows = (counted & is_long & (2 * repeats > entries)).nonzero()
        if wrong_rows.numel():
            row = int(wrong_rows[0])
            raise ValueError(
                f"integer `preds` must be lists of ids, best first, but {int(repeats[row])} of the "
                f"{int(entries[row])} entries of query {row} repeat an id, as visit counts do; "
                "pass scores as `.float()`, or such lists with `validate_args=False`."
            )


def order_columns(found: FoundRanks, grades: Tensor | None) -> dict[str, Tensor | None]:
    """Sort columns by rank, equal ranks by descending grade; return a `Ranking`'s attributes."""
    ids, above, tied, _ = found
    if above.shape[1] > 1:
        ranks, backend = above.clamp(max=_BEYOND), backends.choose(above)
        if grades is None:
            order = backend.argsort(ranks + (ids < 0))  # padding after unretrieved locations
        else:
            by_grade = grades.argsort(dim=1, descending=True, stable=True)
            order = by_grade.gather(1, backend.argsort(ranks.gather(1, by_grade)))
            grades = grades.gather(1, order)
        above, tied, ids = (x.gather(1, order) for x in (above, tied, ids))
    columns = {"above": above, "tied": tied, "relevant": ids, "grades": grades}
    return {**columns, **_among_relevant(above)}


def _among_relevant(above: Tensor) -> dict[str, Tensor]:
    """Count, for each relevant location of a query, the others above it and those tied with it."""
    relevant_above, relevant_tied = torch.zeros_like(above), torch.ones_like(above)
    counts = {"relevant_above": relevant_above, "relevant_tied": relevant_tied}
    most = above.shape[1]
    if most == 1:
        return counts
    retrieved = above < UNRETRIEVED
    if len(above) and not must_not_sync(above):
        most = int(retrieved.sum(1).max())
    ranks = above[:, :most].contiguous()
    first = torch.searchsorted(ranks, ranks)
    behind = torch.searchsorted(ranks, ranks, right=True)
    relevant_above[:, :most] = first.masked_fill(~retrieved[:, :most], 0)
    relevant_tied[:, :most] = (behind - first).masked_fill(~retrieved[:, :most], 1)
    return counts
