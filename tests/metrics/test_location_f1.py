"""F1, precision and recall over locations: values by hand, and counts on every path."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import Metric

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    LocationF1,
    LocationPrecision,
    LocationRecall,
    RankingCollection,
    next_location_metrics,
)
from oracles.decisions import counts_by_location
from strategies import examples, same, updated


def scores_that_decide(decisions: list[int | None], candidates: int) -> Tensor:
    """Scores whose best candidate is the decision, and NaN for no decision."""
    scores = torch.rand(len(decisions), candidates)
    for row, decided in zip(scores, decisions, strict=True):
        if decided is None:
            row[int(torch.randint(candidates, ()))] = math.nan
        else:
            row[decided] = 2.0
    return scores


def lists_that_decide(decisions: list[int | None]) -> Tensor:
    """Lists of one id, and padding for no decision."""
    return torch.tensor([[-1 if decided is None else decided] for decided in decisions])


def some_ids(number: int, locations: int) -> list[int | None]:
    """Random ids, often the first and the last, and sometimes none."""
    drawn = torch.randint(-1, locations + 2, (number,)).tolist()
    return [None if i < 0 else 0 if i == locations else min(i, locations - 1) for i in drawn]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("form", ["scores", "lists"])
@pytest.mark.parametrize(("candidates", "locations"), [(1, 1), (2, 2), (3, 5), (7, 7)])
@pytest.mark.usefixtures("each_backend")
def test_every_decision_is_counted_at_its_location(
    candidates: int, locations: int, form: str, together: bool
) -> None:
    """Row by row and location by location, also with more locations than candidates."""
    metric = LocationF1(locations, average=None)
    updated = RankingCollection({"f1": metric}) if together else metric
    decisions: list[int | None] = []
    targets: list[int | None] = []
    for number in (1, 5, 40):
        decided, wanted = some_ids(number, candidates), some_ids(number, candidates)
        preds = (
            scores_that_decide(decided, candidates)
            if form == "scores"
            else lists_that_decide(decided)
        )
        target = torch.tensor([[-1 if i is None else i, -1] for i in wanted])
        updated.update(preds, target)
        decisions += decided
        targets += wanted
        assert metric.state[:, :-1].tolist() == counts_by_location(decisions, targets, locations)
    counts = zip(*counts_by_location(decisions, targets, locations), strict=True)
    expected = [2 * hit / (got + had) if got + had else math.nan for hit, got, had in counts]
    assert metric.compute().flatten().tolist() == pytest.approx(expected, nan_ok=True)


@pytest.mark.usefixtures("each_backend")
def test_one_relevant_location_a_query_is_counted_alike() -> None:
    """Integer targets without padding, as next-location models have them."""
    decided, wanted = some_ids(50, 9), [i or 0 for i in some_ids(50, 9)]
    metric = LocationF1(11)
    metric.update(scores_that_decide(decided, 9), torch.tensor(wanted))
    assert metric.state[:, :-1].tolist() == counts_by_location(decided, list(wanted), 11)


def test_a_preset_warns_once_that_all_targets_are_one_location() -> None:
    """When it is computed, not in `forward` of a batch; the metric alone does not warn."""
    scores, target = torch.eye(4)[[0, 1, 2]], torch.zeros(3, dtype=torch.long)
    metrics, alone = next_location_metrics(4), LocationF1(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone.update(scores, target)
        value = alone.compute()
        assert metrics(scores, target)["f1"] == value
    with pytest.warns(UserWarning, match="all targets are location 0, so F1 of locations says"):
        assert metrics.compute()["f1"] == value
    metrics.update(scores, target)
    single = next_location_metrics(4)
    single.update(scores[:1], target[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.table()
        assert single.compute()["f1"] == 1


def value_of(metric: Metric, *args: Tensor) -> float:
    """The value of a metric after one update."""
    return updated(metric, *args).compute().item()


def test_weighted_f1_of_a_confusion_matrix() -> None:
    """Three locations: each location's F1 weighted by how often it was visited."""
    matrix = [[50, 10, 5], [5, 80, 15], [10, 20, 35]]
    target = [i for i, row in enumerate(matrix) for n in row for _ in range(n)]
    decided = [j for row in matrix for j, n in enumerate(row) for _ in range(n)]
    preds = torch.nn.functional.one_hot(torch.tensor(decided), 3).float()
    f1 = [2 * 50 / (65 + 65), 2 * 80 / (100 + 110), 2 * 35 / (65 + 55)]
    expected = (65 * f1[0] + 100 * f1[1] + 65 * f1[2]) / 230
    assert expected == pytest.approx(0.7135, abs=5e-5)
    assert value_of(LocationF1(3), preds, torch.tensor(target)) == pytest.approx(expected)
    macro = LocationF1(3, average="macro")
    assert value_of(macro, preds, torch.tensor(target)) == pytest.approx(sum(f1) / 3)
    micro = LocationF1(3, average="micro")
    assert value_of(micro, preds, torch.tensor(target)) == pytest.approx((50 + 80 + 35) / 230)
    each = updated(LocationF1(3, average=None), preds, torch.tensor(target)).compute()
    assert each.tolist() == pytest.approx(f1)


