"""The base class of metrics of ranks: a formula, the scores of ranks, or a score of your own."""

from __future__ import annotations

import math
import re
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.base.metric import NoChanceError, RecordMetric
from nextloc_metrics.core.base.plan import held_by_backends
from nextloc_metrics.core.base.scores import EmptyTargetAction, check_real
from nextloc_metrics.core.queries.arrays import row_sum
from nextloc_metrics.core.queries.checks import check_choice, check_positive
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.record import NotInRecordError
from nextloc_metrics.core.ranking.counting import TopCandidates
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking, Ties
from nextloc_metrics.core.scoring.formulas import Formula, evaluate

#: for a metric in which a query without a relevant location has no score
SkipOrError = Annotated[EmptyTargetAction, partial(check_choice, choices=Literal["skip", "error"])]

#: the largest number of groups or locations; no memory can hold more
LARGEST_STATE = 1 << 40

# The numbers of ranks that `chance` and `at_rank` score at once.
_CHUNK = 1 << 20
_RANKS = 1 << 12

# A class defines at most one of these, and inherits it from its nearest base that defines one.
_SCORES = "formula", "at_rank", "score"

#: a number of groups, locations or candidates
Size = Annotated[int, partial(check_positive, most=LARGEST_STATE)]


def _check_lowest_ids(name: str, value: object) -> str:
    if value != "expected":
        raise ValueError(
            f"`{name}` must be 'expected', got {short(value)}: of tied candidates the lowest "
            "ids always come first."
        )
    return "expected"


#: for a metric that reads the ids of first candidates, tied ones by id: `ties` means nothing
LowestIds = Annotated[Ties, _check_lowest_ids]


