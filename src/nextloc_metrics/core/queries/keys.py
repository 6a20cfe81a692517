"""Keys: an integer for each group or location, which does not depend on any other one.

An integer from -2^62 to 2^62 - 1 is its own key, and so is text that writes it in the usual form:
"1" and 1 have one key, and "01" has another. Any other integer, and any other text, has a hash as
its key, from 2^62 to 2^63 - 1. These are 62 bits of `mix` of an integer of 64 bits (applied twice
from 2^63 on), or of `hash_texts` of a text. Two of n texts share a key with a probability of about
n^2 / 2^63.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress, count
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.queries.arrays import Array, as_array, as_tensor_or_text, read_array
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.hashing import Hashes, hash_texts, mix
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.texts import Bytes, Ends, Integers, read_integers

#: integers from this one on, and below its negative, have a hash as their key
LIMIT = 1 << 62

#: the key of rows that are left out; no group has it
NO_KEY = -(1 << 63)


class Grouping(NamedTuple):
    """One kind of groups: the key of each query's group, and the texts of keys that are hashes."""

    keys: Tensor
    names: Mapping[int, str]


@lru_cache(1 << 10)
def key_of(text: str) -> int:
    """Return the key of a text.

    Example:
        >>> key_of("7"), key_of("07") == key_of("7"), key_of("ann") >= 2**62
        (7, False, True)
    """
    data = np.frombuffer(text.encode(), np.uint8)
    return int(keys_of_texts(data, np.array([0, len(data)]))[0])


def keys_of_texts(data: Bytes, ends: Ends) -> Integers:
    """Return the key of each text, int64 `[N]`; for `data` and `ends` see `texts`.

    Example:
        >>> keys_of_texts(np.frombuffer(b"7-12", np.uint8), np.array([0, 1, 4])).tolist()
        [7, -12]
    """
    rows, values, is_negative = read_integers(data, ends)
    numbers = np.where(is_negative, np.negative(values), values)
    large = np.flatnonzero(values >= np.uint64(LIMIT) + is_negative)
    hashes = mix(numbers[large])
    # an integer from 2^63 on has the bits of a negative one: mixed twice, it has another hash
    is_wide = ~is_negative[large] & (values[large] >= 1 << 63)
    numbers[large] = _as_keys(np.where(is_wide, mix(hashes), hashes))
    if len(rows) == len(ends) - 1:
        return numbers.view(np.int64)
    keys = _as_keys(hash_texts(data, ends))
    keys[rows] = numbers
    return keys.view(np.int64)


def _as_keys(hashes: Hashes) -> Hashes:
    """Return hashes as numbers from 2^62 to 2^63 - 1."""
    return hashes & np.uint64(LIMIT - 1) | np.uint64(LIMIT)


def hashed_keys(numbers: Any) -> Integers:
    """Return hashes as the keys of integers, int64, also of those that could be their own keys."""
    hashed: Integers = (mix(numbers) & np.uint64(LIMIT - 1)).view(np.int64) | LIMIT
    return hashed


def keys_of_integers(ids: Tensor) -> Tensor:
    """Return the keys of int64 ids in any shape, without waiting for a device."""
    is_large = (ids >= LIMIT) | (ids < -LIMIT)
    if ids.is_cpu:
        if not is_large.any():
            return ids
        hashed = torch.from_numpy(mix(ids.numpy()).view(np.int64))
    else:
        hashed = _mix_on_device(ids)
    return torch.where(is_large, hashed & (LIMIT - 1) | LIMIT, ids)


def _mix_on_device(values: Tensor) -> Tensor:
    """Return the hashes of `mix`, by operations on int64."""

    def shifted(words: Tensor, bits: int) -> Tensor:  # shifts zeros in, and not copies of the sign
        return (words >> bits) & ((1 << (64 - bits)) - 1)

    mixed = values - 0x61C8864680B583EB
    mixed = (mixed ^ shifted(mixed, 30)) * -0x40A7B892E31B1A47
    mixed = (mixed ^ shifted(mixed, 27)) * -0x6B2FB644ECCEEE15
    return mixed ^ shifted(mixed, 31)


