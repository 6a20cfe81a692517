"""Protocols print what the original code prints, and bounds and means hold around it."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

import protocol_originals as originals
from nextloc_metrics import MRR, protocols
from nextloc_metrics.report.protocols import Finding, Protocol, answered, operations
from nextloc_metrics.report.protocols.rows import draw_uniform

LLM_MOB = Path(__file__).parents[4] / "shared" / "data" / "llm_mob" / "foursquare_top10.npz"

KINDS = ("random", "ties", "constant", "all NaN", "NaN target", "NaN beside")
CUTS = (1, 5, 10)


def make(kind: str, width: int = 40) -> tuple[Any, Any, Any]:
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
    elif kind == "all NaN":
        scores[:] = np.nan
    elif kind == "NaN target":
        scores[rows, target] = np.nan
    elif kind == "NaN beside":
        scores[rows, (target + 1) % width] = np.nan
    return scores, target, users


def lists_of(scores: Any) -> Any:
    """The ten best of each row."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :10]


def beside(target: Any, width: int = 40) -> Any:
    """All locations but the target, as the negatives of a sampled evaluation."""
    return np.stack([np.delete(np.arange(width), one) for one in target])


def repeated(target: Any) -> Any:
    """Negatives of which some are drawn twice."""
    return np.tile((target[:, None] + 2 * np.arange(1, 16)) % 40, 2)


def in_front(scores: Any, target: Any) -> Any:
    """The scores of the target and its negatives."""
    ids = np.concatenate([target[:, None], beside(target)], 1)
    return np.take_along_axis(scores, ids, 1)


SEEN = np.ones((57, 1), np.int64)


def masked(target: Any) -> Any:
    """Seen locations, of which the target is one."""
    return np.stack([target, (target + 3) % 40, (target + 5) % 40], 1)


Original = Callable[[Any, Any, Any], dict[str, Any]]
#: name: the protocol, and the original
CASES: dict[str, tuple[Protocol, Original]] = {
    "libcity": (protocols.libcity(CUTS), lambda s, t, u: originals.libcity(s, t, CUTS, 20)),
    "libcity_sampled": (
        protocols.libcity(CUTS, sampled=True, batch_size=20),
        lambda s, t, u: originals.libcity(in_front(s, t), 0 * t, CUTS, 20, sampled=True),
    ),
    "mie_lab": (protocols.mie_lab(), lambda s, t, u: originals.mie_lab(s, t)),
    "getnext": (protocols.getnext(20), lambda s, t, u: originals.getnext(s, t, 20)),
    "rotan": (protocols.rotan(16), lambda s, t, u: originals.getnext(s, t, 16, rotan=True)),
    "dchl": (protocols.dchl(20), lambda s, t, u: originals.dchl(s, t, 20)),
    "flashback": (protocols.flashback(), originals.flashback),
    "graph_flashback": (
        protocols.graph_flashback(),
        lambda s, t, u: originals.flashback(s, t, u, "kevin-xuan+Graph-Flashback"),
    ),
    "lotnext": (
        protocols.flashback(), lambda s, t, u: originals.flashback(s, t, u, "Yukayo+LoTNext"),
    ),
    "deepmove": (protocols.deepmove(), originals.deepmove),
    "sasrec": (
        protocols.sasrec(seed=3),
        lambda s, t, u: originals.sasrec(s, t, 3, SEEN.tolist(), pytorch=True),
    ),
    "sasrec_numpy": (
        protocols.sasrec(seed=3, torch=False),
        lambda s, t, u: originals.sasrec(s, t, 3, SEEN.tolist(), pytorch=False),
    ),
    "recbole": (protocols.recbole(CUTS), lambda s, t, u: originals.recbole(s, t, CUTS)),
    "recbole_general": (
        protocols.recbole(CUTS, masks_seen=True),
        lambda s, t, u: originals.recbole(s, t, CUTS, masked(t)),
    ),
    "geosan": (protocols.geosan(), lambda s, t, u: originals.geosan(in_front(s, t))),
    "recbole_uni100": (
        protocols.recbole(CUTS, sampled=True),
        lambda s, t, u: originals.recbole(s, t, CUTS, negatives=repeated(t)),
    ),
    "middle_rank": (protocols.middle_rank(), lambda s, t, u: originals.ogb(s, t)),
    "stan": (protocols.stan(30), lambda s, t, u: originals.stan(s, t, 30)),
    "lstpm": (protocols.lstpm(), originals.lstpm),
    "cslsl": (protocols.cslsl(16, seed=3), lambda s, t, u: originals.cslsl(s, t, u, 16, 3)),
    "sthgcn": (protocols.sthgcn(), lambda s, t, u: originals.sthgcn(s, t)),
    "hstu": (protocols.hstu(), lambda s, t, u: originals.hstu(s, t, np.full((57, 3), -1))),
}  # fmt: skip
#: what else a protocol is given
GIVEN: dict[str, Original] = {
    "libcity_sampled": lambda s, t, u: {"negatives": beside(t)},
    "geosan": lambda s, t, u: {"negatives": beside(t)},
    "recbole_uni100": lambda s, t, u: {"negatives": repeated(t)},
    "recbole_general": lambda s, t, u: {"seen": masked(t)},
    "sasrec": lambda s, t, u: {"seen": SEEN},
    "sasrec_numpy": lambda s, t, u: {"seen": SEEN},
    "deepmove": lambda s, t, u: {"users": u},
    "cslsl": lambda s, t, u: {"users": u},
    "lstpm": lambda s, t, u: {"sequences": u},
}


def data_of(name: str, kind: str) -> tuple[tuple[Any, Any, Any], dict[str, Any]]:
    """Scores, targets and users for a protocol, and what else it is given."""
    scores, target, users = make(kind, 1001 if name.startswith("sasrec") else 40)
    target = np.maximum(target, 2) if name.startswith("sasrec") else target
    return (scores, target, users), GIVEN.get(name, lambda *_: {})(scores, target, users)


# Sums in float32 differ in their last digits.
TOLERANCE = {"middle_rank": 1e-7, "mie_lab": 1e-4, "sthgcn": 1e-6, "hstu": 1e-6}

by_case = pytest.mark.parametrize("name", CASES)
by_kind = pytest.mark.parametrize("kind", KINDS)


