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

from nextloc_metrics import (
    MRR,
    RBP,
    AccuracyAtK,
    ERRAtK,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    Ranking,
    RecallAtK,
    RPrecision,
    report,
)
from nextloc_metrics.cli.commands import main
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.metrics.notation import parse_measure

NAMES: dict[str, Any] = {
    "nDCG@3": NDCGAtK(3),
    "nDCG(dcg='exp-log2')@3": NDCGAtK(3, gain="exponential"),
    "RR": MRR(),
    "MRR@2": MRR(2),
    "AP@3": MAPAtK(3, normalizer="relevant"),
    "AP(rel=1)@2": MAPAtK(2, normalizer="relevant"),
    "P@2": PrecisionAtK(2),
    "Recall@4": RecallAtK(4),
    "Success@1": AccuracyAtK(1),
    "Rprec": RPrecision(),
    "RBP(p=0.5)": RBP(0.5),
    "RBP(p=0.5)@2": RBP(0.5, 2),
    "ERR@3": ERRAtK(3, max_grade=4),
    "nDCG": NDCGAtK(6),  # without a cut-off, of all ranks
    "AP": MAPAtK(6, normalizer="relevant"),
    "ERR": ERRAtK(6, max_grade=4),
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


def test_measures_are_metrics_by_name() -> None:
    """Values with grades, in any split, are those of the classes."""
    scores, target, grades, dense = graded()
    found = report.evaluate(scores, target, measures=list(NAMES), grades=grades)
    assert list(found.values) == [name.replace(".", "_") for name in NAMES]
    for value, metric in zip(found.values.values(), NAMES.values(), strict=True):
        assert value == pytest.approx(float(metric.clone()(scores, dense)), abs=1e-7), metric
    assert found.card["queries"] == 30
    assert found.intervals.keys() == found.values.keys()
    evaluator = report.Evaluator(measures=list(NAMES))
    for rows in (slice(0, 11), slice(11, None)):
        evaluator.add(Batch(scores[rows], target[rows], grades=grades[rows]))
    again = report.Evaluator.from_bytes(evaluator.to_bytes())
    assert again.result().values == found.values
    assert "nDCG@3" in found.to_markdown()


@pytest.mark.parametrize("form", ["scores", "lists"])
def test_a_relevance_level(form: str) -> None:
    """Lower grades are set to 0; a query that has lower grades only scores 0."""
    scores, target, grades, dense = graded(60)
    preds = scores if form == "scores" else scores.argsort(1, descending=True)[:, :4]
    names = ["AP(rel=2)", "RR(rel=2)@2", "P(rel=2)@3", "R(rel=1.5)@2", "Success(rel=3)@1"]
    names += ["Rprec(rel=2)", "RBP(rel=2, p=0.5)@3", "RBP(rel=2)"]
    found = report.evaluate(preds, target, measures=names, grades=grades)
    judged = (dense > 0).any(1)
    for name in names:
        level = float(name.partition("rel=")[2].partition(")")[0].partition(",")[0])
        plain = parse_measure(name.replace(f"rel={level:g}", "").replace("(, ", "("))
        high = dense.masked_fill(dense < level, 0)[judged]
        left = high.sum(1) > 0
        assert not bool(left.all())
        expected = float(plain(preds[judged][left], high[left]) * left.double().mean())
        value = found.values[name.replace(".", "_")]
        assert value == pytest.approx(expected, abs=1e-7), name
    with pytest.raises(ValueError, match="all ranks are needed, but this Ranking was made for"):
        Ranking.from_scores(scores, dense, depth=2).relevant_from(2)


WRONG: list[tuple[Any, str]] = [
    ("nDCG@0", "`k` must be a positive integer, got 0"),
    ("P", "`P` needs a cut-off, such as `P@10`"),
    ("Rprec@3", "`Rprec` has no cut-off"),
    ("mrr", "got 'mrr'; use `RR`."),
    ("hit_rate@10", "got 'hit_rate@10'; use `Success@10`."),
    ("acc_at_5", "use `Success@5`."),
    ("ndcg_cut_20", "use `nDCG@20`."),
    ("recip_rank", "use `RR`."),
    ("ndcg@10", "got 'ndcg@10'; use `nDCG@10`."),
    ("Sucess@5", "got 'Sucess@5'; use `Success@5`."),
    ("Bpref", "a measure must be one of nDCG, RR, AP, .* got 'Bpref'"),
    ("nDCG@10,RR", "got 'nDCG@10,RR', which are several: name each alone"),
    ("AP(rel=0)", "`rel` must be a finite positive number, got 0"),
    ("nDCG(rel=2)@3", r"nDCG\(rel=2\)@3 has an unknown option"),
    ("P(rel=2)", "`P` needs a cut-off, such as `P@10`"),
    ("nDCG(dcg='ln')@3", "`dcg` must be one of"),
    ("RR(p=0.5)", r"RR\(p=0.5\) has an unknown option"),
    ("RBP(0.5)", "options must be `name=value`"),
]


@pytest.mark.parametrize(("name", "message"), WRONG)
def test_a_wrong_name_is_an_error(name: str, message: str) -> None:
    """With the names that exist."""
    with pytest.raises(ValueError, match=message):
        report.evaluate([[1, 2]], [1], measures=[name])


def test_wrong_grades_and_measures() -> None:
    """Name the argument."""
    with pytest.raises(ValueError, match="`grades` must be numbers in the shape of `target`"):
        report.evaluate([[1, 2]], [[1, 2]], grades=[[1]], measures=["RR"])
    with pytest.raises(ValueError, match=r"grades, .* must be finite and at least 0, got -1"):
        report.evaluate([[1, 2]], [[1, 2]], grades=[[1, -1]], measures=["RR"])
    with pytest.raises(TypeError, match="`measures` must be a list, got 'RR'"):
        report.evaluate([[1, 2]], [1], measures="RR")


def test_runs_have_grades(tmp_path: Path) -> None:
    """The grades of TREC judgements, also from the command line."""
    (tmp_path / "a.run").write_text(
        "q1 Q0 a 1 2 me\nq1 Q0 b 2 1 me\nq2 Q0 b 1 1 me\n", encoding="utf-8"
    )
    (tmp_path / "a.qrels").write_text(
        "q1 0 b 3\nq1 0 a 1\nq1 0 c 0\nq2 0 b 2\nq2 0 a 2\n", encoding="utf-8"
    )
    read = report.read(tmp_path / "a.run", targets=tmp_path / "a.qrels")
    assert read.grades is not None
    assert read.vocabulary is not None
    names = [
        {read.vocabulary[x]: g for x, g in zip(*pair, strict=True) if x >= 0}
        for pair in zip(read.target.tolist(), read.grades.tolist(), strict=True)
    ]
    assert names == [{"b": 3, "a": 1}, {"b": 2, "a": 2}]
    e = report.evaluate(read.preds, read.target, grades=read.grades, measures=["nDCG@2"])
    discount = 1 / math.log2(3)
    expected = ((1 + 3 * discount) / (3 + discount) + 1 / (1 + discount)) / 2
    assert e.values["nDCG@2"] == pytest.approx(expected)
    shown = CliRunner().invoke(
        main,
        ["score", str(tmp_path / "a.run"), "--target", str(tmp_path / "a.qrels"), "--measure",
         "nDCG@2", "--format", "json"],
    )  # fmt: skip
    assert json.loads(shown.output)["nDCG@2"]["value"] == e.values["nDCG@2"]
    for option in ("mask", "exclude", "confidence"):
        shown = CliRunner().invoke(main, ["score", str(tmp_path / "a.run"), f"--{option}", "w"])
        assert f"`--{option}` must be a column of a table, and a run has none" in shown.output
