"""A metric whose state is one integer tensor, named after the options that `update` reads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY
from inspect import Parameter
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, get_args

import torch
import torch.distributed
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import (
    COMPUTED,
    REQUIRED,
    all_options,
    check_of,
    constructor,
    describe_option,
    own_options,
)
from nextloc_metrics.core.base.fixes import BaseMetric
from nextloc_metrics.core.queries.batch import takes_batch
from nextloc_metrics.core.queries.checks import as_number
from nextloc_metrics.core.queries.messages import clip, describe, short
from nextloc_metrics.core.suggestions import nearest

Read = TypeVar("Read")

# Types of attributes that TorchMetrics and `update` set for every batch.
_PLAIN = (Tensor, int, type(None))
# Methods that are those of the class, as the name of the state says which.
_METHODS = "at_rank", "score", "tally"
# and those that they set while a metric is made
_PLAIN_AT_FIRST = (*_PLAIN, bool, float, str, dict, list)


def all_reduce(state: Tensor, group: Any = None) -> list[Tensor]:
    """Sum a state over the processes with one all-reduce, without gathering all states."""
    total = state.clone()
    torch.distributed.all_reduce(total, group=group)
    return [total]


class SummedMetric(BaseMetric, ABC):
    """A metric whose state is one integer tensor, summed over batches and processes.

    A subclass declares its options as annotations, `k: Positive`, or as parameters of an `__init__`
    that passes them on by name. They become attributes, and part of the `repr` and of the state's
    name. TorchMetrics' `MetricCollection` shares states with equal names and values, so the name
    must hold every option that `update` reads. An option that only `compute` reads is `Computed`:
    metrics that differ only in such options share one state. Rules between options are checked in
    `__post_init__`, which runs when all of them are set. Classes that differ only in `compute`
    share one state if they set the same `_counted_as`, which only classes of this library inherit.
    """

    full_state_update = False
    _counted_as: ClassVar[str | None] = None

    if TYPE_CHECKING:  # `torchmetrics.Metric` reads these
        _: KW_ONLY
        compute_on_cpu: bool = False
        dist_sync_on_step: bool = False
        process_group: Any = None
        dist_sync_fn: Callable[..., Any] | None = None
        distributed_available_fn: Callable[[], bool] = torch.distributed.is_available
        sync_on_compute: bool = True
        compute_with_cache: bool = True

    _own_options: ClassVar[dict[str, Parameter]] = {}
    _all_options: ClassVar[dict[str, Parameter]] = {}
    _set_by_init: ClassVar[frozenset[str]] = frozenset()  #: options that no caller can give
    _names: ClassVar[dict[str, int]] = {}
    _namesake: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Read the options, number classes with equal names, and let errors name the class."""
        super().__init_subclass__(**kwargs)
        cls._own_options = own_options(cls)
        cls._all_options = all_options(cls)
        for method in ("__init__", "update", "read"):
            if isinstance(own := vars(cls).get(method), FunctionType):
                setattr(cls, method, takes_batch(own))
        if cls._own_options and "__init__" not in vars(cls):
            for name in cls._own_options.keys() & vars(cls).keys():
                delattr(cls, name)  # PyTorch finds modules and buffers after those of the class
            cls.__init__ = constructor(cls, cls._all_options)  # type: ignore[method-assign]
        name = f"{cls.__module__}.{cls.__qualname__}"
        number = SummedMetric._names[name] = SummedMetric._names.get(name, 0) + 1
        cls._namesake = f"#{number}" if number > 1 else ""

    def __init__(self, **options: Any) -> None:
        declared = self._all_options
        own = self._read_options(options)
        try:
            super().__init__(**{"dist_sync_fn": all_reduce, **options})
        except ValueError as error:
            if not str(error).startswith("Unexpected keyword"):
                raise
            unknown, known = str(error).partition(": ")[2], ", ".join(f"`{x}`" for x in declared)
            remedy = f"its options are {known} and those of torchmetrics.Metric"
            if near := nearest(unknown.strip("`"), declared):
                remedy = f"use `{near}`"
            raise TypeError(
                f"{type(self).__name__} has no option {clip(unknown)}; {remedy}."
            ) from None
        for name, value in own.items():
            setattr(self, name, value)
        self._options = own
        for name in declared.keys() & self.__dict__.keys() - own.keys():
            self._refuse(name)
        self._declared = frozenset({*declared, *_METHODS})
        self.__post_init__()
        # sorted: classes that share a state may declare the same options in another order
        computed = {x for x, one in declared.items() if COMPUTED in get_args(one.annotation)}
        read_by_update = sorted(own.keys() - computed)
        owner = "" if self._is_ours else f"{type(self).__module__}."
        kind = self._counted_as if self._is_ours else vars(type(self)).get("_counted_as")
        name = owner + self._describe(read_by_update, kind) + self._namesake
        # PyTorch splits names at dots
        self._state_name = name.replace("%", "%25").replace("/", "%2F").replace(".", "/")
        self.add_state(self._state_name, self.empty_tally(), dist_reduce_fx="sum")

    def _read_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Take the options out of `given`; check those of annotations, or take their defaults."""
        found = {}
        for name, option in self._all_options.items():
            if name in given:
                value, check = as_number(given.pop(name)), check_of(option.annotation)
                found[name] = check(name, value) if check else value
            elif option.annotation is REQUIRED:
                continue  # of an `__init__` that did not pass it on
            elif option.default is not REQUIRED:
                found[name] = option.default
            else:
                other = given.keys() - self._all_options.keys()
                got = f", got `{min(other)}`" if other else ""
                raise TypeError(f"{type(self).__name__}.__init__() needs the option `{name}`{got}.")
        return found

    def __post_init__(self) -> None:
        """Check rules between options; they are set, and the state is not."""

    def add_state(
        self,
        name: str,
        default: Any,
        dist_reduce_fx: Any = None,
        persistent: bool = False,
    ) -> None:
        """Add a state; gather the processes' states unless all states are summed tensors."""
        super().add_state(name, default, dist_reduce_fx, persistent)
        is_sum = dist_reduce_fx == "sum" and isinstance(default, Tensor)
        if not is_sum and self.dist_sync_fn is all_reduce:
            self.dist_sync_fn = None

    @property
    def state(self) -> Tensor:
        """The integer tensor that this process has summed; every update makes a new tensor."""
        return vars(self)[self._state_name]  # type: ignore[no-any-return]

    @property
    def _scores_name(self) -> str:
        """What metrics with equal scores share: the name of the state, unless it holds more."""
        return self._state_name

    @property
    def _is_ours(self) -> bool:
        """Whether the class is of this library."""
        return type(self).__module__.startswith("nextloc_metrics.")

    @abstractmethod
    def empty_tally(self) -> Tensor:
        """Return the initial state, int64 zeros."""

    @abstractmethod
    def compute(self) -> Any:
        """Return the value over all processes; NaN without a query."""

    @property
    def _will_all_reduce(self) -> bool:
        """Whether `compute` without a cached value all-reduces one state."""
        return bool(
            len(self._defaults) == 1
            and self._to_sync
            and not self._is_synced
            and self.dist_sync_fn is all_reduce
            and self.distributed_available_fn()
        )

    def _of_all_processes(self, read: Callable[[], Read]) -> Read:
        """Return `read()`, called while the state is summed over all processes."""
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn,
            should_sync=self._to_sync,
            should_unsync=self._should_unsync,
        ):
            return read()

    def _summand(self, state: Tensor) -> Any:
        """Return what adds a state when added to another one."""
        return state.to(self.device)

    def _fits(self, saved: Any) -> bool:
        """Return whether a saved state can be the state of this metric."""
        return bool(saved.dtype == torch.int64 and saved.shape == self.state.shape)

    def _state_form(self) -> str:
        return describe(self.state)

    def _copy_of(self, saved: Any) -> Any:
        return saved.to(self.state.device, copy=True)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        _, _, missing_keys, _, error_msgs = others
        key = prefix + self._state_name
        found = state_dict.pop(key, None)
        if found is None:
            if self._persistent[self._state_name]:
                missing_keys.append(key)
        elif not self._fits(found):
            error_msgs.append(
                f"the state `{clip(key)}` must be {self._state_form()}, got {describe(found)}."
            )
        else:
            setattr(self, self._state_name, self._copy_of(found))
            self._computed = None
            self._update_count = max(1, self._update_count)  # or `compute` warns of no update
        super()._load_from_state_dict(state_dict, prefix, *others)

    def __dir__(self) -> list[str]:
        names: list[str] = super().__dir__()  # type: ignore[no-untyped-call]
        return [name for name in names if name.isidentifier()]  # the state's is none

    def __repr__(self) -> str:
        return self._describe(self._options)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if name in own.get("_declared", ()):
            self._refuse(name)
        is_being_made = "_modules" in own and "_declared" not in own
        if type(value) in (_PLAIN_AT_FIRST if is_being_made else _PLAIN if name in own else ()):
            object.__setattr__(self, name, value)  # skips the search for parameters and modules
        else:
            super().__setattr__(name, value)

    def _refuse(self, name: str) -> NoReturn:
        """Raise for an option that was not set by `SummedMetric.__init__`."""
        if name in self._options or name in _METHODS:
            raise AttributeError(
                f"`{name}` of {short(self)} is fixed, because its state depends on it; make a "
                f"new {type(self).__name__} instead."
            )
        raise AttributeError(
            f"`{name}` is an option of {type(self).__name__} and must be part of its state's name; "
            f"pass it on: `super().__init__({name}={name}, **kwargs)`."
        )

    def _describe(self, options: Iterable[str], kind: str | None = None) -> str:
        shown = []
        for name in options:
            value, default = self._options[name], self._all_options[name].default
            is_plain = isinstance(value, str | int | float)
            if value is not default and not (is_plain and repr(value) == repr(default)):
                shown.append(f"{name}={describe_option(value)}")
        return f"{kind or type(self).__qualname__}({', '.join(shown)})"
