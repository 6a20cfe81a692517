"""Metrics that evaluations alone have: of groups, of clusters, and of language models' answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import Positive
from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.grouped import Grouped
from nextloc_metrics.core.base.keyed import KeyedMetric
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.queries.answers import ANSWERED, OUTCOMES
from nextloc_metrics.core.ranking.ranking import Ranking

AnswerKind = Literal[
    "answered", "missing", "empty", "cut", "refused", "unreadable", "invented", "repeated", "short"
]

# A key has the number of the group in the upper 32 bits and that of the user, or what else is
# independent, in the lower ones.
_BITS = 32
_LOWER = (1 << _BITS) - 1


class ClusteredGroups(Grouped, KeyedMetric):
    """`Grouped` with a clustered interval for each group, such as clustered by user.

    The state has a key, of a group and a user, and its three sums, for each pair that has queries.

    Args:
        sampled_by: the key in `groups` of the users, or what else is independent.
    """

    _: KW_ONLY
    sampled_by: str

    def empty_tally(self) -> Tensor:
        return torch.nn.functional.pad(super().empty_tally()[:0], (1, 0))

    @staticmethod
    def _sum_many(
        metrics: Sequence[Any], scores: Sequence[Tensor], counted: Tensor, record: Any
    ) -> Sequence[Any]:
        pairs = {}
        for metric in metrics:
            if (metric.by, metric.sampled_by) not in pairs:
                groups, clusters = (record.group_of(x) for x in (metric.by, metric.sampled_by))
                keys = ((groups << _BITS) + clusters)[counted]
                pairs[metric.by, metric.sampled_by] = torch.unique(keys, return_inverse=True)
        kept, sums = counted[counted], []
        for metric, own in zip(metrics, scores, strict=True):
            keys, numbers = pairs[metric.by, metric.sampled_by]
            is_bounded = metric.metric._is_bounded
            found = exact.tally_by(numbers, len(keys), own[counted], kept, is_bounded)
            sums.append(metric._summand(torch.cat([keys[:, None], found], 1)))
        return sums

    def _renumbered(self, state: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        groups, clusters = numbers[str(self.by)][state[:, 0] >> _BITS], numbers[self.sampled_by]
        keys = (groups << _BITS) + clusters[state[:, 0] & _LOWER]
        return torch.cat([keys[:, None], state[:, 1:]], 1)

    @property
    def _sums(self) -> Tensor:
        state = self.state
        sums = state.new_zeros(self.num_groups, state.shape[1] - 1)
        return sums.index_add(0, state[:, 0] >> _BITS, state[:, 1:])

    @property
    def clusters_by_group(self) -> Tensor:
        """The number of clusters that have queries in each group, `[G]`."""
        return (self.state[:, 0] >> _BITS).bincount(minlength=self.num_groups)

    def _estimate(self) -> intervals.Estimate:
        sizes = self.clusters_by_group.tolist()
        found = [intervals.of_clusters(part) for part in torch.split(self.state[:, 1:], sizes)]
        columns = zip(*(one[:-1] for one in found), strict=True)
        return intervals.Estimate._make([*map(torch.stack, columns), self.metric._is_bounded])


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
