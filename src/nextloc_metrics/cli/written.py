"""What the command prints: evaluations, comparisons and audits in each of its formats."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from nextloc_metrics.display.formats import one_line
from nextloc_metrics.display.table import Table
from nextloc_metrics.protocols import Audit
from nextloc_metrics.report.comparing import Comparisons
from nextloc_metrics.report.evaluation import Evaluation
from nextloc_metrics.report.trajectories import TrajectoryEvaluation


def write_evaluation(result: Evaluation, kind: str, intervals: bool) -> str:
    """Write an evaluation in one of the formats; `intervals` adds them to JSON."""
    if kind == "json":
        return _evaluation_to_json(result, intervals)
    if kind == "markdown":
        return result.to_markdown()
    if kind in ("latex", "csv"):
        return write_table(result.table, kind)
    parts = [
        str(result),
        *(f"by {one_line(name)}\n{table}" for name, table in result.groups.items()),
    ]
    return "\n\n".join(parts)


def note_left_out(result: Evaluation, kind: str) -> str:
    """Return what a format leaves out of an evaluation with groups, and where to find it."""
    if kind not in ("csv", "latex") or not result.groups:
        return ""
    return (
        f"Note: `--format {kind}` holds the values of all queries only; `--group-table FILE` "
        "writes those of each group, and `--format json` has the protocol card."
    )


def _evaluation_to_json(result: Evaluation, intervals: bool) -> str:
    """Write values, card and groups; NaN is null."""
    ends = ("low", "high") if intervals else ()
    rows: dict[str, Any] = {}
    for name, value in result.values.items():
        rows[name] = {"value": value}
        if name in result.intervals:
            rows[name] |= zip(ends, result.intervals[name], strict=False)
    groups: dict[str, Any] = {}
    for record in result.group_records():
        of_group = groups.setdefault(record["kind"], {}).setdefault(record["group"], {})
        of_group[record["metric"]] = {x: record[x] for x in ("value", *ends, "queries")}
    rows["card"] = result.card
    return json.dumps(_without_nan(rows | ({"groups": groups} if groups else {})), indent=2)


def write_comparisons(result: Comparisons, kind: str) -> str:
    """Write comparisons in one of the formats; JSON has values and corrected p-values too."""
    if kind != "json":
        return write_table(result.table, kind)
    comparisons = {
        name: {
            key: {**asdict(found), "corrected_p_value": result.corrected[name][key]}
            for key, found in of_metrics.items()
        }
        for name, of_metrics in result.comparisons.items()
    }
    return json.dumps(_without_nan({"values": result.values, "comparisons": comparisons}), indent=2)


def write_audit(result: Audit, kind: str) -> str:
    """Write the values under each protocol in one of the formats."""
    if kind != "json":
        return write_table(result.table, kind)
    return json.dumps(result.table.records, indent=2)


def write_trajectories(result: TrajectoryEvaluation, kind: str) -> str:
    """Write the evaluation of days in one of the formats; JSON has the card and intervals too."""
    if kind == "text":
        return str(result)
    if kind != "json":
        return write_table(result.table, kind)
    rows: dict[str, Any] = {
        name: {"value": value, "low": low, "high": high}
        for (name, value), (low, high) in zip(
            result.values.items(), result.intervals.values(), strict=True
        )
    }
    return json.dumps(_without_nan(rows | {"card": result.card}), indent=2)


def write_table(table: Table, kind: str) -> str:
    """Write a table in one of the formats."""
    writers = {
        "text": table.__str__,
        "markdown": table.to_markdown,
        "latex": table.to_latex,
        "csv": table.to_csv,
        "json": table.to_json,
    }
    return writers[kind]().rstrip("\n")


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by None."""
    if isinstance(value, dict):
        return {key: _without_nan(x) for key, x in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
