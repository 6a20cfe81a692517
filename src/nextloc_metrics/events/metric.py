"""What the metrics of events share: an update with two sides, a horizon, the first events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any

import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import Array
from nextloc_metrics.arguments.batch import Batch
from nextloc_metrics.arguments.record import Record, Records
from nextloc_metrics.base.declared import Positive, PositiveNumber
from nextloc_metrics.base.mean import MeanMetric, RecordMetric
from nextloc_metrics.events.pairs import NEVER, NO_TIME, AnyEvents, EventPairs


class EventMetric(RecordMetric):
    """Base class: a metric of predicted and true events.

    Args:
        horizon: only events before `start + horizon` count; None for all events.
        first: only so many events of each side count, in the order given; None for all.
        options: the options of a subclass, and TorchMetrics' own keyword arguments.
    """

    record = EventPairs

    _: KW_ONLY
    horizon: PositiveNumber | None = None
    first: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ignore_index is not None:
            raise ValueError(
                f"`ignore_index` must be None for events, got {self.ignore_index}; leave "
                "sequences out with `mask`."
            )
        if self.unit and "label" in vars(self):
            self.label += f" ({self.unit})"

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
            target: the true events; [`EventPairs`][nextloc_metrics.events.EventPairs] has the
                forms of both.
            mask: bool `[N]`; False leaves the sequence out, and its events are not read.
            groups: integer `[N]`, the group of every sequence, for `Grouped`; or several by name.
            start: where the horizon of each sequence begins; None for 0.
        """
        self._plan.update(self._batch(preds, target, mask, groups, start), count=False)

    def read(  # type: ignore[override]
        self,
        preds: AnyEvents | Record | Records,
        target: AnyEvents | None = None,
        mask: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        *,
        start: Array | float | None = None,
    ) -> EventPairs:
        batch = self._batch(preds, target, mask, groups, start)
        found: EventPairs = self._plan.read(batch)[self.record]
        return found

    def _batch(self, preds: Any, target: Any, mask: Any, groups: Any, start: Any) -> Batch:
        if isinstance(preds, Record | Records):
            return Batch(preds, target, mask, groups)
        if target is None:
            raise ValueError("`target` must be given with `preds`, unless `preds` is EventPairs.")
        return Batch(EventPairs(preds, target, start, mask).to(self.device), None, None, groups)

    def kept(self, pairs: EventPairs) -> tuple[Tensor, Tensor]:
        """Return which predicted and which true events count, bool `[N, P]` and `[N, T]`."""
        end = pairs.end(self.horizon)
        return pairs.predicted.within(self.first, end), pairs.true.within(self.first, end)


class EventMean(EventMetric, MeanMetric):
    """The mean of a number of each sequence, which a subclass defines in `score`."""


def can_match(times: Tensor) -> Tensor:
    """Return which events have a time, so that they may have a partner."""
    return (times != NO_TIME) & (times != NEVER)


def has_first(kept: Tensor) -> Tensor:
    """Return which sequences have a first event that counts, bool `[N]`."""
    return kept[:, 0] if kept.shape[1] else torch.zeros_like(kept.any(1))
