"""Ranks by scores that are not in one tensor: chunks of an embedding table, shards of candidates.

The last bits of a matrix product depend on the shapes of the matrices and on the column. Equal rows
of a table must tie exactly, so their score is computed once and written to all their columns.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.distributed
from torch import Tensor
from torch.nn.functional import pad

from nextloc_metrics.core import backends
from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.queries.arrays import as_tensor
from nextloc_metrics.core.queries.checks import check_positive, or_none
from nextloc_metrics.core.queries.messages import describe, got, short
from nextloc_metrics.core.ranking.counting import (
    First,
    FoundRanks,
    TopCandidates,
    count_around,
    find_in_lists,
    merge_top,
)

# How many scores a chunk has without `chunk_size`: enough for an efficient matrix product, and few
# enough for the cache.
_CHUNK_ELEMENTS = 1 << 21

# The chunks' best candidates are merged when they exceed 1 / _KEPT_SHARE of a chunk's scores.
_KEPT_SHARE = 1 << 3

# Buffer rows are aligned: a product into unaligned rows takes a quarter longer.
_ALIGNMENT = 1 << 5

# How many first bytes of a row are hashed first; different rows hardly ever share all of them.
_KEY_BYTES = 8

# An odd factor: multiplying a hash by it modulo 2^64 loses no information.
_FACTOR = 0x5851F42D4C957F2D

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Embeddings(NamedTuple):
    """The embeddings of all candidates `[C, D]`, and their bias `[C]` or None."""

    rows: Tensor
    bias: Tensor | None

    def scores(self, queries: Tensor, at: slice | Tensor, out: Tensor | None = None) -> Tensor:
        """Return the scores of some candidates for queries `[N, D]`."""
        scores = torch.mm(queries, self.rows[at].to(queries.dtype).T, out=out)
        return scores if self.bias is None else scores.add_(self.bias[at])


def find_ranks_in_products(
    queries: Tensor,
    table: Embeddings,
    ids: Tensor,
    excluded: Tensor | None,
    chunk_size: int | None,
    top: int,
) -> FoundRanks:
    """Find the ranks of the relevant locations, and the `top` first candidates, by dot products.

    `queries` are floating `[N, D]`, `ids` int64 `[N, M]` and `excluded` `[N, E]`, padded with -1.
    `chunk_size` candidates are scored at once; None chooses it from N.
    """
    # products of half precision would tie candidates that the embeddings tell apart
    queries = queries.to(torch.promote_types(queries.dtype, torch.float32))
    repeats = _find_repeats(table)
    step = min(len(table.rows), chunk_size or max(1, _CHUNK_ELEMENTS // max(1, len(queries))))
    # the kept scores of repeated rows need no more memory than a chunk
    elements = step * len(queries)
    rows = min(elements // max(1, len(repeats[0])), math.isqrt(elements // max(1, ids.shape[1])))
    rows = max(1, rows)
    parts = []
    for start in range(0, max(1, len(queries)), rows):
        part = slice(start, start + rows)
        left_out = None if excluded is None else excluded[part]
        parts.append(_find_in_block(queries[part], table, ids[part], left_out, repeats, step, top))
    return FoundRanks.cat(parts)


def _find_in_block(
    queries: Tensor,
    table: Embeddings,
    ids: Tensor,
    excluded: Tensor | None,
    repeats: tuple[Tensor, Tensor],
    step: int,
    top: int,
) -> FoundRanks:
    """Do what `find_ranks_in_products` does, for few queries: a chunk of their scores fits."""
    # the columns of rows that must tie exactly, and their scores, overwrite those of the chunks
    columns, exact, relevant_scores = _exact_scores(queries, table, ids, repeats)
    if excluded is not None:
        is_excluded = find_in_lists(excluded, ids, None, None) < UNRETRIEVED
        relevant_scores = relevant_scores.masked_fill(is_excluded, torch.nan)
    # divide the columns among the chunks of `step` candidates
    starts = range(0, len(table.rows), step)
    bounds = torch.tensor([*starts, len(table.rows)], device=columns.device)
    sizes = torch.searchsorted(columns, bounds).diff().tolist()
    positions = torch.split(columns % step, sizes)
    width = (step // _ALIGNMENT + 1) * _ALIGNMENT
    buffer = exact.new_empty(len(queries), width)
    above, tied = torch.zeros(2, *ids.shape, dtype=torch.int64, device=ids.device)
    firsts: list[First] = []
    for start, here, values in zip(starts, positions, torch.split(exact, sizes, 1), strict=True):
        size = min(step, len(table.rows) - start)
        scores = table.scores(queries, slice(start, start + size), out=buffer[:, :size])
        scores.index_copy_(1, here, values)
        if excluded is not None:  # ids outside this chunk are written to an unused column
            is_here = (excluded >= start) & (excluded < start + size)
            buffer.scatter_(1, (excluded - start).where(is_here, size), -torch.inf)
        more, equal, first = count_around(scores, relevant_scores, top)
        above += more
        tied += equal
        if first is not None:
            firsts.append((first[0], first[1] + start))
        if _KEPT_SHARE * len(firsts) * top > step:
            firsts = [merge_top(firsts, top)]
    candidates = TopCandidates.of_scores(merge_top(firsts, top), top) if top else None
    return FoundRanks.of_counts(ids, relevant_scores, above, tied, candidates)


def _exact_scores(
    queries: Tensor, table: Embeddings, ids: Tensor, repeats: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the columns of `ids` and of all repeated rows, their scores, and the scores of `ids`.

    Equal rows have one score, which is computed once. The scores of -1 are NaN.
    """
    relevant = ids.clamp(min=0)
    columns = torch.unique(torch.cat([relevant.flatten(), repeats[0]]))
    lowest = _lowest_equal(columns, repeats)
    computed = torch.unique(lowest)
    scores = table.scores(queries, computed)
    column = torch.searchsorted(computed, _lowest_equal(relevant, repeats))
    relevant_scores = scores.gather(1, column).masked_fill(ids < 0, torch.nan)
    return columns, scores[:, torch.searchsorted(computed, lowest)], relevant_scores


