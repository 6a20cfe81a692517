"""A metric of one's own in an evaluation: its row, from arrays, files, parts, workers, commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from command import main
from nextloc_metrics import (
    RBP,
    Grouped,
    LocationF1,
    MeanMetric,
    MeanRank,
    Ranking,
    RankingCollection,
    RankingMetric,
    report,
)
from nextloc_metrics.base import Queries, Record, RecordMetric


class Soon(RankingMetric):
    """The share of targets that the model names soon, which is within some ranks."""

    def __init__(self, within: int = 2, **kwargs: Any) -> None:
        super().__init__(within=within, **kwargs)

    within: int

    @property
    def label(self) -> str:
        """The label in pictures."""
        return f"soon, within {self.within}"

    def score(self, ranking: Any) -> Tensor:
        """1 within, 0 beyond."""
        above: Tensor = ranking.break_ties("pessimistic").above[:, 0]
        return (above < self.within).double()


class Balance(RecordMetric):
    """Hits less misses of the first candidate: a number that may be negative, and no mean."""

    record = Ranking
    plot_lower_bound = plot_upper_bound = None

    def empty_state(self) -> Tensor:
        """One number."""
        return torch.zeros(1, dtype=torch.int64)

    def tally(self, record: Any) -> Tensor:
        """Add 1 or -1."""
        hit = record.break_ties("pessimistic").above[:, 0] == 0
        return (2 * hit.long() - 1)[record.answerable].sum()[None]

    def compute(self) -> Tensor:
        """The number."""
        return self.state[0].double()


@dataclass(eq=False)
class Margin(Record):
    """By how much the best candidate leads."""

    queries: Queries
    lead: Tensor

    @classmethod
    def read(cls, batch: Any, needs: Any) -> Margin:
        """Read scores."""
        first, second = batch.preds.topk(2).values.double().unbind(1)
        return cls(Queries(batch.preds.shape[:1], torch.ones(len(first)) > 0), first - second)


class MeanMargin(MeanMetric):
    """The mean lead."""

    record = Margin

    def score(self, record: Margin) -> Tensor:
        """The lead of each query."""
        return record.lead


class OwnState(Soon):
    """A metric with a state that no file of counts would hold."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("seen", torch.zeros(1), dist_reduce_fx="sum")


class OwnUpdate(RankingMetric):
    """A metric that an evaluation cannot read once with all others."""

    def score(self, ranking: Any) -> Tensor:
        """Nothing."""
        return torch.zeros(len(ranking))

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Count twice."""
        super().update(*args, **kwargs)


def metrics() -> dict[str, Any]:
    """Two metrics of one's own, of which one is no mean."""
    return {"soon": Soon(), "balance": Balance()}


NUMBER = 60
LISTS = np.stack([np.random.default_rng(x).permutation(8)[:4] for x in range(NUMBER)])
TARGET = np.random.default_rng(99).integers(0, 8, NUMBER)
USERS = np.array([f"user {x % 5}" for x in range(NUMBER)])
HITS = np.array([t in row[:2] for t, row in zip(TARGET.tolist(), LISTS.tolist(), strict=True)])
FIRST = LISTS[:, 0] == TARGET
OPTIONS: dict[str, Any] = {"k": (1, 3), "num_locations": 8, "cluster": "user"}


@cache
def whole() -> report.Evaluation:
    """All queries at once."""
    groups = {"user": USERS, "hour": np.arange(NUMBER) % 3}
    return report.evaluate(LISTS, TARGET, groups=groups, metrics=metrics(), **OPTIONS)


def write(path: Path, rows: slice = slice(None)) -> Path:
    """Write some rows as a table."""
    frame = {"preds": list(LISTS[rows]), "target": TARGET[rows], "user": USERS[rows]}
    pd.DataFrame({**frame, "hour": np.arange(NUMBER)[rows] % 3}).to_parquet(path)
    return path


