"""Which counts the F1 over locations keeps, on every path."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor

from nextloc_metrics import LocationF1, RankingCollection, next_location_metrics
from oracles.decisions import counts_by_location


def scored(decisions: list[int | None], candidates: int) -> Tensor:
    """Scores whose best candidate is the decision, and NaN for no decision."""
    scores = torch.rand(len(decisions), candidates)
    for row, decided in zip(scores, decisions, strict=True):
        if decided is None:
            row[int(torch.randint(candidates, ()))] = math.nan
        else:
            row[decided] = 2.0
    return scores


def listed(decisions: list[int | None]) -> Tensor:
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
        preds = scored(decided, candidates) if form == "scores" else listed(decided)
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
    metric.update(scored(decided, 9), torch.tensor(wanted))
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
