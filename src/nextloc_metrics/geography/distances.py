"""Metrics of distance: accuracy within d km, and distance error of the decision in km."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import reduce
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import Computed, NumberFromZero, Positive
from nextloc_metrics.core.base.ranking_metric import LowestIds, RankingMetric, SkipOrError
from nextloc_metrics.core.base.scores import counted_queries
from nextloc_metrics.core.means import exact, histogram, intervals
from nextloc_metrics.core.queries.checks import check_statistic, from_one
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.geography.locations import Locations, check_locations

Statistic = Annotated[Literal["mean", "median"] | float, check_statistic]
Undecided = Literal["largest", "skip"]

# The histogram of distances has a bin for 0, one for up to 1 cm, and then bins that are 1 % wide.
_SMALLEST_KM = 1e-5
_GROWTH = 1.01

_LEAVE_OUT = "give this candidate the score -inf, or leave it out with `exclude`"


class _NearTarget(RankingMetric):
    locations: Annotated[Locations, check_locations]
    _: KW_ONLY
    ties: LowestIds = "expected"

    def check(self, ranking: Ranking) -> None:
        super().check(ranking)
        size, relevant = len(self.locations), ranking.relevant
        self.locations.check_size(ranking.num_candidates)
        if self.validate_args and relevant.numel() and (highest := int(relevant.max())) >= size:
            raise ValueError(
                f"`target` must be below the {size} locations, got {highest}"
                f"{from_one(relevant, size)}."
            )
        if self.validate_args and not self.locations.is_complete:
            rows = ranking.answerable.nonzero()[:, 0]
            self.locations.check_known("target", relevant[rows], "leave it out with `mask`", rows)
            answers = self.answers(ranking)[rows]
            self.locations.check_known("preds", answers, _LEAVE_OUT, rows)

    def answers(self, ranking: Ranking) -> Tensor:
        """Return the candidates whose distance is computed, int64 `[N, T]`, -1 for none."""
        raise NotImplementedError

    def _distances(self, ids: Tensor, relevant: Tensor) -> Tensor:
        """Return km from `ids`, `[N, T]`, to the nearest relevant location; inf without one."""
        distances = []
        for target in (x[:, None].expand_as(ids) for x in relevant.unbind(1)):
            missing = (ids.minimum(target) < 0) | (ids.maximum(target) >= len(self.locations))
            km = self.locations.distance(*(x.masked_fill(missing, 0) for x in (ids, target)))
            distances.append(km.masked_fill(missing | km.isnan(), torch.inf))
        return reduce(torch.minimum, distances)


class AccuracyWithin(_NearTarget):
    r"""Accuracy within the first k ranks and d km: is one of the first k near the target?

    The share of queries with at least one of the first `k` candidates at most `km` from the target
    (`<=`), by the coordinates `locations`. With several relevant locations, the distance to the
    nearest counts. Without ties it is `AccuracyAtK(k)` with all locations within `km` as relevant.

    Ties: if a tied block crosses rank `k`, its lowest ids fill the ranks up to `k`. So there is no
    option `ties`.

    A candidate scored NaN, or an id of a list that is no location, takes a rank and is never near.

    Example:
        >>> from torch import tensor
        >>> locations = Locations.from_plane([0, 300, 5000], [0, 400, 0])
        >>> accuracy = AccuracyWithin(locations, km=0.5, k=1)
        >>> scores = tensor([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
        >>> accuracy.update(scores, tensor([0, 0]))  # 0.5 km and 5 km off
        >>> accuracy.compute()
        tensor(0.5000)

    Source: image geolocation reports the share within 1, 25 and 200 km: T. Weyand, I. Kostrikov and
    J. Philbin, "PlaNet - photo geolocation with convolutional neural networks", ECCV 2016.
    """

    label = "Acc@{k} within {km:g} km"

    km: NumberFromZero
    k: Positive

    @property
    def needs(self) -> Needs:
        return Needs(self.k)

    def answers(self, ranking: Ranking) -> Tensor:
        return self._first(ranking, self.k)

    def score(self, ranking: Ranking) -> Tensor:
        # it is computed for all candidates that the ranking keeps, and shared by metrics of other k
        kept = max(self.k, 0 if ranking.first is None else ranking.first.top)
        key = ("near", id(self.locations), self.km, kept)
        are_near = ranking.once(key, lambda: self._are_near(ranking, kept))
        return are_near[:, : self.k].any(1).double()

    def _are_near(self, ranking: Ranking, k: int) -> Tensor:
        return self._distances(self._first(ranking, k), ranking.relevant) <= self.km

    def _first(self, ranking: Ranking, k: int) -> Tensor:
        first = ranking.top_candidates(k)
        return first.ids.masked_fill(~first.known, -1)


class DistanceError(_NearTarget):
    r"""Distance between decision and target in km: mean, median or another quantile.

    The decision is the best candidate (if tied, the lowest id), as for
    [`LocationF1`][nextloc_metrics.LocationF1]. A row with a NaN, an empty list or a first id that
    is no location has no decision: it counts as the largest distance (20,015.2 km on the Earth),
    and `num_undecided` counts these rows. With several relevant locations, the distance to the
    nearest counts.

    The sum for the mean is exact, in steps of 5 mm on the Earth, and the mean has an interval. A
    quantile is read from a histogram with a bin for 0 and bins that are 1 % wide, so its error is
    at most 0.5 %. In a collection all statistics share one state.

    Args:
        locations: the coordinates.
        statistic: `"mean"`, `"median"`, or a quantile between 0 and 1, such as 0.9.
        undecided: for a query without a decision: `"largest"` counts the largest distance;
            `"skip"` leaves the query out.
        kwargs: among others `empty_target_action`, `"skip"` or `"error"`.

    Example:
        >>> from torch import tensor
        >>> locations = Locations.from_plane([0, 300, 3000], [0, 400, 4000])
        >>> error = DistanceError(locations)
        >>> error.update(tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]]), tensor([2, 0]))
        >>> error.compute()  # km: (5 + 0.5) / 2
        tensor(2.7500)
    """

    higher_is_better = False
    plot_upper_bound = None
    unit = "km"
    needs = Needs(top=1)  # the decision is the first candidate

    statistic: Computed[Statistic] = "mean"
    undecided: Undecided = "largest"
    _: KW_ONLY
    empty_target_action: SkipOrError = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.largest_value = self.locations.largest
        statistic = self.statistic
        name = statistic if isinstance(statistic, str) else f"{statistic:g} quantile"
        self.label = f"distance error, {name} (km)"
        self.is_mean = self.has_interval = self.statistic == "mean"

    @property
    def _share(self) -> float | None:
        """The share of queries that do not exceed the quantile; None for the mean."""
        shares: dict[Any, float | None] = {"mean": None, "median": 0.5}
        return shares.get(self.statistic, self.statistic)  # type: ignore[arg-type]

    def answers(self, ranking: Ranking) -> Tensor:
        return ranking.best[:, None]

    def score(self, ranking: Ranking) -> Tensor | tuple[Tensor, Tensor]:
        distance = self._distances(self.answers(ranking), ranking.relevant)[:, 0]
        scores = (distance / self.largest_value).clamp(max=1)
        return scores if self.undecided == "largest" else (scores, self._decided(ranking))

    def empty_state(self) -> Tensor:
        """Return zeros: the state of `exact`, the number of undecided queries, the histogram."""
        return torch.zeros(4 + self._num_bins, dtype=torch.int64)

    def tally(self, ranking: Ranking) -> Tensor:
        scores, counted = self.scores_of(ranking)
        answerable = counted_queries(ranking, self.empty_target_action)
        undecided = (answerable & ~self._decided(ranking)).sum()
        km = scores * self.largest_value
        bins = 1 + ((km / _SMALLEST_KM).clamp(min=1).log() / math.log(_GROWTH)).long()
        bins = torch.where(km < _SMALLEST_KM, (km > 0).long(), bins)
        counts = [exact.tally(scores, counted), undecided[None]]
        counts.append(histogram.count(bins, counted, self._num_bins))
        return torch.cat([x.to(ranking.device) for x in counts])

    def compute(self) -> Tensor:
        if self._share is None:
            return exact.moments(self.state[:3])[0] * self.largest_value
        number = histogram.bin_of(self.state[4:], self._share)
        if number is None:
            return torch.tensor(torch.nan, device=self.state.device)
        km = _SMALLEST_KM * _GROWTH ** (number - 0.5) if number else 0.0
        return torch.tensor(km, dtype=torch.float64, device="cpu")

    def cumulative(self) -> tuple[Tensor, Tensor]:
        """Return the ends of bins in km, and the share of all processes' queries up to each."""
        counts = self._of_all_processes(lambda: self.state[4:].cpu().clone())
        last = int(counts.nonzero()[-1]) if counts.any() else 0
        bins = torch.arange(last + 1, dtype=torch.float64, device="cpu")
        return _SMALLEST_KM * _GROWTH**bins, counts[: last + 1].cumsum(0) / counts.sum()

    def estimate(self) -> intervals.Estimate:
        return intervals.of_queries(self.state[:3])

    @property
    def num_queries(self) -> int:
        return int(self.state[2])

    @property
    def num_undecided(self) -> int:
        """The number of queries in this process without a decision."""
        return int(self.state[3])

    @property
    def _num_bins(self) -> int:
        return 2 + math.ceil(math.log(self.largest_value / _SMALLEST_KM) / math.log(_GROWTH))

    def _decided(self, ranking: Ranking) -> Tensor:
        return (ranking.best >= 0) & (ranking.best < len(self.locations))
