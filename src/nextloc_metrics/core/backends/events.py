"""Events on a line of time: the cheapest alignment, and the matching of greatest weight, in Python.

Times are integers, multiples of 2^-32 of their unit, so that `events.h` gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

#: times that are none: NaN or -inf, which is before all, and inf, which is after all
NO_TIME, NEVER = -1 << 63, (1 << 63) - 1


@dataclass(eq=False)
class Moments:
    """Two sequences of events per row, on the CPU, in any order.

    Attributes:
        first: int64 `[N, L]`, the times of one sequence.
        second: int64 `[N, M]`, the times of the other.
        first_place: int64 `[N, L]`, the places; -1 for none, -2 where there is no event.
        second_place: int64 `[N, M]`, the same for `second`.
    """

    first: Tensor
    second: Tensor
    first_place: Tensor
    second_place: Tensor

    def rows(self) -> list[list[list[tuple[int, int, int]]]]:
        """Return place, time and column of the events that may have partners, by row and side."""
        sides = (self.first, self.first_place), (self.second, self.second_place)
        found = [
            [
                [
                    (x, t, j)
                    for j, (x, t) in enumerate(zip(*row, strict=True))
                    if NO_TIME < t < NEVER
                ]
                for row in zip(places.tolist(), times.tolist(), strict=True)
            ]
            for times, places in sides
        ]
        return [list(row) for row in zip(*found, strict=True)]


def transport(moments: Moments, most: int) -> Tensor:
    """Return the greatest sum of `most` - |t - t'| over partners, int64 `[N]`.

    Events of one place, with a time, may be partners, one to one. On a line of time the best
    partners keep the order, so that they are found by dynamic programming per place.
    """
    found = []
    for rows in moments.rows():
        total, sides = 0, [sorted(x[:2] for x in side if x[0] >= 0) for side in rows]
        for place in {x for x, _ in sides[0]}:
            one, other = ([t for x, t in side if x == place] for side in sides)
            row = [0] * (len(other) + 1)
            for time in one:
                above, row = row, [0]
                for j, true in enumerate(other):
                    pair = above[j] + max(0, most - abs(time - true))
                    row.append(max(pair, above[j + 1], row[j]))
            total += row[-1]
        found.append(total)
    return torch.tensor(found, dtype=torch.int64, device="cpu")


def match_events(moments: Moments, scores: Tensor | None, thresholds: Sequence[int]) -> Tensor:
    """Match events of `first` with those of `second` of each place, int64 `[N, L, C]`.

    An event of `first` has a score of each of C places, float64 `[N, L, C]`, and none where that is
    NaN or -inf; without scores it has one of its own place only, and C is 1. By falling score,
    equal ones by time and column, it is matched if it and the matched ones before can all have
    partners that are at most a threshold away: so the sum of the matched scores is the greatest.
    The answer is the sum of 2^d over thresholds, at most 62, at which it is matched.
    """
    size = 1 if scores is None else scores.shape[2]
    matched = torch.zeros(*moments.first.shape, size, dtype=torch.int64, device="cpu")
    for row, (first, second) in enumerate(moments.rows()):
        for place in {x for x, *_ in second if x >= 0 and (x < size or scores is None)}:
            at = 0 if scores is None else place
            here = sorted(
                (t, j) for x, t, j in first if x == place or (scores is not None and x > -2)
            )
            there = sorted(t for x, t, _ in second if x == place)
            given = [0.0 if scores is None else float(scores[row, j, at]) for _, j in here]
            order = sorted(
                (k for k, x in enumerate(given) if x > -torch.inf), key=lambda k: -given[k]
            )
            for number, threshold in enumerate(thresholds):
                near = [
                    [i for i, t in enumerate(there) if abs(t - x) <= threshold] for x, _ in here
                ]
                taken: list[int] = []
                for k in order:
                    taken += [k] * _fits(sorted([*taken, k]), near)
                matched[row, [here[k][1] for k in taken], at] += 1 << number
    return matched


def _fits(events: list[int], near: list[list[int]]) -> bool:
    """Whether all events can have partners: the first free one each, as intervals do not nest."""
    free = 0
    for event in events:
        free = next((j + 1 for j in near[event] if j >= free), NEVER)
    return free < NEVER
