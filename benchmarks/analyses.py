"""CPU time of what runs once per evaluation, over one pass of PyTorch's over the same data.

Contestants take turns in one run, on one thread; each figure is the least of its rounds, as other
work on the machine only adds to it.

    python benchmarks/analyses.py [--rounds 3] [--only temperature]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from harness import Contestants, machine

from nextloc_metrics import analysis

LOCATIONS = 3_818


def temperature() -> Contestants:
    """Fit a temperature, without and with a mask; one pass is a softmax in float64."""
    logits = 3 * torch.randn(16_000, LOCATIONS)
    target = torch.distributions.Categorical(logits=logits / 2.5).sample()
    mask = torch.rand(len(logits)) < 0.9
    return {
        "log_softmax in float64": lambda: [
            x.double().log_softmax(1) for x in torch.split(logits, 64)
        ],
        "fit_temperature": lambda: analysis.fit_temperature(logits, target),
        "fit_temperature with a mask": lambda: analysis.fit_temperature(logits, target, mask),
    }


def predictability() -> Contestants:
    """Estimate limits of 1,000 people, 80 % at home; one pass is one sort of the 20 shuffles."""
    draw = np.random.default_rng(0)
    visits = np.where(draw.random(1_000_000) < 0.8, 0, draw.integers(1, 40, 1_000_000))
    users = np.repeat(np.arange(1_000), 1_000)
    return {
        "sort": lambda: [np.argsort(np.tile(x, (20, 1)), 1) for x in visits.reshape(-1, 1_000)],
        "predictability": lambda: analysis.predictability(visits, users),
    }


TABLES = {"temperature": temperature, "predictability": predictability}


def measure(title: str, contestants: Contestants, rounds: int) -> None:
    """Print the seconds of each, and their ratio to those of the first."""
    least = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            began = time.process_time()
            run()
            least[name] = min(least[name], time.process_time() - began)
    floor = next(iter(least.values()))
    print(f"\n{title}")
    for name, seconds in least.items():
        print(f"{name:44} {seconds:8.3f} s {seconds / floor:7.2f}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=TABLES, help="one table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(machine())
    for title, make in TABLES.items():
        if options.only in (None, title):
            torch.manual_seed(0)
            measure(title, make(), options.rounds)


if __name__ == "__main__":
    main()
