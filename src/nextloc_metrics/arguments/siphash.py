"""SipHash-2-4, the published hash of texts and rows; here with NumPy, for all of them at once.

Its key is that of the published vectors, the bytes 0 to 15. J.-P. Aumasson and D. J. Bernstein,
"SipHash: a fast short-input PRF", INDOCRYPT 2012; https://github.com/veorq/SipHash.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

#: the token of a location is these bits of the hash of its text
TOKEN = (1 << 40) - 1
#: behind a vocabulary and so many numbers, a name that is not in it has the number of its token
UNKNOWN = 1 << 20
#: the word after each field of a row, which is no other word
END = -1 << 63
#: digests of the test set and of the predictions, buckets, four limbs of 32 bits and a number
SHAPE = (2, 256, 5)

_STATE = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_KEY = np.arange(16, dtype=np.uint8).view("<u8").tolist()
# Rows that are hashed at once, few enough for a cache.
_ROWS = 1 << 13


def hash_words(words: Words, lengths: NDArray[np.int64], wide: bool) -> Words:
    """Return the hash of each message, uint64 `[N, 2]` if `wide` (128 bits), or `[N, 1]`.

    Args:
        words: the words of all messages, one message after the other. The last word of each has the
            bytes that are left, and the number of bytes modulo 256 in its highest byte.
        lengths: the number of words of each message, at least 1.
        wide: whether hashes have 128 bits.
    """
    found = np.empty((len(lengths), 2 if wide else 1), np.uint64)
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(-lengths, kind="stable")  # at each word, the first rows go on
    for start in range(0, len(order), _ROWS):
        rows = order[start : start + _ROWS]
        at, left = starts[rows], -lengths[rows]
        pairs = zip(_STATE, [*_KEY, *_KEY], strict=True)
        v = [np.full(len(rows), a ^ b, np.uint64) for a, b in pairs]
        if wide:
            v[1] ^= np.uint64(0xEE)
        for position in range(-int(left[0])):
            number = int(np.searchsorted(left, -position))
            going, word = [x[:number] for x in v], words[at[:number] + position]
            going[3] ^= word
            _rounds(going, 2)
            going[0] ^= word
        v[2] ^= np.uint64(0xEE if wide else 0xFF)
        _rounds(v, 4)
        found[rows, 0] = v[0] ^ v[1] ^ v[2] ^ v[3]
        if wide:
            v[1] ^= np.uint64(0xDD)
            _rounds(v, 4)
            found[rows, 1] = v[0] ^ v[1] ^ v[2] ^ v[3]
    return found


def _rounds(v: list[Words], number: int) -> None:
    """Mix the four words of each state."""
    shifted = np.empty_like(v[0])
    for _ in range(number):
        for a, b, c, d, first, second in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
            v[a] += v[b]
            v[c] += v[d]
            _rotate(v[b], first, shifted)
            _rotate(v[d], second, shifted)
            v[b] ^= v[a]
            v[d] ^= v[c]
            _rotate(v[a], 32, shifted)


def _rotate(words: Words, number: int, shifted: Words) -> None:
    np.left_shift(words, np.uint64(number), out=shifted)
    words >>= np.uint64(64 - number)
    words |= shifted


def encode(texts: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts in UTF-8, one after the other, and where each ends."""
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    ends = np.cumsum(np.array([*map(len, encoded)], np.int64))
    return np.frombuffer(bytearray(b"".join(encoded)), np.uint8), ends


def hash_texts(texts: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the 64-bit hash of each text, as `encode` gives them."""
    lengths = np.diff(ends, prepend=0)
    numbers = lengths // 8 + 1
    last = np.cumsum(numbers) - 1
    padded = np.zeros(8 * int(numbers.sum()), np.uint8)
    place = np.repeat(8 * (last + 1 - numbers) - (ends - lengths), lengths)
    padded[place + np.arange(len(place))] = texts
    words = padded.view("<u8").astype(np.uint64)
    words[last] |= (lengths.astype(np.uint64) & np.uint64(255)) << np.uint64(56)
    return hash_words(words, numbers, wide=False)[:, 0].view(np.int64)


def digest(words: Any, own: int, lists: Any, has_ids: bool) -> NDArray[np.int64]:
    """Return the digests of rows; see `Reference.digest`."""
    test = _hash_rows(words[:, :own])
    key = words[:, :1] if has_ids else test
    end = np.full((len(words), 1), END)
    given = _hash_rows(np.hstack([key, end, lists, end, words[:, own:]]))
    sums = np.zeros(SHAPE, np.int64)
    for of, hashes in zip(sums, (test, given), strict=True):
        limbs = [hashes[:, i] >> shift & 0xFFFFFFFF for i in (0, 1) for shift in (0, 32)]
        np.add.at(of, key[:, 0] & 255, np.stack([*limbs, np.ones_like(limbs[0])], 1))
    return sums


def _hash_rows(words: Any) -> Any:
    """Return the 128-bit hash of each row's words but -1, int64 `[N, 2]`."""
    valid = words != -1
    lengths = valid.sum(1)
    last = (lengths & 31) << 59  # the number of bytes modulo 256
    valid, words = (np.column_stack(x) for x in ((valid, lengths >= 0), (words, last)))
    return hash_words(words[valid].view(np.uint64), lengths + 1, wide=True).view(np.int64)


def unknown_numbers(texts: Iterable[str], size: int) -> NDArray[np.int64]:
    """Return the numbers of names that are not among `size` ids, from which tokens are read."""
    return size + UNKNOWN + (hash_texts(*encode(texts)) & TOKEN)
