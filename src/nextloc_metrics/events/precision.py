"""Mean average precision over time: pooled scores of predictions, matched to events in time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.arguments.arrays import pad_rows
from nextloc_metrics.arguments.checks import check_number, check_positive
from nextloc_metrics.arguments.messages import short
from nextloc_metrics.backends import choose
from nextloc_metrics.backends.events import Moments
from nextloc_metrics.base.declared import Computed, Positive, PositiveNumber
from nextloc_metrics.base.keyed import KeyedMetric
from nextloc_metrics.events.metric import EventMetric, can_match
from nextloc_metrics.events.pairs import NEVER, EventPairs, fixed
from nextloc_metrics.means import exact
from nextloc_metrics.scoring import weights

EventAverage = Literal["present", "all", "weighted"]

# Keys beside those of scores: of true events, and of NaN, which is above all scores.
_TRUE, _NAN = -1 << 63, (1 << 63) - 1


def _check_thresholds(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not len(value):
        raise ValueError(f"`{name}` must be a list of numbers, such as [1, 2], got {short(value)}.")
    return tuple(
        x if x == math.inf else check_number(f"{name}[{i}]", x, or_zero=True)
        for i, x in enumerate(value)
    )


def _check_bins(name: str, value: Any) -> int | tuple[float, ...] | None:
    if value is None or isinstance(value, int):
        return None if value is None else check_positive(name, value)
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    edges = tuple(map(float, value)) if is_list else ()
    if not edges or any(not x < y for x, y in zip(edges, (*edges[1:], math.inf), strict=True)):
        raise ValueError(
            f"`{name}` must be None, a number of bins of [0, 1], or rising edges of bins, got "
            f"{short(value)}."
        )
    return edges


class ScoreBlocks(NamedTuple):
    """Blocks of predictions of one place with equal scores, which fall; int64 `[B]` each."""

    place: Tensor  #: a number from 0 of the place
    size: Tensor  #: predictions in the block
    matched: Tensor  #: those of them that are matched
    above: Tensor  #: predictions of the place with higher scores
    matched_above: Tensor  #: those of them that are matched


class PooledEvents(EventMetric, KeyedMetric):
    """Base class: the scores of all predictions of a place, and which of them are matched.

    An entry of the state has the place and the score, how many predictions have them, and how many
    are matched at each threshold; classes with equal options share it. Memory grows with the
    number of different scores unless there are `bins`.
    """

    _num_keys = 2

    horizon: PositiveNumber | None
    thresholds: Annotated[tuple[float, ...], _check_thresholds]
    average: Computed[EventAverage] = "present"
    num_places: Computed[Positive | None] = None
    bins: Annotated[int | tuple[float, ...] | None, _check_bins] = None
    as_hotpp: Computed[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.label += f", {self.average}" if self.average != "present" else ""
        if self.average == "all" and self.num_places is None:
            raise ValueError("`num_places` must be given with `average='all'`, got None.")

    def empty_tally(self) -> Tensor:
        """Return no entries; their columns are place, score, count, and matched by threshold."""
        return torch.zeros(0, 3 + len(self.thresholds), dtype=torch.int64)

    def _check(self, record: EventPairs) -> None:
        """Raise if a place is out of range; the entries go to the device of the state."""
        for side in (record.predicted, record.true):
            highest = int(side.places.max()) if side.places.numel() else -1
            highest = highest if side.scores is None else side.scores.shape[2] - 1
            if self.num_places is not None and highest >= self.num_places:
                raise ValueError(
                    f"`num_places` of {short(self)} must be above every place, got {highest}."
                )

    def tally(self, record: EventPairs) -> Any:
        predicted, true = (kept.cpu().numpy() for kept in self.kept(record))
        place, score = _predictions(record, predicted)
        true_place = record.true.places.cpu().numpy()[true]
        matched = self._match(record, predicted, true)
        number = len(place), len(matched[0]), len(true_place), 1
        entries = np.zeros((sum(number), 3 + len(self.thresholds)), np.int64)
        of_score, of_match, of_true, last = np.split(entries, np.cumsum(number[:-1]))
        of_score[:, 0], of_score[:, 1], of_score[:, 2] = place, self._keys(score), 1
        of_match[:, 0], of_match[:, 1], of_match[:, 3:] = (
            matched[0],
            self._keys(matched[1]),
            matched[2],
        )
        of_true[:, 0], of_true[:, 1], of_true[:, 2] = true_place, _TRUE, 1
        last[:, 0], last[:, 2] = -1, int(record.counted.sum())
        return exact.KeyedSums([torch.from_numpy(entries).to(self.device)], self._num_keys)

    def _keys(self, score: Any) -> Any:
        """Return integers in the order of the scores, or their bins; NaN is above all."""
        if self.bins is None:
            bits = (score + 0.0).view(np.int64)
            keys = bits ^ ((bits >> 63) & _NAN)
        elif isinstance(self.bins, int):
            keys = np.floor(np.nan_to_num(score).clip(0, 1) * self.bins).clip(max=self.bins - 1)
        else:
            keys = np.searchsorted(np.array(self.bins), score, side="right")
        return np.where(np.isnan(score), _NAN, keys.astype(np.int64))

    def _match(self, record: EventPairs, predicted: Any, true: Any) -> tuple[Any, Any, Any]:
        """Return place, score and thresholds, bool `[M, D]`, of the matched predictions.

        A row is a sequence and a place that it has true events of; its predictions are by time.
        """
        row, places = true.nonzero()[0], record.true.places.cpu().numpy()[true]
        times = record.true.times.cpu().numpy()[true]
        width = 1 + int(places.max(initial=0))
        groups, group, sizes = np.unique(
            row * width + places, return_inverse=True, return_counts=True
        )
        query, place = groups // width, groups % width
        second = pad_rows(times[np.lexsort((times, group))], sizes, 0)
        when = np.where(predicted, record.predicted.times.cpu().numpy(), NEVER)
        by_time = when.argsort(1)
        first = np.take_along_axis(when, by_time, 1)[query]
        score = _scores_of(record, query, place, by_time)
        score = np.where(can_match(torch.from_numpy(first)).numpy(), score, np.nan)
        order = (-score).argsort(1)  # NaN is last
        columns = np.take_along_axis(score, order, 1)
        order = np.where(columns > -np.inf, order, -1)
        numbers = [(1 << 64) - 1 if fixed(x) == NEVER else fixed(x) for x in self.thresholds]
        lengths = np.full(len(groups), first.shape[1]), sizes
        moments = Moments(*map(torch.from_numpy, (first, second, *lengths)))
        found = choose(moments.first_length, "aligns").match_events(
            moments, torch.from_numpy(order), numbers
        )
        at, column = found.numpy().any(1).nonzero()
        return place[at], score[at, column], found.numpy()[at, :, column]

    def _check_state(self, state: Tensor, queries: int) -> bool:
        return bool((state[:, 2:] >= 0).all())

    @property
    def num_queries(self) -> int:
        """The number of sequences that this process has counted."""
        state = self.state
        return int(state[state[:, 0] < 0, 2].sum())

    def _blocks(self) -> tuple[Tensor, list[ScoreBlocks]]:
        """Return the numbers of true events of the places that have some; blocks by threshold."""
        state = self.state.cpu().flip(0)  # scores fall
        is_true = (state[:, 0] >= 0) & (state[:, 1] == _TRUE)
        places, true = state[is_true, 0].flip(0), state[is_true, 2].flip(0)
        rows = state[torch.isin(state[:, 0], places) & ~is_true]
        place = torch.searchsorted(places, rows[:, 0].contiguous())
        below = rows[:, 2:].cumsum(0) - rows[:, 2:]
        starts = torch.searchsorted(-rows[:, 0].contiguous(), -places)
        above = below - torch.nn.functional.pad(below, (0, 0, 0, 1))[starts][place]
        return true, [
            ScoreBlocks(place, rows[:, 2], rows[:, 3 + i], above[:, 0], above[:, 1 + i])
            for i in range(len(self.thresholds))
        ]

    @abstractmethod
    def value_of(self, true: Tensor, blocks: ScoreBlocks) -> Tensor:
        """Return the value of each place at a threshold, float64; `true` counts its events."""

    def _mean(self, value_of: Any) -> Tensor:
        """Return the mean over places and thresholds; NaN without a true event."""
        true, blocks = self._blocks()
        if not len(true):
            return torch.tensor(torch.nan, dtype=torch.float64)
        values = torch.stack([value_of(true, one) for one in blocks]).mean(0)
        if self.average == "weighted":
            return (values * true).sum() / true.sum()
        return values.sum() / ((self.num_places or 1) if self.average == "all" else len(true))

    def compute(self) -> Tensor:
        return self._mean(self._value_of)

    def _value_of(self, true: Tensor, blocks: ScoreBlocks) -> Tensor:
        """Return `value_of`; in HoTPP's code 0 for a place all of whose predictions are matched."""
        found = self.value_of(true, blocks)
        missed = _sum(true, blocks, blocks.size - blocks.matched)
        return found.masked_fill(missed == 0, 0) if self.as_hotpp else found


