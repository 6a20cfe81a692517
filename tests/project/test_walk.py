"""How far a reader walks: calls, files and moves between files of an update and of a command."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from nextloc_metrics import backends

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "walk.py"

#: the largest numbers of calls, files and moves
LIMITS = {
    "AccuracyAtK(5), mask": (100, 15, 50),
    "AccuracyAtK(5), planned": (36, 8, 12),
    "preset of six, planned": (55, 9, 23),
    "score FILE, 64 rows": (3210, 54, 1265),  # values are computed apart from intervals
}


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the numbers of every walk of the benchmark."""
    if backends.available()["cpu"]:
        pytest.skip("walks through the backend in C")
    backends.use("cpu")  # where CUDA's is installed, it is asked too
    spec = importlib.util.spec_from_file_location("walk", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    found = script.walks(tmp_path_factory.mktemp("walk"))
    backends.use(None)
    return {name: walk.figures() for name, walk in found.items()}


@pytest.mark.parametrize("name", LIMITS)
def test_walk_is_short(walked: Any, name: str) -> None:
    """No update or command takes more calls, files or moves between files than today."""
    calls, files, moves = LIMITS[name]
    numbers = walked[name]
    assert numbers["calls"] <= calls
    assert numbers["files"] <= files
    assert numbers["moves"] <= moves