def _find_repeats(table: Embeddings) -> tuple[Tensor, Tensor]:
    """Return the ids of rows that occur more than once with equal bias, and the lowest equal id."""
    key = _hash_rows(table.rows[:, : max(1, _KEY_BYTES // table.rows.element_size())])
    in_order = backends.choose(key).sort(key)
    candidates = torch.isin(key, in_order[1:][in_order[1:] == in_order[:-1]]).nonzero()[:, 0]
    rows = table.rows[candidates]
    if table.bias is not None:
        rows = torch.cat([rows, table.bias[candidates, None]], 1)
    key, order = _hash_rows(rows).sort(stable=True)
    begins = torch.ones_like(key, dtype=torch.bool)
    begins[1:] = key[1:] != key[:-1]
    block = begins.cumsum(0) - 1
    lowest = order[begins][block]
    # rows with one hash are compared, as they may differ; a row with a NaN equals no row
    equal = (rows[order] == rows[lowest]).all(1)
    repeated = torch.zeros_like(block).index_add_(0, block, equal.long())[block] > 1
    kept = equal & repeated
    ids, in_order = candidates[order[kept]].sort()
    return ids, candidates[lowest[kept]][in_order]


def _hash_rows(rows: Tensor) -> Tensor:
    """Hash each row to int64 `[n]`; 0 and -0 have equal hashes."""
    bits = (rows + 0.0).contiguous()
    whole = rows.numel() and rows.shape[1] * rows.element_size() % _KEY_BYTES == 0
    words = bits.view(_INTEGERS[_KEY_BYTES if whole else rows.element_size()])
    key = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for column in words.unbind(1):
        key.add_(column).mul_(_FACTOR)
    return key


def _lowest_equal(ids: Tensor, repeats: tuple[Tensor, Tensor]) -> Tensor:
    """Return for each id the lowest id whose row is equal."""
    repeated, lowest = repeats
    if not len(repeated):
        return ids
    slot = torch.searchsorted(repeated, ids).clamp(max=len(repeated) - 1)
    return torch.where(repeated[slot] == ids, lowest[slot], ids)


def check_embeddings(
    queries: Tensor, table: Tensor, bias: Tensor | None, chunk_size: int | None
) -> None:
    """Raise if dot products of these tensors are undefined."""
    for name, value in (("queries", queries), ("table", table)):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise TypeError(f"`{name}` must be a floating tensor, {got(name, value)}.")
        if as_tensor(name, value) is not value:
            raise TypeError(
                f"`{name}` must have at least 16 bits per number, got {describe(value)}; pass "
                f"`{name}.to(torch.bfloat16)`."
            )
    if table.ndim != 2 or queries.ndim == 0 or queries.shape[-1] != table.shape[1]:
        raise ValueError(
            "`queries` [..., D] and `table` [C, D] must have the same D, "
            f"got {describe(queries)} and {describe(table)}."
        )
    if queries.dtype != table.dtype or not len(table):
        raise ValueError(
            "`queries` and `table` must have one dtype and `table` at least one row, "
            f"got {describe(queries)} and {describe(table)}."
        )
    if bias is not None and (not isinstance(bias, Tensor) or bias.shape != table.shape[:1]):
        raise ValueError(f"`bias` must have shape ({len(table)},), {got('bias', bias)}.")
    or_none(check_positive)("chunk_size", chunk_size)


def find_ranks_in_shards(
    scores: Tensor, ids: Tensor, offset: int, top: int, process_group: Any, validate_args: bool
) -> tuple[int, FoundRanks]:
    """Find the ranks of the relevant locations among the candidates of all processes.

    `scores`, floating `[N, C_local]`, are those of this process' candidates, from `offset` on, and
    `ids`, int64 `[N, M]`, are ids of all candidates, -1 for padding. The number of all candidates
    is returned, too.
    """
    num_local = scores.shape[-1]
    if num_local == 0:
        scores = scores.new_full((len(scores), 1), -torch.inf)  # it adds 0 to all counts
    local = ids - offset
    is_here = (local >= 0) & (local < num_local)
    relevant_scores = scores.gather(1, local.clamp(0, scores.shape[1] - 1)).masked_fill(~is_here, 0)
    columns = [relevant_scores, is_here]
    if top:
        _, _, local_first = count_around(scores, scores[:, :0], top)
        assert local_first is not None  # `top` is not 0
        missing = 0, top - local_first[1].shape[1]
        columns.append(pad(local_first[0], missing, value=-torch.inf))
        columns.append(pad(local_first[1] + offset, missing))
    # float64 holds every score and id exactly, so that one message is enough; its last two rows are
    # `offset` and the number of candidates of the process
    message = pad(torch.cat([column.double() for column in columns], 1), (0, 0, 0, 2))
    message[-2], message[-1] = offset, num_local
    gathered = _all_gather(message, process_group)
    gathered = gathered[gathered[:, -2, 0].argsort()]  # ids rise from shard to shard
    number = _check_slices(gathered[:, -2:, 0].long().tolist())
    slices = torch.split(gathered[:, :-2], [column.shape[1] for column in columns], 2)
    is_candidate, first = slices[1].sum(0) > 0, None
    if top:
        shards = zip(slices[2].to(scores.dtype), slices[3].long(), strict=True)
        merged = merge_top([*shards], min(top, number))
        first = TopCandidates.of_scores(merged, top)
    if validate_args and bool(((ids >= 0) & ~is_candidate).any()):
        raise ValueError(
            f"`target` must hold ids below the {number} candidates of all processes, "
            f"got {int(ids.masked_fill(is_candidate, -1).max())}."
        )
    relevant_scores = slices[0].sum(0).to(scores.dtype).masked_fill(~is_candidate, torch.nan)
    above, tied, _ = count_around(scores, relevant_scores, top=0)
    counts = torch.stack([above, tied])
    if _is_distributed():
        torch.distributed.all_reduce(counts, group=process_group)
    return number, FoundRanks.of_counts(ids, relevant_scores, counts[0], counts[1], first)


def _check_slices(slices: list[list[int]]) -> int:
    """Return the number of all candidates, or raise if shards overlap or leave a gap."""
    end = 0
    for offset, number in sorted((offset, number) for offset, number in slices if number):
        if offset != end:
            raise ValueError(
                "`offset` must be the number of candidates on the processes before, got "
                f"{offset} instead of {end}; (offset, number of candidates) per process: "
                f"{short(slices)}."
            )
        end += number
    return end


def _all_gather(message: Tensor, process_group: Any) -> Tensor:
    if not _is_distributed():
        return message[None]
    number = torch.distributed.get_world_size(group=process_group)
    slices = [torch.empty_like(message) for _ in range(number)]
    torch.distributed.all_gather(slices, message, group=process_group)
    return torch.stack(slices)


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
