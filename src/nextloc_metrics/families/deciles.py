"""How well are rare places predicted? Metrics per popularity bin of the relevant location.

A query's ranked list is cut to its first `candidates` and split by bin; `k` then cuts the bin's
own list. Ranks within a bin are the same numbers as ranks in the whole list, counted among the
bin's candidates, so the same formulas score them.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from nextloc_metrics import backends, exact, scoring
from nextloc_metrics.checks import check_choice, check_positive
from nextloc_metrics.families.popularity import PopularityBins
from nextloc_metrics.messages import short
from nextloc_metrics.metric import RankingTally
from nextloc_metrics.ranking import Ranking
from nextloc_metrics.reading import Relevant
from nextloc_metrics.record import UNRETRIEVED, Ties

Decile = int | Literal["unmapped"]


class DecileMetric(RankingTally):
    """A value for every popularity bin, and for locations in none (`unmapped`).

    `compute` returns a dict whose keys are always the same, NaN where nothing was counted; with
    `decile` that one scalar. Metrics that differ in `decile` alone share one state in a
    `MetricCollection`.

    Args:
        bins: every location's bin.
        candidates: how many of the first ranks are looked at. A block of tied candidates that
            crosses this rank is left out whole.
        decile: the number of a bin or `"unmapped"`, for a scalar; None for all.
        options: `ignore_index`, `validate_args`, and TorchMetrics' own keyword arguments.

    Raises:
        ValueError: an option is out of range; in `update`, a relevant id or a candidate with a
            score is not in `bins`.
    """

    plot_legend_name = "popularity decile (1 = rarest)"
    computed_options: ClassVar[frozenset[str]] = frozenset({"decile"})

    bins: PopularityBins
    candidates: int
    decile: Decile | None

    def __init__(
        self,
        *,
        bins: PopularityBins,
        candidates: int = 500,
        decile: Decile | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(bins, PopularityBins):
            raise TypeError(f"`bins` must be a PopularityBins, got {type(bins).__name__}.")
        if not any(  # True equals 1, and is no bin
            type(decile) is type(known) and decile == known for known in (None, *self.deciles(bins))
        ):
            raise ValueError(
                f"`decile` must be None, 'unmapped' or a bin from 1 to {bins.num_bins}, "
                f"got {short(decile)}."
            )
        super().__init__(
            bins=bins, candidates=check_positive("candidates", candidates), decile=decile, **options
        )

    @property
    @abstractmethod
    def name(self) -> str:
        """The metric's name in the keys of `compute`, such as `precision_at_5`."""

    @property
    def top(self) -> int:
        """The list is cut to its first candidates."""
        return self.candidates

    @abstractmethod
    def values(self) -> Tensor:
        """Return the float values in the order of `deciles`; the state has unmapped first."""

    @property
    def cut(self) -> int:
        """How many of the first ranks are split by bin."""
        return self.candidates

    def tally(self, ranking: Ranking) -> Tensor:
        """Return what a batch adds to the state."""
        return self.tally_split(*split_by_bin(ranking, self.bins, self.cut))

    def tally_split(self, within: Ranking, predictions: Tensor) -> Tensor:
        """Do what `tally` does, of what `split_by_bin` returned."""
        raise NotImplementedError("a decile metric defines `tally_split` or `tally`")

    @staticmethod
    def tallies(metrics: Sequence[Any], ranking: Ranking) -> list[Tensor]:
        """Return what a batch adds to each; lists that are split alike are split once."""
        split: dict[tuple[PopularityBins, int], tuple[Ranking, Tensor]] = {}
        found = []
        for metric in metrics:
            if type(metric).tally is not DecileMetric.tally:
                found.append(metric.tally(ranking))
                continue
            key = metric.bins, metric.cut
            if key not in split:
                split[key] = split_by_bin(ranking, *key)
            found.append(metric.tally_split(*split[key]))
        return found

    def check(self, ranking: Ranking) -> None:
        """Raise where this metric cannot be updated with the ranking."""
        super().check(ranking)
        highest = (ranking.num_candidates or 0) - 1
        if ranking.num_candidates is None and self.validate_args and len(ranking):
            highest = int(ranking.relevant.max())
        if highest >= len(self.bins):
            raise ValueError(
                f"`bins` must hold every location, got {len(self.bins)} of them and id {highest}."
            )

    def compute(self) -> Tensor | dict[str, Tensor]:
        """Return the value of every bin by name, or that of `decile`."""
        named = dict(zip(self.deciles(self.bins), self.values().unbind(), strict=True))
        if self.decile is not None:
            return named[self.decile]
        return {self.key(decile): value for decile, value in named.items()}

    @property
    def plot_label(self) -> str:
        """The metric's name, and which bin's value it is."""
        return (self.name if self.decile is None else self.key(self.decile)).replace("_", " ")

    @property
    def plot_labels(self) -> dict[str, str]:
        """Bars from the rarest bin to the most popular, and then what is no bin."""
        if self.decile is not None:
            return {}
        numbers_first = sorted(self.deciles(self.bins), key=lambda decile: isinstance(decile, str))
        return {self.key(decile): str(decile) for decile in numbers_first}

    def key(self, decile: Decile) -> str:
        """Return the name of a bin's value, such as `precision_at_5_decile_01`."""
        digits = len(str(self.bins.num_bins))
        label = decile if isinstance(decile, str) else f"{decile:0{digits}}"
        return f"{self.name}_decile_{label}"

    @classmethod
    def deciles(cls, bins: PopularityBins) -> list[Decile]:
        """List what `decile` may be, in the order of the keys."""
        return [*range(1, bins.num_bins + 1), "unmapped"]


