"""What the metrics of events share: an update with two sides, a horizon, the first events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY

from nextloc_metrics.core.backends.events import Moments
from nextloc_metrics.core.metric.annotated_options import Positive, PositiveNumber
from nextloc_metrics.core.metric.mean import MeanMetric, RecordMetric
from nextloc_metrics.core.queries.arrays import Array
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.record import Record, Records
from nextloc_metrics.mobility.events.pairs import AnyEvents, EventPairs, Events


class EventMetric(RecordMetric):
    """Base class: a metric of predicted and true events.

    Args:
        horizon: only events before `start + horizon` count; None for all events.
        first: only so many events of each side count, the first in time of those before the
            horizon; None for all.
        options: the options of a subclass, and TorchMetrics' own keyword arguments.
    """

    record = EventPairs
    _without_ids = "events", "; leave sequences out with `mask`"

    _: KW_ONLY
    horizon: PositiveNumber | None = None
    first: Positive | None = None

    def update(  # type: ignore[override]  # there are no candidates to exclude
        self,
        preds: AnyEvents | Record | Records,
        target: AnyEvents | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        start: Array | float | None = None,
    ) -> None:
        """Add a batch of sequences.

        Args:
            preds: the predicted events, or both as `EventPairs`, alone.
            target: the true events; [`EventPairs`][nextloc_metrics.mobility.events.EventPairs] has
                the forms of both.
            mask: bool `[N]`; False leaves the sequence out, and its events are not read.
            groups: integer `[N]`, the group of every sequence, for `Grouped`; or several by name.
            start: where the horizon of each sequence begins; None for 0.
        """
        self._plan.update(
            Batch(self.read(preds, target, mask, groups, start=start), None), count=False
        )

    def read(  # type: ignore[override]
        self,
        preds: AnyEvents | Record | Records,
        target: AnyEvents | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        start: Array | float | None = None,
    ) -> EventPairs:
        batch = Batch(preds, target, mask, groups)
        if not isinstance(preds, Record | Records):
            if target is None:
                raise ValueError("`target` must be given with `preds`, unless it is EventPairs.")
            batch = Batch(
                EventPairs(preds, target, start, mask).to(self.device), None, None, groups
            )
        found: EventPairs = self._plan.read(batch)[self.record]
        return found

    def _sides(self, pairs: EventPairs) -> tuple[Events, Events]:
        """Return the predicted and the true events that count."""
        end = pairs.end(self.horizon)
        return pairs.predicted.cut(self.first, end), pairs.true.cut(self.first, end)

    def _moments(self, pairs: EventPairs) -> Moments:
        """Return the events that count for a backend."""
        predicted, true = self._sides(pairs)
        columns = predicted.times, true.times, predicted.places, true.places
        return Moments(*(x.cpu() for x in columns))


class EventMean(EventMetric, MeanMetric):
    """The mean of a number of each sequence, from 0, which a subclass defines in `score`."""

    largest_value = math.inf
    higher_is_better = False
    plot_upper_bound = None
