"""Compiled loops over the rows of scores, on the CPU; `numba_loops` holds them.

Compiling takes seconds the first time, and is kept on disk. The results are the same to the bit.
"""

import ctypes
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import nextloc_metrics.backends.threads as threads
from nextloc_metrics.backends.with_numpy import WithNumpy

try:
    from nextloc_metrics.backends.numba_loops import STEP, Formula, Job, compile_task
except RuntimeError as error:
    raise RuntimeError(
        "the backend 'numba' keeps its loops on disk and found no folder to write to; name one in "
        "the environment variable NUMBA_CACHE_DIR."
    ) from error

# Up to here one pass over a block for each relevant location is cheaper than a search among them.
_MOST_RELEVANT = 1 << 9

# Up to here the first candidates are put in order one by one sooner than PyTorch sorts them.
_MOST_FIRST = 1 << 7

# Below this many scores, handing out work takes longer than doing it.
_SERIAL_ELEMENTS = 1 << 17

# A thread whose core has other work to do takes fewer of them.
_PARTS_A_THREAD = 4


class _Format(NamedTuple):
    """A float format: the integers of its width, and infinity as one of them."""

    integer: Any
    infinity: int


_FORMATS = {
    torch.float64: _Format(np.int64, 0x7FF << 52),
    torch.float32: _Format(np.int32, 0xFF << 23),
    torch.bfloat16: _Format(np.int16, 0xFF << 7),
    torch.float16: _Format(np.int16, 0x1F << 10),
}


class WithNumba(WithNumpy):
    """The backend of compiled loops; those over few integers are NumPy's."""

    name = "numba"
    tallies_scores = True

    def __init__(self) -> None:
        for integer, _ in _FORMATS.values():
            compile_task(integer)

    def survey(
        self, scores: Tensor, own: Tensor, find_best: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Count the candidates around each relevant location, and find the best candidate."""
        if not _can_read(scores) or own.shape[1] > _MOST_RELEVANT:
            return super().survey(scores, own, find_best)
        counts, best, own = _zeros(2, *own.shape), _zeros(len(scores)), own.contiguous()
        _run(
            scores,
            find_best=find_best,
            best=best.data_ptr(),
            width=own.shape[1],
            counts=counts.data_ptr(),
            own=own.data_ptr(),
        )
        return counts[0], counts[1], best if find_best else None

    def first(self, scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """Return the scores and ids of the first candidates, NaN first."""
        if not _can_read(scores) or number > min(_MOST_FIRST, scores.shape[1] // STEP):
            return super().first(scores, number)
        first = _zeros(len(scores), number)
        _run(scores, find_first=number, first=first.data_ptr())
        return scores.gather(1, first), first

    def tally_scores(
        self,
        scores: Tensor,
        target: Tensor,
        ignored: int | None,
        formulas: tuple[Any, Any, Any, Any],
        num_locations: int | None,
    ) -> tuple[Tensor, Tensor | None] | None:
        """Tally queries with one relevant location each in one pass."""
        if not _can_read(scores):
            return None
        table, last, start, divisor = formulas
        numbers = zip(start.tolist(), last.tolist(), divisor.tolist(), strict=True)
        array = (Formula * len(last))(*(Formula(*of_one) for of_one in numbers))
        sums = _zeros(len(last), 3)
        decisions = None if num_locations is None else _zeros(3, num_locations + 1)
        ids = target.contiguous()
        done = _run(
            scores,
            ids=ids.data_ptr(),
            ignores=ignored is not None,
            ignored=ignored or 0,
            sums=sums.data_ptr(),
            find_best=decisions is not None,
            decisions=0 if decisions is None else decisions.data_ptr(),
            locations=0 if decisions is None else decisions.shape[1],
            formulas=ctypes.addressof(array),
            num_formulas=len(last),
            table=table.ctypes.data,
            table_length=len(table),
        )
        return (sums, decisions) if done else None


def _can_read(scores: Tensor) -> bool:
    """Whether the scores are plain memory, adjacent in every row, and not a wrapper of others."""
    return scores.dtype in _FORMATS and scores.stride(1) == 1 and scores.data_ptr() != 0


def _zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64, device="cpu")


def _run(scores: Tensor, **what: int) -> bool:
    """Do a job on all threads where it is enough for them; False where an id is no candidate."""
    rows, columns = scores.shape
    integer, infinity = _FORMATS[scores.dtype]
    number = min(threads.available(), rows) if rows * columns > _SERIAL_ELEMENTS else 1
    job = Job(
        scores=scores.data_ptr(),
        rows=rows,
        columns=columns,
        stride=scores.stride(0),
        infinity=infinity,
        parts=min(rows, _PARTS_A_THREAD * number) if number > 1 else 1,
        **what,
    )
    threads.run_compiled(compile_task(integer), ctypes.addressof(job), number)
    if job.misplaced:
        return False
    if job.taken < job.parts:
        raise MemoryError(f"could not allocate thread buffers for {rows} x {columns} scores.")
    return True
