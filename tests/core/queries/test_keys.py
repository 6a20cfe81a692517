"""The hash of texts and the keys of texts, of many at once, and that they stay what they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from inner import hash_texts, key_of, keys_of_texts, read_keys
from strategies import examples

WORD, FAR = 1 << 64, 1 << 62

# By hand, one text at a time ----------------------------------------------------------------------


def mixed(number: int) -> int:
    """The finalizer of SplitMix64."""
    x = (number + 0x9E3779B97F4A7C15) % WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def hash_by_hand(text: bytes) -> int:
    """The hash of a text: of its length, then of each eight bytes; BLAKE2b of long ones."""
    if len(text) > 256:
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
    found = mixed(len(text))
    for start in range(0, len(text), 8):
        found = mixed(found ^ int.from_bytes(text[start : start + 8], "little"))
    return found


def key_by_hand(text: str) -> int:
    """The key of a text: its number, the hash of a far number, or its own hash."""
    number = int(text) if re.fullmatch("-?[1-9][0-9]*|0", text) else WORD
    if -FAR <= number < FAR:
        return number
    if -(1 << 63) <= number < WORD:
        found = mixed(number % WORD)
        return FAR + (mixed(found) if number >= 1 << 63 else found) % FAR
    return FAR + hash_by_hand(text.encode()) % FAR


def joined(texts: Iterable[bytes], before: bytes = b"") -> tuple[Any, Any]:
    """The bytes of texts one after the other, and where each ends; others may stand before."""
    texts = [*texts]
    data = np.frombuffer(before + b"".join(texts) + before, np.uint8)
    return data, np.cumsum([len(before), *map(len, texts)])


EDGES = [
    *(x + y for x in (0, 10, 10**8, 10**16, FAR, -FAR, 2**63, -(2**63), WORD) for y in (-1, 0, 1)),
    *(WORD + FAR, 10**19, -(10**18), 10**20 - 1, 10**20, 2 * WORD, 3 * WORD + 5, -WORD, 10**40),
]
NUMERALS = st.one_of(
    st.integers(-(10**4), 10**4).map(str),
    st.sampled_from(EDGES).map(str),
    st.integers(-(10**21), 10**21).map(str),
    st.integers(1, 20).flatmap(lambda n: st.integers(10 ** (n - 1), 10**n)).map(str),
    st.from_regex(r"[-+ ]?[0-9]{0,21}[0-9/:.\-]?", fullmatch=True),
)
LENGTHS = st.sampled_from([7, 8, 9, 15, 16, 17, 255, 256, 257, 300])
TEXTS = st.one_of(
    NUMERALS,
    st.text(),
    st.text("\0\x01aé\u20ac\U0001f600", max_size=20),
    st.tuples(st.sampled_from("a\0-1é"), LENGTHS).map(lambda x: x[0] * x[1]),
)


@examples(100)
@given(st.lists(TEXTS, max_size=8), st.sampled_from([b"", b"7", b"-", b"ann\0"]))
def test_keys_and_hashes_are_those_by_hand(texts: list[str], before: bytes) -> None:
    """Of texts one by one, of many, of a part of many, and of a list, in which some repeat."""
    data, ends = joined(map(str.encode, texts), before)
    assert hash_texts(data, ends).tolist() == [hash_by_hand(x.encode()) for x in texts]
    expected = [*map(key_by_hand, texts)]
    found = keys_of_texts(data, ends)
    assert (found.dtype, found.tolist()) == (np.int64, expected)
    assert keys_of_texts(data, ends.astype(np.int32)).tolist() == expected
    assert [*map(key_of, texts)] == expected
    twice = texts + texts[::-1]
    keys, names = read_keys("groups", np.array(twice, object))
    assert (keys.dtype, keys.tolist()) == (torch.int64, expected + expected[::-1])
    assert names == {
        key: text for key, text in zip(expected, texts, strict=True) if key != as_int(text)
    }


def as_int(text: str) -> int | None:
    """The number that a text is, if any."""
    return int(text) if re.fullmatch("-?[0-9]{1,50}", text) else None


def test_hashes_and_keys_stay_what_they_are() -> None:
    """In every version, process, run and machine: saved keys are compared with new ones."""
    hashes = {
        "": 16294208416658607535,
        "\0": 6791897765849424158,
        "a": 6774081908283191102,
        "ann": 4043504466283325091,
        "user:0000042": 8015327266391808131,
        "M\u00fcnchen": 13491538786667547763,
        "01": 12654715368877274915,
        "x" * 256: 10257133855397062584,
        "x" * 257: 8557773044231383636,
    }
    assert hash_texts(*joined(map(str.encode, hashes))).tolist() == [*hashes.values()]
    keys = {
        "4611686018427387903": 4611686018427387903,
        "4611686018427387904": 4659625732804159979,
        "-4611686018427387904": -4611686018427387904,
        "-4611686018427387905": 8902698456459349707,
        "-9223372036854775808": 5196802822362493915,
        "9223372036854775808": 5105836128551879072,
        "18446744073709551615": 6755974106381971767,
        "18446744073709551616": 5084920938916210751,
        "ann": 8655190484710712995,
        "-1": -1,
    }
    assert {text: key_of(text) for text in keys} == keys


@pytest.mark.parametrize("number", ["7", "-12", "12345678", "-123456789", "1234567890123456789"])
def test_digits_alone_are_read_as_numbers(number: str) -> None:
    """Each character of ASCII in each place of a number."""
    places = range(len(number))
    texts = [number[:x] + chr(code) + number[x + 1 :] for x in places for code in range(128)]
    assert keys_of_texts(*joined(map(str.encode, texts))).tolist() == [*map(key_by_hand, texts)]


def test_many_texts_beside_a_long_one() -> None:
    """Texts of all lengths, of more than two blocks, with one of megabytes among them."""
    texts = [
        *(f"{number:x}" * (number % 5) for number in range(20_000)),
        "x" * 5_000_001,
        *(str(number * 10**15 - 10**19) for number in range(20_000)),
    ]
    assert keys_of_texts(*joined(map(str.encode, texts))).tolist() == [*map(key_by_hand, texts)]


# Quality ------------------------------------------------------------------------------------------


Rows = NDArray[np.uint8]


def rows_of(*columns: Rows | bytes) -> Rows:
    """Texts of one length, uint8 `[N, length]`, of columns of them and of what all of them have."""
    parts = [np.frombuffer(x, np.uint8)[None] if isinstance(x, bytes) else x for x in columns]
    number = max(len(x) for x in parts)
    return np.concatenate([np.broadcast_to(x, (number, x.shape[1])) for x in parts], 1)


def decimals(number: int, digits: int) -> Rows:
    """Numbers from 0 in decimal, with zeros before."""
    powers = np.array([10**x for x in range(digits)][::-1], object).astype(np.float64)
    return (np.arange(number)[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def in_every_order(words: Sequence[bytes], number: int) -> Rows:
    """All rows of so many words, of one length each."""
    rows = np.indices((len(words),) * number).reshape(number, -1).T
    return np.array([[*x] for x in words], np.uint8)[rows].reshape(len(rows), -1)


def with_another_byte(text: bytes) -> Rows:
    """The text with one byte changed, in all ways."""
    rows = np.tile(np.frombuffer(text, np.uint8), (len(text), 255, 1))
    places = np.arange(len(text))
    rows[places, :, places] ^= np.arange(1, 256, dtype=np.uint8)
    return rows.reshape(-1, len(text))


def of_two_bits(length: int) -> Rows:
    """Zero bytes but for two bits, in all ways."""
    one, other = np.triu_indices(8 * length, 1)
    bits = np.eye(8 * length, dtype=np.uint8)
    return np.packbits(bits[one] | bits[other], axis=1)


def of_one_byte(length: int) -> Rows:
    """A byte so many times, for each byte."""
    return np.tile(np.arange(256, dtype=np.uint8)[:, None], length)


FAMILIES: dict[str, Callable[[], Iterable[Rows]]] = {
    "a number and a name": lambda: chain(
        (rows_of(x, decimals(100_000, 6)) for x in (b"user", b"User", b"u-", b"poi/00000000")),
        (rows_of(decimals(100_000, 6), x) for x in (b"user", b"\0", b"-00000000")),
    ),
    "numbers of so many digits": lambda: (decimals(30_000, x) for x in range(5, 25)),
    "words in every order": lambda: [
        in_every_order([b"a", b"b", b"c", b"\0"], 9),
        in_every_order([b"location", b"locatiom", b"Location", bytes(8), b"noitacol"], 7),
        in_every_order([b"0000", b"0001", b"1000", b"00\x001"], 8),
    ],
    "another byte": lambda: map(
        with_another_byte, (b"0" * 200, b"user:0000042", b"Rome", b"a" * 9)
    ),
    "two bits": lambda: map(of_two_bits, (3, 7, 8, 9, 16, 24, 63)),
    "one byte": lambda: map(of_one_byte, range(1, 400)),
}


def hashes_of(rows: Rows) -> NDArray[np.uint64]:
    """The hashes of texts of one length."""
    return hash_texts(rows.ravel(), np.arange(len(rows) + 1) * rows.shape[1])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_similar_texts_have_hashes_apart(family: str) -> None:
    """No two of up to 700,000 have one key, and of few bits, so many as of random numbers."""
    hashes = np.concatenate([hashes_of(rows) for rows in FAMILIES[family]()])
    number = len(hashes)
    assert len(np.unique(hashes % FAR)) == number
    bits = int(np.log2(number)) + 10
    for some in (hashes % FAR >> np.uint64(62 - bits), hashes % np.uint64(1 << bits)):
        shared = number - len(np.unique(some))
        expected = number**2 / 2 ** (bits + 1)
        assert abs(shared - expected) < 5 * expected**0.5


@pytest.mark.parametrize("length", [4, 8, 13, 24])
def test_each_bit_changes_each_bit_of_half_the_hashes(length: int) -> None:
    """Of numbers, within five standard errors; flipped, up to half of them are the other half."""
    rows = decimals(10_000, length)
    flips = np.packbits(np.eye(8 * length, dtype=np.uint8), axis=1)
    changed = np.stack([hashes_of(rows ^ flip) for flip in flips]) ^ hashes_of(rows)
    shares = np.stack([(changed >> np.uint64(bit) & np.uint64(1)).mean(1) for bit in range(64)])
    assert abs(shares - 0.5).max() < 5 * 0.5 / (len(rows) // 2) ** 0.5
