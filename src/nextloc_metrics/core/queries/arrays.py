"""Conversion to tensors: of NumPy arrays, columns of pandas and polars, Arrow, and nested lists.

Rows of ids may have different lengths and are padded with -1. Scores are not copied: the tensor
shares the array's memory.
"""

import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.messages import as_row, describe, got, short


class Column(Protocol):
    """A column or table of data, such as a `pandas.Series`."""

    def to_numpy(self, *args: Any, **kwargs: Any) -> Any:
        """Return its values."""


#: the types that are converted to a tensor
Array: TypeAlias = Tensor | np.ndarray[Any, Any] | Sequence[Any] | Column

# Kinds of dtypes that are numbers: bool, integers, floats, complex.
_NUMBERS = "biufc"

# Dtypes of integers that PyTorch cannot use as an index; it lacks many operations on them.
_ODD = frozenset({torch.int8, torch.int16, torch.uint8, torch.uint16, torch.uint32})

# Tensors whose values cannot be read, and what to pass instead.
_FOREIGN = {
    "DTensor": "use `{0}.to_local()` where each process has rows of its own, else "
    "`{0}.full_tensor()`, and update on one process only",
    "MaskedTensor": "use `{0}.to_tensor(value)`, for scores with the value -inf",
    "tensor of torch.vmap": "call the metric outside `vmap`, once for all queries",
}
is_batched = torch._C._functorch.is_batchedtensor


def must_not_sync(values: Tensor) -> bool:
    """Return True if reading a value would block on the device or break a compiled graph."""
    return not values.is_cpu or torch.compiler.is_compiling()


def _dense(name: str, tensor: Tensor) -> Tensor:
    """Return a dense tensor; floats of 8 bits become float32, and integers of `_ODD` int64."""
    kind = type(tensor)
    foreign = "tensor of torch.vmap" if is_batched(tensor) else kind.__name__
    if foreign in _FOREIGN:
        remedy = _FOREIGN[foreign].format(name)
        raise TypeError(f"`{name}` must be a plain tensor, got a {foreign}; {remedy}.")
    if kind is not Tensor and kind.__torch_dispatch__ is Tensor.__torch_dispatch__:
        tensor = tensor.as_subclass(Tensor)
    if tensor.layout != torch.strided or tensor.is_nested:
        dense = "torch.nested.to_padded_tensor" if tensor.is_nested else f"{name}.to_dense()"
        kind_of = "a nested tensor" if tensor.is_nested else f"layout {tensor.layout}"
        raise TypeError(f"`{name}` must be a dense tensor, got {kind_of}; use `{dense}`.")
    if tensor.is_floating_point() and tensor.element_size() == 1:
        try:
            return tensor.float()
        except NotImplementedError as error:
            raise TypeError(
                f"`{name}` must have at least 8 bits per number, got {describe(tensor)}; unpack "
                "it to float32."
            ) from error
    if tensor.dtype == torch.uint64:  # the array is checked for values that int64 does not hold
        return _of_array(name, tensor, tensor.cpu().numpy(), tensor.device)
    return tensor.long() if tensor.dtype in _ODD else tensor


def as_tensor(name: str, value: Any, device: torch.device | None = None) -> Tensor:
    """Return a dense tensor unchanged, and convert an `Array` to a tensor on a device.

    Rows of ids may have different lengths, rows of scores may not; `name` is for messages.
    """
    if isinstance(value, Tensor):
        return _dense(name, value)
    return _of_array(name, value, as_array(name, value), device)


def as_tensor_or_text(
    name: str, value: Array, device: torch.device | None = None
) -> Tensor | list[str]:
    """Return a row of text as a list of strings, and other values as a tensor."""
    if isinstance(value, Tensor):
        return _dense(name, value)
    return read_array(name, value, as_array(name, value), device)


def read_array(
    name: str, value: Array, array: Any, device: torch.device | None = None
) -> Tensor | list[str]:
    """Convert an array that `as_array` made of a value, as `as_tensor_or_text` does."""
    is_mixed = array.dtype.hasobject and any(isinstance(x, str) for x in array.flat)
    if array.dtype.kind not in "UT" and not is_mixed:
        return _of_array(name, value, array, device)
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one row of text, got shape {array.shape}.")
    texts: list[str] = array.tolist()
    for row, text in enumerate(texts):
        if isinstance(text, str):
            continue
        if _is_missing(text):
            raise _missing(name, row)
        raise TypeError(
            f"`{name}` must be all text or all numbers, got {short(text)} in {as_row(row)}; "
            "convert all values with `str`."
        )
    return texts


def _of_array(name: str, value: Any, array: Any, device: torch.device | None) -> Tensor:
    """Convert an array to a tensor, without a copy where possible."""
    if array.dtype.hasobject:
        array = _of_objects(name, value, array)
    if array.dtype.kind not in _NUMBERS:
        raise _unreadable(name, value)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        if array.size and array.max() >= 1 << 63:
            raise ValueError(f"`{name}` must hold integers of 64 bits, got {array.max()}.")
        array = array.astype(np.int64)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    native = array.dtype.newbyteorder("=")
    if any(stride < 0 for stride in array.strides) or native != array.dtype:
        array = np.array(array, native, order="C")  # PyTorch reads neither of them
    with warnings.catch_warnings():
        # a read-only array is safe: nothing here writes to it
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensor = torch.from_numpy(array)
    return _dense(name, tensor if device is None else tensor.to(device))


