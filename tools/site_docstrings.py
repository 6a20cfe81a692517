"""How the site reads docstrings: a Griffe extension."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(\s*)Example:$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Read `Example:` as the section that Griffe calls `Examples:`, and keyword arguments."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"\1Examples:", obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Keyword arguments that are passed on have no default worth showing."""
        for parameter in func.parameters:
            if parameter.kind is griffe.ParameterKind.var_keyword:
                parameter.default = None
