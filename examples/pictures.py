"""Every kind of picture, of three baselines on simulated check-ins.

    python pictures.py                # simulated check-ins
    python pictures.py check_ins.csv  # or a folder, as for next_location.py

Prints the tables of the same values and writes the pictures.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from matplotlib.figure import Figure

from check_ins import CheckIns, read_or_simulate, score_test_part
from next_location import Markov, MostFrequent, MostVisited
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
    """Rank the test part once for all that follows."""
    for rows, batch, scores in score_test_part(model, data):
        target = batch["targets"][:, -1]
        yield Ranking.from_scores(scores, target, top=500), batch, data.hour[rows]


def main(argv: list[str] | None = None) -> dict[str, Figure]:
    """Print the tables, write the pictures and return them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--output", type=Path, default=Path("runs/pictures"))
    parser.add_argument("--limit", type=int, help="simulate so many users only")
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
        name: next_location_metrics(data.num_locations, k=range(1, 51), prefix=f"{name}/")
        for name in models
    }
    by_hour = Grouped(AccuracyAtK(1), num_groups=24)
    by_user = Grouped(MRR(), num_groups=data.num_users)
    deciles = DecileNDCG(PopularityBins.from_counts(counts), k=5)
    steps = []
    for name, model in models.items():
        for ranking, batch, hour in rank(model, data):
            values = usual[name](ranking)
            every_k[name].update(ranking)
            if name == "Markov":
                steps.append(values)
                by_hour.update(ranking.with_groups(hour))
                by_user.update(ranking.with_groups(batch["user"]))
                deciles.update(ranking)

    print(tables.side_by_side(usual, intervals=True))
    print(f"\n{usual['Markov'].table(percent=False)}")

    drawn = {
        "value": usual["Markov"]["mrr"].plot(),
        "steps": usual["Markov"].plot(steps, together=True),
        "by_hour": by_hour.plot(),
        "by_user": by_user.plot(),
        "by_decile": deciles.plot(),
        "side_by_side": plotting.side_by_side(usual),
        "every_k": plotting.accuracy_within_k(every_k),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    pictures = {name: figure for name, (figure, _axes) in drawn.items()}
    for name, figure in pictures.items():
        figure.savefig(options.output / f"{name}.png", dpi=100)
    print(f"\nPictures: {options.output}")
    return pictures


if __name__ == "__main__":
    main()
