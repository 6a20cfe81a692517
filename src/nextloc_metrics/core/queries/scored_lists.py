"""Lists of ids with the scores that rank them, so that ties are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(eq=False)
class ScoredLists:
    """Lists of ids with their scores, which fall along a list: equal neighbours are tied.

    `report.read` makes them of items with scores; `update` and `evaluate` take them as `preds`.

    Attributes:
        preds: int64 `[N, K]`, ids, best first, tied ones in rising order, padded with -1.
        scores: float64 `[N, K]`, NaN for padding.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import MRR
        >>> lists = ScoredLists(tensor([[3, 7, 5]]), tensor([[0.9, 0.5, 0.5]]))
        >>> MRR()(lists, tensor([5]))  # second or third: (1/2 + 1/3) / 2
        tensor(0.4167)
    """

    preds: Tensor
    scores: Tensor

    @property
    def shape(self) -> torch.Size:
        """The shape of `preds`."""
        return self.preds.shape

    def __getitem__(self, rows: Any) -> ScoredLists:
        """Return the lists of some rows, a slice, a mask or numbers."""
        return ScoredLists(self.preds[rows], self.scores[rows])

    def __len__(self) -> int:
        return len(self.preds)
