"""Mean average precision over time: pooled scores of predictions, matched to events in time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.backends import choose
from nextloc_metrics.core.backends.events import NEVER
from nextloc_metrics.core.means import exact
from nextloc_metrics.core.metric.annotated_options import Computed, Positive, PositiveNumber
from nextloc_metrics.core.metric.keyed import KeyedMetric
from nextloc_metrics.core.queries.arrays import begins
from nextloc_metrics.core.queries.checks import check_number, check_positive
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.scoring import weights
from nextloc_metrics.mobility.events.metric import EventMetric
from nextloc_metrics.mobility.events.pairs import EventPairs, fixed

_NAN = 0x7FF8 << 48  # its key, above those of all scores


def _check_numbers(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not 1 <= len(value) <= 62:
        raise ValueError(
            f"`{name}` must be a list of 1 to 62 numbers, such as [1, 2], got {short(value)}."
        )
    return tuple(
        x if x == math.inf else check_number(f"{name}[{i}]", x, or_zero=True)
        for i, x in enumerate(value)
    )


def _check_bins(name: str, value: Any) -> int | tuple[float, ...] | None:
    if value is None or isinstance(value, int):
        return None if value is None else check_positive(name, value)
    edges = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    are_numbers = len(edges) > 0 and all(isinstance(x, Real) for x in edges)
    if not are_numbers or not all(x < y for x, y in zip((-math.inf, *edges), edges, strict=False)):
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

    An entry of the state has a place, a score, the thresholds at which a prediction is matched (the
    sum of 2^i), and the number of these predictions; or -2 - place, 0, 0 and the number of true
    events; or -1, 0, 0 and the number of sequences. Its size grows with the different scores unless
    there are `bins`.
    """

    _num_keys = 3

    horizon: PositiveNumber | None
    thresholds: Annotated[tuple[float, ...], _check_numbers]
    average: Computed[Literal["present", "all", "weighted"]] = "present"
    num_places: Computed[Positive | None] = None
    bins: Annotated[int | tuple[float, ...] | None, _check_bins] = None
    as_hotpp: Computed[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.label += f", {self.average}" if self.average != "present" else ""
        if self.average == "all" and self.num_places is None:
            raise ValueError("`num_places` must be given with `average='all'`, got None.")

    def empty_tally(self) -> Tensor:
        return torch.zeros(0, 4, dtype=torch.int64)

    def _check(self, record: EventPairs) -> None:
        """Raise if a place is out of range; entries go to the device of the state."""
        scores = record.predicted.scores
        of_scores = 0 if scores is None else scores.shape[2]
        highest = [int(x.places.max()) for x in (record.predicted, record.true) if x.places.numel()]
        number = max(of_scores, 1 + max(highest, default=-1))
        if self.num_places is not None and number > self.num_places:
            raise ValueError(
                f"`num_places` of {short(self)} must be above every place, got {number - 1}."
            )

    def tally(self, record: EventPairs) -> Any:
        moments, given = self._moments(record), record.predicted.scores
        scores = None if given is None else exact.float64(given[:, : self.first].detach().cpu())
        numbers = [(1 << 64) - 1 if fixed(x) == NEVER else fixed(x) for x in self.thresholds]
        matched = choose(moments.first, "aligns").match_events(moments, scores, numbers).numpy()
        place: Any = moments.first_place.numpy()[..., None]
        if scores is None:
            score: Any = np.zeros(place.shape)
            counts = place >= 0
        else:
            score = scores.numpy()
            counts, place = (place > -2) & (score != -np.inf), np.arange(score.shape[2])
        events = moments.second_place.numpy()
        true, number_of = np.unique(events[events >= 0], return_counts=True)
        size = int(counts.sum())
        entries = np.zeros((size + len(true) + 1, 4), np.int64)
        entries[:size, 0] = np.broadcast_to(place, counts.shape)[counts]
        entries[:size, 1] = self._keys(score[counts])
        entries[:size, 2] = matched[counts]
        entries[:size, 3] = 1
        entries[size:-1, 0], entries[size:-1, 3] = -2 - true, number_of
        entries[-1, 0], entries[-1, 3] = -1, int(record.counted.sum())
        return self._summand(torch.from_numpy(entries))

    def _keys(self, score: Any) -> Any:
        """Return integers in the order of the scores, or their bins; NaN is above all."""
        if self.bins is None:
            keys = (score + 0.0).view(np.int64)
            is_negative = keys < 0
            keys[is_negative] = -(1 << 63) - keys[is_negative]
        else:
            edges = np.arange(1, self.bins) / self.bins if isinstance(self.bins, int) else self.bins
            keys = np.searchsorted(edges, score, side="right")
        keys[np.isnan(score)] = _NAN
        return keys

    @property
    def num_queries(self) -> int:
        state = self.state
        return int(state[state[:, 0] == -1, 3].sum())

    def _blocks(self) -> tuple[Tensor, Tensor, list[ScoreBlocks]]:
        """Return the true events and the predictions of each place; by threshold its blocks.

        Only places that have true events, and blocks with matched predictions.
        """
        state = self.state.cpu().numpy()
        ends = np.searchsorted(state[:, 0], [-1, 0])
        places, true = -2 - state[: ends[0], 0][::-1], state[: ends[0], 3][::-1]
        place, score, at, count = np.ascontiguousarray(state[ends[1] :].T)
        is_first = begins(place, score)
        block, place = is_first.cumsum() - 1, place[is_first]
        size = np.add.reduceat(count, is_first.nonzero()[0])
        until, behind = np.append(0, size.cumsum()), np.searchsorted(place, places, "right")
        found, some = [], at.nonzero()[0]
        at, block, count = at[some], block[some], count[some]
        for number in range(len(self.thresholds)):
            kept = (at & 1 << number != 0).nonzero()[0]
            is_first = begins(block[kept])
            matched = np.add.reduceat(count[kept], is_first.nonzero()[0])
            blocks = block[kept[is_first]]
            own = np.searchsorted(places, place[blocks])
            above = until[behind[own]] - until[blocks + 1]
            rest = np.bincount(own, matched, len(places)).astype(np.int64).cumsum()[own]
            columns = own, size[blocks], matched, above, rest - matched.cumsum()
            found.append(ScoreBlocks(*map(torch.from_numpy, columns)))
        before = np.searchsorted(place, places)
        return torch.from_numpy(true.copy()), torch.from_numpy(until[behind] - until[before]), found

    @abstractmethod
    def value_of(self, true: Tensor, blocks: ScoreBlocks) -> Tensor:
        """Return the value of each place at a threshold, float64; `true` counts its events."""

    def _mean(self, value_of: Any) -> Tensor:
        """Return the mean over places and thresholds; NaN without a true event."""
        true, total, found = self._blocks()
        values = torch.zeros(len(true), dtype=torch.float64, device="cpu")
        for blocks in found:
            value = value_of(true, blocks)
            all_matched = _sum(len(true), blocks, blocks.matched) == total
            values += value.masked_fill(all_matched & self.as_hotpp, 0) / len(found)
        if self.average == "weighted":
            return (values * true).sum() / true.sum()
        size = self.num_places if self.average == "all" and len(true) else len(true)
        return values.sum() / torch.tensor(size, device="cpu")

    def compute(self) -> Tensor:
        return self._mean(self.value_of)


def _sum(number: int, blocks: ScoreBlocks, values: Tensor) -> Tensor:
    """Sum the values of the blocks of each place."""
    return values.new_zeros(number).index_add_(0, blocks.place, values)


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
        kwargs: `first`, as in [`EventMetric`][nextloc_metrics.mobility.events.EventMetric].

    Example:
        >>> from nextloc_metrics.mobility.events import EventMAP
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

    def value_of(
        self, true: Tensor, blocks: ScoreBlocks, first: Literal["mean", True, False] = "mean"
    ) -> Tensor:
        """Return AP; in a block the matched are first, or last, or this is the mean over orders."""
        _, size, matched, above, before = blocks
        top = int((above + size).max()) if len(size) else 0
        if first == "mean":
            spread = ((matched - 1) / (size - 1)).masked_fill(size == 1, 0)
            harmonic = weights.between("harmonic", above, above + size, top)
            found = matched * ((before + 1 - spread * (above + 1)) * harmonic / size + spread)
        else:
            start = above if first else above + size - matched
            harmonic = weights.between("harmonic", start, start + matched, top)
            found = matched - (start - before) * harmonic
        return _sum(len(true), blocks, found) / true

    def extremes(self) -> tuple[Tensor, Tensor]:
        """Return the lowest and the highest value over the orders of equal scores."""
        ends = (partial(self.value_of, first=first) for first in (False, True))
        low, high = (self._of_all_processes(partial(self._mean, end)) for end in ends)
        return low, high


class EventMaxF(PooledEvents):
    r"""Maximal F score over time: the best F1 of a cut of the predictions of a place by score.

    Predictions are matched and ranked as by
    [`EventMAP`][nextloc_metrics.mobility.events.EventMAP], whose
    options it has. With the first k predictions of a place, of which m are matched, and n true
    events, $F = 2 m / (k + n)$. The greatest one over cuts between different scores counts. The
    value is the mean over places and thresholds; higher is better.

    Example:
        >>> from nextloc_metrics.mobility.events import EventMaxF
        >>> max_f = EventMaxF(horizon=10.0, thresholds=[1.0])
        >>> scores = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.6]]
        >>> max_f.update([([1.0, 5.0, 7.0], scores)], [([7.5, 1.5], [0, 0])])
        >>> max_f.compute()  # all three: 2 * 2 / (3 + 2)
        tensor(0.8000)
    """

    label = "max F over time"
    _counted_as = "PooledEvents"

    def value_of(self, true: Tensor, blocks: ScoreBlocks) -> Tensor:
        wanted = _sum(len(true), blocks, blocks.matched) if self.as_hotpp else true
        number = blocks.above + blocks.size + wanted[blocks.place]
        found = 2 * exact.float64(blocks.matched_above + blocks.matched) / number
        best = torch.zeros(len(true), dtype=torch.float64, device="cpu")
        return best.scatter_reduce_(0, blocks.place, found, "amax")