@by_case
@by_kind
def test_a_protocol_prints_what_the_original_code_prints(name: str, kind: str) -> None:
    """The operation is the same, so that ties and NaN fall alike on one machine."""
    protocol, original = CASES[name]
    (scores, target, users), given = data_of(name, kind)
    expected = original(scores.copy(), target.copy(), users.copy())
    got = protocol.evaluate(scores, target, **given)
    if name != "deepmove":  # it counts two more and does not use them
        assert set(got) == set(expected)
    bounds = protocol.bounds(scores, target, **given)
    tolerance = TOLERANCE.get(name, 1e-12)
    for key, value in expected.items():
        assert got[key] == pytest.approx(value, abs=tolerance), key
        assert bounds[key][0] - tolerance <= value <= bounds[key][1] + tolerance, key


@pytest.mark.parametrize("name", ["deepmove", "lstpm", "cslsl"])
def test_a_target_0_is_what_the_original_code_makes_of_it(name: str) -> None:
    """Never a hit, or the end of its session; the divisor keeps it."""
    protocol, original = CASES[name]
    scores, target, users = make("random")
    target[[3, 20, 41]] = 0
    scores[:, 0] = 9
    got = protocol.evaluate(scores, target, **GIVEN[name](scores, target, users))
    for key, value in original(scores, target, users).items():
        assert got[key] == pytest.approx(value, abs=1e-12), key


def test_the_middle_rank_by_hand() -> None:
    """Half of the tied ones are above, whatever their order; lists have no ties."""
    scores, target, _ = make("ties")
    k, lists = (1, 2, 5), lists_of(scores)
    protocol = protocols.middle_rank(k)
    ranks = []
    for row, own in zip(scores.tolist(), target.tolist(), strict=True):
        better, tied = (sum(x > row[own] for x in row), sum(x == row[own] for x in row))
        ranks.append(better + (tied + 1) / 2)
    assert any(rank % 1 for rank in ranks)
    expected = {f"hits@{cut}": sum(x <= cut for x in ranks) / len(ranks) for cut in k}
    expected["mrr"] = sum(1 / x for x in ranks) / len(ranks)
    assert protocol.evaluate(scores, target) == pytest.approx(expected, abs=1e-12)
    assert protocol.expected(scores, target) == protocol.evaluate(scores, target)
    for key, (low, high) in protocol.bounds(scores, target).items():
        assert low == high == protocol.expected(scores, target)[key]
    found = protocols.audit(scores, target, k=1, protocols=[protocol])
    assert any("middle of the tied ranks" in one.why for one in found.findings)
    right = (lists[:, :2] == target[:, None]).any(1).mean()
    assert protocol.evaluate(lists, target)["hits@2"] == pytest.approx(right)


def test_seen_locations_as_the_original_code_leaves_them_out() -> None:
    """Of HSTU, a seen target is not found, and 2,501 is its rank."""
    scores, target, _ = make("random", 2700)
    seen = np.stack([target, (target + 7) % 2700, (target + 9) % 2700], 1)
    seen[5:, 0] = (target[5:] + 3) % 2700
    got = protocols.hstu(masks_seen=True).evaluate(scores, target, seen=seen)
    for key, value in originals.hstu(scores, target, seen).items():
        assert got[key] == pytest.approx(value, abs=1e-6), key


def test_codes_that_read_lists() -> None:
    """LLM-Mob, AgentMove with unreadable answers, and Massive-STEPS read lists."""
    scores, target, _ = make("random")
    lists = lists_of(scores)
    answered = np.arange(57) >= 7
    pairs = [
        (protocols.llm_mob().evaluate(lists, target), originals.llm_mob(lists, target)),
        (
            protocols.agentmove().evaluate(lists, target, answered=answered),
            originals.agentmove(lists, target, answered),
        ),
        (protocols.massive_steps().evaluate(lists, target), originals.massive_steps(lists, target)),
    ]
    for got, expected in pairs:
        assert got == pytest.approx(expected, abs=1e-12)


def searched() -> tuple[Any, Any, Any, Any, Any]:
    """Scores, probabilities of two cells, targets, users, and each user's training locations."""
    scores, target, users = make("random")
    generator = np.random.default_rng(1)
    seen = generator.permuted(np.tile(np.arange(40), (7, 1)), axis=1)[:, :9]
    return np.exp(scores), generator.random((57, 2)), target, users, seen


def lists_after_search(novel: bool) -> Any:
    """The lists of HMT-GRN: location i is in cell i % 2, and beams have one cell."""
    scores, cells, _, users, seen = searched()
    lists = []
    for row, user in enumerate(users):
        order = sorted(range(40), key=lambda one, row=row: -scores[row, one])  # type: ignore[misc]
        if novel or order[0] not in seen[user]:
            found = [one for one in order if one % 2 == cells[row].argmax()]
            order = found + [one for one in range(40) if one not in found]
        lists.append(order)
    return np.array(lists)


@pytest.mark.parametrize("novel", [False, True])
def test_lists_after_a_search_are_those_of_hmt_grn(novel: bool) -> None:
    """Visited locations are taken out, and only new targets count, if asked."""
    scores, cells, target, users, seen = searched()
    found = protocols.hmt_grn(novel).evaluate(lists_after_search(novel), target, seen=seen[users])
    expected = originals.hmt_grn(scores, cells, target, users, seen, novel)
    assert found == pytest.approx(expected, abs=1e-12)


def test_new_targets_of_hmt_grn() -> None:
    """The rank counts what is not seen only; a target 4 that was seen does not count."""
    lists, seen = torch.tensor([[4, 9, 2], [2, 9, 4]]), torch.tensor([[4, -1], [4, 9]])
    found = protocols.hmt_grn(novel=True).evaluate(lists, torch.tensor([2, 4]), seen=seen)
    assert (found["Acc@1"], found["MAP"]) == (0, 0.5)


def test_a_prompt_that_is_too_long_is_a_miss_for_llm4poi() -> None:
    """The code reads the first answer only, and divides by all lines."""
    scores, target, _ = make("random")
    lists, answered = lists_of(scores), np.arange(57) % 3 > 0
    unanswered = np.where(answered[:, None], lists, -1)
    right = (unanswered[:, 0] == target).mean()
    assert 0.05 < right < 0.5
    assert protocols.llm4poi().evaluate(unanswered, target)["ACC@1"] == pytest.approx(right)
    assert originals.llm4poi(lists, target, answered)["ACC@1"] == pytest.approx(right)


# Answers of language models ----------------------------------------------------------------------


