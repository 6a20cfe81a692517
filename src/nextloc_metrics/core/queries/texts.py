"""Reads many texts at once: as words of eight bytes, and as integers where they are some.

Texts are two arrays, as in Arrow: `data`, uint8, has the bytes of all texts in UTF-8; `ends`, int32
or int64 `[N + 1]`, is where in `data` the first text begins, and then where each text ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Ends = NDArray[np.signedinteger[Any]]

# Texts are read in blocks of this many, so that a block's arrays fit into the cache of a core.
_BLOCK = 1 << 14

# How many zeros stand before the first text of a block and after the last one: three words.
_PADDING = 24

# An integer of 64 bits has at most this many characters.
_LONGEST = 20

_ZERO, _ONE, _MINUS, _BYTE = (np.uint64(x) for x in (*b"01-", 255))

# A word of digits plus `_PAST_NINE`, and minus `_ZEROS`, does not carry, and no byte of the result
# has its highest bit. The first byte that is no digit sets this bit in one of the two results.
_ZEROS, _PAST_NINE, _HIGHEST = (np.uint64(0x0101010101010101 * x) for x in (48, 70, 128))

_MASKS = np.array([(1 << 8 * number) - 1 for number in range(9)], dtype=np.uint64)


class Block(NamedTuple):
    """Some of the texts: their rows, and where in `data` each text begins and how long it is.

    `words[i]` holds the eight bytes from `data[i]` on, the first one lowest.
    """

    rows: slice
    data: Bytes
    words: Words
    starts: Integers
    lengths: Integers


def blocks(data: Bytes, ends: Ends) -> Iterator[Block]:
    """Yield texts in blocks, one or more; the bytes of a block lie between zeros."""
    for first in range(0, max(1, len(ends) - 1), _BLOCK):
        block_ends = ends[first : first + _BLOCK + 1].astype(np.int64)
        padded = np.pad(data[block_ends[0] : block_ends[-1]], _PADDING)
        words: Words = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))
        starts = block_ends[:-1] - block_ends[0] + _PADDING
        yield Block(slice(first, first + _BLOCK), padded, words, starts, np.diff(block_ends))


def lowest_bytes(numbers: Integers) -> Words:
    """Return masks of so many lowest bytes of a word: none for numbers below 0, all from 8 on."""
    masks: Words = _MASKS[numbers.clip(0, 8)]
    return masks


def read_integers(data: Bytes, ends: Ends) -> tuple[Integers, Words, NDArray[np.bool_]]:
    """Return the rows of integers, their absolute values, and which of them are negative.

    Integers from -2^63 to 2^64 - 1 are read, in their usual form: not "01", "-0" or "+1".

    Example:
        >>> found = read_integers(np.frombuffer(b"ann7-12", np.uint8), np.array([0, 3, 4, 7]))
        >>> [x.tolist() for x in found]
        [[1, 2], [7, 12], [False, True]]
    """
    parts = [_integers_of(block) for block in blocks(data, ends)]
    rows, values, are_negative = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(values), np.concatenate(are_negative)


def _integers_of(block: Block) -> tuple[Integers, Words, NDArray[np.bool_]]:
    """Read the integers of a block, in words of eight digits, the last of which ends a text."""
    words, starts, lengths = block[2:]
    is_negative = words[starts] & _BYTE == _MINUS
    leading, digits = words[starts + is_negative] & _BYTE, lengths - is_negative
    may_be_integer = (leading - _ONE < 9) | (leading == _ZERO) & (lengths == 1)
    rows = np.flatnonzero(may_be_integer & (digits > 0) & (lengths <= _LONGEST))
    is_negative, digits, ends = is_negative[rows], digits[rows], (starts + lengths)[rows]
    values = before = np.zeros(len(rows), np.uint64)
    is_integer = np.ones(len(rows), bool)
    for distance in range(-8 * (-digits.max(initial=0) // 8), 0, -8):  # to the end of the text
        no_digit = lowest_bytes(distance - digits)
        word = words[ends - distance] & ~no_digit | _ZEROS & no_digit
        is_integer &= (word + _PAST_NINE | word - _ZEROS) & _HIGHEST == 0
        before, values = values, values * np.uint64(10**8) + _number(word)
    is_integer &= values // np.uint64(10**8) == before  # numbers from 2^64 on have lost bits
    is_integer &= ~is_negative | (values <= 1 << 63)
    rows += block.rows.start
    return rows[is_integer], values[is_integer], is_negative[is_integer]


def _number(digits: Words) -> Words:
    """Return the number that the eight digits of each word write; its lowest byte is the first.

    Neighbours are joined: eight digits become four numbers up to 99, then two, and then one.
    """
    numbers = digits - _ZEROS
    for bits, kept in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0xFFFFFFFF)):
        numbers = numbers * np.uint64(10 ** (bits // 8)) + (numbers >> np.uint64(bits))
        numbers &= np.uint64(kept)
    return numbers
