"""Every measure in plain loops, of trajectories that are lists of points without padding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

RADIUS = 6371.0088


def haversine(first: Sequence[float], other: Sequence[float]) -> float:
    """The great-circle distance between (latitude, longitude) in degrees, km."""
    (a, b), (c, d) = (map(math.radians, point) for point in (first, other))
    inside = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * RADIUS * math.asin(math.sqrt(inside))


def euclid(first: Sequence[float], other: Sequence[float]) -> float:
    """The distance on a plane."""
    return math.hypot(first[0] - other[0], first[1] - other[1])


def jumps(rows: Sequence[Any], far: Any) -> list[float]:
    """The distances between successive points."""
    return [far(a, b) for row in rows for a, b in pairwise(row)]


def travelled(rows: Sequence[Any], far: Any) -> list[float]:
    """The sum of each row's jumps."""
    return [sum(jumps([row], far)) for row in rows]


def radius_on_plane(rows: Sequence[Any]) -> list[float]:
    """The root mean square distance from the mean point."""
    found = []
    for row in rows:
        centre = [sum(point[i] for point in row) / len(row) for i in (0, 1)]
        found.append(math.sqrt(sum(euclid(point, centre) ** 2 for point in row) / len(row)))
    return found


def radius_on_sphere(rows: Sequence[Any]) -> list[float]:
    """The same, with the centre of the points in three dimensions."""
    found = []
    for row in rows:
        total = [0.0, 0.0, 0.0]
        for latitude, longitude in row:
            north, east = math.radians(latitude), math.radians(longitude)
            total[0] += math.cos(north) * math.cos(east)
            total[1] += math.cos(north) * math.sin(east)
            total[2] += math.sin(north)
        flat = math.hypot(total[0], total[1])
        centre = (
            math.degrees(math.atan2(total[2], flat)),
            math.degrees(math.atan2(total[1], total[0])),
        )
        found.append(math.sqrt(sum(haversine(point, centre) ** 2 for point in row) / len(row)))
    return found


def stays(
    rows: Sequence[Any], times: Sequence[Any], ends: Sequence[float], count_last: bool
) -> list[float]:
    """How long each row stays at one place; the last stay ends at the row's end."""
    found = []
    for row, moments, end in zip(rows, times, ends, strict=True):
        start = 0
        for i in range(1, len(row)):
            if row[i] != row[i - 1]:
                found.append(moments[i] - moments[start])
                start = i
        if count_last:
            found.append(end - moments[start])
    return found


def daily(rows: Sequence[Any], hours: Sequence[Any] | None = None) -> list[int]:
    """The number of different places of each row and day."""
    found = []
    for number, row in enumerate(rows):
        by_day: dict[int, set[Any]] = {}
        for i, place in enumerate(row):
            day = 0 if hours is None else math.floor(hours[number][i] / 24)
            by_day.setdefault(day, set()).add(place)
        found += [len(places) for _, places in sorted(by_day.items())]
    return found


def cut(curve: Sequence[float], ranks: int) -> list[float]:
    """The first ranks of a falling curve, and the sum of the rest."""
    padded = [*curve, *[0.0] * ranks]
    return [*padded[:ranks], sum(curve[ranks:])]


def visits(rows: Sequence[Any], ranks: int) -> list[float]:
    """The shares of the most visited places."""
    counts = Counter(place for row in rows for place in row)
    total = sum(counts.values())
    return cut([number / total for _, number in counts.most_common()], ranks)


def user_visits(rows: Sequence[Any], ranks: int) -> list[float]:
    """The mean over rows of the shares of their most visited places."""
    curves = [visits([row], ranks) for row in rows]
    return [sum(column) / len(curves) for column in zip(*curves, strict=True)]


def common_part(first: Sequence[Any], other: Sequence[Any], itself: bool) -> float:
    """Twice the common moves, of shares, over the sum of both."""
    shares = []
    for rows in (first, other):
        moves = Counter((a, b) for row in rows for a, b in pairwise(row) if itself or a != b)
        shares.append({move: n / sum(moves.values()) for move, n in moves.items()})
    a, b = shares
    return 2 * sum(min(a[x], b[x]) for x in a.keys() & b.keys()) / 2
