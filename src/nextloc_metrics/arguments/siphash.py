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

#: the token of a location is the first bits of the hash of its text
TOKEN_BITS = 40
#: behind a vocabulary and so many numbers, a name that is not in it has the number of its token
UNKNOWN = 1 << 20

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


def words_of_texts(texts: Iterable[str]) -> tuple[Words, NDArray[np.int64]]:
    """Return the messages that texts in UTF-8 are, as `hash_words` takes them."""
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    lengths = np.array([*map(len, encoded)], np.int64)
    numbers = lengths // 8 + 1
    ends = np.cumsum(numbers)
    padded = np.zeros(8 * int(numbers.sum()), np.uint8)
    place = np.repeat(8 * (ends - numbers) - (np.cumsum(lengths) - lengths), lengths)
    padded[place + np.arange(len(place))] = np.frombuffer(b"".join(encoded), np.uint8)
    words = padded.view("<u8").astype(np.uint64)
    words[ends - 1] |= (lengths.astype(np.uint64) & np.uint64(255)) << np.uint64(56)
    return words, numbers


def words_of_integers(values: Any) -> tuple[Words, NDArray[np.int64]]:
    """Return the messages that integers in decimal are."""
    text = np.asarray(values, np.int64).astype("S24")
    lengths = np.char.str_len(text).astype(np.int64)
    words = text.view("<u8").astype(np.uint64).reshape(-1, 3)
    last = lengths // 8
    words[np.arange(len(text)), last] |= lengths.astype(np.uint64) << np.uint64(56)
    return words[np.arange(3) <= last[:, None]], last + 1


def first_bits(hashes: Any) -> Any:
    """Return the tokens of locations, by the hashes of their texts."""
    return hashes & ((1 << TOKEN_BITS) - 1)


def unknown_numbers(texts: Iterable[str], size: int) -> NDArray[np.int64]:
    """Return the numbers of names that are not among `size` ids, from which tokens are read."""
    found = hash_words(*words_of_texts(texts), wide=False)[:, 0].view(np.int64)
    return size + UNKNOWN + first_bits(found)  # type: ignore[no-any-return]
