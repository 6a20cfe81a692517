"""How many candidates are scored above, and how many exactly at, each relevant location's score.

Only this, and to find the first places, is hot, here by PyTorch's operations and sooner, where they
can read the scores, in `numpy_counts`, `compiled` and `triton_kernels`: all the rest works on a few
integers a query.

A NaN among the candidates compares false with everything, so both counts are taken from below
(`above` = candidates - lower or equal): a NaN then counts as above, and never helps a model.
"""

from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics import numpy_counts, numpy_places
from nextloc_metrics.devices import count_each, waits_to_look
from nextloc_metrics.first_places import (
    FirstPlaces,
    Highest,
    find_first_uncompiled,
    first_places_of_scores,
    highest_scores_by_sort,
)
from nextloc_metrics.places import UNRETRIEVED
from nextloc_metrics.rows import fill_slots, floats, slots_of_sizes

if TYPE_CHECKING:
    from nextloc_metrics.targets import Marked, Relevant

# Up to here a comparison of every candidate with each relevant location is the cheapest; beyond,
# one binary search of every candidate among the sorted relevant scores, log2(M) steps instead of M.
FEW_RELEVANT = 64

# Elements a work buffer holds: few enough to stay in the cores' caches.
_BUFFER_ELEMENTS = 1 << 18

# The same on other devices, where a buffer must keep every core busy and stay small beside scores.
_DEVICE_BUFFER_ELEMENTS = 1 << 22

# Of the scores, one part of so many may be copied, and of few scores so many.
_COPIED_SHARE = 1 << 5
_COPIED_ELEMENTS = 1 << 16

# To find so many of the first places takes as long as to count around one relevant location, if
# there are so many candidates for each place.
_PLACES = 6
_PLACES_IF_COMPILED = 3
_MANY_CANDIDATES = 1 << 4

# PyTorch's builds for CUDA bring it along.
_HAS_TRITON = find_spec("triton") is not None

_compiled: ModuleType | None = None


def accelerate() -> float:
    """Find places and sum up scores by compiled loops from now on, on the CPU.

    Needs the extra `nextloc-metrics[fast]`. The results are the same to the bit. Compiling takes
    seconds the first time, and is kept on disk; it happens here and nowhere else. Call it once in
    every process.

    Returns:
        The seconds it took.

    Raises:
        ModuleNotFoundError: numba is not installed.
        RuntimeError: numba finds no folder to keep the loops in.
    """
    global _compiled
    try:
        from nextloc_metrics import compiled
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "`accelerate()` needs numba; install it with `pip install 'nextloc-metrics[fast]'`."
        ) from error
    except RuntimeError as error:
        raise RuntimeError(
            "`accelerate()` keeps its loops on disk and found no folder to write to; name one in "
            "the environment variable NUMBA_CACHE_DIR."
        ) from error
    seconds = compiled.compile_loops()
    _compiled = compiled
    return seconds


def compiled_loops(values: Tensor) -> ModuleType | None:
    """Return the compiled loops, where `accelerate` switched them on and they can read values."""
    return None if waits_to_look(values) else _compiled


def loops_over_places(values: Tensor) -> ModuleType | None:
    """Return the loops over places, compiled or NumPy's; None where they cannot read values."""
    return None if waits_to_look(values) else _compiled or numpy_places


def find_places(
    scores: Tensor, relevant: "Relevant | Marked", depth: int | None, top: int
) -> tuple[Tensor, Tensor, Tensor, FirstPlaces | None]:
    """Find where the relevant candidates landed.

    Args:
        scores: floating `[N, C]`, the scores of all candidates.
        relevant: the relevant ones.
        depth: how many places matter; None for all.
        top: how many of the first places to keep; 1 for the best candidate alone.

    Returns:
        The ids of relevant ones, int64 `[N, M]`, -1 for padding, of which some beyond `depth` may
        be gone where none is graded; their `above` and `tied`, int64 `[N, M]`, UNRETRIEVED and 1
        for padding and where the score is NaN or -inf; and the first places where asked for.
    """
    loops = compiled_loops(scores)
    few = relevant.most <= FEW_RELEVANT and depth is None and top <= 1
    if loops is not None and few and loops.supports(scores):
        return relevant.ids, *loops.find_places(scores, relevant.ids, top)
    near = None if depth is None else _find_within(scores, relevant, depth)
    if near is None:
        ids = relevant.ids
        own = scores.gather(1, ids.clamp(min=0)).masked_fill(ids < 0, torch.nan)
        above, tied, best = survey(scores, own, find_best=top > 0)
        above, tied = mark_unretrieved(own, above, tied)
    else:
        ids, above, tied = near
        best = survey(scores, scores[:, :0], find_best=True)[2] if top else None
    first = None if best is None else first_places_of_scores(highest(scores, best, top), top)
    return ids, above, tied, first


