"""Answers of a language model: lists of ids, each with an outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from nextloc_metrics.core.queries.arrays import Array, as_tensor, is_repeat
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe

#: the outcomes of an answer whose shares are counted
OUTCOMES = ("answered", "missing", "empty", "cut", "unreadable")
ANSWERED, MISSING, EMPTY, CUT, UNREADABLE, OBJECTS = range(6)
#: the names of all outcomes; shares count lists of objects as unreadable
NAMES = (*OUTCOMES, "objects")

#: a rule ends so if it is not known which queries should have an answer
UNSEEN = "missing answers cannot be seen (`--truth`, `Answers.at`)"

# In longer lists, a check would take many repeats for visit counts; so repeats get new numbers.
_LONG = 64


@dataclass(eq=False)
class Answers:
    """Answers as lists of ids, each with an outcome; `report.read_answers` makes them.

    Attributes:
        preds: int64 `[N, K]`, ids, best first, padded with -1; a name that is no id has a number
            from `num_ids` on, one per name.
        outcome: int64 `[N]`, the position of each outcome in `NAMES`.
        lengths: int64 `[N]`, the number of items of each answer, with items beyond `k`.
        num_ids: the number of ids.
        rule: how answers were read, for the card.
    """

    preds: Tensor
    outcome: Tensor
    lengths: Tensor
    num_ids: int
    rule: str

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each answer."""
        return [NAMES[x] for x in self.outcome.tolist()]

    @property
    def shape(self) -> torch.Size:
        """The shape of `preds`."""
        return self.preds.shape

    def at(self, rows: Array) -> Answers:
        """Return the answers of queries by their rows here; -1 is a query whose answer is missing.

        `pandas.Index(keys_of_answers).get_indexer(keys_of_queries)` returns such rows.

        Raises:
            TypeError: `rows` are no integers.
            ValueError: a row is out of range.
        """
        numbers = as_tensor("rows", rows)
        if not is_integer(numbers) or numbers.ndim != 1:
            raise TypeError(f"`rows` must be integers, one per query, got {describe(rows)}.")
        if len(wrong := numbers[(numbers < -1) | (numbers >= len(self))]):
            raise ValueError(
                f"`rows` must be from -1 to {len(self) - 1}, rows of the answers, got "
                f"{int(wrong[0])}."
            )
        rows = numbers.long()  # -1 takes the last row, which is padded as a missing answer
        return replace(
            self,
            preds=pad(self.preds, (0, 0, 0, 1), value=-1)[rows],
            outcome=pad(self.outcome, (0, 1), value=MISSING)[rows],
            lengths=pad(self.lengths, (0, 1))[rows],
            rule=self.rule.removesuffix(f"; {UNSEEN}"),
        )

    def table(self) -> Tensor:
        """Return int64 `[N, 5]`: outcome, length; numbers of known, invented, repeated items."""
        repeats = is_repeat(self.preds)
        is_first = (self.preds >= 0) & ~repeats
        num_known = (is_first & (self.preds < self.num_ids)).sum(1)
        items = num_known, is_first.sum(1) - num_known, repeats.sum(1)
        return torch.stack([self.outcome, self.lengths, *items], 1)

    def lists(self) -> Tensor:
        """Return `preds` as metrics read them; in very long lists, a repeat gets a new number."""
        if (width := self.preds.shape[1]) <= _LONG:
            return self.preds
        return self.preds.where(~is_repeat(self.preds), torch.arange(width) + (1 << 41))

    def __getitem__(self, rows: Any) -> Answers:
        """Return the answers of some rows, a slice, a mask or numbers."""
        return replace(
            self, preds=self.preds[rows], outcome=self.outcome[rows], lengths=self.lengths[rows]
        )

    def __len__(self) -> int:
        return len(self.outcome)

    def __repr__(self) -> str:
        return f"Answers({len(self):,}, {self.rule})"
