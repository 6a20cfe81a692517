"""Fields of dataclasses with their documentation, for `help`, pages and the command line."""

from __future__ import annotations

from dataclasses import MISSING, field, fields
from textwrap import fill
from typing import Any, TypeVar

Described = TypeVar("Described")


def described(text: str, default: Any = MISSING) -> Any:
    """Return a field with its documentation, of which the shell shows the first sentence."""
    return field(default=default, metadata={"text": text})


def with_field_texts(cls: type[Described]) -> type[Described]:
    """Add the documentation of all fields to that of their class."""
    texts = {x.name: x.metadata["text"] for x in fields(cls)}  # type: ignore[arg-type]
    lines = [
        fill(
            f"{name}: {text[0].lower()}{text[1:]}",
            96,
            initial_indent=" " * 8,
            subsequent_indent=" " * 12,
        )
        for name, text in texts.items()
    ]
    start, *rest = (cls.__doc__ or "").rstrip().partition("\n\n    Raises:")
    cls.__doc__ = "\n".join([start, "", "    Args:", *lines]) + "".join(rest)
    return cls


def help_of(cls: Any) -> dict[str, str]:
    """Return the first sentence on each field, for a shell."""
    texts = {x.name: x.metadata["text"].replace("`", "") for x in fields(cls)}
    return {name: text.partition(". ")[0].rstrip(".") for name, text in texts.items()}
