"""Time and memory of the metrics of probabilities, beside `torch.log_softmax` of the same scores.

The ratios are of one run, each the median of several alternating calls.

    python benchmarks/probabilities.py
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from nextloc_metrics import RankingCollection, backends, probability_metrics

_CALLS = 15


def times(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median seconds of each function; calls alternate."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for call in range(_CALLS + 1):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            if call:  # the first call loads and checks the backend
                found[name].append(time.perf_counter() - begin)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def measure(columns: int) -> None:
    """Print the times for rows of this length."""
    torch.manual_seed(0)
    scores, target = 3 * torch.randn(256, columns), torch.randint(columns, (256,))
    members = dict(probability_metrics(given="logits").named_members())
    sets = RankingCollection({name: members.pop(name) for name in ("set_coverage", "set_size")})
    metrics = RankingCollection(members)
    seconds = times(
        {
            "log_softmax": lambda: torch.log_softmax(scores, 1),
            "preset without sets": lambda: metrics.update(scores, target),
            "sets": lambda: sets.update(scores, target),
        }
    )
    for name, taken in seconds.items():
        ratio = taken / seconds["log_softmax"]
        print(f"256 x {columns:7,} {name:20} {1e3 * taken:8.2f} ms {ratio:6.2f}")


def main() -> None:
    """Measure two sizes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", help="a backend; by default the fastest one")
    backends.use(parser.parse_args().backend)
    print(f"{torch.get_num_threads()} threads, float32, medians of {_CALLS} calls")
    for columns in (10_000, 100_000):
        measure(columns)


if __name__ == "__main__":
    main()
