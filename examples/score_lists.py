"""Score stored ranked lists: what a model predicted, best first, against what was relevant.

    python score_lists.py lists.npz                 # arrays `preds` [N, K] and `targets` [N]
    python score_lists.py lists.csv                 # columns `preds` ("3 1 2") and `targets`
    python score_lists.py lists.parquet             # the same, with list columns
    python score_lists.py lists.npz --padding -100  # where a list without an answer holds -100
    python score_lists.py                           # a dozen embedded lists

Lists hold location ids, padded with -1, and so do targets where a query has several. Lists from
real models repeat ids, come short or hold no answer: a repeated id counts at its first rank and
keeps the ranks of the others; what a list lacks is missed. Other negative numbers are an error,
unless `--padding` names them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from nextloc_metrics import recommendation_metrics

# Twelve queries with one relevant location each.
SAMPLE_PREDS = """
    4 7 1 9 3 | 2 5 8 | 6 6 1 4 2 | 3 9 7 5 8 | 1 2 3 4 5 | 9 8 7 6 5
    5 1 9 2 7 | 8 3 | 7 4 4 1 6 | 2 6 3 8 9 | 1 5 9 3 7 | 6 2 8 4 1
"""
SAMPLE_TARGETS = "4 5 1 2 1 5 9 8 1 6 4 6"


def read_lists(path: Path, preds: str = "preds", targets: str = "targets") -> tuple[Tensor, Tensor]:
    """Read lists ``[N, K]`` and targets ``[N]`` or ``[N, M]`` from a file.

    Args:
        path: an npz, CSV or parquet file.
        preds: the name of the array or column of lists.
        targets: the name of the array or column of what was relevant.
    """
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            _check_names(path, arrays.files, preds, targets)
            return torch.from_numpy(arrays[preds]), torch.from_numpy(arrays[targets])
    table = pd.read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    _check_names(path, table.columns, preds, targets)
    relevant = pad_lists(table[targets])
    return pad_lists(table[preds]), relevant[:, 0] if relevant.shape[1] == 1 else relevant


def _read_csv(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False)  # an empty cell is an empty list


def pad_lists(cells: Iterable[Any]) -> Tensor:
    """Make ``[N, K]`` of lists, one a cell: a sequence of ids, or text such as ``[3, 1]``."""
    lists = [torch.tensor([int(x) for x in _numbers(cell)], dtype=torch.int64) for cell in cells]
    return torch.nn.utils.rnn.pad_sequence(lists, batch_first=True, padding_value=-1)


def _numbers(cell: Any) -> Iterable[Any]:
    if isinstance(cell, str):
        return cell.strip("[]() ").replace(",", " ").split()
    return cell if isinstance(cell, Iterable) else [cell]


def _check_names(path: Path, found: Iterable[str], *wanted: str) -> None:
    missing = set(wanted) - set(found)
    if missing:
        raise ValueError(
            f"{path} has no {', '.join(sorted(missing))}, only {', '.join(map(str, found))}; name "
            "them with --preds and --targets."
        )


def read_sample() -> tuple[Tensor, Tensor]:
    """Return the embedded lists and targets."""
    lists = SAMPLE_PREDS.strip().replace("\n", "|").split("|")
    return pad_lists(lists), pad_lists([SAMPLE_TARGETS])[0]


def score(preds: Tensor, targets: Tensor, k: list[int]) -> dict[str, float]:
    """Return every metric at every k, as fractions."""
    metrics = recommendation_metrics(k=k)
    for start in range(0, len(preds), 4096):
        rows = slice(start, start + 4096)
        metrics.update(preds[rows], targets[rows])
    return {name: float(value) for name, value in metrics.compute().items()}


def format_table(values: dict[str, float]) -> str:
    """Lay out fractions as percent: a row a k, a column a metric."""
    rows: dict[str, dict[str, float]] = {}
    for key, value in values.items():
        name, k = key.rsplit("_at_", 1)
        rows.setdefault(k, {})[name] = value
    lines = ["percent  " + "  ".join(f"{name:>9}" for name in next(iter(rows.values())))]
    for k, row in rows.items():
        cells = "  ".join(f"{100 * value:9.2f}" for value in row.values())
        lines.append(f"k = {k}".ljust(9) + cells)
    return "\n".join(lines)


def describe(preds: Tensor) -> str:
    """Tell how many lists there are, and how clean they are."""
    ordered = preds.sort(dim=1).values
    repeats = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(1)
    written = (preds >= 0).sum(1)
    short, empty = (written < preds.shape[1]).sum(), (written == 0).sum()
    return (
        f"{len(preds):,} lists of up to {preds.shape[1]} ids: {int(repeats.sum()):,} repeat an id, "
        f"{int(short):,} are short, {int(empty):,} of them empty"
    )


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Score the lists, print the table and return its values, as fractions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", nargs="?", type=Path, help="npz, CSV or parquet file")
    parser.add_argument("--preds", default="preds", help="name of the lists; default: preds")
    parser.add_argument("--targets", default="targets", help="of the targets; default: targets")
    parser.add_argument(
        "--padding", type=int, nargs="+", default=[-1], help="ids that stand for no answer"
    )
    parser.add_argument("-k", type=int, nargs="+", default=[1, 5, 10], help="default: 1 5 10")
    args = parser.parse_args(argv)
    try:
        if args.lists is None:
            source, (preds, targets) = "embedded sample", read_sample()
        else:
            source = args.lists.name
            preds, targets = read_lists(args.lists, args.preds, args.targets)
        preds = preds.masked_fill(torch.isin(preds, torch.tensor(args.padding)), -1)
        values = score(preds, targets, args.k)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"{source}: {describe(preds)}\n")
    print(format_table(values))
    return values


if __name__ == "__main__":
    main()
