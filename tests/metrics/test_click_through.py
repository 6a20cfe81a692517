"""The click-through preset: scikit-learn's values, sizes of states, and what it refuses."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from torch import Tensor
from torchmetrics import MetricCollection, MetricTracker
from torchmetrics.classification import BinaryAccuracy

import distributed_workers as work
from inner import LogLoss
from nextloc_metrics import click_through_metrics
from strategies import examples, same, split, updated

KEYS = ["log_loss", "auc", "pr_auc", "accuracy", "precision", "recall", "f1", "mcc"]


def by_sklearn(preds: Tensor, target: Tensor, threshold: float = 0.5) -> dict[str, float]:
    """The values of scikit-learn, without its warnings about missing labels."""
    score, label = preds.numpy(), target.numpy()
    # torch compares with the threshold in the dtype of the scores
    decided = (preds > threshold).long().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "log_loss": sklearn_metrics.log_loss(label, score, labels=[0, 1]),
            "auc": sklearn_metrics.roc_auc_score(label, score) if len(set(label)) > 1 else math.nan,
            "pr_auc": sklearn_metrics.average_precision_score(label, score),
            "accuracy": sklearn_metrics.accuracy_score(label, decided),
            "precision": sklearn_metrics.precision_score(label, decided, zero_division=0),
            "recall": sklearn_metrics.recall_score(label, decided, zero_division=0),
            "f1": sklearn_metrics.f1_score(label, decided, zero_division=0),
            "mcc": sklearn_metrics.matthews_corrcoef(label, decided),
        }


def values(metrics: MetricCollection) -> dict[str, float]:
    """The computed values; torchmetrics warns where a curve has no positive label."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No positive samples found")
        return {name: value.item() for name, value in metrics.compute().items()}


def clicks(n: int = 400) -> tuple[Tensor, Tensor]:
    """Small probabilities, some of them tied, and labels that they predict."""
    preds = (torch.rand(n) ** 3 * 50).round() / 50
    return preds, (torch.rand(n) < preds).long()


@st.composite
def interactions(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Probabilities and labels with ties, 0, 1, and sometimes only one label."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    odd = st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9, 0.25])
    width = 32 if dtype == torch.float32 else 64
    probability = st.one_of(odd, st.floats(0, 1, width=width))
    n = draw(st.integers(1, 30))
    preds = draw(st.lists(probability, min_size=n, max_size=n))
    target = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    return torch.tensor(preds, dtype=dtype), torch.tensor(target)


# Values ------------------------------------------------------------------------------------------


@examples(10)
@given(interactions(), st.lists(st.integers(1, 9), max_size=4), st.sampled_from([0.5, 0.25, 0.9]))
def test_equals_sklearn(batch: tuple[Tensor, Tensor], sizes: list[int], threshold: float) -> None:
    """All eight values equal scikit-learn's for any batches, also if only one label occurs."""
    metrics = click_through_metrics(threshold=threshold)
    for part in split(sizes, *batch):
        metrics.update(*part)
    expected = by_sklearn(*batch, threshold)
    assert values(metrics) == pytest.approx(expected, rel=1e-6, abs=2e-6, nan_ok=True)


@pytest.mark.parametrize("label", [0, 1])
def test_one_label_alone(label: int) -> None:
    """AUC is NaN, the correlation 0, and nothing else is undefined."""
    preds, target = torch.tensor([0.2, 0.9, 0.6]), torch.full((3,), label)
    got = values(updated(click_through_metrics(thresholds=50), preds, target))
    assert math.isnan(got.pop("auc"))
    assert got["mcc"] == 0
    assert got["pr_auc"] == label
    assert not any(map(math.isnan, got.values()))


def test_ignored_labels_are_left_out() -> None:
    """Ignoring a label equals removing its rows."""
    preds, target = clicks()
    target[::3] = -1
    ignoring = updated(click_through_metrics(ignore_index=-1), preds, target)
    removed = updated(click_through_metrics(), preds[target >= 0], target[target >= 0])
    assert values(ignoring) == pytest.approx(values(removed))
    assert values(ignoring)["log_loss"] == values(removed)["log_loss"]


# In a collection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("thresholds", [None, 20])
def test_groups_reset_copies_and_forward(thresholds: int | None) -> None:
    """Compute groups, copies and resets are those of any collection."""
    metrics = click_through_metrics(thresholds=thresholds, prefix="val/", postfix="_ctr")
    alone = [metric.clone() for metric in metrics.values()]
    batches = [clicks(50), clicks(60), clicks(70)]
    stepwise = metrics.clone()
    for batch in batches:
        metrics.update(*batch)
        forwarded = stepwise(*batch)
        assert list(forwarded) == [f"val/{key}_ctr" for key in KEYS]
        for metric in alone:
            metric.update(*batch)
    expected = dict(zip(forwarded, [metric.compute() for metric in alone], strict=True))
    assert sorted(map(len, metrics.compute_groups.values())) == [1, 1, 2, 4]
    copies = metrics.clone(), copy.deepcopy(metrics), pickle.loads(pickle.dumps(metrics))
    for copied in (metrics, stepwise, *copies):
        torch.testing.assert_close(copied.compute(), expected)
        copied.reset()
        copied.update(*batches[0])
        fresh = click_through_metrics(thresholds=thresholds, prefix="val/", postfix="_ctr")
        assert values(copied) == values(updated(fresh, *batches[0]))


def test_log_loss_is_better_when_lower() -> None:
    """A tracker keeps the epoch of the lowest log loss and of the highest AUC."""
    tracker = MetricTracker(click_through_metrics())
    target = torch.tensor([0, 1, 1, 0])
    for preds in ([0.1, 0.9, 0.8, 0.2], [0.4, 0.6, 0.6, 0.7]):
        tracker.increment()
        tracker.update(torch.tensor(preds), target)
    best, steps = tracker.best_metric(return_step=True)
    assert steps["log_loss"] == steps["auc"] == 0
    assert best["log_loss"] == pytest.approx(-(2 * math.log(0.9) + 2 * math.log(0.8)) / 4)


# Errors ------------------------------------------------------------------------------------------

GOOD = torch.tensor([0.2, 0.7]), torch.tensor([0, 1])
BAD: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "logits": (torch.tensor([0.2, 1.7]), GOOD[1], ValueError, r"`preds`.*1\.7.*sigmoid"),
    "negative": (torch.tensor([0.2, -0.5]), GOOD[1], ValueError, r"`preds`.*-0\.5"),
    "NaN": (torch.tensor([0.2, math.nan]), GOOD[1], ValueError, "`preds`.*nan"),
    "decisions": (torch.tensor([0, 1]), GOOD[1], TypeError, "`preds`.*int64"),
    "floating labels": (GOOD[0], torch.tensor([0.0, 1.0]), TypeError, r"`target`.*\.long\(\)"),
    "a third label": (GOOD[0], torch.tensor([0, 2]), ValueError, "`target`.*2.*`ignore_index`"),
    "other shape": (GOOD[0], torch.tensor([0, 1, 1]), ValueError, r"`target`.*\(2,\).*\(3,\)"),
    "another device": (GOOD[0].to("meta"), GOOD[1], ValueError, r"`preds`.*cpu.*meta.*\.to\("),
    "a scalar beside a batch of one": (
        GOOD[0][0],
        GOOD[1][:1],
        ValueError,
        r"`preds`.*\(\).*\(1,\)",
    ),
    "text": (["a", "b"], GOOD[1], TypeError, "`preds`.*list"),
}


