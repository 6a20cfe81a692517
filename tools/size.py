"""Count what a reader of the project has to read.

`python tools/size.py` prints each count, and fails if `src` has over 3 % more lines than
`[tool.size]` says, or if a module imports what the map of `tests/project/test_imports.py` forbids.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from inspect import signature
from pathlib import Path
from runpy import run_path
from types import ModuleType

import tomllib

import nextloc_metrics
from nextloc_metrics import report

ROOT = Path(__file__).parents[1]
ROOM = 1.03  #: `src` may be so many times as long as `[tool.size]` says
PACKAGE = ROOT / "src" / "nextloc_metrics"
SOURCES = {".py", ".pyi", ".c", ".h", ".html", ".css", ".js", ".jinja"}


def files_of(folder: Path, endings: Iterable[str]) -> list[Path]:
    """Return the files below a folder that have one of the endings."""
    return [path for path in sorted(folder.rglob("*")) if path.suffix in endings]


def lines_of(paths: Iterable[Path]) -> int:
    """Return the number of lines of files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def names_of(module: ModuleType) -> set[str]:
    """Return the public names of a module: those of `__all__`, or what it and its files define."""
    defined = {
        name
        for name, value in vars(module).items()
        if str(getattr(value, "__module__", "")).startswith(module.__name__)
    }
    return {name for name in getattr(module, "__all__", defined) if not name.startswith("_")}


def doors(module: ModuleType, seen: set[str]) -> Iterator[ModuleType]:
    """Yield a module and, once each, the modules of ours that its public names lead to."""
    seen.add(module.__name__)
    yield module
    for name in sorted(names_of(module)):
        value = getattr(module, name)
        if isinstance(value, ModuleType) and value.__name__ not in seen:
            yield from doors(value, seen)


def room_of(path: Path) -> str:
    """Return the room of a module: its folder, or the package itself."""
    return ".".join(path.relative_to(PACKAGE).parent.parts)


def arrows() -> set[tuple[str, str]]:
    """Return the pairs of different rooms of which the first imports a module of the second."""
    rooms = {
        "nextloc_metrics." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts): room_of(
            path
        )
        for path in files_of(PACKAGE, {".py"})
    }
    rooms |= {name.removesuffix(".__init__"): room for name, room in rooms.items()}
    found = set()
    for path in files_of(PACKAGE, {".py"}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in rooms:
                imported = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {(room_of(path), rooms.get(one, rooms[node.module])) for one in imported}
    return {(one, other) for one, other in found if one != other}


def help_of(command: str) -> str:
    """Return what the command line prints as the help of a command."""
    words = [sys.executable, "-m", "nextloc_metrics", command, "--help"]
    return subprocess.run(words, capture_output=True, check=True, encoding="utf-8").stdout


def counts() -> dict[str, int]:
    """Return each count by its name in `[tool.size]`."""
    pages = files_of(ROOT / "docs", {".md"})
    public = {module.__name__: names_of(module) for module in doors(nextloc_metrics, set())}
    return {
        "src": lines_of(files_of(PACKAGE, SOURCES)),
        "c": lines_of(files_of(PACKAGE, {".c", ".h"})),
        "tests": lines_of(files_of(ROOT / "tests", {".py"})),
        "top-names": len(public["nextloc_metrics"]),
        "names": sum(len(x) for module, x in public.items() if not module.endswith("functional")),
        "options-of-evaluate": len(signature(report.evaluate).parameters),
        "options-of-compare": len(signature(report.compare).parameters),
        "options-of-score": len(re.findall(r"^  -", help_of("score"), re.MULTILINE)),
        "rooms": len({room_of(path) for path in files_of(PACKAGE, {".py"})}),
        "arrows": len(arrows()),
        "pages": len(pages),
        "words": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
    }


def main() -> int:
    """Print the counts, and return 1 if `src` has more lines than it may."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    most = round(settings["tool"]["size"]["src"] * ROOM)
    run_path(str(ROOT / "tests" / "project" / "test_imports.py"))["test_arrows_run_down"]()
    numbers = counts()
    for name, count in numbers.items():
        print(f"{name:20} {count:7,}" + (f" of {most:7,}" if name == "src" else ""))
    if numbers["src"] <= most:
        return 0
    print(f"`src` must have at most {most:,} lines; remove code, or raise `src` in pyproject.toml")
    return 1


if __name__ == "__main__":
    sys.exit(main())
