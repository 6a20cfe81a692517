"""The adapters, each beside the tool that it is for, and the recipes of the pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    RankingCollection,
    RecallAtK,
)
from page_code import defined_on
from strategies import floats_of
from table_calls import evaluate_table

C = 12  # locations


# The recipes -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recipes(repository: Path) -> dict[str, Callable[..., tuple[Any, Any]]]:
    """The functions that the page shows."""
    return defined_on(repository / "docs/coming-from.md")


def in_each(convention: dict[str, Any], preds: Any, target: Any) -> dict[str, float]:
    """The values of metrics by another library's names."""
    return floats_of(RankingCollection(convention), preds, target)


def test_recipe_for_geometric(recipes: dict[str, Callable[..., tuple[Any, Any]]]) -> None:
    """Rows of no, one and several relevant ids, in any order of the pairs."""
    pytest.importorskip("torch_geometric", reason="needs torch-geometric, of the extra `peers`")
    geometric = pytest.importorskip("torch_geometric.metrics")
    lists = torch.rand(40, 25).argsort(1)[:, :6]
    pairs = (torch.rand(40, 25) < 0.15).nonzero().T
    pairs = pairs[:, torch.randperm(pairs.shape[1])]
    convention = {
        "Precision": PrecisionAtK(6), "Recall": RecallAtK(6), "NDCG": NDCGAtK(6),
        "MAP": MAPAtK(6), "MRR": MRR(6),
    }  # fmt: skip
    ours = in_each(convention, *recipes["from_geometric"](lists, pairs))
    for name, value in ours.items():
        metric = getattr(geometric, f"LinkPred{name}")(6)
        metric.update(lists, pairs)
        assert value == pytest.approx(metric.compute().item(), abs=1e-6), name


@pytest.mark.filterwarnings("ignore::DeprecationWarning:rectools.*")  # on import
def test_frames_of_rectools() -> None:
    """Text ids, users without recommendations, and recommendations for users without targets."""
    theirs = pytest.importorskip("rectools.metrics", reason="needs RecTools")
    generator = np.random.default_rng(1)
    reco = pd.DataFrame(
        [
            {"user_id": f"u{user}", "item_id": f"i{item}", "rank": rank}
            for user in range(30)
            for rank, item in enumerate(generator.permutation(20)[: user % 9], 1)
        ]
    )
    reco = reco.sample(frac=1, random_state=0)
    visited = [
        (user, item) for user in range(5, 40) for item in generator.permutation(20)[: 1 + user % 6]
    ]
    interactions = pd.DataFrame(
        {"user_id": [f"u{user}" for user, _ in visited], "item_id": [f"i{i}" for _, i in visited]}
    )
    convention = {
        "Precision": PrecisionAtK(5), "Recall": RecallAtK(5), "HitRate": AccuracyAtK(5),
        "MRR": MRR(5), "MAP": MAPAtK(5, normalizer="relevant"), "NDCG": NDCGAtK(5),
    }  # fmt: skip
    names = {"query": "user_id", "item": "item_id", "rank": "rank"}
    e = evaluate_table(reco, truth=interactions, **names, k=5, metrics=convention)
    ours = {name: e.values[name] for name in convention}
    for name, value in ours.items():
        options = {"divide_by_achievable": True} if name == "NDCG" else {}
        expected = getattr(theirs, name)(k=5, **options).calc(reco, interactions)
        assert value == pytest.approx(expected, abs=1e-6), name
