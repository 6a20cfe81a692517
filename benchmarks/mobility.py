"""Measure the time of all measures of generated mobility over many points, and of their floors.

python benchmarks/mobility.py [--points 2000000] [--smallest]
"""

import argparse
import time

import numpy as np
import torch
from harness import machine

from nextloc_metrics.geography import Locations
from nextloc_metrics.mobility.generated import Trajectories, mobility_metrics

LOCATIONS, LENGTH = 5_000, 48


def days(number: int, seed: int) -> Trajectories:
    """Make days of half hours, with stays, of users with ten days each."""
    draw = np.random.default_rng(seed)
    moves = draw.random((number, LENGTH)) < 0.2
    places = np.minimum(draw.zipf(1.3, (number, LENGTH)), LOCATIONS) - 1
    at = np.maximum.accumulate(np.where(moves, np.arange(LENGTH), 0), axis=1)
    ids = np.take_along_axis(places, at, 1)
    return Trajectories(torch.from_numpy(ids), step=0.5, users=np.arange(number) // 10)


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=2_000_000, help="of both sets together")
    parser.add_argument("--smallest", action="store_true", help="run on few points, as a check")
    options = parser.parse_args()
    rows = (20_000 if options.smallest else options.points) // LENGTH // 2
    draw = np.random.default_rng(0)
    locations = Locations(40.7 + draw.normal(0, 0.08, LOCATIONS), draw.normal(-74, 0.08, LOCATIONS))
    print(machine())
    began = time.perf_counter()
    generated, real = days(rows, 1), days(rows, 2)
    print(
        f"2 x {rows:,} days of {LENGTH} points made and read: {time.perf_counter() - began:.2f} s"
    )
    metrics = mobility_metrics("ids", times=True, locations=locations)
    total = time.perf_counter()
    for name, measure in metrics.measures().items():
        began = time.perf_counter()
        measure.update(generated, real)
        updated = time.perf_counter()
        measure.result()
        ended = time.perf_counter()
        print(f"{name}: update {updated - began:.2f} s, value and floor {ended - updated:.2f} s")
    print(f"all measures: {time.perf_counter() - total:.2f} s")
    print(metrics.table())


if __name__ == "__main__":
    main()
