"""Options as annotations: `k: Positive` is a parameter of the constructor, its check, an attribute.

The annotations are read as `dataclasses` read them: in order, with their values as defaults, and
after `_: KW_ONLY` by name only. In a class with an `__init__` of its own its parameters are the
options, and annotations of the same names check them. A `ClassVar`, a private name, and a name that
`torchmetrics.Metric` has (`higher_is_better: bool = True`) are no options. A `Tensor`, or a list of
tensors, without a value is refused: it could be meant as a state, which `empty_state` returns.

By position, the options of the bases come first. A new option by position in a base would move
those of its subclasses, so a base declares later options after `_: KW_ONLY`, by name only.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY
from enum import Enum
from functools import cache, partial
from hashlib import blake2b
from inspect import Parameter
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from nextloc_metrics.core.queries.checks import (
    Check,
    as_number,
    check_bool,
    check_choice,
    check_number,
    check_positive,
    or_none,
)
from nextloc_metrics.core.queries.messages import clip
from nextloc_metrics.core.suggestions import nearest

Value = TypeVar("Value")

#: `base: Computed[float]`: only `compute` reads the option, so it is not in the state's name
COMPUTED = object()
Computed = Annotated[Value, COMPUTED]

Positive = Annotated[int, check_positive]
PositiveNumber = Annotated[float, check_number]
NumberFromZero = Annotated[float, partial(check_number, or_zero=True)]

REQUIRED = Parameter.empty


def own_options(cls: type, by_parameters: bool) -> dict[str, Parameter]:
    """Return the options that a class adds, by its annotations or by those of its `__init__`."""
    declared: dict[str, Parameter] = {}
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    for name, text in inspect.get_annotations(cls).items():
        hint = _hint_of(cls, name, text)
        kind = Parameter.KEYWORD_ONLY if hint is KW_ONLY else kind
        is_of_class = ClassVar in (hint, get_origin(hint))
        if name.startswith("_") or hasattr(Metric, name) or is_of_class:
            continue
        default = vars(cls).get(name, REQUIRED)
        is_list = get_origin(hint) is list and get_args(hint) == (Tensor,)
        if default is not REQUIRED or not (hint is Tensor or is_list):
            declared[name] = Parameter(name, kind, default=default, annotation=hint)
        elif not by_parameters:
            raise TypeError(
                f"`{name}` of {cls.__name__} must not be annotated as a tensor, which is neither "
                f"an option nor a state; for an option write `{name}: Annotated[Tensor, check]` "
                f"with a function `check(name, value)` that returns the value, for a state define "
                "`empty_state`, and for another attribute begin its name with `_`."
            )
    if not by_parameters:
        return declared
    _self, *parameters = inspect.signature(vars(cls)["__init__"]).parameters.values()
    return {  # an annotation of the same name says how a parameter is checked
        one.name: one.replace(
            annotation=declared[one.name].annotation if one.name in declared else REQUIRED
        )
        for one in parameters
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    }


def all_options(cls: type) -> dict[str, Parameter]:
    """Return a class's options: those by position as bases declare them, then its own by name."""
    owners = [vars(kind)["_own_options"] for kind in cls.__mro__ if "_own_options" in vars(kind)]
    latest: dict[str, Parameter] = {}
    for options in reversed(owners):
        latest |= options
    by_position = [name for name, one in latest.items() if one.kind != one.KEYWORD_ONLY]
    by_name = [name for options in owners for name in options]
    return {name: latest[name] for name in dict.fromkeys([*by_position, *by_name])}


def declare_options(cls: Any) -> None:
    """Read the options of a class, make its constructor, and fix them in its objects."""
    has_init = "__init__" in vars(cls)
    # the base class declares its options as annotations: its `__init__` takes those of all classes
    is_base = not any(hasattr(base, "_all_options") for base in cls.__mro__[1:])
    cls._own_options = own_options(cls, by_parameters=has_init and not is_base)
    cls._all_options = all_options(cls)
    if cls._own_options and not has_init:
        cls.__init__ = constructor(cls, cls._all_options)
    for name in cls._own_options:
        setattr(cls, name, FixedOption(name))
    computed = {name for name, x in cls._all_options.items() if COMPUTED in get_args(x.annotation)}
    # sorted, because classes that share a state may declare the same options in another order
    cls._read_by_update = sorted(cls._all_options.keys() - computed)


