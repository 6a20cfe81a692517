"""Coverage, Gini and average popularity are those of loops, whatever is tied, NaN or invented."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from inner import Reference
from nextloc_metrics import (
    AccuracyAtK,
    AveragePopularity,
    Coverage,
    Gini,
    Ranking,
    RankingCollection,
)
from oracles import lists
from strategies import DIRTY, dirty_scores, examples, id_lists, scores

NAN = math.nan
VISITS = [50, 30, 10, 5, 5, 0]
DEFINITIONS = ("population", "sample", "evenness")
ALL: list[Any] = [
    lambda k: Coverage(6, k),
    lambda k: AveragePopularity(VISITS, k),
    *[lambda k, d=d: Gini(6, k, definition=d) for d in DEFINITIONS],
]


def by_hand(metric: Any, counts: list[int], num_queries: int) -> float:
    """The value of a metric that has these counts."""
    if isinstance(metric, Coverage):
        return sum(x > 0 for x in counts) / len(counts) if num_queries else NAN
    if isinstance(metric, Gini):
        return lists.gini_of_pairs(counts, metric.definition)
    visits = sum(x * y for x, y in zip(counts, VISITS, strict=True))
    return visits / sum(counts) if sum(counts) else NAN


def check_all_metrics(
    firsts: list[list[int]], num_queries: int, k: int, *args: Any, **kwargs: Any
) -> None:
    """Compare all metrics, one by one and in a collection, with counts of the first k."""
    together = RankingCollection({str(i): make(k) for i, make in enumerate(ALL)})
    together.update(*args, **kwargs)
    for make, value in zip(ALL, together.compute().values(), strict=True):
        metric = make(k)
        metric.update(*args, **kwargs)
        assert metric.counts.tolist() == lists.counts_of(firsts, 6)
        assert metric.num_queries == num_queries
        assert metric.num_invented == sum(x >= 6 for first in firsts for x in first)
        expected = by_hand(metric, metric.counts.tolist(), num_queries)
        assert float(metric.compute()) == pytest.approx(expected, rel=1e-6, nan_ok=True)
        assert torch.equal(metric.compute().nan_to_num(-1), value.nan_to_num(-1))


@examples(8)
@given(scores(columns=6, values=DIRTY), st.integers(1, 8), st.data())
def test_scores_are_counted_as_in_loops(preds: Tensor, k: int, data: st.DataObject) -> None:
    """With ties across rank k, NaN, -inf, and queries left out."""
    counted = data.draw(st.lists(st.booleans(), min_size=len(preds), max_size=len(preds)))
    rows = [row for row, kept in zip(preds.tolist(), counted, strict=True) if kept]
    firsts = [lists.first_of_scores(row, k) for row in rows]
    target = torch.zeros(len(preds), dtype=torch.long)
    check_all_metrics(firsts, len(rows), k, preds, target, mask=torch.tensor(counted))


@examples(8)
@given(id_lists(8), st.integers(1, 8))
def test_lists_are_counted_as_in_loops(batch: tuple[Tensor, Tensor], k: int) -> None:
    """With repeats, padding, and ids that are no location; the target plays no part."""
    preds, target = batch
    check_all_metrics(
        [lists.first_of_list(row, k) for row in preds.tolist()], len(preds), k, preds, target
    )


def test_an_id_that_comes_again_later_is_one_recommendation() -> None:
    """Another id stands between the two."""
    check_all_metrics([[1, 2]], 1, 3, torch.tensor([[1, 2, 1]]), torch.tensor([1]))


@pytest.mark.parametrize(
    ("k", "dtype"),
    [
        (1, torch.float16),
        (2, torch.bfloat16),
        (5, torch.float64),
        (40, torch.float32),
        (100, torch.float32),
    ],
)
def test_many_candidates_with_ties_in_every_dtype(
    k: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts are equal in C, in PyTorch for small chunks, and without synchronisation."""
    preds, target = dirty_scores(30, 50, dtype), torch.arange(30)
    expected = lists.counts_of([lists.first_of_scores(row, k) for row in preds.tolist()], 50)
    metric = Coverage(50, k)
    metric.update(preds, target)
    assert metric.counts.tolist() == expected
    reference = Reference()
    for elements, waits in ((1, False), (500, False), (1 << 18, True)):
        monkeypatch.setattr("nextloc_metrics.core.backends.reference._BUFFER_ELEMENTS", elements)
        monkeypatch.setattr(
            "nextloc_metrics.core.backends.reference.must_not_sync", lambda _, waits=waits: waits
        )
        monkeypatch.setattr("nextloc_metrics.core.backends.choose", lambda _: reference)
        metric.reset()
        metric.update(preds, target)
        assert metric.counts.tolist() == expected


