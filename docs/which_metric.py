"""Print the rows of the table of unseen locations in evaluation.md.

    python docs/which_metric.py FOLDER --checkpoint FILE

FOLDER holds check-ins as examples/next_location.py reads them. FILE holds the weights of the GRU
that it writes; without it, the GRU is skipped. Needs `pip install -e '.[examples]'`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from nextloc_metrics import RankingCollection, next_location_metrics

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from check_ins import PADDING, UNSEEN, CheckIns, Histories, read_parts
from models import Markov, MostVisited, ReturnOrExploreGRU

TREATMENTS = ("left out", "a miss", "a candidate")
NAMES = ("acc_at_1", "acc_at_10", "mrr", "f1")
Model = Callable[[dict[str, Tensor]], Tensor]


def with_unseen_visits(data: CheckIns) -> CheckIns:
    """Let the training part have the validation part's visits to unseen locations, as id 1.

    The baselines count them. The order of all other candidates does not change.
    """
    return replace(data, part=data.part.where((data.part != 1) | (data.location != UNSEEN), 0))


def always_unseen(data: CheckIns) -> Model:
    """Return a model that ranks id 1 first and all other locations equally."""
    scores = (torch.arange(data.num_locations) == UNSEEN).float()
    return lambda batch: scores.repeat(len(batch["user"]), 1)


def merge(data: CheckIns, vocabulary: Tensor) -> CheckIns:
    """Let all visits to locations outside of the vocabulary, bool `[C]`, be visits to id 1."""
    return replace(data, location=data.location.where(vocabulary[data.location], UNSEEN))


def evaluate(model: Model, data: CheckIns, length: int = 1) -> dict[str, RankingCollection]:
    """Return the metrics of the test part for the three treatments of unseen locations, id 1."""
    results = {name: next_location_metrics(data.num_locations) for name in TREATMENTS}
    for rows in data.queries(2).split(256):
        batch = Histories(data, rows, length).batch(list(range(len(rows))))
        with torch.no_grad():
            scores = model(batch)
        scores[:, PADDING] = -torch.inf
        target = batch["targets"][:, -1]
        known = target != UNSEEN
        results["a candidate"].update(scores, target)
        scores[:, UNSEEN] = -torch.inf
        results["a miss"].update(scores, target)
        results["left out"].update(scores, target, mask=known)
    return results


def format_rows(name: str, results: Mapping[str, RankingCollection]) -> str:
    """Write three rows of the table, in percent."""
    lines = []
    for treatment, metrics in results.items():
        values = metrics.compute()
        cells = [f"{metrics['mrr'].num_queries:,}", *(f"{100 * values[x]:.2f}" for x in NAMES)]
        lines.append(f"| {' | '.join([name, treatment, *cells])} |")
    return "\n".join(lines)


def main() -> None:
    """Print the rows of every model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    options = parser.parse_args()
    data = CheckIns.from_table(read_parts(options.folder))
    counted, often = with_unseen_visits(data), data.training_counts() >= 10
    print(format_rows("always id 1", evaluate(always_unseen(data), data)))
    print(format_rows("most visited", evaluate(MostVisited(counted), data)))
    print(format_rows("Markov", evaluate(Markov(counted), data)))
    row = evaluate(Markov(merge(counted, often)), merge(data, often))
    print(format_rows("Markov, 10 visits or more", row))
    if options.checkpoint is not None:
        gru = ReturnOrExploreGRU(data)
        weights = torch.load(options.checkpoint, weights_only=True)["state_dict"]
        gru.load_state_dict({key.removeprefix("model."): x for key, x in weights.items()})
        print(format_rows("GRU", evaluate(gru.eval(), data, length=64)))


if __name__ == "__main__":
    main()
