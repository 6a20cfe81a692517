"""Digests of rows: what says which test set was answered, and how, in integers that add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.arguments.answers import Answers
from nextloc_metrics.arguments.arrays import as_tensor_or_text
from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.arguments.messages import describe
from nextloc_metrics.arguments.siphash import END, SHAPE, TOKEN, UNKNOWN, encode
from nextloc_metrics.ranking import Ranking

# Whole numbers below this have a table of tokens.
_TABLE = 1 << 20
# Names of rows and groups are words below 2^63.
_WORD = (1 << 63) - 1


def empty() -> Tensor:
    """Return the digests of no rows."""
    return torch.zeros(SHAPE, dtype=torch.int64)


def hash_names(names: Any) -> Tensor:
    """Return the first 63 bits of the hash of each text, or integer in decimal, int64 `[N]`."""
    if not len(names):
        return torch.zeros(0, dtype=torch.int64)
    if isinstance(names, Tensor):
        return backends.choose(names).hash_integers(names.long()) & _WORD
    texts, ends = map(torch.from_numpy, encode(names))
    return backends.choose(ends).hash_texts(texts, ends) & _WORD


def read_ids(ids: Any) -> Tensor:
    """Return the hash of the id of each row, integers or text."""
    found = as_tensor_or_text("ids", ids)
    if isinstance(found, Tensor) and (found.is_floating_point() or found.ndim != 1):
        raise TypeError(f"`ids` must be integers or text, one per query, got {describe(ids)}.")
    return hash_names(found)


class Tokens:
    """The token of each location by its number: the first 40 bits of the hash of its text.

    Args:
        known: the tokens of the ids of a vocabulary; None if numbers are the ids.
    """

    def __init__(self, known: Tensor | None) -> None:
        self._is_known = known is not None
        ends = torch.tensor([-1])  # the token of padding
        self._table = ends if known is None else torch.cat([known, ends])

    def table_of(self, numbers: Tensor) -> Tensor | None:
        """Return the tokens of the first numbers, and -1; None if it would be too long."""
        highest, size = int(numbers.max()) if numbers.numel() else -1, len(self._table) - 1
        if not self._is_known and size <= highest < _TABLE:
            more = torch.arange(size, min(_TABLE, max(2 * size, highest + 1)))
            parts = self._table[:-1], hash_names(more) & TOKEN, self._table[-1:]
            self._table, size = torch.cat(parts), highest + 1
        return self._table if highest < size else None

    def of(self, numbers: Tensor) -> Tensor:
        """Return the token of each number, in an array of any shape; -1 for padding."""
        numbers, size = numbers.clamp(min=-1), len(self._table) - 1
        if (table := self.table_of(numbers)) is not None:
            return table[numbers]
        if not self._is_known:
            distinct, place = torch.unique(numbers, return_inverse=True)
            each = (hash_names(distinct) & TOKEN).where(distinct >= 0, -1)
            return each[place]
        found = numbers - (size + UNKNOWN)
        found = found.where(numbers >= size, self._table[numbers.clamp(max=size)])
        rest = (numbers >= size) & (numbers < size + UNKNOWN)
        if rest.any():  # numbers that nobody has named
            found[rest] = hash_names(numbers[rest]) & TOKEN
        return found


def digest_of(
    batch: Batch, ranking: Ranking, groups: Sequence[Tensor], ids: Tensor | None, tokens: Tokens
) -> Tensor:
    """Return the digests of the queries that `mask` leaves, int64 `[2, 256, 5]`.

    Args:
        batch: the queries as they were read.
        ranking: their ranks.
        groups: by the name of the kind, the hash of each query's group.
        ids: the hash of each query's id; None if it is its own content.
        tokens: the tokens of locations.
    """
    kept = ranking.queries.counted
    target = batch.target if batch.target.ndim == 2 else batch.target[:, None]
    relevant, order = _in_order(tokens.of(target.masked_fill(~kept[:, None], -1)))
    key = torch.zeros(len(kept), 0, dtype=torch.int64) if ids is None else ids[:, None]
    fields = [key, relevant]
    if batch.grades is not None:
        grades = _bits(batch.grades).view_as(target).gather(1, order)
        fields.append(grades.masked_fill(relevant < 0, -1))
    fields += [x[:, None] for x in groups]
    if ranking.queries.weights is not None:
        fields.append(_bits(ranking.queries.weights[:, None]))
    if batch.exclude is not None:
        fields.append(_excluded(batch.exclude, tokens))
    lists, table, further = _answers_of(batch, ranking, tokens)
    end = torch.full((len(kept), 1), END)
    words = torch.cat([part for x in (*fields, *further) for part in (x, end)], 1)
    own = sum(x.shape[1] + 1 for x in fields)
    if not kept.all():
        words, lists = words[kept], lists[kept]
    if not len(words):
        return empty()
    return backends.choose(words).digest(words, own, lists, table, ids is not None)


def _answers_of(
    batch: Batch, ranking: Ranking, tokens: Tokens
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """Return the first field of the predictions, with its table if it is no tokens, and more."""
    answers = batch.preds if isinstance(batch.preds, Answers) else None
    if answers is None and ranking.num_candidates is not None:
        relevant, order = _in_order(tokens.of(ranking.relevant))
        ranks = ranking.above, ranking.tied, ranking.relevant_above, ranking.relevant_tied
        each = torch.stack([relevant, *(x.gather(1, order) for x in ranks)], 2)
        each = each.masked_fill(relevant[:, :, None] < 0, -1).flatten(1)
        first = ranking.first  # a decision, which F1 counts
        return each, None, [] if first is None else [tokens.of(first.best)[:, None]]
    lists = batch.preds.long() if answers is None else answers.preds
    table, further = tokens.table_of(lists), []
    if answers is not None:
        further = [torch.stack([answers.outcome, answers.lengths], 1)]
    elif batch.confidence is not None:
        further = [_bits(batch.confidence)[:, None]]
    return (lists, table, further) if table is not None else (tokens.of(lists), None, further)


def _in_order(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Sort the tokens of each row; return also where each of them was."""
    if tokens.shape[1] < 2:
        return tokens, torch.zeros_like(tokens)
    found = tokens.sort(dim=1, stable=True)
    return found.values, found.indices


def _excluded(exclude: Tensor, tokens: Tokens) -> Tensor:
    """Return the distinct tokens of the excluded ids of each row in order, -1 for padding."""
    if exclude.dtype == torch.bool:
        exclude = torch.arange(exclude.shape[1]).where(exclude, -1)
    found, _ = _in_order(tokens.of(exclude.long()))
    found[:, 1:] = found[:, 1:].where(found[:, 1:] != found[:, :-1], -1)
    return found


def _bits(values: Any) -> Tensor:
    """Return the bits of numbers as doubles; -0.0 is 0.0."""
    return (torch.as_tensor(values).double() + 0.0).view(torch.int64)


def sums_of(digest: Tensor) -> list[tuple[int, int]]:
    """Return the sum of each bucket's rows modulo 2^128, and their number."""
    found = []
    for *limbs, number in digest.tolist():
        found.append((sum(x << 32 * i for i, x in enumerate(limbs)) % (1 << 128), number))
    return found


def check_ids(ids: Sequence[Tensor]) -> None:
    """Raise if an id is there twice."""
    found = np.sort(torch.cat(list(ids)).numpy()) if ids else np.zeros(0)
    if twice := int((found[1:] == found[:-1]).sum()):
        raise ValueError(
            f"ids must be distinct, got {twice:,} of {len(found):,} again; leave repeated rows "
            "out, or name another column by `key`, or none by `key=''`."
        )
