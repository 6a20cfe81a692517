"""Protocols of other codebases against plain loops, facts of the original code, and the audit."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import MRR, AccuracyAtK, NDCGAtK, protocols
from strategies import updated

CUTS = (1, 5, 10)
KINDS = ("random", "ties", "constant", "NaN target", "NaN beside")


def make(kind: str, width: int = 40) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """57 queries of seven users of unequal size; half of the targets score higher."""
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(57, width)).astype(np.float32)
    target = generator.integers(1, width, 57)
    rows = np.arange(57)
    scores[rows[::2], target[::2]] += 1.5
    users = np.sort(generator.choice(7, 57, p=[0.3, 0.25, 0.15, 0.1, 0.1, 0.05, 0.05]))
    if kind == "ties":
        scores = np.round(scores, 1)
    elif kind == "constant":
        scores[:] = 0.25
    elif kind == "NaN target":
        scores[rows, target] = np.nan
    elif kind == "NaN beside":
        scores[rows, (target + 1) % width] = np.nan
    return torch.tensor(scores), torch.tensor(target), users


def means(orders: list[list[int]], target: list[int], k: float) -> dict[str, float]:
    """Means of hits, reciprocal ranks and gains of the first k of each order."""
    ranks = [
        order.index(one) + 1 if one in order else math.inf
        for order, one in zip(orders, target, strict=True)
    ]
    ranks = [rank if rank <= k else math.inf for rank in ranks]
    gains = [1 / math.log2(rank + 1) for rank in ranks]
    of_each = {"hit": [float(rank < math.inf) for rank in ranks], "ndcg": gains}
    of_each["mrr"] = [1 / rank for rank in ranks]
    return {name: sum(of) / len(of) for name, of in of_each.items()}


def libcity(scores: torch.Tensor, target: list[int]) -> dict[str, float]:
    """LibCity by loops over the rows."""
    found = {}
    for k in CUTS:
        of = means([row.topk(k).indices.tolist() for row in scores], target, k)
        p, r = of["hit"] / k, of["hit"]
        found |= {f"Precision@{k}": p, f"Recall@{k}": r, f"F1@{k}": 2 * p * r / (p + r or 1)}
        found |= {f"MRR@{k}": of["mrr"], f"MAP@{k}": of["mrr"], f"NDCG@{k}": of["ndcg"]}
    return found


def mie_lab(scores: torch.Tensor, target: list[int]) -> dict[str, float]:
    """mie-lab by loops over the rows."""
    number, sort = len(target), [row.argsort(descending=True).tolist() for row in scores]
    hits = {
        k: means([row.topk(k).indices.tolist() for row in scores], target, k)["hit"]
        for k in (1, 3, 5, 10)
    }
    best = [int(row.topk(1).indices) for row in scores]
    true, guessed = Counter(target), Counter(best)
    both = Counter(one for one, other in zip(target, best, strict=True) if one == other)
    f1 = sum(true[x] / number * 2 * both[x] / (true[x] + guessed[x]) for x in true)
    mrr = means(sort, target, math.inf)["mrr"]
    found = {f"correct@{k}": hit * number for k, hit in hits.items()}
    found |= {"rr": mrr * number, "ndcg": 100 * means(sort, target, 10)["ndcg"], "f1": f1}
    found |= {"total": float(number), **{f"acc@{k}": 100 * hits[k] for k in (1, 5, 10)}}
    return found | {"mrr": 100 * mrr}


def recbole(scores: torch.Tensor, target: list[int]) -> dict[str, float]:
    """RecBole by loops over the rows."""
    scores = scores.clone()
    scores[:, 0] = -math.inf
    orders, found = [row.topk(10).indices.tolist() for row in scores], {}
    names = {"recall": "hit", "mrr": "mrr", "ndcg": "ndcg", "hit": "hit", "precision": "hit"}
    for name, kind in (names | {"map": "mrr"}).items():
        for k in CUTS:
            value = means(orders, target, k)[kind] / (k if name == "precision" else 1)
            found[f"{name}@{k}"] = round(value, 4)
    return found


def middle_rank(scores: torch.Tensor, target: list[int]) -> dict[str, float]:
    """OGB by loops over the candidates: the middle of the first and the last rank."""
    ranks = []
    for row, one in zip(scores.tolist(), target, strict=True):
        others = row[:one] + row[one + 1 :]
        ranks.append(
            1 + (sum(x > row[one] for x in others) + sum(x >= row[one] for x in others)) / 2
        )
    found = {f"hits@{k}": sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 3, 10)}
    return found | {"mrr": sum(1 / rank for rank in ranks) / len(ranks)}


ORACLES: dict[str, tuple[Callable[..., dict[str, float]], Callable[..., dict[str, float]]]] = {
    "libcity": (lambda s, t: protocols.libcity(s, t, CUTS), libcity),
    "mie_lab": (protocols.mie_lab, mie_lab),
    "recbole": (lambda s, t: protocols.recbole(s, t, CUTS), recbole),
    "middle_rank": (protocols.middle_rank, middle_rank),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ORACLES)
def test_values_are_those_of_loops_over_the_rows(name: str, kind: str) -> None:
    """The order of ties and NaN is that of the code's operation on each row."""
    scores, target, _ = make(kind)
    ours, loops = ORACLES[name]
    found, expected = ours(scores, target), loops(scores, target.tolist())
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, abs=1e-12)
    assert ours(scores.numpy(), target.tolist()) == found


