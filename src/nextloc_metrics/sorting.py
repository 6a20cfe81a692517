"""Sorting integers within rows: by NumPy on the CPU, whose sort vectorises."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.devices import waits_to_look

#: as far behind all places as `argsort_rows` needs them
BEYOND = 1 << 39


def sort_rows(values: Tensor) -> Tensor:
    """Sort integers `[N, M]` within their rows."""
    if waits_to_look(values):
        return values.sort(dim=1).values
    return torch.from_numpy(np.sort(values.numpy(), axis=1))


def argsort_rows(values: Tensor) -> Tensor:
    """Return the columns `[N, M]` in the order of their values, 0 to 2^40; equal ones as before."""
    if waits_to_look(values):
        return values.argsort(dim=1, stable=True)
    return torch.from_numpy(argsort_array(values.numpy().copy()))


def argsort_array(values: Any) -> Any:
    """Do what `argsort_rows` does, in place of the values."""
    bits = values.shape[1].bit_length()
    values <<= bits
    values |= np.arange(values.shape[1])
    values.sort(axis=1)
    values &= (1 << bits) - 1
    return values
