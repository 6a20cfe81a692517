"""The public names are those of `public_names.txt`, so that none comes or goes unseen."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

LIST = Path(__file__).with_name("public_names.txt")
PACKAGES = ("", ".report", ".analysis", ".geography", ".trajectories")
PACKAGE = Path(__file__).parents[2] / "src" / "nextloc_metrics"


def names() -> list[str]:
    """Each public name with its package, and the classes and functions of the integrations."""
    packages = [f"nextloc_metrics{x}" for x in PACKAGES]
    found = {f"{x}.{name}" for x in packages for name in import_module(x).__all__}
    for file in (PACKAGE / "integrations").glob("*.py"):  # not imported, as each needs its tool
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                found.add(f"nextloc_metrics.integrations.{file.stem}.{node.name}")
    return sorted(found)


def test_public_names_are_those_of_the_list() -> None:
    """A name that is new, or gone, is an error that says what to write."""
    listed = LIST.read_text(encoding="utf-8").splitlines()
    new, gone = sorted({*names()} - {*listed}), sorted({*listed} - {*names()})
    says = f"add the line to {LIST.name} and the name to docs/api.md and CHANGELOG.md"
    assert not new, f"new public names, {says}: {new}"
    says = f"delete the line of {LIST.name}, and name it under *Removed* in CHANGELOG.md"
    assert not gone, f"public names that are gone, {says}: {gone}"
    assert listed == names(), f"the lines of {LIST.name} must be sorted, each once"
