"""The attributes of a `Ranking`, from a batch with predictions in any form; and excluded ids."""

from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.queries.arrays import Array, as_tensor, must_not_sync, remove_from_lists
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.checks import (
    as_number,
    check_candidates,
    check_positive,
    is_integer,
    or_none,
)
from nextloc_metrics.core.queries.messages import describe, got, short
from nextloc_metrics.core.queries.record import Queries
from nextloc_metrics.core.ranking.counting import (
    Blocks,
    FoundRanks,
    TopCandidates,
    check_lists,
    comparable,
    find_in_lists,
    find_ranks,
    flat_lists,
    order_columns,
)
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.scores_in_parts import (
    Embeddings,
    find_ranks_in_products,
    find_ranks_in_shards,
)
from nextloc_metrics.core.ranking.target import Relevant, positive_columns, read_target

# How many bytes of scores are copied at once.
_COPIED_BYTES = 1 << 22


def read_exclude(batch: Batch, relevant: Relevant, num_candidates: int | None) -> Tensor | None:
    """Convert `exclude` of a batch to ids int64 `[N, E]`, -1 for padding; None remains None."""
    if batch.exclude is None:
        return None
    exclude, queries, validate_args = batch.exclude, batch.preds.shape[:-1], batch.validate_args
    is_relevance = exclude.dtype == torch.bool
    if not (is_relevance or is_integer(exclude)):
        raise TypeError(
            "`exclude` must be an integer tensor of ids or a bool tensor of candidates, got "
            f"{describe(exclude)}."
        )
    width = exclude.shape[-1] if exclude.ndim else 0
    fits = not is_relevance or num_candidates in (None, width)
    if exclude.ndim != len(queries) + 1 or exclude.shape[:-1] != queries or not fits:
        raise ValueError(
            f"`exclude` must have the shape of the queries, {short(queries)}, and one more "
            f"dimension: ids, or a bool for every candidate, got {describe(exclude)}."
        )
    if exclude.device != relevant.ids.device:
        raise ValueError(
            f"`exclude` must be on the device of `target`, {relevant.ids.device}, got "
            f"{exclude.device}."
        )
    exclude = exclude.detach().reshape(queries.numel(), width)
    ids = positive_columns(exclude, None)[0] if is_relevance else exclude.long()
    if validate_args and ids.numel():
        of_counted = ids.masked_fill(~relevant.counted[:, None], -1)
        lowest, highest = (int(bound) for bound in of_counted.aminmax())
        if lowest < -1 or (num_candidates is not None and highest >= num_candidates):
            bound = "" if num_candidates is None else f" and below the {num_candidates} candidates"
            raise ValueError(
                f"`exclude` must hold ids of at least 0 (-1 pads){bound}, got "
                f"{lowest if lowest < -1 else highest}."
            )
    ids = ids.masked_fill(ids < 0, -1)
    if num_candidates is not None:
        ids = ids.masked_fill(ids >= num_candidates, -1)
    if not batch.exempt_target and not validate_args:
        return ids
    clash = find_in_lists(relevant.ids, ids, None, None) < UNRETRIEVED
    if batch.exempt_target:
        return ids.masked_fill(clash, -1)
    wrong_rows = (clash.any(1) & relevant.counted).nonzero()
    if wrong_rows.numel():
        row = int(wrong_rows[0])
        raise ValueError(
            f"`exclude` must not hold a relevant location, got {int(ids[row][clash[row]][0])} in "
            f"query {row}; pass `exempt_target=True` to rank it."
        )
    return ids


