"""The counts of `counting`, by compiled loops: one pass over the scores, in any float dtype.

Scores are compared by their bits, as integers of the float's width: unlike floats, these leave the
compiler free to vectorise a maximum, and 16 bits need no conversion. Floats that are not negative
have the order of their bits; negative ones the reverse order, so against a negative score both
sides have all bits but the sign flipped. What bits alone get wrong is mended a row at a time, where
it occurs: -0, which equals 0, and a negative NaN, which must count as above.
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

from nextloc_metrics.counting import count_above_and_tied

# A block stays in a core's first cache, and its counts fit 16 bits.
_BLOCK = 1 << 11

# Up to here one pass over a block for each relevant location is cheaper than a search among them.
_FEW_RELEVANT = 1 << 9

# How many scores are looked at together when one of them is looked for.
_STEP = 1 << 6

# Below this many scores, handing out work takes longer than doing it.
_SERIAL_ELEMENTS = 1 << 19


@numba.njit(nogil=True)
def _count(block, at, flip):  # type: ignore[no-untyped-def]
    """How many are above and how many equal; sums are cast back, or they widen to 64 bits."""
    kind = block.dtype.type
    above, equal = kind(0), kind(0)
    at = kind(at ^ flip)
    for i in range(len(block)):
        value = kind(block[i] ^ flip)
        above = kind(above + kind(value > at))
        equal = kind(equal + kind(value == at))
    return above, equal


@numba.njit(nogil=True)
def _extremes(block, sign):  # type: ignore[no-untyped-def]
    """The highest and the lowest bits, and the highest magnitude of a negative score."""
    kind = block.dtype.type
    highest, lowest, magnitude = block[0], block[0], sign
    for i in range(len(block)):
        highest = max(highest, block[i])
        lowest = min(lowest, block[i])
        magnitude = max(magnitude, kind(block[i] ^ sign))
    return highest, lowest, magnitude


@numba.njit(nogil=True)
def _first_equal(row, begin, value):  # type: ignore[no-untyped-def]
    """The first place from `begin` on that holds the value; the number of places without one."""
    kind = row.dtype.type
    start, found = begin, kind(0)
    while start + _STEP <= len(row) and not found:
        step = row[start : start + _STEP]
        for i in range(_STEP):
            found = kind(found | kind(step[i] == value))
        start += _STEP
    if found:
        start -= _STEP
    while start < len(row) and row[start] != value:
        start += 1
    return start


@numba.njit(nogil=True)
def _first_best(row, highest, high_block, lowest, low_block, sign):  # type: ignore[no-untyped-def]
    """The first place of the maximum, of scores without NaN."""
    if highest > 0:
        return _first_equal(row, high_block, highest)
    if highest == 0:
        return min(_first_equal(row, 0, highest), _first_equal(row, 0, sign))
    return _first_equal(row, low_block, lowest)


@numba.njit(nogil=True)
def _first_nan(row, largest, infinity):  # type: ignore[no-untyped-def]
    place = 0
    while (row[place] & largest) <= infinity:
        place += 1
    return place


@numba.njit(nogil=True, cache=True)
def _survey_rows(  # type: ignore[no-untyped-def]
    scores, stride, columns, largest, infinity, own, first, last, find_best, above, tied, best
):
    kind = scores.dtype.type
    sign = kind(~largest)
    for i in range(first, last):
        row = scores[i * stride : i * stride + columns]
        highest, lowest, high_block, low_block = row[0], row[0], 0, 0
        has_nan = False
        for begin in range(0, columns, _BLOCK):
            block = row[begin : begin + _BLOCK]
            high, low, magnitude = _extremes(block, sign)
            if high > highest:
                highest, high_block = high, begin
            if low < lowest:
                lowest, low_block = low, begin
            negative_nans = 0
            if magnitude > infinity:
                comparable = _count(block, kind(sign | infinity), largest)
                negative_nans = len(block) - comparable[0] - comparable[1]
            has_nan |= high > infinity or magnitude > infinity
            for j in range(own.shape[1]):
                if (own[i, j] & largest) > infinity:
                    continue
                at = kind(0) if own[i, j] == sign else own[i, j]
                more, equal = _count(block, at, largest if at < 0 else kind(0))
                above[i, j] += more + negative_nans
                tied[i, j] += equal
                if at == 0:
                    tied[i, j] += _count(block, sign, kind(0))[1]
        if find_best and has_nan:
            best[i] = _first_nan(row, largest, infinity)
        elif find_best:
            best[i] = _first_best(row, highest, high_block, lowest, low_block, sign)


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
        scores = torch.zeros(1, 1, dtype=dtype, device="cpu")
        survey(scores, scores, True)
    return time.perf_counter() - started


def supports(scores: Tensor) -> bool:
    """Tell whether the loops can read these scores."""
    return scores.device.type == "cpu" and scores.dtype in _FORMATS and scores.stride(1) == 1


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
    num_queries, columns = scores.shape
    above, tied = torch.zeros(2, *own.shape, dtype=torch.int64, device="cpu")
    best = torch.zeros(num_queries, dtype=torch.int64, device="cpu")
    if not num_queries:
        return above, tied, best
    if own.shape[1] > _FEW_RELEVANT:
        if find_best:
            *_, best = survey(scores, own[:, :0], find_best)
        return *count_above_and_tied(scores, own), best
    integer, largest, infinity = _FORMATS[scores.dtype]
    stride = scores.stride(0)
    flat = scores.as_strided(((num_queries - 1) * stride + columns,), (1,)).view(integer).numpy()
    at = own.contiguous().view(integer).numpy()
    results = above.numpy(), tied.numpy(), best.numpy()

    def work(first: int, last: int) -> None:
        _survey_rows(flat, stride, columns, largest, infinity, at, first, last, find_best, *results)

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