def _predictions(record: EventPairs, kept: Any) -> tuple[Any, Any]:
    """Return place and score, float64, of each prediction; NaN scores too."""
    if record.predicted.scores is None:
        place = record.predicted.places.cpu().numpy()[kept]
        place = place[place >= 0]
        return place, np.zeros(len(place))
    scores = exact.float64(record.predicted.scores.detach().cpu()).numpy()[kept]
    row, place = (scores != -np.inf).nonzero()
    return place, scores[row, place]


def _scores_of(record: EventPairs, query: Any, place: Any, event: Any) -> Any:
    """Return the scores of a place for the events of some sequences, float64 `[G, P]`."""
    predicted = record.predicted
    row, column = query[:, None], event[query]
    if predicted.scores is None:
        return np.where(predicted.places.cpu().numpy()[row, column] == place[:, None], 0.0, -np.inf)
    scores = predicted.scores.detach().cpu()
    at = place.clip(max=scores.shape[2] - 1)
    found = exact.float64(scores[row, column, at[:, None]]).numpy()
    return np.where((place < scores.shape[2])[:, None], found, -np.inf)


def _sum(true: Tensor, blocks: ScoreBlocks, values: Tensor) -> Tensor:
    """Sum the values of the blocks of each place."""
    return values.new_zeros(len(true)).index_add_(0, blocks.place, values)


