"""Short descriptions of values for error messages, with a remedy for their type.

Messages name arguments between backticks, `k` or `k=5`. The command line names options instead, and
counts rows from 1; so `as_column` writes the columns that users name, and `as_row` writes rows.
"""

from __future__ import annotations

import reprlib
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor

# The most characters of a value. A message has at most two values and 300 characters.
_LONGEST = 72

#: in messages for the command line, a mark before and after columns, which it replaces later
SHELL_MARK = ContextVar("SHELL_MARK", default="")

_repr = reprlib.Repr()
_repr.maxlevel = 2
_repr.maxstring = _repr.maxother = _repr.maxlong = _LONGEST


def describe(value: object) -> str:
    """Return dtype and shape of a tensor; type, dtype and shape of an array; or type and value."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {short(value.shape)}"
    kind = type(value).__name__
    shape = _shape(value)
    if shape is not None:  # an array, or a column or table of data
        return " ".join([kind, *([str(value.dtype)] if hasattr(value, "dtype") else []), shape])
    return f"{kind} {short(value)}"


def short(value: object) -> str:
    """Return a shortened `repr` in one line; of tensors and arrays, dtype and shape."""
    if isinstance(value, Tensor) and value.ndim:
        return f"tensor {describe(value)}"
    if isinstance(value, torch.Size):
        value = tuple(value)
    if _shape(value) not in (None, "()"):
        return describe(value)
    try:
        text = " ".join(_repr.repr(value).split())
    except Exception:  # a user's `repr` may raise, and so does an integer with too many digits
        text = f"<{type(value).__name__}>"
    return clip(text)


def clip(text: str) -> str:
    """Cut a text to `_LONGEST` characters."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _shape(value: object) -> str | None:
    shape = None if isinstance(value, type) else getattr(value, "shape", None)
    return short(shape) if isinstance(shape, tuple) else None


def as_column(name: object) -> str:
    """Return the name of a column between backticks, or between marks for the command line."""
    mark = SHELL_MARK.get() or "`"
    return f"{mark}{name}{mark}"


def as_row(number: Any, line: int = 0) -> str:
    """Return the line and the number of a row, from 0; on the command line, only one of them."""
    if SHELL_MARK.get():
        return f"line {line:,}" if line else f"row {number + 1} (from 1)"
    return f"line {line:,}, row {number}" if line else f"row {number}"


def wrong_cell(place: str, rule: str, column: str, value: str, remedy: str) -> ValueError:
    """Return the error of a cell: its place, what it must hold and what it holds, and a remedy."""
    return ValueError(f"{place} must hold {rule} in {as_column(column)}, got {value}; {remedy}.")


def got(name: str, value: object) -> str:
    """Return the end of a message about an argument that must be a tensor: value and remedy."""
    remedy = "" if isinstance(value, Tensor) else f"; {_remedy(name, value)}"
    return f"got {describe(value)}{remedy}"


def read_row(name: str, values: Any) -> Tensor:
    """Convert a row of numbers to a tensor."""
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"`{name}` must be one row of numbers, got {describe(values)}.") from error


def extra(name: str) -> str:
    """Return the remedy for a package that is missing: how to install the extra that has it."""
    return f"install the extra `{name}` (`pip install -e '.[{name}]'` in a clone)"


def _remedy(name: str, value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"use `torch.from_numpy({name})`"
    if isinstance(value, list | tuple):
        are_tensors = len(value) > 0 and isinstance(value[0], Tensor)
        return f"use `torch.{'stack' if are_tensors else 'tensor'}({name})`"
    if hasattr(value, "to_numpy"):
        return f"use `torch.tensor({name}.to_numpy())`"
    return "pass a tensor"
