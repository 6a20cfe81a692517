"""What all tests share: the Hypothesis profile, few threads, a fixed seed, and the real data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from nextloc_metrics import accelerate, counting

settings.register_profile(
    "nextloc",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("nextloc")


@pytest.fixture(autouse=True, scope="session")
def _accelerated() -> None:
    """Run the tests on the compiled loops where the environment variable ACCELERATE is set."""
    if os.environ.get("ACCELERATE"):
        accelerate()


@pytest.fixture(params=["plain", "accelerated"])
def each_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test on the plain path, and on the compiled loops."""
    monkeypatch.setattr(counting, "_compiled", None)
    if request.param == "accelerated":
        pytest.importorskip("numba", reason="the compiled loops need numba")
        accelerate()


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
