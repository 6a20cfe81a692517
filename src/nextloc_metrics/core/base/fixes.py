"""The base class of all metrics here: TorchMetrics' `Metric` with six fixes."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from functools import wraps
from inspect import getmembers
from types import SimpleNamespace
from typing import Any, ClassVar, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torchmetrics import Metric
from typing_extensions import dataclass_transform

Args = ParamSpec("Args")
Value = TypeVar("Value")


def outside_graphs(function: Callable[Args, Value]) -> Callable[Args, Value]:
    """Make `torch.compile` break its graph around a function, not at dozens of places in it."""

    @wraps(function)
    def run(*args: Args.args, **kwargs: Args.kwargs) -> Value:
        if torch.compiler.is_compiling():
            disabled: Callable[Args, Value] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            return disabled(*args, **kwargs)
        return function(*args, **kwargs)

    return run


_UNROUNDED: ContextVar[bool] = ContextVar("unrounded", default=False)


@contextmanager
def unrounded() -> Iterator[None]:
    """Let `compute` and `interval` return float64, as tables and files write it."""
    token = _UNROUNDED.set(True)
    try:
        yield
    finally:
        _UNROUNDED.reset(token)


def rounded(value: Any, device: torch.device) -> Any:
    """Return float64 (also in a dict) as float32 on the device, unless within `unrounded`."""
    if isinstance(value, dict):
        return {key: rounded(x, device) for key, x in value.items()}
    if not isinstance(value, Tensor) or value.dtype != torch.float64 or _UNROUNDED.get():
        return value
    return value.float().to(device)


# The copies of tables that each call of `.to` has made: metrics that share a table share its copy.
_COPIES: WeakKeyDictionary[Any, dict[int, Any]] = WeakKeyDictionary()


def _device_of_empty(fn: Callable[[Tensor], Tensor]) -> torch.device | None:
    """Return the device on which `to_empty` makes tensors without values; None for `to`."""
    try:
        moved = fn(torch.empty((), device="meta"))
    except Exception:  # `to` cannot copy a tensor without values
        return None
    return None if moved.is_meta else moved.device


def leave_out_of_scripts(cls: Any) -> None:
    """Keep TorchScript from `forward` and the properties, so that modules can be scripted."""
    torch.jit.unused(cls.forward)
    properties = getmembers(cls, lambda member: isinstance(member, property))
    cls.__jit_unused_properties__ = [name for name, _ in properties]


def _attributes_of(module: Any) -> list[str]:  # PyTorch reads `plan` later, which sets `_plan`
    parts = *module._parameters, *module._buffers, *module._modules
    return [name for name in ("_plan", *vars(module), *parts) if name != "training"]


#: the attribute `__jit_ignored_attributes__` of a class that is left out of scripts
UNSCRIPTED = property(_attributes_of)


@dataclass_transform()
class BaseMetric(Metric):
    """TorchMetrics' `Metric`, with six fixes.

    - An error in `forward` or `compute` leaves the state unchanged.
    - An update that raises is not counted as an update.
    - A value that was computed before `merge_state` is computed anew.
    - A value keeps the shape that `compute` returned, also with one element. `compute` may return
      float64: it is rounded once, to float32 on the metric's device.
    - `to_empty` keeps values, and a state without them (on `meta`) becomes empty. A table moves as
      a copy, so that other metrics of the same table keep theirs.
    - A module that holds the metric can be scripted.
    """

    __jit_ignored_attributes__: ClassVar[Any] = UNSCRIPTED

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Leave the class out of scripts."""
        super().__init_subclass__(**kwargs)
        leave_out_of_scripts(cls)

    @outside_graphs
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return the value of this batch alone."""
        with unchanged_by_errors([self]):
            return super().forward(*args, **kwargs)

    def _apply(self, fn: Any, exclude_state: Any = "", recurse: bool = True) -> Any:  # type: ignore[override]
        tables, self._modules = self._modules, {}
        call, before = fn, self._device
        if (device := _device_of_empty(fn)) is not None:
            fn = lambda x: torch.zeros_like(x, device=device) if x.is_meta else x.to(device)  # noqa: E731
            for name in self._defaults:  # a list of tensors without values becomes empty
                if isinstance(held := vars(self)[name], list):
                    setattr(self, name, [x for x in held if not x.is_meta])
        try:
            super()._apply(fn, exclude_state)
        finally:
            self._modules = tables
        for name, table in tables.items():
            option = vars(self).get("_options", {}).get(name)
            is_kept = self._device == before or option is None or isinstance(option, Metric)
            target: Any = table if is_kept else deepcopy(option, _COPIES.setdefault(call, {}))
            moved = target._apply(fn)
            dict.__setitem__(self._modules, name, moved)  # `FixedModules` would refuse an option
            if name in vars(self):
                vars(self)[name] = moved
        return self

    def set_dtype(self, dst_type: str | torch.dtype) -> "BaseMetric":
        """Do nothing: states stay integers."""
        return self

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the state of another metric; a value that was computed before is outdated."""
        super().merge_state(incoming_state)
        self._computed = None
        self._update_count = max(1, self._update_count)  # else `compute` warns

    @contextmanager
    def sync_context(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Replace the state by the sum over all processes until the block ends."""
        was_synced = self._is_synced
        try:
            with super().sync_context(*args, **kwargs):
                yield
        except BaseException:
            if self._is_synced and not was_synced:
                self.unsync()
            raise

    def _wrap_update(self, update: Any) -> Any:
        wrapped = super()._wrap_update(update)

        @outside_graphs
        @wraps(update)
        def count_unless_refused(*args: Any, **kwargs: Any) -> None:
            number = self._update_count
            try:
                wrapped(*args, **kwargs)
            except BaseException:
                self._update_count = number
                raise

        # `wraps` has copied the signature of the method, with `self`
        count_unless_refused.__signature__ = self._update_signature  # type: ignore[attr-defined]
        return count_unless_refused

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def keep(*args: Any, **kwargs: Any) -> SimpleNamespace:
            # TorchMetrics would squeeze a tensor with one element, but leaves other objects
            return SimpleNamespace(value=compute(*args, **kwargs))

        wrapped = super()._wrap_compute(keep)

        @outside_graphs
        @wraps(compute)
        def shaped(*args: Any, **kwargs: Any) -> Any:
            return rounded(wrapped(*args, **kwargs).value, self.device)

        return shaped


@contextmanager
def unchanged_by_errors(metrics: Iterable[Metric], in_place: bool = False) -> Iterator[None]:
    """Restore the metrics' state if the block raises.

    With `in_place`, state tensors are copied first: `update` modifies them in place.
    """
    saved = [(metric, _attributes(metric, in_place)) for metric in metrics]
    try:
        yield
    except BaseException:
        for metric, attributes in saved:
            vars(metric).update(attributes)
        raise


def _attributes(metric: Metric, in_place: bool) -> dict[str, Any]:
    attributes = dict(vars(metric))
    for name in metric._defaults:
        value = attributes[name]
        if isinstance(value, list):
            attributes[name] = list(value)  # `update` appends batches to it
        elif in_place and isinstance(value, Tensor):
            attributes[name] = value.clone()
    return attributes
