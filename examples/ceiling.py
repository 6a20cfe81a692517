"""How far is a model from the ceiling? The limit of predictability, and how wrong its estimate is.

    python ceiling.py                # simulated check-ins
    python ceiling.py check_ins.npz  # a file as for geography.py

The program prints, as means over users: chance, three baselines, a GRU, and the limit of
predictability with that of the same visits in random orders. Then it estimates the limit of random
processes whose limit is known, by the number of visits.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from check_ins import FIRST_LOCATION, CheckIns, score_test_part
from geography import LENGTH, read_check_ins, train
from models import Markov, MostFrequent, MostVisited
from nextloc_metrics import AccuracyAtK, Grouped, RankingCollection, analysis
from nextloc_metrics.analysis import MeanLimit, Predictability

LENGTHS = (100, 300, 1000, 3000, 10_000)

Process = Callable[[np.random.Generator, int], np.ndarray]


def accuracy_by_user(model: nn.Module, data: CheckIns, counted: torch.Tensor) -> MeanLimit:
    """Return the mean over some users of their Acc@1 on the test part, with its interval."""
    metric = Grouped(AccuracyAtK(1), data.num_users, average="groups")
    metrics = RankingCollection({"acc": metric})
    for _, batch, scores in score_test_part(model, data, LENGTH):
        user = batch["user"]
        metrics.update(scores, batch["targets"][:, -1], mask=counted[user], groups=user)
    found = metrics.compute_with_intervals()
    return MeanLimit(*(float(found[f"acc{end}"]) for end in ("", "_low", "_high")))


def compare_with_ceiling(
    data: CheckIns, epochs: int = 0
) -> tuple[Predictability, dict[str, MeanLimit]]:
    """Return the limits of all users, and the values of models for users with enough visits."""
    limits = analysis.predictability(data.location, data.user)
    counted = torch.zeros(data.num_users, dtype=torch.bool)
    counted[torch.tensor(limits.users)] = ~limits.few_visits
    chance = 1 / (data.num_locations - FIRST_LOCATION)
    values = {
        "chance": MeanLimit(chance, chance, chance),
        "most frequent of all users": accuracy_by_user(MostFrequent(data), data, counted),
        "most visited by the user": accuracy_by_user(MostVisited(data), data, counted),
        "Markov chain of the user": accuracy_by_user(Markov(data), data, counted),
    }
    if epochs:
        values["GRU"] = accuracy_by_user(train(data, epochs), data, counted)
    means = limits.means()
    values["limit (uncorrelated)"] = means["uncorrelated"]
    values["limit (shuffled)"] = means["shuffled"]
    values["limit"] = means["limit"]
    return limits, values


def rows(values: dict[str, MeanLimit]) -> list[str]:
    """Lay out values with their intervals, in percent."""
    return [
        f"{name:28}{100 * mean.value:6.2f}  ({100 * mean.low:.2f} - {100 * mean.high:.2f})"
        for name, mean in values.items()
    ]


def independent(num_locations: int) -> Process:
    """Return a process that draws each visit from equally likely locations."""
    return lambda rng, n: rng.choice(num_locations, n, p=np.full(num_locations, 1 / num_locations))


def markov(num_locations: int, known: float) -> Process:
    """Return a process that goes to the next location with a known probability, or to any other."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        other = rng.integers(2, num_locations + 1, n)
        return np.cumsum(np.where(rng.random(n) < known, 1, other)) % num_locations

    return draw


def processes() -> dict[str, tuple[Process, float, int]]:
    """Return processes with their entropy rate and number of locations."""

    def jump(size: int, known: float) -> tuple[Process, float, int]:
        bits = -known * math.log2(known) - (1 - known) * math.log2((1 - known) / (size - 1))
        return markov(size, known), bits, size

    return {
        "independent, 10 equally likely": (independent(10), math.log2(10), 10),
        "Markov, 20 locations, 80 % predictable": jump(20, 0.8),
        "Markov, 200 locations, 50 % predictable": jump(200, 0.5),
    }


def bias_table(lengths: Sequence[int], repeats: int) -> str:
    """Lay out the mean estimates of the limit in percent, by number of visits."""
    lines = [f"{'limit, percent':39}{'true':>8}" + "".join(f"{n:>8}" for n in lengths)]
    for name, (draw, bits, size) in processes().items():
        rng = np.random.default_rng(0)
        rates = [
            torch.tensor([analysis.entropy_rate(draw(rng, n)) for _ in range(repeats)])
            for n in lengths
        ]
        limits = [float(analysis.fano_limit(of_length, size).mean()) for of_length in rates]
        exact = float(analysis.fano_limit(bits, size))
        lines.append(f"{name:39}{100 * exact:8.1f}" + "".join(f"{100 * x:8.1f}" for x in limits))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> dict[str, MeanLimit]:
    """Print the tables, and return the values of the first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, help=".npz file of check-ins")
    parser.add_argument("--epochs", type=int, default=5, help="of the GRU; 0 for none")
    parser.add_argument("--repeats", type=int, default=20, help="sequences per estimate")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="visits")
    options = parser.parse_args(arguments)
    data, _ = read_check_ins(options.data)
    limits, values = compare_with_ceiling(data, options.epochs)
    left_out = int(limits.few_visits.sum())
    print(f"Acc@1, mean over {len(limits.users) - left_out} users, percent; {left_out} left out")
    print("\n".join(rows(values)))
    print(f"\n{bias_table(options.lengths, options.repeats)}")
    return values


if __name__ == "__main__":
    main()
