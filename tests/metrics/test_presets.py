"""Presets: each argument reaches the members that it is for, and LibCity's values are its own."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import nextloc_metrics
from nextloc_metrics import (
    NDCGAtK,
    PopularityBins,
    RankingCollection,
    Visits,
    libcity_metrics,
    next_location_metrics,
    recommendation_metrics,
)
from nextloc_metrics.geography import Locations
from strategies import one_relevant

PRESETS = {
    name: preset
    for name, preset in inspect.getmembers(nextloc_metrics)
    if name.endswith("_metrics") and preset.__module__.startswith("nextloc_metrics.metrics")
}
PLACES = Locations([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
TWO, THREE = PopularityBins([1, 2, 0]), PopularityBins([1, 2, 3])
VISITS = Visits(["ann", "ann"], [0, 1])
NEEDED: dict[str, Any] = {"num_locations": 3, "bins": TWO}

#: by argument, another value than the default, which a preset has that takes it
VALUES: dict[str, Any] = {
    "num_locations": 7,
    "k": (2, 7),
    "ndcg_k": 4,
    "locations": PLACES,
    "km": 0.5,
    "gain": "exponential",
    "coverage": 0.3,
    "threshold": 0.25,
    "thresholds": [0.25, 0.5],
    "min_recall": 0.75,
    "scope": "all",
    "visits": VISITS,
    "separator": "@",
}
ARGUMENTS = [
    (preset, name)
    for preset, function in PRESETS.items()
    for name, x in inspect.signature(function).parameters.items()
    if name not in ("prefix", "postfix") and x.kind is not x.VAR_KEYWORD
]


def members_of(preset: str, **options: Any) -> dict[str, Any]:
    """The members of a preset by name."""
    parameters = inspect.signature(PRESETS[preset]).parameters.values()
    needed = {
        x.name: NEEDED[x.name] for x in parameters if x.default is x.empty and x.name in NEEDED
    }
    return dict(PRESETS[preset](**needed | options).items())


def text_of_options(metric: Any) -> str:
    """What tells a metric from others: its `repr`, and thresholds that torchmetrics leaves out."""
    return f"{metric!r} {[as_list(getattr(metric, x, None)) for x in ('threshold', 'thresholds')]}"


def as_list(value: Any) -> Any:
    """The numbers of a tensor as a list."""
    return value.tolist() if isinstance(value, Tensor) else value


def value_in(metric: Any, argument: str) -> Any:
    """The value that an argument has in a member, or in the metric that it groups."""
    inner = getattr(metric, "metric", metric)
    if argument == "ndcg_k":
        return inner.k if isinstance(inner, NDCGAtK) else None
    has_it = argument in inspect.signature(type(inner)).parameters
    return as_list(getattr(inner, argument)) if has_it else None


def changed_by(preset: str, value: Any, argument: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """All members with another value of an argument, and those that it makes or changes."""
    others = {"locations": PLACES} if argument == "km" else {}
    before = members_of(preset, **others)
    after = members_of(preset, **others | {argument: value})
    return after, {
        name: metric
        for name, metric in after.items()
        if name not in before or text_of_options(before[name]) != text_of_options(metric)
    }


@pytest.mark.parametrize(
    ("preset", "argument"), [x for x in ARGUMENTS if x[1] not in ("separator", "bins")]
)
def test_each_argument_is_seen_in_its_members(preset: str, argument: str) -> None:
    """Each member that has such an option has the value, and no other member is changed."""
    value = 3 if (preset, argument) == ("decile_metrics", "k") else VALUES[argument]
    after, changed = changed_by(preset, value, argument)
    assert changed
    for name, metric in after.items():
        found = value_in(metric, argument)
        if found is None:  # it has no such option, or is not cut
            assert name not in changed
        else:
            assert found in (value if isinstance(value, tuple) else [value]), name


@pytest.mark.parametrize("preset", [x for x, argument in ARGUMENTS if argument == "bins"])
def test_bins_are_those_of_popularity_or_of_confidence(preset: str) -> None:
    """A table of bins makes members for each; a number of them changes one."""
    value = THREE if preset == "decile_metrics" else 20
    after, changed = changed_by(preset, value, "bins")
    names = {name for name, metric in after.items() if getattr(metric, "bins", None) is value}
    assert changed.keys() == names
    assert names == (after.keys() if value is THREE else {"ece"})


@pytest.mark.parametrize("preset", [x for x, argument in ARGUMENTS if argument == "separator"])
def test_a_separator_stands_before_each_cut_off(preset: str) -> None:
    """It changes the names of members that have one, and nothing else."""
    before, after = members_of(preset), members_of(preset, separator="@")
    assert [name.replace("@", "_at_") for name in after] == list(before)
    assert [*map(text_of_options, after.values())] == [*map(text_of_options, before.values())]
    for name, metric in after.items():
        assert name.endswith(f"@{value_in(metric, 'k')}") == (value_in(metric, "k") is not None)


@pytest.mark.parametrize("preset", PRESETS)
def test_options_and_names_reach_every_member(preset: str) -> None:
    """`prefix`, `postfix` and an option of all metrics."""
    plain_names = list(members_of(preset))
    named = members_of(preset, prefix="val_", postfix="_x")
    assert list(named) == [f"val_{name}_x" for name in plain_names]
    for metric in members_of(preset, ignore_index=-7).values():
        assert (metric.metric if hasattr(metric, "metric") else metric).ignore_index == -7


def values_after_update(metrics: RankingCollection, *args: Tensor) -> dict[str, float]:
    """The values after one update."""
    metrics.update(*args)
    return {name: value.item() for name, value in metrics.compute().items()}


def libcity(orders: list[list[list[int]]], target: list[int], k: int) -> dict[str, float]:
    """LibCity's formulas in loops; a query with several orders counts as their mean."""
    hit = reciprocal = discounted = 0.0
    for of_query, location in zip(orders, target, strict=True):
        for order in of_query:
            if location in order[:k]:
                rank = order.index(location) + 1
                hit += 1 / len(of_query)
                reciprocal += 1 / rank / len(of_query)
                discounted += 1 / math.log2(rank + 1) / len(of_query)
    precision, recall = hit / (len(orders) * k), hit / len(orders)
    f1 = 2 * precision * recall / (precision + recall) if hit else 0.0
    mrr, ndcg = reciprocal / len(orders), discounted / len(orders)
    values = [precision, recall, f1, mrr, mrr, ndcg]
    names = ["Precision", "Recall", "F1", "MRR", "MAP", "NDCG"]
    return {f"{name}@{k}": value for name, value in zip(names, values, strict=True)}


