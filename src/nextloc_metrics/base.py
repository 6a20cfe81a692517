"""What a metric of your own derives from and reads: its contract, records, needs and states."""

from nextloc_metrics.core.base.metric import RecordMetric as RecordMetric
from nextloc_metrics.core.distribution.distribution import Distribution as Distribution
from nextloc_metrics.core.means.intervals import Estimate as Estimate
from nextloc_metrics.core.means.keyed_sums import KeyedSums as KeyedSums
from nextloc_metrics.core.queries.record import Queries as Queries
from nextloc_metrics.core.queries.record import Record as Record
from nextloc_metrics.core.ranking.needs import Needs as Needs

__all__ = ["Distribution", "Estimate", "KeyedSums", "Needs", "Queries", "Record", "RecordMetric"]
