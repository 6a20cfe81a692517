"""What tests and examples in docstrings and pages share: warnings as errors, no figures left."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

#: files of the library that need a package which the extra `test` does not install
NEED = {"core/backends/cuda.py": "triton", "report/engines/ray.py": "ray"}
collect_ignore = [f"src/nextloc_metrics/{x}" for x in NEED if find_spec(NEED[x]) is None]

#: without the warnings that say what another package will change, which name the file that uses it
CATEGORIES = ("UserWarning", "RuntimeWarning", "EncodingWarning")


def pytest_configure(config: pytest.Config) -> None:
    """Make a warning an error if it names a test, a helper, an example, or a page's code.

    A filter knows a file by its module's `__name__`, at the start of which its regular expression
    must match; that of code on a page is `__main__`.
    """
    folders = ("benchmarks", "docs", "examples", "tests", "tools")
    files = (file for folder in folders for file in (config.rootpath / folder).rglob("*.py"))
    ours = "|".join(sorted({"__main__", "conftest", *(file.stem for file in files)}))
    for category in CATEGORIES:
        config.addinivalue_line("filterwarnings", rf"error::{category}:(.+\.)?({ours})$")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """Close the figures that a test or an example has left open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
