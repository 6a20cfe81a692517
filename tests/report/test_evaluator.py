"""An evaluation in parts: any batches, order and tree of merges give the same bits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextloc_metrics import MRR, report
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
        evaluator.update(**rows_of(form, part))
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
    empty.update(**rows_of("lists", range(9)))
    assert empty.to_bytes() == before
    with pytest.raises(ValueError, match="`update` must be called before `result`"):
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
            one.update(**more)
            read.update(**more)
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
        evaluator.update(**{**plain, **one})
        apart.update(**{**plain, **wrong})
        before = evaluator.to_bytes()
        with pytest.raises(ValueError, match=message if one is first else "in every|as those"):
            evaluator.update(**{**plain, **wrong})
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
    groups: Any = kinds or None
    evaluators = [report.Evaluator(**options) for _ in range(2)]
    for one in evaluators:
        one.update([[3, 1], [2, 0]], [3, 0], groups=groups, counts={"broken_answers": 2})
    expected = evaluators[1].to_bytes()
    found = evaluators[0].result()
    shown = found.to_markdown(), found.group_records()
    found.save(tmp_path / "first.npz")
    with pytest.raises(ValueError, match="`target`"):
        evaluators[0].update([[1, 2]], [9], groups={x: y[:1] for x, y in kinds.items()} or None)
    evaluators[0].update([[1, 2], [4, 0]], [2, 4], groups=groups, counts={"broken_answers": 1})
    assert (found.to_markdown(), found.group_records()) == shown
    found.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "first.npz").read_bytes()
    assert evaluators[0].result().card["queries"] == 4
    assert found.card["broken_answers"] == 2
    assert evaluators[0].result().card["broken_answers"] == 3
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
            evaluator.update(**wrong)
        assert evaluator.to_bytes() == before
    with pytest.raises(ValueError, match=r"`groups` must be \('user', 'hour'\) in every batch"):
        evaluator.update(**{**rows_of("lists", range(3)), "groups": None})
    assert evaluator.to_bytes() == before
    with monkeypatch.context() as patch:
        patch.setattr(CHUNK, 25)  # five rows, of which the first chunks are right
        with pytest.raises(ValueError, match="`target`"):
            evaluator.update(**wrong)
        assert evaluator.to_bytes() == before
        evaluator.update(**rows_of("lists", range(20, NUMBER)))
    assert evaluator.result().to_markdown() == whole("lists")


def test_lists_need_no_number_of_locations() -> None:
    """F1 is that of all batches, of which a later one has a larger target."""
    evaluator = report.Evaluator(k=1)
    evaluator.update([[1, 2], [7, 1]], [1, 1])
    evaluator.update([[1 << 50, 2]], [1 << 50])
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
    evaluator.update(scores, target)
    torch.save({"preds": scores, "target": torch.tensor(target)}, tmp_path / "scores.pt")
    assert report.evaluate(scores, target).values == expected
    assert evaluator.result().values == expected
    assert report.evaluate(tmp_path / "scores.pt").values == expected


@pytest.mark.parametrize("form", ["lists", "scores"])
def test_a_saved_evaluator_is_read_and_goes_on(form: str, tmp_path: Path) -> None:
    """From another process, say: with batches, merges and results as if it had stayed."""
    evaluator = evaluator_of(form, range(20))
    evaluator.save(tmp_path / "a.npz")
    loaded = report.Evaluator.load(tmp_path / "a.npz")
    assert loaded.num_queries == 20
    assert loaded.to_bytes() == evaluator.to_bytes()
    loaded.update(**rows_of(form, range(20, 40)))
    loaded.merge(evaluator_of(form, range(40, NUMBER)))
    assert loaded.result().to_markdown() == whole(form)
    with pytest.raises(FileExistsError, match="force"):
        loaded.save(tmp_path / "a.npz")
    loaded.save(tmp_path / "a.npz", force=True)
    assert report.Evaluator.load(str(tmp_path / "a.npz")).num_queries == NUMBER
    assert report.merge([tmp_path / "a.npz"]).to_markdown() == whole(form)


def test_a_loaded_evaluator_is_the_one_that_was_saved(tmp_path: Path) -> None:
    """What holds its batches refuses it, in either order; one of other batches is merged."""
    evaluator, other = (evaluator_of("lists", x) for x in (range(20), range(20, NUMBER)))
    evaluator.save(tmp_path / "a.npz")
    loaded = report.Evaluator.load(tmp_path / "a.npz")
    for first, second in ((evaluator, loaded), (loaded, evaluator)):
        with pytest.raises(ValueError, match="an evaluator must be merged once"):
            first.merge(second)
    other.merge(loaded)
    assert other.num_queries == NUMBER
    for again in (loaded, evaluator, report.Evaluator.load(tmp_path / "a.npz")):
        with pytest.raises(ValueError, match="an evaluator must be merged once"):
            other.merge(again)
    assert other.result().to_markdown() == whole("lists")
    empty = report.Evaluator(num_locations=9, **OPTIONS)
    empty.save(tmp_path / "empty.npz")
    assert report.Evaluator.load(tmp_path / "empty.npz").merge(other).num_queries == NUMBER


def test_a_file_that_is_none_or_of_other_metrics_is_refused(tmp_path: Path) -> None:
    """Its metrics are passed again, as no file holds code."""
    evaluator = report.Evaluator(k=1, metrics={"first": MRR(1)})
    evaluator.update([[3, 5], [4, 2]], [3, 2])
    evaluator.save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="`metrics`"):
        report.Evaluator.load(tmp_path / "a.npz")
    loaded = report.Evaluator.load(tmp_path / "a.npz", {"first": MRR(1)})
    assert loaded.result().values["first"] == 0.5
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"b\.npz must be a file that"):
        report.Evaluator.load(tmp_path / "b.npz", {"first": MRR(1)})
    with pytest.raises(ValueError, match=r"`path` must end with \.npz"):
        evaluator.save(tmp_path / "a.parquet")


def test_update_takes_arrays_as_a_batch_has_them() -> None:
    """By position and by name, with the same bits."""
    rows = rows_of("lists")
    rows |= {"exclude": np.full((NUMBER, 1), 11), "confidence": np.linspace(0, 1, NUMBER)}
    names = ("preds", "target", "mask", "groups")
    first, second, third = (report.Evaluator(num_locations=9, **OPTIONS) for _ in range(3))
    first.update(**rows)
    second.update(**rows)
    third.update(*(rows[x] for x in names), exclude=rows["exclude"], confidence=rows["confidence"])
    assert first.to_bytes() == second.to_bytes() == third.to_bytes()
    graded = report.Evaluator(measures=["ndcg@2"])
    graded.update([[3, 5]], [[5, 3]], grade=[[2, 1]])
    assert graded.result().values["ndcg_at_2"] == pytest.approx(
        (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))
    )


def test_counts_of_a_reader_are_on_the_card(tmp_path: Path) -> None:
    """They add up over batches, merges and files; those of a refused batch are not counted."""
    first, other = (report.Evaluator(k=1, num_locations=9) for _ in range(2))
    first.update([[3, 5], [-1, -1]], [3, 5], counts={"broken_answers": 1, "missing": 2})
    first.update([[-1, -1]], [5], counts={"broken_answers": 1})
    with pytest.raises(ValueError, match="`target`"):
        first.update([[1, 2]], [9], counts={"broken_answers": 1})
    other.update([[4, 5]], [4])
    assert "broken_answers" not in other.result().card
    other.update([[-1, 5]], [4], counts={"broken_answers": 3})
    first.save(tmp_path / "first.npz")
    card = other.merge(report.Evaluator.load(tmp_path / "first.npz")).result().card
    assert (card["broken_answers"], card["missing"], card["queries"]) == (5, 2, 5)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"queries": 5}, r"`counts` must have the names .*'broken_answers'.*, got 'queries'"),
        ({"broken_answers": -1}, r"`counts\['broken_answers'\]` must be an integer of at least 0"),
        (["broken_answers"], "`counts` must be a dict with names as keys"),
    ],
)
def test_counts_that_are_none_change_nothing(counts: Any, message: str) -> None:
    """The card counts queries itself."""
    evaluator = report.Evaluator(k=1)
    evaluator.update([[1, 2]], [2])
    shown = str(evaluator.result())
    with pytest.raises((TypeError, ValueError), match=message):
        evaluator.update([[1, 2]], [2], counts=counts)
    assert str(evaluator.result()) == shown
