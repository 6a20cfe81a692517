"""Each form of predictions: from a batch to the attributes of a `Ranking`."""

from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.arguments.checks import check_candidates, is_integer
from nextloc_metrics.arguments.messages import describe, got
from nextloc_metrics.arguments.record import Queries
from nextloc_metrics.backends import must_not_sync
from nextloc_metrics.ranking.counting import (
    Found,
    check_lists,
    comparable,
    find_in_lists,
    find_ranks,
    flat_lists,
    order_columns,
)
from nextloc_metrics.ranking.exclude import (
    find_ranks_without,
    leave_out,
    read_exclude,
    remove_from_lists,
)
from nextloc_metrics.ranking.needs import Needs
from nextloc_metrics.ranking.sources import Embeddings, survey_products, survey_shards
from nextloc_metrics.ranking.target import Relevant, read_target
from nextloc_metrics.ranking.top import candidates_of_lists

Attributes = dict[str, Any]


def of_found(relevant: Relevant, found: Found, queries: torch.Size) -> Attributes:
    """Sort the columns by rank; `found` may omit relevant locations."""
    most = relevant.most
    return {
        **order_columns(found, relevant.grades),
        "num_relevant": relevant.number,
        "queries": Queries(queries, relevant.counted),
        "first": found.first,
        "most_relevant": most if most > found.ids.shape[1] else None,
    }


def _of_batch(batch: Batch, relevant: Relevant, found: Found, **others: Any) -> Attributes:
    own = of_found(relevant, found, batch.preds.shape[:-1])
    return {**own, "ignore_index": batch.ignore_index, **others}


def of_scores(batch: Batch, needs: Needs) -> Attributes:
    """Rank by the scores of all candidates."""
    batch.check_scores()
    number = batch.preds.shape[-1]
    relevant = read_target(batch, number)
    scores = comparable(batch.preds).reshape(-1, number)
    excluded = None if batch.exclude is None else read_exclude(batch, relevant, number)
    depth = needs.depth
    if relevant.most == 1 or must_not_sync(scores) or excluded is not None:
        depth = None  # counting all ranks is as fast here
    if excluded is None:
        found = find_ranks(scores, relevant, depth, needs.to_find)
    else:
        found = find_ranks_without(scores, relevant, excluded, needs.to_find)
        scores = leave_out(scores, excluded) if needs.keeps_scores or needs.length else scores
    kept = scores if needs.keeps_scores else None
    length = (scores != -torch.inf).sum(1) if needs.length else None  # NaN are ranked
    found = found.cut(needs.top)
    return _of_batch(
        batch, relevant, found, num_candidates=number, depth=depth, scores=kept, length=length
    )


def of_lists(batch: Batch, needs: Needs) -> Attributes:
    """Rank by lists of ids."""
    if not is_integer(batch.preds):
        raise TypeError(f"`preds` must be an integer tensor of ids, got {describe(batch.preds)}.")
    check_candidates(batch.preds, batch.target)
    relevant = read_target(batch, None)
    lists = flat_lists(batch.preds)
    excluded = None if batch.exclude is None else read_exclude(batch, relevant, None)
    checked = relevant.counted if batch.validate_args else None
    if excluded is not None:
        if checked is not None:  # what remains may be mostly repeats
            check_lists(lists, checked)
        lists, checked = remove_from_lists(lists, excluded), None
    above = find_in_lists(lists, relevant.ids, needs.depth, checked)
    top = needs.top or int(needs.best)
    first = candidates_of_lists(lists, top) if top else None
    found = Found(relevant.ids, above, torch.ones_like(above), first)
    length = (lists >= 0).sum(1) if needs.length else None
    return _of_batch(batch, relevant, found, depth=needs.depth, length=length)


def of_embeddings(
    batch: Batch, table: Tensor, bias: Tensor | None, chunk_size: int | None, needs: Needs
) -> Attributes:
    """Rank by dot products with the rows of a table."""
    number = len(table)
    relevant = read_target(batch, number)
    found = survey_products(
        batch.preds.detach().reshape(-1, table.shape[1]),
        Embeddings(table.detach(), None if bias is None else bias.detach()),
        relevant.ids,
        read_exclude(batch, relevant, number),
        chunk_size,
        needs.to_find,
    )
    return _of_batch(batch, relevant, found.cut(needs.top), num_candidates=number)


def of_shards(batch: Batch, offset: int, process_group: Any, needs: Needs) -> Attributes:
    """Rank by scores of the candidates from `offset` on; other processes have the others."""
    if not batch.has_ids:
        raise TypeError(
            f"`target` must be an integer tensor of ids, {got('target', batch.target)}."
        )
    relevant = read_target(batch, None)
    scores = comparable(batch.preds).reshape(len(relevant.ids), batch.preds.shape[-1])
    excluded = read_exclude(batch, relevant, None)
    if excluded is not None:
        is_here = (excluded >= offset) & (excluded < offset + scores.shape[1])
        scores = leave_out(scores, (excluded - offset).where(is_here, -1))
    number, found = survey_shards(
        scores, relevant.ids, offset, needs.to_find, process_group, batch.validate_args
    )
    return _of_batch(batch, relevant, found.cut(needs.top), num_candidates=number)
