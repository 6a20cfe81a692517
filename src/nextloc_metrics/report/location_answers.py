"""Counts of equal answers, from which the interval of F1 follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from nextloc_metrics.analysis.f1_intervals import Jackknife, answers_of, jackknife
from nextloc_metrics.core.base.annotated_options import Computed
from nextloc_metrics.core.base.keyed import KeyedMetric
from nextloc_metrics.core.base.ranking_metric import RankingTally
from nextloc_metrics.core.means import exact, intervals
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.location_f1 import LocationTally

# So many entries are sorted in less time than a batch takes.
_UNMERGED = 1 << 19


class FewSums(exact.KeyedSums):
    """Sums by keys whose first number is not negative; if they are more than `most`, a row of -1.

    More keys never get fewer when sums are added, so this does not depend on the order of sums.
    """

    most: ClassVar[int] = 10_000_000

    def __radd__(self, held: list[Tensor]) -> list[Tensor]:
        """Return the state with these sums; entries are merged before they are twice as many."""
        # one entry alone is read as it is, and so must have each key once
        parts = [*(held or [self.entries[0][:0]]), *self.entries]
        if sum(map(len, parts)) <= 2 * max(_UNMERGED, len(parts[0])):
            return parts
        return [type(self)(parts, self.num_keys).merge()]

    def merge(self) -> Tensor:
        found = super().merge()
        is_full = len(found) > self.most or _is_full(found)
        return torch.full_like(found[:1], -1) if is_full else found


def _is_full(sums: Tensor) -> bool:
    return bool((sums[:1, 0] < 0).any())


class LocationAnswers(KeyedMetric, RankingTally):
    """The value of `metric`, with the interval of `analysis.f1_intervals`.

    The state has the number of equal answers by group, target and decision.

    Args:
        metric: its average is `"weighted"` or `"macro"`.
        by: the key in `groups` of the groups that are independent; None for queries.
    """

    needs = Needs(top=1)
    _num_keys = 3
    _sums_by_key = FewSums

    metric: Computed[LocationTally]
    by: str | None = None

    def empty_tally(self) -> Tensor:
        return torch.zeros(0, self._num_keys + 1, dtype=torch.int64)

    def tally(self, record: Ranking) -> Any:
        clusters = None if self.by is None else record.group_of(self.by)
        # an id that is no location has any number above them
        decided = record.best.clamp(max=self.metric.num_locations)
        return self._summand(answers_of(record.relevant[:, 0], decided, clusters, merge=False))

    def _renumbered(self, state: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        if self.by is None or _is_full(state):
            return state
        return torch.cat([numbers[self.by][state[:, :1]], state[:, 1:]], 1)

    @property
    def is_full(self) -> bool:
        """Whether there are too many different answers for an interval."""
        return _is_full(self.state)

    @property
    def _reads_groups(self) -> bool:
        return self.by is not None

    @property
    def _averages_scores(self) -> bool:
        return True

    def _jackknife(self) -> Jackknife:
        return jackknife(self.metric, self.state, self.by is not None)

    def _estimate(self) -> intervals.Estimate:
        return self._jackknife().estimate()

    def compute(self) -> Tensor:
        return self.state.new_tensor(self._jackknife().value, dtype=torch.float64)
