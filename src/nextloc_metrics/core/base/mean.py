"""Metrics that read a record of each batch, and the exact mean of a score over queries."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Unpack

from nextloc_metrics.core import scoring
from nextloc_metrics.core.base.fixes import rounded
from nextloc_metrics.core.base.plan import Plan
from nextloc_metrics.core.base.plots import plot_metric
from nextloc_metrics.core.base.summed import SummedMetric
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import Batch, BatchOptions, GroupKind
from nextloc_metrics.core.queries.checks import check_ignored
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.record import Record, Records
from nextloc_metrics.core.ranking.needs import Needs


class NoChanceError(TypeError):
    """A metric has no chance level."""


class RecordMetric(SummedMetric):
    """A metric that reads a record of each batch, such as a `Ranking`, and adds up integers.

    A subclass declares its options as in
    [`SummedMetric`][nextloc_metrics.core.base.summed.SummedMetric], says in `record` (a class)
    and `needs` what it reads, and defines `tally`.

    Args:
        ignore_index: an id that is never relevant; a query with only ignored ids is skipped. The
            id is still ranked as a candidate.
        validate_args: read the values of the arguments, and raise where they are out of range.
        options: the options of a subclass, and TorchMetrics' own keyword arguments.

    Attributes:
        record: the class of the record that it reads, such as `Ranking`.
        label: the name of the value in tables and pictures, with the options as in `str.format`:
            `"RBP({p:g})"`; empty for the name of the class with the cut-off, such as `NDCG@10`.
        unit: the unit of the value in tables, such as `km`; empty for a fraction.
        largest_value: the largest value that there can be, such as the largest distance in km.
            Scores in [0, 1] are shares of it; infinity: scores are values from 0 to infinity,
            summed in steps of 2^-32. A finite one is then at most 2^31, and an infinite one makes
            the mean infinite.
    """

    is_differentiable = False
    record: ClassVar[type[Record]] = Record
    _reads_target: ClassVar[bool] = True
    _groups: ClassVar[GroupKind | None] = None  #: that it has sums of
    _sampled_by: ClassVar[str] = ""  #: what is independent, such as `user`; empty for queries
    _labels: ClassVar[Mapping[str, str]] = {}  #: of a dict of values in pictures, by key
    label = ""
    unit = ""
    largest_value = 1.0

    _: KW_ONLY
    higher_is_better: bool | None = True
    plot_lower_bound: float | None = 0.0
    plot_upper_bound: float | None = 1.0
    ignore_index: Annotated[int | None, check_ignored] = None
    validate_args: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(type(self).label, str) and "label" not in vars(self):
            k = self._options.get("k")
            usual = type(self).__name__.removesuffix("AtK") + ("" if k is None else f"@{k}")
            self.label = self.label.format(**self._options) or usual

    @property
    def needs(self) -> Needs:
        """What this metric reads of its record beyond the ranks."""
        return Needs()

    @cached_property
    def _needs(self) -> Needs:
        """`needs`, read once: options are fixed."""
        return self.needs

    @property
    def _planned(self) -> scoring.Formula | int | None:
        """What a plan tallies without a record; None where it needs one.

        A formula, whose scores are averaged, or the number of locations, whose decisions are
        counted.
        """
        return None

    @cached_property
    def _is_bounded(self) -> bool:
        """Whether scores are in [0, 1]."""
        return self.largest_value < math.inf

    @cached_property
    def _factor(self) -> float:
        """What a score is multiplied by."""
        return self.largest_value if self._is_bounded else 1.0

    @abstractmethod
    def tally(self, record: Any) -> Tensor:
        """Return the batch's summand of the state: int64, in the shape of the state."""

    @property
    def _scored(self) -> MeanMetric | None:
        """The metric whose scores this one sums; None if it sums something else, by `tally`."""
        return None

    @staticmethod
    def _sum_many(
        metrics: Sequence[Any], scores: Sequence[Tensor], counted: Tensor, record: Any
    ) -> Sequence[Tensor]:
        """Return the batch's summands for several metrics, from the scores of their `scored`.

        These have one `_is_bounded`. For each metric there are float64 `[N]` scores, 0 where not
        `counted`, bool `[N]`.
        """
        distinct = {id(one): one for one in scores}
        rows = [*distinct.values()]
        every = torch.stack(rows) if len(rows) > 1 else rows[0][None]
        found = exact.tally(every, counted, metrics[0]._scored._is_bounded)
        sums = dict(zip(distinct, found.to(record.queries.counted.device).unbind(), strict=True))
        return [sums[id(one)] for one in scores]

    @staticmethod
    def _tallies(metrics: Sequence[Any], record: Any) -> list[Tensor]:
        """Return the batch's summands for several metrics that share this method."""
        return [metric.tally(record) for metric in metrics]

    def update(
        self,
        preds: Array | Record | Records,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        **given: Unpack[BatchOptions],
    ) -> None:
        """Add a batch of queries.

        NumPy arrays, columns of pandas, polars or Arrow, and nested lists are converted to tensors
        on the metric's device.

        Args:
            preds: floating `[..., C]`, scores of all candidates; or integer `[..., K]`, lists of
                ids, best first, padded with -1, with at least two dimensions unless `target` is
                one id; or a `Ranking` (or another record) without `target`, `mask` and `exclude`.
                `...` is the shape of the queries, such as `[N]` or `[N, T]`.
            target: integer `[...]`, the one relevant id; integer `[..., M]`, the relevant ids,
                padded with -1; bool or floating `[..., C]`, relevance (graded where floating).
            mask: bool `[...]`; False skips the query, and its target is not read. `mask` and
                `groups` may have the first dimensions alone, `[N]` for queries `[N, T]`: a value
                then holds for all queries behind it.
            groups: integer `[...]`, the group of every query, for `Grouped`; text if it has
                `labels`; or several kinds by name, `{"user": users}`. Not read where skipped.
            exclude: candidates that are not ranked, such as visited locations: integer
                `[..., E]`, ids padded with -1; or bool `[..., C]`.
            exempt_target: rank a relevant location that is in `exclude` instead of raising.
            confidence: with lists of ids, floating `[...]` in [0, 1], the probability of the first
                id, for metrics of probabilities.
            extra: what a score of your own reads of each query, by name, `{"age": ages}`: arrays
                `[..., *]`, which it finds flat in `record.queries.extra`.
        """
        self._plan.update(Batch(preds, target, mask, groups, **given), count=False)

    def read(
        self,
        preds: Array | Record | Records,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        **given: Unpack[BatchOptions],
    ) -> Any:
        """Return the record of a batch; the arguments are those of `update`."""
        return self._plan.read(Batch(preds, target, mask, groups, **given))[self.record]

    @cached_property
    def _plan(self) -> Plan:
        """The plan of an update: what this metric needs from a batch."""
        return Plan([self])

    def _check(self, record: Any) -> None:
        """Raise if this metric cannot be updated with the record."""
        device = self._state_device
        if record.queries.counted.device != device:
            raise ValueError(
                f"{short(self)} is on {device} and its input on {record.device}; "
                "move the metric with `.to(device)`, or make it an attribute of the module that "
                "you move."
            )
        record.require(self._needs, self)

    @property
    def _state_device(self) -> torch.device:
        """The device of the state, which is not read."""
        return self.state.device

    @property
    def _averages_scores(self) -> bool:
        """Whether the value is a mean of scores and so has a confidence interval."""
        return False

    def _footnote(self, key: str) -> str:
        """Return what a dagger after a value says, by its own key, or "" for the one value."""
        return ""

    @property
    def _has_interval(self) -> bool:
        """Whether `interval` returns one: of a mean of scores, or of a function of it."""
        return self._averages_scores

    def _estimate(self) -> intervals.Estimate:
        """Return the mean of the scores in the state, with its standard error."""
        raise TypeError(
            f"{short(self)} has no standard error: it is not a mean of per-query scores; "
            "`report.evaluate` has intervals of F1; bootstrap over users for others."
        )

    def standard_error(self) -> Tensor:
        """Return the standard error of `compute`, over all processes; NaN below two queries.

        A value that is not a mean of scores raises a `TypeError`.
        """
        error: Tensor = rounded(self._estimate_of_all().standard_error * self._factor, self.device)
        return error

    def interval(self, confidence_level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Return the bounds of the confidence interval for the mean over all possible queries.

        The bounds are computed from the sums of all processes, bit for bit equal on every process.
        The formula takes queries as independent. If they are not, such as the queries of one user,
        the interval is too narrow: use `Grouped(metric, num_groups, average="queries")`.

        For scores of 0 and 1 it is Wilson's interval. For scores between, it is Wilson's with the
        effective sample size, the number of 0/1 scores that have the same standard error, and with
        Student's t instead of the normal quantile. The interval contains the value, stays within
        the range of the metric, is the whole range for a single score between, and is NaN without
        data. The lower and the upper bound have the shape of `compute`.

        Raises:
            TypeError: the value is not a mean of scores.
            ValueError: `confidence_level` is not between 0 and 1.

        Example:
            >>> from torch import tensor
            >>> from nextloc_metrics import AccuracyAtK
            >>> accuracy = AccuracyAtK(1)
            >>> accuracy.update(tensor([[0, 1]]).expand(100, 2), tensor([0] * 30 + [1] * 70))
            >>> accuracy.compute(), accuracy.interval()
            (tensor(0.3000), (tensor(0.2189), tensor(0.3958)))

        Source: E. B. Wilson, "Probable inference, the law of succession, and statistical
        inference", JASA 22, 1927.
        """
        intervals.check_confidence_level(confidence_level)
        low, high = self._estimate_of_all().interval(confidence_level)
        return rounded(low * self._factor, self.device), rounded(high * self._factor, self.device)

    def _estimate_of_all(self) -> intervals.Estimate:
        if not self._averages_scores:
            return self._estimate()  # raises before the processes wait for each other
        return self._of_all_processes(self._estimate)

    @property
    def num_queries(self) -> Any:
        """The number of queries that this process has counted; None if it does not count them."""
        return None

    def _numbers(self) -> tuple[Any, int]:
        """Return the number of counted and of undecided queries, over all processes.

        The first is an int64 tensor for groups, and None if a subclass does not count queries.
        """
        return self._of_all_processes(lambda: (self.num_queries, getattr(self, "num_undecided", 0)))

    def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
        """Return the expected value for a random order of the candidates.

        `analysis.chance` checks the numbers, and takes collections. A metric of your own whose
        value is no mean of scores of ranks overrides it; without, a `TypeError` says that it has
        none.
        """
        raise NoChanceError(
            f"{short(self)} has no chance level: it is not a mean of per-query scores; leave it "
            "out."
        )

    def _renumbered(self, state: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        """Return a state whose groups had other numbers, by the key of the groups."""
        return state

    @property
    def _reads_groups(self) -> bool:
        """Whether `update` may read `groups`, as a user's own metric may."""
        return not self._is_ours

    @property
    def _has_own_update(self) -> bool:
        """Whether a user's subclass overrides `update`."""
        return not type(self).update.__module__.startswith("nextloc_metrics.")

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a copy, without the plan, which the copy makes anew."""
        return {name: x for name, x in super().__getstate__().items() if name != "_plan"}

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw the value, or those of groups or of several steps, as torchmetrics does.

        The figure and its axes are returned, None and the axes if these are given. `plotting` has
        pictures with intervals: `side_by_side` of a collection, `by_group` of groups.

        Args:
            val: a value of `compute` or `forward`, or a list of values of several steps, drawn
                as lines; None computes the value, on all processes.
            ax: the matplotlib axes to draw on; None makes a figure.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
            ValueError: `val` is a list of no step.
        """
        return plot_metric(self, val, ax)


class MeanMetric(RecordMetric):
    """The exact mean of a score over queries, with its interval.

    A subclass says in `record` what it reads and defines `score`. The value is the mean
    times `largest_value`, in `unit`.
    """

    if TYPE_CHECKING:  # an `__init__` of a subclass passes its options on

        def __init__(self, **options: Any) -> None: ...

    @abstractmethod
    def score(self, record: Any) -> Tensor | tuple[Tensor, Tensor]:
        """Return float64 `[N]`, the score of every query, or with it bool `[N]`, which count."""

    def _score_queries(self, record: Any) -> tuple[Tensor, Tensor]:
        """Return float64 `[N]`, the scores (0 where skipped), and bool `[N]`, which count."""
        found = self.score(record)
        scores, counted = found if isinstance(found, tuple) else (found, record.queries.counted)
        counted = counted.to(scores.device)
        return scores.masked_fill(~counted, 0), counted

    def empty_tally(self) -> Tensor:
        """Return the zero state; see `means.exact`."""
        return torch.zeros(exact.width(self._is_bounded), dtype=torch.int64)

    @property
    def _scored(self) -> MeanMetric | None:
        return self if type(self).tally is MeanMetric.tally else None

    @staticmethod
    def _score_many(metrics: Sequence[Any], record: Any) -> list[tuple[Tensor, Tensor]]:
        """Return `_score_queries` of several metrics that share this method."""
        scored = [metric._score_queries(record) for metric in metrics]
        for metric, (scores, counted) in zip(metrics, scored, strict=True):
            check_score_range([metric], scores.masked_fill(~counted, 0)[None])
        return scored

    def tally(self, record: Any) -> Tensor:
        ((scores, counted),) = self._score_many([self], record)
        return self._sum_many([self], [scores], counted, record)[0]

    def compute(self) -> Tensor:
        return exact.mean(self.state) * self._factor

    @property
    def _averages_scores(self) -> bool:
        return self._scored is self and type(self).compute is MeanMetric.compute

    def _estimate(self) -> intervals.Estimate:
        return intervals.of_queries(self.state) if self._averages_scores else super()._estimate()

    @property
    def num_queries(self) -> int:
        return int(self.state[2])


def check_score_range(metrics: Sequence[MeanMetric], scores: Tensor) -> None:
    """Raise if a score, float64 `[len(metrics), N]`, of a validating metric is out of range."""
    if not scores.numel() or not any(metric.validate_args for metric in metrics):
        return
    ends = torch.stack(scores.aminmax(dim=1)).T.tolist()
    for metric, row, (low, high) in zip(metrics, scores, ends, strict=True):
        if not metric.validate_args:
            continue
        # a NaN compares false
        if not (low >= 0 and (high <= exact.HIGHEST_SCORE or not metric._is_bounded)):
            values = "in [0, 1]" if metric._is_bounded else "from 0 to 2^31, or infinity"
            raise ValueError(
                f"`score` of {short(metric)} must return values {values}, got {low} to {high}."
            )
        if exact.HIGHEST_FINITE < high < torch.inf:
            raise ValueError(
                f"`preds` and `target` must give {short(metric)} a score of at most 2^31, or "
                f"infinity, got {high:g} for query {int(row.argmax())}; check their unit, or leave "
                "the query out with `mask`."
            )


def check_mean(name: str, metric: Any) -> MeanMetric:
    """Return a metric, or raise unless it is the mean of a score over queries."""
    if not isinstance(metric, MeanMetric):
        several = isinstance(metric, torch.nn.ModuleDict | Mapping)
        remedy = "; wrap its members one by one" if several else ""
        raise TypeError(f"`{name}` must be a MeanMetric, such as MRR, got {short(metric)}{remedy}.")
    if not metric._averages_scores:
        raise TypeError(f"`{name}` must be the mean of a score, and {short(metric)} is not.")
    return metric
