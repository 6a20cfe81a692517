"""How well are rare locations predicted? Decile metrics of two baselines, with both binnings.

    python popularity_deciles.py                # simulated check-ins
    python popularity_deciles.py check_ins.csv  # or a folder, as for next_location.py

Prints a table for every baseline and binning, rarest decile first, and writes a picture.
"""

import argparse
from pathlib import Path
from typing import get_args

from matplotlib.figure import Figure

from check_ins import CheckIns, read_or_simulate, score_test_part
from models import Markov, MostVisited
from nextloc_metrics import DecileNDCG, PopularityBins, RankingCollection, decile_metrics, plotting
from nextloc_metrics.metrics.bins import By

K = 5
COLUMNS = {
    f"precision_at_{K}": f"P@{K}",
    f"ndcg_at_{K}": f"NDCG@{K}",
    "k_for_recall_50": "k for recall .5",
    f"prediction_share_at_{K}": f"share@{K}",
    f"coverage_at_{K}": f"coverage@{K}",
}


def evaluate(
    model: MostVisited, data: CheckIns, bins: PopularityBins
) -> tuple[RankingCollection, DecileNDCG]:
    """Update the decile metrics with the test part."""
    metrics, ndcg = decile_metrics(bins, k=K), DecileNDCG(bins, K)
    for _rows, batch, scores in score_test_part(model, data):
        ranking = metrics.rank(scores, batch["targets"][:, -1])
        metrics.update(ranking)
        ndcg.update(ranking)
    return metrics, ndcg


def format_table(metrics: RankingCollection, ndcg: DecileNDCG) -> str:
    """Lay out a row for every decile."""
    values = {name: float(value) for name, value in metrics.compute().items()}
    widths = [max(len(title), len("0.1234")) for title in COLUMNS.values()]
    titles = map(str.rjust, COLUMNS.values(), widths)
    lines = ["decile     locations  queries  " + "  ".join(titles)]
    deciles = ndcg.deciles(ndcg.bins)
    for decile, queries in zip(deciles, ndcg.num_queries.tolist(), strict=True):
        label = ndcg.key(decile).rpartition("_")[2]
        cells = [
            f"{values[f'{name}_decile_{label}']:{width}.{'1f' if name.startswith('k_') else '4f'}}"
            for name, width in zip(COLUMNS, widths, strict=True)
        ]
        size = int((ndcg.bins.bin_of == (0 if decile == "unmapped" else decile)).sum())
        lines.append(f"{label:<9}  {size:>9}  {queries:>7}  " + "  ".join(cells))
    return "\n".join(lines).replace("nan", "  -")


def main() -> None:
    """Print the tables and write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--output", type=Path, default=Path("runs/popularity_deciles.png"))
    parser.add_argument("--limit", type=int, help="number of users to simulate")
    options = parser.parse_args()
    data = read_or_simulate(options.data, options.limit)
    models = {"most visited": MostVisited(data), "Markov": Markov(data)}
    with plotting.style():
        figure = Figure(figsize=(7.6, 6.5), layout="constrained")
        panels = figure.subplots(2)
    titles = {
        "mass": "by mass: every bin has about a tenth of the training visits",
        "items": "by items: every bin has about a tenth of the locations",
    }
    for by, ax in zip(get_args(By), panels, strict=True):
        bins = PopularityBins.from_counts(data.training_counts(), by=by)
        drawn = {}
        for name, model in models.items():
            metrics, drawn[name] = evaluate(model, data, bins)
            print(f"\n{name}, by={by!r}\n{format_table(metrics, drawn[name])}", flush=True)
        plotting.by_group(drawn, ax=ax)
        ax.set_title(titles[by], size="small")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    plotting.save(figure, options.output)
    print(f"\nPicture: {options.output}")


if __name__ == "__main__":
    main()
