"""What the site adds to docs: formulas as MathML, and pages for examples and the changelog."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
SESSION = re.compile(r"^(`{3,})python\n(?=>>> )", re.MULTILINE)
ENTRIES = re.compile(r"^::: ([\w.]+)\.\{(.+)\}$", re.MULTILINE)
OUTSIDE = re.compile(r"\]\(((?:\.\./)+)(examples/\w+\.(?:py|ipynb)|CHANGELOG\.md)")


def on_files(files: Any, config: Any) -> Any:
    """Add a page for every example and for the changelog."""
    from mkdocs.structure.files import File

    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    pages = {"changelog.md": changelog.replace("](docs/", "](")}
    for path in sorted((ROOT / "examples").glob("*.py")):
        pages[page_of(f"examples/{path.name}")] = (
            f"# {path.name}\n\n{fenced(path.read_text(encoding='utf-8'))}"
        )
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        pages[page_of(f"examples/{path.name}")] = notebook_page(path)
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Mark sessions as `pycon`, lead links to files outside docs to their pages, write out entries.

    A `pycon` block is copied without prompts and results. `::: module.{A, B}` are two entries.
    """
    markdown = ENTRIES.sub(
        lambda found: "\n".join(f"::: {found[1]}.{name}" for name in found[2].split(", ")), markdown
    )
    markdown = SESSION.sub(r"\1pycon\n", markdown)
    return OUTSIDE.sub(lambda link: f"]({link[1][3:]}{page_of(link[2])}", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Write formulas as MathML, which browsers draw without a script."""
    return FORMULA.sub(mathml, html)


def page_of(path: str) -> str:
    """Return the page of a file outside docs."""
    if path == "CHANGELOG.md":
        return "changelog.md"
    return path.replace(".ipynb", "_notebook.md").replace(".py", ".md")


def notebook_page(path: Path) -> str:
    """Write the cells of a notebook as Markdown."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    return "\n\n".join(fenced(text) if kind == "code" else text for kind, text in sources)


def fenced(code: str) -> str:
    """Put Python between fences of four backticks, which the code does not contain."""
    return f"````python\n{code.rstrip()}\n````\n"


def mathml(formula: re.Match[str]) -> str:
    """Convert one formula."""
    from html import unescape

    from latex2mathml.converter import convert

    if formula[1] == "span":
        return str(convert(unescape(formula[2])))
    return f'<div class="formula">{convert(unescape(formula[2]), display="block")}</div>'
