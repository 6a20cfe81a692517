"""Collections and presets: one ranking for all members, fixed keys, all or nothing."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy

from inner import ClickThroughCollection
from metric_tester import LOCATIONS
from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    DecileKForRecall,
    F1AtK,
    LocationF1,
    LocationPrecision,
    LocationRecall,
    MAPAtK,
    NDCGAtK,
    Perplexity,
    PopularityBins,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    RankingMetric,
    RecallAtK,
    backends,
    libcity_metrics,
    next_location_metrics,
    recommendation_metrics,
)
from strategies import batch, same, states, updated

NEXT = ["acc_at_1", "acc_at_5", "acc_at_10", "mrr", "ndcg_at_10", "f1"]
RECOMMENDED = [
    f"{name}_at_{k}"
    for k in (5, 10)
    for name in ("precision", "recall", "hit_rate", "mrr", "map", "ndcg")
]
BEFORE_DATA = "ignore:The ``compute`` method of metric:UserWarning"
Make = Callable[..., RankingCollection]
PRESETS = pytest.mark.parametrize(
    ("make", "keys"),
    [
        (lambda **o: next_location_metrics(LOCATIONS, **o), NEXT),
        (recommendation_metrics, RECOMMENDED),
    ],
    ids=["next_location", "recommendation"],
)


# Keys --------------------------------------------------------------------------------------------


LIBCITYS = ("Precision", "Recall", "F1", "MRR", "MAP", "NDCG")


@pytest.mark.parametrize(
    ("make", "keys"),
    [
        (lambda: next_location_metrics(LOCATIONS), NEXT),
        (
            lambda: next_location_metrics(
                LOCATIONS, (3, 20, 5), separator="@", prefix="val/", postfix="_nyc"
            ),
            [f"val/{key}_nyc" for key in ("acc@3", "acc@20", "acc@5", "mrr", "ndcg@20", "f1")],
        ),
        (lambda: recommendation_metrics(k=(10, 5)), RECOMMENDED[6:] + RECOMMENDED[:6]),
        # no dot, which a module's name cannot have, but the papers' `@`
        (
            lambda: libcity_metrics(k=(5, 1), prefix="val/"),
            [f"val/{name}@{k}" for k in (5, 1) for name in LIBCITYS],
        ),
    ],
)
def test_keys_of_the_presets(make: Make, keys: list[str]) -> None:
    """The keys follow the options, in their order, and are the same in every result and copy."""
    metrics = make()
    copies = metrics.clone(), pickle.loads(pickle.dumps(metrics))
    results = [metrics(*batch()), *(updated_collection(x).compute() for x in (metrics, *copies))]
    assert list(metrics.keys()) == list(dict(metrics.items())) == keys
    for values in results:
        assert list(values) == keys
        assert all(value.shape == () and value.dtype == torch.float32 for value in values.values())


def updated_collection(metrics: RankingCollection) -> RankingCollection:
    """The collection after one update."""
    metrics.update(*batch())
    return metrics


def test_members_of_recommendation_metrics_are_what_their_keys_say() -> None:
    """Each value equals the metric of that name."""
    preds, relevant = torch.randint(5, (9, 30)).float(), torch.rand(9, 30) < 0.2
    values = recommendation_metrics()(preds, relevant)
    makes: dict[str, Callable[[int], Metric]] = {
        "precision": PrecisionAtK,
        "recall": RecallAtK,
        "hit_rate": AccuracyAtK,
        "mrr": MRR,
        "map": MAPAtK,
        "ndcg": NDCGAtK,
    }
    for name, make in makes.items():
        for k in (5, 10):
            alone = updated(make(k), preds, relevant).compute()
            assert same(values[f"{name}_at_{k}"], alone)


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("kind", [MetricCollection, RankingCollection])
def test_scores_of_decisions_share_one_state(kind: type[MetricCollection]) -> None:
    """F1, precision and recall count the same; a subclass with a tally of its own does not."""

    class FirstOnly(LocationF1):
        def tally(self, ranking: Ranking) -> Tensor:
            return super().tally(ranking[:1])

    makes: dict[str, Callable[[], Any]] = {
        "f1": lambda: LocationF1(LOCATIONS, average="macro"),
        "precision": lambda: LocationPrecision(LOCATIONS, average=None),
        "recall": lambda: LocationRecall(LOCATIONS),
        "other": lambda: LocationRecall(LOCATIONS + 1),
        "own": lambda: FirstOnly(LOCATIONS),
    }
    together = kind({name: make() for name, make in makes.items()})
    alone = {name: make() for name, make in makes.items()}
    for _ in range(3):
        preds, target = batch()
        together.update(preds, target)
        for metric in alone.values():
            metric.update(preds, target)
    groups = sorted(sorted(names) for names in together.compute_groups.values())
    assert groups == [["f1", "precision", "recall"], ["other"], ["own"]]
    values = together.compute()
    assert all(same(values[name], metric.compute()) for name, metric in alone.items())


# What may be in it -------------------------------------------------------------------------------


def test_foreign_metrics_belong_elsewhere() -> None:
    """A metric of another library is refused with the remedy."""
    foreign = MulticlassAccuracy(num_classes=LOCATIONS)
    for members in ({"acc": foreign}, {"mrr": MRR(), "acc": foreign}, [foreign]):
        with pytest.raises(TypeError, match=r"MetricCollection") as raised:
            RankingCollection(members)
        assert "MulticlassAccuracy" in str(raised.value)
    collection = RankingCollection({"mrr": MRR()})
    with pytest.raises(TypeError, match="MetricCollection"):
        collection.add_metrics({"acc": foreign})
    assert list(collection.keys()) == ["mrr"]


@pytest.mark.parametrize("kind", [RankingCollection, ClickThroughCollection])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        *[(x, f"be no attribute of a .*, got '{x}'; .* as '{x}_value'")
          for x in ("keys", "items", "update", "compute", "forward", "prefix", "training")],
        ("acc.1", "have no dot, got 'acc.1'; .* as 'acc_1'"),
        *[(x, f"be text that is not empty, got {x!r}; .* as 'mrr'") for x in ("", 5, None, b"mrr")],
    ],
)  # fmt: skip
def test_a_name_that_no_member_can_have_is_refused(
    name: Any, says: str, kind: type[MetricCollection]
) -> None:
    """Whichever way the member comes, the error says its name, the rule and another name."""
    made = kind({"first": MRR()}, prefix="a.", postfix=".b")
    says = f"^the name of a member must {says}\\.$"
    with pytest.raises(ValueError, match=says):
        kind({"second": MRR(), name: MRR(1)})
    with pytest.raises(ValueError, match=says):
        made.add_metrics({name: MRR(1)})
    with pytest.raises(ValueError, match=says):
        made[name] = MRR(1)
    assert list(made) == ["a.first.b"]


def test_presets_name_the_end_or_separator_that_no_name_can_have() -> None:
    """A prefix or postfix that is no text and a separator with a dot are named with the rule."""
    with pytest.raises(ValueError, match=r"^`separator` must have no dot, .* got '\.'; .* '_'\.$"):
        next_location_metrics(LOCATIONS, separator=".")
    for end in ("prefix", "postfix"):
        with pytest.raises(ValueError, match=f"^`{end}` must be None or text, got 5\\.$"):
            next_location_metrics(LOCATIONS, **{end: 5})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^`prefix` must be None or text, got 5\."):
        next_location_metrics(LOCATIONS).clone(prefix=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"have no dot, got 'x\.b'"):
        RankingCollection([RankingCollection({"b": MRR()}, prefix="x.")])
    with pytest.raises(ValueError, match="no attribute of a RankingCollection, got 'rank'"):
        RankingCollection({"rank": MRR()})


def test_ignore_index_is_taken_from_the_members() -> None:
    """A member's own `ignore_index` holds inside a collection."""
    preds, target = batch(n=12)
    collection = RankingCollection(
        {"mrr": MRR(ignore_index=0), "f1": LocationF1(LOCATIONS, ignore_index=0)}
    )
    collection.update(preds, target)
    alone = updated(MRR(ignore_index=0), preds, target)
    assert same(collection.compute()["mrr"], alone.compute())
    assert collection["mrr"].num_queries == collection["f1"].num_queries == alone.num_queries
    assert alone.num_queries == int((target != 0).sum())
    preset = next_location_metrics(LOCATIONS, ignore_index=0)
    assert same(preset(preds, target)["mrr"], alone.compute())


