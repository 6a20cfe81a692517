"""Time GEO-BLEU and DTW of 10,000 pairs of 48 points beside the usual procedure in plain Python.

The usual one is `geobleu` (yahoojapan) if it can be imported, and otherwise its procedure with the
`math` module, which is faster than with scalars of NumPy: a list of all pairs of n-grams that is
made anew at every match. Its time is taken on a sample, in the same run.

python benchmarks/trajectories.py [--pairs 10000] [--sample 5] [--threads 2]
"""

import argparse
import importlib
import math
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from harness import installed, machine

from nextloc_metrics.trajectories import DTW, GeoBLEU, PairMetric

POINTS = 48
Pair = tuple[list[tuple[float, float]], list[tuple[float, float]]]


def walks(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make random walks on a grid, and predictions near them."""
    torch.manual_seed(0)
    true = torch.randint(-2, 3, (number, POINTS, 2)).cumsum(1)
    return (true + torch.randint(-2, 3, true.shape)).double(), true.double()


def match_in_lists(pred: Any, true: Any, n: int, beta: float) -> float:
    """Sum the proximities of matched n-grams over the number of predicted ones."""
    edges = []
    for i in range(len(pred) - n + 1):
        for j in range(len(true) - n + 1):
            near = 1.0
            for step in range(n):
                near *= math.exp(-beta * math.dist(pred[i + step], true[j + step]))
            edges.append((i, j, near))
    edges.sort(key=lambda edge: edge[2], reverse=True)
    total = 0.0
    while edges:
        row, column, near = edges[0]
        total += near
        edges = [edge for edge in edges if edge[0] != row and edge[1] != column]
    return total / (len(pred) - n + 1)


def geo_bleu_in_lists(pred: Any, true: Any) -> float:
    """Return GEO-BLEU of sequences of equal length."""
    shares = [match_in_lists(pred, true, n, 0.5) for n in range(1, 6)]
    return math.exp(sum(map(math.log, shares)) / 5)


def dtw_in_lists(pred: Any, true: Any) -> float:
    """Return the DTW in km."""
    table = [[math.inf] * (len(true) + 1) for _ in range(len(pred) + 1)]
    table[0][0] = 0.0
    for i, one in enumerate(pred, 1):
        for j, other in enumerate(true, 1):
            before = min(table[i - 1][j], table[i][j - 1], table[i - 1][j - 1])
            table[i][j] = math.dist(one, other) / 2 + before
    return table[-1][-1]


def usual() -> tuple[str, dict[str, Callable[[Any, Any], float]]]:
    """Return the usual procedure, and its name."""
    if not installed("geobleu"):
        return "plain Python", {"GEO-BLEU": geo_bleu_in_lists, "DTW": dtw_in_lists}
    geobleu = importlib.import_module("geobleu")
    return "geobleu", {
        "GEO-BLEU": lambda p, t: geobleu.calc_geobleu_orig(p, t, max_n=5, beta=0.5),
        "DTW": lambda p, t: geobleu.calc_dtw_orig(p, t, scale_factor=2.0),
    }


def compare(name: str, metric: PairMetric, other: Any, pairs: Any, sample: int, title: str) -> None:
    """Print the time per pair of both, and their ratio; their values must agree."""
    preds, target = pairs
    metric.update(preds[:10], target[:10])
    times = []
    for _ in range(3):
        metric.reset()
        began = time.perf_counter()
        metric.update(preds, target)
        value = metric.compute()
        times.append((time.perf_counter() - began) / len(preds))
    ours = statistics.median(times)
    began = time.perf_counter()
    wanted = [
        other([tuple(x) for x in p], [tuple(x) for x in t])
        for p, t in zip(preds[:sample].tolist(), target[:sample].tolist(), strict=True)
    ]
    theirs = (time.perf_counter() - began) / sample
    found = metric.scores_of(metric.read(preds[:sample], target[:sample]))[0]
    assert torch.allclose(found, torch.tensor(wanted, dtype=torch.float64), atol=1e-6)
    print(
        f"{name:10}{float(value):10.4f}{1e6 * ours:14.1f} us{1e3 * theirs:14.2f} ms ({title})"
        f"{theirs / ours:12,.0f} times",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--sample", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(machine())
    print(f"{arguments.pairs:,} pairs of {POINTS} points; time per pair")
    title, others = usual()
    pairs = walks(arguments.pairs)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    compare("GEO-BLEU", GeoBLEU.as_of(2025), others["GEO-BLEU"], pairs, arguments.sample, title)
    compare("DTW", DTW.as_of(2025), others["DTW"], pairs, 10 * arguments.sample, title)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"memory beside the pairs: {(after - before) / 1024:.0f} MB; bytes of a state: 24 and 56")


if __name__ == "__main__":
    main()
