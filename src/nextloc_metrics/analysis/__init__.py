"""Compare a value with chance, with a simple baseline, with the ceiling, and with another model.

The confidence interval of a single value is `metric.interval()`. This room imports `metrics`.
Begin with `chance`.
"""

from nextloc_metrics.analysis.calibration import fit_temperature
from nextloc_metrics.analysis.ceiling import (
    MeanLimit,
    Predictability,
    entropy_rate,
    fano_limit,
    predictability,
)
from nextloc_metrics.analysis.chance import chance, last_location, most_frequent, skill
from nextloc_metrics.analysis.comparison import Comparison, Runs, Summary, summarize
from nextloc_metrics.analysis.visit_counts import VisitCounts

__all__ = [
    "Comparison",
    "MeanLimit",
    "Predictability",
    "Runs",
    "Summary",
    "VisitCounts",
    "chance",
    "entropy_rate",
    "fano_limit",
    "fit_temperature",
    "last_location",
    "most_frequent",
    "predictability",
    "skill",
    "summarize",
]
