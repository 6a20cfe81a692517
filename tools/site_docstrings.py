"""A Griffe extension: how the site reads docstrings and signatures."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from typing import Any, get_type_hints

import griffe

from nextloc_metrics.base import RecordMetric

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
        """Remove the default of `**kwargs`, which is `{}`."""
        for parameter in func.parameters:
            if parameter.kind is griffe.ParameterKind.var_keyword:
                parameter.default = None

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Read these dataclasses as plain classes, whose constructors are not shown."""
        if cls.name in MADE_BY_THE_LIBRARY:
            cls.decorators.clear()
            cls.labels.discard("dataclass")

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Show the constructor that a metric has by its annotations: by position, and its own."""
        made = getattr(import_module(cls.module.path), cls.name, None)
        if any("text" in x.metadata for x in _fields(made)):
            _show_fields(cls, made)
            return
        if not isinstance(made, type) or not issubclass(made, RecordMetric):
            return
        written = inspect.unwrap(made.__init__).__code__.co_filename
        if made is not RecordMetric and not written.endswith("annotated_options.py"):
            return
        kinds, hints = griffe.ParameterKind, get_type_hints(made)
        parameters = [griffe.Parameter("self", kind=kinds.positional_or_keyword)]
        for name, option in made._all_options.items():
            if option.kind is option.KEYWORD_ONLY and name not in made._own_options:
                continue
            parameters.append(
                griffe.Parameter(
                    name,
                    annotation=inspect.formatannotation(hints.get(name, Any)),
                    kind=kinds[option.kind.name.lower()],
                    default=None if option.default is inspect._empty else repr(option.default),
                )
            )
        last = "options" if " options: " in (made.__doc__ or "") else "kwargs"
        parameters.append(griffe.Parameter(last, annotation="Any", kind=kinds.var_keyword))
        cls.set_member(
            "__init__", griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
        )


def _fields(made: Any) -> tuple[Any, ...]:
    return fields(made) if is_dataclass(made) else ()


def _show_fields(cls: griffe.Class, made: Any) -> None:
    """Give a class the docstring and the constructor that its described fields have made."""
    cls.docstring = griffe.Docstring(
        EXAMPLE.sub(r"\1Examples:", inspect.getdoc(made) or ""), parent=cls
    )
    kind = griffe.ParameterKind.positional_or_keyword
    parameters = [griffe.Parameter("self", kind=kind)]
    parameters += [
        griffe.Parameter(
            x.name,
            annotation=str(x.type),
            kind=kind,
            default=None if x.default is MISSING else repr(x.default),
        )
        for x in _fields(made)
    ]
    cls.labels.discard("dataclass")
    cls.decorators.clear()
    cls.set_member(
        "__init__", griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
    )
