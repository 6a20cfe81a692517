"""Metrics that only evaluations use: counts for intervals of F1, accuracy by bin, answer shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from nextloc_metrics.analysis.f1_intervals import Jackknife, answers_of, jackknife
from nextloc_metrics.core import scoring
from nextloc_metrics.core.backends.reference import UNRETRIEVED
from nextloc_metrics.core.base.annotated_options import Computed, Positive
from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.mean import MeanMetric
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.means import intervals
from nextloc_metrics.core.means.keyed_sums import KeyedSums
from nextloc_metrics.core.queries.answers import ANSWERED, NAMES, OUTCOMES, UNREADABLE
from nextloc_metrics.core.queries.keys import NO_KEY
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.deciles import DecileAtK, DecileScore
from nextloc_metrics.metrics.location_f1 import LocationTally
from nextloc_metrics.metrics.split import Lengths

AnswerKind = Literal[
    "answered", "missing", "empty", "cut", "unreadable", "invented", "repeated", "short"
]


# A count of equal answers has three keys: those of the cluster, the target and the decision.
_NUM_KEYS = 3


#: the first key of the one entry that stands for sums with too many keys; no key is so low
FULL = NO_KEY + 1


class FewSums(KeyedSums):
    """Sums by key; if there are more keys than `most`, one entry that says so.

    Adding sums never makes the keys fewer, so that this does not depend on the order of sums.
    """

    most: ClassVar[int] = 10_000_000
    sorted_at_once = 1 << 20  # 32 MB

    def merge(self) -> Tensor:
        merged = super().merge()
        is_full = len(merged) > self.most or _is_full(merged)
        return torch.full_like(merged[:1], FULL) if is_full else merged


def _is_full(sums: Tensor) -> bool:
    return bool((sums[:1, 0] == FULL).any())


class LocationAnswers(RecordMetric):
    """The value of `metric`, with the interval of `analysis.f1_intervals`.

    The state has the number of equal answers by cluster, target and decision.

    Args:
        metric: its average is `"weighted"` or `"macro"`.
        cluster: the key in `groups` of the groups that are independent; None for queries.
    """

    record = Ranking

    metric: Computed[LocationTally]
    cluster: str | None = None

    @property
    def needs(self) -> Needs:
        return Needs(top=1, groups=self.cluster is not None)

    def empty_state(self) -> FewSums:
        return FewSums([torch.zeros(0, _NUM_KEYS + 1, dtype=torch.int64)], _NUM_KEYS)

    def tally(self, record: Ranking) -> Any:
        clusters = None if self.cluster is None else record.group_of(self.cluster)
        decided, size = record.best, self.metric.num_locations
        if size is not None:  # an id that is no location may have any higher number
            decided = decided.clamp(max=size)
        answers = answers_of(record.relevant[:, 0], decided, clusters, merge=False)
        return FewSums([answers], _NUM_KEYS)

    @property
    def is_full(self) -> bool:
        """Whether there are too many different answers for an interval."""
        return _is_full(self.state)

    @property
    def clusters(self) -> tuple[int, int, int]:
        """The number of clusters, of those with a hit, and of those with a miss."""
        cluster, target, decided, _ = self.state.unbind(1)
        is_hit = target == decided
        with_hit, with_miss = torch.unique(cluster[is_hit]), torch.unique(cluster[~is_hit])
        return len(torch.unique(cluster)), len(with_hit), len(with_miss)

    def _jackknife(self) -> Jackknife:
        return jackknife(self.metric, self.state, self.cluster is not None)

    def estimate(self) -> intervals.Estimate:
        return self._jackknife().estimate()

    def compute(self) -> Tensor:
        return self.state.new_tensor(self._jackknife().value, dtype=torch.float64)


class DecileAccuracy(DecileAtK, DecileScore):
    """Accuracy at k of the queries with a target in each popularity bin, in full lists.

    With one target per query, its scores are those of `AccuracyAtK`, by the bin of the target.
    """

    stem = "acc"
    needs = Needs()  # only the ranks in full lists
    cut = UNRETRIEVED  # beyond all ranks, so that no tied block crosses it

    _: KW_ONLY
    scope: Literal["all"] = "all"

    def score_rows(self, ranking: Ranking, lengths: Lengths) -> Tensor:
        return scoring.accuracy(ranking, self.k)


def accuracy_by_decile(bins: PopularityBins, cuts: Sequence[int]) -> RankingCollection:
    """Return the accuracy at each k of each bin, one scalar each, as `decile_metrics` does."""
    return RankingCollection(
        {
            metric.key(decile): DecileAccuracy(bins, metric.k, decile=decile)
            for metric in (DecileAccuracy(bins, k) for k in cuts)
            for decile in metric.deciles(bins)
        }
    )


class AnswerShare(MeanMetric):
    """The share of queries with an outcome, of items of a kind, or of short answers.

    The share of an outcome is of all queries. `"invented"` is the mean, over the answered queries,
    of the share of ranked items that are no ids, and `"repeated"` of those that are repeated;
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
            outcome = outcome.clamp(max=UNREADABLE)  # lists of objects count as unreadable
            return (outcome == OUTCOMES.index(self.of)).double(), counted
        counted &= outcome == ANSWERED
        if self.of == "short":
            return (length < self.k).double(), counted
        number = items[("known", "invented", "repeated").index(self.of)]
        return number / torch.stack(items).sum(0).clamp(min=1), counted


def answer_shares(k: Sequence[int], sees_missing: bool) -> RankingCollection:
    """Return the shares of outcomes, of items, and of answers shorter than each k."""
    shown = [x for x in get_args(AnswerKind) if x != "short" and (sees_missing or x != "missing")]
    shares = {name: AnswerShare(name) for name in shown}
    return RankingCollection(shares | {f"shorter_than_{x}": AnswerShare("short", x) for x in k})


def count_answers(table: Tensor) -> dict[str, int]:
    """Return counts for the card, of answers `[N, 5]` as in `Answers.table`."""
    *outcomes, objects = table[:, 0].bincount(minlength=len(NAMES)).tolist()
    outcomes[UNREADABLE] += objects
    _, length, *items = table.sum(0).tolist()
    names = ("positions_known", "positions_invented", "positions_repeated", "positions_beyond_k")
    return {
        "num_asked": len(table),
        **dict(zip(OUTCOMES, outcomes, strict=True)),
        **({"objects": objects} if objects else {}),
        **dict(zip(names, [*items, length - sum(items)], strict=True)),
    }
