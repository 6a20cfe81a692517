"""The Triton kernel against a count in Python: on a CUDA device, or in Triton's interpreter.

Without a device, `TRITON_INTERPRET=1 pytest tests/core/backends/test_triton_kernels.py` runs the
kernel's logic on the CPU.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from nextloc_metrics import Ranking, backends, next_location_metrics, recommendation_metrics
from strategies import dirty_scores

pytest.importorskip("triton", reason="the kernel needs Triton")
HAS_DEVICE = torch.cuda.is_available()
if not (HAS_DEVICE or os.environ.get("TRITON_INTERPRET")):
    pytest.skip("needs a CUDA device or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cuda" if HAS_DEVICE else "cpu"
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]

from nextloc_metrics.core.backends import cuda, proof  # noqa: E402  # Triton has no interpreter afterwards


class Kernel(cuda.Cuda):
    """The backend, which in Triton's interpreter reads tensors on the CPU."""

    def unable(self, values: Tensor) -> str | None:
        """Read all."""
        return None


KERNEL = Kernel()


@pytest.fixture(autouse=True)
def kernel_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Survey by the kernel, on the CPU too; its warning where it does not run is an error here."""
    monkeypatch.setattr(backends, "_chosen", [KERNEL])
    monkeypatch.setattr(proof, "disabled", {})
    monkeypatch.setattr(cuda, "_proven", set())


def counted_in_python(scores: Tensor, own: Tensor) -> tuple[list[list[int]], list[list[int]]]:
    """Count above and tied one by one; a NaN is above everything."""
    above, tied = [], []
    for row, values in zip(scores.tolist(), own.tolist(), strict=True):
        above.append([sum(not x <= value for x in row) for value in values])
        tied.append([sum(x == value for x in row) for value in values])
    return above, tied


def check_kernel(scores: Tensor, own: Tensor) -> None:
    """Compare the kernel with a count in Python, the best candidate with `best_candidate`."""
    above, tied, best = KERNEL.survey(scores.to(DEVICE), own.to(DEVICE), True)
    assert (above.tolist(), tied.tolist()) == counted_in_python(scores, own)
    assert best.tolist() == backends.Reference().survey(scores, own, True)[2].tolist()
    assert above.dtype == tied.dtype == best.dtype == torch.int64
    counts = KERNEL.survey(scores.to(DEVICE), own.to(DEVICE), False)
    assert counts[2] is None
    assert torch.equal(counts[0], above)
    assert torch.equal(counts[1], tied)


def some_of(scores: Tensor, relevant: int) -> Tensor:
    """The scores of some candidates of each row, +inf in the place of a NaN."""
    rows, columns = scores.shape
    own = scores.gather(1, torch.arange(rows * relevant).view(rows, relevant) * 7 % columns)
    return own.masked_fill(own.isnan(), torch.inf)


@pytest.mark.parametrize(
    ("columns", "relevant"),
    [(1, 1), (1, 3), (7, 1), (7, 64), (300, 64), (2048, 1), (2049, 1), (2049, 3), (5000, 1)],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_kernel_counts_as_python_does(dtype: torch.dtype, columns: int, relevant: int) -> None:
    """Ties, NaN, infinities and both zeros, in rows of any length, also beyond one block."""
    scores = dirty_scores(5, columns, dtype)
    check_kernel(scores, some_of(scores, relevant))


@pytest.mark.parametrize("programs", [1, 5, 4096])
@pytest.mark.parametrize("most_steps", [1, 2, 1 << 14])
def test_splits_of_the_columns_add_up(
    programs: int, most_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program a row or many, and as many as 16-bit counts need: the same integers."""
    monkeypatch.setattr(cuda, "_PROGRAMS", programs)
    monkeypatch.setattr(cuda, "_MOST_STEPS", most_steps)
    monkeypatch.setattr(cuda, "_BLOCK", 64)
    scores = dirty_scores(4, 401, torch.float32)
    check_kernel(scores, some_of(scores, 2))


def test_the_first_of_equal_candidates_is_the_best() -> None:
    """Whichever lane, block or split it is in."""
    scores = torch.zeros(6, 9000)
    for row, columns in enumerate(
        [[], [8999], [2047, 2048], [1, 2049], [4100, 4096], [3000, 1000]]
    ):
        scores[row, columns] = torch.nan if row == 5 else 1.0
    _, _, best = KERNEL.survey(scores.to(DEVICE), scores[:, :1].to(DEVICE), True)
    assert best.tolist() == [0, 8999, 2047, 1, 4096, 1000]


def test_rows_may_have_any_strides() -> None:
    """Slices, transposed scores and one row for all queries are read in place."""
    wide = dirty_scores(9, 303, torch.float32)
    for scores in (wide[:, 2:-1], wide[::2], wide.T[:9], wide[:1].expand(5, -1), wide[:, ::3]):
        check_kernel(scores, some_of(scores, 2))


def test_rows_beyond_two_to_the_thirty_first_element() -> None:
    """Addresses have 64 bits: the third row starts behind 2^31 elements, which nobody touches."""
    stride = (1 << 30) + 5
    storage = torch.empty(2 * stride + 100, dtype=torch.float16, device=DEVICE)
    scores = storage.as_strided((3, 100), (stride, 1))
    scores.copy_(torch.randn(3, 100, generator=torch.Generator().manual_seed(0)))
    above, tied, best = KERNEL.survey(scores, scores[:, :1], True)
    close = scores.clone()
    assert (above.tolist(), tied.tolist()) == counted_in_python(close, close[:, :1])
    assert best.tolist() == close.argmax(1).tolist()


