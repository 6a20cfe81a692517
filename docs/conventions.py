"""Compute the tables of coming-from.md, by running every library on one small batch.

    python docs/conventions.py          # writes the tables into the page
    python docs/conventions.py --check  # exits with an error if a table differs

Needs `pip install -e '.[test,peers]'`. The metrics of RecBole cannot be
installed alone: their formulas are written out here.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import torch
from sklearn import metrics as sklearn_metrics
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassF1Score,
)
from torchmetrics.retrieval import (
    RetrievalHitRate,
    RetrievalMAP,
    RetrievalMRR,
    RetrievalNormalizedDCG,
    RetrievalPrecision,
    RetrievalRecall,
)

import nextloc_metrics
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    LocationF1,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
)

PAGE = Path(__file__).with_name("coming-from.md")
K = 3
OURS = "nextloc-metrics"
LAST = 8  # uncut: the number of candidates

# The batch: four queries, eight candidates, no ties.
SCORES = torch.tensor(
    [
        [0.91, 0.84, 0.73, 0.66, 0.52, 0.45, 0.31, 0.12],
        [0.35, 0.93, 0.14, 0.82, 0.64, 0.71, 0.22, 0.55],
        [0.62, 0.48, 0.95, 0.27, 0.86, 0.74, 0.39, 0.11],
        [0.58, 0.77, 0.42, 0.25, 0.96, 0.13, 0.69, 0.34],
    ]
)
GRADES = torch.tensor(
    [
        [1, 0, 0, 3, 0, 0, 0, 0],
        [0, 0, 0, 2, 0, 1, 3, 1],
        [0, 1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
)
RELEVANT = GRADES > 0
TARGET = torch.tensor([0, 3, 0, 6])  # one relevant location per query
RANK = SCORES.argsort(descending=True).argsort() + 1  # without ties

Value = float | None
Rows = list[Sequence[object]]


def table(head: Sequence[str], rows: Rows) -> str:
    """Write a table, numbers with four decimals."""
    first, *others = (f"| {' | '.join(map(_cell, line))} |" for line in [head, *rows])
    return "\n".join([first, "|" + "---|" * len(head), *others])


def _cell(entry: object) -> str:
    if entry is None:
        return "-"
    return f"{entry:.4f}" if isinstance(entry, float) else str(entry)


def of(metric: Metric, *args: Tensor) -> float:
    """The value of a metric of this batch."""
    metric.update(*args)
    value: float = metric.compute().item()
    return value


# Other conventions, written out ------------------------------------------------------------------


def recbole_style(order: Sequence[int], relevant: set[int], k: int) -> dict[str, float]:
    """RecBole's metrics of one user, from the order of the candidates."""
    hit = [item in relevant for item in order[:k]]
    found = list(itertools.accumulate(hit))
    most = min(len(relevant), k)
    return {
        "hit": float(any(hit)),
        "mrr": 1 / (hit.index(True) + 1) if any(hit) else 0.0,
        "map": sum(n / (i + 1) for i, n in enumerate(found) if hit[i]) / most,
        "recall": sum(hit) / len(relevant),
        "ndcg": sum(1 / math.log2(i + 2) for i in range(k) if hit[i])
        / sum(1 / math.log2(i + 2) for i in range(most)),
        "precision": sum(hit) / k,
    }


# Several relevant locations ----------------------------------------------------------------------


def retrieval(metric: Metric, scores: Tensor, relevance: Tensor) -> float:
    """The value of a retrieval metric of torchmetrics, which takes flat tensors."""
    indexes = torch.arange(len(scores)).repeat_interleave(scores.shape[1])
    metric.update(scores.flatten(), relevance.flatten(), indexes=indexes)
    value: float = metric.compute().item()
    return value


