"""The contract of a metric: twelve members, and what the base class makes of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from functools import cached_property
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import torch
import torch.distributed
from torch import Tensor
from torchmetrics import Metric

from nextloc_metrics.core.base.annotated_options import (
    FixedModules,
    declare_options,
    describe_options,
    name_of,
    name_state,
    read_options,
    restore_option,
    unknown_option,
)
from nextloc_metrics.core.base.fixes import BaseMetric, rounded
from nextloc_metrics.core.base.plan import Plan, mark_of
from nextloc_metrics.core.base.processes import all_reduce, share_names
from nextloc_metrics.core.base.states import (
    DENSE,
    DenseState,
    KeyedState,
    check_same_state,
    load_state,
    names_key,
)
from nextloc_metrics.core.means import intervals
from nextloc_metrics.core.means.keyed_sums import KeyedSums
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import Batch, GroupKind
from nextloc_metrics.core.queries.checks import check_ignored
from nextloc_metrics.core.queries.keys import join_names
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.queries.record import Record, Records
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.results.plots import plot_metric

Value = TypeVar("Value")


class NoChanceError(TypeError):
    """A metric has no chance level."""


#: TorchMetrics' own options, which a metric of the scores of another one takes from it
HOST_OPTIONS = (
    "compute_on_cpu", "compute_with_cache", "dist_sync_on_step", "distributed_available_fn",
    "process_group", "sync_on_compute",
)  # fmt: skip


class RecordMetric(BaseMetric, ABC):
    """A metric that reads a record of each batch, such as a `Ranking`, and adds up integers.

    A metric of your own derives from [`RankingMetric`][nextloc_metrics.RankingMetric] or
    [`MeanMetric`][nextloc_metrics.MeanMetric] if its value is the mean of a score over queries, and
    from this class otherwise. It overrides some of twelve members, and nothing else:

    | member | what it says |
    |---|---|
    | `record` | the class of what it reads, such as `Ranking` |
    | `needs` | how much of it, such as `Needs(top=1)`, the ids of the best candidates |
    | `formula`, `at_rank(rank)` or `score(record)` | the score of a query, of a mean |
    | `tally(record)` | what a batch adds to the state: int64 in its shape, or `KeyedSums` |
    | `empty_state()` | the state without a query: zeros of a fixed shape, or empty `KeyedSums` |
    | `compute()` | the value of the state |
    | `check(record)` | it raises if the metric cannot read this record |
    | `num_queries` | the number of queries in the state of this process, or None |
    | `estimate()` | the mean with its standard error, from which `interval` follows |
    | `chance(num_candidates, num_relevant)` | the value of a random order of the candidates |
    | `label` | the name of the value in tables and pictures |
    | `unit` | the unit of the value; with it, as class attributes, its bounds and direction |

    A class that overrides `tally` or `compute` without `estimate` has no interval. The options are
    annotations such as `k: int`; they become attributes, and part of the `repr` and of the
    state's name. TorchMetrics' `MetricCollection` shares states of equal names and values, so the
    name holds every option that `tally` reads. One that only `compute` reads is `Computed`: metrics
    that differ only in such options share one state. Rules between options are checked in
    `__post_init__`, which runs when all of them are set.

    Args:
        ignore_index: an id that is never relevant; a query with only ignored ids is skipped. The
            id is still ranked as a candidate.
        validate_args: read the values of the arguments, and raise where they are out of range.
        options: the options of a subclass, and TorchMetrics' own keyword arguments.

    Attributes:
        record: the class of the record that it reads, such as `Ranking`.
        label: the name of the value in tables and pictures, with the options as in `str.format`:
            `"RBP({p:g})"`; empty for the name of the class with the cut-off, such as `NDCG@10`.
        key_labels: where `compute` returns a dict, the names of its values, by their keys.
        unit: the unit of the value in tables, such as `km`; empty for a fraction.
        largest_value: the largest value that there can be, such as the largest distance in km.
            Scores in [0, 1] are shares of it; infinity: scores are values from 0 to infinity,
            summed in steps of 2^-32. A finite one is then at most 2^31, and an infinite one makes
            the mean infinite.
        shared_state: the name of the state of classes that differ only in `compute`, which each of
            them sets in its own body; empty for the name of the class.
        set_by_init: the options that an `__init__` of the class sets, and no caller can give.
        has_interval: whether `interval` returns one.
        group_kind: the groups that it has sums of; None without groups.
        key_names: the texts of keys that are hashes, as this process has read them; also of other
            processes after a table.
        score_factor: what a score is multiplied by, the largest value if that is finite.
    """

    is_differentiable = False
    full_state_update = False
    record: ClassVar[type[Record]] = Record
    label = ""
    key_labels: ClassVar[Mapping[str, str]] = {}
    unit = ""
    largest_value = 1.0
    shared_state: ClassVar[str] = ""
    set_by_init: ClassVar[frozenset[str]] = frozenset()
    has_interval = False
    group_kind: ClassVar[GroupKind | None] = None

    _: KW_ONLY
    higher_is_better: bool | None = True
    plot_lower_bound: float | None = 0.0
    plot_upper_bound: float | None = 1.0
    ignore_index: Annotated[int | None, check_ignored] = None
    validate_args: bool = True
    if TYPE_CHECKING:  # `torchmetrics.Metric` reads these
        compute_on_cpu: bool = False
        dist_sync_on_step: bool = False
        process_group: Any = None
        dist_sync_fn: Callable[..., Any] | None = None
        distributed_available_fn: Callable[[], bool] = torch.distributed.is_available
        sync_on_compute: bool = True
        compute_with_cache: bool = True

    _own_options: ClassVar[dict[str, Parameter]] = {}
    _all_options: ClassVar[dict[str, Parameter]] = {}
    _read_by_update: ClassVar[list[str]] = []
    _names: ClassVar[dict[str, int]] = {}
    # The marks of `tally` and `check`, see `plan.sums`; the first two are methods.
    _scores_of: ClassVar[Any] = None
    _decisions_of: ClassVar[Any] = None
    _held_by_backends: ClassVar[bool | None] = None
    _kind_of_state: ClassVar[str] = ""
    _namesake: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Read the options and the marks, number classes of one name, and set `has_interval`."""
        super().__init_subclass__(**kwargs)
        declare_options(cls)
        name = f"{cls.__module__}.{cls.__qualname__}"
        number = RecordMetric._names[name] = RecordMetric._names.get(name, 0) + 1
        cls._namesake = f"#{number}" if number > 1 else ""
        kind = vars(cls).get("shared_state") or cls.__qualname__
        cls._kind_of_state = name_of(cls).removesuffix(cls.__qualname__) + kind
        cls._scores_of = mark_of(cls.tally, "scores_of")
        cls._decisions_of = mark_of(cls.tally, "decisions_of")
        cls._held_by_backends = mark_of(cls.check, "held_by_backends")
        if "has_interval" not in vars(cls):
            cls.has_interval = _nearest(cls, "estimate") <= min(
                _nearest(cls, "tally"), _nearest(cls, "compute")
            )

    def __init__(self, **options: Any) -> None:
        values = read_options(type(self), options)
        try:
            super().__init__(**{"dist_sync_fn": all_reduce, **options})
        except ValueError as error:
            raise unknown_option(type(self), error) from None
        self._options = values
        vars(self).update(values)
        modules = {name: x for name, x in values.items() if isinstance(x, torch.nn.Module)}
        self._modules.update(modules)
        vars(self)["_modules"] = FixedModules(self)
        self.__post_init__()
        self._state_name = name_state(self)
        self._score_name = self.state_key()
        self._form: DenseState | KeyedState = DENSE
        self.key_names: Mapping[int, str] = {}
        empty: Any = self.empty_state()
        if isinstance(empty, KeyedSums):
            self._form, empty = KeyedState(empty), []
        self.add_state(self._state_name, empty, self._form.reduction)

    def __post_init__(self) -> None:
        """Check rules between options; they are set, and the state is not."""
        if isinstance(type(self).label, str) and "label" not in vars(self):
            k = self._options.get("k")
            usual = type(self).__name__.removesuffix("AtK") + ("" if k is None else f"@{k}")
            self.label = self.label.format(**self._options) or usual

    def state_key(self) -> str:
        """Return the name of the state, which describes this metric where it is an option."""
        return self._state_name

    # The members that a subclass overrides ------------------------------------------------------

    @property
    def needs(self) -> Any:
        """What this metric reads of its record beyond the ranks."""
        return Needs()

    @abstractmethod
    def tally(self, record: Any) -> Any:
        """Return the batch's summand of the state: int64 in the shape of the state.

        For a state of sums by key it is `KeyedSums`.
        """

    @abstractmethod
    def empty_state(self) -> Tensor | KeyedSums:
        """Return the state without a query: int64 zeros, or empty `KeyedSums`."""

    @abstractmethod
    def compute(self) -> Any:
        """Return the value over all processes; NaN without a query."""

    def check(self, record: Any) -> None:
        """Raise if this metric cannot be updated with the record, which has what it `needs`."""

    @property
    def num_queries(self) -> Any:
        """The number of queries that this process has counted; None if it does not count them."""
        return None

    def estimate(self) -> intervals.Estimate:
        """Return the mean of the scores in the state, with its standard error."""
        raise TypeError(
            f"{short(self)} has no standard error: it is not a mean of per-query scores; "
            "`report.evaluate` has intervals of F1; bootstrap over users for others."
        )

    @property
    def footnotes(self) -> dict[str, str]:
        """What a dagger after a value says, by the keys of a dict of values, or by ""."""
        return {}

    def chance(self, num_candidates: int, num_relevant: int = 1) -> float:
        """Return the expected value for a random order of the candidates.

        `analysis.chance` checks the numbers, and takes collections. A metric of your own whose
        value is no mean of scores of ranks overrides it; otherwise a `TypeError` says that it has
        none.
        """
        raise NoChanceError(
            f"{short(self)} has no chance level: it is not a mean of per-query scores; leave it "
            "out."
        )

    # What follows from them -----------------------------------------------------------------------

    def update(
        self,
        preds: Array | Record | Records,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
        confidence: Array | None = None,
        extra: Mapping[str, Array] | None = None,
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
        batch = Batch(preds, target, mask, groups, exclude, exempt_target, confidence, extra)
        self._plan.update(batch, count=False)

    def read(
        self,
        preds: Array | Record | Records,
        target: Array | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        exclude: Array | None = None,
        exempt_target: bool = False,
        confidence: Array | None = None,
        extra: Mapping[str, Array] | None = None,
    ) -> Any:
        """Return the record of a batch; the arguments are those of `update`."""
        batch = Batch(preds, target, mask, groups, exclude, exempt_target, confidence, extra)
        return self._plan.read(batch)[self.record]

    def standard_error(self) -> Any:
        """Return the standard error of `compute`, over all processes; NaN below two queries.

        A value that is not a mean of scores raises a `TypeError`. It has the shape of `compute`.
        """
        estimate = self._estimate_of_all()
        if estimate.link is not None:
            RecordMetric.estimate(self)  # raises
        return self._by_key(rounded(estimate.standard_error * self.score_factor, self.device))

    def interval(self, confidence_level: float = 0.95) -> Any:
        """Return the bounds of the confidence interval for the mean over all possible queries.

        The bounds are computed from the sums of all processes, bit for bit equal on every process.
        The formula takes queries as independent. If they are not, such as the queries of one user,
        the interval is too narrow: use `Grouped(metric, num_groups, average="queries")`.

        For scores of 0 and 1 it is Wilson's interval. For scores between, it is Wilson's with the
        effective sample size, the number of 0/1 scores that have the same standard error, and with
        Student's t instead of the normal quantile. The interval contains the value, stays within
        the range of the metric, is the whole range for a single score between, and is NaN without
        data. The lower and the upper bound, a tuple, have the shape of `compute`; for a dict there
        is a tuple for each key.

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
        low, high = (
            rounded(bound * self.score_factor, self.device)
            for bound in self._estimate_of_all().interval(confidence_level)
        )
        if not self.key_labels:
            return low, high
        return self._by_key(zip(low.unbind(), high.unbind(), strict=True))

    def _by_key(self, values: Any) -> Any:
        """Return values by the keys of `compute` if it returns a dict, else as they are."""
        return dict(zip(self.key_labels, values, strict=True)) if self.key_labels else values

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw the value, or those of groups or of several steps, as torchmetrics does.

        It returns the figure and its axes, or None and the axes if `ax` is given. `plotting` has
        pictures with intervals: `side_by_side` for a collection, `by_group` for groups.

        Args:
            val: a value of `compute` or `forward`, or a list of values of several steps, drawn
                as lines; None computes the value, on all processes.
            ax: the matplotlib axes to draw on; None makes a figure.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
            ValueError: `val` is a list of no step.
        """
        return plot_metric(self, val, ax)

    @cached_property
    def _needs(self) -> Any:
        """`needs`, read once: options are fixed."""
        return self.needs

    @cached_property
    def _is_bounded(self) -> bool:
        """Whether scores are in [0, 1]."""
        return self.largest_value < math.inf

    @cached_property
    def score_factor(self) -> float:
        """What a score is multiplied by, the largest value if that is finite."""
        return self.largest_value if self._is_bounded else 1.0

    @cached_property
    def _plan(self) -> Plan:
        """The plan of an update: what this metric needs from a batch."""
        return Plan([self])

    def _estimate_of_all(self) -> intervals.Estimate:
        if not self.has_interval:
            RecordMetric.estimate(self)  # raises, before the processes wait for each other
        return self._of_all_processes(self.estimate)

    @property
    def state(self) -> Tensor:
        """The integers that this process has summed; every update makes a new tensor.

        Sums by key are int64 `[E, K + V]`, each key once, in rising order.
        """
        held: Any = vars(self)[self._state_name]
        if isinstance(self._form, KeyedState):
            return self._form.read(held, self._device)
        return held  # type: ignore[no-any-return]

    def held(self) -> Any:
        """Return the state as it is held, for `restore`; sums by key may be in several parts."""
        return vars(self)[self._state_name]

    def restore(self, held: Any) -> None:
        """Replace the state by what `held` returned, of this metric or of an equal one."""
        vars(self).update({self._state_name: held, "_computed": None})
        self._update_count += 1  # without this, TorchMetrics warns in `compute`

    @property
    def options(self) -> dict[str, Any]:
        """The options by name; they are fixed."""
        return dict(self._options)

    @property
    def is_keyed(self) -> bool:
        """Whether the state is sums by key."""
        return isinstance(self._form, KeyedState)

    def _of_all_processes(self, read: Callable[[], Value]) -> Value:
        """Return `read()`, called while the state is summed over all processes."""
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn,
            should_sync=self._to_sync,
            should_unsync=self._should_unsync,
        ):
            return read()

    def _share_names(self) -> None:
        """Learn the texts of keys that other processes have read."""
        share_names([self])

    # What TorchMetrics does with a state ----------------------------------------------------------

    def add_state(
        self, name: str, default: Any, dist_reduce_fx: Any = None, persistent: bool = False
    ) -> None:
        """Add a state; gather the processes' states unless all states are summed tensors."""
        super().add_state(name, default, dist_reduce_fx, persistent)
        is_sum = dist_reduce_fx == "sum" and isinstance(default, Tensor)
        if not is_sum and self.dist_sync_fn is all_reduce:
            self.dist_sync_fn = None

    def _sync_dist(self, *args: Any, **kwargs: Any) -> None:
        """Gather the entries; the empty list of a process without any is read as int64 first."""
        if isinstance(self._form, KeyedState):
            setattr(self, self._state_name, [self.state])
        super()._sync_dist(*args, **kwargs)
        if isinstance(self._form, KeyedState):
            setattr(self, self._state_name, [self.state])  # they are merged once

    def reset(self) -> None:
        """Forget all queries; a list that other metrics share keeps its entries."""
        if isinstance(self._form, KeyedState):
            setattr(self, self._state_name, [])
        super().reset()

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the state of another metric, with the texts of its keys."""
        check_same_state(self, incoming_state)
        names = join_names(self.key_names, getattr(incoming_state, "key_names", {}))
        super().merge_state(incoming_state)
        self.key_names = names

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        """Add up two states, for `forward` or `merge_state`."""
        state = self.state
        super()._reduce_states(incoming_state)
        if isinstance(self._form, KeyedState):
            held = [x.to(self.device) for x in incoming_state[self._state_name]]
            setattr(self, self._state_name, self._form.add(held, state, self.device))

    def state_dict(self, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        self.state  # noqa: B018  # merges the entries that are saved
        saved: Any = super().state_dict(destination, prefix, keep_vars)
        if self.key_names and self._persistent[self._state_name]:
            saved[prefix + names_key(self)] = dict(self.key_names)
        return saved

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        _, _, missing_keys, _, error_msgs = others
        if (wrong := load_state(self, state_dict, prefix, missing_keys)) is not None:
            error_msgs.append(wrong)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a copy, without the plan, which the copy makes anew."""
        state = {name: x for name, x in super().__getstate__().items() if name != "_plan"}
        return {**state, "_modules": dict(self._modules)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        vars(self)["_modules"] = FixedModules(self)

    def register_parameter(self, name: str, param: Any) -> None:
        """Refuse to set an option to a parameter; PyTorch does not ask `FixedOption`."""
        restore_option(type(self), vars(self), name, self._modules.get(name))
        super().register_parameter(name, param)

    def __dir__(self) -> list[str]:
        names: list[str] = super().__dir__()  # type: ignore[no-untyped-call]
        return [name for name in names if name.isidentifier()]  # the name of the state is none

    def __repr__(self) -> str:
        options = describe_options(type(self), self._options, self._options)
        return f"{type(self).__qualname__}({options})"


def _nearest(cls: type, name: str) -> int:
    """Return the place, among a class and its bases, of the first that defines a member."""
    return next(number for number, base in enumerate(cls.__mro__) if name in vars(base))


declare_options(RecordMetric)
