"""Measure how the time of an update grows, and of evaluations also the memory.

python benchmarks/growth.py [--seconds 4] [--smallest] [--check] [--json growth.json]

A slope is that of a straight line through the logarithms: 1 is proportional, 0 is no growth. With
`--check`, evaluations alone are measured, and a slope above 1.15 is an error. The time to the first
result stands last.
"""

import argparse
import math
import statistics
import sys
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


# A program makes data of a size and calls; it prints CPU seconds, and megabytes beyond those before
# the first call.
_EVALUATION = """
import json, resource, sys, time
import numpy as np
import torch
from nextloc_metrics import report
torch.set_num_threads(1)
torch.manual_seed(0)
size = int(sys.argv[1])
def lists(number, k=10):
    preds = torch.randint(3000, (number, k))
    return preds, torch.where(torch.rand(number) < .3, preds[:, 0], torch.randint(3000, (number,)))
{make}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
call()
best = []
for _ in range(3):
    began = time.process_time()
    call()
    best.append(time.process_time() - began)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([min(best), (peak - before) / 1024]))
"""
EVALUATIONS: dict[str, tuple[Sequence[int], str]] = {
    "queries": (
        (10**4, 10**5, 10**6),
        "preds, target = lists(size)\n"
        "call = lambda: report.evaluate(preds, target, num_locations=3000)",
    ),
    "groups, of 200,000 queries": (
        (10**2, 10**3, 10**4, 10**5),
        "preds, target = lists(200_000)\n"
        "users = torch.randint(size, (200_000,))\n"
        "call = lambda: report.evaluate(preds, target, num_locations=3000, groups={'user': users})",
    ),
    "clusters, of 200,000 queries": (
        (10**2, 10**3, 10**4, 10**5),
        "preds, target = lists(200_000)\n"
        "users = torch.randint(size, (200_000,))\n"
        "call = lambda: report.evaluate(\n"
        "    preds, target, num_locations=3000, groups={'user': users}, cluster='user')",
    ),
    "targets of each of 20,000 queries": (
        (1, 10, 100),
        "preds, _ = lists(20_000)\n"
        "target = torch.rand(size + 1, 20_000).argsort(0)[:size].T.contiguous()\n"
        "call = lambda: report.evaluate(preds, target)",
    ),
    "models, against the first, 5,000 queries": (
        (2, 4, 8, 16),
        "models = {f'm{i}': lists(5000)[0] for i in range(size + 1)}\n"
        "target = lists(5000)[1]\n"
        "call = lambda: report.compare(models, target, num_locations=3000)",
    ),
}
_MOST = 1.15
_LOADED = 40.0  # megabytes


def evaluations(most_sizes: int | None = None) -> list[Result]:
    """Measure evaluations of every size in fresh processes; print and return times and slopes."""
    results = []
    print("\nhow a call grows: slopes of CPU seconds and of memory; sizes with seconds")
    for meaning, (every_size, make) in EVALUATIONS.items():
        sizes = every_size[:most_sizes]
        code = _EVALUATION.replace("{make}", make)
        found = [in_new_process(code, size) for size in sizes]
        times, peaks = [x for x, _ in found], [x for _, x in found]
        # that of the last step, as small sizes take the time of the call itself
        last = slope(sizes[-2:], times[-2:])
        # what a first call loads is no growth either
        of_memory = slope(sizes[-2:], [max(_LOADED, x) for x in peaks[-2:]])
        cells = "".join(f"{size:>10,}{x:8.3f}" for size, x in zip(sizes, times, strict=True))
        print(f"{meaning:42}{last:6.2f}{of_memory:6.2f}{cells}")
        result = {"grows": meaning, "sizes": list(sizes), "seconds": times, "megabytes": peaks}
        results.append(result | {"slope": last, "slope_of_memory": of_memory})
    return results


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
    parser.add_argument("--check", action="store_true", help="fail where evaluations grow faster")
    options = parser.parse_args()
    print(machine())
    if options.check:
        found = evaluations()
        write(options.json, {"evaluations": found})
        wrong = [x for x in found if max(x["slope"], x["slope_of_memory"]) > _MOST]
        if wrong:
            sys.exit(f"slopes above {_MOST}: {', '.join(str(x['grows']) for x in wrong)}")
        return
    if options.smallest:
        write(options.json, {"growth": growth(0.1, most_sizes=2)})
        return
    sections = {"growth": growth(options.seconds), "evaluations": evaluations()}
    write(options.json, sections | {"first": first_result(3)})


if __name__ == "__main__":
    main()
