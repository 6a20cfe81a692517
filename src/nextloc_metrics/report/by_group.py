"""The rows of a table of groups: each group, or of many the medians and the worst."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from nextloc_metrics.core.display.reading import Reading, plural
from nextloc_metrics.core.metric.readings import MOST_ROWS, Results

_WORST = 10


def rows_of_groups(
    collection: Any, groups: Sequence[str], confidence_level: float
) -> tuple[dict[str, dict[str, Reading]], list[str]]:
    """Return the values of groups by their names, numbers in their order, and notes.

    Of more than a hundred groups they are the medians, and the ten worst by the first metric; of
    equally bad ones those with the most queries.
    """
    results: Results = collection.results(confidence_level)
    members = {x: one for x, one in collection.named_members() if x in results.numbers}
    if len(groups) <= MOST_ROWS:
        order = sorted(range(len(groups)), key=lambda i: _in_order(groups[i]))
        return {groups[i]: _row(members, results, i) for i in order}, []
    name, first = next(iter(members.items()))
    rises, kinds = first.higher_is_better is not False, plural(first._groups.by)
    worst = _worst(results.values[name], results.numbers[name], rises)
    medians = {
        x: Reading.of(results.values[x], None, one.plot_upper_bound == 1, kinds)._replace(
            unit=one.unit
        )
        for x, one in members.items()
    }
    rows = {medians[name].note: medians}
    rows |= {groups[i]: _row(members, results, i) for i in worst}
    order_of = "lowest" if rises else "highest"
    return rows, [
        f"below the medians: the {len(worst)} {kinds} with the {order_of} {name}; of equal ones, "
        "those with more queries",
        f"each of the {len(groups):,} {kinds}: --group-table FILE",
    ]


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


def _worst(values: Tensor, numbers: Tensor, rises: bool) -> list[int]:
    """Return the groups with the worst values, of equal ones those with more queries first."""
    by_number = numbers.argsort(descending=True, stable=True)
    by_number = by_number[~values[by_number].isnan()]
    order = values[by_number].argsort(descending=not rises, stable=True)[:_WORST]
    return [int(i) for i in by_number[order]]


def _in_order(name: str) -> tuple[bool, float, str]:
    """Sort numbers by their values, before text."""
    is_number = re.fullmatch(r"-?\d{1,15}(\.\d+)?", name) is not None
    return not is_number, float(name) if is_number else 0, name
