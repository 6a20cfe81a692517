"""The public interface as a user's typed program uses it: `mypy --strict` must accept it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from nextloc_metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    LocationF1,
    LocationPrecision,
    LocationRecall,
    MAPAtK,
    NDCGAtK,
    PerQueryScores,
    PrecisionAtK,
    Ranking,
    RankingCollection,
    RankingMetric,
    RecallAtK,
    analysis,
    click_through_metrics,
    functional,
    libcity_metrics,
    next_location_metrics,
    plotting,
    recommendation_metrics,
    report,
    scoring,
    tables,
    trajectories,
)
from nextloc_metrics.integrations.hugging_face import TrainerMetrics
from nextloc_metrics.integrations.libcity import ExactEvaluator


class Surely(RankingMetric):
    """A user's own metric."""

    def score(self, ranking: Ranking) -> Tensor:
        """Whether the first relevant location stands alone on the first place."""
        return ((ranking.above[:, 0] == 0) & (ranking.tied[:, 0] == 1)).double()


class Persistent(RankingMetric):
    """A user's own metric with an option."""

    persistence: float = 0.8

    def score(self, ranking: Ranking) -> Tensor:
        """Rank-biased precision of the first relevant location."""
        return (1 - self.persistence) * self.persistence ** ranking.above[:, 0].double()


class Later(RankingMetric):
    """A user's own metric with an `__init__`."""

    def __init__(self, after: int, **kwargs: Any) -> None:
        super().__init__(after=after, **kwargs)

    def score(self, ranking: Ranking) -> Tensor:
        """Whether the first relevant location is behind some ranks."""
        after: int = self._options["after"]
        return (ranking.above[:, 0] >= after).double()


def metrics() -> list[Metric]:
    """Every class with its options."""
    AccuracyAtK(5, tie="expected")  # type: ignore[call-arg]
    NDCGAtK(10, gain="cubic")  # type: ignore[arg-type]
    return [
        AccuracyAtK(5, dist_sync_on_step=True),
        AccuracyAtK(5, ties="pessimistic", ignore_index=0, validate_args=False),
        AccuracyAtK(k=5, empty_target_action="neg"),
        MRR(),
        MRR(k=10, ties="optimistic"),
        NDCGAtK(10, gain="exponential", ideal="full"),
        MAPAtK(10, normalizer="relevant"),
        PrecisionAtK(10, denominator="retrieved"),
        RecallAtK(10, normalized=True),
        F1AtK(10),
        LocationF1(100, average=None),
        LocationF1(num_locations=100, average="macro", ignore_index=-100),
        LocationPrecision(100, average="micro"),
        LocationRecall(100, average=None),
        Surely(),
        Surely(ties="optimistic", sync_on_compute=False),
        Persistent(),
        Persistent(0.5, ties="optimistic"),
        Later(3),
        Later(after=3, ties="optimistic"),
        trajectories.DTW(2.0, window=3, units="km"),
        trajectories.PointErrorAt(-1, dist_sync_on_step=True),
    ]


def use(preds: Tensor, target: Tensor) -> dict[str, float]:
    """Update, forward, compute and read."""
    metric = AccuracyAtK(5)
    metric.update(preds, target)
    metric.update(preds, target, mask=target > 0)
    metric.update(Ranking.from_scores(preds, target, target > 0, ignore_index=0, top=1)[:2])
    count: int = metric.num_queries
    metric.update(preds.numpy(), target.tolist(), exclude=[[0]], exempt_target=True)
    batch_value: Tensor = metric(preds, target)
    return {"count": float(count), "batch": float(batch_value), "all": float(metric.compute())}


def places(preds: Tensor, lists: Tensor, target: Tensor) -> Tensor:
    """Rankings and the scores of their queries."""
    by_scores: Ranking = Ranking.from_scores(preds, target)
    by_ranks: Ranking = Ranking.from_ranks([1, 4, 12], num_candidates=100)
    assert len(by_ranks) == 3
    by_lists: Ranking = Ranking.from_lists(lists, target, validate_args=False)
    settled: Ranking = by_scores.break_ties("optimistic").to(torch.device("cpu"))
    number: int = len(settled)
    above: Tensor = by_lists.above
    scores: list[Tensor] = [
        scoring.hits(settled, 5),
        scoring.accuracy(settled, 5),
        scoring.reciprocal_rank(settled),
        scoring.ndcg(settled, 5, gain="exponential", ideal="full"),
        scoring.average_precision(settled, 5, normalizer="relevant"),
        scoring.precision(settled, 5),
        scoring.recall(settled, 5, normalized=True),
        scoring.f1(settled, 5),
    ]
    return torch.stack(scores)[:, :number] + above.sum()


