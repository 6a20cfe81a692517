"""The table of an evaluation by popularity of the target: accuracy, then the decile metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from nextloc_metrics.core.display.reading import Reading
from nextloc_metrics.core.display.table import Table, across, in_percent
from nextloc_metrics.core.results.results import count_queries, readings_of
from nextloc_metrics.report.counts import Counted

#: the part of the rows of deciles, and the title of their table
DECILES = "By popularity of the target"
OF_DECILES = f"{DECILES}: accuracy in full lists, others at ranks within the decile"
_RANKS = "acc, prediction_share: ranks in full lists; others: ranks within the decile"

# The first columns.
_FIRST = ("acc_at_", "ndcg_at_")


def table_of_deciles(counted: Counted) -> Table | None:
    """Return the table, with a row for each decile; None without bins."""
    if (bins := counted.setting.bins) is None or "deciles" not in counted.parts:
        return None
    rows: dict[str, dict[str, Reading]] = {}
    collection, level = counted.parts["deciles"], counted.setting.confidence_level
    notes = [x for x in counted.note_lists() if not x.startswith("mrr")]
    readings, numbers = readings_of(collection, level), _queries_of(collection)
    for name in sorted(readings, key=_position_of):
        reading, (metric, _, decile) = readings[name], name.partition("_decile_")
        if decile:
            reading = reading._replace(number=numbers[decile])
            rows.setdefault(decile.lstrip("0"), {})[metric] = reading
        else:
            notes.append(f"{name} of all deciles: {in_percent(reading.value)} %{reading.dagger}")
    notes.append(f"1: the rarest locations, {len(rows) - 1}: the most visited")
    notes += [_RANKS, *counted.note_intervals()]
    *deciles, unmapped = [*rows]
    sizes = dict(zip([unmapped, *deciles], bins.sizes, strict=True))
    records = partial(_records_of, collection, level, readings, sizes)
    return across(rows, level, notes, records, {"locations": sizes})


def _records_of(
    collection: Any, level: float, readings: Mapping[str, Reading], sizes: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the records of the collection, with numbers of locations and the text of daggers."""
    table: Table = collection.table(intervals=True, confidence_level=level)
    records = []
    for record in table.records:
        name = record["metric"]
        size = sizes.get(name.rpartition("_decile_")[2].lstrip("0"), sum(sizes.values()))
        note = readings[name].footnote if readings[name].dagger else ""
        records.append({**record, "locations": size, "note": note})
    return records


def _position_of(name: str) -> int:
    """Return the position of the column of a metric; columns with one position stay in order."""
    first = (i for i, x in enumerate(_FIRST) if name.startswith(x))
    return next(first, len(_FIRST))


def _queries_of(collection: Any) -> dict[str, int]:
    """Return the number of queries of each decile, by the end of the names of metrics."""
    members = {
        name.rpartition("_decile_")[2]: member
        for name, member in collection.named_members()
        if name.startswith("ndcg_at_")
    }
    first = next(iter(members.values()))
    if first.group_kind:
        return {x: int(count_queries(member)[0].sum()) for x, member in members.items()}
    return dict(zip(members, first.num_queries.tolist(), strict=True))
