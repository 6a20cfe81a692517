"""Reports for people: an evaluation in one call, tables, pictures."""

from nextloc_metrics.files.predictions import Predictions, read
from nextloc_metrics.report.comparing import Comparisons, compare
from nextloc_metrics.report.evaluation import Evaluation, evaluate, merge

__all__ = ["Comparisons", "Evaluation", "Predictions", "compare", "evaluate", "merge", "read"]
