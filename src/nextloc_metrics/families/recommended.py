"""Which locations are recommended at all: coverage, concentration and popularity of the first k."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics import backends, exact
from nextloc_metrics.backends import must_not_sync
from nextloc_metrics.checks import check_choice, check_num_locations, check_positive
from nextloc_metrics.families.popularity import read_integers
from nextloc_metrics.messages import short
from nextloc_metrics.metric import LARGEST_STATE, RankingTally
from nextloc_metrics.ranking import Ranking

Definition = Literal["population", "sample", "evenness"]

#: what the state of all these metrics is named after
COUNTED_AS = "RecommendedTally"

# Scores that are compared at once where a tied block crosses rank k.
_AT_ONCE = 1 << 20

# Integer sums below this are exact in 64 bits.
_LARGEST_SUM = 2.0**62


class RecommendedTally(RankingTally):
    """What `Coverage`, `Gini` and `AveragePopularity` share: how often locations are recommended.

    A location is recommended to a query where it is among the first `k` candidates. The target
    plays no part: a query without one counts; a query that `mask` or `ignore_index` leaves out does
    not. In a collection one state serves all three classes.

    Ties: where a block of tied candidates crosses rank `k`, its lowest ids are taken, so that
    exactly `k` are. A candidate scored NaN takes a rank and is not counted. So does an id of a list
    that is no location, such as a language model's invention; `num_invented` counts these. An id
    that a list repeats counts once and keeps its ranks.

    Args:
        num_locations: how many ids there are, 0 to `num_locations` - 1.
        k: how many ranks count.
        kwargs: what a subclass declares; `ignore_index`, `validate_args`, and TorchMetrics' own
            keyword arguments.
    """

    def __init__(self, num_locations: int, k: int, **kwargs: Any) -> None:
        super().__init__(
            num_locations=check_positive("num_locations", num_locations, LARGEST_STATE),
            k=check_positive("k", k),
            **kwargs,
        )

    num_locations: int
    k: int

    @property
    def top(self) -> int:
        """The first k ranks count."""
        return self.k

    @property
    def best_only(self) -> bool:
        """For one rank, the best candidate is the lowest id of a tie already."""
        return self.k == 1

    @property
    def keeps_scores(self) -> bool:
        """The lowest ids of a block that crosses rank k are found by their scores."""
        return self.k > 1

    @property
    def depth(self) -> int:
        """Where the relevant locations landed is not read."""
        return 1

    def check(self, ranking: Ranking) -> None:
        """Raise where this metric cannot be updated with the ranking."""
        super().check(ranking)
        check_num_locations(self.num_locations, ranking.num_candidates)
        if ranking.scores is None and (self.validate_args or not must_not_sync(ranking.above)):
            crosses = self._crossing(ranking)[1]
            if crosses is not None and bool((crosses & ranking.counted).any()):
                raise ValueError(
                    f"a block of tied candidates crosses rank {self.k}, and this Ranking does not "
                    "hold their scores; make it by `rank` of this metric, or of a collection with "
                    "it."
                )

    def empty_tally(self) -> Tensor:
        """Return zeros for every location's recommendations, for invented ids, and for queries."""
        return torch.zeros(self.num_locations + 2, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        """Count how often every location is among the first k."""
        ids = self._first(ranking).masked_fill(~ranking.counted[:, None], -1)
        if ranking.num_candidates is None and ids.shape[1] > 1:
            ids = ids.sort(1).values
            ids[:, 1:] = ids[:, 1:].masked_fill(ids[:, 1:] == ids[:, :-1], -1)  # repeats of a list
        cells = torch.where(ids < 0, self.num_locations + 1, ids.clamp(max=self.num_locations))
        cells = cells.flatten()
        counts = backends.choose(cells).histogram(cells, self.num_locations + 2)
        return torch.cat([counts[:-1], ranking.counted.sum()[None]])

    @property
    def counts(self) -> Tensor:
        """How often every location was recommended, int64 `[num_locations]`, in this process."""
        return self.state[:-2]

    @property
    def num_queries(self) -> int:
        """How many queries this process has counted."""
        return int(self.state[-1])

    @property
    def num_invented(self) -> int:
        """How many recommendations of this process are ids that are no location."""
        return int(self.state[-2])

    def _crossing(self, ranking: Ranking) -> tuple[Tensor, Tensor | None]:
        """Return how many of the first k are known, and in which queries a block crosses rank k."""
        assert ranking.first is not None  # as `check` found
        first = ranking.first
        kept = (first.ids[:, : self.k] >= 0).sum(1)
        if ranking.num_candidates is None or self.k == 1:
            return kept, None
        crosses = kept < first.retrieved.clamp(max=self.k)
        return kept, crosses & ~((first.best < 0) & (kept == 0))  # NaN alone is on these ranks

    def _first(self, ranking: Ranking) -> Tensor:
        """Return the first k candidates `[N, T]`, of tied ones the lowest ids; -1 for none."""
        if self.k == 1:
            return ranking.best[:, None]
        assert ranking.first is not None
        ids = ranking.first.ids.masked_fill(~ranking.first.known, -1)[:, : self.k]
        kept, crosses = self._crossing(ranking)
        if crosses is None or ranking.scores is None:
            return ids
        waits = must_not_sync(ids)  # all queries are then looked at
        rows = torch.arange(len(ids), device=ids.device) if waits else crosses.nonzero()[:, 0]
        candidate = torch.arange(ranking.scores.shape[1], device=ids.device)
        place = torch.arange(ids.shape[1], device=ids.device)
        at_once = max(1, _AT_ONCE // len(candidate))
        for part in torch.split(rows, at_once) if len(rows) else ():
            scores, start = ranking.scores[part], kept[part][:, None]
            values, _ = backends.choose(scores).first(scores, self.k)
            block = values.gather(1, start.clamp(max=values.shape[1] - 1))
            inside = torch.where(scores == block, candidate, len(candidate))
            lowest = inside.topk(ids.shape[1], dim=1, largest=False).values
            found = lowest.gather(1, (place - start).clamp(min=0))
            is_free = (place >= start) & crosses[part][:, None]
            ids[part] = torch.where(is_free, found, ids[part])
        return ids


class Coverage(RecommendedTally):
    r"""Coverage: the share of all locations that are recommended to at least one query.

    A location is recommended to a query where it is among the first `k` candidates; the value is
    the number of distinct recommended locations over `num_locations`. It grows with the number of
    queries: compare models on the same ones.

    Ties, NaN, invented ids and which queries count: see
    [`RecommendedTally`][nextloc_metrics.families.recommended.RecommendedTally]. It is NaN without
    a query.

    Args:
        num_locations: how many ids there are, 0 to `num_locations` - 1.
        k: how many ranks count.
        kwargs: `ignore_index`, `validate_args`, and TorchMetrics' own keyword arguments.

    Raises:
        ValueError: `num_locations` or `k` is not a positive integer; in `update`, there are more
            candidates than locations, or a tied block crosses rank k in a `Ranking` without scores.

    Example:
        >>> from torch import tensor
        >>> coverage = Coverage(num_locations=4, k=2)
        >>> coverage.update(tensor([[0, 1], [1, 0], [1, 2]]), tensor([3, 3, 3]))
        >>> coverage.compute()  # 0, 1 and 2 of four
        tensor(0.7500)

    Source: M. Ge, C. Delgado-Battenfeld and D. Jannach, "Beyond accuracy: evaluating recommender
    systems by coverage and serendipity", RecSys 2010.
    """

    counted_as = COUNTED_AS

    def compute(self) -> Tensor:
        """Return the share of locations that are recommended; NaN without a query."""
        found = exact.float64((self.counts > 0).sum()) / self.num_locations
        return found.masked_fill(self._none, torch.nan).float().to(self.state.device)

    @property
    def _none(self) -> Tensor:
        return exact.float64(self.state[-1]) == 0


class Gini(RecommendedTally):
    r"""Gini coefficient: how unequally the recommendations are spread over all locations.

    With r_1 <= ... <= r_C, how often each of the C locations is among the first `k` candidates,
    in rising order, zeros included, G is the sum over i = 1..C of (2 i - C - 1) r_i, over D times
    the sum of all r_i. It is 0 where all locations are recommended equally often. Libraries have
    different D:

    | `definition` | value | all recommendations for one location | the same as |
    |---|---|---|---|
    | `"population"` | G with D = C | 1 - 1/C | RecBole's `GiniIndex` |
    | `"sample"` | G with D = C - 1 | 1 | WarpRec's `Gini` |
    | `"evenness"` | 1 - G with D = C - 1 | 0 | Elliot's `Gini` |

    Ties, NaN, invented ids and which queries count: see
    [`RecommendedTally`][nextloc_metrics.families.recommended.RecommendedTally]. It is NaN without
    a recommendation. Metrics that differ in `definition` share one state in a collection.

    Args:
        num_locations: how many ids there are, 0 to `num_locations` - 1.
        k: how many ranks count.
        definition: `"population"`, `"sample"` or `"evenness"`.
        kwargs: `ignore_index`, `validate_args`, and TorchMetrics' own keyword arguments.

    Raises:
        ValueError: as for [`Coverage`][nextloc_metrics.Coverage]; or `definition` is unknown.

    Example:
        >>> from torch import tensor
        >>> gini = Gini(num_locations=4, k=2)
        >>> gini.update(tensor([[0, 1], [1, 0], [1, 2]]), tensor([3, 3, 3]))  # 2, 3, 1 and 0 times
        >>> gini.compute()  # (-3 * 0 - 1 * 1 + 1 * 2 + 3 * 3) / (4 * 6)
        tensor(0.4167)

    Source: C. Gini, "Variabilità e mutabilità", 1912. The definitions were read in RecBole
    (recbole/evaluator/metrics.py, lines 680 to 689, commit 7b02be5), WarpRec
    (warprec/evaluation/metrics/diversity/gini_index.py, lines 71 to 95, commit e00f8cc) and Elliot
    (elliot/evaluation/metrics/diversity/gini_index/gini_index.py, lines 80 to 84, commit fc27efe).
    """

    counted_as = COUNTED_AS
    computed_options = frozenset({"definition"})
    higher_is_better = None

    def __init__(
        self, num_locations: int, k: int, definition: Definition = "population", **kwargs: Any
    ) -> None:
        check_choice("definition", definition, Definition)
        super().__init__(num_locations=num_locations, k=k, definition=definition, **kwargs)

    definition: Definition

    def compute(self) -> Tensor:
        """Return the Gini coefficient; NaN without a recommendation."""
        size = self.num_locations
        weights = 2 * torch.arange(size, device=self.state.device) + 1 - size
        divisor = size if self.definition == "population" else size - 1
        total = _dot(self.counts.sort().values, weights)
        gini = total / (divisor * exact.float64(self.counts.sum()))
        return (1 - gini if self.definition == "evenness" else gini).float().to(self.state.device)


class AveragePopularity(RecommendedTally):
    r"""Average popularity: how often training data visits what is recommended, on average.

    The sum over locations c of r_c v_c, over the sum of r_c: location c is among the first `k`
    candidates of r_c queries and has v_c visits in the training data. Every recommendation counts
    alike. Where every query has `k` of them, it is the mean over queries of the mean over their
    lists, as RecBole's `AveragePopularity` has it. The unit is visits, not a fraction.

    Ties, NaN, invented ids and which queries count: see
    [`RecommendedTally`][nextloc_metrics.families.recommended.RecommendedTally]. It is NaN without
    a recommendation. The value is computed from integers and exact up to its last rounding.

    Args:
        train_counts: integer `[C]`, the visits of every location in the training data.
        k: how many ranks count.
        kwargs: `ignore_index`, `validate_args`, and TorchMetrics' own keyword arguments.

    Raises:
        ValueError: `train_counts` is not one row of integers of at least 0; or as for
            [`Coverage`][nextloc_metrics.Coverage].
        OverflowError: in `compute`, the sum of visits does not fit into 64 bits.

    Example:
        >>> from torch import tensor
        >>> popularity = AveragePopularity(train_counts=[50, 30, 10, 0], k=2)
        >>> popularity.update(tensor([[0, 1], [1, 2]]), tensor([3, 3]))
        >>> popularity.compute()  # (50 + 30 + 30 + 10) / 4
        tensor(30.)

    Source: H. Yin, B. Cui, J. Li, J. Yao and C. Chen, "Challenging the long tail recommendation",
    VLDB 2012.
    """

    counted_as = COUNTED_AS
    computed_options = frozenset({"train_counts"})
    higher_is_better = None
    plot_upper_bound = None

    def __init__(self, train_counts: Tensor | Sequence[int], k: int, **kwargs: Any) -> None:
        visits = read_integers("train_counts", train_counts).cpu()
        super().__init__(num_locations=len(visits), k=k, train_counts=visits, **kwargs)

    train_counts: Tensor

    def compute(self) -> Tensor:
        """Return the mean number of visits; NaN without a recommendation."""
        total = _dot(self.counts, self.train_counts.to(self.state.device))
        return (total / exact.float64(self.counts.sum())).float().to(self.state.device)


def _dot(counts: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of products of integers, float64, rounded once."""
    largest = float((exact.float64(counts) * exact.float64(weights).abs()).sum())
    if largest >= _LARGEST_SUM:
        raise OverflowError(
            f"a sum over recommendations must stay below 2^62 to be exact, got {short(largest)}; "
            "call `reset()` between evaluations."
        )
    return exact.float64((counts * weights).sum())
