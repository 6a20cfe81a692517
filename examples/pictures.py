"""Every kind of picture, for three baselines on simulated check-ins.

    python pictures.py                # simulated check-ins
    python pictures.py check_ins.csv  # or a folder, as for next_location.py

Prints tables of the same values and writes the pictures.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from matplotlib.figure import Figure

from check_ins import CheckIns, read_or_simulate, score_test_part
from models import Markov, MostFrequent, MostVisited
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileNDCG,
    Grouped,
    PopularityBins,
    Ranking,
    next_location_metrics,
    plotting,
    tables,
)

Batch = dict[str, torch.Tensor]


def rank(
    model: Callable[[Batch], torch.Tensor], data: CheckIns
) -> Iterator[tuple[Ranking, Batch, torch.Tensor]]:
    """Yield the ranking of every batch of the test part, with the batch and its hours."""
    for rows, batch, scores in score_test_part(model, data):
        target = batch["targets"][:, -1]
        yield Ranking.from_scores(scores, target, top=500), batch, data.hour[rows]


def main(argv: list[str] | None = None) -> dict[str, Figure]:
    """Print the tables, write the pictures and return them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--output", type=Path, default=Path("runs/pictures"))
    parser.add_argument("--limit", type=int, help="number of simulated users")
    options = parser.parse_args(argv)
    data = read_or_simulate(options.data, options.limit)
    counts = data.training_counts()
    models: dict[str, Callable[[Batch], torch.Tensor]] = {
        "most frequent": MostFrequent(data),  # by anybody
        "most visited": MostVisited(data),  # by the user
        "Markov": Markov(data),
    }

    usual = {name: next_location_metrics(data.num_locations) for name in models}
    every_k = {
        name: next_location_metrics(data.num_locations, k=range(1, 21), prefix=f"{name}/")
        for name in models
    }
    by_hour = {name: Grouped(AccuracyAtK(1), 24, by="hour") for name in models}
    by_user = {name: Grouped(MRR(), data.num_users, by="user") for name in models}
    bins = PopularityBins.from_counts(counts)
    deciles = {name: DecileNDCG(bins, k=5) for name in models}
    for name, model in models.items():
        for ranking, batch, hour in rank(model, data):
            usual[name].update(ranking)
            every_k[name].update(ranking)
            by_hour[name].update(ranking.with_groups({"hour": hour}))
            by_user[name].update(ranking.with_groups({"user": batch["user"]}))
            deciles[name].update(ranking)

    print(tables.side_by_side(usual, intervals=True))
    print(f"\n{usual['Markov'].table(percent=False)}")

    personal = ("most visited", "Markov")
    drawn = {
        "side_by_side": plotting.side_by_side(usual),
        "every_k": plotting.accuracy_within_k(every_k),
        "by_hour": plotting.by_group({name: by_hour[name] for name in personal}),
        "by_decile": plotting.by_group(deciles),
        "by_user": plotting.by_group(by_user["Markov"]),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    pictures = {name: figure for name, (figure, _axes) in drawn.items()}
    for name, figure in pictures.items():
        plotting.save(figure, options.output / f"{name}.png")
    print(f"\nPictures: {options.output}")
    return pictures


if __name__ == "__main__":
    main()
