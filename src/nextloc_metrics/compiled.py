"""Compiled loops: the counts and first places of `counting`, over scores of any float dtype.

The loops are in `compiled_loops`; what becomes of the counts is in `compiled_places`.
"""

import ctypes
import time
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics import scoring, threads
from nextloc_metrics.compiled_loops import STEP, Formula, Job, compile_task
from nextloc_metrics.compiled_places import (
    arrange,
    compile_loops_over_places,
    count_decisions,
    find_in_lists,
    find_true,
    tally,
)
from nextloc_metrics.first_places import FirstPlaces

__all__ = [
    "MOST_RELEVANT",
    "arrange",
    "compile_loops",
    "count_decisions",
    "find_first",
    "find_in_lists",
    "find_places",
    "find_true",
    "supports",
    "supports_first",
    "survey",
    "tally",
    "tally_scores",
]

#: up to here one pass over a block for each relevant location is cheaper than a search among them
MOST_RELEVANT = 1 << 9

# Up to here first places are put in order one by one sooner than PyTorch sorts them.
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


def compile_loops() -> float:
    """Compile the loops, or load them from the cache; return the seconds taken."""
    started = time.perf_counter()
    for integer, _ in _FORMATS.values():
        compile_task(integer)
    compile_loops_over_places()
    return time.perf_counter() - started


def supports(scores: Tensor) -> bool:
    """Tell whether the loops can read these scores: some that are, and not a wrapper of others."""
    return (
        scores.is_cpu
        and scores.dtype in _FORMATS
        and scores.stride(1) == 1
        and scores.data_ptr() != 0
    )


def supports_first(scores: Tensor, number: int) -> bool:
    """Tell whether `find_first` takes less than PyTorch's operations."""
    return supports(scores) and number <= min(_MOST_FIRST, scores.shape[1] // STEP)


def survey(scores: Tensor, own: Tensor, find_best: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Count the candidates above and tied with each relevant location, and find the best.

    Args:
        scores: floating `[N, C]`, adjacent in every row.
        own: floating `[N, M]`, the scores of the relevant ones, NaN where nothing is to be counted.
        find_best: whether to find the best candidate.

    Returns:
        `above` and `tied`, int64 `[N, M]`; and the lowest index of the maximum (of the first NaN),
        int64 `[N]`, zeros where not asked for.
    """
    counts = _zeros(2, *own.shape)
    best, _ = _survey(scores, counts, find_best, own.contiguous())
    return counts[0], counts[1], best


def find_places(scores: Tensor, ids: Tensor, top: int) -> tuple[Tensor, Tensor, FirstPlaces | None]:
    """Do what `counting.find_places` does, for `top` up to 1: the best candidate alone.

    Raises:
        IndexError: an id is not below C.
    """
    counts = _zeros(2, *ids.shape)
    best, retrieved = _survey(scores, counts, top > 0, ids=ids.contiguous())
    first = FirstPlaces(0, retrieved, best, *[counts[0, :, :0]] * 2) if top else None
    return counts[0], counts[1], first


@lru_cache
def _read_formulas(formulas: tuple[scoring.Formula, ...], num_candidates: int) -> Any:
    """Write formulas down for the loops, and the table of weights; None beyond the table."""
    constants = scoring.make_arrays(formulas, num_candidates)
    if constants is None:
        return None
    table, last, start, _, divisors = constants
    numbers = zip(start.tolist(), last.tolist(), divisors[:, 1].tolist(), strict=True)
    return (Formula * len(formulas))(*(Formula(*of_one) for of_one in numbers)), table


def tally_scores(
    scores: Tensor,
    target: Tensor,
    ignored: int | None,
    kinds: tuple[scoring.Formula | int, ...],
) -> list[Tensor] | None:
    """Tally queries with one relevant location each; None where a target is no candidate.

    Args:
        scores: floating `[N, C]`, adjacent in every row.
        target: int64 `[N]`, the relevant ones.
        ignored: an id that is never relevant.
        kinds: how to score, or of how many locations to count decisions.

    Returns:
        Of every formula the sums int64 `[3]`, and of decisions the counts int64 `[3, L + 1]`.
    """
    formulas = tuple(kind for kind in kinds if not isinstance(kind, int))
    constants = _read_formulas(formulas, scores.shape[1])
    if constants is None:
        return None
    array, table = constants
    tallies = [_zeros(3, kind + 1) if isinstance(kind, int) else _zeros(3) for kind in kinds]
    sums = [tally for tally in tallies if tally.ndim == 1]
    decisions = next((tally for tally in tallies if tally.ndim == 2), None)
    ids = target.contiguous()
    addresses = (ctypes.c_int64 * len(sums))(*[tally.data_ptr() for tally in sums])
    try:
        _run(
            scores,
            width=1,
            ids=ids.data_ptr(),
            ignores=ignored is not None,
            ignored=ignored or 0,
            states=ctypes.addressof(addresses),
            find_best=decisions is not None,
            decisions=0 if decisions is None else decisions.data_ptr(),
            locations=0 if decisions is None else decisions.shape[1],
            formulas=ctypes.addressof(array),
            num_formulas=len(formulas),
            table=table.ctypes.data,
            table_length=len(table),
        )
    except IndexError:
        return None
    return tallies


def find_first(scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Do what `counting.find_first` does, where the scores are so many that they are supported."""
    first = _zeros(len(scores), number)
    _run(scores, find_first=number, first=first.data_ptr())
    return scores.gather(1, first), first


def _survey(
    scores: Tensor,
    counts: Tensor,
    find_best: bool,
    own: Tensor | None = None,
    ids: Tensor | None = None,
) -> Tensor:
    """Do the `Job` of these names, and return what it calls `best`; all must be contiguous."""
    best = _zeros(2, len(scores))
    _run(
        scores,
        find_best=find_best,
        best=best.data_ptr(),
        width=counts.shape[2],
        counts=counts.data_ptr(),
        ids=_address(ids),
        ignored=-1,
        gather=own is None,
        own=_address(own),
    )
    return best


def _zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64, device="cpu")


def _address(values: Tensor | None) -> int:
    address = 0 if values is None else values.data_ptr()
    if values is not None and values.numel() and not address:
        raise RuntimeError(
            f"{type(values).__name__} keeps its values in other tensors, where loops cannot read "
            "them; pass such a tensor, as `.to_local()` of a DTensor is."
        )
    return address


def _run(scores: Tensor, **what: int) -> None:
    """Do a job with scores, on all threads where it is enough for them."""
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
        raise IndexError("a relevant location is not among the candidates")
    if job.taken < job.parts:
        raise MemoryError("no thread found memory for its buffers")
