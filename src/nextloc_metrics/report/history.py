"""A history of visits: the limits of its users, and its counts as models beside others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from nextloc_metrics.analysis import Predictability, VisitCounts, predictability
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.batch import ArrayRows
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.report.setting import count_locations

#: The locations, users and maybe times of all visits; or their counts, or the limits of users.
History: TypeAlias = tuple[Array, Array] | tuple[Array, Array, Array] | VisitCounts | Predictability


def limits_of(history: History) -> Predictability:
    """Return the limits of users; of visits they are computed, which takes seconds."""
    if isinstance(history, Predictability):
        return history
    return predictability(*_counts_of(history, None)._history())


def _counts_of(history: Any, size: int | None) -> VisitCounts:
    """Return counts of at least so many locations; None is as many as there are visits to."""
    if isinstance(history, VisitCounts):
        return history
    if not isinstance(history, (tuple, list)) or len(history) not in (2, 3):
        raise TypeError(
            "`history` must be (visits, users), (visits, users, times), `analysis.VisitCounts` or "
            f"`analysis.predictability(...)`, got {describe(history)}."
        )
    visits, users, *times = history
    ids = as_tensor("visits", visits)
    size = int(ids.max()) + 1 if size is None and ids.numel() else size or 1
    return VisitCounts(ids, users, *times, num_locations=size)


@dataclass
class _Scores:
    """Scores of all queries, each row computed when it is read."""

    counts: VisitCounts
    queries: Any

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.queries[0]), self.counts.num_locations

    def __getitem__(self, rows: slice) -> Tensor:
        person, when, last = self.queries
        return self.counts._score((person[rows], None if when is None else when[rows], last[rows]))


def rows_of(
    history: Any,
    rows: ArrayRows,
    by: str,
    num_locations: int | None,
    times: Array | None,
    last: Array | None,
) -> dict[str, ArrayRows]:
    """Return the rows of a model with scores by counts of visits in place of its own, by name.

    Counts at the hour need `times`, a Markov chain `last`; counts with other options, such as those
    of `fit`, are one more model.
    """
    if by not in rows.kinds:
        raise ValueError(
            f"`groups` must have the key {by!r} with the users of `history`, got "
            f"{short(list(rows.kinds))}."
        )
    size = rows.num_candidates
    if size is None and not isinstance(history, VisitCounts):
        visited = as_tensor("visits", history[0])
        known = [count_locations(rows, num_locations, None) or int(rows.target.max()) + 1]
        size = max([*known, *([int(visited.max()) + 1] if visited.numel() else [])])
    counts = _counts_of(history, size)
    if size is not None and counts.num_locations != size:
        raise ValueError(
            f"`history` must count visits to the {size} candidates, got {counts.num_locations}."
        )
    plain, users = counts._unfitted(), rows.kinds[by]
    names = np.array(users.labels.names, object)[users.numbers.cpu().numpy()]
    when, moved, every = (
        counts._read_queries(names, *given)
        for given in ((times, None), (None, last), (times, last))
    )
    found = {"most visited of the user": (plain, counts._read_queries(names, None, None))}
    found |= {"at this hour": (plain, when)} if times is not None else {}
    found |= {"Markov": (plain, moved)} if last is not None else {}
    found |= {"fitted counts": (counts, every)} if repr(counts) != repr(plain) else {}
    return {name: replace(rows, preds=_Scores(*one)) for name, one in found.items()}
