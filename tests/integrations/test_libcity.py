"""LibCity's evaluator with exact values: its protocol, defaults, files and errors."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from nextloc_metrics import (
    libcity_metrics,
    protocols,
)
from nextloc_metrics.integrations.libcity import ExactEvaluator
from strategies import floats_of

C = 12  # locations


@pytest.fixture
def city(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The package of LibCity's evaluators, from a clone, with one of them and what it needs."""
    clone_of = os.environ.get("LIBCITY")
    if clone_of is None:
        pytest.skip("needs a clone of LibCity, whose folder the environment variable LIBCITY names")
    packages: dict[str, ModuleType] = {}
    for name in ("libcity", "libcity.evaluator", "libcity.utils"):
        package = packages[name] = ModuleType(name)
        package.__path__ = [str(Path(clone_of, *name.split(".")))]
        monkeypatch.setitem(sys.modules, name, package)
    evaluators = packages["libcity"].evaluator = packages["libcity.evaluator"]  # type: ignore
    module = importlib.import_module("libcity.evaluator.traj_loc_pred_evaluator")
    evaluators.TrajLocPredEvaluator = module.TrajLocPredEvaluator  # type: ignore[attr-defined]
    yield evaluators
    for name in [name for name in sys.modules if name.startswith("libcity.")]:
        monkeypatch.delitem(sys.modules, name)


def config_of(**options: Any) -> dict[str, Any]:
    """A configuration of LibCity's evaluator, all metrics of all locations."""
    names = ["Precision", "Recall", "F1", "MRR", "MAP", "NDCG"]
    return {"metrics": names, "topk": [1, 5, 10], "evaluate_method": "popularity", **options}


def batches(number: int, size: int) -> list[dict[str, Any]]:
    """What LibCity's executor collects, of scores without ties."""
    scores, target = torch.randn(number, 30).log_softmax(-1), torch.randint(30, (number,))
    assert all(len(row.unique()) == 30 for row in scores)
    return [
        {"uid": [0] * len(t), "loc_true": t.tolist(), "loc_pred": s.tolist()}
        for s, t in zip(scores.split(size), target.split(size), strict=True)
    ]


@pytest.mark.parametrize("topk", [5, [1, 5, 10]])
@pytest.mark.parametrize("names", [["MRR"], ["Recall", "F1"], config_of()["metrics"]])
def test_libcity_evaluator_of_scores_without_ties(
    topk: int | list[int], names: list[str], city: ModuleType, tmp_path: Path
) -> None:
    """Same keys in the same order, same values, same file; and again after `clear`."""
    config = config_of(topk=topk, metrics=names)
    theirs, ours = city.TrajLocPredEvaluator(config), ExactEvaluator(config)
    for _ in range(2):
        for batch in batches(50, 16):
            theirs.collect(batch)
            ours.collect(batch)
        expected = theirs.evaluate()
        assert list(ours.evaluate()) == list(expected)
        assert ours.evaluate() == pytest.approx(expected, abs=1e-6)
        written = {}
        for evaluator in (theirs, ours):
            evaluator.save_result(str(tmp_path), "result")
            written[evaluator] = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
        assert written[ours] == ours.evaluate()
        assert written[theirs] == expected
        for evaluator in (theirs, ours):
            evaluator.clear()


@pytest.mark.parametrize("kind", ["tied", "constant", "NaN"])
def test_the_protocol_of_libcity_prints_what_its_code_prints(kind: str, city: ModuleType) -> None:
    """Ties and NaN fall alike on one machine; the code reads batches."""
    scores, target = torch.randn(50, 30).mul(3).round(), torch.randint(30, (50,))
    scores = torch.zeros(50, 30) if kind == "constant" else scores
    scores = scores.masked_fill(torch.rand(50, 30) < 0.1, torch.nan) if kind == "NaN" else scores
    theirs = city.TrajLocPredEvaluator(config_of())
    for s, t in zip(scores.split(16), target.split(16), strict=True):
        theirs.collect({"uid": [0] * len(t), "loc_true": t.tolist(), "loc_pred": s.tolist()})
    found = protocols.libcity(scores, target, (1, 5, 10))
    assert list(found) == list(theirs.evaluate())
    assert found == pytest.approx(theirs.evaluate(), abs=1e-12)


def test_libcity_evaluator_without_libcity(tmp_path: Path) -> None:
    """Values are those of the preset; files are named by the time where nothing else is asked."""
    evaluator = ExactEvaluator(config_of())
    collected = batches(40, 16)
    for batch in collected:
        evaluator.collect(batch)
    scores = [row for batch in collected for row in batch["loc_pred"]]
    target = [one for batch in collected for one in batch["loc_true"]]
    preds = torch.tensor(scores)
    assert evaluator.evaluate() == floats_of(
        libcity_metrics((1, 5, 10)), preds, torch.tensor(target)
    )
    evaluator.save_result(str(tmp_path / "a" / "b"))
    (path,) = (tmp_path / "a" / "b").glob("*.json")
    assert json.loads(path.read_text(encoding="utf-8")) == evaluator.evaluate()


def test_libcity_evaluator_has_the_defaults_of_libcity() -> None:
    """Recall at 1 of scores of all locations, where nothing is given."""
    evaluator = ExactEvaluator({})
    scores = [[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]
    evaluator.collect({"uid": [0, 0], "loc_true": [2, 0], "loc_pred": scores})
    assert evaluator.evaluate() == {"Recall@1": 0.5}


def test_libcity_evaluator_leaves_out_the_padding_of_sampled_targets() -> None:
    """LibCity's executor pads the targets of a short batch to a full one."""
    evaluator = ExactEvaluator(config_of(evaluate_method="sample", topk=2))
    scores = torch.tensor([[0.2, 0.7, 0.1], [0.6, 0.3, 0.1]])  # ranks 2 and 1
    evaluator.collect({"uid": [0, 0], "loc_true": [0] * 16, "loc_pred": scores.tolist()})
    assert evaluator.evaluate() == floats_of(libcity_metrics(2), scores, torch.tensor([0, 0]))
    assert evaluator.evaluate()["MRR@2"] == 0.75
    of_all = ExactEvaluator(config_of(topk=2))
    with pytest.raises(ValueError, match="target"):
        of_all.collect({"uid": [0, 0], "loc_true": [0] * 16, "loc_pred": scores.tolist()})


def test_libcity_evaluator_of_a_wrong_configuration() -> None:
    """Like LibCity's evaluator, it raises for metrics that are not a list or have unknown names."""
    with pytest.raises(TypeError, match=r"^`metrics` must be a list"):
        ExactEvaluator(config_of(metrics="Recall"))
    with pytest.raises(ValueError, match=r"^`metrics` must be among .*'AUC'"):
        ExactEvaluator(config_of(metrics=["Recall", "AUC"]))
