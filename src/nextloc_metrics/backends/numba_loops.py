"""Compiled loops over the rows of scores, and the task in which a thread does its part of them.

Scores are compared by their bits, as integers of the float's width: unlike floats, these leave the
compiler free to vectorise a maximum, and 16 bits need no conversion. Floats that are not negative
have the order of their bits; negative ones the reverse order, so against a negative score both
sides have all bits but the sign flipped. What bits alone get wrong is mended a row at a time, where
it occurs: -0, which equals 0, and a negative NaN, which must count as above. First places are found
by keys instead, which have the order of the floats.
"""

import ctypes
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nextloc_metrics.record import UNRETRIEVED

ONE = 1 << 32  # as `exact.ONE`

# A block stays in a core's first cache, and its counts fit 16 bits.
_BLOCK = 1 << 11

#: how many scores are looked at together when the first places, or one of them, are looked for
STEP = 1 << 6

# As a plain 0, whose type is its own, functions would be compiled once more for it.
_START = np.int64(0)


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
    while start + STEP <= len(row) and not found:
        step = row[start : start + STEP]
        for i in range(STEP):
            found = kind(found | kind(step[i] == value))
        start += STEP
    if found:
        start -= STEP
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


@numba.njit(nogil=True)
def _survey_row(row, largest, infinity, find_best, own, above, tied):  # type: ignore[no-untyped-def]
    """Add what is above and tied with each own score, and return the best candidate if asked for.

    The first NaN is the best.
    """
    kind = row.dtype.type
    sign = kind(~largest)
    highest, lowest, high_block, low_block = row[0], row[0], _START, _START
    has_nan = False
    for begin in range(0, len(row), _BLOCK):
        block = row[begin : begin + _BLOCK]
        more, equal, magnitude = kind(0), kind(0), sign
        if find_best:
            at, flip = _threshold(own[0] if len(own) else sign, sign, largest)
            more, equal, magnitude, high, low = _count_and_extremes(block, at, flip, sign)
            if high > highest:
                highest, high_block = high, begin
            if low < lowest:
                lowest, low_block = low, begin
            has_nan |= high > infinity or magnitude > infinity
        for j in range(len(own)):
            if (own[j] & largest) > infinity:
                continue
            at, flip = _threshold(own[j], sign, largest)
            if j > 0 or not find_best:
                more, equal, magnitude = _count(block, at, flip, sign)
            above[j] += more
            tied[j] += equal
            if magnitude > infinity:
                above[j] += _count_negative_nan(block, infinity, sign)
            if at == 0:
                tied[j] += _count(block, sign, kind(0), sign)[1]
    if not find_best:
        return _START
    if has_nan:
        return _first_nan(row, largest, infinity)
    return _first_best(row, highest, high_block, lowest, low_block, sign)


@numba.njit(nogil=True)
def _is_nothing(score, largest, infinity):  # type: ignore[no-untyped-def]
    """Whether a score is NaN or -inf."""
    return (score & largest) > infinity or score == ~largest | infinity


@numba.njit(nogil=True)
def _mark(largest, infinity, own, above, tied):  # type: ignore[no-untyped-def]
    """Mark what is unretrieved."""
    for j in range(len(own)):
        if _is_nothing(own[j], largest, infinity):
            above[j], tied[j] = UNRETRIEVED, 1


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


@numba.njit(nogil=True)
def _find_first(row, largest, infinity, keys, maxima, begins, first):  # type: ignore[no-untyped-def]
    """Find the highest scores in the blocks with the highest maxima, as many blocks as places.

    What is in other blocks is no higher than any of these maxima, which fill the places.
    """
    maxima[:] = ~largest
    for begin in range(0, len(row), STEP):
        highest = _highest_key(row[begin : begin + STEP], largest, infinity)
        if highest > maxima[-1]:
            _insert(maxima, begins, highest, begin)
    keys[:] = maxima[-1] - 1
    for block in range(len(maxima)):
        if maxima[block] > keys[-1]:
            for column in range(begins[block], min(begins[block] + STEP, len(row))):
                key = _key(row[column], largest, infinity)
                if key > keys[-1]:
                    _insert(keys, first, key, column)


class Formula(ctypes.Structure):
    """How a metric scores a query with one relevant location: by the weights of first places."""

    _fields_ = (
        ("start", ctypes.c_int64),  # where their sums start, in a table of these
        ("last", ctypes.c_int64),  # the last place that counts
        ("divisor", ctypes.c_double),
    )


@numba.njit(nogil=True)
def add_score(score, sums):  # type: ignore[no-untyped-def]
    """Add a score, its square, and one to their number, as `exact` does."""
    sums[0] += np.int64(score * ONE + 0.5)
    sums[1] += np.int64(score * score * ONE + 0.5)
    sums[2] += 1


@numba.njit(nogil=True, error_model="numpy")
def _add_scores(formulas, table, above, tied, sums):  # type: ignore[no-untyped-def]
    """Add every metric's score to its sums."""
    for j in range(len(formulas)):
        sums_of_weights = table[formulas[j].start :]
        begin, end = min(above, formulas[j].last), min(above + tied, formulas[j].last)
        score = (sums_of_weights[end] - sums_of_weights[begin]) / tied / formulas[j].divisor
        add_score(score, sums[j])


