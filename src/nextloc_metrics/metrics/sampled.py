"""The ranks of targets among sampled candidates, to be corrected by `analysis.correct_sampled`."""

import torch
from torch import Tensor

from nextloc_metrics.core.backends import UNRETRIEVED
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.metric.ranking_metric import RankingTally, Size
from nextloc_metrics.core.ranking.ranking import Ranking


class SampledRanks(RankingTally):
    r"""The ranks of the targets, each among itself and `num_sampled` sampled candidates.

    The value is the area under the ROC curve (AUC): the mean share of the sampled candidates that
    the target is above. If the sample is uniform, its expectation is the AUC of all candidates.
    This holds for no other metric: `analysis.correct_sampled` estimates the others from `shares`,
    the share of queries with rank 1, 2, ..., m + 1, where m is `num_sampled`.

    A target tied with e - 1 others has each of the e ranks with the share 1/e. An unretrieved
    target (not in the list, or scored NaN or -inf) has the last rank. A query without a target is
    skipped, and one with several is an error. The state is one integer per rank, in multiples of
    2^-32, and the number of queries.

    Args:
        num_sampled: m, the number of sampled candidates of each query, without the target.

    Example:
        >>> from torch import tensor
        >>> ranks = SampledRanks(num_sampled=2)
        >>> ranks.update(tensor([[0.5, 0.1, 0.9], [0.5, 0.5, 0.1]]), tensor([0, 0]))
        >>> ranks.shares  # rank 2; rank 1 or 2
        tensor([0.2500, 0.7500, 0.0000])
        >>> ranks.compute()  # above 1 of 2; above 1 or 2 of 2
        tensor(0.6250)

    Source: W. Krichene and S. Rendle, "On sampled metrics for item recommendation", KDD 2020.
    """

    num_sampled: Size

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        most = self.num_sampled + 1
        if ranking.num_candidates not in (None, most):
            raise ValueError(
                f"`preds` must have {most} candidates per query, the target and `num_sampled`, got "
                f"{ranking.num_candidates}."
            )
        if self.validate_args and len(ranking):
            if (relevant := int(ranking.num_relevant.max())) > 1:
                raise ValueError(
                    "`target` must hold one relevant location per query for SampledRanks, got up "
                    f"to {relevant}."
                )
            retrieved = ranking.answerable & (ranking.above[:, 0] < UNRETRIEVED)
            last = (ranking.above + ranking.tied)[:, 0].masked_fill(~retrieved, 0)
            if int(last.max()) > most:
                raise ValueError(
                    f"a rank must be at most {most}, `num_sampled` + 1, got {int(last.max())}."
                )

    def empty_tally(self) -> Tensor:
        return torch.zeros(self.num_sampled + 2, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        first = ranking.above[:, 0].clamp(max=self.num_sampled)
        tied = ranking.tied[:, 0].minimum(self.num_sampled + 1 - first)
        counted = ranking.answerable.long()
        share, rest = exact.ONE // tied * counted, exact.ONE % tied * counted
        # the differences between the counts of neighbouring ranks
        step = torch.zeros(self.num_sampled + 2, dtype=torch.int64, device=first.device)
        for start, end, added in ((first, first + tied, share), (first, first + rest, counted)):
            step = step.index_add(0, start, added).index_add(0, end, -added)
        return torch.cat([step.cumsum(0)[:-1], counted.sum()[None]])

    def compute(self) -> Tensor:
        counts = self._counts()
        below = torch.arange(self.num_sampled, -1, -1, device=counts.device)
        return (counts * below).sum() / self.num_sampled / counts.sum()

    @property
    def shares(self) -> Tensor:
        """The share of queries with each rank, of all processes, float `[num_sampled + 1]`."""
        counts = self.counts
        return (counts / counts.sum()).float().to(self.device)

    @property
    def counts(self) -> Tensor:
        """How many queries have each rank, of all processes, float64 `[num_sampled + 1]`."""
        return self._of_all_processes(self._counts)

    def _counts(self) -> Tensor:
        exact.check_overflow(self.state[-1])
        return exact.float64(self.state[:-1]).abs() / exact.ONE  # 2^31 ones sum to -2^63

    @property
    def num_queries(self) -> int:
        return int(self.state[-1])