def states_of_members(metrics: MetricCollection) -> dict[str, dict[str, Any]]:
    """A copy of the state of every member."""
    return {
        name: copy.deepcopy(member.metric_state)
        for name, member in metrics.items(keep_base=True, copy_state=False)
    }


def equal_states(one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]]) -> bool:
    """Whether all states are the same to the bit."""
    pairs = [(state, other[name][key]) for name in one for key, state in one[name].items()]
    return all(
        (len(a) == len(b) and all(map(torch.equal, a, b)))
        if isinstance(a, list)
        else torch.equal(a, b)
        for a, b in pairs
    )


class Breaks(BinaryAccuracy):
    """A member that raises if half of the labels are 1, before or after it counts."""

    def __init__(self, late: bool) -> None:
        super().__init__(threshold=0.8)  # and shares no state
        self.late = late

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Fail early or late."""
        if self.late:
            super().update(preds, target)
        if target.float().mean() == 0.5:
            raise MemoryError("of this member")
        if not self.late:
            super().update(preds, target)


@pytest.mark.parametrize(
    ("way", "thresholds", "position", "late"),
    [
        ("update", None, 0, True),
        ("forward", 20, 4, True),
        ("forward", None, 8, False),
        ("update", 20, 8, True),
    ],
)
def test_an_error_in_any_member_changes_no_member(
    way: str, thresholds: int | None, position: int, late: bool
) -> None:
    """Whichever member fails, first or last, all go on with the state they had."""
    odd, even = (torch.tensor([0.2, 0.7, 0.9]), torch.tensor([0, 1, 1])), GOOD

    def make(breaks: BinaryAccuracy) -> MetricCollection:
        metrics = click_through_metrics(thresholds=thresholds)
        metrics.add_metrics({"breaks": breaks})
        names = list(metrics.keys(keep_base=True))
        for name in names[:position]:
            metrics._modules[name] = metrics._modules.pop(name)
        return metrics

    metrics, expected = make(Breaks(late)), make(BinaryAccuracy(threshold=0.8))
    for round_number in range(3):
        before = states_of_members(metrics)
        with pytest.raises(MemoryError, match="of this member"):
            (metrics.update if way == "update" else metrics)(*even)
        assert equal_states(states_of_members(metrics), before)
        metrics.update(*odd)
        expected.update(*odd)
        if round_number:
            assert values(metrics) == values(expected)
    metrics.reset()
    expected.reset()
    for each in (metrics, expected):
        each.update(*odd)
    assert values(metrics) == values(expected)


class Interrupted(BinaryAccuracy):
    """A member whose counts cannot be read once after its first update."""

    fails = False

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Count, and fail when the counts are read next."""
        super().update(preds, target)
        self.fails = self.update_count == 1 and "fails" not in vars(self)

    def __getattribute__(self, name: str) -> Any:
        """Fail once."""
        if name == "tp" and vars(self).get("fails"):
            self.fails = False
            raise MemoryError("of this member")
        return super().__getattribute__(name)


