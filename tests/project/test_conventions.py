"""The page that compares conventions has the values that its script computes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torchmetrics
from packaging.version import Version

DROPS = Version("1.7.4") <= Version(torchmetrics.__version__) <= Version("1.9.0")


@pytest.mark.skipif(not DROPS, reason="the logarithms are of torchmetrics 1.7.4 to 1.9.0")
def test_the_page_has_the_tables_that_its_script_computes(repository: Path) -> None:
    """Every table of coming-from.md holds computed values."""
    for peer in ("ranx", "torch_geometric"):
        if importlib.util.find_spec(peer) is None:
            pytest.skip(f"the comparison needs {peer}")
    ran = subprocess.run(
        [sys.executable, str(repository / "docs/conventions.py"), "--check"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
