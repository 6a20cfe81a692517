"""The base classes of ranking metrics: updates, and the mean of a score over queries."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import torch
import torch.distributed
from torch import Tensor

from nextloc_metrics import exact, intervals, scoring
from nextloc_metrics.arrays import Array
from nextloc_metrics.checks import check_bool, check_choice, check_ignored
from nextloc_metrics.messages import short
from nextloc_metrics.plan import Plan
from nextloc_metrics.queries import EmptyTargetAction, score_queries, tally_together
from nextloc_metrics.ranking import Ranking
from nextloc_metrics.record import Ties
from nextloc_metrics.state import SummedMetric

Read = TypeVar("Read")

#: the largest number of groups or locations; no memory can hold more
LARGEST_STATE = 1 << 40


class RankingTally(SummedMetric):
    """A metric whose state is one integer tensor, summed over queries, batches and processes.

    A subclass declares its options as in [`SummedMetric`][nextloc_metrics.state.SummedMetric].

    Args:
        ignore_index: an id that is never relevant; a query with only ignored ids is skipped. The
            id is still ranked as a candidate.
        validate_args: read the values of the arguments, and raise where they are out of range.
        options: the options of a subclass, and TorchMetrics' own keyword arguments.
    """

    is_differentiable = False
    higher_is_better: bool | None = True
    plot_lower_bound: float | None = 0.0
    plot_upper_bound: float | None = 1.0

    ignore_index: int | None
    validate_args: bool

    _plan: Plan | None

    def __init__(
        self, *, ignore_index: int | None = None, validate_args: bool = True, **options: Any
    ) -> None:
        check_bool("validate_args", validate_args)
        check_ignored(ignore_index)
        super().__init__(ignore_index=ignore_index, validate_args=validate_args, **options)
        self._plan = None

    @property
    def top(self) -> int:
        """How many of the first ranks a `Ranking` must keep for this metric."""
        return 0

    @property
    def best_only(self) -> bool:
        """Whether the metric reads `Ranking.best` only and no `top_candidates`; `top` is then 1."""
        return False

    @property
    def keeps_scores(self) -> bool:
        """Whether a `Ranking` must keep the scores of all candidates for this metric."""
        return False

    @property
    def depth(self) -> int | None:
        """How many of the first ranks this metric reads; None for all.

        If every metric of a collection has a depth, the columns of the `Ranking` may lack relevant
        locations beyond the largest depth; `num_relevant` still counts them.
        """
        return None

    @property
    def one_pass(self) -> scoring.Formula | int | None:
        """What the fused update computes where every query has one relevant location.

        A formula, whose scores are averaged; or the number of locations, whose decisions are
        counted. None where the fused update cannot serve this metric.
        """
        return None

    @property
    def unit(self) -> str:
        """The unit of the value in tables, such as `km`; empty for a fraction."""
        return ""

    @property
    def scale(self) -> float:
        """The value of a score of 1 in `unit`, such as the largest distance in km."""
        return 1.0

    @abstractmethod
    def tally(self, ranking: Ranking) -> Tensor:
        """Return the batch's summand of the state: int64, in the shape of the state."""

    @staticmethod
    def tallies(metrics: Sequence[Any], ranking: Ranking) -> list[Tensor]:
        """Return the batch's summands for several metrics that share this method."""
        return [metric.tally(ranking) for metric in metrics]

    def update(
        self,
        preds: Array | Ranking,
        target: Array | None = None,
        mask: Array | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> None:
        """Add a batch of queries.

        NumPy arrays, columns of pandas, polars or Arrow, and nested lists are converted to tensors
        on the metric's device.

        Args:
            preds: floating `[..., C]`, scores of all candidates; or integer `[..., K]`, lists of
                ids, best first, padded with -1; or a `Ranking` without further arguments. `...` is
                the shape of the queries, such as `[N]` or `[N, T]`.
            target: integer `[...]`, the one relevant id; integer `[..., M]`, the relevant ids,
                padded with -1; bool or floating `[..., C]`, relevance (graded where floating).
            mask: bool `[...]`; False skips the query.
            exclude: candidates that are not ranked, such as visited locations: integer
                `[..., E]`, ids padded with -1; or bool `[..., C]`.
            exempt_target: rank a relevant location that is in `exclude` instead of raising.
        """
        self.plan.update(preds, target, mask, None, exclude, exempt_target, count=False)

    def rank(
        self,
        preds: Array | Ranking,
        target: Array | None = None,
        mask: Array | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
    ) -> Ranking:
        """Return the ranks of the relevant locations; the arguments are those of `update`."""
        return self.plan.rank(preds, target, mask, None, exclude, exempt_target)

    @property
    def plan(self) -> Plan:
        """The plan of an update: what this metric needs from a batch."""
        own = vars(self)
        if own["_plan"] is None:
            own["_plan"] = Plan([self])
        return own["_plan"]  # type: ignore[no-any-return]

    def check(self, ranking: Ranking) -> None:
        """Raise if this metric cannot be updated with the ranking."""
        if ranking.device != self.state.device:
            raise ValueError(
                f"{short(self)} is on {self.state.device} and its input on {ranking.device}; "
                "move the metric with `.to(device)`, or make it an attribute of the module that "
                "you move."
            )
        if self.ignore_index is not None and ranking.ignore_index != self.ignore_index:
            raise ValueError(
                f"`ignore_index` must be equal for a metric and its Ranking, got "
                f"{self.ignore_index} for {short(self)} and {ranking.ignore_index} for the Ranking."
            )
        if self.top and self.best_only:
            _ = ranking.best  # raises if it was not kept
        elif self.top:
            ranking.top_candidates(self.top)
        if ranking.depth is not None and (self.depth is None or self.depth > ranking.depth):
            raise ValueError(
                f"{short(self)} reads {self.depth or 'all'} ranks, but its Ranking was made "
                f"for the first {ranking.depth}; make it with `depth={self.depth}`."
            )

    @property
    def averages_scores(self) -> bool:
        """Whether the value is a mean of scores and so has a confidence interval."""
        return False

    def estimate(self) -> intervals.Estimate:
        """Return the mean of the scores in the state, with its standard error."""
        raise TypeError(
            f"{short(self)} has no standard error: it is not a mean of per-query scores; "
            "bootstrap over queries or users instead."
        )

    def standard_error(self) -> Tensor:
        """Return the standard error of `compute`, over all processes; NaN below two queries.

        Raises:
            TypeError: the value is not a mean of scores.
        """
        error = self._estimate().standard_error * self.scale
        return error.float().to(self.state.device)

    def interval(self, confidence: float = 0.95) -> tuple[Tensor, Tensor]:
        """Return the bounds of the confidence interval for the mean over all possible queries.

        The bounds are computed from the sums of all processes and are equal bit for bit on every
        process. The formula takes queries as independent. If they are not, such as the queries of
        one user, the interval is too narrow: use
        `Grouped(metric, num_groups, average="queries")`.

        For scores of 0 and 1 it is Wilson's interval. For scores between, it is Wilson's with the
        effective sample size, the number of 0/1 scores that have the same standard error, and with
        Student's t instead of the normal quantile. The interval contains the value, stays within
        the range of the metric, is the whole range for a single score between, and is NaN without
        data.

        Args:
            confidence: the confidence level, such as 0.95.

        Returns:
            The lower and the upper bound, in the shape of `compute`.

        Raises:
            TypeError: the value is not a mean of scores.
            ValueError: `confidence` is not between 0 and 1.

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
        intervals.check_confidence(confidence)
        low, high = self._estimate().interval(confidence)
        bounds = [(bound * self.scale).float().to(self.state.device) for bound in (low, high)]
        return bounds[0], bounds[1]

    def _estimate(self) -> intervals.Estimate:
        if not self.averages_scores:
            return self.estimate()  # raises before the processes wait for each other
        return self.of_all_processes(self.estimate)

    def of_all_processes(self, read: Callable[[], Read]) -> Read:
        """Return `read()`, called while the state is summed over all processes."""
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn,
            should_sync=self._to_sync,
            should_unsync=self._should_unsync,
        ):
            return read()

    def numbers(self) -> tuple[Any, int]:
        """Return the number of counted and of undecided queries, over all processes.

        The first is an int64 tensor for groups, and None if a subclass does not count queries.
        """
        return self.of_all_processes(
            lambda: (getattr(self, "num_queries", None), getattr(self, "num_undecided", 0))
        )

    @property
    def has_own_update(self) -> bool:
        """Whether a user's subclass overrides `update`."""
        return not type(self).update.__module__.startswith("nextloc_metrics.")

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a copy, without the plan, which the copy makes anew."""
        return {**super().__getstate__(), "_plan": None}

    @property
    def plot_label(self) -> str:
        """The label of the value in plots, such as `NDCG@10`."""
        k = self._options.get("k")
        return type(self).__name__.removesuffix("AtK") + ("" if k is None else f"@{k}")

    @property
    def plot_labels(self) -> dict[str, str]:
        """The plot labels of a dict of values, by key; empty if the value is not a dict."""
        return {}

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw the value: a dot with its interval, or a bar for every group.

        Hundreds of groups are drawn as a histogram of their values. Axes of fractions are in
        percent, from the lowest to the highest possible value.

        Args:
            val: a value of `compute` or `forward`, or a list of values of several steps, drawn
                as lines; None computes the value and its interval, on all processes.
            ax: the matplotlib axes to draw on; None makes a figure.

        Returns:
            The figure and its axes.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
            ValueError: `val` does not have the shape of a value of this metric.
        """
        from nextloc_metrics.report import plotting

        return plotting.plot_metric(self, val, ax)


class RankingMetric(RankingTally):
    """The mean over queries of a score in [0, 1].

    To write your own metric, subclass this class and define
    [`score`][nextloc_metrics.RankingMetric.score]. The base class handles ties, empty targets,
    exact sums, synchronisation and collections.

    Args:
        ties: how tied candidates are scored: `"expected"`, the mean over their orders;
            `"optimistic"`, relevant ones first; `"pessimistic"`, relevant ones last.
        empty_target_action: how a query without a relevant location is scored: `"skip"` excludes
            it, `"neg"` scores 0, `"pos"` scores 1, `"error"` raises.
        options: the options of a subclass; `ignore_index` and `validate_args`; and TorchMetrics'
            own keyword arguments.

    Attributes:
        of_decision: whether the score reads the decision only: the best candidate, of tied ones
            the lowest id. `ties` must then be `"expected"`.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import RankingMetric, scoring
        >>> class RankBiasedPrecision(RankingMetric):
        ...     def __init__(self, persistence=0.8, **kwargs):
        ...         super().__init__(persistence=persistence, **kwargs)
        ...
        ...     def score(self, ranking):
        ...         ranks = ranking.break_ties("optimistic").above.double()
        ...         return (1 - self.persistence) * (self.persistence**ranks).sum(1)
        >>> metric = RankBiasedPrecision(persistence=0.5)
        >>> metric.update(tensor([[0.9, 0.2, 0.4]]), tensor([[0, 2]]))  # ranks 1 and 2
        >>> metric, metric.compute()
        (RankBiasedPrecision(persistence=0.5), tensor(0.7500))
    """

    of_decision: ClassVar[bool] = False

    ties: Ties
    empty_target_action: EmptyTargetAction

    def __init__(
        self,
        *,
        ties: Ties = "expected",
        empty_target_action: EmptyTargetAction = "skip",
        **options: Any,
    ) -> None:
        check_choice("ties", ties, Ties)
        check_choice("empty_target_action", empty_target_action, EmptyTargetAction)
        if self.of_decision and ties != "expected":
            raise ValueError(
                f"`ties` must be 'expected', got {short(ties)}: the decision is always the lowest "
                "id of tied candidates."
            )
        super().__init__(ties=ties, empty_target_action=empty_target_action, **options)
        if self.formula is None and not self.has_own_score:
            raise TypeError(f"{short(self)} must define `score`, or a `formula`.")

    def score(self, ranking: Ranking) -> Tensor:
        """Return float64 `[N]`, one score in [0, 1] per query. Your own metric overrides it.

        With `ties="expected"` the ranking holds tied blocks: your score averages over them, or
        calls `ranking.break_ties` as in the example. A score outside [0, 1] is an error. With
        `validate_args=False` it is clamped to [0, 1], and NaN is 0.
        """
        assert self.formula is not None  # checked when the metric was made
        return scoring.evaluate(ranking, [self.formula])[0]

    @property
    def has_own_score(self) -> bool:
        """Whether a subclass, or an attribute of this object, overrides `score`."""
        return getattr(self.score, "__func__", None) is not RankingMetric.score

    @property
    def formula(self) -> scoring.Formula | None:
        """The formula of the score; None where `score` is overridden instead."""
        return None

    @property
    def one_pass(self) -> scoring.Formula | None:
        """The formula, if it alone determines the value: a subclass overrides nothing else."""
        known = next(kind for kind in type(self).__mro__ if "formula" in vars(kind))
        own = self.overrides(known, "tally", "tallies", "compute") or self.overrides(
            RankingMetric, "score_queries", "check"
        )
        plain = self.averages_scores and self.ties == "expected"
        return self.formula if plain and not own and not self.has_own_score else None

    def score_queries(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        """Return float64 `[N]`, the scores (0 where skipped), and bool `[N]`, which count."""
        scores, counted = score_queries([self], ranking)
        return scores[0], counted

    def empty_tally(self) -> Tensor:
        """Return the zero state: sum of scores, sum of squares, number of queries."""
        return torch.zeros(3, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        """Return the exact sums of a batch's scores."""
        return tally_together([self], ranking)[0]

    @staticmethod
    def tallies(metrics: Sequence[Any], ranking: Ranking) -> list[Tensor]:
        """Sum the scores of several metrics; those with equal options are scored together."""
        together: dict[Any, list[int]] = {}
        for number, metric in enumerate(metrics):
            alike = metric.ties, metric.empty_target_action
            key = alike if metric.averages_scores else number
            together.setdefault(key, []).append(number)
        found: dict[int, Tensor] = {}
        for key, numbers in together.items():
            group = [metrics[number] for number in numbers]
            sums = [group[0].tally(ranking)] if key in numbers else tally_together(group, ranking)
            found.update(zip(numbers, sums, strict=True))
        return [found[number].contiguous() for number in range(len(metrics))]

    def check(self, ranking: Ranking) -> None:
        """Raise if this metric cannot be updated with the ranking."""
        super().check(ranking)
        if self.empty_target_action == "error":
            empty = (ranking.counted & (ranking.num_relevant == 0)).nonzero()
            if empty.numel():
                raise ValueError(
                    "every query must have a relevant location with `empty_target_action='error'`, "
                    f"but query {int(empty[0])} has none; exclude it with `mask`."
                )

    def compute(self) -> Tensor:
        """Return the mean score, NaN without a query."""
        return exact.mean(self.state) * self.scale

    @property
    def averages_scores(self) -> bool:
        """True unless a subclass overrides `tally` or `compute`."""
        kind = type(self)
        return kind.tally is RankingMetric.tally and kind.compute is RankingMetric.compute

    def estimate(self) -> intervals.Estimate:
        """Return the mean and its standard error, with queries taken as independent."""
        return intervals.of_queries(self.state) if self.averages_scores else super().estimate()

    @property
    def num_queries(self) -> int:
        """The number of queries that this process has counted."""
        return int(self.state[2])
