"""An evaluation in parts: any batches, order and tree of merges give the same bits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import report
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.geography import Locations

NUMBER = 60
WORDS = [f"user {number}" for number in range(14)]
OPTIONS: dict[str, Any] = {"k": (1, 3), "cluster": "user"}
MORE: dict[str, Any] = {
    "train_counts": np.arange(9),
    "locations": Locations.from_plane(range(0, 9000, 1000), range(9)),
}

#: how many numbers a chunk of rows has
CHUNK = "nextloc_metrics.core.queries.batch._CHUNK"


def rows_of(form: str, chosen: Any = slice(None)) -> dict[str, Any]:
    """Dirty predictions: repeats, padding, ties, ids that are no location, masked queries."""
    generator = np.random.default_rng(7)
    lists = generator.integers(-1, 12, (NUMBER, 5))
    scores = generator.integers(0, 3, (NUMBER, 9)).astype(np.float32)
    scores[3], scores[4, 2] = np.nan, -np.inf
    user = np.array(WORDS)[np.sort(generator.integers(0, len(WORDS), NUMBER))]
    columns = {
        "preds": lists if form == "lists" else scores,
        "target": generator.integers(0, 9, NUMBER),
        "mask": generator.random(NUMBER) < 0.9,
    }
    hour = generator.integers(0, 24, NUMBER)
    groups = {"user": user[chosen], "hour": hour[chosen]}
    return {**{name: values[chosen] for name, values in columns.items()}, "groups": groups}


def evaluator_of(form: str, *parts: Any, **options: Any) -> report.Evaluator:
    """An evaluator of some rows, a batch for each part."""
    evaluator = report.Evaluator(num_locations=9, **OPTIONS, **options)
    for part in parts:
        evaluator.add(Batch(**rows_of(form, part)))
    return evaluator


def whole(form: str, **options: Any) -> str:
    """All numbers of the evaluation at once."""
    return report.evaluate(**rows_of(form), num_locations=9, **OPTIONS, **options).to_markdown()


@pytest.mark.parametrize("form", ["lists", "scores"])
def test_a_batch_in_chunks_is_that_of_its_rows(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after another batch: the same bits, and so the same shard."""
    expected = evaluator_of(form, range(9), range(9, NUMBER)).to_bytes()
    monkeypatch.setattr(CHUNK, 25)
    assert evaluator_of(form, range(9), range(9, NUMBER)).to_bytes() == expected


@pytest.mark.slow
def test_parts_with_references_and_a_map() -> None:
    """Training counts, deciles, distances and the accuracy of each location add up too."""
    first, other = (
        evaluator_of("scores", range(20), **MORE),
        evaluator_of("scores", range(20, 60), **MORE),
    )
    merged = report.Evaluator.from_bytes(other.to_bytes()).merge(first)
    assert merged.to_bytes() == evaluator_of("scores", range(60), **MORE).to_bytes()
    assert merged.result().to_markdown() == whole("scores", **MORE)


def test_an_empty_evaluator_adds_nothing() -> None:
    """Before and after a merge, as bytes too; alone it has no result."""
    before = evaluator_of("lists", range(9)).to_bytes()
    empty = report.Evaluator.from_bytes(evaluator_of("lists").to_bytes())
    full = evaluator_of("lists", range(9))
    for one in (empty, evaluator_of("lists", [])):  # also a batch without rows
        assert full.merge(report.Evaluator.from_bytes(one.to_bytes())).to_bytes() == before
        assert one.merge(report.Evaluator.from_bytes(before)).to_bytes() == before
    empty = evaluator_of("lists").merge(evaluator_of("lists"))
    empty.add(Batch(**rows_of("lists", range(9))))
    assert empty.to_bytes() == before
    with pytest.raises(ValueError, match="`add` must be called before `result`"):
        report.Evaluator().result()


def test_bytes_keep_the_options() -> None:
    """Of an evaluator with and without batches: what is added next counts as before."""
    options: dict[str, Any] = {"cluster": "user", "confidence_level": 0.5}
    options["locations"] = MORE["locations"]
    more = {**rows_of("lists", range(30, 60)), "exclude": np.full((30, 1), 8)}
    for number in (9, None):  # None for several targets
        if number is None:
            more["target"], options = more["target"][:, None], {"measures": ["mrr", "ndcg@3"]}
        one = report.Evaluator(num_locations=number, exempt_target=True, **options)
        for _ in range(2):
            read = report.Evaluator.from_bytes(one.to_bytes())
            assert read.to_bytes() == one.to_bytes()
            one.add(Batch(**more))
            read.add(Batch(**more))
            assert read.to_bytes() == one.to_bytes()


