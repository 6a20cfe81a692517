"""Candidates that are not ranked, such as visited locations."""

import torch
from torch import Tensor

from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.arguments.checks import is_integer
from nextloc_metrics.arguments.messages import describe, short
from nextloc_metrics.backends import UNRETRIEVED
from nextloc_metrics.ranking.counting import Found, find_in_lists, find_ranks
from nextloc_metrics.ranking.target import Relevant, positive_columns

# Bytes of scores that are copied at once.
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
            "dimension: ids, or a bool for every candidate, got "
            f"{describe(exclude)}."
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


def find_ranks_without(scores: Tensor, relevant: Relevant, excluded: Tensor, top: int) -> Found:
    """Call `find_ranks` on copies of the scores in which excluded ids `[N, E]` score -inf."""
    rows = max(1, _COPIED_BYTES // max(1, scores.element_size() * (scores.shape[1] + 1)))
    parts = []
    for start in range(0, max(1, len(scores)), rows):
        part = slice(start, start + rows)
        grades = None if relevant.grades is None else relevant.grades[part]
        here = Relevant(relevant.ids[part], grades, relevant.counted[part])
        parts.append(find_ranks(leave_out(scores[part], excluded[part]), here, None, top))
    return Found.cat(parts)


def leave_out(scores: Tensor, excluded: Tensor) -> Tensor:
    """Return a copy of scores `[N, C]` in which ids `[N, E]` are scored -inf."""
    copy = scores.new_empty(len(scores), scores.shape[1] + 1)  # a column for padding
    copy[:, :-1] = scores
    copy.scatter_(1, excluded.where(excluded >= 0, scores.shape[1]), -torch.inf)
    return copy[:, :-1]


def remove_from_lists(lists: Tensor, excluded: Tensor) -> Tensor:
    """Remove ids `[N, E]` from lists `[N, K]`; later ids move up."""
    removed = find_in_lists(excluded, lists, None, None) < UNRETRIEVED
    order = removed.to(torch.uint8).argsort(dim=1, stable=True)
    return lists.masked_fill(removed, -1).gather(1, order)
