"""The metrics of the presets by name, such as `ndcg@10`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nextloc_metrics.core.base.ranking_metric import RankingMetric
from nextloc_metrics.core.queries.messages import short
from nextloc_metrics.metrics import at_k

_METRICS: dict[str, Callable[..., RankingMetric]] = {
    "acc": at_k.AccuracyAtK,
    "hit_rate": at_k.AccuracyAtK,
    "precision": at_k.PrecisionAtK,
    "recall": at_k.RecallAtK,
    "f1": at_k.F1AtK,
    "map": at_k.MAPAtK,
    "ndcg": at_k.NDCGAtK,
    "mrr": at_k.MRR,
}


def parse_measures(measures: Iterable[str]) -> dict[str, RankingMetric]:
    """Return metrics by their names in the presets: `ndcg@10` is `NDCGAtK(10)`, `ndcg_at_10`.

    Raises:
        TypeError: `measures` is one text.
        ValueError: there is none, one occurs twice, or one is no name with a cut-off and not `mrr`.
    """
    if isinstance(measures, str):
        raise TypeError(f"`measures` must be a list, got {short(measures)}; use [{measures!r}].")
    metrics: dict[str, RankingMetric] = {}
    for measure in measures:
        name, has_k, k = str(measure).strip().partition("@")
        if name not in _METRICS or not (k.isdecimal() if has_k else name == "mrr"):
            raise ValueError(
                f"a measure must be one of {', '.join(_METRICS)} with a cut-off such as `ndcg@10`, "
                f"or `mrr`, got {short(str(measure))}; name one at a time, and pass other metrics "
                "as `metrics`."
            )
        key = f"{name}_at_{k}" if has_k else name
        if key in metrics:
            raise ValueError(f"`measures` must be different, got {short(str(measure))} twice.")
        metrics[key] = _METRICS[name](k=int(k) if has_k else None)
    if not metrics:
        raise ValueError("`measures` must hold at least one measure, got none.")
    return metrics


def cut_offs_of(measures: Iterable[str]) -> list[int]:
    """Return the cut-offs of measures in rising order, 1 if none has one."""
    cuts = {int(name.partition("_at_")[2] or 0) for name in parse_measures(measures)}
    return sorted(cuts - {0}) or [1]
