"""What all tests share: the Hypothesis profile, few threads, a fixed seed, and the real data."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from nextloc_metrics import accelerate, counting, devices

settings.register_profile(
    "nextloc",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("nextloc")

_WAITS_TO_LOOK = devices.waits_to_look

#: those of `each_path` that look at values, and no further than `depth`: devices would wait for it
ON_THE_CPU = pytest.mark.parametrize("each_path", ["plain", "accelerated"], indirect=True)


def take_path(path: str, patch: pytest.MonkeyPatch) -> None:
    """Take the plain path, the compiled loops, or what other devices take: PyTorch's operations."""
    patch.setattr(counting, "_compiled", None)
    if path == "accelerated":
        pytest.importorskip("numba", reason="the compiled loops need numba")
        accelerate()
    waits = (lambda values: True) if path == "device" else _WAITS_TO_LOOK
    for name, module in list(sys.modules.items()):
        if name.startswith("nextloc_metrics.") and hasattr(module, "waits_to_look"):
            patch.setattr(module, "waits_to_look", waits)
    # work buffers that suit a device's memory would be large beside the scores of tests
    patch.setattr(counting, "_DEVICE_BUFFER_ELEMENTS", counting._BUFFER_ELEMENTS)


@contextlib.contextmanager
def threads_allowed(number: int) -> Iterator[None]:
    """Let PyTorch use so many threads."""
    allowed = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(allowed)


@pytest.fixture(autouse=True, scope="session")
def _path() -> Iterator[None]:
    """Run the tests on the path that the environment variable TESTED_PATH names."""
    with pytest.MonkeyPatch.context() as patch:
        take_path(os.environ.get("TESTED_PATH", "plain"), patch)
        yield


@pytest.fixture(params=["plain", "accelerated", "device"])
def each_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test on each path."""
    take_path(request.param, monkeypatch)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Give every test the same random numbers, whichever tests ran before it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20)
        yield


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data beside the project, or a skip."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the real data of ../shared/data, which is not beside the project")
    return folder
