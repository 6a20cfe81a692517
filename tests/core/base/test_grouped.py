"""A ranking metric of every group, against one plain metric a group."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import MetricCollection

from inner import GroupShare
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    Grouped,
    GroupLabels,
    MeanRank,
    NDCGAtK,
    NegativeLogLikelihood,
    PerQueryScores,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    RankingMetric,
    analysis,
)
from nextloc_metrics.base import Needs
from strategies import examples, same, state_name, updated

GROUPS, LOCATIONS = 4, 7
Maker = Callable[..., RankingMetric]
MAKERS: list[Maker] = [
    lambda **kwargs: AccuracyAtK(2, ties="pessimistic", **kwargs),
    lambda **kwargs: MRR(3, empty_target_action="neg", **kwargs),
    lambda **kwargs: NDCGAtK(3, gain="exponential", **kwargs),
    lambda **kwargs: PrecisionAtK(4, denominator="retrieved", **kwargs),
    lambda **kwargs: F1AtK(2, **kwargs),
]
every_metric = pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: repr(maker()))


def batch(n: int = 24) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores with ties and NaN, relevant ids, a mask, and groups of which one has no query."""
    scores = torch.randint(4, (n, LOCATIONS)).float()
    scores[torch.rand(n, LOCATIONS) < 0.05] = math.nan
    target = torch.randint(-1, LOCATIONS, (n, 2))
    return scores, target, torch.rand(n) < 0.8, torch.randint(GROUPS - 1, (n,))


def one_by_one(maker: Maker, *batches: tuple[Tensor, ...], **options: Any) -> Tensor:
    """The states `[GROUPS, 3]` of one plain metric per group."""
    states = []
    for group in range(GROUPS):
        metric = maker(**options)
        for scores, target, mask, groups in batches:
            metric.update(scores, target, mask & (groups == group))
        states.append(metric.state)
    return torch.stack(states)


def values_of(states: Tensor) -> Tensor:
    """The mean of every row of a state, in Python numbers."""
    means = [total / 2**32 / n if n else math.nan for total, _, n in states.tolist()]
    return torch.tensor(means)


# Values ------------------------------------------------------------------------------------------


@every_metric
@examples(4)
@given(seed=st.integers(0, 2**16))
def test_every_group_is_a_metric_of_its_own(maker: Maker, seed: int) -> None:
    """Each group's state is, to the bit, that of the plain metric of the group's queries."""
    torch.manual_seed(seed)
    batches = [batch(), batch(5), batch(1)]
    grouped = Grouped(maker(), GROUPS)
    for part in batches:
        grouped.update(*part)
    states = one_by_one(maker, *batches)
    assert torch.equal(grouped.state, states)
    assert same(grouped.compute(), values_of(states))
    assert grouped.compute()[-1].isnan()


@every_metric
def test_scalars_are_the_entries_of_the_vector(maker: Maker) -> None:
    """`group` gives one value, `average` the mean over the groups with data."""
    part = batch()
    vector = updated(Grouped(maker(), GROUPS), *part).compute()
    assert vector.shape == (GROUPS,)
    for group in range(GROUPS):
        scalar = updated(Grouped(maker(), GROUPS, group=group), *part).compute()
        assert scalar.shape == ()
        assert same(scalar, vector[group])
    mean = updated(Grouped(maker(), GROUPS, average="groups"), *part).compute()
    present = [float(value) for value in vector if not value.isnan()]
    assert mean.shape == ()
    assert float(mean) == pytest.approx(sum(present) / len(present), abs=1e-6)


