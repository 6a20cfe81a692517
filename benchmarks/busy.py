"""Wall time of evaluations on a busy machine, by default and on one thread.

A busy loop runs on each core, beside the evaluation of two Parquet files of lists by hour,
clustered by user. Each run is a process of its own; all take turns, and medians are compared.

    python benchmarks/busy.py --rows 3000000 --turns 3
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tables import write

TABLE = """
import sys
from nextloc_metrics import report
report.evaluate(sys.argv[1], k=1, groups=["hour"], cluster="user")
"""


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Run so many busy loops meanwhile."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def seconds(command: list[str], **environment: str) -> float:
    """Return how long a command takes."""
    usual = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=usual | environment)
    return time.perf_counter() - began


def main() -> None:
    """Write the files, and print the medians; fail where a default takes over 1.5 times as long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, busy(os.cpu_count() or 1):
        for number in range(2):
            write(Path(folder) / f"{number}.parquet", arguments.rows // 2)
        score = [sys.executable, "-m", "nextloc_metrics", "score", folder, "--k", "1"]
        score += ["--group", "hour", "--cluster", "user"]
        contestants = {
            "score, OMP_NUM_THREADS=1": (score, {"OMP_NUM_THREADS": "1"}),
            "score": (score, {}),
            "score --workers 2": ([*score, "--workers", "2"], {}),
            "evaluate": ([sys.executable, "-c", TABLE, folder], {}),
        }
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(arguments.turns):
            for name, (command, environment) in contestants.items():
                times[name].append(seconds(command, **environment))
    medians = {name: statistics.median(found) for name, found in times.items()}
    floor = next(iter(medians.values()))
    print(f"{arguments.rows:,} lists, a busy loop on each of {os.cpu_count()} cores")
    for name, median in medians.items():
        print(f"{name:30} {median:7.1f} s {median / floor:6.2f}")
    if max(medians.values()) > 1.5 * floor:
        sys.exit("a default takes more than 1.5 times one thread")


if __name__ == "__main__":
    main()
