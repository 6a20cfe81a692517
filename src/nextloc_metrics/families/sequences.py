"""Accuracy over several steps: are all decisions of a sequence correct?"""

from typing import Any

import torch
from torch import Tensor

from nextloc_metrics import exact, intervals
from nextloc_metrics.checks import check_positive
from nextloc_metrics.messages import short
from nextloc_metrics.metric import RankingTally
from nextloc_metrics.ranking import Ranking


class SequenceAccuracy(RankingTally):
    r"""Sequence accuracy: the share of sequences whose first decisions are all correct.

    The sequences are the rows of a batch of queries `[N, T]`: scores `[N, T, C]`, or lists
    `[N, T, K]`, with a target `[N, T]`. The decision is the best candidate (if tied, the lowest
    id), as for [`LocationF1`][nextloc_metrics.LocationF1]. A row of scores with a NaN or no score
    above -inf, an empty list, and a list whose first id is no location count as wrong decisions. If
    a step has several relevant locations, each of them is correct.

    Steps that `mask` or `ignore_index` leaves out, and steps without a relevant location, are
    skipped: the first `first` of the other steps count. If a sequence has fewer, all of them count;
    if it has none, it is left out. To leave short sequences out, mask them.

    Args:
        first: number of decisions that must be correct; None for all of a sequence.
        kwargs: `ignore_index`, `validate_args`, and TorchMetrics' own keyword arguments.

    Raises:
        ValueError: `first` is not a positive integer; in `update`, the queries have fewer than two
            dimensions.

    Example:
        >>> from torch import tensor
        >>> decided = tensor([[[0], [1], [2]], [[0], [1], [1]]])  # lists of one id
        >>> target = tensor([[0, 1, 2], [0, 1, 2]])
        >>> SequenceAccuracy()(decided, target), SequenceAccuracy(first=2)(decided, target)
        (tensor(0.5000), tensor(1.))
    """

    def __init__(self, first: int | None = None, **kwargs: Any) -> None:
        if first is not None:
            check_positive("first", first)
        super().__init__(first=first, **kwargs)

    first: int | None

    @property
    def top(self) -> int:
        """The best candidate is the decision."""
        return 1

    @property
    def best_only(self) -> bool:
        """Of candidates tied at rank 1, the lowest id is the decision."""
        return True

    @property
    def plot_label(self) -> str:
        """The number of decisions that must be correct."""
        return "Sequence accuracy" + ("" if self.first is None else f", first {self.first}")

    def check(self, ranking: Ranking) -> None:
        """Raise if the queries are not sequences."""
        super().check(ranking)
        if len(ranking.shape) < 2:
            raise ValueError(
                "`preds` must be scores [N, T, C] or lists [N, T, K] for SequenceAccuracy, got "
                f"queries of shape {short(ranking.shape)}."
            )

    def empty_tally(self) -> Tensor:
        """Return zeros: sum and sum of squares of the scores 0 and 1, and number of sequences."""
        return torch.zeros(3, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        """Count the sequences, and the sequences whose first decisions are correct."""
        is_target = (ranking.relevant == ranking.best[:, None]) & (ranking.relevant >= 0)
        sequences = ranking.shape[:-1].numel(), ranking.shape[-1]
        right, counted = is_target.any(1).view(sequences), ranking.answerable.view(sequences)
        judged = counted if self.first is None else counted & (counted.cumsum(1) <= self.first)
        wrong = (judged & ~right).any(1)
        known = counted.any(1)
        scores = exact.float64((known & ~wrong).long())
        return exact.tally(scores, known.to(scores.device)).to(ranking.device)

    def compute(self) -> Tensor:
        """Return the share of sequences, NaN without one."""
        return exact.mean(self.state)

    @property
    def averages_scores(self) -> bool:
        """True: the value is the mean over sequences of 0 and 1."""
        return True

    def estimate(self) -> intervals.Estimate:
        """Return the mean and its standard error, for independent sequences."""
        return intervals.of_queries(self.state)

    @property
    def num_queries(self) -> int:
        """The number of sequences that this process has counted."""
        return int(self.state[2])