def test_without_data_every_value_is_nan() -> None:
    """Vector, scalar and mean are NaN before the first query."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compute before update
        for options in ({}, {"group": 1}, {"average": "groups"}):
            value = Grouped(MRR(), GROUPS, **options).compute()
            assert value.isnan().all()
            assert value.shape == (() if options else (GROUPS,))


def test_metric_inside_is_left_alone() -> None:
    """The metric inside is not updated, and several Grouped may share it."""
    inner = MRR()
    one, two = Grouped(inner, GROUPS), Grouped(inner, GROUPS)
    scores, target, mask, groups = batch()
    one.update(scores, target, mask, groups)
    assert inner.num_queries == 0
    assert two.state.sum() == 0
    inner.update(scores, target, mask)
    assert torch.equal(one.state.sum(0), inner.state)
    one.reset()
    assert inner.num_queries > 0


# What is left out, and what is wrong ------------------------------------------------------------


def test_groups_of_rows_left_out_are_not_looked_at() -> None:
    """The group of a query that the mask or `ignore_index` excludes may be any number."""
    scores, target = torch.rand(4, LOCATIONS), torch.tensor([1, 2, 3, 4])
    groups, mask = torch.tensor([0, -5, 10**12, 2]), torch.tensor([True, False, False, True])
    rows = torch.tensor([0, 3])
    expected = updated(Grouped(MRR(), 3), scores[rows], target[rows], groups=groups[rows])
    masked = updated(Grouped(MRR(), 3), scores, target, mask, groups)
    assert torch.equal(masked.state, expected.state)
    ignored = torch.where(mask, target, -100)
    ignoring = updated(Grouped(MRR(ignore_index=-100), 3), scores, ignored, groups=groups)
    assert torch.equal(ignoring.state, expected.state)


def test_text_of_a_kind_that_no_member_reads_is_left_out() -> None:
    """A plain `MetricCollection` passes all kinds to each member, whatever it is grouped by."""
    names = GroupLabels(["ann", "bob"])
    members: Any = {
        "hour": Grouped(MRR(), 2, by="hour"),
        "of": Grouped(MRR(), labels=names, by="of"),
    }
    metrics = MetricCollection(members)
    groups: Any = {"hour": torch.tensor([0, 1]), "of": ["bob", "ann"]}
    metrics.update(torch.tensor([[1, 0], [0, 1]]), torch.tensor([1, 1]), groups=groups)
    values = {name: x.tolist() for name, x in metrics.compute().items()}
    assert values == {"hour": [1, 0.5], "of": [0.5, 1]}


# As a module, and in collections -----------------------------------------------------------------


def test_ranking_carries_its_groups() -> None:
    """Several metrics can use one Ranking with groups, or a part of it."""
    scores, target, mask, groups = batch()
    ranking = Ranking.from_scores(scores, target, mask).with_groups(groups)
    expected = updated(Grouped(MRR(), GROUPS), scores, target, mask, groups).state
    assert torch.equal(updated(Grouped(MRR(), GROUPS), ranking).state, expected)
    halves = Grouped(MRR(), GROUPS)
    halves.update(ranking[:9])
    halves.update(ranking[9:])
    assert torch.equal(halves.state, expected)
    without = Ranking.from_scores(scores, target, mask)
    assert torch.equal(updated(Grouped(MRR(), GROUPS), without, groups=groups).state, expected)


@pytest.mark.parametrize("kind", [RankingCollection, MetricCollection])
def test_groups_in_a_collection(kind: Any) -> None:
    """Vector, scalars and mean are right next to other members over several batches."""

    def members() -> dict[str, Any]:
        grouped: dict[str, Any] = {
            "vector": Grouped(AccuracyAtK(2), GROUPS),
            "mean": Grouped(AccuracyAtK(2), GROUPS, average="groups"),
            "one": Grouped(AccuracyAtK(2), GROUPS, group=1),
            "none": Grouped(AccuracyAtK(2), GROUPS, group=GROUPS - 1),
            "mrr_one": Grouped(MRR(), GROUPS, group=1),
        }
        if kind is MetricCollection:  # which takes one tensor for different groups
            grouped["more"] = Grouped(AccuracyAtK(2), GROUPS + 1, group=1)
        plain = {"mrr": MRR(), "acc": AccuracyAtK(2), "ndcg": NDCGAtK(3)}
        return grouped | plain

    metrics, alone = kind(members()), members()
    for number in range(4):
        scores, target, mask, groups = batch()
        if number == 0:
            scores = torch.full_like(scores, math.nan)  # states that all look alike
        for metric in alone.values():
            with_groups = {"groups": groups} if isinstance(metric, Grouped) else {}
            metric.update(scores, target, mask, **with_groups)
        if number == 2:
            metrics(scores, target, mask=mask, groups=groups)
        else:
            metrics.update(scores, target, mask=mask, groups=groups)
        computed = metrics.compute()
        for name, metric in alone.items():
            assert same(computed[name], metric.compute()), name
        if number == 1:
            metrics = metrics.clone()
    sharing = next(names for names in metrics.compute_groups.values() if "vector" in names)
    assert sorted(sharing) == ["mean", "none", "one", "vector"]
    metrics.reset()
    part = batch()
    metrics.update(part[0], part[1], mask=part[2], groups=part[3])
    fresh = updated(Grouped(AccuracyAtK(2), GROUPS), *part).compute()
    assert same(metrics.compute()["vector"], fresh)


def test_names_tell_apart_what_update_reads() -> None:
    """The metric inside and the number of groups are in the state's name; scalars share it."""

    def state_of(metric: Any) -> str:
        (name,) = metric.metric_state
        return str(name)

    base = state_of(Grouped(MRR(), 3))
    assert state_of(Grouped(MRR(), 3, group=1)) == base
    assert state_of(Grouped(MRR(), 3, average="groups")) == base
    others = [
        Grouped(MRR(), 4),
        Grouped(MRR(2), 3),
        Grouped(MRR(ties="optimistic"), 3),
        Grouped(MRR(ignore_index=0), 3),
        Grouped(MRR(empty_target_action="neg"), 3),
        Grouped(AccuracyAtK(2), 3),
    ]
    assert len({base, *map(state_of, others)}) == 1 + len(others)


