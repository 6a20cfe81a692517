"""A fixed hash of integers and texts, the same in every process and run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: behind a vocabulary and so many numbers, a name that is not in it has the number of its text
UNKNOWN = 1 << 20

Hashes = NDArray[np.uint64]

# Integers as `str` writes them, and those of 64 bits.
_INTEGER = re.compile("0|-?[1-9][0-9]{0,18}")
_INT64 = range(-(2**63), 2**63)

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def mix(values: Any) -> Hashes:
    """Return a hash of each 64-bit integer: the finalizer of SplitMix64."""
    x = np.ascontiguousarray(values).view(np.uint64) + _STEP
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    found: Hashes = x ^ (x >> np.uint64(31))
    return found


def hash_text(words: list[str]) -> Hashes:
    """Return a hash of each text; a text that is an integer, as in a CSV file, has its hash."""
    with suppress(ValueError, OverflowError):  # most users are integers
        integers = np.array([*map(int, words)], dtype=np.int64)
        if [*map(str, integers.tolist())] == words:
            return mix(integers)
    different: dict[str, int] = {}
    place = [different.setdefault(word, len(different)) for word in words]
    found = np.zeros(len(different), dtype=np.uint64)
    numbers: dict[int, int] = {}
    for word, i in different.items():
        if _INTEGER.fullmatch(word) and int(word) in _INT64:
            numbers[i] = int(word)
        else:
            found[i] = int.from_bytes(
                blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
            )
    found[list(numbers)] = mix(np.array(list(numbers.values()), dtype=np.int64))
    return found[place]


def unknown_numbers(texts: Iterable[str], size: int) -> NDArray[np.int64]:
    """Return the numbers of names that are not among `size` ids, by 40 bits of their hashes."""
    found: NDArray[np.int64] = (hash_text([*texts]) >> np.uint64(24)).astype(np.int64)
    return size + UNKNOWN + found