class Answers:
    """Lists of ten ids with repeats, texts of their first ids, codes that locations share."""

    def __init__(self) -> None:
        scores, self.target, _ = make("random")
        self.lists = lists_of(scores)
        rows = np.arange(57)
        self.lists[rows[::3], 7] = self.target[::3]  # some lists have the target twice
        self.lists[rows[1::6], 2] = self.target[1::6]
        self.answered = rows % 5 > 0
        self.seen = np.stack([(self.target + rows % 3) % 40, self.lists[:, 4]], 1)
        self.cut = np.where(np.arange(10) < (rows % 12)[:, None], self.lists, -1)
        self.ragged = [[one for one in row if one >= 0] for row in self.cut.tolist()]
        firsts = self.lists[:, 0].tolist()
        self.texts = [f"{'the 3rd: ' * (i % 4 == 1)}{one}. " for i, one in enumerate(firsts)]
        self.texts[8] = "I cannot say."
        digits = ["".join(x for x in text if x.isdigit()) for text in self.texts]
        self.glued = np.array([[int(one) if one else -1] for one in digits])
        self.codes = np.arange(40) % 13
        self.tokens = [f"<a_{one // 5}><b_{one % 5}>" for one in self.codes]
        self.written = [f"<think>1</think>\n<answer>: {self.tokens[i]}</answer>" for i in firsts]
        self.written[::7] = [text + self.tokens[0] for text in self.written[::7]]
        self.coded = self.lists[:, :1].copy()
        self.coded[::7] = -1


def answers_of(name: str, given: Answers) -> tuple[dict[str, float], Callable[[], Any]]:
    """The values of a protocol, and the call of its original."""
    of, target = given, given.target
    every: dict[str, tuple[Any, dict[str, Any], Callable[[], Any]]] = {
        "genup": (of.glued, {}, lambda: originals.genup(of.texts, target)),
        "ga_llm": (
            of.glued, {"answered": of.answered},
            lambda: originals.ga_llm(of.texts, target, of.answered),
        ),
        "think2go": (
            of.coded, {"codes": of.codes},
            lambda: originals.think2go(of.written, [of.tokens[one] for one in target]),
        ),
        "tool4poi": (of.cut, {}, lambda: originals.tool4poi(of.ragged, target, of.seen)["all"]),
        "tool4poi_in": (
            of.cut, {"seen": of.seen},
            lambda: originals.tool4poi(of.ragged, target, of.seen)["in"],
        ),
        "tool4poi_out": (
            of.cut, {"seen": of.seen},
            lambda: originals.tool4poi(of.ragged, target, of.seen)["out"],
        ),
        "clsprec": (of.lists, {}, lambda: originals.clsprec(of.lists, target)),
        "rallm_poi": (
            of.lists, {"answered": of.answered},
            lambda: originals.rallm_poi(of.lists, target, of.answered),
        ),
        "llmmove": (of.cut, {}, lambda: originals.llmmove(of.ragged, target)),
    }  # fmt: skip
    preds, options, original = every[name]
    protocol = answered_protocol(name)
    found = protocol.evaluate(preds, target, **options)
    assert protocol.expected(preds, target, **options) == found
    assert protocol.bounds(preds, target, **options) == {key: (x, x) for key, x in found.items()}
    return found, original


by_answered = pytest.mark.parametrize("name", [one.name for one in answered.of_answers()])


@by_answered
def test_a_protocol_of_answers_prints_what_the_original_code_prints(name: str) -> None:
    """To the last digit: repeats, failures, prompts that are too long, codes that are shared."""
    found, original = answers_of(name, Answers())
    expected = original()
    assert found == {key: pytest.approx(expected[key], abs=1e-15) for key in found}


#: what the originals printed of these answers
FACTS_OF_ANSWERS: dict[str, dict[str, float]] = {
    "genup": {"accuracy": 0.105263157895},
    "ga_llm": {"ACC@1": 0.111111111111},
    "think2go": {"ACC@1": 0.122807017544},
    "tool4poi": {"total_queries": 57, "Acc5": 0.280701754386, "Mrr": 0.195175438596},
    "tool4poi_in": {"total_queries": 21, "Acc10": 0.285714285714, "Mrr": 0.121031746032},
    "tool4poi_out": {"total_queries": 36, "Acc5": 0.388888888889, "Mrr": 0.238425925926},
    "clsprec": {"Recall@10": 0.912280678749, "NDCG@10": 0.445425093174, "MAP@5": 0.251169621944},
    "rallm_poi": {"Recall@10": 0.911111116409, "NDCG@5": 0.298683136702, "MAP@10": 0.299567908049},
    "llmmove": {"acc@1": 0.122807017544, "acc@10": 0.368421052632, "mrr@10": 0.195175438596},
}


@by_answered
def test_facts_of_the_original_code_on_answers(name: str) -> None:
    """Values that the originals printed once, at the commits of `protocol_originals.COMMITS`."""
    found, _ = answers_of(name, Answers())
    for key, value in FACTS_OF_ANSWERS[name].items():
        assert found[key] == pytest.approx(value, abs=1e-9), key


def test_an_audit_of_answers_says_why() -> None:
    """Each difference has its cause, also where lists have more than the 101 candidates."""
    of = Answers()
    given = {"answered": of.answered, "codes": of.codes, "seen": of.seen}
    negatives = (of.target[:, None] + 2 * np.arange(1, 16)) % 40
    found = protocols.audit(of.lists, of.target, k=(1, 10), negatives=negatives, **given)
    whys = {(one.protocol, one.metric.key): one.why for one in found.findings}
    assert whys["genup", "accuracy"] == whys["tool4poi", "Acc10"] == ""
    assert whys["ga_llm", "ACC@1"] == "answered queries"
    assert whys["think2go", "ACC@1"] == "locations of one code are equal"
    assert whys["tool4poi_in", "Acc10"] == "targets known to the user"
    assert whys["tool4poi_out", "Acc10"] == "targets new to the user"
    assert whys["clsprec", "Recall@1"] == ""
    assert whys["clsprec", "Recall@10"] == "repeats of the target count again"
    assert whys["rallm_poi", "MAP@10"] == "answered queries, repeats of the target count again"
    assert whys["llmmove", "acc@1"] == "101 candidates"
    kept = [[x for x in row if x in {*others, t}] for row, others, t in
            zip(of.lists, negatives.tolist(), of.target, strict=True)]  # fmt: skip
    expected = np.mean([row[:1] == [t] for row, t in zip(kept, of.target, strict=True)])
    (value,) = (
        x.value for x in found.findings if x.metric.key == "acc@1" and x.protocol == "llmmove"
    )
    assert value == pytest.approx(expected)


def test_codes_of_ids_that_are_no_locations_equal_nothing() -> None:
    """Of three locations, 4 is none, and 0 and 2 have one code."""
    found = protocols.think2go().evaluate([[4], [0]], [4, 2], codes=[7, 8, 7])
    assert found["ACC@1"] == 0.5