class RankingMetric(MeanMetric):
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

    record = Ranking
    _scored_by: ClassVar[str | None] = None

    _: KW_ONLY
    ties: Ties = "expected"
    empty_target_action: EmptyTargetAction = "skip"

    if TYPE_CHECKING:  # an `__init__` of a subclass passes its options on

        def __init__(self, **options: Any) -> None: ...

        def read(self, *args: Any, **given: Any) -> Ranking: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Decide how queries are scored: the nearest class that defines it says so."""
        super().__init_subclass__(**kwargs)
        # classes that are mixed in count too, also if they are no `RankingMetric`
        nearer = cls.__mro__[: cls.__mro__.index(RankingMetric)]
        usual = RankingMetric.score
        defined = (
            [name for name in _SCORES if vars(base).get(name, usual) is not usual]
            for base in nearer
        )
        nearest = next(filter(None, defined), [])
        if len(nearest) > 1:
            raise TypeError(
                f"{cls.__name__} must define one of `formula`, `at_rank` and `score`, got "
                f"`{nearest[0]}` and `{nearest[1]}`."
            )
        cls._scored_by = nearest[0] if nearest else None
        if cls._scored_by != "score" and cls.score is not usual:
            cls.score = usual  # type: ignore[method-assign]  # a base has another

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._scoring.formula is None and self._scored_by not in ("at_rank", "score"):
            raise TypeError(f"{short(self)} must define `at_rank`, `score`, or a `formula`.")

    def at_rank(self, rank: Tensor) -> Tensor:
        """Return the scores in [0, 1] of ranks, each by itself. Your own metric overrides it.

        A query's score is the mean over its relevant locations; a tied one scores the mean over
        the ranks of its block, and one that is not retrieved scores 0.

        Args:
            rank: float64 `[R]`, ranks from 1 to at most the number of candidates.
        """
        raise NotImplementedError(f"{short(self)} has no scores of single ranks.")

    def score(self, ranking: Ranking) -> Tensor | tuple[Tensor, Tensor]:
        """Return float64 `[N]`, one score in [0, 1] per query. Your own metric may override it.

        With `ties="expected"` the ranking holds tied blocks: your score averages over them, or
        reads `ranking.break_ties("pessimistic")`. A score outside [0, 1] is an error. With
        `validate_args=False` it is clamped to [0, 1], and NaN is 0.
        """
        if self._scoring.formula is None:
            return mean_at_ranks(self, ranking)
        return evaluate(ranking, [self._scoring.formula])[0]

    @property
    def formula(self) -> Formula | None:
        """The formula of the score, which `print` says in one line; None for a `score` alone."""
        return None

    @property
    def needs(self) -> Needs:
        formula = self._scoring.formula
        return Needs() if formula is None else formula.needs

    @property
    def averages_ties(self) -> bool:
        """Whether the score is the mean over all orders of tied candidates.

        That of a `formula` is; a class with a `score` has `chance = RankingMetric.chance_of_block`.
        """
        has_chance_of_block = type(self).chance is RankingMetric.chance_of_block
        return self._scored_by == "formula" or has_chance_of_block

    def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
        if not self.is_mean:
            return super().chance(num_candidates, num_relevant)
        if self._scored_by == "formula":
            return self.chance_of_block(num_candidates, num_relevant)
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

    def chance_of_block(self, num_candidates: int, num_relevant: int = 1) -> float:
        """Return the score of one block in which all candidates are tied.

        It is the `chance` of a `score` that is the expectation over the order of tied candidates.
        """
        if not self.is_mean:
            return super().chance(num_candidates, num_relevant)
        block = _block(torch.zeros(1).long(), num_candidates, num_candidates, num_relevant)
        block.has_ids = self._scored_by == "formula"
        return float(self._score_of_ranks(block))

    def _score_of_ranks(self, block: Ranking) -> Tensor:
        try:
            scores = self.score(block)
        except NotInRecordError as error:
            raise NoChanceError(
                f"{short(self)} has no chance level: it does not score ranks only; leave it out."
            ) from error
        return scores[0] if isinstance(scores, tuple) else scores

    @held_by_backends
    def check(self, record: Ranking) -> None:
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
        # every tensor is equally long: the last bit of a power depends on its place in the tensor
        rank = torch.arange(first + 1, first + _RANKS + 1, device=start.device).clamp(max=last)
        try:
            scores = metric.at_rank(rank.double())
        except (RuntimeError, ValueError, TypeError) as error:
            if not re.search("Boolean value of Tensor|can(not)? be converted to", str(error)):
                raise
            raise TypeError(
                f"`at_rank` of {short(metric)} must score all ranks of a tensor at once, which "
                "cannot be in `if`, `bool()` or `math.log2`; use `torch.where(rank <= 3, 1.0, 0.0)`"
                " or `torch.log2`."
            ) from error
        scores = check_real("at_rank", "rank", metric, scores, rank.shape)
        # they are summed on the CPU, because sums on CUDA differ between runs
        table = torch.nn.functional.pad(scores.cpu().cumsum(0), (1, 0)).to(start.device)
        low, high = ((x - first).clamp(0, _RANKS) for x in (start, end))
        sums += table[high] - table[low]
    scores = (sums / ranking.tied).masked_fill(~is_retrieved, 0)
    return row_sum(scores) / ranking.num_relevant.clamp(min=1)


def _block(above: Tensor, tied: int, num_candidates: int, num_relevant: int) -> Ranking:
    """Make one query per entry of `above`, with all relevant locations in one tied block."""
    ranks = (above + 1)[:, None].expand(-1, num_relevant)
    ranking = Ranking.from_ranks(ranks, num_candidates, torch.full_like(ranks, tied))
    length, no_ids = torch.full_like(above, num_candidates), ranking.relevant[:, :0]
    first = TopCandidates(UNRETRIEVED, length, torch.full_like(above, -1), no_ids, no_ids)
    return replace(ranking, first=first, length=length)


def check_one_relevant(metric: RecordMetric, ranking: Ranking, remedy: str) -> None:
    """Raise, with the remedy, if a query has several relevant locations."""
    may_be_several = metric.validate_args and len(ranking) and ranking.relevant.shape[1] > 1
    if may_be_several and (most := int(ranking.num_relevant.max())) > 1:
        raise ValueError(
            f"`target` must hold one relevant location per query for {type(metric).__name__}, got "
            f"up to {most}; {remedy}."
        )