def by_us() -> dict[str, float]:
    """The metrics of this library with their defaults."""
    return {
        "Precision@3": of(PrecisionAtK(K), SCORES, RELEVANT),
        "Recall@3": of(RecallAtK(K), SCORES, RELEVANT),
        "F1@3": of(F1AtK(K), SCORES, RELEVANT),
        "HitRate@3": of(AccuracyAtK(K), SCORES, RELEVANT),
        "MRR": of(MRR(), SCORES, RELEVANT),
        "MRR@3": of(MRR(K), SCORES, RELEVANT),
        "MAP@3": of(MAPAtK(K), SCORES, RELEVANT),
        "MAP, uncut": of(MAPAtK(LAST), SCORES, RELEVANT),
        "NDCG@3": of(NDCGAtK(K), SCORES, RELEVANT),
        "NDCG@3, graded": of(NDCGAtK(K), SCORES, GRADES.float()),
        "NDCG@3, graded, 2^grade - 1": of(NDCGAtK(K, gain="exponential"), SCORES, GRADES.float()),
    }


def by_torchmetrics() -> dict[str, float]:
    """The retrieval metrics of torchmetrics."""
    return {
        "Precision@3": retrieval(RetrievalPrecision(top_k=K), SCORES, RELEVANT),
        "Recall@3": retrieval(RetrievalRecall(top_k=K), SCORES, RELEVANT),
        "HitRate@3": retrieval(RetrievalHitRate(top_k=K), SCORES, RELEVANT),
        "MRR": retrieval(RetrievalMRR(), SCORES, RELEVANT),
        "MRR@3": retrieval(RetrievalMRR(top_k=K), SCORES, RELEVANT),
        "MAP@3": retrieval(RetrievalMAP(top_k=K), SCORES, RELEVANT),
        "MAP, uncut": retrieval(RetrievalMAP(), SCORES, RELEVANT),
        "NDCG@3": retrieval(RetrievalNormalizedDCG(top_k=K), SCORES, RELEVANT),
        "NDCG@3, graded": retrieval(RetrievalNormalizedDCG(top_k=K), SCORES, GRADES),
    }


def by_sklearn() -> dict[str, float]:
    """The ranking metrics of scikit-learn."""
    scores = SCORES.numpy()
    return {
        "MAP, uncut": float(
            sklearn_metrics.label_ranking_average_precision_score(RELEVANT.numpy(), scores)
        ),
        "NDCG@3": float(sklearn_metrics.ndcg_score(RELEVANT.numpy(), scores, k=K)),
        "NDCG@3, graded": float(sklearn_metrics.ndcg_score(GRADES.numpy(), scores, k=K)),
        "NDCG@3, graded, 2^grade - 1": float(
            sklearn_metrics.ndcg_score((2**GRADES - 1).numpy(), scores, k=K)
        ),
    }


def by_geometric() -> dict[str, float]:
    """The link prediction metrics of PyTorch Geometric, for lists of ids."""
    import torch_geometric.metrics as geometric

    lists = SCORES.topk(LAST).indices
    edges = RELEVANT.nonzero().t()

    def value(name: str, k: int) -> float:
        metric = getattr(geometric, f"LinkPred{name}")(k)
        metric.update(lists[:, :k], edges)
        return float(metric.compute())

    return {
        "Precision@3": value("Precision", K),
        "Recall@3": value("Recall", K),
        "F1@3": value("F1", K),
        "HitRate@3": value("HitRatio", K),
        "MRR": value("MRR", LAST),
        "MRR@3": value("MRR", K),
        "MAP@3": value("MAP", K),
        "MAP, uncut": value("MAP", LAST),
        "NDCG@3": value("NDCG", K),
    }


RANX = """
import json, sys, ranx
qrels, run, names = json.load(sys.stdin)
print(json.dumps(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), names)))
"""


def by_ranx() -> dict[str, float]:
    """The metrics of ranx; it needs judgements of all candidates to count the fourth query."""

    def named(rows: Tensor) -> dict[str, dict[str, float]]:
        return {
            f"q{i}": {f"d{j}": value for j, value in enumerate(row)}
            for i, row in enumerate(rows.tolist())
        }

    names = {
        "Precision@3": "precision@3",
        "Recall@3": "recall@3",
        "F1@3": "f1@3",
        "HitRate@3": "hit_rate@3",
        "MRR": "mrr",
        "MRR@3": "mrr@3",
        "MAP@3": "map@3",
        "MAP, uncut": "map",
        "NDCG@3, graded": "ndcg@3",
        "NDCG@3, graded, 2^grade - 1": "ndcg_burges@3",
    }
    graded, binary = (
        _ranx([named(relevance), named(SCORES), wanted])
        for relevance, wanted in [
            (GRADES, list(names.values())),
            (RELEVANT.long(), ["ndcg@3", "mrr"]),
        ]
    )
    return {**{name: graded[theirs] for name, theirs in names.items()}, "NDCG@3": binary["ndcg@3"]}


