"""How many targets are tied, and what does that do to the numbers? Three precisions.

    python ties.py                                     # simulated check-ins, three baselines
    python ties.py check_ins.csv                       # or a folder, as for next_location.py
    python ties.py check_ins.csv --checkpoint runs/next_location/best.ckpt  # and the trained GRU

A model's scores are computed once and rounded to float32, float16 and bfloat16. For each, the table
says how many targets have the very score of another location, and what Acc@10 becomes: with the
target last, at random (the expectation, the default here) or first among its equals, and in the
order that `torch.topk` happens to give. Counting `(scores > own).sum()` puts the target first.
`--output ties.png` draws the bounds of the MRR.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from check_ins import FIRST_LOCATION, CheckIns, read_or_simulate, score_test_part
from next_location import Markov, MostVisited, ReturnOrExploreGRU
from nextloc_metrics import MRR, AccuracyAtK, Ranking, RankingCollection
from nextloc_metrics.record import Ties

K = 10
LENGTH = 64  # visits in a history, as in next_location.py
PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Transitions(nn.Module):
    """Score a location by how often anybody went there from the current one, and nothing else."""

    def __init__(self, data: CheckIns) -> None:
        super().__init__()
        row = data.queries(0)
        here, there = data.location[row - 1], data.location[row]
        self.moves = torch.sparse_coo_tensor(
            torch.stack([here, there]),
            torch.ones(len(row), dtype=torch.float64),
            (data.num_locations, data.num_locations),
            check_invariants=True,
        ).coalesce()

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Return scores ``[N, num_locations]``."""
        return self.moves.index_select(0, batch["history"][:, -1]).to_dense()


class Measurement:
    """What is counted for one model in one precision."""

    def __init__(self) -> None:
        self.metrics = RankingCollection(
            {
                f"{name} {ties}": kind(*options, ties=ties)
                for name, kind, options in [("acc", AccuracyAtK, (K,)), ("mrr", MRR, ())]
                for ties in get_args(Ties)
            }
        )
        self.tied = self.widest = self.topk_hits = self.queries = 0

    def update(self, scores: Tensor, target: Tensor) -> None:
        """Count a batch."""
        ranking = Ranking.from_scores(scores, target)
        self.metrics.update(ranking)
        self.tied += int((ranking.tied > 1).sum())
        self.widest = max(self.widest, int(ranking.tied.max()))
        self.topk_hits += int((scores.topk(K).indices == target[:, None]).sum())
        self.queries += len(target)

    def row(self) -> list[float]:
        """Return the numbers of a table's row: fractions, and the largest block."""
        values = {name: float(value) for name, value in self.metrics.compute().items()}
        accuracy = [values[f"acc {ties}"] for ties in ("pessimistic", "expected", "optimistic")]
        reciprocal = [values[f"mrr {ties}"] for ties in ("pessimistic", "expected", "optimistic")]
        topk = self.topk_hits / self.queries
        return [self.tied / self.queries, self.widest, *accuracy, topk, *reciprocal]


def batches(model: nn.Module, data: CheckIns, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield scores of the test part, in the precision of the model, and what was visited."""
    for _rows, batch, scores in score_test_part(model, data, length):
        target = batch["targets"][:, -1]
        known = target >= FIRST_LOCATION  # the others are a miss in any order
        yield scores[known], target[known]


def measure(model: nn.Module, data: CheckIns, length: int) -> dict[str, list[float]]:
    """Return a row of numbers for every precision."""
    measurements = {name: Measurement() for name in PRECISIONS}
    for scores, target in batches(model, data, length):
        for name, dtype in PRECISIONS.items():
            measurements[name].update(scores.to(dtype), target)
    return {name: measurement.row() for name, measurement in measurements.items()}


def load_gru(data: CheckIns, checkpoint: Path) -> nn.Module:
    """Return the GRU with the weights that next_location.py has written."""
    model = ReturnOrExploreGRU(data)
    weights = torch.load(checkpoint, weights_only=True)["state_dict"]
    prefix = "model."
    model.load_state_dict(
        {name.removeprefix(prefix): x for name, x in weights.items() if name.startswith(prefix)}
    )
    return model.eval()


def format_table(rows: dict[str, dict[str, list[float]]]) -> str:
    """Lay out fractions as percent."""
    title = f"{'percent':<14}{'precision':<10}"
    lines = [
        f"{'':<24}{'tied':>7}{'largest':>9}  {f'Acc@{K}':<32}MRR",
        f"{title}{'targets':>7}{'block':>9}"
        f"{'last':>7}{'random':>8}{'first':>8}{'topk':>8}{'last':>9}{'random':>8}{'first':>8}",
    ]
    for model, precisions in rows.items():
        for precision, (tied, widest, *shares) in precisions.items():
            cells = "".join(
                f"{100 * share:{width}.2f}"
                for share, width in zip(shares, (7, 8, 8, 8, 9, 8, 8), strict=True)
            )
            lines.append(f"{model:<14}{precision:<10}{100 * tied:7.2f}{widest:9,}{cells}")
    return "\n".join(lines)


def draw_bounds(rows: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Draw the MRR with the target last, at random and first among its equals."""
    figure = Figure(figsize=(7, 0.32 * 3 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    labels = []
    for model, precisions in rows.items():
        for precision, numbers in precisions.items():
            last, expected, first = (100 * value for value in numbers[-3:])
            place = len(labels) + len(labels) // len(PRECISIONS) / 2  # a gap after every model
            axes.plot([last, first], [place, place], color="0.6", linewidth=5)
            axes.plot(expected, place, "o", color="black", markersize=5)
            labels.append((place, f"{model}, {precision}"))
    axes.set_yticks(*zip(*labels, strict=True))
    axes.invert_yaxis()
    axes.set_xlabel("MRR (%): from target last to target first; the dot is the expectation")
    axes.grid(axis="x", alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main(argv: list[str] | None = None) -> dict[str, dict[str, list[float]]]:
    """Print the table and return its numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--checkpoint", type=Path, help="weights that next_location.py has written")
    parser.add_argument("--limit", type=int, help="simulate so many users only")
    parser.add_argument("--output", type=Path, help="write a picture here")
    options = parser.parse_args(argv)
    data = read_or_simulate(options.data, options.limit)
    models: dict[str, tuple[nn.Module, int]] = {
        "transitions": (Transitions(data), 1),
        "most visited": (MostVisited(data), 1),
        "Markov": (Markov(data), 1),
    }
    if options.checkpoint is not None:
        models["GRU"] = load_gru(data, options.checkpoint), LENGTH
    rows = {name: measure(model, data, length) for name, (model, length) in models.items()}
    print(format_table(rows))
    if options.output is not None:
        draw_bounds(rows, options.output)
    return rows


if __name__ == "__main__":
    main()
