"""The base classes of metrics of ranks, and the scores of several of them at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.base.mean import (
    MeanMetric,
    NoChanceError,
    RecordMetric,
    check_score_range,
)
from nextloc_metrics.core.queries.arrays import row_sum
from nextloc_metrics.core.queries.checks import check_choice, check_positive
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import NotInRecordError
from nextloc_metrics.core.ranking.counting import TopCandidates
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking, Ties
from nextloc_metrics.core.scoring.formulas import Formula, evaluate

EmptyTargetAction = Literal["skip", "neg", "pos", "error"]

#: of a metric in which a query without a relevant location has no score
SkipOrError = Annotated[EmptyTargetAction, partial(check_choice, choices=Literal["skip", "error"])]

#: the largest number of groups or locations; no memory can hold more
LARGEST_STATE = 1 << 40

# Ranks that are scored at once for a metric with a score of its own, and by `at_rank`.
_CHUNK = 1 << 20
_RANKS = 1 << 12

#: a number of groups, locations or candidates
Size = Annotated[int, partial(check_positive, most=LARGEST_STATE)]


class RankingTally(RecordMetric):
    """A metric that reads the ranks of the relevant locations, a `Ranking`."""

    record = Ranking

    if TYPE_CHECKING:

        def read(self, *args: Any, **given: Any) -> Ranking: ...

    def _check(self, record: Ranking) -> None:
        super()._check(record)
        if self.ignore_index is not None and record.ignore_index != self.ignore_index:
            raise ValueError(
                f"`ignore_index` must be equal for a metric and its Ranking, got "
                f"{self.ignore_index} for {short(self)} and {record.ignore_index} for the Ranking."
            )


class RankingMetric(MeanMetric, RankingTally):
    """The mean over queries of a score in [0, 1].

    To write your own metric, subclass this class and define
    [`at_rank`][nextloc_metrics.RankingMetric.at_rank], or
    [`score`][nextloc_metrics.RankingMetric.score] if a query's score is no mean over its relevant
    locations. The base class handles ties, empty targets, exact sums, synchronisation and
    collections.

    Args:
        ties: how tied candidates are scored: `"expected"`, the mean over their orders;
            `"optimistic"`, relevant ones first; `"pessimistic"`, relevant ones last.
        empty_target_action: how a query without a relevant location is scored: `"skip"` excludes
            it, `"neg"` scores 0, `"pos"` scores 1, `"error"` raises.
        options: the options of a subclass, and those of `RecordMetric`.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import RankingMetric
        >>> class Decay(RankingMetric):
        ...     factor: float = 0.8
        ...
        ...     def at_rank(self, rank):
        ...         return self.factor ** (rank - 1)
        >>> metric = Decay(factor=0.5)
        >>> metric.update(tensor([[0.9, 0.2, 0.4]]), tensor([2]))  # rank 2
        >>> metric.update(tensor([[0.3, 0.3, 0.1]]), tensor([0]))  # tied for the ranks 1 and 2
        >>> metric, metric.compute()  # (1/2 + (1 + 1/2) / 2) / 2
        (Decay(factor=0.5), tensor(0.6250))
    """

    #: whether the score reads ids of first candidates, tied ones by id, so `ties` have no meaning
    _reads_ids: ClassVar[bool] = False

    _: KW_ONLY
    ties: Ties = "expected"
    empty_target_action: EmptyTargetAction = "skip"

    if TYPE_CHECKING:  # an `__init__` of a subclass passes its options on

        def __init__(self, **options: Any) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._reads_ids and self.ties != "expected":
            raise ValueError(
                f"`ties` must be 'expected', got {short(self.ties)}: of tied candidates the lowest "
                "ids always come first."
            )
        if self._formula is None and not self._has_own_score:
            raise TypeError(f"{short(self)} must define `at_rank`, `score`, or a `formula`.")

    def at_rank(self, rank: Tensor) -> Tensor:
        """Return the scores in [0, 1] of ranks, each by itself. Your own metric overrides it.

        A query's score is the mean over its relevant locations; a tied one scores the mean over
        the ranks of its block, and one that is not retrieved scores 0.

        Args:
            rank: float64 `[R]`, ranks from 1 to at most the number of candidates.
        """
        raise NotImplementedError(f"{short(self)} has no scores of single ranks.")

    def score(self, ranking: Ranking) -> Tensor:
        """Return float64 `[N]`, one score in [0, 1] per query. Your own metric may override it.

        With `ties="expected"` the ranking holds tied blocks: your score averages over them, or
        reads `ranking.break_ties("pessimistic")`. A score outside [0, 1] is an error. With
        `validate_args=False` it is clamped to [0, 1], and NaN is 0.
        """
        if self._has_own_score:
            return mean_at_ranks(self, ranking)
        assert self._formula is not None  # checked when the metric was made
        return evaluate(ranking, [self._formula])[0]

    @property
    def _has_own_score(self) -> bool:
        """Whether a subclass overrides `score` or `at_rank`."""
        ours = RankingMetric.score, RankingMetric.at_rank
        return (type(self).score, type(self).at_rank) != ours

    @property
    def formula(self) -> Formula | None:
        """The formula of the score, which `print` says in one line; None for a `score` alone."""
        return None

    @cached_property
    def _formula(self) -> Formula | None:
        """`formula`, read once: options are fixed."""
        return self.formula

    @property
    def needs(self) -> Needs:
        formula = None if self._has_own_score else self._formula
        return Needs() if formula is None else formula.needs

    @property
    def _planned(self) -> Formula | None:
        is_plain = self._averages_scores and self.ties == "expected" and not self._has_own_score
        return self._formula if is_plain else None

    def _score_queries(self, record: Ranking) -> tuple[Tensor, Tensor]:
        return self._score_many([self], record)[0]

    @staticmethod
    def _score_many(metrics: Sequence[Any], record: Ranking) -> list[tuple[Tensor, Tensor]]:
        # without ties all three ways have one ranking, and each formula one score
        broken = {ties: record.break_ties(ties) for ties in {one.ties for one in metrics}}
        together: dict[Any, dict[Any, Any]] = {}
        keys = []
        for metric in metrics:
            group = id(broken[metric.ties]), metric.empty_target_action
            score = id(metric) if metric._has_own_score else metric._formula
            together.setdefault(group, {})[score] = metric
            keys.append((group, score))
        found: dict[Any, tuple[Tensor, Tensor]] = {}
        for group, members in together.items():
            same = list(members.values())
            scores, counted = score_together(same, broken[same[0].ties])
            found |= {(group, one): (x, counted) for one, x in zip(members, scores, strict=True)}
        return [found[key] for key in keys]

    def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
        if not self._averages_scores:
            return super().chance(num_candidates, num_relevant)
        # of a random order: the score of one tied block, or its mean over all ranks
        is_ours = type(self).score.__module__.startswith("nextloc_metrics.")
        if not self._has_own_score or (self.needs.only_ranks and is_ours):
            block = _block(torch.zeros(1).long(), num_candidates, num_candidates, num_relevant)
            block.has_ids = not self._has_own_score
            return float(self._score_of_ranks(block))
        if not self.needs.only_ranks:
            raise NoChanceError(
                f"{short(self)} has no chance level: it scores the ids of the first candidates, "
                "which depend on the candidates and not only on ranks."
            )
        if num_relevant > 1:
            raise ValueError(
                f"`num_relevant` must be 1 for {short(self)}, got {num_relevant}: a score of your "
                "own is averaged over the ranks of one relevant location."
            )
        sums = []
        for above in torch.split(torch.arange(num_candidates), _CHUNK):
            block = _block(above, 1, num_candidates, 1)
            block.has_ids = False
            sums.append(float(self._score_of_ranks(block).double().sum()))
        return math.fsum(sums) / num_candidates

    def _score_of_ranks(self, block: Ranking) -> Tensor:
        try:
            return self.score(block)
        except NotInRecordError as error:
            raise NoChanceError(
                f"{short(self)} has no chance level: it does not score ranks only; leave it out."
            ) from error

    def _check(self, record: Ranking) -> None:
        super()._check(record)
        if self.empty_target_action != "error":
            return
        if len(empty := (record.counted & (record.num_relevant == 0)).nonzero()):
            raise ValueError(
                "every query must have a relevant location with `empty_target_action='error'`, "
                f"but query {int(empty[0])} has none; exclude it with `mask`."
            )


def mean_at_ranks(metric: RankingMetric, ranking: Ranking) -> Tensor:
    """Average `at_rank` over tied blocks and relevant locations, float64 `[N]`."""
    is_retrieved = ranking.above < UNRETRIEVED
    start = ranking.above.masked_fill(~is_retrieved, 0)
    end = start + ranking.tied
    sums = torch.zeros_like(start, dtype=torch.float64)
    last = int(end.max()) if end.numel() else 0
    for first in range(0, last, _RANKS):
        # as many ranks each time: the last bit of a power depends on where in its tensor it stands
        rank = torch.arange(first + 1, first + _RANKS + 1, device=start.device).clamp(max=last)
        found = metric.at_rank(rank.double())
        scores = _check_real("at_rank", "rank", metric, found, rank.shape)
        # on the CPU: sums on CUDA differ between runs
        table = torch.nn.functional.pad(scores.cpu().cumsum(0), (1, 0)).to(start.device)
        low, high = ((x - first).clamp(0, _RANKS) for x in (start, end))
        sums += table[high] - table[low]
    scores = (sums / ranking.tied).masked_fill(~is_retrieved, 0)
    return row_sum(scores) / ranking.num_relevant.clamp(min=1)


def score_together(metrics: Sequence[RankingMetric], ranking: Ranking) -> tuple[Tensor, Tensor]:
    """Score queries whose ties are broken with metrics of one `empty_target_action`.

    Return the scores float64 `[len(metrics), N]`, 0 where skipped, and which count, bool `[N]`.
    """
    if ranking.above.is_mps:  # has no float64
        ranking = ranking.to("cpu")
    formulas = [None if metric._has_own_score else metric._formula for metric in metrics]
    known = [formula for formula in formulas if formula is not None]
    scores = evaluate(ranking, known) if known else torch.empty(0)
    if len(known) < len(metrics):
        together = iter(scores)
        scores = torch.stack(
            [
                _own_score(metric, ranking) if formula is None else next(together)
                for metric, formula in zip(metrics, formulas, strict=True)
            ]
        )
    return finish_scores(metrics, scores, ranking)


def finish_scores(
    metrics: Sequence[RankingMetric], scores: Tensor, ranking: Ranking
) -> tuple[Tensor, Tensor]:
    """Apply `empty_target_action`; return the scores, 0 where skipped, and which count."""
    action = metrics[0].empty_target_action
    if action != "skip":
        scores = scores.masked_fill(ranking.num_relevant == 0, 1.0 if action == "pos" else 0.0)
    counted = counted_queries(ranking, action)
    scores = scores.masked_fill(~counted, 0)
    check_score_range(metrics, scores)
    return scores, counted


def _own_score(metric: RankingMetric, ranking: Ranking) -> Tensor:
    shape = ranking.num_relevant.shape
    return _check_real("score", "query", metric, metric.score(ranking), shape)


def _check_real(name: str, each: str, metric: Any, scores: Any, shape: torch.Size) -> Tensor:
    """Return the scores of a method as float64, or raise unless there is one for each."""
    if not isinstance(scores, Tensor) or scores.is_complex() or scores.shape != shape:
        raise ValueError(
            f"`{name}` of {short(metric)} must return real numbers of shape ({shape[0]},), one per "
            f"{each}, got {describe(scores)}."
        )
    return scores.detach().double()


def _block(above: Tensor, tied: int, num_candidates: int, num_relevant: int) -> Ranking:
    """Make one query per entry of `above`, with all relevant locations in one tied block."""
    ranks = (above + 1)[:, None].expand(-1, num_relevant)
    found = Ranking.from_ranks(ranks, num_candidates, torch.full_like(ranks, tied))
    length, no_ids = torch.full_like(above, num_candidates), found.relevant[:, :0]
    first = TopCandidates(UNRETRIEVED, length, torch.full_like(above, -1), no_ids, no_ids)
    return replace(found, first=first, length=length)


def check_one_relevant(metric: RankingTally, ranking: Ranking, remedy: str) -> None:
    """Raise, with the remedy, if a query has several relevant locations."""
    may_be_several = metric.validate_args and len(ranking) and ranking.relevant.shape[1] > 1
    if may_be_several and (most := int(ranking.num_relevant.max())) > 1:
        raise ValueError(
            f"`target` must hold one relevant location per query for {type(metric).__name__}, got "
            f"up to {most}; {remedy}."
        )


def counted_queries(ranking: Ranking, action: EmptyTargetAction) -> Tensor:
    """Return which queries count, bool `[N]`; "skip" excludes those without a relevant location."""
    return ranking.answerable if action == "skip" else ranking.queries.counted
