"""A fixed hash of integers and texts, the same in every process and run."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: behind a vocabulary and so many numbers, a name that is not in it has the number of its text
UNKNOWN = 1 << 20

Hashes = NDArray[np.uint64]

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def mix(values: Any) -> Hashes:
    """Return a hash of each 64-bit integer: the finalizer of SplitMix64."""
    x = np.ascontiguousarray(values).view(np.uint64) + _STEP
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    found: Hashes = x ^ (x >> np.uint64(31))
    return found


def unknown_numbers(texts: Iterable[str], size: int) -> NDArray[np.int64]:
    """Return the numbers of names that are not among `size` ids, by 40 bits of their hashes."""
    digests = (blake2b(x.encode("utf-8", "surrogatepass"), digest_size=5) for x in texts)
    hashes = [int.from_bytes(x.digest(), "little") for x in digests]
    return size + UNKNOWN + np.array(hashes, dtype=np.int64)
