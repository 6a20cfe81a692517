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
    """Two sequences of events per row, on the CPU.

    Attributes:
        first: int64 `[N, L]`, the times of one sequence.
        second: int64 `[N, M]`, the times of the other.
        first_length: int64 `[N]`, the number of events of `first`; others are not read.
        second_length: int64 `[N]`, the same for `second`.
    """

    first: Tensor
    second: Tensor
    first_length: Tensor
    second_length: Tensor


def transport(
    moments: Moments, first_place: Tensor, second_place: Tensor, insert: int, delete: int
) -> Tensor:
    """Return the cost of the cheapest alignment, int64 `[N]`: by dynamic programming per place.

    Events of one place are partners at the cost of the difference of their times, which have any
    order. Without a time, or with the place -1 of int64 `[N, L]` and `[N, M]`, there is no partner;
    -2 is not read. Without one an event of `second` costs `insert`, and of `first` `delete`.
    """
    costs = []
    rows = zip(_each(moments), first_place.tolist(), second_place.tolist(), strict=True)
    for (first, second), *places in rows:
        both = [list(zip(x, y, strict=False)) for x, y in zip(places, (first, second), strict=True)]
        placed = [sorted(e for e in x if e[0] >= 0 and e[1] not in (NO_TIME, NEVER)) for x in both]
        alone = [sum(e[0] > -2 for e in x) - len(y) for x, y in zip(both, placed, strict=True)]
        cost = delete * alone[0] + insert * alone[1]
        for place in {e[0] for e in placed[0] + placed[1]}:
            one, other = ([time for x, time in side if x == place] for side in placed)
            row = [insert * j for j in range(len(other) + 1)]
            for time in one:
                above, row = row, [row[0] + delete]
                for j, true in enumerate(other):
                    pair = above[j] + min(abs(time - true), insert + delete)
                    row.append(min(pair, above[j + 1] + delete, row[j] + insert))
            cost += row[-1]
        costs.append(cost)
    return torch.tensor(costs, dtype=torch.int64, device="cpu")


def match_events(moments: Moments, order: Tensor, thresholds: Sequence[int]) -> Tensor:
    """Match events one to one, the first of an order first, bool `[N, D, L]`: which are matched.

    An event, a column of `first` in `order` (int64 `[N, L]`, -1 behind the last), is matched if it
    and the matched ones before can all have partners in `second` at most a threshold away. Their
    sum of any weights that fall in this order is the greatest. Times rise in each sequence.
    """
    matched = torch.zeros(len(order), len(thresholds), order.shape[1], device="cpu").bool()
    for row, (first, second) in enumerate(_each(moments)):
        for number, threshold in enumerate(thresholds):
            near = [[j for j, t in enumerate(second) if abs(t - x) <= threshold] for x in first]
            taken: list[int] = []
            for column in filter(lambda x: x >= 0, order[row].tolist()):
                taken += [column] * _fits(sorted([*taken, column]), near)
            matched[row, number, taken] = True
    return matched


def _fits(columns: list[int], near: list[list[int]]) -> bool:
    """Whether all columns can have partners: the first free one each, as intervals do not nest."""
    free = 0
    for column in columns:
        free = next((j + 1 for j in near[column] if j >= free), NEVER)
    return free < NEVER


def _each(moments: Moments) -> list[tuple[list[int], list[int]]]:
    """Return the times of each row, without padding."""
    columns = moments.first, moments.second, moments.first_length, moments.second_length
    rows = zip(*(x.tolist() for x in columns), strict=True)
    return [(first[:one], second[:other]) for first, second, one, other in rows]
