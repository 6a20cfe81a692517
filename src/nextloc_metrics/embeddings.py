"""Dot-product scores counted chunk by chunk of candidates, never all at once."""

import torch
from torch import Tensor

from nextloc_metrics import threads
from nextloc_metrics.counting import survey
from nextloc_metrics.first_places import Highest, highest, merge

# Scores in a thread's chunk, where `chunk_size` is not given: enough for an efficient matrix
# product, and few enough to be read from a cache.
_CHUNK_ELEMENTS = 1 << 20

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
    number = threads.available() if ids.device.type == "cpu" and threads.are_of_torch() else 1
    chunk = chunk_size and -(-chunk_size // number)
    step = min(chunk or max(1, _CHUNK_ELEMENTS // max(1, num_queries)), num_candidates)
    number = min(number, -(-num_candidates // step))
    at = ids.clamp(min=0)
    own = (queries[:, None] * table[at]).sum(2)
    if bias is not None:
        own = own + bias[at]
    own = own.masked_fill(ids < 0, torch.nan)
    threshold = own.nan_to_num(torch.inf, torch.inf, -torch.inf)
    home, slot = ids.div(step, rounding_mode="floor"), ids.remainder(step)
    untaken = iter(range(0, num_candidates, step))
    counts: list[tuple[Tensor, Tensor]] = []
    best_found: list[Highest] = []

    def take_chunks() -> None:
        above, tied = torch.zeros(2, *ids.shape, dtype=torch.int64, device=ids.device)
        # the last column takes the relevant locations that are in other chunks
        width = (step // _ALIGNMENT + 1) * _ALIGNMENT
        buffer = torch.empty(num_queries, width, dtype=own.dtype, device=own.device)
        found: list[Highest] = []
        for start in untaken:
            rows = table[start : start + step]
            scores = torch.mm(queries, rows.T, out=buffer[:, : len(rows)])
            if bias is not None:
                scores += bias[start : start + step]
            buffer.scatter_(1, slot.masked_fill(home != start // step, step), own)
            more, same, best = survey(scores, threshold, find_best=top > 0)
            above += more
            tied += same
            if best is not None:
                found = [_best_of([*found, _shifted(highest(scores, best, top), start)], top)]
        counts.append((above, tied))
        best_found.extend(found)

    threads.run(take_chunks, number)
    above, tied = (torch.stack(each).sum(0) for each in zip(*counts, strict=True))
    return own, above, tied, _best_of(best_found, top) if top else None


def _shifted(chunk: Highest, start: int) -> Highest:
    """Number the candidates of a chunk from its start."""
    (maximum, best), first = chunk
    return Highest((maximum, best + start), first and (first[0], first[1] + start))


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
