"""Weighted means: exact sums, the standard error of a ratio, groups and collections."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    MeanRank,
    PassAtK,
    RankingCollection,
    TimeError,
    Weighted,
    analysis,
)
from nextloc_metrics.core.means import exact
from nextloc_metrics.report import Draws
from strategies import batch, examples, same, split, state, updated

WEIGHTS = st.one_of(st.floats(0, 2.0**31), st.floats(0, 1e-6), st.sampled_from([0.0, 1.0, 2.0**31]))


def random_batch(n: int = 40, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Scores with ties, targets and weights, a fifth of them 0."""
    torch.manual_seed(seed)
    weights = torch.rand(n, dtype=torch.float64) * 3
    return *batch(n), weights * (torch.rand(n) > 0.2)


@pytest.mark.parametrize("metric", [MRR(), AccuracyAtK(2), MeanRank()])
def test_the_ratio_and_its_standard_error(metric: Any) -> None:
    """The value, its error and the number of queries are those of loops."""
    preds, target, weights = random_batch()
    scores, _ = metric._score_queries(metric.read(preds, target))
    pairs = [(w, s) for w, s in zip(weights.tolist(), scores.tolist(), strict=True) if w > 0]
    total = sum(w for w, _ in pairs)
    mean = sum(w * s for w, s in pairs) / total
    number = len(pairs)
    spread = sum((w * (s - mean)) ** 2 for w, s in pairs)
    weighted = Weighted(metric.clone())
    weighted.update(preds, target, weights=weights)
    assert weighted.compute() == pytest.approx(mean, rel=1e-6)
    error = math.sqrt(spread * number / (number - 1)) / total
    assert weighted.standard_error() == pytest.approx(error, rel=1e-5)
    assert weighted.num_queries == number
    low, high = weighted.interval()
    assert low < mean < high


@examples(20)
@given(st.lists(st.tuples(WEIGHTS, st.floats(0, 1)), min_size=1, max_size=9), st.integers(0, 9))
def test_sums_are_exact_in_any_order(pairs: list[tuple[float, float]], cut: int) -> None:
    """The state is that of any split, and the sums those of fractions."""
    weights, scores = (torch.tensor(x, dtype=torch.float64) for x in zip(*pairs, strict=True))
    counted = weights > 0
    whole = exact.tally(scores * counted, counted, True, weights)
    parts = [
        exact.tally(s * c, c, True, w)
        for s, c, w in ((x[rows] for x in (scores, counted, weights))
                        for rows in (slice(cut, None), slice(0, cut)))
    ]  # fmt: skip
    assert torch.equal(whole, parts[0] + parts[1])
    kept = [(Fraction(w), Fraction(w * s)) for w, s in pairs if w > 0]
    sums = exact.weighted_sums(whole)
    for got, expected in zip(sums, map(sum, zip(*kept, strict=True)) if kept else (), strict=False):
        assert float(got) == pytest.approx(float(expected), rel=1e-15, abs=len(kept) * 2.0**-96)
    assert sums[-1] == len(kept)


def test_whole_weights_repeat_queries_and_equal_ones_change_nothing() -> None:
    """A weight of 3 counts as three queries in the value; in the error it is one query."""
    preds, target, _ = random_batch()
    weights = torch.randint(0, 4, (40,))
    repeated = MRR()(preds.repeat_interleave(weights, 0), target.repeat_interleave(weights))
    weighted = Weighted(MRR())
    assert weighted(preds, target, weights=weights) == pytest.approx(float(repeated), rel=1e-6)
    plain, equal = MRR(), Weighted(MRR())
    plain.update(preds, target)
    equal.update(preds, target, weights=np.full(40, 0.25))
    assert equal.compute() == plain.compute()
    assert equal.standard_error() == pytest.approx(float(plain.standard_error()), rel=1e-6)
    for one, other in zip(equal.interval(), plain.interval(), strict=True):
        assert one == pytest.approx(float(other), rel=1e-5)


def test_small_weights_are_as_good_as_large_ones() -> None:
    """A factor of all weights changes neither the value nor its interval, down to 2^-32."""
    preds, target, weights = random_batch()
    weights = torch.where(weights > 0, weights.clamp(min=0.5), 0)
    expected = updated(Weighted(MRR()), preds, target, weights=weights)
    for factor in (2.0**-31, 1e-8, 1e8):
        got = updated(Weighted(MRR()), preds, target, weights=weights * factor)
        assert got.compute() == pytest.approx(float(expected.compute()), rel=1e-6)
        error = float(expected.standard_error())
        assert got.standard_error() == pytest.approx(error, rel=1e-6)
        assert got.interval() == pytest.approx([float(x) for x in expected.interval()], rel=1e-6)
    for bound in (2.0**-32, 2.0**31):
        assert Weighted(MRR())([[1], [2]], [1, 9], weights=[bound, bound]) == 0.5


