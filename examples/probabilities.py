"""How likely, how calibrated, when to trust? The probabilities of a GRU on check-ins.

    python probabilities.py                # simulated check-ins
    python probabilities.py check_ins.csv  # or a folder, as for next_location.py

The program trains the GRU of next_location.py, fits one temperature on the validation part, and
prints the metrics of probabilities on the test part before and after. Visits to locations that
never occur in training are left out: they have the probability 0 for every model.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import next_location
from check_ins import UNSEEN, CheckIns, read_or_simulate, score_test_part
from nextloc_metrics import (
    RankingCollection,
    analysis,
    plotting,
    probability_metrics,
    tables,
)


def scores_of(model: Any, data: CheckIns, length: int, part: int) -> tuple[Tensor, Tensor]:
    """Return scores and targets of the queries of a part whose target can be predicted."""
    rows = data.queries(part)
    found = torch.cat([scores for _, _, scores in score_test_part(model, data, length, part)])
    known = data.location[rows] != UNSEEN
    return found[known], data.location[rows][known]


def evaluate(scores: Tensor, target: Tensor, temperature: float) -> RankingCollection:
    """Evaluate the probabilities at one temperature."""
    given: Any = {"given": "logits", "temperature": temperature}
    metrics = probability_metrics(**given)
    for rows in torch.arange(len(target)).split(1024):
        metrics.update(scores[rows], target[rows])
    return metrics


def main(arguments: list[str] | None = None) -> dict[str, RankingCollection]:
    """Print the tables, and draw the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--limit", type=int, help="use only this number of users")
    parser.add_argument("--epochs", type=int, default=15, help="at most")
    parser.add_argument("--output", type=Path, default=Path("runs/probabilities"))
    options = parser.parse_args(arguments)
    training = ["--epochs", str(options.epochs), "--output", str(options.output)]
    training += [] if options.data is None else [str(options.data)]
    training += [] if options.limit is None else ["--limit", str(options.limit)]
    model = next_location.main(training)["GRU"].model.eval()
    data = read_or_simulate(options.data, options.limit)
    length = next_location.parse_arguments(training).length

    temperature = analysis.fit_temperature(*scores_of(model, data, length, part=1))
    scores, target = scores_of(model, data, length, part=2)
    found = {
        "as trained": evaluate(scores, target, 1.0),
        f"temperature {temperature:.2f}": evaluate(scores, target, temperature),
    }
    print(f"\n{len(target):,} visits to known locations, {scores.shape[1]:,} candidates")
    print(tables.side_by_side(found))

    last = list(found.values())[-1]
    pictures = {
        "reliability.png": plotting.reliability(found["as trained"]["ece"]),
        "reliability_after.png": plotting.reliability(last["ece"]),
    }
    for name, (figure, _) in pictures.items():
        plotting.save(figure, options.output / name)
    return found


if __name__ == "__main__":
    main()
