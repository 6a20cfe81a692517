"""A stranger's metrics have the rights of the library's: the same bits, in every place."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

import distributed_workers as work
import metrics_from_outside
from distributed_workers import assert_same
from metrics_from_outside import OwnDecile, OwnDeciles, own_metrics
from nextloc_metrics import (
    MRR,
    DecilePrecision,
    LocationF1,
    Ranking,
    RankingCollection,
    RecallAtK,
    report,
)

BATCHES = [(0, 40), (40, 41), (41, 41), (41, 101)]
SEVERAL = pytest.mark.parametrize("several", [False, True], ids=["one", "several"])


def twins() -> dict[str, tuple[Any, Any]]:
    """Return pairs of a metric of the stranger and the library's."""
    bins = work.bins()
    library = {
        "deciles": DecilePrecision(bins, 2),
        "short lists": DecilePrecision(bins, 2, candidates=3),
        "decile": DecilePrecision(bins, 1, decile=2),
        "recall": RecallAtK(2),
    }
    return {name: (own, library[name]) for name, own in own_metrics(bins).items()}


def batches(several: bool) -> list[dict[str, Any]]:
    """Return ties, NaN, -inf, masked rows, and a batch without a query."""
    return [work.rows(*part, several=several) for part in BATCHES]


def test_the_stranger_imports_public_names_alone() -> None:
    """What the metrics are made of is exported for that."""
    tree = ast.parse(Path(metrics_from_outside.__file__).read_text(encoding="utf-8"))
    modules = {x.module for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)}
    assert modules == {"__future__", "typing", "torch", "nextloc_metrics", "nextloc_metrics.base"}
    private = [x.attr for x in ast.walk(tree) if isinstance(x, ast.Attribute) and x.attr[0] == "_"]
    assert {*private} <= {"__init__", "__post_init__", "_sums"}  # the last is the stranger's own


@SEVERAL
@pytest.mark.parametrize("name", twins())
def test_alone_after_a_checkpoint_and_copied(name: str, several: bool, tmp_path: Path) -> None:
    """Values and standard errors are equal, also after a file, a pickle and a copy between."""
    own, library = twins()[name]
    resumed = twins()[name][0]
    for metric in (own, resumed):
        metric.persistent(True)
    for number, batch in enumerate(batches(several)):
        for metric in (own, library):
            work.add(metric, batch)
        if number == 0:
            torch.save(own.state_dict(), tmp_path / "half.pt")
            resumed.load_state_dict(torch.load(tmp_path / "half.pt", weights_only=True))
        else:
            resumed = pickle.loads(pickle.dumps(copy.deepcopy(resumed)))
            work.add(resumed, batch)
    expected = library.compute()
    values = [*expected.values()] if isinstance(expected, dict) else [expected]
    assert min(values) > 0.1
    for metric in (own, resumed):
        assert_same(metric.compute(), expected)
        if isinstance(expected, dict):
            assert_same(metric.num_queries, library.num_queries)
        torch.testing.assert_close(metric.standard_error(), library.standard_error())
        torch.testing.assert_close(metric.interval(), library.interval())


@SEVERAL
@pytest.mark.parametrize("form", ["scores", "lists", "ranking"])
def test_beside_metrics_of_the_library(form: str, several: bool) -> None:
    """One collection reads a batch once for both, whatever is passed."""
    collection = RankingCollection({"mrr": MRR()})
    for name, (own, library) in twins().items():
        collection.add_metrics({f"own {name}": own, f"library {name}": library})
    if not several:
        collection.add_metrics({"f1": LocationF1(6)})
    for batch in batches(several):
        del batch["groups"]
        if form == "lists":
            batch["preds"] = batch["preds"].nan_to_num(-1).argsort(descending=True)[:, :4]
        if form == "ranking":
            collection.update(Ranking.from_scores(**batch, top=501))
        else:
            collection.update(**batch)
    values = collection.compute_with_intervals()
    own, library = (
        {key.replace(name, ""): x for key, x in values.items() if name in key}
        for name in ("own", "library")
    )
    assert len(own) == 2 * 4 + 2 * 3  # values of bins, and two values with bounds
    assert_same(own, library)


@pytest.mark.slow  # starts processes
@SEVERAL
def test_in_two_processes(several: bool) -> None:
    """Each process has the values of all rows, those of the library's metrics in one process."""
    expected = {}
    for name, (_, library) in twins().items():
        for batch in batches(several):
            work.add(library, batch)
        expected[name] = library.compute()
    for shares in ([[(0, 40), (40, 41)], [(41, 101)]], [[], [(0, 101)]]):
        for found in work.run(work.evaluate_from_outside, 2, shares, several):
            assert_same(found, expected)


def test_in_an_evaluation_and_a_comparison() -> None:
    """The row of a decile has the value, the interval, the groups and the test of the library's."""
    one = work.rows(0, 101)
    scores, target, mask, groups = (one[x] for x in ("preds", "target", "mask", "groups"))
    bins = work.bins()
    metrics = {"own": OwnDecile(bins, 1, 2), "library": DecilePrecision(bins, 1, decile=2)}
    given: Any = {"mask": mask, "metrics": metrics, "users": groups.numpy()}
    found = report.evaluate(scores, target, **given)
    assert 0.1 < found.values["own"] == found.values["library"] < 0.9
    assert found.intervals["own"] == found.intervals["library"]
    records = {"own": [], "library": []}
    for record in found.group_records("user"):
        if (name := record.pop("metric")) in records:
            records[name].append(record)
    assert len(records["own"]) == work.GROUPS
    assert_same(*(torch.tensor([x["value"] for x in rows]) for rows in records.values()))
    models = {"a": scores, "b": scores.roll(1, 1)}
    compared = report.compare(models, target, **given)
    assert {**vars(compared.comparisons["b"]["own"])} == {
        **vars(compared.comparisons["b"]["library"])
    }


def test_what_the_stranger_refuses_changes_no_member() -> None:
    """All members check a batch before one is updated."""
    own, library = OwnDeciles(work.bins(), 1), MRR()
    collection = RankingCollection({"own": own, "mrr": library})
    with pytest.raises(ValueError, match="`bins` must hold every location, got id 6"):
        collection.update(torch.zeros(1, 7), torch.tensor([6]))
    assert library.num_queries == own.num_queries.sum() == 0