def as_array(name: str, value: Any) -> Any:
    """Convert a value to a NumPy array of numbers, strings or objects."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"`{name}` must not be a masked array, got {describe(value)}; "
            "pass its `.data`, and exclude queries with `mask`."
        )
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "to_numpy"):
        _check_missing(name, value)
        # Arrow copies only with `zero_copy_only=False`
        is_array = type(value).__module__.startswith("pyarrow") and hasattr(value, "buffers")
        return np.asarray(value.to_numpy(zero_copy_only=False) if is_array else value.to_numpy())
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise _unreadable(name, value)
    if _are_scores_and_ids(value):
        raise TypeError(
            f"`{name}` must be one tensor, got scores and ids, as `topk` returns them; pass the "
            f"ids, `{name}.indices`."
        )
    rows = [row.detach().cpu().numpy() if isinstance(row, Tensor) else row for row in value]
    kinds = _kinds_of(rows)
    if len(kinds) > 1 and kinds & {bool, np.bool_}:
        raise TypeError(
            f"`{name}` must be all booleans or all numbers, got both in {describe(value)}; write "
            "numbers."
        )
    # NumPy's type of text drops a NUL at the end, and makes all texts as wide as the longest. In an
    # array of objects, numbers and missing values beside text also stay what they are.
    is_text = any(issubclass(kind, str) for kind in set(map(type, rows)))
    try:
        array = np.asarray(rows, object if is_text else None)
        if array.dtype.kind == "f" and kinds == {int}:  # an integer has more than 63 bits
            array = np.asarray(rows, object)
        if array.dtype.kind == "U":
            array = np.array(rows, object)
    except (ValueError, OverflowError):  # rows of different lengths
        array = np.empty(len(rows), object)
        array[:] = rows
    return array if array.size else array.astype(np.int64)  # empty lists are lists of ids


def _kinds_of(values: Sequence[Any]) -> set[type]:
    """Return the types of values, also of values in lists of lists."""
    kinds = set(map(type, values))
    return _kinds_of([*chain.from_iterable(values)]) if kinds and kinds <= {list, tuple} else kinds


def pad_rows(values: Any, lengths: Any, fill: float, min_width: int = 0) -> Any:
    """Divide values into rows of these lengths, padded to the longest, or to `min_width` values."""
    is_value = np.arange(lengths.max(initial=min_width)) < lengths[:, None]
    padded = np.full((*is_value.shape, *values.shape[1:]), fill, values.dtype)
    padded[is_value] = values
    return padded


def begins(*columns: Any) -> Any:
    """Return which rows differ from the row before in any column, and the first, bool `[N]`."""
    differs = np.arange(len(columns[0])) == 0
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def join(parts: Sequence[Any]) -> Any:
    """Concatenate arrays; if one is text, an array of objects, numbers become text."""
    if len({part.dtype.kind == "O" for part in parts}) > 1:
        parts = [part.astype(str).astype(object) for part in parts]
    return np.concatenate(parts)


def _are_scores_and_ids(value: Sequence[Any]) -> bool:
    """Return whether a sequence is a pair of scores and ids, as `topk` and `sort` return them."""
    if len(value) != 2 or not all(hasattr(x, "dtype") and hasattr(x, "shape") for x in value):
        return False
    kinds = [str(x.dtype).removeprefix("torch.").rstrip("0123456789") for x in value]
    return kinds[0] in ("float", "bfloat") and kinds[1] in ("int", "uint")


def _check_missing(name: str, column: Any) -> None:
    """Raise if an integer is missing: NumPy would convert the column to floats."""
    kind = str(getattr(column, "dtype", getattr(column, "type", ""))).lower()
    if not kind.startswith(("int", "uint", "bool")):
        return
    is_missing = getattr(column, "isna", getattr(column, "is_null", None))
    if is_missing is not None and len(rows := np.flatnonzero(np.asarray(is_missing()))):
        raise _missing(name, rows[0])


def _of_objects(name: str, value: Any, array: Any) -> Any:
    """Convert an array of objects, which are numbers or rows of numbers, to an array of numbers."""
    if not array.size:
        return array.astype(np.int64)
    objects = list(array.ravel())
    for number, item in enumerate(objects):
        if _is_missing(item):
            raise _missing(name, number // max(1, array[:1].size))
    are_rows = [hasattr(item, "__len__") and not isinstance(item, str | bytes) for item in objects]
    if array.ndim == 1 and all(are_rows):
        return _of_rows(name, value, objects)
    if any(are_rows):
        raise ValueError(f"`{name}` must hold numbers or rows, not both, got {describe(value)}.")
    return _numbers(name, value, objects).reshape(array.shape)


def _of_rows(name: str, value: Any, rows: list[Any]) -> Any:
    """Stack rows of numbers, and pad rows of ids with -1."""
    lengths = np.array([len(row) for row in rows])
    arrays = [row for row in rows if isinstance(row, np.ndarray) and not row.dtype.hasobject]
    if len(arrays) == len(rows) and lengths.any():
        flat = np.concatenate([row for row in arrays if len(row)])
    else:
        try:
            flat = _numbers(name, value, list(chain.from_iterable(rows)))
        except TypeError:
            for number, row in enumerate(rows):
                if any(map(_is_missing, row)):
                    raise _missing(name, number) from None
            raise
    if not flat.size:
        flat = flat.astype(np.int64)
    if (lengths == lengths[0]).all():
        return flat.reshape(len(rows), lengths[0], *flat.shape[1:])
    if flat.dtype.kind in "iu" and flat.ndim == 1:
        return pad_rows(flat.astype(np.int64), lengths, -1)
    other = int(np.flatnonzero(lengths != lengths[0])[0])
    raise ValueError(
        f"`{name}` must have rows of one length unless they are lists of ids, got {as_row(other)} "
        f"of length {lengths[other]} after rows of {lengths[0]}."
    )


def _numbers(name: str, value: Any, objects: list[Any]) -> Any:
    if any(isinstance(x, str) for x in objects):
        raise _unreadable(name, value)
    try:
        array = np.asarray(objects)
    except (ValueError, TypeError, OverflowError) as error:
        raise _unreadable(name, value) from error
    if array.dtype.kind not in _NUMBERS:
        raise _unreadable(name, value)
    return array


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or pandas' `NA` or `NaT`; pandas is not imported."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _missing(name: str, row: int) -> ValueError:
    fill = "set the value to `ignore_index`" if name == "target" else "fill the value"
    return ValueError(
        f"`{name}` must have no missing value, got one in {as_row(row)}; drop the row, or {fill}."
    )


def _unreadable(name: str, value: Any) -> TypeError:
    remedy = "text is read from tables, such as a DataFrame, with a vocabulary of ids"
    if name == "preds" and hasattr(value, "relevant_above"):
        remedy = "pass a Ranking to `update` of a metric or collection"
    if hasattr(value, "toarray"):  # scipy.sparse
        remedy = f"use `{name}.toarray()`, in which what is not stored is 0"
    return TypeError(
        f"`{name}` must be a tensor, an array, a column or nested lists of numbers, got "
        f"{describe(value)}; {remedy}."
    )


def is_repeat(ids: Tensor) -> Tensor:
    """Return which ids of rows `[..., K]` repeat an earlier one; padding is no repeat."""
    in_order, order = ids.sort(dim=-1, stable=True)
    repeats = torch.zeros_like(in_order, dtype=torch.bool)
    repeats[..., 1:] = (in_order[..., 1:] == in_order[..., :-1]) & (in_order[..., 1:] >= 0)
    return torch.zeros_like(repeats).scatter(-1, order, repeats)


def remove_from_lists(
    lists: Tensor, removed: Tensor, scores: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Remove ids of lists `[N, K]` with their scores; later ids move up."""
    order = removed.to(torch.uint8).argsort(dim=1, stable=True)
    scores = None if scores is None else scores.gather(1, order)
    return lists.masked_fill(removed, -1).gather(1, order), scores


