"""Run all benchmarks, and write them as JSON for `render.py`.

python benchmarks/run_all.py [--seconds 4] [--json results.json]
"""

import argparse
import time
from pathlib import Path

import embeddings
import growth
import harness
import memory
import speed


def main() -> None:
    """Print every table, in about five minutes with the defaults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a table")
    options = parser.parse_args()
    began = time.perf_counter()
    print(harness.machine())
    # fresh processes first, before this process uses memory
    sections = {"first": growth.first_result(3), "peaks": memory.peaks()}
    sections |= {
        "states": memory.states(),
        "speed": speed.measure(options.seconds),
        "growth": growth.growth(options.seconds),
        "embeddings": embeddings.measure(2 * options.seconds),
    }
    harness.write(options.json, sections)
    print(f"{time.perf_counter() - began:.0f} s in total")


if __name__ == "__main__":
    main()
