"""Measure the time of an update, one read of the scores, and other libraries.

python benchmarks/speed.py [--seconds 4] [--json speed.json]

Peers that are not installed are skipped. Every table is one interleaved run; "x a" is the median
over rounds of a contestant's time divided by that of contestant a in the same round.
"""

import argparse
import copy
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import Contestants, Result, both_backends, installed, machine, report, write
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from nextloc_metrics import (
    MRR,
    BrierScore,
    CalibrationError,
    Grouped,
    NegativeLogLikelihood,
    PopularityBins,
    PrecisionAtK,
    decile_metrics,
    exploration_metrics,
    geography,
    next_location_metrics,
    probability_metrics,
    recommendation_metrics,
)

QUERIES = 256
LEAD = 2.5
READ = "one read of the scores (amax)"


def next_location(num_locations: int) -> Contestants:
    """Make contestants for Acc@1, 5, 10, MRR, NDCG@10 and weighted F1, one target per query."""
    torch.manual_seed(0)
    scores = torch.randn(QUERIES, num_locations)
    target = torch.randint(num_locations, (QUERIES,))
    contestants = ours(scores, target)
    if installed("torch_geometric"):
        contestants["PyG on topk(10): without F1, MRR cut at 10"] = pyg(scores, target[:, None], 10)
    contestants["topk and argsort, F1 by scikit-learn"] = sorting(scores, target)
    if installed("torcheval"):
        contestants["torcheval: without NDCG and F1"] = torcheval(scores, target)
    if installed("ignite"):
        contestants["ignite: without MRR and F1"] = ignite(scores, target[:, None], (1, 5, 10))
    if num_locations <= 10_000:
        contestants["torchmetrics multiclass: without MRR and NDCG"] = torchmetrics_multiclass(
            scores, target
        )
    return contestants


def ours(scores: Tensor, target: Tensor) -> Contestants:
    """Make contestants: one read of the scores, and the preset on both backends."""
    preset = next_location_metrics(scores.shape[1])
    return {READ: lambda: scores.amax(1)} | updates(preset, scores, target)


def updates(
    metrics: Metric | MetricCollection, *batch: Tensor, suffix: str = "", **options: Tensor
) -> Contestants:
    """Make contestants that update metrics with a batch on both backends."""
    return both_backends(lambda: partial(copy.deepcopy(metrics).update, *batch, **options), suffix)


def alone(kind: str, num_locations: int) -> Contestants:
    """Make contestants without peers, with scores of a dtype or strided rows."""
    torch.manual_seed(0)
    if kind == "strided rows":
        scores = torch.randn(QUERIES, num_locations + 37)[:, 5:-32]
    else:
        scores = torch.randn(QUERIES, num_locations).to(getattr(torch, kind))
    return ours(scores, torch.randint(num_locations, (QUERIES,)))


def pyg(scores: Tensor, relevant: Tensor, k: int) -> Any:
    """Update PyG's link prediction metrics with the first k candidates."""
    from torch_geometric import metrics

    names = ["HitRatio", "MRR", "NDCG"]
    if relevant.shape[1] > 1:
        names += ["Precision", "Recall", "MAP"]
    ks = (1, 5, 10) if relevant.shape[1] == 1 else (k,)
    collection = metrics.LinkPredMetricCollection(
        [getattr(metrics, f"LinkPred{names[0]}")(at) for at in ks]
        + [getattr(metrics, f"LinkPred{name}")(k) for name in names[1:]]
    )
    rows = torch.arange(len(relevant)).repeat_interleave(relevant.shape[1])
    edges = torch.stack([rows, relevant.flatten()])

    def run() -> None:
        first = scores if not scores.is_floating_point() else scores.topk(k).indices
        collection.update(first, edges)

    return run