def orders_with_target(scores: list[float], location: int) -> list[list[int]]:
    """Orders with the location at each rank that its tied candidates allow."""
    above = [i for i, score in enumerate(scores) if score > scores[location]]
    others = [i for i, s in enumerate(scores) if s == scores[location] and i != location]
    return [
        [*above, *others[:before], location, *others[before:]] for before in range(len(others) + 1)
    ]


@given(one_relevant(), st.integers(1, 7))
def test_libcity_metrics_of_tied_scores(batch: tuple[Tensor, Tensor], k: int) -> None:
    """A tied target counts as the mean over the ranks of its tied block."""
    preds, target = batch
    pairs = zip(preds.tolist(), target.tolist(), strict=True)
    expected = libcity([orders_with_target(*pair) for pair in pairs], target.tolist(), k)
    assert values_after_update(libcity_metrics(k), preds, target) == pytest.approx(
        expected, abs=1e-6
    )


def test_libcity_metrics_beside_the_others() -> None:
    """Recall is the accuracy, and all but F1 are equal in `recommendation_metrics`."""
    preds, target = torch.randint(6, (30, 40)).float(), torch.randint(40, (30,))
    city = values_after_update(libcity_metrics(5), preds, target)
    papers = values_after_update(next_location_metrics(40, k=5, ndcg_k=5), preds, target)
    assert city["Recall@5"] == papers["acc_at_5"]
    assert city["NDCG@5"] == papers["ndcg_at_5"]
    assert city["MRR@5"] < papers["mrr"]
    assert city["F1@5"] == pytest.approx(2 * city["Recall@5"] / 6)
    others = values_after_update(recommendation_metrics(5), preds, target)
    for name in ("Precision", "Recall", "MRR", "MAP", "NDCG"):
        assert city[f"{name}@5"] == others[f"{name.lower()}_at_5"]


def test_libcity_metrics_are_of_one_relevant_location() -> None:
    """Several, and a score for none, are errors, because LibCity's F1 is no mean there."""
    metrics = libcity_metrics(2)
    for preds in (torch.rand(2, 9), torch.tensor([[0, 8], [0, 8]])):
        metrics.update(preds, torch.tensor([[0, -1], [-1, 1]]))
        with pytest.raises(ValueError, match=r"one relevant location .*got up to 2; use"):
            metrics.update(preds, torch.tensor([[0, -1], [0, 1]]))
    assert {member.num_queries for member in metrics.values()} == {4}
    for action in ("neg", "pos"):
        with pytest.raises(ValueError, match="`empty_target_action` must be 'skip' or 'error'"):
            libcity_metrics(2, empty_target_action=action)
