"""TorchMetrics' wrappers and collections around these metrics: right values, or a clear error."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from torch import Tensor, tensor
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy
from torchmetrics.wrappers import (
    BootStrapper,
    ClasswiseWrapper,
    MetricTracker,
    MinMaxMetric,
    Running,
)

import distributed_workers as work
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileNDCG,
    DecilePredictionShare,
    Grouped,
    LocationF1,
    PopularityBins,
    RankingCollection,
    decile_metrics,
    next_location_metrics,
)

# Lists of three ids; the location 0 is first, 1 second, 2 third.
LIST = [0, 1, 2]


def _batch(*targets: int) -> tuple[Tensor, Tensor]:
    return tensor(LIST).repeat(len(targets), 1), tensor(targets)


# MetricTracker ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:all targets are location")  # of two of three steps
def test_tracker_of_a_collection():
    """Every member's best epoch is found by itself."""
    tracker = MetricTracker(next_location_metrics(3, k=(1, 2), prefix="val/"))
    for targets in ((1, 1), (0, 2), (2, 2)):
        tracker.increment()
        tracker.update(*_batch(*targets))
    best, step = tracker.best_metric(return_step=True)
    assert best["val/acc_at_1"] == 1 / 2
    assert step["val/acc_at_1"] == 1
    assert best["val/acc_at_2"] == 1
    assert step["val/acc_at_2"] == 0
    assert best["val/mrr"] == pytest.approx(2 / 3)
    assert list(best) == list(tracker.compute())


def test_tracker_of_what_has_no_better():
    """A share is neither better nor worse: the tracker asks for `maximize`, and then works."""
    bins = PopularityBins([2, 1, 1])
    with pytest.raises(AttributeError, match="Please provide the `maximize` argument"):
        MetricTracker(decile_metrics(bins, 2))
    tracker = MetricTracker(DecilePredictionShare(bins, 2, decile=2), maximize=True)
    tracker.increment()
    tracker.update(*_batch(0))
    assert tracker.best_metric() == 1 / 2


# BootStrapper -------------------------------------------------------------------------------------


def test_bootstrap():
    """Every copy resamples the rows of scores, targets and mask together."""
    batch = work.rows(0, 101)
    strap = BootStrapper(AccuracyAtK(3), num_bootstraps=50, raw=True, quantile=tensor([0.0, 1.0]))
    strap.update(batch["preds"], batch["target"], batch["mask"])
    whole = AccuracyAtK(3)
    whole.update(batch["preds"], batch["target"], batch["mask"])
    value = strap.compute()
    assert value["raw"].shape == (50,)
    assert value["quantile"][0] < whole.compute() < value["quantile"][1]
    assert abs(value["mean"] - whole.compute()) < value["std"]

    certain = BootStrapper(MRR(), num_bootstraps=5)
    certain.update(*_batch(*[1] * 100))
    work.assert_same(certain.compute(), {"mean": tensor(0.5), "std": tensor(0.0)})


# Running ------------------------------------------------------------------------------------------


SINGLE = work.single_metrics()


@pytest.mark.parametrize(
    "name", {type(x): name for name, x in SINGLE.items() if "Grouped" not in name}.values()
)
def test_running(name: str):
    """The last two batches of every metric count, the first one no longer."""
    running, last = Running(deepcopy(SINGLE[name]), window=2), deepcopy(SINGLE[name])
    for start in (0, 30, 60):
        work.add(running, {k: v for k, v in work.rows(start, start + 30).items() if k != "groups"})
    work.add(last, work.rows(30, 90))
    work.assert_same(running.compute(), last.compute())


# ClasswiseWrapper ---------------------------------------------------------------------------------


def test_values_by_class():
    """A vector of values gets a name each: F1 by location, a score by group."""
    by_location = ClasswiseWrapper(LocationF1(3, average=None), labels=["home", "work", "gym"])
    by_location.update(*_batch(0, 0, 1))  # decides for 0 three times
    values = {name: float(value.nan_to_num(-1)) for name, value in by_location.compute().items()}
    assert values == pytest.approx(
        {"locationf1_home": 4 / 5, "locationf1_work": 0, "locationf1_gym": -1}
    )
    by_group = ClasswiseWrapper(Grouped(MRR(), 2), prefix="mrr_of_user_")
    by_group.update(*_batch(1, 2), groups=tensor([1, 0]))
    work.assert_same(
        by_group.compute(), {"mrr_of_user_0": tensor(1 / 3), "mrr_of_user_1": tensor(0.5)}
    )


