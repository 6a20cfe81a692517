"""The code of the pages of the documentation, for tests that run it."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any


def defined_on(page: Path) -> dict[str, Any]:
    """The names that the examples of a page import and define."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8")):
        if example.source.startswith(("def ", "from ", "import ")):
            exec(example.source, names)
    return names
