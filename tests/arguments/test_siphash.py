"""SipHash-2-4: the published vectors, in NumPy and by every backend."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import receipt_reader
from nextloc_metrics import backends
from nextloc_metrics.arguments import siphash
from nextloc_metrics.report.digests import sums_of

# https://github.com/veorq/SipHash, vectors.h: of so many bytes 0, 1, 2, ... with the key 0 ... 15;
# that of 15 bytes is the example in appendix A of the paper.
OF_64 = {0: "310e0edd47db6f72", 1: "fd67dc93c539f874", 15: "e545be4961ca29a1"}
OF_128 = {0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45"}


@pytest.fixture(params=["cpu", "reference"])
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return the backend in C and that of PyTorch, one after the other."""
    if reason := backends.available()[request.param]:
        pytest.skip(reason)
    backends.use(request.param)
    yield backends.choose(torch.zeros(1))
    backends.use(None)


def test_published_vectors(backend: Any) -> None:
    """Texts of all lengths are hashed at once, and those that are published have their hash."""
    texts = [bytes(x % 256 for x in range(number)) for number in range(300)]
    ends = torch.tensor([*map(len, texts)]).cumsum(0)
    flat = torch.from_numpy(np.frombuffer(b"".join(texts), np.uint8).copy())
    found = backend.hash_texts(flat, ends)
    for number, expected in OF_64.items():
        assert found[number].numpy().astype("<i8").tobytes().hex() == expected
    for number in (255, 256, 299):  # whose length has more than a byte
        assert int(found[number]) % (1 << 64) == receipt_reader.siphash(texts[number])


def test_published_vectors_of_128_bits(backend: Any) -> None:
    """A row of no words; with words, padding and a table it has the hash of a plain reader."""
    none = torch.zeros(1, 0, dtype=torch.int64)
    sums = siphash_sums(backend.digest(none, 0, none, None, False)[0])
    assert sums == {0xA3: (int.from_bytes(bytes.fromhex(OF_128[0]), "little"), 1)}
    words = torch.tensor([[5, -1, 1 << 62, 7], [256, 9, -1, -1]])
    lists, table = torch.tensor([[0, 2, -1]] * 2), torch.tensor([3, 0, 1 << 39, -1])
    found = backend.digest(words, 3, lists, table, True)
    end = 1 << 63
    for of, messages in zip(
        found,
        ([[5, 1 << 62], [256, 9]], [[5, end, 3, 1 << 39, end, 7], [256, end, 3, 1 << 39, end]]),
        strict=True,
    ):
        data = [b"".join(x.to_bytes(8, "little") for x in one) for one in messages]
        expected = [(receipt_reader.siphash(one, wide=True), 1) for one in data]
        assert siphash_sums(of) == {5: expected[0], 0: expected[1]}


def siphash_sums(digest: torch.Tensor) -> dict[int, tuple[int, int]]:
    """Return the sum of hashes and their number, of the buckets with rows."""
    return {i: x for i, x in enumerate(sums_of(digest)) if x[1]}


def test_integers_are_their_decimal_text(backend: Any) -> None:
    """7 and "7" agree, also at the ends of 64 bits and of words."""
    values = [0, 7, 10**7 - 1, 10**7, -(10**7), 10**15, 10**16, 2**63 - 1, -(2**63)]
    texts = map(torch.from_numpy, siphash.encode(map(str, values)))
    assert backend.hash_integers(torch.tensor(values)).equal(backend.hash_texts(*texts))
