"""Exact ranking metrics for next-location prediction and recommendation, as TorchMetrics classes.

Read in this order: `Ranking` (the ranks of the relevant locations), `scoring` (the formulas),
`RankingMetric` (an exact mean of a score), the metrics, `RankingCollection`, the presets.
`__init__.pyi` names them; nothing is imported before one of them is asked for.
"""

from nextloc_metrics.core.lazy import import_when_asked
from nextloc_metrics.core.version import __version__ as __version__

__getattr__, __dir__ = import_when_asked(__name__)