@pytest.mark.parametrize(("rows", "relevant"), [(0, 1), (3, 0), (2, 65), (0, 65)])
def test_what_the_kernel_is_not_for_is_counted_all_the_same(rows: int, relevant: int) -> None:
    """No query, no relevant location, or more of them than a register holds."""
    scores = torch.randn(rows, 70, generator=torch.Generator().manual_seed(0))
    own = scores[:, :relevant]
    above, tied, best = KERNEL.survey(scores, own, True)
    assert above.shape == tied.shape == (rows, relevant)
    assert (above.tolist(), tied.tolist()) == counted_in_python(scores, own)
    assert best.tolist() == scores.argmax(1).tolist()


def test_a_device_without_the_kernel_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Triton cannot compile, PyTorch's operations count the same."""

    def fail(*_: object) -> None:
        raise RuntimeError("PTXAS: unsupported")

    scores, own = torch.randn(3, 50).to(DEVICE), torch.zeros(3, 1).to(DEVICE)
    expected = KERNEL.survey(scores, own, True)
    monkeypatch.setattr(cuda, "_launch", fail)
    with pytest.warns(UserWarning, match="does not run on .*PTXAS: unsupported"):
        found = KERNEL.survey(scores, own, True)
    again = KERNEL.survey(scores, own, True)
    for results in (found, again):
        assert all(torch.equal(x, y) for x, y in zip(results, expected, strict=True))


@pytest.mark.parametrize("wrong", ["above", "tied", "best"])
def test_a_kernel_that_counts_wrong_is_disabled(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is warned of once, and the results are those of `reference`."""
    launch = cuda._launch

    def launch_wrong(*arguments: Tensor) -> tuple[Tensor, Tensor]:
        counts, best = launch(*arguments)
        changed = {"above": counts[0], "tied": counts[1], "best": best}[wrong]
        changed += 1
        return counts, best

    monkeypatch.setattr(cuda, "_launch", launch_wrong)
    scores, own = torch.randn(3, 50).to(DEVICE), torch.zeros(3, 1).to(DEVICE)
    with pytest.warns(UserWarning, match="'cuda' does not run on .* differs from `reference`"):
        found = KERNEL.survey(scores, own, True)
    again = KERNEL.survey(scores, own, True)
    for results in (found, again):
        for one, other in zip(results, backends.Reference().survey(scores, own, True), strict=True):
            assert torch.equal(one, other)
    assert "differs" in str(backends.available()["cuda"])


def test_running_out_of_memory_is_no_reason_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """That error is the caller's, and the kernel stays in use."""

    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(cuda, "_launch", fail)
    with pytest.raises(torch.OutOfMemoryError):
        KERNEL.survey(torch.zeros(1, 2), torch.zeros(1, 1), True)
    assert not proof.disabled


@pytest.mark.parametrize("dtype", DTYPES)
def test_collections_have_the_same_states(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the public interface: the presets' states are the same bits on either path."""
    scores = dirty_scores(12, 300, dtype)
    targets = {1: torch.arange(12) * 11, 4: torch.randint(-1, 300, (12, 4))}
    for width, make in ((1, lambda: next_location_metrics(300)), (4, recommendation_metrics)):
        results = []
        for backend, device in ((KERNEL, DEVICE), (backends.Reference(), "cpu")):
            monkeypatch.setattr(backends, "_chosen", [backend])
            metrics = make().to(device)
            metrics.update(scores.to(device), targets[width].to(device))
            results.append({name: m.state.cpu() for name, m in metrics.items(copy_state=False)})
        for name, value in results[0].items():
            assert torch.equal(value, results[1][name]), name


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_graphs_hold_the_kernel_as_one_operation(backend: str) -> None:
    """No break in the graph, and the same places."""
    scores, target = torch.randn(6, 90).to(DEVICE), torch.randint(90, (6, 2)).to(DEVICE)

    def rank(scores: Tensor, target: Tensor) -> Ranking:
        return Ranking.from_scores(scores, target, validate_args=False, top=1)

    found = torch.compile(rank, fullgraph=True, backend=backend)(scores, target)
    expected = rank(scores, target)
    assert repr(found) == repr(expected)
    assert found.first is not None
    assert expected.first is not None
    assert torch.equal(found.first.best, expected.first.best)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_the_operation_keeps_the_rules_of_pytorch() -> None:
    """Its schema, and the shapes it promises to compilers, are what it does."""
    scores = torch.randn(6, 90).to(DEVICE)
    for find_best in (True, False):
        torch.library.opcheck(cuda._operator, (scores, scores[:, :2].clone(), find_best))


COMPILE = """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from nextloc_metrics.core.backends.cuda import _survey_rows

names = [parameter.name for parameter in _survey_rows.params]
for capability, dtype, relevant in [
    (70, "fp32", 1), (75, "fp16", 64), (80, "bf16", 1), (90, "fp64", 16), (90, "bf16", 1),
    (100, "fp32", 1),
]:
    constants = dict(
        find_best=True, wide=tl.float64 if dtype == "fp64" else tl.float32, relevant=relevant,
        block=2048 // relevant, column_stride=1,
    )
    types = dict(scores=f"*{dtype}", own=f"*{dtype}", counts="*i32", found="*i64", row_stride="i64")
    signature = {x: "constexpr" if x in constants else types.get(x, "i32") for x in names}
    indexed = {(names.index(x),): value for x, value in constants.items()}
    made = triton.compile(
        ASTSource(_survey_rows, signature, indexed), target=GPUTarget("cuda", capability, 32),
        options={"enable_fp_fusion": False},
    )
    assert made.asm["cubin"], capability
"""


def test_the_kernel_compiles_for_devices_old_and_new(tmp_path: object) -> None:
    """From Volta to Blackwell, to machine code; that needs no device."""
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    made = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::EncodingWarning", "-c", COMPILE],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert made.returncode == 0, made.stderr