def test_queries_that_count() -> None:
    """One without a target does; those that are masked or all ignored do not."""
    preds = torch.tensor([[0], [1], [2], [3]])
    target = torch.tensor([[5, -1], [-1, -1], [4, 4], [5, 4]])
    metric = Coverage(6, 1, ignore_index=4)
    metric.update(preds, target, mask=torch.tensor([False, True, True, True]))
    assert metric.counts.tolist() == [0, 1, 0, 1, 0, 0]
    assert metric.num_queries == 2


def test_a_ranking_without_scores() -> None:
    """It suffices that it kept the first k candidates, of tied ones the lowest ids."""
    target = torch.tensor([0, 1])
    tied = torch.tensor([[1.0, 1.0, 1.0, 0.0], [4.0, 3.0, 2.0, 1.0]])
    metric = Gini(4, 2)
    with pytest.raises(ValueError, match="make it with `top=2`"):
        metric.update(Ranking.from_scores(tied, target))
    for top in (2, 3):
        metric.update(Ranking.from_scores(tied, target, top=top))
    metric.update(Ranking.from_scores(tied, target, target > 0, top=2))  # the tie is masked
    metric.update(metric.read(tied, target))
    assert metric.counts.tolist() == [7, 7, 0, 0]
    alone = Coverage(4, 1)
    alone.update(Ranking.from_embeddings(torch.ones(2, 1), torch.ones(4, 1), target, top=1))
    assert alone.counts.tolist() == [2, 0, 0, 0]
    nan = torch.tensor([[NAN, NAN, NAN, 1.0], [NAN, 3.0, 2.0, 1.0]])
    metric.reset()
    metric.update(Ranking.from_scores(nan, target, top=2))  # NaN across rank 2 hides nothing
    assert metric.counts.tolist() == [0, 1, 0, 0]


def test_one_state_serves_all_in_a_collection() -> None:
    """Of the same k and number of locations."""
    metrics = RankingCollection(
        {
            **{d: Gini(6, 3, definition=d) for d in DEFINITIONS},
            "coverage": Coverage(6, 3),
            "popularity": AveragePopularity(VISITS, 3),
            "coverage at 1": Coverage(6, 1),
            "accuracy": AccuracyAtK(3),
        }
    )
    metrics.update(torch.rand(5, 6), torch.arange(5))
    metrics.update(torch.zeros(5, 6), torch.arange(5))
    values = metrics.compute()
    assert len(metrics.compute_groups) == 3
    assert float(values["sample"]) == pytest.approx(1 - float(values["evenness"]))
    assert metrics["popularity"].label == "AveragePopularity@3"
    assert "AveragePopularity" in repr(metrics["popularity"])


def test_sums_that_do_not_fit_are_an_error() -> None:
    """Visits of 2^60 recommended eight times."""
    metric = AveragePopularity([1 << 60, 0], 1)
    metric.update(torch.zeros(8, 1, dtype=torch.long), torch.zeros(8, dtype=torch.long))
    with pytest.raises(OverflowError, match="below 2\\^62"):
        metric.compute()
