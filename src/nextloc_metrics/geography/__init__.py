"""Metrics of the distance between prediction and target."""

from nextloc_metrics.geography.distances import AccuracyWithin, DistanceError
from nextloc_metrics.geography.locations import Locations

__all__ = ["AccuracyWithin", "DistanceError", "Locations"]