def test_ignored_id_is_that_of_the_metric() -> None:
    """Members with different `ignore_index`, also inside a Grouped, are an error."""
    with pytest.raises(ValueError, match="ignore_index"):
        RankingCollection({"mrr": MRR(), "by": Grouped(MRR(ignore_index=0), GROUPS)})
    part = batch()
    grouped = updated(Grouped(MRR(ignore_index=0), GROUPS), *part)
    assert torch.equal(grouped.state, one_by_one(MRR, part, ignore_index=0))


def test_representation_is_the_code_that_makes_it() -> None:
    """`repr` names the metric inside and the options that were given."""
    assert repr(Grouped(MRR(5), 3)) == "Grouped(metric=MRR(k=5), num_groups=3)"
    assert repr(Grouped(MRR(), 3, group=0)) == "Grouped(metric=MRR(), num_groups=3, group=0)"


@pytest.mark.parametrize("form", ["argument", "ranking"])
def test_one_tensor_of_groups_is_not_taken_for_two_kinds(form: str) -> None:
    """Users and hours are different groups: an error, instead of hours counted as users."""
    metrics = RankingCollection(
        {"by_user": Grouped(AccuracyAtK(1), 535), "by_hour": Grouped(AccuracyAtK(1), 24)}
    )
    scores, target, hours = torch.rand(3, LOCATIONS), torch.tensor([1, 2, 3]), torch.arange(3)
    ranking = Ranking.from_scores(scores, target).with_groups(hours)
    given = {
        "argument": {"preds": scores, "target": target, "groups": hours},
        "ranking": {"preds": ranking},
    }[form]
    for way in (metrics.update, metrics):
        with pytest.raises(ValueError, match=r"one kind of `Grouped`.*24.*535.*give each a `by=`"):
            way(**given)
    assert metrics["by_user"].num_queries.sum() == 0


@pytest.mark.parametrize("num_groups", [1, 2])
def test_the_shape_does_not_depend_on_the_number_of_groups(num_groups: int) -> None:
    """The value, its bounds and the result of `forward` keep the dimension of one group."""
    by_group = Grouped(MRR(), num_groups)
    batch = torch.rand(3, LOCATIONS), torch.tensor([1, 2, 3])
    value = by_group(*batch, groups=torch.zeros(3, dtype=torch.int64))
    for found in (value, by_group.compute(), by_group.compute(), *by_group.interval()):
        assert found.shape == (num_groups,)
    metrics = RankingCollection({"mrr": Grouped(MRR(), num_groups)})
    metrics.update(*batch, groups=torch.zeros(3, dtype=torch.int64))
    assert metrics.compute()["mrr"].shape == (num_groups,)


# Groups by name, and their labels ----------------------------------------------------------------


