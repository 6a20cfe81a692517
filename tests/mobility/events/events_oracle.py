"""Metrics of events in plain Python, from the definitions, and random sequences to test them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

#: one sequence: predicted (times, places or scores), true (times, places), and the start
Case = tuple[tuple[Any, Any], tuple[Any, Any], float]


def cases(seed: int, number: int, places: int = 3, longest: int = 6, scored: bool = True) -> Any:
    """Random sequences: empty, of one event, equal times, ties, NaN; times are eighths."""
    random = Random(seed)
    for _ in range(number):
        sizes = [random.choice([0, 1, *range(longest + 1)]) for _ in range(2)]
        start = random.choice([0.0, 1.0, -2.5])
        times = [[start + random.randint(-2, 20) / 4 for _ in range(size)] for size in sizes]
        times[0] = [random.choice([math.nan, math.inf, -math.inf]) if random.random() < 0.08 else x
                    for x in times[0]]  # fmt: skip
        true = [random.randrange(places) for _ in times[1]]
        given: Any = [random.randrange(-1, places) for _ in times[0]]
        if scored:
            odd = [math.nan, -math.inf, math.inf]
            given = [[random.choice(odd) if random.random() < 0.05 else random.randint(-3, 3) / 2
                      for _ in range(places)] for _ in times[0]]  # fmt: skip
        yield (times[0], given), (times[1], true), start


def place_of(given: Any) -> int:
    """The place of a prediction: the first best one, -1 for none."""
    if isinstance(given, int):
        return given
    if any(map(math.isnan, given)) or max(given) == -math.inf:
        return -1
    return given.index(max(given))


def cut(case: Case, horizon: float | None, first: int | None) -> list[list[tuple[float, Any]]]:
    """The first events in time of both sides that count; a NaN or -inf is behind the one before."""
    end = math.inf if horizon is None else case[2] + horizon
    sides = []
    for times, given in case[:2]:
        moments: list[float] = []
        for t in times:
            moments.append(t if t > -math.inf else (moments or [-math.inf])[-1])
        order = sorted(range(len(times)), key=lambda i: moments[i])
        kept = [i for i in order if horizon is None or moments[i] < end]
        sides.append([(times[i], given[i]) for i in kept[:first]])
    return sides


def transport(
    case: Case, insert: float, delete: float, horizon: Any = None, first: Any = None
) -> float:
    """The cost of the best assignment in the square of n + m predictions and true events."""
    predicted, true = cut(case, horizon, first)
    n, m = len(predicted), len(true)
    cost = np.zeros((n + m, n + m))
    cost[:n, m:], cost[n:, :m] = delete, insert
    for i, (t, given) in enumerate(predicted):
        for j, (u, place) in enumerate(true):
            same = place_of(given) == place and math.isfinite(t)
            cost[i, j] = abs(t - u) if same else insert + delete
    return float(cost[linear_sum_assignment(cost)].sum())


def count_difference(case: Case, horizon: Any = None, first: Any = None) -> int:
    """The sum over places of the difference of numbers of events; one without a place is extra."""
    predicted, true = cut(case, horizon, first)
    places = [place_of(x) for _, x in predicted]
    of_true = [x for _, x in true]
    return sum(abs(places.count(x) - of_true.count(x)) for x in {*places, *of_true})


def _match(near: list[list[int]]) -> list[bool]:
    """Which can be matched together with those before, by augmenting paths."""
    owner: dict[int, int] = {}

    def grow(i: int, seen: set[int]) -> bool:
        for j in near[i]:
            if j not in seen:
                seen.add(j)
                if j not in owner or grow(owner[j], seen):
                    owner[j] = i
                    return True
        return False

    return [grow(i, set()) for i in range(len(near))]


def pooled(
    dataset: Sequence[Case], place: int, threshold: float, horizon: Any, first: Any = None
) -> tuple[list[tuple[float, bool]], int]:
    """Scores of a place with whether they are matched, and the number of its true events.

    Matched by augmenting paths, the highest score first, which gives the greatest sum.
    """
    found: list[tuple[float, bool]] = []
    number = 0
    for case in dataset:
        predicted, true = cut(case, horizon, first)
        times = [u for u, x in true if x == place]
        number += len(times)
        mine = []
        for t, given in predicted:
            is_place = isinstance(given, int)
            score = (0.0 if given == place else -math.inf) if is_place else given[place]
            # a NaN is ranked above all numbers
            rank = math.inf if math.isnan(score) else min(score, 1e300)
            near = [j for j, u in enumerate(times) if abs(t - u) <= threshold]
            if score != -math.inf:
                mine.append((rank, [] if math.isnan(score) or math.isinf(t) else near))
        mine.sort(key=lambda x: -x[0])
        found += zip([rank for rank, _ in mine], _match([near for _, near in mine]), strict=True)
    return found, number


def average_precision(found: list[tuple[float, bool]], number: int, order: str = "mean") -> float:
    """The sum of precisions at the matched ones, over the number; the mean over orders of ties."""
    total, above, before = 0.0, 0, 0
    for score in sorted({s for s, _ in found}, reverse=True):
        block = [m for s, m in found if s == score]
        size, matched = len(block), sum(block)
        if order != "mean":
            ranks = (
                range(1, matched + 1) if order == "high" else range(size - matched + 1, size + 1)
            )
            total += sum((before + i + 1) / (above + rank) for i, rank in enumerate(ranks))
        else:
            for i in range(size):
                others = i * (matched - 1) / (size - 1) if size > 1 else 0
                total += matched / size * (before + 1 + others) / (above + i + 1)
        above, before = above + size, before + matched
    return total / number


def max_f(found: list[tuple[float, bool]], number: int) -> float:
    """The greatest F1 of a cut between different scores."""
    cuts = {s for s, _ in found}
    best = [0.0]
    for low in cuts:
        chosen = [m for s, m in found if s >= low]
        best.append(2 * sum(chosen) / (len(chosen) + number))
    return max(best)


def mean_over_places(
    dataset: Sequence[Case], places: int, thresholds: Sequence[float], horizon: Any,
    average: str, value: Any, first: Any = None,
) -> float:  # fmt: skip
    """The mean of a value over places that have a true event, and thresholds."""
    total, weights = 0.0, 0.0
    for place in range(places):
        for threshold in thresholds:
            found, number = pooled(dataset, place, threshold, horizon, first)
            weight = number if average == "weighted" else float(number > 0 or average == "all")
            total += weight * value(found, number) if number else 0.0
            weights += weight
    anything = any(cut(case, horizon, first)[1] for case in dataset)
    return total / weights if anything else math.nan
