"""A backend that would count wrong is disabled at its first use, and `reference` replaces it."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch import Tensor

from nextloc_metrics import AccuracyAtK, Ranking, backends, next_location_metrics
from nextloc_metrics.core.backends import cpu, proof

NEEDS_C = pytest.mark.skipif(bool(backends.available()["cpu"]), reason="needs the backend in C")


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "disabled", {})


def use(monkeypatch: pytest.MonkeyPatch, backend: backends.Reference) -> None:
    """Let a backend be tried before `reference`."""
    monkeypatch.setattr(backends, "_chosen", [backend, backends.Reference()])


def values_of_a_batch() -> dict[str, Tensor]:
    """Update a collection with scores that have ties and a NaN."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 9, (40, 30), generator=generator).float()
    scores[3, 4] = torch.nan
    metrics = next_location_metrics(30, k=(1, 5))
    metrics.update(scores, torch.arange(40) % 30)
    return metrics.compute()


def check_disabled(monkeypatch: pytest.MonkeyPatch, backend: backends.Reference, says: str) -> None:
    """There is one warning, and values are those of `reference`."""
    use(monkeypatch, backends.Reference())
    expected = values_of_a_batch()
    use(monkeypatch, backend)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert values_of_a_batch() == expected
        monkeypatch.setattr(proof, "_difference", lambda *_: pytest.fail("checked twice"))
        assert values_of_a_batch() == expected
    [warning] = caught
    where = f"on {platform.system()} {platform.machine()}. It is disabled in this process"
    for text in (f"the backend {backend.name!r} {says}", where, "NEXTLOC_BACKEND=reference"):
        assert text in str(warning.message)
    assert str(backends.available()[backend.name]).startswith(says)
    with pytest.raises(ModuleNotFoundError, match=f"{backend.name!r} {says[:7]}"):
        backends.use(backend.name)


