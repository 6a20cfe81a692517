"""A baseline that knows the person: visits counted by person, hour, recency and last location."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.metric.ranking_metric import LARGEST_STATE
from nextloc_metrics.core.queries.arrays import Array, as_tensor, as_tensor_or_text, begins
from nextloc_metrics.core.queries.checks import check_positive, is_integer
from nextloc_metrics.core.queries.messages import describe
from nextloc_metrics.metrics.visits import read_check_ins

# What a visit counts, and each factor at most: integers, so that sums are exact.
_ONE = 1 << 14

# Pairs of a query and a location that are weighed at once.
_PAIRS = 1 << 20

# Times matter by their hour in a week, which begins on a Monday; 1970 began on a Thursday.
_HOUR, _WEEK, _THURSDAY, _SATURDAY = 3600, 168, 72, 5

# What `fit` tries, the plain value first.
_TRIED: dict[str, tuple[Any, ...]] = {
    "moves": (0, 1, 3, 10, math.inf),
    "hours": (math.inf, 4.0, 2.0, 1.0, 0.5),
    "weekday": (1.0, 0.5, 0.25),
    "half_life": (math.inf, 200.0, 50.0, 20.0, 10.0),
    "all_moves": (False, True),
}


class VisitCounts:
    r"""Score locations by the person's own visits: the baseline of a table of counts.

    A visit of the person counts $2^{-d / \text{hours}} \cdot \text{weekday}^w \cdot
    2^{-a / \text{half\_life}}$: d is the distance of the hours of the day, from 0 to 12; w is 0 for
    the same weekday, 1 for another one of the same kind (Monday to Friday, or the weekend), else 2;
    a is the number of the person's later visits. A visit that came directly after one to `last` is
    a move from there; it counts `moves` times in addition.

    Locations are ordered by these sums, the moves first if `moves` is infinite. Only exact ties are
    broken: by the person's plain counts, then by everybody's moves from `last` if `all_moves`, then
    by everybody's counts. What is equal in all of them is tied. So `scores(users)` are the person's
    counts, `scores(users, last=last)` a Markov chain of the person, and `scores(users, times)` the
    counts at this hour. Of somebody without a visit, everybody's are left.

    Each factor is rounded to 2^-14, so sums are exact and ties do not depend on the order of
    visits.

    Args:
        visits: the location of each visit, integers `[V]`; each person's in the order of time if
            there are no `times`.
        users: the person of each visit, integers or text `[V]`.
        times: the local time of each visit `[V]`, as datetime64 or in whole seconds since 1970.
        num_locations: C, the number of candidates; `visits` are below it.

    Attributes:
        hours: the distance of hours at which a visit counts half; `inf` for no difference.
        weekday: from 0 to 1, the factor of another weekday.
        half_life: the number of later visits after which a visit counts half; or `inf`.
        moves: an integer from 0 to 1,000, or `inf`.
        all_moves: whether everybody's moves break ties before everybody's visits.

    Raises:
        TypeError: an argument has another type.
        ValueError: there is no visit, an id is not below C, or lengths differ.

    Example:
        >>> visits, users = [0, 1, 0, 1, 2, 1], ["ann"] * 5 + ["bob"]
        >>> counts = VisitCounts(visits, users, num_locations=4)
        >>> counts.scores(["ann", "bob"]).argsort(descending=True)
        tensor([[1, 0, 2, 3],
                [1, 0, 2, 3]])
        >>> counts.scores(["ann"], last=[1]).argsort(descending=True)  # she went to 0 and to 2
        tensor([[0, 2, 1, 3]])

    Ann was at 0 and 1 twice, and everybody's visits, 2 and 3, break the tie.

    Source: of the Markov chain, S. Gambs, M.-O. Killijian and M. N. del Prado Cortez, "Next place
    prediction using mobility Markov chains", MPM 2012.
    """

    hours: float = 1.0
    weekday: float = 1.0
    half_life: float = math.inf
    moves: float = math.inf
    all_moves: bool = False

    def __init__(
        self, visits: Array, users: Array, times: Array | None = None, *, num_locations: int
    ) -> None:
        size = self.num_locations = check_positive("num_locations", num_locations, LARGEST_STATE)
        names, locations = read_check_ins(users, visits, ("users", "visits"))
        if not len(locations):
            raise ValueError("`visits` must hold at least one visit, got none.")
        _check_below("visits", locations, size)
        when = None if times is None else _read_times(times, len(locations))
        distinct, person = np.unique(names, return_inverse=True)
        self._numbers = {str(name): number for number, name in enumerate(distinct.tolist())}
        order = np.lexsort((person,) if when is None else (when, person))  # stable
        self._person, self._location = person[order], locations[order]
        self._when = None if when is None else when[order]
        # the last person is somebody without a visit
        self._sizes = np.bincount(person, minlength=len(distinct) + 1)
        self._ages = np.cumsum(self._sizes)[self._person] - 1 - np.arange(len(order))
        before = np.append(-1, self._location[:-1])
        self._before = np.where(begins(self._person), -1, before)
        self._hour = _hour_of_week(self._when, len(order))
        self._count_all()

    def _count_all(self) -> None:
        """Count what no query changes: a person's visits to each location, and everybody's."""
        size = self.num_locations
        pairs, slots, self._plain = np.unique(
            self._person * size + self._location, return_inverse=True, return_counts=True
        )
        self._places = pairs % size
        self._num_places = np.bincount(pairs // size, minlength=len(self._sizes))
        self._pairs = slots
        counts = np.bincount(self._location, minlength=size)
        self._base = np.unique(counts, return_inverse=True)[1]
        moved = self._before >= 0
        self._moves, number = np.unique(
            self._before[moved] * size + self._location[moved], return_counts=True
        )
        keys = (number, self._base[self._moves % size])
        self._moves_base = self._base.max() + 1 + _ranks(self._moves // size, keys)
        self._own = self._moves_base.max(initial=self._base.max()) + 1
        # moves of a person from one location to another in one hour of the week
        wide = self._person * size + self._before, self._pairs * _WEEK + self._hour
        self._order = np.flatnonzero(moved)[np.lexsort([x[moved] for x in reversed(wide)])]
        origin, cell = (x[self._order] for x in wide)
        first = begins(origin, cell)
        self._cell = np.cumsum(first) - 1
        self._origins, self._cells = origin[first], cell[first]

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={getattr(self, name)}" for name in _TRIED)
        return f"VisitCounts(num_locations={self.num_locations}, {options})"

    def scores(self, users: Array, times: Array | None = None, last: Array | None = None) -> Tensor:
        """Return scores of all locations, float64 `[N, C]`: small integers, ranks from the last.

        Args:
            users: the person of each query `[N]`, integers or text.
            times: the local time of each query, as for the visits. Without it, hours and weekdays
                do not matter.
            last: the location before each query, integers `[N]`; -1 for none. Without it, moves do
                not matter.

        Raises:
            TypeError: an argument has another type.
            ValueError: lengths differ, an id is out of range, or the visits have no times.
        """
        return self._score(self._read_queries(users, times, last))

    def _score(self, queries: _Queries) -> Tensor:
        size, previous = self.num_locations, queries[2]
        found = np.tile(self._base.astype(np.float64), (len(previous), 1))
        if self.all_moves:
            first, end = (np.searchsorted(self._moves, (previous + i) * size) for i in (0, 1))
            row, move = _expand(first, end - first)
            found[row, self._moves[move] % size] = self._moves_base[move]
        for rows, row, place, keys in self._weigh(*queries):
            found[rows[row], place] = self._own + _ranks(row, keys)
        return torch.from_numpy(found)

    def fit(self) -> VisitCounts:
        """Choose the options by Acc@1 on each person's last quarter, and return this object.

        The last n // 4 of the n visits of a person are predicted from the earlier visits, with the
        hour, the weekday and the location before each. One option at a time takes the value that
        makes most predictions right, until no change helps; plain counts are the start, and stay
        unless others are better. Targets of an evaluation are not read, and nothing is random.

        Raises:
            ValueError: nobody has four visits.
        """
        late = self._ages < (self._sizes // 4)[self._person]
        if not late.any():
            raise ValueError("`visits` must hold 4 visits of one person, got fewer of everybody.")
        when, size = self._when, self.num_locations
        early = None if when is None else when[~late]
        part = VisitCounts(self._location[~late], self._person[~late], early, num_locations=size)
        for name, values in _TRIED.items():
            setattr(part, name, values[0])
        hours = None if when is None else when[late]
        queries = (self._person[late], hours, self._before[late])
        best, improved = part._count_hits(queries, self._location[late]), True
        while improved:
            improved = False
            for name, values in _TRIED.items():
                chosen = getattr(part, name)
                for value in [x for x in values if x != chosen]:
                    setattr(part, name, value)
                    if (hits := part._count_hits(queries, self._location[late])) > best:
                        best, chosen, improved = hits, value, True
                setattr(part, name, chosen)
        for name in _TRIED:
            setattr(self, name, getattr(part, name))
        return self

    def _unfitted(self) -> VisitCounts:
        """Return the same visits with the options as they are without `fit`."""
        found = copy(self)
        for name in _TRIED:
            setattr(found, name, getattr(VisitCounts, name))
        return found

    def _history(self) -> tuple[Any, Any]:
        """Return locations and users of the visits in the order of users and time."""
        return self._location, np.array(list(self._numbers), object)[self._person]

    def _read_queries(self, users: Array, times: Array | None, last: Array | None) -> _Queries:
        """Return numbers of persons, times and last locations; -1 and -2 for nobody and none."""
        read = as_tensor_or_text("users", users)
        if isinstance(read, Tensor) and (read.ndim != 1 or not is_integer(read)):
            raise TypeError(f"`users` must be one row of integers or text, got {describe(read)}.")
        array = read.cpu().numpy() if isinstance(read, Tensor) else np.asarray(read, object)
        names, inverse = np.unique(array, return_inverse=True)
        numbers = [self._numbers.get(str(name), -1) for name in names.tolist()]
        person = np.array(numbers, np.int64)[inverse]
        previous = np.full(len(person), -2)
        if last is not None:
            ids = as_tensor("last", last).cpu()
            if ids.shape != (len(person),) or not is_integer(ids):
                raise ValueError(
                    f"`last` must be one location for each of the {len(person)} queries, integers, "
                    f"got {describe(ids)}."
                )
            found = ids.numpy().astype(np.int64)
            _check_below("last", found, self.num_locations, least=-1)
            previous = np.where(found < 0, -2, found)
        if times is None:
            return person, None, previous
        if self._when is None:
            raise ValueError(
                "`times` of queries need those of the visits, `VisitCounts(times=...)`."
            )
        return person, _read_times(times, len(person)), previous

    def _weigh(
        self, person: Any, when: Any, previous: Any
    ) -> Iterator[tuple[Any, Any, Any, list[Any]]]:
        """Yield for parts of the queries each pair of a query and a location of the person.

        A part has the numbers of its queries; for each pair the row in it, the location, and the
        keys that order locations: moves, counts and what breaks their ties.
        """
        recent = np.array([_weight(age / self.half_life) for age in range(self._sizes.max())])
        weights = recent[self._ages].astype(np.float64)  # exact, also of sums
        known = np.bincount(self._pairs * _WEEK + self._hour, weights, len(self._places) * _WEEK)
        known = known.reshape(-1, _WEEK)
        moves = np.bincount(self._cell, weights[self._order], len(self._cells))
        close = np.ones((_WEEK, _WEEK)) if when is None else self._closeness()
        hour, starts = _hour_of_week(when, len(person)), _starts(self._num_places)
        order = np.argsort(person, kind="stable")
        for part in _parts(self._num_places[person[order]]):
            rows = order[part]
            owner, last, then = person[rows], previous[rows], hour[rows]
            row, pair = _expand(starts[owner], self._num_places[owner])
            first = np.flatnonzero(begins(owner))
            sums = [
                close[then[i:j]] @ known[start : start + size].T
                for i, j, start, size in zip(
                    first,
                    np.append(first[1:], len(rows)),
                    starts[owner[first]],
                    self._num_places[owner[first]],
                    strict=True,
                )
            ]
            counted = np.concatenate([x.ravel() for x in sums]).astype(np.int64)
            moved = np.zeros_like(counted)
            if self.moves:
                origin = owner * self.num_locations + last
                ends = [np.searchsorted(self._origins, origin, side) for side in ("left", "right")]
                begin, end = (np.where(last < 0, 0, x) for x in ends)
                mover, cell = _expand(begin, end - begin)
                to, hour_of_move = np.divmod(self._cells[cell], _WEEK)
                at = _starts(self._num_places[owner])[mover] + to - starts[owner][mover]
                weight = moves[cell] * close[then[mover], hour_of_move]
                np.add.at(moved, at, weight.astype(np.int64))
            keys = [moved, counted] if self.moves == math.inf else [counted + self.moves * moved]
            location = self._places[pair]
            keys += [self._plain[pair], self._base_of(last[row], location)]
            yield rows, row, location, keys

    def _closeness(self) -> Any:
        """Return the weight of each hour of the week for each other one."""
        hours, days = np.arange(_WEEK) % 24, np.arange(_WEEK) // 24
        apart = np.abs(hours[:, None] - hours)
        kinds = (days >= _SATURDAY)[:, None] != (days >= _SATURDAY)
        table = [[_weight(d / self.hours, self.weekday**w) for w in range(3)] for d in range(13)]
        other = (days[:, None] != days).astype(np.int64) + kinds
        return np.array(table, np.float64)[np.minimum(apart, 24 - apart), other]

    def _base_of(self, last: Any, location: Any) -> Any:
        """Return the order of locations by everybody's moves, if they count, and visits."""
        if not self.all_moves or not len(self._moves):
            return self._base[location]
        pairs = last * self.num_locations + location
        at = np.searchsorted(self._moves, pairs).clip(max=len(self._moves) - 1)
        return np.where(self._moves[at] == pairs, self._moves_base[at], self._base[location])

    def _count_hits(self, queries: _Queries, target: Any) -> float:
        """Return the expected number of queries whose target is first; each has own visits."""
        shares: list[float] = []
        for rows, row, location, keys in self._weigh(*queries):
            for key in keys:  # keep the pairs whose key is highest in their row
                begin = np.flatnonzero(begins(row))
                highest = np.maximum.reduceat(key, begin)
                kept = key == np.repeat(highest, np.diff(begin, append=len(row)))
                row, location, keys[:] = row[kept], location[kept], [x[kept] for x in keys]
            hit = row[location == target[rows][row]]
            shares += (1 / np.bincount(row)[hit]).tolist()
        return math.fsum(shares)


