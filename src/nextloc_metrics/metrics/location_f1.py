"""F1, precision and recall per location, with the best candidate as the decision."""

from abc import abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torchmetrics.utilities import rank_zero_warn

from nextloc_metrics.core import backends
from nextloc_metrics.core.base.annotated_options import Computed
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.base.plan import dense_size, held_by_backends, sums
from nextloc_metrics.core.base.ranking_metric import Size, check_one_relevant
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.means.keyed_sums import KeyedSums
from nextloc_metrics.core.queries.arrays import must_not_sync
from nextloc_metrics.core.queries.checks import check_num_locations, from_one
from nextloc_metrics.core.queries.keys import NO_KEY, keys_of_integers
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking

LocationAverage = Literal["weighted", "macro", "micro"]


class LocationTally(RecordMetric):
    """Base class: counts of true positives TP, decisions P and support S of each location.

    In a collection the classes share one state, for any `average`.
    """

    record = Ranking
    shared_state = "LocationTally"
    plot_legend_name = "location"
    needs = Needs(top=1)  # the best candidate is the decision
    for_several: ClassVar[str]  #: the metric for several relevant locations

    num_locations: Size | None = None
    average: Computed[LocationAverage | None] = "weighted"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average:
            self.label += f", {self.average}"

    @abstractmethod
    def divisor(self, decisions: Tensor, support: Tensor) -> Tensor:
        """Return the divisor of the true positives, float64."""

    def empty_state(self) -> Tensor | KeyedSums:
        """Return zeros: TP, P and S of each location, and of invented ids; or empty sums by key."""
        if self.num_locations is None:
            return KeyedSums([torch.zeros(0, 4, dtype=torch.int64)], 1)
        return torch.zeros(3, self.num_locations + 1, dtype=torch.int64)

    @held_by_backends
    def check(self, ranking: Ranking) -> None:
        if self.num_locations is None:
            check_one_relevant(self, ranking, f"use {self.for_several} for several")
            return
        check_num_locations(self.num_locations, ranking.num_candidates)
        candidates, relevant = ranking.num_candidates, ranking.relevant
        check_one_relevant(self, ranking, f"use {self.for_several} for several")
        # an id that is too large would count for another location, so that ids are checked even
        # without `validate_args`, unless this would wait for the device
        must_check = self.validate_args and candidates is None
        is_checked = len(relevant) and (must_check or not must_not_sync(ranking.above))
        if is_checked and (highest := int(relevant.max())) >= self.num_locations:
            raise ValueError(
                f"`target` must be below `num_locations`, {self.num_locations}, got {highest}"
                f"{from_one(relevant, self.num_locations)}."
            )

    @sums(decisions_of=lambda self: self.num_locations)
    def tally(self, ranking: Ranking) -> Tensor | KeyedSums:
        target, decided = ranking.relevant[:, 0], ranking.best  # -1 if there is none
        if self.num_locations is not None:
            return _count(target, decided, self.num_locations)
        if size := dense_size(target, decided):
            return self.of_counts(_count(target, decided, size))
        return _entries_of(target, decided)

    def of_counts(self, counts: Tensor) -> KeyedSums:
        """Return counts int64 `[3, C + 1]` as sums by key; the last column of counts is empty."""
        ids = counts.any(0).nonzero()
        return KeyedSums([torch.cat([ids, counts[:, ids[:, 0]].T], 1)], 1)

    @property
    def counts(self) -> Tensor:
        """TP, P and S of each location in this process, int64 `[3, C]`, and of invented ids."""
        return self.state if self.num_locations is not None else self.state[:, 1:].T

    @property
    def locations(self) -> Tensor:
        """The locations of the values of `average=None`, int64 `[C]`, rising.

        Without `num_locations` they are the ids that occur in this process as a decision or a
        target.
        """
        if self.num_locations is None:
            return self.state[:, 0]
        return torch.arange(self.num_locations, device=self.device)

    def compute(self) -> Tensor:
        state = exact.float64(self.counts)
        true_positives, decisions, support = state[:, : self.num_locations].unbind()
        if self.average == "micro":
            true_positives, decisions, support = state.sum(1)  # this includes invented ids
        score = (true_positives / self.divisor(decisions, support)).nan_to_num()
        score = score.masked_fill(decisions + support == 0, torch.nan)
        if self.average == "weighted":
            return (score.nan_to_num() * support).sum() / support.sum()
        return score.nanmean() if self.average == "macro" else score

    @property
    def num_queries(self) -> int:
        return int(self.counts[2].sum())

    @property
    def num_undecided(self) -> int:
        """The number of queries in this process without a decision: a NaN, an empty list."""
        return int(self.counts[2].sum() - self.counts[1].sum())

    @property
    def num_invented(self) -> int | None:
        """The number of lists in this process whose first id is no location.

        None without `num_locations`: an invented id cannot be told from a location.
        """
        return None if self.num_locations is None else int(self.state[1, self.num_locations])


def _count(target: Tensor, decided: Tensor, size: int) -> Tensor:
    """Count TP, P and S of each id below `size`, and of all larger ids: int64 `[3, size + 1]`."""
    width = size + 2  # the first cell of a row counts -1, which is dropped
    decided = decided.clamp(max=size).masked_fill(target < 0, -1)
    ids = torch.stack([target.masked_fill(target != decided, -1), decided, target])
    # each query adds to one cell per row
    first = torch.arange(1, 3 * width, width, device=ids.device)[:, None]
    cells = (ids + first).flatten()
    counts = backends.choose(cells).histogram(cells, 3 * width)
    return counts.view(3, width)[:, 1:]


