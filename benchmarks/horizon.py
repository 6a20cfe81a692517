"""Time the transport and the T-mAP of 2,000 sequences of 32 events beside HoTPP's code with SciPy.

HOTPP names a clone of github.com/ivan-chai/hotpp-benchmark; without it only this library is timed.
Contestants run in turn, and times are those of the processor.

HOTPP=FOLDER python benchmarks/horizon.py [--sequences 2000] [--places 5] [--seconds 20] [--json F]
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import machine, report, write

from nextloc_metrics.mobility.events import EventMAP, EventTransport

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from events.hotpp import load_hotpp

EVENTS, HORIZON, THRESHOLDS = 32, 30.0, [0.5, 1.0, 2.0, 4.0]


def evaluate(metric: Any, arguments: Any) -> Any:
    """Return the value of an update."""
    metric.reset()
    metric.update(*arguments)
    return metric.compute()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--places", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
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
    tables = []
    for name, metric, predicted, given, key in rows:
        contestants = {"here": partial(evaluate, metric, ((times, predicted), (true, labels)))}
        if name in theirs:
            contestants["HoTPP"] = partial(evaluate, theirs[name], given)
            assert abs(float(contestants["here"]()) - contestants["HoTPP"]()[key]) < 1e-4
        title = f"{name} of {size[0]:,} sequences of {EVENTS} events, {places} places"
        tables.append(report(title, contestants, options.seconds, name, clock=time.process_time))
    write(options.json, {"horizon": tables})


if __name__ == "__main__":
    main()
