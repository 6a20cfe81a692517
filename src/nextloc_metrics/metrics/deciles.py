"""Metrics for every popularity bin of the relevant location: how well are rare ones predicted?

A query's list is cut to its first `candidates` ranks and split by bin; `k` then cuts each bin's own
list, in which a rank counts the candidates of that bin only.
"""

from abc import abstractmethod
from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from nextloc_metrics.core import scoring
from nextloc_metrics.core.base.annotated_options import Computed, Positive, PositiveNumber
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.queries.checks import check_kind, check_part, from_one
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking, Ties
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.split import (
    Lengths,
    MeanOrMedian,
    Scope,
    Split,
    of_histogram,
    split_by_bin,
)

#: the note of a dagger, at a value that is the same for any order of the bin's own list
_FIXED = (
    "fixed by the number of locations in the decile, whatever their order: 1 (precision: 1 / "
    "locations) wherever the target is retrieved"
)

Decile = int | Literal["unmapped"]

_check_bins = partial(check_kind, kind=PopularityBins, call="`PopularityBins.from_counts(counts)`")


class DecileMetric(RecordMetric):
    """Base class of metrics with one value per popularity bin, and one for `unmapped` locations.

    `compute` returns a dict with a key per bin, such as `ndcg_at_5_decile_01` of ten bins, and NaN
    for a bin without data; with `decile` it returns one scalar. Metrics that differ only in
    `decile` share one state.

    Args:
        bins: every location's bin.
        candidates: how many of the first ranks are read; a location beyond is a miss. A tied block
            that crosses this rank is left out completely.
        scope: the list whose ranks are counted: `"within"`, the bin's own; `"all"`, the full list,
            in which a bin has its relevant locations.
        decile: the bin of the scalar, a number or `"unmapped"`; None for a dict of all bins.
    """

    record = Ranking
    plot_legend_name = "popularity decile (1 = rarest)"

    bins: Annotated[PopularityBins, _check_bins]
    _: KW_ONLY
    candidates: Positive = 500
    scope: Scope = "within"
    decile: Computed[Decile | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        accepted = [(type(x), x) for x in (None, *self.deciles(self.bins))]
        if (type(self.decile), self.decile) not in accepted:  # the type, because True equals 1
            raise ValueError(
                f"`decile` must be None, 'unmapped' or a bin from 1 to {self.bins.num_bins}, "
                f"got {short(self.decile)}."
            )
        name = self.name if self.decile is None else self.key(self.decile)
        self.label = name.replace("ndcg", "NDCG").replace("_at_", "@").replace("_", " ")
        if self.scope == "within":
            self.label += ", ranks within the decile"
        if self.decile is None:
            deciles = sorted(self.deciles(self.bins), key=lambda decile: isinstance(decile, str))
            labels = {self.key(decile): str(decile) for decile in deciles}
            self.key_labels = labels  # type: ignore[misc]  # set for this object only

    @property
    @abstractmethod
    def name(self) -> str:
        """The metric's name in the keys of `compute`, such as `precision_at_5`."""

    @property
    def needs(self) -> Needs:
        return Needs(within=self.cut + 1)  # the next rank tells whether a block crosses the cut

    @abstractmethod
    def values(self) -> Tensor:
        """Return the float values in the order of `deciles`; the state starts with unmapped."""

    @property
    def cut(self) -> int:
        """The number of first ranks that are split by bin."""
        return self.candidates

    def tally(self, ranking: Ranking) -> Tensor:
        return self.tally_split(self.split(ranking))

    def split(self, ranking: Ranking) -> Split:
        """Return the list of each query, split by bin; metrics with equal options share it."""
        options = self.bins, self.cut, self.scope
        return ranking.once(("split", *options), lambda: split_by_bin(ranking, *options))

    def tally_split(self, split: Split) -> Tensor:
        """Return the state of a batch, from its lists split by bin."""
        raise NotImplementedError("a decile metric must define `tally_split` or `tally`.")

    def check(self, ranking: Ranking) -> None:
        highest = (ranking.num_candidates or 0) - 1
        if ranking.num_candidates is None and self.validate_args and len(ranking):
            highest = int(ranking.relevant.max())
        if highest >= len(self.bins):
            of_lists = ranking.num_candidates is None
            from_zero = from_one(ranking.relevant, len(self.bins)) if of_lists else ""
            raise ValueError(
                "`bins` (`train_counts`) must hold every location, got "
                f"{len(self.bins)} locations and id {highest}{from_zero}."
            )

    def compute(self) -> Any:
        named = dict(zip(self.deciles(self.bins), self.values().unbind(), strict=True))
        if self.decile is not None:
            return named[self.decile]
        return {self.key(decile): value for decile, value in named.items()}

    @property
    def footnotes(self) -> dict[str, str]:
        if self.scope != "within":
            return {}
        deciles = self.deciles(self.bins) if self.decile is None else [self.decile]
        fixed = [x for x in deciles if all(map(self.is_fixed, self.sizes_of(x)))]
        return {self.key(x) if self.key_labels else "": _FIXED for x in fixed}

    def is_fixed(self, num_locations: int) -> bool:
        """Return whether the value of a bin is the same at any rank in the list of the bin."""
        return False

    def sizes_of(self, decile: Any) -> list[int]:
        """Return the number of locations of each bin that the value of `decile` covers."""
        return [self.bins.sizes[decile if isinstance(decile, int) else 0]]

    def key(self, decile: Decile) -> str:
        """Return the name of a bin's value, such as `precision_at_5_decile_1` of up to nine bins.

        All numbers have the digits of the last one: of ten bins the first is `..._decile_01`.
        """
        digits = len(str(self.bins.num_bins))
        label = decile if isinstance(decile, str) else f"{decile:0{digits}}"
        return f"{self.name}_decile_{label}"

    @classmethod
    def deciles(cls, bins: PopularityBins) -> list[Decile]:
        """List the values that `decile` accepts, in the order of the keys."""
        return [*range(1, bins.num_bins + 1), "unmapped"]


class DecileAtK(DecileMetric):
    """A decile metric that reads `k` ranks."""

    stem: ClassVar[str]  #: the name without k

    k: Positive

    @property
    def name(self) -> str:
        return f"{self.stem}_at_{self.k}"


class DecileScore(DecileMetric, MeanMetric):
    """The mean of a score for every bin, over the queries with a relevant location in the bin.

    With `decile` it is one mean of scores, as `Grouped` needs it. `ties` is as for
    [`RankingMetric`][nextloc_metrics.RankingMetric].
    """

    _: KW_ONLY
    ties: Ties = "expected"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_mean = self.decile is not None

    @abstractmethod
    def score_rows(self, ranking: Ranking, lengths: Lengths) -> Tensor:
        """Return float64 `[R]`, one score in [0, 1] per row of `Split.within`."""

    def empty_state(self) -> Tensor:
        """Return zeros: per bin the sum of scores, the sum of squares, the number of queries."""
        return torch.zeros(self.bins.num_bins + 1, 3, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        split, number = self.split(ranking), self.bins.num_bins + 1
        scores, counted = self._rows(ranking), split.within.answerable
        return exact.tally_by(split.bins.flatten(), number, scores, counted)

    def score(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        """Return the score of each query in the bin `decile`, and which queries have one."""
        split, number = self.split(ranking), self.decile if isinstance(self.decile, int) else 0
        counted = split.within.answerable.view_as(split.bins) & (split.bins == number)
        scores = self._rows(ranking).view_as(split.bins).masked_fill(~counted, 0)
        return scores.sum(1), counted.any(1)

    def _rows(self, ranking: Ranking) -> Tensor:
        """Return the scores of all rows; metrics that differ only in `decile` share them."""

        def make() -> Tensor:
            split = self.split(ranking)
            return self.score_rows(split.within.break_ties(self.ties), split.lengths)

        return ranking.once(("rows", self._state_name), make)

    def state_key(self) -> str:
        """Return the name of the state and the decile, on which the scores of queries depend."""
        return f"{self._state_name} {self.decile}"

    def values(self) -> Tensor:
        return exact.moments(self.state)[0].roll(-1)

    @property
    def num_queries(self) -> Tensor:
        """How many queries this process has counted per bin, int64, in the order of `compute`."""
        return self.state[:, 2].roll(-1)

    def estimate(self) -> intervals.Estimate:
        sums = self.state.roll(-1, 0)
        if self.decile is not None:
            sums = sums[self.deciles(self.bins).index(self.decile)]
        return intervals.of_queries(sums)


class DecilePrecision(DecileAtK, DecileScore):
    r"""Precision within each popularity bin: hits / min(k, length of the bin's own list).

    Hits are the bin's relevant locations within the first `k` ranks of the bin's own list. A query
    without a relevant location in the bin is skipped in that bin; with one, it scores 0 if the
    bin's own list is empty. The divisor favours rare bins, because their lists are short: compare
    bins by [`DecileNDCG`][nextloc_metrics.DecileNDCG]. Ties: the expectation over the orders of
    the bin's tied candidates.

    With `scope="all"` a tied block that crosses rank k of the full list is left out.

    Example:
        >>> from torch import tensor
        >>> bins = PopularityBins([2, 2, 1, 1])
        >>> precision = DecilePrecision(bins, k=1)
        >>> precision.update(tensor([[0, 2, 1, 3]]), tensor([[1, 2]]))
        >>> precision.compute()  # lists 2, 3 and 0, 1
        {'precision_at_1_decile_1': tensor(1.), 'precision_at_1_decile_2': tensor(0.),
         'precision_at_1_decile_unmapped': tensor(nan)}
    """

    stem = "precision"

    @property
    def cut(self) -> int:
        return self.candidates if self.scope == "within" else min(self.k, self.candidates)

    def is_fixed(self, num_locations: int) -> bool:
        return num_locations <= self.k

    def score_rows(self, ranking: Ranking, lengths: Lengths) -> Tensor:
        return scoring.hits(ranking, self.k) / lengths(self.k).clamp(min=1)


class DecileNDCG(DecileAtK, DecileScore):
    r"""NDCG within each popularity bin, at ranks of the bin's own list.

    The ideal DCG has the min(k, n) highest gains of the query's n relevant locations in the bin.
    The rest is as for [`DecilePrecision`][nextloc_metrics.DecilePrecision].

    Example:
        >>> from torch import tensor
        >>> ndcg = DecileNDCG(PopularityBins([2, 2, 1, 1]), k=2, decile=2)
        >>> ndcg.update(tensor([[0, 2, 1, 3]]), tensor([[1, 2]]))
        >>> ndcg.compute()  # second of 0, 1: 1 / log2(3)
        tensor(0.6309)
    """

    stem = "ndcg"

    def is_fixed(self, num_locations: int) -> bool:
        return num_locations == 1

    def score_rows(self, ranking: Ranking, lengths: Lengths) -> Tensor:
        return scoring.ndcg(ranking, self.k)


class DecileKForRecall(DecileMetric):
    r"""The smallest k at which recall within each popularity bin reaches `min_recall`.

    k counts ranks of the bin's own list, a tied block at its worst ranks. The value is the median
    over the queries with a relevant location in the bin, read from a histogram. A query has no k if
    the bin's own list ends before recall reaches `min_recall`. The median sorts it last, and is NaN
    if the middle query, or one of the two middle queries, has no k. The mean is NaN if any query
    has no k.

    Args:
        min_recall: the recall to reach, above 0 and at most 1.
        statistic: `"median"` or `"mean"`.
        exhausted: the number that queries without a k have as k, such as half of the number of
            locations; None for none.

    Example:
        >>> from torch import tensor
        >>> k = DecileKForRecall(PopularityBins([2, 2, 1, 1]), min_recall=1.0, decile=2)
        >>> k.update(tensor([[0, 2, 1, 3]]), tensor([[1, 2]]))
        >>> k.compute()  # location 1 is second of 0, 1
        tensor(2.)
    """

    higher_is_better = False
    plot_upper_bound = None

    min_recall: Annotated[float, check_part]
    statistic: Computed[MeanOrMedian] = "median"
    exhausted: Computed[PositiveNumber | None] = None

    @property
    def name(self) -> str:
        return f"k_for_recall_{100 * self.min_recall:g}".replace(".", "_")

    def is_fixed(self, num_locations: int) -> bool:
        return num_locations == 1

    def empty_state(self) -> Tensor:
        """Return zeros: per bin the number of queries per k; column 0 counts those without a k."""
        return torch.zeros(self.bins.num_bins + 1, self.candidates + 1, dtype=torch.int64)

    def tally_split(self, split: Split) -> Tensor:
        within = split.within
        rank = within.break_ties("pessimistic").above + 1
        relevant = within.num_relevant[:, None]
        k = rank[:, 0]
        if rank.shape[1] > 1:
            hits = torch.arange(1, rank.shape[1] + 1, device=rank.device)
            is_low = (hits.double() / relevant.clamp(min=1) < self.min_recall) & (hits < relevant)
            k = rank.gather(1, is_low.sum(1, keepdim=True))[:, 0]
        k = k.masked_fill(k > self.candidates, 0)
        width = self.candidates + 1
        cells = split.bins.flatten() * width + k
        counts = torch.zeros(self.empty_state().numel(), dtype=torch.int64, device=rank.device)
        return counts.index_add(0, cells, (relevant[:, 0] > 0).long()).view(-1, width)

    def values(self) -> Tensor:
        return of_histogram(self.state, self.statistic, self.exhausted).roll(-1)
