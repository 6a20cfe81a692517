"""The wings and rooms of the package: what each may import, and what is documented."""

import ast
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from inspect import isroutine
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "nextloc_metrics"
PACKAGE = "nextloc_metrics"

#: A wing may import the wings to its right, and what those may; CONTRIBUTING.md draws them.
WINGS: dict[str, list[str]] = {
    "core": [],
    "distributed": ["core"],
    "geography": ["core"],
    "metrics": ["geography"],
    "trajectories": ["metrics"],
    "analysis": ["metrics"],
    "base": ["core"],
    "functional": ["metrics", "trajectories"],
    "integrations": ["metrics", "distributed"],
    "report": ["trajectories", "analysis"],
    "cli": ["report"],
    "__main__": [],
}

#: A room of a wing may import these rooms of its wing, and what those may. A folder of a wing is a
#: room; the files beside the folders are one, named as the wing.
ROOMS: dict[str, list[str]] = {
    "core": [],
    "core.queries": ["core"],
    "core.backends": ["core.queries"],
    "core.means": ["core.queries"],
    "core.display": ["core.queries"],
    "core.ranking": ["core.backends"],
    "core.scoring": ["core.ranking"],
    "core.distribution": ["core.ranking"],
    "core.results": ["core.means", "core.display"],
    "core.base": ["core.scoring", "core.distribution", "core.results"],
    "report.files": [],
    "report.engines": ["report.files"],
    "report": ["report.files", "report.engines"],
}

#: Imported inside of a function: a backend when it is chosen, the command line when it is called,
#: and the families of a preset by the preset.
LATE = {"core.backends": {"core.backends.cuda"}, "cli.__main__": {"cli.commands"}}
LATE["metrics.presets"] = {
    f"metrics.{name}" for name in ("click_through", "confidence", "exposure", "probabilities")
}

#: These import inside of functions what they need, so that `--help` needs no PyTorch.
COMMANDS = {"cli.commands", "cli.options"}

#: The table of contents: the package hands its names on when the first of them is asked for.
CONTENTS = {"__init__"}


def name_of(path: Path) -> str:
    """The name of a module within the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {name_of(path): path for path in SOURCE.rglob("*.py")}


def imports(node: ast.AST, late: bool = False) -> Iterator[tuple[str, bool]]:
    """Modules of ours that are imported, for types only too, and whether inside of a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        names: list[str] = []
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        if isinstance(child, ast.ImportFrom):
            inside = [f"{child.module}.{alias.name}" for alias in child.names]
            names = [one if one.removeprefix(f"{PACKAGE}.") in MODULES else str(child.module)
                     for one in inside]  # fmt: skip
        for name in names:
            if name.startswith(f"{PACKAGE}."):  # the package itself has the version alone
                yield name.removeprefix(f"{PACKAGE}."), late
        yield from imports(child, late or isinstance(child, ast.FunctionDef))


@cache
def tree_of(module: str) -> ast.Module:
    """What a module's text is parsed to."""
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imported(module: str) -> dict[str, bool]:
    """What a module imports of ours, and whether only inside of functions."""
    found: dict[str, bool] = {}
    for name, is_late in imports(tree_of(module)):
        found[name] = found.get(name, True) and is_late
    return found


def wing_of(module: str) -> str:
    """The folder or the file of the package in which a module is."""
    return module.split(".")[0]


def room_of(module: str) -> str:
    """The folder of a wing in which a module is, or its wing."""
    room = ".".join(module.split(".")[:2])
    return room if room in ROOMS else wing_of(module)


def below(room: str, table: dict[str, list[str]]) -> set[str]:
    """The wings, or the rooms, that one may import."""
    return {room}.union(*(below(other, table) for other in table.get(room, [])))


def may_import(module: str, other: str) -> bool:
    """Whether an import is that of a wing below, or of a room below in the same wing."""
    if wing_of(module) == wing_of(other):
        return room_of(other) in below(room_of(module), ROOMS)
    return wing_of(other) in below(wing_of(module), WINGS)


def test_the_tables_have_every_wing_and_room() -> None:
    """The folders and files of the package are the wings, folders of wings the rooms."""
    assert {wing_of(name) for name in MODULES} - CONTENTS == set(WINGS)
    folders = {path.parent.relative_to(SOURCE).parts for path in MODULES.values()}
    assert {".".join(parts) for parts in folders if len(parts) == 2} == {
        x for x in ROOMS if "." in x
    }
    assert max(map(len, folders)) == 2
    assert imported("core.base.collection").keys() >= {
        "core.base.plan",
        "core.display.table",
    }


def test_arrows_run_down() -> None:
    """No module imports from above or beside its wing and room, or in a circle, and few late."""
    files = {module: set(imported(module)) for module in MODULES.keys() - CONTENTS}
    TopologicalSorter(files).prepare()
    wrong = []
    for module in sorted(MODULES.keys() - CONTENTS):
        outside = sorted(other for other in imported(module) if not may_import(module, other))
        if outside:
            wrong.append(f"{module} imports {outside}")
        late = {name for name, is_late in imported(module).items() if is_late}
        if late != LATE.get(module, set()) and module not in COMMANDS:
            wrong.append(f"{module} imports {sorted(late)} inside of functions")
    assert not wrong, "\n".join(wrong)


def test_every_public_method_has_a_docstring_or_inherits_one() -> None:
    """An override says nothing twice; what overrides nothing of ours is described."""
    silent, read = [], 0
    for module in sorted(MODULES.keys() - {"__main__"}):
        with suppress(ModuleNotFoundError):  # of an engine that is not installed
            classes = vars(import_module(f"{PACKAGE}.{module}".removesuffix(".__init__")))
            own = [x for x in classes.values() if isinstance(x, type) and PACKAGE in x.__module__]
            read += len(own)
            silent += [
                f"{cls.__module__}.{cls.__qualname__}.{name}"
                for cls in own
                if not cls.__name__.startswith("_")
                for name, method in vars(cls).items()
                if not name.startswith("_")
                and (isroutine(method) or isinstance(method, property))
                and not any(getattr(vars(x).get(name), "__doc__", None) for x in cls.__mro__)
            ]
    assert not silent, "\n".join(silent)
    assert read > 200
