"""The reference backend: the definition of all counts in PyTorch operations, for any device.

A NaN among the candidates compares false with everything. So `above` is counted as the number of
candidates minus those lower or equal: a NaN then counts as above, and never helps a model.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import must_not_sync, row_sum

#: `above` of a relevant location that the model does not retrieve: beyond every cut-off `k`
UNRETRIEVED = 1 << 62

#: an id that no list holds, not even as padding
UNLISTED = -1 << 63

#: the bins of columns and of rows
Bins = tuple[Tensor, Tensor]

# Up to this many relevant locations, every candidate is compared with each; beyond, a binary search
# among the sorted relevant scores takes log2(M) steps instead of M.
FEW_RELEVANT = 64

# Candidates are sorted by rank and id in one integer.
_ID_BITS = 31

# Elements of a work buffer: on the CPU few enough for the caches; on other devices enough to keep
# every core busy, and few compared with the scores.
_BUFFER_ELEMENTS = 1 << 18
_DEVICE_BUFFER_ELEMENTS = 1 << 22


class Reference:
    """The interface of a backend: pure functions on plain tensors."""

    name = "reference"
    tallies_scores = False  #: whether `tally_scores` is implemented
    is_proven = True  #: whether `choose` may return this backend without the check in `proof`

    def unable(self, values: Tensor) -> str | None:
        """Return the reason why this backend cannot read the tensor, or None."""
        return None

    def survey(
        self, scores: Tensor, own: Tensor, find_best: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Count the candidates around each relevant location, and find the best candidate.

        Args:
            scores: floating `[N, C]`, the scores of all candidates.
            own: floating `[N, M]`, the scores of the relevant ones; NaN counts nothing.
            find_best: whether to find the best candidate.

        Returns:
            `above` and `tied`, int64 `[N, M]`; and the lowest index of the maximum (or of a NaN),
            int64 `[N]`, or None.
        """
        few = own.shape[1] <= FEW_RELEVANT
        below, below_or_tied = (_compare_each if few else _search_sorted)(scores, own)
        best = scores.argmax(1) if find_best else None  # the first if several are tied
        return scores.shape[1] - below_or_tied, below_or_tied - below, best

    def first(self, scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """Return the scores and ids of the first candidates, `[N, min(number, C)]`.

        They are ordered by score, NaN first, and tied ones by id: of those tied for the last rank
        the lowest ids are returned.

        Args:
            scores: floating `[N, C]`.
            number: the number of candidates.
        """
        values, ids = scores.topk(min(number + 1, scores.shape[1]), dim=1)
        beyond, values, ids = values[:, number:], values[:, :number], ids[:, :number]
        last = values[:, -1:]
        if beyond.shape[1] and (must_not_sync(scores) or bool(_same(last, beyond).any())):
            is_last = _same(values, last)
            place = (is_last.cumsum(1) - 1).clamp(min=0)
            for part in _parts(scores, 4):
                lowest = _lowest_ids(scores[part], last[part], number).gather(1, place[part])
                ids[part] = torch.where(is_last[part], lowest, ids[part])
        in_order = ((count_above(values) << _ID_BITS) + ids).sort(1).values
        ids = in_order & ((1 << _ID_BITS) - 1)
        return scores.gather(1, ids), ids

    def survey_bins(
        self, scores: Tensor, own: Tensor, bins: Bins, candidates: int, most: int = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Count the candidates of one bin around a relevant location, or the first ones of the bin.

        Args:
            scores: floating `[N, C]`.
            own: floating `[N]`, above -inf where a bin is given.
            bins: int64 `[C]`, the bin of each candidate, from 0; and `[N]`, the bin that each row
                counts; -1 counts nothing.
            candidates: the number of first ranks of all bins, which hold as many NaN at most.
            most: how many of the bin's first candidates to count; 0 counts around `own`.

        Returns:
            `above` and `tied`, int64 `[N]`, zeros with `most`; and how many of the bin's first
            `most` candidates are among the first `candidates` ranks, without a tied block that
            crosses the last of these ranks.
        """
        of_columns, of_rows = bins
        counts = torch.zeros(3, len(scores), dtype=torch.int64, device=scores.device)
        parts: Sequence[Any] = _parts(scores, 4)
        if not must_not_sync(scores):
            rows = (of_rows >= 0).nonzero()[:, 0]
            parts = torch.split(rows, parts[0].stop) if len(rows) else []
        for part in parts:
            every = scores[part]
            inside = of_columns == of_rows[part][:, None]
            of_bin = torch.where(inside, every, -torch.inf)
            if not most:
                above, tied, _ = self.survey(of_bin, own[part][:, None], False)
                counts[0, part], counts[1, part] = above[:, 0], tied[:, 0]
                continue
            values, _ = self.first(of_bin, most)
            higher, same, _ = self.survey(every, values, False)
            is_first = (higher + same <= candidates) | values.isnan()
            counts[2, part] = (is_first & (values != -torch.inf)).sum(1)
        return counts[0], counts[1], counts[2]

    def find(self, lists: Tensor, ids: Tensor) -> Tensor:
        """Find the first position of ids `[N, M]` in lists `[N, K]`; UNRETRIEVED if absent.

        Args:
            lists: int64 `[N, K]`, K small.
            ids: int64 `[N, M]`, padding below 0.
        """
        length = lists.shape[1]
        wanted = ids.masked_fill(ids < 0, UNLISTED)
        position = torch.arange(length, dtype=torch.int16, device=lists.device)
        positions = torch.where(lists[:, None] == wanted[:, :, None], position, length)
        first = positions.amin(2).long()  # the first of repeated ids
        return first.masked_fill(first == length, UNRETRIEVED)

    def may_repeat(self, lists: Tensor) -> bool:
        """Return False if each list, int64 `[N, K]`, certainly has half as many ids as entries."""
        return True

    def find_true(self, values: Tensor) -> Tensor:
        """Return the flat indices of the true elements of a bool tensor `[N, M]`, int64 `[L]`."""
        return values.flatten().nonzero()[:, 0]

    def sort(self, values: Tensor) -> Tensor:
        """Sort integers `[N, M]` within their rows."""
        return values.sort(dim=-1).values

    def argsort(self, values: Tensor) -> Tensor:
        """Return the stable order of the columns by value, from 0 to 2^40."""
        return values.argsort(dim=1, stable=True)

    def histogram(self, values: Tensor, number: int) -> Tensor:
        """Count the occurrences of each integer below `number`, int64 `[number]`."""
        counts = torch.zeros(number, dtype=torch.int64, device=values.device)
        return counts.index_add_(0, values, torch.ones_like(values))

    def tally_scores(
        self,
        scores: Tensor,
        target: Tensor,
        ignored: int | None,
        formulas: tuple[Any, Any, Any, Any],
        num_locations: int | None,
    ) -> tuple[Tensor, Tensor | None] | None:
        """Count and score queries with one relevant location each in one pass.

        Args:
            scores: floating `[N, C]`.
            target: int64 `[N]`, the relevant ids.
            ignored: an id that is never relevant.
            formulas: arrays: the table of summed weights; and per formula its last rank, the
                start of its weight in the table, and its divisor.
            num_locations: the number of locations whose decisions are counted; None for none.

        Returns:
            The sums of the formulas, int64 `[F, 3]`, and the decisions, int64 `[3, L + 1]`; None
            if the backend cannot do this.
        """
        return None

    def tally_lists(
        self,
        lists: Tensor,
        ids: Tensor,
        formulas: tuple[Any, Any, Any],
        num_locations: int | None = None,
    ) -> tuple[Tensor, Tensor | None] | None:
        """Find and score the relevant ids of lists in one pass; each query has at least one.

        Args:
            lists: int64 `[N, K]`, padded with -1.
            ids: int64 `[N, M]`, the relevant ids, padded with -1.
            formulas: arrays: the table of summed weights; int64 `[F, 3]`, the start of a formula's
                weight in the table, its last rank, and whether it sums the first weight (0), all
                weights (1), or all times their number in order (2); and float64 `[F, M + 1]`, its
                divisors by the number of relevant ids.
            num_locations: the number of locations whose decisions are counted; None for none. Then
                M is 1, and a relevant id is below it.

        Returns:
            The sums of the formulas, int64 `[F, 3]`, and the decisions, int64 `[3, L + 1]`; None if
            the backend cannot do this, a number is no id, a relevant id repeats, or a query has
            none.
        """
        table, numbers, divisors = map(torch.from_numpy, formulas)
        number, in_order = (ids >= 0).sum(1), ids.sort(1).values
        repeats = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
        if int(lists.amin()) < -1 or int(ids.amin()) < -1 or repeats.any() or not number.all():
            return None
        decisions = None
        if num_locations is not None:
            if int(ids.amax()) >= num_locations:
                return None
            decided = lists[:, 0].clamp(max=num_locations)
            rows = decided.where(decided == ids[:, 0], -1), decided, ids[:, 0]
            width = num_locations + 1
            decisions = torch.stack([self.histogram(x + 1, width + 1)[1:] for x in rows])
        above = self.find(lists, ids).sort(1).values
        place = torch.arange(1, ids.shape[1] + 1, device=ids.device).double()
        sums = []
        for (start, last, kind), divisor in zip(numbers.tolist(), divisors, strict=True):
            ends = [x.clamp(max=last) + start for x in (above, above + 1)]
            values = table[ends[1]] - table[ends[0]]
            values = values[:, :1] if kind == 0 else values * place if kind == 2 else values
            score = (row_sum(values) / divisor[number]).clamp(max=1)
            fixed = [(one * 2**32 + 0.5).long().sum() for one in (score, score * score)]
            sums.append(torch.stack([*fixed, torch.tensor(len(ids), device=ids.device)]))
        return torch.stack(sums), decisions


def count_above(values: Tensor) -> Tensor:
    """Count the candidates above each one, int64 `[N, T]`, of scores in order, NaN first."""
    above = torch.zeros(values.shape, dtype=torch.int64, device=values.device)
    if values.shape[1] > 1:
        rank = torch.arange(1, values.shape[1], device=values.device)
        is_tied = _same(values[:, 1:], values[:, :-1])
        above[:, 1:] = rank.masked_fill(is_tied, 0).cummax(1).values
    return above


def _lowest_ids(scores: Tensor, score: Tensor, number: int) -> Tensor:
    """Return the lowest ids of the candidates with a score `[N, 1]`."""
    ids = torch.arange(scores.shape[1], device=scores.device)
    tied = ids.where(_same(scores, score), scores.shape[1])
    return tied.topk(number, dim=1, largest=False).values


def _same(left: Tensor, right: Tensor) -> Tensor:
    """Return which scores are tied; NaN are tied with each other."""
    return (left == right) | (left.isnan() & right.isnan())


def _parts(scores: Tensor, arrays: int) -> list[slice]:
    """Return slices of rows; `arrays` arrays of a slice fit into a work buffer."""
    elements = _BUFFER_ELEMENTS if scores.is_cpu else _DEVICE_BUFFER_ELEMENTS
    rows = max(1, elements // scores.shape[1] // arrays)
    return [slice(row, row + rows) for row in range(0, len(scores), rows)]


def _compare_each(scores: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many candidates are below, and below or tied with, each relevant score."""
    counts = torch.empty(2, *own.shape, dtype=torch.int64, device=own.device)
    for part in _parts(scores, 1):
        for j in range(own.shape[1]):
            block, at = scores[part], own[part, j : j + 1]
            counts[:, part, j] = torch.stack([(block < at).sum(1), (block <= at).sum(1)])
    return counts[0], counts[1]


def _search_sorted(scores: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `_compare_each` returns, by a binary search among the relevant scores."""
    num_relevant = own.shape[1]
    # sorting needs values that compare, so NaN becomes infinity
    thresholds, order = own.nan_to_num(torch.inf, torch.inf, -torch.inf).sort(dim=1)
    counts = torch.empty(2, *own.shape, dtype=torch.int64, device=own.device)
    for part in _parts(scores, 1):
        block = scores[part].contiguous()
        offset = torch.arange(block.shape[0], device=own.device)[:, None] * (num_relevant + 1)
        for side, right in enumerate((True, False)):
            # the number of thresholds below (or at) each candidate, then its histogram
            bucket = torch.searchsorted(thresholds[part], block, right=right) + offset
            number = offset.numel() * (num_relevant + 1)
            if must_not_sync(bucket):
                sizes = Reference().histogram(bucket.flatten(), number)
            else:
                sizes = bucket.flatten().bincount(minlength=number)
            fewer = sizes.view(-1, num_relevant + 1).cumsum(1)[:, :-1]
            counts[side, part].scatter_(1, order[part], fewer)
    return counts[0], counts[1]
