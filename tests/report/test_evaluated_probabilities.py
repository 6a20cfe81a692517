"""Probabilities in `evaluate`, in files of counts, on the page and on the command line."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path
from typing import Any

import pandas
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from command import main
from nextloc_metrics import Grouped, NegativeLogLikelihood, probability_metrics, report

USERS = [f"u{number % 7}" for number in range(60)]


def data() -> tuple[Tensor, Tensor]:
    """Logits of 60 queries, and targets drawn from them."""
    torch.manual_seed(3)
    logits = 2 * torch.randn(60, 9)
    return logits, torch.distributions.Categorical(logits=logits).sample()


def test_the_metrics_of_probabilities_are_rows() -> None:
    """The values and intervals are those of the preset; chance and frequencies are beside them."""
    logits, target = data()
    counts = torch.arange(9)
    found = report.evaluate(logits, target, k=1, given="logits", train_counts=counts)
    metrics = probability_metrics(given="logits")
    metrics.update(logits, target)
    for name, value in metrics.compute().items():
        assert found.values[name] == pytest.approx(float(value)), name
    low, high = metrics["nll"].interval()
    assert found.intervals["nll"] == pytest.approx((float(low), float(high)))
    assert found.chance["nll"] == pytest.approx(math.log(9))
    assert found.chance["brier"] == pytest.approx(8 / 9)
    shares = (counts.double() + 1) / (counts.sum() + 9)
    assert found.baseline["nll"] == pytest.approx(float(-shares[target].log().mean()))
    assert "nll (nats)" in str(found)
    assert "nll" not in report.evaluate(logits, target, k=1).values


def test_clusters_and_groups_of_probabilities() -> None:
    """Intervals clustered by user, and the likelihood of each user."""
    logits, target = data()
    found = report.evaluate(
        logits, target, k=1, given="logits", groups={"user": USERS}, cluster="user"
    )
    clustered = Grouped(NegativeLogLikelihood(given="logits"), 7, average="queries")
    clustered.update(logits, target, groups=torch.arange(60) % 7)
    low, high = clustered.interval()
    assert found.intervals["nll"] == pytest.approx((float(low), float(high)))
    records = [x for x in found.group_records("user") if x["metric"] == "nll"]
    assert [x["group"] for x in records] == [f"u{number}" for number in range(7)]
    nats = -logits.double().log_softmax(1).gather(1, target[:, None])[:, 0]
    assert records[2]["value"] == pytest.approx(float(nats[2::7].mean()))


@pytest.mark.slow
def test_counts_of_probabilities_are_saved_and_merged(tmp_path: Path) -> None:
    """Shards have the bits of the whole, and say what scores were."""
    logits, target = data()
    options: Any = {"k": 1, "num_locations": 9}
    whole = report.evaluate(logits, target, given="logits", **options)
    for number, rows in enumerate((slice(0, 20), slice(20, 60))):
        part = report.evaluate(logits[rows], target[rows], given="logits", **options)
        part.save(tmp_path / f"{number}.npz")
    merged = report.merge([tmp_path / "0.npz", tmp_path / "1.npz"])
    assert merged.values == whole.values
    assert merged.intervals == whole.intervals
    other = report.evaluate(logits.log_softmax(1), target, given="log_probabilities", **options)
    with pytest.raises(ValueError, match="shards must agree on `given`"):
        report.merge([tmp_path / "0.npz", other])


@pytest.mark.usefixtures("blank_pictures")
def test_answers_with_a_confidence() -> None:
    """The share of answered queries and their accuracy are rows of the table."""
    preds, target = [[0, 1], [2, 3], [-1, -1], [5, 1]], [0, 1, 2, 5]
    found = report.evaluate(preds, target, k=1, confidence=[0.9, 0.8, 0.1, 0.7])
    assert found.values["answered"] == 0.75
    assert found.values["accuracy_of_answered"] == pytest.approx(2 / 3)
    assert {"ece", "aurc"} < found.values.keys()
    assert found.to_html().count("Accuracy by confidence") > 0


def test_a_column_of_confidences(tmp_path: Path) -> None:
    """The values are those of arrays; a part without rows adds nothing, nor is a mask read."""
    rows: dict[str, Any] = {
        "preds": ["[3, 1]", "[2, 0]", "[0, 7]", "[5, 1]"],
        "target": [3, 1, 2, 5],
        "seen": [True, True, False, True],
        "sure": [0.9, 0.8, None, 0.7],
        "skip": ["[4]"] * 4,
    }
    frame = pandas.DataFrame(rows)
    for number, part in enumerate((frame, frame[:0])):
        part.to_csv(tmp_path / f"{number}.csv", index=False)
    options: Any = {"k": 1, "num_locations": 6}
    of_arrays = report.evaluate(
        [[3, 1], [2, 0], [0, 7], [5, 1]],
        rows["target"],
        mask=rows["seen"],
        confidence=[0.9, 0.8, math.nan, 0.7],
        exclude=[[4]] * 4,
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a part has no rows
        found = report.evaluate(tmp_path, mask="seen", confidence="sure", exclude="skip", **options)
    assert found.values == of_arrays.values
    assert found.intervals == of_arrays.intervals


def test_the_command_reads_a_column_of_confidences(tmp_path: Path) -> None:
    """`--confidence` names it, beside the level of the intervals; another number is refused."""
    path = tmp_path / "answers.csv"
    path.write_text('preds,target,sure\n"[3, 1]",3,0.75\n"[2, 0]",1,0.5\n', "utf-8")
    options = ["--confidence", "sure", "--k", "1", "--confidence-level", "0.8"]
    shown = CliRunner().invoke(main, ["score", str(path), *options])
    assert "80 % interval" in shown.output
    assert re.search(r"^ece +37\.50$", shown.output, re.MULTILINE)  # (1/4 + 1/2) / 2
    path.write_text('preds,target,sure\n"[3, 1]",3,0.75\n"[2, 0]",1,75\n', "utf-8")
    shown = CliRunner().invoke(main, ["score", str(path), *options])
    assert re.search(
        r"line 3 of .*answers.csv.* must hold a confidence from 0 to 1 in `sure`, got '?75",
        shown.output,
    )


@pytest.mark.parametrize(
    ("preds", "target", "options"),
    [
        ([[3, 1]], [3], {"given": "logits"}),
        ([[0.3, 1.0]], [1], {"confidence": [0.5]}),
        ([[0.3, 1.0]], [[1, 0]], {"given": "logits"}),
    ],
)
def test_what_has_no_probabilities(preds: Any, target: Any, options: Any) -> None:
    """Lists without confidence, scores with them, and several relevant locations."""
    message = "`target` must be one id per query for metrics of prob"
    with pytest.raises(ValueError, match=message):
        report.evaluate(preds, target, k=1, **options)
    columns = {"preds": preds, "target": target, **options}
    names = {name: name if name == "confidence" else options[name] for name in options}
    with pytest.raises(ValueError, match=message):
        report.evaluate(pandas.DataFrame(columns), k=1, **names)
    with pytest.raises(ValueError, match="`given` must be None or one of"):
        report.evaluate([[0.3, 1.0]], [1], given="softmax")  # type: ignore[arg-type]
