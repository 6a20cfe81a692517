"""Alignments of predicted and true events: transport, counts of places, the next event."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from nextloc_metrics.core.backends import choose
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.metric.annotated_options import Computed, NumberFromZero, PositiveNumber
from nextloc_metrics.core.metric.mean import MeanMetric
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.mobility.events.metric import EventMean, EventMetric
from nextloc_metrics.mobility.events.pairs import EventPairs, fixed


class EventTransport(EventMean):
    r"""Optimal transport distance (OTD): the cost of the cheapest alignment of a sequence's events.

    A predicted and a true event of one place may be partners, at the cost of the difference of
    their times $|t - t'|$. A true event without a partner costs `insert_cost`, a predicted one
    `delete_cost`, so a pair that costs more than both is never made. The value is the mean of the
    costs over sequences, in the unit of the times; lower is better. Two empty sides cost 0. A
    predicted event without a time or a place has no partner.

    Args:
        insert_cost: the cost of a true event without a partner.
        delete_cost: the cost of a predicted event without a partner.
        kwargs: `horizon` and `first`, as in
            [`EventMetric`][nextloc_metrics.mobility.events.EventMetric].

    Example:
        >>> from nextloc_metrics.mobility.events import EventTransport
        >>> transport = EventTransport(insert_cost=2.0, delete_cost=1.0)
        >>> transport.update([([1.0, 5.0, 9.0], [7, 7, 8])], [([1.5, 6.0, 6.0], [7, 7, 9])])
        >>> transport.compute()  # 0.5 + 1 for place 7, 1 for deleting 8, 2 for inserting 9
        tensor(4.5000)

    Source: H. Mei, G. Qin and J. Eisner, "Imputing missing events in continuous-time event
    streams", ICML 2019. On a line of time the cheapest alignment keeps the order of the events of
    a place, so it is found by dynamic programming and needs no assignment.
    """

    label = "event transport"
    insert_cost: NumberFromZero
    delete_cost: NumberFromZero

    def _check(self, record: EventPairs) -> None:
        super()._check(record)
        sides = (self.delete_cost, record.predicted), (self.insert_cost, record.true)
        most = sum(cost * side.times.shape[1] for cost, side in sides)
        if most >= exact.HIGHEST_FINITE:
            raise ValueError(
                f"`insert_cost` and `delete_cost` of {short(self)} must cost less than 2^31 for "
                f"all events of a sequence, got {most:g}; use a larger unit of time."
            )

    def score(self, record: EventPairs) -> Tensor:
        moments, costs = self._moments(record), (fixed(self.delete_cost), fixed(self.insert_cost))
        sides = zip((moments.first_place, moments.second_place), costs, strict=True)
        alone = [(places > -2).sum(1) * cost for places, cost in sides]
        saved = choose(moments.first, "aligns").transport(moments, sum(costs))
        return exact.float64(alone[0] + alone[1] - saved) / exact.ONE


class EventCountDifference(EventMean):
    r"""Difference of label counts: how many more or fewer events there are than predicted.

    A sequence scores the sum over places of $|n - \hat n|$, the numbers of true and of predicted
    events; a predicted event without a place is one too many. The value is the mean over
    sequences; lower is better.

    The options are those of [`EventMetric`][nextloc_metrics.mobility.events.EventMetric].

    Example:
        >>> from nextloc_metrics.mobility.events import EventCountDifference
        >>> difference = EventCountDifference()
        >>> difference.update([([1.0, 5.0, 9.0], [7, 7, 8])], [([1.5, 6.0], [7, 9])])
        >>> difference.compute()  # 1 for each of the places 7, 8 and 9
        tensor(3.)
    """

    label = "difference of event counts"

    def score(self, record: EventPairs) -> Tensor:
        keys, signs = [], []
        for side, sign in zip(self._sides(record), (1, -1), strict=True):
            row, _ = at = (side.places > -2).nonzero(as_tuple=True)
            keys.append(torch.stack([row, side.places[at]]))
            signs.append(torch.full_like(row, sign))
        cells, cell = torch.unique(torch.cat(keys, 1), dim=1, return_inverse=True)
        counts = torch.zeros_like(cells[0]).index_add_(0, cell, torch.cat(signs)).abs()
        found = torch.zeros_like(record.true.lengths).index_add_(0, cells[0], counts)
        return exact.float64(found)


class EventTimeError(EventMean):
    r"""Error of the time of the next event: $|t - t'|$ of the first predicted and true events.

    The value is the mean over sequences with a true event (MAE), or the root of the mean square
    (RMSE), in the unit of the times; lower is better. A sequence without a predicted event, or
    with a NaN or an infinite time, scores `limit`, and infinity without one.

    Args:
        error: `"mae"` or `"rmse"`.
        limit: the largest error; larger ones count as this one.
        kwargs: `horizon`, as in [`EventMetric`][nextloc_metrics.mobility.events.EventMetric].

    Example:
        >>> from nextloc_metrics.mobility.events import EventTimeError
        >>> sides = [([2.0], [7]), ([9.0], [8])], [([1.0], [7]), ([2.0], [9])]
        >>> EventTimeError()(*sides), EventTimeError("rmse", limit=7.0)(*sides)
        (tensor(4.), tensor(5.))
    """

    label = "time error of the next event, {error}"
    error: Computed[Literal["mae", "rmse"]] = "mae"
    limit: PositiveNumber | None = None

    def score(self, record: EventPairs) -> tuple[Tensor, Tensor]:
        (time, _, has, known), (true, _, counted, _) = _next_events(self, record)
        whole, rest = time // exact.ONE - true // exact.ONE, time % exact.ONE - true % exact.ONE
        apart = (exact.float64(whole) + exact.float64(rest) / exact.ONE).abs()
        return apart.masked_fill(~(has & known), torch.inf).clamp(
            0, self.limit
        ), record.counted & counted

    @property
    def _averages_scores(self) -> bool:
        return self.error == "mae"

    def compute(self) -> Tensor:
        mean, square, _ = exact.moments(self.state)
        return mean if self.error == "mae" else square.sqrt()


class NextEventAccuracy(EventMetric, MeanMetric):
    r"""Accuracy of the next event: the share of sequences whose first place is predicted.

    A sequence with a true event counts, and is a hit if the first predicted event has its place.
    Times are read for their order only.

    The options are those of [`EventMetric`][nextloc_metrics.mobility.events.EventMetric].

    Example:
        >>> from nextloc_metrics.mobility.events import NextEventAccuracy
        >>> accuracy = NextEventAccuracy()
        >>> accuracy.update([([2.0], [7]), ([9.0], [8])], [([1.0], [7]), ([2.0], [9])])
        >>> accuracy.compute()
        tensor(0.5000)
    """

    label = "accuracy of the next event"

    def score(self, record: EventPairs) -> tuple[Tensor, Tensor]:
        (_, place, has, _), (_, true, counted, _) = _next_events(self, record)
        return ((place == true) & has).double(), record.counted & counted


def _next_events(metric: EventMetric, record: EventPairs) -> list[tuple[Tensor, ...]]:
    """Return time and place of each side's first event, whether there is one, and has a time."""
    sides = metric._sides(record)
    columns = [(x.times, x.places, x.places > -2, x.has_time) for x in sides]
    return [tuple(pad(x, (0, 1))[:, 0] for x in side) for side in columns]
