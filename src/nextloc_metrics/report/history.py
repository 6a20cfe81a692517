"""A history of visits: its counts as models beside others, and the limits of its users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from nextloc_metrics.analysis import Predictability, VisitCounts, predictability
from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.table import Table, of_readings
from nextloc_metrics.core.means import intervals
from nextloc_metrics.core.queries.arrays import Array, as_tensor
from nextloc_metrics.core.queries.batch import ArrayRows
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.report.evaluation_counts import Counted
from nextloc_metrics.report.parts import BASELINE, CEILING, CEILING_OF_BASELINE
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


@dataclass(frozen=True, repr=False)
class Ceiling:
    """Acc@1 of a model between the floor and the ceiling; see `history` of `evaluate`.

    All rows are means over the same users: those with enough visits in `history`, and a query.

    Attributes:
        limits: the limits of all users of `history`; those not in the means are flagged.
        rows: chance, the most frequent location, the model, the limit of shuffled visits, and the
            limit, with their intervals.
        confidence_level: the confidence level of the intervals.
    """

    limits: Predictability
    rows: dict[str, Reading]
    confidence_level: float

    @property
    def share(self) -> float:
        """The share of the way from the baseline to the limit; chance without a baseline."""
        return self._share("limit")

    @property
    def table(self) -> Table:
        """The rows with notes on the users and on the share."""
        notes = ["no limit: no user has enough visits and a query"]
        if users := int((~self.limits.few_visits).sum()):
            notes = [
                f"mean over {users:,} users; {int(self.limits.few_visits.sum()):,} users left out",
                f"way from the baseline to the limit: {100 * self.share:.0f} %; to the limit of "
                f"shuffled visits: {100 * self._share('limit of shuffled visits'):.0f} %",
                "limits of short histories are too high; shuffled visits have nothing to learn but "
                "their shares",
            ]
        return of_readings({"acc_at_1": self.rows}, self.confidence_level, notes)

    def __repr__(self) -> str:
        return str(self.table)

    def _share(self, limit: str) -> float:
        floor = self.rows.get("most frequent", self.rows.get("chance"))
        floor_value = 0.0 if floor is None else floor.value
        return (self.rows["model"].value - floor_value) / (self.rows[limit].value - floor_value)


def ceiling_of(counted: Counted) -> Ceiling:
    """Return the rows, of counts with a part `ceiling`. Users without a query are flagged."""
    limits, setting = counted.data.limits, counted.setting
    assert limits is not None  # of which that part is
    parts = {BASELINE: counted.parts.get(CEILING_OF_BASELINE), "model": counted.parts[CEILING]}
    by_user: dict[str, Any] = {
        name: part["acc_at_1"] for name, part in parts.items() if part is not None
    }
    names = counted.labels[setting.by_user].names
    has_query = {name for name, n in zip(names, by_user["model"]._numbers()[0], strict=True) if n}
    users = list(map(str, limits.users))
    few_visits = limits.few_visits | torch.tensor([user not in has_query for user in users])
    limits = replace(limits, few_visits=few_visits)
    kept = {user for user, few in zip(users, few_visits.tolist(), strict=True) if not few}
    is_kept = torch.tensor([name in kept for name in names])
    rows = {}
    if not setting.chance_varies and setting.candidates is not None:
        rows["chance"] = Reading(1 / setting.candidates, None, True)
    for name, metric in by_user.items():
        mean = intervals.of_groups(metric.state * is_kept[:, None])
        low, high = mean.interval(setting.confidence_level)
        rows[name] = Reading(float(mean.mean), (float(low), float(high)), True)
    means = limits.means(setting.confidence_level)
    for name, of_users in {"limit of shuffled visits": "shuffled", "limit": "limit"}.items():
        value, *bounds = means[of_users]
        rows[name] = Reading(value, (bounds[0], bounds[1]), True)
    return Ceiling(limits, rows, setting.confidence_level)
