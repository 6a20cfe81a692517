"""Rows of numbers: to fill, count and sort them, on the CPU by NumPy, whose sort vectorises."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.devices import waits_to_look

#: as far behind all places as `argsort_rows` needs them
BEYOND = 1 << 39

# As many bytes, or a multiple, vectorise where rows of these are added up.
_LANES = 1 << 7

# Up to here a row is sorted sooner than parted at one of its values.
_SHORT_ROW = 1 << 9

# So many times the number of highest values may be tied with the lowest of them.
_TIED = 2


def slots_of_sizes(sizes: Tensor) -> Tensor:
    """Return which slots rows of these sizes `[N]` fill, bool `[N, M]`, M the largest or 1."""
    longest = max(1, int(sizes.max())) if len(sizes) else 1
    return torch.arange(longest, device=sizes.device) < sizes[:, None]


def fill_slots(slots: Tensor, values: Tensor, padding: int) -> Tensor:
    """Put values `[L]` into L slots, bool `[N, M]`, row after row, and padding into the others."""
    rows = torch.full(slots.shape, padding, dtype=values.dtype, device=values.device)
    return rows.masked_scatter_(slots, values)


def count_true(values: Tensor) -> Tensor:
    """Count how many of the bool values `[N, M]` on the CPU are true, int64 `[N]`.

    The bytes are added up as bytes, which vectorises: up to 255 of these, and none overflows.
    """
    ones = values.view(torch.uint8)
    if ones.numel() and ones.amax() > 1:  # a true one may be another byte than 1
        ones = (ones != 0).view(torch.uint8)
    length = ones.shape[1]
    width = -(-length // (255 * _LANES)) * _LANES
    whole = length // width * width
    lanes = torch.unflatten(ones[:, :whole], 1, (length // width, width))
    sums = lanes.sum(1, dtype=torch.uint8)
    sums[:, : length - whole] += ones[:, whole:]
    return sums.sum(1)


def sort_rows(values: Tensor) -> Tensor:
    """Sort integers `[N, M]` within their rows."""
    if waits_to_look(values):
        return values.sort(dim=1).values
    return torch.from_numpy(np.sort(values.numpy(), axis=1))


def sort_ids(ids: Tensor) -> Tensor:
    """Sort ids `[N, M]` within their rows, and put -1 where one is repeated.

    On the CPU columns without an id are left out, all but one.
    """
    in_order = sort_rows(ids)
    if waits_to_look(ids):
        in_order[:, 1:].masked_fill_(in_order[:, 1:] == in_order[:, :-1], -1)
        return in_order
    array = in_order.numpy()
    if len(array) and array[:, 0].max() < 0:
        padding = np.count_nonzero((array < 0).all(0))
        array = array[:, min(padding, array.shape[1] - 1) :]
    np.copyto(array[:, 1:], -1, where=array[:, 1:] == array[:, :-1])
    return torch.from_numpy(array)


def highest_values(values: Tensor, number: int) -> Tensor:
    """Return the highest floating values of each row on the CPU `[N, number]`, NaN before all."""
    in_order = np.sort(floats(values), axis=1)
    return torch.from_numpy(in_order[:, : -number - 1 : -1].copy()).to(values.dtype)


def columns_of_highest_values(values: Tensor, number: int) -> Tensor:
    """Return the columns `[N, number]` of the `highest_values`, in any order."""
    array = floats(values)
    short = array.shape[1] <= _SHORT_ROW
    ordered = np.sort(array, axis=1) if short else np.partition(array, -number, axis=1)
    lowest = ordered[:, -number, None].copy()
    are_highest = ~(array < lowest)  # a NaN compares false
    wanted = number * len(array)
    if np.count_nonzero(are_highest) <= _TIED * wanted:
        place = np.flatnonzero(are_highest)
        if len(place) > wanted:
            place = _first_of_lowest(array, lowest, place, number)
        if len(place) == wanted:
            rows = values.shape[1] * np.arange(len(array))
            return torch.from_numpy(place.reshape(-1, number) - rows[:, None])
    return values.topk(number, dim=1, sorted=False).indices  # too many are tied or NaN


def _first_of_lowest(array: Any, lowest: Any, place: Any, number: int) -> Any:
    """Leave out, of each row's places, the last ones of its lowest value, until it has `number`."""
    row = place // array.shape[1]
    is_lowest = array.take(place) <= lowest[row, 0]
    begins = np.searchsorted(row, np.arange(len(array)))
    seen = np.cumsum(is_lowest) - is_lowest  # before each
    above = np.add.reduceat(~is_lowest, begins, dtype=np.int64)
    return place[~is_lowest | (seen - seen[begins][row] < number - above[row])]


def topk(values: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Do what `values.topk(number, dim=1)` does, on the CPU and sooner."""
    columns = columns_of_highest_values(values, number)
    found = values.gather(1, columns)
    order = torch.from_numpy(np.argsort(floats(found), axis=1)[:, ::-1].copy())
    return found.gather(1, order), columns.gather(1, order)


def floats(values: Tensor) -> Any:
    """Return floating values on the CPU as an array; NumPy has no bfloat16, and float16 is slow."""
    return (values.float() if values.element_size() < 4 else values).numpy()


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
