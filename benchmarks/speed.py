"""How long an update takes, beside one read of the scores and beside other libraries.

python benchmarks/speed.py [--json results.json] [--seconds 8]

Peers that are not installed are left out. Every table is one interleaved run; a ratio is the median
over rounds of a contestant's time over the first one's in the same round.
"""

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import torch
from harness import Contestants, machine, report, write
from torch import Tensor

import nextloc_metrics
from nextloc_metrics import counting, next_location_metrics, recommendation_metrics

QUERIES = 256


def installed(package: str) -> bool:
    """Tell whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def without_acceleration(run: Any) -> Any:
    """Run on the plain path, whatever is switched on."""

    def plain() -> None:
        kept, counting._compiled = counting._compiled, None
        try:
            run()
        finally:
            counting._compiled = kept

    return plain


def next_location(num_locations: int, dtype: torch.dtype = torch.float32) -> Contestants:
    """Acc@1, 5, 10, MRR, NDCG@10 and weighted F1 of one target a query."""
    torch.manual_seed(0)
    scores = torch.randn(QUERIES, num_locations).to(dtype)
    target = torch.randint(num_locations, (QUERIES,))
    ours = next_location_metrics(num_locations)
    contestants: Contestants = {
        "one read of the scores (amax)": lambda: scores.amax(1),
        "nextloc-metrics, plain": without_acceleration(lambda: ours.update(scores, target)),
    }
    if installed("numba"):
        contestants["nextloc-metrics, accelerated"] = lambda: ours.update(scores, target)
    if installed("torch_geometric") and dtype == torch.float32:
        contestants["PyG on topk(10): no F1, MRR cut at 10"] = pyg(scores, target[:, None], 10)
    if dtype == torch.float32:
        contestants["topk and argsort, F1 by scikit-learn"] = sorting(scores, target)
    if installed("torcheval") and dtype == torch.float32:
        contestants["torcheval hit rates and reciprocal rank"] = torcheval(scores, target)
    if num_locations <= 10_000 and dtype == torch.float32:
        contestants["torchmetrics multiclass: no MRR, NDCG"] = torchmetrics_multiclass(
            scores, target
        )
    return contestants


def pyg(scores: Tensor, relevant: Tensor, k: int) -> Any:
    """PyG's link prediction metrics on the first k candidates."""
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
    """What published evaluation code does: topk for accuracy, argsort for ranks."""
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
    """Torcheval's functions, which count the scores above the target's."""
    from torcheval.metrics.functional import hit_rate, reciprocal_rank

    def run() -> None:
        for k in (1, 5, 10):
            hit_rate(scores, target, k=k)
        reciprocal_rank(scores, target)

    return run


def torchmetrics_multiclass(scores: Tensor, target: Tensor) -> Any:
    """Torchmetrics' accuracies and F1; its F1 needs num_locations squared."""
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

    classes = scores.shape[1]
    collection = MetricCollection(
        {
            f"acc{k}": MulticlassAccuracy(classes, top_k=k, average="micro", validate_args=False)
            for k in (1, 5, 10)
        }
        | {"f1": MulticlassF1Score(classes, average="weighted", validate_args=False)},
        compute_groups=False,
    )
    return lambda: collection.update(scores, target)


def several_relevant(num_relevant: int) -> Contestants:
    """Precision, recall, hit rate, MRR, MAP and NDCG at 10, of scores [256, 10,000]."""
    torch.manual_seed(0)
    scores = torch.randn(QUERIES, 10_000)
    relevant = torch.rand(QUERIES, 10_000).topk(num_relevant).indices
    ours = recommendation_metrics(k=10)
    contestants: Contestants = {
        "one read of the scores (amax)": lambda: scores.amax(1),
        "nextloc-metrics, plain": without_acceleration(lambda: ours.update(scores, relevant)),
    }
    if installed("numba"):
        contestants["nextloc-metrics, accelerated"] = lambda: ours.update(scores, relevant)
    if installed("torch_geometric"):
        contestants["PyG on topk(10)"] = pyg(scores, relevant, 10)
    contestants["torchmetrics retrieval, MRR alone"] = torchmetrics_retrieval(scores, relevant)
    return contestants


def torchmetrics_retrieval(scores: Tensor, relevant: Tensor) -> Any:
    """Torchmetrics' retrieval metrics keep the scores; their work is in compute."""
    from torchmetrics.functional.retrieval import retrieval_reciprocal_rank

    target = torch.zeros(scores.shape, dtype=torch.bool).scatter_(1, relevant, True)
    probabilities = scores.softmax(1)

    def run() -> None:
        for row, hit in zip(probabilities, target, strict=True):
            retrieval_reciprocal_rank(row, hit)

    return run


def lists() -> Contestants:
    """Precision, recall, hit rate, MRR, MAP and NDCG at 10, of ranked ids [4,096, 10]."""
    torch.manual_seed(0)
    preds = torch.rand(4096, 1000).topk(10).indices
    relevant = torch.rand(4096, 1000).topk(3).indices
    ours = recommendation_metrics(k=10)
    contestants: Contestants = {
        "nextloc-metrics": lambda: ours.update(preds, relevant),
    }
    if installed("torch_geometric"):
        contestants["PyG"] = pyg(preds, relevant, 10)
    if installed("ranx"):
        contestants["ranx"] = ranx(preds, relevant)
    return contestants


def ranx(preds: Tensor, relevant: Tensor) -> Any:
    """ranx, its data structures made beforehand."""
    from ranx import Qrels, Run, evaluate

    judged = Qrels({f"q{i}": {f"d{j}": 1 for j in row} for i, row in enumerate(relevant.tolist())})
    ranked = Run(
        {
            f"q{i}": {f"d{j}": 10.0 - place for place, j in enumerate(row)}
            for i, row in enumerate(preds.tolist())
        }
    )
    names = [f"{name}@10" for name in ("precision", "recall", "hit_rate", "mrr", "map", "ndcg")]
    return lambda: evaluate(judged, ranked, names)


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--seconds", type=float, default=8.0, help="of every table")
    options = parser.parse_args()
    print(machine())
    if installed("numba"):
        print(f"accelerate() took {nextloc_metrics.accelerate():.2f} s")
    results = [
        report(f"preset, {QUERIES} x {size:,}, {name}", next_location(size, dtype), options.seconds)
        for size in (1_187, 10_000, 100_000)
        for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16))
    ]
    results += [
        report(f"{number} relevant, {QUERIES} x 10,000", several_relevant(number), options.seconds)
        for number in (1, 10, 100)
    ]
    results.append(report("lists of 10 ids, 4,096 queries", lists(), options.seconds))
    write(options.json, results)


if __name__ == "__main__":
    main()