# Collections --------------------------------------------------------------------------------------


@pytest.mark.parametrize("compute_groups", [True, False])
def test_inside_a_metric_collection(compute_groups: bool):
    """Beside TorchMetrics' own metrics, with and without merging, values are their own."""
    bins = work.bins()
    members: dict[str, Any] = {
        "theirs": MulticlassAccuracy(work.LOCATIONS, average="micro"),
        "ours": next_location_metrics(work.LOCATIONS),
        "deciles": decile_metrics(bins, 2),
        "alone": MRR(3),
    }
    metrics = MetricCollection(members, compute_groups=compute_groups, prefix="val/")
    expected: dict[str, Any] = {}
    fresh = {"ours": next_location_metrics(work.LOCATIONS), "deciles": decile_metrics(bins, 2)}
    for start in (0, 1, 50):
        batch = work.rows(start, start + 10)
        metrics.update(batch["preds"].nan_to_num(-9), batch["target"])
        for each in fresh.values():
            each.update(batch["preds"].nan_to_num(-9), batch["target"])
    for name, each in fresh.items():
        expected.update({f"val/{name}_{key}": value for key, value in each.compute().items()})
    computed = metrics.compute()
    work.assert_same({key: computed[key] for key in expected}, expected)
    assert set(computed) == {*expected, "val/theirs", "val/alone"}


@pytest.mark.parametrize("compute_groups", [True, False])
def test_merging_what_differs_and_what_does_not(compute_groups: bool):
    """A first batch that scores the same for all merges only what will always score the same."""
    bins = PopularityBins([1, 1, 2])
    members = {
        "a1": AccuracyAtK(1),
        "a2": AccuracyAtK(2),
        "decile_1": DecileNDCG(bins, 1, decile=1),
        "decile_2": DecileNDCG(bins, 1, decile=2),
    }
    metrics = RankingCollection(members, compute_groups=compute_groups)
    metrics.update(*_batch(2, 2))  # nobody hits
    metrics.update(*_batch(0, 1))
    values = {name: float(value) for name, value in metrics.compute().items()}
    assert values == {"a1": 1 / 4, "a2": 2 / 4, "decile_1": 1 / 2, "decile_2": 1}
    merged = [sorted(group) for group in metrics.compute_groups.values()]
    assert (["decile_1", "decile_2"] in merged) is compute_groups


def test_compute_groups_by_hand():
    """Groups that count the same are taken; others cannot share a state, and are refused."""
    bins = PopularityBins([1, 1, 2])
    members = {f"{i}": DecileNDCG(bins, 1, decile=i) for i in (1, 2)}
    metrics = RankingCollection({**members, "mrr": MRR()}, compute_groups=[["1", "2"], ["mrr"]])
    metrics.update(*_batch(0, 1, 2))
    values = {name: float(value) for name, value in metrics.compute().items()}
    assert values == pytest.approx({"1": 1 / 2, "2": 1, "mrr": (1 + 1 / 2 + 1 / 3) / 3})
    with pytest.raises(ValueError, match=r"AccuracyAtK\(k=1\) and AccuracyAtK\(k=5\)"):
        RankingCollection(
            {"a1": AccuracyAtK(1), "a5": AccuracyAtK(5)}, compute_groups=[["a1", "a5"]]
        )


