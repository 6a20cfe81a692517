"""Time contestants side by side: interleaved in one run, as medians of paired ratios."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

Contestants = dict[str, Callable[[], object]]


def race(contestants: Contestants, seconds: float) -> dict[str, list[float]]:
    """Run the contestants in turn until the time is over; return milliseconds of every round."""
    for run in contestants.values():
        run()
    rounds: dict[str, list[float]] = {name: [] for name in contestants}
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(next(iter(rounds.values()))) < 5:
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            rounds[name].append(1000 * (time.perf_counter() - started))
    return rounds


def report(title: str, contestants: Contestants, seconds: float = 8.0) -> dict[str, object]:
    """Race the contestants, print a table, and return it; the first is what the ratios are to."""
    rounds = race(contestants, seconds)
    floor, *_ = rounds.values()
    print(f"\n{title}")
    print(f"{'':44}{'ms':>10}{'ratio':>9}")
    table: dict[str, object] = {}
    for name, times in rounds.items():
        ratio = statistics.median(t / f for t, f in zip(times, floor, strict=True))
        milliseconds = statistics.median(times)
        print(f"{name:44}{milliseconds:10.3f}{ratio:9.2f}", flush=True)
        table[name] = {"milliseconds": milliseconds, "ratio": ratio, "rounds": len(times)}
    return {"title": title, "contestants": table}


def machine() -> dict[str, object]:
    """Say what the figures were measured on."""
    model = platform.processor() or platform.machine()
    cpu_information = Path("/proc/cpuinfo")
    if cpu_information.exists():
        lines = cpu_information.read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def write(path: Path | None, results: list[dict[str, object]]) -> None:
    """Write the machine and the tables as JSON, where a path is given."""
    if path is not None:
        path.write_text(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n")
        print(f"\nwritten to {path}")
