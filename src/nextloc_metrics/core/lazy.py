"""Packages that import each of their names when it is asked for (PEP 562).

So a command answers `--help` without PyTorch, and a metric does not load what it does not need.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import get_data
from typing import Any

from nextloc_metrics.core.suggestions import METRICS


@cache
def places_of(package: str) -> dict[str, str]:
    """Return the module of each name of a package, as its `__init__.pyi` imports it."""
    try:
        tree = ast.parse(get_data(package, "__init__.pyi") or b"")
    except FileNotFoundError:
        return {}
    found = [x for x in tree.body if isinstance(x, ast.ImportFrom)]
    return {one.asname or one.name: x.module or "" for x in found for one in x.names}


def _nearest(package: str, name: str) -> list[str]:
    """Return up to three names of a package and its packages that begin so, or the most similar."""
    places = places_of(package)
    known: dict[str, str] = {}
    for of in (x for x, place in places.items() if place == package):
        spec = find_spec(f"{package}.{of}")
        if spec is not None and spec.submodule_search_locations is not None:
            known |= {x.lower(): f"{of}.{x}" for x in places_of(f"{package}.{of}")}
    known |= {x.lower(): x for x in places}
    asked = name.lower()
    if METRICS.get(asked, "").split("(")[0] in places:
        return [f"`{METRICS[asked]}`"]
    begin = sorted((x for x in known if x.startswith(asked)), key=len)
    near = [asked] if asked in known else begin or get_close_matches(asked, known, 3, 0.8)
    return [f"`{known[x]}`" for x in near[:3]]


def _hint(package: str, name: str) -> str:
    """Return what an error about an unknown name adds: the names that may be meant."""
    near = _nearest(package, name)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def import_when_asked(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names are those of its `__init__.pyi`.

    A name imports its module; any submodule is imported too, so that modules of the package can
    import it from there.
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
                raise AttributeError(
                    f"module {package!r} has no attribute {name!r}{_hint(package, name)}"
                )
            found = vars(import_module(place))
            value = found[name] if name in found else import_module(f"{place}.{name}")
            setattr(module, name, value)
            return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({"__all__", *names(), *vars(module)})
