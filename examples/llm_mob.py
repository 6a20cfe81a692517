"""Recompute a published evaluation from its stored answers, and add intervals.

    git clone https://github.com/xlwang233/LLM-Mob
    python llm_mob.py LLM-Mob

LLM-Mob prompts a language model for each user's next location. The repository stores the answers
to each prompt as CSV files, one per user, in `results/<data>/<prompt>`. An answer is one location
id (`top1`) or ten ids, best first (`top10`; `top10_wot`, without the time of the visit). The
notebook `metrics.ipynb` prints accuracy, weighted F1 and NDCG.

This program prints the notebook's figures next to those of `report.evaluate`, which adds the mean
reciprocal rank and intervals by user. Then `report.compare` compares two prompts on their common
queries.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from pathlib import Path

import pandas as pd

from nextloc_metrics import report, tables

Figures = dict[str, float]


def read_published(notebook: Path) -> dict[str, Figures]:
    """Return the figures that the notebook's cells print, by the folder that a cell reads."""
    published = {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        folder = re.search(r"output_dir = 'results/(.+?)'", "".join(cell["source"]))
        lines = [line for output in cell.get("outputs", []) for line in output.get("text", [])]
        found = re.findall(r"^(?:Weighted )?(\S+): +([01]\.\d+)$", "".join(lines), re.MULTILINE)
        if folder:
            published[folder[1]] = {x.lower().replace("@", "_at_"): float(y) for x, y in found}
    return published


def count_locations(folder: Path) -> int:
    """Return the number of location ids of a data set; ids start at 0."""
    files = [file for part in ("train", "valid", "test") for file in folder.glob(f"*_{part}.csv")]
    return 1 + max(int(pd.read_csv(file)["location_id"].max()) for file in files)


def read_answers(folder: Path) -> report.Predictions:
    """Read the answers to one prompt; an answer that holds no location id is a miss."""
    return report.read(
        report.Source(folder, preds="prediction", target="ground_truth", on_error="miss"),
        groups=["user_id"],
    )


def is_informative(metric: str, *answers: report.Predictions) -> bool:
    """Return whether a metric adds to accuracy at 1; for lists of one id, only F1 does."""
    return metric in ("acc_at_1", "f1") or all(x.preds.shape[1] > 1 for x in answers)


def evaluate(name: str, answers: report.Predictions, published: Figures, locations: int) -> Figures:
    """Print one prompt's figures next to the published ones, and return them."""
    users, missed = answers.groups, answers.missed
    found = report.evaluate(
        answers.preds,
        answers.target,
        k=[k for k in (1, 5, 10) if k <= answers.preds.shape[1]],
        groups=users,
        cluster="user_id",
        num_locations=locations,
    )
    values = {key: x for key, x in found.values.items() if is_informative(key, answers)}
    rows = []
    for metric, value in values.items():
        theirs = f"{published[metric]:.6f}" if metric in published else "-"
        bounds = " - ".join(f"{bound:.4f}" for bound in found.intervals.get(metric, ()))
        rows.append([metric, theirs, f"{value:.6f}", bounds or "-"])
    note = (
        f"{missed:,} answers without an id, {found.card['short_lists'] - missed:,} short ones, "
        f"{found.card['lists_with_repeats']:,} with a repeated id, "
        f"{found.card['lists_with_other_ids']:,} with an id that is no location"
    )
    print(f"{name}: {len(answers.target):,} queries of {users['user_id'].nunique()} users")
    print(tables.Table(["", "notebook", "recomputed", "95 % interval by user"], rows, [note, ""]))
    return values


def compare(names: tuple[str, str], answers: dict[str, report.Predictions]) -> None:
    """Print the differences of the second prompt from the first on their common queries."""
    a, b = (answers[name] for name in names)
    same = (a.target == b.target).numpy() & (a.groups["user_id"] == b.groups["user_id"]).to_numpy()
    models = {name: answers[name].preds for name in names}
    found = report.compare(models, a.target, mask=same, groups=a.groups, cluster="user_id")
    rows = [
        [metric, f"{x.difference:+.4f}", f"{x.low:+.4f} to {x.high:+.4f}", f"{x.p_value:.4f}"]
        for metric, x in found.comparisons[names[1]].items()
        if is_informative(metric, a, b)
    ]
    print(f"{names[1]} less {names[0]}: {same.sum():,} queries with the same target")
    print(tables.Table(["", "difference", "95 % interval by user", "p"], rows, [""]))


def main(argv: list[str] | None = None) -> dict[str, Figures]:
    """Evaluate every stored result, compare the prompts, and return the figures."""
    keep_lines = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep_lines)
    parser.add_argument("folder", type=Path, help="a clone of xlwang233/LLM-Mob")
    folder: Path = parser.parse_args(argv).folder
    if not (folder / "metrics.ipynb").is_file() or not (folder / "results").is_dir():
        sys.exit(
            f"error: {folder} must be a clone of LLM-Mob, with metrics.ipynb and results/: "
            "`git clone https://github.com/xlwang233/LLM-Mob` makes one."
        )
    published, figures = read_published(folder / "metrics.ipynb"), {}
    for data in sorted(x for x in (folder / "results").iterdir() if x.is_dir()):
        locations = count_locations(folder / "data" / data.name)
        prompts = sorted(x for x in data.iterdir() if x.is_dir())
        answers = {f"{data.name}/{x.name}": read_answers(x) for x in prompts}
        for name, given in answers.items():
            figures[name] = evaluate(name, given, published.get(name, {}), locations)
        for names in itertools.combinations(answers, 2):
            compare(names, answers)
    return figures


if __name__ == "__main__":
    main()
