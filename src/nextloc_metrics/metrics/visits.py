"""Exploration and return, moving and staying: groups of queries that explain an accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.core.base.annotated_options import describe_option
from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.grouped import Grouped
from nextloc_metrics.core.base.ranking_metric import LowestIds, RankingMetric
from nextloc_metrics.core.queries.arrays import Array, as_tensor, as_tensor_or_text
from nextloc_metrics.core.queries.checks import (
    check_from_zero,
    check_kind,
    check_separator,
    cut_offs,
    is_integer,
)
from nextloc_metrics.core.queries.messages import describe
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.metrics.at_k import AccuracyAtK

#: the numbers of the groups that `previously_visited` makes, for False and True
EXPLORATION, RETURN = 0, 1


class Visits:
    """The locations that each user has visited, and the first check-in at each.

    Args:
        user: the user of each check-in, integers or text `[N]`, in the order of time.
        location: the location of each check-in, integers `[N]`.

    Example:
        >>> visits = Visits(["ann", "ann", "bob", "ann"], [5, 6, 5, 5])
        >>> visits.before([1, 3, 3], [5, 6, 7])  # by check-ins 1, 3 and 3
        tensor([ True,  True, False])
    """

    def __init__(self, user: Array, location: Array) -> None:
        users, locations = read_check_ins(user, location)
        self._user, pairs, self._width = _pairs(users, locations)
        # the distinct pairs of user and location, and the first check-in of each pair
        self._pairs, self._first = np.unique(pairs, return_index=True)

    def before(self, check_in: Array, location: Array) -> Tensor:
        """Return whether the user of a check-in visited a location before it, bool `[M]`.

        A check-in is a number from 0. Locations without a visit, and -1, give False.
        """
        rows = as_tensor("check_in", check_in).cpu().numpy()
        locations = as_tensor("location", location).cpu().numpy()
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            wrong = rows.min() if rows.min() < 0 else rows.max()
            raise ValueError(
                f"`check_in` must hold numbers of check-ins, 0 to {len(self) - 1}, got {wrong}."
            )
        if not len(self._pairs):
            return torch.zeros(rows.shape, dtype=torch.bool)
        wanted = self._user[rows] * self._width + locations
        index = np.searchsorted(self._pairs, wanted).clip(max=len(self._pairs) - 1)
        is_visited = (self._pairs[index] == wanted) & (locations >= 0) & (locations < self._width)
        return torch.from_numpy(np.asarray(is_visited & (self._first[index] < rows)))

    def state_key(self) -> str:
        """Return the content as text, for the names of states."""
        return describe_option([self._user, self._pairs, self._first])

    def __len__(self) -> int:
        return len(self._user)

    def __repr__(self) -> str:
        return f"Visits({len(self)} check-ins)"


def previously_visited(
    user: Array, location: Array, history: tuple[Array, Array] | None = None
) -> Tensor:
    """Return which check-ins are returns, bool `[N]`: the user has visited the location before.

    Use the result as groups, `groups={"visited": previously_visited(user, location)}`. `user` and
    `location` are those of [`Visits`][nextloc_metrics.Visits]. Earlier visits are the check-ins
    before each one in the given order, or only those of `history`, users and locations, such as the
    training data.

    Example:
        >>> previously_visited(["ann", "bob", "ann", "bob"], [5, 5, 5, 6])
        tensor([False, False,  True, False])
        >>> previously_visited(["ann", "bob"], [5, 5], history=(["bob"], [5]))
        tensor([False,  True])
    """
    users, locations = read_check_ins(user, location)
    if history is None:
        return torch.from_numpy(_first_rows(users, locations) < np.arange(len(locations)))
    old_users, old_locations = read_check_ins(*history)
    if len(old_users) and len(users) and old_users.dtype.hasobject != users.dtype.hasobject:
        raise TypeError(
            "`user` and the users of `history` must both be integers or both be text, got "
            f"{describe(user)} and {describe(history[0])}."
        )
    both = np.concatenate([old_users, users])
    first = _first_rows(both, np.concatenate([old_locations, locations]))
    return torch.from_numpy(first[len(old_locations) :] < len(old_locations))


_check_visits = partial(check_kind, kind=Visits, call="`Visits(user, location)`")


class NewDecision(RankingMetric):
    r"""The share of queries whose decision is a new location: the user has not visited it before.

    The decision is the best candidate (if tied, the lowest id). A query without a decision, such as
    a row with a NaN, counts 0. `visits` are all check-ins; `update` needs the number of each
    query's check-in among them, as `groups={"check_in": ...}`.

    Example:
        >>> from torch import tensor
        >>> visits = Visits(["ann", "ann", "ann"], [0, 1, 2])
        >>> share = NewDecision(visits)
        >>> ranking = share.read(tensor([[1, 0], [2, 1]]), tensor([1, 2]))  # lists of ids
        >>> share.update(ranking.with_groups({"check_in": tensor([1, 2])}))  # 1 and 2 are new
        >>> share.compute()
        tensor(1.)
    """

    higher_is_better = None
    needs = Needs(top=1, groups=True)  # the best candidate is the decision

    visits: Annotated[Visits, _check_visits]
    _: KW_ONLY
    ties: LowestIds = "expected"

    def check(self, ranking: Ranking) -> None:
        super().check(ranking)
        self._is_new(ranking)

    def score(self, ranking: Ranking) -> Tensor:
        return self._is_new(ranking).double()

    def _is_new(self, ranking: Ranking) -> Tensor:
        rows = ranking.group_of("check_in").masked_fill(~ranking.counted, 0)
        is_visited = self.visits.before(rows, ranking.best).to(ranking.device)
        return (ranking.best >= 0) & ~is_visited


class GroupShare(RankingMetric):
    r"""The share of queries that are in a group: `group` of the groups `by`, a key of `groups`.

    Example:
        >>> from torch import tensor
        >>> share = GroupShare(group=1, by="visited")
        >>> ranking = share.read(tensor([[0], [1], [1]]), tensor([0, 1, 0]))
        >>> share.update(ranking.with_groups({"visited": tensor([True, False, False])}))
        >>> share.compute()
        tensor(0.3333)
    """

    higher_is_better = None
    needs = Needs(groups=True)

    group: Annotated[int, check_from_zero]
    by: str

    def check(self, ranking: Ranking) -> None:
        super().check(ranking)
        ranking.group_of(self.by)

    def score(self, ranking: Ranking) -> Tensor:
        return (ranking.group_of(self.by) == self.group).double()


def exploration_metrics(
    k: int | Sequence[int] = (1, 5, 10),
    visits: Visits | None = None,
    *,
    separator: str = "_at_",
    prefix: str | None = None,
    postfix: str | None = None,
    **kwargs: Any,
) -> RankingCollection:
    """Make a collection: accuracy on returns and on explorations, and the exploration share.

    A return is a visit to a location that the user has visited before, any other visit is an
    exploration. `update` needs `groups={"visited": previously_visited(user, location)}`. With
    `visits` it also needs `"check_in"`, the number of each query's check-in in `visits`.

    All check-ins, `visits`, add the share of decisions that are a new location: of queries with a
    new target (`new_on_explorations`) and of the others (`new_on_returns`).

    Example:
        >>> from torch import tensor
        >>> user, location = ["ann", "ann", "ann", "ann"], tensor([0, 1, 0, 2])
        >>> metrics = exploration_metrics(k=1, visits=Visits(user, location))
        >>> groups = {
        ...     "visited": previously_visited(user, location)[2:],  # a return, an exploration
        ...     "check_in": tensor([2, 3]),
        ... }
        >>> metrics.update(tensor([[0, 1], [1, 2]]), location[2:], groups=groups)  # lists of ids
        >>> for name, value in metrics.compute().items():
        ...     print(f"{name} {value:.1f}")
        exploration_share 0.5
        acc_on_returns_at_1 1.0
        acc_on_explorations_at_1 0.0
        new_on_explorations 0.0
        new_on_returns 0.0

    Source: A. Cuttone, S. Lehmann and M. C. Gonzalez, "Understanding predictability and exploration
    in human mobility", EPJ Data Science 7, 2018.
    """
    check_separator(separator)
    kinds = {"returns": RETURN, "explorations": EXPLORATION}

    def within(metric: RankingMetric, group: int) -> Grouped:
        return Grouped(metric, 2, group=group, by="visited", labels=["exploration", "return"])

    members: dict[str, Any] = {"exploration_share": GroupShare(EXPLORATION, "visited", **kwargs)}
    members |= {
        f"acc_on_{name}{separator}{cut}": within(AccuracyAtK(cut, **kwargs), group)
        for name, group in kinds.items()
        for cut in cut_offs(k)
    }
    if visits is not None:
        members |= {
            f"new_on_{name}": within(NewDecision(visits, **kwargs), group)
            for name, group in reversed(kinds.items())
        }
    return RankingCollection(members, prefix=prefix, postfix=postfix)


def read_check_ins(
    user: Array, location: Array, names: tuple[str, str] = ("user", "location")
) -> tuple[Any, Any]:
    """Read users, integers or text, and locations as arrays of one length, with these `names`."""
    user_name, location_name = names
    locations = as_tensor(location_name, location)
    if not is_integer(locations) or locations.ndim != 1:
        raise TypeError(
            f"`{location_name}` must be one row of integers, got {describe(locations)}."
        )
    if len(locations) and (lowest := int(locations.min())) < 0:
        raise ValueError(f"`{location_name}` must hold ids of at least 0, got {lowest}.")
    users = as_tensor_or_text(user_name, user)
    if isinstance(users, Tensor) and (users.ndim != 1 or not is_integer(users)):
        got = describe(users)
        raise TypeError(f"`{user_name}` must be one row of integers or text, got {got}.")
    if len(users) != len(locations):
        raise ValueError(
            f"`{user_name}` and `{location_name}` must have one entry per check-in, got "
            f"{len(users)} and {len(locations)}."
        )
    array = users.cpu().numpy() if isinstance(users, Tensor) else np.asarray(users, dtype=object)
    return array, locations.cpu().numpy().astype(np.int64)


def _pairs(users: Any, locations: Any) -> tuple[Any, Any, int]:
    """Return numbers of users and of pairs of user and location, and the user's factor in these."""
    numbers = np.unique(users, return_inverse=True)[1].reshape(-1)
    width = int(locations.max(initial=-1)) + 1
    return numbers, numbers * width + locations, width


def _first_rows(users: Any, locations: Any) -> Any:
    """Return, for each row, the first row with the same user and location."""
    pairs = _pairs(users, locations)[1]
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)]