def sorting(scores: Tensor, target: Tensor) -> Any:
    """Compute as published evaluation code: topk for accuracy, argsort for ranks."""
    from sklearn.metrics import f1_score

    def run() -> None:
        for k in (1, 5, 10):
            (scores.topk(k).indices == target[:, None]).any(1).float().mean()
        rank = (scores.argsort(dim=1, descending=True) == target[:, None]).nonzero()[:, 1] + 1
        (1 / rank).mean()
        torch.where(rank <= 10, 1 / torch.log2(rank + 1), 0.0).mean()
        f1_score(target, scores.argmax(1), average="weighted", zero_division=0)

    return run


def torcheval(scores: Tensor, target: Tensor) -> Any:
    """Call torcheval's functions, which count the scores above the target's."""
    from torcheval.metrics.functional import hit_rate, reciprocal_rank

    def run() -> None:
        for k in (1, 5, 10):
            hit_rate(scores, target, k=k)
        reciprocal_rank(scores, target)

    return run


def torchmetrics_multiclass(scores: Tensor, target: Tensor) -> Any:
    """Update torchmetrics' accuracies and F1; F1 needs memory for num_locations squared."""
    from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

    classes = scores.shape[1]
    members: dict[str, Metric | MetricCollection] = {
        f"acc{k}": MulticlassAccuracy(classes, top_k=k, average="micro", validate_args=False)
        for k in (1, 5, 10)
    }
    members["f1"] = MulticlassF1Score(classes, average="weighted", validate_args=False)
    collection = MetricCollection(members, compute_groups=False)
    return lambda: collection.update(scores, target)


def several_relevant(num_relevant: int, lead: float) -> Contestants:
    """Make contestants for precision, recall, hit rate, MRR, MAP, NDCG at 10, scores [256, 10,000].

    Scores of relevant locations are higher by `lead`, as those of a trained model.
    """
    torch.manual_seed(0)
    scores = torch.randn(QUERIES, 10_000)
    relevant = torch.rand(QUERIES, 10_000).topk(num_relevant).indices
    scores.scatter_add_(1, relevant, torch.full(relevant.shape, lead))
    dense = multi_hot(scores, relevant)
    contestants: Contestants = {READ: lambda: scores.amax(1)}
    preset = recommendation_metrics(k=10)
    contestants |= updates(preset, scores, relevant)
    contestants |= updates(preset, scores, dense, suffix=", relevance of all")
    contestants |= updates(PrecisionAtK(10), scores, dense, suffix=": precision alone")
    if installed("torch_geometric"):
        contestants["PyG on topk(10)"] = pyg(scores, relevant, 10)
    contestants["torchmetrics retrieval: MRR alone"] = torchmetrics_retrieval(scores, relevant)
    if installed("torcheval"):
        contestants["torcheval: precision alone"] = torcheval_retrieval(scores, relevant)
    if installed("ignite"):
        contestants["ignite: hit rate, NDCG alone"] = ignite(scores, relevant, (10,))
    return contestants


def torchmetrics_retrieval(scores: Tensor, relevant: Tensor) -> Any:
    """Call torchmetrics' reciprocal rank per row, as its retrieval metrics do in `compute`."""
    from torchmetrics.functional.retrieval import retrieval_reciprocal_rank

    target = multi_hot(scores, relevant)
    probabilities = scores.softmax(1)

    def run() -> None:
        for row, hit in zip(probabilities, target, strict=True):
            retrieval_reciprocal_rank(row, hit)

    return run


def torcheval_retrieval(scores: Tensor, relevant: Tensor) -> Any:
    """Call torcheval's precision at 10, with every query as a task."""
    from torcheval.metrics.functional import retrieval_precision

    target = multi_hot(scores, relevant).long()
    return lambda: retrieval_precision(scores, target, k=10, num_tasks=len(scores))


def ignite(scores: Tensor, relevant: Tensor, ks: tuple[int, ...]) -> Any:
    """Update ignite's hit rates and NDCG@10 with dense relevance."""
    from ignite.metrics.rec_sys import NDCG, HitRate

    metrics = HitRate(top_k=list(ks)), NDCG(top_k=[10])
    target = multi_hot(scores, relevant).float()

    def run() -> None:
        for metric in metrics:
            metric.update((scores, target))

    return run


