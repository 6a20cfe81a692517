"""Metrics of ranks that other libraries have, each with its expectation over tied candidates."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from nextloc_metrics.core import scoring
from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.base.annotated_options import Computed, Positive, PositiveNumber
from nextloc_metrics.core.base.ranking_metric import RankingMetric, Size, SkipOrError
from nextloc_metrics.core.means import histogram
from nextloc_metrics.core.queries.checks import check_share
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking


class MeanRank(RankingMetric):
    r"""Mean rank of the first relevant location, 1 for the best; lower is better.

    Expectation under ties: A + (e + 1) / (r + 1), where `A` candidates are above and `e` tied, `r`
    of them relevant. The value is in ranks and has no upper bound; its interval is Student's.

    A query whose relevant locations are all unretrieved has the rank L + 1, one more than the
    candidates that its scores rank (those above -inf, and NaN) or its list holds. The mean rank of
    lists of ten ids is then no mean rank among all candidates: say so, or pass scores.

    Args:
        empty_target_action: `"skip"` or `"error"`.

    Example:
        >>> from torch import tensor
        >>> mean_rank = MeanRank()
        >>> mean_rank.update(tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.3]]), tensor([2, 2]))
        >>> mean_rank.compute()  # ranks 2, and 2 or 3
        tensor(2.2500)
    """

    largest_value = math.inf
    higher_is_better = False
    plot_upper_bound = None
    unit = "ranks"

    needs = Needs(length=True)
    chance = RankingMetric.chance_of_block

    _: KW_ONLY
    empty_target_action: SkipOrError = "skip"

    def score(self, ranking: Ranking) -> Tensor:
        return scoring.first_rank(ranking)


class RankQuantile(MeanRank):
    r"""Quantile of the rank of the first relevant location, such as the median rank.

    The value is the smallest rank that at least a share `q` of the queries do not exceed. The rank
    of a query is that of [`MeanRank`][nextloc_metrics.MeanRank], its expectation under ties. Ranks
    are counted in a histogram of integers: up to rank 4,096 in steps of 1/2, so exactly (with
    several relevant tied ones, rounded to 1/2), beyond with an error of at most 1/1024. All
    quantiles share one state.

    Args:
        q: the share of queries, between 0 and 1; 0.5 is the median.

    Example:
        >>> from torch import tensor
        >>> median = RankQuantile(0.5)
        >>> median.update(tensor([[3, 1, 2], [3, 1, 2], [3, 1, 2]]), tensor([3, 2, 7]))
        >>> median.compute()  # ranks 1, 3, and 4 for an id that is not in its list of three
        tensor(3.)
    """

    q: Computed[Annotated[float, partial(check_share, example=0.5)]]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.label = "Median rank" if self.q == 0.5 else f"{self.q:g} quantile of the rank"

    def empty_state(self) -> Tensor:
        """Return an empty histogram of the ranks times 2."""
        return histogram.empty()

    def tally(self, record: Ranking) -> Tensor:
        scores, counted = self.scores_of(record)
        return histogram.tally(2 * scores, counted).to(record.device)

    def compute(self) -> Tensor:
        value = histogram.quantile(self.state, self.q) / 2
        return torch.tensor(value, dtype=torch.float64, device="cpu")

    @property
    def num_queries(self) -> int:
        return int(self.state.sum())


class AUC(RankingMetric):
    r"""Area under the ROC curve of each query, averaged: the share of pairs in the right order.

    A pair is a relevant candidate and one that is not; ties count half. With J of the latter,
    AUC is the sum over relevant locations of J - (A - R) - (e - r) / 2, divided by n J. A
    relevant location that is unretrieved is below all others. A query with candidates of one kind
    only is skipped. (torchmetrics' `RetrievalAUROC` cuts at k before it counts pairs, and scores 0
    then.) `Grouped(AUC(), num_groups, average="groups")` is the group AUC by user, GAUC.

    For one relevant location it is 1 - (rank - 1) / (C - 1), one minus the percentile rank.

    Args:
        num_candidates: the number of candidates that lists of ids were chosen from; for scores it
            is known.

    Example:
        >>> from torch import tensor
        >>> auc = AUC()
        >>> auc.update(tensor([[0.1, 0.5, 0.4, 0.4]]), tensor([2]))
        >>> auc.compute()  # below 1, tied with 3, above 0
        tensor(0.5000)

    Source: J. A. Hanley and B. J. McNeil, "The meaning and use of the area under a receiver
    operating characteristic (ROC) curve", Radiology 143, 1982.
    """

    num_candidates: Size | None = None

    chance = RankingMetric.chance_of_block

    @property
    def needs(self) -> Needs:
        return Needs(length=True)

    def check(self, ranking: Ranking) -> None:
        super().check(ranking)
        if ranking.num_candidates is None and self.num_candidates is None:
            raise ValueError(
                f"`num_candidates` of {short(self)} must be given for lists of ids, got None: how "
                "many candidates the lists were chosen from."
            )

    def _others(self, ranking: Ranking) -> Tensor:
        """Return the number of candidates that are not relevant, int64 `[N]`."""
        if ranking.num_candidates is None:
            assert self.num_candidates is not None  # `check` has passed
            return (self.num_candidates - ranking.num_relevant).clamp(min=0)
        return ranking.lengths - (ranking.above < UNRETRIEVED).sum(1)

    def score(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        others = self._others(ranking)
        return scoring.auc(ranking, others), others > 0


class RPrecision(RankingMetric):
    r"""R-precision: the precision within the first n ranks, for n relevant locations.

    trec_eval's `Rprec`. Each relevant location adds min(max(n - A, 0), e) / e, divided by n. For
    one relevant location it is the accuracy within the first rank.

    Example:
        >>> from torch import tensor
        >>> r_precision = RPrecision()
        >>> r_precision.update(tensor([[5, 7, 6]]), tensor([[5, 6]]))
        >>> r_precision.compute()  # one of the first two
        tensor(0.5000)

    Source: C. Buckley and E. M. Voorhees, "Evaluating evaluation measure stability", SIGIR 2000.
    """

    chance = RankingMetric.chance_of_block

    def score(self, ranking: Ranking) -> Tensor:
        return scoring.r_precision(ranking)


class RBP(RankingMetric):
    r"""Rank-biased precision: (1 - p) times the sum of p^(rank - 1) over relevant locations.

    The model of a user who goes on to the next rank with probability `p`. A perfect ranking of n
    relevant locations scores 1 - p^n, not 1. Relevance is binary: grades above 0 are alike, as
    with `rel=1` in ir-measures.

    Expectation under ties: (1 - p) times the mean of p^(rank - 1) over a block's ranks, which is
    p^A (1 - p^m) / e with the `m` ranks of the block within `k`.

    Args:
        p: the persistence, between 0 and 1.
        k: the last rank that counts; None for all ranks.

    Example:
        >>> from torch import tensor
        >>> rbp = RBP(p=0.5)
        >>> rbp.update(tensor([[5, 7, 6]]), tensor([[5, 6]]))
        >>> rbp.compute()  # (1 - 0.5) * (1 + 0.25)
        tensor(0.6250)

    Source: A. Moffat and J. Zobel, "Rank-biased precision for measurement of retrieval
    effectiveness", ACM TOIS 27(1), 2008.
    """

    p: Annotated[float, partial(check_share, example=0.8)] = 0.8
    k: Positive | None = None

    chance = RankingMetric.chance_of_block

    def __post_init__(self) -> None:
        super().__post_init__()
        self.label = f"RBP({self.p:g})" + ("" if self.k is None else f"@{self.k}")

    @property
    def needs(self) -> Needs:
        return Needs(depth=self.k)

    def score(self, ranking: Ranking) -> Tensor:
        return scoring.rank_biased_precision(ranking, self.p, self.k)


class ERRAtK(RankingMetric):
    r"""Expected reciprocal rank: the mean of 1 / rank at which a user stops, within k ranks.

    The user reads down the ranking and stops at a candidate of grade g with probability
    (2^g - 1) / 2^G, G the highest possible grade. Without grades every relevant location has
    grade 1: with G = 1 the user stops there with probability 1/2. gdeval, and so ir-measures'
    `ERR`, has G = 4.

    Args:
        max_grade: G; a higher grade is an error.

    Example:
        >>> from torch import tensor
        >>> err = ERRAtK(k=3)
        >>> err.update(tensor([[5, 7, 6]]), tensor([[5, 6]]))
        >>> err.compute()  # 1/2 / 1 + 1/2 * 1/2 / 3
        tensor(0.5833)

    Source: O. Chapelle, D. Metzler, Y. Zhang and P. Grinspan, "Expected reciprocal rank for graded
    relevance", CIKM 2009.
    """

    k: Positive
    max_grade: PositiveNumber = 1.0

    chance = RankingMetric.chance_of_block

    @property
    def needs(self) -> Needs:
        return Needs(depth=self.k)

    def check(self, ranking: Ranking) -> None:
        super().check(ranking)
        if self.validate_args and len(ranking):
            grades = ranking.gains.masked_fill(~ranking.counted[:, None], 0)
            if (highest := float(grades.max())) > self.max_grade:
                raise ValueError(
                    f"`target` must hold grades up to `max_grade` of {short(self)}, "
                    f"{self.max_grade:g}, got {highest:g}; pass `ERRAtK(k, max_grade=...)`."
                )

    def score(self, ranking: Ranking) -> Tensor:
        return scoring.expected_reciprocal_rank(ranking, self.k, self.max_grade)
