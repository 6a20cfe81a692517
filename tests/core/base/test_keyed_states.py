"""A metric without a number of groups, or of locations, has the values of one that knows it."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import MetricCollection

from inner import key_of
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    LocationF1,
    LocationRecall,
    RankingCollection,
    next_location_metrics,
)
from strategies import examples, same, updated

FAR = 1 << 62
INTEGERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([FAR, FAR - 1, -FAR, -FAR - 1, -(2**63)]),
)
TEXTS = st.one_of(st.sampled_from(["ann", "bob", "", "01", "1", "-0", "+1", "\u0661"]), st.text())
LOCATIONS = 5


def key_by_hand(group: Any) -> int:
    """The key of an integer or a text: itself, or a number that is its own from 2^62."""
    text = str(group)
    is_usual = text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()
    if is_usual and str(int(text)) == text and -FAR <= int(text) < FAR:
        return int(text)
    return key_of(text)


@st.composite
def batches_with_groups(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, list[Any]]:
    """Scores, targets, a mask, and groups that are all integers or all text."""
    n = draw(st.integers(1, 12))
    levels = draw(st.lists(st.integers(0, 3), min_size=n * LOCATIONS, max_size=n * LOCATIONS))
    target = draw(st.lists(st.integers(0, LOCATIONS - 1), min_size=n, max_size=n))
    mask = draw(st.lists(st.sampled_from([True, True, True, False]), min_size=n, max_size=n))
    kind = draw(st.sampled_from([INTEGERS, TEXTS]))
    known = draw(st.lists(kind, min_size=1, max_size=4))
    groups = draw(st.lists(st.sampled_from(known), min_size=n, max_size=n))
    scores = torch.tensor(levels).float().reshape(n, LOCATIONS)
    return scores, torch.tensor(target), torch.tensor(mask), groups


def as_groups(groups: list[Any]) -> Any:
    """Text as a list, and integers as a tensor."""
    return groups if isinstance(groups[0], str) else torch.tensor(groups)


def pair(
    batch: tuple[Tensor, Tensor, Tensor, list[Any]], **options: Any
) -> tuple[list[int], Grouped, Grouped]:
    """The keys of counted queries, a keyed metric, and one whose groups are numbered by them."""
    scores, target, mask, groups = batch
    every = [key_by_hand(group) for group in groups]
    keys = sorted({key for key, counted in zip(every, mask.tolist(), strict=True) if counted})
    numbers = torch.tensor([keys.index(key) if key in keys else -7 for key in every])
    keyed = updated(Grouped(AccuracyAtK(2), **options), scores, target, mask, as_groups(groups))
    dense = Grouped(AccuracyAtK(2), max(1, len(keys)), **options)
    dense.update(scores, target, mask, numbers)
    return keys, keyed, dense  # type: ignore[return-value]


@pytest.mark.filterwarnings("ignore:.*was called before the ``update``")
@examples(30)
@given(batches_with_groups(), st.sampled_from([None, "groups", "queries"]))
def test_groups_by_key_equal_numbered_ones(batch: Any, average: Any) -> None:
    """Values, intervals, standard errors and the gap, for integers anywhere and for text."""
    keys, keyed, dense = pair(batch, average=average)
    if not keys:
        assert keyed.compute().isnan().all()
        assert keyed.num_queries.shape == (0,)
        return
    assert same(keyed.compute(), dense.compute())
    assert keyed.groups.tolist() == keys
    for one, other in zip(keyed.interval(0.9), dense.interval(0.9), strict=True):
        assert same(one, other)
    assert same(keyed.standard_error(), dense.standard_error())
    assert torch.equal(keyed.num_queries, dense.num_queries)
    assert torch.equal(keyed.group_sums, dense.state)
    if len(keys) > 1:
        gap, numbered = keyed.gap(), dense.gap()
        assert gap[:3] == numbered[:3]
        of_keys = [keys[number] for number in numbered[3:]]
        assert list(gap[3:]) == [keyed.key_names.get(key, key) for key in of_keys]


@examples(20)
@given(batches_with_groups())
def test_one_group_is_asked_for_as_it_is_written(batch: Any) -> None:
    """`group` is an integer or a text; one without a query has no value."""
    keys, _, dense = pair(batch)
    every = dict(zip(map(key_by_hand, batch[3]), batch[3], strict=True))
    for key, value in zip(keys, dense.compute(), strict=bool(keys)):
        alone = Grouped(AccuracyAtK(2), group=every[key])
        alone.update(*batch[:3], as_groups(batch[3]))
        assert same(alone.compute(), value)
    absent = updated(Grouped(AccuracyAtK(2), group="nobody"), *batch[:3], as_groups(batch[3]))
    assert absent.compute().isnan()


@pytest.mark.filterwarnings("ignore:.*was called before the ``update``")
@examples(20)
@given(batches_with_groups(), st.lists(st.integers(0, 12), max_size=3), st.randoms())
def test_no_way_to_a_state_by_key_changes_it(batch: Any, cuts: list[int], random: Any) -> None:
    """Splits, empty batches, any order, `forward`, `merge_state`, copies, and saved states."""
    scores, target, mask, groups = batch
    order = list(range(len(groups)))
    random.shuffle(order)
    whole = updated(Grouped(MRR()), scores, target, mask, as_groups(groups))
    edges = [0, *sorted(min(x, len(order)) for x in cuts), len(order)]
    parts = [order[a:b] for a, b in pairwise(edges)]
    split, merged = Grouped(MRR()), Grouped(MRR())
    split.compute_with_cache = merged.compute_with_cache = False
    for number, rows in enumerate(parts):
        given = as_groups([groups[row] for row in rows] or [7])
        rows_given = scores[rows], target[rows], mask[rows], given[: len(rows)]
        if number % 2 and mask[rows].any():
            assert same(split(*rows_given), updated(Grouped(MRR()), *rows_given).compute())
        else:
            split.update(*rows_given)
        other = updated(Grouped(MRR()), *rows_given)
        merged.merge_state(other if number % 2 else other.metric_state)
    saved = Grouped(MRR())
    saved.persistent(True)
    saved.update(scores[:1], target[:1], groups=[5])
    split.persistent(True)
    saved.load_state_dict(split.state_dict())
    copies = [split.clone(), copy.deepcopy(split), pickle.loads(pickle.dumps(split)), saved]
    for one in [split, merged, *copies, split.clone().half().to("cpu").double()]:
        assert torch.equal(one.state, whole.state)
        assert same(one.compute(), whole.compute())
    before = split.state.clone()
    split.clone().reset()
    assert torch.equal(split.state, before)
    split.reset()
    assert split.compute().shape == (0,)


def test_a_state_without_values_becomes_empty() -> None:
    """`to_empty` after `meta` keeps no group; from another device it keeps all."""
    grouped = updated(Grouped(MRR()), torch.eye(3), torch.arange(3), groups=["a", "b", "7"])
    moved = Grouped(MRR(validate_args=False)).to("meta")
    for _ in range(2):
        numbers = torch.arange(3, device="meta")
        moved.update(torch.eye(3, device="meta"), numbers, groups=numbers)
    assert moved.state_dict() == {}
    emptied = moved.to_empty(device="cpu")
    assert emptied.state.shape == (0, 4)
    emptied.update(torch.eye(3), torch.arange(3), groups=["a", "b", "7"])
    assert torch.equal(emptied.state, grouped.state)
    kept = grouped.clone().to_empty(device="cpu")
    assert torch.equal(kept.state, grouped.state)


# Beside dense states, and in collections ----------------------------------------------------------


def test_keyed_and_dense_states_are_never_mixed() -> None:
    """Neither merged nor loaded: an error names the number that one of them has."""
    pairs: list[tuple[str, Any, Any]] = [
        ("num_groups", Grouped(MRR()), Grouped(MRR(), 3)),
        ("num_locations", LocationF1(), LocationF1(3)),
        ("num_locations", LocationF1(average="macro"), LocationF1(3)),
    ]
    for name, keyed, dense in pairs:
        groups = {"groups": [0, 1]} if name == "num_groups" else {}
        for one, other in ((keyed, dense), (dense, keyed)):
            for metric in (one, other):
                metric.persistent(True)
                metric.reset()
                metric.update(torch.tensor([[0], [1]]), torch.tensor([0, 1]), **groups)
            before = one.state.clone()
            for way in (
                lambda one=one, other=other: one.merge_state(other),
                lambda one=one, other=other: one.merge_state(other.metric_state),
                lambda one=one, other=other: one.load_state_dict(other.state_dict()),
            ):
                with pytest.raises((ValueError, RuntimeError), match=name):
                    way()
            assert torch.equal(one.state, before)


def test_text_for_labels_and_for_keys_is_an_error() -> None:
    """Of one kind of groups, text is numbered by labels or a key, and not both."""
    metrics = RankingCollection(
        {"k": Grouped(MRR(), by="user"), "l": Grouped(MRR(), by="user", labels=["a", "b"])}
    )
    lists, target = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 0])
    with pytest.raises(TypeError, match=r"leave `num_groups` out, or pass the same `labels="):
        metrics.update(lists, target, groups={"user": ["a", "b"]})
    assert metrics["k"].num_queries.numel() == 0
    metrics.update(lists, target, groups={"user": [1, 0]})
    assert torch.equal(metrics["k"].compute(), metrics["l"].compute())


@pytest.mark.parametrize("kind", [RankingCollection, MetricCollection])
def test_members_of_a_collection_share_entries(kind: Any) -> None:
    """Updates, `forward`, a reset of one and of all: each member is as it is alone."""

    def make() -> dict[str, Any]:
        return {
            "vector": Grouped(AccuracyAtK(1)),
            "mean": Grouped(AccuracyAtK(1), average="groups"),
            "f1": LocationF1(),
            "recall": LocationRecall(average="macro"),
        }

    metrics, alone = kind(make()), make()
    for number in range(5):
        scores = torch.randint(4, (9, LOCATIONS)).float()
        target, groups = torch.randint(LOCATIONS, (9,)), torch.randint(-2, 3, (9,))
        for metric in alone.values():
            grouped = {"groups": groups} if isinstance(metric, Grouped) else {}
            metric.update(scores, target, **grouped)
        (metrics if number in (1, 3) else metrics.update)(scores, target, groups=groups)
        values = metrics.compute()
        for name, metric in alone.items():
            assert same(values[name], metric.compute()), (number, name)
    assert sorted(map(sorted, metrics.compute_groups.values())) == [
        *(["f1", "recall"], ["mean", "vector"])
    ]
    members = dict(metrics.items(copy_state=False))
    before = members["mean"].state.clone()
    members["vector"].reset()
    assert torch.equal(members["mean"].state, before)
    metrics.reset()
    assert metrics["mean"].state.shape == (0, 4)


# Locations ----------------------------------------------------------------------------------------


def test_the_preset_needs_no_number() -> None:
    """With ids of any size, up to 2^63 - 1."""
    metrics = next_location_metrics()
    ids = torch.tensor([[2**63 - 1, 7], [7, FAR]])
    metrics.update(ids, torch.tensor([2**63 - 1, FAR]))
    assert float(metrics.compute()["f1"]) == 0.5
    assert metrics["f1"].counts.sum(1).tolist() == [1, 2, 2]
    assert len(metrics["f1"].locations) == 3


# Tables and pictures ------------------------------------------------------------------------------


def test_tables_and_pictures_write_names() -> None:
    """Integers by number, then text by its letters, in both."""
    pytest.importorskip("matplotlib").use("Agg")
    from nextloc_metrics.report import plotting

    lists = torch.tensor([[0, 1]]).expand(4, 2)
    target = torch.tensor([0, 1, 0, 1])
    by_user = Grouped(AccuracyAtK(1), by="user")
    metrics = RankingCollection({"hit": by_user})
    metrics.update(lists, target, groups={"user": ["bob", "12", "ann", "-3"]})
    rows = {row["metric"]: row["value"] for row in metrics.table().records}
    assert rows == {"hit, -3": 0, "hit, 12": 0, "hit, ann": 1, "hit, bob": 1}
    assert list(rows) == ["hit, -3", "hit, 12", "hit, ann", "hit, bob"]
    _, axes = plotting.by_group({"model": by_user})
    assert [x.get_text() for x in axes.get_xticklabels()] == [
        *("-3\n(1)", "12\n(1)", "ann\n(1)", "bob\n(1)")
    ]
    _, axes = by_user.plot()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["user -3", "user 12", "user ann", "user bob"]


def test_names_come_along_with_a_state() -> None:
    """In a merge, in copies, and in checkpoints."""
    lists, target = torch.tensor([[0, 1]]), torch.tensor([0])
    one = updated(Grouped(MRR()), lists, target, groups=["ann"])
    one.merge_state(updated(Grouped(MRR()), lists, target, groups=["bob"]))
    for metric in (one, one.clone(), pickle.loads(pickle.dumps(one))):
        assert sorted(metric.key_names.values()) == ["ann", "bob"]
    one.persistent(True)
    resumed = Grouped(MRR())
    resumed.load_state_dict(one.state_dict())
    assert sorted(resumed.key_names.values()) == ["ann", "bob"]
    fallback = updated(Grouped(MRR(), by="user"), lists, target, groups=["ann"])
    assert list(fallback.key_names.values()) == ["ann"]
    assert MRR().key_names == {}


def test_an_update_sorts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of metrics alone and of a collection after its first batch; the next value sorts all."""
    alone, metrics = [Grouped(MRR()), LocationF1()], next_location_metrics()
    metrics.update(torch.eye(3), torch.arange(3))

    def refuse(keys: Any) -> Any:
        raise AssertionError("entries are sorted")

    with monkeypatch.context() as patched:
        patched.setattr("nextloc_metrics.core.means.keyed_sums.sort_rows", refuse)
        for _ in range(3):
            alone[0].update(torch.eye(3), torch.arange(3), groups=["a", "b", "c"])
            for metric in (alone[1], metrics):
                metric.update(torch.eye(3), torch.arange(3))
        with pytest.raises(AssertionError, match="sorted"):
            alone[0].compute()
    assert alone[0].num_queries.tolist() == [3, 3, 3]
    assert metrics["f1"].num_queries == 12
