"""The values that other codebases would print for your predictions, next to the exact values.

Predictions come in, a table goes out. A protocol is data: it names the queries, the candidates, the
order and the average. This room imports `core` and `mobility`, and nothing else of `report`;
begin with `protocol.Protocol`.
"""

from nextloc_metrics.report.protocols import answered, codebases
from nextloc_metrics.report.protocols.answered import *  # noqa: F403 - its `__all__` lists them
from nextloc_metrics.report.protocols.auditing import Audit, Finding, audit
from nextloc_metrics.report.protocols.codebases import *  # noqa: F403 - its `__all__` lists them
from nextloc_metrics.report.protocols.events import hotpp
from nextloc_metrics.report.protocols.protocol import Protocol, Source
from nextloc_metrics.report.protocols.reported import Metric

__all__ = [
    "Audit",
    "Finding",
    "Metric",
    "Protocol",
    "Source",
    "audit",
    "hotpp",
]
__all__ += answered.__all__ + codebases.__all__