@pytest.mark.parametrize(
    ("first", "other", "message"),
    [
        ({}, {"preds": np.ones((9, 7))}, "have lists of ids and one id as `target`, as those"),
        ({}, {"preds": [[3.5, 5]] * 9}, "as those before, got scores of 2 ids and one id"),
        ({"preds": np.ones((9, 5))}, {"preds": np.ones((9, 7))}, "must have scores of 5 ids"),
        ({"preds": np.ones((9, 5))}, {}, "got lists of ids"),
        ({}, {"target": [[1, 2]] * 9}, "got lists of ids and several ids as `target`"),
        ({}, {"exclude": [[0]] * 9}, "`exclude` must be given in every batch, or in none"),
        ({}, {"confidence": [0.5] * 9}, "`confidence` must be given in every batch, or in none"),
        ({}, {"groups": {"user": [1] * 9}}, r"`groups` must be \(\) in every batch"),
    ],
)
def test_a_batch_of_another_kind_is_refused(
    first: dict[str, Any], other: dict[str, Any], message: str
) -> None:
    """In either order, and by `merge`; nothing is counted."""
    plain = {"preds": [[1, 2]] * 9, "target": [1] * 9}
    for one, wrong in ((first, other), (other, first)):
        evaluator, apart = (report.Evaluator(k=1, num_locations=9) for _ in range(2))
        evaluator.add(Batch(**{**plain, **one}))
        apart.add(Batch(**{**plain, **wrong}))
        before = evaluator.to_bytes()
        with pytest.raises(ValueError, match=message if one is first else "in every|as those"):
            evaluator.add(Batch(**{**plain, **wrong}))
        with pytest.raises(ValueError, match="shards must agree on"):
            evaluator.merge(apart)
        assert evaluator.to_bytes() == before


@pytest.mark.parametrize("cluster", [None, "user"])
@pytest.mark.parametrize("users", [None, ["ann", "bob"], ["bob", "ann"]])
def test_a_result_stays_what_it_was_when_batches_follow(
    users: list[str] | None, cluster: str | None, tmp_path: Path
) -> None:
    """A result may share the counts of its evaluator, which adds to others from then on."""
    kinds = {} if users is None else {"user": users, "hour": [7, 8]}
    options: dict[str, Any] = {"num_locations": 5, "k": 1, "cluster": cluster if users else None}
    first = Batch([[3, 1], [2, 0]], [3, 0], groups=kinds or None)
    evaluators = [report.Evaluator(**options) for _ in range(2)]
    for one in evaluators:
        one.add(first)
    expected = evaluators[1].to_bytes()
    found = evaluators[0].result(missed=2)
    shown = found.to_markdown(), found.group_records()
    found.save(tmp_path / "first.npz")
    with pytest.raises(ValueError, match="`target`"):
        evaluators[0].add(Batch([[1, 2]], [9], groups={x: y[:1] for x, y in kinds.items()} or None))
    evaluators[0].add(Batch([[1, 2], [4, 0]], [2, 4], groups=kinds or None))
    assert (found.to_markdown(), found.group_records()) == shown
    found.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "first.npz").read_bytes()
    assert evaluators[0].result().card["queries"] == 4
    assert "broken_answers" not in evaluators[0].result().card
    assert evaluators[1].to_bytes() == expected
    assert found.values == evaluators[1].result().values


def test_a_refused_batch_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither counts nor groups, where the last query is wrong."""
    evaluator = evaluator_of("lists", range(18), range(18, 20))
    before = evaluator.to_bytes()
    for end in (22, 40):
        wrong = rows_of("lists", range(20, end))
        wrong["target"][-1], wrong["mask"][-1] = 9, True
        with pytest.raises(ValueError, match="`target`"):
            evaluator.add(Batch(**wrong))
        assert evaluator.to_bytes() == before
    with pytest.raises(ValueError, match=r"`groups` must be \('user', 'hour'\) in every batch"):
        evaluator.add(Batch(**{**rows_of("lists", range(3)), "groups": None}))
    assert evaluator.to_bytes() == before
    with monkeypatch.context() as patch:
        patch.setattr(CHUNK, 25)  # five rows, of which the first chunks are right
        with pytest.raises(ValueError, match="`target`"):
            evaluator.add(Batch(**wrong))
        assert evaluator.to_bytes() == before
        evaluator.add(Batch(**rows_of("lists", range(20, NUMBER))))
    assert evaluator.result().to_markdown() == whole("lists")


def test_lists_need_no_number_of_locations() -> None:
    """F1 is that of all batches, of which a later one has a larger target."""
    evaluator = report.Evaluator(k=1)
    evaluator.add(Batch([[1, 2], [7, 1]], [1, 1]))
    evaluator.add(Batch([[1 << 50, 2]], [1 << 50]))
    # of 1: one of one decision and two targets, 2 / 3; of 2^50: 1; twice and once a target
    assert evaluator.result().values["f1"] == pytest.approx((2 * 2 / 3 + 1) / 3)
    assert not math.isnan(evaluator.result().intervals["f1"][0])


def test_scores_that_require_a_gradient_are_read_like_detached_ones(tmp_path: Path) -> None:
    """In one call, in parts, and from a file of `torch.save`."""
    scores, target = (
        torch.randn(40, 5, generator=torch.Generator().manual_seed(0)),
        [0, 1, 2, 3] * 10,
    )
    expected = report.evaluate(scores, target).values
    scores.requires_grad_()
    evaluator = report.Evaluator()
    evaluator.add(Batch(scores, target))
    torch.save({"preds": scores, "target": torch.tensor(target)}, tmp_path / "scores.pt")
    assert report.evaluate(scores, target).values == expected
    assert evaluator.result().values == expected
    assert report.evaluate(tmp_path / "scores.pt").values == expected
