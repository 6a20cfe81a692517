"""A metric of something else than ranks: a record of one float per query, and a mean of it."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, tensor
from torchmetrics import MetricCollection
from torchmetrics.retrieval import RetrievalMRR

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    Grouped,
    MeanMetric,
    PerQueryScores,
    Ranking,
    RankingCollection,
    RankingMetric,
)
from nextloc_metrics.base import Needs, Queries, Record

SCORES = tensor([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])
TARGET, USER = tensor([0, 0, 0, 0]), tensor([0, 0, 1, 1])


@dataclass(eq=False)
class Margin(Record):
    """By how much the best candidate leads."""

    queries: Queries
    lead: Tensor  #: floating `[N]`

    @classmethod
    def read(cls, batch: Any, needs: Needs) -> Margin:
        """Subtract the two highest scores of every query."""
        first, second = batch.preds.flatten(0, -2).topk(2).values.unbind(1)
        counted = torch.ones_like(first, dtype=torch.bool)
        return cls(Queries(batch.preds.shape[:-1], counted), (first - second).double())


class MeanMargin(MeanMetric):
    """The mean lead of the best candidate."""

    record = Margin

    def score(self, record: Margin) -> tuple[Tensor, Tensor]:
        """Return the leads."""
        return record.lead, record.counted


def test_a_record_of_ones_own_has_all_that_means_have() -> None:
    """One collection with metrics of ranks; groups, an interval, a table, scores of queries."""
    grouped = Grouped(MeanMargin(), 2, by="user")
    members = {"acc": AccuracyAtK(1), "margin": MeanMargin(), "by_user": grouped}
    metrics = RankingCollection(members)
    for rows in (slice(0, 3), slice(3, 4)):
        metrics.update(SCORES[rows], TARGET[rows], groups={"user": USER[rows]})
    values = metrics.compute()
    assert values["acc"] == 2.5 / 4
    assert values["margin"] == (0.5 + 0 + 0.5 + 1) / 4
    assert values["by_user"].tolist() == [0.25, 0.75]
    low, high = members["margin"].interval()
    assert low < values["margin"] < high
    assert [row[:2] for row in metrics.table(intervals=True).rows][1] == ("margin", "50.00")
    single = PerQueryScores(MeanMargin())
    single.update(SCORES, TARGET, query_ids=tensor([3, 1, 0, 2]))
    assert single.compute().scores.tolist() == [0.5, 0.0, 1.0, 0.5]


def test_what_a_record_refuses_changes_no_member() -> None:
    """All members check a batch before any is updated, whatever they read."""
    metrics = RankingCollection({"acc": AccuracyAtK(1), "margin": MeanMargin()})
    with pytest.raises(RuntimeError, match="out of range"):  # `Margin.read` needs two candidates
        metrics.update(SCORES[:, :1], TARGET)
    assert metrics["acc"].num_queries == metrics["margin"].num_queries == 0


class OfAdults(RankingMetric):
    """Reciprocal ranks of queries whose `age` is at least 18; 0 for others."""

    def score(self, ranking: Ranking) -> Tensor:
        """Read what `extra` holds beside the ranks."""
        found = 1.0 / (1 + ranking.above[:, 0])
        return found.double() * (ranking.queries.extra["age"] >= 18)


def test_a_score_reads_what_the_user_adds_to_each_query() -> None:
    """`extra` goes with its queries: in a collection, under a mask, in a part of a record."""
    scores, target = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]]), torch.tensor([[0, 0]])
    metric, ages = OfAdults(), [[30, 40]]
    metric.update(scores, target, extra={"age": ages})
    assert metric.compute().item() == 0.75  # ranks 1 and 2
    collection = RankingCollection({"own": OfAdults(), "mrr": MRR()})
    collection.update(scores, target, mask=[[True, False]], extra={"age": [[17, 99]]})
    assert {name: x.item() for name, x in collection.compute().items()} == {"own": 0, "mrr": 1}
    record = metric.read(scores, target, extra={"age": ages, "pair": torch.zeros(1, 2, 2)})
    assert record[1:].queries.extra["age"].tolist() == [40]
    assert record.queries.extra["pair"].shape == (2, 2)
    with pytest.raises(ValueError, match=r"`extra\['age'\]` must have the shape of the queries"):
        metric.update(scores, target, extra={"age": [30, 40]})
    with pytest.raises(TypeError, match="`extra` must be a dict with names as keys"):
        metric.update(scores, target, extra=[30])
    assert metric.num_queries == 2


def test_arguments_of_an_update_are_named() -> None:
    """In the signature, by which TorchMetrics sends each metric its own; others are refused."""
    names = [*inspect.signature(MRR().update).parameters]
    assert names[:4] == ["preds", "target", "mask", "groups"]
    assert names[4:] == ["exclude", "exempt_target", "confidence", "extra"]
    plain = MetricCollection({"ours": MRR(), "theirs": RetrievalMRR()})
    scores, target = torch.tensor([0.9, 0.1]), torch.tensor([True, False])
    plain.update(scores, target, indexes=torch.tensor([0, 0]))
    assert {name: x.item() for name, x in plain.compute().items()} == {"ours": 1, "theirs": 1}
    for metric in (MRR(), RankingCollection([MRR()])):
        with pytest.raises(TypeError, match="unexpected keyword argument 'exlude'"):
            metric.update(scores, target, exlude=[0])


@dataclass
class Compared(Record):
    """A record that is compared by its fields, so that it has no hash."""

    queries: Queries
    lead: Tensor

    read = classmethod(Margin.read.__func__)  # type: ignore[attr-defined]


@dataclass(eq=False, slots=True)
class Slotted(Record):
    """A record without a place for weak references."""

    queries: Queries
    lead: Tensor

    read = classmethod(Margin.read.__func__)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Compared, Slotted])
def test_any_dataclass_is_a_record(kind: type[Record]) -> None:
    """Also one that cannot be a key of a dict."""

    class Lead(MeanMargin):
        """The same mean of another record."""

        record = kind
        needs = {"lead"}  # noqa: RUF012  # needs of one's own, which need no hash

    metrics = RankingCollection({"lead": Lead(), "acc": AccuracyAtK(1)})
    metrics.update(SCORES, TARGET)
    assert metrics.compute()["lead"] == (0.5 + 0 + 0.5 + 1) / 4


class Half(RankingMetric):
    """Half of what another metric scores."""

    other: MeanMetric

    def score(self, ranking: Ranking) -> Tensor:
        """Ask the other metric."""
        return self.other.scores_of(ranking)[0] / 2


class Reciprocal(RankingMetric):
    """The reciprocal rank, as a score."""

    def score(self, ranking: Ranking) -> Tensor:
        """Read the ranks of one relevant location."""
        return 1.0 / (1 + ranking.above[:, 0].double())


@pytest.mark.parametrize("other", [MRR(), MRR(ties="pessimistic"), Reciprocal()], ids=repr)
def test_a_score_may_ask_for_those_of_another_member(other: MeanMetric) -> None:
    """Which is scored once for itself, wherever it stands in the collection."""
    alone = other.clone()
    alone.update(SCORES, TARGET)
    for order in (("halved", "other"), ("other", "halved")):
        made = {"halved": Half(other.clone()), "other": other.clone()}
        metrics = RankingCollection({name: made[name] for name in order})
        metrics.update(SCORES, TARGET)
        values = metrics.compute()
        assert values["other"] == 2 * values["halved"] == alone.compute() > 0


class Some(MeanMargin):
    """A mean over the queries that `counts` says."""

    counts: object = None

    def score(self, record: Margin) -> Any:
        """Return the leads, and the option."""
        return record.lead, self.counts


@pytest.mark.parametrize(
    "counts", [torch.ones(4), torch.ones(1, dtype=torch.bool), torch.ones(4, 1).bool(), [True] * 4]
)
def test_which_queries_count_is_one_bool_for_each(counts: object) -> None:
    """Another shape would be broadcast, and count a query for others."""
    metric = Some(counts)
    with pytest.raises(ValueError, match=r"`score` of .* which queries count, bool of shape"):
        metric.update(SCORES, TARGET)
    assert metric.num_queries == 0


class Logged(AccuracyAtK):
    """A metric whose `tally` looks like that of its base."""

    @functools.wraps(AccuracyAtK.tally)
    def tally(self, record: Ranking) -> Tensor:
        """Count each query twice."""
        return 2 * super().tally(record)  # type: ignore[no-any-return]


def test_a_wrapped_tally_is_called() -> None:
    """`functools.wraps` copies what the base says of its own."""
    metric = Logged(1)
    metric.update(SCORES, TARGET)
    assert metric.num_queries == 8
