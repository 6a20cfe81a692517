"""Checks of arguments that several modules share. Each message names the argument."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.messages import describe, short

Check = Callable[[str, Any], Any]

#: the integer dtypes; bool is not one
INTEGERS = frozenset(
    {torch.int8, torch.int16, torch.int32, torch.int64}
    | {torch.uint8, torch.uint16, torch.uint32, torch.uint64}
)


def is_integer(tensor: Tensor) -> bool:
    """Return whether a tensor has an integer dtype."""
    return tensor.dtype in INTEGERS


def as_number(value: Any) -> Any:
    """Return a number of NumPy, or in a tensor without dimensions, as a number of Python."""
    is_number = isinstance(value, np.number) or (isinstance(value, Tensor) and not value.ndim)
    return value.item() if is_number else value


def or_none(check: Check) -> Check:
    """Return a check that also accepts None, with an error that says so."""

    def check_or_none(name: str, value: Any) -> Any:
        if value is None:
            return None
        try:
            return check(name, value)
        except (TypeError, ValueError) as error:
            message = str(error).replace(" must be ", " must be None or ", 1)
            raise type(error)(message) from error.__cause__

    return check_or_none


def check_choice(name: str, value: object, choices: Any) -> Any:
    """Return the value, or raise if it is not one of the strings of a `Literal`."""
    if not isinstance(value, str) or value not in get_args(choices):
        raise ValueError(f"`{name}` must be one of {get_args(choices)}, got {short(value)}.")
    return value


def check_bool(name: str, value: object) -> bool:
    """Return the value, or raise if it is not a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False, got {short(value)}.")
    return value


def check_named(name: str, value: object, example: str) -> None:
    """Raise if an argument is no dict; a data frame has names, too."""
    if not hasattr(value, "items"):
        raise TypeError(
            f"`{name}` must be a dict with names as keys, such as {example}, got {describe(value)}."
        )


def check_ignored(name: str, value: object) -> int | None:
    """Return the value as an int, or raise unless it is None or an integer of 64 bits."""
    number: int | None = as_number(value)
    is_id = isinstance(number, int) and not isinstance(number, bool)
    if number is not None and not (is_id and -(2**63) <= number < 2**63):
        raise ValueError(f"`{name}` must be None or an integer of 64 bits, got {short(value)}.")
    return number


def check_positive(name: str, value: object, most: int | None = None) -> int:
    """Return the value as an int, or raise if it is not a positive integer."""
    number = as_number(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {short(value)}.")
    if most is not None and number > most:
        raise ValueError(f"`{name}` must be at most 2^40, got {short(value)}.")
    return number


def check_from_zero(name: str, value: object) -> int:
    """Return the value as an int, or raise if it is not an integer of at least 0."""
    number = as_number(value)
    if type(number) is not int or number < 0:
        raise ValueError(f"`{name}` must be an integer of at least 0, got {short(value)}.")
    return number


def check_kind(name: str, value: Any, kind: type, call: str) -> Any:
    """Return the value, or raise if it is no `kind`; the message has a `call` that makes one."""
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be {call}, got {describe(value)}.")
    return value


def check_candidates(preds: Tensor, target: Tensor) -> None:
    """Raise unless `preds` are lists of ids, or scores of at least one candidate.

    A list of one query `[K]` with several targets may be one answer for each of them.
    """
    are_ids = is_integer(preds)
    if are_ids and preds.ndim == 1 and target.ndim:
        if target.is_floating_point():
            raise ValueError(
                "`preds` must come first and `target` second: got ids as `preds` "
                f"{describe(preds)} and floats as `target` {describe(target)}."
            )
        raise ValueError(
            "`preds` must have at least two dimensions for ids and several targets, got "
            f"{describe(preds)}; one answer per query is `preds[:, None]`, one query with a list "
            "of answers is `preds[None]`."
        )
    may_be_empty = preds.ndim > 1 and are_ids
    if preds.ndim == 0 or (preds.shape[-1] == 0 and not may_be_empty):
        raise ValueError(
            "`preds` must hold at least one candidate in its last dimension, "
            f"got {describe(preds)}."
        )


def check_number(name: str, value: object, or_zero: bool = False) -> float:
    """Return the value as a float, or raise if it is not a finite positive number."""
    number = as_number(value)
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not (0 < number < float("inf") or (or_zero and number == 0)):
        least = "a finite number of at least 0" if or_zero else "a finite positive number"
        raise ValueError(f"`{name}` must be {least}, got {short(value)}.")
    return float(number)


def check_share(name: str, value: object, example: float) -> float:
    """Return the value as a float, or raise if it is not between 0 and 1."""
    number = as_number(value)
    if not isinstance(number, float) or not 0 < number < 1:
        raise ValueError(
            f"`{name}` must be between 0 and 1, such as {example:g}, got {short(value)}."
        )
    return number


def check_part(name: str, value: object) -> float:
    """Return the value as a float, or raise if it is not above 0 and at most 1."""
    number = as_number(value)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number <= 1:
        raise ValueError(f"`{name}` must be above 0 and at most 1, got {short(value)}.")
    return float(number)


def check_statistic(name: str, value: object) -> Any:
    """Return the value, or raise unless it is the mean, the median or a quantile."""
    is_quantile = isinstance(value, float) and 0 < value < 1
    if not is_quantile and not (isinstance(value, str) and value in ("mean", "median")):
        raise ValueError(
            f"`{name}` must be 'mean', 'median' or a quantile between 0 and 1, got {short(value)}."
        )
    return value


def check_separator(separator: object) -> None:
    """Raise unless the separator is a string that a member's name may hold."""
    if not isinstance(separator, str):
        raise TypeError(f"`separator` must be a string, got {short(separator)}.")
    if "." in separator:
        raise ValueError(
            "`separator` must have no dot, which PyTorch allows in no name of a member, got "
            f"{short(separator)}; use another, such as {short(separator.replace('.', '_'))}."
        )


def cut_offs(k: int | Sequence[int]) -> list[int]:
    """Return one or several cut-offs as a list."""
    cuts = [check_positive("k", cut) for cut in (k if isinstance(k, Sequence) else [k])]
    if not cuts or len(set(cuts)) < len(cuts):
        raise ValueError(f"`k` must be one or several different positive integers, got {short(k)}.")
    return cuts


def from_one(ids: Tensor, number: int) -> str:
    """Return a remedy if ids that must be below `number` seem to begin at 1, or ""."""
    lowest = int(ids.masked_fill(ids < 0, number).min()) if ids.numel() else 0
    if not 1 <= lowest <= int(ids.max()) == number:
        return ""
    return "; ids begin at 0: if these begin at 1, subtract 1 from each"


def check_num_locations(num_locations: int, num_candidates: int | None) -> None:
    """Raise if there are more candidates than locations."""
    if num_candidates is not None and num_candidates > num_locations:
        raise ValueError(
            f"`num_locations` must be at least the number of candidates, got {num_locations} for "
            f"{num_candidates} candidates."
        )
