"""Agreement with other libraries where a name has the same definition."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    ndcg_score,
    precision_score,
    recall_score,
    top_k_accuracy_score,
)
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
from torchmetrics.retrieval import (
    RetrievalHitRate,
    RetrievalMAP,
    RetrievalMRR,
    RetrievalNormalizedDCG,
    RetrievalPrecision,
    RetrievalRecall,
)

from nextloc_metrics import (
    AUC,
    MRR,
    AccuracyAtK,
    F1AtK,
    LocationF1,
    LocationPrecision,
    LocationRecall,
    MAPAtK,
    NDCGAtK,
    Novelty,
    PrecisionAtK,
    RecallAtK,
    RPrecision,
    report,
)
from strategies import updated

N, C = 40, 25
KS = [1, 3, 10, 25]


def value(metric: Metric, *args: Tensor) -> float:
    """The value of a metric after one update."""
    return updated(metric, *args).compute().item()


def probabilities() -> Tensor:
    """Softmax scores without ties, as libraries expect them that drop scores of 0 and below."""
    return torch.randn(N, C).softmax(-1)


def some_relevant(share: float = 0.2) -> Tensor:
    """Bool relevance with at least one relevant location per query."""
    relevant = torch.rand(N, C) < share
    relevant[torch.arange(N), torch.randint(C, (N,))] = True
    return relevant


# scikit-learn ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("levels", [2, 5, 10_000])
def test_sklearn_ndcg_score(k: int, levels: int) -> None:
    """Linear gains, and the expectation over ties: the same definition."""
    preds = torch.randint(levels, (N, C)).double()
    relevance = some_relevant() * torch.randint(1, 5, (N, C)).double()
    theirs = ndcg_score(relevance.numpy(), preds.numpy(), k=k)
    assert value(NDCGAtK(k), preds, relevance) == pytest.approx(theirs, abs=1e-6)


def test_sklearn_ndcg_score_with_exponential_gain() -> None:
    """scikit-learn takes gains as they are: 2^rel - 1 given to it is our exponential gain."""
    preds, relevance = probabilities(), some_relevant() * torch.randint(1, 5, (N, C)).double()
    theirs = ndcg_score((2**relevance - 1).numpy(), preds.numpy(), k=5)
    assert value(NDCGAtK(5, gain="exponential"), preds, relevance) == pytest.approx(theirs)


@pytest.mark.parametrize("k", KS[:-1])
def test_top_k_accuracy(k: int) -> None:
    """scikit-learn's, and torchmetrics' micro-averaged one, are the same where no scores tie."""
    preds, target = probabilities(), torch.randint(C, (N,))
    ours = value(AccuracyAtK(k), preds, target)
    assert ours == pytest.approx(top_k_accuracy_score(target, preds, k=k, labels=range(C)))
    theirs = value(MulticlassAccuracy(C, top_k=k, average="micro"), preds, target)
    assert ours == pytest.approx(theirs)


OF_DECISIONS: list[tuple[Callable[..., Metric], Callable[..., Any]]] = [
    (LocationF1, f1_score),
    (LocationPrecision, precision_score),
    (LocationRecall, recall_score),
]


@pytest.mark.parametrize(("ours", "theirs"), OF_DECISIONS)
@pytest.mark.parametrize("average", ["weighted", "macro", "micro"])
@pytest.mark.parametrize("levels", [3, 10_000])
def test_sklearn_scores_of_decisions(
    average: str, levels: int, ours: Callable[..., Metric], theirs: Callable[..., Any]
) -> None:
    """Of the decisions, over all labels visited or decided for; 0 where it is 0 / 0."""
    preds, target = torch.randint(levels, (N, C)).float(), torch.randint(C // 2, (N,))
    preds[:, 0] = -1  # is never decided for
    expected = theirs(target, preds.argmax(-1), average=average, zero_division=0)
    got = value(ours(C, average=average), preds, target)
    assert got == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("ours", "theirs"), OF_DECISIONS)
def test_sklearn_scores_of_each_location(
    ours: Callable[..., Metric], theirs: Callable[..., Any]
) -> None:
    """Without an average, the score of every location that occurs."""
    preds, target = torch.rand(200, 7), torch.randint(5, (200,))
    preds[:, 0] = preds[:, 6] = -1  # the first is a target alone, the last does not occur
    got = updated(ours(7, average=None), preds, target).compute()
    expected = theirs(target, preds.argmax(-1), average=None, zero_division=0)
    np.testing.assert_allclose(got[:6].numpy(), expected, rtol=1e-6)
    assert got[6].isnan()


def test_sklearn_average_precision_score() -> None:
    """Without a cut-off and without ties, average precision is the same."""
    preds, relevant = probabilities(), some_relevant()
    theirs = np.mean(
        [
            average_precision_score(r, p)
            for r, p in zip(relevant.numpy(), preds.numpy(), strict=True)
        ]
    )
    assert value(MAPAtK(C), preds, relevant) == pytest.approx(theirs, abs=1e-6)


# torchmetrics ------------------------------------------------------------------------------------


def retrieval(metric: Metric, preds: Tensor, relevant: Tensor) -> float:
    """The value of a torchmetrics retrieval metric, which wants everything flat."""
    indexes = torch.arange(len(preds)).repeat_interleave(preds.shape[1])
    metric.update(preds.flatten(), relevant.flatten(), indexes=indexes)
    result: float = metric.compute().item()
    return result


RETRIEVAL: list[tuple[Callable[[int], Metric], Callable[..., Metric], list[int]]] = [
    (AccuracyAtK, RetrievalHitRate, KS),
    (MRR, RetrievalMRR, KS),
    (NDCGAtK, RetrievalNormalizedDCG, KS),
    (PrecisionAtK, RetrievalPrecision, KS),
    (RecallAtK, RetrievalRecall, KS),
    (MAPAtK, RetrievalMAP, [C]),  # where every relevant location is found
]


@pytest.mark.parametrize(("ours", "theirs", "cuts"), RETRIEVAL)
def test_torchmetrics_retrieval(
    ours: Callable[[int], Metric], theirs: Callable[..., Metric], cuts: list[int]
) -> None:
    """On positive scores without ties the retrieval metrics agree."""
    preds, relevant = probabilities(), some_relevant()
    for k in cuts:
        expected = retrieval(theirs(top_k=k), preds, relevant)
        assert value(ours(k), preds, relevant) == pytest.approx(expected, abs=1e-6), k


def test_torchmetrics_multiclass_f1_score() -> None:
    """Weighted F1 agrees; a micro-averaged top-5 F1 is a hit rate and no F1 at 5."""
    preds, target = probabilities(), torch.randint(C, (N,))
    theirs = value(MulticlassF1Score(C, average="weighted"), preds, target)
    assert value(LocationF1(C), preds, target) == pytest.approx(theirs)
    hit_rate = value(MulticlassF1Score(C, average="micro", top_k=5), preds, target)
    assert value(AccuracyAtK(5), preds, target) == pytest.approx(hit_rate)
    assert value(F1AtK(5), preds, target) == pytest.approx(hit_rate / 3)


# PyTorch Geometric -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def geometric() -> ModuleType:
    """The ranking metrics of PyTorch Geometric."""
    pytest.importorskip("torch_geometric", reason="the comparison needs torch-geometric")
    return pytest.importorskip(
        "torch_geometric.metrics", reason="the comparison needs torch-geometric"
    )


def geometric_value(metric: Any, lists: Tensor, relevant: Tensor) -> float:
    """The value of a PyTorch Geometric metric of lists."""
    metric.update(lists, relevant.nonzero().t())
    result: float = metric.compute().item()
    return result


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (PrecisionAtK, "LinkPredPrecision"),
        (RecallAtK, "LinkPredRecall"),
        (F1AtK, "LinkPredF1"),
        (MAPAtK, "LinkPredMAP"),
        (NDCGAtK, "LinkPredNDCG"),
        (MRR, "LinkPredMRR"),
        (AccuracyAtK, "LinkPredHitRatio"),
    ],
)
def test_geometric_link_prediction(
    k: int, ours: Callable[[int], Metric], theirs: str, geometric: ModuleType
) -> None:
    """All seven agree, empty queries skipped, AP divided by min(n, k)."""
    preds, relevant = probabilities(), some_relevant()
    relevant[:5] = False
    lists = preds.topk(12).indices
    expected = geometric_value(getattr(geometric, theirs)(k), lists, relevant)
    for form in (preds, lists):
        assert value(ours(k), form, relevant) == pytest.approx(expected, abs=1e-6)


# ranx --------------------------------------------------------------------------------------------


RANX = """
import json, sys, ranx
qrels, run, names = json.load(sys.stdin)
print(json.dumps(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), names)))
"""


def values_of_ranx(*given: Any) -> Any:
    """The values of judgements, a run and names, or a skip.

    They come from a process, for ranx takes minutes to compile what it needs here for a second.
    """
    if importlib.util.find_spec("ranx") is None:
        pytest.skip("the comparison needs ranx")
    ran = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps(given),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(ran.stdout.splitlines()[-1])


def test_ranx() -> None:
    """TREC's definitions: AP divided by all relevant, an ideal DCG cut at k."""
    preds, relevant = probabilities(), some_relevant()
    grades = relevant * torch.randint(1, 4, relevant.shape)
    qrels = {
        f"q{i:02}": {f"d{j}": int(grades[i, j]) for j in range(C) if relevant[i, j]}
        for i in range(N)
    }
    run = {f"q{i:02}": {f"d{j}": float(preds[i, j]) for j in range(C)} for i in range(N)}
    expected: dict[str, Metric] = {
        "precision@5": PrecisionAtK(5),
        "recall@5": RecallAtK(5),
        "f1@5": F1AtK(5),
        "hit_rate@2": AccuracyAtK(2),
        "mrr": MRR(),
        "mrr@3": MRR(3),
        "map@5": MAPAtK(5, normalizer="relevant"),
        "map": MAPAtK(C, normalizer="relevant"),
        "ndcg@5": NDCGAtK(5),
        "ndcg_burges@5": NDCGAtK(5, gain="exponential"),
    }
    theirs = values_of_ranx(qrels, run, list(expected))
    for name, metric in expected.items():
        assert value(metric, preds, grades.float()) == pytest.approx(theirs[name], abs=1e-6), name
    differs = value(MAPAtK(5), preds, grades.float())
    assert differs > theirs["map@5"] + 1e-3