def test_scores_under_clsprec_have_no_repeats() -> None:
    """They are ordered by `torch.sort`; the code sums in float32."""
    scores, target, _ = make("ties")
    order = torch.sort(torch.tensor(scores), descending=True).indices.numpy()
    found = protocols.clsprec().evaluate(scores, target)
    assert found == pytest.approx(protocols.clsprec().evaluate(order, target), abs=1e-6)
    bounds = protocols.clsprec().bounds(scores, target)
    assert all(low <= found[key] <= high for key, (low, high) in bounds.items())


@pytest.mark.extra
def test_stored_answers_of_genup(data: Path) -> None:
    """Each of 39 models has the accuracy that its authors stored."""
    import json

    import pandas as pd

    stored = json.loads((data / "genup" / "accuracies.json").read_text(encoding="utf-8"))
    seen = 0
    for file, accuracies in stored.items():
        answers = pd.read_parquet(data / "genup" / f"{file}.parquet")
        ids = {name: [int(x) if x else -1 for x in column] for name, column in answers.items()}
        for model, accuracy in accuracies.items():
            preds = np.array(ids[model])[:, None]
            found = protocols.genup().evaluate(preds, ids["target"])
            assert found["accuracy"] == pytest.approx(accuracy, abs=1e-12), model
            seen += 1
    assert seen == 39


def answered_protocol(name: str) -> Protocol:
    """The protocol of a name."""
    return next(one for one in answered.of_answers() if one.name == name)


# What the originals printed, without clones ------------------------------------------------------

#: the values of data that no order of ties changes: random, NaN target, NaN beside
FACTS: dict[tuple[str, str], tuple[float, ...]] = {
    ("libcity", "Recall@5"): (0.298245614, 1, 0.2631578947),
    ("libcity", "F1@5"): (0.09941520468, 0.3333333333, 0.08771929825),
    ("libcity", "MRR@10"): (0.2088902813, 1, 0.1213380674),
    ("libcity", "NDCG@10"): (0.2580852974, 1, 0.1881463815),
    ("geosan", "HR@5"): (0.298245614, 1),
    ("geosan", "NDCG@10"): (0.2580852974, 1),
    ("recbole_uni100", "recall@5"): (0.5263, 1),
    ("recbole_uni100", "ndcg@10"): (0.4765, 1),
    ("libcity_sampled", "Recall@5"): (0.2833333333, 0.95, 0.25),
    ("libcity_sampled", "MRR@10"): (0.1984457672, 0.95, 0.115271164),
    ("mie_lab", "acc@5"): (29.82456017, 100, 26.31579018),
    ("mie_lab", "mrr"): (24.02508736, 100, 15.31849194),
    ("mie_lab", "ndcg"): (25.80853081, 100, 18.81464005),
    ("mie_lab", "f1"): (0.1436647173, 1, 0),
    ("mie_lab", "rr"): (13.6942997, 57, 8.73154068),
    ("getnext", "acc@1"): (0.1421568627, 1, 0),
    ("getnext", "acc@20"): (0.7549019608, 1, 0.7215686275),
    ("getnext", "mAP@20"): (0.2319117829, 1, 0.1429760174),
    ("getnext", "mrr"): (0.2403732363, 1, 0.1529493077),
    ("dchl", "Recall@5"): (0.2951, 1, 0.2588),
    ("dchl", "NDCG@10"): (0.2579, 1, 0.1872),
    ("flashback", "recall@1"): (0.14035088, 0, 0.14035088),
    ("flashback", "recall@10"): (0.42105263, 1, 0.40350877),
    ("flashback", "MAP"): (0.24025086, 1, 0.24129075),
    ("deepmove", "acc@1"): (0.2433106576, 1, 0),
    ("sasrec_numpy", "HR@10"): (0.3684210526, 0, 0.3684210526),
    ("recbole", "recall@5"): (0.2982, 1, 0.2632),
    ("recbole", "mrr@10"): (0.2109, 1, 0.1245),
    ("recbole", "precision@5"): (0.0596, 0.2, 0.0526),
    ("recbole", "ndcg@10"): (0.2634, 1, 0.1907),
    ("stan", "Recall@5"): (0.3333333333, 1, 0.3333333333),
    ("lstpm", "Acc@5"): (0.298245614, 1, 0.2631578947),
    ("lstpm", "NDCG@10"): (0.2580852974, 1, 0.1881463815),
    ("cslsl", "Rec-l@5"): (0.2708333333, 1, 0.25),
    ("sthgcn", "MAP@10"): (0.2088903189, 1, 0.1213380545),
    ("sthgcn", "MRR"): (0.2402508408, 1, 0.1531849205),
    ("hstu", "ndcg@10"): (0.2580853105, 1, 0.1881463975),
    ("hstu", "mrr"): (0.2402508408, 1, 0.1531849205),
}


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in FACTS))
def test_facts_of_the_original_code(name: str) -> None:
    """Values that the originals printed once, at the commits of `protocol_originals.COMMITS`."""
    facts = {key: values for (of, key), values in FACTS.items() if of == name}
    for place, kind in enumerate(("random", "NaN target", "NaN beside")):
        (scores, target, _), given = data_of(name, kind)
        got = CASES[name][0].evaluate(scores, target, **given)
        for key, values in facts.items():
            if place < len(values):
                expected = pytest.approx(values[place], abs=TOLERANCE.get(name, 1e-9))
                assert got[key] == expected, (kind, key)


def test_the_commits_are_those_of_the_sources() -> None:
    """A protocol names the commit at which the original is run."""
    for protocol in [*(one for one, _ in CASES.values()), *answered.of_answers()]:
        repository, commit = protocol.source.code.split("@")
        assert commit.startswith(originals.COMMITS[repository.replace("/", "+")])


def test_sizes_that_the_code_sets_are_the_defaults() -> None:
    """The sizes of batches, and the users that STAN evaluates, are those of the code."""
    made = [protocols.getnext(), protocols.rotan(), protocols.dchl(), protocols.cslsl()]
    assert [protocol.batch_size for protocol in made] == [20, 128, 200, 64]
    assert protocols.libcity(sampled=True).batch_size == 10
    assert protocols.sasrec().num_negatives == 100
    scores = torch.eye(30)[[1] * 101]
    values = [
        protocols.stan().evaluate(scores, [1] * hits + [2] * (101 - hits)) for hits in (99, 100)
    ]
    assert [x["Recall@1"] for x in values] == [0.99, 1.0]