class Wrong(backends.Reference):
    """A backend that reads other scores than it is given."""

    name = "cpu"
    is_proven = False

    def __init__(self, change: Callable[[Tensor], Tensor] = lambda scores: scores) -> None:
        self.change = change

    def survey(
        self, scores: Tensor, own: Tensor, find_best: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Survey changed scores."""
        return super().survey(self.change(scores), self.change(own), find_best)


@NEEDS_C
def test_a_right_backend_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first use makes the check, whatever PyTorch's defaults are; the second one does not."""
    backend = cpu.Cpu()
    use(monkeypatch, backend)
    assert not backend.is_proven
    with torch.device("meta"), torch.inference_mode():
        assert backends.choose(torch.zeros(1, device="cpu")) is backend
    assert backend.is_proven
    monkeypatch.setattr(proof, "passes", None)
    assert backends.choose(torch.zeros(1)) is backend


@NEEDS_C
@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize(
    ("member", "says"),
    [
        ("survey above", "`survey`"),
        ("survey tied", "`survey`"),
        ("survey best", "`survey`"),
        ("top ids", "`first`"),
        ("find found", "`find`"),
        ("tally sums", "`tally_scores`"),
        ("tally decisions", "`tally_scores`"),
        ("tally_lists sums", "`tally_lists`"),
    ],
)
def test_a_wrong_library_is_disabled(
    member: str, says: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One integer of one function is wrong, perhaps for scores of one width only."""
    name, field = member.split()
    backend, functions = cpu.Cpu(), cpu._load()

    def wrong(parallel: Any, threads: int, number: int, about: Any) -> int:
        answer: int = functions[name](parallel, threads, number, about)
        address = getattr(about._obj, field)  # 0 without a best candidate
        if address and (name in ("find", "tally_lists") or number == width):
            ctypes.c_int64.from_address(address).value += 1
        return answer

    backend._functions = {**functions, name: wrong}
    check_disabled(monkeypatch, backend, f"differs from `reference` in {says}")


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.nan_to_num(-9e4, torch.inf, -torch.inf),
        lambda x: torch.where(x.isnan() & x.signbit(), -9e4, x),
        lambda x: torch.where((x == 0) & x.signbit(), -0.01, x),
        lambda x: x.clamp(max=7.5),
        lambda x: x.clamp(min=-7.5),
        lambda x: x.floor(),
        lambda x: x.abs(),
        lambda x: x.nan_to_num(9e4, 9e4, -9e4) if x.dtype == torch.bfloat16 else x * 0,
    ],
)
def test_each_kind_of_score_is_in_the_batch(
    change: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NaN, -0.0 below 0, infinities, ties and signs."""
    check_disabled(monkeypatch, Wrong(change), "differs from `reference` in `survey` of torch.fl")


@pytest.mark.parametrize(
    "name", ["find", "find_true", "sort", "argsort", "histogram", "tally_lists"]
)
def test_functions_of_integers_are_in_the_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them, one integer off."""
    backend = Wrong()
    right = getattr(backend, name)

    def off(*arguments: Any) -> Any:
        found = right(*arguments)
        return (found[0] + 1, found[1]) if isinstance(found, tuple) else found + 1

    monkeypatch.setattr(backend, name, off, raising=False)
    check_disabled(monkeypatch, backend, f"differs from `reference` in `{name}`")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wrong", ["nothing", "NaN", "above", "tied", "best", "one", "several"])
def test_a_kernel_of_a_device_is_checked(wrong: str, dtype: torch.dtype) -> None:
    """Each count that is off by one is found, also of one target only or of several only."""

    def kernel(scores: Tensor, own: Tensor, find_best: bool) -> tuple[Tensor, Tensor]:
        above, tied, best = backends.Reference().survey(scores, own, find_best)
        counts, width = torch.stack([above, tied]), own.shape[1]
        assert best is not None
        if wrong == "NaN":  # which may count anything, since it is not read
            counts += own.isnan() * 5
        elif wrong == "best":
            best[-1] += 1
        elif wrong != "nothing" and wrong != {1: "several", 3: "one"}[width]:
            counts[int(wrong == "tied")] += ~own.isnan()
        return counts, best

    if wrong in ("nothing", "NaN"):
        proof.check_survey(kernel, torch.device("cpu"), dtype)
    else:
        with pytest.raises(RuntimeError, match="differs from `reference` in torch"):
            proof.check_survey(kernel, torch.device("cpu"), dtype)


def test_a_library_that_cannot_be_loaded_is_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one built for another machine, and one that was not built, of which it warns once."""
    library = tmp_path / "_kernels.so"
    library.write_text("not a library", encoding="utf-8")
    monkeypatch.setattr(cpu, "LIBRARY", library)
    check_disabled(monkeypatch, cpu.Cpu(), "raises OSError")
    library.unlink()
    proof.disabled.clear()
    monkeypatch.setattr(backends, "LIBRARY", library)
    backends.use(None)
    with pytest.warns(UserWarning, match="'cpu' needs a C compiler .* slower") as caught:
        values_of_a_batch()
    assert len(caught) == 1
    assert "needs a C compiler" in str(backends.available()["cpu"])


def test_threads_that_meet_at_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """All get right values, and there is one warning."""
    use(monkeypatch, backends.Reference())
    expected, found = values_of_a_batch(), []
    barrier = threading.Barrier(4)

    def change(scores: Tensor) -> Tensor:
        if not barrier.broken and threading.current_thread() is not threading.main_thread():
            barrier.wait(30)  # all threads are in the check
            barrier.abort()
        return scores + 1 * (scores == 8)

    use(monkeypatch, Wrong(change))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [
            threading.Thread(target=lambda: found.append(values_of_a_batch())) for _ in range(4)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert found == [expected] * 4
    assert len(caught) == 1


# What new processes run: the first use of a process and of its fork, which checks too; an OpenMP of
# scikit-learn's that is loaded first; and fewer threads of OpenMP than PyTorch may use.
FIRST_USES = """
import os, torch
from nextloc_metrics import MRR, backends
compiled = backends._chosen[-2]
assert compiled.name == "cpu" and not compiled.is_proven and not compiled._functions
child = os.fork() if hasattr(os, "fork") else 0
assert float(MRR()(torch.eye(3), torch.arange(3))) == 1
assert compiled.is_proven
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
THREADS = """
import torch
from nextloc_metrics import LocationF1, backends
torch.set_num_threads(2)
target = torch.arange(2000) % 1000
scores = torch.nn.functional.one_hot(target, 1000).float()
f1 = LocationF1(1000)
f1.update(scores, target)
assert f1.compute() == 1 and backends.choose(scores).name == "cpu"
"""


@pytest.mark.slow
@NEEDS_C
@pytest.mark.parametrize("code", [FIRST_USES, THREADS, "import sklearn.cluster" + THREADS])
def test_new_processes_count_as_this_one(code: str) -> None:
    """Nothing is loaded or checked at import, and a limit of threads leaves nothing uncounted."""
    command = [sys.executable, "-W", "error", "-W", "ignore::EncodingWarning", "-c", code]
    limit = {} if "sklearn" in code else {"OMP_THREAD_LIMIT": "1"}
    subprocess.run(command, env={**os.environ, **limit}, check=True, timeout=600)


@pytest.mark.slow  # compiles
@NEEDS_C
@pytest.mark.skipif(
    Version(torch.__version__) < Version("2.13"), reason="one graph was shown with torch 2.13"
)
def test_a_compiled_graph_makes_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses `reference`, and is one graph; what runs op by op afterwards makes the check."""
    backend = cpu.Cpu()
    use(monkeypatch, backend)
    scores, target = torch.eye(5), torch.tensor([0, 1, 2, 4, 3])
    run = torch.compile(
        lambda x: Ranking.from_scores(x, target, validate_args=False).above,
        backend="eager",
        fullgraph=True,
    )
    assert run(scores)[:, 0].tolist() == [0, 0, 0, 1, 1]
    assert not backend.is_proven
    assert AccuracyAtK(1)(scores, target) == 0.6
    assert backend.is_proven
