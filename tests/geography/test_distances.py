"""Distances, neighbours and metrics in km agree with scikit-learn and with loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from towns import haversine, locations_of_a_town

from nextloc_metrics import (
    AccuracyAtK,
    Grouped,
    PerQueryScores,
    Ranking,
    RankingCollection,
)
from nextloc_metrics.geography import AccuracyWithin, DistanceError, Locations
from oracles import decisions
from strategies import examples, state_name


@st.composite
def tied_batches(draw: Any) -> tuple[Any, Any, int]:
    """Scores of six candidates with few values, NaN and -inf among them; a target; k."""
    values = st.sampled_from([0.0, 0.0, 1.0, 2.0, math.nan, -math.inf])
    row = draw(st.lists(values, min_size=6, max_size=6))
    return row, draw(st.integers(0, 5)), draw(st.integers(1, 7))


PLACES = Locations.from_plane([0, 1000, 2000, 2000, 9000, 9500], [0] * 6)


@examples(30)
@given(tied_batches(), st.sampled_from([0.0, 0.5, 1.0, 2.5]))
def test_accuracy_within_reads_the_first_k_by_score_and_id(
    batch: tuple[Any, Any, int], km: float
) -> None:
    """A NaN takes a rank; of tied candidates the lowest ids come first, also in a collection."""
    row, target, k = batch
    known = [x for x in range(6) if row[x] == row[x] and row[x] > -math.inf]
    nan = sum(x != x for x in row)
    first = sorted(known, key=lambda x: (-row[x], x))[: max(0, k - nan)]
    distance = PLACES.distance(torch.tensor(target), torch.arange(6)).tolist()
    together = {"k": AccuracyWithin(PLACES, km, k), "6": AccuracyWithin(PLACES, km, 6)}
    for metric in (AccuracyWithin(PLACES, km, k), RankingCollection(together)):
        metric.update(torch.tensor([row]), torch.tensor([target]))
        value = metric.compute()
        value = value["k"] if isinstance(value, dict) else value
        assert value == any(distance[x] <= km for x in first)


def test_accuracy_within_many_locations() -> None:
    """Without ties it is `AccuracyAtK` with all places within d km as relevant."""
    _, _, locations = locations_of_a_town(200)
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(300, 200, generator=generator).argsort(1).float()
    target = torch.randint(0, 200, (300,), generator=generator)
    for km, k in itertools.product((0, 0.7, 5.0), (1, 5, 30, 150)):
        metric, expected = AccuracyWithin(locations, km, k), AccuracyAtK(k)
        metric.update(scores, target)
        expected.update(scores, locations.within(km, target))
        assert torch.equal(metric.state, expected.state)
        lists = scores.argsort(1, descending=True)[:, :k]
        assert metric(lists, target) == expected(lists, locations.within(km, target))


def test_excluded_candidates_are_not_near() -> None:
    """An excluded candidate is not near, also in a tied block that crosses rank k."""
    metric = AccuracyWithin(PLACES, 1.0, k=1)
    scores = torch.ones(1, 6)
    assert metric(scores, torch.tensor([0])) == 1
    assert metric(scores, torch.tensor([4]), exclude=torch.tensor([[0, 1]])) == 0
    assert metric(scores, torch.tensor([3]), exclude=torch.tensor([[0, 1]])) == 1


def test_a_batch_without_queries_counts_nothing() -> None:
    """There is no largest id of no target."""
    for metric in (DistanceError(PLACES), AccuracyWithin(PLACES, 1.0, k=1)):
        metric.update(torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64))
        assert metric.num_queries == 0


def test_padding_of_targets_is_near_nothing() -> None:
    """A target -1 beside one or two others is no location, although -1 could index one."""
    scores, target = torch.eye(6)[[0, 5, 0]], torch.tensor([[4, -1], [-1, 0], [4, 5]])
    error = DistanceError(PLACES)
    error.update(scores, target)  # 9, 9.5 and 9 km
    assert float(error.compute()) == pytest.approx(27.5 / 3)
    assert AccuracyWithin(PLACES, 1.0, k=1)(scores, target) == 0


def test_a_ranking_without_scores_serves() -> None:
    """It holds the first candidates, of tied ones the lowest ids."""
    metric = AccuracyWithin(PLACES, 1.0, k=2)
    queries, table = torch.eye(6)[:2], torch.eye(6) + torch.arange(6.0)[:, None] / 100
    assert metric(Ranking.from_embeddings(queries, table, torch.tensor([0, 4]), top=2)) == 1
    tied = Ranking.from_embeddings(queries, torch.ones(6, 6), torch.tensor([0, 4]), top=2)
    assert metric(tied) == 0.5


STATISTICS: dict[str, Any] = {"mean": "mean", "median": "median", "low": 0.1, "high": 0.99}


def test_distance_errors_are_those_of_the_decisions() -> None:
    """Mean, interval and quantiles, from one state; undecided rows count the largest distance."""
    latitude, longitude, locations = locations_of_a_town()
    matrix = haversine(latitude, longitude)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 9, (400, 40), generator=generator).float()
    scores[:7, 3], scores[7] = math.nan, -math.inf
    target = torch.randint(0, 40, (400,), generator=generator)
    decided = [decisions.decision(row, by_scores=True) for row in scores.tolist()]
    rows = zip(decided, target.tolist(), strict=True)
    km = np.array([20_015.2 if one is None else matrix[one, to] for one, to in rows])
    metrics = RankingCollection(
        {name: DistanceError(locations, statistic) for name, statistic in STATISTICS.items()}
    )
    for part in torch.arange(400).split(90):
        metrics.update(scores[part], target[part])
    found = metrics.compute()
    assert float(found["mean"]) == pytest.approx(km.mean(), abs=1e-3)
    for name, share in (("median", 0.5), ("low", 0.1), ("high", 0.99)):
        exact = np.quantile(km, share, method="inverted_cdf")
        assert float(found[name]) == pytest.approx(exact, rel=0.0051)
    assert len(metrics.compute_groups) == 1
    mean = metrics["mean"]
    assert mean.num_undecided == decided.count(None) == 8
    low, high = mean.interval()
    error = km.std(ddof=1) / 20
    assert float(mean.standard_error()) == pytest.approx(error, rel=1e-3)
    assert low < km.mean() < high
    assert float(high - low) == pytest.approx(2 * 1.96 * error, rel=0.05)
    skipping = DistanceError(locations, undecided="skip")
    skipping.update(scores, target)
    kept = np.array([x is not None for x in decided])
    assert float(skipping.compute()) == pytest.approx(km[kept].mean(), abs=1e-3)
    assert skipping.num_undecided == 8
    assert skipping.num_queries == 392


def test_distances_by_group_and_by_query() -> None:
    """`Grouped` is in km; scores by query are fractions of the largest distance."""
    scores, target = torch.eye(6)[[0, 1, 4, 5]], torch.tensor([1, 1, 0, 4])  # 1, 0, 9, 0.5 km
    users = torch.tensor([0, 1, 1, 0])
    grouped = Grouped(DistanceError(PLACES), 2)
    grouped.update(scores, target, groups=users)
    assert grouped.compute().tolist() == pytest.approx([0.75, 4.5])
    mean = Grouped(DistanceError(PLACES), 2, average="queries")
    mean.update(scores, target, groups=users)
    assert float(mean.compute()) == pytest.approx(10.5 / 4)
    assert mean.interval()[0] < mean.compute() < mean.interval()[1]
    assert grouped.higher_is_better is False
    table = RankingCollection({"error": grouped}).table()
    assert [row[:2] for row in table.rows] == [
        ("error, 0 (km)", "0.75"),
        ("error, 1 (km)", "4.5"),
    ]
    kept = PerQueryScores(DistanceError(PLACES))
    kept.update(scores, target, query_ids=torch.arange(4))
    assert (kept.compute().scores * PLACES.largest).tolist() == pytest.approx([1, 0, 9, 0.5])
    several = DistanceError(PLACES)
    several.update(scores[:1], torch.tensor([[1, 4]]))  # the nearest counts
    assert float(several.compute()) == pytest.approx(1)
    lists = DistanceError(PLACES, "median")
    lists.update(torch.tensor([[1, 2], [-1, -1], [99, 0]]), torch.tensor([0, 0, 0]))
    assert lists.num_undecided == 2
    assert float(lists.compute()) == pytest.approx(PLACES.largest, rel=0.0051)
    assert math.isnan(DistanceError(PLACES, "median")(scores, target, mask=target < 0))


def test_states_tell_places_apart() -> None:
    """Metrics with different coordinates, distances or options do not share a state."""
    other = Locations.from_plane([0, 1000, 2000, 2000, 9000, 9501], [0] * 6)
    metrics = [
        AccuracyWithin(PLACES, 1, 1), AccuracyWithin(other, 1, 1), AccuracyWithin(PLACES, 2, 1),
        DistanceError(PLACES), DistanceError(other), DistanceError(PLACES, undecided="skip"),
    ]  # fmt: skip
    assert len({state_name(metric) for metric in metrics}) == len(metrics)
    assert state_name(DistanceError(PLACES)) == state_name(DistanceError(PLACES, 0.9))


#: ids 0 to 3 are locations; 4 and 5 are padding
PADDED = Locations.from_plane([0, 1000, 2000, 2000, math.nan, 0], [0, 0, 0, 0, 0, math.nan])


def test_padding_has_no_coordinates() -> None:
    """Values are those without the padding, if it is neither a target nor a first candidate."""
    lengths = 6, 4
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 3, (200, 6), generator=generator).double()
    scores[:, 4:] = -math.inf
    scores[3, 1], scores[5] = math.nan, -math.inf
    target = torch.randint(0, 4, (200,), generator=generator)
    plain = Locations(PADDED.points[:4, 0] / 100, PADDED.points[:4, 1])
    padded = Locations(PADDED.points[:, 0] / 100, PADDED.points[:, 1])
    for pair in ((PADDED, Locations.from_points(PADDED.points[:4])), (padded, plain)):
        assert [len(one) for one in pair] == list(lengths)
        assert pair[0].largest == pair[1].largest
        assert torch.equal(pair[0].project()[:4], pair[1].project())
        assert torch.equal(pair[0].neighbours(1)[1], pair[1].neighbours(1)[1])
        for k in (1, 2, 3, 6):
            found = [
                AccuracyWithin(one, 1.0, k)(scores[:, :length], target)
                for one, length in zip(pair, lengths, strict=True)
            ]
            assert found[0] == found[1]
        errors = [DistanceError(one) for one in pair]
        for metric, length in zip(errors, lengths, strict=True):
            metric.update(scores[:, :length], target)
        assert torch.equal(errors[0].state, errors[1].state)
    kept = Locations.from_points(PADDED.points)
    assert kept.state_key() == PADDED.state_key()
    assert not kept.is_complete
    assert (
        Locations([0, 5], [0, math.nan]).state_key() == Locations([0, 7], [0, math.nan]).state_key()
    )
    lists = torch.tensor([[0, 4], [3, -1], [5, 9]])
    mask = torch.tensor([True, True, False])
    assert AccuracyWithin(PADDED, 1.0, 1)(lists, torch.tensor([1, 0, 0]), mask=mask) == 0.5


@pytest.mark.parametrize(
    ("row", "target", "k", "says"),
    [
        ([9, 1, 1, 1, 0, 0], 4, 1, "`target` must hold locations.* got 4 in query 1, .*`mask`"),
        ([9, 1, 1, 1, 0, 0], [0, 5], 1, "`target` .* got 5 in query 1"),
        ([8, 1, 1, 1, 0, 9], 0, 1, "`preds` must hold .* got 5 in query 1.*score -inf.*`exclude`"),
        ([9, 1, 1, 1, 8, 0], 0, 1, None),
        ([9, 1, 1, 1, 8, 0], 0, 2, "`preds` .* got 4 in query 1"),
        ([9, 1, 1, 1, 1, 0], 3, 4, None),  # of the block that crosses rank 4, the lowest ids
        ([9, 1, 1, 1, 0, 0], 0, 4, None),
        ([9, 1, 1, 1, math.nan, 0], 0, 4, None),
    ],
)
def test_a_distance_without_coordinates_is_an_error(
    row: list[float], target: Any, k: int, says: str | None
) -> None:
    """Of a target, or of a candidate among the first k; nothing is counted."""
    scores = torch.tensor([[9.0, 1, 1, 1, 0, 0], row])
    targets = torch.tensor([[0, -1], target if isinstance(target, list) else [target, -1]])
    metrics = RankingCollection(
        {"within": AccuracyWithin(PADDED, 1.0, k), "acc": AccuracyAtK(1)}
        | ({"error": DistanceError(PADDED)} if k == 1 else {})
    )
    metrics.update(scores[:1], targets[:1])
    if says is None:
        metrics.update(scores, targets)
        assert metrics["acc"].num_queries == 3
        return
    for mask in (None, torch.tensor([False, True])):
        with pytest.raises(ValueError, match=says):
            metrics.update(scores, targets, mask=mask)
    assert {metric.num_queries for metric in metrics.values()} == {1}
    metrics.update(scores, targets, mask=torch.tensor([True, False]))
    if k == 1:
        alone = DistanceError(PADDED)
        with pytest.raises(ValueError, match=says):
            alone.update(scores, targets)
        assert not alone.state.any()
        unchecked = DistanceError(PADDED, validate_args=False)
        unchecked.update(scores[1:], targets[1:])
        if not isinstance(target, list):
            assert float(unchecked.compute()) == pytest.approx(PADDED.largest)


@pytest.mark.usefixtures("each_backend")
def test_unchecked_targets_that_are_no_location_are_misses() -> None:
    """Also far beyond the coordinates, where memory is not the metric's."""
    places = Locations.from_plane(range(10), range(10))
    within = AccuracyWithin(places, km=500, k=3, validate_args=False)
    within.update(torch.tensor([[1, 2, 3]] * 4), torch.tensor([2, 5, 11, 10**9]))
    assert within.compute() == 0.5
