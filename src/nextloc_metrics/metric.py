"""What every ranking metric does with a batch, and the mean over queries of a score."""

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

#: more groups or locations than fit into any memory
LARGEST_STATE = 1 << 40


class RankingTally(SummedMetric):
    """A metric whose state is one integer tensor, summed over queries, batches and processes.

    A subclass declares its options as [`SummedMetric`][nextloc_metrics.state.SummedMetric] says.

    Args:
        ignore_index: an id that is never relevant; a query all of whose ids are ignored is left
            out.
        validate_args: read the values of the arguments, and raise where they are out of range.
        options: what a subclass declares, and TorchMetrics' own keyword arguments.
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
        """Whether, of the first ranks, `Ranking.best` alone is read; `top` is then 1."""
        return False

    @property
    def keeps_scores(self) -> bool:
        """Whether a `Ranking` must keep the scores of all candidates for this metric."""
        return False

    @property
    def depth(self) -> int | None:
        """How many of the first ranks this metric looks at; None for all.

        Where all metrics of a collection name a number, relevant locations beyond may be missing
        from the columns of its `Ranking`, though not from `num_relevant`.
        """
        return None

    @property
    def one_pass(self) -> scoring.Formula | int | None:
        """What a batch adds, where scores of one relevant location per query decide it alone.

        A formula of scores that are averaged; or a number of locations, of which decisions are
        counted. None for anything else.
        """
        return None

    @property
    def unit(self) -> str:
        """The unit of a value that is no fraction, for tables."""
        return ""

    @property
    def scale(self) -> float:
        """What a score of 1 is in the unit of the value, such as the largest distance in km."""
        return 1.0

    @abstractmethod
    def tally(self, ranking: Ranking) -> Tensor:
        """Return what a batch adds to the state, int64 and of its shape."""

    @staticmethod
    def tallies(metrics: Sequence[Any], ranking: Ranking) -> list[Tensor]:
        """Return what a batch adds to each of several metrics with this method."""
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

        Arrays of NumPy, columns of pandas, polars or Arrow, and nested lists are read as tensors,
        and land on the metric's device.

        Args:
            preds: floating `[..., C]`, scores of all candidates; or integer `[..., K]`, lists of
                ids, best first, padded with -1; or a `Ranking`, alone.
            target: integer `[...]`, the one relevant id; integer `[..., M]`, the relevant ids,
                padded with -1; bool or floating `[..., C]`, relevance (graded where floating).
            mask: bool `[...]`, False leaves the query out.
            exclude: candidates that are never ranked, such as those visited already: integer
                `[..., E]`, ids padded with -1; or bool `[..., C]`.
            exempt_target: rank a relevant location that `exclude` holds, instead of raising.
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
        """Find where the relevant locations landed; the arguments are those of `update`."""
        return self.plan.rank(preds, target, mask, None, exclude, exempt_target)

    @property
    def plan(self) -> Plan:
        """What this metric asks of a batch."""
        own = vars(self)
        if own["_plan"] is None:
            own["_plan"] = Plan([self])
        return own["_plan"]  # type: ignore[no-any-return]

    def check(self, ranking: Ranking) -> None:
        """Raise where this metric cannot be updated with the ranking."""
        if ranking.device != self.state.device:
            raise ValueError(
                f"{short(self)} is on {self.state.device} and its input on {ranking.device}; "
                "move the metric with `.to(device)`, or make it an attribute of the module that "
                "you move."
            )
        if self.ignore_index is not None and ranking.ignore_index != self.ignore_index:
            raise ValueError(
                f"`ignore_index` is {self.ignore_index} for {short(self)} and "
                f"{ranking.ignore_index} for its Ranking; give both the same."
            )
        if self.top and self.best_only:
            _ = ranking.best  # which raises where it was not kept
        elif self.top:
            ranking.top_candidates(self.top)
        if ranking.depth is not None and (self.depth is None or self.depth > ranking.depth):
            raise ValueError(
                f"{short(self)} looks at {self.depth or 'all'} ranks, and its Ranking was made "
                f"for the first {ranking.depth}; make it with `depth={self.depth}`."
            )

    @property
    def averages_scores(self) -> bool:
        """Whether the value is a mean of scores, of which there is an interval."""
        return False

    def estimate(self) -> intervals.Estimate:
        """Return the mean of the scores in the state, and how sure it is."""
        raise TypeError(
            f"{short(self)} is no mean of scores, and its sums do not tell how sure it is; repeat "
            "the evaluation on samples of the queries."
        )

    def standard_error(self) -> Tensor:
        """Return the standard error of `compute`, over all processes; NaN below two queries.

        Raises:
            TypeError: the value is no mean of scores.
        """
        error = self._estimate().standard_error * self.scale
        return error.float().to(self.state.device)

    def interval(self, confidence: float = 0.95) -> tuple[Tensor, Tensor]:
        """Return the bounds between which the mean over all possible queries lies.

        They are computed from the same sums as the value, over all processes, and are the same
        bits on each. The queries count as independent; where they are not, such as those of one
        user, the interval is too narrow: `Grouped(metric, num_groups, average="queries")` has the
        right one.

        For scores of 0 and 1 it is Wilson's interval; for others Wilson's for as many queries as
        would have the same standard error. It lies around the value, between the lowest and the
        highest possible one, and is NaN without data.

        Args:
            confidence: how often such intervals hold the true mean.

        Returns:
            The lower and the upper bound, in the shape of `compute`.

        Raises:
            TypeError: the value is no mean of scores.
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
            return self.estimate()  # which says why not, before the processes wait for each other
        return self.of_all_processes(self.estimate)

    def of_all_processes(self, read: Callable[[], Read]) -> Read:
        """Return what is read from the state, summed over the processes meanwhile."""
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn,
            should_sync=self._to_sync,
            should_unsync=self._should_unsync,
        ):
            return read()

    def numbers(self) -> tuple[Any, int]:
        """Return how many queries all processes have counted, and how many are undecided.

        An int64 tensor for groups, and None where a subclass does not count them.
        """
        return self.of_all_processes(
            lambda: (getattr(self, "num_queries", None), getattr(self, "num_undecided", 0))
        )

    @property
    def has_own_update(self) -> bool:
        """Whether a user's subclass overrides `update`, and may do more than this library's."""
        return not type(self).update.__module__.startswith("nextloc_metrics.")

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; it makes a plan of its own."""
        return {**super().__getstate__(), "_plan": None}

    @property
    def plot_label(self) -> str:
        """What pictures call the value, such as `NDCG@10`."""
        k = self._options.get("k")
        return type(self).__name__.removesuffix("AtK") + ("" if k is None else f"@{k}")

    @property
    def plot_labels(self) -> dict[str, str]:
        """What pictures call the values of a dict, by its keys; empty where there is no dict."""
        return {}

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw the value: a dot with its interval, or a bar for every group.

        Hundreds of groups are drawn as a histogram of their values. Axes of fractions are labelled
        in percent, from the lowest to the highest possible value.

        Args:
            val: what `compute` or `forward` returned, or a list of that for several steps, drawn
                as lines; None computes it, with its interval, on all processes.
            ax: the matplotlib axes to draw on; None makes a figure.

        Returns:
            The figure and its axes.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
            ValueError: `val` is of another shape.
        """
        from nextloc_metrics.report import plotting

        return plotting.plot_metric(self, val, ax)