def _ranx(request: object) -> dict[str, float]:
    """Run ranx in a separate process without compilation, which would take minutes."""
    ran = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps(request),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    result: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return result


def by_recbole_style() -> dict[str, float]:
    """The formulas of RecBole, without the fourth query: every user has a relevant item."""
    users = [
        recbole_style(order, set(relevant.nonzero()[:, 0].tolist()), K)
        for order, relevant in zip(SCORES.topk(LAST).indices.tolist(), RELEVANT, strict=True)
        if relevant.any()
    ]
    names = {
        "Precision@3": "precision",
        "Recall@3": "recall",
        "HitRate@3": "hit",
        "MRR@3": "mrr",
        "MAP@3": "map",
        "NDCG@3": "ndcg",
    }
    return {name: sum(user[key] for user in users) / len(users) for name, key in names.items()}


@cache
def libraries() -> Mapping[str, dict[str, float]]:
    """The values of every library for the batch."""
    return {
        OURS: by_us(),
        "torchmetrics": by_torchmetrics(),
        "scikit-learn": by_sklearn(),
        "PyG": by_geometric(),
        "ranx": by_ranx(),
        "RecBole style": by_recbole_style(),
    }


def made(written: str) -> Metric:
    """Make the metric that a table shows from its text."""
    metric: Metric = eval(f"metrics.{written}", {"metrics": nextloc_metrics})
    return metric


def the_batch() -> str:
    """The ranks of the relevant locations."""
    rows: Rows = []
    for i, (rank, grade) in enumerate(zip(RANK, GRADES, strict=True)):
        graded = sorted((int(rank[j]), int(grade[j])) for j in grade.nonzero()[:, 0])
        several = ", ".join(f"{p} ({g})" for p, g in graded) or "none"
        rows.append([i + 1, several, int(rank[TARGET[i]])])
    return table(["query", "several targets: rank (grade)", "one target: rank"], rows)


def side_by_side() -> str:
    """The value of every library, one row per metric."""
    names = [name for name in libraries()[OURS] if name not in ("Recall@3", "HitRate@3", "MRR@3")]
    rows: Rows = [[name, *(values.get(name) for values in libraries().values())] for name in names]
    return table(["", *libraries()], rows)


SKIPPED_IS_ZERO = 'empty_target_action="neg"'

# Options that give the value of another library where the default does not.
OPTIONS = {
    "Precision@3": ['PrecisionAtK(3, empty_target_action="neg")'],
    "Recall@3": ['RecallAtK(3, empty_target_action="neg")'],
    "F1@3": ['F1AtK(3, empty_target_action="neg")'],
    "HitRate@3": ['AccuracyAtK(3, empty_target_action="neg")'],
    "MRR": ['MRR(empty_target_action="neg")'],
    "MRR@3": ['MRR(3, empty_target_action="neg")'],
    "MAP@3": ['MAPAtK(3, normalizer="relevant", empty_target_action="neg")'],
    "MAP, uncut": [
        'MAPAtK(8, empty_target_action="neg")',
        'MAPAtK(8, empty_target_action="pos")',
    ],
    "NDCG@3": ['NDCGAtK(3, empty_target_action="neg")'],
    "NDCG@3, graded": ['NDCGAtK(3, empty_target_action="neg")'],
    "NDCG@3, graded, 2^grade - 1": ['NDCGAtK(3, gain="exponential", empty_target_action="neg")'],
}


def check_options() -> None:
    """Raise if an option does not give the value that the page says another library has."""
    default = libraries()[OURS]
    for name, choices in OPTIONS.items():
        others = {
            library: values[name]
            for library, values in libraries().items()
            if name in values and abs(values[name] - default[name]) > 1e-6
        }
        for written in choices:
            relevance = GRADES.float() if "graded" in name else RELEVANT
            value = of(made(written), SCORES, relevance)
            if not any(abs(other - value) < 1e-6 for other in others.values()):
                raise AssertionError(f"no library has the value of {written}.")


