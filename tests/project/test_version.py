"""The version stands in the package: commands need no metadata of an installed one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nextloc_metrics

pytest.importorskip("pandas")
pytest.importorskip("click")

#: runs the command without the metadata of the package, from what the first word is the path of
ALONE = """
import importlib.metadata as metadata, runpy, sys
usual = metadata.Distribution.from_name.__func__
def from_name(cls, name):
    if name == "nextloc-metrics":
        raise metadata.PackageNotFoundError(name)
    return usual(cls, name)
metadata.Distribution.from_name = classmethod(from_name)
sys.path.insert(0, sys.argv.pop(1))
import nextloc_metrics
assert nextloc_metrics.__file__.startswith(sys.path[0]), nextloc_metrics.__file__
runpy.run_module("nextloc_metrics", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module", params=["source tree", "zip"])
def code(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package by itself: a copy of its files, without C code, or a zip of them."""
    folder = tmp_path_factory.mktemp("alone")
    source = Path(nextloc_metrics.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(source, folder / "src" / source.name, ignore=ignored)
    if request.param == "zip":
        return Path(shutil.make_archive(str(folder / "code"), "zip", folder / "src"))
    return folder / "src"


@pytest.mark.extra  # starts processes that compile the sources
def test_commands_need_no_metadata(code: Path, tmp_path: Path) -> None:
    """A page, saved counts and the version, from files alone."""
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text('preds,target\n"[3, 1]",3\n"[2, 3]",3\n', "utf-8")
    score, page = ["score", "a.csv", "--save", "a.npz"], ["report", "a.csv", "--out", "a.html"]
    for words in (["--version"], score, page, ["compare", "a.csv", "b.csv"]):
        done = subprocess.run(
            [sys.executable, "-c", ALONE, str(code), *words],
            cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        if words == ["--version"]:
            assert done.stdout == f"nextloc-metrics, version {nextloc_metrics.__version__}\n"
    shown = f"nextloc-metrics {nextloc_metrics.__version__}"
    assert shown in (tmp_path / "a.html").read_text("utf-8")
    assert (tmp_path / "a.npz").exists()
