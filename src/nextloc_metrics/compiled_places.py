"""Compiled loops over places, and not over scores: lists, columns, sums and decisions.

What is kept on disk is known by the time of this file, whatever becomes of what others define.
"""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from nextloc_metrics import numpy_places
from nextloc_metrics.compiled_loops import add_score
from nextloc_metrics.counting import FEW_RELEVANT
from nextloc_metrics.exact import HIGHEST_SCORE
from nextloc_metrics.numpy_places import FIRST, PRECISION, WORD
from nextloc_metrics.places import UNRETRIEVED

# Words that are looked at before the first of them is looked into.
_WORDS_AT_ONCE = 1 << 10


@numba.njit(nogil=True, cache=True)
def _find_true(words, values, found):  # type: ignore[no-untyped-def]
    """The places of bytes that are not 0; `found` has a slot to spare.

    Without a branch that depends on a value, which processors would mispredict.
    """
    some, number = np.empty(_WORDS_AT_ONCE, np.int64), 0
    for begin in range(0, len(words), _WORDS_AT_ONCE):
        held = 0
        for word in range(begin, min(begin + _WORDS_AT_ONCE, len(words))):
            some[held] = word
            held += words[word] != 0
        for word in some[:held]:
            for place in range(WORD * word, WORD * (word + 1)):
                found[number] = place
                number += values[place] != 0
    for place in range(WORD * len(words), len(values)):
        found[number] = place
        number += values[place] != 0


@numba.njit(nogil=True, cache=True)
def _find_in_lists(lists, ids, above):  # type: ignore[no-untyped-def]
    """The first place of every id."""
    for i in range(len(lists)):
        for j in range(ids.shape[1]):
            above[i, j] = UNRETRIEVED
            if ids[i, j] >= 0:
                for place in range(lists.shape[1]):
                    if lists[i, place] == ids[i, j]:
                        above[i, j] = place
                        break


@numba.njit(nogil=True)
def _put_in_order(keys, order):  # type: ignore[no-untyped-def]
    """Sort a row's columns by their keys, few of them; equal ones stay as they are."""
    for column in range(len(keys)):
        place = column
        while place > 0 and keys[order[place - 1]] > keys[column]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = column


@numba.njit(nogil=True, cache=True)
def _arrange(above, tied, ids, arranged):  # type: ignore[no-untyped-def]
    """The columns in the order of their places, and how many are above and tied in each row."""
    keys, order = np.empty(above.shape[1], np.int64), np.empty(above.shape[1], np.int64)
    for i in range(len(above)):
        for j in range(len(keys)):
            keys[j] = above[i, j] if ids[i, j] >= 0 else UNRETRIEVED + 1
        _put_in_order(keys, order)
        start = 0  # of the columns of one place
        for j in range(len(order)):
            place = above[i, order[j]]
            arranged[0, i, j], arranged[1, i, j] = place, tied[i, order[j]]
            arranged[4, i, j] = ids[i, order[j]]
            if place != arranged[0, i, start]:
                start = j
            arranged[2, i, j] = start if place < UNRETRIEVED else 0
        for j in range(len(order) - 1, -1, -1):
            place = arranged[0, i, j]
            if place == UNRETRIEVED:
                arranged[3, i, j] = 1
            elif j + 1 < len(order) and arranged[0, i, j + 1] == place:
                arranged[3, i, j] = arranged[3, i, j + 1]
            else:
                arranged[3, i, j] = j + 1 - arranged[2, i, j]


@numba.njit(nogil=True)
def _row_sum(values):  # type: ignore[no-untyped-def]
    """Add up as `exact.row_sum` does; the values are lost."""
    size = 1
    while size < len(values):
        size *= 2
    while size > 1:
        size //= 2
        for i in range(min(size, len(values) - size)):
            values[i] += values[i + size]
    return values[0]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _tally(  # type: ignore[no-untyped-def]
    above, tied, relevant_above, relevant_tied, num_relevant, counted,
    table, last, row, of, divisors, sums,
):  # fmt: skip
    """Add up scores and their squares as `exact` does.

    Returns False where the first block has several relevant locations and a formula is of the first
    one, and where numbers are impossible.
    """
    values = np.empty(above.shape[1])
    for i in range(len(above)):
        if not counted[i]:
            continue
        if not 0 <= num_relevant[i] < divisors.shape[1]:
            return False
        for j in range(len(last)):
            if of[j] == FIRST and relevant_tied[i, 0] > 1:
                return False
            columns = 1 if of[j] == FIRST else len(values)
            used = 0
            while used < columns and above[i, used] < last[j]:
                place, block = above[i, used], tied[i, used]
                if place < 0 or block < 1:
                    return False
                end = place + min(block, last[j] - place)
                value = table[row[j] + end] - table[row[j] + place]
                if of[j] == PRECISION and columns > 1:
                    slope = (relevant_tied[i, used] - 1) / max(block - 1, 1)
                    value = (relevant_above[i, used] + 1 - slope * (place + 1)) * value
                    value = value + slope * (end - place)
                values[used] = value / block
                used += 1
            total = _row_sum(values[:used]) if used else 0.0
            score = total / divisors[j, num_relevant[i]]
            if not 0 <= score <= HIGHEST_SCORE:
                return False
            add_score(score, sums[j])
    return True


