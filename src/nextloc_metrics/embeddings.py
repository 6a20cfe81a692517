"""Dot-product scores counted chunk by chunk of candidates, never all at once.

The last bits of a matrix product depend on the shapes of the matrices and on the column. So the
score of a row that must tie exactly, with itself or with equal rows, is computed once and written
into every column in which that row stands.
"""

import math

import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.counting import highest, survey
from nextloc_metrics.first_places import Highest, merge

# Scores in a chunk, where `chunk_size` is not given: enough for an efficient matrix product, and
# few enough to be read from a cache.
_CHUNK_ELEMENTS = 1 << 20

# The best candidates of chunks are kept until they are one part of so many of a chunk's scores.
_KEPT_SHARE = 1 << 3

# Rows of the buffer start where vectors do: a product is written a quarter slower elsewhere.
_ALIGNMENT = 1 << 5

# A row's first bytes, by which nearly all different rows are told apart.
_KEY_BYTES = 8

# An odd factor with bits everywhere, so that no information is lost when it multiplies a hash.
_FACTOR = 0x5851F42D4C957F2D

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def survey_products(
    queries: Tensor,
    table: Tensor,
    bias: Tensor | None,
    ids: Tensor,
    chunk_size: int | None,
    top: int,
) -> tuple[Tensor, Tensor, Tensor, Highest | None]:
    """Find the relevant locations' scores, count around them, and find the best candidates.

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
    repeats = _find_repeats(table, bias)
    step = min(len(table), chunk_size or max(1, _CHUNK_ELEMENTS // max(1, len(queries))))
    # scores that are computed once and kept are no more than those of a chunk
    elements = step * len(queries)
    rows = min(elements // max(1, len(repeats[0])), math.isqrt(elements // max(1, ids.shape[1])))
    rows = max(1, rows)
    parts = [
        _survey_block(*block, table, bias, repeats, step, top)
        for block in zip(torch.split(queries, rows), torch.split(ids, rows), strict=True)
    ]
    own, above, tied = (torch.cat(found) for found in list(zip(*parts, strict=True))[:3])
    highest_of_blocks = [part[3] for part in parts if part[3] is not None]
    return own, above, tied, _join(highest_of_blocks) if top else None


def _survey_block(
    queries: Tensor,
    ids: Tensor,
    table: Tensor,
    bias: Tensor | None,
    repeats: tuple[Tensor, Tensor],
    step: int,
    top: int,
) -> tuple[Tensor, Tensor, Tensor, Highest | None]:
    """Do what `survey_products` does, of so few queries that their kept scores are few."""
    at = ids.clamp(min=0)
    columns = torch.unique(torch.cat([at.flatten(), repeats[0]]))
    first_of_columns = _first_equal(columns, repeats)
    first = torch.unique(first_of_columns)
    kept = _product(queries, table[first], None if bias is None else bias[first])
    own = kept.gather(1, torch.searchsorted(first, _first_equal(at, repeats)))
    own = own.masked_fill(ids < 0, torch.nan)
    slot = torch.searchsorted(first, first_of_columns)

    starts = range(0, len(table), step)
    bounds = torch.tensor([*starts, len(table)], device=columns.device)
    ends = torch.searchsorted(columns, bounds).tolist()
    width = (step // _ALIGNMENT + 1) * _ALIGNMENT
    buffer = torch.empty(len(queries), width, dtype=own.dtype, device=own.device)
    above, tied = torch.zeros(2, *ids.shape, dtype=torch.int64, device=ids.device)
    found: list[Highest] = []
    for number, start in enumerate(starts):
        chunk = slice(start, start + step)
        rows, added = table[chunk], None if bias is None else bias[chunk]
        scores = _product(queries, rows, added, out=buffer[:, : len(rows)])
        here = slice(ends[number], ends[number + 1])
        scores.index_copy_(1, columns[here] - start, kept[:, slot[here]])
        more, equal, best = survey(scores, own, find_best=top > 0)
        above += more
        tied += equal
        if best is not None:
            found.append(highest(scores, best, top).numbered_from(start))
        if _KEPT_SHARE * len(found) * (top + 1) > step:
            found = [_best_of(found, top)]
    return own, above, tied, _best_of(found, top) if top else None


def _product(
    queries: Tensor, rows: Tensor, bias: Tensor | None, out: Tensor | None = None
) -> Tensor:
    scores = torch.mm(queries, rows.T, out=out)
    return scores if bias is None else scores.add_(bias)


def _find_repeats(table: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Find the rows that occur more than once, with equal bias.

    Returns:
        int64 `[R]`, their ids in rising order; and for each the lowest id of an equal row.
    """
    few = max(1, _KEY_BYTES // table.element_size())
    candidates = _with_equal_keys(_hash_rows(table[:, :few]))
    rows = table[candidates]
    if bias is not None:
        rows = torch.cat([rows, bias[candidates, None]], 1)
    key, order = _hash_rows(rows).sort(stable=True)
    begins = torch.ones_like(key, dtype=torch.bool)
    begins[1:] = key[1:] != key[:-1]
    block = begins.cumsum(0) - 1
    lowest = order[begins][block]
    # a NaN equals nothing, and different rows may share a hash
    equal = (rows[order] == rows[lowest]).all(1)
    repeated = torch.zeros_like(block).index_add_(0, block, equal.long())[block] > 1
    kept = equal & repeated
    ids, in_order = candidates[order[kept]].sort()
    return ids, candidates[lowest[kept]][in_order]


def _hash_rows(rows: Tensor) -> Tensor:
    """Hash each row to int64 `[n]`; 0 and -0 are the same."""
    bits = (rows + 0.0).view(_INTEGERS[rows.element_size()])
    key = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for column in bits.unbind(1):
        key.add_(column).mul_(_FACTOR)
    return key


def _with_equal_keys(key: Tensor) -> Tensor:
    """Return where keys are that occur more than once, int64 `[n]`."""
    in_order = backends.choose(key).sort(key)
    equal = in_order[1:] == in_order[:-1]
    if not equal.any():
        return torch.empty(0, dtype=torch.int64, device=key.device)
    return torch.isin(key, in_order[1:][equal]).nonzero()[:, 0]


def _first_equal(ids: Tensor, repeats: tuple[Tensor, Tensor]) -> Tensor:
    """Return for each id the lowest id of an equal row."""
    repeated, lowest = repeats
    if not len(repeated):
        return ids
    slot = torch.searchsorted(repeated, ids).clamp(max=len(repeated) - 1)
    return torch.where(repeated[slot] == ids, lowest[slot], ids)


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


def _join(blocks: list[Highest]) -> Highest:
    """Put what was found for several blocks of queries together."""
    maxima, ids = (torch.cat(parts) for parts in zip(*[one.best for one in blocks], strict=True))
    first = [one.first for one in blocks if one.first is not None]
    if not first:
        return Highest((maxima, ids), None)
    values, numbers = (torch.cat(parts) for parts in zip(*first, strict=True))
    return Highest((maxima, ids), (values, numbers))
