"""Run the code of a README, and compare what it prints with the text below it.

Blocks of Python run one after the other, and so do commands that begin with `printf`. What needs a
package that is not installed is named and left out.

    python tools/readme.py README.md
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"```(python|bash)\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


def run(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the names that the blocks define, and the packages that some of them lacked."""
    names: dict[str, Any] = {}
    lacking = []
    for kind, code, shown in BLOCK.findall(path.read_text("utf-8")):
        printed = StringIO()
        try:
            if kind == "python":
                with redirect_stdout(printed):
                    exec(compile(code, path.name, "exec"), names)
            elif code.startswith("printf"):
                __import__("click")
                printed.write(_in_shell(code))
        except ModuleNotFoundError as error:
            lacking.append(str(error.name))
            continue
        if printed.getvalue() != shown:
            raise AssertionError(f"{code}\nprints\n{printed.getvalue()}\nand not\n{shown}")
    return names, lacking


def _in_shell(code: str) -> str:
    command = code.replace("nextloc-metrics", f"'{sys.executable}' -m nextloc_metrics")
    with tempfile.TemporaryDirectory() as folder:
        found = subprocess.run(
            ["bash", "-ec", command], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
        )
    return found.stdout


if __name__ == "__main__":
    _, left_out = run(Path(sys.argv[1]))
    print("the README prints what it shows", *(f"without {x}" for x in left_out))
