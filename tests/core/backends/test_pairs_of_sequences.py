"""Distances, the exponential and warping: the same bits in C and NumPy, and the right ones."""

from __future__ import annotations

import ctypes
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import backends
from nextloc_metrics.core.backends import cpu, proof, sequences
from nextloc_metrics.core.backends.reference import Reference
from nextloc_metrics.core.backends.sequences import Sequences
from nextloc_metrics.geography import Locations
from nextloc_metrics.geography.locations import EARTH_RADIUS


def make(dimensions: int, number: int = 40, seed: int = 0) -> Sequences:
    """Random sequences of 0 to 12 points; on a plane many are equal."""
    random = np.random.default_rng(seed)
    points = [random.integers(-2, 3, (number, width, dimensions)) * 1.0 for width in (12, 11)]
    if dimensions == 3:
        points = [random.normal(size=one.shape) for one in points]
        points = [one / np.linalg.norm(one, axis=-1, keepdims=True) for one in points]
        points[1][:, :3] = points[0][:, :3]
    first, second, rows, columns = map(
        torch.from_numpy,
        (*points, random.integers(0, 13, number), random.integers(0, 12, number)),
    )
    return Sequences(first, second, rows, columns, 2.0 if dimensions == 3 else 0.0)


def test_the_exponential_is_rounded_correctly() -> None:
    """It is the number nearest to exp(x), as computed with 28 decimals."""
    random = np.random.default_rng(5)
    x = -np.concatenate(
        [random.exponential(3, 4000), random.random(1000) * 708, [0, 1e-300, 1e-17, 708]]
    )
    assert sequences.exponential(x).tolist() == [float(Decimal(one).exp()) for one in x.tolist()]
    assert sequences.exponential(np.array([-708.1, -np.inf])).tolist() == [0, 0]


def test_distances_on_the_sphere_are_those_of_locations() -> None:
    """From 0 to half of the circumference."""
    random = np.random.default_rng(6)
    latitude = [0.0, 0, 90, -90, 10, *(random.random(200) * 180 - 90)]
    longitude = [0.0, 180, 0, 0, 10, *(random.random(200) * 360 - 180)]
    places = Locations(latitude, longitude)
    points = places.points.numpy()
    found = sequences.distances(points[:, None], points, 2 * EARTH_RADIUS)
    ids = torch.arange(len(places))
    np.testing.assert_allclose(
        found, places.distance(ids[:, None], ids).numpy(), rtol=1e-14, atol=1e-9
    )
    assert (found.diagonal() == 0).all()


@pytest.mark.parametrize("dimensions", [2, 3])
def test_c_and_numpy_give_the_same_bits(dimensions: int) -> None:
    """Of all functions, for any number of threads."""
    if reason := backends.available()["cpu"]:
        pytest.skip(f"the backend 'cpu' {reason}")
    pairs = make(dimensions)
    by_c, by_numpy = cpu.Cpu(), Reference()
    for threads in (1, 3):
        by_c._threads = lambda _elements, threads=threads: threads  # type: ignore[method-assign]
        for optimal in (False, True):
            arguments = pairs, 4, 0.7, 1.3, optimal
            assert torch.equal(by_c.match_ngrams(*arguments), by_numpy.match_ngrams(*arguments))
        for limits in ((None, False), (2, True)):
            assert torch.equal(by_c.align(pairs, *limits), by_numpy.align(pairs, *limits))


def test_sequences_without_points_have_no_sum() -> None:
    """Neither a batch without pairs nor pairs without points is an error."""
    for number, length in ((0, 3), (2, 0)):
        empty = torch.zeros(number, length, 2, dtype=torch.float64)
        none = torch.zeros(number, dtype=torch.int64)
        pairs = Sequences(empty, empty, none, none)
        backend = backends.choose(empty, "aligns")
        assert backend.match_ngrams(pairs, 2, 1.0, 1.0, False).tolist() == [[0, 0]] * number
        assert backend.align(pairs).tolist() == [0] * number


def test_a_backend_that_answers_otherwise_is_disabled(monkeypatch: Any) -> None:
    """A wrong bit in the answer to the batch of pairs disables it, with a warning."""

    class Wrong(Reference):
        name = "wrong"
        aligns = False

        def align(self, *args: Any, **kwargs: Any) -> Any:
            return super().align(*args, **kwargs) * (1 + 2**-52)

    wrong = Wrong()
    monkeypatch.setattr(proof, "disabled", {})
    monkeypatch.setattr(backends, "_chosen", [wrong, Reference()])
    with pytest.warns(UserWarning, match=r"'wrong' differs from `reference` in `align`"):
        assert backends.choose(torch.zeros(1), "aligns") is not wrong
    assert not wrong.is_proven
    assert "wrong" in proof.disabled


def test_too_little_memory_is_an_error(monkeypatch: Any) -> None:
    """A thread that finds no memory is reported, instead of numbers that nobody computed."""
    backend = cpu.Cpu()
    monkeypatch.setattr(backend, "_functions", {"align": lambda *_: 3, "match": lambda *_: 3})
    with pytest.raises(MemoryError, match="sequences of 12 and 11 points"):
        backend.align(make(2))


def test_structures_have_the_size_of_c() -> None:
    """Each member has 8 bytes, so that nothing is padded."""
    for structure in cpu._STRUCTURES.values():
        assert ctypes.sizeof(structure) == 8 * len(structure._fields_)
