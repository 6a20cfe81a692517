"""How near to the truth are corrected metrics of sampled candidates?

    python sampled.py                # simulated check-ins
    python sampled.py check_ins.npz  # a file as for geography.py

Ranks of known shapes, and the ranks of three baselines on check-ins: all candidates are ranked,
then the target among itself and 100 sampled others. The program prints the metric of all
candidates, that of the sample, and the estimates of the former from the latter: the mean over
several samples, and in brackets how many times nearer to the truth than the sample's metric they
are on average.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from check_ins import FIRST_LOCATION, CheckIns, score_test_part
from geography import read_check_ins
from models import Markov, MostFrequent, MostVisited
from nextloc_metrics import AccuracyAtK, NDCGAtK, Ranking, RankingMetric, analysis

METRICS: dict[str, RankingMetric] = {"Acc@10": AccuracyAtK(10), "NDCG@10": NDCGAtK(10)}

SHAPES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "power law": lambda rng, n: np.floor(rng.pareto(0.6, n) + 1),
    "geometric": lambda rng, n: rng.geometric(0.01, n),
    "top 3 or anywhere": lambda rng, n: np.where(
        rng.random(n) < 0.3, rng.integers(1, 4, n), rng.integers(1, 5001, n)
    ),
    "log-normal": lambda rng, n: np.ceil(np.exp(rng.normal(5, 1.5, n))),
    "uniform": lambda rng, n: rng.integers(1, 5001, n),
}


def simulated_ranks(num_candidates: int, num_queries: int = 5000) -> dict[str, Tensor]:
    """Draw ranks of each shape."""
    rng = np.random.default_rng(0)
    return {
        name: torch.from_numpy(np.clip(draw(rng, num_queries), 1, num_candidates).astype(int))
        for name, draw in SHAPES.items()
    }


def ranks_of(model: nn.Module, data: CheckIns) -> Tensor:
    """Return the target's rank in each query of the test part; tied candidates in random order."""
    generator = torch.Generator().manual_seed(0)
    ranks = []
    for _, batch, scores in score_test_part(model, data):
        ranking = Ranking.from_scores(scores, batch["targets"][:, -1])
        above, tied = ranking.above[:, 0], ranking.tied[:, 0]
        drawn = torch.rand(len(tied), generator=generator, dtype=torch.float64) * tied
        ranks.append(above + drawn.long() + 1)
    return torch.cat(ranks)


def compare(
    ranks: Tensor, num_candidates: int, num_sampled: int, repeats: int
) -> dict[str, list[float]]:
    """Return true, naive and corrected values, with how many times nearer these are."""
    rng = np.random.default_rng(1)
    samples = [
        1 + rng.hypergeometric(ranks - 1, num_candidates - ranks, num_sampled)
        for _ in range(repeats)
    ]
    found = {}
    for name, metric in METRICS.items():
        true = float(metric(Ranking.from_ranks(ranks)))
        metric.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # says that such a sample is uncertain
            estimates = [
                analysis.correct_sampled(
                    sample, num_sampled, num_candidates, metric, num_resamples=2
                )
                for sample in samples
            ]
        naive = torch.tensor([one.naive for one in estimates])
        row = [true, float(naive.mean())]
        for method in estimates[0].methods:
            values = torch.tensor([one.methods[method].value for one in estimates])
            nearer = (naive - true).abs().mean() / (values - true).abs().mean()
            row += [float(values.mean()), float(nearer)]
        found[name] = row
    return found


def rows(name: str, found: dict[str, list[float]]) -> list[str]:
    """Lay out the values of some ranks, in percent."""
    lines = []
    for metric, (true, naive, *pairs) in found.items():
        cells = "".join(
            f"{100 * value:8.2f} ({nearer:5.1f})"
            for value, nearer in zip(pairs[::2], pairs[1::2], strict=True)
        )
        lines.append(f"{name:26} {metric:8}{100 * true:8.2f}{100 * naive:8.2f}{cells}")
    return lines


def main(arguments: list[str] | None = None) -> dict[str, dict[str, list[float]]]:
    """Print the table, and return its values."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, help=".npz file of check-ins")
    parser.add_argument("--repeats", type=int, default=5, help="samples per row")
    parser.add_argument("--sampled", type=int, default=100, help="candidates per sample")
    options = parser.parse_args(arguments)
    data, _ = read_check_ins(options.data)
    size = data.num_locations - FIRST_LOCATION
    cases = {name: (ranks, 5000) for name, ranks in simulated_ranks(5000).items()}
    for name, model in {
        "most frequent of all users": MostFrequent(data),
        "most visited by the user": MostVisited(data),
        "Markov chain of the user": Markov(data),
    }.items():
        cases[name] = ranks_of(model, data), size
    methods = "".join(f"{name:>16}" for name in ("em", "bias-variance", "rescaled"))
    print(f"{'percent':35}{'true':>8}{'naive':>8}{methods}")
    found = {}
    for name, (ranks, num_candidates) in cases.items():
        found[name] = compare(ranks, num_candidates, options.sampled, options.repeats)
        print("\n".join(rows(name, found[name])), flush=True)
    return found


if __name__ == "__main__":
    main()
