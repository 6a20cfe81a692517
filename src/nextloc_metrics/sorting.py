"""Sorting integers within rows: by NumPy on the CPU, whose sort vectorises."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.devices import waits_to_look

#: as far behind all places as `argsort_rows` needs them
BEYOND = 1 << 39


def sort_ids(ids: Tensor) -> Tensor:
    """Sort ids `[N, M]` within their rows, and put -1 where one is repeated.

    On the CPU columns without an id are left out, all but one.
    """
    if waits_to_look(ids):
        ids = ids.sort(dim=1).values
        ids[:, 1:].masked_fill_(ids[:, 1:] == ids[:, :-1], -1)
        return ids
    array = np.sort(ids.numpy(), axis=1)
    if len(array) and array[:, 0].max() < 0:
        padding = np.count_nonzero((array < 0).all(0))
        array = array[:, min(padding, array.shape[1] - 1) :]
    np.copyto(array[:, 1:], -1, where=array[:, 1:] == array[:, :-1])
    return torch.from_numpy(array)


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
