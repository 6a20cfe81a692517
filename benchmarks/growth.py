"""Measure how the time of an update grows, and the time to the first result.

python benchmarks/growth.py [--seconds 4] [--smallest] [--json growth.json]

A slope is that of a straight line through the logarithms: 1 is proportional, 0 is no growth.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from harness import (
    Contestants,
    Result,
    both_backends,
    in_new_process,
    machine,
    median_time,
    race,
    write,
)

from nextloc_metrics import next_location_metrics, recommendation_metrics


def preset(num_queries: int, num_candidates: int) -> Callable[[], object]:
    """Make an update of the next-location preset."""
    metrics = next_location_metrics(num_candidates)
    scores = torch.randn(num_queries, num_candidates)
    target = torch.randint(num_candidates, (num_queries,))
    return lambda: metrics.update(scores, target)


def several(num_relevant: int, k: int) -> Callable[[], object]:
    """Make an update of the recommendation preset with scores [64, 10,000]."""
    metrics = recommendation_metrics(k=k)
    scores = torch.randn(64, 10_000)
    relevant = torch.rand(64, 10_000).topk(num_relevant).indices
    return lambda: metrics.update(scores, relevant)


GROWTH: dict[str, tuple[str, Sequence[int], Callable[[int], Callable[[], object]]]] = {
    "N": ("queries, of 10,000 candidates", (64, 256, 1024, 4096), lambda n: preset(n, 10_000)),
    "C": ("candidates, of 64 queries", (10**3, 10**4, 10**5, 10**6), lambda c: preset(64, c)),
    "M": ("relevant per query", (1, 4, 16, 64, 256, 1024), lambda m: several(m, 10)),
    "k": ("cut-off, 10 relevant", (1, 10, 100, 1000), lambda k: several(10, k)),
}


def slope(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Fit a straight line through the logarithms."""
    return statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(time) for time in times]
    ).slope


def growth(seconds: float, most_sizes: int | None = None) -> list[Result]:
    """Race an update at every size, print the times and slopes, and return them."""
    results = []
    print("\nmilliseconds of an update, and how they grow")
    for letter, (meaning, every_size, make) in GROWTH.items():
        torch.manual_seed(0)
        sizes = every_size[:most_sizes]
        contestants: Contestants = {}
        for size in sizes:
            contestants |= both_backends(partial(make, size), f" {size}")
        rounds = race(contestants, seconds)
        print(f"\n{letter + ': ' + meaning:40}" + "".join(f"{x:>11,}" for x in sizes) + "    slope")
        paths = sorted({name.rsplit(" ", 1)[0] for name in contestants}, reverse=True)
        for path in paths:
            times = [median_time(rounds, f"{path} {size}") for size in sizes]
            fitted = slope(sizes, times)
            print(f"{path:40}" + "".join(f"{x:11.3f}" for x in times) + f"{fitted:9.2f}")
            result = {"grows": letter, "meaning": meaning, "path": path, "sizes": list(sizes)}
            results.append(result | {"milliseconds": times, "slope": fitted})
    return results


_FIRST = """
import time
began = time.perf_counter()
{imports}
{rest}
print(time.perf_counter() - began)
"""
_RESULT = """
metrics = nextloc_metrics.next_location_metrics(1187)
metrics.update(torch.zeros(256, 1187), torch.arange(256))
metrics.compute()["mrr"].item()
"""


def first_result(repetitions: int) -> list[Result]:
    """Print the seconds of a fresh process from its first import to an import or a result."""
    bare, whole = "import torch, torchmetrics", "import torch, nextloc_metrics"
    programs = {
        f"`{bare}`": (bare, ""),
        f"`{whole}`": (whole, ""),
        "first result": (whole, _RESULT),
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    in_new_process(_FIRST.format(imports=whole, rest=""))  # warm the disk cache
    for _ in range(repetitions):
        for name, (imports, rest) in programs.items():
            times[name].append(in_new_process(_FIRST.format(imports=imports, rest=rest)))
    print(f"\n{'seconds in a fresh process, medians':52}{'s':>10}")
    results = []
    for name, taken in times.items():
        print(f"{name:52}{statistics.median(taken):10.2f}")
        results.append({"name": name, "seconds": statistics.median(taken), "turns": len(taken)})
    return results


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--seconds", type=float, default=4.0, help="of every size that grows")
    parser.add_argument("--smallest", action="store_true", help="two sizes, no fresh processes")
    options = parser.parse_args()
    print(machine())
    if options.smallest:
        write(options.json, {"growth": growth(0.1, most_sizes=2)})
        return
    write(options.json, {"growth": growth(options.seconds), "first": first_result(3)})


if __name__ == "__main__":
    main()
