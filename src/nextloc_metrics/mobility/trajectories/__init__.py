"""Whole trajectories: pairs of sequences of points, predicted and true, and their metrics.

Points come in, a score for each pair goes out. It imports `geography` and `core`. Begin with
`pairs.Pairs`, the record, and `metric.PairMetric`.
"""

from nextloc_metrics.mobility.trajectories.errors import MeanPointError, PointErrorAt
from nextloc_metrics.mobility.trajectories.geobleu import GeoBLEU
from nextloc_metrics.mobility.trajectories.metric import DistanceOfPairs, PairMetric
from nextloc_metrics.mobility.trajectories.pairs import Pairs
from nextloc_metrics.mobility.trajectories.presets import trajectory_metrics
from nextloc_metrics.mobility.trajectories.tables import TrajectoryPairs, from_table
from nextloc_metrics.mobility.trajectories.warping import DTW

__all__ = [
    "DTW",
    "DistanceOfPairs",
    "GeoBLEU",
    "MeanPointError",
    "PairMetric",
    "Pairs",
    "PointErrorAt",
    "TrajectoryPairs",
    "from_table",
    "trajectory_metrics",
]