def test_a_target_0_is_never_a_hit_of_deepmove_and_stays_in_the_divisor() -> None:
    """Of one user, two hits of four queries; a number of queries keeps it."""
    scores, target = torch.eye(12)[[0, 3, 3, 4]], torch.tensor([0, 3, 3, 3])
    assert protocols.deepmove().evaluate(scores, target, users=[1] * 4)["acc@1"] == 0.5
    zero = replace(protocols.mie_lab(), zero="never a hit")
    found = zero.evaluate(scores, target)
    assert (found["correct@1"], found["total"]) == (2, 4)


def test_weighted_f1_of_lists_has_no_other_orders() -> None:
    """Its bounds and its mean are the value: a list has one order."""
    lists, target = torch.tensor([[4, 9], [4, 7], [7, 9]]), torch.tensor([4, 9, 9])
    llm_mob = protocols.llm_mob()
    value = llm_mob.evaluate(lists, target)["Weighted F1"]
    assert value == pytest.approx(2 / 9)  # 4 has 2 * 1 / (1 + 2), and the others 0
    assert llm_mob.bounds(lists, target)["Weighted F1"] == (value, value)
    assert llm_mob.expected(lists, target)["Weighted F1"] == value


# Laws --------------------------------------------------------------------------------------------


@by_case
@pytest.mark.parametrize("kind", ["random", "ties", "NaN beside"])
def test_bounds_hold_the_value_and_the_mean(name: str, kind: str) -> None:
    """Whatever the order of ties; without ties all three are one number."""
    protocol, _ = CASES[name]
    (scores, target, _), others = data_of(name, kind)
    got, mean = (f(scores, target, **others) for f in (protocol.evaluate, protocol.expected))
    unit = 0.0 if protocol.decimals is None else 0.5 * 10.0**-protocol.decimals
    for key, (low, high) in protocol.bounds(scores, target, **others).items():
        assert low - 1e-12 <= got[key] <= high + 1e-12, key
        if mean[key] == mean[key]:
            assert low - unit - 1e-12 <= mean[key] <= high + unit + 1e-12, key
        if kind == "random" and not name.startswith("sasrec"):
            assert low == high == pytest.approx(mean[key], abs=unit + 1e-12), key


@pytest.mark.parametrize("seed", range(2))
def test_bounds_hold_with_several_nan_and_ties_in_a_row(seed: int) -> None:
    """Permuting the candidates permutes ties and NaN, and reaches no value beyond the bounds."""
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, 4, (40, 24)).astype(np.float32)
    scores[generator.random((40, 24)) < generator.random((40, 1))] = np.nan
    target = generator.integers(0, 24, 40)
    for protocol in (
        protocols.flashback(), protocols.mie_lab(), protocols.getnext(16), protocols.sthgcn(),
        protocols.recbole(CUTS),
    ):  # fmt: skip
        never = int(protocol.name == "recbole")  # of which id 0 is no candidate
        bounds = protocol.bounds(scores, np.maximum(target, never))
        mean = protocol.expected(scores, np.maximum(target, never))
        for _ in range(10):
            order = np.concatenate([np.arange(never), never + generator.permutation(24 - never)])
            place = np.argsort(order)
            got = protocol.evaluate(scores[:, order], place[np.maximum(target, never)])
            for key, (low, high) in bounds.items():
                assert low - 1e-12 <= got[key] <= high + 1e-12, (protocol.name, key)
                if mean[key] == mean[key]:
                    unit = 1e-4 if protocol.decimals == 4 else 1e-8
                    assert low - unit <= mean[key] <= high + unit, (protocol.name, key)


def test_the_mean_over_orders_is_that_of_all_orders() -> None:
    """The expected value of each batch is that of `MRR`, on tied scores."""
    scores, target, _ = make("ties")
    found = protocols.getnext(20).expected(scores, target)["mrr"]
    values = [float(MRR()(scores[i : i + 20], target[i : i + 20])) for i in (0, 20, 40)]
    assert found == pytest.approx(np.mean(values), abs=1e-6)


def test_f1_of_tied_first_candidates_has_bounds_and_no_mean() -> None:
    """Every row is tied for rank 1."""
    scores, target, _ = make("constant")
    assert np.isnan(protocols.mie_lab().expected(scores, target)["f1"])
    assert protocols.mie_lab().bounds(scores, target)["f1"] == (0.0, pytest.approx(1.0))


def test_the_last_query_of_each_user_is_that_of_the_latest_time() -> None:
    """Without times the last row is the last query; users may be names or numbers."""
    scores = torch.eye(20)[[3, 4, 5]]
    target, users = [3, 9, 5], ["ann", "ann", "bob"]
    assert protocols.dchl().evaluate(scores, target, users)["Recall@1"] == 0.5
    assert protocols.dchl().evaluate(scores, target, users, [2, 1, 1])["Recall@1"] == 1


@pytest.mark.parametrize("torch_", [True, False])
def test_places_of_sasrec_put_nan_last(torch_: bool) -> None:
    """A target scored NaN is behind all finite scores, in any order of the NaN."""
    scores, target = torch.full((1, 101), torch.nan), torch.tensor([0])
    negatives = torch.arange(1, 101)[None]
    for finite, hits in ((0, 10 / 101), (6, 4 / 95), (10, 0)):
        scores[:, 101 - finite :] = 0.5
        sasrec = protocols.sasrec(torch=torch_)
        found = sasrec.expected(scores, target, negatives=negatives)["HR@10"]
        assert found == pytest.approx(hits, abs=1e-12)
        bounds = sasrec.bounds(scores, target, negatives=negatives)["HR@10"]
        assert bounds == (0, float(finite < 10))


def test_of_queries_at_the_same_time_the_last_row_is_the_last_query() -> None:
    """Equal times keep the order of the rows, among few rows and many."""
    times = [1] * 39 + [0]
    scores, target = torch.eye(20)[[3] * 40], [7] * 38 + [3, 7]
    found = protocols.dchl().evaluate(scores, target, [5] * 40, times)
    assert found["Recall@1"] == 1


def test_a_target_beyond_rank_2500_of_hstu_counts_as_rank_2501() -> None:
    """Rank 2,500 counts as it is, and 2,501 stands for every later rank."""
    scores = -torch.arange(3000.0).repeat(4, 1)  # location i has rank i + 1
    target, mrr = torch.tensor([0, 2499, 2500, 2999]), (1 + 1 / 2500 + 2 / 2501) / 4
    hstu = protocols.hstu()
    assert hstu.evaluate(scores, target)["mrr"] == pytest.approx(mrr, rel=1e-12)
    assert hstu.expected(scores, target)["mrr"] == pytest.approx(mrr, rel=1e-12)
    assert hstu.bounds(scores, target)["mrr"] == pytest.approx((mrr, mrr), rel=1e-12)


