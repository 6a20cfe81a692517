"""Events over a horizon: predicted and true times and places, and their metrics.

Sequences of events come in, a score goes out. It imports `geography` and `core`. Begin with
`pairs.EventPairs`, the record.
"""

from nextloc_metrics.mobility.events.alignment import (
    EventCountDifference,
    EventTimeError,
    EventTransport,
    NextEventAccuracy,
)
from nextloc_metrics.mobility.events.metric import EventMetric
from nextloc_metrics.mobility.events.pairs import EventPairs, Events
from nextloc_metrics.mobility.events.precision import EventMAP, EventMaxF

__all__ = [
    "EventCountDifference",
    "EventMAP",
    "EventMaxF",
    "EventMetric",
    "EventPairs",
    "EventTimeError",
    "EventTransport",
    "Events",
    "NextEventAccuracy",
]