_Queries: TypeAlias = tuple[Any, Any, Any]


def _weight(halvings: float, factor: float = 1.0) -> int:
    weight: int = round(_ONE * factor * 2.0**-halvings)
    return weight


def _hour_of_week(when: Any, number: int) -> Any:
    """Return the hour of each time, from 0 to 167; 0 without times."""
    return np.zeros(number, np.int64) if when is None else (when // _HOUR + _THURSDAY) % _WEEK


def _starts(sizes: Any) -> Any:
    return np.cumsum(sizes) - sizes


def _expand(starts: Any, sizes: Any) -> tuple[Any, Any]:
    """Return for ranges that begin at `starts` the number of the range, and each element."""
    row = np.repeat(np.arange(len(sizes)), sizes)
    return row, np.arange(len(row)) + (starts - _starts(sizes))[row]


def _parts(sizes: Any) -> Iterator[slice]:
    """Yield slices of rows that have about `_PAIRS` elements together."""
    first = np.flatnonzero(begins(np.cumsum(sizes) // _PAIRS))
    for start, end in zip(first, np.append(first, len(sizes))[1:], strict=True):
        yield slice(start, end)


def _ranks(row: Any, keys: Sequence[Any]) -> Any:
    """Return the rank from 0 of each element in its sorted row, by the keys; ties share one."""
    order = np.lexsort((*reversed(keys), row))
    number = np.cumsum(begins(*(key[order] for key in (row, *keys))))
    first = begins(row[order])
    ranks = np.empty(len(row), np.int64)
    ranks[order] = number - number[first][np.cumsum(first) - 1]
    return ranks


def _check_below(name: str, ids: Any, size: int, least: int = 0) -> None:
    wrong = ids[(ids < least) | (ids >= size)]
    if len(wrong):
        below = f"be below `num_locations`, {size}" + (", or -1" if least < 0 else "")
        raise ValueError(f"`{name}` must {below}, got {int(wrong[0])}.")


def _read_times(times: Any, number: int) -> Any:
    """Return local times as whole seconds since 1970."""
    values = times.cpu() if isinstance(times, Tensor) else times
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if array.shape != (number,):
        raise ValueError(
            f"`times` must be one row with a time for each of the {number} users, got "
            f"{describe(times)}."
        )
    if array.dtype.kind not in "Miu" or (array.dtype.kind == "M" and np.isnat(array).any()):
        raise TypeError(
            "`times` must be datetime64 without a time zone or NaT, or whole seconds since 1970, "
            f'got {describe(array)}; use `np.array(times, "datetime64[s]")`.'
        )
    return array.astype("datetime64[s]").astype(np.int64)
