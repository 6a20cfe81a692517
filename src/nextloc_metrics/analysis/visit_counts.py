"""A baseline that knows the person: visits counted by person, and by person and last location."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.base.ranking_metric import LARGEST_STATE
from nextloc_metrics.core.queries.arrays import Array, as_tensor, as_tensor_or_text, begins
from nextloc_metrics.core.queries.checks import check_positive, is_integer
from nextloc_metrics.core.queries.messages import describe
from nextloc_metrics.metrics.visits import read_check_ins


class VisitCounts:
    """Score locations by the person's own visits: the baseline of a table of models.

    `scores(users)` ranks the locations by the person's visits. `scores(users, last=last)` is a
    Markov chain of the person: it ranks by the visits that came directly after one to `last`, and
    the person's visits break ties. Ties that remain are broken by everybody's visits, which also
    rank all locations for somebody without a visit. Locations that are equal in all are tied.

    Args:
        visits: the location of each visit, integers `[V]`; each person's in the order of time.
        users: the person of each visit, integers or text `[V]`.
        num_locations: C, the number of candidates; `visits` are below it.

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

    def __init__(self, visits: Array, users: Array, *, num_locations: int) -> None:
        size = self.num_locations = check_positive("num_locations", num_locations, LARGEST_STATE)
        names, locations = read_check_ins(users, visits, ("users", "visits"))
        if not len(locations):
            raise ValueError("`visits` must hold at least one visit, got none.")
        _check_below("visits", locations, size)
        distinct, person = np.unique(names, return_inverse=True)
        self._numbers = {str(name): number for number, name in enumerate(distinct.tolist())}
        order = np.argsort(person, kind="stable")
        person = person[order]
        self._base = np.unique(np.bincount(locations, minlength=size), return_inverse=True)[1]
        # a pair is a person and a location; the last person stands for all without a visit
        pairs = person * size + locations[order]
        self._pairs, slot, number = np.unique(pairs, return_inverse=True, return_counts=True)
        owner, self._places = np.divmod(self._pairs, size)
        self._starts = np.searchsorted(owner, np.arange(len(distinct) + 2))
        self._personal = self._base.max() + 1 + _ranks(owner, number, self._base[self._places])
        # a move is a pair and the pair before it
        moved = np.flatnonzero(~begins(person))
        moves = slot[moved - 1] * len(self._pairs) + slot[moved]
        moves, number = np.unique(moves, return_counts=True)
        origin, to = np.divmod(moves, len(self._pairs))
        self._origins, self._destinations = self._pairs[origin], self._places[to]
        self._moves = self._personal.max() + 1 + _ranks(origin, number, self._personal[to])

    def __repr__(self) -> str:
        return f"VisitCounts(num_locations={self.num_locations})"

    def scores(self, users: Array, last: Array | None = None) -> Tensor:
        """Return scores of all locations, float64 `[N, C]`: small integers.

        Args:
            users: the person of each query `[N]`, integers or text.
            last: the location before each query, integers `[N]`; -1 for none. Without it, moves do
                not matter.

        Raises:
            TypeError: an argument has another type.
            ValueError: lengths differ, or an id is out of range.
        """
        person = self._read_users(users)
        scores = np.tile(self._base.astype(np.float64), (len(person), 1))
        row, pair = _expand(self._starts[person], self._starts[person + 1])
        scores[row, self._places[pair]] = self._personal[pair]
        if last is not None:
            ids = as_tensor("last", last).cpu()
            if ids.shape != person.shape or not is_integer(ids):
                raise ValueError(
                    f"`last` must be one location for each of the {len(person)} queries, integers, "
                    f"got {describe(ids)}."
                )
            previous = ids.numpy().astype(np.int64)
            _check_below("last", previous, self.num_locations, least=-1)
            origin = np.where(previous < 0, -1, person * self.num_locations + previous)
            ends = [np.searchsorted(self._origins, origin, side) for side in ("left", "right")]
            row, move = _expand(*ends)
            scores[row, self._destinations[move]] = self._moves[move]
        return torch.from_numpy(scores)

    def _read_users(self, users: Array) -> Any:
        """Return the number of each person, or of persons for somebody without a visit."""
        read = as_tensor_or_text("users", users)
        if isinstance(read, Tensor) and (read.ndim != 1 or not is_integer(read)):
            raise TypeError(f"`users` must be one row of integers or text, got {describe(read)}.")
        array = read.cpu().numpy() if isinstance(read, Tensor) else np.asarray(read, object)
        names, inverse = np.unique(array, return_inverse=True)
        numbers = [self._numbers.get(str(name), len(self._numbers)) for name in names.tolist()]
        return np.array(numbers, np.int64)[inverse]


def _expand(starts: Any, ends: Any) -> tuple[Any, Any]:
    """Return the elements of the ranges from `starts` to `ends`, and the ranges' numbers before."""
    sizes = ends - starts
    row = np.repeat(np.arange(len(sizes)), sizes)
    return row, np.arange(len(row)) + (ends - np.cumsum(sizes))[row]


def _ranks(row: Any, *keys: Any) -> Any:
    """Return the rank, from 0, of each element in its row by the keys; ties share a rank."""
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
