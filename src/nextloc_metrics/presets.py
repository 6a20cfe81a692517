"""Collections with the metrics, names and conventions of a field."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nextloc_metrics.collection import RankingCollection
from nextloc_metrics.deciles import (
    DecileCoverage,
    DecileKForRecall,
    DecileMetric,
    DecileNDCG,
    DecilePrecision,
    DecilePredictionShare,
)
from nextloc_metrics.location_f1 import LocationF1
from nextloc_metrics.metric import RankingTally, check_positive
from nextloc_metrics.metrics import (
    MRR,
    AccuracyAtK,
    HitRateAtK,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
)
from nextloc_metrics.popularity import PopularityBins
from nextloc_metrics.scoring import Gain


def next_location_metrics(
    num_locations: int,
    k: int | Sequence[int] = (1, 5, 10),
    *,
    ndcg_k: int = 10,
    separator: str = "_at_",
    prefix: str | None = None,
    postfix: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    **kwargs: Any,
) -> RankingCollection:
    """Collect what papers on next-location prediction report.

    Accuracy within the first k places for every k, the uncut mean reciprocal rank, NDCG, and F1
    weighted by support. Fractions in [0, 1]; multiply by 100 for the percent of a paper.

    Args:
        num_locations: how many ids there are.
        k: one or several numbers of places for the accuracy.
        ndcg_k: how many places NDCG takes into account.
        separator: between a metric's name and k; `"@"` writes `acc@5`, which MLflow refuses.
        prefix: in front of every key, such as `"val/"`.
        postfix: behind every key.
        ignore_index: an id that is never relevant, such as padding.
        validate_args: read the target's values, and raise where they are out of range.
        kwargs: TorchMetrics' own keyword arguments, for every member.

    Raises:
        ValueError: `k` is not a positive integer, is empty, or repeats itself.

    Example:
        >>> from torch import tensor
        >>> metrics = next_location_metrics(num_locations=4, k=(1, 2))
        >>> metrics.update(tensor([[0.1, 0.2, 0.6, 0.1], [0.4, 0.3, 0.2, 0.1]]), tensor([2, 1]))
        >>> for name, value in metrics.compute().items():
        ...     print(f"{name} {value:.4f}")
        acc_at_1 0.5000
        acc_at_2 1.0000
        mrr 0.7500
        ndcg_at_10 0.8155
        f1 0.5000
    """
    common = {"ignore_index": ignore_index, "validate_args": validate_args, **kwargs}
    members: dict[str, RankingTally] = {
        f"acc{separator}{cut}": AccuracyAtK(cut, **common) for cut in _cut_offs(k)
    }
    members["mrr"] = MRR(**common)
    members[f"ndcg{separator}{ndcg_k}"] = NDCGAtK(ndcg_k, **common)
    members["f1"] = LocationF1(num_locations, **common)
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
    """Collect what papers on recommendation report, every metric at every k.

    Args:
        k: one or several numbers of places.
        gain: of NDCG, see [`NDCGAtK`][nextloc_metrics.NDCGAtK].
        separator: between a metric's name and k.
        prefix: in front of every key, such as `"val/"`.
        postfix: behind every key.
        kwargs: `ties`, `empty_target_action`, `ignore_index`, `validate_args`, and TorchMetrics'
            own keyword arguments, for every member.

    Raises:
        ValueError: `k` is not a positive integer, is empty, or repeats itself.

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
    members: dict[str, RankingTally] = {}
    for cut in _cut_offs(k):
        at_cut = {
            "precision": PrecisionAtK(cut, **kwargs),
            "recall": RecallAtK(cut, **kwargs),
            "hit_rate": HitRateAtK(cut, **kwargs),
            "mrr": MRR(cut, **kwargs),
            "map": MAPAtK(cut, **kwargs),
            "ndcg": NDCGAtK(cut, gain=gain, **kwargs),
        }
        members.update({f"{name}{separator}{cut}": metric for name, metric in at_cut.items()})
    return RankingCollection(members, prefix=prefix, postfix=postfix)


def decile_metrics(
    bins: PopularityBins,
    k: int = 5,
    *,
    min_recall: float = 0.5,
    prefix: str | None = None,
    postfix: str | None = None,
    **kwargs: Any,
) -> RankingCollection:
    """Collect the decile metrics as scalars, one for every bin, as Lightning's `log_dict` needs.

    The scalars of one metric share a state and an update.

    Args:
        bins: every location's bin.
        k: how many places count.
        min_recall: of `DecileKForRecall`.
        prefix: in front of every key, such as `"val/"`.
        postfix: behind every key.
        kwargs: `candidates`, `ignore_index`, `validate_args`, and TorchMetrics' own keyword
            arguments, for every member.

    Example:
        >>> from torch import tensor
        >>> from nextloc_metrics import PopularityBins, decile_metrics
        >>> metrics = decile_metrics(PopularityBins([2, 2, 1, 1]), k=1)
        >>> metrics.update(tensor([[0, 2, 1, 3]]), tensor([[1, 2]]))
        >>> for name, value in metrics.compute().items():
        ...     print(f"{name} {value:.4f}")
        precision_at_1_decile_1 1.0000
        precision_at_1_decile_2 0.0000
        precision_at_1_decile_unmapped nan
        ndcg_at_1_decile_1 1.0000
        ndcg_at_1_decile_2 0.0000
        ndcg_at_1_decile_unmapped nan
        k_for_recall_50_decile_1 1.0000
        k_for_recall_50_decile_2 2.0000
        k_for_recall_50_decile_unmapped nan
        prediction_share_at_1_decile_1 0.0000
        prediction_share_at_1_decile_2 1.0000
        prediction_share_at_1_decile_unmapped 0.0000
        coverage_at_1 0.5000
        coverage_at_1_decile_1 1.0000
        coverage_at_1_decile_2 0.0000
        coverage_at_1_decile_unmapped nan
    """
    makers: list[Callable[..., DecileMetric]] = [
        partial(DecilePrecision, bins, k),
        partial(DecileNDCG, bins, k),
        partial(DecileKForRecall, bins, min_recall),
        partial(DecilePredictionShare, bins, k),
        partial(DecileCoverage, bins, k),
    ]
    members: dict[str, RankingTally] = {}
    for make in makers:
        whole = make(**kwargs)
        members.update(
            {whole.key(decile): make(decile=decile, **kwargs) for decile in whole.deciles(bins)}
        )
    return RankingCollection(members, prefix=prefix, postfix=postfix)


def _cut_offs(k: int | Sequence[int]) -> list[int]:
    cuts = [check_positive("k", cut) for cut in (k if isinstance(k, Sequence) else [k])]
    if not cuts or len(set(cuts)) < len(cuts):
        raise ValueError(f"`k` must be one or several different positive integers, got {k!r}.")
    return cuts