class Job(ctypes.Structure):
    """What to do with the scores of N queries, as threads share it: numbers, and addresses or 0."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "scores",  # of the first, as integers of the float's width, adjacent in every row
            "rows",  # N
            "columns",
            "stride",  # from row to row
            "infinity",  # as an integer
            "parts",  # into which the rows are parted
            "find_first",  # F, how many of the first places to find; 0 to survey
            "first",  # int64 `[N, F]`, the candidates on these
            "find_best",  # whether to find the best candidate
            "best",  # int64 `[N]`, which it is
            "width",  # M, the relevant locations of a query
            "counts",  # int64 `[2, N, M]`, to which those above and tied are added
            "own",  # the scores of the relevant ones `[N, M]`
            "ids",  # int64 `[N]`, the relevant ones where `formulas`
            "ignored",  # an id that is padding
            "ignores",  # whether there is one
            "num_formulas",  # K, by how many to score queries with one relevant location each
            "formulas",  # `Formula` `[K]`
            "table",  # float64 `[T]`, of sums of weights
            "table_length",  # T
            "sums",  # int64 `[K, 3]`, to which scores are added
            "locations",  # L, of which true positives, decisions and support are counted
            "decisions",  # int64 `[3, L]`, to which these are added
            "taken",  # how many parts threads have taken
            "misplaced",  # whether an id is no candidate's: then nothing is added to states
        )
    ]


_FORMULA = np.dtype(Formula)
_TASK = types.void(types.CPointer(numba.from_dtype(np.dtype(Job))))


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    """The pointer to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@intrinsic
def _add_to(context: Any, numbers: Any, index: Any, value: Any) -> Any:
    """Add to one of the int64 at an address, in one step for all threads; return what it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, index, value = arguments
        number = builder.gep(builder.bitcast(address, ir.IntType(64).as_pointer()), [index])
        return builder.atomic_rmw("add", number, value, "monotonic")

    return types.int64(numbers, types.int64, types.int64), generate


_TAKEN = Job.taken.offset // Job.taken.size


@numba.njit(nogil=True)
def _is_ignored(job, target):  # type: ignore[no-untyped-def]
    return job.ignores and target == job.ignored


@numba.njit(nogil=True)
def _is_misplaced(job, ids):  # type: ignore[no-untyped-def]
    """Whether an id that is not ignored is none of the candidates."""
    misplaced = False
    for target in ids:
        misplaced |= not (0 <= target < job.columns or _is_ignored(job, target))
    return misplaced


@numba.njit(nogil=True)
def _count_decision(job, target, decided):  # type: ignore[no-untyped-def]
    """Add to true positives, decisions and support."""
    counts = _pointer(job.decisions)
    _add_to(counts, 2 * job.locations + target, 1)
    if decided >= 0:
        _add_to(counts, job.locations + decided, 1)
    if decided == target:
        _add_to(counts, target, 1)


@numba.njit(nogil=True)
def _add_query(  # type: ignore[no-untyped-def]
    job, row, largest, infinity, target, above, tied, formulas, table, sums
):
    """Add a query with one relevant location to the sums of its scores, and to what was decided."""
    own = row[target : target + 1]
    above[0], tied[0] = 0, 0
    best = _survey_row(row, largest, infinity, job.find_best, own, above, tied)
    _mark(largest, infinity, own, above, tied)
    _add_scores(formulas, table, above[0], tied[0], sums)
    if job.find_best:
        _count_decision(job, target, -1 if _is_nothing(row[best], largest, infinity) else best)


@cache
def compile_task(kind: Any) -> Any:
    """Compile the task that does parts of a `Job` until all are taken, for integers of a kind.

    It is a function of C, so that threads need not wait for one another to run it.
    """
    largest = kind(np.iinfo(kind).max)

    @numba.cfunc(_TASK, cache=True)
    def do_parts(address):  # type: ignore[no-untyped-def]
        job = numba.carray(address, 1)[0]
        rows, columns, stride, infinity = job.rows, job.columns, job.stride, kind(job.infinity)
        scores = numba.carray(_pointer(job.scores), rows * stride + columns, kind)
        first = numba.carray(_pointer(job.first), (rows, job.find_first), np.int64)
        best = numba.carray(_pointer(job.best), rows, np.int64)
        above, tied = numba.carray(_pointer(job.counts), (2, rows, job.width), np.int64)
        own = numba.carray(_pointer(job.own), (rows, job.width), kind)
        ids = numba.carray(_pointer(job.ids), rows, np.int64)
        formulas = numba.carray(_pointer(job.formulas), job.num_formulas, _FORMULA)
        scoring = formulas, numba.carray(_pointer(job.table), job.table_length, np.float64)
        keys, maxima = np.empty(job.find_first, kind), np.empty(job.find_first, kind)
        begins = np.empty(job.find_first, np.int64)
        place = np.empty(1, np.int64), np.empty(1, np.int64)
        sums = np.zeros((job.num_formulas, 3), np.int64)
        if job.num_formulas and _is_misplaced(job, ids):
            job.misplaced = 1
            return
        part = _add_to(address, _TAKEN, 1)
        while part < job.parts:
            for i in range(rows * part // job.parts, rows * (part + 1) // job.parts):
                row = scores[i * stride : i * stride + columns]
                if job.find_first:
                    _find_first(row, largest, infinity, keys, maxima, begins, first[i])
                elif not job.num_formulas:
                    counts = above[i], tied[i]
                    chosen = _survey_row(row, largest, infinity, job.find_best, own[i], *counts)
                    if job.find_best:
                        best[i] = chosen
                elif not _is_ignored(job, ids[i]):
                    _add_query(job, row, largest, infinity, ids[i], *place, *scoring, sums)
            part = _add_to(address, _TAKEN, 1)
        for j in range(job.num_formulas):
            for column in range(3):
                _add_to(_pointer(job.sums), 3 * j + column, sums[j, column])

    return do_parts