def multi_hot(scores: Tensor, relevant: Tensor) -> Tensor:
    """Return the relevance of every candidate."""
    return torch.zeros(scores.shape, dtype=torch.bool).scatter_(1, relevant, True)


def groups() -> Contestants:
    """Make contestants: updates of MRR, also in 100,000 groups, with scores [256, 10,000]."""
    torch.manual_seed(0)
    scores, target = torch.randn(QUERIES, 10_000), torch.randint(10_000, (QUERIES,))
    users = torch.randint(100_000, (QUERIES,))
    grouped = Grouped(MRR(), num_groups=100_000)
    contestants: Contestants = {READ: lambda: scores.amax(1)}
    contestants |= updates(MRR(), scores, target)
    return contestants | updates(grouped, scores, target, suffix=", 100,000 groups", groups=users)


def deciles() -> Contestants:
    """Make contestants: the next-location and the decile preset, scores [256, 10,000]."""
    torch.manual_seed(0)
    scores, target = torch.randn(QUERIES, 10_000), torch.randint(10_000, (QUERIES,))
    rare = decile_metrics(PopularityBins.from_counts(1 + torch.arange(10_000)), k=5)
    return ours(scores, target) | updates(rare, scores, target, suffix=", deciles")


def presets(num_locations: int) -> Contestants:
    """Make contestants: what other presets take over that of next locations, and making metrics."""
    torch.manual_seed(0)
    scores, target = torch.randn(QUERIES, num_locations), torch.randint(num_locations, (QUERIES,))
    visits = 100_000 // (1 + torch.arange(num_locations)) + 1
    popular = torch.multinomial(visits.double(), QUERIES, replacement=True)
    likely = scores.scatter_add(1, popular[:, None], torch.full((QUERIES, 1), LEAD))
    rare = decile_metrics(PopularityBins.from_counts(visits))
    places = geography.Locations(torch.rand(num_locations), torch.rand(num_locations))
    distances = next_location_metrics(num_locations, locations=places)
    groups = {"visited": torch.rand(QUERIES) < 0.5}
    many = recommendation_metrics(k=(1, 2, 3, 5, 10, 20, 50))
    relevant = scores.topk(3).indices
    return {
        "next locations": partial(next_location_metrics(num_locations).update, scores, target),
        "deciles": partial(rare.update, scores, target),
        "deciles, popular targets scored higher": partial(rare.update, likely, popular),
        "with distances": partial(distances.update, scores, target),
        "exploration": partial(exploration_metrics().update, scores, target, groups=groups),
        "42 metrics, 64 queries": partial(many.update, scores[:64], relevant[:64]),
        "making these 42 metrics": lambda: recommendation_metrics(k=(1, 2, 3, 5, 10, 20, 50)),
    }


def probabilities(num_locations: int, dtype: torch.dtype) -> Contestants:
    """Make contestants: metrics of probabilities, on normal logits."""
    torch.manual_seed(0)
    scores = torch.randn(QUERIES, num_locations, dtype=dtype)
    target = torch.randint(num_locations, (QUERIES,))
    alone = {kind.__name__: kind(given="logits") for kind in (NegativeLogLikelihood, BrierScore)}
    members: dict[str, Any] = alone | {
        "CalibrationError": CalibrationError(given="logits"),
        "probability_metrics": probability_metrics(given="logits"),
    }
    contestants: Contestants = {"torch.log_softmax": lambda: torch.log_softmax(scores, 1)}
    return contestants | {name: partial(x.update, scores, target) for name, x in members.items()}


def lists(num_queries: int, length: int = 10) -> Contestants:
    """Make contestants for precision, recall, hit rate, MRR, MAP, NDCG at 10, lists [N, length]."""
    torch.manual_seed(0)
    preds = torch.rand(num_queries, 1000).topk(length).indices
    relevant = torch.rand(num_queries, 1000).topk(3).indices
    contestants = updates(recommendation_metrics(k=10), preds, relevant)
    if installed("torch_geometric"):
        contestants["PyG"] = pyg(preds, relevant, 10)
    if installed("ranx"):
        contestants["ranx"] = ranx(preds, relevant)
    return contestants


