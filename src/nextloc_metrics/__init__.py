"""Exact ranking metrics for next-location prediction and recommendation, as TorchMetrics classes.

Read in this order: `Ranking` (the ranks of the relevant locations), `scoring` (the formulas),
`RankingMetric` (an exact mean of a score), the metrics, `RankingCollection`, the presets.
"""

from nextloc_metrics import (
    analysis,
    backends,
    distributed,
    functional,
    geography,
    mobility,
    protocols,
    report,
    scoring,
    trajectories,
)
from nextloc_metrics.arguments.labels import GroupLabels
from nextloc_metrics.arguments.record import Queries, Record
from nextloc_metrics.base.collection import RankingCollection
from nextloc_metrics.base.mean import MeanMetric
from nextloc_metrics.base.ranking_metric import RankingMetric
from nextloc_metrics.distribution.distribution import Distribution
from nextloc_metrics.metrics.at_k import (
    MRR,
    AccuracyAtK,
    F1AtK,
    HitRateAtK,
    MAPAtK,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
)
from nextloc_metrics.metrics.beyond import (
    Entropy,
    IntraListDiversity,
    Novelty,
    Personalization,
    Serendipity,
    TailShare,
)
from nextloc_metrics.metrics.bins import PopularityBins
from nextloc_metrics.metrics.coarser import Coarser
from nextloc_metrics.metrics.confidence import (
    AURC,
    AccuracyAtCoverage,
    AnsweredAccuracy,
    AnsweredShare,
    CalibrationError,
    CoverageAtRisk,
)
from nextloc_metrics.metrics.deciles import DecileKForRecall, DecileNDCG, DecilePrecision
from nextloc_metrics.metrics.exposure import DecileCoverage, DecilePredictionShare
from nextloc_metrics.metrics.grouped import Grouped
from nextloc_metrics.metrics.location_f1 import LocationF1, LocationPrecision, LocationRecall
from nextloc_metrics.metrics.per_query import PerQueryScores
from nextloc_metrics.metrics.presets import (
    click_through_metrics,
    confidence_metrics,
    decile_metrics,
    libcity_metrics,
    next_location_metrics,
    probability_metrics,
    recommendation_metrics,
)
from nextloc_metrics.metrics.probabilities import (
    BrierScore,
    EmptySets,
    NegativeLogLikelihood,
    Perplexity,
    SetCoverage,
    SetSize,
)
from nextloc_metrics.metrics.ranks import (
    AUC,
    RBP,
    ERRAtK,
    FallOutAtK,
    MeanPercentileRank,
    MeanRank,
    RankQuantile,
    RPrecision,
)
from nextloc_metrics.metrics.recommended import AveragePopularity, Coverage, Gini
from nextloc_metrics.metrics.sampled import SampledRanks
from nextloc_metrics.metrics.sequences import SequenceAccuracy
from nextloc_metrics.metrics.strata import moved, train_overlap
from nextloc_metrics.metrics.times import JointAccuracy, TimeError, TimeWithin
from nextloc_metrics.metrics.visits import Visits, exploration_metrics, previously_visited
from nextloc_metrics.metrics.weighted import Weighted
from nextloc_metrics.ranking.needs import Needs
from nextloc_metrics.ranking.ranking import Ranking
from nextloc_metrics.report import plotting, tables

__all__ = [
    "AUC",
    "AURC",
    "MRR",
    "RBP",
    "AccuracyAtCoverage",
    "AccuracyAtK",
    "AnsweredAccuracy",
    "AnsweredShare",
    "AveragePopularity",
    "BrierScore",
    "CalibrationError",
    "Coarser",
    "Coverage",
    "CoverageAtRisk",
    "DecileCoverage",
    "DecileKForRecall",
    "DecileNDCG",
    "DecilePrecision",
    "DecilePredictionShare",
    "Distribution",
    "ERRAtK",
    "EmptySets",
    "Entropy",
    "F1AtK",
    "FallOutAtK",
    "Gini",
    "GroupLabels",
    "Grouped",
    "HitRateAtK",
    "IntraListDiversity",
    "JointAccuracy",
    "LocationF1",
    "LocationPrecision",
    "LocationRecall",
    "MAPAtK",
    "MeanMetric",
    "MeanPercentileRank",
    "MeanRank",
    "NDCGAtK",
    "Needs",
    "NegativeLogLikelihood",
    "Novelty",
    "PerQueryScores",
    "Perplexity",
    "Personalization",
    "PopularityBins",
    "PrecisionAtK",
    "Queries",
    "RPrecision",
    "RankQuantile",
    "Ranking",
    "RankingCollection",
    "RankingMetric",
    "RecallAtK",
    "Record",
    "SampledRanks",
    "SequenceAccuracy",
    "Serendipity",
    "SetCoverage",
    "SetSize",
    "TailShare",
    "TimeError",
    "TimeWithin",
    "Visits",
    "Weighted",
    "analysis",
    "backends",
    "click_through_metrics",
    "confidence_metrics",
    "decile_metrics",
    "distributed",
    "exploration_metrics",
    "functional",
    "geography",
    "libcity_metrics",
    "mobility",
    "moved",
    "next_location_metrics",
    "plotting",
    "previously_visited",
    "probability_metrics",
    "protocols",
    "recommendation_metrics",
    "report",
    "scoring",
    "tables",
    "train_overlap",
    "trajectories",
]
