"""Dynamic time warping."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import PositiveNumber
from nextloc_metrics.core.queries.checks import check_from_zero
from nextloc_metrics.trajectories.metric import PairMetric, Year, check_year
from nextloc_metrics.trajectories.pairs import Pairs
from nextloc_metrics.trajectories.point_sequences import align


class DTW(PairMetric):
    r"""Dynamic time warping: the least sum of distances along a path that aligns two sequences.

    A path begins at both first points, ends at both last ones, and advances in each step by one
    point in one sequence or in both: $D_{ij} = d_{ij} + \min(D_{i-1,j}, D_{i,j-1}, D_{i-1,j-1})$
    with the distance $d_{ij}$ over `scale`. Lower is better. An empty prediction scores infinity.

    Args:
        scale: what distances are divided by, such as 2 for km from cells of 500 m.
        window: the largest difference of indices of aligned points (Sakoe and Chiba), but at least
            the difference of the lengths; None for any.
        normalized: divide by the length of the longer sequence. The value is then at most the
            `MeanPointError` of sequences of equal length.
        free_start: let a path begin at any point of the target, without the distances before.
        kwargs: those of [`PairMetric`][nextloc_metrics.trajectories.PairMetric].

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.trajectories import DTW
        >>> dtw = DTW()
        >>> dtw.update(tensor([[[0.0, 0.0], [3.0, 4.0]]]), tensor([[[0.0, 0.0], [0.0, 0.0]]]))
        >>> dtw.compute()  # the last points are 5 apart
        tensor(5.)

    Source: H. Sakoe and S. Chiba, "Dynamic programming algorithm optimization for spoken word
    recognition", IEEE Transactions on Acoustics, Speech, and Signal Processing 26, 1978.
    """

    scale: PositiveNumber = 1.0
    window: Annotated[int, check_from_zero] | None = None
    normalized: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        if self.scale != 1:
            self.unit = f"{self.unit} / {self.scale:g}"
        super().__post_init__()

    @classmethod
    def as_of(cls, year: Year, **kwargs: Any) -> DTW:
        """Return the metric of a HuMob challenge: km, for coordinates in cells of 500 m.

        Args:
            year: 2023 and 2024 have `free_start`, so that values are lower; 2025 does not. These
                are `geobleu` of yahoojapan before and after its commit 3afb63c.
            kwargs: other options, such as `validate_args`.

        Example:
            >>> from nextloc_metrics.trajectories import DTW
            >>> DTW.as_of(2023), DTW.as_of(2025)
            (DTW(scale=2.0, free_start=True), DTW(scale=2.0))
        """
        return cls(scale=2.0, free_start=check_year(year) < 2025, **kwargs)

    def score(self, record: Pairs) -> Tensor:
        pairs = self.sequences(record)
        sums = align(pairs, self.window, self.free_start) / self.scale
        if self.normalized:
            sums /= torch.maximum(pairs.first_length, pairs.second_length).clamp(min=1)
        return sums.masked_fill(pairs.first_length == 0, torch.inf)
