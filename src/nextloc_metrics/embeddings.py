"""Dot-product scores counted chunk by chunk of candidates, never all at once."""

import torch
from torch import Tensor

from nextloc_metrics import threads
from nextloc_metrics.counting import FEW_RELEVANT, compiled_loops, highest, survey
from nextloc_metrics.first_places import Highest, merge

# Scores in a thread's chunk, where `chunk_size` is not given: enough for an efficient matrix
# product, and few enough to be read from a cache.
_CHUNK_ELEMENTS = 1 << 20
_COMPILED_CHUNK_ELEMENTS = 1 << 19

# The best candidates of chunks are kept until they are one part of so many of a chunk's scores.
_KEPT_SHARE = 1 << 3

# More than there are candidates.
_BEHIND = 1 << 40

# Rows of the buffer start where vectors do: a product is written a quarter slower elsewhere.
_ALIGNMENT = 1 << 5


def survey_products(
    queries: Tensor,
    table: Tensor,
    bias: Tensor | None,
    ids: Tensor,
    chunk_size: int | None,
    top: int,
) -> tuple[Tensor, Tensor, Tensor, Highest | None]:
    """Find the relevant locations' scores, count around them, and find the best candidates.

    A relevant location's score is computed once and put in the place of its product in the chunk,
    since the last bits of a product depend on the shapes of the matrices: so it ties with itself.

    Args:
        queries: floating `[N, D]`.
        table: floating `[C, D]`.
        bias: floating `[C]`, or None.
        ids: int64 `[N, M]`, -1 for padding.
        chunk_size: how many candidates are scored at once, by all threads together; None for a
            size that suits N, on each of them.
        top: how many of the first places to keep; 0 for none.

    Returns:
        The scores `[N, M]`, `above` and `tied` int64 `[N, M]`, and the best candidates or None.
    """
    num_queries, num_candidates = len(queries), len(table)
    at = ids.clamp(min=0)
    own = (queries[:, None] * table[at]).sum(2)
    if bias is not None:
        own = own + bias[at]
    own = own.masked_fill(ids < 0, torch.nan)
    survey_of_chunks, elements = _ChunkSurvey, _CHUNK_ELEMENTS
    loops = compiled_loops(ids)
    if loops is not None and loops.supports(own) and ids.shape[1] <= FEW_RELEVANT:
        survey_of_chunks, elements = loops.ChunkSurvey, _COMPILED_CHUNK_ELEMENTS
    number = threads.available() if ids.device.type == "cpu" and threads.are_of_torch() else 1
    if chunk_size is None:
        step = max(1, elements // max(1, num_queries))
    else:
        step = -(-chunk_size // number)
    step = min(step, num_candidates)
    number = min(number, -(-num_candidates // step))
    untaken = iter(range(0, num_candidates, step))
    counts: list[Tensor] = []
    best_found: list[Highest] = []

    def take_chunks() -> None:
        # the last column takes the relevant locations that are in other chunks
        width = (step // _ALIGNMENT + 1) * _ALIGNMENT
        buffer = torch.empty(num_queries, width, dtype=own.dtype, device=own.device)
        chunks = survey_of_chunks(buffer, own, ids, top > 0)
        found: list[Highest] = []
        for start in untaken:
            rows = table[start : start + step]
            scores = torch.mm(queries, rows.T, out=buffer[:, : len(rows)])
            if bias is not None:
                scores += bias[start : start + step]
            best = chunks.add(start, len(rows))
            if best is not None:
                found.append(highest(scores, best, top).numbered_from(start))
            if _KEPT_SHARE * len(found) * (top + 1) > step:
                found = [_best_of(found, top)]
        counts.append(chunks.counts)
        if found:
            best_found.append(_best_of(found, top))

    threads.run(take_chunks, number)
    above, tied = torch.stack(counts).sum(0)
    return own, above, tied, _best_of(best_found, top) if top else None


class _ChunkSurvey:
    """What `compiled.ChunkSurvey` is, by `counting.survey`; the buffer has a column to spare."""

    def __init__(self, buffer: Tensor, own: Tensor, ids: Tensor, find_best: bool) -> None:
        self._buffer, self._own, self._ids, self._find_best = buffer, own, ids, find_best
        self.counts = torch.zeros(2, *ids.shape, dtype=torch.int64, device=ids.device)
        self._above, self._tied = self.counts

    def add(self, start: int, columns: int) -> tuple[Tensor, Tensor] | None:
        # those of other chunks, before or behind, are put into the column to spare
        slot = (self._ids - start).remainder(_BEHIND).clamp(max=columns)
        self._buffer.scatter_(1, slot, self._own)
        above, tied, best = survey(self._buffer[:, :columns], self._own, self._find_best)
        self._above += above
        self._tied += tied
        return best


def _best_of(found: list[Highest], top: int) -> Highest:
    """Put what was found in several chunks together."""
    if len(found) == 1:
        return found[0]
    best = torch.stack([x.best[0] for x in found], 1), torch.stack([x.best[1] for x in found], 1)
    first = [x.first for x in found if x.first is not None]
    if not first:
        return merge(best, None, top)
    values, numbers = (torch.cat(parts, 1) for parts in zip(*first, strict=True))
    return merge(best, (values, numbers), top)