def test_padding_of_seen_locations_masks_no_location() -> None:
    """Where -1 pads `seen`, location 0 stays a candidate unless it is there, too."""
    scores, target = torch.tensor([[3.0, 2.0, 1.0]]).repeat(4, 1), torch.tensor([0, 1, 0, 1])
    seen = torch.tensor([[-1, 2], [-1, -1], [0, 1], [-1, 0]])  # hit, miss, miss, hit
    for rows, hits in (([0], 1), ([1], 0), ([2], 0), ([3], 1), ([0, 1, 2, 3], 0.5)):
        hstu = protocols.hstu(masks_seen=True)
        assert hstu.evaluate(scores[rows], target[rows], seen=seen[rows])["hr@1"] == hits


def test_stan_takes_the_third_last_visit_of_the_users_with_most() -> None:
    """As its loader does: at most 100 of a user's visits count, and the first 100 users."""
    draw = np.random.default_rng(0)
    users = np.repeat(draw.permutation(130), draw.choice([1, 2, 3, 40, 99, 100, 101, 150], 130))
    times = draw.permutation(len(users))
    of_user = {user: np.flatnonzero(users == user) for user in sorted(set(users.tolist()))}
    of_user = {user: rows[times[rows].argsort()] for user, rows in of_user.items()}
    long = [rows for rows in of_user.values() if len(rows) >= 3]
    long.sort(key=lambda rows: min(len(rows), 100), reverse=True)
    scores, target = draw.random((len(users), 12)), draw.integers(0, 12, len(users))
    for first in (50, 130):
        chosen = np.array([rows[-3] for rows in long[:first]])
        own = (scores[chosen] > scores[chosen, target[chosen]][:, None]).sum(1)
        stan = replace(protocols.stan(first), metrics=protocols.stan().metrics[:2])
        got = stan.evaluate(scores, target, users, times)
        assert got == pytest.approx({"Recall@1": (own < 1).mean(), "Recall@5": (own < 5).mean()})


def test_a_location_that_recbole_draws_twice_counts_once() -> None:
    """Two above the target that are one location leave it at rank 2."""
    scores, negatives = torch.tensor([[0.0, 3.0, 2.0, 1.0]]), [[1, 1, 3, 3]]
    uni = protocols.recbole(2, sampled=True)
    assert uni.evaluate(scores, [2], negatives=negatives)["mrr@2"] == 0.5


def test_sasrec_draws_as_numpy_does_until_a_location_is_not_seen() -> None:
    """Ids from 1 to the last, drawn again while they are among the training locations."""
    scores, target, _ = make("random", 12)
    scores[::3, 11], seen = 9, np.stack([target, (target + 1) % 12, (target + 2) % 12], 1)
    np.random.seed(5)
    gains = []
    for row, own, known in zip(scores, target, seen, strict=True):
        drawn: list[int] = []
        while len(drawn) < 100:
            one = np.random.randint(1, 12)
            drawn += [one] * (one not in known)
        above = int((row[drawn] > row[own]).sum())
        gains.append(1 / np.log2(above + 2) if above < 10 else 0)
    found = protocols.sasrec(seed=5).evaluate(scores, target, seen=seen)
    assert found["NDCG@10"] == pytest.approx(np.mean(gains), abs=1e-12)
    assert 0.1 < found["NDCG@10"] < 0.9


def test_corrected_values_are_those_of_loops() -> None:
    """Expectation maximisation of the ranks among NumPy's draws, with SciPy's probabilities."""
    draw = np.random.default_rng(0)
    scores, target = draw.random((40, 300)), draw.integers(10, 300, 40)
    scores[np.arange(40), target] += draw.choice([0.0, 0.5], 40)
    seen = np.array([[0, -1, 7, 7, 9]] * 20 + [[8, 3, -1, -1, -1]] * 20)
    seen = np.concatenate([seen, target[:, None]], 1)  # or a drawn target ties with itself
    found = protocols.sasrec(seed=3).corrected(scores, target, seen=seen)
    np.random.seed(3)
    ranks = []
    for row, own, known in zip(scores, target, seen, strict=True):
        drawn: list[int] = []
        while len(drawn) < 100:
            one = np.random.randint(1, 300)
            drawn += [one] * (one not in known)
        ranks.append(1 + int((row[drawn] > row[own]).sum()))
    size = 296  # of 299 ids from 1 on, three are in `seen`
    chances = scipy.stats.binom.pmf(np.arange(101), 100, np.arange(size)[:, None] / size)
    p = np.full(size, 1 / size)
    for _ in range(50):
        p = np.mean([p * chances[:, r - 1] / (p @ chances[:, r - 1]) for r in ranks], axis=0)
    assert found["HR@10"] == pytest.approx(p[:10].sum(), abs=1e-9)
    assert found["NDCG@10"] == pytest.approx(p[:10] @ (1 / np.log2(np.arange(2, 12))), abs=1e-9)


@pytest.mark.slow
def test_an_audit_shows_the_corrected_value() -> None:
    """It is nearer to the exact value than what the code prints; not for draws by visits."""
    draw = np.random.default_rng(1)
    scores, target = draw.random((400, 1500)), draw.integers(1, 1500, 400)
    scores[np.arange(400), target] += draw.exponential(0.7, 400)
    counts = np.ones(1500, dtype=int)
    chosen = [protocols.sasrec(0), protocols.libcity(10, sampled=True, seed=0)]
    audit = protocols.audit(scores, target, k=10, protocols=chosen, train_counts=counts)
    sasrec, *others = audit.findings
    assert (sasrec.protocol, sasrec.metric.key) == ("sasrec", "HR@10")
    start, _, corrected = sasrec.why.rpartition(", corrected: ")
    assert start == "101 candidates"
    assert abs(sasrec.difference) > 10 * abs(float(corrected) / 100 - sasrec.exact)
    assert not any("corrected" in one.why for one in others if one.protocol != "sasrec")


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (protocols.libcity(sampled=True, seed=0), "libcity_sampled draws them by visits"),
        (protocols.dchl(), "dchl ranks all candidates"),
    ],
)
def test_other_samples_are_not_corrected(protocol: Protocol, message: str) -> None:
    """A rank among popular locations does not tell the rank among all."""
    with pytest.raises(ValueError, match=message):
        protocol.corrected(torch.rand(2, 200), [1, 2], train_counts=torch.ones(200))


