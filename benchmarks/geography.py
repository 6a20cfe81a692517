"""Measure the time of distances, exploration metrics, and the search for neighbours.

python benchmarks/geography.py [--seconds 5]
"""

import argparse
import time

import torch
from harness import machine, report

from nextloc_metrics import Visits, exploration_metrics, next_location_metrics
from nextloc_metrics.geography import Locations

QUERIES = 256


def town(number: int) -> Locations:
    """Make locations that are spread over a city of about 20 km."""
    spread = torch.randn(2, number, generator=torch.Generator().manual_seed(0))
    return Locations(40.7 + 0.08 * spread[0], -74 + 0.08 * spread[1])


def neighbours() -> None:
    """Print the number of neighbours, and the time to find them."""
    for number, km in ((5_135, 1.0), (5_135, 5.0), (100_000, 0.1), (100_000, 1.0)):
        locations = town(number)
        began = time.perf_counter()
        starts, near = locations.neighbours(km)
        seconds = time.perf_counter() - began
        most = int(starts.diff().max())
        print(
            f"{number:,} locations, {km:g} km: {len(near):,} neighbours, at most {most:,} of one, "
            f"{seconds:.1f} s"
        )


def updates(number: int, seconds: float) -> None:
    """Print the time of an update: the preset, with distances, and with exploration metrics."""
    scores = torch.randn(QUERIES, number)
    target = torch.randint(number, (QUERIES,))
    visits = Visits(torch.randint(20, (10_000,)), torch.randint(number, (10_000,)))
    groups = {"visited": torch.rand(QUERIES) < 0.8, "check_in": torch.arange(QUERIES)}
    plain = next_location_metrics(number)
    distances = next_location_metrics(number, locations=town(number))
    explored = exploration_metrics(visits=visits)

    def with_exploration() -> None:
        plain.update(scores, target)
        explored.update(scores, target, groups=groups)

    report(
        f"{QUERIES} queries, {number:,} locations",
        {
            "the preset": lambda: plain.update(scores, target),
            "the preset with distances": lambda: distances.update(scores, target),
            "the preset, then exploration": with_exploration,
        },
        seconds,
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of a table")
    options = parser.parse_args()
    print(machine())
    neighbours()
    for number in (5_135, 100_000):
        updates(number, options.seconds)


if __name__ == "__main__":
    main()
