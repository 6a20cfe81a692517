"""Compute the MRR of one model with four libraries.

    python same_model.py              # simulated check-ins
    python same_model.py check_ins.csv  # or a folder, as for next_location.py

The model is a first-order Markov chain: its score of a location is the logarithm of the share of
visits that follow the current location, with 0.01 added to every count. The second row is a model
that gives every location the same log-probability. Needs the extra `peers`.
"""

import argparse
import warnings
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn

from check_ins import FIRST_LOCATION, CheckIns, read_or_simulate, score_test_part
from nextloc_metrics import MRR, tables
from ties import make_models

K = 10  # torch_geometric computes the MRR of a list of k candidates
LIBRARIES = ("nextloc-metrics", "torchmetrics", "torcheval", "torch-geometric")


def log_probabilities(counts: Tensor) -> Tensor:
    """Return smoothed log-probabilities; ids that are no location get -inf."""
    smoothed = counts[:, FIRST_LOCATION:] + 0.01
    scores = counts.new_full(counts.shape, -torch.inf)
    scores[:, FIRST_LOCATION:] = (smoothed / smoothed.sum(1, keepdim=True)).log()
    return scores.float()


def constant(counts: Tensor) -> Tensor:
    """Return the same log-probability for every location."""
    return log_probabilities(torch.zeros_like(counts))


class Mean:
    """The MRR of every library, over the batches so far."""

    def __init__(self) -> None:
        from torch_geometric.metrics import LinkPredMRR

        self.here, self.geometric = MRR(), LinkPredMRR(K)
        self.torchmetrics: list[Tensor] = []
        self.torcheval: list[Tensor] = []

    def update(self, scores: Tensor, target: Tensor) -> None:
        """Add a batch."""
        from torcheval.metrics.functional import reciprocal_rank
        from torchmetrics.functional.retrieval import retrieval_reciprocal_rank

        self.here.update(scores, target)
        relevant = nn.functional.one_hot(target, scores.shape[1]).bool()
        self.torchmetrics += map(retrieval_reciprocal_rank, scores, relevant)
        self.torcheval.append(reciprocal_rank(scores, target))
        edges = torch.stack([torch.arange(len(target)), target])
        self.geometric.update(scores.topk(K).indices, edges)

    def values(self) -> list[float]:
        """Return the values in the order of `LIBRARIES`."""
        lists = torch.stack(self.torchmetrics), torch.cat(self.torcheval)
        means = [self.here.compute(), *(x.mean() for x in lists), self.geometric.compute()]
        return [float(value) for value in means]


def compare(data: CheckIns) -> dict[str, list[float]]:
    """Return the MRR of both models by every library."""
    models = {"Markov, log-probabilities": log_probabilities, "constant": constant}
    means = {name: Mean() for name in models}
    for _, batch, counts in score_test_part(make_models(data)["transitions"], data, 1):
        for name, scores_of in models.items():
            means[name].update(scores_of(counts), batch["targets"][:, -1])
    return {name: mean.values() for name, mean in means.items()}


def main(argv: list[str] | None = None) -> dict[str, list[float]]:
    """Print the table and return its numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--limit", type=int, metavar="USERS", help="simulate this many users")
    options = parser.parse_args(argv)
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of the other libraries
    values = compare(read_or_simulate(options.data, options.limit))
    header = ["MRR (%)", *(f"{name} {version(name)}" for name in LIBRARIES)]
    print(
        tables.Table(
            header, [[name, *(f"{100 * x:.2f}" for x in row)] for name, row in values.items()]
        )
    )
    return values


if __name__ == "__main__":
    main()