def row_sum(values: Tensor) -> Tensor:
    """Sum over the last dimension, in an order that padding with zeros does not change.

    The order of `Tensor.sum` depends on shapes, threads and device. Repeated halving of the row,
    its length rounded up to a power of two, always adds the same pairs.
    """
    return _halve(values, torch.add, 0.0)


def row_product(values: Tensor) -> Tensor:
    """Multiply over the last dimension, in an order that padding with ones does not change."""
    return _halve(values, torch.mul, 1.0)


def _halve(values: Tensor, combine: Callable[[Tensor, Tensor], Tensor], neutral: float) -> Tensor:
    length = values.shape[-1]
    size = 1 << (length - 1).bit_length()
    if size > length:
        values = torch.nn.functional.pad(values, (0, size - length), value=neutral)
    while size > 1:
        size //= 2
        values = combine(values[..., :size], values[..., size:])
    return values[..., 0]


def per_query(name: str, values: Any, queries: torch.Size, kind: str, is_kind: bool) -> Tensor:
    """Return a value for each query, flat; raise if the shape is wrong, or `is_kind` is false.

    Where queries are `[N, T]`, values `[N]` hold for all T queries. The message says that values
    must be of a `kind`.
    """
    fitting = [queries[:number] for number in range(len(queries), 0, -1)] or [queries]
    if not is_kind or values.shape not in fitting:
        raise ValueError(
            f"`{name}` must be {kind} of shape {' or '.join(map(short, fitting))}, one per query, "
            f"{got(name, values)}."
        )
    further = (1,) * (len(queries) - values.ndim)
    flat: Tensor = values.reshape(values.shape + further).expand(queries).reshape(-1)
    return flat