@numba.njit(nogil=True, cache=True, boundscheck=True)
def _count_decisions(state, target, decided):  # type: ignore[no-untyped-def]
    """Add true positives, decisions and support, in the rows of the state."""
    for i in range(len(target)):
        if target[i] >= 0:
            state[2, target[i]] += 1
            if decided[i] >= 0:
                state[1, decided[i]] += 1
            if decided[i] == target[i]:
                state[0, target[i]] += 1


def compile_loops_over_places() -> None:
    """Compile the loops, or load them from the cache."""
    places, number = torch.zeros(1, 1, dtype=torch.int64, device="cpu"), torch.zeros(1, 1).double()
    place = places[0]
    constants = number[0], place, place, place, number
    _tally(*[x.numpy() for x in (*[places] * 4, place, place.bool(), *constants, places)])
    count_decisions(places.repeat(3, 1), place, place)
    find_true(place.bool())
    find_in_lists(places, places)
    arrange(places, places, places)


def find_true(values: Tensor) -> Tensor:
    """Find where a bool tensor `[N, M]` is true, int64 `[L]`, counting on from row to row."""
    flat = values.contiguous().numpy().reshape(-1).view(np.uint8)
    number = np.count_nonzero(flat)
    found = np.empty(number + 1, np.int64)
    _find_true(flat[: len(flat) // WORD * WORD].view(np.int64), flat, found)
    return torch.from_numpy(found[:number])


def find_in_lists(lists: Tensor, ids: Tensor) -> Tensor:
    """Find the first places of ids int64 `[N, M]` in lists int64 `[N, K]`, or UNRETRIEVED."""
    above = torch.empty(ids.shape, dtype=torch.int64, device="cpu")
    _find_in_lists(*[x.contiguous().numpy() for x in (lists, ids, above)])
    return above


def arrange(above: Tensor, tied: Tensor, ids: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Put the columns `[N, M]` in the order of their places, padding last.

    Returns:
        int64 `[N, M]`, five: `above`, `tied`, `relevant_above`, `relevant_tied`, and `ids`.
    """
    if above.shape[1] > FEW_RELEVANT:
        return numpy_places.arrange(above, tied, ids)
    arranged = torch.empty(5, *above.shape, dtype=torch.int64, device="cpu")
    _arrange(*[x.contiguous().numpy() for x in (above, tied, ids, arranged)])
    return arranged


def tally(ranking: Any, counted: Tensor, *constants: Any) -> Tensor | None:
    """Sum up scores, int64 `[F, 3]`; None where only the functions of `scoring` can tell.

    Args:
        ranking: a `Ranking`.
        counted: bool `[N]`, which of its queries to count.
        constants: arrays. The flat table of sums of weights over the first places, float64; and for
            every formula the last place that counts, where in the table its row starts, and what it
            is of, int64; and its divisors by the number of relevant locations, float64.
    """
    places = ranking.above, ranking.tied, ranking.relevant_above, ranking.relevant_tied
    sums = np.zeros((len(constants[1]), 3), np.int64)
    arrays = [x.contiguous().numpy() for x in (*places, ranking.num_relevant, counted)]
    return torch.from_numpy(sums) if _tally(*[*arrays, *constants, sums]) else None


def count_decisions(state: Tensor, target: Tensor, decided: Tensor) -> None:
    """Write true positives, decisions and support into a state of `LocationTally`, int64 `[3, C]`.

    Args:
        state: what was counted before.
        target: int64 `[N]`, -1 for none.
        decided: int64 `[N]`, -1 for none.
    """
    _count_decisions(state.numpy(), target.contiguous().numpy(), decided.contiguous().numpy())
