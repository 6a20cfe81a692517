"""SipHash-2-4: the published vectors, in NumPy and by every backend."""

import numpy as np
import pytest
import torch

from nextloc_metrics import backends
from nextloc_metrics.arguments import siphash

# https://github.com/veorq/SipHash, vectors.h: of so many bytes 0, 1, 2, ... with the key 0 ... 15;
# that of 15 bytes is the example in appendix A of the paper.
OF_64 = {0: "310e0edd47db6f72", 1: "fd67dc93c539f874", 15: "e545be4961ca29a1"}
OF_128 = {0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45"}


def message(number: int) -> np.ndarray:
    """Return the words of the bytes 0, 1, 2, ..."""
    words = np.frombuffer(bytes(range(number)).ljust(8 * (number // 8 + 1), b"\0"), "<u8").copy()
    words[-1] |= np.uint64(number << 56)
    return words


@pytest.mark.parametrize("name", ["cpu", "reference"])
@pytest.mark.parametrize("wide", [False, True])
def test_published_vectors(name: str, wide: bool) -> None:
    """Messages of all lengths are hashed at once, and those that are published have their hash."""
    if reason := backends.available()[name]:
        pytest.skip(reason)
    backends.use(name)
    try:
        words = [message(number) for number in range(64)]
        flat = torch.from_numpy(np.concatenate(words).view(np.int64))
        lengths = torch.tensor([len(x) for x in words])
        found = backends.choose(flat).hash_words(flat, lengths, wide).numpy()
    finally:
        backends.use(None)
    for number, expected in (OF_128 if wide else OF_64).items():
        assert found[number].astype("<i8").tobytes().hex() == expected


def test_integers_are_their_decimal_text() -> None:
    """7 and "7" agree, also at the ends of 64 bits and of words."""
    values = [0, 7, 10**7 - 1, 10**7, -(10**7), 10**15, 10**16, 2**63 - 1, -(2**63)]
    both = siphash.words_of_integers(values), siphash.words_of_texts(map(str, values))
    for found, expected in zip(*both, strict=True):
        assert found.tolist() == expected.tolist()