class DecileScore(DecileMetric):
    """The mean, for every bin, of a score of the queries with a relevant location in the bin.

    Args:
        ties: as in [`RankingMetric`][nextloc_metrics.RankingMetric].
        options: those of `DecileMetric`.
    """

    ties: Ties

    def __init__(self, *, ties: Ties = "expected", **options: Any) -> None:
        check_choice("ties", ties, Ties)
        super().__init__(ties=ties, **options)

    @abstractmethod
    def score(self, ranking: Ranking, predictions: Tensor) -> Tensor:
        """Return float64 `[N]`, one score in [0, 1] per query and bin.

        Args:
            ranking: where the relevant locations of a bin landed among the bin's candidates.
            predictions: int64 `[N]`, the bin's number of candidates.
        """

    def empty_tally(self) -> Tensor:
        """Return zeros for every bin's sum of scores, of their squares, and its queries."""
        return torch.zeros(self.bins.num_bins + 1, 3, dtype=torch.int64)

    def tally_split(self, within: Ranking, predictions: Tensor) -> Tensor:
        """Sum up the scores of every bin, exactly."""
        scores = self.score(within.break_ties(self.ties), predictions)
        bin_of_row = torch.arange(len(within), device=within.device) % (self.bins.num_bins + 1)
        return exact.tally_by(bin_of_row, self.bins.num_bins + 1, scores, within.answerable)

    def values(self) -> Tensor:
        """Return the mean score of every bin."""
        return exact.mean(self.state).roll(-1)


class DecilePrecision(DecileScore):
    r"""Precision within each popularity bin: hits / min(k, predictions of that bin).

    Hits are the bin's relevant locations within the first `k` of the bin's own list. A query with
    no relevant location in the bin is skipped there; with one but no prediction it counts 0.

    Dividing by no more than the predictions there are flatters rare bins, whose lists are short;
    [`DecileNDCG`][nextloc_metrics.DecileNDCG] does not. Ties: expectation, over the order of the
    bin's tied candidates.

    Args:
        bins: every location's bin.
        k: how many ranks of a bin's list count.
        scope: `"within"`, k cuts the bin's own list; `"global"`, the whole list is cut to its
            first k ranks before it is split (a tied block that crosses rank k is left out).
        kwargs: `candidates`, `decile`, `ties`, `ignore_index`, `validate_args`, and TorchMetrics'
            own keyword arguments.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import DecilePrecision, PopularityBins
        >>> bins = PopularityBins([2, 2, 1, 1])
        >>> precision = DecilePrecision(bins, k=1)
        >>> precision.update(tensor([[0, 2, 1, 3]]), tensor([[1, 2]]))
        >>> precision.compute()  # lists 2, 3 and 0, 1
        {'precision_at_1_decile_1': tensor(1.), 'precision_at_1_decile_2': tensor(0.),
         'precision_at_1_decile_unmapped': tensor(nan)}
    """

    def __init__(
        self,
        bins: PopularityBins,
        k: int,
        scope: Literal["within", "global"] = "within",
        **kwargs: Any,
    ) -> None:
        check_choice("scope", scope, Literal["within", "global"])
        super().__init__(bins=bins, k=check_positive("k", k), scope=scope, **kwargs)

    k: int
    scope: Literal["within", "global"]

    @property
    def name(self) -> str:
        """`precision_at_k`."""
        return f"precision_at_{self.k}"

    @property
    def top(self) -> int:
        """As many as are split by bin."""
        return self.cut

    @property
    def cut(self) -> int:
        """How many of the first ranks are split by bin."""
        return self.candidates if self.scope == "within" else min(self.k, self.candidates)

    def score(self, ranking: Ranking, predictions: Tensor) -> Tensor:
        """Divide the hits by the ranks that could hold one."""
        return scoring.hits(ranking, self.k) / predictions.clamp(min=1, max=self.k)


