"""How often the command opens a file: each time it may be fetched, unpacked and parsed again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("click")

pytestmark = pytest.mark.extra  # starts processes that import PyTorch, each call of which is traced

WRITERS: dict[str, Callable[..., None]] = {
    ".parquet": lambda frame, path: frame.to_parquet(path),
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
}
ROWS = 1000


@pytest.fixture(scope="module")
def strace() -> list[str]:
    """The words before a command whose calls of `openat` are printed, or a skip."""
    words = ["strace", "-f", "-qq", "-e", "trace=openat"]
    if shutil.which("strace") is None:
        pytest.skip("needs strace: `apt-get install strace`")
    tried = subprocess.run([*words, "true"], capture_output=True, encoding="utf-8", check=False)
    if tried.returncode:
        pytest.skip(f"strace may trace no process here: {tried.stderr.strip()}")
    return words


@pytest.mark.parametrize(("kind", "most"), [(".parquet", 2), (".csv", 2), (".jsonl", 2)])
def test_score_opens_a_file_at_most_twice(
    kind: str, most: int, strace: list[str], tmp_path: Path
) -> None:
    """Once to see what it holds, and once to read it."""
    generator = np.random.default_rng(0)
    lists = generator.integers(0, 50, (ROWS, 10)).tolist()
    frame = pd.DataFrame({"preds": lists, "target": generator.integers(0, 50, ROWS)})
    file, trace = tmp_path / f"lists{kind}", tmp_path / "trace"
    WRITERS[kind](frame, file)
    score = [sys.executable, "-m", "nextloc_metrics", "score", str(file)]
    subprocess.run([*strace, "-o", str(trace), *score], check=True, stdout=subprocess.DEVNULL)
    calls = trace.read_text(encoding="utf-8", errors="replace").splitlines()
    opened = [call for call in calls if "openat(" in call and f'"{file}"' in call]
    assert 1 <= len(opened) <= most, f"{file.name} is opened {len(opened)} times, at most {most}"
