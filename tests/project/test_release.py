"""What publishing needs says the same in every file."""

from __future__ import annotations

import json
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

if not (ROOT / "recipe").is_dir():
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


@pytest.mark.parametrize("name", ["codemeta.json", ".zenodo.json"])
def test_records_of_archives_say_what_the_package_says(name: str, project: dict[str, Any]) -> None:
    """The version, the licence, the description, the keywords, and nobody else's name."""
    record = json.loads((ROOT / name).read_text("utf-8"))
    assert record["version"] == project["version"]
    assert record["license"].rsplit("/", 1)[-1] == project["license"]
    assert record["description"] == project["description"]
    assert record["keywords"] == project["keywords"]
    people = record.get("author", record.get("creators"))
    assert [one["name"] for one in people] == [one["name"] for one in project["authors"]]


def test_the_citation_and_the_recipe_say_what_the_package_says(project: dict[str, Any]) -> None:
    """The recipe has the package's requirements, as conda writes them."""
    for name in ("CITATION.cff", "recipe/recipe.yaml"):
        assert line_of(name, "version") == project["version"]
        assert line_of(name, "license") == project["license"]
    assert line_of("CITATION.cff", "  - name") == project["authors"][0]["name"]
    assert nextloc_metrics.__version__ == project["version"]
    assert f"Version {project['version']}," in (ROOT / "docs/project.md").read_text("utf-8")
    recipe = (ROOT / "recipe/recipe.yaml").read_text("utf-8")
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    wanted = [f"python{project['requires-python']}", *project["dependencies"]]
    as_conda = [re.sub(r"^torch(?=>)", "pytorch", x).replace(">=", " >=") for x in wanted]
    assert sorted(re.findall(r"- (.+)", run)) == sorted(as_conda)
    codemeta = json.loads((ROOT / "codemeta.json").read_text("utf-8"))
    assert codemeta["softwareRequirements"] == project["dependencies"]


def test_the_address_is_one(project: dict[str, Any]) -> None:
    """The address that `tools/release.py` writes is the same in every file."""
    address = project["urls"]["Repository"]
    assert all(url.startswith(address) for url in project["urls"].values())
    codemeta = json.loads((ROOT / "codemeta.json").read_text("utf-8"))
    assert codemeta["codeRepository"] == line_of("recipe/recipe.yaml", "homepage") == address
    clones = re.findall(r"git clone (\S+)", (ROOT / "README.md").read_text("utf-8"))
    assert clones == [address]


def test_pythons_of_the_matrix_are_those_of_the_package(project: dict[str, Any]) -> None:
    """The oldest that the package allows, and one it names or newer."""
    text = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    oldest, newest = re.findall(r'"(3\.\d+)"', text.split("matrix:")[1])
    assert project["requires-python"] == f">={oldest}"
    assert f"Programming Language :: Python :: {newest}" in project["classifiers"]