#: what the original code printed at the commits of the docstrings: random, NaN target, NaN beside
FACTS: dict[tuple[str, str], tuple[float, float, float]] = {
    ("libcity", "Recall@5"): (0.298245614, 1, 0.2631578947),
    ("libcity", "F1@5"): (0.09941520468, 0.3333333333, 0.08771929825),
    ("libcity", "MRR@10"): (0.2088902813, 1, 0.1213380674),
    ("libcity", "NDCG@10"): (0.2580852974, 1, 0.1881463815),
    ("mie_lab", "acc@5"): (29.82456017, 100, 26.31579018),
    ("mie_lab", "mrr"): (24.02508736, 100, 15.31849194),
    ("mie_lab", "ndcg"): (25.80853081, 100, 18.81464005),
    ("mie_lab", "f1"): (0.1436647173, 1, 0),
    ("recbole", "recall@5"): (0.2982, 1, 0.2632),
    ("recbole", "mrr@10"): (0.2109, 1, 0.1245),
    ("recbole", "precision@5"): (0.0596, 0.2, 0.0526),
    ("recbole", "ndcg@10"): (0.2634, 1, 0.1907),
}


@pytest.mark.parametrize(("name", "key"), FACTS)
def test_facts_of_the_original_code(name: str, key: str) -> None:
    """Values that the originals printed once; mie-lab's sums are float32."""
    for kind, value in zip(("random", "NaN target", "NaN beside"), FACTS[name, key], strict=True):
        found = ORACLES[name][0](*make(kind)[:2])[key]
        assert found == pytest.approx(value, abs=1e-4 if name == "mie_lab" else 1e-9), kind


@pytest.mark.parametrize("kind", ["random", "ties"])
def test_sasrec_draws_as_numpy_does_until_a_location_is_not_seen(kind: str) -> None:
    """The last row of each user in rising order, among 100 ids that are drawn one by one."""
    scores, target, users = make(kind)
    seen = np.stack([target, (target + 1) % 40, np.full(57, -1)], 1)
    np.random.seed(5)
    gains = []
    for user in sorted(set(users)):
        row = max(np.flatnonzero(users == user))
        drawn = [int(target[row])]
        while len(drawn) < 101:
            one = np.random.randint(1, 40)
            drawn += [one] * (one not in seen[row])
        rank = int((-scores[row, drawn]).argsort().argsort()[0])
        gains.append(1 / math.log2(rank + 2) if rank < 10 else 0)
    found = protocols.sasrec(scores, target, users, seen, seed=5)
    expected = {"NDCG@10": np.mean(gains), "HR@10": np.mean(np.array(gains) > 0)}
    assert found == pytest.approx(expected, abs=1e-12)
    named = protocols.sasrec(scores, target, [f"user {x}" for x in users], seen, seed=5)
    assert named == found
    last = [max(np.flatnonzero(users == user)) for user in sorted(set(users))]
    assert protocols.sasrec(scores[last], target[last], None, seen[last], seed=5) == found
    assert protocols.sasrec(scores, target, seed=1) != protocols.sasrec(scores, target, seed=2)


