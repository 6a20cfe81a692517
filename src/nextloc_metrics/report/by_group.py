"""The rows of a table of groups: each group, or of many the medians and the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nextloc_metrics.core.base.results import MOST_ROWS, Results, read_results
from nextloc_metrics.core.display.reading import Reading, plural
from nextloc_metrics.report.evaluation_metrics import ClusteredGroups

_WORST = 10


def rows_of_groups(
    collection: Any, groups: Sequence[str], confidence_level: float
) -> tuple[dict[str, dict[str, Reading]], list[str]]:
    """Return the values of groups by their names, and notes.

    Of more than a hundred groups they are the medians, and the ten worst by the first metric; of
    equally bad ones those with the most queries.
    """
    results: Results = collection.results(confidence_level)
    members = {x: one for x, one in collection.named_members() if x in results.numbers}
    if len(groups) <= MOST_ROWS:
        return {name: _row(members, results, i) for i, name in enumerate(groups)}, []
    name, first = next(iter(members.items()))
    kinds = plural(first._groups.by)
    title, worst = _worst(members, results)
    medians = read_results(collection, results, keep_base=False, by_group=False)
    rows = {medians[name].note: medians}
    rows |= {groups[i]: _row(members, results, i) for i in worst}
    return rows, [
        f"below the medians: {title}; of equal ones, those with more queries",
        f"each of the {len(groups):,} {kinds}: --group-table FILE",
    ]


def queries_of_deciles(collection: Any) -> dict[str, int]:
    """Return the number of queries by the decile of their target, as names of metrics have it."""
    members = {
        name.rpartition("_decile_")[2]: one
        for name, one in collection.named_members()
        if name.startswith("ndcg_at_")
    }
    first = next(iter(members.values()))
    if first._groups:
        return {x: int(one._numbers()[0].sum()) for x, one in members.items()}
    return dict(zip(members, first.num_queries.tolist(), strict=True))


def _row(members: dict[str, Any], results: Results, i: int) -> dict[str, Reading]:
    """Return the values of one group."""
    found = {}
    for name, one in members.items():
        ends = results.intervals.get(name)
        found[name] = Reading(
            float(results.values[name][i]),
            None if ends is None else (float(ends[0][i]), float(ends[1][i])),
            one.plot_upper_bound == 1,
            number=int(results.numbers[name][i]),
            unit=one.unit,
        )
    return found


def _worst(members: Mapping[str, Any], results: Results) -> tuple[str, list[int]]:
    """Return the groups with the worst values of the first metric, and what to call them.

    Of equal ones, those with more queries are first.
    """
    name, first = next(iter(members.items()))
    values, rises = results.values[name], first.higher_is_better is not False
    by_number = results.numbers[name].argsort(descending=True, stable=True)
    by_number = by_number[~values[by_number].isnan()]
    order = values[by_number].argsort(descending=not rises, stable=True)[:_WORST]
    ends = "lowest" if rises else "highest"
    title = f"the {len(order)} {plural(first._groups.by)} with the {ends} {name}"
    return title, [int(i) for i in by_number[order]]


def clusters_of(collection: Any, groups: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return how many clusters, such as users, each group has; none where groups are clusters."""
    (_, first), *_ = collection.named_members()
    if not isinstance(first, ClusteredGroups):
        return {}
    return {
        plural(first.sampled_by): dict(zip(groups, first.clusters_by_group.tolist(), strict=True))
    }