def test_an_error_while_members_are_merged_merges_none() -> None:
    """Members that had equal counts in the batch that failed have their own in the next."""
    metrics = click_through_metrics()
    metrics.add_metrics({"a": BinaryAccuracy(threshold=0.8), "b": Interrupted(threshold=0.99)})
    with pytest.raises(MemoryError, match="of this member"):
        metrics.update(torch.tensor([0.1, 0.9]), torch.tensor([0, 1]))
    metrics.update(*GOOD)
    found = values(metrics)
    assert (found["accuracy"], found["a"], found["b"]) == (1, 0.5, 0.5)


@pytest.mark.filterwarnings("ignore:.*was called before the ``update``")
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((0,), {}),
        ((1, 0), {"thresholds": 5}),
        ((0, 3), {"ignore_index": -1}),
        ((2,), {"ignore_index": -1}),
    ],
)
@pytest.mark.parametrize("when", ["before", "after", "only"])
def test_a_batch_without_labels_is_nothing(
    when: str, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    """An empty one, or of ignored labels: it raises and adds nothing, and its values are NaN."""
    metrics, expected = (click_through_metrics(**options, prefix="val/") for _ in range(2))
    nothing = torch.zeros(shape), torch.full(shape, -1)
    if when == "after":
        metrics.update(*GOOD)
    metrics.update(*nothing)
    forwarded = metrics(*nothing)
    assert list(forwarded) == [f"val/{key}" for key in KEYS]
    assert all(map(math.isnan, forwarded.values()))
    if when == "before":
        metrics.update(*GOOD)
    if when == "only":
        assert all(map(math.isnan, [*values(metrics).values(), *values(expected).values()]))
        return
    expected.update(*GOOD)
    assert values(metrics) == values(expected)
    if not nothing[0].numel():
        groups = [sorted(names) for names in metrics.compute_groups.values()]
        assert sorted(groups) == sorted(map(sorted, expected.compute_groups.values()))


def test_an_empty_first_batch_merges_no_members() -> None:
    """Members with different thresholds keep separate states."""
    metrics = click_through_metrics()
    metrics.add_metrics({"strict": BinaryAccuracy(threshold=0.9)})
    metrics.update(torch.empty(0), torch.empty(0, dtype=torch.long))
    metrics.update(*GOOD)
    metrics.update(*GOOD)
    assert values(metrics)["accuracy"] == 1
    assert values(metrics)["strict"] == 0.5


@pytest.mark.parametrize("name", BAD)
def test_bad_input_changes_nothing(name: str) -> None:
    """Whichever way it comes, it is named before anything is counted."""
    preds, target, error, message = BAD[name]
    metrics = click_through_metrics()
    expected = click_through_metrics()
    for take in (metrics.update, metrics):
        with pytest.raises(error, match=message):
            take(preds, target)
        metrics.update(*GOOD)
        expected.update(*GOOD)
    assert values(metrics) == values(expected)


def test_arrays_and_single_interactions_are_read_too() -> None:
    """Of NumPy, lists, and a scalar as a batch of one, for every member."""
    metrics, expected = click_through_metrics(), click_through_metrics()
    preds, target = GOOD
    for _ in range(3):
        expected.update(preds.double(), target)
    metrics.update(preds.double().numpy(), target.numpy())
    metrics(preds.double().tolist(), target.tolist())
    for one, label in zip(preds.double(), target, strict=True):
        metrics.update(one, label)
    assert values(metrics) == values(expected)


def test_unchecked_nan_never_helps() -> None:
    """Without checks a NaN costs as much as a certain mistake."""
    log_loss = LogLoss(validate_args=False)
    log_loss.update(torch.tensor([math.nan, math.nan]), torch.tensor([0, 1]))
    assert log_loss.compute().item() == pytest.approx(-math.log(2**-23))


# Processes ---------------------------------------------------------------------------------------


def share(rank: int, thresholds: int | None, parts: list[list[slice]]) -> dict[str, Tensor]:
    """Evaluate one process' batches of the interactions; it may have none."""
    torch.manual_seed(3)
    preds, target = clicks(301)
    metrics = click_through_metrics(thresholds=thresholds)
    for rows in parts[rank]:
        metrics.update(preds[rows], target[rows])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*was called before the ``update``")
        return metrics.compute()


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize(("thresholds", "second"), [(None, [slice(0, 0)]), (50, [])])
def test_processes_equal_one(thresholds: int | None, second: list[slice]) -> None:
    """Processes with unequal shares report what one reports, log loss to the last bit.

    Without thresholds a process without data takes part by an empty batch.
    """
    expected = share(0, thresholds, [[slice(None)]])
    parts = [[slice(0, 70), slice(70, 200)], second, [slice(200, None)]]
    for got in work.run(share, 3, thresholds, parts):
        assert same(got["log_loss"], expected["log_loss"])
        torch.testing.assert_close(got, expected)
