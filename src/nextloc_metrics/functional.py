"""Every metric as a function: the arguments of its `update`, then its options by name.

`mrr(preds, target, k=10)` is what `MRR(k=10)` computes of one batch; a class `RPrecision` has the
function `r_precision`. A function of a mean of scores has `reduction="none"` too: the score of each
query, in the shape of the queries, NaN where a query is skipped. Values are not summed over
processes. `help(mrr)` names the options.

Example:
    >>> from torch import tensor
    >>> from nextloc_metrics.functional import mrr
    >>> scores, target = tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 2])
    >>> mrr(scores, target)
    tensor(0.4167)
    >>> mrr(scores, target, reduction="none")
    tensor([0.5000, 0.3333])
"""

import inspect
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal

import torch
from torch import Tensor

from nextloc_metrics import geography, metrics, trajectories
from nextloc_metrics.core import base as bases
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.base.plan import check
from nextloc_metrics.core.queries.checks import check_choice

Reduction = Literal["mean", "none"]

#: the entry of a docstring for further keyword arguments
_KWARGS = re.compile(r"\n    kwargs: .*(\n     +.*)*")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@cache
def _classes() -> dict[str, type[RecordMetric]]:
    """Return the classes of all metrics by the names of their functions."""
    classes: dict[str, type[RecordMetric]] = {}
    for room in (bases, metrics, geography, trajectories):
        for file in iter_modules(room.__path__, f"{room.__name__}."):
            for name, kind in vars(import_module(file.name)).items():
                # on Python 3.10 an alias such as `list[Tensor]` is an instance of `type`, too
                is_metric = RecordMetric in getattr(kind, "__mro__", ())
                if is_metric and not inspect.isabstract(kind) and not name.startswith("_"):
                    classes[_WORD.sub("_", name).lower()] = kind
    for name in ("ranking_metric", "clustered_groups"):  # users do not make them
        classes.pop(name)
    return classes


def _function_of(name: str, kind: type[RecordMetric]) -> Callable[..., Any]:
    """Make the function of a class, with a signature and a docstring that name its options."""
    options = {x: one for x, one in kind._all_options.items() if x not in kind.set_by_init}
    is_mean = issubclass(kind, MeanMetric)
    reads: Any = getattr(kind, "read", kind.update)
    _self, *parameters = inspect.signature(reads).parameters.values()
    last = inspect.Parameter("reduction", inspect.Parameter.KEYWORD_ONLY, default="mean")
    arguments = [one.name for one in parameters]

    def function(*args: Any, **kwargs: Any) -> Any:
        reduction = kwargs.pop("reduction", "mean") if is_mean else "mean"
        check_choice("reduction", reduction, Reduction)
        metric: Any = kind(**{x: kwargs.pop(x) for x in [*kwargs] if x not in arguments})
        with torch.no_grad():
            if isinstance(metric, RecordMetric):
                record = metric.read(*args, **kwargs)
                metric, args, kwargs = metric.to(record.device), (record,), {}
            if reduction == "none":
                return _scores(metric, *args)
            metric.update(*args, **kwargs)
            metric._to_sync = False  # the value of one batch, without summing over processes
            return metric.compute()

    by_name = [one.replace(kind=last.kind, annotation=last.annotation) for one in options.values()]
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        sorted([*parameters, *by_name, *[last] * is_mean], key=lambda one: one.kind)
    )
    function.__name__ = function.__qualname__ = name
    text = (inspect.getdoc(kind) or "").partition("\nExample:")[0]
    text = _KWARGS.sub("", text).rstrip()
    function.__doc__ = (
        f"{text}\n\nThe function of `{kind.__name__}`: the arguments of its `update`, then its "
        f"options by name: {', '.join(f'`{x}`' for x in options)}."
    )
    return function


def _scores(metric: Any, record: Any) -> Tensor:
    """Return the score of each query, NaN where it is skipped."""
    check(metric, record)
    scores, counted = metric.scores_of(record)
    scores = (scores * metric.score_factor).masked_fill(~counted, torch.nan).float()
    per_query: Tensor = scores.reshape(record.shape).to(record.device)
    return per_query


def __getattr__(name: str) -> Callable[..., Any]:
    """Make a function when it is asked for (PEP 562); to type checkers all are of this type."""
    if name == "__all__":
        return sorted(_classes())  # type: ignore[return-value]
    if name.startswith("_") or name not in _classes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = function = _function_of(name, _classes()[name])
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), "__all__", *_classes()})
