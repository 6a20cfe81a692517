"""The counts of `counting`, by compiled loops: one pass over the scores, in any float dtype.

Scores are compared by their bits. Read as an integer of two's complement whose magnitude is that
of the float, they keep their order, -0 equals 0, and a NaN can be put above all; integers, unlike
floats, leave the compiler free to vectorise a maximum.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.counting import FEW_RELEVANT

# A block stays in a core's first cache, and its counts fit 16 bits.
_BLOCK = 1 << 11

# Below this many scores, handing out work takes longer than doing it.
_SERIAL_ELEMENTS = 1 << 17


@numba.njit(inline="always")
def _order(bits, kind, largest, infinity):  # type: ignore[no-untyped-def]
    magnitude = kind(bits & largest)
    value = kind(-magnitude) if bits < 0 else magnitude
    return largest if magnitude > infinity else value


@numba.njit(nogil=True)
def _count(block, at, largest, infinity):  # type: ignore[no-untyped-def]
    kind = block.dtype.type
    above, tied = kind(0), kind(0)
    for i in range(len(block)):
        value = _order(block[i], kind, largest, infinity)
        above += kind(value > at)
        tied += kind(value == at)
    return above, tied


@numba.njit(nogil=True)
def _count_and_maximum(block, at, largest, infinity):  # type: ignore[no-untyped-def]
    kind = block.dtype.type
    above, tied, highest = kind(0), kind(0), kind(-largest)
    for i in range(len(block)):
        value = _order(block[i], kind, largest, infinity)
        above += kind(value > at)
        tied += kind(value == at)
        highest = max(highest, value)
    return above, tied, highest


@numba.njit(nogil=True)
def _first_at_least(thresholds, value):  # type: ignore[no-untyped-def]
    """How many of the sorted thresholds, a power of two of them, are lower than the value."""
    first, half = 0, len(thresholds) >> 1
    while half:
        first += half * (thresholds[first + half - 1] < value)  # no branch to predict
        half >>= 1
    return first + (thresholds[first] < value)


@numba.njit(nogil=True, cache=True)
def _search_rows(  # type: ignore[no-untyped-def]
    scores, stride, columns, largest, infinity, own, first, last, above, tied
):
    kind = scores.dtype.type
    num_relevant = own.shape[1]
    size = 1
    while size < num_relevant:
        size *= 2
    thresholds = np.empty(size, scores.dtype)
    lowest = np.empty(size + 1, np.int64)
    equal = np.empty(size + 1, np.int64)
    for row in range(first, last):
        thresholds[:] = largest
        for j in range(num_relevant):
            thresholds[j] = _order(own[row, j], kind, largest, infinity)
        thresholds.sort()
        lowest[:] = 0
        equal[:] = 0
        for i in range(row * stride, row * stride + columns):
            value = _order(scores[i], kind, largest, infinity)
            place = _first_at_least(thresholds, value)
            lowest[place] += 1
            if place < size:
                equal[place] += thresholds[place] == value
        for place in range(1, size + 1):
            lowest[place] += lowest[place - 1]
        for j in range(num_relevant):
            place = _first_at_least(thresholds, _order(own[row, j], kind, largest, infinity))
            above[row, j] = columns - lowest[place]
            tied[row, j] = equal[place]


@numba.njit(nogil=True, cache=True)
def _survey_rows(  # type: ignore[no-untyped-def]
    scores, stride, columns, largest, infinity, own, first, last, find_best, above, tied, best
):
    kind = scores.dtype.type
    for row in range(first, last):
        start = row * stride
        highest, best_block = kind(-largest), 0
        for begin in range(0, columns, _BLOCK):
            block = scores[start + begin : start + min(begin + _BLOCK, columns)]
            for j in range(own.shape[1]):
                at = _order(own[row, j], kind, largest, infinity)
                if find_best and j == 0:
                    more, same, maximum = _count_and_maximum(block, at, largest, infinity)
                    if maximum > highest:
                        highest, best_block = maximum, begin
                else:
                    more, same = _count(block, at, largest, infinity)
                above[row, j] += more
                tied[row, j] += same
        if find_best:
            best[row] = best_block
            while _order(scores[start + best[row]], kind, largest, infinity) != highest:
                best[row] += 1


class _Format(NamedTuple):
    """A float format as integers of its width: the largest, and infinity."""

    integer: torch.dtype
    largest: Any
    infinity: Any


_FORMATS = {
    torch.float64: _Format(torch.int64, np.int64((1 << 63) - 1), np.int64(0x7FF << 52)),
    torch.float32: _Format(torch.int32, np.int32((1 << 31) - 1), np.int32(0xFF << 23)),
    torch.bfloat16: _Format(torch.int16, np.int16((1 << 15) - 1), np.int16(0xFF << 7)),
    torch.float16: _Format(torch.int16, np.int16((1 << 15) - 1), np.int16(0x1F << 10)),
}


def compile_loops() -> float:
    """Compile the loops for every dtype, or load them from the cache; return the seconds taken."""
    started = time.perf_counter()
    for dtype in _FORMATS:
        for relevant in (1, FEW_RELEVANT + 1):
            survey(torch.zeros(1, 1, dtype=dtype), torch.zeros(1, relevant, dtype=dtype), True)
    return time.perf_counter() - started


def supports(scores: Tensor) -> bool:
    """Tell whether the loops can read these scores."""
    return scores.device.type == "cpu" and scores.dtype in _FORMATS and scores.stride(1) == 1


def survey(scores: Tensor, own: Tensor, find_best: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Count the candidates above and tied with each relevant location, and find the best.

    Args:
        scores: floating `[N, C]`, adjacent in every row.
        own: floating `[N, M]`, the scores of the relevant ones, without NaN.
        find_best: whether to find the best candidate.

    Returns:
        `above` and `tied`, int64 `[N, M]`; and the lowest index of the maximum (of the first NaN),
        int64 `[N]`, zeros where not asked for.
    """
    num_queries, columns = scores.shape
    above, tied = torch.zeros(2, *own.shape, dtype=torch.int64)
    best = torch.zeros(num_queries, dtype=torch.int64)
    if not num_queries:
        return above, tied, best
    integer, largest, infinity = _FORMATS[scores.dtype]
    stride = scores.stride(0)
    flat = scores.as_strided(((num_queries - 1) * stride + columns,), (1,)).view(integer).numpy()
    several = own.shape[1] > FEW_RELEVANT
    counted = (own[:, :1] if several else own).contiguous().view(integer).numpy()
    shape = flat, stride, columns, largest, infinity
    results = above.numpy(), tied.numpy()

    def work(first: int, last: int) -> None:
        if find_best or not several:
            _survey_rows(*shape, counted, first, last, find_best, *results, best.numpy())
        if several:
            _search_rows(*shape, own.contiguous().view(integer).numpy(), first, last, *results)

    _spread(work, num_queries, num_queries * columns)
    return above, tied, best


def _spread(work: Callable[[int, int], None], rows: int, elements: int) -> None:
    """Do the rows' work on as many threads as PyTorch is allowed."""
    threads = min(torch.get_num_threads(), rows) if elements > _SERIAL_ELEMENTS else 1
    edges = [rows * i // threads for i in range(threads + 1)]
    others = [
        _workers(threads - 1).submit(work, first, last) for first, last in pairwise(edges[1:])
    ]
    work(edges[0], edges[1])
    for other in others:
        other.result()


_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive one


def _workers(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="nextloc_metrics")
    return _pools[threads]