def test_groups_and_collections_and_any_split() -> None:
    """Groups have their own weighted means, clusters their weights; all from any batches."""
    preds, target, weights = random_batch()
    groups = torch.arange(40) % 3

    def make() -> RankingCollection:
        return RankingCollection(
            {
                "plain": MRR(),
                "mrr": Weighted(MRR()),
                "hit": Weighted(AccuracyAtK(2)),
                "mean_rank": Weighted(MeanRank()),
                "by": Grouped(Weighted(MRR()), 3),
                "all": Grouped(Weighted(MRR()), 3, average="queries"),
            }
        )

    whole, parts = make(), make()
    whole.update(preds, target, groups=groups, weights=weights)
    for p, t, g, w in split([7, 20], preds, target, groups, weights):
        parts.update(p, t, groups=g, weights=w)
    for (name, one), other in zip(whole.items(), parts.values(), strict=True):
        assert same(state(one), state(other)), name
    found = whole.compute()
    assert found["plain"] == MRR()(preds, target)
    assert found["all"] == pytest.approx(float(found["mrr"]), rel=1e-6)
    for group in range(3):
        rows = groups == group
        expected = Weighted(MRR())(preds[rows], target[rows], weights=weights[rows])
        assert found["by"][group] == expected
    assert whole["by"].num_queries.sum() == (weights > 0).sum()
    assert whole["by"].gap().value > 0
    # clustered: the sum over groups of (S_g - m W_g)^2 / (1 - W_g / W), by the sum of weights
    scores, _ = MRR()._score_queries(MRR().read(preds, target))
    total, mean = float(weights.sum()), float((weights * scores).sum() / weights.sum())
    squares = 0.0
    for group in range(3):
        w, s = weights[groups == group], scores[groups == group]
        squares += float((w * (s - mean)).sum()) ** 2 / (1 - float(w.sum()) / total)
    assert whole["all"].standard_error() == pytest.approx(math.sqrt(squares) / total, rel=1e-5)
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    assert whole["mrr"].plot()[1].get_ylabel() == "MRR, weighted"
    assert "95 %" in str(whole.table(intervals=True))


def test_unbounded_scores_and_equal_scores() -> None:
    """An infinite error makes the mean infinite; equal scores have Kish's effective size."""
    error = Weighted(TimeError())
    error.update([10.0, math.nan], [0.0, 0.0], weights=[1.0, 0.0])
    assert error.compute() == 10
    error.update([math.nan], [0.0], weights=[0.5])
    assert error.compute() == math.inf
    lists, target = torch.zeros(40, 1, dtype=torch.long), torch.zeros(40, dtype=torch.long)
    equal, unequal = Weighted(AccuracyAtK(1)), Weighted(AccuracyAtK(1))
    equal.update(lists, target, weights=torch.ones(40))
    unequal.update(lists, target, weights=torch.arange(1, 41) ** 3)
    assert unequal.interval()[0] < equal.interval()[0] < 1
    assert updated(Weighted(MRR()), lists, target, weights=0 * target).compute().isnan()


def test_the_chance_level_needs_no_weights() -> None:
    """All queries have the same one."""
    assert analysis.chance(Weighted(MRR()), 4) == analysis.chance(MRR(), 4)


WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: Weighted(MRR())([[1]], [1]), ValueError, "`weights` must be given, one per query"),
    (lambda: MRR().update([[1]], [1], weights=[1.0]), ValueError, "`weights` must be None without"),
    (
        lambda: Weighted(MRR())([[1]], [1], weights=[-0.5]),
        ValueError,
        r"`weights` must be 0 or from 2\^-32 to 2\^31, got -0.5",
    ),
    (
        lambda: Weighted(MRR())([[1], [2]], [1, 9], weights=[1e-10, 1.0]),
        ValueError,
        "got 1e-10; multiply all weights by one number",
    ),
    (lambda: Weighted(MRR())([[1]], [1], weights=[math.nan]), ValueError, "2.31, got nan"),
    (lambda: Weighted(MRR())([[1]], [1], weights=[2.0**31 + 1]), ValueError, "2.31, got 2.14748e"),
    (lambda: Weighted(MRR())([[1]], [1], weights=[1, 2]), ValueError, "one per query, got"),
    (
        lambda: Weighted(PassAtK(3)).update(Draws([[[1]], [[2]]]), [1], weights=[1.0]),
        ValueError,
        "`k` must be at most the 2 draws, got 3",
    ),
    (lambda: Weighted(Weighted(MRR())), TypeError, "`metric` must be without weights"),
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG)
def test_errors_name_the_argument(make: Any, error: type[Exception], message: str) -> None:
    """And the rule and the value."""
    with pytest.raises(error, match=message):
        make()


def test_the_highest_weight_is_read() -> None:
    """2^31, of which the square fits into the state; a query beside it counts nothing."""
    metric = Weighted(MRR())
    metric.update([[1, 2], [1, 2]], [2, 1], weights=[2.0**31, 0])
    assert float(metric.compute()) == 0.5


def test_weights_of_masked_queries_are_not_read() -> None:
    """Whatever stands there."""
    metric = Weighted(MRR())
    metric.update([[1], [2]], [1, 9], mask=[True, False], weights=[2.0, math.nan])
    assert (metric.compute(), metric.num_queries) == (1, 1)
    unchecked = Weighted(MRR(validate_args=False))
    unchecked.update([[1], [2]], [1, 9], weights=[2.0, math.nan])
    assert unchecked.compute() == 1
