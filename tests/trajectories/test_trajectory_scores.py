"""Every metric of trajectories against plain Python, SciPy and the laws that it must obey."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nextloc_metrics.geography import Locations
from nextloc_metrics.trajectories import (
    DTW,
    GeoBLEU,
    MeanPointError,
    PairMetric,
    PointErrorAt,
)
from oracles import sequences as oracle
from oracles.sequences import Points, padded, walks

PAIRS = walks(60, 14, seed=1)
ALIGNED = walks(40, 14, seed=2, equal=True)

Oracle = Callable[[Points, Points], float]


def scores(metric: PairMetric, pairs: list[tuple[Points, Points]], extra: int = 0) -> Tensor:
    """The score of each pair."""
    record = metric.read(padded([p for p, _ in pairs], extra), padded([t for _, t in pairs], extra))
    metric.check(record)
    return metric.scores_of(record)[0]


CASES: list[tuple[PairMetric, Oracle]] = [
    (GeoBLEU(), oracle.geo_bleu),
    (GeoBLEU(3, beta=0.2, scale=1.7), lambda p, t: oracle.geo_bleu(p, t, 3, 0.2, 1.7)),
    (GeoBLEU(40), lambda p, t: oracle.geo_bleu(p, t, 40)),
    (
        GeoBLEU(divisor="matched"),
        lambda p, t: oracle.geo_bleu(p, t, divisor="matched"),
    ),
    (DTW(), oracle.path),
    (DTW(scale=2.5), lambda p, t: oracle.path(p, t) / 2.5),
    (DTW(normalized=True), lambda p, t: oracle.path(p, t) / max(len(p), len(t))),
    (DTW(window=0), lambda p, t: oracle.path(p, t, window=0)),
    (DTW(window=3), lambda p, t: oracle.path(p, t, window=3)),
    (DTW(free_start=True), lambda p, t: oracle.path(p, t, free_start=True)),
]

by_case = pytest.mark.parametrize(("metric", "expected"), CASES, ids=[repr(c[0]) for c in CASES])


@by_case
def test_the_score_is_that_of_plain_python(metric: PairMetric, expected: Oracle) -> None:
    """On walks with ties, of different lengths, and of one point."""
    wanted = torch.tensor([expected(*pair) for pair in PAIRS], dtype=torch.float64)
    torch.testing.assert_close(scores(metric, PAIRS), wanted, rtol=1e-12, atol=1e-12)


@by_case
def test_padding_and_batches_change_no_bit(metric: PairMetric, expected: Oracle) -> None:
    """More padding and single pairs give the same bits."""
    pairs = PAIRS[:25]
    whole = scores(metric, pairs)
    assert torch.equal(scores(metric, pairs, extra=5), whole)
    assert torch.equal(torch.cat([scores(metric, [pair]) for pair in pairs]), whole)


def test_point_errors_are_those_of_plain_python() -> None:
    """The mean over the steps, and the errors at single steps; short pairs are left out."""
    wanted = [[oracle.distance(p, t) for p, t in zip(*pair, strict=True)] for pair in ALIGNED]
    found = scores(MeanPointError(), ALIGNED)
    assert found.tolist() == pytest.approx([sum(one) / len(one) for one in wanted], rel=1e-14)
    for step in (1, 3, -1, -4):
        metric = PointErrorAt(step)
        metric.update(padded([p for p, _ in ALIGNED]), padded([t for _, t in ALIGNED]))
        of_step = [one[step - (step > 0)] for one in wanted if len(one) >= abs(step)]
        assert metric.num_queries == len(of_step)
        assert float(metric.compute()) == pytest.approx(sum(of_step) / len(of_step), rel=1e-6)
    assert scores(PointErrorAt(30), ALIGNED).count_nonzero() == 0


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        (GeoBLEU(), 0.0),
        (DTW(free_start=True), math.inf),
        (DTW(window=1), math.inf),
    ],
    ids=repr,
)
def test_an_empty_prediction_has_the_worst_score(metric: Any, score: float) -> None:
    """0 for a similarity, infinity for a distance; beside others or alone."""
    true: Points = [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert scores(metric, [([], true), (true, true)])[0] == score
    assert scores(metric, [([], true)]).tolist() == [score]
    metric = metric.clone()
    metric.update(padded([[]]), padded([true]))
    assert float(metric.compute()) == score


def test_distances_on_the_sphere_are_those_of_locations() -> None:
    """From 0 to half of the circumference, in the errors of single points."""
    random = np.random.default_rng(6)
    latitude = [0.0, 0, 90, -90, 10, *(random.random(200) * 180 - 90)]
    longitude = [0.0, 180, 0, 0, 10, *(random.random(200) * 360 - 180)]
    ids = torch.arange(len(latitude))
    wanted = Locations(latitude, longitude).distance(ids[:, None], ids).flatten()
    points = torch.tensor([latitude, longitude], dtype=torch.float64).T
    first, second = (x.flatten() for x in torch.meshgrid(ids, ids, indexing="ij"))
    metric = PointErrorAt(1, units="degrees")
    found = metric.scores_of(metric.read(points[first, None], points[second, None]))[0]
    torch.testing.assert_close(found, wanted, rtol=1e-14, atol=1e-9)
    assert (found[first == second] == 0).all()


def test_no_pairs_and_pairs_without_points_have_no_score() -> None:
    """They are no error; a distance that is too large is infinite, without a warning."""
    none = torch.empty(0, 3, 2, dtype=torch.float64)
    for metric in (GeoBLEU(), DTW()):
        metric.update(none, none)
        metric.update(*(torch.full((2, 3, 2), math.nan),) * 2, mask=torch.zeros(2).bool())
        assert metric.num_queries == 0
        far = torch.full((1, 2, 2), 1e300, dtype=torch.float64)
        scored = metric.scores_of(metric.read(far, -far))[0]
        assert scored.tolist() == [math.inf if metric.unit else 0]
