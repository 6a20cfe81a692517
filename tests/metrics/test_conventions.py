"""Presets with other conventions against plain recomputations, and the page that compares them."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torchmetrics
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version
from torch import Tensor

from nextloc_metrics import (
    RankingCollection,
    libcity_metrics,
    next_location_metrics,
    recommendation_metrics,
)
from strategies import one_relevant

DROPS = Version("1.7.4") <= Version(torchmetrics.__version__) <= Version("1.9.0")


def computed(metrics: RankingCollection, *args: Tensor) -> dict[str, float]:
    """The values after one update."""
    metrics.update(*args)
    return {name: value.item() for name, value in metrics.compute().items()}


# LibCity -----------------------------------------------------------------------------------------


def libcity(orders: list[list[list[int]]], target: list[int], k: int) -> dict[str, float]:
    """LibCity's formulas in loops; a query with several orders counts as their mean."""
    hit = reciprocal = discounted = 0.0
    for of_query, location in zip(orders, target, strict=True):
        for order in of_query:
            if location in order[:k]:
                rank = order.index(location) + 1
                hit += 1 / len(of_query)
                reciprocal += 1 / rank / len(of_query)
                discounted += 1 / math.log2(rank + 1) / len(of_query)
    precision, recall = hit / (len(orders) * k), hit / len(orders)
    f1 = 2 * precision * recall / (precision + recall) if hit else 0.0
    mrr, ndcg = reciprocal / len(orders), discounted / len(orders)
    values = [precision, recall, f1, mrr, mrr, ndcg]
    names = ["Precision", "Recall", "F1", "MRR", "MAP", "NDCG"]
    return {f"{name}@{k}": value for name, value in zip(names, values, strict=True)}


def placed(scores: list[float], location: int) -> list[list[int]]:
    """Orders with the location at each rank that its tied candidates allow."""
    above = [i for i, score in enumerate(scores) if score > scores[location]]
    others = [i for i, s in enumerate(scores) if s == scores[location] and i != location]
    return [
        [*above, *others[:before], location, *others[before:]] for before in range(len(others) + 1)
    ]


@given(one_relevant(), st.integers(1, 7))
def test_libcity_metrics_of_tied_scores(batch: tuple[Tensor, Tensor], k: int) -> None:
    """A tied target counts as the mean over the ranks of its tied block."""
    preds, target = batch
    pairs = zip(preds.tolist(), target.tolist(), strict=True)
    expected = libcity([placed(*pair) for pair in pairs], target.tolist(), k)
    assert computed(libcity_metrics(k), preds, target) == pytest.approx(expected, abs=1e-6)


def test_libcity_metrics_beside_the_others() -> None:
    """Recall is the accuracy, and all but F1 are equal in `recommendation_metrics`."""
    preds, target = torch.randint(6, (30, 40)).float(), torch.randint(40, (30,))
    city = computed(libcity_metrics(5), preds, target)
    papers = computed(next_location_metrics(40, k=5, ndcg_k=5), preds, target)
    assert city["Recall@5"] == papers["acc_at_5"]
    assert city["NDCG@5"] == papers["ndcg_at_5"]
    assert city["MRR@5"] < papers["mrr"]
    assert city["F1@5"] == pytest.approx(2 * city["Recall@5"] / 6)
    others = computed(recommendation_metrics(5), preds, target)
    for name in ("Precision", "Recall", "MRR", "MAP", "NDCG"):
        assert city[f"{name}@5"] == others[f"{name.lower()}_at_5"]


def test_libcity_metrics_are_of_one_relevant_location() -> None:
    """Several, and a score for none, are errors, because LibCity's F1 is no mean there."""
    metrics = libcity_metrics(2)
    for preds in (torch.rand(2, 9), torch.tensor([[0, 8], [0, 8]])):
        metrics.update(preds, torch.tensor([[0, -1], [-1, 1]]))
        with pytest.raises(ValueError, match=r"one relevant location .*got up to 2; use"):
            metrics.update(preds, torch.tensor([[0, -1], [0, 1]]))
    assert {member.num_queries for member in metrics.values()} == {4}
    for action in ("neg", "pos"):
        with pytest.raises(ValueError, match="`empty_target_action` must be 'skip' or 'error'"):
            libcity_metrics(2, empty_target_action=action)


# The pages ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not DROPS, reason="the logarithms are of torchmetrics 1.7.4 to 1.9.0")
def test_the_page_has_the_tables_that_its_script_computes(repository: Path) -> None:
    """Every table of coming-from.md holds computed values."""
    for peer in ("ranx", "torch_geometric"):
        if importlib.util.find_spec(peer) is None:
            pytest.skip(f"the comparison needs {peer}")
    ran = subprocess.run(
        [sys.executable, str(repository / "docs/conventions.py"), "--check"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