def test_draws_by_visits_leave_out_what_nobody_visited() -> None:
    """101 of 102 locations have visits; the target may be drawn, and then ties with itself."""
    scores = torch.arange(102.0).repeat(4, 1)
    target, counts = torch.tensor([101, 100, 0, 50]), torch.ones(102)
    counts[101] = 0
    protocol = protocols.libcity(1, sampled=True, batch_size=4, seed=0)
    got = protocol.bounds(scores, target, train_counts=counts)["Recall@1"]
    assert got in ((0.25, 0.25), (0.25, 0.5))


# Errors ------------------------------------------------------------------------------------------

SCORES, TARGET = torch.rand(60, 120, generator=torch.Generator().manual_seed(0)), torch.arange(60)
LISTS = {"preds": torch.tensor([[4, 9], [2, 9]]), "target": [4, 2]}
DRAWN = {"preds": SCORES[:1, :3], "target": [1], "seen": [[2, 1]]}
SAMPLED, NOVEL = protocols.libcity(sampled=True, seed=0), protocols.hmt_grn(novel=True)
KNOWN, BEYOND = torch.tensor([[4, -1], [2, 9]]), torch.full((60, 1), 120)


@pytest.mark.parametrize(
    ("protocol", "given", "message"),
    [
        (protocols.deepmove(), {}, "`users` must be given for deepmove"),
        (protocols.getnext(batch_size=None), {}, "`batch_size` must be given for getnext"),
        (protocols.sasrec(), {}, "`seed` must be given for sasrec"),
        (protocols.cslsl(batch_size=16), {}, "`seed` must be given for cslsl"),
        (protocols.libcity(sampled=True, seed=1), {}, "`train_counts` must be given"),
        (protocols.recbole(masks_seen=True), {}, "`seen` must be given for recbole"),
        (protocols.recbole(sampled=True), {}, "`negatives` must be given"),
        (protocols.geosan(), {}, "`negatives` must be given"),
        (protocols.lstpm(), {}, "`sequences` must be given for lstpm: a target 0"),
        (protocols.tool4poi("out"), LISTS, "`seen` must be given for tool4poi_out"),
        (protocols.llm_mob(), {}, "`preds` must be lists of ids for llm_mob"),
        (protocols.sasrec(1), LISTS, "`preds` must be scores for sasrec"),
        (protocols.cslsl(64, seed=1), {}, "at least one batch of 64"),
        (protocols.dchl(), {"users": [1, 2]}, "`users` must have a row for each of the 60"),
        (protocols.libcity(), {"user": TARGET}, "unknown arguments"),
        (protocols.libcity(), {"target": TARGET.float()}, "`target` must be integers"),
        (protocols.libcity(), {"target": TARGET + 61}, "of the 120 candidates, got 120"),
        (protocols.libcity(), {"preds": SCORES[0]}, r"`preds` must be scores \[N, C\]"),
        (protocols.llm_mob(), {**LISTS, "target": [-1, 2]}, "`target` must be ids, got -1"),
        (protocols.recbole(masks_seen=True), {"seen": BEYOND}, "`seen` .* candidates, got 120"),
        (SAMPLED, {"negatives": 0 * BEYOND - 1}, "`negatives` .* of the 120 candidates, got -1"),
        (SAMPLED, {"train_counts": [1, 2, 3]}, "`train_counts` must have 120 counts, got 3"),
        (protocols.llmmove(), {**LISTS, "negatives": [[-1], [3]]}, "`negatives` must be ids"),
        (protocols.tool4poi("in"), {**LISTS, "seen": [[1], [1]]}, "`seen` must hold the target"),
        (NOVEL, {**LISTS, "seen": KNOWN}, "`seen` must lack the target of at least one query"),
        (NOVEL, {**LISTS, "seen": KNOWN[:, 0]}, r"ids \[N, M\], one row per query"),
        (NOVEL, LISTS, "`seen` must be given for hmt_grn_novel"),
        (protocols.sasrec(5), DRAWN, "`seen` must leave an id to draw, got all 2 in row 0"),
    ],
)
def test_errors_name_the_argument(protocol: Protocol, given: dict[str, Any], message: str) -> None:
    """What is missing, or cannot be read, with the name of the argument."""
    arguments = {"preds": SCORES, "target": TARGET, **given}
    for method in (protocol.evaluate, protocol.bounds, protocol.expected):
        with pytest.raises((TypeError, ValueError), match=message):
            method(**arguments)


def test_the_only_id_that_was_not_seen_is_drawn() -> None:
    """It is the first one, 1."""
    assert draw_uniform(1, 4, 2, torch.tensor([[3, 2]]), seed=0).tolist() == [[1, 1]]


def test_what_cannot_be_made_or_evaluated() -> None:
    """A history of another name, and fewer candidates than Flashback ranks."""
    with pytest.raises(ValueError, match="at least 10 candidates"):
        protocols.flashback().evaluate(SCORES[:, :9], TARGET % 9)
    with pytest.raises(ValueError, match="`history` must be one of"):
        protocols.tool4poi("new")  # type: ignore[arg-type]


# The audit ---------------------------------------------------------------------------------------


def test_an_audit_has_a_row_for_every_value() -> None:
    """The columns do not depend on the input, and differences are those of the values."""
    scores, target, users = make("ties")
    table = protocols.audit(scores, target, users=users)
    frame = table.to_pandas()
    columns = ["protocol", "metric", "value", "exact", "difference", "why"]
    assert list(frame.columns) == columns
    assert np.allclose(frame.difference, frame.value - frame.exact, atol=1e-8)
    assert (frame.why[frame.difference.abs() > 1e-9] != "").all()
    assert "ties by topk" in " ".join(frame.why)
    assert "without cslsl: `seed` must be given" in repr(table)
    several = protocols.audit({"a": scores, "b": -scores}, target, users)
    assert list(several.to_pandas().columns) == ["model", *columns]
    assert several.to_markdown().startswith("| model | protocol |")