def test_recbole_rounds_as_its_code_does() -> None:
    """A mean of 0.01125, nine times 0.1 among 80 queries, is 0.0112, as NumPy adds and rounds."""
    scores = torch.eye(20)[[3] * 80] + torch.linspace(0, 0.1, 20)
    target = torch.tensor([3] * 9 + [1] * 71)
    assert protocols.recbole(scores, target)["precision@10"] == 0.0112


def test_libcity_ties_what_float32_does_not_tell_apart() -> None:
    """Its evaluator makes a `FloatTensor` of the scores."""
    scores, target, _ = make("ties")
    scores += 10  # small numbers would be told apart
    apart = scores.double() - torch.linspace(0, 1e-9, 40, dtype=torch.float64)
    assert all(len(row.unique()) == 40 for row in apart)
    assert protocols.libcity(apart, target, CUTS) == protocols.libcity(scores, target, CUTS)


SCORES, TARGET = torch.rand(6, 12, generator=torch.Generator().manual_seed(0)), torch.arange(6)


# The audit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_audit_has_the_values_beside_exact_value_and_bounds(kind: str) -> None:
    """Values are those of the functions, the others those of the metrics with each rule of ties."""
    scores, target, users = make(kind)
    table = protocols.audit(scores, target, users, k=(1, 10), seed=3).table
    values = {name: ours(scores, target) for name, (ours, _) in ORACLES.items()}
    values["sasrec"] = protocols.sasrec(scores, target, users, seed=3)
    values["mie_lab"] = {key: x / 100 for key, x in values["mie_lab"].items()}
    found: dict[str, set[str]] = {}
    for record in table.records:
        name, key = record["protocol"], record["metric"]
        found.setdefault(name, set()).add(key)
        assert record["value"] == values[name].get(key, record["value"])
        kinds: dict[str, Any] = {"mrr": MRR, "ndcg": NDCGAtK}
        metric = kinds.get(key.lower().partition("@")[0], AccuracyAtK)
        k = [] if key == "mrr" else [1 if key.endswith("@1") else 10]
        for column, ties in (
            ("exact", "expected"),
            ("lowest", "pessimistic"),
            ("highest", "optimistic"),
        ):
            expected = float(updated(metric(*k, ties=ties), scores, target).compute())
            assert record[column] == pytest.approx(expected, abs=1e-6), (name, key, column)
        assert bool(record["why"]) == (abs(record["value"] - record["exact"]) > 1e-9)
    assert found == {
        "libcity": {"Recall@1", "Recall@10", "MRR@10", "NDCG@10"},
        "mie_lab": {"acc@1", "acc@10", "mrr", "ndcg"},
        "recbole": {"recall@1", "recall@10", "mrr@10", "ndcg@10"},
        "sasrec": {"HR@10", "NDCG@10"},
        "middle_rank": {"hits@1", "hits@10", "mrr"},
    }


def test_the_command_prints_an_audit(tmp_path: Path) -> None:
    """Of one file and of two, with the users of a column and a seed; a list of ids is an error."""
    runner = pytest.importorskip("click.testing").CliRunner()
    from command import main

    scores, target, users = make("ties")
    paths = [str(tmp_path / f"{name}.npz") for name in "ab"]
    for path in paths:
        np.savez(path, preds=scores, target=target, user=users)
    for seed in (0, 7):
        options = ["--users", "user", "--format", "json", *(["--seed", "7"] if seed else [])]
        shown = json.loads(runner.invoke(main, ["audit", paths[0], *options]).stdout)
        assert shown == protocols.audit(scores, target, users, seed=seed).table.records
    assert "b.npz" in runner.invoke(main, ["audit", *paths, "--k", "1"]).stdout
    np.savez(paths[0], preds=target[:, None], target=target)
    shown = runner.invoke(main, ["audit", paths[0]])
    assert (shown.exit_code, "a list of ids has no ties" in shown.output) == (1, True)
