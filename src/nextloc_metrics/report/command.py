"""The command line: `nextloc-metrics score FILE` prints what `report.evaluate` finds."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import torch

from nextloc_metrics.report.comparing import compare as compare_models
from nextloc_metrics.report.evaluation import Evaluation, evaluate
from nextloc_metrics.report.files import Predictions, read

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


@main.command(epilog="Example: nextloc-metrics compare a.parquet b.parquet --cluster user")
@click.argument("paths", nargs=-1, required=True)
@click.option("--preds", default="preds", show_default=True, help="Column of lists or scores.")
@click.option("--target", default="target", show_default=True, help="Column of relevant ids.")
@click.option("--targets", help="A .npy of relevant ids, for a .npy of predictions.")
@click.option("--cluster", help="Column of the group whose queries depend on each other.")
@click.option("--k", "cuts", multiple=True, type=int, help="A cut-off; may be given again.")
@click.option("--padding", multiple=True, type=int, help="A negative number for nothing.")
@click.option("--format", "kind", type=click.Choice(FORMATS), default="text", show_default=True)
def compare(
    paths: tuple[str, ...],
    preds: str,
    target: str,
    targets: str | None,
    cluster: str | None,
    cuts: tuple[int, ...],
    padding: tuple[int, ...],
    kind: str,
) -> None:
    """Compare predictions of the same queries in PATHS with those in the first."""
    groups = [] if cluster is None else [cluster]
    try:
        found: dict[str, Predictions] = {
            path: read(
                path, preds=preds, target=target, groups=groups, targets=targets, padding=padding
            )
            for path in paths
        }
        same = found[paths[0]].target
        for path, one in found.items():
            if not torch.equal(one.target, same):
                raise ValueError(f"the targets in {path} are not those in {paths[0]}.")
        result = compare_models(
            {path: one.preds for path, one in found.items()},
            same,
            k=cuts or (1, 5, 10),
            groups=found[paths[0]].groups,
            cluster=cluster,
        )
    except (OSError, TypeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if kind == "json":
        differences = {
            name: {key: asdict(one) for key, one in of_metrics.items()}
            for name, of_metrics in result.comparisons.items()
        }
        click.echo(json.dumps({"values": result.values, "comparisons": differences}, indent=2))
    else:
        table = result.table
        writers = {"markdown": table.to_markdown, "latex": table.to_latex, "csv": table.to_csv}
        click.echo(writers[kind]() if kind in writers else repr(result))


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