@pytest.mark.parametrize(
    "groups",
    [
        [["decile_1", "decile_2", "a1"]],
        [["a1", "decile_1", "decile_2"]],
        [["decile_1", "a1", "decile_2"]],
        [["decile_1", "decile_2"], ["a1", "a5"]],
        [["a1"], ["mrr", "mrr_at_5"]],
        [["a1", "same_but_ignoring_ties"]],
        [["decile_1", "of_other_bins"]],
        [["decile_1", "of_fewer_bins"]],
    ],
    ids=str,
)
def test_a_member_that_counts_otherwise_is_refused(groups: list[list[str]]):
    """Wherever it stands in its group, and in whichever group, before and after the others."""
    bins = PopularityBins([1, 1, 2])

    def make() -> dict[str, Any]:
        return {
            "decile_1": DecileNDCG(bins, 1, decile=1),
            "decile_2": DecileNDCG(bins, 1, decile=2),
            "of_other_bins": DecileNDCG(PopularityBins([2, 1, 2]), 1, decile=1),
            "of_fewer_bins": DecileNDCG(PopularityBins([1, 1, 2], 3), 1, decile=1),
            "a1": AccuracyAtK(1),
            "a5": AccuracyAtK(5),
            "same_but_ignoring_ties": AccuracyAtK(1, ties="optimistic"),
            "mrr": MRR(),
            "mrr_at_5": MRR(5),
        }

    with pytest.raises(ValueError, match="of a compute group must need the same state, got"):
        RankingCollection(make(), compute_groups=groups)
    metrics = RankingCollection(make(), compute_groups=[["decile_1", "decile_2"], ["a1"]])
    assert metrics.compute_groups[0] == ["decile_1", "decile_2"]


def test_members_are_added_all_or_none():
    """Where a name is taken or wrong, or a group refused, the collection is as it was."""
    metrics = RankingCollection([AccuracyAtK(1)])
    metrics.update(*_batch(1))
    with pytest.raises(ValueError, match="AccuracyAtK"):
        metrics.add_metrics([MRR(), AccuracyAtK(2)])
    with pytest.raises(ValueError, match=r"have no dot, got 'b\.c'"):
        metrics.add_metrics({"aa": MRR(), "b.c": MRR()})
    assert list(metrics) == ["AccuracyAtK"]
    metrics.update(*_batch(0))
    assert metrics.compute() == {"AccuracyAtK": 0.5}
    grouped = RankingCollection({"one": MRR()}, compute_groups=[["one"]])
    grouped._enable_compute_groups = [["one", "two"]]
    with pytest.raises(ValueError, match=r"MRR\(\) and MRR\(k=2\)"):
        grouped.add_metrics({"two": MRR(2)})
    assert list(grouped) == ["one"]
    assert grouped.compute_groups == {0: ["one"]}


def test_a_member_updated_by_itself():
    """An update of one member alone counts for that one, also where it shares a state."""
    bins = PopularityBins([1, 1, 2])
    members = {name: DecileNDCG(bins, 1, decile=1) for name in ("one", "other")}
    metrics = RankingCollection(members)
    metrics.update(*_batch(1))
    metrics["other"].update(*_batch(0))
    work.assert_same(metrics.compute(), {"one": tensor(0.0), "other": tensor(0.5)})


def test_nested_ranking_collections():
    """A collection of collections is one collection, which ranks once and sums at once."""
    inner = RankingCollection({"mrr": MRR(), "hit": AccuracyAtK(1)}, prefix="all/")
    outer = RankingCollection({"x": inner, "last": AccuracyAtK(3)}, postfix="!")
    outer.update(*_batch(1, 0))
    assert {name: float(value) for name, value in outer.compute().items()} == {
        "x_all/mrr!": 3 / 4,
        "x_all/hit!": 1 / 2,
        "last!": 1,
    }
    assert len(outer) == 3


@pytest.mark.parametrize("wrapper", [BootStrapper, MinMaxMetric, Running])
def test_wrappers_in_a_ranking_collection_say_what_to_do(wrapper: type):
    """A wrapper ranks for itself, so it is refused, with the place to put it."""
    with pytest.raises(TypeError, match=r"put it into a torchmetrics.MetricCollection"):
        RankingCollection({"wrapped": wrapper(MRR())})
    metrics = MetricCollection({"wrapped": wrapper(MRR()), "plain": MRR()})
    metrics.update(*_batch(0, 0, 0))
    assert float(metrics.compute()["plain"]) == 1