def _entries_of(target: Tensor, decided: Tensor) -> KeyedSums:
    """Return the counts of targets and decisions, int64 `[N]`, as sums by key; -1 adds nothing."""
    decided, has_target = decided.masked_fill(target < 0, -1), (target >= 0).long()
    is_hit = ((target == decided) & (target >= 0)).long()
    none = torch.zeros_like(is_hit)
    of_target = torch.stack([target, is_hit, none, has_target], 1)
    of_decision = torch.stack([decided, none, (decided >= 0).long(), none], 1)
    entries = torch.cat([of_target, of_decision])
    keys = keys_of_integers(entries[:, :1]).masked_fill(entries[:, :1] < 0, NO_KEY)
    return KeyedSums([torch.cat([keys, entries[:, 1:]], 1)], 1)


class LocationF1(LocationTally):
    r"""F1 score per location, with the best candidate as the model's decision.

    For a location, F1 = 2 TP / (P + S). P is the number of queries whose decision is the location,
    S the number whose target is the location (its support), TP the number for which both hold. The
    average is over the locations that occur as a decision or a target, as in scikit-learn's
    `f1_score`. A query without a target is skipped, and one with several is an error. The
    state is three integers per location.

    Of tied best candidates the lowest id is the decision, as in `argmax`, so the value depends on
    the ids. A row with NaN scores, or with no score above -inf, has no decision: it counts in the
    support only. A list whose first id is no location, such as an invention of a language model, is
    a decision for no location; `num_invented` counts these lists.

    Args:
        num_locations: number of location ids, 0 to `num_locations` - 1; None for any ids. Then the
            state grows with those that occur, and an invented id counts as a location, so that
            `"macro"` is lower.
        average: `"weighted"`, the mean weighted by support; `"macro"`, the plain mean; `"micro"`,
            one F1 from the sums of TP, P (with ids that are no location) and S; None, one value per
            location, `[num_locations]`, NaN for a location that does not occur.

    Example:
        >>> from torch import tensor
        >>> f1 = LocationF1(num_locations=3)
        >>> f1.update(tensor([[0], [0], [1], [2]]), tensor([0, 1, 1, 1]))  # lists of one id
        >>> f1.compute()  # F1 of 0: 2/3, of 1: 2/4; support 1 and 3
        tensor(0.5417)
    """

    label, for_several, shared_state = "F1", "F1AtK", "LocationTally"

    # what to do if all targets are one location: "keep" the value; "warn", as presets do; or
    # "leave out" the value, as evaluations do
    if_one_target = "keep"

    def divisor(self, decisions: Tensor, support: Tensor) -> Tensor:
        return (decisions + support) / 2

    @property
    def has_one_target(self) -> bool:
        """Whether all targets are one location of several."""
        support = self.counts[2]
        may_be_others = self.num_locations is None or self.num_locations > 1
        return may_be_others and 1 < int(support.sum()) == int(support.max())

    def compute(self) -> Tensor:
        if self.if_one_target != "keep" and self.has_one_target:
            if self.if_one_target == "leave out":
                return torch.full_like(super().compute(), torch.nan)
            if self._should_unsync:  # it is False for the value of a batch, in `forward`
                self.if_one_target = "keep"
                location = int(self.locations[self.counts[2].argmax()])
                rank_zero_warn(
                    f"all targets are location {location}, so F1 of locations "
                    "says nothing. If candidates are sampled, with the target in one column, use "
                    "`recommendation_metrics`, or rank all locations."
                )
        return super().compute()


class LocationPrecision(LocationTally):
    r"""Precision per location: of the decisions for a location, the share that is correct.

    TP / P, and 0 for a location that occurs as a target only. The averages are as in scikit-learn's
    `precision_score` with `zero_division=0`. The rest is as for
    [`LocationF1`][nextloc_metrics.LocationF1].

    Example:
        >>> from torch import tensor
        >>> precision = LocationPrecision(num_locations=3)
        >>> precision.update(tensor([[0], [0], [1], [2]]), tensor([0, 1, 1, 1]))  # lists of one id
        >>> precision.compute()  # of 0: 1/2, of 1: 1/1; support 1 and 3
        tensor(0.8750)
    """

    label, for_several, shared_state = "Precision", "PrecisionAtK", "LocationTally"

    def divisor(self, decisions: Tensor, support: Tensor) -> Tensor:
        return decisions


class LocationRecall(LocationTally):
    r"""Recall per location: of the queries with a location as target, the share decided correctly.

    TP / S, and 0 for a location that occurs as a decision only. The averages are as in
    scikit-learn's `recall_score` with `zero_division=0`; `"weighted"` and `"micro"` equal the
    accuracy of the decisions. The rest is as for [`LocationF1`][nextloc_metrics.LocationF1].

    Example:
        >>> from torch import tensor
        >>> recall = LocationRecall(num_locations=3, average="macro")
        >>> recall.update(tensor([[0], [0], [1], [2]]), tensor([0, 1, 1, 1]))  # lists of one id
        >>> recall.compute()  # of 0: 1/1, of 1: 1/3, of 2: 0, as it is no target
        tensor(0.4444)
    """

    label, for_several, shared_state = "Recall", "RecallAtK", "LocationTally"

    def divisor(self, decisions: Tensor, support: Tensor) -> Tensor:
        return support
