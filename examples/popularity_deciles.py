"""How well are rare places predicted? Decile metrics of two baselines, with both binnings.

    python popularity_deciles.py                # simulated check-ins
    python popularity_deciles.py check_ins.csv  # or a folder, as for next_location.py

Prints a table for every baseline and binning, rarest decile first, and writes a picture.
"""

import argparse
from pathlib import Path
from typing import get_args

from matplotlib.figure import Figure

from check_ins import CheckIns, read_or_simulate, score_test_part
from next_location import Markov, MostVisited
from nextloc_metrics import DecileNDCG, PopularityBins, RankingCollection, decile_metrics
from nextloc_metrics.families.popularity import By

K = 5
COLUMNS = {
    f"precision_at_{K}": "P@5",
    f"ndcg_at_{K}": "NDCG@5",
    "k_for_recall_50": "k for recall .5",
    f"prediction_share_at_{K}": "share of predictions",
    f"coverage_at_{K}": "coverage",
}


def evaluate(model: MostVisited, data: CheckIns, bins: PopularityBins) -> RankingCollection:
    """Update the decile metrics with the test part."""
    metrics = decile_metrics(bins, k=K)
    for _rows, batch, scores in score_test_part(model, data):
        metrics.update(scores, batch["targets"][:, -1])
    return metrics


def format_table(metrics: RankingCollection, bins: PopularityBins) -> str:
    """Lay out a row for every decile."""
    values = {name: float(value) for name, value in metrics.compute().items()}
    widths = [max(len(title), len("0.1234")) for title in COLUMNS.values()]
    titles = map(str.rjust, COLUMNS.values(), widths)
    lines = ["decile     locations  " + "  ".join(titles)]
    for decile in [*range(1, bins.num_bins + 1), "unmapped"]:
        number = 0 if decile == "unmapped" else decile
        label = decile if number == 0 else f"{number:02}"
        cells = [
            f"{values[f'{name}_decile_{label}']:{width}.4g}"
            for name, width in zip(COLUMNS, widths, strict=True)
        ]
        size = int((bins.bin_of == number).sum())
        lines.append(f"{label!s:<9}  {size:>9}  " + "  ".join(cells))
    return "\n".join(lines).replace("nan", "  -")


def main() -> None:
    """Print the tables and write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--output", type=Path, default=Path("runs/popularity_deciles.png"))
    parser.add_argument("--limit", type=int, help="simulate so many users only")
    options = parser.parse_args()
    data = read_or_simulate(options.data, options.limit)
    models = {"most visited": MostVisited(data), "Markov": Markov(data)}
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    axes = figure.subplots(2, 2, sharey=True)
    for column, by in zip(axes.T, get_args(By), strict=True):
        bins = PopularityBins.from_counts(data.training_counts(), by=by)
        for ax, (name, model) in zip(column, models.items(), strict=True):
            metrics = evaluate(model, data, bins)
            print(f"\n{name}, by={by!r}\n{format_table(metrics, bins)}", flush=True)
            whole = DecileNDCG(bins, K)
            whole.plot(metrics.compute(), ax=ax)
            ax.set_title(f"{name}, by={by!r}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.output, dpi=100)
    print(f"\nPicture: {options.output}")


if __name__ == "__main__":
    main()
