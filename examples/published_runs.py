"""Which differences of 39 published runs hold? Stored answers of fine-tuned language models.

    python published_runs.py FOLDER

FOLDER holds a Parquet file per data set, with a column `target` and one per model, as text, and
`accuracies.json`, the accuracies that the authors stored. For each data set the program prints the
stored accuracy beside the one counted here, its interval, and letters: two models share one exactly
where an exact McNemar test, corrected by Holm's method over all pairs, does not separate them.
"Ids above" counts answers with a higher number than any target.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nextloc_metrics import report


def shorten(name: str) -> str:
    """Return the name of a model without what all of them have."""
    return re.sub("Meta-|longlora-32k-|FourSquare-|-POI", "", name)


def read_answers(file: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return targets and answers as ids: the number of each text, equal for equal texts."""
    table = pd.read_parquet(file)
    names = [name for name in table.columns if name != "target"]
    texts = pd.concat([table["target"], *(table[name] for name in names)]).astype(str)
    ids = pd.factorize(texts)[0].reshape(len(names) + 1, -1)
    return ids[0], dict(zip(names, ids[1:, :, None], strict=True))


def count_above(file: Path) -> dict[str, int]:
    """Return for each model the number of answers with a higher number than any target."""
    table = pd.read_parquet(file).apply(pd.to_numeric, errors="coerce")
    above = (table > table["target"].max()).sum()
    return {name: int(above[name]) for name in table.columns if name != "target"}


def compare(file: Path) -> Any:
    """Compare all pairs of the models of a data set."""
    target, answers = read_answers(file)
    return report.compare(answers, target, k=1, against="all")


def format_rows(file: Path, found: Any, stored: dict[str, float]) -> list[str]:
    """Return a line per model, the best first."""
    above, lines = count_above(file), []
    for name in sorted(stored, key=lambda name: -stored[name]):
        one = found.columns[name]["acc_at_1"]
        low, high = (100 * x for x in one.bounds)
        letters = found.letters[name]["acc_at_1"]
        lines.append(
            f"{shorten(name):<50} {100 * stored[name]:6.2f} {100 * one.value:6.2f}"
            f"  {low:5.2f} - {high:5.2f}  {letters:<7} {above[name]:>9}"
        )
    return lines


def smallest_that_holds(found: Any) -> str:
    """Say which difference of a data set is the smallest with a corrected p-value of .05."""
    pairs = {
        pair: abs(of["acc_at_1"].difference)
        for pair, of in found.pairs.items()
        if found.corrected_pairs[pair]["acc_at_1"] <= 0.05
    }
    smallest = f"{100 * min(pairs.values()):.2f} points" if pairs else "none"
    return f"{len(pairs)} of {len(found.pairs)} differences hold, the smallest: {smallest}"


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Print all tables, and return the comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    accuracies = json.loads((folder / "accuracies.json").read_text("utf-8"))
    comparisons, targets = {}, {}
    for name, stored in accuracies.items():
        file = folder / f"{name}.parquet"
        if len(stored) < 2:
            continue
        comparisons[name] = found = compare(file)
        targets[name] = read_answers(file)[0]
        print(f"\n{name}: {len(targets[name]):,} queries")
        print(f"{'percent':<50} stored   here       interval  letters ids above")
        print("\n".join(format_rows(file, found, stored)))
        print(smallest_that_holds(found))
    return comparisons


if __name__ == "__main__":
    main()
