"""What a metric of your own reads beside its base class: records, and what it needs of them."""

from nextloc_metrics.core.distribution.distribution import Distribution as Distribution
from nextloc_metrics.core.queries.record import Queries as Queries
from nextloc_metrics.core.queries.record import Record as Record
from nextloc_metrics.core.ranking.needs import Needs as Needs

__all__ = ["Distribution", "Needs", "Queries", "Record"]
