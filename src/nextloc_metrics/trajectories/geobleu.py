"""GEO-BLEU: the similarity of two trajectories by matched n-grams of points."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import Positive, PositiveNumber
from nextloc_metrics.trajectories.metric import PairMetric, Year, check_year
from nextloc_metrics.trajectories.pairs import Pairs
from nextloc_metrics.trajectories.point_sequences import match_ngrams

GramDivisor = Literal["predicted", "matched"]


class GeoBLEU(PairMetric):
    r"""GEO-BLEU: how similar two trajectories are, from 0 to 1 for equal ones.

    The proximity of two n-grams is $\prod_{i=1}^{n} \exp(-\beta d_i / \text{scale})$ with the
    distances $d_i$ of their points. Each predicted n-gram is matched with at most one true n-gram,
    and $p_n$ is the sum of the proximities of matched n-grams over the number of predicted ones.
    With L predicted and M true points, the score is

    $$b \left(\prod_{n=1}^{m} p_n\right)^{1/m}, \quad m = \min(n, L, M),$$

    where the brevity penalty b is 1 if L > M, and exp(1 - M / L) otherwise. An empty prediction
    scores 0.

    The nearest n-grams are matched first, and equally near ones by (predicted index, true index),
    so the score depends on the order of points with equal proximities.

    Args:
        n: the longest n-gram.
        beta: how fast the proximity falls.
        scale: the distance at which the proximity of two points is exp(-beta), in the unit of the
            coordinates, or in km.
        divisor: what $p_n$ is divided by: the number of `"predicted"` or of `"matched"` n-grams.
            They differ if the prediction is longer than the target.
        kwargs: those of [`PairMetric`][nextloc_metrics.trajectories.PairMetric].

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics.trajectories import GeoBLEU
        >>> geo_bleu = GeoBLEU(n=2, beta=1.0)
        >>> geo_bleu.update(tensor([[[0.0, 0.0], [0.0, 1.0]]]), tensor([[[0.0, 0.0], [0.0, 3.0]]]))
        >>> geo_bleu.compute()  # (1 + exp(-2)) / 2 and exp(-2), so their geometric mean
        tensor(0.2772)

    Source: T. Shimizu, K. Tsubouchi and T. Yabe, "GEO-BLEU: similarity measure for geospatial
    sequences", SIGSPATIAL 2022.
    """

    largest_value = 1.0
    higher_is_better = True
    plot_upper_bound = 1.0
    label = "GEO-BLEU"
    unit = ""

    n: Positive = 5
    beta: PositiveNumber = 0.5
    scale: PositiveNumber = 1.0
    divisor: GramDivisor = "predicted"

    @classmethod
    def as_of(cls, year: Year, **kwargs: Any) -> GeoBLEU:
        """Return the metric of a HuMob challenge, for coordinates in cells of 500 m.

        Args:
            year: 2023 and 2024 have n-grams up to 3, and divide by the number of matched n-grams;
                2025 has n-grams up to 5, and divides by the number of predicted n-grams. These are
                `geobleu` of yahoojapan before and after its commit 3afb63c.
            kwargs: other options, such as `validate_args`.

        Example:
            >>> from nextloc_metrics.trajectories import GeoBLEU
            >>> GeoBLEU.as_of(2023), GeoBLEU.as_of(2025)
            (GeoBLEU(n=3, divisor='matched'), GeoBLEU())
        """
        if check_year(year) < 2025:
            return cls(n=3, divisor="matched", **kwargs)
        return cls(**kwargs)

    def score(self, record: Pairs) -> Tensor:
        pairs = self.sequences(record)
        predicted, true = pairs.first_length, pairs.second_length
        shorter = torch.minimum(predicted, true)
        longest = max(1, min(self.n, int(shorter.max()) if len(shorter) else 1))
        sums = match_ngrams(pairs, longest, self.beta, self.scale)
        n = torch.arange(1, longest + 1)
        grams = (predicted if self.divisor == "predicted" else shorter)[:, None] - n + 1
        shares = (sums / grams.clamp(min=1)).clamp(max=1)  # only rounding makes it above 1
        has_grams = n <= shorter[:, None]
        logarithms = shares.log().masked_fill(~has_grams, 0).cumsum(1)[:, -1]
        mean = (logarithms / has_grams.sum(1).clamp(min=1)).exp()
        brevity = (1 - true / predicted.clamp(min=1).double()).clamp(max=0).exp()
        return (brevity * mean).masked_fill(predicted == 0, 0)
