"""Options as annotations: `k: Positive` is a parameter of the constructor, its check, an attribute.

The annotations are read as `dataclasses` read them: in order, with their values as defaults, and
after `_: KW_ONLY` by name only. In a class with an `__init__` of its own its parameters are the
options, and annotations of the same names check them. What is no option: a `ClassVar`, a private
name, a name that `torchmetrics.Metric` has (`higher_is_better: bool = True`), and a `Tensor` or
list of them without a value, which is a state.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from enum import Enum
from functools import cache, partial
from hashlib import blake2b
from inspect import Parameter
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from nextloc_metrics.core.queries.checks import (
    Check,
    check_bool,
    check_choice,
    check_number,
    check_positive,
    or_none,
)

Value = TypeVar("Value")

#: `base: Computed[float]`: only `compute` reads the option, so it is not in the state's name
COMPUTED = object()
Computed = Annotated[Value, COMPUTED]

Positive = Annotated[int, check_positive]
PositiveNumber = Annotated[float, check_number]
NumberFromZero = Annotated[float, partial(check_number, or_zero=True)]

REQUIRED = Parameter.empty


def own_options(cls: type) -> dict[str, Parameter]:
    """Return the options that a class adds, by its annotations or its own `__init__`."""
    found: dict[str, Parameter] = {}
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    for name, text in inspect.get_annotations(cls).items():
        hint: Any = _evaluated(cls, text)
        kind = Parameter.KEYWORD_ONLY if hint is KW_ONLY else kind
        default = vars(cls).get(name, REQUIRED)
        is_list = get_origin(hint) is list and get_args(hint) == (Tensor,)
        is_state = default is REQUIRED and (hint is Tensor or is_list)
        is_of_class = ClassVar in (hint, get_origin(hint))
        if not (name.startswith("_") or hasattr(Metric, name) or is_of_class or is_state):
            found[name] = Parameter(name, kind, default=default, annotation=hint)
    if "__init__" not in vars(cls):
        return found
    _self, *parameters = inspect.signature(vars(cls)["__init__"]).parameters.values()
    return {  # the parameters, checked as the annotations of their names say
        one.name: one.replace(
            annotation=found[one.name].annotation if one.name in found else REQUIRED
        )
        for one in parameters
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    }


def all_options(cls: type) -> dict[str, Parameter]:
    """Return a class's options: those by position as bases declare them, then its own by name."""
    owners = [vars(kind)["_own_options"] for kind in cls.__mro__ if "_own_options" in vars(kind)]
    latest: dict[str, Parameter] = {}
    for own in reversed(owners):
        latest |= own
    by_position = [name for name, one in latest.items() if one.kind != one.KEYWORD_ONLY]
    by_name = [name for own in owners for name in own]
    return {name: latest[name] for name in dict.fromkeys([*by_position, *by_name])}


def constructor(cls: Any, options: dict[str, Parameter]) -> Callable[..., None]:
    """Return an `__init__` that hands its arguments on by name; the last of them checks all."""
    shown = sorted(
        (one.replace(annotation=REQUIRED) for one in options.values()), key=attrgetter("kind")
    )
    by_position = [one.name for one in shown if one.kind != one.KEYWORD_ONLY]

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        name = f"{type(self).__name__}.__init__()"
        if len(args) > len(by_position):
            known = ", ".join(f"`{one}`" for one in by_position) or "no option"
            raise TypeError(
                f"{name} takes {known} by position, got {len(args)} values; give the others by "
                "name."
            )
        given = dict(zip(by_position, args, strict=False))
        if twice := given.keys() & kwargs.keys():
            raise TypeError(f"{name} got `{min(twice)}` by position and by name.")
        super(cls, self).__init__(**given, **kwargs)

    first = Parameter("self", Parameter.POSITIONAL_ONLY)
    last = Parameter("kwargs", Parameter.VAR_KEYWORD)
    init.__signature__ = inspect.Signature([first, *shown, last])  # type: ignore[attr-defined]
    init.__name__, init.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__doc__ = f"Make a `{cls.__name__}`; its docstring has the options."
    return init


@cache
def check_of(kind: Any) -> Check | None:
    """Return what checks a value of an annotation; None where any value will do."""
    if kind is bool:
        return check_bool
    if get_origin(kind) is Literal:
        return lambda name, value: check_choice(name, value, kind)
    if get_origin(kind) is Annotated:
        inner, *marks = get_args(kind)
        return next(filter(callable, marks), None) or check_of(inner)
    inner = [x for x in get_args(kind) if x is not type(None)]
    if len(inner) == 1 and len(get_args(kind)) == 2 and (check := check_of(inner[0])):
        return or_none(check)
    return None


def _evaluated(cls: type, hint: Any) -> Any:
    """Return an annotation that is text as what it names; Any if only a type checker knows it."""
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, vars(sys.modules[cls.__module__]), dict(vars(cls)))
    except Exception:
        names = {"ClassVar": ClassVar, "KW_ONLY": KW_ONLY, "Tensor": Tensor, "list[Tensor]": Tensor}
        return names.get(hint, ClassVar if "ClassVar[" in hint else Any)


# Values whose `repr` holds all of their content.
_KNOWN_BY_REPR = frozenset({NoneType, bool, int, float, str, bytes, range, torch.dtype})

_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


def describe_option(value: Any) -> str:
    """Return text that differs for options of different content; a digest for tables."""
    module, kind = type(value).__module__, type(value).__qualname__
    if module != "builtins" and not module.startswith("nextloc_metrics."):
        kind = f"{module}.{kind}"
    is_object = not isinstance(value, type)
    if is_object and hasattr(value, "_scores_name"):  # a metric
        return str(value._scores_name)
    if is_object and hasattr(value, "state_key"):
        return f"{kind}({value.state_key()})"
    if isinstance(value, Enum):
        return f"{kind}.{value.name}"
    if type(value) in _KNOWN_BY_REPR:
        return repr(value)
    if isinstance(value, Mapping):
        items = (f"{describe_option(key)}: {describe_option(value[key])}" for key in value)
        return f"{kind}({', '.join(items)})"
    if isinstance(value, list | tuple):
        return f"{kind}({', '.join(map(describe_option, value))})"
    if is_object and isinstance(value, torch.nn.Module):
        own = {name: x for name, x in vars(value).items() if name not in _OF_EVERY_MODULE}
        own |= {**value._parameters, **value._buffers, **value._modules}
        return f"{kind}({', '.join(f'{name}={describe_option(x)}' for name, x in own.items())})"
    if isinstance(value, Tensor):
        value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        digest = _digest(value.flatten().view(torch.uint8).numpy())
        return f"<{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)} {digest}>"
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return f"<{value.dtype} {value.shape} {_digest(np.ascontiguousarray(value))}>"
    if isinstance(value, FunctionType | BuiltinFunctionType | type):
        if "<" in value.__qualname__:
            raise ValueError(
                "an option that is a function must be defined at module level, "
                f"got {value.__qualname__}."
            )
        return f"{value.__module__}.{value.__qualname__}"
    raise TypeError(
        "an option must be a plain value, a tensor, an array, a module or a metric, got "
        f"{kind}; give {type(value).__qualname__} a method `state_key()` that returns its content "
        "as a string."
    )


def _digest(array: Any) -> str:
    return blake2b(array, digest_size=12).hexdigest()