class RankingMetric(RankingTally):
    """The mean over queries of a score in [0, 1].

    A metric of your own is its score: subclass, and define
    [`score`][nextloc_metrics.RankingMetric.score]. Ties, empty targets, exact sums,
    synchronisation, collections and names come with it.

    Args:
        ties: what tied candidates stand for: `"expected"`, the mean over their orders;
            `"optimistic"`, relevant ones first; `"pessimistic"`, relevant ones last.
        empty_target_action: what a query without a relevant location is: `"skip"` leaves it out,
            `"neg"` scores it 0, `"pos"` scores it 1, `"error"` raises.
        options: what a subclass declares; `ignore_index` and `validate_args`; and TorchMetrics'
            own keyword arguments.

    Attributes:
        of_decision: whether the score is that of one decision, the lowest id among the best; it
            then takes no other `ties`.

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
                f"`ties` must be 'expected', got {short(ties)}: of tied candidates the lowest id "
                "is the decision."
            )
        super().__init__(ties=ties, empty_target_action=empty_target_action, **options)
        if self.formula is None and not self.has_own_score:
            raise TypeError(f"{short(self)} must define `score`, or a `formula`.")

    def score(self, ranking: Ranking) -> Tensor:
        """Return float64 `[N]`: one score in [0, 1] per query; a metric of your own defines it.

        Any other value is an error; without `validate_args` it counts as the nearest bound, and NaN
        as 0.
        """
        assert self.formula is not None  # checked when the metric was made
        return scoring.evaluate(ranking, [self.formula])[0]

    @property
    def has_own_score(self) -> bool:
        """Whether a subclass, or somebody on this object, overrides `score`."""
        return getattr(self.score, "__func__", None) is not RankingMetric.score

    @property
    def formula(self) -> scoring.Formula | None:
        """How the score is made of ranks; None where `score` is defined instead."""
        return None

    @property
    def one_pass(self) -> scoring.Formula | None:
        """The formula, where it is all that a metric of this library needs."""
        plain = type(self).__module__.startswith("nextloc_metrics.") and not self.has_own_score
        if plain and self.averages_scores and self.ties == "expected":
            return self.formula
        return None

    def score_queries(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        """Return the scores float64 `[N]`, 0 where left out, and which count, bool `[N]`."""
        scores, counted = score_queries([self], ranking)
        return scores[0], counted

    def empty_tally(self) -> Tensor:
        """Return zeros for the sum of scores, of their squares, and the number of queries."""
        return torch.zeros(3, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        """Sum up the scores of a batch, exactly."""
        return tally_together([self], ranking)[0]

    @staticmethod
    def tallies(metrics: Sequence[Any], ranking: Ranking) -> list[Tensor]:
        """Sum up the scores of metrics that take ties and empty targets alike together."""
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
        """Raise where this metric cannot be updated with the ranking."""
        super().check(ranking)
        if self.empty_target_action == "error":
            empty = (ranking.counted & (ranking.num_relevant == 0)).nonzero()
            if empty.numel():
                raise ValueError(
                    "every query must have a relevant location with `empty_target_action='error'`, "
                    f"and query {int(empty[0])} has none; leave it out with `mask`."
                )

    def compute(self) -> Tensor:
        """Return the mean score, NaN without a query."""
        return exact.mean(self.state) * self.scale

    @property
    def averages_scores(self) -> bool:
        """A mean over queries, unless a subclass counts or computes another value."""
        kind = type(self)
        return kind.tally is RankingMetric.tally and kind.compute is RankingMetric.compute

    def estimate(self) -> intervals.Estimate:
        """Return the mean over queries taken as independent, and how sure it is."""
        return intervals.of_queries(self.state) if self.averages_scores else super().estimate()

    @property
    def num_queries(self) -> int:
        """How many queries this process has counted."""
        return int(self.state[2])
