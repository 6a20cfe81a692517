"""The backend for CUDA: one Triton kernel that reads every score once.

If there are few rows, the columns of a row are split over several programs to fill the device.
Every program writes its own counts, and PyTorch sums them: no atomics, no synchronisation, and
integers that do not depend on the order.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nextloc_metrics.core.backends import proof
from nextloc_metrics.core.backends.reference import FEW_RELEVANT, Reference

# Programs that fill any device; batches with more rows are not split.
_PROGRAMS = 1 << 12

# Columns that a program reads at once, and comparisons that it holds in registers.
_BLOCK = 1 << 11
_TILE = 1 << 12

# Steps per program, so that the count of a lane fits 16 bits.
_MOST_STEPS = (1 << 15) - 1

_DTYPES = frozenset({torch.float64, torch.float32, torch.bfloat16, torch.float16})

# Devices and dtypes for which the kernel has passed its check.
_proven: set[tuple[torch.device, torch.dtype]] = set()


@triton.jit
def _read(scores, row_stride, column_stride, row, column, last, wide: tl.constexpr):  # type: ignore[no-untyped-def]
    address = scores + row * row_stride + column.to(tl.int64) * column_stride
    return tl.load(address, mask=column < last, other=float("-inf")).to(wide)


@triton.jit
def _survey_rows(  # type: ignore[no-untyped-def]
    scores,
    own,
    counts,  # int32 [2, N, M, S]
    found,  # int64 [N, S]
    row_stride,
    column_stride,
    columns,
    columns_each,
    num_relevant,
    find_best: tl.constexpr,
    wide: tl.constexpr,
    relevant: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)  # rows times columns may exceed 2^31
    split = tl.program_id(1)
    first = split * columns_each
    last = min(first + columns_each, columns)
    lane = tl.arange(0, block)[None, :]
    j = tl.arange(0, relevant)[:, None]
    at = tl.load(own + row * num_relevant + j, mask=j < num_relevant, other=0.0).to(wide)
    both = tl.zeros((relevant, block), tl.int32)  # above in the low 16 bits, tied in the high ones
    highest = tl.full((1, block), float("-inf"), wide)
    best = tl.full((1, block), 0, tl.int32) + first
    for start in range(first, last, block):
        value = _read(scores, row_stride, column_stride, row, start + lane, last, wide)
        both += tl.where(value <= at, tl.where(value == at, 1 << 16, 0), 1)  # a NaN is not lower
        if find_best:
            best = tl.where(value > highest, start, best)
            highest = tl.maximum(highest, value, propagate_nan=tl.PropagateNan.ALL)
    above = tl.sum(both & 0xFFFF, 1)[:, None]
    # columns beyond the last are read as -inf: they tie with -inf only
    beyond = tl.cdiv(last - first, block) * block - (last - first)
    tied = tl.sum(both >> 16, 1)[:, None] - tl.where(at == float("-inf"), beyond, 0)
    splits = tl.num_programs(1)
    cell = counts + (row * num_relevant + j) * splits + split
    tl.store(cell, above, mask=j < num_relevant)
    cell += tl.num_programs(0).to(tl.int64) * num_relevant * splits
    tl.store(cell, tied, mask=j < num_relevant)
    if find_best:
        index = columns
        if tl.max((highest != highest).to(tl.int32)) == 0:
            index = tl.min(tl.where(highest == tl.max(highest), best + lane, columns))
        else:  # NaN are rare: a second pass is cheaper than tracking the first one
            for start in range(first, last, block):
                value = _read(scores, row_stride, column_stride, row, start + lane, last, wide)
                index = min(index, tl.min(tl.where(value != value, start + lane, columns)))
        tl.store(found + row * splits + split, index)


class Cuda(Reference):
    """The backend for CUDA devices."""

    name = "cuda"

    def unable(self, values: Tensor) -> str | None:
        return None if values.device.type == "cuda" else "Triton kernels read CUDA tensors only"

    def survey(
        self, scores: Tensor, own: Tensor, find_best: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        if scores.dtype not in _DTYPES:
            return super().survey(scores, own, find_best)
        # `torch.compile` must not trace the kernel launch
        run = _operator if torch.compiler.is_compiling() else _survey
        counts, best = run(scores, own, find_best)
        return counts[0], counts[1], best if find_best else None


def _survey(scores: Tensor, own: Tensor, find_best: bool) -> tuple[Tensor, Tensor]:
    few = 0 < own.shape[1] <= FEW_RELEVANT and scores.numel()
    if few and "cuda" not in proof.disabled:
        try:
            if _is_proven(scores):
                return _launch(scores, own.contiguous(), find_best)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a compiler, a driver or a missing tool may raise anything
            proof.disable("cuda", f"does not run on {scores.device}, {error!r},")
    above, tied, best = Reference().survey(scores, own, find_best)
    return torch.stack([above, tied]), above.new_zeros(len(scores)) if best is None else best


def _is_proven(scores: Tensor) -> bool:
    """Check the kernel at its first use for this device and dtype; a dtype takes a compilation."""
    kind = scores.device, scores.dtype
    if kind not in _proven:
        if scores.is_cuda and torch.cuda.is_current_stream_capturing():
            return False  # nothing can be read now: use `reference`, and check at the next call
        proof.check_survey(_launch, *kind)
        _proven.add(kind)
    return True


def _launch(scores: Tensor, own: Tensor, find_best: bool) -> tuple[Tensor, Tensor]:
    rows, columns = scores.shape
    num_relevant = own.shape[1]
    relevant = triton.next_power_of_2(num_relevant)
    block = min(triton.next_power_of_2(columns), _BLOCK, _TILE // relevant)
    splits = min(triton.cdiv(_PROGRAMS, rows), triton.cdiv(columns, block))
    columns_each = triton.cdiv(triton.cdiv(columns, splits), block) * block
    columns_each = min(columns_each, block * _MOST_STEPS)
    splits = triton.cdiv(columns, columns_each)
    counts = torch.empty(2, rows, num_relevant, splits, dtype=torch.int32, device=scores.device)
    best = torch.empty(rows, splits, dtype=torch.int64, device=scores.device)
    with torch.cuda.device_of(scores):  # type: ignore[no-untyped-call]
        _survey_rows[rows, splits](
            scores,
            own,
            counts,
            best,
            *scores.stride(),
            columns,
            columns_each,
            num_relevant,
            find_best=find_best,
            wide=tl.float64 if scores.dtype == torch.float64 else tl.float32,
            relevant=relevant,
            block=block,
            num_warps=max(1, min(8, relevant * block // 512)),
            enable_fp_fusion=False,
        )
    if not find_best:
        best = torch.zeros_like(best)
    elif splits > 1:
        best = best.gather(1, scores.gather(1, best).argmax(1, keepdim=True))
    return counts.sum(-1), best[:, 0].clone()


@torch.library.custom_op("nextloc_metrics::survey", mutates_args=())
def _operator(scores: Tensor, own: Tensor, find_best: bool) -> tuple[Tensor, Tensor]:
    """Run `_survey` as one custom operation, which `torch.compile` does not trace."""
    return _survey(scores, own, find_best)


@_operator.register_fake
def _(scores: Tensor, own: Tensor, find_best: bool) -> tuple[Tensor, Tensor]:
    counts = own.new_empty(2, *own.shape, dtype=torch.int64)
    return counts, counts.new_empty(len(scores))