def highest(scores: Tensor, best: tuple[Tensor, Tensor], top: int) -> Highest:
    """Find the candidates that decide the first `top` places of scores `[N, C]`."""
    return Highest(best, find_first(scores, top + 1) if top > 1 else None)


def find_first(scores: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Do what `scores.topk(number, dim=1)` does, or with all candidates where they are fewer.

    Returns:
        The scores `[N, number]`, best first (NaN before all), and whose they are, int64.
    """
    loops = compiled_loops(scores)
    if loops is not None and loops.supports_first(scores, number):
        return loops.find_first(scores, number)  # type: ignore[no-any-return]
    return find_first_uncompiled(scores, number)


def _highest_scores(scores: Tensor, number: int) -> Tensor:
    """Return the scores that `find_first` finds."""
    if compiled_loops(scores) is None:
        return highest_scores_by_sort(scores, number)
    return find_first(scores, number)[0]


def mark_unretrieved(own: Tensor, above: Tensor, tied: Tensor) -> tuple[Tensor, Tensor]:
    """Return the counts, with UNRETRIEVED and 1 where a location's own score is NaN or -inf."""
    unretrieved = ~(own > -torch.inf)  # a NaN compares false
    return above.masked_fill(unretrieved, UNRETRIEVED), tied.masked_fill(unretrieved, 1)


def survey(
    scores: Tensor, own: Tensor, find_best: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
    """Count the candidates around each relevant location, and find the best one where asked.

    Args:
        scores: floating `[N, C]`, the scores of all candidates.
        own: floating `[N, M]`, the scores of the relevant ones, NaN where nothing is to be counted.
        find_best: whether to find the best candidate.

    Returns:
        `above` and `tied`, int64 `[N, M]`, and the `best_candidate` or None.
    """
    loops = _loops_over_scores(scores, own.shape[1])
    if loops is None:
        above, tied = count_above_and_tied(scores, own)
        return above, tied, best_candidate(scores) if find_best else None
    above, tied, best = loops.survey(scores, own, find_best)
    return above, tied, (scores.gather(1, best[:, None])[:, 0], best) if find_best else None


def _loops_over_scores(scores: Tensor, num_relevant: int) -> ModuleType | None:
    """Return the module that surveys these scores soonest; None for PyTorch's operations."""
    if scores.device.type == "cuda" and _HAS_TRITON:
        from nextloc_metrics import triton_kernels

        return triton_kernels if triton_kernels.supports(scores) else None
    if waits_to_look(scores):
        return None
    loops = _compiled if _compiled is not None and _compiled.supports(scores) else numpy_counts
    return loops if num_relevant <= loops.MOST_RELEVANT else None


def count_above_and_tied(scores: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Count the candidates above and tied with each relevant location.

    Args:
        scores: floating `[N, C]`, the scores of all candidates.
        own: floating `[N, M]`, the scores of the relevant ones, NaN where nothing is to be counted.

    Returns:
        `above` and `tied`, int64 `[N, M]`; `tied` includes the relevant location itself.
    """
    few = own.shape[1] <= FEW_RELEVANT
    below, below_or_tied = (_compare_each if few else _search_sorted)(scores, own)
    return scores.shape[1] - below_or_tied, below_or_tied - below


def are_looked_up(values: Tensor, number: float, depth: int) -> bool:
    """Tell whether to look so many relevant ones up at the first places is the soonest way.

    Args:
        values: `[N, C]`, one of every candidate.
        number: of a query's relevant locations.
        depth: the number of places.
    """
    places = _PLACES if compiled_loops(values) is None else _PLACES_IF_COMPILED
    return number > max(1, depth / places) and depth * _MANY_CANDIDATES <= values.shape[1]


def _find_within(
    scores: Tensor, relevant: "Relevant | Marked", depth: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Find the places of the relevant ones on the first `depth`, as `find_places` returns them.

    What is above or tied with these is on the first places too, but for ties with the last. None
    where to count around all relevant ones takes less.
    """
    if not are_looked_up(scores, relevant.most, depth):
        return None
    if relevant.marks is None:
        first = _highest_scores(scores, depth + 1)
    else:
        first, columns = find_first(scores, depth + 1)
        in_order = floats(first)
        if not (in_order[:, 1:] == in_order[:, :-1]).any():
            return _look_up(relevant.marks, first[:, :depth], columns[:, :depth])
    ids = relevant.ids
    last, beyond = first[:, depth - 1 : depth], first[:, depth:]
    own = scores.gather(1, ids.clamp(min=0))
    retrieved = (own >= last) & (own > -torch.inf) & (ids >= 0)
    if relevant.grades is None:
        kept = numpy_places.find_true(retrieved)
        retrieved = slots_of_sizes(retrieved.sum(1))
        ids, own = (fill_slots(retrieved, values.take(kept), -1) for values in (ids, own))
    above, tied = _count_in_order(first[:, :depth], own)
    crosses = retrieved & (own == beyond)
    if crosses.any():
        in_all = torch.zeros_like(ids[:, :1])
        rows = crosses.any(1).nonzero()[:, 0]
        size = max(1, len(scores) // _COPIED_SHARE, _COPIED_ELEMENTS // scores.shape[1])
        for part in torch.split(rows, size):
            in_all[part] = survey(scores[part], last[part], find_best=False)[1]
        tied = torch.where(crosses, in_all, tied)
    return ids, above.masked_fill_(~retrieved, UNRETRIEVED), tied.masked_fill_(~retrieved, 1)


def _look_up(marks: Tensor, first: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tell which of the first candidates are marked; none are tied, so each column is a place."""
    found = (marks.gather(1, columns) & (first > -torch.inf)).numpy()  # a NaN compares false
    above = np.where(found, np.arange(found.shape[1], dtype=np.int64), UNRETRIEVED)
    ids = np.where(found, columns.numpy(), -1)
    return torch.from_numpy(ids), torch.from_numpy(above), torch.from_numpy(np.ones_like(above))


def _count_in_order(first: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Count how many of the first scores `[N, K]` are above, and how many tied, int64 `[N, M]`."""
    is_nan = first.isnan()
    ascending = -first.masked_fill(is_nan, torch.inf)
    nan = is_nan.sum(1, keepdim=True)  # above an infinite score, too
    above = torch.searchsorted(ascending, -own).clamp_(min=nan)
    return above, torch.searchsorted(ascending, -own, right=True).sub_(above)


def _compare_each(scores: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    counts = torch.empty(2, *own.shape, dtype=torch.int64, device=own.device)
    rows = max(1, _DEVICE_BUFFER_ELEMENTS // scores.shape[1])
    for row in range(0, scores.shape[0], rows):
        block = scores[row : row + rows]
        for j in range(own.shape[1]):
            at = own[row : row + rows, j : j + 1]
            counts[0, row : row + rows, j] = (block < at).sum(1)
            counts[1, row : row + rows, j] = (block <= at).sum(1)
    return counts[0], counts[1]


def _search_sorted(scores: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    num_candidates, num_relevant = scores.shape[1], own.shape[1]
    # a NaN is in no order
    thresholds, order = own.nan_to_num(torch.inf, torch.inf, -torch.inf).sort(dim=1)
    counts = torch.empty(2, *own.shape, dtype=torch.int64, device=own.device)
    on_cpu = scores.device.type == "cpu"
    rows = max(1, (_BUFFER_ELEMENTS if on_cpu else _DEVICE_BUFFER_ELEMENTS) // num_candidates)
    for row in range(0, scores.shape[0], rows):
        block = scores[row : row + rows].contiguous()
        offset = torch.arange(block.shape[0], device=own.device)[:, None] * (num_relevant + 1)
        for side, right in enumerate((True, False)):
            # the number of thresholds below (or at) each candidate, then how many share it
            bucket = torch.searchsorted(thresholds[row : row + rows], block, right=right) + offset
            sizes = count_each(bucket.flatten(), offset.numel() * (num_relevant + 1))
            fewer = sizes.view(-1, num_relevant + 1).cumsum(1)[:, :-1]
            counts[side, row : row + rows].scatter_(1, order[row : row + rows], fewer)
    return counts[0], counts[1]


def best_candidate(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's maximum (NaN where the row has one) and the lowest index that holds it.

    Args:
        scores: floating `[N, C]`.

    Returns:
        The maxima `[N]` and int64 indices `[N]`.
    """
    num_queries, num_candidates = scores.shape
    width = 1 << 9
    if num_candidates <= 4 * width:
        index = scores.argmax(1)
        return scores.gather(1, index[:, None])[:, 0], index
    # maxima vectorise, their indices do not: find the first best block, then look into it alone
    whole = num_candidates // width * width
    maxima = scores[:, :whole].reshape(num_queries, whole // width, width).amax(2)
    if whole < num_candidates:
        maxima = torch.cat([maxima, scores[:, whole:].amax(1, keepdim=True)], 1)
    start = (maxima.argmax(1) * width).clamp(max=num_candidates - width)
    query = torch.arange(num_queries, device=scores.device)
    inside = scores.unfold(1, width, 1)[query, start]
    best = inside.argmax(1)
    return inside.gather(1, best[:, None])[:, 0], start + best
