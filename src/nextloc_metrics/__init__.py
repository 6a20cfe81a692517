"""Exact ranking metrics for next-location prediction and recommendation, as TorchMetrics classes.

Read in this order: `Ranking` (where the relevant locations landed), `scoring` (the formulas),
`RankingMetric` (an exact mean of a score), the metrics, `RankingCollection`, the presets.
"""

from nextloc_metrics import (
    analysis,
    backends,
    distributed,
    functional,
    protocols,
    report,
    scoring,
)
from nextloc_metrics.collection import RankingCollection
from nextloc_metrics.families.deciles import DecileKForRecall, DecileNDCG, DecilePrecision
from nextloc_metrics.families.exposure import DecileCoverage, DecilePredictionShare
from nextloc_metrics.families.grouped import Grouped, GroupLabels
from nextloc_metrics.families.location_f1 import LocationF1, LocationPrecision, LocationRecall
from nextloc_metrics.families.per_query import PerQueryScores
from nextloc_metrics.families.popularity import PopularityBins
from nextloc_metrics.metric import RankingMetric
from nextloc_metrics.metrics import (
    MRR,
    AccuracyAtK,
    F1AtK,
    HitRateAtK,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
)
from nextloc_metrics.presets import (
    click_through_metrics,
    decile_metrics,
    libcity_metrics,
    next_location_metrics,
    recommendation_metrics,
)
from nextloc_metrics.ranking import Ranking
from nextloc_metrics.report import plotting, tables

__all__ = [
    "MRR",
    "AccuracyAtK",
    "DecileCoverage",
    "DecileKForRecall",
    "DecileNDCG",
    "DecilePrecision",
    "DecilePredictionShare",
    "F1AtK",
    "GroupLabels",
    "Grouped",
    "HitRateAtK",
    "LocationF1",
    "LocationPrecision",
    "LocationRecall",
    "MAPAtK",
    "NDCGAtK",
    "PerQueryScores",
    "PopularityBins",
    "PrecisionAtK",
    "Ranking",
    "RankingCollection",
    "RankingMetric",
    "RecallAtK",
    "analysis",
    "backends",
    "click_through_metrics",
    "decile_metrics",
    "distributed",
    "functional",
    "libcity_metrics",
    "next_location_metrics",
    "plotting",
    "protocols",
    "recommendation_metrics",
    "report",
    "scoring",
    "tables",
]