def test_members_must_agree_on_ignore_index() -> None:
    """One ranking cannot ignore two things."""
    for other in (None, 1):
        with pytest.raises(ValueError, match="`ignore_index`"):
            RankingCollection({"one": MRR(ignore_index=0), "other": MRR(k=3, ignore_index=other)})
    collection = RankingCollection({"one": MRR(ignore_index=0)})
    with pytest.raises(ValueError, match="`ignore_index`"):
        collection.add_metrics({"other": AccuracyAtK(1)})
    assert list(collection.keys()) == ["one"]


# Updates -----------------------------------------------------------------------------------------


@PRESETS
def test_members_equal_separate_metrics(make: Make, keys: list[str]) -> None:
    """Through update, forward, compute between and reset."""
    metrics = make()
    separate = {key: copy.deepcopy(metric) for key, metric in metrics.items()}
    for step in range(5):  # the last is an update after a value
        preds, target = batch()
        mask = torch.rand(len(target)) < 0.7
        if step == 2:
            metrics.reset()
            for metric in separate.values():
                metric.reset()
        if step % 2:
            forwarded = metrics(preds, target, mask=mask)
            expected = {key: metric(preds, target, mask=mask) for key, metric in separate.items()}
            assert same(forwarded, expected)
        else:
            metrics.update(preds, target, mask=mask)
            for metric in separate.values():
                metric.update(preds, target, mask=mask)
        computed = {key: metric.compute() for key, metric in separate.items()}
        assert same(metrics.compute(), computed)
        assert all(
            metrics[key].num_queries == metric.num_queries for key, metric in separate.items()
        )


