"""Time the transport and the T-mAP of 2,000 sequences of 32 events beside HoTPP's code with SciPy.

HOTPP names a clone of github.com/ivan-chai/hotpp-benchmark; without it only this library is timed.
Times are those of the processor, the least of some rounds.

HOTPP=FOLDER python benchmarks/horizon.py [--sequences 2000] [--places 5] [--rounds 5]
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
from harness import machine

from nextloc_metrics.events import EventMAP, EventTransport

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from events.hotpp import load_hotpp

EVENTS, HORIZON, THRESHOLDS = 32, 30.0, [0.5, 1.0, 2.0, 4.0]


def evaluate(metric: Any, arguments: Any) -> tuple[float, Any]:
    """Return the seconds of the processor of an update with its value, and the value."""
    metric.reset()
    began = time.process_time()
    metric.update(*arguments)
    value = metric.compute()
    return time.process_time() - began, value


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--places", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    size, places = (options.sequences, EVENTS), options.places
    times, true = (torch.rand(size).mul(HORIZON).sort(1).values for _ in range(2))
    scores, labels = torch.rand(*size, places), torch.randint(places, size)
    decided, whole = scores.argmax(2), torch.ones(size, dtype=torch.bool)
    transport = EventTransport(1.0, 1.0)
    tmap = EventMAP(HORIZON, THRESHOLDS, average="all", num_places=places, as_hotpp=True)
    pooled = torch.zeros(len(true)), whole, true, labels, whole, times, scores
    rows: list[tuple[str, Any, Any, Any, str]] = [
        ("OTD", transport, decided, (true, labels, times, decided), "optimal-transport-distance"),
        ("T-mAP", tmap, scores, pooled, "T-mAP"),
    ]
    hotpp = load_hotpp()
    theirs: dict[str, Any] = {}
    if hotpp is not None:
        theirs["OTD"] = hotpp["otd"].OTDMetric(1.0, 1.0)
        theirs["T-mAP"] = hotpp["tmap"].TMAPMetric(HORIZON, THRESHOLDS)
    print(machine())
    for name, metric, predicted, given, key in rows:
        both = [(metric, ((times, predicted), (true, labels)))]
        both += [(theirs[name], given)] if name in theirs else []
        values = [evaluate(one, arguments)[1] for one, arguments in both]
        least = [min(evaluate(*one)[0] for _ in range(options.rounds)) for one in both]
        print(f"{name} of {size[0]:,} sequences, {places} places: {1e3 * least[0]:.1f} ms", end="")
        if name in theirs:
            assert abs(float(values[0]) - values[1][key]) < 1e-4
            print(f", HoTPP {1e3 * least[1]:.1f} ms: {least[1] / least[0]:.1f} times", end="")
        print()


if __name__ == "__main__":
    main()