class DecileNDCG(DecileScore):
    r"""NDCG within each popularity bin, at ranks of the bin's own list.

    The ideal takes the best min(k, n) gains of the query's n relevant locations in the bin. A
    query with no relevant location in the bin is skipped there; with one but no prediction it
    counts 0. Ties: expectation, over the order of the bin's tied candidates.

    Args:
        bins: every location's bin.
        k: how many ranks of a bin's list count.
        kwargs: as for [`DecilePrecision`][nextloc_metrics.DecilePrecision].

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import DecileNDCG, PopularityBins
        >>> ndcg = DecileNDCG(PopularityBins([2, 2, 1, 1]), k=2, decile=2)
        >>> ndcg.update(tensor([[0, 2, 1, 3]]), tensor([[1, 2]]))
        >>> ndcg.compute()  # second of 0, 1: 1 / log2(3)
        tensor(0.6309)
    """

    def __init__(self, bins: PopularityBins, k: int, **kwargs: Any) -> None:
        super().__init__(bins=bins, k=check_positive("k", k), **kwargs)

    k: int

    @property
    def name(self) -> str:
        """`ndcg_at_k`."""
        return f"ndcg_at_{self.k}"

    def score(self, ranking: Ranking, predictions: Tensor) -> Tensor:
        """Relate the discounted gain to the best possible."""
        return scoring.ndcg(ranking, self.k)


