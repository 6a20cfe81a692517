"""Ready-made collections with the metrics, names and conventions of a field.

`prefix` and `postfix` are those of `RankingCollection`; `kwargs` are options of every member.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torchmetrics import Metric, MetricCollection

from nextloc_metrics.core.base.collection import RankingCollection
from nextloc_metrics.core.base.metric import RecordMetric
from nextloc_metrics.core.base.ranking_metric import check_one_relevant
from nextloc_metrics.core.queries.checks import (
    as_number,
    check_number,
    check_positive,
    check_separator,
    cut_offs,
    or_none,
)
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.core.ranking.ranking import Ranking
from nextloc_metrics.core.scoring.formulas import Gain
from nextloc_metrics.geography import AccuracyWithin, DistanceError, ExpectedDistance, Locations
from nextloc_metrics.metrics import at_k
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.location_f1 import LocationF1
from nextloc_metrics.metrics.split import Scope

if TYPE_CHECKING:
    from nextloc_metrics.metrics.deciles import DecileMetric

# Metrics that only one preset needs are imported when this preset is called.


def next_location_metrics(
    num_locations: int | None = None,
    k: int | Sequence[int] = (1, 5, 10),
    *,
    ndcg_k: int | None = None,
    locations: Locations | None = None,
    km: float = 1.0,
    separator: str = "_at_",
    prefix: str | None = None,
    postfix: str | None = None,
    **kwargs: Any,
) -> RankingCollection:
    """Collect what papers on next-location prediction report.

    Accuracy within the first k ranks for every k, MRR without a cut-off, NDCG at one cut-off, and
    F1 weighted by support, as fractions in [0, 1]. Each query has one relevant location; for
    several, use [`recommendation_metrics`][nextloc_metrics.recommendation_metrics]. `ties` and
    `empty_target_action` are not accepted, because F1 has neither.

    Args:
        num_locations: the number of location ids, 0 to `num_locations` - 1; None for any ids, as
            for [`LocationF1`][nextloc_metrics.LocationF1].
        ndcg_k: the cut-off of NDCG; None for the largest `k`.
        locations: the coordinates of all ids. They add the accuracy within `km` for every k, and
            `mean_distance` and `median_distance`: km from the best candidate to the target.
        km: the largest distance of a hit, in metres in the key: `acc_within_1000m_at_1`.
        separator: between a metric's name and k; `"@"` writes `acc@5`, which MLflow refuses.

    Example:
        >>> from torch import tensor
        >>> metrics = next_location_metrics(num_locations=4, k=(1, 2))
        >>> metrics.update(tensor([[0.1, 0.2, 0.6, 0.1], [0.4, 0.3, 0.2, 0.1]]), tensor([2, 1]))
        >>> for name, value in metrics.compute().items():
        ...     print(f"{name} {value:.4f}")
        acc_at_1 0.5000
        acc_at_2 1.0000
        mrr 0.7500
        ndcg_at_2 0.8155
        f1 0.5000
    """
    check_separator(separator)
    cuts = cut_offs(k)
    f1 = LocationF1(num_locations, **kwargs)  # made first, because its errors name all options
    f1.if_one_target = "warn"
    members: dict[str, RecordMetric] = {
        f"acc{separator}{cut}": at_k.AccuracyAtK(cut, **kwargs) for cut in cuts
    }
    members["mrr"] = at_k.MRR(**kwargs)
    ndcg_cut = or_none(check_positive)("ndcg_k", ndcg_k) or max(cuts)
    members[f"ndcg{separator}{ndcg_cut}"] = at_k.NDCGAtK(ndcg_cut, **kwargs)
    members["f1"] = f1
    near = f"acc_within_{1000 * check_number('km', km, or_zero=True):g}m".replace(".", "_")
    if locations is not None:
        members |= {
            f"{near}{separator}{cut}": AccuracyWithin(locations, km, cut, **kwargs) for cut in cuts
        }
        members["mean_distance"] = DistanceError(locations, **kwargs)
        members["median_distance"] = DistanceError(locations, "median", **kwargs)
    return RankingCollection(members, prefix=prefix, postfix=postfix)


def recommendation_metrics(
    k: int | Sequence[int] = (5, 10),
    *,
    gain: Gain = "linear",
    separator: str = "_at_",
    prefix: str | None = None,
    postfix: str | None = None,
    **kwargs: Any,
) -> RankingCollection:
    """Collect precision, recall, hit rate, MRR, MAP and NDCG at every k, as for recommendation.

    A query may have several relevant locations. `gain`: see [`NDCGAtK`][nextloc_metrics.NDCGAtK].

    Example:
        >>> from torch import tensor
        >>> metrics = recommendation_metrics(k=2)
        >>> metrics.update(tensor([[5, 7, 6]]), tensor([[5, 6]]))
        >>> for name, value in metrics.compute().items():
        ...     print(f"{name} {value:.4f}")
        precision_at_2 0.5000
        recall_at_2 0.5000
        hit_rate_at_2 1.0000
        mrr_at_2 1.0000
        map_at_2 0.5000
        ndcg_at_2 0.6131
    """
    check_separator(separator)
    members: dict[str, RecordMetric] = {}
    for cut in cut_offs(k):
        end = f"{separator}{cut}"
        members |= {
            f"precision{end}": at_k.PrecisionAtK(cut, **kwargs),
            f"recall{end}": at_k.RecallAtK(cut, **kwargs),
            f"hit_rate{end}": at_k.AccuracyAtK(cut, **kwargs),
            f"mrr{end}": at_k.MRR(cut, **kwargs),
            f"map{end}": at_k.MAPAtK(cut, **kwargs),
            f"ndcg{end}": at_k.NDCGAtK(cut, gain=gain, **kwargs),
        }
    return RankingCollection(members, prefix=prefix, postfix=postfix)


def probability_metrics(
    *,
    coverage: float = 0.5,
    bins: int = 15,
    locations: Locations | None = None,
    prefix: str | None = None,
    postfix: str | None = None,
    **kwargs: Any,
) -> RankingCollection:
    """Collect metrics of likelihood, calibration and confidence.

    In one `RankingCollection` with the members of `next_location_metrics`, a row of scores is read
    once for ranks and once for probabilities. `given` is that of `NegativeLogLikelihood`.

    Args:
        coverage: the share of queries answered in `accuracy_at_coverage`.
        bins: the bins of the calibration error.
        locations: the coordinates of all ids; adds the expected distance.

    Example:
        >>> from torch import tensor
        >>> metrics = probability_metrics(given="probabilities")
        >>> metrics.update(tensor([[0.5, 0.25, 0.25], [0.75, 0.25, 0.0]]), tensor([0, 1]))
        >>> for name, value in metrics.compute().items():
        ...     print(f"{name} {value:.4f}")
        nll 1.0397
        perplexity 2.8284
        brier 0.7500
        ece 0.6250
        aurc 0.7500
        accuracy_at_coverage 0.0000
    """
    members: dict[str, RecordMetric] = {
        **dict(likelihood_metrics(**kwargs).named_members()),
        **_of_confidence(coverage, bins, **kwargs),
    }
    if locations is not None:
        members["expected_distance"] = ExpectedDistance(locations, **kwargs)
    return RankingCollection(members, prefix=prefix, postfix=postfix)


def likelihood_metrics(**kwargs: Any) -> RankingCollection:
    """Collect the members of `probability_metrics` that also have a value for a baseline."""
    from nextloc_metrics.metrics import probabilities

    return RankingCollection(
        {
            "nll": probabilities.NegativeLogLikelihood(**kwargs),
            "perplexity": probabilities.Perplexity(**kwargs),
            "brier": probabilities.BrierScore(**kwargs),
        }
    )


def confidence_metrics(
    *,
    coverage: float = 0.5,
    bins: int = 15,
    prefix: str | None = None,
    postfix: str | None = None,
    **kwargs: Any,
) -> RankingCollection:
    """Collect metrics of lists of ids with one confidence per answer, as of language models.

    `coverage` and `bins` are as for `probability_metrics`.

    Example:
        >>> from torch import tensor
        >>> metrics = confidence_metrics()
        >>> preds, confidence = tensor([[3, 5], [-1, -1]]), tensor([0.75, 0.0])
        >>> metrics.update(preds, tensor([3, 4]), confidence=confidence)
        >>> for name, value in metrics.compute().items():
        ...     print(f"{name} {value:.4f}")
        answered 0.5000
        accuracy_of_answered 1.0000
        ece 0.1250
        aurc 0.2500
        accuracy_at_coverage 1.0000
    """
    from nextloc_metrics.metrics import confidence

    members: dict[str, RecordMetric] = {
        "answered": confidence.AnsweredShare(**kwargs),
        "accuracy_of_answered": confidence.AnsweredAccuracy(**kwargs),
        **_of_confidence(coverage, bins, **kwargs),
    }
    return RankingCollection(members, prefix=prefix, postfix=postfix)


def _of_confidence(coverage: float, bins: int, **kwargs: Any) -> dict[str, RecordMetric]:
    from nextloc_metrics.metrics import confidence

    return {
        "ece": confidence.CalibrationError(bins, **kwargs),
        "aurc": confidence.AURC(**kwargs),
        "accuracy_at_coverage": confidence.AccuracyAtCoverage(coverage, **kwargs),
    }


def libcity_metrics(
    k: int | Sequence[int] = (1, 5, 10),
    *,
    prefix: str | None = None,
    postfix: str | None = None,
    **kwargs: Any,
) -> RankingCollection:
    r"""Collect what LibCity's evaluator of trajectory location prediction reports, at every k.

    For N queries with one relevant location each, h of them within the first k ranks:

    - `Precision@k` = P = h / (N k), at most 1/k; `Recall@k` = R = h / N, the accuracy within k;
    - `F1@k` = 2 P R / (P + R), equal to 2 R / (k + 1), the mean F1; 0 without a hit;
    - `MRR@k` = the mean of 1 / rank, 0 beyond k; `MAP@k` is the same number;
    - `NDCG@k` = the mean of 1 / log2(rank + 1), 0 beyond k: the ideal DCG is 1.

    `TrajLocPredEvaluator` ranks by `torch.topk`, which orders ties arbitrarily and puts NaN first;
    here ties count as their expectation, and a relevant location scored NaN is a miss. To use its
    order, pass its lists: `scores.topk(max(k)).indices`. docs/coming-from.md says what differs.
    The keys are the evaluator's; MLflow refuses their `@`, and `recommendation_metrics` has the
    same values, except F1. Several relevant locations, and `empty_target_action` of `"neg"` or
    `"pos"`, are errors: there the evaluator's F1 would be another one.

    Example:
        >>> from torch import tensor
        >>> metrics = libcity_metrics(k=2)
        >>> metrics.update(tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), tensor([2, 2]))
        >>> for name, value in metrics.compute().items():  # ranks 2 and 3
        ...     print(f"{name} {value:.4f}")
        Precision@2 0.2500
        Recall@2 0.5000
        F1@2 0.3333
        MRR@2 0.2500
        MAP@2 0.2500
        NDCG@2 0.3155

    Source: J. Wang et al., "LibCity: An Open Library for Traffic Prediction", SIGSPATIAL 2021.
    """
    members: dict[str, RecordMetric] = {}
    for cut in cut_offs(k):
        members |= {
            f"Precision@{cut}": at_k.PrecisionAtK(cut, **kwargs),
            f"Recall@{cut}": at_k.RecallAtK(cut, **kwargs),
            f"F1@{cut}": _F1OfLibCity(cut, **kwargs),
            f"MRR@{cut}": at_k.MRR(cut, **kwargs),
            f"MAP@{cut}": at_k.MAPAtK(cut, **kwargs),
            f"NDCG@{cut}": at_k.NDCGAtK(cut, **kwargs),
        }
    return RankingCollection(members, prefix=prefix, postfix=postfix)


class _F1OfLibCity(at_k.F1AtK):
    """F1 of queries with one relevant location: its mean equals the F1 of pooled counts."""

    label = "F1@{k}"
    _planned = None  # a backend that sums without a record would not call `check`

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.empty_target_action not in ("skip", "error"):
            raise ValueError(
                "`empty_target_action` must be 'skip' or 'error' for `libcity_metrics`, got "
                f"{short(self.empty_target_action)}; use `recommendation_metrics` for others."
            )

    def check(self, record: Ranking) -> None:
        super().check(record)
        check_one_relevant(self, record, "use `recommendation_metrics` for several")


def click_through_metrics(
    *,
    threshold: float = 0.5,
    thresholds: int | list[float] | Tensor | None = None,
    prefix: str | None = None,
    postfix: str | None = None,
    **kwargs: Any,
) -> MetricCollection:
    """Collect what papers on click-through prediction report, from torchmetrics' own classes.

    For a binary label and a predicted probability per interaction: log loss (lower is better), AUC
    under the ROC curve, and PR-AUC as average precision (the step-wise area, as in scikit-learn).
    For the decisions, probability > `threshold`: accuracy, precision, recall, F1 and Matthews'
    correlation coefficient. `preds` are floating `[...]`, and `target` integer or bool `[...]`.

    The two curves need every score: 12 bytes per interaction, in states that grow. `thresholds`
    (their number, evenly spaced, or a tensor or list) replaces scores by counts, 32 bytes per
    threshold, and makes both areas approximate and slightly too low. Without thresholds, every
    process needs an update before `compute`, if only with an empty batch; otherwise torchmetrics'
    gathering fails.

    As in scikit-learn, AUC is NaN if only one label occurs (torchmetrics returns 0), and the
    correlation is 0 where it is 0 / 0. PR-AUC without a click is 0, and precision, recall and F1
    are 0 where they are 0 / 0. Without any interaction all values are NaN.

    A batch that one member refuses changes no member. torchmetrics reads a batch with a value
    outside [0, 1], or a NaN, as logits; here that is an error, unless `validate_args=False`.

    Example:
        >>> from torch import tensor
        >>> metrics = click_through_metrics()
        >>> metrics.update(tensor([0.9, 0.8, 0.4, 0.2]), tensor([1, 0, 1, 0]))
        >>> for name, value in metrics.compute().items():
        ...     print(f"{name} {value:.4f}")
        log_loss 0.7136
        auc 0.7500
        pr_auc 0.8333
        accuracy 0.5000
        precision 0.5000
        recall 0.5000
        f1 0.5000
        mcc 0.0000
    """
    from torchmetrics import classification

    from nextloc_metrics.metrics import click_through

    threshold, thresholds = as_number(threshold), as_number(thresholds)
    _check_thresholds(threshold, thresholds)
    members: dict[str, Metric] = {
        "log_loss": click_through.LogLoss(**kwargs),
        "auc": click_through.AUROC(thresholds=thresholds, **kwargs),
        "pr_auc": click_through.AveragePrecision(thresholds=thresholds, **kwargs),
        "accuracy": classification.BinaryAccuracy(threshold=threshold, **kwargs),
        "precision": classification.BinaryPrecision(threshold=threshold, **kwargs),
        "recall": classification.BinaryRecall(threshold=threshold, **kwargs),
        "f1": classification.BinaryF1Score(threshold=threshold, **kwargs),
        "mcc": click_through.MatthewsCorrCoef(threshold=threshold, **kwargs),
    }
    metrics = click_through.ClickThroughCollection({}, prefix=prefix, postfix=postfix)
    for name, member in members.items():  # one at a time: MetricCollection sorts a dict
        metrics.add_metrics({name: member})
    return metrics


def decile_metrics(
    bins: PopularityBins,
    k: int = 5,
    *,
    min_recall: float = 0.5,
    scope: Scope = "within",
    prefix: str | None = None,
    postfix: str | None = None,
    **kwargs: Any,
) -> RankingCollection:
    """Collect the decile metrics as one scalar per bin, as Lightning's `log_dict` needs.

    The scalars of one metric share a state. `min_recall` is that of `DecileKForRecall`,
    `scope` that of all but the share of predictions, whose ranks are those of full lists.

    Example:
        >>> from torch import tensor
        >>> metrics = decile_metrics(PopularityBins([2, 2, 1, 1]), k=1)
        >>> metrics.update(tensor([[0, 2, 1, 3]]), tensor([[1, 2]]))
        >>> [f"{name} {value:.2f}" for name, value in metrics.compute().items() if "ndcg" in name]
        ['ndcg_at_1_decile_1 1.00', 'ndcg_at_1_decile_2 0.00', 'ndcg_at_1_decile_unmapped nan']
    """
    from nextloc_metrics.metrics import deciles, exposure

    makers: list[Callable[..., DecileMetric]] = [
        partial(deciles.DecilePrecision, bins, k, scope=scope),
        partial(deciles.DecileNDCG, bins, k, scope=scope),
        partial(deciles.DecileKForRecall, bins, min_recall, scope=scope),
        partial(exposure.DecilePredictionShare, bins, k),
        partial(exposure.DecileCoverage, bins, k, scope=scope),
    ]
    members: dict[str, RecordMetric] = {}
    for make in makers:
        whole = make(**kwargs)
        members |= {whole.key(bin_): make(decile=bin_, **kwargs) for bin_ in whole.deciles(bins)}
    return RankingCollection(members, prefix=prefix, postfix=postfix)


def _check_thresholds(threshold: float, thresholds: int | list[float] | Tensor | None) -> None:
    if not _is_probability(threshold):
        raise ValueError(f"`threshold` must be a float in [0, 1], got {short(threshold)}.")
    values = thresholds.double().tolist() if isinstance(thresholds, Tensor) else thresholds
    are_fine = values is None or (type(values) is int and values > 1)
    if not (all(map(_is_probability, values)) if isinstance(values, list) else are_fine):
        raise ValueError(
            "`thresholds` must be None, an integer of at least 2, or a tensor or list of floats in "
            f"[0, 1], got {short(thresholds)}."
        )


def _is_probability(value: object) -> bool:
    return isinstance(value, float) and 0 <= value <= 1
