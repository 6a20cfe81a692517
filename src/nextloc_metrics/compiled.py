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

# A block stays in a core's first cache, and its counts fit 16 bits.
_BLOCK = 1 << 11

# Up to here one pass over a block for each relevant location is the cheapest; beyond, a search.
FEW_RELEVANT = 1 << 9

# How many scores are looked at together when one of them is looked for.
_STEP = 1 << 6

# Below this many scores, handing out work takes longer than doing it.
_SERIAL_ELEMENTS = 1 << 20


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


@numba.njit(inline="always")
def _order(bits, kind, largest, infinity):  # type: ignore[no-untyped-def]
    """An integer in the order of the scores, a NaN the largest."""
    magnitude = kind(bits & largest)
    value = kind(-magnitude) if bits < 0 else magnitude
    return largest if magnitude > infinity else value


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
        own: floating `[N, M]`, the scores of the relevant ones, NaN where nothing is to be counted.
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
