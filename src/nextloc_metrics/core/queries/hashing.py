"""A fixed hash of integers and texts, the same in every version, process and machine.

It is fast, but not cryptographic: somebody can find texts with the same hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextloc_metrics.core.queries.texts import Bytes, Ends, blocks, lowest_bytes

#: the number of a name that is not in a vocabulary is at least this much above the size of it
UNKNOWN = 1 << 20

# Texts of more bytes are rare, and are hashed one by one.
_LONG = 256

Hashes = NDArray[np.uint64]

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def mix(values: Any) -> Hashes:
    """Return a hash of each 64-bit integer: the finalizer of SplitMix64."""
    bits = np.ascontiguousarray(values).view(np.uint64) + _STEP
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    hashes: Hashes = bits ^ (bits >> np.uint64(31))
    return hashes


def hash_texts(data: Bytes, ends: Ends) -> Hashes:
    """Return a hash of each text, uint64 `[N]`; for `data` and `ends` see `texts`.

    The hash of a text of up to 256 bytes begins as `mix` of its length. Each word of eight bytes,
    the first byte lowest and zeros after the last one, changes it to `mix(hash ^ word)`. The hash
    of a longer text is its BLAKE2b hash of eight bytes, the first one lowest. Two of n texts share
    a hash with a probability of about n^2 / 2^65.

    Example:
        >>> hash_texts(np.frombuffer(b"annbob", np.uint8), np.array([0, 3, 6])).tolist()
        [4043504466283325091, 14926728488805250076]
    """
    hashes = np.empty(len(ends) - 1, np.uint64)
    for rows, padded, words, starts, lengths in blocks(data, ends):
        block_hashes = mix(lengths)
        for row in np.flatnonzero(lengths > _LONG):
            text = padded[starts[row] : starts[row] + lengths[row]].tobytes()
            block_hashes[row] = int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
        left, read = np.flatnonzero(lengths <= _LONG), 0
        while len(left := left[lengths[left] > read]):
            word = words[starts[left] + read] & lowest_bytes(lengths[left] - read)
            block_hashes[left] = mix(block_hashes[left] ^ word)
            read += 8
        hashes[rows] = block_hashes
    return hashes


def unknown_numbers(texts: Iterable[str], size: int) -> NDArray[np.int64]:
    """Return numbers above `size` ids for names that are no ids, from 40 bits of their hashes."""
    digests = (blake2b(x.encode("utf-8", "surrogatepass"), digest_size=5) for x in texts)
    hashes = [int.from_bytes(x.digest(), "little") for x in digests]
    return size + UNKNOWN + np.array(hashes, dtype=np.int64)
