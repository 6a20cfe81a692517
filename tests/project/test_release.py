"""The version, the licence, the address and the Pythons are the same in every file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import nextloc_metrics

if sys.version_info < (3, 11):
    pytest.skip("tomllib is new in Python 3.11", allow_module_level=True)

import tomllib

ROOT = Path(__file__).parents[2]

if not (ROOT / ".github").is_dir():
    pytest.skip("these files are in a clone", allow_module_level=True)


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The metadata of the package."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def line_of(name: str, key: str) -> str:
    """Return the value of a line `key: value`, without quotes."""
    found = re.search(rf"^ *{key}: (.+)$", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    assert found, f"{name} has no line {key}:"
    return found[1].strip("'\"")


def test_the_citation_says_what_the_package_says(project: dict[str, Any]) -> None:
    """The version, the licence and the author; README and project.md have the version too."""
    assert line_of("CITATION.cff", "version") == project["version"]
    assert line_of("CITATION.cff", "license") == project["license"]
    assert line_of("CITATION.cff", "  - name") == project["authors"][0]["name"]
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"version {project['version']}. " in readme
    assert f"version = {{{project['version']}}}," in readme
    assert nextloc_metrics.__version__ == project["version"]
    assert f"Version {project['version']}," in (ROOT / "docs/project.md").read_text("utf-8")


def test_the_address_is_one(project: dict[str, Any]) -> None:
    """All addresses of the package begin with that of the repository, which the README clones."""
    address = project["urls"]["Repository"]
    assert all(url.startswith(address) for url in project["urls"].values())
    clones = re.findall(r"git clone (\S+)", (ROOT / "README.md").read_text("utf-8"))
    assert clones == [address]


def test_pythons_of_the_matrix_are_those_of_the_package(project: dict[str, Any]) -> None:
    """The oldest that the package allows, and one it names or newer."""
    text = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    oldest, newest = re.findall(r'"(3\.\d+)"', text.split("matrix:")[1])
    assert project["requires-python"] == f">={oldest}"
    assert f"Programming Language :: Python :: {newest}" in project["classifiers"]
