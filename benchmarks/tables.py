"""Time and memory of `nextloc-metrics score` on Parquet files of lists, beside a plain loop.

Each figure is of a process of its own, on one thread: the seconds of its processor, which other
work on the machine changes little, and the peak of its memory.

    python benchmarks/tables.py --rows 4000000
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LOOP = """
import sys, torch
from pyarrow import parquet
from nextloc_metrics import next_location_metrics
metrics = next_location_metrics(5000)
for batch in parquet.ParquetFile(sys.argv[1]).iter_batches(1 << 17, columns=["preds", "target"]):
    lists = torch.from_numpy(batch["preds"].flatten().to_numpy()).view(len(batch), -1)
    metrics.update(lists, torch.from_numpy(batch["target"].to_numpy()))
print(metrics.compute())
"""


def write(path: Path, rows: int) -> None:
    """Write lists of ten ids, with users and hours, in row groups."""
    import pyarrow as pa
    from pyarrow import parquet

    generator = np.random.default_rng(0)
    kinds = {"preds": pa.list_(pa.int64(), 10), "target": pa.int64(), "user": pa.string()}
    schema = pa.schema([*kinds.items(), ("hour", pa.int64())])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1 << 18):
            number = min(1 << 18, rows - start)
            lists = pa.array(generator.integers(0, 5000, 10 * number))
            user = np.char.add("user ", generator.integers(0, 20000, number).astype(str))
            columns = [
                pa.FixedSizeListArray.from_arrays(lists, 10),
                pa.array(generator.integers(0, 5000, number)),
                pa.array(user),
                pa.array(generator.integers(0, 24, number)),
            ]
            writer.write_table(pa.table(columns, schema=schema))


def measure(name: str, command: list[str]) -> tuple[float, float]:
    """Run a command; print and return its processor's seconds, and the GB of its peak memory."""
    counted = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
        "stdout=subprocess.DEVNULL); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", counted, *command],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env=environment,
    )
    seconds, kilobytes = map(float, done.stdout.split())
    memory = kilobytes / 1e6
    print(f"{name:40} {seconds:7.1f} s {memory:6.2f} GB", flush=True)
    return seconds, memory


def main() -> None:
    """Write a file, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lists.parquet"
        write(path, arguments.rows)
        score = [sys.executable, "-m", "nextloc_metrics", "score", str(path), "--k", "1"]
        loop, _ = measure("plain loop", [sys.executable, "-c", LOOP, str(path)])
        plain, _ = measure("score", score)
        grouped, _ = measure(
            "score by hour, clustered by user", [*score, "--group", "hour", "--cluster", "user"]
        )
        print(f"{arguments.rows:,} lists: {plain / loop:.2f} and {grouped / loop:.2f} of the loop")


if __name__ == "__main__":
    main()