# Naive counting ----------------------------------------------------------------------------------


# The first table of the README -------------------------------------------------------------------


def test_one_model_four_libraries(repository: Path) -> None:
    """Log-probabilities get 0 from torchmetrics, and a constant model 100 % from torcheval."""
    for package in ("torch_geometric", "torcheval"):
        pytest.importorskip(package, reason=f"the comparison needs {package}")
    import same_model

    markov, constant = same_model.main(["--limit", "10"]).values()
    here, torchmetrics, torcheval, geometric = markov
    assert torchmetrics == 0
    assert 0 < geometric < here < torcheval < 1
    here, torchmetrics, torcheval, _ = constant
    assert torchmetrics == 0
    assert here < 0.1
    assert torcheval > 0.8  # the others are visits to locations without a training visit


def test_the_readme_has_what_the_example_prints(data: Path, repository: Path) -> None:
    """The figures of the README's first table are those of real check-ins."""
    for package in ("torch_geometric", "torcheval"):
        pytest.importorskip(package, reason="the comparison needs it")
    import same_model

    readme = (repository / "README.md").read_text(encoding="utf-8")
    values = same_model.main([str(data / "foursquare_nyc")])
    for library, *numbers in zip(same_model.LIBRARIES, *values.values(), strict=True):
        row = next(line for line in readme.splitlines() if line.startswith(f"| {library} "))
        assert re.findall(r"\d+\.\d\d(?= \|)", row) == [f"{100 * x:.2f}" for x in numbers], library


