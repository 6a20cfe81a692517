"""The record of events over a horizon: predicted and true times and places of each sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nextloc_metrics.arguments.arrays import Array, as_tensor
from nextloc_metrics.arguments.checks import is_integer
from nextloc_metrics.arguments.messages import describe, short
from nextloc_metrics.arguments.record import Queries, Record
from nextloc_metrics.means import exact
from nextloc_metrics.ranking.target import counted_by

#: times that are none: NaN or -inf, which is before all, and inf, which is after all
NO_TIME, NEVER = -1 << 63, (1 << 63) - 1

_FORMS = (
    "a list of one (times [P], places [P] or scores [P, C]) per sequence, or a tuple of padded "
    "times [N, P], places [N, P] or scores [N, P, C], and lengths [N]"
)


@dataclass(eq=False)
class Events:
    """The events of N sequences, in the order in which they were given.

    Attributes:
        times: int64 `[N, L]`, multiples of 2^-32; NO_TIME for NaN, NEVER for infinity.
        places: int64 `[N, L]`, -1 for an event without a place.
        lengths: int64 `[N]`, the number of events; others are not read.
        scores: floating `[N, L, C]`, the score of every place; None where an event has one place.
    """

    times: Tensor
    places: Tensor
    lengths: Tensor
    scores: Tensor | None = None

    @property
    def has_time(self) -> Tensor:
        """Which events have a time, so that they may have a partner, bool `[N, L]`."""
        return (self.times != NO_TIME) & (self.times != NEVER)

    @property
    def timed_places(self) -> Tensor:
        """The places, -1 also for an event without a time."""
        return self.places.masked_fill(~self.has_time, -1)

    def within(self, first: int | None = None, end: Tensor | None = None) -> Tensor:
        """Return which events count, bool `[N, L]`: the first ones, before an end, int64 `[N]`."""
        position = torch.arange(self.times.shape[1], device=self.times.device)
        kept = position < self.lengths.clamp(0, first)[:, None]
        return kept if end is None else kept & (self.times < end[:, None])


#: a list of (times, places or scores) per sequence, or (padded times, places or scores[, lengths])
AnyEvents: TypeAlias = Sequence[Any] | tuple[Any, ...] | Events


@dataclass(eq=False, init=False)
class EventPairs(Record):
    """Predicted and true events of the same sequences: the record of the metrics of events.

    A sequence is a query, such as the next week of a user. Either side may have any number of
    events, also none. Times are numbers below 2^31 in any unit, rounded to multiples of 2^-32 of
    it. A predicted time may be NaN or infinite: the event has no partner, and is before the end of
    the horizon unless it is infinity. Of scores the place is the highest, the lowest id of equal
    ones; NaN among them, or nothing above -inf, is no place, as is a predicted id below 0.

    Args:
        predicted: a list of one pair (times, places) per sequence, floating or integer `[P]` and
            integer `[P]`; or (times, scores), floating `[P, C]`; or padded tensors, a tuple of
            times `[N, P]`, places `[N, P]` or scores `[N, P, C]`, and lengths, integer `[N]`
            (without them all events count).
        true: the same, with finite times, and places from 0.
        start: `[N]` or a number, where the horizon of each sequence begins; None for 0.
        mask: bool `[N]`; False leaves the sequence out, and its events are not read.

    Raises:
        TypeError: events have another form or dtype.
        ValueError: numbers of events differ, or a time or a place is out of range.

    Example:
        >>> from nextloc_metrics.events import EventPairs
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
        sides = {"predicted": _padded("predicted", predicted), "true": _padded("true", true)}
        numbers = [len(one.lengths) for one in sides.values()]
        if numbers[0] != numbers[1]:
            raise ValueError(
                "`predicted` and `true` must have the same sequences, got "
                f"{numbers[0]} and {numbers[1]}."
            )
        device = sides["true"].times.device
        if queries is None:
            kept = None if mask is None else as_tensor("mask", mask, device)
            shape = torch.Size(numbers[:1])
            queries = Queries(shape, counted_by(kept, shape, device))
            for name, side in sides.items():
                sides[name] = _checked(name, side, queries.counted)
            start = _read_start(start, queries)
        self.predicted, self.true = sides["predicted"], sides["true"]
        self.start, self.queries = start, queries  # type: ignore[assignment]  # read above

    @classmethod
    def read(cls, batch: Any, needs: Any) -> EventPairs:
        raise TypeError(
            "`preds` must be `EventPairs(predicted, true)` for metrics of events, got "
            f"{describe(batch.preds)}."
        )

    def end(self, horizon: float | None) -> Tensor | None:
        """Return where the horizon of each sequence ends, int64 `[N]`; None without a horizon."""
        length = NEVER if horizon is None else fixed(horizon)
        if length == NEVER:
            return None
        beyond = self.start > NEVER - length
        return (self.start + length).masked_fill(beyond, NEVER)


def fixed(number: float) -> int:
    """Return a number from 0 as a multiple of 2^-32; NEVER from 2^31 on."""
    return round(number * exact.ONE) if number < exact.HIGHEST_FINITE else NEVER


