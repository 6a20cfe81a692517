"""Files that are written: whole or not at all, whatever stands at their path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from inner import new_file, write_groups_of
from nextloc_metrics import MRR, plotting, report
from nextloc_metrics.integrations.libcity import ExactEvaluator

GROUPS = {"user": [f"user {number}" for number in range(400)]}


def evaluation() -> report.Evaluation:
    """Four hundred queries of as many users."""
    return report.evaluate([[3, 5]] * 400, [3] * 400, k=1, groups=GROUPS)


def save_result(path: Path) -> None:
    """Write as LibCity does."""
    config = {"metrics": ["MRR"], "topk": 5, "evaluate_method": "popularity"}
    evaluator = ExactEvaluator(config)
    evaluator.collection.update(torch.tensor([[0.2, 0.8]]), torch.tensor([1]))
    evaluator.save_result(str(path.parent), path.stem)


#: all that writes a file, by the ending of its name
WRITERS: dict[str, Callable[[Path], Any]] = {
    ".npz": lambda path: evaluation().save(path, force=True),
    ".csv": lambda path: write_groups_of(evaluation(), path, force=True),
    ".parquet": lambda path: write_groups_of(evaluation(), path, force=True),
    ".png": lambda path: plotting.save(MRR().plot(0.5)[0], path),
    ".json": save_result,
}


def write_half(error: type[BaseException], *given: Any) -> None:
    """Write a part of a file, and fail."""
    with new_file(*given, text=True) as file:
        file.write("half of ")
        file.flush()
        raise error


@pytest.mark.parametrize("ending", WRITERS)
def test_a_link_is_not_followed_and_the_file_is_replaced(ending: str, tmp_path: Path) -> None:
    """Every writer leaves what a link names, and makes a new file with the usual permissions."""
    pytest.importorskip({".parquet": "pyarrow", ".png": "matplotlib"}.get(ending, "numpy"))
    path, victim = tmp_path / f"out{ending}", tmp_path / "victim"
    for exists in (True, False):
        if exists:
            victim.write_text("precious", "utf-8")
        else:
            victim.unlink()
        path.symlink_to(victim)
        with pytest.raises(FileExistsError, match=r"out.* must be a file or new, and is a link"):
            WRITERS[ending](path)
        path.unlink()
        assert not victim.exists() or victim.read_text("utf-8") == "precious"
    path.write_text("old", "utf-8")
    path.chmod(0o600)
    before = path.stat().st_ino
    usual = tmp_path / "usual"
    usual.touch()
    WRITERS[ending](path)
    assert path.stat().st_ino != before
    assert path.stat().st_mode == usual.stat().st_mode
    assert not [x for x in tmp_path.iterdir() if x.suffix == ".part"]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt, SystemExit])
def test_an_error_or_interruption_leaves_what_was_there(
    error: type[BaseException], tmp_path: Path
) -> None:
    """The old file, or none; and nothing else in the folder."""
    path = tmp_path / "page.html"
    with pytest.raises(error):
        write_half(error, path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old", "utf-8")
    with pytest.raises(error):
        write_half(error, path)
    assert [x.read_text("utf-8") for x in tmp_path.iterdir()] == ["old"]


def test_a_file_of_groups_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without pyarrow the error names the extra, and no file is made."""
    found = evaluation()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="need pyarrow; install the extra `cli`"):
        write_groups_of(found, tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())


def test_a_file_that_appears_while_another_is_written_is_kept(tmp_path: Path) -> None:
    """Without `force`; a folder or a device is kept with it, too."""
    path = tmp_path / "page.html"
    with pytest.raises(FileExistsError, match="overwrite it"), new_file(path, force=False):
        path.write_text("other", "utf-8")
    assert [x.read_text("utf-8") for x in tmp_path.iterdir()] == ["other"]
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, kind in (("folder", "a folder"), ("pipe", "a device")):
        with pytest.raises(FileExistsError, match=kind), new_file(tmp_path / name):
            pass


def test_errors_of_the_system_name_the_file(tmp_path: Path) -> None:
    """Not the file that was to be renamed."""
    with pytest.raises(FileNotFoundError) as found, new_file(tmp_path / "none" / "page.html"):
        pass
    assert str(tmp_path / "none" / "page.html") in str(found.value)
    assert ".part" not in str(found.value)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".html", ".npz", ".csv", ".parquet"])
def test_a_full_disk_leaves_the_old_file(ending: str, tmp_path: Path) -> None:
    """Of the command line, where files may not be larger than 4 kB."""
    pytest.importorskip("click")
    resource = pytest.importorskip("resource")
    lists = tmp_path / "lists.csv"
    rows = [f'"[1, 2]",2,user {number}' for number in range(2000)]
    lists.write_text("\n".join(["preds,target,user", *rows, ""]), encoding="utf-8")
    out = tmp_path / f"out{ending}"
    out.write_text("old", "utf-8")
    option = {".html": "--out", ".npz": "--save"}.get(ending, "--group-table")
    words = ["score", str(lists), "--group", "user", "--k", "1", option, str(out), "--force"]
    found = subprocess.run(
        [sys.executable, "-B", "-m", "nextloc_metrics", *words],  # no cut bytecode stays
        capture_output=True,
        encoding="utf-8",
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert (found.returncode, out.read_text("utf-8")) == (1, "old"), found.stderr
    assert found.stderr.splitlines()[-1] == f"Error: [Errno 27] File too large: '{out}'"
    assert {x.name for x in tmp_path.iterdir()} == {"lists.csv", out.name}


@pytest.mark.slow
def test_two_processes_that_save_to_one_path_leave_one_whole_file(tmp_path: Path) -> None:
    """Both succeed each time, and a reader finds a whole file at any time."""
    path = tmp_path / "counts.npz"
    code = (
        "import sys; from nextloc_metrics import report\n"
        "e = report.evaluate([[3, 5]] * int(sys.argv[2]), [3] * int(sys.argv[2]), k=1)\n"
        "for _ in range(40): e.save(sys.argv[1], force=True)\n"
    )
    evaluation().save(path)
    both = [subprocess.Popen([sys.executable, "-c", code, path, size]) for size in ("1000", "2000")]
    while any(process.poll() is None for process in both):
        assert report.merge([path]).card["queries"] in (400, 1000, 2000)
    assert [process.returncode for process in both] == [0, 0]
    assert [x.name for x in tmp_path.iterdir()] == ["counts.npz"]
