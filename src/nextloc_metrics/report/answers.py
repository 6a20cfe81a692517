"""Shares of the answers of a language model: what became of them, and of their items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from nextloc_metrics.core.metric.collection import RankingCollection
from nextloc_metrics.core.metric.declared import Positive
from nextloc_metrics.core.metric.mean import MeanMetric
from nextloc_metrics.core.queries.answers import ANSWERED, OUTCOMES
from nextloc_metrics.core.ranking.ranking import Ranking

AnswerKind = Literal[
    "answered", "missing", "empty", "cut", "refused", "unreadable", "invented", "repeated", "short"
]


class AnswerShare(MeanMetric):
    """The share of queries whose answer has an outcome; or of items, or of short answers.

    An outcome is a share of all queries. `"invented"` is the mean over the answered queries of the
    share of their ranked items that are no ids, and `"repeated"` of those that stood before;
    `"short"` is the share of the answered queries with less than `k` items.

    Example:
        >>> from nextloc_metrics import report
        >>> answers = report.read_answers(['["Home", "Mars"]', "?"], ids=["Home"])
        >>> AnswerShare("invented")(answers, [0, 0])
        tensor(0.5000)
    """

    record = Ranking
    label = "{of}"

    of: AnswerKind
    k: Positive = 1
    higher_is_better = None

    def score(self, record: Ranking) -> Tensor | tuple[Tensor, Tensor]:
        outcome, length, *items = record.queries.extra["answer"].unbind(1)
        counted = record.counted & (record.num_relevant > 0)
        if self.of in OUTCOMES:
            return (outcome == OUTCOMES.index(self.of)).double(), counted
        counted &= outcome == ANSWERED
        if self.of == "short":
            return (length < self.k).double(), counted
        number = items[("known", "invented", "repeated").index(self.of)]
        return number / torch.stack(items).sum(0).clamp(min=1), counted


def answer_shares(k: Sequence[int], sees_missing: bool) -> RankingCollection:
    """Return the shares of outcomes, of items, and of answers shorter than each k."""
    shown = [x for x in get_args(AnswerKind) if x != "short" and (sees_missing or x != "missing")]
    found = {name: AnswerShare(name) for name in shown}
    return RankingCollection(found | {f"shorter_than_{x}": AnswerShare("short", x) for x in k})


def count_answers(table: Tensor) -> dict[str, int]:
    """Return the numbers of a card, of answers `[N, 5]` as in `Answers.table`."""
    outcomes = table[:, 0].bincount(minlength=len(OUTCOMES)).tolist()
    _, length, *items = table.sum(0).tolist()
    names = ("positions_known", "positions_invented", "positions_repeated", "positions_beyond_k")
    return {
        "num_asked": len(table),
        **dict(zip(OUTCOMES, outcomes, strict=True)),
        **dict(zip(names, [*items, length - sum(items)], strict=True)),
    }
