"""Each argument of a preset reaches the members that it is for, and no others."""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any

import pytest
from torch import Tensor

import nextloc_metrics
from nextloc_metrics import PopularityBins, Visits
from nextloc_metrics.geography import Locations

PRESETS = {
    name: made
    for name, made in inspect.getmembers(nextloc_metrics)
    if name.endswith("_metrics") and made.__module__.startswith("nextloc_metrics.metrics")
}
PLACES = Locations([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
TWO, THREE = PopularityBins([1, 2, 0]), PopularityBins([1, 2, 3])
VISITS = Visits(["ann", "ann"], [0, 1])
NEEDED: dict[str, Any] = {"num_locations": 3, "bins": TWO}

Members = dict[str, dict[str, Any]]


def members(names: str, **options: Any) -> Members:
    """Members by name, each with these options; `names` are separated by blanks."""
    return dict.fromkeys(names.split(), options)


def cut(names: str, *ks: int, of: str = "k") -> Members:
    """Members for each k, `{}` in the names, with the option k."""
    return {name: {of: k} for k in ks for name in names.format(*[k] * names.count("{}")).split()}


def of_bins(names: str, *bins: Any, **options: Any) -> Members:
    """Members for each bin, with these options."""
    named = names.split()
    found = {f"{name}_decile_{one}": {"decile": one, **options} for name in named for one in bins}
    overall = {name: {"decile": "overall", **options} for name in named if "coverage" in name}
    return found | overall


BIN_NAMES = "precision_at_{k} ndcg_at_{k} prediction_share_at_{k} coverage_at_{k}"
AT_5, AT_3 = BIN_NAMES.replace("{k}", "5"), BIN_NAMES.replace("{k}", "3")
BINS = (1, 2, "unmapped")
OF_RECOMMENDATION = "precision{0}{1} recall{0}{1} hit_rate{0}{1} mrr{0}{1} map{0}{1} ndcg{0}{1}"
OF_LIBCITY = "Precision@{} Recall@{} F1@{} MRR@{} MAP@{} NDCG@{}"

# by preset and argument: a value that is not the default, other arguments, and the members that the
# preset without the value does not have, with options of them
SEEN: dict[str, dict[str, tuple[Any, dict[str, Any], Members]]] = {
    "next_location_metrics": {
        "num_locations": (7, {}, members("f1", num_locations=7)),
        "k": ((2, 7), {}, cut("acc_at_{}", 2, 7) | cut("ndcg_at_{}", 7)),
        "ndcg_k": (4, {}, cut("ndcg_at_{}", 4)),
        "locations": (
            PLACES,
            {},
            cut("acc_within_1000m_at_{}", 1, 5, 10)
            | members("mean_distance", statistic="mean", locations=PLACES)
            | members("median_distance", statistic="median", locations=PLACES),
        ),
        "km": (
            0.5,
            {"locations": PLACES},
            members(" ".join(f"acc_within_500m_at_{k}" for k in (1, 5, 10)), km=0.5),
        ),
        "separator": ("@", {}, cut("acc@{}", 1, 5, 10) | cut("ndcg@{}", 10)),
    },
    "recommendation_metrics": {
        "k": ((3,), {}, members(OF_RECOMMENDATION.format("_at_", 3), k=3)),
        "gain": ("exponential", {}, members("ndcg_at_5 ndcg_at_10", gain="exponential")),
        "separator": (
            "@",
            {},
            members(OF_RECOMMENDATION.format("@", 5), k=5)
            | members(OF_RECOMMENDATION.format("@", 10), k=10),
        ),
    },
    "probability_metrics": {
        "coverage": (0.3, {}, members("accuracy_at_coverage", coverage=0.3)),
        "bins": (20, {}, members("ece", bins=20)),
        "locations": (PLACES, {}, members("expected_distance", locations=PLACES)),
    },
    "confidence_metrics": {
        "coverage": (0.3, {}, members("accuracy_at_coverage", coverage=0.3)),
        "bins": (20, {}, members("ece", bins=20)),
    },
    "libcity_metrics": {"k": ((3, 4), {}, cut(OF_LIBCITY, 3, 4))},
    "click_through_metrics": {
        "threshold": (0.25, {}, members("accuracy precision recall f1 mcc", threshold=0.25)),
        "thresholds": ([0.25, 0.5], {}, members("auc pr_auc", thresholds=[0.25, 0.5])),
    },
    "decile_metrics": {
        "bins": (THREE, {}, of_bins(f"{AT_5} k_for_recall_50", 1, 2, 3, "unmapped", bins=THREE)),
        "k": (3, {}, of_bins(AT_3, *BINS, k=3)),
        "min_recall": (0.75, {}, of_bins("k_for_recall_75", *BINS, min_recall=0.75)),
        "scope": ("all", {}, of_bins(
            "precision_at_5 ndcg_at_5 k_for_recall_50 coverage_at_5", *BINS, scope="all"
        )),
    },
    "exploration_metrics": {
        "k": ((3, 4), {}, cut(
            "acc_on_returns_at_{} acc_on_explorations_at_{}", 3, 4, of="metric.k"
        )),
        "visits": (
            VISITS,
            {},
            members("new_on_returns", group=1, **{"metric.visits": VISITS})
            | members("new_on_explorations", group=0, **{"metric.visits": VISITS}),
        ),
        "separator": (
            "@", {}, cut("acc_on_returns@{} acc_on_explorations@{}", 1, 5, 10, of="metric.k")
        ),
    },
}  # fmt: skip
ARGUMENTS = [
    (preset, name)
    for preset, made in PRESETS.items()
    for name, x in inspect.signature(made).parameters.items()
    if name not in ("prefix", "postfix") and x.kind is not x.VAR_KEYWORD
]


def made(preset: str, **options: Any) -> dict[str, Any]:
    """The members of a preset by name."""
    parameters = inspect.signature(PRESETS[preset]).parameters.values()
    needed = {
        x.name: NEEDED[x.name] for x in parameters if x.default is x.empty and x.name in NEEDED
    }
    return dict(PRESETS[preset](**needed | options).items())


def content(metric: Any) -> str:
    """What tells a metric from others: its `repr`, and thresholds that torchmetrics leaves out."""
    return f"{metric!r} {[plain(getattr(metric, x, None)) for x in ('threshold', 'thresholds')]}"


def plain(value: Any) -> Any:
    """The numbers of a tensor as a list."""
    return value.tolist() if isinstance(value, Tensor) else value


@pytest.mark.parametrize(("preset", "argument"), ARGUMENTS)
def test_each_argument_is_seen_in_its_members(preset: str, argument: str) -> None:
    """With another value than the default; a new argument has to be added to the table."""
    value, others, expected = SEEN[preset][argument]
    before, after = made(preset, **others), made(preset, **others | {argument: value})
    changed = {
        name: metric
        for name, metric in after.items()
        if name not in before or content(before[name]) != content(metric)
    }
    assert changed.keys() == expected.keys()
    for name, options in expected.items():
        found = {option: plain(attrgetter(option)(changed[name])) for option in options}
        assert found == options, name


@pytest.mark.parametrize("preset", PRESETS)
def test_options_and_names_reach_every_member(preset: str) -> None:
    """`prefix`, `postfix` and an option of all metrics."""
    plain_names = list(made(preset))
    named = made(preset, prefix="val_", postfix="_x")
    assert list(named) == [f"val_{name}_x" for name in plain_names]
    for metric in made(preset, ignore_index=-7).values():
        assert (metric.metric if hasattr(metric, "metric") else metric).ignore_index == -7
