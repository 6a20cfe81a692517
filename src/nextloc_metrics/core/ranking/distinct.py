"""The different ranks of a batch, each as one query, with the number of queries that have it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.queries.arrays import must_not_sync
from nextloc_metrics.core.queries.record import Queries
from nextloc_metrics.core.ranking.ranking import Ranking

#: with fewer scores, or fewer queries per rank, counting ranks takes longer than it saves
FEWEST_SCORES = 1 << 16
FEWEST_QUERIES_PER_RANK = 4

#: the score of a rank up to this one does not depend on its position in a tensor
MOST_RANKS = 1 << 17


class DistinctRanks(NamedTuple):
    """The ranks of a batch, each once.

    Attributes:
        ranking: one query for each rank, then one whose location is not retrieved, one without a
            relevant location, and one that is skipped.
        times: int64 `[len(ranking)]`, how many queries of the batch equal each of these.
        row: int64 `[N]`, the row of `ranking` that each query of the batch equals.
    """

    ranking: Ranking
    times: Tensor
    row: Tensor


def distinct_ranks(ranking: Ranking, num_means: int) -> DistinctRanks | None:
    """Return the ranks of a batch of one relevant location per query, without ties.

    None if a query has several ranks, or if counting takes longer than it saves for `num_means`.
    """
    if len(ranking.above) * num_means < FEWEST_SCORES or must_not_sync(ranking.above):
        return None
    if ranking.above.shape[1] != 1 or ranking.most_relevant not in (None, 1):
        return None
    if ranking.grades is not None or int(ranking.tied.amax()) > 1:
        return None
    above = ranking.above[:, 0]
    last = int((above & (UNRETRIEVED - 1)).amax())  # an unretrieved location gives 0
    if last >= min(len(above) // FEWEST_QUERIES_PER_RANK, MOST_RANKS):
        return None
    unretrieved, empty, skipped = range(last + 1, last + 4)
    row = above.clamp(max=unretrieved).masked_fill_(ranking.num_relevant == 0, empty)
    row.masked_fill_(~ranking.counted, skipped)
    times = torch.bincount(row, minlength=skipped + 1)
    ranks = torch.arange(skipped + 1, device=row.device)
    counted = (times > 0) & (ranks < skipped)
    ones = torch.ones_like(ranks)
    column = ones[:, None]
    distinct = replace(
        ranking,
        above=ranks.masked_fill(ranks > last, UNRETRIEVED)[:, None],
        tied=column,
        relevant_above=torch.zeros_like(column),
        relevant_tied=column,
        relevant=torch.full_like(column, -1),
        num_relevant=ones.masked_fill(ranks == empty, 0),
        queries=Queries(ranks.shape, counted),
        first=None,
        scores=None,
        length=None,
        has_ids=False,
    )
    return DistinctRanks(distinct, times, row)
