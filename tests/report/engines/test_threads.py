"""Which threads an evaluation of files uses: one, and afterwards as many as before."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import threads_allowed
from nextloc_metrics import report
from nextloc_metrics.report.engines import partition
from nextloc_metrics.report.engines.processes import run

ROWS = {"preds": [[7, 3], [5, 7]], "target": [3, 5]}


def threads(_: Any) -> int:
    """The number of threads that a process may use."""
    return torch.get_num_threads()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of threads whenever a batch is counted."""
    found: list[int] = []
    update = report.Evaluator.update

    def spy(evaluator: report.Evaluator, batch: Any) -> None:
        found.append(torch.get_num_threads())
        update(evaluator, batch)

    monkeypatch.setattr(report.Evaluator, "update", spy)
    return found


def test_tables_are_counted_on_one_thread(seen: list[int]) -> None:
    """Those in memory and those of a cluster; an error restores the number too."""
    pa = pytest.importorskip("pyarrow")
    with threads_allowed(3):
        report.evaluate(pa.table(ROWS), k=1)
        assert (seen, torch.get_num_threads()) == ([1], 3)
        with pytest.raises(ValueError, match="must"):
            report.evaluate(pa.table(ROWS | {"target": [3, -5]}), k=1)
        assert torch.get_num_threads() == 3
        part = partition.guard_count(pa.table(ROWS), lambda _: bytes([threads(None)]))
        assert partition.open_part(part) == b"\1"
        assert torch.get_num_threads() == 3


@pytest.mark.parametrize("name", ["lists.csv", "lists.run"])
def test_a_command_uses_one_thread(name: str, seen: list[int], tmp_path: Path) -> None:
    """For files of any kind."""
    pytest.importorskip("click")
    pytest.importorskip("pyarrow")
    from click.testing import CliRunner

    from command import main

    path, judged = tmp_path / name, tmp_path / "qrels"
    written = "q Q0 7 1 2.0 me\n" if ".run" in name else 'preds,target\n"[7, 3]",3\n'
    path.write_text(written, "utf-8")
    judged.write_text("q 0 7 1\n", "utf-8")
    words = ["score", str(path), *(["--target", str(judged)] if ".run" in name else [])]
    with threads_allowed(3):
        shown = CliRunner().invoke(main, [*words, "--k", "1"], catch_exceptions=False)
    assert (shown.exit_code, seen) == (0, [1]), shown.output


@pytest.mark.slow  # starts two processes
def test_each_worker_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says."""
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert run(partial(threads), [1, 2], 2) == [1, 1]