# Ranks, lists and what is beyond accuracy, on 50 random cases with ties ---------------------------


def random_cases() -> list[tuple[Tensor, Tensor]]:
    """Scores of few levels, so with ties, and grades of at least one relevant location."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(5, (50, 12), generator=generator).float()
    grades = torch.randint(-6, 5, (50, 12), generator=generator).clamp(min=0)
    grades[:, 0] = grades[:, 0].clamp(min=1)
    return list(zip(scores, grades, strict=True))


def test_ir_measures_on_judgements_of_0(tmp_path: Path) -> None:
    """Judged queries count with and without results, others do not; scores are not tied."""
    ir_measures = pytest.importorskip("ir_measures", reason="the comparison needs ir-measures")
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run.write_text(
        "q1 Q0 x 1 3 m\nq1 Q0 y 2 2 m\nq2 Q0 x 1 2.0 m\nq3 Q0 y 1 1 m\n", encoding="utf-8"
    )
    qrels.write_text("q1 0 y 1\nq2 0 x 0\nq4 0 z 2\n", encoding="utf-8")
    found = report.read(report.Source(run, truth=qrels))
    ours = report.evaluate(found.preds, found.target, grade=found.grades, measures=["map@2", "mrr"])
    theirs = ir_measures.calc_aggregate(
        [ir_measures.AP, ir_measures.RR],
        list(ir_measures.read_trec_qrels(str(qrels))),
        list(ir_measures.read_trec_run(str(run))),
    )
    assert ours.values["map_at_2"] == pytest.approx(theirs[ir_measures.AP])
    assert ours.values["mrr"] == pytest.approx(theirs[ir_measures.RR])


def test_ir_measures() -> None:
    """Values equal those of trec_eval in its order of ties, which lies in our bounds."""
    ir_measures = pytest.importorskip("ir_measures", reason="the comparison needs ir-measures")
    ours: dict[str, Any] = {
        "nDCG@5": NDCGAtK(5), "nDCG": NDCGAtK(12), "RR": MRR(), "RR@3": MRR(3),
        "AP": MAPAtK(12, normalizer="relevant"), "AP@5": MAPAtK(5, normalizer="relevant"),
        "P@5": PrecisionAtK(5), "R@5": RecallAtK(5), "Success@2": AccuracyAtK(2),
        "Rprec": RPrecision(),
    }  # fmt: skip
    for scores, grades in random_cases():
        qrels = [ir_measures.Qrel("q", f"{i:02}", int(g)) for i, g in enumerate(grades)]
        run = [ir_measures.ScoredDoc("q", f"{i:02}", float(s)) for i, s in enumerate(scores)]
        measures = [ir_measures.parse_measure(name) for name in ours]
        theirs = ir_measures.calc_aggregate(measures, qrels, run)
        order = sorted(range(12), key=lambda i: (-float(scores[i]), -i))  # ties by falling id
        lists, relevance = torch.tensor([order]), grades[None].float()
        for measure in measures:
            metric = ours[str(measure)]
            if str(measure) != "RR@3":  # which another program computes, in another order of ties
                settled = float(metric(lists, relevance))
                assert settled == pytest.approx(theirs[measure], abs=1e-6), measure
            options = {name: getattr(metric, name) for name in metric._options}
            low, high = (
                float(type(metric)(**{**options, "ties": ties})(scores[None], relevance))
                for ties in ("pessimistic", "optimistic")
            )
            assert low - 1e-6 <= theirs[measure] <= high + 1e-6, measure


def test_auc_of_sklearn_and_torchmetrics() -> None:
    """AUC equals scikit-learn's, ties half; torchmetrics' agrees without a cut."""
    sklearn = pytest.importorskip("sklearn.metrics", reason="the comparison needs scikit-learn")
    retrieval = pytest.importorskip("torchmetrics.retrieval", reason="needs torchmetrics")
    for scores, grades in random_cases()[:15]:
        relevant = grades > 0
        ours = float(AUC()(scores[None], relevant[None]))
        if relevant.all():
            assert math.isnan(ours)
            continue
        assert ours == pytest.approx(sklearn.roc_auc_score(relevant, scores), abs=1e-6)
        indexes = torch.zeros(12, dtype=torch.long)
        theirs = retrieval.RetrievalAUROC()(scores / 5 + 0.1, relevant, indexes=indexes)
        assert ours == pytest.approx(float(theirs), abs=1e-6)
        order = scores + torch.arange(12) / 100  # without ties
        value = float(retrieval.RetrievalRPrecision()(order + 1, relevant, indexes=indexes))
        assert float(RPrecision()(order[None], relevant[None])) == pytest.approx(value, abs=1e-6)


def test_rectools() -> None:
    """Novelty by users is RecTools'."""
    metrics = pytest.importorskip("rectools.metrics", reason="the comparison needs rectools")
    pd = pytest.importorskip("pandas", reason="the comparison needs pandas")
    torch.manual_seed(2)
    lists = torch.stack([torch.randperm(12)[:4] for _ in range(50)])
    target = torch.stack([torch.randperm(12)[:3] for _ in range(50)])
    seen = torch.rand(50, 12) < torch.linspace(0.05, 0.7, 12)
    seen[:, 0] = False  # a location that nobody visited

    def frame(rows: Tensor) -> Any:
        pairs = [(u, i, r + 1) for u, row in enumerate(rows.tolist()) for r, i in enumerate(row)]
        return pd.DataFrame(pairs, columns=["user_id", "item_id", "rank"])

    before = pd.DataFrame(seen.nonzero().tolist(), columns=["user_id", "item_id"])
    counts, users = seen.sum(0), int(seen.any(1).sum())
    theirs = metrics.MeanInvUserFreq(k=4).calc(frame(lists), before)
    assert float(Novelty(counts, 4, total=users)(lists, target)) == pytest.approx(theirs, rel=1e-6)
