"""The base class of all metrics here: TorchMetrics' `Metric` with four fixes."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

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
    """Return float64 as float32 on the device, also of a dict, unless within `unrounded`."""
    if isinstance(value, dict):
        return {key: rounded(one, device) for key, one in value.items()}
    if not isinstance(value, Tensor) or value.dtype != torch.float64 or _UNROUNDED.get():
        return value
    return value.float().to(device)


class _Unsqueezed:
    """A wrapped value: TorchMetrics squeezes a bare tensor with one element."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass_transform()
class BaseMetric(Metric):
    """TorchMetrics' `Metric`, with four fixes.

    - An error in `forward` or `compute` leaves the state unchanged.
    - An update that raises is not counted as an update.
    - A value that was computed before `merge_state` is computed anew.
    - A value keeps the shape that `compute` returned, also with one element. `compute` may return
      float64: it is rounded once, to float32 on the metric's device.
    """

    @outside_graphs
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return the value of this batch alone."""
        with unchanged_by_errors([self]):
            return super().forward(*args, **kwargs)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the state of another metric; a value that was computed before is outdated."""
        super().merge_state(incoming_state)
        self._computed = None
        self._update_count = max(1, self._update_count)  # or `compute` warns of no update

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

        return count_unless_refused

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(compute)
        def keep(*args: Any, **kwargs: Any) -> _Unsqueezed:
            return _Unsqueezed(compute(*args, **kwargs))

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
    kept = [(metric, _attributes(metric, in_place)) for metric in metrics]
    try:
        yield
    except BaseException:
        for metric, attributes in kept:
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