def test_location_f1_of_rows_that_decide_nothing() -> None:
    """A row with a NaN, or with nothing above -inf, counts as a visit and as no decision."""
    preds = torch.tensor([[9.0, 0.0, 0.0], [9.0, 0.0, math.nan], [-math.inf] * 3])
    target = torch.tensor([0, 0, 0])
    metric = updated(LocationF1(3), preds, target)
    assert metric.compute().item() == pytest.approx(2 * 1 / (3 + 1))
    assert metric.num_queries == 3
    assert value_of(LocationPrecision(3, average="micro"), preds, target) == 1 / 1
    assert value_of(LocationRecall(3, average="micro"), preds, target) == pytest.approx(1 / 3)


@pytest.mark.usefixtures("each_backend")
def test_an_invented_id_is_a_wrong_decision() -> None:
    """A list that begins with an id of no location counts in support, wherever others end."""
    lists, target = torch.tensor([[1, 7], [7, 1], [1 << 40, 1], [2, 1]]), torch.tensor([1, 1, 1, 2])
    for average, expected in (
        ("weighted", (3 * 1 / 2 + 1) / 4),  # of 1: one decision, support 3; of 2: all right
        ("macro", (1 / 2 + 1) / 2),
        ("micro", 2 / 4),
    ):
        f1 = LocationF1(4, average=average)  # type: ignore[arg-type]
        f1.update(lists, target)
        assert f1.compute().item() == pytest.approx(expected)
        assert (f1.num_queries, f1.num_invented) == (4, 2)
    metrics = next_location_metrics(4)
    metrics.update(lists, target)
    assert metrics.compute()["acc_at_5"].item() == 1


@examples(30)
@given(st.data())
@pytest.mark.usefixtures("each_backend")
def test_locations_by_key_equal_counted_ones(data: st.DataObject) -> None:
    """All classes and averages, for scores and lists, alone and beside ranks, over two batches."""
    make = data.draw(st.sampled_from([LocationF1, LocationPrecision, LocationRecall]))
    average = data.draw(st.sampled_from(["weighted", "macro", "micro", None]))
    are_lists, is_padded = data.draw(st.booleans()), data.draw(st.booleans())
    keyed = RankingCollection({"f": make(average=average), "mrr": MRR(), "hit": AccuracyAtK(1)})
    dense = RankingCollection({"f": make(9, average=average), "mrr": MRR()})
    for _ in range(2):
        n = data.draw(st.integers(0, 6))
        random = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
        preds = torch.randint(4, (n, 9), generator=random).float()
        preds[torch.rand(n, 9, generator=random) < 0.02] = torch.nan
        if are_lists:
            preds = preds.argsort(1)[:, :3]
            preds[torch.rand(n, generator=random) < 0.1] = -1
        target = torch.randint(9, (n,), generator=random)
        if is_padded:
            target = torch.stack([target, torch.full((n,), -1)], 1)
        mask = torch.rand(n, generator=random) < 0.8 if data.draw(st.booleans()) else None
        keyed.update(preds, target, mask)
        dense.update(preds, target, mask)
    values, expected = keyed.compute(), dense.compute()
    assert same(values["mrr"], expected["mrr"])
    locations = keyed["f"].locations
    counts = dense["f"].counts
    occurs = counts[:, :-1].any(0).nonzero()[:, 0]
    assert torch.equal(locations, occurs)
    assert torch.equal(keyed["f"].counts, counts[:, occurs])
    assert same(values["f"], expected["f"] if average else expected["f"][occurs])
    assert keyed["f"].num_queries == dense["f"].num_queries
    assert keyed["f"].num_undecided == dense["f"].num_undecided


def test_an_invented_id_counts_as_a_location_in_macro() -> None:
    """Without a number of locations it is one that is never right; other averages are equal."""
    lists, target = torch.tensor([[0], [1], [99]]), torch.tensor([0, 1, 1])
    for make in (LocationF1, LocationPrecision, LocationRecall):
        for average in ("weighted", "micro", "macro"):
            keyed, dense = make(average=average), make(3, average=average)
            one = updated(keyed, lists, target).compute()
            other = updated(dense, lists, target).compute()
            if average == "macro":
                assert float(one) == pytest.approx(float(other) * 2 / 3)
            else:
                assert same(one, other)
            assert (keyed.num_invented, dense.num_invented) == (None, 1)  # type: ignore[attr-defined]
