"""What the modules may import of each other: arrows run down, and there is no circle."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "nextloc_metrics"
PACKAGE = "nextloc_metrics"

#: From the top down: a module imports what stands below it, or beside it without a circle.
LEVELS = [
    {"integrations"},  # which nobody imports
    {"__main__"},
    {"__init__"},
    {"report"},
    {"analysis", "comparison", "protocols"},
    {"functional", "presets"},
    {"families", "geography", "collection", "distributed"},
    {"metrics"},
    {"metric"},
    {"plan", "queries", "state", "base", "options", "intervals"},
    {"scoring", "weights", "exact", "ranking"},
    {"sources", "exclusion", "given_ranks", "counting", "top_candidates", "reading"},
    {"backends"},
    {"record"},
    {"arrays", "checks", "messages"},
]

#: Imported where it is used: who makes a picture or a table, and a backend that is chosen.
LATE = {
    "__main__": {"report.command"},
    "metric": {"report.plotting"},
    "protocols.auditing": {"report.drawing", "report.tables"},
    "collection": {"report.plotting", "report.tables"},
    "families.click_through": {"report.plotting"},
    "families.per_query": {"report.plotting"},
    "backends": {"backends.cuda"},
}


def name_of(path: Path) -> str:
    """The name of a module within the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


def imports(node: ast.AST, late: bool = False) -> Iterator[tuple[str, bool]]:
    """Modules of ours that are imported, and whether inside of a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        names: list[str] = []
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        if isinstance(child, ast.ImportFrom):
            inside = [f"{child.module}.{alias.name}" for alias in child.names]
            names = [one if one.removeprefix(f"{PACKAGE}.") in MODULES else str(child.module)
                     for one in inside]  # fmt: skip
        for name in names:
            if name.split(".")[0] == PACKAGE:
                yield name.removeprefix(f"{PACKAGE}."), late
        yield from imports(child, late or isinstance(child, ast.FunctionDef))


@cache
def imported(module: str, late: bool) -> set[str]:
    """What a module imports of ours: at its top, or in its functions."""
    found = imports(ast.parse(MODULES[module].read_text()))
    return {name for name, is_late in found if is_late == late}


def level(module: str) -> int:
    """How far down a module stands."""
    return next(i for i, names in enumerate(LEVELS) if module.split(".")[0] in names)


def test_every_module_is_found() -> None:
    """The rules are about the modules that there are."""
    assert {name.split(".")[0] for name in MODULES} == set().union(*LEVELS)
    assert imported("metrics", False) >= {"metric", "scoring"}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_arrows_run_down(module: str) -> None:
    """No module imports one above it, and only a few wait with an import until it is used."""
    for other in imported(module, False):
        assert level(other) >= level(module), other
    assert imported(module, True) == LATE.get(module, set())


def test_there_is_no_circle() -> None:
    """The modules can be read in an order in which each comes after what it imports."""
    order = TopologicalSorter({module: imported(module, False) for module in MODULES})
    assert len(list(order.static_order())) == len(MODULES)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_module_is_long(module: str) -> None:
    """A module is read in one go: at most 450 lines, and 60 per function, docstrings apart."""
    text = MODULES[module].read_text()
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = [ast.get_docstring(x, False) for x in ast.walk(tree) if isinstance(x, documented)]
    assert text.count("\n") - sum(1 + x.count("\n") for x in docstrings if x) <= 450
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            docstring = (ast.get_docstring(node, clean=False) or "").count("\n")
            assert (node.end_lineno or 0) - node.lineno - docstring < 60, node.name
