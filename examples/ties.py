"""How many targets are tied, and how much do ties change the values? Three precisions.

    python ties.py                                     # simulated check-ins, three baselines
    python ties.py check_ins.csv                       # or a folder, as for next_location.py
    python ties.py check_ins.csv --checkpoint runs/next_location/best.ckpt  # and the trained GRU

The scores of a model are computed once and rounded to float32, float16 and bfloat16. The table
shows how many targets are tied with another location, and the Acc@10 for three orders of tied
candidates: target last, random order (the expectation, the default of the library), target first.
Counting `(scores > own).sum()` puts the target first. The column `topk` has the order that
`torch.topk` returns. `--output ties.png` draws the bounds of the MRR.

The queries are all visits of the test part, as in next_location.py. A location without a visit in
the training part is a miss in every order.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETLEFTBASE, CARETRIGHTBASE
from torch import Tensor, nn

from check_ins import CheckIns, Inputs, read_or_simulate, score_test_part
from models import ReturnOrExploreGRU
from nextloc_metrics import MRR, AccuracyAtK, Ranking, RankingCollection, plotting
from nextloc_metrics.core.ranking import Ties

K = 10
LENGTH = 64  # visits in a history, as in next_location.py
# Marker, colour (Okabe and Ito), size and label of the target last, in random order and first.
MARKERS = [
    (CARETLEFTBASE, "#56b4e9", 7, "target last"),
    ("o", "black", 4, "random order (expectation)"),
    (CARETRIGHTBASE, "#e69f00", 7, "target first"),
]
Key = Callable[[Tensor, Tensor], Tensor]
PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Counts(nn.Module):
    """Score a location by the visits there in the training part with the key of the query.

    ``key`` makes integers of users and current locations. The scores of ``below``, scaled to below
    1, decide between equal counts: they are the last digits of one number, which rounding removes.
    """

    def __init__(
        self, data: CheckIns, rows: Tensor, key: Key, num_keys: int, below: Counts | None = None
    ) -> None:
        super().__init__()
        self.key, self.below = key, below
        self.scale = 1 / (int((data.part == 0).sum()) + 1)
        self.counts = torch.sparse_coo_tensor(
            torch.stack([key(data.user[rows], data.location[rows - 1]), data.location[rows]]),
            torch.ones(len(rows), dtype=torch.float64),
            (num_keys, data.num_locations),
            check_invariants=True,
        ).coalesce()

    def forward(self, batch: Inputs) -> Tensor:
        """Return scores ``[N, num_locations]``."""
        keys = self.key(batch["user"], batch["history"][:, -1])
        scores: Tensor = self.counts.index_select(0, keys).to_dense()
        return scores if self.below is None else scores + self.scale * self.below(batch)


def make_models(data: CheckIns) -> dict[str, Counts]:
    """Return the three models of counts."""
    visits, moves, size = (data.part == 0).nonzero()[:, 0], data.queries(0), data.num_locations
    everybody = Counts(data, visits, lambda user, _: 0 * user, 1)
    own = Counts(data, visits, lambda user, _: user, data.num_users, everybody)
    pairs = data.num_users * size
    return {
        "transitions": Counts(data, moves, lambda _, here: here, size),
        "most visited": own,
        "Markov": Counts(data, moves, lambda user, here: user * size + here, pairs, own),
    }


class Measurement:
    """The counts of one model in one precision."""

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
        """Return one row of the table: fractions, and the size of the largest tied block."""
        values = {name: float(value) for name, value in self.metrics.compute().items()}
        accuracy = [values[f"acc {ties}"] for ties in ("pessimistic", "expected", "optimistic")]
        reciprocal = [values[f"mrr {ties}"] for ties in ("pessimistic", "expected", "optimistic")]
        topk = self.topk_hits / self.queries
        return [self.tied / self.queries, self.widest, *accuracy, topk, *reciprocal]


def measure(model: nn.Module, data: CheckIns, length: int) -> dict[str, list[float]]:
    """Return a row of numbers for every precision."""
    measurements = {name: Measurement() for name in PRECISIONS}
    for _rows, batch, scores in score_test_part(model, data, length):
        for name, dtype in PRECISIONS.items():
            measurements[name].update(scores.to(dtype), batch["targets"][:, -1])
    return {name: measurement.row() for name, measurement in measurements.items()}


def load_gru(data: CheckIns, checkpoint: Path) -> nn.Module:
    """Return the GRU with the weights that next_location.py wrote."""
    model = ReturnOrExploreGRU(data)
    weights = torch.load(checkpoint, weights_only=True)["state_dict"]
    prefix = "model."
    model.load_state_dict(
        {name.removeprefix(prefix): x for name, x in weights.items() if name.startswith(prefix)}
    )
    return model.eval()


def format_table(rows: dict[str, dict[str, list[float]]]) -> str:
    """Lay out the rows as text, fractions in percent."""
    titles = ("last", "random", "first", "topk", "last", "random", "first")
    lines = [
        f"{'':<21}{'tied':>6}{'largest':>8}   {f'Acc@{K}':<28}MRR",
        f"{'percent':<13}{'format':<8}{'targets':>8}{'block':>6}"
        + "".join(f"{title:>7}" for title in titles),
    ]
    for model, precisions in rows.items():
        for precision, (tied, widest, *shares) in precisions.items():
            cells = "".join(f"{100 * share:7.2f}" for share in shares)
            lines.append(f"{model:<13}{precision:<8}{100 * tied:8.2f}{widest:6,}{cells}")
    return "\n".join(lines)


def draw_bounds(rows: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Draw the MRR with the target last, in random order, and first among tied candidates."""
    figure = Figure(figsize=(7, 0.32 * 3 * len(rows) + 1.8), layout="constrained")
    axes = figure.subplots()
    labels = []
    for model, precisions in rows.items():
        for precision, numbers in precisions.items():
            last, expected, first = (100 * value for value in numbers[-3:])
            height = len(labels) + len(labels) // len(PRECISIONS) / 2  # a gap after every model
            axes.plot([last, first], [height] * 2, "-", color="0.55", linewidth=1.5, zorder=1)
            for value, (marker, color, size, _) in zip(
                (last, expected, first), MARKERS, strict=True
            ):
                axes.plot(
                    value,
                    height,
                    marker=marker,
                    color=color,
                    markersize=size,
                    markeredgecolor="black",
                    zorder=3 if marker == "o" else 2,
                )
            labels.append((height, f"{model}, {precision}"))
    axes.set_yticks(*zip(*labels, strict=True))
    axes.invert_yaxis()
    axes.locator_params(axis="x", steps=[1, 2, 5, 10])
    axes.set_title("MRR by the order of tied candidates")
    axes.set_xlabel("MRR (%)")
    axes.grid(axis="x", alpha=0.3)
    handles = [
        Line2D([], [], marker=marker, color="none", markerfacecolor=color, markersize=size,
               markeredgecolor="black", label=label)
        for marker, color, size, label in MARKERS
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    plotting.save(figure, path)


def main(argv: list[str] | None = None) -> dict[str, dict[str, list[float]]]:
    """Print the table and return its numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--checkpoint", type=Path, help="weights that next_location.py wrote")
    parser.add_argument("--limit", type=int, help="number of users to simulate")
    parser.add_argument("--output", type=Path, help="write a picture here")
    options = parser.parse_args(argv)
    data = read_or_simulate(options.data, options.limit)
    models: dict[str, tuple[nn.Module, int]] = {
        name: (model, 1) for name, model in make_models(data).items()
    }
    if options.checkpoint is not None:
        models["GRU"] = load_gru(data, options.checkpoint), LENGTH
    rows = {name: measure(model, data, length) for name, (model, length) in models.items()}
    print(format_table(rows))
    if options.output is not None:
        with plotting.style():
            draw_bounds(rows, options.output)
    return rows


if __name__ == "__main__":
    main()
