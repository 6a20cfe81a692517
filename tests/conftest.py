"""What all tests share: Hypothesis profiles, few threads, a seed, the repository, real data.

PyTorch and the library are imported where they are used, as the process that shares the tests among
others runs none, and would import them before the others start.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

if "PYTEST_XDIST_WORKER" in os.environ:  # each core has a worker, and so one thread
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    torch.set_num_threads(1)
    if sys.version_info[:2] == (3, 10):
        # For a defect of Python 3.10, PyArrow looks at all objects of the process for each block of
        # CSV that it reads: nothing beside a block of 4 MB, but tests read thousands of small ones.
        with contextlib.suppress(ImportError):
            import pyarrow.lib

            pyarrow.lib.have_signal_refcycle = False

EXAMPLES = 20  # of a law, where neither the law nor the profile asks for another number

# `same` draws the same examples in every run; `new` (.ci/extra) draws others, and 5 times as many
settings.register_profile(
    "same",
    deadline=None,
    database=None,
    derandomize=True,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "new", settings.get_profile("same"), derandomize=False, max_examples=5 * EXAMPLES
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

#: of `each_backend`, what reads values on the CPU
ON_THE_CPU = pytest.mark.parametrize("each_backend", ["cpu"], indirect=True)

#: the folder of pages and examples, which tests beside an installed library may lack
REPOSITORY = Path(__file__).parents[1]
OUTSIDE = "" if (REPOSITORY / "mkdocs.yml").exists() else "needs the pages and examples of a clone"


class _Skipped(pytest.Module):
    """A file of tests that is not imported."""

    def collect(self) -> list[pytest.Item]:
        """Skip it, and say why."""
        pytest.skip(OUTSIDE, allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: Any) -> Generator[None, Any, Any]:
    """Skip the files of tests about the repository where there is none."""
    collected = yield
    if collected and OUTSIDE and file_path.parent.name == "project":
        return [_Skipped.from_parent(parent, path=file_path)]
    return collected


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of the repository, or a skip."""
    if OUTSIDE:
        pytest.skip(OUTSIDE)
    return REPOSITORY


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `--backend` name the backend that tests run on; without it, the usual list."""
    parser.addoption("--backend")


@contextlib.contextmanager
def threads_allowed(number: int) -> Iterator[None]:
    """Let PyTorch use so many threads."""
    import torch

    allowed = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(allowed)


@cache
def usual_backends() -> list[str]:
    """What runs without a choice, and `backends.use(None)` chooses again."""
    from nextloc_metrics import backends

    backends.use(None)  # whatever an example in a docstring used
    return list(backends._chosen)


@pytest.fixture(autouse=True)
def _backend(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test on the backend that `--backend` names, whatever the one before it used."""
    from nextloc_metrics import backends

    before = usual_backends()
    if name := request.config.getoption("--backend"):
        backends.use(name)
    yield
    if name or backends._chosen != before:
        backends.use(None)


@pytest.fixture(params=["cpu", "reference"])
def each_backend(request: pytest.FixtureRequest, _backend: None) -> None:
    """Run the test on each backend of the CPU."""
    from nextloc_metrics import backends

    if reason := backends.available()[request.param]:
        pytest.skip(f"the backend {request.param!r} {reason}")
    backends.use(request.param)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Give every test the same random numbers, whichever tests ran before it.

    `torch.manual_seed` also notes the seed and a stack trace for each kind of device, which takes
    longer than most tests.
    """
    import torch

    before = torch.get_rng_state()
    torch.default_generator.manual_seed(20)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(20)
    yield
    torch.set_rng_state(before)


@pytest.fixture
def blank_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pictures of pages blank, which take most of the time."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    blank = b'<svg viewBox="0 0 1 1"></svg>'
    monkeypatch.setattr(figure, "savefig", lambda self, file, **_: file.write(blank))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data beside the project, or a skip."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the real data of ../shared/data, which is not beside the project")
    return folder
