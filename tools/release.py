"""Write the version, its date and the address of the repository wherever they stand.

`python tools/release.py 0.4.0 --date 2026-12-01 --address https://github.com/OWNER/nextloc-metrics`;
then commit, and push the tag v0.4.0: `.github/workflows/publish.yml` does the rest.
tests/project/test_release.py holds that all places agree.
"""

from __future__ import annotations

import argparse
import re
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]

# file, what stands before the version
VERSIONS = {
    "pyproject.toml": r'^version = "',
    "src/nextloc_metrics/core/version.py": r'^__version__ = "',
    "CITATION.cff": r"^version: ",
    "codemeta.json": r'"version": "',
    ".zenodo.json": r'"version": "',
    "recipe/recipe.yaml": r"^  version: ",
    "docs/project.md": r"Version ",
}
ADDRESSES = ["pyproject.toml", "codemeta.json", "recipe/recipe.yaml", "README.md"]


def main() -> None:
    """Change the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--date", type=date.fromisoformat, default=date.today())
    parser.add_argument("--address", help="of the repository, without a slash at its end")
    options = parser.parse_args()
    for name, before in VERSIONS.items():
        change(name, rf"({before})[0-9.]+", rf"\g<1>{options.version}")
    change("CITATION.cff", r"^(date-released: ).*", rf"\g<1>{options.date}")
    change("CHANGELOG.md", r"^## \[Unreleased\]", f"## [{options.version}] - {options.date}")
    if options.address:
        text = (ROOT / "pyproject.toml").read_text("utf-8")
        old = re.search(r'^Repository = "(.*)"', text, re.MULTILINE)
        for name in ADDRESSES if old else ():
            change(name, re.escape(old[1]), options.address)


def change(name: str, pattern: str, new: str) -> None:
    """Replace what a pattern finds in a file; finding nothing is an error."""
    path = ROOT / name
    text, number = re.subn(pattern, new, path.read_text("utf-8"), flags=re.MULTILINE)
    if not number:
        raise SystemExit(f"{name} must have a line that matches {pattern!r}.")
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
