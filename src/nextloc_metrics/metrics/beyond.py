"""Beyond accuracy: novelty, diversity, serendipity, and how alike the lists of queries are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.means import exact
from nextloc_metrics.core.metric.annotated_options import Computed, Positive
from nextloc_metrics.core.metric.mean import MeanMetric
from nextloc_metrics.core.metric.ranking_metric import RankingMetric
from nextloc_metrics.core.queries.arrays import as_tensor, row_sum
from nextloc_metrics.core.queries.checks import check_share, is_integer
from nextloc_metrics.core.queries.messages import describe
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.geography import Locations
from nextloc_metrics.metrics.bins import TrainCounts, read_visits
from nextloc_metrics.metrics.recommended import FirstRanks, RecommendedTally, dot

Tail = Literal["visits", "locations"]

# Pairs of candidates whose distances are computed at once.
_AT_ONCE = 1 << 20


def _check_all(num_candidates: int, num_locations: int) -> None:
    if num_candidates != num_locations:
        raise ValueError(
            f"`num_candidates` must be the number of locations, {num_locations}, got "
            f"{num_candidates}."
        )


class Personalization(RecommendedTally):
    r"""Personalization: 1 minus the mean overlap of the lists of two queries.

    The overlap of two lists is the number of common locations among the first `k`, divided by
    `k`. Its mean over all pairs of N queries follows from the numbers r_c of queries that have
    location c: the sum of r_c (r_c - 1), divided by k N (N - 1). So no pair is visited, and no
    list is kept. 0 if all lists are equal; NaN below two queries. (PyG's `LinkPredPersonalization`
    reads the first 4,096 queries only.) What counts as recommended, and the options:
    [`RecommendedTally`][nextloc_metrics.metrics.recommended.RecommendedTally].

    Example:
        >>> from torch import tensor
        >>> personalization = Personalization(num_locations=4, k=2)
        >>> personalization.update(tensor([[0, 1], [1, 0], [1, 2]]), tensor([3, 3, 3]))
        >>> personalization.compute()  # overlaps 1, 1/2 and 1/2
        tensor(0.3333)
    """

    higher_is_better = None

    def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
        """Return the expected value for random lists: 1 - min(k, C)^2 / (k C)."""
        _check_all(num_candidates, self.num_locations)
        return 1 - min(self.k, num_candidates) ** 2 / (self.k * num_candidates)

    def compute(self) -> Tensor:
        queries = exact.float64(self.state[-1])
        common = dot(self.counts, self.counts - 1)
        pairs = queries * (queries - 1)
        value = 1 - common / (self.k * pairs)
        return value.masked_fill(pairs == 0, torch.nan)


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
        >>> entropy.update(tensor([[0, 1], [1, 2]]), tensor([3, 3]))  # 1, 2 and 1 of 4
        >>> entropy.compute()
        tensor(1.5000)

    Source: C. E. Shannon, "A mathematical theory of communication", Bell System Technical Journal
    27, 1948.
    """

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
        >>> tail = TailShare(k=2, train_counts=[80, 10, 10, 0])
        >>> tail.update(tensor([[0, 1], [0, 3]]), tensor([2, 2]))
        >>> tail.compute()  # locations 1 and 3
        tensor(0.5000)

    Source: H. Abdollahpouri, R. Burke and B. Mobasher, "Managing popularity bias in recommender
    systems with personalized re-ranking", FLAIRS 2019.
    """

    higher_is_better = None

    k: Positive
    train_counts: Computed[Tensor]
    share: Computed[Annotated[float, partial(check_share, example=0.2)]]
    of: Computed[Tail]

    def __init__(
        self,
        k: int,
        train_counts: Tensor | Sequence[int],
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
        >>> novelty = Novelty(k=2, train_counts=[4, 2, 1, 1])
        >>> novelty.update(tensor([[0, 1], [2, 3]]), tensor([3, 3]))
        >>> novelty.compute()  # (1 + 2) / 2 and (3 + 3) / 2 bits
        tensor(2.2500)

    Source: T. Zhou et al., "Solving the apparent diversity-accuracy dilemma of recommender
    systems", PNAS 107(10), 2010.
    """

    higher_is_better = None
    plot_upper_bound = None
    unit = "bits"

    k: Positive
    train_counts: TrainCounts
    total: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        most = int(self.train_counts.max())
        if self.total is not None and self.total < most:
            raise ValueError(
                f"`total` must be at least the largest of `train_counts`, {most}, got {self.total}."
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
        known = (ids >= 0) & (ids < len(self.train_counts))
        bits = self._bits().to(ids.device)  # the table goes to the scores, so nothing waits
        found = bits[ids.masked_fill(~known, 0)].masked_fill(~known, 0)
        number = known.sum(1)
        return row_sum(found) / number.clamp(min=1) / self.largest_value, number > 0


def _read_distance(name: str, distance: Any) -> Locations | Tensor:
    """Read categories, or embeddings as vectors of length 1, on the CPU."""
    if isinstance(distance, Locations):
        return distance
    table = as_tensor(name, distance).detach().cpu()
    if is_integer(table) and table.ndim == 1 and len(table):
        return table.long().clone()
    if not table.is_floating_point() or table.ndim != 2 or not table.numel():
        raise ValueError(
            f"`{name}` must be `geography.Locations`, integer categories [C], or floating "
            f"embeddings [C, D], got {describe(table)}."
        )
    table = table.double()
    lengths = table.square().sum(1).sqrt()
    wrong = ~((lengths > 0) & lengths.isfinite())
    if wrong.any():
        raise ValueError(
            f"`{name}` must hold embeddings of finite length above 0, got length "
            f"{float(lengths[wrong][0])} for location {int(wrong.nonzero()[0])}."
        )
    return table / lengths[:, None]


class IntraListDiversity(MeanMetric, FirstRanks):
    r"""Intra-list diversity: mean distance of the pairs of a query's first k candidates.

    | `distance` | distance of two candidates | unit |
    |---|---|---|
    | `geography.Locations` | in km | km |
    | integer `[C]`, the category of each location | 0 for equal categories, else 1 | fraction |
    | floating `[C, D]`, an embedding of each location | 1 minus the cosine | 0 to 2 |

    A query with fewer than two candidates has no pair and is skipped; `num_queries` counts the
    others. (RecTools scores such a query 0; PyG's `LinkPredDiversity` divides by k (k - 1) for
    short lists too.) Ties and repeats are those of
    [`FirstRanks`][nextloc_metrics.metrics.recommended.FirstRanks]; ids that are no location are
    left out.

    Args:
        k: how many ranks count, at least 2.
        distance: coordinates, categories or embeddings, as in the table.

    Example:
        >>> from torch import tensor
        >>> diversity = IntraListDiversity(k=3, distance=tensor([0, 0, 1, 2]))
        >>> diversity.update(tensor([[0, 1, 2], [3, -1, -1]]), tensor([3, 3]))
        >>> diversity.compute(), diversity.num_queries  # 2 of 3 pairs
        (tensor(0.6667), 1)

    Source: C.-N. Ziegler, S. M. McNee, J. A. Konstan and G. Lausen, "Improving recommendation
    lists through topic diversification", WWW 2005.
    """

    higher_is_better = None

    k: Positive
    distance: Annotated[Any, _read_distance]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 2:
            raise ValueError(f"`k` must be at least 2, to have pairs, got {self.k}.")
        if isinstance(self.distance, Locations):
            self.largest_value, self.unit, bound = self.distance.largest, "km", None
        else:
            bound = self.largest_value = 1.0 if is_integer(self.distance) else 2.0
        vars(self)["plot_upper_bound"] = bound  # which `torchmetrics.Metric` refuses to set

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if isinstance(self.distance, Locations) and self.validate_args:
            remedy = "leave it out of the candidates with `exclude`"
            self.distance.check_known("preds", self.read_first(ranking), remedy)

    def score(self, record: Ranking) -> tuple[Tensor, Tensor]:
        ids = self.read_first(record)
        if isinstance(self.distance, Locations):
            table = self.distance.points
            ids = ids.to(table.device)
        else:
            table = self.distance.to(ids.device)
        known = (ids >= 0) & (ids < len(table))
        number = known.sum(1)
        counted = number > 1
        if ids.shape[1] < 2 or not len(ids):
            return torch.zeros(len(ids), dtype=torch.float64, device=ids.device), counted
        ids = ids.masked_fill(~known, 0)
        rows = max(1, _AT_ONCE // (ids.shape[1] * max(ids.shape[1], table[:1].numel())))
        split = zip(torch.split(ids, rows), torch.split(known, rows), strict=True)
        parts = [self._sum_pairs(table, *part) for part in split]
        pairs = (number * (number - 1) / 2).double().clamp(min=1)
        scores = torch.cat(parts) / pairs / self.largest_value
        return scores.clamp(0, 1).masked_fill(~counted, 0), counted

    def _sum_pairs(self, table: Tensor, ids: Tensor, known: Tensor) -> Tensor:
        """Return the sum of the distances of all pairs of known ids, float64 `[n]`."""
        if isinstance(self.distance, Tensor) and not is_integer(table):
            units = table[ids].masked_fill(~known[..., None], 0)
            total = row_sum(units.transpose(1, 2))
            number = known.sum(1).double()
            cosines: Tensor = (row_sum(total * total) - number) / 2
            return number * (number - 1) / 2 - cosines
        first, second = torch.triu_indices(ids.shape[1], ids.shape[1], 1, device=ids.device)
        both = known[:, first] & known[:, second]
        one, other = ids[:, first], ids[:, second]
        if isinstance(self.distance, Locations):
            apart = self.distance.distance(one, other)
        else:
            apart = (table[one] != table[other]).double()
        return row_sum(apart.masked_fill(~both, 0))


class Serendipity(RankingMetric):
    r"""Serendipity: hits that are ranked higher than their popularity would rank them.

    A relevant location at rank i adds max(d - i, 0) / C, divided by `k`: RecTools' definition, with
    the dense rank d of its visits among all C locations (1 for the most visited, equal visits have
    equal ranks; C + 1 without a visit). The value is small; compare models on the same data.

    Expectation under ties: the mean over the ranks of the tied block. RecTools averages over the
    length of lists shorter than k, and scores users without a relevant location 0: pass
    `empty_target_action="neg"` for the latter.

    Args:
        train_counts: integer `[C]`, as for `TailShare`.

    Example:
        >>> from torch import tensor
        >>> serendipity = Serendipity(k=2, train_counts=[2, 2, 0, 0])
        >>> serendipity.update(tensor([[1, 2]]), tensor([[1, 2]]))
        >>> serendipity.compute()  # 1 is as popular as its rank; (5 - 2) / 4, by 2
        tensor(0.3750)
    """

    k: Positive
    train_counts: TrainCounts

    @property
    def needs(self) -> Needs:
        return Needs(depth=self.k)

    def score(self, ranking: Ranking) -> Tensor:
        size = len(self.train_counts)
        levels, level_of = torch.unique(self.train_counts, return_inverse=True)
        dense: Tensor = len(levels) - level_of
        popularity = torch.where(self.train_counts > 0, dense, size + 1)
        last = min(self.k, size + 1)
        by_visits = ranking.look_up(popularity, fill=size + 1)
        start = ranking.above.clamp(max=last)
        end = (ranking.above + ranking.tied).clamp(max=last).minimum(by_visits).maximum(start)
        ranks = end - start  # those that are ahead of the popularity
        ahead: Tensor = ranks * by_visits - (end * (end + 1) - start * (start + 1)) // 2
        return row_sum(ahead.double() / ranking.tied) / (self.k * size)
