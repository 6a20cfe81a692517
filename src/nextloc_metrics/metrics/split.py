"""What decile metrics compute per bin: lists split by bin, and statistics of histograms."""

from typing import Literal

import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.backends import UNRETRIEVED
from nextloc_metrics.means import exact
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.ranking.counting import Found
from nextloc_metrics.ranking.ranking import Ranking
from nextloc_metrics.ranking.target import Relevant

MeanOrMedian = Literal["median", "mean"]


def split_by_bin(ranking: Ranking, bins: PopularityBins, candidates: int) -> tuple[Ranking, Tensor]:
    """Split every query's list by bin: one row per query and bin, unmapped first.

    Return the ranks of a row's relevant locations among its candidates, and how many these are.
    """
    first = ranking.top_candidates(candidates)
    num_bins = bins.num_bins + 1
    width = first.ids.shape[1] + 1
    # candidates sorted by bin, and within a bin by rank
    ids = first.ids.masked_fill(~ranking.counted[:, None], -1)
    keys = backends.choose(ids).sort(bins.of(ids) * width + first.above)
    edges = torch.arange(num_bins + 1, device=keys.device) * width
    edges = torch.searchsorted(keys, edges.expand(len(ranking), -1).contiguous())
    own_bin = bins.of(ranking.relevant)
    own_key = own_bin * width + ranking.above.clamp(max=width - 1)
    start = torch.searchsorted(keys, own_key)
    tied = torch.searchsorted(keys, own_key, right=True) - start
    above = (start - edges.gather(1, own_bin)).masked_fill(tied == 0, UNRETRIEVED)

    number = torch.arange(num_bins, device=keys.device)[:, None]
    inside = (own_bin[:, None] == number).flatten(0, 1)

    def every_bin(values: Tensor) -> Tensor:
        return values.repeat_interleave(num_bins, 0)

    above = every_bin(above).masked_fill(~inside, UNRETRIEVED)
    relevant = Relevant(
        every_bin(ranking.relevant).masked_fill(~inside, -1),
        None if ranking.grades is None else every_bin(ranking.grades).masked_fill(~inside, 0),
        every_bin(ranking.counted),
    )
    tied = every_bin(tied).masked_fill(above == UNRETRIEVED, 1)
    rows = torch.Size([len(ranking) * num_bins])
    within = Ranking.of_found(relevant, Found(relevant.ids, above, tied, None), rows)
    return within, edges.diff().flatten()


def of_histogram(counts: Tensor, statistic: MeanOrMedian, unanswered: int | None) -> Tensor:
    """Return the median or mean of each row's numbers, float64 `[B]`; NaN for a row of zeros.

    `counts` int64 `[B, K + 1]` have per row how often each of 1 to K occurs, and in column 0 the
    number of missing ones. `unanswered` stands for each of these; None: they sort last, and a
    statistic that depends on one is NaN.
    """
    numbers = torch.arange(counts.shape[1], device=counts.device)
    numbers[0] = len(numbers) if unanswered is None else unanswered
    numbers, order = numbers.sort(stable=True)
    missing, counts = counts[:, 0] > 0, counts[:, order]
    total = counts.sum(1)
    if statistic == "mean":
        value = exact.float64((counts * numbers).sum(1)) / exact.float64(total)
    else:
        # the ranks of the two middle numbers in the sorted order, counted from 1
        middle = torch.stack([(total + 1) // 2, total // 2 + 1], 1)
        found = torch.searchsorted(counts.cumsum(1), middle).clamp(max=len(numbers) - 1)
        value = exact.float64(numbers[found].sum(1)) / 2
        missing = order[found[:, 1]] == 0  # these sort last: the upper number decides
    undefined = total == 0 if unanswered is not None else (total == 0) | missing
    return value.masked_fill(undefined.to(value.device), torch.nan)
