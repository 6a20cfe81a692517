"""The accuracy of sequences of decisions."""

from torch import Tensor

from nextloc_metrics.core.base.annotated_options import Positive
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking


class SequenceAccuracy(MeanMetric):
    r"""Sequence accuracy: the share of sequences whose first decisions are all correct.

    The sequences are the rows of a batch of queries `[N, T]`: scores `[N, T, C]`, or lists
    `[N, T, K]`, with a target `[N, T]`. Decisions are those of
    [`LocationF1`][nextloc_metrics.LocationF1], and a step without one is wrong. If a step has
    several relevant locations, each of them is correct.

    Steps that `mask` or `ignore_index` leaves out, and steps without a relevant location, are
    skipped: the first `first` of the other steps count. If a sequence has fewer, all of them count;
    if it has none, it is left out. To leave short sequences out, mask them. Without `first`, all
    decisions must be correct. In `Grouped` and `PerQueryScores` a sequence has the group and the id
    of its first step that counts.

    Example:
        >>> from torch import tensor
        >>> decided = tensor([[[0], [1], [2]], [[0], [1], [1]]])  # lists of one id
        >>> target = tensor([[0, 1, 2], [0, 1, 2]])
        >>> SequenceAccuracy()(decided, target), SequenceAccuracy(first=2)(decided, target)
        (tensor(0.5000), tensor(1.))
    """

    record = Ranking
    needs = Needs(top=1)  # the best candidate is the decision

    first: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.label = "Sequence accuracy" + ("" if self.first is None else f", first {self.first}")

    def check(self, ranking: Ranking) -> None:
        if len(ranking.shape) < 2:
            raise ValueError(
                "`preds` must be scores [N, T, C] or lists [N, T, K] for SequenceAccuracy, got "
                f"queries of shape {short(ranking.shape)}."
            )

    def score(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        is_target = (ranking.relevant == ranking.best[:, None]) & (ranking.relevant >= 0)
        sequences = ranking.shape[:-1].numel(), ranking.shape[-1]
        right, counted = is_target.any(1).view(sequences), ranking.answerable.view(sequences)
        step = counted.cumsum(1)
        judged = counted if self.first is None else counted & (step <= self.first)
        wrong = (judged & ~right).any(1, keepdim=True)
        first = counted & (step == 1)
        scores = exact.float64((first & ~wrong).flatten().long())
        return scores, first.flatten().to(scores.device)
