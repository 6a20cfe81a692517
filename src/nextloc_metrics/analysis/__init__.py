"""Compare a value with chance, with a simple baseline, with the ceiling, and with another model.

    chance          the expected value of every metric for a random ranking
    last_location   the baseline that stays at the previous location
    most_frequent   the baseline that ranks by the visits in the training data
    VisitCounts     the baselines of the person: own visits, at this hour, after the last location
    predictability  the ceiling: the highest accuracy that any model can have, for each user
    entropy_rate    the entropy of a sequence of visits, by which it is estimated
    fano_limit      the highest accuracy for an entropy
    correct_sampled metrics of all candidates, estimated from ranks among sampled ones
    skill           the fraction of the way from chance (0) to a perfect value (1)
    compare         two models on the same queries
    summarize       several runs of several models
    rank_models     several models on several data sets
    check_split     what training and test rows have in common
    conformal_threshold   of prediction sets that hold the target as often as wanted
    fit_temperature       of the softmax, on validation data

The confidence interval of a single value is `metric.interval()`. This room imports `metrics`.
Begin with `chance`.
"""

from nextloc_metrics.analysis.calibration import conformal_threshold, fit_temperature
from nextloc_metrics.analysis.ceiling import MeanLimit, Predictability, predictability
from nextloc_metrics.analysis.chance import chance, last_location, most_frequent, skill
from nextloc_metrics.analysis.comparison import Comparison, Runs, Summary, compare, summarize
from nextloc_metrics.analysis.entropy import entropy_rate, fano_limit
from nextloc_metrics.analysis.ranked_models import MeanDifference, RankedModels, rank_models
from nextloc_metrics.analysis.sampled import Corrected, Estimated, correct_sampled
from nextloc_metrics.analysis.splits import SplitCheck, SplitFinding, check_split
from nextloc_metrics.analysis.visit_counts import VisitCounts

__all__ = [
    "Comparison",
    "Corrected",
    "Estimated",
    "MeanDifference",
    "MeanLimit",
    "Predictability",
    "RankedModels",
    "Runs",
    "SplitCheck",
    "SplitFinding",
    "Summary",
    "VisitCounts",
    "chance",
    "check_split",
    "compare",
    "conformal_threshold",
    "correct_sampled",
    "entropy_rate",
    "fano_limit",
    "fit_temperature",
    "last_location",
    "most_frequent",
    "predictability",
    "rank_models",
    "skill",
    "summarize",
]