def collections() -> dict[str, Tensor]:
    """Presets, clones and plain collections."""
    preset: RankingCollection = next_location_metrics(100, k=(1, 5), ndcg_k=5, prefix="val/")
    other: RankingCollection = recommendation_metrics(k=(5,))
    city: RankingCollection = libcity_metrics((1, 5), ties="expected")
    clicks: MetricCollection = click_through_metrics(thresholds=200, threshold=0.3)
    own = RankingCollection({"surely": Surely(), "mrr": MRR()}, prefix="own/")
    plain = MetricCollection({"acc": AccuracyAtK(1), "mrr": MRR()})
    values: dict[str, Tensor] = preset.compute()
    return {
        **values,
        **other.compute(),
        **city.compute(),
        **clicks.compute(),
        **own.compute(),
        **plain.compute(),
    }


class Batch(NamedTuple):
    """What the Trainer passes."""

    predictions: Tensor
    label_ids: Tensor


def evaluations(preds: Tensor, target: Tensor, path: str) -> list[report.Evaluation]:
    """Options are known by name and type."""
    evaluator = report.Evaluator(k=(1, 5), num_locations=100, confidence_level=0.9)
    report.compare({"a": preds, "b": preds}, target, k=1, cluster=None)
    report.evaluate(preds, target, kmm=1)  # type: ignore[call-arg]
    report.Evaluator(k="far")  # type: ignore[arg-type]
    return [
        report.evaluate(preds, target, k=5, train_counts=[1, 2], given="logits"),
        report.evaluate(report.Source(path, preds="lists", vocabulary=["a", "b"]), workers=2),
        evaluator.result(),
    ]


def adapters() -> tuple[dict[str, Any], dict[str, float]]:
    """What other tools call."""
    compute_metrics = TrainerMetrics(next_location_metrics(3), causal=False)
    batch = Batch(predictions=torch.eye(3), label_ids=torch.arange(3))
    values: dict[str, Any] = compute_metrics(batch, compute_result=True)
    evaluator = ExactEvaluator({"metrics": ["MRR"], "topk": 5, "evaluate_method": "popularity"})
    return values, evaluator.evaluate()


def worth(preds: Tensor, target: Tensor) -> list[float]:
    """Intervals, chance, and comparisons of models."""
    preset = next_location_metrics(100)
    chance: dict[str, float] = analysis.chance(preset, num_candidates=100)
    skill: dict[str, Tensor] = analysis.skill(preset.compute_with_intervals(), chance)
    of_one: float = analysis.skill(0.3, analysis.chance(MRR(), 100, num_relevant=2))
    low, high = MRR().interval(confidence_level=0.9)
    kept = PerQueryScores(MRR())
    kept.update(preds, target, query_ids=torch.arange(len(target)))
    baseline: Tensor = functional.mrr(
        analysis.most_frequent([3, 1], len(target)), target, reduction="none"
    )
    scores = {"a": kept.compute().scores, "b": baseline}
    compared = report.compare(scores, groups={"user": target}, cluster="user")
    other: analysis.Comparison = compared.comparisons["b"]["score"]
    runs: analysis.Summary = analysis.summarize({"a": [0.1, 0.2], "b": baseline})
    return [
        float(skill["mrr"]),
        of_one,
        float(low + high),
        other.low,
        runs.p_values["a", "b"],
    ]


def shown(preset: RankingCollection) -> str:
    """Tables and pictures."""
    figure, _axes = preset.plot(together=True)
    plotting.side_by_side({"a": preset}, confidence_level=0.9, ax=figure.axes[0])
    plotting.accuracy_within_k(preset)
    table: tables.Table = preset.table(percent=False, intervals=True)
    return f"{table}{tables.side_by_side({'a': preset, 'b': preset})}"


def functions(preds: Tensor, target: Tensor) -> list[Tensor]:
    """Every function."""
    return [
        functional.accuracy_at_k(preds, target, k=5, ties="expected"),
        functional.mrr(preds, target, reduction="none"),
        functional.mrr(preds, target, target > 0, k=10),
        functional.ndcg_at_k(preds, target, k=5, gain="linear", ideal="truncated"),
        functional.map_at_k(preds, target, k=5, normalizer="min"),
        functional.precision_at_k(preds, target, k=5, denominator="k"),
        functional.recall_at_k(preds, target, k=5, normalized=False, ignore_index=0),
        functional.f1_at_k(preds, target, k=5, empty_target_action="neg"),
        functional.location_f1(preds, target, num_locations=100, average="macro"),
        functional.location_precision(preds, target, target > 0, num_locations=100, ignore_index=0),
        functional.location_recall(preds, target, num_locations=100, average=None),
    ]