def test_several_kinds_of_groups_have_names() -> None:
    """Each member reads its own groups among several kinds, also from arrays and lists."""
    scores, target = torch.rand(4, LOCATIONS), torch.tensor([1, 2, 3, 0])
    users, hours = torch.tensor([0, 1, 2, 0]), torch.tensor([23, 0, 0, 23])
    metrics = RankingCollection(
        {
            "u": Grouped(AccuracyAtK(1), 3, by="user"),
            "h": Grouped(AccuracyAtK(1), 24, by="hour"),
            "mrr": MRR(),
        }
    )
    for groups in (
        {"user": users, "hour": hours, "day": users},
        {"user": users.numpy(), "hour": hours.tolist()},
    ):
        metrics.update(scores, target, groups=groups)
        metrics(scores, target, groups=groups)
    for name, number, own in (("u", 3, users), ("h", 24, hours)):
        alone = Grouped(AccuracyAtK(1), number)
        for _ in range(4):
            alone.update(scores, target, groups=own)
        assert torch.equal(metrics[name].state, alone.state)
    ranking = Ranking.from_scores(scores, target).with_groups({"user": users, "hour": hours})
    assert ranking[1:3].group_of("hour").tolist() == [0, 0]
    metrics.update(ranking.to("cpu"))
    assert int(metrics["u"].num_queries.sum()) == 20


def test_the_name_of_a_kind_is_part_of_the_state_and_labels_are_not() -> None:
    """Groups of users and the same number of hours are never merged."""
    user, hour = Grouped(MRR(), 2, by="user"), Grouped(MRR(), 2, by="hour")
    assert state_name(user) != state_name(hour)
    labelled = Grouped(MRR(), by="user", labels=["alice", "bob"])
    assert state_name(labelled) == state_name(user)
    assert labelled.num_groups == 2
    assert labelled.group_kind.names == ["alice", "bob"]
    assert user.group_kind.names == ["0", "1"]
    assert "alice" in repr(labelled)


@pytest.mark.parametrize("kind", ["list", "array", "pandas", "polars"])
def test_groups_may_be_text_where_there_are_labels(kind: str) -> None:
    """Two batches in which users come in another order fill the same groups."""
    labels = GroupLabels.from_values(["carol", "alice", "bob", "alice"])
    assert list(labels.names) == ["alice", "bob", "carol"]
    assert list(GroupLabels.sorted(["10", "-1", "2", "-3"]).names) == ["-3", "-1", "2", "10"]
    assert list(GroupLabels.sorted(["1", "01", "\u0662", "0"]).names) == ["0", "01", "1", "\u0662"]
    for text in ("", "2\n3", "--2", "2-", "\u00b2", " 2", "2\n"):  # no number, nor are the others
        assert list(GroupLabels.sorted(["10", "9", text]).names) == sorted(["10", "9", text])
    assert GroupLabels.sorted([]).names == ()

    def make(names: list[str]) -> Any:
        if kind == "array":
            return np.array(names)
        return names if kind == "list" else pytest.importorskip(kind).Series(names)

    scores, target = torch.eye(3)[[0, 0, 1]], torch.tensor([0, 1, 1])
    grouped = Grouped(AccuracyAtK(1), by="user", labels=labels)
    grouped.update(scores, target, groups={"user": make(["bob", "carol", "bob"])})
    grouped.update(scores, target, groups=make(["alice", "bob", "carol"]))
    assert grouped.num_queries.tolist() == [1, 3, 2]
    assert grouped.compute().tolist() == pytest.approx([1, 2 / 3, 0.5])
    with pytest.raises(ValueError, match=r"among the 3 labels, got 'dave' in row 1"):
        grouped.update(scores, target, groups=make(["alice", "dave", "carol"]))
    assert grouped.num_queries.tolist() == [1, 3, 2]
    assert GroupLabels(["a"]).number([]).tolist() == []
    restored = pickle.loads(pickle.dumps(grouped))
    assert restored.labels == labels
    assert torch.equal(restored.state, grouped.state)


