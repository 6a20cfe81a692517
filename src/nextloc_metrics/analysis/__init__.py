"""Compare a value with chance, with a simple baseline, and with another model.

    chance          the expected value of every metric for a random ranking
    last_location   the baseline that stays at the previous location
    most_frequent   the baseline that ranks by the visits in the training data
    skill           the fraction of the way from chance (0) to a perfect value (1)
    compare         two models on the same queries
    summarize       several runs of several models
    conformal_threshold   of prediction sets that hold the target as often as wanted
    fit_temperature       of the softmax, on validation data

The confidence interval of a single value is `metric.interval()`. This room imports `metrics`.
Begin with `chance`.
"""

from nextloc_metrics.analysis.calibration import conformal_threshold, fit_temperature
from nextloc_metrics.analysis.chance import chance, last_location, most_frequent, skill
from nextloc_metrics.analysis.comparison import Comparison, compare
from nextloc_metrics.analysis.runs import Runs, Summary, summarize

__all__ = [
    "Comparison",
    "Runs",
    "Summary",
    "chance",
    "compare",
    "conformal_threshold",
    "fit_temperature",
    "last_location",
    "most_frequent",
    "skill",
    "summarize",
]
