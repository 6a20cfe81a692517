"""Compiled loops: the counts and first places of `counting`, over scores of any float dtype.

What becomes of the counts is in `compiled_places`.

Scores are compared by their bits, as integers of the float's width: unlike floats, these leave the
compiler free to vectorise a maximum, and 16 bits need no conversion. Floats that are not negative
have the order of their bits; negative ones the reverse order, so against a negative score both
sides have all bits but the sign flipped. What bits alone get wrong is mended a row at a time, where
it occurs: -0, which equals 0, and a negative NaN, which must count as above. First places are found
by keys instead, which have the order of the floats.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from nextloc_metrics import threads
from nextloc_metrics.compiled_places import (
    are_candidates,
    arrange,
    compile_loops_over_places,
    count_decisions,
    find_in_lists,
    tally,
    tally_one_relevant,
)
from nextloc_metrics.first_places import FirstPlaces
from nextloc_metrics.places import UNRETRIEVED

__all__ = [
    "MOST_RELEVANT",
    "ChunkSurvey",
    "add_one_relevant",
    "are_candidates",
    "arrange",
    "compile_loops",
    "count_decisions",
    "find_first",
    "find_in_lists",
    "find_places",
    "supports",
    "supports_first",
    "survey",
    "tally",
]

# A block stays in a core's first cache, and its counts fit 16 bits.
_BLOCK = 1 << 11

#: up to here one pass over a block for each relevant location is cheaper than a search among them
MOST_RELEVANT = 1 << 9

# Up to here first places are put in order one by one sooner than PyTorch sorts them.
_MOST_FIRST = 1 << 7

# How many scores are looked at together when one of them is looked for.
_STEP = 1 << 6

# As a plain 0, whose type is its own, functions would be compiled once more for it.
_START = np.int64(0)

# Below this many scores, handing out work takes longer than doing it.
_SERIAL_ELEMENTS = 1 << 19

# A thread whose core has other work to do takes fewer of them.
_PARTS_A_THREAD = 4

# Below so many scores, to hand out another part takes longer than to wait for the slowest thread.
_PART_ELEMENTS = 1 << 20


@numba.njit(nogil=True, inline="always")
def _count_and_extremes(block, at, flip, sign):  # type: ignore[no-untyped-def]
    """What `_count` returns, and the highest and the lowest bits.

    Inlined, so that nothing is computed that is not asked for. Sums are cast back, or they widen to
    64 bits.
    """
    kind = block.dtype.type
    above, equal, magnitude = kind(0), kind(0), sign
    highest, lowest = block[0], block[0]
    at = kind(at ^ flip)
    for i in range(len(block)):
        value = kind(block[i] ^ flip)
        above = kind(above + kind(value > at))
        equal = kind(equal + kind(value == at))
        magnitude = max(magnitude, kind(block[i] ^ sign))
        highest = max(highest, block[i])
        lowest = min(lowest, block[i])
    return above, equal, magnitude, highest, lowest


@numba.njit(nogil=True)
def _count(block, at, flip, sign):  # type: ignore[no-untyped-def]
    """How many are above and how many equal, and the highest magnitude of a negative score."""
    above, equal, magnitude, _highest, _lowest = _count_and_extremes(block, at, flip, sign)
    return above, equal, magnitude


@numba.njit(nogil=True)
def _count_negative_nan(block, infinity, sign):  # type: ignore[no-untyped-def]
    """How many NaN that `_count` takes for the lowest scores."""
    number = 0
    for i in range(len(block)):
        number += (block[i] ^ sign) > infinity
    return number


@numba.njit(nogil=True)
def _threshold(score, sign, largest):  # type: ignore[no-untyped-def]
    """What scores are compared with, -0 as 0, and which of their bits are flipped for that."""
    kind = type(largest)
    at = kind(0) if score == sign else score
    return at, largest if at < 0 else kind(0)


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
        return min(_first_equal(row, _START, highest), _first_equal(row, _START, sign))
    return _first_equal(row, low_block, lowest)


@numba.njit(nogil=True)
def _first_nan(row, largest, infinity):  # type: ignore[no-untyped-def]
    place = 0
    while (row[place] & largest) <= infinity:
        place += 1
    return place


@numba.njit(nogil=True, cache=True)
def _survey_rows(  # type: ignore[no-untyped-def]
    scores, stride, columns, largest, infinity, first, last, find_best, above, tied, best, own
):
    kind = scores.dtype.type
    sign = kind(~largest)
    for i in range(first, last):
        row = scores[i * stride : i * stride + columns]
        highest, lowest, high_block, low_block = row[0], row[0], _START, _START
        has_nan = False
        for begin in range(0, columns, _BLOCK):
            block = row[begin : begin + _BLOCK]
            more, equal, magnitude = kind(0), kind(0), sign
            if find_best:
                at, flip = _threshold(own[i, 0] if own.shape[1] else sign, sign, largest)
                more, equal, magnitude, high, low = _count_and_extremes(block, at, flip, sign)
                if high > highest:
                    highest, high_block = high, begin
                if low < lowest:
                    lowest, low_block = low, begin
                has_nan |= high > infinity or magnitude > infinity
            for j in range(own.shape[1]):
                if (own[i, j] & largest) > infinity:
                    continue
                at, flip = _threshold(own[i, j], sign, largest)
                if j > 0 or not find_best:
                    more, equal, magnitude = _count(block, at, flip, sign)
                above[i, j] += more
                tied[i, j] += equal
                if magnitude > infinity:
                    above[i, j] += _count_negative_nan(block, infinity, sign)
                if at == 0:
                    tied[i, j] += _count(block, sign, kind(0), sign)[1]
        if find_best and has_nan:
            best[i] = _first_nan(row, largest, infinity)
        elif find_best:
            best[i] = _first_best(row, highest, high_block, lowest, low_block, sign)


@numba.njit(nogil=True, cache=True)
def _find_places_in_rows(  # type: ignore[no-untyped-def]
    scores, stride, columns, largest, infinity, first, last, find_best, above, tied, best,
    ids, retrieved,
):  # fmt: skip
    """Survey around the scores of these ids; mark what is unretrieved, and who decides nothing."""
    nothing = ~largest | infinity  # -inf
    own = np.full(ids.shape, largest)  # a NaN
    for i in range(first, last):
        for j in range(ids.shape[1]):
            if ids[i, j] >= columns:
                raise IndexError("a relevant location is not among the candidates")
            if ids[i, j] >= 0:
                own[i, j] = scores[i * stride + ids[i, j]]
    _survey_rows(
        scores, stride, columns, largest, infinity, first, last, find_best, above, tied, best, own
    )
    for i in range(first, last):
        for j in range(ids.shape[1]):
            if (own[i, j] & largest) > infinity or own[i, j] == nothing:
                above[i, j], tied[i, j] = UNRETRIEVED, 1
        highest = scores[i * stride + best[i]]
        retrieved[i] = highest != nothing
        if (highest & largest) > infinity or highest == nothing:
            best[i] = -1


@numba.njit(nogil=True, cache=True)
def _put(scores, stride, start, columns, ids, own):  # type: ignore[no-untyped-def]
    """Put the relevant ones' own scores in the place of those from `start` on."""
    for i in range(len(ids)):
        for j in range(ids.shape[1]):
            if start <= ids[i, j] < start + columns:
                scores[i * stride + ids[i, j] - start] = own[i, j]


