"""What `compiled_places` does, by NumPy: on few places its operations take less than PyTorch's."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.exact import HIGHEST_SCORE, ONE
from nextloc_metrics.places import UNLISTED, UNRETRIEVED
from nextloc_metrics.rows import BEYOND, argsort_array

# Where these are in `scoring.Locations`.
FIRST, PRECISION = 0, 2

#: bytes that are looked at together
WORD = 8

# Places of more relevant locations than these are too many to weigh for every formula.
_MOST_RELEVANT = 1 << 6


def find_true(values: Tensor) -> Tensor:
    """Find where a bool tensor `[N, M]` is true, int64 `[L]`, counting on from row to row."""
    # a true one may be another byte than 1
    flat = values.contiguous().numpy().reshape(-1).view(np.uint8)
    # few are true: find the words that are not all false, and look into these
    words = flat[: len(flat) // WORD * WORD].view(np.int64)
    some = np.flatnonzero(words != 0)
    inside = np.flatnonzero(words[some].view(np.uint8) != 0)
    found = some[inside // WORD] * WORD + inside % WORD
    rest = np.flatnonzero(flat[len(words) * WORD :]) + len(words) * WORD
    return torch.from_numpy(np.concatenate([found, rest]))


def find_in_lists(lists: Tensor, ids: Tensor) -> Tensor:
    """Find the first places of ids int64 `[N, M]` in lists int64 `[N, K]`, or UNRETRIEVED."""
    wanted = _columns(ids)
    wanted[wanted < 0] = UNLISTED
    above = np.full(wanted.shape, UNRETRIEVED)
    for place, listed in reversed(list(enumerate(_columns(lists)))):
        np.copyto(above, place, where=wanted == listed)  # of repeats the first, which comes last
    return torch.from_numpy(above.T.copy())


def arrange(above: Tensor, tied: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
    """Put the columns `[N, M]` in the order of their places, padding last.

    Returns:
        int64 `[N, M]`, five: `above`, `tied`, `relevant_above`, `relevant_tied`, and `ids`.
    """
    num_queries, number = above.shape
    keys = np.minimum(above.numpy(), BEYOND)
    keys += ids.numpy() < 0
    at = argsort_array(keys)
    at += np.arange(0, num_queries * number, number, dtype=np.int64)[:, None]
    places, blocks, named = (x.numpy().take(at) for x in (above, tied, ids))
    retrieved = places < UNRETRIEVED
    column = np.arange(number, dtype=np.int64)
    begins = places[:, 1:] != places[:, :-1]
    if (begins | ~retrieved[:, 1:]).all():
        relevant_above, relevant_tied = column * retrieved, np.ones_like(places)
    else:
        whole = np.pad(begins, ((0, 0), (1, 1)), constant_values=True)
        start = np.maximum.accumulate(column * whole[:, :-1], axis=1)
        end = np.where(whole[:, 1:], column + 1, number)
        end = np.minimum.accumulate(end[:, ::-1], axis=1)[:, ::-1]
        relevant_above, relevant_tied = start * retrieved, np.where(retrieved, end - start, 1)
    arranged = places, blocks, relevant_above, relevant_tied, named
    return tuple(map(torch.from_numpy, arranged))


def tally(
    ranking: Any,
    counted: Tensor,
    table: Any,
    last: Any,
    row: Any,
    of: Any,
    divisors: Any,
) -> Tensor | None:
    """Sum up scores as `compiled_places.tally` does; None where the functions of `scoring` must."""
    above, tied = _columns(ranking.above), _columns(ranking.tied)
    number = ranking.num_relevant.numpy()
    if not number.size or above.min() < 0 or tied.min() < 1 or number.min() < 0:
        return None
    lasts, rows, kinds = last.tolist(), row.tolist(), of.tolist()
    used = np.flatnonzero((above < max(lasts)).any(1))
    most = int(used[-1]) + 1 if used.size else 1
    shared = FIRST in kinds and ranking.relevant_tied.numpy()[:, 0].max() > 1
    if shared or most > _MOST_RELEVANT or number.max() >= divisors.shape[1]:
        return None
    several, ties = len(above) > 1, tied.max() > 1
    above, tied = above[:most], tied[:most]
    formulas = list(zip(lasts, rows, kinds, strict=True))
    ends = {place: _ends(above, tied, place) for place in set(lasts)}
    totals: dict[tuple[int, int, int], Any] = {}
    for place, begin, kind in dict.fromkeys(formulas):
        start, end = ends[place]
        worth = table.take(begin + end) - table.take(begin + start)
        if kind == PRECISION and several:
            relevant_above = _columns(ranking.relevant_above)[:most] + 1
            if ties:
                relevant_tied = _columns(ranking.relevant_tied)[:most]
                slope = (relevant_tied - 1) / np.maximum(tied - 1, 1)
                worth = (relevant_above - slope * (above + 1)) * worth + slope * (end - start)
            else:
                worth *= relevant_above
        if ties:
            worth /= tied
        totals[place, begin, kind] = _sum(worth[:1] if kind == FIRST else worth)
    scores = np.array([totals[formula] for formula in formulas])
    scores /= divisors.take(number, axis=1)
    scores *= counted.numpy()
    if not (scores.min() >= 0 and scores.max() <= HIGHEST_SCORE):  # a NaN compares false
        return None
    sums = np.empty((len(scores), 3), np.int64)
    sums[:, 2] = np.count_nonzero(counted.numpy())
    sums[:, 1] = _to_fixed_point(scores * scores).sum(1)
    sums[:, 0] = _to_fixed_point(scores).sum(1)
    return torch.from_numpy(sums)


def _ends(above: Any, tied: Any, last: int) -> tuple[Any, Any]:
    """How many of the places up to `last` are before each block's start, and before its end."""
    start = np.minimum(above, last)
    return start, start + np.minimum(tied, last - start)


def count_decisions(state: Tensor, target: Tensor, decided: Tensor) -> None:
    """Write true positives, decisions and support into a state of `LocationTally`, int64 `[3, C]`.

    Args:
        state: what was counted before.
        target: int64 `[N]`, -1 for none.
        decided: int64 `[N]`, -1 for none.
    """
    counts = state.numpy()
    known = target.numpy() >= 0
    ids, best = target.numpy()[known], decided.numpy()[known]
    for row, places in enumerate((ids[ids == best], best[best >= 0], ids)):
        np.add.at(counts[row], places, 1)


def _columns(values: Tensor) -> Any:
    """Copy `[N, M]` into an array `[M, N]`: long rows vectorise."""
    return values.numpy().T.copy()


def _sum(columns: Any) -> Any:
    """Add up as `exact.row_sum` does; the values are lost."""
    while len(columns) > 1:
        half = 1 << (len(columns) - 1).bit_length() - 1
        columns[: len(columns) - half] += columns[half:]
        columns = columns[:half]
    return columns[0]


def _to_fixed_point(values: Any) -> Any:
    """Do what `exact.to_fixed_point` does, in place of the values."""
    values *= ONE
    values += 0.5
    return values.astype(np.int64)
