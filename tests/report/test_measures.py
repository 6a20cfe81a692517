"""`evaluate` with measures by name, and grades of several relevant ones."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from command import main
from inner import measures
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    MAPAtK,
    MeanRank,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
    report,
)

NAMES: dict[str, Any] = {
    "acc@1": AccuracyAtK(1),
    "hit_rate@2": AccuracyAtK(2),
    "precision@2": PrecisionAtK(2),
    "recall@4": RecallAtK(4),
    "f1@3": F1AtK(3),
    "map@2": MAPAtK(2),
    "ndcg@3": NDCGAtK(3),
    "mrr@2": MRR(2),
    " mrr": MRR(),
}


def graded(n: int = 30) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, ids of up to three relevant ones, their grades, and the same as dense relevance."""
    torch.manual_seed(4)
    scores = torch.randint(4, (n, 6)).float()
    target = torch.stack([torch.randperm(6)[:3] for _ in range(n)])
    target[torch.rand(n, 3) < 0.3] = -1
    grades = torch.randint(0, 4, (n, 3))
    dense = torch.zeros(n, 7)
    dense.scatter_(1, target.where(target >= 0, 6), grades.float())
    return scores, target, grades, dense[:, :6]


def test_a_measure_that_is_no_fraction_is_not_cut_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measure that a later release may have is refused by `compare`, and `evaluate` has it."""
    monkeypatch.setitem(measures._METRICS, "rank", lambda k: MeanRank())
    target, ranks = [0] * 4, [[0, 1, 2], [1, 0, 2], [1, 2, 0], [1, 2, 3]]
    assert report.evaluate(ranks, target, measures=["rank@3"]).values["rank_at_3"] == 10 / 4
    for against in ("first", "all"):
        with pytest.raises(ValueError, match="`measures` of a comparison must be fractions, got M"):
            report.compare(
                {"a": ranks, "b": ranks[::-1]}, target, measures=["rank@3"], against=against
            )


def test_measures_are_metrics_by_name() -> None:
    """Values with grades, in any split, are those of the classes."""
    scores, target, grades, dense = graded()
    found = report.evaluate(scores, target, measures=list(NAMES), grade=grades)
    assert list(found.values) == [name.strip().replace("@", "_at_") for name in NAMES]
    for value, metric in zip(found.values.values(), NAMES.values(), strict=True):
        assert value == pytest.approx(float(metric.clone()(scores, dense)), abs=1e-7), metric
    assert found.card["queries"] == 30
    assert found.intervals.keys() == found.values.keys()
    evaluator = report.Evaluator(measures=list(NAMES))
    for rows in (slice(0, 11), slice(11, None)):
        evaluator.update(scores[rows], target[rows], grade=grades[rows])
    again = report.Evaluator.from_bytes(evaluator.to_bytes())
    assert again.result().values == found.values
    assert "ndcg_at_3" in str(found)


def test_runs_have_grades(tmp_path: Path) -> None:
    """The grades of TREC judgements, also from the command line."""
    (tmp_path / "a.run").write_text(
        "q1 Q0 a 1 2 me\nq1 Q0 b 2 1 me\nq2 Q0 b 1 1 me\n", encoding="utf-8"
    )
    (tmp_path / "a.qrels").write_text(
        "q1 0 b 3\nq1 0 a 1\nq1 0 c 0\nq2 0 b 2\nq2 0 a 2\n", encoding="utf-8"
    )
    read = report.read(report.Source(tmp_path / "a.run", truth=tmp_path / "a.qrels"))
    assert read.grades is not None
    assert read.vocabulary is not None
    names = [
        {read.vocabulary[x]: g for x, g in zip(*pair, strict=True) if x >= 0}
        for pair in zip(read.target.tolist(), read.grades.tolist(), strict=True)
    ]
    assert names == [{"b": 3, "a": 1}, {"b": 2, "a": 2}]
    e = report.evaluate(read.preds, read.target, grade=read.grades, measures=["ndcg@2"])
    discount = 1 / math.log2(3)
    expected = ((1 + 3 * discount) / (3 + discount) + 1 / (1 + discount)) / 2
    assert e.values["ndcg_at_2"] == pytest.approx(expected)
    shown = CliRunner().invoke(
        main,
        ["score", str(tmp_path / "a.run"), "--target", str(tmp_path / "a.qrels"), "--measure",
         "ndcg@2", "--format", "json"],
    )  # fmt: skip
    assert json.loads(shown.output)["ndcg_at_2"]["value"] == e.values["ndcg_at_2"]
