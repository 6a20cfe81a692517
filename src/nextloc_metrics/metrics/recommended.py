"""Which locations are recommended: coverage, concentration and popularity of the first k."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core import backends
from nextloc_metrics.core.base.annotated_options import Computed, Positive
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.base.ranking_metric import Size
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.checks import check_num_locations
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.bins import read_visits

Definition = Literal["population", "sample", "evenness"]

# Integer sums below this are exact in 64 bits.
_LARGEST_SUM = 2.0**62


class FirstRanks(RecordMetric):
    """Base class of metrics that read which candidates are on the first `k` ranks.

    Ties: of a tied block that crosses rank `k`, the lowest ids are taken, to fill exactly `k`
    ranks. A candidate scored NaN takes a rank and is not read. A repeated id of a list is read once
    and keeps its ranks. Targets are not used, and `update(preds)` needs none: a query without a
    target counts; one left out by `mask` or `ignore_index` does not.
    """

    record = Ranking

    if TYPE_CHECKING:  # subclasses declare this option, some of them after another option

        @property
        def k(self) -> int: ...

    @property
    def needs(self) -> Needs:
        return Needs(self.k, depth=1, target=False)

    def read_first(self, ranking: Ranking) -> Tensor:
        """Return the distinct first k candidates `[N, T]`; -1 if there is none or it is skipped."""
        first = ranking.top_candidates(self.k)
        ids = first.ids.masked_fill(~(first.known & ranking.counted[:, None]), -1)
        if ranking.num_candidates is None and ids.shape[1] > 1:
            ids = ids.sort(1).values
            ids[:, 1:] = ids[:, 1:].masked_fill(ids[:, 1:] == ids[:, :-1], -1)  # repeats
        return ids


class RecommendedTally(FirstRanks):
    """Base class of `Coverage`, `Gini` and others: counts of recommended locations.

    A location is recommended to a query if it is among the first `k` candidates; ties, NaN and
    repeated ids are as for [`FirstRanks`][nextloc_metrics.metrics.recommended.FirstRanks]. An id of
    a list that is no location, such as an invention of a language model, takes a rank and is not
    counted; `num_invented` counts these ids. In a collection all these classes share one state.

    Args:
        num_locations: number of location ids, 0 to `num_locations` - 1.
    """

    shared_state = "RecommendedTally"

    num_locations: Size
    k: Positive

    def check(self, ranking: Ranking) -> None:
        check_num_locations(self.num_locations, ranking.num_candidates)

    def empty_state(self) -> Tensor:
        """Return zeros: recommendations of each location, invented ids, and queries."""
        return torch.zeros(self.num_locations + 2, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        ids = self.read_first(ranking)
        cells = torch.where(ids < 0, self.num_locations + 1, ids.clamp(max=self.num_locations))
        cells = cells.flatten()
        counts = backends.choose(cells).histogram(cells, self.num_locations + 2)
        return torch.cat([counts[:-1], ranking.counted.sum()[None]])

    @property
    def counts(self) -> Tensor:
        """How often each location was recommended in this process, int64 `[num_locations]`."""
        return self.state[:-2]

    @property
    def num_queries(self) -> int:
        return int(self.state[-1])

    @property
    def num_invented(self) -> int:
        """The number of recommendations in this process whose id is no location."""
        return int(self.state[-2])


class Coverage(RecommendedTally):
    r"""Coverage: the share of all locations that are recommended to at least one query.

    The value grows with the number of queries: compare models on the same queries. Options are
    those of [`RecommendedTally`][nextloc_metrics.metrics.recommended.RecommendedTally].

    Example:
        >>> from torch import tensor
        >>> coverage = Coverage(num_locations=4, k=2)
        >>> coverage.update(tensor([[0, 1], [1, 0], [1, 2]]))
        >>> coverage.compute()  # 0, 1 and 2 of four
        tensor(0.7500)

    Source: M. Ge, C. Delgado-Battenfeld and D. Jannach, "Beyond accuracy: evaluating recommender
    systems by coverage and serendipity", RecSys 2010.
    """

    shared_state = "RecommendedTally"

    def compute(self) -> Tensor:
        share = exact.float64((self.counts > 0).sum()) / self.num_locations
        return share.masked_fill(exact.float64(self.state[-1]) == 0, torch.nan)


class Gini(RecommendedTally):
    r"""Gini coefficient: how unequally the recommendations are spread over all locations.

    Let r_1 <= ... <= r_C be the numbers of times that the C locations are among the first `k`
    candidates, in rising order with zeros. G is the sum over i = 1..C of (2 i - C - 1) r_i, divided
    by D times the sum of all r_i: 0 if all are recommended equally often. Libraries differ in D:

    | `definition` | value | all recommendations for one location | same as |
    |---|---|---|---|
    | `"population"` | G with D = C | 1 - 1/C | RecBole's `GiniIndex` |
    | `"sample"` | G with D = C - 1 | 1 | WarpRec's `Gini` |
    | `"evenness"` | 1 - G with D = C - 1 | 0 | Elliot's `Gini` |

    Without a recommendation the value is NaN. The other options are those of
    [`RecommendedTally`][nextloc_metrics.metrics.recommended.RecommendedTally].

    Example:
        >>> from torch import tensor
        >>> gini = Gini(num_locations=4, k=2)
        >>> gini.update(tensor([[0, 1], [1, 0], [1, 2]]))  # 2, 3, 1 and 0 times
        >>> gini.compute()  # (-3 * 0 - 1 * 1 + 1 * 2 + 3 * 3) / (4 * 6)
        tensor(0.4167)

    Source: C. Gini, "Variabilità e mutabilità", 1912. The definitions are those of RecBole
    (recbole/evaluator/metrics.py, lines 680 to 689, commit 7b02be5), WarpRec
    (warprec/evaluation/metrics/diversity/gini_index.py, lines 71 to 95, commit e00f8cc) and Elliot
    (elliot/evaluation/metrics/diversity/gini_index/gini_index.py, lines 80 to 84, commit fc27efe).
    """

    shared_state = "RecommendedTally"
    higher_is_better = None

    definition: Computed[Definition] = "population"

    def compute(self) -> Tensor:
        size = self.num_locations
        weights = 2 * torch.arange(size, device=self.state.device) + 1 - size
        divisor = size if self.definition == "population" else size - 1
        total = dot(self.counts.sort().values, weights)
        gini = total / (divisor * exact.float64(self.counts.sum()))
        return 1 - gini if self.definition == "evenness" else gini


class AveragePopularity(RecommendedTally):
    r"""Average popularity: mean number of training visits of the recommended locations.

    The sum over locations c of r_c v_c, divided by the sum of r_c. Location c is among the first
    `k` candidates of r_c queries and has v_c visits in the training data: `train_counts`, integer
    `[C]`. If every query has `k` recommendations, the value is the mean over queries of the mean
    over their lists, as in RecBole's `AveragePopularity`. The unit is visits; a sum of visits
    beyond 2^62 raises an `OverflowError`. The other options are those of
    [`RecommendedTally`][nextloc_metrics.metrics.recommended.RecommendedTally].

    Example:
        >>> from torch import tensor
        >>> popularity = AveragePopularity(train_counts=[50, 30, 10, 0], k=2)
        >>> popularity.update(tensor([[0, 1], [1, 2]]))
        >>> popularity.compute()  # (50 + 30 + 30 + 10) / 4
        tensor(30.)

    Source: H. Yin, B. Cui, J. Li, J. Yao and C. Chen, "Challenging the long tail recommendation",
    VLDB 2012.
    """

    shared_state = "RecommendedTally"
    higher_is_better = None
    plot_upper_bound = None

    set_by_init = frozenset({"num_locations"})

    train_counts: Computed[Tensor]
    k: Positive

    def __init__(self, train_counts: Tensor | Sequence[int], k: int, **kwargs: Any) -> None:
        visits = read_visits("train_counts", train_counts)
        super().__init__(num_locations=len(visits), k=k, train_counts=visits, **kwargs)  # type: ignore[call-arg]

    def compute(self) -> Tensor:
        total = dot(self.counts, self.train_counts.to(self.state.device))
        return total / exact.float64(self.counts.sum())


def dot(counts: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of products of integers, float64, rounded once."""
    largest = float((exact.float64(counts) * exact.float64(weights).abs()).sum())
    if largest >= _LARGEST_SUM:
        raise OverflowError(
            "the sum over recommendations must be below 2^62 to be exact, got "
            f"{short(largest)}; call `reset()` between evaluations."
        )
    return exact.float64((counts * weights).sum())
