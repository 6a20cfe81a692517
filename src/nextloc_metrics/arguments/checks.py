"""Checks of arguments that several modules share. Each message names the argument."""

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arguments.messages import describe, short


def is_integer(tensor: Tensor) -> bool:
    """Return whether a tensor has an integer dtype; bool is not one."""
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def as_int(value: Any) -> Any:
    """Return a NumPy integer as an int, and any other value unchanged."""
    return int(value) if isinstance(value, np.integer) else value


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise unless an option is one of the strings of a `Literal`."""
    if not isinstance(value, str) or value not in get_args(choices):
        raise ValueError(f"`{name}` must be one of {get_args(choices)}, got {short(value)}.")


def check_bool(name: str, value: object) -> bool:
    """Return the value, or raise if it is not a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False, got {short(value)}.")
    return value


def check_named(name: str, value: object, example: str) -> None:
    """Raise if an argument has no names."""
    if not hasattr(value, "items"):  # a data frame has names too
        raise TypeError(
            f"`{name}` must be a dict with names as keys, such as {example}, got {describe(value)}."
        )


def check_ignored(ignore_index: object) -> None:
    """Raise unless `ignore_index` is None or an integer of 64 bits."""
    number = as_int(ignore_index)
    is_id = isinstance(number, int) and not isinstance(number, bool)
    if number is not None and not (is_id and -(2**63) <= number < 2**63):
        raise ValueError(
            f"`ignore_index` must be None or an integer of 64 bits, got {short(ignore_index)}."
        )


def check_positive(name: str, value: object, most: int | None = None) -> int:
    """Return the value as an int, or raise if it is not a positive integer."""
    number = as_int(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {short(value)}.")
    if most is not None and number > most:
        raise ValueError(f"`{name}` must be at most 2^40, got {short(value)}.")
    return number


def check_candidates(preds: Tensor) -> None:
    """Raise unless `preds` has at least one candidate; lists of several queries may be empty."""
    may_be_empty = preds.ndim > 1 and is_integer(preds)
    if preds.ndim == 0 or (preds.shape[-1] == 0 and not may_be_empty):
        raise ValueError(
            "`preds` must hold at least one candidate in its last dimension, "
            f"got {describe(preds)}."
        )


def check_scores(preds: Tensor) -> None:
    """Raise unless `preds` has floating scores of at least one candidate."""
    if not preds.is_floating_point():
        raise TypeError(
            "`preds` must be a floating tensor of scores, got "
            f"{describe(preds)}; pass integer scores as `.float()`, and lists of ids to "
            "`Ranking.from_lists`."
        )
    check_candidates(preds)


def check_number(name: str, value: object, or_zero: bool = False) -> float:
    """Return the value as a float, or raise if it is not a finite positive number."""
    is_bool = isinstance(value, bool)
    is_number = isinstance(value, int | float | np.integer | np.floating) and not is_bool
    if not is_number or not (0 < value < float("inf") or (or_zero and value == 0)):  # type: ignore[operator]
        least = "a finite number of at least 0" if or_zero else "a finite positive number"
        raise ValueError(f"`{name}` must be {least}, got {short(value)}.")
    return float(value)  # type: ignore[arg-type]


def check_statistic(statistic: object) -> None:
    """Raise unless a statistic is the mean, the median or a quantile."""
    is_quantile = type(statistic) is float and 0 < statistic < 1
    if not is_quantile and not (isinstance(statistic, str) and statistic in ("mean", "median")):
        raise ValueError(
            "`statistic` must be 'mean', 'median' or a quantile between 0 and 1, got "
            f"{short(statistic)}."
        )


def check_separator(separator: object) -> None:
    """Raise unless the separator is a string."""
    if not isinstance(separator, str):
        raise TypeError(f"`separator` must be a string, got {short(separator)}.")


def cut_offs(k: int | Sequence[int]) -> list[int]:
    """Return one or several cut-offs as a list."""
    cuts = [check_positive("k", cut) for cut in (k if isinstance(k, Sequence) else [k])]
    if not cuts or len(set(cuts)) < len(cuts):
        raise ValueError(f"`k` must be one or several different positive integers, got {short(k)}.")
    return cuts


def check_num_locations(num_locations: int, num_candidates: int | None) -> None:
    """Raise if there are more candidates than locations."""
    if num_candidates is not None and num_candidates > num_locations:
        raise ValueError(
            f"`num_locations` must be at least the number of candidates, got {num_locations} for "
            f"{num_candidates} candidates."
        )
