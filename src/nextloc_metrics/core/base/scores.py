"""The scores of all means that read one record, made at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import Record
from nextloc_metrics.core.ranking.distinct import DistinctRanks, distinct_ranks
from nextloc_metrics.core.ranking.ranking import Ranking, Ties
from nextloc_metrics.core.scoring.formulas import Formula, evaluate

EmptyTargetAction = Literal["skip", "neg", "pos", "error"]


class Scoring(NamedTuple):
    """How a mean scores a query.

    `formula` is None if the method `score` is called; `empty_target_action` is None if `score`
    alone says which queries count. `of_ranks` says whether equal ranks have equal scores.
    """

    formula: Formula | None = None
    ties: Ties = "expected"
    empty_target_action: EmptyTargetAction | None = None
    of_ranks: bool = False


class Mean(Protocol):
    """The attributes of a `MeanMetric` that are read here."""

    validate_args: bool
    _score_name: str

    @property
    def _scoring(self) -> Scoring: ...

    @property
    def _is_bounded(self) -> bool: ...

    def score(self, record: Any) -> Tensor | tuple[Tensor, Tensor]:
        """Return the score of every query, or also which of them count."""
        ...


class ScoreTable:
    """The scores of several means: one matrix for those whose queries count alike.

    Where it saves time, each different rank is scored once for all its queries. `places` has the
    matrix and the row of each mean, by the name of its scores.
    """

    def __init__(self, record: Record) -> None:
        self._record, self._device = record, record.device
        if isinstance(record, Ranking) and record.above.is_mps:  # has no float64
            self._record = record.to("cpu")
        self.places: dict[str, tuple[_Rows, int]] = {}

    def add(self, means: Mapping[str, Mean]) -> None:
        """Score several means together; they come by the names of their scores."""
        record, distinct = self._record, None
        of_ranks = {name: x for name, x in means.items() if x._scoring.of_ranks}
        if isinstance(record, Ranking):
            distinct = distinct_ranks(record, len(of_ranks))
        if distinct is not None:
            self._add(distinct.ranking, of_ranks, distinct)
            means = {name: x for name, x in means.items() if name not in of_ranks}
        self._add(record, means)

    def _add(
        self, record: Record, means: Mapping[str, Mean], distinct: DistinctRanks | None = None
    ) -> None:
        """Score a record, whose queries are those of the batch or its `distinct` ranks."""
        matrices: dict[Any, _Rows] = {}
        for key, name, scores in _score(record, means):
            mean, counted = means[name], None
            if isinstance(scores, tuple):
                scores, counted = scores
            action = mean._scoring.empty_target_action
            matrix = action, mean._is_bounded, None if counted is None else name
            rows = matrices.setdefault(matrix, _Rows(action, counted, distinct))
            self.places[name] = rows, rows.add(key, mean, scores)
        for rows in matrices.values():
            rows.finish(record)

    def of(self, name: str) -> tuple[Tensor, Tensor]:
        """Return scores, float64 `[N]`, 0 where skipped, and which queries count, bool `[N]`."""
        rows, number = self.places[name]
        return rows.of_queries(number), rows.of_queries(None)

    def sum_of(self, name: str) -> Tensor:
        """Return what the scores of a mean add to its state."""
        rows, number = self.places[name]
        return rows.sums[number].to(self._device)


class _Rows:
    """A matrix of scores; means with equal scores share a row.

    Its columns are queries, or different ranks, each of which counts several `times`.
    """

    scores: Tensor
    counted: Tensor
    times: Tensor

    def __init__(
        self,
        action: EmptyTargetAction | None,
        counted: Tensor | None,
        distinct: DistinctRanks | None,
    ) -> None:
        self.action, self._counted, self._distinct = action, counted, distinct
        self._by_key: dict[Any, Tensor] = {}
        self._of_queries: dict[int | None, Tensor] = {}
        self.means: list[Mean] = []

    def add(self, key: Any, mean: Mean, scores: Tensor) -> int:
        """Add a row, and return its number."""
        if key not in self._by_key:
            self._by_key[key] = scores
            self.means.append(mean)
        return [*self._by_key].index(key)

    @cached_property
    def sums(self) -> Tensor:
        """What each row adds to the state of its mean, int64 `[rows, width]`."""
        return exact.tally(self.scores, self.times, self.means[0]._is_bounded)

    def finish(self, record: Record) -> None:
        """Make the matrix: 0 where a query does not count; `action` scores empty targets."""
        rows = [*self._by_key.values()]
        scores = torch.stack(rows) if len(rows) > 1 else rows[0][None]
        counted = record.counted
        if isinstance(record, Ranking) and self.action is not None:
            if self.action != "skip":
                empty = 1.0 if self.action == "pos" else 0.0
                scores = scores.masked_fill(record.num_relevant == 0, empty)
            counted = counted_queries(record, self.action)
        counted = counted.to(scores.device)
        self.counted = counted if self._counted is None else counted & self._counted.to(counted)
        self.scores = scores.masked_fill(~self.counted, 0)
        times = None if self._distinct is None else self._distinct.times
        self.times = self.counted if times is None else times.masked_fill(~self.counted, 0)
        check_score_range(self.means, self.scores, self._spread)

    def of_queries(self, number: int | None) -> Tensor:
        """Return a row for the queries of the batch; for None, which of them count."""
        if number not in self._of_queries:
            row = self.counted if number is None else self.scores[number]
            self._of_queries[number] = self._spread(row)
        return self._of_queries[number]

    def _spread(self, row: Tensor) -> Tensor:
        return row if self._distinct is None else row[self._distinct.row]


def _score(record: Any, means: Mapping[str, Mean]) -> list[tuple[Any, str, Any]]:
    """Return for each mean a key, equal for equal scores, its name, and its scores."""
    by_ties: dict[Ties, Any] = {"expected": record}
    for ties in {mean._scoring.ties for mean in means.values()} - by_ties.keys():
        by_ties[ties] = record.break_ties(ties)
    rows: list[tuple[Any, str, Any]] = []
    # `break_ties` returns the record itself if no candidates are tied
    for ranking in {id(x): x for x in by_ties.values()}.values():
        readers = {name: x for name, x in means.items() if by_ties[x._scoring.ties] is ranking}
        distinct = dict.fromkeys(x._scoring.formula for x in readers.values())
        formulas = [formula for formula in distinct if formula is not None]
        evaluated = evaluate(ranking, formulas) if formulas else ()
        by_formula = dict(zip(formulas, evaluated, strict=True))
        for name, mean in readers.items():
            formula = mean._scoring.formula
            if formula is None:
                rows.append((name, name, read_scores(mean, ranking)))
            else:
                rows.append(((id(ranking), formula), name, by_formula[formula]))
    return rows


def read_scores(mean: Mean, record: Record) -> Any:
    """Return what `score` returns, with float64 scores, or raise unless it is one per query."""
    answer = mean.score(record)
    shape = record.counted.shape
    if not isinstance(answer, tuple):
        return check_real("score", "query", mean, answer, shape)
    scores, counted = answer if len(answer) == 2 else (answer, None)
    scores = check_real("score", "query", mean, scores, shape)
    is_bool = isinstance(counted, Tensor) and counted.dtype == torch.bool
    if not is_bool or counted.shape != shape:
        raise ValueError(
            f"`score` of {short(mean)} must return with its scores which queries count, bool of "
            f"shape ({shape[0]},), got {describe(counted)}."
        )
    return scores, counted


def check_real(name: str, each: str, metric: Any, scores: Any, shape: torch.Size) -> Tensor:
    """Return the scores of a method as float64, or raise unless there is one for each."""
    if not isinstance(scores, Tensor) or scores.is_complex() or scores.shape != shape:
        raise ValueError(
            f"`{name}` of {short(metric)} must return real numbers of shape ({shape[0]},), one per "
            f"{each}, got {describe(scores)}."
        )
    return exact.float64(scores.detach())


def counted_queries(ranking: Ranking, action: EmptyTargetAction) -> Tensor:
    """Return which queries count, bool `[N]`; "skip" excludes those without a relevant location."""
    return ranking.answerable if action == "skip" else ranking.queries.counted


def check_score_range(
    metrics: Sequence[Mean], scores: Tensor, spread: Callable[[Tensor], Tensor]
) -> None:
    """Raise if a score of a metric with `validate_args` is out of range.

    `scores` have a row for each metric, which `spread` turns into the scores of queries.
    """
    if not scores.numel() or not any(metric.validate_args for metric in metrics):
        return
    extremes = torch.stack(scores.aminmax(dim=1)).T.tolist()
    for metric, row, (low, high) in zip(metrics, scores, extremes, strict=True):
        if not metric.validate_args:
            continue
        # `not`, because every comparison with NaN is false
        if not (low >= 0 and (high <= exact.HIGHEST_SCORE or not metric._is_bounded)):
            low, high = torch.stack(spread(row).aminmax()).tolist()
            values = "in [0, 1]" if metric._is_bounded else "from 0 to 2^31, or infinity"
            name = getattr(metric, "_scored_by", None) or "score"
            raise ValueError(
                f"`{name}` of {short(metric)} must return values {values}, got {low} to {high}."
            )
        if exact.HIGHEST_FINITE < high < torch.inf:
            query = int(spread(row).argmax())
            raise ValueError(
                f"`preds` and `target` must give {short(metric)} a score of at most 2^31, or "
                f"infinity, got {high:g} for query {query}; check their unit, or leave the query "
                "out with `mask`."
            )


def score_together(record: Record, means: Mapping[str, Mean]) -> None:
    """Score the means that read a record in an update, by the names of their scores."""
    record.once(ScoreTable, partial(ScoreTable, record)).add(means)


def table_of(mean: Mean, record: Record) -> ScoreTable:
    """Return the table with the scores of a mean; score it alone if no plan has scored it.

    It is also scored alone if the `score` of another mean asks for it while all are scored.
    """
    table = record.once(ScoreTable, partial(ScoreTable, record))
    if mean._score_name not in table.places:
        table.add({mean._score_name: mean})
    return table