class Reads(TorchDispatchMode):
    """Counts the operations that read the scores."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.storage, self.count = scores.untyped_storage().data_ptr(), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at one operation."""
        self.count += any(
            isinstance(x, Tensor) and x.untyped_storage().data_ptr() == self.storage
            for x in tree_leaves((args, kwargs))
        )
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("way", ["update", "forward"])
@pytest.mark.parametrize("mask", [None, torch.arange(8) < 7])
def test_scores_are_read_no_more_often_for_more_members(
    way: str, mask: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six metrics look at the scores no more often than the two most different do.

    So it is with PyTorch's operations; the backend in C reads them in none.
    """
    monkeypatch.setattr(backends, "_chosen", [backends.Reference()])
    preds, target = torch.randn(8, 400), torch.randint(400, (8,))

    def reads(metric: Any) -> int:
        for _ in range(2):  # the first finds who shares a state, the second makes the tables
            metric.update(preds, target, mask)
        with Reads(preds) as counter:
            (metric.update if way == "update" else metric)(preds, target, mask)
        return counter.count

    alone = reads(AccuracyAtK(1)) + reads(LocationF1(400))
    assert alone > 0
    assert reads(next_location_metrics(400, k=(1, 2, 5, 10, 20))) <= alone


def test_a_ranking_in_place_of_scores() -> None:
    """A collection takes a `Ranking` that kept what its members need."""
    preds, target = batch()
    metrics, expected = next_location_metrics(LOCATIONS), next_location_metrics(LOCATIONS)
    expected.update(preds, target)
    metrics.update(Ranking.from_scores(preds, target, top=1))
    assert same(metrics.compute(), expected.compute())
    before = states(metrics)
    with pytest.raises(ValueError, match="make it with `top=1`"):
        metrics.update(Ranking.from_scores(preds, target))
    assert same(states(metrics), before)


@pytest.mark.parametrize("way", ["update", "forward"])
def test_all_or_nothing_in_the_middle(way: str) -> None:
    """An empty query that one member refuses changes no other, wherever that member stands."""
    strict = MRR(empty_target_action="error")
    for members in (
        {"a": AccuracyAtK(1), "b": strict, "c": F1AtK(2)},
        {"a": strict, "b": AccuracyAtK(1), "c": F1AtK(2)},
    ):
        metrics = RankingCollection({key: metric.clone() for key, metric in members.items()})
        metrics.update(torch.rand(2, 4), torch.tensor([[0, 1], [2, -1]]))
        before = states(metrics)
        with pytest.raises(ValueError, match="relevant"):
            (metrics.update if way == "update" else metrics)(
                torch.rand(2, 4), torch.tensor([[0, 1], [-1, -1]])
            )
        assert same(states(metrics), before)


@PRESETS
def test_reset_copies_and_moves(make: Make, keys: list[str]) -> None:
    """Reset, pickled, deep-copied, saved and moved collections go on."""
    metrics = make()
    metrics.update(*batch())
    later = batch()
    buffer = io.BytesIO()
    torch.save(metrics, buffer)
    buffer.seek(0)
    copies = [
        pickle.loads(pickle.dumps(metrics)),
        copy.deepcopy(metrics),
        metrics.clone(),
        torch.load(buffer, weights_only=False),
    ]
    assert metrics.to("cpu") is metrics
    metrics.half()
    metrics.set_dtype(torch.half)
    metrics.update(*later)
    for one in copies:
        assert type(one) is RankingCollection
        one.update(*later)
        assert same(states(one), states(metrics))
        assert same(one.compute(), metrics.compute())
    metrics.reset()
    assert all(metric.num_queries == 0 for metric in metrics.values())
    metrics.update(*later)
    fresh = make()
    fresh.update(*later)
    assert same(metrics.compute(), fresh.compute())


@PRESETS
@pytest.mark.filterwarnings(BEFORE_DATA)
def test_keys_without_data(make: Make, keys: list[str]) -> None:
    """Before data, and when nothing counts, every key is there and NaN."""
    metrics = make()
    assert all(value.isnan() for value in metrics.compute().values())
    preds, target = batch()
    nothing = torch.zeros(len(target), dtype=torch.bool)
    for values in (metrics(preds, target, mask=nothing), metrics.compute()):
        assert sorted(values) == sorted(keys)
        assert all(value.isnan() for value in values.values())


def test_what_cannot_be_clustered_is_refused_or_stays() -> None:
    """A median has no interval; that of a perplexity would not be by user."""
    bins = PopularityBins([1, 1, 2, 2])
    metrics = RankingCollection({"k": DecileKForRecall(bins, 1.0, decile=1), "hit": AccuracyAtK(1)})
    metrics.update(torch.tensor([[0, 1]]), torch.tensor([0]))
    clustered = metrics.clustered(labels=["ann", "bob"], by="who")
    clustered.update(torch.tensor([[0, 1], [2, 3]]), torch.tensor([0, 1]), groups=["bob", "ann"])
    assert clustered.compute()["hit"] == 0.5
    assert list(clustered.results(0.95).intervals) == ["hit"]
    with pytest.raises(TypeError, match=r"Perplexity.* has an interval that cannot be clustered"):
        RankingCollection([Perplexity(given="probabilities")]).clustered(2)
    by_key = metrics.clustered(by="who")
    by_key.update(torch.tensor([[0, 1], [2, 3]]), torch.tensor([0, 1]), groups=["bob", "ann"])
    same(by_key.compute(), clustered.compute())


def test_classes_of_one_name_are_never_merged() -> None:
    """Two classes that a function made under one name count apart, in either collection."""

    def make(places: int) -> RankingMetric:
        class Within(RankingMetric):
            def score(self, ranking: Ranking) -> Tensor:
                return (ranking.above[:, 0] < places).double()

        return Within()

    for collection in (RankingCollection, MetricCollection):
        metrics = collection({"one": make(1), "two": make(2)})
        metrics.update(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([2]))  # a miss for both
        metrics.update(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([1]))
        assert {name: float(value) for name, value in metrics.compute().items()} == {
            "one": 0.0,
            "two": 0.5,
        }