def read_keys(
    name: str, values: Array | Grouping, device: torch.device | None = None, bools: bool = False
) -> Grouping:
    """Return the keys of integers or of a row of text, int64; a `Grouping` is returned as it is.

    `name` is the name of the argument, for errors. With `bools`, booleans are returned unchanged.

    Raises:
        TypeError: a value is no integer and no text, such as a float or a bool.
        ValueError: a value is missing, or two texts have one key.
    """
    if isinstance(values, Grouping):
        return values
    if isinstance(values, Tensor) and values.dtype != torch.uint64:
        read = as_tensor_or_text(name, values)
    else:
        array = values.cpu().numpy() if isinstance(values, Tensor) else as_array(name, values)
        if _is_wide(array):  # ids of S2 cells are such integers
            keys, names = _keys_of_texts(name, [*map(str, array.ravel().tolist())], device)
            return Grouping(keys.view(array.shape), names)
        read = read_array(name, values, array, device)
    if not isinstance(read, Tensor):
        return _keys_of_texts(name, read, device)
    if bools and read.dtype == torch.bool:
        return Grouping(read, {})
    if not is_integer(read):
        raise not_a_key(name, read)
    ids = read.long()
    keys = keys_of_integers(ids)
    if keys is ids or not ids.is_cpu:
        return Grouping(keys, {})
    large = np.unique(ids[keys != ids].numpy())
    hashes = keys_of_integers(torch.from_numpy(large)).numpy()
    return Grouping(keys, name_keys(hashes, map(str, large.tolist())))


def not_a_key(name: str, values: Tensor) -> TypeError:
    """Return the error for values that have no keys: floats or booleans."""
    missing = " with NaN" if values.is_floating_point() and values.isnan().any() else ""
    drop = "drop the rows with NaN, and " if missing else ""
    advice = f"{drop}convert `{name}` to integers or text"
    return TypeError(
        f"`{name}` must be integers or text, got {describe(values)}{missing}; {advice}."
    )


def _is_wide(array: Any) -> bool:
    """Return whether an array has integers that int64 does not hold."""
    if array.dtype == np.uint64:
        return bool((array >= 1 << 63).any())
    flat = array.ravel().tolist() if array.dtype.hasobject else []
    return {type(x) for x in flat} == {int} and (max(flat) >= 1 << 63 or min(flat) < -(1 << 63))


def _keys_of_texts(name: str, texts: Sequence[str], device: torch.device | None) -> Grouping:
    """Return the keys of texts; each distinct text is hashed once."""
    number_of = defaultdict[str, int](count().__next__)  # gives distinct texts numbers from 0
    numbers = np.fromiter(map(number_of.__getitem__, texts), np.int64, len(texts))
    try:
        encoded = [*map(str.encode, number_of)]
    except UnicodeEncodeError as error:
        wrong = short(error.object[error.start : error.end])
        raise ValueError(f"`{name}` must be text of whole characters, got {wrong}.") from error
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    keys = keys_of_texts(np.frombuffer(b"".join(encoded), np.uint8), ends)
    names = name_keys(keys, number_of)
    return Grouping(torch.as_tensor(keys[numbers], device=device), names)


def name_keys(keys: Integers, texts: Iterable[str]) -> dict[int, str]:
    """Return the text of each key that is a hash; raise if two of the texts have one key."""
    is_hash = keys >= LIMIT
    hashes, hashed = keys[is_hash].tolist(), [*compress(texts, is_hash.tolist())]
    names = dict(zip(hashes, hashed, strict=True))
    if len(names) < len(hashed):  # a later text has replaced an earlier one
        pairs = ((text, names[key]) for key, text in zip(hashes, hashed, strict=True))
        raise _same_key(*next((text, other) for text, other in pairs if text != other))
    return names


def join_names(names: Mapping[int, str], others: Mapping[int, str]) -> Mapping[int, str]:
    """Return the texts of the keys of both dicts, or `names` itself; raise if texts differ."""
    joined = names if others.keys() <= names.keys() else {**others, **names}
    if len(joined) < len(names) + len(others):  # some keys are in both
        for key, text in others.items():
            if joined[key] != text:
                raise _same_key(joined[key], text)
    return joined


def _same_key(text: str, other: str) -> ValueError:
    return ValueError(
        f"the names of groups must have different keys, got {short(text)} and {short(other)} with "
        "one key; write one of them otherwise."
    )
