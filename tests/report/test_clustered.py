"""With clusters, the intervals of groups come from the clusters within each group."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import AccuracyAtK, DecileNDCG, Grouped, PopularityBins, report
from nextloc_metrics.geography import Locations
from nextloc_metrics.report import Evaluation

NUMBER = 240


def batch() -> dict[str, Any]:
    """Queries of users who differ, at hours; hour 9 is that of one user only."""
    generator = np.random.default_rng(0)
    user = generator.integers(0, 12, NUMBER)
    hour = generator.integers(0, 3, NUMBER)
    hour[user == 5] = 9
    target = generator.integers(0, 9, NUMBER)
    hit = generator.random(NUMBER) < user / 12
    return {
        "preds": np.where(hit, target, (target + 1) % 9)[:, None],
        "target": target,
        "groups": {"user": np.array([f"user {x}" for x in user]), "hour": hour},
        "mask": np.arange(NUMBER) % 7 > 0,
    }


def evaluate(rows: Any = slice(None), **options: Any) -> Evaluation:
    """Evaluate some rows."""
    data = batch()
    return report.evaluate(
        data["preds"][rows],
        data["target"][rows],
        mask=data["mask"][rows],
        groups={name: x[rows] for name, x in data["groups"].items()},
        **{"k": 1, "cluster": "user", "num_locations": 9, **options},
    )


def clustered(hits: Any, users: Any, confidence_level: float) -> tuple[float, float]:
    """The interval of these queries alone, clustered; tests of intervals have its definition."""
    number = np.unique(users, return_inverse=True)[1]
    metric = Grouped(AccuracyAtK(1), int(number.max()) + 1, average="queries")
    metric.update(torch.tensor(hits)[:, None].long(), torch.ones(len(hits)).long(), groups=number)
    low, high = metric.interval(confidence_level)
    return float(low), float(high)


def rows_of(e: Evaluation, kind: str) -> dict[str, Any]:
    """The accuracies of a table by group, by the group's name."""
    rows = {str(record["metric"]): record for record in e.groups[kind].records}
    return {name.removeprefix("acc_at_1, "): x for name, x in rows.items() if "acc_at" in name}


def scores_of_each_query() -> dict[str, Any]:
    """By the decile, the score of each query in a batch of its own, NaN where it has none."""
    data, metric = batch(), DecileNDCG(PopularityBins.from_counts(np.arange(1, 10)), k=1)
    queries = np.column_stack([data["preds"], data["target"], data["mask"]])
    kinds, kind_of = np.unique(queries, axis=0, return_inverse=True)
    found: dict[str, list[float]] = {}
    for answer, target, counted in kinds:  # equal queries have equal scores
        metric.reset()
        metric.update([[answer]], [target], mask=[bool(counted)])
        for name, value in metric.compute().items():
            found.setdefault(name, []).append(float(value))
    return {name: np.array(values)[kind_of.reshape(-1)] for name, values in found.items()}


@pytest.mark.slow
def test_the_interval_of_a_decile_is_that_of_its_clusters() -> None:
    """By the definition, from the score of each query alone; the values are those of queries."""
    e = evaluate(train_counts=np.arange(1, 10))
    alone = evaluate(cluster=None, train_counts=np.arange(1, 10))
    assert e.deciles is not None
    assert alone.deciles is not None
    plain = {str(record["metric"]): record for record in alone.deciles.records}
    scores_alone, seen = scores_of_each_query(), 0
    for record in e.deciles.records:
        name = str(record["metric"])
        assert (record["value"], name) == pytest.approx((plain[name]["value"], name), nan_ok=True)
        if not name.startswith("ndcg") or math.isnan(record["value"]):
            continue
        scores = scores_alone[name]
        rows_in = ~np.isnan(scores)
        expected = clustered(scores[rows_in], batch()["groups"]["user"][rows_in], 0.95)
        assert (record["low"], record["high"]) == pytest.approx(expected, abs=1e-6)
        seen += (record["low"], record["high"]) != (plain[name]["low"], plain[name]["high"])
    assert seen > 3


@pytest.mark.parametrize("confidence_level", [0.95, 0.8])
def test_the_interval_of_a_group_is_that_of_its_clusters(confidence_level: float) -> None:
    """By the definition; the value and the number of queries do not depend on the clusters."""
    data = batch()
    e, alone = (
        evaluate(confidence_level=confidence_level),
        evaluate(confidence_level=confidence_level, cluster=None),
    )
    hits = (data["preds"][:, 0] == data["target"]).astype(float)
    for hour in (0, 1, 2):
        found, plain = rows_of(e, "hour")[str(hour)], rows_of(alone, "hour")[str(hour)]
        rows = data["mask"] & (data["groups"]["hour"] == hour)
        expected = clustered(hits[rows], data["groups"]["user"][rows], confidence_level)
        assert (found["low"], found["high"]) == pytest.approx(expected, abs=1e-6)
        assert found["value"] == plain["value"] == pytest.approx(hits[rows].mean())
        assert found["queries"] == plain["queries"] == rows.sum()
        assert found["low"] < plain["low"] < plain["high"] < found["high"]  # users differ
    alone_at_nine = rows_of(e, "hour")["9"]
    assert (alone_at_nine["low"], alone_at_nine["high"]) == (0, 1)  # one user tells nothing
    assert rows_of(e, "hour")["9"]["value"] == rows_of(alone, "hour")["9"]["value"]


def test_one_group_has_the_interval_of_all() -> None:
    """A group of all queries has the interval of the headline, of distances too."""
    generator = np.random.default_rng(1)
    users = generator.integers(0, 30, 300)
    e = report.evaluate(
        (generator.normal(size=(300, 9)) + 3 * np.eye(9)[users % 9]).astype(np.float32),
        users % 9,
        groups={"user": users, "all": ["all"] * 300},
        cluster="user",
        locations=Locations.from_plane(range(0, 9000, 1000), range(9)),
    )
    records = {record["metric"]: record for record in e.groups["all"].records}
    of_groups = {str(name).removesuffix(", all") for name in records}
    assert set(e.intervals) == {*of_groups, "f1"}
    for name in of_groups:
        low, high = e.intervals[name]
        record = records[f"{name}, all"]
        assert (record["low"], record["high"]) == pytest.approx((low, high), rel=1e-6)


def test_the_intervals_of_the_clusters_themselves_take_queries_as_independent() -> None:
    """Of one user there are only queries; a note says so, and which intervals are clustered."""
    e, alone = evaluate(train_counts=range(9)), evaluate(cluster=None, train_counts=range(9))
    assert rows_of(e, "user") == rows_of(alone, "user")
    assert e.groups["user"].notes[-1] == "intervals of one user: queries independent"
    assert e.groups["hour"].notes[-1] == "intervals: clustered by user"
    assert e.deciles is not None
    assert e.deciles.notes[-1] == "intervals: clustered by user"
    assert not any("intervals" in note for note in alone.groups["hour"].notes)