def find_ranks_without(
    scores: Tensor, relevant: Relevant, excluded: Tensor, top: int
) -> FoundRanks:
    """Call `find_ranks` on copies of the scores in which excluded ids `[N, E]` score -inf."""
    rows = max(1, _COPIED_BYTES // (scores.element_size() * (scores.shape[1] + 1)))
    parts = []
    for start in range(0, max(1, len(relevant.ids)), rows):
        part = slice(start, start + rows)
        grades = None if relevant.grades is None else relevant.grades[part]
        of_part = Relevant(relevant.ids[part], grades, relevant.counted[part])
        parts.append(find_ranks(leave_out(scores[part], excluded[part]), of_part, None, top))
    return FoundRanks.cat(parts)


def leave_out(scores: Tensor, excluded: Tensor) -> Tensor:
    """Return a copy of scores `[N, C]` in which ids `[N, E]` are scored -inf."""
    copy = scores.new_empty(len(scores), scores.shape[1] + 1)  # a column for padding
    copy[:, :-1] = scores
    copy.scatter_(1, excluded.where(excluded >= 0, scores.shape[1]), -torch.inf)
    return copy[:, :-1]


Attributes = dict[str, Any]


def of_found(relevant: Relevant, found: FoundRanks, queries: torch.Size) -> Attributes:
    """Return attributes with columns sorted by rank; `found` may omit relevant locations."""
    most = relevant.max_number
    return {
        **order_columns(found, relevant.grades),
        "num_relevant": relevant.number,
        "queries": Queries(queries, relevant.counted),
        "first": found.first,
        "most_relevant": most if most > found.ids.shape[1] else None,
    }


def _of_batch(batch: Batch, relevant: Relevant, found: FoundRanks, **others: Any) -> Attributes:
    attributes = of_found(relevant, found, batch.preds.shape[:-1])
    return {**attributes, "ignore_index": batch.ignore_index, **others}


def of_scores(batch: Batch, needs: Needs) -> Attributes:
    """Rank by the scores of all candidates."""
    batch.check_scores()
    number = batch.preds.shape[-1]
    relevant = read_target(batch, number)
    scores = comparable(batch.preds).reshape(-1, number)
    excluded = read_exclude(batch, relevant, number)
    depth = needs.depth
    if relevant.max_number == 1 or must_not_sync(scores) or excluded is not None:
        depth = None  # counting all ranks is as fast here
    if excluded is None:
        ranks = find_ranks(scores, relevant, depth, needs.top)
    else:
        ranks = find_ranks_without(scores, relevant, excluded, needs.top)
        scores = leave_out(scores, excluded) if needs.within or needs.length else scores
    kept = scores if needs.within else None
    length = (scores != -torch.inf).sum(1) if needs.length else None  # NaN have a rank
    return _of_batch(
        batch, relevant, ranks, num_candidates=number, depth=depth, scores=kept, length=length
    )


def of_lists(batch: Batch, needs: Needs) -> Attributes:
    """Rank by lists of ids; some ids may be tied."""
    if not is_integer(batch.preds):
        raise TypeError(f"`preds` must be an integer tensor of ids, got {describe(batch.preds)}.")
    check_candidates(batch.preds, batch.target)
    relevant = read_target(batch, None)
    lists = flat_lists(batch.preds)
    excluded, scores = read_exclude(batch, relevant, None), batch.scores
    checked = relevant.counted if batch.validate_args else None
    if excluded is not None:
        if checked is not None:  # ids are removed later, as that may leave mostly repeats
            check_lists(lists, checked)
        removed = find_in_lists(excluded, lists, None, None) < UNRETRIEVED
        (lists, scores), checked = remove_from_lists(lists, removed, scores), None
    blocks = None if scores is None else Blocks.of(lists, scores)
    depth = needs.depth if blocks is None else None  # a block may reach beyond the depth
    above = find_in_lists(lists, relevant.ids, depth, checked)
    above, tied = (above, torch.ones_like(above)) if blocks is None else blocks.at(above)
    top = max(needs.top, needs.within)
    first = TopCandidates.of_lists(lists, top, blocks) if top else None
    ranks = FoundRanks(relevant.ids, above, tied, first)
    length = (lists >= 0).sum(1) if needs.length else None
    return _of_batch(batch, relevant, ranks, depth=needs.depth, length=length)


def of_embeddings(
    batch: Batch, table: Tensor, bias: Tensor | None, chunk_size: int | None, needs: Needs
) -> Attributes:
    """Rank by dot products with the rows of a table."""
    number = len(table)
    relevant = read_target(batch, number)
    ranks = find_ranks_in_products(
        batch.preds.detach().reshape(-1, table.shape[1]),
        Embeddings(table.detach(), None if bias is None else bias.detach()),
        relevant.ids,
        read_exclude(batch, relevant, number),
        chunk_size,
        needs.top,
    )
    return _of_batch(batch, relevant, ranks, num_candidates=number)


def of_shards(batch: Batch, offset: int, process_group: Any, needs: Needs) -> Attributes:
    """Rank by scores of the candidates from `offset` on; other processes have the others."""
    if not batch.has_ids:
        raise TypeError(
            f"`target` must be an integer tensor of ids, {got('target', batch.target)}."
        )
    relevant = read_target(batch, None)
    scores = comparable(batch.preds).reshape(len(relevant.ids), batch.preds.shape[-1])
    if (excluded := read_exclude(batch, relevant, None)) is not None:
        is_here = (excluded >= offset) & (excluded < offset + scores.shape[1])
        scores = leave_out(scores, (excluded - offset).where(is_here, -1))
    number, ranks = find_ranks_in_shards(
        scores, relevant.ids, offset, needs.top, process_group, batch.validate_args
    )
    return _of_batch(batch, relevant, ranks, num_candidates=number)


def read_ranks(
    ranks: Array, tied: Array | None, num_candidates: int | None, missing: int
) -> tuple[Tensor, Tensor]:
    """Convert the arguments of `Ranking.from_ranks` to `above` and `tied`, int64 `[N, M]`."""
    ranks = as_tensor("ranks", ranks)
    if not is_integer(ranks):
        raise TypeError(
            f"`ranks` must be integers, 1 for the best, got {describe(ranks)}; "
            "a mean of tied ranks is not a rank."
        )
    if ranks.ndim not in (1, 2) or (ranks.ndim == 2 and not ranks.shape[1]):
        raise ValueError(
            f"`ranks` must have the shape (N,), one per query, or (N, M), got {describe(ranks)}."
        )
    or_none(check_positive)("num_candidates", num_candidates)
    missing = as_number(missing)
    if type(missing) is not int or missing > 0:
        raise ValueError(f"`missing` must be an integer of at most 0, got {short(missing)}.")
    rows = ranks.long() if ranks.ndim == 2 else ranks.long()[:, None]
    sizes = torch.ones_like(rows)
    if tied is not None:
        tied = as_tensor("tied", tied, ranks.device)
        if not is_integer(tied) or tied.shape != ranks.shape:
            raise ValueError(
                f"`tied` must be integers of the shape of `ranks`, {short(ranks.shape)}, got "
                f"{describe(tied)}."
            )
        sizes = tied.long().reshape(rows.shape)
        if tied.numel() and int(tied.min()) < 1:
            raise ValueError(
                "`tied` must be at least 1, because a tied block includes its relevant location, "
                f"got {int(tied.min())}."
            )
    is_missing = rows == missing
    if rows.numel() and (lowest := int(rows.masked_fill(is_missing, 1).min())) < 1:
        raise ValueError(
            f"`ranks` must be at least 1, or {missing} for unretrieved locations, got {lowest}; "
            "add 1 to ranks that start at 0."
        )
    last = (rows + sizes - 1).masked_fill(is_missing, 0)
    if rows.numel() and num_candidates is not None and int(last.max()) > num_candidates:
        raise ValueError(
            "the last rank of every tied block must be at most `num_candidates`, "
            f"{num_candidates}, got {int(last.max())}."
        )
    return (rows - 1).masked_fill(is_missing, UNRETRIEVED), sizes.masked_fill(is_missing, 1)


def check_blocks(above: Tensor, tied: Tensor, relevant_tied: Tensor) -> None:
    """Raise if tied blocks of a query overlap, or one is too small for its relevant locations."""
    before, here = slice(None, -1), slice(1, None)
    wrong_block = (tied[:, here] != tied[:, before]) | (relevant_tied > tied)[:, here]
    overlaps = above[:, here] < (above + tied)[:, before]
    same = above[:, here] == above[:, before]
    wrong = (torch.where(same, wrong_block, overlaps) & (above[:, here] < UNRETRIEVED)).nonzero()
    if wrong.numel():
        query, column = wrong[0].tolist()
        first, second = (above[query, column : column + 2] + 1).tolist()
        raise ValueError(
            f"`ranks` of query {query} must fit their tied blocks, got rank {second} after rank "
            f"{first} with {int(tied[query, column])} tied candidates; pass `tied`, or distinct "
            "ranks."
        )