@numba.njit(nogil=True)
def _key(bits, largest, infinity):  # type: ignore[no-untyped-def]
    """An integer in the order of the floats: both zeros are 0, and every NaN is the largest."""
    kind = type(largest)
    magnitude = kind(bits & largest)
    key = kind(-magnitude) if bits < 0 else magnitude
    return largest if magnitude > infinity else key


@numba.njit(nogil=True)
def _highest_key(block, largest, infinity):  # type: ignore[no-untyped-def]
    highest = block.dtype.type(~largest)
    for i in range(len(block)):
        highest = max(highest, _key(block[i], largest, infinity))
    return highest


@numba.njit(nogil=True)
def _insert(keys, columns, key, column):  # type: ignore[no-untyped-def]
    """Put a key and its column in the place of the lowest, behind those that are as high."""
    at = len(keys) - 1
    while at > 0 and keys[at - 1] < key:
        keys[at], columns[at] = keys[at - 1], columns[at - 1]
        at -= 1
    keys[at], columns[at] = key, column


@numba.njit(nogil=True, cache=True)
def _find_first_in_rows(  # type: ignore[no-untyped-def]
    scores, stride, columns, largest, infinity, first, last, found
):
    """Find the highest scores in the blocks with the highest maxima, as many blocks as places.

    What is in other blocks is no higher than any of these maxima, which fill the places.
    """
    number = found.shape[1]
    keys, maxima = np.empty(number, scores.dtype), np.empty(number, scores.dtype)
    begins = np.empty(number, np.int64)
    for i in range(first, last):
        row, ids = scores[i * stride : i * stride + columns], found[i]
        maxima[:] = ~largest
        for begin in range(0, columns, _STEP):
            highest = _highest_key(row[begin : begin + _STEP], largest, infinity)
            if highest > maxima[-1]:
                _insert(maxima, begins, highest, begin)
        keys[:] = maxima[-1] - 1
        for block in range(number):
            if maxima[block] > keys[-1]:
                for column in range(begins[block], min(begins[block] + _STEP, columns)):
                    key = _key(row[column], largest, infinity)
                    if key > keys[-1]:
                        _insert(keys, ids, key, column)


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
        places = torch.zeros(1, 1, dtype=torch.int64, device="cpu")
        find_places(scores, places, 1)
        find_first(scores, 1)
        ChunkSurvey(scores, scores, places, find_best=False).add(0, 1)
    compile_loops_over_places()
    return time.perf_counter() - started