class DecileKForRecall(DecileMetric):
    r"""How far down a bin's list one must read to find its relevant locations.

    The smallest k, within the bin's own list, at which recall reaches `min_recall`; the median
    over the queries with a relevant location in the bin. A list that ends before, or is empty,
    counts as half the number of mapped locations (rounded down), or as `exhausted`. The state is a
    histogram, so that the median is exact over any number of processes.

    Ties: a tied block counts at its worst ranks.

    Args:
        bins: every location's bin.
        min_recall: the recall to reach, above 0 and at most 1.
        statistic: `"median"` or `"mean"`.
        exhausted: what a list counts that ends before; None for half the mapped locations.
        kwargs: `candidates`, `decile`, `ignore_index`, `validate_args`, and TorchMetrics' own
            keyword arguments.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import DecileKForRecall, PopularityBins
        >>> k = DecileKForRecall(PopularityBins([2, 2, 1, 1]), min_recall=1.0, decile=2)
        >>> k.update(tensor([[0, 2, 1, 3]]), tensor([[1, 2]]))
        >>> k.compute()  # location 1 is second of 0, 1
        tensor(2.)
    """

    higher_is_better = False
    plot_upper_bound = None
    computed_options = frozenset({"decile", "statistic", "exhausted"})

    def __init__(
        self,
        bins: PopularityBins,
        min_recall: float,
        statistic: Literal["median", "mean"] = "median",
        exhausted: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_choice("statistic", statistic, Literal["median", "mean"])
        if type(min_recall) not in (int, float) or not 0 < min_recall <= 1:
            raise ValueError(
                f"`min_recall` must be above 0 and at most 1, got {short(min_recall)}."
            )
        if exhausted is not None:
            check_positive("exhausted", exhausted)
        super().__init__(
            bins=bins,
            min_recall=float(min_recall),
            statistic=statistic,
            exhausted=exhausted,
            **kwargs,
        )

    min_recall: float
    statistic: Literal["median", "mean"]
    exhausted: int | None

    @property
    def name(self) -> str:
        """`k_for_recall_50` for `min_recall=0.5`."""
        return f"k_for_recall_{100 * self.min_recall:g}".replace(".", "_")

    def empty_tally(self) -> Tensor:
        """Return zeros for every bin's number of queries per k, exhausted lists at 0."""
        return torch.zeros(self.bins.num_bins + 1, self.candidates + 1, dtype=torch.int64)

    def tally_split(self, within: Ranking, predictions: Tensor) -> Tensor:
        """Count the queries of every bin by their k."""
        rank = within.break_ties("pessimistic").above + 1
        relevant = within.num_relevant[:, None]
        hits = torch.arange(1, rank.shape[1] + 1, device=rank.device)
        short = (hits.double() / relevant.clamp(min=1) < self.min_recall) & (hits < relevant)
        k = rank.gather(1, short.sum(1, keepdim=True))[:, 0]
        k = k.masked_fill(k > self.candidates, 0)
        width = self.candidates + 1
        row = torch.arange(len(within), device=rank.device) % (self.bins.num_bins + 1)
        counts = torch.zeros(self.empty_tally().numel(), dtype=torch.int64, device=rank.device)
        return counts.index_add(0, row * width + k, (relevant[:, 0] > 0).long()).view(-1, width)

    def values(self) -> Tensor:
        """Return the median or mean k of every bin."""
        exhausted = self.bins.num_mapped // 2 if self.exhausted is None else self.exhausted
        ks = torch.arange(self.candidates + 1, device=self.state.device)
        ks[0] = exhausted
        ks, order = ks.sort(stable=True)
        counts = self.state[:, order]
        total = counts.sum(1)
        if self.statistic == "mean":
            value = exact.float64((counts * ks).sum(1)) / exact.float64(total)
        else:
            # the ranks of the two middle ones among the sorted, counted from 1
            middle = torch.stack([(total + 1) // 2, total // 2 + 1], 1)
            found = torch.searchsorted(counts.cumsum(1), middle).clamp(max=len(ks) - 1)
            value = exact.float64(ks[found].sum(1)) / 2
        return value.to(self.state.device).float().masked_fill(total == 0, torch.nan).roll(-1)


def split_by_bin(ranking: Ranking, bins: PopularityBins, candidates: int) -> tuple[Ranking, Tensor]:
    """Split every query's list by bin: a row for each query and bin, unmapped first.

    Returns:
        The ranks of the bin's relevant locations among its candidates, and int64
        `[N (num_bins + 1)]`, how many candidates those are.
    """
    first = ranking.top_candidates(candidates)
    num_bins = bins.num_bins + 1
    width = first.ids.shape[1] + 1
    # candidates in the order of their bins, and within a bin of their ranks
    ids = first.ids.masked_fill(~ranking.counted[:, None], -1)
    keys = backends.choose(ids).sort(bins.of(ids) * width + first.above)
    edges = torch.arange(num_bins + 1, device=keys.device) * width
    edges = torch.searchsorted(keys, edges.expand(len(ranking), -1).contiguous())
    own_bin = bins.of(ranking.relevant)
    own_key = own_bin * width + ranking.above.clamp(max=width - 1)
    start = torch.searchsorted(keys, own_key)
    tied = torch.searchsorted(keys, own_key, right=True) - start
    above = (start - edges.gather(1, own_bin)).masked_fill(tied == 0, UNRETRIEVED)

    number = torch.arange(num_bins, device=keys.device)[:, None]
    inside = (own_bin[:, None] == number).flatten(0, 1)

    def every_bin(values: Tensor) -> Tensor:
        return values.repeat_interleave(num_bins, 0)

    above = every_bin(above).masked_fill(~inside, UNRETRIEVED)
    within = Ranking.from_relevant(
        Relevant(
            every_bin(ranking.relevant).masked_fill(~inside, -1),
            None if ranking.grades is None else every_bin(ranking.grades).masked_fill(~inside, 0),
            every_bin(ranking.counted),
        ),
        above,
        every_bin(tied).masked_fill(above == UNRETRIEVED, 1),
        shape=torch.Size([len(ranking) * num_bins]),
    )
    return within, edges.diff().flatten()
