"""Errors of calls name the class that is called, and options of the command line what is meant."""

import inspect
from pathlib import Path

import pytest
from torchmetrics import Metric

import nextloc_metrics
from nextloc_metrics import (
    AccuracyAtK,
)
from strategies import with_case_in_error


def test_errors_of_calls_name_the_class_that_is_called() -> None:
    """Unknown options, missing and extra ones: never a base class."""

    class Own(AccuracyAtK):
        """A metric of one's own."""

    public = {name: getattr(nextloc_metrics, name) for name in nextloc_metrics.__all__}
    metrics = {
        name: made
        for name, made in public.items()
        if inspect.isclass(made) and issubclass(made, Metric) and not inspect.isabstract(made)
    }
    assert len(metrics) > 30
    for name, made in metrics.items():
        needed = inspect.signature(made).parameters.values()
        missing = any(x.default is x.empty and x.kind is x.POSITIONAL_OR_KEYWORD for x in needed)
        wrong = rf"^{name}(\.__init__\(\)| has no option `unknown)"
        for arguments, options in (((1,) * 20, {}), ((), {} if missing else {"unknown_option": 1})):
            with with_case_in_error(name), pytest.raises(TypeError, match=wrong):
                made(*arguments, **options)


@pytest.mark.slow
def test_options_of_the_command_line(tmp_path: Path) -> None:
    """`--by`, `--qrels`, `--html`, and a run without targets name the option that is meant."""
    testing = pytest.importorskip("click.testing")
    from command import main

    (run := tmp_path / "x.run").write_text("q1 Q0 a 1 0.5 r\nq1 Q0 b 2 0.4 r\n", encoding="utf-8")
    (qrels := tmp_path / "x.qrels").write_text("q1 0 a 1\n", encoding="utf-8")

    def error_of(*words: str) -> str:
        return str(testing.CliRunner().invoke(main, [*words]).stderr)

    assert "Did you mean '--group'?" in error_of("score", str(run), "--by", "hour")
    assert "Did you mean '--cluster'?" in error_of("compare", str(run), "--by", "hour")
    assert "Did you mean '--target'?" in error_of("score", str(run), "--qrels", "x")
    assert "Did you mean '--out PAGE.html'?" in error_of("score", str(run), "--html", "x")
    assert "`--truth` must be the file of the judgements (qrels) of" in error_of("score", str(run))
    warned = error_of("score", str(run), "--target", str(qrels), "--measure", "map@100")
    assert "a cut-off of `--measure` should be at most 2" in warned
    assert "--k" not in warned
    error_of("report", str(run), "--truth", str(qrels), "--out", str(tmp_path / "page.html"))
    assert "x.qrels, target" not in (tmp_path / "page.html").read_text("utf-8")
