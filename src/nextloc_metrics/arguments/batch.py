"""A batch as the user passed it: read once, when it comes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypedDict, TypeVar, get_type_hints

import torch

from nextloc_metrics.arguments.arrays import Array, as_tensor
from nextloc_metrics.arguments.checks import INTEGERS, check_candidates
from nextloc_metrics.arguments.messages import describe

Method = TypeVar("Method", bound=Callable[..., Any])


class BatchOptions(TypedDict, total=False):
    """The arguments of an update by name, beside `preds`, `target`, `mask` and `groups`.

    `RankingMetric.update` describes them.
    """

    exclude: Array | None
    exempt_target: bool
    confidence: Array | None
    weights: Array | None
    extra: Mapping[str, Array] | None


def takes_batch(method: Method) -> Method:
    """Name each argument of `**given` in the signature of a method, and refuse others.

    Errors of Python on the arguments of a call name the class of the object, not of the method.
    """
    own = signature(method)
    *first, last = own.parameters.values()
    known = [*first, last]
    if last.kind is Parameter.VAR_KEYWORD and "Unpack" in str(last.annotation):
        group = get_type_hints(method, include_extras=True)[last.name].__args__[0]
        known = first + [
            Parameter(name, Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=kind)
            for name, kind in get_type_hints(group).items()
        ]
    names = frozenset(one.name for one in known)
    takes_all = any(one.kind is Parameter.VAR_KEYWORD for one in known)

    @wraps(method)
    def call(self: Any, *args: Any, **given: Any) -> Any:
        if not (takes_all or names.issuperset(given)):
            unknown = min(given.keys() - names)
            near = get_close_matches(unknown, names - {"self"}, 1)
            raise TypeError(
                f"{type(self).__name__}.{method.__name__}() got an unexpected argument "
                f"`{unknown}`{f'; use `{near[0]}`' if near else ''}."
            )
        try:
            return method(self, *args, **given)
        except TypeError as error:
            if error.__traceback__ and error.__traceback__.tb_next:  # raised within the method
                raise
            reason = str(error).partition("() ")[2]
            name = f"{type(self).__name__}.{method.__name__}"
            raise TypeError(f"{name}() {reason}") from None

    call.__signature__ = own.replace(parameters=known)  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


_DEFAULTS = {"exempt_target": False}


@dataclass(eq=False)
class Batch:
    """The arguments of an update; `RankingMetric.update` describes them.

    Attributes:
        preds: scores or lists of ids, or a record that was read before.
        target: the relevant locations; None with a record.
        mask: which queries count, or None.
        groups: the groups of the queries, or None.
        exclude: the candidates that are not ranked, or None.
        exempt_target: whether a relevant location in `exclude` is ranked.
        confidence: the probability of the first id of each list, or None.
        weights: the weights of the queries, or None.
        extra: what scores of one's own read of each query, by name, or None.
        ignore_index: an id that is never relevant.
        validate_args: whether values are read and checked.
        grades: the grades of several relevant ids, in the shape of `target`, or None.
    """

    preds: Any
    target: Any
    mask: Any = None
    groups: Array | Mapping[str, Array] | None = None
    exclude: Any = None
    exempt_target: bool = False
    confidence: Any = None
    weights: Array | None = None
    extra: Mapping[str, Array] | None = None
    ignore_index: int | None = None
    validate_args: bool = True
    grades: Array | None = None

    @property
    def has_ids(self) -> bool:
        """Whether `target` has ids, and not the relevance of every candidate."""
        return self.target.dtype in INTEGERS

    def check_scores(self) -> None:
        """Raise unless `preds` has floating scores of at least one candidate."""
        if not self.preds.is_floating_point():
            raise TypeError(
                "`preds` must be a floating tensor of scores, got "
                f"{describe(self.preds)}; pass integer scores as `.float()`, and lists of ids to "
                "`Ranking.from_lists`."
            )
        if not self.preds.ndim or not self.preds.shape[-1]:
            check_candidates(self.preds, self.target)  # raises

    def read(self, device: torch.device | None = None) -> Batch:
        """Convert arrays to tensors on the device of `preds`, or on `device` for arrays."""
        preds = as_tensor("preds", self.preds, device)
        given = {"mask": self.mask, "exclude": self.exclude, "grades": self.grades}
        read: dict[str, Any] = {
            name: as_tensor(name, value, preds.device)
            for name, value in given.items()
            if value is not None
        }
        target = as_tensor("target", self.target, preds.device)
        return replace(self, preds=preds, target=target, **read)
