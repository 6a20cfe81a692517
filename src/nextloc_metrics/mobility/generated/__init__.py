"""How like real mobility generated trajectories are, each measure beside its floor.

Points of users come in; a value and the range of real halves go out. It imports
`geography` and `core`. Begin with `trajectories.Trajectories`, then `measure.Measure`.
"""

from nextloc_metrics.mobility.generated.floors import Floor
from nextloc_metrics.mobility.generated.frequencies import Flows, UserVisitFrequency, VisitFrequency
from nextloc_metrics.mobility.generated.histograms import (
    DailyLocations,
    HourOfDay,
    JumpLength,
    RadiusOfGyration,
    StayDuration,
    TravelDistance,
    log_edges,
)
from nextloc_metrics.mobility.generated.measure import Measure
from nextloc_metrics.mobility.generated.presets import MobilityCollection, mobility_metrics
from nextloc_metrics.mobility.generated.trajectories import Trajectories

__all__ = [
    "DailyLocations",
    "Floor",
    "Flows",
    "HourOfDay",
    "JumpLength",
    "Measure",
    "MobilityCollection",
    "RadiusOfGyration",
    "StayDuration",
    "Trajectories",
    "TravelDistance",
    "UserVisitFrequency",
    "VisitFrequency",
    "log_edges",
    "mobility_metrics",
]