def constructor(cls: Any, options: dict[str, Parameter]) -> Callable[..., None]:
    """Return an `__init__` that hands its arguments on by name to one that a base has written."""
    parameters = sorted(
        (one.replace(annotation=REQUIRED) for one in options.values()), key=attrgetter("kind")
    )
    by_position = [one.name for one in parameters if one.kind != one.KEYWORD_ONLY]

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        name = f"{type(self).__name__}.__init__()"
        if len(args) > len(by_position):
            accepted = ", ".join(f"`{one}`" for one in by_position) or "no option"
            raise TypeError(
                f"{name} takes {accepted} by position, got {len(args)} values; give the others by "
                "name."
            )
        by_name = dict(zip(by_position, args, strict=False))
        if twice := by_name.keys() & kwargs.keys():
            raise TypeError(f"{name} got `{min(twice)}` by position and by name.")
        # the constructors in between that were made here would only hand on the same names
        bases = type(self).__mro__[type(self).__mro__.index(cls) + 1 :]
        written = (vars(base)["__init__"] for base in bases if "__init__" in vars(base))
        next(x for x in written if not hasattr(x, "hands_on"))(self, **by_name, **kwargs)

    first = Parameter("self", Parameter.POSITIONAL_ONLY)
    last = Parameter("kwargs", Parameter.VAR_KEYWORD)
    init.__signature__ = inspect.Signature([first, *parameters, last])  # type: ignore[attr-defined]
    init.__name__, init.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__doc__ = f"Make a `{cls.__name__}`; its docstring has the options."
    init.hands_on = True  # type: ignore[attr-defined]
    return init