def supports(scores: Tensor) -> bool:
    """Tell whether the loops can read these scores."""
    return scores.device.type == "cpu" and scores.dtype in _FORMATS and scores.stride(1) == 1


def supports_first(scores: Tensor, number: int) -> bool:
    """Tell whether `find_first` takes less than PyTorch's operations."""
    return supports(scores) and number <= min(_MOST_FIRST, scores.shape[1] // _STEP)


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
    at = own.contiguous().view(_FORMATS[scores.dtype].integer).numpy()
    above, tied, best = _zeros(at.shape), _zeros(at.shape), _zeros(len(at))
    _run(_survey_rows, scores, find_best, above, tied, best, at)
    return torch.from_numpy(above), torch.from_numpy(tied), torch.from_numpy(best)


class ChunkSurvey:
    """A survey of scores that are made chunk by chunk of the candidates, always in one buffer.

    Args:
        buffer: floating `[N, C]`, adjacent in every row.
        own: floating `[N, M]`, what the relevant ones' scores become, NaN where nothing is to be
            counted.
        ids: int64 `[N, M]`, the relevant ones.
        find_best: whether to find every chunk's best candidate.
    """

    def __init__(self, buffer: Tensor, own: Tensor, ids: Tensor, find_best: bool) -> None:
        integer, self._largest, self._infinity = _FORMATS[buffer.dtype]
        self._dtype, self._stride, self._find_best = buffer.dtype, buffer.stride(0), find_best
        self._scores = _flat(buffer).view(integer).numpy()
        self._own, self._ids = own.contiguous().view(integer).numpy(), ids.contiguous().numpy()
        self.counts = torch.zeros(2, *ids.shape, dtype=torch.int64, device="cpu")
        self._above, self._tied = self.counts.numpy()

    def add(self, start: int, columns: int) -> tuple[Tensor, Tensor] | None:
        """Add the counts of the candidates from `start` on, whose scores are in the buffer.

        Returns:
            The maxima `[N]` (NaN where there is one) and the lowest columns they are in, or None.
        """
        best = _zeros(len(self._ids))
        _put(self._scores, self._stride, start, columns, self._ids, self._own)
        _survey_rows(
            self._scores, self._stride, columns, self._largest, self._infinity,
            0, len(best), self._find_best, self._above, self._tied, best, self._own,
        )  # fmt: skip
        if not self._find_best:
            return None
        maximum = self._scores.take(self._stride * np.arange(len(best), dtype=np.int64) + best)
        return torch.from_numpy(maximum).view(self._dtype), torch.from_numpy(best)


def find_places(scores: Tensor, ids: Tensor, top: int) -> tuple[Tensor, Tensor, FirstPlaces | None]:
    """Do what `counting.find_places` does, for `top` up to 1.

    Raises:
        IndexError: an id is not below C.
    """
    above, tied, best, retrieved = _find_places(scores, ids.contiguous().numpy(), top > 0)
    places = torch.from_numpy(above), torch.from_numpy(tied)
    if not top:
        return *places, None
    none = places[0][:, :0]
    found = torch.from_numpy(retrieved), torch.from_numpy(best)
    return *places, FirstPlaces(top, *found, none, none)


def add_one_relevant(
    scores: Tensor,
    target: Tensor,
    means: Sequence[Tensor],
    decisions: Tensor,
    *constants: Any,
) -> bool:
    """Add queries with one relevant location each to states; False, where numbers are impossible.

    Args:
        scores: floating `[N, C]`, adjacent in every row.
        target: int64 `[N]`, the relevant ones.
        means: a state for every formula, int64 `[3]`.
        decisions: a state of `LocationF1`, int64 `[3, C]` or more, or without a row.
        constants: of the formulas, as for `tally`.
    """
    ids = target.contiguous().numpy()
    above, tied, best, _ = _find_places(scores, ids[:, None], True)
    sums = _zeros((len(means), 3))
    if not tally_one_relevant(*[ids, above, tied, best, *constants, sums, decisions.numpy()]):
        return False
    for state, added in zip(means, sums, strict=True):
        total = state.numpy()
        total += added
    return True


def _find_places(scores: Tensor, ids: Any, find_best: bool) -> tuple[Any, Any, Any, Any]:
    above, tied = _zeros((2, *ids.shape))
    best, retrieved = _zeros((2, len(ids)))
    _run(_find_places_in_rows, scores, find_best, above, tied, best, ids, retrieved)
    return above, tied, best, retrieved


def find_first(scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Do what `counting.find_first` does, where the scores are so many that they are supported."""
    found = _zeros((len(scores), number))
    _run(_find_first_in_rows, scores, found)
    ids = torch.from_numpy(found)
    return scores.gather(1, ids), ids


def _zeros(shape: int | tuple[int, ...]) -> Any:
    return np.zeros(shape, np.int64)


def _run(rows: Callable[..., None], scores: Tensor, *arrays: Any) -> None:
    """Run a loop over the rows of scores, which writes into arrays."""
    num_queries, columns = scores.shape
    integer, largest, infinity = _FORMATS[scores.dtype]
    stride = scores.stride(0)
    flat = _flat(scores).view(integer).numpy()

    def work(first: int, last: int) -> None:
        rows(flat, stride, columns, largest, infinity, first, last, *arrays)

    _spread(work, num_queries, num_queries * columns)


def _flat(scores: Tensor) -> Tensor:
    """View scores that are adjacent in every row, and what may lie between the rows."""
    num_queries, columns = scores.shape
    length = (num_queries - 1) * scores.stride(0) + columns if num_queries else 0
    return scores.as_strided((length,), (1,))


def _spread(work: Callable[[int, int], None], rows: int, elements: int) -> None:
    """Do the rows' work on all threads, where it is enough for them."""
    number = min(threads.available(), rows) if elements > _SERIAL_ELEMENTS else 1
    each = max(1, min(_PARTS_A_THREAD, elements // (number * _PART_ELEMENTS)))
    parts = min(each * number, rows) if number > 1 else 1
    untaken = iter(range(parts))

    def take_parts() -> None:
        for part in untaken:
            work(rows * part // parts, rows * (part + 1) // parts)

    threads.run(take_parts, number)
