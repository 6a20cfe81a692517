"""Packages that import each of their names when it is asked for (PEP 562).

So a command answers `--help` without PyTorch, and a metric does not load what it does not need.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import get_data
from typing import Any

from nextloc_metrics.core.suggestions import nearest


@cache
def places_of(package: str) -> dict[str, str]:
    """Return the module of each name of a package, as its `__init__.pyi` imports it."""
    try:
        tree = ast.parse(get_data(package, "__init__.pyi") or b"")
    except FileNotFoundError:
        return {}
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {x.asname or x.name: node.module or "" for node in imports for x in node.names}


def _names_from(package: str) -> list[str]:
    """Return the names of a package's subpackages, as `room.name`, and then its own names."""
    places = places_of(package)
    names = []
    for room in (name for name, place in places.items() if place == package):
        spec = find_spec(f"{package}.{room}")
        if spec is not None and spec.submodule_search_locations is not None:
            names += [f"{room}.{name}" for name in places_of(f"{package}.{room}")]
    return [*names, *places]


def import_when_asked(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names are those of its `__init__.pyi`.

    Asking for a name imports its module. A name may also be that of any submodule, so that modules
    of the package can import it.
    """
    module = sys.modules[package]

    def names() -> list[str]:
        return sorted(places_of(package))

    def get(name: str) -> Any:
        if name == "__all__":
            return names()
        if not name.startswith("_"):
            place = places_of(package).get(name, package)
            if place == package and find_spec(f"{package}.{name}") is None:
                near = nearest(name, _names_from(package))
                hint = f"; did you mean `{near}`?" if near else ""
                raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
            content = vars(import_module(place))
            value = content[name] if name in content else import_module(f"{place}.{name}")
            setattr(module, name, value)
            return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({"__all__", *names(), *vars(module)})
