"""A name of another library, or of another place, is answered by the name that is meant here."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torchmetrics import Metric

import nextloc_metrics
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    LocationF1,
    RankingCollection,
    RecallAtK,
    next_location_metrics,
    recommendation_metrics,
    report,
)
from nextloc_metrics.trajectories import DTW
from strategies import named

NAMES = {
    "compare": r"; did you mean `report\.compare`\?",
    "evaluate": r"; did you mean `report\.evaluate`\?",
    "NDCG": r"; did you mean `NDCGAtK`\?",
    "HitRate": r"; did you mean `HitRateAtK`\?",
    "mrr": r"; did you mean `MRR`\?",
    "WeightedF1": r"; did you mean `LocationF1`\?",
    "RetrievalMRR": r"; did you mean `MRR\(k\)`\?",
    "Recal": r"; did you mean `RecallAtK`\?",
    "zzz": "",
    "events": r", which was retired in 0\.6: use the metrics of HoTPP\.",
    "Hausdorff": r", which was retired in 0\.6: use tslearn, .*",
}


@pytest.mark.parametrize(("name", "says"), NAMES.items())
def test_a_name_of_the_package(name: str, says: str) -> None:
    """The error names the class, the package that has the function, or what replaced it."""
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'{says}$"):
        getattr(nextloc_metrics, name)
    with pytest.raises(AttributeError, match=r"use `report\.evaluate`, which takes tables"):
        report.evaluate_table  # noqa: B018


@pytest.mark.parametrize(
    ("call", "use"),
    [
        (lambda: next_location_metrics(num_classes=3), "`num_classes`; use `num_locations`"),
        (lambda: LocationF1(3, num_classes=3), "LocationF1 .*`num_classes`; use `num_locations`"),
        (lambda: recommendation_metrics(top_k=3), "`top_k`; use `k`"),
        (lambda: RecallAtK(3, top_k=3), "`top_k`; use `k`"),
        (lambda: AccuracyAtK(1, unknown=2), "^AccuracyAtK has no .*`unknown`; its options are `k`"),
        (lambda: report.evaluate([[1]], [1], top_k=3), "`top_k`; use `k`"),
        (lambda: report.evaluate([[1]], [1], ignore_index=-100), "pass `mask=target != -100`"),
        (lambda: report.evaluate([[1]], [1], km=3), r"takes an `AccuracyWithin\(locations, km\)`"),
        (lambda: report.evaluate([[1]], [1], user=[3]), "use `users`"),
        (lambda: report.Evaluator(users=[3]), r'`cluster="user"`, and `groups=\{"user": users\}`'),
        (lambda: report.evaluate({}, kk=2), "evaluate has no option `kk`; use `k`"),
        (lambda: MRR().update(1, 2, indexes=3), "`indexes`; a row of `preds` is a query"),
        (lambda: RankingCollection([MRR()])(1, 2, indexes=3), "`indexes`; a row of `preds` is a q"),
    ],
)
def test_an_argument_of_another_library(call: Callable[[], Any], use: str) -> None:
    """The error says what the argument is called here, or what stands in its place."""
    with pytest.raises(TypeError, match=use):
        call()


def test_errors_of_calls_name_the_class_that_is_called() -> None:
    """Unknown options and arguments, missing and extra ones: never a base class."""

    class Own(AccuracyAtK):
        """A metric of one's own."""

    public = {name: getattr(nextloc_metrics, name) for name in nextloc_metrics.__all__}
    metrics = {
        name: made
        for name, made in public.items()
        if inspect.isclass(made) and issubclass(made, Metric) and not inspect.isabstract(made)
    }
    del metrics["HitRateAtK"]  # another name of a class
    assert len(metrics) > 30
    for name, made in metrics.items():
        needed = inspect.signature(made).parameters.values()
        missing = any(x.default is x.empty and x.kind is x.POSITIONAL_OR_KEYWORD for x in needed)
        wrong = rf"^{name}(\.__init__\(\)| has no option `unknown)"
        for arguments, options in (((1,) * 20, {}), ((), {} if missing else {"unknown_option": 1})):
            with named(name), pytest.raises(TypeError, match=wrong):
                made(*arguments, **options)
    for metric, name in ((Own(1), "Own"), (AccuracyAtK(1), "AccuracyAtK"), (DTW(), "DTW")):
        with pytest.raises(TypeError, match=rf"{name}\.update\(\) got an unexpected"):
            metric.update([[1]], [1], unknown=1)
        with pytest.raises(TypeError, match=rf"{name}\.read\(\) missing"):
            metric.read()


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
    assert "`--truth` must be the file of the judgements (qrels) of" in said("score", str(run))
    warned = said("score", str(run), "--target", str(qrels), "--measure", "map@100")
    assert "a cut-off of `--measure` should be at most 2" in warned
    assert "--k" not in warned
    said("report", str(run), "--truth", str(qrels), "--out", str(tmp_path / "page.html"))
    assert "x.qrels, target" not in (tmp_path / "page.html").read_text("utf-8")