def read_options(cls: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a class out of `arguments`; check them, or take their defaults."""
    options = {}
    for name, option in cls._all_options.items():
        if name in arguments:
            value = arguments.pop(name)
            if value is not option.default:
                value, check = as_number(value), check_of(option.annotation)
                value = check(name, value) if check else value
            options[name] = value
        elif option.annotation is REQUIRED:
            continue  # an `__init__` has this parameter and did not pass it on
        elif option.default is not REQUIRED:
            options[name] = option.default
        else:
            others = arguments.keys() - cls._all_options.keys()
            got = f", got `{min(others)}`" if others else ""
            raise TypeError(f"{cls.__name__}.__init__() needs the option `{name}`{got}.")
    return options


def unknown_option(cls: Any, error: ValueError) -> Exception:
    """Return the error for an argument that is no option and that TorchMetrics does not know."""
    if not str(error).startswith("Unexpected keyword"):
        return error
    unknown, names = str(error).partition(": ")[2], ", ".join(f"`{x}`" for x in cls._all_options)
    remedy = f"its options are {names} and those of torchmetrics.Metric"
    if near := nearest(unknown.strip("`"), cls._all_options):
        remedy = f"use `{near}`"
    return TypeError(f"{cls.__name__} has no option {clip(unknown)}; {remedy}.")


class FixedOption:
    """The descriptor of an option: an object holds the value, which cannot be assigned again."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __set__(self, metric: Any, value: object) -> NoReturn:
        refuse_to_set(type(metric), self.name, self.name in vars(metric).get("_options", ()))


class FixedModules(dict[str, Any]):
    """The modules of a metric; options among them cannot be set again or deleted.

    PyTorch sets a module here, after it has deleted the attribute, and does not ask `FixedOption`.
    """

    def __init__(self, metric: Any) -> None:
        super().__init__(metric._modules)
        self.kind, self.attributes = type(metric), vars(metric)

    def __setitem__(self, name: str, module: Any) -> None:
        if module is not self.get(name):  # TorchScript sets the same module again
            restore_option(self.kind, self.attributes, name, self.get(name))
        super().__setitem__(name, module)

    def __delitem__(self, name: str) -> None:
        restore_option(self.kind, self.attributes, name, self[name])
        super().__delitem__(name)


def restore_option(kind: type, attributes: dict[str, Any], name: str, module: Any) -> None:
    """Put back an option that PyTorch has deleted, and raise; do nothing for other names."""
    options = attributes.get("_options", {})
    if name in options:
        attributes[name] = options[name] if module is None else module
    if name in kind._all_options:  # type: ignore[attr-defined]
        refuse_to_set(kind, name, name in options)


def refuse_to_set(kind: type, name: str, is_set: bool) -> NoReturn:
    """Raise for an option that the constructor of `RecordMetric` does not set."""
    if is_set:
        raise AttributeError(
            f"`{name}` of {kind.__name__} is fixed, because its state depends on it; make a "
            f"new {kind.__name__} instead."
        )
    raise AttributeError(
        f"`{name}` is an option of {kind.__name__} and must be part of its state's name; "
        f"pass it on: `super().__init__({name}={name}, **kwargs)`."
    )


@cache
def check_of(kind: Any) -> Check | None:
    """Return the function that checks a value of an annotation; None if any value will do."""
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


def _hint_of(cls: type, name: str, hint: Any) -> Any:
    """Evaluate an annotation that is text; return Any if only a type checker can read it."""
    if not isinstance(hint, str):
        return hint
    common = {"ClassVar": ClassVar, "KW_ONLY": KW_ONLY, "Tensor": Tensor, "list[Tensor]": Tensor}
    if hint in common:
        return common[hint]
    holder = type(cls.__name__, (), {"__annotations__": {name: hint}})
    try:
        namespaces = vars(sys.modules[cls.__module__]), dict(vars(cls))
        return get_type_hints(holder, *namespaces, include_extras=True)[name]
    except Exception:
        return ClassVar if "ClassVar[" in hint else Any


# The types of values whose `repr` holds all of their content.
_KNOWN_BY_REPR = frozenset({NoneType, bool, int, float, str, bytes, range, torch.dtype})

_MODULE_ATTRIBUTES = frozenset(vars(torch.nn.Module()))


def describe_options(cls: Any, options: Mapping[str, Any], names: Iterable[str]) -> str:
    """Write the options of these names as `k=5, ties='optimistic'`, without defaults."""
    texts = []
    for name in names:
        value, default = options[name], cls._all_options[name].default
        is_plain = isinstance(value, str | int | float)
        if value is not default and not (is_plain and repr(value) == repr(default)):
            texts.append(f"{name}={describe_option(value)}")
    return ", ".join(texts)


def name_state(metric: Any) -> str:
    """Return the name of a metric's state: that of its class, and the options that an update reads.

    Classes that share a state have a common name in place of those of the classes.
    """
    cls = type(metric)
    names = [name for name in cls._read_by_update if name in metric._options]
    options = describe_options(cls, metric._options, names)
    name = f"{cls._kind_of_state}({options}){cls._namesake}"
    # PyTorch splits names at dots
    return name.replace("%", "%25").replace("/", "%2F").replace(".", "/")


def name_of(kind: type) -> str:
    """Return the name of a class, with its module if that is of another package."""
    package, module = __name__.partition(".")[0], kind.__module__
    is_known = module == "builtins" or module.partition(".")[0] == package
    return kind.__qualname__ if is_known else f"{module}.{kind.__qualname__}"


def describe_option(value: Any) -> str:
    """Return a text that differs if the content of options does; tensors and arrays are hashed."""
    if type(value) in _KNOWN_BY_REPR:
        return repr(value)
    kind, is_object = name_of(type(value)), not isinstance(value, type)
    if is_object and hasattr(value, "state_key"):
        content = str(value.state_key())
        return content if isinstance(value, Metric) else f"{kind}({content})"
    if isinstance(value, Enum):
        return f"{kind}.{value.name}"
    if isinstance(value, Mapping):
        items = (f"{describe_option(key)}: {describe_option(value[key])}" for key in value)
        return f"{kind}({', '.join(items)})"
    if isinstance(value, list | tuple):
        return f"{kind}({', '.join(map(describe_option, value))})"
    if is_object and isinstance(value, torch.nn.Module):
        parts = {name: x for name, x in vars(value).items() if name not in _MODULE_ATTRIBUTES}
        parts |= {**value._parameters, **value._buffers, **value._modules}
        return f"{kind}({', '.join(f'{name}={describe_option(x)}' for name, x in parts.items())})"
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