@pytest.mark.parametrize(
    "groups", [torch.tensor([0, 1]), {"user": torch.tensor([0, 1])}, ["ann", "bob"]]
)
def test_groups_that_no_member_reads_are_refused(groups: Any) -> None:
    """By `update` and `forward` of a collection; a metric of one's own may read them."""
    lists, target = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 0])
    metrics = RankingCollection([MRR(), AccuracyAtK(1)])
    for add in (metrics.update, metrics):
        with pytest.raises(ValueError, match="`groups` must be None without a metric that reads"):
            add(lists, target, groups=groups)
    assert metrics["MRR"].num_queries == 0

    class Own(AccuracyAtK):
        """A metric that says that it reads groups."""

        needs = Needs(groups=True)

    if not isinstance(groups, list):
        RankingCollection([Own(1)]).update(lists, target, groups=groups)
        read = RankingCollection([GroupShare(1, by="user"), MRR()])
        read.update(lists, target, groups={"user": torch.tensor([0, 1])})
        assert float(read.compute()["GroupShare"]) == 0.5


def test_moves_are_groups() -> None:
    """The accuracy of the baseline of staying is 1 where queries stay, and 0 where they move."""
    previous, target = torch.tensor([2, 0, 1, 1]), torch.tensor([2, 1, 1, 0])
    grouped = Grouped(AccuracyAtK(1), 2, by="moved")
    moved = (target != previous).long()
    grouped.update(analysis.last_location(previous, 3), target, groups={"moved": moved})
    assert grouped.compute().tolist() == [1, 0]
    assert analysis.last_location([-1], 2).tolist() == [[0, 0]]


def test_the_gap_by_hand() -> None:
    """The bounds are those of Wilson's intervals with a third of the error probability."""
    grouped, accuracy = Grouped(AccuracyAtK(1), 4), AccuracyAtK(1)
    bounds = []
    for group, hits in ((0, 30), (1, 50), (3, 45)):
        lists, target = torch.zeros(60, 1, dtype=torch.long), torch.arange(60).ge(hits).long()
        grouped.update(lists, target, groups=torch.full((60,), group))
        accuracy.reset()
        accuracy.update(lists, target)
        bounds.append([float(x) for x in accuracy.interval(1 - 0.05 / 3)])
    gap = grouped.gap()
    (low0, high0), (low1, high1), _ = bounds
    assert (gap.highest, gap.lowest) == (1, 0)
    assert gap[:3] == pytest.approx((20 / 60, low1 - high0, high1 - low0), abs=1e-6)
    gaps = []
    for base in (None, 2):
        loss = Grouped(NegativeLogLikelihood(given="probabilities", base=base), 2)
        sure = torch.tensor([[0.9, 0.1]] * 4 + [[0.2, 0.8], [0.3, 0.7]] * 2)
        loss.update(sure, [0] * 8, groups=torch.arange(8) // 4)
        gaps.append(loss.gap()[:3])
    assert gaps[0][1] > 0
    assert gaps[1] == pytest.approx([x / math.log(2) for x in gaps[0]])  # bits
    ranks = Grouped(MeanRank(), 2)
    ranks.update(torch.tensor([[3, 1], [3, 1]]), torch.tensor([3, 1]), groups=torch.tensor([1, 0]))
    assert ranks.gap()[:2] == (1.0, 0.0)
    assert ranks.gap().high == float("inf")  # a group with one query


def test_options_of_torchmetrics_are_those_of_the_metric() -> None:
    """A process that counts alone does so by groups, too; an option of its own goes first."""
    options: dict[str, Any] = {
        "sync_on_compute": False,
        "process_group": "one of several",
        "compute_with_cache": False,
        "compute_on_cpu": True,
        "dist_sync_on_step": True,
        "distributed_available_fn": lambda: False,
    }
    metric = MRR(**options, dist_sync_fn=lambda state, group: [state])
    clustered = RankingCollection({"mrr": metric}).clustered(2)["mrr"]
    for made in (Grouped(metric), Grouped(metric, 2), clustered, PerQueryScores(metric)):
        assert {name: getattr(made, name) for name in options} == options
    for made in (Grouped(metric), clustered):
        assert made.dist_sync_fn is metric.dist_sync_fn  # that of rows differs
    assert Grouped(metric, sync_on_compute=True).sync_on_compute
    assert Grouped(MRR()).sync_on_compute
