"""A Griffe extension: how the site reads docstrings and signatures."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(\s*)Example:$", re.MULTILINE)

# Classes that the library makes: their constructors are not for users.
MADE_BY_THE_LIBRARY = {"Ranking", "TopCandidates"}


class Docstrings(griffe.Extension):
    """Rename `Example:` to Griffe's `Examples:`; leave out what no user passes."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"\1Examples:", obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Remove the default of `**kwargs`, which Griffe shows as `{}`."""
        for parameter in func.parameters:
            if parameter.kind is griffe.ParameterKind.var_keyword:
                parameter.default = None

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Read these dataclasses as plain classes, whose constructors are not shown."""
        if cls.name in MADE_BY_THE_LIBRARY:
            cls.decorators.clear()
            cls.labels.discard("dataclass")
