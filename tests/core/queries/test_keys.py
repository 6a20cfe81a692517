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

from inner import hash_texts, key_of, keys_of_integers, keys_of_texts, read_keys
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    Ranking,
    RankingCollection,
)
from strategies import examples, updated

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


FAR = 1 << 62


def test_keys_of_integers_and_text() -> None:
    """Small integers are themselves; others, and text, lie from 2^62, apart from each other."""
    small = [0, 1, -1, FAR - 1, -FAR]
    assert (
        [key_of(str(x)) for x in small] == small == keys_of_integers(torch.tensor(small)).tolist()
    )
    far = [FAR, -FAR - 1, 2**63 - 1, -(2**63)]
    wide = [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40]
    texts = ["01", "1.0", " 1", "1 ", "+1", "-0", "\u0661", "1\n", "", "ann", "0x1", "1e3"]
    keys = [key_of(x) for x in [*map(str, far + wide), *texts]]
    assert len(set(keys)) == len(keys)
    assert all(FAR <= key < 2**63 for key in keys)
    assert keys_of_integers(torch.tensor(far)).tolist() == keys[: len(far)]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.tensor(x, dtype=torch.uint64),
        lambda x: np.array(x, dtype=np.uint64),
        lambda x: x,
        lambda x: np.array(x, dtype=object),
        lambda x: [str(one) for one in x],
        lambda x: pytest.importorskip("pandas").Series(x, dtype="uint64"),
        lambda x: pytest.importorskip("polars").Series(
            x, dtype=pytest.importorskip("polars").UInt64
        ),
    ],
    ids=["tensor", "array", "list", "objects", "text", "pandas", "polars"],
)
def test_cells_of_64_bits_have_one_key_at_every_door(make: Any) -> None:
    """S2 cells are unsigned; so many are above 2^63, where a signed integer ends."""
    cells = [9923255283399360512, 1153277837650709504, 5221365743137718272, 5]
    expected = [key_of(str(cell)) for cell in cells]
    keys, names = read_keys("groups", make(cells))
    assert keys.tolist() == expected
    assert names == {key_of(str(x)): str(x) for x in cells if x >= FAR}
    grouped = updated(Grouped(MRR()), torch.eye(4), torch.arange(4), groups=make(cells))
    assert grouped.compute().shape == (4,)
    assert grouped.groups.tolist() == sorted(expected)
    table = RankingCollection({"m": grouped}).table().records
    assert [row["metric"] for row in table] == [
        *("m, 5", "m, 1153277837650709504", "m, 5221365743137718272", "m, 9923255283399360512")
    ]


def test_cells_of_sequences_are_read_in_their_shape() -> None:
    """Groups [N, T] of unsigned integers, and [N] for queries [N, T]."""
    cells = np.array([[2**63 + 1, 5], [5, 2**63 + 1]], dtype=np.uint64)
    scores, target = torch.eye(4).reshape(2, 2, 4), torch.tensor([[0, 1], [0, 0]])
    by_query = updated(Grouped(AccuracyAtK(1)), scores, target, groups=cells)
    assert by_query.num_queries.tolist() == [2, 2]
    assert by_query.groups.tolist() == sorted([5, key_of(str(2**63 + 1))])
    by_row = updated(Grouped(AccuracyAtK(1)), scores, target, groups=["a", "b"])
    names = [by_row.key_names[key] for key in by_row.groups.tolist()]
    assert dict(zip(names, by_row.compute().tolist(), strict=True)) == {"a": 1, "b": 0}


WRONG: list[Any] = [
    [0.0, 1.0],
    torch.tensor([0.0, 1.0]),
    torch.tensor([0, 1], dtype=torch.float16),
    [True, False],
    torch.tensor([True, False]),
    np.array([True, False]),
    [None, "a"],
    [None, 1],
    [float("nan"), "a"],
    [True, "a"],
    ["a", 1],
    [1.5, 2**70],
    [b"a", b"b"],
]


@pytest.mark.parametrize("groups", WRONG, ids=repr)
@pytest.mark.parametrize("named", [False, True])
def test_what_is_no_key_is_refused_and_changes_nothing(groups: Any, named: bool) -> None:
    """Floats, booleans and missing values, alone, in a collection, and in a ranking."""
    lists, target = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 0])
    by = "user" if named else None
    alone = updated(Grouped(MRR(), by=by), lists, target, groups=["x", "y"])
    metrics = RankingCollection({"m": MRR(), "g": alone.clone()})
    given = {"user": groups} if named else groups
    before = alone.state.clone()
    ways = [
        lambda: alone.update(lists, target, groups=given),
        lambda: alone(lists, target, groups=given),
        lambda: metrics.update(lists, target, groups=given),
        lambda: metrics(lists, target, groups=given),
        lambda: alone.update(Ranking.from_lists(lists, target).with_groups(given)),
    ]
    for way in ways:
        with pytest.raises((TypeError, ValueError), match="`groups` must"):
            way()
    assert torch.equal(alone.state, before)
    assert torch.equal(metrics["g"].state, before)
    assert metrics["m"].num_queries == 0
    assert sorted(alone.key_names.values()) == ["x", "y"]


def test_the_group_of_a_skipped_query_is_not_read() -> None:
    """Neither its key nor its name is kept."""
    lists, target = torch.tensor([[0, 1], [1, 0], [0, 1]]), torch.tensor([0, 0, -100])
    grouped = Grouped(MRR(ignore_index=-100))
    grouped.update(lists, target, torch.tensor([True, False, True]), ["a", "b", "c"])
    assert grouped.groups.tolist() == [key_of("a")]
    assert grouped.key_names == {key_of("a"): "a"}
    grouped.update(lists, target, torch.tensor([False] * 3), ["d", "e", "f"])
    assert grouped.compute().tolist() == [1]


def test_two_names_of_one_key_are_an_error() -> None:
    """In one batch, in two, and of two metrics; the state stays."""
    lists, target = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 0])
    a, b = "location of Anna", "bo224151UQVS5hOa"  # of equal hashes
    assert key_of(a) == key_of(b)
    grouped = updated(Grouped(MRR()), lists, target, groups=[a, "c"])
    other = updated(Grouped(MRR()), lists, target, groups=[b, "c"])
    before = grouped.state.clone()
    for way in (
        lambda: Grouped(MRR()).update(lists, target, groups=[a, b]),
        lambda: grouped.update(lists, target, groups=[b, "c"]),
        lambda: grouped.merge_state(other),
    ):
        with pytest.raises(ValueError, match=f"must have different keys, got '{a}' and '{b}'"):
            way()
    assert torch.equal(grouped.state, before)
    assert grouped.update_count == 1
