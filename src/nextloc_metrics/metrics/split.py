"""The computations of decile metrics: lists split by bin, and statistics of histograms."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.ranking.counting import FoundRanks
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.ranking.target import Relevant
from nextloc_metrics.metrics.bins import PopularityBins

MeanOrMedian = Literal["median", "mean"]

#: the list whose ranks are counted: the list of the bin, or the full list
Scope = Literal["within", "all"]

#: returns the length of each row's list, at most a number; undefined without a relevant location
Lengths = Callable[[int], Tensor]


class Split(NamedTuple):
    """The list of each query, split by bin.

    If queries have one relevant location each, a query has one row, for the bin of this location;
    else it has a row for every bin, unmapped first.
    """

    bins: Tensor  #: int64 `[N, B]`, the bin of each row
    within: Ranking  #: the ranks of a row's relevant locations among its candidates, `N * B` rows
    lengths: Lengths


def split_by_bin(
    ranking: Ranking, bins: PopularityBins, candidates: int, scope: Scope = "within"
) -> Split:
    """Split the list of the first `candidates` ranks of each query by bin."""
    relevant_bins = bins.of(ranking.relevant)
    is_single = relevant_bins.shape[1] == 1
    rows = relevant_bins.clamp(max=bins.num_bins)  # an id that is no location is in no bin
    if not is_single:
        rows = torch.arange(bins.num_bins + 1, device=rows.device).expand(len(rows), -1)
    find = _count if is_single and ranking.scores is not None else _sort
    lengths: Lengths
    if scope == "all":
        tied, lengths = ranking.tied, lambda most: find(ranking, bins, rows, candidates)[2](most)
        above = ranking.above.masked_fill(ranking.above + tied > candidates, UNRETRIEVED)
    else:
        above, tied, lengths = find(ranking, bins, rows, candidates)
    inside = (relevant_bins[:, None] == rows[..., None]).flatten(0, 1)

    def every_row(values: Tensor) -> Tensor:
        return values if is_single else values.repeat_interleave(rows.shape[1], 0)

    above = every_row(above).masked_fill(~inside, UNRETRIEVED)
    relevant = Relevant(
        every_row(ranking.relevant).masked_fill(~inside, -1),
        None if ranking.grades is None else every_row(ranking.grades).masked_fill(~inside, 0),
        every_row(ranking.counted),
    )
    tied = every_row(tied).masked_fill(above == UNRETRIEVED, 1)
    ranks = FoundRanks(relevant.ids, above, tied, None)
    return Split(rows, Ranking.of_found(relevant, ranks, torch.Size([rows.numel()])), lengths)


def _sort(
    ranking: Ranking, bins: PopularityBins, rows: Tensor, candidates: int
) -> tuple[Tensor, Tensor, Lengths]:
    """Return ranks within bins and lengths of lists: sort the first candidates by bin and rank."""
    first = ranking.top_candidates(candidates + 1)
    ids, above = first.ids[:, :candidates], first.above[:, :candidates]
    if first.above.shape[1] > candidates:
        ids = ids.masked_fill(above == first.above[:, candidates:], -1)  # a block that crosses
    width = above.shape[1] + 1
    ids = ids.masked_fill(~ranking.counted[:, None], -1)
    keys = backends.choose(ids).sort(bins.of(ids) * width + above)
    edges = torch.arange(bins.num_bins + 2, device=keys.device) * width
    edges = torch.searchsorted(keys, edges.expand(len(ranking), -1).contiguous())
    relevant_bins = bins.of(ranking.relevant)
    relevant_keys = relevant_bins * width + ranking.above.clamp(max=width - 1)
    start = torch.searchsorted(keys, relevant_keys)
    tied = torch.searchsorted(keys, relevant_keys, right=True) - start
    above = (start - edges.gather(1, relevant_bins)).masked_fill(tied == 0, UNRETRIEVED)
    lengths = edges.diff().gather(1, rows).flatten()
    return above, tied, lambda most: lengths.clamp(max=most)


def _count(
    ranking: Ranking, bins: PopularityBins, rows: Tensor, candidates: int
) -> tuple[Tensor, Tensor, Lengths]:
    """Do what `_sort` does, but count around the relevant location instead of sorting."""
    assert ranking.scores is not None
    scores, bin_of_column = ranking.scores, bins.bin_of[: ranking.scores.shape[1]]
    count = backends.choose(scores).survey_bins
    target_scores = scores.gather(1, ranking.relevant.clamp(min=0))[:, 0]
    is_beyond = (ranking.above + ranking.tied > candidates)[:, 0]
    bin_of_row = rows[:, 0].masked_fill(is_beyond, -1)
    above, tied, _ = count(scores, target_scores, (bin_of_column, bin_of_row), candidates)
    above = above.masked_fill(is_beyond, UNRETRIEVED)

    def lengths(most: int) -> Tensor:
        near = bin_of_row.masked_fill(above >= most, -1)
        return count(scores, target_scores, (bin_of_column, near), candidates, most)[2]

    return above[:, None], tied[:, None], lengths


def of_histogram(counts: Tensor, statistic: MeanOrMedian, unanswered: float | None) -> Tensor:
    """Return the median or mean of each row's numbers, float64 `[B]`; NaN for a row of zeros.

    Column j of `counts`, int64 `[B, K + 1]`, says how often a row has the number j, and column 0
    how many numbers are missing. `unanswered` replaces missing numbers. If it is None, they sort
    last, and a statistic that depends on a missing number is NaN.
    """
    numbers = exact.float64(torch.arange(counts.shape[1], device=counts.device))
    counts = counts.to(numbers.device)
    numbers[0] = len(numbers) if unanswered is None else unanswered
    numbers, order = numbers.sort(stable=True)
    missing, counts = counts[:, 0] > 0, counts[:, order]
    total = counts.sum(1)
    if statistic == "mean":
        value = (counts * numbers).sum(1) / exact.float64(total)
    else:
        # the ranks of the two middle numbers in the sorted order, counted from 1
        middle = torch.stack([(total + 1) // 2, total // 2 + 1], 1)
        middle_columns = torch.searchsorted(counts.cumsum(1), middle).clamp(max=len(numbers) - 1)
        value = numbers[middle_columns].sum(1) / 2
        missing = order[middle_columns[:, 1]] == 0  # these sort last: the upper one decides
    undefined = total == 0 if unanswered is not None else (total == 0) | missing
    return value.masked_fill(undefined.to(value.device), torch.nan)
