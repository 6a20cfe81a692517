"""Whole trajectories: pairs of sequences of points, predicted and true, and their metrics.

Points come in, a score for each pair goes out. It imports `geography` and `core`. Begin with
`pairs.Pairs`, the record, and `metric.PairMetric`.
"""

from nextloc_metrics.trajectories.errors import MeanPointError, PointErrorAt
from nextloc_metrics.trajectories.geobleu import GeoBLEU
from nextloc_metrics.trajectories.metric import PairMetric
from nextloc_metrics.trajectories.pairs import Pairs
from nextloc_metrics.trajectories.presets import trajectory_metrics
from nextloc_metrics.trajectories.tables import TrajectoryPairs, from_table
from nextloc_metrics.trajectories.warping import DTW

__all__ = [
    "DTW",
    "GeoBLEU",
    "MeanPointError",
    "PairMetric",
    "Pairs",
    "PointErrorAt",
    "TrajectoryPairs",
    "from_table",
    "trajectory_metrics",
]