@pytest.mark.usefixtures("blank_pictures")
def test_a_metric_of_ones_own_has_its_row_interval_and_groups() -> None:
    """Values are the shares; the interval is that of the metric; the object itself counts none."""
    found, own = whole(), Soon()
    assert list(found.values)[-2:] == ["soon", "balance"]
    assert found.values["soon"] == pytest.approx(HITS.mean())
    assert found.values["balance"] == 2 * FIRST.sum() - NUMBER
    assert found.values["balance"] < 0
    clustered = Grouped(own, 5, average="queries")
    clustered.update(LISTS, TARGET, groups=np.arange(NUMBER) % 5)
    assert found.intervals["soon"] == pytest.approx([float(x) for x in clustered.interval()])
    assert "balance" not in found.intervals
    for kind, groups in (("user", USERS), ("hour", np.arange(NUMBER) % 3)):
        records = [x for x in found.group_records(kind) if x["metric"] == "soon"]
        for x in records:
            assert x["value"] == pytest.approx(HITS[groups.astype(str) == x["group"]].mean())
        assert len(records) == len({*groups.tolist()})
    plain = report.evaluate(LISTS, TARGET, k=1, num_locations=8, metrics={"soon": own})
    own.update(LISTS, TARGET)
    assert plain.intervals["soon"] == pytest.approx([float(x) for x in own.interval()])
    again = report.evaluate(LISTS, TARGET, k=1, num_locations=8, metrics={"soon": own})
    assert again.values == plain.values
    assert "soon" not in found.ties  # the class decides how it reads ties
    page = found.to_html()
    assert "The share of targets that the model names soon, which is within some ranks." in page
    assert page.count("soon") >= 5
    assert "soon" in str(found)
    assert "soon" in found.to_markdown()


def test_chance_and_baseline_are_those_of_ranks() -> None:
    """2 of 8 candidates; the two most visited; a metric of scores has its value alone."""
    generator = np.random.default_rng(1)
    scores = generator.random((NUMBER, 8)).astype(np.float32)
    own = {"soon": Soon(), "margin": MeanMargin(), "rbp": RBP(0.5)}
    counts = [9, 1, 1, 1, 8, 1, 1, 1]
    found = report.evaluate(scores, TARGET, k=1, train_counts=counts, metrics=own)
    assert found.chance["soon"] == pytest.approx(2 / 8)
    assert found.baseline["soon"] == pytest.approx(np.isin(TARGET, [0, 4]).mean())
    top = np.sort(scores.astype(float))
    assert found.values["margin"] == pytest.approx((top[:, -1] - top[:, -2]).mean())
    assert "margin" in found.intervals
    assert not {"margin"} & (found.chance.keys() | found.baseline.keys() | found.ties.keys())
    assert {"rbp"} <= found.chance.keys() & found.baseline.keys() & found.ties.keys()
    assert list(found.values)[-3:] == ["soon", "rbp", "margin"]


def in_parts(_: Path) -> report.Evaluation:
    """Three evaluators, saved as bytes and merged."""
    parts = []
    for start in range(3):
        evaluator = report.Evaluator(metrics=metrics(), **OPTIONS)
        rows = slice(start, None, 3)
        groups: Any = {"user": USERS[rows], "hour": np.arange(NUMBER)[rows] % 3}
        evaluator.update(LISTS[rows], TARGET[rows], groups=groups)
        parts.append(report.Evaluator.from_bytes(evaluator.to_bytes(), metrics()))
    return parts[2].merge(parts[0]).merge(parts[1]).result()


def of_table(folder: Path) -> report.Evaluation:
    """Two files."""
    for number, rows in enumerate((slice(0, 25), slice(25, None))):
        write(folder / f"{number}.parquet", rows)
    return report.evaluate(folder, groups=["user", "hour"], metrics=metrics(), **OPTIONS)


def of_saved(folder: Path) -> report.Evaluation:
    """Two files of counts, merged."""
    for number, rows in enumerate((slice(0, 25), slice(25, None))):
        path = write(folder / f"{number}.parquet", rows)
        part = report.evaluate(
            path, groups=["user", "hour"], metrics=RankingCollection(metrics()), **OPTIONS
        )
        part.save(folder / f"{number}.npz")
    return report.merge([folder / "0.npz", folder / "1.npz"], metrics=metrics())


@pytest.mark.parametrize("way", [in_parts, of_table, of_saved])
def test_any_way_gives_the_same_bits(
    way: Callable[[Path], report.Evaluation], tmp_path: Path
) -> None:
    """Batches, files, counts."""
    found, expected = way(tmp_path), whole()
    assert found.to_markdown() == expected.to_markdown()
    assert found.values == expected.values
    assert found.intervals == expected.intervals