def arrays() -> Contestants:
    """Make contestants: the preset on scores [256, 10,000] and lists of 10 ids, as arrays."""
    torch.manual_seed(0)
    scores, target = torch.randn(QUERIES, 10_000), torch.randint(10_000, (QUERIES,))
    ids, answers = scores.topk(10).indices, target.numpy()
    metrics = next_location_metrics(10_000)
    of_scores = {"tensor": scores, "NumPy": scores.numpy()}
    of_lists = {"tensor": ids, "NumPy": ids.numpy(), "nested lists": ids.tolist()}
    return {
        **{f"scores, {kind}": partial(metrics.update, x, answers) for kind, x in of_scores.items()},
        **{f"lists, {kind}": partial(metrics.update, x, answers) for kind, x in of_lists.items()},
    }


def ranx(preds: Tensor, relevant: Tensor) -> Any:
    """Call ranx, with its data structures made beforehand."""
    from ranx import Qrels, Run, evaluate

    judged = Qrels({f"q{i}": {f"d{j}": 1 for j in row} for i, row in enumerate(relevant.tolist())})
    ranked = Run(
        {
            f"q{i}": {f"d{j}": 10.0 - position for position, j in enumerate(row)}
            for i, row in enumerate(preds.tolist())
        }
    )
    names = [f"{name}@10" for name in ("precision", "recall", "hit_rate", "mrr", "map", "ndcg")]
    return lambda: evaluate(judged, ranked, names)


def measure(seconds: float) -> list[Result]:
    """Print every table, and return them."""
    results = [
        report(f"preset, {QUERIES} x {size:,}, float32", next_location(size), seconds, f"{size}")
        for size in (1_187, 10_000, 100_000)
    ]
    results += [
        report(f"preset alone, {QUERIES} x {size:,}, {kind}", alone(kind, size), seconds / 2)
        for kind in ("float32", "bfloat16", "float16", "float64", "strided rows")
        for size in (10_000, 100_000)
    ]
    results += [
        report(
            f"{number} relevant, {QUERIES} x 10,000",
            several_relevant(number, 0.0),
            seconds,
            f"{number} relevant",
        )
        for number in (1, 10, 100)
    ]
    results += [
        report(
            f"{number} relevant, scored {LEAD} higher, {QUERIES} x 10,000",
            several_relevant(number, LEAD),
            seconds,
        )
        for number in (10, 100)
    ]
    results += [
        report(
            f"lists of 10 ids, {number:,} queries", lists(number), seconds / 2, f"{number} lists"
        )
        for number in (QUERIES, 4096)
    ]
    results += [
        report(f"lists of {length} ids, 4,096 queries", lists(4096, length), seconds / 2)
        for length in (64, 65, 100)
    ]
    results.append(report(f"arrays, {QUERIES} queries", arrays(), seconds / 2))
    results.append(report(f"MRR, {QUERIES} x 10,000", groups(), seconds, "groups"))
    results.append(report(f"deciles, {QUERIES} x 10,000", deciles(), seconds, "deciles"))
    results.append(
        report(
            f"presets, {QUERIES} x 3,818, time of the processor",
            presets(3_818),
            seconds,
            "presets",
            clock=time.process_time,
        )
    )
    results += [
        report(
            f"probabilities, {QUERIES} x {size:,} of {bits} bits, time of the processor",
            probabilities(size, {32: torch.float32, 64: torch.float64}[bits]),
            seconds,
            f"{size} probabilities" + " of 64 bits" * (bits == 64),
            clock=time.process_time,
        )
        for size, bits in ((10_000, 32), (10_000, 64), (100_000, 32))
    ]
    return results


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a table")
    options = parser.parse_args()
    print(machine())
    write(options.json, {"speed": measure(options.seconds)})


if __name__ == "__main__":
    main()
