"""Digests of rows: what says which test set was answered, and how, in integers that add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics import backends
from nextloc_metrics.arguments.answers import Answers
from nextloc_metrics.arguments.arrays import as_tensor_or_text
from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.arguments.messages import describe
from nextloc_metrics.arguments.siphash import (
    UNKNOWN,
    first_bits,
    words_of_integers,
    words_of_texts,
)
from nextloc_metrics.ranking import Ranking

#: digests of the test set and of the predictions, buckets, four limbs of 32 bits and a number
SHAPE = (2, 256, 5)

#: words of each row, and which of them are valid; None for all
Field: TypeAlias = "tuple[Tensor, Tensor | None]"

# Whole numbers below this have a table of tokens.
_TABLE = 1 << 20


def empty() -> Tensor:
    """Return the digests of no rows."""
    return torch.zeros(SHAPE, dtype=torch.int64)


def hash_names(names: Any) -> Tensor:
    """Return the 64 bits of the hash of each text, or integer in decimal, int64 `[N]`."""
    is_text = not isinstance(names, Tensor)
    words, lengths = words_of_texts(names) if is_text else words_of_integers(names.numpy())
    message = torch.from_numpy(words.view(np.int64))
    if not len(lengths):
        return torch.zeros(0, dtype=torch.int64)
    return backends.choose(message).hash_words(message, torch.from_numpy(lengths), False)[:, 0]


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
        self._known = known
        self._table = torch.zeros(0, dtype=torch.int64)

    def of(self, numbers: Tensor) -> Tensor:
        """Return the token of each number, in an array of any shape; -1 for padding."""
        if self._known is None:
            return self._of_integers(numbers)
        size = len(self._known)
        found = torch.where(numbers < 0, -1, numbers - (size + UNKNOWN))
        is_known = (numbers >= 0) & (numbers < size)
        found[is_known] = self._known[numbers[is_known]]
        rest = (numbers >= size) & (numbers < size + UNKNOWN)
        if rest.any():  # numbers that nobody has named
            found[rest] = self._of_integers(numbers[rest])
        return found

    def _of_integers(self, numbers: Tensor) -> Tensor:
        found: Tensor
        highest = int(numbers.max()) if numbers.numel() else -1
        if highest < _TABLE:
            if highest >= (size := len(self._table)):
                more = torch.arange(size, min(_TABLE, max(2 * size, highest + 1)))
                self._table = torch.cat([self._table, first_bits(hash_names(more))])
            if highest < 0:
                return torch.full_like(numbers, -1)
            found = self._table[numbers.clamp(min=0)]
            return found if int(numbers.min()) >= 0 else found.where(numbers >= 0, -1)
        distinct, place = torch.unique(numbers, return_inverse=True)
        found = first_bits(hash_names(distinct)).where(distinct >= 0, -1)[place]
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
    number = len(kept)
    key = torch.zeros(number, 0, dtype=torch.int64) if ids is None else ids[:, None]
    target = batch.target if batch.target.ndim == 2 else batch.target[:, None]
    relevant, order = _in_order(tokens.of(target.masked_fill(~kept[:, None], -1)))
    fields: list[Field] = [(key, None), (relevant, relevant >= 0)]
    if batch.grades is not None:
        grades = _bits(batch.grades).view_as(target).gather(1, order)
        fields.append((grades, relevant >= 0))
    fields += [(x[:, None], None) for x in groups]
    if ranking.queries.weights is not None:
        fields.append((_bits(ranking.queries.weights[:, None]), None))
    if batch.exclude is not None:
        excluded = _excluded(batch.exclude, tokens)
        fields.append((excluded, excluded >= 0))
    test = _hash_rows(fields, kept)
    key = test if ids is None else key[kept]
    answers = _answers_of(batch, ranking, tokens)
    if not kept.all():
        answers = [(x[kept], y if y is None else y[kept]) for x, y in answers]
    given = _hash_rows([(key, None), *answers])
    bucket = key[:, 0] & 255
    return torch.stack([_add_up(x, bucket) for x in (test, given)])


def _answers_of(batch: Batch, ranking: Ranking, tokens: Tokens) -> list[Field]:
    """Return the fields of the predictions: ids as they were read, or ranks."""
    fields: list[Field]
    if isinstance(batch.preds, Answers):
        found = tokens.of(batch.preds.preds)
        outcome = torch.stack([batch.preds.outcome, batch.preds.lengths], 1)
        return [(found, found >= 0), (outcome, None)]
    if ranking.num_candidates is None:
        found = tokens.of(batch.preds.long())
        fields = [(found, found >= 0)]
        if batch.confidence is not None:
            fields.append((_bits(batch.confidence)[:, None], None))
        return fields
    relevant, order = _in_order(tokens.of(ranking.relevant))
    ranks = ranking.above, ranking.tied, ranking.relevant_above, ranking.relevant_tied
    each = torch.stack([relevant, *(x.gather(1, order) for x in ranks)], 2).flatten(1)
    fields = [(each, (relevant >= 0).repeat_interleave(1 + len(ranks), 1))]
    if ranking.first is not None:  # a decision, which F1 counts
        best = tokens.of(ranking.first.best)[:, None]
        fields.append((best, best >= 0))
    return fields


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


def _hash_rows(fields: Sequence[Field], kept: Tensor | None = None) -> Tensor:
    """Return the 128-bit hash of each row that is kept, int64 `[L, 2]`.

    A row's message are its fields, each the number of its words and the words that are valid.
    """
    if kept is not None and not kept.all():
        fields = [(x[kept], y if y is None else y[kept]) for x, y in fields]
    rows, widths = len(fields[0][0]), [values.shape[1] for values, _ in fields]
    words = torch.zeros(rows, sum(widths) + len(fields) + 1, dtype=torch.int64)
    valid: Tensor | None = None
    at = 0
    for (values, mask), width in zip(fields, widths, strict=True):
        words[:, at] = width
        words[:, at + 1 : at + 1 + width] = values
        if mask is not None and not mask.all():
            valid = torch.ones_like(words, dtype=torch.bool) if valid is None else valid
            words[:, at] = mask.sum(1)
            valid[:, at + 1 : at + 1 + width] = mask
        at += 1 + width
    lengths = torch.full((rows,), at + 1) if valid is None else valid.sum(1)
    words[:, -1] = (8 * (lengths - 1) & 255) << 56
    message = words.flatten() if valid is None else words[valid]
    if not rows:
        return torch.zeros(0, 2, dtype=torch.int64)
    return backends.choose(message).hash_words(message, lengths, True)


def _add_up(hashes: Tensor, bucket: Tensor) -> Tensor:
    """Return the limbs of the sums of hashes, and their number, by bucket."""
    low = (1 << 32) - 1
    limbs = [hashes[:, i] >> shift & low for i in (0, 1) for shift in (0, 32)]
    each = torch.stack([*limbs, torch.ones_like(bucket)], 1)
    return torch.zeros(SHAPE[1:], dtype=torch.int64).index_add_(0, bucket, each)


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