def test_counts_of_other_metrics_are_refused(tmp_path: Path) -> None:
    """Evaluations in memory, files and bytes; the message says which metrics they have."""
    path = tmp_path / "counts.npz"
    whole().save(path)
    other = {"soon": Soon(3), "balance": Balance()}
    reordered = dict(reversed(metrics().items()))
    assert report.merge([path], metrics=reordered).values == whole().values
    for wrong in (None, other, {"soon": Soon()}, {"again": Soon(), "balance": Balance()}):
        with pytest.raises(
            ValueError, match=r"counts.npz has counts of `metrics` (soon|balance): .*pass"
        ):
            report.merge([path], metrics=wrong)
    same = {x: {"f": LocationF1(8, average=x)} for x in ("macro", "micro")}  # of one state
    report.evaluate(LISTS, TARGET, k=1, num_locations=8, metrics=same["macro"]).save(path, True)
    with pytest.raises(ValueError, match=r"`metrics` f: .*'macro'.*got f: .*'micro'"):
        report.merge([path], metrics=same["micro"])
    evaluator, another = (report.Evaluator(k=1, metrics=x) for x in (metrics(), other))
    with pytest.raises(ValueError, match="`data` has counts of `metrics`"):
        report.Evaluator.from_bytes(evaluator.to_bytes())
    assert report.Evaluator.from_bytes(evaluator.to_bytes(), metrics()).metrics.keys() == {
        "soon",
        "balance",
    }
    with pytest.raises(
        ValueError, match=r"must agree on `metrics`.*pass the same `metrics` to all"
    ):
        evaluator.merge(another)
    parts = [
        report.evaluate(LISTS[x], TARGET[x], k=1, num_locations=8, metrics=of)
        for x, of in ((slice(0, 30), metrics()), (slice(30, None), other))
    ]
    with pytest.raises(ValueError, match="must agree on `metrics`"):
        report.merge(parts)


@pytest.mark.parametrize(
    ("wrong", "says"), [(OwnUpdate(), "overrides `update`"), (OwnState(), "has a state of its own")]
)
def test_what_cannot_have_a_row_is_refused(wrong: Any, says: str) -> None:
    """By evaluations and comparisons, before anything is counted; others are in a golden file."""
    with pytest.raises(ValueError, match=says):
        report.evaluate(LISTS, TARGET, k=1, metrics={"soon": wrong})
    with pytest.raises(ValueError, match=says):
        report.compare({"a": LISTS, "b": LISTS}, TARGET, k=1, metrics={"soon": wrong})


def test_a_comparison_has_the_row() -> None:
    """Second minus first, with a test; a metric with a unit is refused."""
    other = LISTS[:, ::-1]
    found = report.compare({"a": LISTS, "b": other}, TARGET, k=1, metrics=metrics())
    hits = (other[:, :2] == TARGET[:, None]).any(1)
    assert found.values["b"]["soon"] == pytest.approx(hits.mean())
    difference = found.comparisons["b"]["soon"].difference
    assert difference == pytest.approx(hits.mean() - HITS.mean())
    assert "balance" not in found.comparisons["b"]
    with pytest.raises(ValueError, match="must be fractions, got MeanRank"):
        report.compare({"a": LISTS, "b": other}, TARGET, metrics={"mean_rank": MeanRank()})


MODULE = """
from nextloc_metrics import RankingMetric
class Soon(RankingMetric):
    def score(self, ranking):
        return (ranking.break_ties("pessimistic").above[:, 0] < 2).double()
def chosen():
    return {"soon": Soon()}
number = 3

def forgot():
    chosen()
"""


def test_the_command_line_takes_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a module in the working folder; `merge` needs it, and `compare` and pages show it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # undone after the test
    (tmp_path / "mine_of_a_test.py").write_text(MODULE, encoding="utf-8")
    write(tmp_path / "a.parquet")

    def run(*words: str) -> Any:
        return CliRunner().invoke(main, list(words))

    own = ("--metrics", "mine_of_a_test:chosen")
    shown = run("score", "a.parquet", "--k", "1", *own, "--save", "a.npz", "--format", "json")
    assert shown.exit_code == 0, shown.output
    text = shown.stdout
    assert json.loads(text)["soon"]["value"] == pytest.approx(HITS.mean())
    merged = run("merge", "a.npz", *own, "--format", "json")
    assert json.loads(merged.stdout)["soon"] == json.loads(text)["soon"]
    refused = run("merge", "a.npz")
    assert refused.exit_code == 1
    assert "pass the same `--metrics`" in refused.output
    assert "soon, a.parquet" not in run("compare", "a.parquet", "a.parquet").output
    page = run("report", "a.parquet", "--k", "1", *own, "--out", "a.html")
    assert page.exit_code == 0, page.output
    assert "metrics mine_of_a_test:chosen" in (tmp_path / "a.html").read_text(encoding="utf-8")
    for wrong, says in (
        ("mine_of_a_test:forgot", "must be a function that returns metrics, got None of mine_of"),
        ("mine_of_a_test", "`--metrics` must be `module:function`"),
        ("mine_of_a_test:none", "`--metrics` must be `module:function`"),
        ("mine_of_a_test:number", "`--metrics` must be `module:function`"),
        ("none_of_a_test:chosen", "No module named 'none_of_a_test'"),
        ("mine_of_a_test.py:chosen", "a module without `.py`"),
    ):
        shown = run("score", "a.parquet", "--metrics", wrong)
        assert (shown.exit_code, says in shown.output) == (1, True), shown.output
