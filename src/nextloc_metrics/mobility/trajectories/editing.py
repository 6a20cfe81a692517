"""Edit distances and common subsequences of two sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from nextloc_metrics.core.backends.sequences import Sequences
from nextloc_metrics.core.metric.annotated_options import NumberFromZero
from nextloc_metrics.mobility.trajectories.metric import (
    DistanceOfPairs,
    PairMetric,
    backend_of,
    numbered,
)
from nextloc_metrics.mobility.trajectories.pairs import Pairs


def _count_edits(pairs: Sequences, normalized: bool, within: float = 0.0) -> Tensor:
    found = backend_of(pairs).align(pairs, "edits", within=within)
    longer = torch.maximum(pairs.first_length, pairs.second_length)
    return found / longer.clamp(min=1) if normalized else found


class EditDistance(PairMetric):
    r"""Edit distance: the least number of points inserted, deleted or replaced (Levenshtein).

    Points are equal if their ids are, or both coordinates. Lower is better; 0 for equal sequences.
    An empty prediction scores the number of true points.

    Args:
        normalized: divide by the length of the longer sequence, so that scores are in [0, 1].
        kwargs: `validate_args`, and TorchMetrics' own keyword arguments.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.trajectories import EditDistance
        >>> edits = EditDistance()
        >>> edits.update(tensor([[7, 3, 5], [1, 2, -1]]), tensor([[7, 5, -1], [1, 2, -1]]))
        >>> edits.compute()  # (1 + 0) / 2
        tensor(0.5000)

    Source: V. I. Levenshtein, "Binary codes capable of correcting deletions, insertions, and
    reversals", Soviet Physics Doklady 10, 1966.
    """

    label = "edit distance"

    normalized: bool = False

    def __post_init__(self) -> None:
        self.unit = "" if self.normalized else "edits"
        super().__post_init__()

    def score(self, record: Pairs) -> Tensor:
        pairs = Sequences(*numbered(record), record.predicted.cpu(), record.true.cpu())
        return _count_edits(pairs, self.normalized)


class EDR(DistanceOfPairs):
    r"""Edit distance on real sequences: the edit distance, where near points are equal.

    Two points are equal if their distance is at most `within`. Lower is better. An empty prediction
    scores the number of true points.

    Args:
        within: the largest distance of equal points, in the unit of the coordinates, or in km.
        normalized: divide by the length of the longer sequence, so that scores are in [0, 1].
        kwargs: those of [`DistanceOfPairs`][nextloc_metrics.mobility.trajectories.DistanceOfPairs].

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.trajectories import EDR
        >>> edr = EDR(within=1.0)
        >>> edr.update(tensor([[[0.0, 0.0], [9.0, 0.0]]]), tensor([[[0.0, 1.0], [5.0, 0.0]]]))
        >>> edr.compute()  # the second point is replaced
        tensor(1.)

    Source: L. Chen, M. T. Ozsu and V. Oria, "Robust and fast similarity search for moving object
    trajectories", SIGMOD 2005. There, two points are equal if both coordinates differ by at most
    `within`.
    """

    within: NumberFromZero
    normalized: bool = False

    def __post_init__(self) -> None:
        self.unit = "" if self.normalized else "edits"
        super().__post_init__()

    def score(self, record: Pairs) -> Tensor:
        return _count_edits(self.sequences(record), self.normalized, self.within)


class LCSS(DistanceOfPairs):
    r"""Longest common subsequence, where near points are equal, over the shorter length.

    The score is the number of points of the longest subsequence that both sequences have in this
    order, over min(L, M), from 0 to 1. Two points are equal if their distance is at most `within`.
    Higher is better. An empty prediction scores 0.

    Args:
        within: the largest distance of equal points, in the unit of the coordinates, or in km.
        kwargs: those of [`DistanceOfPairs`][nextloc_metrics.mobility.trajectories.DistanceOfPairs].

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.mobility.trajectories import LCSS
        >>> lcss = LCSS(within=1.0)
        >>> lcss.update(tensor([[[0.0, 0.0], [9.0, 0.0]]]), tensor([[[0.0, 1.0], [5.0, 0.0]]]))
        >>> lcss.compute()
        tensor(0.5000)

    Source: M. Vlachos, G. Kollios and D. Gunopulos, "Discovering similar multidimensional
    trajectories", ICDE 2002.
    """

    largest_value = 1.0
    higher_is_better = True
    plot_upper_bound = 1.0
    unit = ""

    within: NumberFromZero

    def score(self, record: Pairs) -> Tensor:
        pairs = self.sequences(record)
        shorter = torch.minimum(pairs.first_length, pairs.second_length)
        return backend_of(pairs).align(pairs, "common", within=self.within) / shorter.clamp(min=1)