# One relevant location ---------------------------------------------------------------------------


def f1_meanings() -> str:
    """Values called F1 or accuracy."""
    decided = SCORES.argmax(-1)
    rows: Rows = [
        [
            "F1 per location, weighted",
            "`LocationF1(8)`",
            of(LocationF1(LAST), SCORES, TARGET),
        ],
        [
            "the same",
            'scikit-learn `f1_score(average="weighted")`',
            float(sklearn_metrics.f1_score(TARGET, decided, average="weighted", zero_division=0)),
        ],
        [
            "F1 per location, micro: Accuracy@1",
            '`LocationF1(8, average="micro")`',
            of(LocationF1(LAST, average="micro"), SCORES, TARGET),
        ],
        ["F1@3", "`F1AtK(3)`", of(F1AtK(K), SCORES, TARGET)],
        [
            "a hit rate",
            'torchmetrics `MulticlassF1Score(8, average="micro", top_k=3)`',
            of(MulticlassF1Score(LAST, average="micro", top_k=K), SCORES, TARGET),
        ],
        [
            "hit rate, mean over locations",
            "torchmetrics `MulticlassAccuracy(8, top_k=3)`",
            of(MulticlassAccuracy(LAST, top_k=K), SCORES, TARGET),
        ],
    ]
    return table(["which F1 or accuracy", "computed by", "value"], rows)


def log_probabilities() -> str:
    """The probabilities, logits and log-probabilities of one model, which have the same order."""
    queries, candidates, k = 1000, 50, 5
    spread = torch.arange(queries * candidates).double() * ((math.sqrt(5) - 1) / 2)  # as if random
    logits = 6 * spread.frac().view(queries, candidates) - 3
    target = torch.arange(queries) % candidates
    hot = torch.nn.functional.one_hot(target, candidates)
    logits = logits + hot  # a model that has learnt a little
    forms = [logits.softmax(1), logits, logits.log_softmax(1)]
    pairs: dict[str, tuple[Callable[[], Metric], Callable[[], Metric]]] = {
        "MRR": (MRR, RetrievalMRR),
        f"MAP@{k}": (lambda: MAPAtK(k), lambda: RetrievalMAP(top_k=k)),
        f"NDCG@{k}": (lambda: NDCGAtK(k), lambda: RetrievalNormalizedDCG(top_k=k)),
    }
    rows: Rows = []
    for name, (ours, theirs) in pairs.items():
        values = {f"{of(ours(), scores, target):.4f}" for scores in forms}
        if len(values) > 1:
            raise AssertionError(f"{name} must not depend on the form of the scores, got {values}.")
        rows.append([name, *values, *(retrieval(theirs(), scores, hot) for scores in forms)])
    forms_of_peer = [f"torchmetrics, {form}" for form in ("softmax", "logits", "log_softmax")]
    return table(["", f"{OURS}, any of the three", *forms_of_peer], rows)


TABLES: list[Callable[[], str]] = [
    the_batch,
    side_by_side,
    f1_meanings,
    log_probabilities,
]


def fill(page: str) -> str:
    """Put every table between its marks."""
    check_options()
    for make in TABLES:
        marks = re.compile(rf"(<!-- {make.__name__} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        text = make()
        page, found = marks.subn(lambda match, text=text: f"{match[1]}\n{text}\n{match[2]}", page)
        if found != 1:
            raise ValueError(f"{PAGE.name} must have one mark for {make.__name__}, got {found}.")
    return page


def main() -> None:
    """Write the tables into the page, or exit with an error where it differs."""
    page = PAGE.read_text(encoding="utf-8")
    filled = fill(page)
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(filled, encoding="utf-8")
    elif filled != page:
        lines = zip(page.splitlines(), filled.splitlines(), strict=False)
        differing = [f"- {old}\n+ {new}" for old, new in lines if old != new]
        sys.exit("\n".join(["the page differs; run python docs/conventions.py:", *differing]))


if __name__ == "__main__":
    main()
