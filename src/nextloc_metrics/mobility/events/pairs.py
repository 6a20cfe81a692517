"""The record of events over a horizon: predicted and true times and places of each sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nextloc_metrics.core.backends.events import NEVER, NO_TIME
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.checks import is_integer
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.queries.record import Queries, Record
from nextloc_metrics.core.ranking.target import counted_by

_FORMS = (
    "a list of one (times [P], places [P] or floating scores [P, C]) per sequence, or a tuple of "
    "padded times [N, P], places [N, P] or scores [N, P, C], and lengths [N]; true events have "
    "places"
)


@dataclass(eq=False)
class Events:
    """The events of N sequences in order of time; one without a time is behind the one before it.

    Attributes:
        times: int64 `[N, L]`, multiples of 2^-32; the lowest integer for NaN and -inf, the highest
            for inf.
        places: int64 `[N, L]`, -1 for an event without a place, -2 behind the last event.
        scores: floating `[N, L, C]`, the score of every place; None where an event has one place.
    """

    times: Tensor
    places: Tensor
    scores: Tensor | None = None

    @property
    def lengths(self) -> Tensor:
        """The number of events of each sequence, int64 `[N]`."""
        return (self.places > -2).sum(1)

    @property
    def has_time(self) -> Tensor:
        """Which events have a time, so that they may have a partner, bool `[N, L]`."""
        return (self.times != NO_TIME) & (self.times != NEVER)

    def cut(self, first: int | None, end: Tensor | None) -> Events:
        """Return the first events that are before an end, int64 `[N]`; others have the place -2."""
        scores = None if self.scores is None else self.scores[:, :first]
        times, places = self.times[:, :first], self.places[:, :first]
        if end is not None and places.numel():
            places = places.masked_fill(times.cummax(1).values >= end[:, None], -2)
        return Events(times, places, scores)

    def sorted(self) -> Events:
        """Return the events in order of time; equal times keep their order."""
        if bool((self.times[:, 1:] >= self.times[:, :-1]).all()):
            return self  # times before which none is missing, then those behind the last event
        columns = torch.arange(self.times.shape[1], device=self.times.device)
        known = columns.where(self.times != NO_TIME, 0).cummax(1).values
        key = self.times.gather(1, known).masked_fill(self.places == -2, NEVER)
        if bool((key[:, 1:] >= key[:, :-1]).all()):
            return self
        order = key.argsort(dim=1, stable=True)
        scores = self.scores
        if scores is not None:
            scores = scores.gather(1, order[..., None].expand_as(scores))
        return Events(self.times.gather(1, order), self.places.gather(1, order), scores)


#: a list of (times, places or scores) per sequence, or (padded times, places or scores[, lengths])
AnyEvents: TypeAlias = Sequence[Any] | tuple[Any, ...] | Events


@dataclass(eq=False, init=False)
class EventPairs(Record):
    """Predicted and true events of the same sequences: the record of the metrics of events.

    A sequence is a query, such as the next week of a user, with any number of events on either
    side, in any order: they are read in order of time. Times are numbers below 2^31 of any unit,
    rounded to multiples of 2^-32. A predicted time may be NaN or infinite: the event has no
    partner. Without a time (NaN) it comes directly after the event given before it; an infinite
    one is after every horizon. The place is the highest score, the lowest id of equal ones; NaN
    among scores, nothing above -inf, or a predicted id below 0 is no place.

    Args:
        predicted: a list of one pair (times, places) or (times, scores) per sequence, numbers
            `[P]`, integers `[P]` and floating `[P, C]`; or padded tensors, a tuple of times
            `[N, P]`, places `[N, P]` or scores `[N, P, C]`, and lengths, integer `[N]` (without
            them all events count).
        true: the same, with finite times, and places from 0.
        start: `[N]` or a number, where the horizon of each sequence begins; None for 0.
        mask: bool `[N]`; False leaves the sequence out, and its events are not read.

    Raises:
        TypeError: events have another form or dtype.
        ValueError: numbers of events differ, or a time or a place is out of range.

    Example:
        >>> from nextloc_metrics.mobility.events import EventPairs
        >>> pairs = EventPairs([([1.0, 2.5], [7, 8])], [([1.5], [7])], start=[1.0])
        >>> len(pairs), pairs.predicted.lengths, pairs.true.places
        (1, tensor([2]), tensor([[7]]))
    """

    predicted: Events
    true: Events
    start: Tensor
    queries: Queries

    def __init__(
        self,
        predicted: AnyEvents,
        true: AnyEvents,
        start: Array | float | None = None,
        mask: Array | None = None,
        *,
        queries: Queries | None = None,
    ) -> None:
        if queries is not None:  # all is read
            self.predicted, self.true, self.start = predicted, true, start  # type: ignore[assignment]
            self.queries = queries
            return
        sides = [_read(name, x) for name, x in (("predicted", predicted), ("true", true))]
        shape, device = sides[1][2].shape, sides[1][0].device
        if sides[0][2].shape != shape:
            raise ValueError(
                "`predicted` and `true` must have the same sequences, got "
                f"{len(sides[0][2])} and {len(sides[1][2])}."
            )
        counted = counted_by(None if mask is None else as_tensor("mask", mask), shape, device)
        self.queries = Queries(shape, counted)
        self.predicted = _events("predicted", sides[0], counted)
        self.true = _events("true", sides[1], counted)
        if start is None or isinstance(start, int | float):
            start = torch.full(shape, float(start or 0), dtype=torch.float64, device=device)
        given = as_tensor("start", start, device)
        if given.shape != shape:
            raise ValueError(
                f"`start` must be a number, or one for each of {len(counted)} sequences, got "
                f"{describe(given)}."
            )
        self.start = _whole("start", given[:, None], counted[:, None])[:, 0]

    @classmethod
    def read(cls, batch: Any, needs: Any) -> EventPairs:
        raise TypeError(
            f"`preds` must be `EventPairs(predicted, true)`, got {describe(batch.preds)}."
        )

    def end(self, horizon: float | None) -> Tensor | None:
        """Return where the horizon of each sequence ends, int64 `[N]`; None without a horizon."""
        if horizon is None or (length := fixed(horizon)) == NEVER:
            return None
        return (self.start + length).masked_fill(self.start > NEVER - length, NEVER)


def fixed(number: float) -> int:
    """Return a number from 0 as a multiple of 2^-32; NEVER from 2^31 on."""
    return round(number * exact.ONE) if number < exact.HIGHEST_FINITE else NEVER


def _read(name: str, events: Any) -> list[Tensor]:
    """Return padded times, places or scores, and lengths."""
    parts = (
        [as_tensor(f"{name}[{i}]", one) for i, one in enumerate(events)]
        if isinstance(events, tuple)
        else _pad(name, events)
    )
    if len(parts) == 2 and parts[0].ndim == 2:
        parts.append(torch.full(parts[0].shape[:1], parts[0].shape[1], device=parts[0].device))
    if len(parts) == 3:
        times, values, lengths = parts
        scores = values.ndim == 3 and values.is_floating_point() and values.shape[2]
        may = is_integer(values) if values.ndim == 2 else scores and name == "predicted"
        fits = times.shape == values.shape[:2] and lengths.shape == times.shape[:1]
        if may and fits and bool(((lengths >= 0) & (lengths <= times.shape[1])).all()):
            return parts
    raise TypeError(f"`{name}` must be {_FORMS}, got {short([describe(x) for x in parts])}.")


def _pad(name: str, events: Any) -> list[Tensor]:
    """Return the events of a list padded."""
    is_list = isinstance(events, Sequence)
    if not is_list or any(not isinstance(x, Sequence) or len(x) != 2 for x in events):
        raise TypeError(f"`{name}` must be {_FORMS}, got {describe(events)}.")
    read = [[as_tensor(f"{name}[{i}]", x) for x in one] for i, one in enumerate(events)]
    some = next((x for _, x in read if len(x)), torch.zeros(0, dtype=torch.int64))
    for i, (times, values) in enumerate(read):
        if not len(values):
            read[i][1] = values = some[:0]  # an empty list has no dtype
        right = values.shape[1:] == some.shape[1:] and values.dtype == some.dtype
        if not right or times.shape != values.shape[:1]:
            raise ValueError(
                f"`{name}` must have a place for each time, or scores of the same places, got "
                f"{describe(times)} and {describe(values)} in sequence {i}."
            )
    if not read:
        return [torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.int64), torch.zeros(0).long()]
    columns = [exact.float64(times) for times, _ in read], [values for _, values in read]
    lengths = torch.tensor([len(times) for times, _ in read])
    return [*(pad_sequence(x, batch_first=True) for x in columns), lengths]


def _events(name: str, parts: list[Tensor], counted: Tensor) -> Events:
    """Return the events of the sequences that count, with times as integers; or raise."""
    times, values, lengths = parts
    lengths, width = lengths.masked_fill(~counted, 0), times.shape[1]
    if is_full := bool((lengths == width).all()):
        is_event = torch.ones(1, 1, dtype=torch.bool, device=times.device)
    else:
        is_event = torch.arange(width, device=times.device) < lengths[:, None]
    is_negative = values.ndim == 2 and values.numel() and int(values.min()) < 0
    if is_negative and name == "true" and len(wrong := ((values < 0) & is_event).nonzero()):
        row, column = wrong[0].tolist()
        raise ValueError(
            f"`true` must have places from 0, got {int(values[row, column])} in sequence {row}."
        )
    if values.ndim == 2:
        places = values.long().clamp(min=-1) if is_negative else values.long()
    elif values.numel():
        best = values.detach().max(2)
        places = best.indices.masked_fill(~(best.values > -torch.inf), -1)
    else:  # of no events there is no best one
        places = torch.zeros_like(times, dtype=torch.int64)
    if not is_full:
        places = places.masked_fill(~is_event, -2)
    scores = values if values.ndim == 3 else None
    return Events(_whole(name, times, is_event), places, scores).sorted()


def _whole(name: str, times: Tensor, is_event: Tensor) -> Tensor:
    """Return times as integers, also NaN and infinities of predicted ones; or raise."""
    times = exact.float64(times.detach())
    low, high = times.aminmax() if times.numel() else (times, times)
    if bool((low > -exact.HIGHEST_FINITE).all() and (high < exact.HIGHEST_FINITE).all()):
        return (times * exact.ONE).round_().long()
    near = times.abs() < exact.HIGHEST_FINITE
    may = near if name != "predicted" else near | ~times.isfinite()
    if len(wrong := (is_event & ~may).nonzero()):
        row, column = wrong[0].tolist()
        raise ValueError(
            f"`{name}` must have times between -2^31 and 2^31, got {float(times[row, column])} "
            f"in sequence {row}; subtract the start, or take a larger unit."
        )
    whole = (times.masked_fill(~near, 0) * exact.ONE).round_().long()
    return whole.masked_fill(~near, NO_TIME).masked_fill(times == torch.inf, NEVER)