class EventMAP(PooledEvents):
    r"""Mean average precision over time (T-mAP): are events of a place predicted, at their time?

    For each place and threshold, a sequence's predictions are matched one to one with its true
    events of the place that are at most the threshold away, those with the highest scores first.
    Then the predictions of all sequences are ranked by their score of the place: AP is the sum of
    the precisions at the matched ones over the number of true events. The value is the mean over
    places and thresholds; higher is better.

    Equal scores count as the mean over their orders. An event with scores is a prediction of every
    place, unless its score is -inf, and an event with one place of this one, with equal scores. A
    prediction without a time or with a NaN score is not matched, and NaN is ranked first.

    Args:
        horizon: only events before `start + horizon` count; None for all.
        thresholds: the largest differences of times, from 0, also infinity.
        average: `"present"`, over places that have a true event; `"all"`, over all `num_places`,
            as HoTPP; `"weighted"`, by the number of true events.
        num_places: the number of places.
        bins: None keeps every score; the number of equal bins of [0, 1], or the edges of bins,
            keeps a histogram: equal scores are those of one bin, and `extremes` shows the effect.
        as_hotpp: a place all of whose predictions are matched has 0, as in HoTPP's code; and there
            the recall of `EventMaxF` is of the matched events only.
        kwargs: `first`, as in [`EventMetric`][nextloc_metrics.events.EventMetric].

    Example:
        >>> from nextloc_metrics.events import EventMAP
        >>> tmap = EventMAP(horizon=10.0, thresholds=[1.0])
        >>> scores = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.6]]  # of two places
        >>> tmap.update([([1.0, 5.0, 7.0], scores)], [([7.5, 1.5], [0, 0])])
        >>> tmap.compute()  # the first and the third: (1/1 + 2/3) / 2
        tensor(0.8333)

    Source: I. Karpukhin, F. Shipilov and A. Savchenko, "HoTPP benchmark: are we good at the long
    horizon events forecasting?", 2024. The matched predictions have the greatest sum of scores, as
    with the assignment there: those that can be matched together form a matroid.
    """

    label = "T-mAP"
    _counted_as = "PooledEvents"

    def value_of(self, true: Tensor, blocks: ScoreBlocks) -> Tensor:
        return self._average_precision(true, blocks)

    def extremes(self) -> tuple[Tensor, Tensor]:
        """Return the lowest and the highest value over the orders of equal scores."""
        ends = [partial(self._average_precision, last=last) for last in (True, False)]
        low, high = (self._of_all_processes(partial(self._mean, end)) for end in ends)
        return low, high

    def _average_precision(
        self, true: Tensor, blocks: ScoreBlocks, last: bool | None = None
    ) -> Tensor:
        """Return AP; matched ones are last or first in their block, or None: the mean."""
        _, size, matched, above, before = blocks
        top = int(_sum(true, blocks, size).max())
        if last is None:
            spread = ((matched - 1) / (size - 1)).masked_fill(size == 1, 0)
            harmonic = weights.between("harmonic", above, above + size, top)
            found = matched * ((before + 1 - spread * (above + 1)) * harmonic / size + spread)
        else:
            start = above + (size - matched if last else 0)
            harmonic = weights.between("harmonic", start, start + matched, top)
            found = matched - (start - before) * harmonic
        return _sum(true, blocks, found) / true


class EventMaxF(PooledEvents):
    r"""Maximal F score over time: the best F1 of a cut of the predictions of a place by score.

    Predictions are matched and ranked as by [`EventMAP`][nextloc_metrics.events.EventMAP], whose
    options it has. With the first k predictions of a place, of which m are matched, and n true
    events, $F = 2 m / (k + n)$. The greatest one over cuts between different scores counts. The
    value is the mean over places and thresholds; higher is better.

    Example:
        >>> from nextloc_metrics.events import EventMaxF
        >>> max_f = EventMaxF(horizon=10.0, thresholds=[1.0])
        >>> scores = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.6]]
        >>> max_f.update([([1.0, 5.0, 7.0], scores)], [([7.5, 1.5], [0, 0])])
        >>> max_f.compute()  # all three: 2 * 2 / (3 + 2)
        tensor(0.8000)
    """

    label = "max F over time"
    _counted_as = "PooledEvents"

    def value_of(self, true: Tensor, blocks: ScoreBlocks) -> Tensor:
        wanted = _sum(true, blocks, blocks.matched) if self.as_hotpp else true
        number = blocks.above + blocks.size + wanted[blocks.place]
        found = 2.0 * (blocks.matched_above + blocks.matched) / exact.float64(number)
        best = torch.zeros(len(true), dtype=torch.float64)
        return best.scatter_reduce_(0, blocks.place, found, "amax")