def _padded(name: str, events: AnyEvents) -> Events:
    """Return the events as padded tensors, whose times are not read yet."""
    if isinstance(events, Events):
        return events
    if isinstance(events, tuple):
        given = [as_tensor(f"{name}[{i}]", one) for i, one in enumerate(events)]
        if len(given) not in (2, 3) or given[0].ndim != 2:
            raise TypeError(f"`{name}` must be {_FORMS}, got {short(events)}.")
        times, values = given[:2]
        whole = torch.full((len(times),), times.shape[1], device=times.device)
        lengths = given[2].long() if len(given) == 3 else whole
        if values.shape[:2] != times.shape or lengths.shape != times.shape[:1]:
            raise ValueError(f"`{name}` must be {_FORMS}, got {short([x.shape for x in given])}.")
        if len(given) == 3 and bool(((lengths < 0) | (lengths > whole)).any()):
            raise ValueError(
                f"`{name}` must have lengths from 0 to {times.shape[1]}, got {short(given[2])}."
            )
    else:
        times, values, lengths = _pad(name, events)
    scores = values if values.ndim == 3 and values.is_floating_point() else None
    if not (scores is not None or (values.ndim == 2 and is_integer(values))):
        raise TypeError(f"`{name}` must be {_FORMS}, got places {describe(values)}.")
    if scores is not None and (name == "true" or not scores.shape[2]):
        raise TypeError(f"`{name}` must have integer places, got scores {describe(values)}.")
    places = values.long() if scores is None else _decide(values)
    return Events(times, places, lengths, scores)


def _pad(name: str, events: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor]:
    if not isinstance(events, Sequence) or not all(
        isinstance(one, Sequence) and len(one) == 2 for one in events
    ):
        raise TypeError(f"`{name}` must be {_FORMS}, got {describe(events)}.")
    read = [[as_tensor(f"{name}[{i}]", x) for x in one] for i, one in enumerate(events)]
    some = next((x for _, x in read if len(x)), torch.zeros(0, dtype=torch.int64))
    for i, (times, values) in enumerate(read):
        if times.ndim != 1 or not values.ndim or len(times) != len(values):
            raise ValueError(
                f"`{name}` must have as many times as places in each sequence, got "
                f"{short([list(times.shape), list(values.shape)])} in sequence {i}."
            )
        if not len(values):
            read[i][1] = some[:0]  # an empty list has no dtype
        elif (values.shape[1:], values.dtype) != (some.shape[1:], some.dtype):
            raise TypeError(
                f"`{name}` must have places, or scores of the same places, in all sequences, got "
                f"{describe(values)} in sequence {i} beside {describe(some)}."
            )
    lengths = torch.tensor([len(times) for times, _ in read], dtype=torch.int64)
    if not read:
        return torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.int64), lengths
    times = pad_sequence([exact.float64(times) for times, _ in read], batch_first=True)
    return times, pad_sequence([x for _, x in read], batch_first=True), lengths


def _decide(scores: Tensor) -> Tensor:
    """Return the place of the highest score, the lowest id of equal ones; -1 without one."""
    if not scores.numel():
        return torch.zeros(scores.shape[:2], dtype=torch.int64, device=scores.device)
    best = scores.detach().max(2)
    return best.indices.masked_fill(best.values.isnan() | (best.values == -torch.inf), -1)


def _checked(name: str, events: Events, counted: Tensor) -> Events:
    """Return the events of the sequences that count, with times as integers; or raise."""
    events.lengths = events.lengths.masked_fill(~counted, 0)
    within = events.within()
    times = exact.float64(events.times.detach()).masked_fill(~within, 0)
    places = events.places.masked_fill(~within, 0)
    if name == "true":
        _check(places < 0, f"`{name}` must have places from 0", places)
    near = times.abs() < exact.HIGHEST_FINITE
    if near.all():
        return replace(events, times=(times * exact.ONE).round().long(), places=places)
    _check(
        ~near & (times.isfinite() | (name == "true")),
        f"`{name}` must have times between -2^31 and 2^31 (subtract the start, or take a larger "
        "unit)",
        times,
    )
    whole = (times.masked_fill(~near, 0) * exact.ONE).round().long()
    whole = whole.masked_fill(~near, NO_TIME).masked_fill(times == torch.inf, NEVER)
    return replace(events, times=whole, places=places)


def _check(wrong: Tensor, rule: str, values: Tensor) -> None:
    if len(found := wrong.nonzero()):
        row, column = found[0].tolist()
        raise ValueError(f"{rule}, got {values[row, column].item()} in sequence {row}.")


def _read_start(start: Array | float | None, queries: Queries) -> Tensor:
    given = 0.0 if start is None else start
    read = torch.tensor(float(given)) if isinstance(given, int | float) else None
    times = as_tensor("start", given) if read is None else read.expand(queries.shape)
    if times.shape != queries.shape or times.is_complex():
        raise ValueError(
            f"`start` must be a number, or one of each of the {queries.shape[0]} sequences, got "
            f"{describe(times)}."
        )
    times = exact.float64(times.to(queries.counted.device)).masked_fill(~queries.counted, 0)
    if len(wrong := times[~(times.abs() < exact.HIGHEST_FINITE)]):
        raise ValueError(
            f"`start` must be finite and between -2^31 and 2^31, got {float(wrong[0])}."
        )
    return (times * exact.ONE).round().long()
