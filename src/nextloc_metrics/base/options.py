"""Options as text: metrics whose options differ in content get different state names."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Values whose `repr` holds all of their content.
_KNOWN_BY_REPR = frozenset(
    {NoneType, bool, int, float, complex, str, bytes, range, slice, Fraction, Decimal}
    | {date, datetime, time, timedelta, timezone}
    | {torch.dtype, torch.device, torch.Size}
)

_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


def describe_option(value: Any) -> str:
    """Return text that differs for options of different content; a digest for tables."""
    module, kind = type(value).__module__, type(value).__qualname__
    if module != "builtins" and not module.startswith("nextloc_metrics."):
        kind = f"{module}.{kind}"
    if isinstance(value, torch.nn.Module) and hasattr(value, "_scores_name"):  # a metric
        return str(value._scores_name)
    if hasattr(value, "state_key") and not isinstance(value, type):
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
    if isinstance(value, set | frozenset):
        return f"{kind}({', '.join(sorted(map(describe_option, value)))})"
    if isinstance(value, torch.nn.Module):
        return f"{kind}({_describe_attributes(_content_of_module(value))})"
    if is_dataclass(value) and not isinstance(value, type):
        content = {field.name: getattr(value, field.name) for field in fields(value)}
        return f"{kind}({_describe_attributes(content)})"
    if isinstance(value, partial):
        parts = value.func, value.args, value.keywords
        return f"{kind}({', '.join(map(describe_option, parts))})"
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
        "an option must be a plain value, a tensor, an array, a module or a dataclass, got "
        f"{kind}; give {type(value).__qualname__} a method `state_key()` that returns its content "
        "as a string."
    )


def _describe_attributes(attributes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={describe_option(x)}" for name, x in attributes.items())


def _content_of_module(module: torch.nn.Module) -> dict[str, Any]:
    own = {name: x for name, x in vars(module).items() if name not in _OF_EVERY_MODULE}
    return {**own, **module._parameters, **module._buffers, **module._modules}


def _digest(array: Any) -> str:
    return blake2b(array, digest_size=12).hexdigest()


def is_default(value: object, default: object) -> bool:
    """Return whether an option has the same text as its default."""
    return value is default or (
        isinstance(value, str | int | float) and repr(value) == repr(default)
    )
