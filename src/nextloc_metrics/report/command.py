"""The command line: `nextloc-metrics score FILE` prints what `report.evaluate` finds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

from nextloc_metrics.report.evaluation import Evaluation, evaluate
from nextloc_metrics.report.files import read

FORMATS = ("text", "markdown", "latex", "csv", "json")


@click.group()
@click.version_option(package_name="nextloc-metrics")
def main() -> None:
    """Evaluate files of next-location predictions and recommendations."""


@main.command(
    epilog="Example: nextloc-metrics score lists.parquet --group user --cluster user --intervals"
)
@click.argument("path")
@click.option("--preds", default="preds", show_default=True, help="Column of lists or scores.")
@click.option("--target", default="target", show_default=True, help="Column of relevant ids.")
@click.option("--targets", help="A .npy of relevant ids, for a .npy of predictions.")
@click.option("--group", "groups", multiple=True, help="Column of groups; may be given again.")
@click.option("--cluster", help="The group whose queries depend on each other.")
@click.option("--k", "cuts", multiple=True, type=int, help="A cut-off; may be given again.")
@click.option("--padding", multiple=True, type=int, help="A negative number for nothing.")
@click.option("--num-locations", type=int, help="How many locations there are.")
@click.option("--on-error", type=click.Choice(["raise", "miss"]), default="raise")
@click.option("--intervals", is_flag=True, help="Write the bounds around every mean.")
@click.option("--confidence", type=float, default=0.95, show_default=True)
@click.option("--format", "kind", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write here instead of printing.")
@click.option("--force", is_flag=True, help="Write over a file.")
def score(
    path: str,
    preds: str,
    target: str,
    targets: str | None,
    groups: tuple[str, ...],
    cluster: str | None,
    cuts: tuple[int, ...],
    padding: tuple[int, ...],
    num_locations: int | None,
    on_error: Any,
    intervals: bool,
    confidence: float,
    kind: str,
    out: Path | None,
    force: bool,
) -> None:
    """Score the predictions in PATH: .npy, .npz, .csv, .jsonl or .parquet."""
    if out is not None and out.exists() and not force:
        raise click.ClickException(f"{out} exists; write over it by --force.")
    if cluster is not None and cluster not in groups:
        groups = (*groups, cluster)
    try:
        found = read(
            path,
            preds=preds,
            target=target,
            groups=groups,
            targets=targets,
            padding=padding,
            on_error=on_error,
        )
        result = evaluate(
            found.preds,
            found.target,
            k=cuts or (1, 5, 10),
            groups=found.groups,
            cluster=cluster,
            num_locations=num_locations,
            confidence=confidence,
        )
    except (OSError, TypeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if on_error == "miss":
        result.card["broken_answers"] = found.missed
    text = _written(result, kind, intervals)
    if out is None:
        click.echo(text)
    else:
        out.write_text(text + "\n")


def _written(result: Evaluation, kind: str, intervals: bool) -> str:
    """Write an evaluation in one of the formats."""
    if kind == "json":
        rows: dict[str, Any] = {}
        for name, value in result.values.items():
            rows[name] = {"value": None if math.isnan(value) else value}
            if intervals and name in result.intervals:
                low, high = result.intervals[name]
                rows[name] |= {"low": low, "high": high}
        return json.dumps({**rows, "card": result.card}, indent=2)
    if kind == "markdown":
        return result.to_markdown()
    if kind == "latex":
        return result.table.to_latex()
    if kind == "csv":
        return result.table.to_csv().rstrip("\n")
    parts = [str(result), *(f"by {name}\n{table}" for name, table in result.groups.items())]
    return "\n\n".join(parts)
