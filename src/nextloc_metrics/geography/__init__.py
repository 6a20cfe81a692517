"""How far off a prediction is on the ground."""

from nextloc_metrics.geography.distances import AccuracyWithin, DistanceError
from nextloc_metrics.geography.locations import Locations

__all__ = ["AccuracyWithin", "DistanceError", "Locations"]
