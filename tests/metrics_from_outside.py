"""Metrics of a stranger, who knows the table of twelve members and the public names alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nextloc_metrics import MeanMetric, PopularityBins, Ranking, RankingMetric
from nextloc_metrics.base import Estimate, Needs, RecordMetric

ONE = 2**32  # the integer of a score of 1


def split_precision(
    ranking: Ranking, bins: PopularityBins, k: int, candidates: int
) -> tuple[Tensor, Tensor]:
    """Return the precision of each query's list in each bin, and whether it has one, `[N, B]`.

    Bin 0 has the locations without a visit. A hit of a tied block counts by the share of its ranks
    that are among the first k of the bin's own list.
    """
    first = ranking.top_candidates(candidates + 1)
    above = first.above[:, :candidates]
    of_first = bins.of(first.ids[:, :candidates])
    if first.above.shape[1] > candidates:  # a block that crosses the last rank is left out
        crosses = above == first.above[:, candidates:]
        of_first = of_first.masked_fill(crosses, bins.num_bins + 1)
    hits = torch.zeros(len(ranking), bins.num_bins + 2, dtype=torch.float64)
    relevant, length = hits.long(), hits.long()
    length.scatter_add_(1, of_first, torch.ones_like(of_first))
    for column in range(ranking.relevant.shape[1]):
        own = bins.of(ranking.relevant[:, column : column + 1])
        rank = ranking.above[:, column : column + 1]
        before = ((of_first == own) & (above < rank)).sum(1, keepdim=True)
        tied = ((of_first == own) & (above == rank)).sum(1, keepdim=True)
        inside = torch.minimum((k - before).clamp(min=0), tied)
        hits.scatter_add_(1, own, inside.double() / tied.clamp(min=1))
        relevant.scatter_add_(1, own, torch.ones_like(own))
    counted = (relevant > 0) & ranking.counted[:, None]
    scores = (hits / length.clamp(1, k)).masked_fill(~counted, 0)
    return scores[:, :-1], counted[:, :-1]  # the last is no bin, but padding


class OwnDeciles(RecordMetric):
    """The precision in each popularity bin: a sum of a shape of its own, and a dict of values."""

    record = Ranking

    bins: PopularityBins
    k: int
    candidates: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        digits = len(str(self.bins.num_bins))
        numbers = [*(f"{x:0{digits}}" for x in range(1, self.bins.num_bins + 1)), "unmapped"]
        self.key_labels = {f"precision_at_{self.k}_decile_{x}": x for x in numbers}

    @property
    def needs(self) -> Needs:
        """The ids of one candidate more, which tells whether a tied block crosses."""
        return Needs(top=self.candidates + 1)

    def check(self, record: Ranking) -> None:
        """Refuse locations that no bin has."""
        highest = int(record.relevant.max()) if len(record) else -1
        if highest >= len(self.bins):
            raise ValueError(f"`bins` must hold every location, got id {highest}.")

    def empty_state(self) -> Tensor:
        """Per bin the sum of scores, of squares, and the number of queries."""
        return torch.zeros(self.bins.num_bins + 1, 3, dtype=torch.int64)

    def tally(self, record: Ranking) -> Tensor:
        """Add the scores, as multiples of 2^-32."""
        scores, counted = record.once(
            ("own precision", self.bins, self.k, self.candidates),
            lambda: split_precision(record, self.bins, self.k, self.candidates),
        )
        summands = [(x * ONE + 0.5).long() for x in (scores, scores * scores)]
        return torch.stack([*summands, counted.long()]).sum(1).T.roll(-1, 0)

    def compute(self) -> dict[str, Tensor]:
        """The mean of each bin."""
        return dict(zip(self.key_labels, (self.sums_of(0) / self.sums_of(2)).unbind(), strict=True))

    @property
    def num_queries(self) -> Tensor:
        """Of each bin."""
        return self.state[:, 2]

    def estimate(self) -> Estimate:
        """The mean, its standard error, the effective sample size, and degrees of freedom."""
        number = self.sums_of(2)
        mean, square = self.sums_of(0) / number, self.sums_of(1) / number
        error = ((square - mean * mean).clamp(min=0) / (number - 1)).sqrt()
        is_share = self.state[:, 0] == self.state[:, 1]  # of hits and misses alone
        effective = torch.where(is_share, number, mean * (1 - mean) / error**2)
        return Estimate(mean, error, effective, (number - 1).masked_fill(is_share, torch.inf))

    def sums_of(self, column: int) -> Tensor:
        return self.state[:, column].double() / (1 if column == 2 else ONE)


class OwnDecile(MeanMetric):
    """The precision in one bin, a mean of scores of some of the queries."""

    record = Ranking

    bins: PopularityBins
    k: int
    decile: int
    candidates: int = 500

    @property
    def needs(self) -> Needs:
        """As above."""
        return Needs(top=self.candidates + 1)

    def score(self, record: Ranking) -> tuple[Tensor, Tensor]:
        """The score of each query, and which have one."""
        scores, counted = split_precision(record, self.bins, self.k, self.candidates)
        return scores[:, self.decile], counted[:, self.decile]


class OwnRecall(RankingMetric):
    """The share of the relevant locations on the first k ranks."""

    k: int

    def at_rank(self, rank: Tensor) -> Tensor:
        """1 within."""
        return (rank <= self.k).double()


def own_metrics(bins: PopularityBins) -> dict[str, Any]:
    """Each metric of the stranger, under the name of the library's."""
    return {
        "deciles": OwnDeciles(bins, 2),
        "short lists": OwnDeciles(bins, 2, 3),
        "decile": OwnDecile(bins, 1, 2),
        "recall": OwnRecall(2),
    }
