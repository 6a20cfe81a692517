"""Beyond accuracy: entropy, the share of the tail, and novelty of what is recommended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import Computed, Positive
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.arrays import row_sum
from nextloc_metrics.core.queries.checks import check_share
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.bins import TrainCounts, read_visits
from nextloc_metrics.metrics.recommended import FirstRanks, RecommendedTally

Tail = Literal["visits", "locations"]


def _check_all(num_candidates: int, num_locations: int) -> None:
    if num_candidates != num_locations:
        raise ValueError(
            f"`num_candidates` must be the number of locations, {num_locations}, got "
            f"{num_candidates}."
        )


class Entropy(RecommendedTally):
    r"""Entropy of the recommendations in bits: minus the sum of p log2 p over locations.

    p is the share of a location in the recommendations. It is 0 if one location has them all, and
    log2 C at most. Without a recommendation it is NaN. (RecBole's `ShannonEntropy` uses natural
    logarithms and divides by the number of recommended locations, which its docstring does not
    say.) What counts as recommended, and the options: see
    [`RecommendedTally`][nextloc_metrics.metrics.recommended.RecommendedTally].

    Example:
        >>> from torch import tensor
        >>> entropy = Entropy(num_locations=4, k=2)
        >>> entropy.update(tensor([[0, 1], [1, 2]]))  # 1, 2 and 1 of 4
        >>> entropy.compute()
        tensor(1.5000)

    Source: C. E. Shannon, "A mathematical theory of communication", Bell System Technical Journal
    27, 1948.
    """

    shared_state = "RecommendedTally"
    higher_is_better = None
    plot_upper_bound = None
    unit = "bits"

    def compute(self) -> Tensor:
        counts = exact.float64(self.counts)
        total = counts.sum()
        entropy = total.log2() - torch.xlogy(counts, counts).sum() / math.log(2) / total
        return entropy.clamp(min=0)


class TailShare(RecommendedTally):
    r"""Tail share: the share of recommendations that are unpopular locations.

    The tail are the least popular locations that together have at most `share` of the visits in
    the training data. Equally popular locations are in it all or none. Each recommendation has the
    same weight; without one the value is NaN. What counts as recommended, and the other options:
    see [`RecommendedTally`][nextloc_metrics.metrics.recommended.RecommendedTally].

    Elliot and WarpRec (`APLT`) have this tail with `share=0.2`, but split ties arbitrarily.
    RecBole's `TailPercentage` has `of="locations"` and `share=0.1`, of the locations with a visit.

    Args:
        train_counts: integer `[C]`, the visits of each location in the training data.
        share: the share of the tail, between 0 and 1.
        of: `"visits"`, a share of the visits; `"locations"`, a share of the locations.

    Example:
        >>> from torch import tensor
        >>> tail = TailShare(train_counts=[80, 10, 10, 0], k=2)
        >>> tail.update(tensor([[0, 1], [0, 3]]))
        >>> tail.compute()  # locations 1 and 3
        tensor(0.5000)

    Source: H. Abdollahpouri, R. Burke and B. Mobasher, "Managing popularity bias in recommender
    systems with personalized re-ranking", FLAIRS 2019.
    """

    shared_state = "RecommendedTally"
    higher_is_better = None

    set_by_init = frozenset({"num_locations"})

    train_counts: Computed[Tensor]
    k: Positive
    share: Computed[Annotated[float, partial(check_share, example=0.2)]]
    of: Computed[Tail]

    def __init__(
        self,
        train_counts: Tensor | Sequence[int],
        k: int,
        share: float = 0.2,
        of: Tail = "visits",
        **kwargs: Any,
    ) -> None:
        visits = read_visits("train_counts", train_counts)
        super().__init__(  # type: ignore[call-arg]
            num_locations=len(visits), k=k, train_counts=visits, share=share, of=of, **kwargs
        )

    def tail(self) -> Tensor:
        """Return which locations are in the tail, bool `[C]`."""
        visits, size = self.train_counts, self.train_counts
        if self.of == "locations":
            size = torch.ones_like(visits)
        levels, level_of = torch.unique(visits, return_inverse=True)
        sums = torch.zeros_like(levels).index_add_(0, level_of, size).cumsum(0)
        return (sums.double() <= exact.part_of(int(size.sum()), self.share))[level_of]

    def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
        """Return the expected value for random lists: the share of locations in the tail."""
        _check_all(num_candidates, self.num_locations)
        return float(self.tail().double().mean())

    def compute(self) -> Tensor:
        tail = self.tail().to(self.state.device)
        return exact.float64(self.counts[tail].sum()) / exact.float64(self.counts.sum())


class Novelty(MeanMetric, FirstRanks):
    r"""Novelty: mean information of the first k candidates in bits, -log2 of their share of visits.

    The score of a query is the mean over its first `k` candidates of -log2(v / V), for a location
    with v of all V visits in the training data. A location without a visit counts as one with one
    visit. A query without a candidate is skipped. Ties and repeats are those of
    [`FirstRanks`][nextloc_metrics.metrics.recommended.FirstRanks]; ids that are no location are
    left out of the mean.

    RecTools' `MeanInvUserFreq` counts users instead of visits: pass the users of each location as
    `train_counts`, and the number of users as `total`. Elliot's `EFD` and `EPC` also weigh with
    relevance and rank.

    Args:
        train_counts: integer `[C]`, as for `TailShare`.
        total: V; None for the sum of `train_counts`.

    Example:
        >>> from torch import tensor
        >>> novelty = Novelty(train_counts=[4, 2, 1, 1], k=2)
        >>> novelty.update(tensor([[0, 1], [2, 3]]))
        >>> novelty.compute()  # (1 + 2) / 2 and (3 + 3) / 2 bits
        tensor(2.2500)

    Source: T. Zhou et al., "Solving the apparent diversity-accuracy dilemma of recommender
    systems", PNAS 107(10), 2010.
    """

    higher_is_better = None
    plot_upper_bound = None
    unit = "bits"

    train_counts: TrainCounts
    k: Positive
    total: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        largest = int(self.train_counts.max())
        if self.total is not None and self.total < largest:
            raise ValueError(
                f"`total` must be at least the largest of `train_counts`, {largest}, got "
                f"{self.total}."
            )
        self._total = int(self.train_counts.sum()) if self.total is None else self.total
        self.largest_value = math.log2(max(2, self._total))

    def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
        """Return the expected value for random lists: the mean over all locations."""
        _check_all(num_candidates, len(self.train_counts))
        return float(self._bits().mean())

    def _bits(self) -> Tensor:
        """Return the information of each location, float64 `[C]`."""
        visits: Tensor = self.train_counts.clamp(min=1)
        return math.log2(max(1, self._total)) - visits.double().log2()

    def score(self, record: Ranking) -> tuple[Tensor, Tensor]:
        ids = self.read_first(record)
        is_location = (ids >= 0) & (ids < len(self.train_counts))
        table = self._bits().to(ids.device)  # a move to the device does not wait for it
        bits = table[ids.masked_fill(~is_location, 0)].masked_fill(~is_location, 0)
        number = is_location.sum(1)
        return row_sum(bits) / number.clamp(min=1) / self.largest_value, number > 0
