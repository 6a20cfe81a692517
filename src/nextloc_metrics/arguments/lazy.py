"""Packages that import their names when the first of them is asked for (PEP 562).

So a command answers `--help` without PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def hand_on(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names are those of its `contents`.

    A submodule is imported by itself, so that modules of the package can import it from there;
    any other name imports all contents.
    """
    module = sys.modules[package]

    def names() -> list[str]:
        return sorted(x for x in vars(import_module(f"{package}.contents")) if x[0] != "_")

    def get(name: str) -> Any:
        if name == "__all__":
            return names()
        if not name.startswith("_"):
            if find_spec(f"{package}.{name}") is not None:
                return import_module(f"{package}.{name}")
            if name in names():
                value = getattr(sys.modules[f"{package}.contents"], name)
                setattr(module, name, value)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({"__all__", *names(), *vars(module)})