def test_an_audit_shows_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step per protocol of each model, also for protocols that do not apply."""
    shown: list[Any] = []

    class Bar:
        def __init__(self, **options: Any) -> None:
            shown.append((options["total"], options["unit"]))
            self.update = shown.append

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))
    chosen = [protocols.deepmove(), protocols.lstpm()]
    scores = torch.rand(6, 12)
    models = {"one": scores, "two": -scores}
    protocols.audit(models, torch.arange(6), torch.arange(6), protocols=chosen)
    assert shown == [(2, "protocol"), 1, 1] * 2


#: orders of one rank for each score, or of lists
NO_OPERATION = ("above", "list", "middle")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [one for one in operations.NAMES if one not in NO_OPERATION])
def test_counted_ranks_are_those_of_the_operation(order: Any, dtype: torch.dtype) -> None:
    """Rows with and without ties, NaN and infinities rank as the operation ranks them together."""
    torch.manual_seed(0)
    scores = torch.randn(200, 30).to(dtype)
    scores[:50] = scores[:50].round()
    for row, value in enumerate([math.nan, math.inf, -math.inf, -0.0] * 20):
        scores[row, torch.randint(30, (row % 3 + 1,))] = value
    scores[::3, 7], scores[::3, 8] = 0.0, -0.0
    target = torch.randint(30, (200,))
    target[:80:2] = scores[:80:2].float().nan_to_num(9).argmax(1)
    counts = operations.count(scores, target)
    for depth in (1, 12, None) if order == "topk" else (None,):
        found = operations.rank_by(order, scores, target, depth, counts)
        assert found.equal(operations._find(order, scores, target, depth))


def test_an_audit_says_what_was_not_given_and_what_is_beyond_ranks() -> None:
    """HSTU gives 2,501 to a target that is not found; a target of -inf is ranked by topk."""
    scores = -torch.arange(3000.0).repeat(2, 1)
    table = protocols.audit(scores, [2900, 4], k=500, protocols=[protocols.hstu()])
    whys = {one.metric.key: one.why for one in table.findings}
    assert whys == {"hr@500": "", "mrr": "ranks beyond count as 2,501"}
    assert "without `users`, every row counts for hstu" in table.notes
    scores = torch.tensor([[1.0, -torch.inf, 0.5]])
    (recall, *_) = protocols.audit(scores, [1], k=3, protocols=[protocols.libcity(3)]).findings
    assert (recall.value, recall.exact, recall.why) == (1, 0, "-inf is a score")
    nothing = protocols.audit(scores, [1], k=2, protocols=[protocols.libcity(3)])
    assert nothing.notes == ("without libcity: it reports nothing at these k",)
    assert "values in percent" in repr(nothing)


def test_an_audit_names_where_nan_is_ranked() -> None:
    """The code has a hit of a target scored NaN; one such score is enough."""
    scores = torch.tensor([[torch.nan, 1.0, 0.5], [1.0, 0.2, 0.5]])
    libcity = [protocols.libcity(1)]
    (recall, *_) = protocols.audit(scores, [0, 0], k=1, protocols=libcity).findings
    assert (recall.value, recall.exact, recall.why) == (1, 0.5, "NaN first")


def test_an_audit_tells_differences_from_rounding() -> None:
    """A difference is 0 below 1e-9; half of the last decimal that a code prints is its rounding."""
    metric = protocols.dchl().metrics[0]
    for difference in (5e-9, -5e-9):
        finding = Finding("", "dchl", metric, 0.5 + difference, 0.5, (0.5, 0.5), "")
        assert finding.difference == pytest.approx(difference)
    assert Finding("", "dchl", metric, 0.5 + 5e-10, 0.5, (0.5, 0.5), "").difference == 0
    scores, target = torch.eye(20)[[3] * 4000], [7] + [3] * 3999
    users = [0, *range(3999)]  # the only miss is not the last query of its user
    dchl = [protocols.dchl(batch_size=4000)]
    (found, *_) = protocols.audit(scores, target, users, k=1, protocols=dchl).findings
    assert (found.value, found.exact, found.why) == (1, 0.99975, "last of each user")
    (found, *_) = protocols.audit(scores[:3], [3, 3, 7], k=1, protocols=dchl).findings
    assert (found.value, found.exact) == (0.6667, pytest.approx(2 / 3))
    assert found.why == "rounded to 4 decimals"


def test_an_audit_can_be_drawn() -> None:
    """A dot per protocol that reports the accuracy, and a line for each model."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    scores, target, users = make("ties")
    table = protocols.audit({"a": scores, "b": -scores}, target, users, k=(1, 5))
    figure, axes = table.plot()
    assert len(axes.get_yticklabels()) == len(set(table.to_pandas().protocol))
    with pytest.raises(ValueError, match="`k` must be a cut-off"):
        table.plot(k=3)
    pyplot.close(figure)


@pytest.mark.usefixtures("blank_pictures")
def test_an_audit_is_part_of_the_page() -> None:
    """Where it is given."""
    pytest.importorskip("matplotlib")
    from nextloc_metrics import report

    scores, target, users = make("random")
    evaluation = report.evaluate(scores, target)
    html = evaluation.to_html(audit=protocols.audit(scores, target, users))
    assert "Under the protocols of other codebases" in html
    plain = evaluation.to_html()
    assert "Under the protocols of other codebases" not in plain
    of_ranks = replace(protocols.libcity(5), metrics=protocols.libcity(5).metrics[3:])
    audit = protocols.audit(scores, target, k=5, protocols=[of_ranks])  # no accuracy to draw
    assert evaluation.to_html(audit=audit).count("<svg") == plain.count("<svg")


def test_the_command_prints_an_audit(tmp_path: Path) -> None:
    """Of one file and of two, with the users of a column."""
    runner = pytest.importorskip("click.testing").CliRunner()
    from nextloc_metrics.cli.commands import main

    scores, target, users = make("random")
    paths = [str(tmp_path / f"{name}.npz") for name in "ab"]
    for path in paths:
        np.savez(path, preds=lists_of(scores), target=target, user=users)
    done = runner.invoke(main, ["audit", *paths, "--users", "user", "--k", "1"])
    assert done.exit_code == 0, done.output
    assert "deepmove" in done.output
    assert "mean over users" in done.output
    done = runner.invoke(main, ["audit", paths[0], "--format", "json"])
    assert '"protocol": "libcity"' in done.output
    assert '"model"' not in done.output  # of one file


@pytest.mark.skipif(not LLM_MOB.exists(), reason=f"needs {LLM_MOB.name} beside the project")
def test_four_protocols_give_four_numbers_of_stored_predictions() -> None:
    """LLM-Mob's answers for Foursquare: pooled, by batches, by users, last of users."""
    with np.load(LLM_MOB) as stored:
        lists, target, users = (stored[name] for name in ("preds", "targets", "users"))
    lists = np.where(lists < 0, -1, lists)
    pooled = protocols.llm_mob().evaluate(lists, target)
    assert pooled["Acc@1"] == pytest.approx(0.232271, abs=5e-7)
    assert pooled["Weighted F1"] == pytest.approx(0.147061, abs=5e-7)
    assert pooled["NDCG@10"] == pytest.approx(0.451073, abs=5e-7)
    by_user = protocols.deepmove().evaluate(lists, target, users)["acc@1"]
    last = protocols.hstu().evaluate(lists, target, users)["hr@1"]
    assert (round(by_user, 4), round(last, 4)) == (0.2681, 0.2879)
