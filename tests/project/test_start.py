"""What a start costs: names are imported when they are asked for, and help needs no PyTorch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("click")

#: of the words of the command, the exit status and what is printed
ANSWERS: list[tuple[str, int, str]] = [
    ("--help", 0, "trajectories"),
    ("--version", 0, "nextloc-metrics, version"),
    ("trajectories --help", 0, "Example: nextloc-metrics trajectories"),
    ("score --none", 2, "No such option"),
    ("score none.csv", 1, "`PATH` must be an existing file"),
    ("score setup.py --train-counts none.npy", 2, "does not exist"),
]

#: raises where a package is imported that takes long
BLOCKED = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        assert name not in ("torch", "numpy", "pandas", "pyarrow", "torchmetrics"), name
sys.meta_path.insert(0, Finder())
"""


def python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process."""
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize(("words", "status", "shown"), ANSWERS)
def test_help_and_usage_errors_need_no_pytorch(words: str, status: int, shown: str) -> None:
    """Neither NumPy, pandas or pyarrow, by `python -m nextloc_metrics`."""
    run = "import runpy; runpy.run_module('nextloc_metrics', run_name='__main__', alter_sys=True)"
    found = python(BLOCKED + run, *words.split())
    assert (found.returncode, "Traceback" in found.stderr) == (status, False), found.stderr
    assert shown in found.stdout + found.stderr


def test_the_script_needs_no_pytorch_either() -> None:
    """It calls `main` of `cli.__main__`."""
    run = "from nextloc_metrics.cli.__main__ import main; main()"
    found = python(BLOCKED + run, "score", "--help")
    assert (found.returncode, "--train-counts" in found.stdout) == (0, True), found.stderr


@pytest.mark.slow  # starts processes
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
@pytest.mark.parametrize("words", ["--help", "score FILE"])
def test_an_output_that_takes_nothing_is_an_error(words: str, output: str, tmp_path: Path) -> None:
    """A full disk and a closed output; a pipe that nobody reads ends the command in silence."""
    file = tmp_path / "a.csv"
    file.write_text("preds,target\n1,1\n", encoding="utf-8")
    command = f'"$0" -W ignore -m nextloc_metrics {words.replace("FILE", f"{file} --k 1")}'

    def errors_of(text: str) -> str:
        run = ["sh", "-c", text, sys.executable]
        return subprocess.run(run, capture_output=True, encoding="utf-8", check=False).stderr

    shown = errors_of(f"{command} {output}; echo $? >&2")
    assert re.fullmatch(r"Error: .*\[Errno (28|9)\] .*\n1\n", shown), shown
    assert errors_of(f"({command}; echo $? >&2) | true") == "1\n"


@pytest.mark.slow  # starts a process that imports PyTorch
def test_a_package_is_imported_without_its_names() -> None:
    """A submodule is imported by itself, a name with all others, and pickles name the module."""
    found = python(
        "import sys, nextloc_metrics, nextloc_metrics.report\n"
        "assert 'torch' not in sys.modules\n"
        "nextloc_metrics.core.lazy\n"
        "assert 'torch' not in sys.modules\n"
        "import pickle\n"
        "data = pickle.dumps(nextloc_metrics.MRR)\n"
        "assert b'nextloc_metrics.metrics.at_k' in data\n"
        "assert pickle.loads(data) is nextloc_metrics.MRR\n"
    )
    assert found.returncode == 0, found.stderr
