"""A name of another library, or of another place, is answered by the name that is meant here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import nextloc_metrics
from nextloc_metrics import (
    MRR,
    LocationF1,
    RankingCollection,
    RecallAtK,
    next_location_metrics,
    recommendation_metrics,
    report,
)

BY_USER = r'pass `groups=\{"user": users\}, cluster="user"`'


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("compare", "`report.compare`"),
        ("evaluate", "`report.evaluate`"),
        ("NDCG", "`NDCGAtK`"),
        ("HitRate", "`HitRateAtK`"),
        ("MAP", "`MAPAtK`"),
        ("mrr", "`MRR`"),
        ("F1", "`LocationF1`"),
        ("WeightedF1", "`LocationF1`"),
        ("MRRAtK", r"`MRR\(k\)`"),
        ("RetrievalMRR", r"`MRR\(k\)`"),
        ("Recal", "`RecallAtK`"),
    ],
)
def test_a_name_of_the_package(name: str, meant: str) -> None:
    """The error names the class, or the package that has the function."""
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; did you mean {meant}\?$"):
        getattr(nextloc_metrics, name)


@pytest.mark.parametrize(
    ("package", "name", "use"),
    [
        (report, "evaluate_mobility", "use scikit-mobility"),
        (report, "evaluate_flows", "use `skmob.measures"),
        (report, "evaluate_table", "use `report.evaluate`, which takes tables"),
        (nextloc_metrics, "events", "use the metrics of HoTPP"),
        (nextloc_metrics, "mobility", "use `nextloc_metrics.trajectories`"),
    ],
)
def test_a_retired_name(package: Any, name: str, use: str) -> None:
    """The error says what to use instead."""
    with pytest.raises(AttributeError, match=rf"'{name}', which was retired in 0\.6: {use}"):
        getattr(package, name)


def test_a_name_like_no_other_has_no_hint() -> None:
    """An unrelated name is not answered."""
    with pytest.raises(AttributeError, match=r"no attribute 'zzz'$"):
        nextloc_metrics.zzz  # noqa: B018


@pytest.mark.parametrize(
    ("call", "use"),
    [
        (lambda: next_location_metrics(num_classes=3), "`num_classes`; use `num_locations`"),
        (lambda: LocationF1(3, num_classes=3), "`num_classes`; use `num_locations`"),
        (lambda: recommendation_metrics(top_k=3), "`top_k`; use `k`"),
        (lambda: RecallAtK(3, top_k=3), "`top_k`; use `k`"),
        (lambda: report.evaluate([[1]], [1], top_k=3), "`top_k`; use `k`"),
        (lambda: report.evaluate([[1]], [1], users=[3]), BY_USER),
        (lambda: report.compare({}, [1], users=[3]), BY_USER),
        (lambda: report.Evaluator(users=[3]), r'`cluster="user"`, and `groups=\{"user": users\}`'),
        (lambda: report.evaluate({}, users="u"), r'`groups=\["user"\], cluster="user"`'),
        (lambda: MRR().update(1, 2, indexes=3), "`indexes`; a row of `preds` is a query"),
        (lambda: RankingCollection([MRR()])(1, 2, indexes=3), "`indexes`; a row of `preds` is a q"),
    ],
)
def test_an_argument_of_another_library(call: Callable[[], Any], use: str) -> None:
    """The error says what the argument is called here, or what stands in its place."""
    with pytest.raises(TypeError, match=use):
        call()


def test_lists_of_ids_as_floating_numbers() -> None:
    """Floating numbers are scores, and the error of a target beyond them says so."""
    with pytest.raises(ValueError, match="floating `preds` are scores, not lists of ids"):
        MRR()(torch.tensor([[30.0, 1.0, 7.0]]), torch.tensor([30]))


@pytest.mark.slow
def test_options_of_the_command_line(tmp_path: Path) -> None:
    """`--by`, `--qrels`, `--html`, and a run without targets name the option that is meant."""
    testing = pytest.importorskip("click.testing")
    from nextloc_metrics.cli.commands import main

    (run := tmp_path / "x.run").write_text("q1 Q0 a 1 0.5 r\nq1 Q0 b 2 0.4 r\n", encoding="utf-8")
    (qrels := tmp_path / "x.qrels").write_text("q1 0 a 1\n", encoding="utf-8")

    def said(*words: str) -> str:
        return str(testing.CliRunner().invoke(main, [*words]).stderr)

    assert "Did you mean '--group'?" in said("score", str(run), "--by", "hour")
    assert "Did you mean '--cluster'?" in said("compare", str(run), "--by", "hour")
    assert "Did you mean '--target'?" in said("score", str(run), "--qrels", "x")
    assert "Did you mean '--out PAGE.html'?" in said("score", str(run), "--html", "x")
    assert "`--target` must be the file of the judgements (qrels) of" in said("score", str(run))
    warned = said("score", str(run), "--target", str(qrels), "--measure", "map@100")
    assert "a cut-off of `--measure` should be at most 2" in warned
    assert "--k" not in warned
