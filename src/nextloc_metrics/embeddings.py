"""Dot-product scores counted chunk by chunk of candidates, never all at once."""

import torch
from torch import Tensor

from nextloc_metrics.counting import survey
from nextloc_metrics.first_places import Highest, highest, merge

# Scores in a chunk, where `chunk_size` is not given: enough for an efficient matrix product, and
# few enough to be read from a cache.
_CHUNK_ELEMENTS = 1 << 21

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
        chunk_size: how many candidates are scored at once; None for a size that suits N.
        top: how many of the first places to keep; 0 for none.

    Returns:
        The scores `[N, M]`, `above` and `tied` int64 `[N, M]`, and the best candidates or None.
    """
    num_queries, num_candidates = len(queries), len(table)
    step = min(chunk_size or max(1, _CHUNK_ELEMENTS // max(1, num_queries)), num_candidates)
    at = ids.clamp(min=0)
    own = (queries[:, None] * table[at]).sum(2)
    if bias is not None:
        own = own + bias[at]
    own = own.masked_fill(ids < 0, torch.nan)
    threshold = own.nan_to_num(torch.inf, torch.inf, -torch.inf)
    above, tied = torch.zeros(2, *ids.shape, dtype=torch.int64, device=ids.device)
    # the last column takes the relevant locations that are in other chunks
    width = (step // _ALIGNMENT + 1) * _ALIGNMENT
    buffer = torch.empty(num_queries, width, dtype=own.dtype, device=own.device)
    home, slot = ids.div(step, rounding_mode="floor"), ids.remainder(step)
    found: Highest | None = None
    for number, start in enumerate(range(0, num_candidates, step)):
        rows = table[start : start + step]
        scores = torch.mm(queries, rows.T, out=buffer[:, : len(rows)])
        if bias is not None:
            scores += bias[start : start + step]
        buffer.scatter_(1, slot.masked_fill(home != number, step), own)
        more, same, best = survey(scores, threshold, find_best=top > 0)
        above += more
        tied += same
        if best is not None:
            found = _better(found, highest(scores, best, top), start, top)
    return own, above, tied, found


def _better(found: Highest | None, chunk: Highest, start: int, top: int) -> Highest:
    best = chunk.best[0], chunk.best[1] + start
    first = chunk.first and (chunk.first[0], chunk.first[1] + start)
    if found is None:
        return Highest(best, first)
    both = [torch.stack(pair, 1) for pair in zip(found.best, best, strict=True)]
    if first is None or found.first is None:
        return merge((both[0], both[1]), None, top)
    values, numbers = (torch.cat(pair, 1) for pair in zip(found.first, first, strict=True))
    return merge((both[0], both[1]), (values, numbers), top)
