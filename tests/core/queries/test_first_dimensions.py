"""A mask and groups of the first dimensions of queries hold for all that lies behind."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from nextloc_metrics import (
    MRR,
    Grouped,
    GroupLabels,
    Ranking,
    RankingCollection,
    functional,
    trajectories,
)

QUERIES = (4, 3)
SCORES = torch.randn(*QUERIES, 7, generator=torch.Generator().manual_seed(1))
TARGET = torch.arange(12).reshape(QUERIES) % 7
IS_REAL = torch.tensor([True, False, True, True])
USERS = torch.tensor([1, 9, 0, 1])  # the group of what the mask leaves out is not read


def spread(values: Tensor) -> Tensor:
    """Repeat the value of each sequence for its steps."""
    return values[:, None].expand(QUERIES)


@pytest.mark.parametrize("given", [SCORES, SCORES.argsort(-1)], ids=["scores", "lists"])
def test_they_equal_those_of_every_step(given: Tensor) -> None:
    """Alone, in groups and in a collection, and the value by hand."""
    metrics = RankingCollection({"mrr": MRR(), "by_user": Grouped(MRR(), 2)})
    found = metrics(given, TARGET, IS_REAL, USERS)
    own = metrics(given, TARGET, spread(IS_REAL), spread(USERS))
    assert found.keys() == own.keys()
    for name, value in found.items():
        assert torch.equal(value, own[name]), name
    each = MRR().read(given, TARGET)
    scores = (1 / (each.above[:, 0] + 1).double()).reshape(QUERIES).mean(1)
    assert float(found["mrr"]) == pytest.approx(float(scores[IS_REAL].mean()))


def test_names_of_groups() -> None:
    """The text of a sequence is read where one of its steps counts."""
    metric = Grouped(MRR(), 2, labels=GroupLabels(["ann", "bob"]))
    names = ["bob", "who", "ann", "bob"]
    found = metric(SCORES, TARGET, IS_REAL, names)
    assert torch.equal(found, Grouped(MRR(), 2)(SCORES, TARGET, IS_REAL, spread(USERS)))
    with pytest.raises(ValueError, match="who"):
        metric(SCORES, TARGET, None, names)


def test_functions_and_rankings() -> None:
    """The score of a query that is left out is NaN."""
    found = functional.mrr(SCORES, TARGET, mask=IS_REAL, reduction="none")
    assert torch.equal(found.isnan(), ~spread(IS_REAL))
    for ranking in (
        Ranking.from_scores(SCORES, TARGET, IS_REAL),
        Ranking.from_scores(SCORES, TARGET, IS_REAL.numpy()),
    ):
        assert torch.equal(ranking.counted, spread(IS_REAL).flatten())


def test_pairs_of_trajectories() -> None:
    """Queries of other records have the same shapes."""
    points = torch.rand(*QUERIES, 5, 2, generator=torch.Generator().manual_seed(2))
    own = trajectories.DTW()(points, points.flip(2), spread(IS_REAL))
    assert torch.equal(trajectories.DTW()(points, points.flip(2), IS_REAL), own)


@pytest.mark.parametrize("name", ["mask", "groups"])
@pytest.mark.parametrize("shape", [(), (3,), (1,), (4, 1), (4, 3, 1), (3, 4)])
def test_other_shapes_are_refused(name: str, shape: tuple[int, ...]) -> None:
    """With the shapes that fit, and without a change of the state."""
    metric: Any = {"mask": MRR(), "groups": Grouped(MRR(), 2)}[name]
    kind = "bool" if name == "mask" else "int64"
    values = torch.ones(shape, dtype=getattr(torch, kind))
    fitting = re.escape(f"of shape (4, 3) or (4,), one per query, got {kind} {shape}.")
    with pytest.raises(ValueError, match=f"`{name}` must be .*{fitting}"):
        metric.update(SCORES, TARGET, **{name: values})
    assert not metric.state.any()
