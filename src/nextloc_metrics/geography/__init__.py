"""Points and distances, and metrics of the distance between prediction and target.

Coordinates and a decision come in, km and hits go out. It imports `core`. Begin with
`locations.Locations`.
"""

from nextloc_metrics.geography.distances import AccuracyWithin, DistanceError
from nextloc_metrics.geography.expected import ExpectedDistance
from nextloc_metrics.geography.locations import Locations

__all__ = ["AccuracyWithin", "DistanceError", "ExpectedDistance", "Locations"]
